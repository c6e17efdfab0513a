/** Which member a snapshot is taken from: a healthy voter, and the one that has least to do. */
import type { EtcdMemberStatus } from '../../ports/etcd.ts';
import type { Fact } from '../observed.ts';

export type Candidate = {
  /** Name of the EtcdMember. */
  readonly member: string;
  readonly status: Fact<EtcdMemberStatus>;
};

export type Choice =
  | { readonly member: string; readonly status: EtcdMemberStatus }
  /** One line: what each member said. */
  | { readonly none: string };

const objection = (status: EtcdMemberStatus, clusterID: string): string | undefined => {
  if (status.clusterId !== clusterID) return `it serves cluster ${status.clusterId}, not ${clusterID}`;
  if (status.isLearner) return 'it is a learner and may lack what others have acknowledged';
  if (status.leaderId === undefined) return 'it knows of no leader and may lack what others have acknowledged';
  const corrupt = status.errors.find((error) => error.includes('CORRUPT'));
  return corrupt === undefined ? undefined : `it reports ${corrupt}`;
};

/**
 * A follower before the leader, since reading a whole database slows the member that does it down; among those the one that
 * has applied most. Never a member that may lag, or that an alarm casts doubt on.
 */
export const chooseSource = (candidates: readonly Candidate[], clusterID: string): Choice => {
  const able: { member: string; status: EtcdMemberStatus }[] = [];
  const refused: string[] = [];
  for (const { member, status } of candidates) {
    const why = status.known ? objection(status.value, clusterID) : status.why;
    if (why === undefined && status.known) able.push({ member, status: status.value });
    else refused.push(`${member}: ${why}`);
  }
  const leads = ({ status }: { status: EtcdMemberStatus }): number => Number(status.leaderId === status.memberId);
  const [best] = able.toSorted(
    (a, b) =>
      leads(a) - leads(b) ||
      (a.status.raftAppliedIndex === b.status.raftAppliedIndex
        ? a.member < b.member
          ? -1
          : 1
        : a.status.raftAppliedIndex > b.status.raftAppliedIndex
          ? -1
          : 1),
  );
  return best ?? { none: refused.length === 0 ? 'no member is known' : refused.join('; ') };
};
