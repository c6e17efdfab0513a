/**
 * From one survivor, or from a stored snapshot, to a cluster again, with a person's consent. The lost cluster's volumes are at
 * most read; what is made lives on a volume of its own, so that until the new cluster ID is recorded the way back is open, and
 * each phase can be begun again. A survivor has to be stopped before it can be copied. A snapshot is fetched, verified and
 * restored first, and only then is anything of the lost cluster touched: a bad one costs nothing.
 */
import type { EtcdQuorumRecovery } from '../../../api/etcdquorum.gen.ts';
import { incarnationName } from '../../../api/names.ts';
import { isSame } from '../consent.ts';
import type { SeenPod } from '../observed.ts';
import { lossSentence } from '../recovery-record.ts';
import { isKept } from '../restores.ts';
import { bumpOver, isSeedPod, seedPodName } from '../seeding.ts';
import type { Situation, Slot } from '../situation.ts';
import type { StoreLocation } from '../snapshots/store-access.ts';
import type { Step } from '../steps.ts';
import { ableSurvivors } from '../survivors.ts';
import { isLeftBehind } from './lost-nodes.ts';
import { named, RETRY_MS, type Rule, wait } from './rule.ts';
import { anew, filled, type OnLoss, type SeedWords, started } from './seeded.ts';
import { allPods } from './standing.ts';

/** A Pod that is asked to end has thirty seconds for it; one that takes longer is on a node that does not answer. */
const ENDING_MS = 60_000;
type Recovery = {
  readonly slot: Slot;
  readonly incarnation: string;
  readonly since: number;
  readonly step: string;
  /** Name of the survivor's volume, or where the snapshot lies. */
  readonly source: string;
  readonly clusterID: string;
  readonly revision: bigint;
  readonly lastRevision: bigint | undefined;
  readonly fencedSince: number | undefined;
  readonly takenAt: string | undefined;
  /** Absent where it goes on from a survivor. */
  readonly stored:
    | { readonly location: StoreLocation; readonly name: string | undefined; readonly sha256: string | undefined }
    | undefined;
};

const inFlight = (s: Situation): Recovery | undefined => {
  const { operation } = s.quorum?.status ?? {};
  const slot = s.slots.find(({ member }) => member.name === operation?.target);
  if (operation?.recovery === undefined || operation.incarnation === undefined || slot === undefined) return undefined;
  const { source, clusterID, revision, lastRevision, fencedSince, takenAt, location, etcdSnapshot, snapshot } =
    operation.recovery;
  const { incarnation, since, step } = operation;
  return {
    slot,
    incarnation,
    since: Date.parse(since),
    step,
    source,
    clusterID,
    revision: BigInt(revision),
    lastRevision: lastRevision === undefined ? undefined : BigInt(lastRevision),
    fencedSince: fencedSince === undefined ? undefined : Date.parse(fencedSince),
    takenAt,
    stored:
      location === undefined
        ? undefined
        : { location, name: etcdSnapshot, sha256: etcdSnapshot === undefined ? undefined : snapshot },
  };
};

/** What was consented to when it began; a claim that names the same snapshot by another way is a consent anew. */
const isConsented = (
  consent: EtcdQuorumRecovery | undefined,
  { slot, clusterID, stored, source }: Recovery,
): boolean => {
  if (consent?.acceptDataLoss !== true) return false;
  if (stored === undefined) return isSame({ survivor: slot.member.name, clusterID }, consent);
  if (stored.name !== undefined) return isSame({ snapshot: stored.name, clusterID }, consent);
  return isSame({ uri: source, clusterID }, consent) && isSameLocation(stored.location, consent.source);
};

/** Key by key: the API server keeps no order. */
const isSameLocation = (a: unknown, b: unknown): boolean => {
  if (typeof a !== 'object' || a === null || typeof b !== 'object' || b === null) return a === b;
  const [left, right] = [a as Record<string, unknown>, b as Record<string, unknown>];
  const keys = new Set([...Object.keys(left), ...Object.keys(right)]);
  return [...keys].every((key) => isSameLocation(left[key], right[key]));
};

/** Filled a volume from a store, before it was given up with its node: it could not reach anything of the lost cluster. */
const isIdle = ({ stored }: Recovery, pod: SeenPod): boolean =>
  stored !== undefined && isSeedPod(pod) && isLeftBehind(pod);

const places = (pods: readonly SeenPod[]): string =>
  pods.map(({ name, node }) => (node === undefined ? name : `${name} on node ${node}`)).join(', ');

/** Ends what is left of the lost cluster. One Pod that still runs somewhere could take a write, or vote for one. */
const fencing = (s: Situation, of: Recovery, pods: readonly SeenPod[]): Step | undefined => {
  if (pods.length === 0) return undefined;
  const running = pods.filter(({ deleting }) => !deleting);
  if (running.length > 0) {
    const from = of.stored === undefined ? of.slot.member.name : of.source;
    return { do: 'Fence', why: `recovery from ${from}`, pods: running.map(named) };
  }
  return s.seen.now - (of.fencedSince ?? of.since) < ENDING_MS
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

/** Nothing of the lost cluster has been touched, and the consent is there to begin again by. */
const onLoss = (s: Situation, of: Recovery): OnLoss => anew(s, (why) => abandon(of, why));

/**
 * What is made is not all that is at stake: a Pod that only seems to be gone may still read the survivor's volume, or has etcd running in it
 * that the next try would have to be sure of. So proof is waited for.
 */
const onLossLater =
  (of: Recovery): OnLoss =>
  ({ proven, why }) =>
    proven
      ? abandon(of, why)
      : wait(
          'RecoveryBlocked',
          `${why}, with what is made of ${of.source}. Bring the node back; or make sure that it is off, then "kubectl taint nodes NODE node.kubernetes.io/out-of-service=nodeshutdown:NoExecute", and it is made anew elsewhere as far as that can be`,
          RETRY_MS,
        );

const wordsOf = ({ slot: { member }, stored, source }: Recovery): SeedWords => ({
  reason: 'Recovering',
  filling:
    stored === undefined
      ? `the data of ${member.name} is being saved and restored`
      : `${source} is fetched, verified and restored beside the lost cluster`,
  starting: `${member.name} starts on what was recovered`,
  ...(stored === undefined
    ? {}
    : {
        failing:
          'nothing of the lost cluster has been touched: mend that, name another snapshot in spec.recovery, or take spec.recovery out of the claim',
      }),
});

const clusterTokenOf = ({ clusterID, incarnation }: Recovery): string => `${clusterID}-${incarnation}`;

/** Of the restored data: above everything that a watcher of the lost cluster can be known to have seen. */
const bumpOf = ({ lastRevision, revision }: Recovery): bigint => bumpOver(lastRevision, revision);

/**
 * The last look before anything is ended: a member may have come back meanwhile, and how far a snapshot goes that was named by
 * its place is only known now. Without a manifest it stays unknown, and then the consent stands.
 */
const lessThanSurvivor = (s: Situation, { source }: Recovery, revision: bigint): Step | undefined => {
  const [best] = ableSurvivors(s);
  if (best === undefined || revision === 0n || best.revision <= revision) return undefined;
  const { name } = best.slot.member;
  return {
    do: 'AskHuman',
    reason: 'RecoveryRefused',
    message: `${source} goes up to revision ${revision}, ${name} to ${best.revision}, so more would be lost than has to be; nothing has been touched. Put survivor: ${name} into spec.recovery in its place; or, if its data is of no use, delete its volume and its Pod`,
  };
};

const seeding = (s: Situation, of: Recovery): Step => {
  const { slot, incarnation, source, clusterID, stored } = of;
  const make: Step = {
    do: 'Seed',
    member: named(slot.member),
    incarnation,
    source:
      stored === undefined
        ? { from: 'survivor', volume: source, clusterID }
        : { from: 'snapshot', location: stored.location, sha256: stored.sha256 },
    clusterToken: clusterTokenOf(of),
    bump: bumpOf(of),
  };
  const next = filled(s, of, wordsOf(of), make, stored === undefined ? onLossLater(of) : onLoss(s, of));
  if ('do' in next) return next;
  const { revision, sha256: snapshot, takenAt } = next;
  const less = stored === undefined ? undefined : lessThanSurvivor(s, of, revision);
  if (less !== undefined) return less;
  return {
    do: 'AdvanceRecovery',
    to: stored === undefined ? 'starting' : 'fencing',
    revision,
    snapshot,
    ...(takenAt === undefined || stored === undefined ? {} : { takenAt }),
  };
};

const starting = (s: Situation, of: Recovery): Step => {
  const { slot, clusterID, revision } = of;
  const fill =
    of.stored === undefined
      ? undefined
      : {
          location: of.stored.location,
          sha256: of.stored.sha256,
          clusterToken: clusterTokenOf(of),
          bump: bumpOf(of),
        };
  const lost = `the new ${slot.memory ? 'Pod' : 'volume'} of ${slot.member.name} was lost`;
  const next = started(s, of, wordsOf(of), abandon(of, lost), onLossLater(of), fill);
  if ('do' in next) return next;
  if (next.clusterId === clusterID || next.revision < revision + bumpOf(of)) {
    return {
      do: 'AskHuman',
      reason: 'ForeignData',
      message: `${slot.pod?.name} answers as cluster ${next.clusterId} at revision ${next.revision}, which is not what was recovered: keep Pods and volumes and report this`,
    };
  }
  const last = of.lastRevision === undefined ? undefined : { revision: of.lastRevision };
  const gone = lossSentence({ revision, takenAt: of.takenAt, last });
  return { do: 'CompleteRecovery', clusterID: next.clusterId, revision: next.revision, lost: gone };
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
    const { slot, source, step, stored } = of;
    if (step === 'fencing' || step === 'filling') {
      if (seen.membership.known) return abandon(of, 'there is a quorum again');
      if (!isConsented(quorum.spec.recovery, of)) return abandon(of, 'the consent was taken back or changed');
    }
    if (step === 'filling') return seeding(s, of);
    const kept = slot.member.volumes.find((volume) => volume.name === source);
    if (stored === undefined && step !== 'starting' && (kept === undefined || kept.deleting)) {
      return abandon(of, `the volume ${source} of the survivor was deleted`);
    }
    const own = made(of).pods;
    const others = allPods(s).filter((pod) => !own.includes(pod) && !isIdle(of, pod));
    const fence = fencing(s, of, others);
    if (fence !== undefined) return fence;
    if (step === 'fencing') return { do: 'AdvanceRecovery', to: stored === undefined ? 'seeding' : 'starting' };
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
        .filter(({ deleting, clusterID }) => !deleting && !isKept(seen, clusterID))
        .map((volume) => ({ ...named(volume), retain: member.spec.storage.retention === 'Retain' })),
    );
    if (volumes.length === 0 || !seen.membership.known || held.length === 0) return undefined;
    return held.length >= quorum.spec.replicas && held.every(({ serving }) => serving)
      ? { do: 'RetireLost', volumes }
      : undefined;
  },
};
