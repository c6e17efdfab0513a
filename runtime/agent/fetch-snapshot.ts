/** `agent fetch`: a stored snapshot onto the volume of the member that is made from it, checked before anything uses it. */
import { mkdir, rm, statfs, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { compareMinors } from '../../api/upgrade-path.ts';
import { RESTORE_ORDER } from '../core/seeding.ts';
import {
  fileNameOf,
  keyOfManifest,
  ManifestUnreadable,
  manifestKey,
  type SnapshotManifest,
} from '../core/snapshots/manifest.ts';
import { keyIn, type StoreLocation } from '../core/snapshots/store-access.ts';
import { type SnapshotStore, StoreFault } from '../ports/snapshot-store.ts';
import { digested } from './digested.ts';
import { openStore } from './open-store.ts';
import { saveDatabase } from './saved-snapshot.ts';
import { KeyMissing, NotSealed, SealBroken, unsealed } from './sealed-database.ts';
import { KeyUnusable, keysOf, type SnapshotKeys } from './snapshot-keys.ts';
import { readManifest } from './take-snapshot.ts';
import { DatabaseDamaged } from './verified-database.ts';

export type FetchOrder = {
  readonly source: StoreLocation;
  /** The etcd version that is to start on it, `3.6.16`. */
  readonly version: string;
  /** What the stored bytes are known to hash to, whatever the manifest that lies beside them says. */
  readonly sha256?: string;
  /** Whether etcd is to open it as it is first, for which a third of it has to fit. */
  readonly opened?: boolean;
};

type Cause =
  | 'SnapshotDamaged'
  | 'SnapshotTooNew'
  | 'SnapshotNotOpened'
  | 'SnapshotKeyMissing'
  | 'SnapshotNotEncrypted'
  | 'SnapshotKeyUnusable'
  | 'VolumeTooSmall'
  | 'NotFound'
  | 'AuthRequiredNotConfigured'
  | 'AuthCredentialsRejected';

/** The snapshot must not be restored: why in one word, as the runtime reads it, then what it is and what to do. */
export class Unrestorable extends Error {
  override readonly name = 'Unrestorable';

  constructor(reason: Cause, message: string) {
    super(`${reason}: ${message}`);
  }
}

export type Fetched = {
  /** Decimal; 0 where there is no manifest that tells. */
  readonly revision: string;
  readonly version: string | undefined;
  readonly clusterID: string | undefined;
  readonly takenAt: string | undefined;
  readonly sha256: string;
  readonly snapshotBytes: number;
  readonly hashKv?: SnapshotManifest['hashKv'];
  /** As the manifest promises them, under a name of its own: what is found is told as `keys`. */
  readonly promisedKeys?: string;
};

const manifestOf = async (store: SnapshotStore, key: string): Promise<SnapshotManifest | undefined> => {
  if ((await store.find(manifestKey(key))) === undefined) return undefined;
  try {
    return await readManifest(store, key);
  } catch (error) {
    if (!(error instanceof ManifestUnreadable)) throw error;
    throw new Unrestorable('SnapshotDamaged', `${store.uri(manifestKey(key))}: ${error.message}`);
  }
};

/** What is not there: the answer to a question about an object has no body to say so, that to reading it has. */
const absence = async (store: SnapshotStore, key: string): Promise<StoreFault> => {
  try {
    for await (const _ of store.read(key)) break;
  } catch (error) {
    if (!(error instanceof StoreFault)) throw error;
    if (error.reason !== 'NotFound') return error;
  }
  return new StoreFault(
    'NotFound',
    `restore ${store.uri(key)}`,
    'there is no such object; what is named has to be its exact key or path, as status.artifact.uri of its EtcdSnapshot has it after the bucket or volume',
  );
};

/** Throws {@link Unrestorable} or a {@link StoreFault}; nothing bears the name `snapshot.db` before all of it was checked. */
export const fetchSnapshot = async (
  order: FetchOrder,
  store: SnapshotStore,
  work: string,
  /** Those that are mounted, where the source names any. */
  mounted?: SnapshotKeys,
): Promise<Fetched> => {
  const keys =
    mounted ??
    (await keysOf(order.source).catch((error: unknown) => {
      throw error instanceof KeyUnusable ? new Unrestorable('SnapshotKeyUnusable', error.message) : error;
    }));
  const key = keyIn(order.source);
  if (key === undefined || key === '')
    throw new Unrestorable('NotFound', 'the source names no object; give its exact key or path');
  const database = keyOfManifest(key);
  if (database !== undefined) {
    throw new Unrestorable('NotFound', `${store.uri(key)} is a manifest; name the snapshot itself, ${database}`);
  }
  await mkdir(work, { recursive: true, mode: 0o700 });
  await rm(join(work, 'restored'), { recursive: true, force: true });
  await rm(join(work, 'opened'), { recursive: true, force: true });
  const stored = await store.find(key);
  if (stored === undefined) throw await absence(store, key);
  const manifest = await manifestOf(store, key);
  if (manifest !== undefined) {
    if (String(stored.sizeBytes) !== manifest.sizeBytes) {
      throw new Unrestorable(
        'SnapshotDamaged',
        `${store.uri(key)} has ${stored.sizeBytes} bytes, its manifest says ${manifest.sizeBytes}: it was altered or cut; take another snapshot`,
      );
    }
    // Data of a newer minor holds what an older etcd cannot read.
    if (compareMinors(manifest.etcdVersion, order.version) > 0) {
      throw new Unrestorable(
        'SnapshotTooNew',
        `${store.uri(key)} was taken from etcd ${manifest.etcdVersion} and cannot be read by ${order.version}: set spec.version to ${manifest.etcdVersion}`,
      );
    }
  }
  if (keys === undefined && manifest?.encryption !== undefined) {
    throw new Unrestorable(
      'SnapshotKeyMissing',
      `${store.uri(key)} is encrypted with key ${manifest.encryption.keyID}: name the Secret that holds it in encryption.keySecretRef beside the source`,
    );
  }
  const { bavail, bsize } = await statfs(work);
  const needed = (order.opened === true ? 3 : 2) * Number(stored.sizeBytes);
  if (bavail * bsize < needed) {
    throw new Unrestorable(
      'VolumeTooSmall',
      `the new volume has ${bavail * bsize} bytes free, ${needed} are needed for the snapshot and the restored data: raise spec.storage.size`,
    );
  }

  const promises = [
    ['its manifest', manifest?.sha256],
    ['its EtcdSnapshot', order.sha256],
  ] as const;
  const object = digested(store.read(key));
  const plain = keys === undefined ? object.bytes : unsealed(object.bytes, { keys, name: fileNameOf(key) });
  const reasonOf = (error: unknown): Cause | undefined => {
    if (error instanceof DatabaseDamaged || error instanceof SealBroken) return 'SnapshotDamaged';
    if (error instanceof KeyMissing) return 'SnapshotKeyMissing';
    if (!(error instanceof NotSealed)) return undefined;
    // Whoever wrote that it is encrypted did not store what lies there now.
    return manifest?.encryption === undefined ? 'SnapshotNotEncrypted' : 'SnapshotDamaged';
  };
  const saved = await saveDatabase(plain, join(work, 'snapshot.db'), () => {
    const { sha256 } = object.summary();
    for (const [who, promised] of promises) {
      if (promised === undefined || promised === sha256) continue;
      throw new Unrestorable(
        'SnapshotDamaged',
        `${store.uri(key)} has SHA-256 ${sha256}, ${who} says ${promised}: it was altered; take another snapshot`,
      );
    }
  }).catch((error: unknown) => {
    const reason = reasonOf(error);
    if (reason === undefined) throw error;
    const words =
      error instanceof NotSealed && reason === 'SnapshotDamaged'
        ? `it is not encrypted, and its manifest says that it is, with key ${manifest?.encryption?.keyID}: it was exchanged; take another snapshot`
        : (error as Error).message;
    throw new Unrestorable(reason, `${store.uri(key)}: ${words}`);
  });
  return {
    revision: manifest?.revision ?? '0',
    version: manifest?.etcdVersion,
    clusterID: manifest?.clusterID,
    takenAt: manifest?.takenAt,
    ...(manifest?.hashKv === undefined ? {} : { hashKv: manifest.hashKv }),
    ...(manifest?.keys === undefined ? {} : { promisedKeys: manifest.keys }),
    ...saved,
  };
};

export const fetchCommand = async (work: string, result: string): Promise<Fetched> => {
  const order = JSON.parse(process.env[RESTORE_ORDER] ?? 'null') as FetchOrder | null;
  if (order === null) throw new Error(`${RESTORE_ORDER} holds no order: this step belongs to a seeding Pod`);
  const store = await openStore(order.source);
  try {
    const fetched = await fetchSnapshot(order, store, work);
    await writeFile(join(work, result), JSON.stringify(fetched));
    return fetched;
  } finally {
    store.close();
  }
};
