/**
 * A snapshot takes the place of a running cluster's data. First it is restored onto a new volume beside a member and opened
 * there, while the cluster serves and changes as ever. Only when it was found right are clients shut out, the members stopped
 * and the restored one started; and until it answers, the way back is open, since of the old nothing but Pods has gone.
 */
import { incarnationName } from '../../../api/names.ts';
import type { Reason } from '../../../api/reasons.ts';
import type { SeenPod } from '../observed.ts';
import { hindranceNow, isWanted, nextRestore, type Restoring } from '../restores.ts';
import { seedFailure } from '../seed-failures.ts';
import { bumpOver, isSeedPod, REVISION_BUMP, seedPodName } from '../seeding.ts';
import { isLeader, type Situation, type Slot } from '../situation.ts';
import type { StoreLocation } from '../snapshots/store-access.ts';
import type { Step } from '../steps.ts';
import { fillingLoss, isAway, isLeftBehind, type NodeLoss } from './lost-nodes.ts';
import { named, RETRY_MS, type Rule, wait } from './rule.ts';
import { anew, filled, type SeedWords, started, takingAway } from './seeded.ts';
import { allPods, isRefused, isTerminal, refusedSpec } from './standing.ts';

/** A Pod that is asked to end has thirty seconds for it; one that takes longer is on a node that does not answer. */
const ENDING_MS = 60_000;
/** etcd has opened this very data before, so what takes longer does not come any more. */
const STARTING_MS = 300_000;
/** More than is written between the verification and the moment at which nobody can write any more. */
const HEADROOM = REVISION_BUMP / 2n;

/** Another try would find the same. What concerns the way to the store can be mended while it is tried again. */
const FINAL: readonly Reason[] = [
  'SnapshotDamaged',
  'SnapshotTooNew',
  'SnapshotMissing',
  'SnapshotNotOpened',
  'SnapshotNotEncrypted',
  'AuthCredentialsRejected',
  'AuthRequiredNotConfigured',
  'VolumeFull',
];

/** The spec cannot be made to name a Secret with keys, but one that it names can be given another key. */
const isFinal = (reason: Reason, { encryption }: StoreLocation): boolean =>
  FINAL.includes(reason) || (reason === 'SnapshotKeyMissing' && encryption === undefined);

/** The slot with what was prepared in it: for the restore it is the member's own. */
const targetOf = (s: Situation, { target }: Restoring): Slot | undefined => {
  const slot = s.slots.find(({ member }) => member.name === target);
  if (slot === undefined) return undefined;
  const { member, prepared } = slot;
  return {
    ...slot,
    member: {
      ...member,
      pods: [...member.pods, ...prepared.pods],
      volumes: [...member.volumes, ...prepared.volumes],
    },
  };
};

const made = ({ member: { name, pods, volumes } }: Slot, { incarnation }: Restoring) => {
  const own = [incarnationName(name, incarnation), seedPodName(name, incarnation)];
  return {
    pods: pods.filter((pod) => own.includes(pod.name)),
    volumes: volumes.filter((volume) => own.includes(volume.name)),
  };
};

/** Revisions do not fit into numbers, which is all that Math.max takes. */
export const highest = (revisions: readonly bigint[]): bigint =>
  revisions.toSorted((a, b) => (a < b ? 1 : -1))[0] ?? 0n;

/** How far the present data has certainly come. */
const reached = (s: Situation): bigint =>
  highest(
    s.slots.flatMap(({ member }) => [
      ...member.volumes.flatMap(({ revisionFloor, clusterID }) =>
        revisionFloor !== undefined && clusterID === s.latch ? [revisionFloor] : [],
      ),
      ...member.pods.flatMap(({ etcd }) =>
        etcd.known && etcd.value.clusterId === s.latch ? [etcd.value.revision] : [],
      ),
    ]),
  );

type End = { readonly reason: Reason; readonly why: string; readonly unwanted?: boolean };

/** Pods of the cluster, or of one that was to take its place. One that fills a volume takes no write, wherever it still runs. */
const membersPods = (s: Situation): readonly SeenPod[] =>
  allPods(s).filter((pod) => !(isSeedPod(pod) && isLeftBehind(pod)));

/** Pods before volumes, and the record last. Undefined while all of it was asked to go and has not gone yet. */
const giveUp = (s: Situation, of: Restoring, { reason, why, unwanted = false }: End): Step | undefined => {
  const slot = targetOf(s, of);
  const left = slot === undefined ? { pods: [], volumes: [] } : made(slot, of);
  const { pods, volumes, done } = takingAway(left.pods, left.volumes);
  return of.failed !== undefined && !done && pods.length + volumes.length === 0
    ? undefined
    : { do: 'GiveUpRestore', reason, why, pods, volumes, done, unwanted };
};

const endOf = (s: Situation, of: Restoring): End | undefined => {
  if (of.failed !== undefined) return { reason: (of.failedReason ?? 'RestoreFailed') as Reason, why: of.failed };
  if (!isWanted(s.seen, of)) {
    return { reason: 'RestoreGivenUp', why: `EtcdRestore ${of.restore} was deleted`, unwanted: true };
  }
  if (s.quorum?.status.operation?.kind === 'RecoverQuorum') {
    return { reason: 'QuorumLost', why: 'quorum was lost and is being recovered, as the EtcdCluster consents' };
  }
  const slot = s.slots.find(({ member }) => member.name === of.target);
  return slot === undefined || slot.member.deleting
    ? { reason: 'RestoreGivenUp', why: `EtcdMember ${of.target} was deleted` }
    : undefined;
};

const wordsOf = ({ uri, target, restore }: Restoring): SeedWords => ({
  reason: 'Restoring',
  filling: `${uri} is brought onto a new volume of ${target} and opened there`,
  starting: `${target} starts on the data of EtcdRestore ${restore}`,
});

const places = (pods: readonly SeenPod[]): string =>
  pods.map(({ name, node }) => (node === undefined ? name : `${name} on node ${node}`)).join(', ');

/**
 * Clients first, then everybody but one, the leader where it is known: alone it has no majority, so that nobody can write any
 * more while it still tells how far the data has come.
 */
const stopping = (s: Situation, of: Restoring, since: number): Step => {
  const pods = membersPods(s);
  const open = pods.filter(({ voterRole, deleting }) => voterRole && !deleting);
  const why = `EtcdRestore ${of.restore} replaces the data of this cluster`;
  if (open.length > 0) return { do: 'Dismiss', why, pods: open.map(named) };
  if (pods.length === 0) return { do: 'StartRestored' };
  const running = pods.filter(({ deleting }) => !deleting);
  const last =
    s.held.find((slot) => slot.pod?.etcd.known === true && !slot.pod.deleting && isLeader(s, slot))?.pod ??
    running.find(({ etcd }) => etcd.known);
  const others = running.filter((pod) => pod !== last);
  if (others.length > 0) return { do: 'StopReplaced', why, pods: others.map(named) };
  const ending = pods.filter((pod) => pod !== last);
  const lost = ending.filter(isLeftBehind);
  if (lost.length > 0) {
    // Whether it has ended nobody will hear soon, and of the cluster's own data nothing has been given up yet.
    const words = `${places(lost)} cannot be proven gone, since that node is away: make another EtcdRestore when it is back`;
    return giveUp(s, of, { reason: 'NodeLost', why: words }) ?? wait('Restoring', words, RETRY_MS);
  }
  if (ending.length > 0) {
    return s.seen.now - since < ENDING_MS
      ? wait('Restoring', `waiting for the end of ${places(ending)}`, RETRY_MS)
      : wait(
          'RestoreBlocked',
          `these Pods are not proven gone and could still take writes: ${places(ending)}. Bring the node back; or make sure that it is off, then "kubectl taint nodes NODE node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"; or delete EtcdRestore ${of.restore}, then the cluster goes on with its own data`,
          RETRY_MS,
        );
  }
  const revision = reached(s);
  if (of.revisionBefore === undefined) return { do: 'NoteReached', revision };
  return { do: 'StopReplaced', why, pods: running.map(named) };
};

const starting = (s: Situation, of: Restoring): Step => {
  const slot = targetOf(s, of);
  if (slot === undefined) return wait('Restoring', `waiting for EtcdMember ${of.target}`, RETRY_MS);
  const own = made(slot, of);
  const old = membersPods(s).filter((pod) => !own.pods.includes(pod));
  const running = old.filter(({ deleting }) => !deleting);
  const why = `EtcdRestore ${of.restore} replaces the data of this cluster`;
  if (running.length > 0) return { do: 'StopReplaced', why, pods: running.map(named) };
  if (old.length > 0) return wait('Restoring', `waiting for the end of ${places(old)}`, RETRY_MS);
  const back = (words: string, reason: Reason = 'RestoreFailed'): Step =>
    giveUp(s, of, { reason, why: words }) ?? wait('Restoring', words, RETRY_MS);
  const next = started(
    s,
    { slot, incarnation: of.incarnation },
    wordsOf(of),
    back(`the volume with the restored data of ${of.target} was lost`, 'VolumeLost'),
    anew(s, (why) => back(`${why}; ${of.target} was starting there on the restored data`, 'NodeLost')),
  );
  if (!('do' in next)) {
    const least = BigInt(of.verified?.revision ?? '0') + BigInt(of.bump);
    return next.clusterId === of.clusterID || next.revision < least
      ? back(
          `${of.target} answers as cluster ${next.clusterId} at revision ${next.revision}, which is not what was restored`,
          'ForeignData',
        )
      : { do: 'CompleteRestoreInPlace', clusterID: next.clusterId, revision: next.revision };
  }
  const since = of.stoppedAt === undefined ? s.seen.now : Date.parse(of.stoppedAt);
  if (next.do === 'GiveUpRestore' || s.seen.now - since < STARTING_MS) return next;
  const { container } = slot.pod ?? {};
  const last = container?.lastExit?.message.trim().split('\n').at(-1);
  return back(
    `${of.target} did not serve the restored data within ${STARTING_MS / 60_000} minutes${last === undefined ? '' : `; etcd's last words: ${last}`}`,
  );
};

/** Before certificates and passwords are looked at: a way back that waits for either would be none. */
export const restoreInPlace: Rule = {
  name: 'restore in place',
  answer: (s) => {
    const { restoring, operation } = s.quorum?.status ?? {};
    if (s.latch === undefined) return undefined;
    const overtaking = operation?.kind === 'RestoreInPlace';
    if (restoring === undefined) {
      return overtaking
        ? { do: 'AskHuman', reason: 'OperationUnknown', message: 'a restore is in flight and its record is gone' }
        : undefined;
    }
    const end = endOf(s, restoring);
    if (end !== undefined) {
      const step = giveUp(s, restoring, end);
      return (
        step ??
        (overtaking ? wait(end.reason, `${end.why}; going back to the cluster's own data`, RETRY_MS) : undefined)
      );
    }
    if (!overtaking) return undefined;
    return operation.step === 'starting' ? starting(s, restoring) : stopping(s, restoring, Date.parse(operation.since));
  },
};

const begin = (s: Situation): Step | undefined => {
  const restore = nextRestore(s);
  const { claim, namespaceTerminating } = s.seen;
  if (restore === undefined || s.latch === undefined || restore.source.is === 'unknown') return undefined;
  // Nothing is made in what is being deleted.
  if (!claim.known || !claim.value.exists || claim.value.deleting || !namespaceTerminating.known) return undefined;
  const slot = s.held.find((one) => !one.member.deleting && !isRefused(one) && refusedSpec([one]) === undefined);
  if (slot === undefined) return undefined;
  return {
    do: 'BeginRestoreInPlace',
    restore: { name: restore.name, uid: restore.uid },
    target: slot.member.name,
    uri: restore.source.uri,
    clusterID: s.latch,
    bump: bumpOver(reached(s), 0n),
  };
};

/** The volume that was being filled, or was, holds nothing that is not in the store: another one is, under another name. */
const elsewhere = (s: Situation, { target }: Restoring) =>
  anew(s, (why) => ({ do: 'PrepareElsewhere', target, why, bump: bumpOver(reached(s), 0n) }));

/** Prepared, and on a node that is away: taking it over now would stop a cluster for data that nobody reaches. */
const preparedLoss = (s: Situation, of: Restoring): NodeLoss | undefined => {
  const { pods, volumes } = targetOf(s, of)?.prepared ?? { pods: [], volumes: [] };
  return fillingLoss(s, pods[0], volumes[0]);
};

const filling = (s: Situation, of: Restoring): Step | undefined => {
  const slot = targetOf(s, of);
  const source = s.seen.restores?.find(({ uid }) => uid === of.restoreUID)?.source;
  if (slot === undefined || source === undefined) return undefined;
  const seed = slot.prepared.pods.find(({ name }) => name === seedPodName(of.target, of.incarnation));
  if (seed === undefined && source.is === 'unknown') {
    return giveUp(s, of, { reason: source.reason, why: source.why });
  }
  if (seed !== undefined && !seed.deleting && isTerminal(seed)) {
    const reason = seedFailure(seed.seed?.trouble);
    if (isFinal(reason, source.is === 'known' ? source.location : {})) {
      return giveUp(s, of, { reason, why: seed.seed?.trouble?.replace(/^\S+ ended with \d+: (\w+: )?/, '') ?? reason });
    }
  }
  const make: Step = {
    do: 'PrepareRestore',
    member: named(slot.member),
    present: s.slots.find(({ member }) => member.name === of.target)?.incarnation,
    incarnation: of.incarnation,
    location: source.is === 'known' ? source.location : {},
    sha256: source.is === 'known' ? source.sha256 : undefined,
    clusterToken: `${of.clusterID}-${of.incarnation}`,
    bump: BigInt(of.bump),
  };
  const next = filled(s, { slot, incarnation: of.incarnation }, wordsOf(of), make, elsewhere(s, of));
  // What is only waited for keeps nobody: the cluster serves, and whatever befalls it is answered meanwhile.
  if ('do' in next) return next.do === 'Wait' || next.do === 'AskHuman' ? undefined : next;
  if (next.opened === undefined) {
    return giveUp(s, of, { reason: 'RestoreFailed', why: 'the data was restored and not opened' });
  }
  return {
    do: 'RecordVerified',
    verified: { revision: next.revision, sha256: next.sha256, sizeBytes: next.snapshotBytes, ...next.opened },
  };
};

/** While the cluster serves. What is verified takes over as soon as nothing else is in flight. */
export const prepareRestore: Rule = {
  name: 'prepare restore',
  answer: (s) => {
    const { quorum, latch, seen } = s;
    if (latch === undefined || quorum === undefined || !seen.membership.known) return undefined;
    const { restoring } = quorum.status;
    if (restoring === undefined) return begin(s);
    if (restoring.failed !== undefined) return undefined;
    if (restoring.clusterID !== latch) {
      return giveUp(s, restoring, {
        reason: 'RestoreRefused',
        why: `the cluster has become ${latch}, and the consent is to giving up ${restoring.clusterID}`,
      });
    }
    if (restoring.verified === undefined) return filling(s, restoring);
    if (hindranceNow(quorum) !== undefined || !seen.claim.known || !seen.claim.value.exists) return undefined;
    if (seen.claim.value.deleting || !seen.namespaceTerminating.known) return undefined;
    const volume = targetOf(s, restoring)?.prepared.volumes[0];
    if (volume === undefined || volume.deleting) {
      return giveUp(s, restoring, { reason: 'VolumeLost', why: 'the volume with the restored data was lost' });
    }
    const loss = preparedLoss(s, restoring);
    if (loss !== undefined) {
      const step = elsewhere(s, restoring)(loss);
      return step.do === 'Wait' ? undefined : step;
    }
    // Stopped, they could not be proven gone: the cluster would be down until somebody brings that node back.
    if (membersPods(s).some(({ host }) => isAway(host))) return undefined;
    if (reached(s) + HEADROOM > BigInt(restoring.verified.revision) + BigInt(restoring.bump)) {
      return giveUp(s, restoring, {
        reason: 'RestoreFailed',
        why: 'too much was written since the snapshot was verified for its revisions to lie above: make another EtcdRestore',
      });
    }
    return { do: 'BeginCutOver', target: restoring.target, incarnation: restoring.incarnation };
  },
};
