/** How a slot stands, in the terms in which the rules speak. Derived, never decided. */

import { ANNOTATIONS, hasPeerURL, incarnationName } from '../../../api/names.ts';
import type { Reason } from '../../../api/reasons.ts';
import { etcdMinor, optionProblems } from '../etcd-config.ts';
import type { MemberConfig } from '../member-config.ts';
import type { SeenMember, SeenPod, SeenVolume } from '../observed.ts';
import type { MemoryFill } from '../seeding.ts';
import { isHealthyVoter, majority, type Situation, type Slot } from '../situation.ts';
import type { Placement, Step } from '../steps.ts';
import { named, RETRY_MS, wait } from './rule.ts';

export const isTerminal = (pod: SeenPod): boolean => pod.phase === 'Failed' || pod.phase === 'Succeeded';

/** There is something in the slot that would be left behind without the member's finalizer. */
export const isStanding = ({ pod, volume }: Slot): boolean => pod !== undefined || volume !== undefined;

export const allPods = (s: Situation): readonly SeenPod[] => s.slots.flatMap(({ member }) => member.pods);

export const allVolumes = (s: Situation) => s.slots.flatMap(({ member }) => member.volumes);

const podName = (slot: Slot, incarnation: string): string => incarnationName(slot.member.name, incarnation);

/** The references are written before anything exists, so their presence means: it may have existed. */
export const wasBegun = (slot: Slot, incarnation: string): boolean =>
  slot.member.claimedPod === podName(slot, incarnation);

/** For which data is refused until a person has decided. */
export const REFUSALS: readonly Reason[] = ['ForeignData', 'ForeignIdentity', 'RevisionTooLow'];

/** Why the data of this slot was refused, if it was: its Pod stays down until a person has decided. */
export const refusalOf = ({ member }: Slot): Reason | undefined =>
  member.status.phase === 'Failed'
    ? REFUSALS.find((refusal) =>
        (member.status.conditions ?? []).some(({ type, reason }) => type === 'Ready' && reason === refusal),
      )
    : undefined;

export const isRefused = (slot: Slot): boolean => refusalOf(slot) !== undefined && !slot.member.retry;

/** What a person can do about a member whose data was refused. */
export const refusalRemedy = (member: string): string =>
  `put the right volume back and annotate EtcdMember ${member} with ${ANNOTATIONS.retry}=, or delete that EtcdMember: then the member is replaced and the refused volume deleted`;

/** etcd takes nobody in while a voter is away. Whose data was refused stays away until a person acts, so the wait asks for that. */
export const untilTheyVote = (what: string, unwell: readonly Slot[]): Step => {
  const message = `${what} once ${unwell.map(({ member }) => member.name).join(', ')} can vote`;
  const refused = unwell.find(isRefused);
  const reason = refused === undefined ? undefined : refusalOf(refused);
  return refused === undefined || reason === undefined
    ? wait('Adding', message, RETRY_MS)
    : wait(
        reason,
        `${message}; the data of ${refused.member.name} was refused: ${refusalRemedy(refused.member.name)}`,
        RETRY_MS,
      );
};

export const isPodless = ({ pod }: Slot): boolean => pod === undefined || isTerminal(pod);

const isVolumeless = ({ volume }: Slot): boolean => volume === undefined || volume.deleting;

/** The data of a slot lives in its volume, and in memory as long as its Pod. */
export const isDataless = (slot: Slot): boolean =>
  slot.volatile
    ? isPodless(slot) || isStranded(slot)
    : (slot.pod === undefined || isStranded(slot)) && isVolumeless(slot);

/** A Pod without a node has never run, and one whose volume went before that never will. */
const isStranded = (slot: Slot): boolean =>
  !slot.memory && slot.pod !== undefined && slot.pod.node === undefined && isVolumeless(slot);

/** Whether the volume was deleted and waits for the Pod to go. One that has ended holds it as well, and nothing starts on it again. */
export const livesOnlyIn = ({ pod, volume }: Slot): boolean =>
  pod !== undefined && !pod.deleting && volume?.deleting === true;

/** Whether this container start has been proven. */
export const isProvenStart = ({ container, verifiedContainer }: SeenPod): boolean =>
  container.state === 'running' && container.id !== undefined && container.id === verifiedContainer;

/**
 * Whether etcd's list has a line for this incarnation: by name, by URL, by the record on its volume, or by what its Pod
 * answers. Each can be wrong where two records differ, so one is enough. Without a list: it may have.
 */
const isListed = ({ seen }: Situation, { pods, volumes }: SeenMember, incarnation: string): boolean => {
  const { membership, cluster, namespace } = seen;
  if (!membership.known) return true;
  const { clusterId, members } = membership.value;
  const ids = [
    ...volumes.filter((volume) => volume.incarnation === incarnation).map(({ memberID }) => memberID),
    ...pods
      .filter((pod) => pod.incarnation === incarnation)
      .map(({ etcd }) => (etcd.known && etcd.value.clusterId === clusterId ? etcd.value.memberId : undefined)),
  ];
  return [...pods, ...volumes]
    .filter((thing) => thing.incarnation === incarnation)
    .some(({ name: own }) =>
      members.some(
        ({ id, name, peerURLs }) => name === own || hasPeerURL(peerURLs, cluster, namespace, own) || ids.includes(id),
      ),
    );
};

/** Noted as of a cluster that was given up: this one's list says nothing about it. */
const isOfAnother = ({ latch }: Situation, thing: SeenPod | SeenVolume): boolean =>
  'clusterID' in thing && thing.clusterID !== undefined && latch !== undefined && thing.clusterID !== latch;

/** What of a slot nobody has asked to end yet and etcd does not know any more. */
export const leftovers = <T extends SeenPod | SeenVolume>(
  s: Situation,
  member: SeenMember,
  things: readonly T[],
): T[] =>
  things.filter((thing) => !thing.deleting && !isOfAnother(s, thing) && !isListed(s, member, thing.incarnation));

/** True if the voters that stay after `leaving` went are healthy in majority, all of them if there are only few. */
export const safeWithout = (s: Situation, leaving: string | undefined): boolean => {
  if (!s.seen.membership.known) return false;
  const voters = s.seen.membership.value.members.filter(({ isLearner }) => !isLearner);
  const staying = voters.filter(({ id }) => id !== leaving);
  const healthy = staying.filter(({ id }) => s.held.some((slot) => slot.memberID === id && isHealthyVoter(slot)));
  return staying.length > 0 && healthy.length >= majority(staying.length);
};

/** Crossplane makes the EtcdMembers of a larger size before it tells the EtcdQuorum of that size. */
const SPARE_AFTER_MS = 5_000;

/** Milliseconds until an empty slot that nobody seems to want counts as spare. */
export const spareInMs = (s: Situation, { member, incarnation }: Slot): number =>
  incarnation !== undefined || member.status.phase !== undefined || member.createdAt === undefined
    ? 0
    : Math.max(0, member.createdAt + SPARE_AFTER_MS - s.seen.now);

/** Empty, and nobody wants a member in it: made for a size that was taken back, or for a member that was given up. */
export const isSpare = (s: Situation, slot: Slot): boolean => isUnwanted(s, slot) && spareInMs(s, slot) === 0;

export const isUnwanted = (s: Situation, { member }: Slot): boolean =>
  s.latch !== undefined &&
  s.quorum !== undefined &&
  s.quorum.status.operation === undefined &&
  s.held.length >= s.quorum.spec.replicas &&
  !member.deleting &&
  [...member.pods, ...member.volumes].every(({ deleting }) => deleting);

export const refusedSpec = (slots: readonly Slot[]): Step | undefined => {
  for (const { member } of slots) {
    if (etcdMinor(member.spec.version) === undefined) {
      return {
        do: 'AskHuman',
        reason: 'VersionUnsupported',
        message: `etcd ${member.spec.version} is not supported: there is no configuration for its minor version`,
      };
    }
    const [problem] = optionProblems(member.spec.options ?? {});
    if (problem !== undefined) return { do: 'AskHuman', reason: 'OptionsRefused', message: problem };
  }
  return undefined;
};

export const placement = (
  slot: Slot,
  incarnation: string,
  config: MemberConfig,
  makeVolume: boolean,
  fill?: MemoryFill,
): Placement => ({
  member: named(slot.member),
  incarnation,
  config: config.text,
  ...(config.trust === undefined ? {} : { trust: config.trust }),
  initialState: config.initialState,
  makeVolume,
  ...(fill === undefined ? {} : { fill }),
});
