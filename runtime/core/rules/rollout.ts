/** Changes of the claim that reach members which run. */

import { compareMinors, minorOf } from '../../../api/upgrade-path.ts';
import {
  isMigrating,
  isPreparedFor,
  metadataToWrite,
  nextToRoll,
  outdatedIdle,
  rolloutRefusal,
  trustsOthers,
  volumesToGrow,
} from '../rollout.ts';
import { isHealthyVoter } from '../situation.ts';
import { refusedToStart } from './quorum.ts';
import { named, RETRY_MS, type Rule, STARTING_RECHECK_MS, wait } from './rule.ts';
import { isRefused, livesOnlyIn, refusalOf, safeWithout } from './standing.ts';

/** A change that stopped a member is mended by the next change, without waiting for anybody's back-off. */
export const remake: Rule = {
  name: 'remake',
  answer: (s) => (s.latch === undefined || s.quorum?.spec.replicas === 0 ? undefined : outdatedIdle(s)),
};

/** Before anybody restarts, and whoever is unwell: it disturbs nobody. */
export const relabel: Rule = {
  name: 'relabel',
  answer: (s) => (s.latch === undefined || s.quorum?.spec.replicas === 0 ? undefined : metadataToWrite(s)),
};

/** Only while everybody serves: the first changed member that does not come back stops the rollout by itself. */
export const roll: Rule = {
  name: 'roll',
  answer: (s) => {
    const { quorum, latch, seen } = s;
    if (latch === undefined || quorum === undefined || quorum.status.operation !== undefined) return undefined;
    if (!seen.membership.known || s.held.length === 0) return undefined;
    // A Pod that is labelled and ready may still be silent: then nobody knows whether its vote counts.
    if (!s.held.every((slot) => slot.serving && isHealthyVoter(slot) && !livesOnlyIn(slot))) return undefined;
    const slot = nextToRoll(s);
    if (slot?.pod === undefined) return undefined;
    const refusal = rolloutRefusal(s);
    if (refusal !== undefined) return { do: 'AskHuman', reason: 'UpgradeRefused', message: refusal };
    const { name, spec } = slot.member;
    const runs = slot.pod.etcd.known ? slot.pod.etcd.value.version : spec.version;
    if (compareMinors(spec.version, runs) < 0 && !isPreparedFor(s, spec.version)) {
      return wait('Downgrading', `${name} could not start with ${spec.version} on its data yet`, STARTING_RECHECK_MS);
    }
    if (isMigrating(s, spec.version)) {
      return wait('RollingOut', `etcd has yet to finish the upgrade to ${minorOf(runs)}`, STARTING_RECHECK_MS);
    }
    if (!slot.volatile) {
      return {
        do: 'DeletePods',
        reason: 'RollingOut',
        why: trustsOthers(s, slot)
          ? `the authorities that ${name} has to trust have changed`
          : `the claim changed what ${name} runs`,
        pods: [named(slot.pod)],
      };
    }
    if (s.held.length === 1 || !safeWithout(s, slot.memberID)) {
      return {
        do: 'AskHuman',
        reason: 'RolloutHeld',
        message: `${name} keeps its data in memory and nobody else could hold it meanwhile: raise replicas to 3 first`,
      };
    }
    return {
      do: 'BeginOperation',
      kind: 'ReplaceMember',
      target: name,
      why: 'the claim changed what it runs',
      ...(slot.memberID === undefined ? {} : { memberID: slot.memberID }),
    };
  },
};

export const starting: Rule = {
  name: 'starting',
  answer: (s) => {
    const late = s.held.filter((slot) => !slot.serving);
    if (late.length === 0) return undefined;
    const refused = refusedToStart(s);
    if (refused !== undefined) return refused;
    const refusal = late
      .map((slot) => (isRefused(slot) ? refusalOf(slot) : undefined))
      .find((one) => one !== undefined);
    return wait(
      refusal ?? 'Starting',
      `${late.map(({ member, identity }) => `${member.name} (${identity.is === 'proven' ? 'not ready' : identity.why})`).join(', ')}`,
      // What runs on a node that is away is not about to get ready.
      late.some(({ pod }) => pod?.container.state === 'running' && (pod.host?.is ?? 'ready') === 'ready')
        ? STARTING_RECHECK_MS
        : RETRY_MS,
    );
  },
};

/** Last: a StorageClass that cannot grow its volumes must keep nothing else waiting. */
export const grow: Rule = {
  name: 'grow',
  answer: (s) => (s.latch === undefined ? undefined : volumesToGrow(s)),
};
