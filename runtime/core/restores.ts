/** EtcdRestores as the planner sees them: whose turn it is, and why one has to wait. */
import type { EtcdQuorumRestoring, EtcdQuorumSpec, EtcdQuorumStatus } from '../../api/etcdquorum.gen.ts';
import type { EtcdRestoreSpec, EtcdRestoreStatus } from '../../api/etcdrestore.gen.ts';
import type { EtcdSnapshot } from '../../api/etcdsnapshot.gen.ts';
import type { Reason } from '../../api/reasons.ts';
import type { Instant, Observed } from './observed.ts';
import type { Situation } from './situation.ts';
import { knownSnapshot } from './snapshots/known-snapshots.ts';
import { locationName, type StoreLocation } from './snapshots/store-access.ts';

export type Restoring = EtcdQuorumRestoring;

/** Where the data is to come from, as far as that is known. */
export type RestoreSource =
  | {
      readonly is: 'known';
      readonly location: StoreLocation;
      readonly uri: string;
      /** What the stored bytes have to be, where the EtcdSnapshot tells. */
      readonly sha256?: string | undefined;
    }
  | {
      readonly is: 'unknown';
      readonly reason: Reason;
      readonly why: string;
      /** It will not come. */
      readonly never: boolean;
    };

export type SeenRestore = {
  readonly name: string;
  readonly uid: string;
  readonly createdAt: Instant;
  readonly deleting: boolean;
  readonly phase: EtcdRestoreStatus['phase'];
  /** The cluster that its consent gives up. */
  readonly clusterID: string;
  readonly source: RestoreSource;
};

/** The exact place of a snapshot that is complete. */
export const sourceOf = (
  { source }: Pick<EtcdRestoreSpec, 'source'>,
  snapshot: EtcdSnapshot | undefined,
): RestoreSource => {
  const { snapshotRef, s3, pvc, encryption } = source;
  if (snapshotRef === undefined) {
    const location: StoreLocation = {
      ...(s3 === undefined ? {} : { s3 }),
      ...(pvc === undefined ? {} : { pvc }),
      ...(encryption === undefined ? {} : { encryption }),
    };
    return { is: 'known', location, uri: locationName(location) };
  }
  const unknown = (why: string, never: boolean): RestoreSource => ({
    is: 'unknown',
    reason: 'SnapshotNotComplete',
    why: `EtcdSnapshot ${snapshotRef.name} ${why}`,
    never,
  });
  if (snapshot === undefined) return unknown('does not exist', false);
  if (snapshot.status?.phase === 'Failed') return unknown('has failed: there is nothing to restore', true);
  const found = knownSnapshot(snapshot);
  if (found === undefined) return unknown('is not complete yet', false);
  const { location, uri, sha256 } = found;
  // The keys may lie in another Secret by now than the one that it was encrypted from.
  return { is: 'known', location: encryption === undefined ? location : { ...location, encryption }, uri, sha256 };
};

export type Hindrance = {
  readonly reason: Reason;
  readonly why: string;
  /** Nothing that may still happen makes it possible. */
  readonly never: boolean;
};

const waits = (reason: Reason, why: string): Hindrance => ({ reason, why, never: false });
const refused = (why: string): Hindrance => ({ reason: 'RestoreRefused', why, never: true });

/** What the cluster's record says to a restore that has not begun; undefined where nothing is in its way. */
export const hindranceTo = (
  restore: Pick<SeenRestore, 'uid' | 'clusterID' | 'source'>,
  quorum: { readonly spec: EtcdQuorumSpec; readonly status: EtcdQuorumStatus } | undefined,
  agentImage: string | undefined,
): Hindrance | undefined => {
  if (quorum === undefined) return waits('ClusterNotFound', 'there is no such EtcdCluster');
  const { spec, status } = quorum;
  const { clusterID, restoring, pastRestores = [] } = status;
  if (clusterID === undefined) {
    return waits(
      'RestoreWaiting',
      'the cluster has not formed yet; one that is to begin with a snapshot has bootstrap.restore',
    );
  }
  if (restore.clusterID !== clusterID) {
    const done = pastRestores.some((one) => one.outcome === 'Complete' && one.lostClusterID === restore.clusterID);
    return refused(
      done
        ? `cluster ${restore.clusterID}, which spec.clusterID gives up, has been replaced by a restore already; the one that runs is ${clusterID}`
        : `spec.clusterID gives up cluster ${restore.clusterID}, and the one that runs is ${clusterID}: if its data is to be replaced, make another EtcdRestore with that ID`,
    );
  }
  if (spec.medium === 'Memory') {
    return refused('a cluster in memory has no volume to restore onto: make a new claim with bootstrap.restore');
  }
  if (restore.source.is === 'unknown') {
    const { reason, why, never } = restore.source;
    return { reason, why, never };
  }
  if (agentImage === undefined) {
    return waits('AgentImageUnknown', 'this runtime does not know its own image: start it with --agent-image');
  }
  if (restoring !== undefined && restoring.restoreUID !== restore.uid) {
    return waits('RestoreWaiting', `EtcdRestore ${restoring.restore} is being carried out`);
  }
  return hindranceNow(quorum);
};

/** What keeps a restore from beginning, and one that was verified from taking over. */
export const hindranceNow = ({
  spec,
  status,
}: {
  readonly spec: EtcdQuorumSpec;
  readonly status: EtcdQuorumStatus;
}): Hindrance | undefined => {
  const { operation, phase, restoring } = status;
  if (spec.replicas === 0) return waits('ClusterPaused', 'the cluster is paused: raise replicas, then it goes on');
  if (phase === 'QuorumLost') {
    return waits(
      'QuorumLost',
      'quorum is lost, which is a case for spec.recovery of the EtcdCluster; its condition Available says how',
    );
  }
  return operation === undefined || operation.id === restoring?.id
    ? undefined
    : waits('RestoreWaiting', `${operation.kind} of ${operation.target ?? 'a member'} is in flight`);
};

const isOver = ({ phase }: SeenRestore): boolean => phase === 'Complete' || phase === 'Failed';

/** The next one to begin: the oldest that nothing is in the way of. */
export const nextRestore = (s: Situation): SeenRestore | undefined => {
  const past = s.quorum?.status.pastRestores ?? [];
  return (s.seen.restores ?? [])
    .filter((one) => !isOver(one) && !one.deleting && !past.some(({ restoreUID }) => restoreUID === one.uid))
    .filter((one) => hindranceTo(one, s.quorum, s.seen.agentImage) === undefined)
    .toSorted((a, b) => a.createdAt - b.createdAt || (a.name < b.name ? -1 : 1))[0];
};

/** Whether the EtcdRestore that is being carried out is still there, as far as the caches tell. */
export const isWanted = ({ restores = [] }: Observed, { restoreUID }: Restoring): boolean =>
  restores.some(({ uid, deleting }) => uid === restoreUID && !deleting);

/** Data of a cluster that an EtcdRestore which is still there gave up stays as long as that. One that failed gave up none. */
export const isKept = ({ restores = [] }: Pick<Observed, 'restores'>, clusterID: string | undefined): boolean =>
  restores.some((one) => one.clusterID === clusterID && one.phase !== 'Failed');
