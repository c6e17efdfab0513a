/** Members that etcd lists and no slot stands for. */
import type { EtcdMember } from '../../ports/etcd.ts';
import type { Situation } from '../situation.ts';
import type { Step } from '../steps.ts';
import { listedIncarnation, strangersIn } from '../strangers.ts';
import { RETRY_MS, type Rule, wait } from './rule.ts';
import { safeWithout } from './standing.ts';

type Verdict =
  | { readonly is: 'orphan'; readonly name: string }
  | { readonly is: 'unclear' }
  /** Somebody's, or still alive; `why` it is not ours to remove, where that is not plain from its name. */
  | { readonly is: 'kept'; readonly why?: string };

/**
 * Two witnesses have to agree. etcd's confirmed list says that it is one of this cluster's own, and Kubernetes, that nothing
 * of it is left: no Pod, no volume, no record. What was added by hand under another name may be somebody's next member.
 */
const judge = (s: Situation, stranger: EtcdMember): Verdict => {
  const own = listedIncarnation(s.seen, stranger);
  if (own === undefined) return { is: 'kept' };
  const look = s.seen.strangers?.find(({ id }) => id === stranger.id);
  if (look?.traces.known !== true) return { is: 'unclear' };
  const [trace] = look.traces.value;
  if (trace !== undefined) return { is: 'kept', why: `${trace} is there` };
  if (look.answers) return { is: 'kept', why: 'it answers' };
  if (!safeWithout(s, stranger.id)) return { is: 'kept', why: 'the others could not hold quorum' };
  return { is: 'orphan', name: own.name };
};

/** Changes of the list are made for members that we know. A stranger may be a learner or a voter, and it counts. */
export const strangers: Rule = {
  name: 'strangers',
  answer: (s) => {
    if (s.latch === undefined || !s.seen.membership.known || s.quorum?.status.operation !== undefined) return undefined;
    if (s.slots.length === 0) return wait('Creating', 'waiting for Crossplane to make the EtcdMembers', RETRY_MS);
    const found = strangersIn(s).map((stranger) => ({ stranger, verdict: judge(s, stranger) }));
    for (const { stranger, verdict } of found) {
      if (verdict.is !== 'orphan') continue;
      return {
        do: 'BeginOperation',
        kind: 'RemoveOrphan',
        target: verdict.name,
        why: `etcd lists it as ${stranger.id}, and there is no EtcdMember, Pod or volume of it`,
        memberID: stranger.id,
      };
    }
    const [first] = found;
    if (first === undefined) return undefined;
    const { stranger, verdict } = first;
    if (verdict.is === 'unclear') {
      return wait('MemberListOrphan', `what is left of member ${stranger.id} cannot be read`, RETRY_MS);
    }
    const label = stranger.name || stranger.peerURLs.join(', ');
    const why = verdict.is === 'kept' && verdict.why !== undefined ? `, and is not removed while ${verdict.why}` : '';
    return {
      do: 'AskHuman',
      reason: 'MemberListUnknownMember',
      message: `etcd lists member ${stranger.id} (${label}), for which there is no EtcdMember${why}; nothing is added or replaced meanwhile`,
    };
  },
};

/** What was seen when it began is looked at again before each call: it may have come to life since. */
export const removingOrphan = (
  s: Situation,
  { target, memberID }: { readonly target: string; readonly memberID?: string },
): Step | undefined => {
  if (!s.seen.membership.known) return undefined;
  const end = (outcome: 'removed' | 'abandoned'): Step => ({
    do: 'EndOperation',
    kind: 'RemoveOrphan',
    target,
    outcome,
    pods: [],
    volumes: [],
  });
  const entry = s.seen.membership.value.members.find(({ id }) => id === memberID);
  if (entry === undefined) return end('removed');
  const stranger = strangersIn(s).find(({ id }) => id === entry.id);
  if (stranger === undefined) return end('abandoned');
  const verdict = judge(s, stranger);
  if (verdict.is === 'unclear') {
    return wait('MemberListOrphan', `what is left of ${target} cannot be read`, RETRY_MS);
  }
  return verdict.is === 'orphan' ? { do: 'RemoveMember', target, memberID: entry.id } : end('abandoned');
};
