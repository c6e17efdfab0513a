/** The keys by which stored databases are encrypted: the entries of a Secret, as they are mounted. */
import { createHmac } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { CURRENT_KEY, KEYS_MOUNT, type StoreLocation } from '../core/snapshots/store-access.ts';

export type SnapshotKey = {
  /** Tells keys apart and says nothing about them. */
  readonly id: string;
  readonly secret: Uint8Array;
};

export type SnapshotKeys = {
  /** With which is encrypted. */
  readonly current: SnapshotKey;
  /** Of all keys. */
  readonly ids: readonly string[];
  find(id: string): SnapshotKey | undefined;
};

/** A Secret that holds no keys, or something else beside them. */
export class KeyUnusable extends Error {
  override readonly name = 'KeyUnusable';
}

const KEY_BYTES = 32;
const ID_LENGTH = 16;

/** An HMAC under the key: nobody who sees it comes nearer to the key. */
const idOf = (secret: Uint8Array): string =>
  createHmac('sha256', secret).update('etcd-operator.cozystack.io/key-id/v1').digest('hex').slice(0, ID_LENGTH);

/** Base64 of exactly 32 bytes; what a person thinks up is no key, however long. */
export const snapshotKey = (entry: string, text: string): SnapshotKey => {
  const trimmed = text.trim();
  const secret = Buffer.from(trimmed, 'base64');
  if (secret.length !== KEY_BYTES || secret.toString('base64') !== trimmed) {
    throw new KeyUnusable(
      `entry ${entry} is not a key: it must be 32 random bytes in base64, as "openssl rand -base64 32" prints them`,
    );
  }
  return { id: idOf(secret), secret };
};

/** Reads every entry: that an older key cannot be used must not be found out only when it is needed. */
export const keysIn = async (folder: string): Promise<SnapshotKeys> => {
  // The kubelet's own links begin with two dots.
  const entries = (await readdir(folder)).filter((entry) => !entry.startsWith('..'));
  const keys = await Promise.all(
    entries.map(async (entry) => [entry, snapshotKey(entry, await readFile(join(folder, entry), 'utf8'))] as const),
  );
  const current = keys.find(([entry]) => entry === CURRENT_KEY)?.[1];
  if (current === undefined) {
    throw new KeyUnusable(
      entries.length === 0
        ? 'it is not there, or holds nothing'
        : `it has no entry ${CURRENT_KEY}, the key that new snapshots are encrypted with`,
    );
  }
  const byID = new Map(keys.map(([, key]) => [key.id, key]));
  return { current, ids: [...byID.keys()].sort(), find: (id) => byID.get(id) };
};

/** Undefined where the location names no key. */
export const keysOf = async ({ encryption }: StoreLocation, folder = KEYS_MOUNT): Promise<SnapshotKeys | undefined> => {
  if (encryption === undefined) return undefined;
  try {
    return await keysIn(folder);
  } catch (error) {
    if (!(error instanceof KeyUnusable)) throw error;
    throw new KeyUnusable(`Secret ${encryption.keySecretRef.name}: ${error.message}`);
  }
};
