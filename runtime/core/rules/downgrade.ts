/** The way back to a lower minor version, by etcd's own protocol: it writes its data back first, and only then members change. */
import { compareMinors, minorOf, needsDowngrade } from '../../../api/upgrade-path.ts';
import { downgradeUnderWay, isPreparedFor, rolloutRefusal, runningVersions } from '../rollout.ts';
import { isHealthyVoter } from '../situation.ts';
import { type Rule, STARTING_RECHECK_MS, wait } from './rule.ts';

export const downgrade: Rule = {
  name: 'downgrade',
  answer: (s) => {
    const { quorum, latch, seen } = s;
    if (latch === undefined || quorum === undefined || quorum.status.operation !== undefined) return undefined;
    if (!seen.membership.known || quorum.spec.replicas === 0) return undefined;
    const wanted = quorum.spec.version;
    const target = downgradeUnderWay(s);
    // Whatever has come of it: from half-way the members go forward again.
    if (target !== undefined && compareMinors(target, wanted) < 0) {
      return { do: 'Downgrade', action: 'cancel', target: minorOf(target) };
    }
    const running = runningVersions(s);
    if (running === undefined || !needsDowngrade(running, wanted)) return undefined;
    const refusal = rolloutRefusal(s);
    if (refusal !== undefined) return { do: 'AskHuman', reason: 'UpgradeRefused', message: refusal };
    // One that is down could not write its data back, and would not start any more.
    if (!s.held.every((slot) => slot.serving && isHealthyVoter(slot))) return undefined;
    if (target === undefined) return { do: 'Downgrade', action: 'enable', target: minorOf(wanted) };
    if (!isPreparedFor(s, wanted)) {
      return wait('Downgrading', `etcd writes its data back for ${minorOf(wanted)}`, STARTING_RECHECK_MS);
    }
    // The functions read in the status that it is prepared, and render the members with it.
    return s.held.some(({ member }) => compareMinors(member.spec.version, wanted) <= 0)
      ? undefined
      : wait('Downgrading', `the data is written back for ${minorOf(wanted)}; the members follow one at a time`);
  },
};
