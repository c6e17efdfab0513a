/** A database on disk, under its name only once it was found right. */
import { open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { EtcdMemberClient } from '../ports/etcd.ts';
import { sync } from './copied-data.ts';
import { verifiedDatabase } from './verified-database.ts';

export type SavedSnapshot = {
  /** SHA-256 of the file, lower-case hexadecimal. */
  readonly sha256: string;
  /** Of the file, the digest that ends it included. */
  readonly snapshotBytes: number;
};

/**
 * Writes a stream that ends with its digest into `path`. The file bears that name only when it is whole, right, and on disk.
 * @param check is asked before the file gets its name; what it throws comes through
 * @throws where the stream breaks off, or its digest is not that of what came
 */
export const saveDatabase = async (
  chunks: AsyncIterable<Uint8Array>,
  path: string,
  check: (saved: SavedSnapshot) => void = () => undefined,
): Promise<SavedSnapshot> => {
  const part = `${path}.part`;
  const database = verifiedDatabase(chunks);
  const file = await open(part, 'w', 0o600);
  try {
    for await (const bytes of database.bytes) await file.writeFile(bytes);
    await file.sync();
    const { sha256, sizeBytes } = database.summary();
    const saved = { sha256, snapshotBytes: Number(sizeBytes) };
    check(saved);
    await rename(part, path);
    await sync(dirname(path));
    return saved;
  } catch (error) {
    await rm(part, { force: true });
    throw error;
  } finally {
    await file.close();
  }
};

/** The bytes of a snapshot's stream, as its reader pulls them. */
export async function* blobs(chunks: AsyncIterable<{ readonly blob: Uint8Array }>): AsyncGenerator<Uint8Array> {
  for await (const { blob } of chunks) yield blob;
}

/** A snapshot taken by RPC. */
export const saveSnapshot = (
  client: Pick<EtcdMemberClient, 'snapshot'>,
  path: string,
  signal?: AbortSignal,
): Promise<SavedSnapshot> => saveDatabase(blobs(client.snapshot({ signal })), path);
