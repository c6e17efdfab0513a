/** Who and what is left when quorum is lost: members that answer, stored snapshots, and how far the cluster is known to have come. */
import type { Situation, Slot } from './situation.ts';
import { byRevision, type KnownSnapshot } from './snapshots/known-snapshots.ts';

export type Survivor = {
  readonly slot: Slot;
  readonly revision: bigint;
  /** `metrics`: it has restarted since and serves no clients, but its metrics port tells how far its data goes. */
  readonly source: 'status' | 'metrics';
  readonly isLearner: boolean;
};

/** Most data first. Whoever runs on another cluster's data is none, and neither is a Pod that is ending. */
export const survivorsOf = (s: Situation): readonly Survivor[] =>
  s.held
    .flatMap((slot): Survivor[] => {
      const { pod, member } = slot;
      if (pod === undefined || pod.deleting || pod.container.state !== 'running') return [];
      if (pod.etcd.known) {
        const { clusterId, revision, isLearner } = pod.etcd.value;
        return clusterId === s.latch ? [{ slot, revision, source: 'status', isLearner }] : [];
      }
      if (pod.metrics?.known !== true) return [];
      const { revision, isLearner = member.status.isVoter === false } = pod.metrics.value;
      return [{ slot, revision, source: 'metrics', isLearner }];
    })
    .toSorted((a, b) =>
      a.revision === b.revision ? a.slot.member.ordinal - b.slot.member.ordinal : a.revision > b.revision ? -1 : 1,
    );

/** Nothing is recovered from a learner: alone, it has no vote to go on with. */
export const ableSurvivors = (s: Situation): readonly Survivor[] =>
  survivorsOf(s).filter(({ isLearner, slot }) => !isLearner && !slot.volatile && slot.volume?.deleting === false);

/**
 * Stored snapshots of this cluster, most data first: of what it is, and of what it was before earlier recoveries, after which its
 * revisions went on from higher ones.
 */
export const snapshotsOf = (s: Situation): readonly KnownSnapshot[] => {
  const been = [s.latch, ...(s.quorum?.status.recovered ?? []).map(({ lostClusterID }) => lostClusterID)];
  return (s.seen.snapshots ?? [])
    .filter(({ clusterID }) => clusterID !== undefined && been.includes(clusterID))
    .toSorted(byRevision);
};

export type LastSeen = {
  readonly revision: bigint;
  /** When a member was seen at it, RFC 3339; absent where it was read from a record. */
  readonly at?: string;
};

/**
 * The last revision that the cluster is known to have come to. No write is made for it while the cluster is well, so it is put
 * together from what was recorded for other reasons and what this process remembers; the cluster may have come further.
 */
export const lastSeenOf = (s: Situation): LastSeen | undefined => {
  const { loss, survivors = [] } = s.quorum?.status ?? {};
  const recorded = loss?.lastRevision === undefined ? [] : [loss];
  const candidates: readonly LastSeen[] = [
    ...recorded.map(({ lastRevision = '0', lastSeenAt }) => ({
      revision: BigInt(lastRevision),
      ...(lastSeenAt === undefined ? {} : { at: lastSeenAt }),
    })),
    ...(s.seen.lastSeen === undefined || s.seen.lastSeen.clusterID !== s.latch
      ? []
      : [{ revision: s.seen.lastSeen.revision, at: new Date(s.seen.lastSeen.at).toISOString() }]),
    ...survivors.map(({ revision }) => ({ revision: BigInt(revision) })),
    ...survivorsOf(s).map(({ revision }) => ({ revision })),
    ...snapshotsOf(s).map(({ revision }) => ({ revision })),
    ...s.slots
      .flatMap(({ member }) => member.volumes)
      .flatMap(({ clusterID, revisionFloor }) =>
        clusterID === s.latch && revisionFloor !== undefined ? [{ revision: revisionFloor }] : [],
      ),
  ];
  return candidates.reduce<LastSeen | undefined>(
    (best, one) => (best === undefined || one.revision > best.revision ? one : best),
    undefined,
  );
};
