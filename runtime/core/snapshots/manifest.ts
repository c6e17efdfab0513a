/**
 * The manifest: the small object that is written last and makes a stored database a snapshot. Without it the database
 * does not exist for anybody: it may be half of an upload that nobody finished.
 */

/** Byte counts and revisions are decimal strings: JSON has no integers beyond 2^53. */
export type SnapshotManifest = {
  readonly format: 1;
  /** Of the EtcdSnapshot that made it. Only it may overwrite or finish what carries this. */
  readonly snapshotUID: string;
  readonly snapshot: string;
  /** Name of the EtcdSnapshotSchedule it was taken for; absent where a person asked for it. */
  readonly schedule?: string;
  readonly namespace: string;
  readonly cluster: string;
  /** UID of the EtcdCluster: a later cluster of the same name is another one. */
  readonly clusterUID: string;
  /** etcd's cluster ID, lower-case hexadecimal. */
  readonly clusterID: string;
  /** Name of the EtcdMember it came from. */
  readonly member: string;
  readonly memberID: string;
  readonly etcdVersion: string;
  /** Everything up to this revision is in it; what was written while it was taken may be, too. */
  readonly revision: string;
  readonly sizeBytes: string;
  /** SHA-256 of the stored bytes, lower-case hexadecimal. */
  readonly sha256: string;
  /** Which key the stored bytes are encrypted with; absent where they are the database as it is. */
  readonly encryption?: { readonly keyID: string };
  /** etcd's own hash of the key space at {@link revision}, by which a restored member proves itself; absent if it could not be had. */
  readonly hashKv?: { readonly hash: number; readonly compactRevision: string };
  /** How many keys there are at {@link revision}, decimal; absent from older manifests and where it could not be had. */
  readonly keys?: string;
  /** RFC 3339. */
  readonly takenAt: string;
};

const MANIFEST = '.manifest.json';
export const manifestKey = (artifactKey: string): string => `${artifactKey}${MANIFEST}`;
/** The key of the database that a manifest under this key tells of; undefined where this is no manifest's key. */
export const keyOfManifest = (key: string): string | undefined =>
  key.endsWith(MANIFEST) ? key.slice(0, -MANIFEST.length) : undefined;

/** What an encrypted database is bound to: its name without the folders, since those change when a bucket is copied. */
export const fileNameOf = (key: string): string => key.slice(key.lastIndexOf('/') + 1);

/** Where all snapshots of one cluster lie. */
export const artifactFolder = (
  prefix: string | undefined,
  of: { readonly namespace: string; readonly cluster: string },
): string => {
  const folder = (prefix ?? '').replace(/^\/+/, '').replace(/([^/])$/, '$1/');
  return `${folder}${of.namespace}/${of.cluster}/`;
};

/** Key of the database below the destination's prefix. It ends in the UID, so a snapshot of the same name is another object. */
export const artifactKey = (
  prefix: string | undefined,
  of: { readonly namespace: string; readonly cluster: string; readonly snapshot: string; readonly snapshotUID: string },
): string => `${artifactFolder(prefix, of)}${of.snapshot}-${of.snapshotUID.slice(0, 8)}.db`;

export const manifestText = (manifest: SnapshotManifest): string => `${JSON.stringify(manifest, undefined, 2)}\n`;

type Check = (value: unknown) => boolean;
const text: Check = (value) => typeof value === 'string' && value !== '';
const decimal: Check = (value) => typeof value === 'string' && /^\d+$/.test(value);
const identity: Check = (value) => typeof value === 'string' && /^[0-9a-f]{1,16}$/.test(value);

const FIELDS: { readonly [field in keyof Required<SnapshotManifest>]: Check } = {
  format: (value) => value === 1,
  schedule: (value) => value === undefined || text(value),
  snapshotUID: text,
  snapshot: text,
  namespace: text,
  cluster: text,
  clusterUID: text,
  clusterID: identity,
  member: text,
  memberID: identity,
  etcdVersion: (value) => typeof value === 'string' && /^\d+\.\d+\.\d+/.test(value),
  revision: decimal,
  sizeBytes: decimal,
  sha256: (value) => typeof value === 'string' && /^[0-9a-f]{64}$/.test(value),
  encryption: (value) =>
    value === undefined || (typeof value === 'object' && value !== null && 'keyID' in value && text(value.keyID)),
  hashKv: (value) =>
    value === undefined ||
    (typeof value === 'object' &&
      value !== null &&
      'hash' in value &&
      Number.isInteger(value.hash) &&
      'compactRevision' in value &&
      // -1 where nothing was ever compacted.
      (decimal(value.compactRevision) || value.compactRevision === '-1')),
  keys: (value) => value === undefined || decimal(value),
  takenAt: (value) => typeof value === 'string' && !Number.isNaN(Date.parse(value)),
};

export class ManifestUnreadable extends Error {
  override readonly name = 'ManifestUnreadable';
}

/** Throws {@link ManifestUnreadable}: what cannot be read whole is no promise of anything. */
export const parseManifest = (source: string): SnapshotManifest => {
  let value: unknown;
  try {
    value = JSON.parse(source);
  } catch {
    throw new ManifestUnreadable('the manifest is not JSON');
  }
  if (typeof value !== 'object' || value === null) throw new ManifestUnreadable('the manifest is not a JSON object');
  const manifest = value as Record<string, unknown>;
  if (typeof manifest.format === 'number' && manifest.format > 1) {
    throw new ManifestUnreadable(
      `the manifest has format ${manifest.format}, this version reads format 1: a newer operator wrote it`,
    );
  }
  const wrong = Object.entries(FIELDS).find(([field, check]) => !check(manifest[field]));
  if (wrong !== undefined) throw new ManifestUnreadable(`the manifest has no usable ${wrong[0]}`);
  return manifest as unknown as SnapshotManifest;
};
