/**
 * What the end of a membership change leaves behind. Pure, because three need the same answer: the plan, which asks what
 * begins next while the end is not written yet, the report that goes into that write, and the write itself.
 */
import type { EtcdMemberStatus } from '../../api/etcdmember.gen.ts';
import type { Observed, SeenMember } from './observed.ts';
import type { Step } from './steps.ts';

export type EndOperation = Extract<Step, { readonly do: 'EndOperation' }>;

/** Whether nothing lives in the target's slot any more. */
export const isEmptied = ({ outcome }: EndOperation): boolean => outcome === 'removed' || outcome === 'emptied';

/** No incarnation any more: the record of the old one must not be taken for the next one's. */
export const emptiedStatus = (
  { status, generation }: Pick<SeenMember, 'status' | 'generation'>,
  outcome: EndOperation['outcome'],
  now: number,
): EtcdMemberStatus => {
  const removed = outcome === 'removed';
  const { clusterID, clusterUID } = status;
  const lastTransitionTime = new Date(now).toISOString();
  return {
    phase: removed ? 'Removed' : 'Pending',
    ...(clusterID === undefined ? {} : { clusterID }),
    ...(clusterUID === undefined ? {} : { clusterUID }),
    observedGeneration: generation,
    conditions: [
      {
        type: 'Ready',
        status: 'False',
        reason: removed ? 'Removed' : 'Replacing',
        message: removed ? 'it has left the cluster and its volume is gone' : 'a new member takes its place',
        lastTransitionTime,
        observedGeneration: generation,
      },
      {
        type: 'Synced',
        status: 'True',
        reason: 'Settled',
        message: 'the runtime follows this member',
        lastTransitionTime,
        observedGeneration: generation,
      },
    ],
  };
};

/** The world as it will be seen once the step is taken. */
export const afterEnd = (seen: Observed, step: EndOperation): Observed => {
  const { quorum } = seen;
  if (quorum === undefined) return seen;
  const { operation: _ended, ...status } = quorum.status;
  const gone = new Set([...step.pods, ...step.volumes].map(({ uid }) => uid));
  const going = <T extends { readonly uid: string; readonly deleting: boolean }>(thing: T): T =>
    gone.has(thing.uid) ? { ...thing, deleting: true } : thing;
  return {
    ...seen,
    quorum: { ...quorum, status },
    members: seen.members.map((member) =>
      member.name === step.target && isEmptied(step)
        ? {
            ...member,
            status: emptiedStatus(member, step.outcome, seen.now),
            pods: member.pods.map(going),
            volumes: member.volumes.map(going),
          }
        : member,
    ),
  };
};
