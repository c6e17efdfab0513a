/**
 * Classify first, decide on classes: from raw observation to one standing per slot. Everything here is derived, nothing
 * is decided.
 */
import { incarnationName, peerURL } from '../../api/names.ts';
import type { EtcdMember } from '../ports/etcd.ts';
import type { Fact, Observed, SeenMember, SeenPod, SeenQuorum, SeenVolume } from './observed.ts';
import { known, unknown } from './observed.ts';

/** What is known of the identity of the data a running member serves. */
export type Identity =
  /** Nothing runs there, or it does not answer, or it has not caught up far enough to be judged. */
  | { readonly is: 'unknown'; readonly why: string }
  /** Cluster ID, member ID and revision were compared and are the expected ones. */
  | { readonly is: 'proven' }
  | {
      readonly is: 'foreign';
      readonly reason: 'ForeignData' | 'ForeignIdentity' | 'RevisionTooLow';
      readonly why: string;
    };

export type Slot = {
  readonly member: SeenMember;
  /** Token of the present incarnation; absent while nothing has been begun in the slot. */
  readonly incarnation: string | undefined;
  readonly pod: SeenPod | undefined;
  readonly volume: SeenVolume | undefined;
  readonly memory: boolean;
  /** Its line in etcd's member list; unknown without a quorum. */
  readonly entry: Fact<EtcdMember | undefined>;
  /** The member ID it has to have: recorded before, or listed under its name. */
  readonly memberID: string | undefined;
  readonly identity: Identity;
  /** Labelled for clients in this very container start, and ready. */
  readonly serving: boolean;
  /** Pods and volumes in the slot that belong to no present incarnation. */
  readonly strayPods: readonly SeenPod[];
  readonly strayVolumes: readonly SeenVolume[];
};

export type Situation = {
  readonly seen: Observed;
  readonly quorum: SeenQuorum | undefined;
  /** etcd's cluster ID, if any record says that this cluster has existed. */
  readonly latch: string | undefined;
  readonly slots: readonly Slot[];
  /** Slots that hold an incarnation. */
  readonly held: readonly Slot[];
  readonly leaderID: string | undefined;
};

/** Any one record suffices: a deleted EtcdQuorum comes back empty, and that must not look like a new cluster. */
export const latchOf = (seen: Observed): string | undefined => {
  const records = [
    seen.quorum?.status.clusterID,
    ...seen.members.map(({ status }) => status.clusterID),
    ...seen.members.flatMap(({ volumes }) => volumes.map(({ clusterID }) => clusterID)),
    seen.claim.known && seen.claim.value.exists ? seen.claim.value.clusterID : undefined,
  ];
  return records.find((id) => id !== undefined && id !== '');
};

const only = <T>(values: readonly T[]): T | undefined => (new Set(values).size === 1 ? values[0] : undefined);

/**
 * The present incarnation of a slot: what is in flight; then the member's own record; before the latch the bootstrap
 * attempt, and only then, since later replacements are not written there; then etcd's list; without a quorum what stands
 * in the slot, if that is unambiguous.
 */
const incarnationOf = (seen: Observed, member: SeenMember, latch: string | undefined): string | undefined => {
  const { operation, bootstrap } = seen.quorum?.status ?? {};
  if (operation?.kind === 'AddMember' && operation.target === member.name) return operation.incarnation;
  if (member.status.phase === 'Removed') return undefined;
  if (member.status.incarnation !== undefined) return member.status.incarnation;
  if (latch === undefined) return bootstrap?.members.find(({ name }) => name === member.name)?.incarnation;
  if (seen.membership.known) {
    const prefix = `${member.name}-`;
    const tokens = seen.membership.value.members
      .filter(({ name }) => name.startsWith(prefix))
      .map(({ name }) => name.slice(prefix.length));
    return only(tokens.filter((token) => /^[a-z0-9]{5}$/.test(token)));
  }
  return only([
    ...member.pods.filter(({ deleting }) => !deleting).map(({ incarnation }) => incarnation),
    ...member.volumes.filter(({ deleting }) => !deleting).map(({ incarnation }) => incarnation),
  ]);
};

const identityOf = (
  pod: SeenPod | undefined,
  volume: SeenVolume | undefined,
  slot: {
    readonly latch: string | undefined;
    readonly memberID: string | undefined;
  },
): Identity => {
  if (pod === undefined) return { is: 'unknown', why: 'no Pod' };
  if (pod.container.state !== 'running') return { is: 'unknown', why: 'etcd is not running' };
  if (!pod.etcd.known) return { is: 'unknown', why: pod.etcd.why };
  const answer = pod.etcd.value;
  if (slot.latch === undefined) return { is: 'unknown', why: 'the cluster has not formed yet' };
  if (answer.clusterId !== slot.latch) {
    return {
      is: 'foreign',
      reason: 'ForeignData',
      why: `${pod.name} serves data of cluster ${answer.clusterId}, this cluster is ${slot.latch}`,
    };
  }
  if (slot.memberID === undefined) return { is: 'unknown', why: 'its member ID is not known yet' };
  if (answer.memberId !== slot.memberID) {
    return {
      is: 'foreign',
      reason: 'ForeignIdentity',
      why: `${pod.name} runs as member ${answer.memberId}, it should be ${slot.memberID}`,
    };
  }
  const floor = volume?.revisionFloor;
  if (floor !== undefined && answer.revision < floor) {
    // A member that is still replaying is behind for a moment; only one that is ready, and so has read up to the
    // leader's commit, is judged.
    return pod.ready && answer.leaderId !== undefined
      ? {
          is: 'foreign',
          reason: 'RevisionTooLow',
          why: `${pod.name} is at revision ${answer.revision}, it was at ${floor} before`,
        }
      : { is: 'unknown', why: `at revision ${answer.revision} of at least ${floor}` };
  }
  if (answer.leaderId === undefined) return { is: 'unknown', why: 'it knows of no leader' };
  return { is: 'proven' };
};

const slotOf = (seen: Observed, member: SeenMember, latch: string | undefined): Slot => {
  const incarnation = incarnationOf(seen, member, latch);
  const mine = <T extends { readonly incarnation: string }>(things: readonly T[]): T | undefined =>
    things.find((thing) => thing.incarnation === incarnation);
  const strays = <T extends { readonly incarnation: string }>(things: readonly T[]): readonly T[] =>
    things.filter((thing) => thing.incarnation !== incarnation);
  const pod = mine(member.pods);
  const volume = mine(member.volumes);
  const name = incarnation === undefined ? undefined : incarnationName(member.name, incarnation);
  const url = name === undefined ? undefined : peerURL(seen.cluster, seen.namespace, name);
  const recorded = member.status.incarnation === incarnation ? member.status.memberID : undefined;
  const entry: Slot['entry'] = !seen.membership.known
    ? unknown(seen.membership.why)
    : known(
        seen.membership.value.members.find(
          (listed) =>
            (recorded !== undefined && listed.id === recorded) ||
            (name !== undefined && listed.name === name) ||
            (url !== undefined && listed.peerURLs.includes(url)),
        ),
      );
  const memberID = recorded ?? volume?.memberID ?? (entry.known ? entry.value?.id : undefined);
  const identity = identityOf(pod, volume, { latch, memberID });
  const { container } = pod ?? {};
  return {
    member,
    incarnation,
    pod,
    volume,
    memory: member.spec.storage.medium === 'Memory',
    entry,
    memberID,
    identity,
    serving:
      pod !== undefined &&
      !pod.deleting &&
      pod.ready &&
      pod.voterRole &&
      container?.id !== undefined &&
      pod.verifiedContainer === container.id &&
      identity.is !== 'foreign',
    strayPods: strays(member.pods),
    strayVolumes: strays(member.volumes),
  };
};

/** The member that a majority of the answering members names as leader. */
const leaderOf = (slots: readonly Slot[]): string | undefined => {
  const votes = new Map<string, number>();
  for (const { pod } of slots) {
    const leader = pod?.etcd.known === true ? pod.etcd.value.leaderId : undefined;
    if (leader !== undefined) votes.set(leader, (votes.get(leader) ?? 0) + 1);
  }
  return [...votes].toSorted(([a, m], [b, n]) => n - m || (a < b ? -1 : 1))[0]?.[0];
};

export const classify = (seen: Observed): Situation => {
  const latch = latchOf(seen);
  const slots = seen.members.map((member) => slotOf(seen, member, latch));
  return {
    seen,
    quorum: seen.quorum,
    latch,
    slots,
    held: slots.filter(({ incarnation }) => incarnation !== undefined),
    leaderID: leaderOf(slots),
  };
};

/** Majority of `voters`. */
export const majority = (voters: number): number => Math.floor(voters / 2) + 1;

/** A voter that runs with a proven identity and knows its leader. */
export const isHealthyVoter = ({ entry, identity, pod }: Slot): boolean =>
  entry.known &&
  entry.value !== undefined &&
  !entry.value.isLearner &&
  identity.is === 'proven' &&
  pod?.deleting === false;

export const isLeader = (s: Situation, slot: Slot): boolean => s.leaderID !== undefined && slot.memberID === s.leaderID;

/** `v0* v1 v2! | 3 held, leader demo-0`: the situation in one line, for logs, scenarios and `explain`. */
export const sketch = (s: Situation): string => {
  const parts = s.slots.map((slot) => {
    const { member, entry, pod, identity, serving } = slot;
    const kind = !entry.known ? '?' : entry.value === undefined ? '-' : entry.value.isLearner ? 'learner' : 'voter';
    const state =
      slot.incarnation === undefined
        ? 'empty'
        : pod === undefined
          ? 'no-pod'
          : pod.deleting
            ? 'pod-deleting'
            : serving
              ? 'serving'
              : identity.is === 'unknown'
                ? pod.container.state
                : identity.is;
    const marks = `${isLeader(s, slot) ? '*' : ''}${member.deleting ? '!deleting' : ''}`;
    return `${member.ordinal}:${kind}/${state}${marks}`;
  });
  return `${s.latch === undefined ? 'no-latch' : 'latched'} want=${s.quorum?.spec.replicas ?? '?'} [${parts.join(' ')}]`;
};
