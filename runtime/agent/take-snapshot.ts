/** One snapshot, from a member's stream to a manifest in the store. Safe to run again, whole or from anywhere. */

import { known, unknownBy } from '../core/observed.ts';
import {
  artifactKey,
  fileNameOf,
  ManifestUnreadable,
  manifestKey,
  manifestText,
  parseManifest,
  type SnapshotManifest,
} from '../core/snapshots/manifest.ts';
import type { SnapshotAgentOrder } from '../core/snapshots/snapshot-job.ts';
import { type Candidate, chooseSource } from '../core/snapshots/source.ts';
import { type EtcdClients, type EtcdEndpoint, EtcdFault } from '../ports/etcd.ts';
import { type SnapshotStore, type StoreCall, StoreFault } from '../ports/snapshot-store.ts';
import { digested } from './digested.ts';
import { blobs } from './saved-snapshot.ts';
import { sealed } from './sealed-database.ts';
import type { SnapshotKey } from './snapshot-keys.ts';
import { verifiedDatabase } from './verified-database.ts';

export type SnapshotOrder = Pick<SnapshotAgentOrder, 'snapshot' | 'cluster' | 'members'> & {
  /** Prefix of the destination. */
  readonly prefix?: string | undefined;
  /** Name of the schedule it is taken for. */
  readonly schedule?: string | undefined;
};

export type SnapshotResult = {
  readonly uri: string;
  readonly key: string;
  readonly manifest: SnapshotManifest;
};

/** No member could be asked for its database. */
export class NoSource extends Error {
  override readonly name = 'NoSource';
}

export type Progress = { readonly bytes: bigint; readonly expected: bigint };

const STATUS_DEADLINE_MS = 3_000;
/** For what reads the whole key space; a snapshot is worth taking without it. */
const SCAN_DEADLINE_MS = 60_000;
const SILENCE_MS = 60_000;

export const takeSnapshot = async (
  order: SnapshotOrder,
  tools: {
    readonly store: SnapshotStore;
    readonly etcd: EtcdClients;
    readonly endpoint: (url: string) => EtcdEndpoint;
    readonly now: () => Date;
    /** Encrypts what is stored; absent: it is stored as it is. */
    readonly key?: SnapshotKey | undefined;
    readonly onProgress?: (progress: Progress) => void;
    readonly signal?: AbortSignal;
  },
): Promise<SnapshotResult> => {
  const { store, etcd, endpoint, signal, key: encryptionKey } = tools;
  const { snapshot, cluster } = order;
  const key = artifactKey(order.prefix, {
    namespace: cluster.namespace,
    cluster: cluster.name,
    snapshot: snapshot.name,
    snapshotUID: snapshot.uid,
  });
  const call = signal === undefined ? {} : { signal };

  const finished = await finishedBefore(store, key, snapshot.uid, call);
  if (finished !== undefined) return { uri: store.uri(key), key, manifest: finished };

  const candidates = await Promise.all(
    order.members.map(
      async ({ member, url }): Promise<Candidate> => ({
        member,
        status: await etcd
          .at(endpoint(url))
          .status({ ...call, deadlineMs: STATUS_DEADLINE_MS })
          .then(known, unknownBy),
      }),
    ),
  );
  const source = chooseSource(candidates, cluster.clusterID);
  if ('none' in source) throw new NoSource(source.none);
  const url = order.members.find(({ member }) => member === source.member)?.url ?? '';
  const client = etcd.at(endpoint(url));
  const { status } = source;

  const unlessRefused = (error: unknown): undefined => {
    if (error instanceof EtcdFault && error.reason !== 'Cancelled') return undefined;
    throw error;
  };
  // Beside the stream, since each reads the whole database as well. They are asked for a revision that was reached before the
  // stream begins, so what they speak of is certainly in it.
  const scan = { ...call, deadlineMs: SCAN_DEADLINE_MS };
  const scanned = Promise.all([
    client.hashKv(status.revision, scan).catch(unlessRefused),
    client.countKeys(status.revision, scan).catch(unlessRefused),
  ]);
  // Whatever becomes of it, a stream that fails is heard first.
  scanned.catch(() => undefined);

  const database = verifiedDatabase(blobs(client.snapshot({ ...call, deadlineMs: SILENCE_MS })), (bytes) =>
    tools.onProgress?.({ bytes, expected: status.dbSize }),
  );
  // As it is stored: what lies there can then be checked by anybody, with the key or without.
  const object =
    encryptionKey === undefined
      ? database
      : digested(sealed(database.bytes, { key: encryptionKey, name: fileNameOf(key) }));
  await store.put(key, object.bytes, { owner: snapshot.uid, expectedBytes: status.dbSize }, call);
  const { sizeBytes, sha256 } = object.summary();
  const stored = await store.find(key, call);
  if (stored?.sizeBytes !== sizeBytes || stored.owner !== snapshot.uid) {
    throw new StoreFault(
      'Refused',
      `store ${key}`,
      `${sizeBytes} bytes were stored, and ${stored === undefined ? 'nothing' : `${stored.sizeBytes} bytes of ${stored.owner ?? 'nobody'}`} is there`,
    );
  }

  const [hash, keys] = await scanned;
  const manifest: SnapshotManifest = {
    format: 1,
    snapshotUID: snapshot.uid,
    snapshot: snapshot.name,
    ...(order.schedule === undefined ? {} : { schedule: order.schedule }),
    namespace: cluster.namespace,
    cluster: cluster.name,
    clusterUID: cluster.uid,
    clusterID: cluster.clusterID,
    member: source.member,
    memberID: status.memberId,
    etcdVersion: status.version,
    revision: String(status.revision),
    sizeBytes: String(sizeBytes),
    sha256,
    ...(encryptionKey === undefined ? {} : { encryption: { keyID: encryptionKey.id } }),
    ...(hash === undefined ? {} : { hashKv: { hash: hash.hash, compactRevision: String(hash.compactRevision) } }),
    ...(keys === undefined ? {} : { keys: String(keys) }),
    takenAt: tools.now().toISOString(),
  };
  await store.put(manifestKey(key), one(manifestText(manifest)), { owner: snapshot.uid }, call);
  return { uri: store.uri(key), key, manifest };
};

async function* one(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text);
}

/** A try before this one may have come to its end without anybody hearing of it. Then it is the snapshot. */
const finishedBefore = async (
  store: SnapshotStore,
  key: string,
  owner: string,
  call: { readonly signal?: AbortSignal },
): Promise<SnapshotManifest | undefined> => {
  const present = await store.find(manifestKey(key), call);
  if (present === undefined || present.owner !== owner) return undefined;
  const manifest = await readManifest(store, key, call).catch((error: unknown) => {
    // Altered since. It is ours, and promises nothing: it is written anew, after a database that it speaks of.
    if (error instanceof ManifestUnreadable) return undefined;
    throw error;
  });
  if (manifest === undefined) return undefined;
  const stored = await store.find(key, call);
  return stored !== undefined && String(stored.sizeBytes) === manifest.sizeBytes ? manifest : undefined;
};

const LONGEST_MANIFEST = 64 * 1024;

/** Rejects with a {@link StoreFault} or with ManifestUnreadable. */
export const readManifest = async (
  store: SnapshotStore,
  key: string,
  call: StoreCall = {},
): Promise<SnapshotManifest> => {
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const part of store.read(manifestKey(key), call)) {
    parts.push(part);
    size += part.length;
    if (size > LONGEST_MANIFEST) break;
  }
  return parseManifest(Buffer.concat(parts).toString('utf8'));
};
