/**
 * Classify first, decide on classes: from raw observation to one standing per slot. Everything here is derived, nothing
 * is decided.
 */
import type { EtcdQuorumStatus } from '../../api/etcdquorum.gen.ts';
import { hasPeerURL, incarnationName } from '../../api/names.ts';
import type { EtcdMember } from '../ports/etcd.ts';
import { authoritiesOf, type CertificateRole, type Trust, trustBundle } from './certificates.ts';
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
  /** What would be made now. */
  readonly memory: boolean;
  /** Whether the data lives and dies with the Pod that is there, whatever the claim has come to ask for since. */
  readonly volatile: boolean;
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
  /** Volumes of a cluster that was given up in a recovery. They are no part of the member any more. */
  readonly lostVolumes: readonly SeenVolume[];
  /** What an EtcdRestore makes ready beside the member, which runs on as if nothing were there. */
  readonly prepared: { readonly pods: readonly SeenPod[]; readonly volumes: readonly SeenVolume[] };
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
  /** What a member that is started now has to trust. */
  readonly trust: Trust;
};

/** The value that most records hold; among equals the smallest, so that the order of the records does not matter. */
const foremost = (records: readonly (string | undefined)[]): string | undefined => {
  const counts = new Map<string, number>();
  for (const id of records) if (id !== undefined && id !== '') counts.set(id, (counts.get(id) ?? 0) + 1);
  return [...counts].toSorted(([a, m], [b, n]) => n - m || (a < b ? -1 : 1))[0]?.[0];
};

/**
 * Any one record suffices: a deleted EtcdQuorum comes back empty, and that must not look like a new cluster. Where they
 * differ, the runtime's own record counts before the claim's copy of it, and both before what a single member or volume
 * says, which may be left over from before a recovery.
 */
const latchOf = (seen: Observed): string | undefined =>
  foremost([seen.quorum?.status.clusterID]) ??
  foremost([seen.claim.known && seen.claim.value.exists ? seen.claim.value.clusterID : undefined]) ??
  foremost(witnesses(seen).map(({ status }) => status.clusterID)) ??
  foremost(witnesses(seen).flatMap(({ volumes }) => volumes.map(({ clusterID }) => clusterID)));

/**
 * Members that tell of this cluster. One that is going away with the claim it was made for tells of that claim's cluster: a
 * claim applied again meanwhile would inherit an identity whose last data is just being deleted.
 */
const witnesses = ({ members, quorum }: Observed): readonly SeenMember[] =>
  members.filter(
    ({ deleting, firstClaim }) =>
      !deleting ||
      firstClaim === undefined ||
      quorum?.controllerUID === undefined ||
      firstClaim === quorum.controllerUID,
  );

const without = <T>(all: readonly T[], some: readonly T[]): readonly T[] => all.filter((one) => !some.includes(one));

const only = <T>(values: readonly T[]): T | undefined => (new Set(values).size === 1 ? values[0] : undefined);

/** Token of the incarnation of `member` that this line of etcd's list is about. The URL tells before the first start. */
const tokenOf = (seen: Observed, member: string, { name, peerURLs }: EtcdMember): string | undefined => {
  const prefix = `${member}-`;
  const token = [name, ...peerURLs.map((url) => /^https?:\/\/([^.:/]+)/.exec(url)?.[1] ?? '')]
    .filter((own) => own.startsWith(prefix))
    .map((own) => own.slice(prefix.length))
    .find((own) => /^[a-z0-9]{5}$/.test(own));
  if (token === undefined) return undefined;
  const own = incarnationName(member, token);
  return name === own || hasPeerURL(peerURLs, seen.cluster, seen.namespace, own) ? token : undefined;
};

type Operation = NonNullable<EtcdQuorumStatus['operation']>;

/** Whether a recovery has come so far that what it makes stands in the slot, in place of what it goes on without. */
const isReplaced = ({ step }: Operation): boolean => step !== 'fencing' && step !== 'filling';

/** The incarnation of the lost cluster in the slot in which a recovery makes the new one. */
export const replacedIncarnation = ({ target = '', recovery }: Operation): string | undefined => {
  const name = recovery?.location === undefined ? recovery?.source : recovery.replaces;
  return name?.slice(target.length + 1);
};

/**
 * The present incarnation of a slot: what is in flight; before the latch the attempt, whose tokens differ from those that
 * a given up attempt may have left in the member's record; then that record, unless etcd lists another one in this slot
 * and not the recorded one; then etcd's list. Without a quorum what was last begun here counts before the record, which
 * is written later, if it stands here; at last what stands here at all, if that is unambiguous.
 */
const incarnationOf = (seen: Observed, member: SeenMember, latch: string | undefined): string | undefined => {
  const { operation, bootstrap } = seen.quorum?.status ?? {};
  if ((operation?.kind === 'AddMember' || operation?.kind === 'Restore') && operation.target === member.name) {
    return operation.incarnation;
  }
  if (operation?.kind === 'RestoreInPlace' && operation.step === 'starting' && operation.target === member.name) {
    return operation.incarnation;
  }
  if (operation?.kind === 'RecoverQuorum' && operation.target === member.name) {
    return isReplaced(operation) ? operation.incarnation : replacedIncarnation(operation);
  }
  if (latch === undefined) {
    const attempted = bootstrap?.members.find(({ name }) => name === member.name)?.incarnation;
    if (attempted !== undefined) return attempted;
  }
  // A slot that was emptied has none recorded, also while the next one is being begun in it.
  const { incarnation: recorded, memberID } = member.status;
  if (seen.membership.known) {
    const { members } = seen.membership.value;
    const tokens = members.flatMap((entry) => tokenOf(seen, member.name, entry) ?? []);
    if (recorded === undefined) return only(tokens);
    const listed = tokens.includes(recorded) || members.some(({ id }) => id === memberID);
    return listed ? recorded : (only(tokens) ?? recorded);
  }
  const standing = [...member.pods, ...member.volumes];
  const begun = standing.find(({ name }) => name === member.claimedPod)?.incarnation;
  return begun ?? recorded ?? only(standing.filter(({ deleting }) => !deleting).map((thing) => thing.incarnation));
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

/**
 * Left by a cluster that was given up: what such a volume holds may be the only copy of something, and it is in nobody's
 * way, since every incarnation has a volume of its own. Told by what is noted on the volume, so that it is still known where
 * the record of the recovery was lost; then only of volumes that are not the recorded ones of their member.
 */
const isLost = (seen: Observed, { status }: SeenMember, volume: SeenVolume, latch: string | undefined): boolean => {
  const { clusterID } = volume;
  if (latch === undefined || clusterID === undefined || clusterID === latch) return false;
  const { recovered = [], pastRestores = [] } = seen.quorum?.status ?? {};
  return (
    [...recovered, ...pastRestores.filter(({ outcome }) => outcome === 'Complete')].some(
      ({ lostClusterID }) => lostClusterID === clusterID,
    ) || status.incarnation !== volume.incarnation
  );
};

/** Until the restored data takes over, what was made for it is no part of the slot that it stands in. */
const preparedIn = (seen: Observed, { name, pods, volumes }: SeenMember): Slot['prepared'] => {
  const { restoring, operation } = seen.quorum?.status ?? {};
  const takenOver = operation?.kind === 'RestoreInPlace' && operation.step === 'starting';
  if (restoring?.target !== name || takenOver) return { pods: [], volumes: [] };
  const own = incarnationName(name, restoring.incarnation);
  return {
    pods: pods.filter((pod) => pod.name === own || pod.name === `${own}-seed`),
    volumes: volumes.filter((volume) => volume.name === own),
  };
};

const slotOf = (seen: Observed, whole: SeenMember, latch: string | undefined): Slot => {
  const lostVolumes = whole.volumes.filter((volume) => isLost(seen, whole, volume, latch));
  const prepared = preparedIn(seen, whole);
  const member =
    lostVolumes.length + prepared.pods.length + prepared.volumes.length === 0
      ? whole
      : {
          ...whole,
          pods: without(whole.pods, prepared.pods),
          volumes: without(whole.volumes, [...lostVolumes, ...prepared.volumes]),
        };
  const incarnation = incarnationOf(seen, member, latch);
  const mine = <T extends { readonly incarnation: string }>(things: readonly T[]): T | undefined =>
    things.find((thing) => thing.incarnation === incarnation);
  const strays = <T extends { readonly incarnation: string }>(things: readonly T[]): readonly T[] =>
    things.filter((thing) => thing.incarnation !== incarnation);
  const pod = mine(member.pods);
  const volume = mine(member.volumes);
  const name = incarnation === undefined ? undefined : incarnationName(member.name, incarnation);
  const recorded = member.status.incarnation === incarnation ? member.status.memberID : undefined;
  const listed = seen.membership.known ? seen.membership.value.members : [];
  const entry: Slot['entry'] = !seen.membership.known
    ? unknown(seen.membership.why)
    : known(
        listed.find(({ id }) => recorded !== undefined && id === recorded) ??
          listed.find(
            ({ peerURLs }) => name !== undefined && hasPeerURL(peerURLs, seen.cluster, seen.namespace, name),
          ) ??
          listed.find((one) => name !== undefined && one.name === name),
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
    volatile: volume === undefined && (pod !== undefined || member.spec.storage.medium === 'Memory'),
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
    lostVolumes,
    prepared,
  };
};

/** The member that most of those that answer name as leader. Who serves another cluster's data has no say. */
const leaderOf = (slots: readonly Slot[], latch: string | undefined): string | undefined =>
  foremost(
    slots.map(({ pod }) =>
      pod?.etcd.known === true && pod.etcd.value.clusterId === latch ? pod.etcd.value.leaderId : undefined,
    ),
  );

const byName = (a: { readonly name: string }, b: { readonly name: string }): number => (a.name < b.name ? -1 : 1);

/** The same world in one order, whoever gathered it. */
const inOrder = (seen: Observed, latch: string | undefined): Observed => {
  const { membership } = seen;
  return {
    ...seen,
    members: seen.members
      .toSorted((a, b) => a.ordinal - b.ordinal || byName(a, b))
      .map((member) => ({
        ...member,
        pods: member.pods.toSorted(byName),
        volumes: member.volumes.toSorted(byName),
      })),
    // A foreign volume answers with a foreign list, and a quorum of foreigners confirms it.
    membership: !membership.known
      ? membership
      : latch !== undefined && membership.value.clusterId !== latch
        ? unknown(`the list is that of cluster ${membership.value.clusterId}, this cluster is ${latch}`)
        : known({
            ...membership.value,
            members: membership.value.members.toSorted((a, b) => (a.id < b.id ? -1 : 1)),
          }),
  };
};

export const classify = (gathered: Observed): Situation => {
  const latch = latchOf(gathered);
  const seen = inOrder(gathered, latch);
  const slots = seen.members.map((member) => slotOf(seen, member, latch));
  return {
    seen,
    quorum: seen.quorum,
    latch,
    slots,
    held: slots.filter(({ incarnation }) => incarnation !== undefined),
    leaderID: leaderOf(slots, latch),
    trust: trustOf(seen),
  };
};

const trustedAs = ({ certificates = [] }: Observed, roles: readonly CertificateRole[]): string | undefined => {
  const found = certificates.flatMap((one) => (roles.includes(one.role) ? authoritiesOf(one) : []));
  return found.length === 0 ? undefined : trustBundle(found);
};

const trustOf = (seen: Observed): Trust => ({
  client: trustedAs(seen, ['client', 'consumer']),
  peer: trustedAs(seen, ['peer']),
});

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

/**
 * The situation in one line, `latched want=3 [0:voter/serving* 1:voter/serving 2:learner/running]`,
 * for the log and `status.decision.seen`.
 */
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
