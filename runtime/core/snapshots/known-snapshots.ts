/** Stored snapshots that a cluster could be made from again, as far as their EtcdSnapshots tell. */
import type { EtcdSnapshot } from '../../../api/etcdsnapshot.gen.ts';
import type { StoreLocation } from './store-access.ts';

export type KnownSnapshot = {
  readonly name: string;
  /** For people: `s3://bucket/key` or `pvc://claim/path`. */
  readonly uri: string;
  /** With its exact key or path. */
  readonly location: StoreLocation;
  /** Everything up to it is in the snapshot. */
  readonly revision: bigint;
  /** RFC 3339. What was written after it is not in the snapshot, or may not be. */
  readonly takenAt: string | undefined;
  /** etcd's. */
  readonly clusterID: string | undefined;
  readonly etcdVersion: string | undefined;
  /** Of the stored bytes, lower-case hexadecimal. */
  readonly sha256: string | undefined;
};

/** A stored snapshot as the claim names it. */
export type StoredSource = {
  readonly location: StoreLocation;
  readonly uri: string;
  /** Of its EtcdSnapshot, and what that tells. Absent where the claim names the place. */
  readonly name?: string;
  readonly revision?: bigint;
  readonly takenAt?: string;
  readonly sha256?: string;
};

/** The destination names a prefix, what was stored has a key of its own. */
const exactly = (destination: StoreLocation, uri: string): StoreLocation | undefined => {
  const { s3, pvc } = destination;
  const prefix = s3 === undefined ? `pvc://${pvc?.claimName}/` : `s3://${s3.bucket}/`;
  if (!uri.startsWith(prefix) || uri.length === prefix.length) return undefined;
  const key = uri.slice(prefix.length);
  if (s3 !== undefined) return { ...destination, s3: { ...s3, key } };
  return pvc === undefined ? undefined : { ...destination, pvc: { ...pvc, subPath: key } };
};

/** Undefined where it is not complete: without its manifest a stored object is no snapshot. */
export const knownSnapshot = ({ metadata, spec, status }: EtcdSnapshot): KnownSnapshot | undefined => {
  const { artifact, revision, startTime, completionTime, clusterID, etcdVersion } = status ?? {};
  if (status?.phase !== 'Complete' || artifact === undefined || metadata.deletionTimestamp !== undefined)
    return undefined;
  if (revision === undefined || !/^\d+$/.test(revision)) return undefined;
  const location = exactly(spec.destination, artifact.uri);
  if (location === undefined) return undefined;
  return {
    name: metadata.name ?? '',
    uri: artifact.uri,
    location,
    revision: BigInt(revision),
    takenAt: startTime ?? completionTime,
    clusterID,
    etcdVersion,
    sha256: artifact.checksum?.replace(/^sha256:/, ''),
  };
};

/** Most data first, among equals the youngest. */
export const byRevision = (a: KnownSnapshot, b: KnownSnapshot): number =>
  a.revision === b.revision
    ? (b.takenAt ?? '').localeCompare(a.takenAt ?? '') || (a.name < b.name ? -1 : 1)
    : a.revision > b.revision
      ? -1
      : 1;
