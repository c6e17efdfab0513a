/**
 * What etcd finds in data that it has opened, beside what was noted when the snapshot was taken: one comparison for restores and
 * proofs. What follows from a difference is theirs to say.
 */
import { minorOf } from '../../api/upgrade-path.ts';
import type { SnapshotManifest } from '../core/snapshots/manifest.ts';
import { EtcdFault, type EtcdMemberClient, type EtcdMemberStatus } from '../ports/etcd.ts';

/** As the manifest has it. */
export type Promised = {
  readonly revision: bigint;
  readonly keys: string | undefined;
  readonly hashKv: SnapshotManifest['hashKv'];
  readonly etcdVersion: string | undefined;
};

type Difference = { readonly what: 'revision' | 'keys' | 'hash'; readonly found: string; readonly promised: string };

export type Comparison = {
  /** The first one; what would come after it was not looked at. */
  readonly difference?: Difference;
  /** How many keys there are at the promised revision; absent where that was compacted since. */
  readonly keys?: string;
  /** Of the key space at the promised revision; absent where it was not asked for. */
  readonly hash?: number;
  /** What was found to be as promised. */
  readonly equal: readonly ('revision' | 'keys' | 'hashKv')[];
  /** Why the hash was not compared, where it was not. */
  readonly remark?: string;
};

/** The whole key space is read, of data that nobody has read before. */
const SCAN = { deadlineMs: 600_000 };

/** History may have been compacted between the note and the stream: then there is nothing to compare. */
const unlessCompacted = (error: unknown): undefined => {
  if (error instanceof EtcdFault && error.reason === 'Compacted') return undefined;
  throw error;
};

export const compareData = async (
  promised: Promised,
  { revision, version }: Pick<EtcdMemberStatus, 'revision' | 'version'>,
  client: EtcdMemberClient,
): Promise<Comparison> => {
  const { hashKv } = promised;
  // Higher is right: what was written while the snapshot was taken may be in it.
  if (revision < promised.revision) {
    const difference = { what: 'revision', found: `${revision}`, promised: `${promised.revision}` } as const;
    return { difference, equal: [] };
  }
  const keys = await client.countKeys(promised.revision, SCAN).then(String, unlessCompacted);
  const found = { ...(keys === undefined ? {} : { keys }) };
  if (keys !== undefined && promised.keys !== undefined && keys !== promised.keys) {
    return { ...found, difference: { what: 'keys', found: keys, promised: promised.keys }, equal: ['revision'] };
  }
  const equal = ['revision', ...(keys === undefined || promised.keys === undefined ? [] : ['keys' as const])] as const;
  if (hashKv === undefined) return { ...found, equal, remark: 'the manifest has no hash of the key space' };
  // Minor versions count tombstones differently, and the digest of the bytes was compared before.
  if (promised.etcdVersion === undefined || minorOf(promised.etcdVersion) !== minorOf(version)) {
    return { ...found, equal, remark: `the hash has no like, since etcd ${version} opened the data` };
  }
  const hash = await client.hashKv(promised.revision, SCAN).catch(unlessCompacted);
  // Compacted between the hash and the stream: the two are over different histories and say nothing of each other.
  if (hash === undefined || String(hash.compactRevision) !== hashKv.compactRevision) {
    const remark = 'the hash has no like, since the data was compacted while it was taken';
    return { ...found, ...(hash === undefined ? {} : { hash: hash.hash }), equal, remark };
  }
  if (hash.hash !== hashKv.hash) {
    const difference = { what: 'hash', found: String(hash.hash), promised: String(hashKv.hash) } as const;
    return { ...found, hash: hash.hash, difference, equal };
  }
  return { ...found, hash: hash.hash, equal: [...equal, 'hashKv'] };
};
