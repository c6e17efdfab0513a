/**
 * From one survivor to a cluster again, with a person's consent. Everything of the lost cluster is stopped first and its
 * volumes are only read; what is made lives on a volume of its own, so that until the new cluster ID is recorded the way
 * back is open, and each phase can be begun again.
 */
import { incarnationName } from '../../../api/names.ts';
import type { SeenPod } from '../observed.ts';
import { REVISION_BUMP, seedPodName } from '../seeding.ts';
import type { Situation, Slot } from '../situation.ts';
import type { Step } from '../steps.ts';
import { isSame } from '../survivors.ts';
import { named, RETRY_MS, type Rule, wait } from './rule.ts';
import { filled, type SeedWords, started } from './seeded.ts';
import { allPods } from './standing.ts';

/** A Pod that is asked to end has thirty seconds for it; one that takes longer is on a node that does not answer. */
const ENDING_MS = 60_000;
type Recovery = {
  readonly slot: Slot;
  readonly incarnation: string;
  readonly since: number;
  readonly step: string;
  /** Name of the survivor's volume. */
  readonly source: string;
  readonly clusterID: string;
  readonly revision: bigint;
};

const inFlight = (s: Situation): Recovery | undefined => {
  const { operation } = s.quorum?.status ?? {};
  const slot = s.slots.find(({ member }) => member.name === operation?.target);
  if (operation?.recovery === undefined || operation.incarnation === undefined || slot === undefined) return undefined;
  const { source, clusterID, revision } = operation.recovery;
  const { incarnation, since, step } = operation;
  return { slot, incarnation, since: Date.parse(since), step, source, clusterID, revision: BigInt(revision) };
};

const places = (pods: readonly SeenPod[]): string =>
  pods.map(({ name, node }) => (node === undefined ? name : `${name} on node ${node}`)).join(', ');

/** Ends what is left of the lost cluster. One Pod that still runs somewhere could take a write, or vote for one. */
const fencing = (s: Situation, of: Recovery, pods: readonly SeenPod[]): Step | undefined => {
  if (pods.length === 0) return undefined;
  const running = pods.filter(({ deleting }) => !deleting);
  if (running.length > 0) {
    return { do: 'Fence', why: `recovery from ${of.slot.member.name}`, pods: running.map(named) };
  }
  return s.seen.now - of.since < ENDING_MS
    ? wait('Recovering', `waiting for the end of ${places(pods)}`, RETRY_MS)
    : wait(
        'RecoveryBlocked',
        `these Pods are not proven gone and could still take writes: ${places(pods)}. Bring the node back; or make sure that it is off, then "kubectl taint nodes NODE node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"`,
        RETRY_MS,
      );
};

/** What the recovery itself has made. */
const made = ({ slot, incarnation }: Recovery) => {
  const { name } = slot.member;
  const own = [incarnationName(name, incarnation), seedPodName(name, incarnation)];
  return {
    pods: slot.member.pods.filter((pod) => own.includes(pod.name)),
    volumes: slot.member.volumes.filter((volume) => own.includes(volume.name)),
  };
};

const abandon = (of: Recovery, why: string): Step => {
  const { pods, volumes } = made(of);
  return { do: 'AbandonRecovery', why, pods: pods.map(named), volumes: volumes.map(named) };
};

const wordsOf = ({ slot: { member } }: Recovery): SeedWords => ({
  reason: 'Recovering',
  filling: `the data of ${member.name} is being saved and restored`,
  starting: `${member.name} starts on what was recovered`,
});

const seeding = (s: Situation, of: Recovery): Step => {
  const { slot, incarnation, source, clusterID } = of;
  const clusterToken = `${clusterID}-${incarnation}`;
  const make: Step = { do: 'Seed', member: named(slot.member), incarnation, source, clusterID, clusterToken };
  const next = filled(s, of, wordsOf(of), make);
  return 'do' in next
    ? next
    : { do: 'AdvanceRecovery', to: 'starting', revision: next.revision, snapshot: next.sha256 };
};

const starting = (s: Situation, of: Recovery): Step => {
  const { slot, clusterID, revision } = of;
  const next = started(s, of, wordsOf(of), abandon(of, `the new volume of ${slot.member.name} was lost`));
  if ('do' in next) return next;
  if (next.clusterId === clusterID || next.revision < revision + REVISION_BUMP) {
    return {
      do: 'AskHuman',
      reason: 'ForeignData',
      message: `${slot.pod?.name} answers as cluster ${next.clusterId} at revision ${next.revision}, which is not what was recovered: keep Pods and volumes and report this`,
    };
  }
  return { do: 'CompleteRecovery', clusterID: next.clusterId, revision: next.revision };
};

export const recovery: Rule = {
  name: 'recovery',
  answer: (s) => {
    const { quorum, seen } = s;
    if (quorum?.status.operation?.kind !== 'RecoverQuorum') return undefined;
    const of = inFlight(s);
    if (of === undefined) {
      return wait('Recovering', `waiting for EtcdMember ${quorum.status.operation.target ?? '?'}`, RETRY_MS);
    }
    const { slot, source, step } = of;
    const name = slot.member.name;
    if (step === 'fencing') {
      if (seen.membership.known) return abandon(of, 'there is a quorum again');
      const consent = { survivor: name, clusterID: of.clusterID };
      if (!isSame(quorum.spec.recovery, consent)) return abandon(of, 'the consent was taken back');
    }
    const kept = slot.member.volumes.find((volume) => volume.name === source);
    if (step !== 'starting' && (kept === undefined || kept.deleting)) {
      return abandon(of, `the volume ${source} of the survivor was deleted`);
    }
    const own = made(of).pods;
    const others = allPods(s).filter((pod) => !own.includes(pod));
    const fence = fencing(s, of, others);
    if (fence !== undefined) return fence;
    if (step === 'fencing') return { do: 'AdvanceRecovery', to: 'seeding' };
    return step === 'seeding' ? seeding(s, of) : starting(s, of);
  },
};

/**
 * What the lost cluster left goes when the new one is whole, and not before: until then each of its volumes may be the
 * only place where something can still be looked up.
 */
export const retireLost: Rule = {
  name: 'retire lost',
  answer: (s) => {
    const { quorum, seen, held } = s;
    if (s.latch === undefined || quorum === undefined || quorum.status.operation !== undefined) return undefined;
    const volumes = s.slots.flatMap(({ lostVolumes, member }) =>
      lostVolumes
        .filter(({ deleting }) => !deleting)
        .map((volume) => ({ ...named(volume), retain: member.spec.storage.retention === 'Retain' })),
    );
    if (volumes.length === 0 || !seen.membership.known || held.length === 0) return undefined;
    return held.length >= quorum.spec.replicas && held.every(({ serving }) => serving)
      ? { do: 'RetireLost', volumes }
      : undefined;
  },
};
