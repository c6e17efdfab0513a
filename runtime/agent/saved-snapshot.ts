/** A snapshot taken by RPC, on disk only once its digest was found right. */
import { createHash } from 'node:crypto';
import { open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { EtcdMemberClient } from '../ports/etcd.ts';
import { sync } from './copied-data.ts';

const DIGEST_BYTES = 32;

export type SavedSnapshot = {
  /** Hex; over the database without the digest that ends the stream, which it was compared with. */
  readonly sha256: string;
  /** Of the file, the digest that ends it included. */
  readonly snapshotBytes: number;
};

/**
 * Streams a snapshot into `path`. The file bears that name only when it is whole, right, and on disk.
 * @throws where the stream breaks off, or its digest is not that of what came
 */
export const saveSnapshot = async (
  client: Pick<EtcdMemberClient, 'snapshot'>,
  path: string,
  signal?: AbortSignal,
): Promise<SavedSnapshot> => {
  const part = `${path}.part`;
  const hash = createHash('sha256');
  // The last bytes of the stream are the digest of the others, and which are the last shows only at its end.
  let tail: Uint8Array = new Uint8Array(0);
  let bytes = 0;
  const file = await open(part, 'w', 0o600);
  try {
    for await (const { blob } of client.snapshot({ signal })) {
      await file.writeFile(blob);
      bytes += blob.length;
      const seen = Buffer.concat([tail, blob]);
      const settled = Math.max(0, seen.length - DIGEST_BYTES);
      hash.update(seen.subarray(0, settled));
      tail = seen.subarray(settled);
    }
    const sha256 = hash.digest('hex');
    const told = Buffer.from(tail).toString('hex');
    if (tail.length !== DIGEST_BYTES || sha256 !== told) {
      throw new Error(`the snapshot does not match its digest: ${bytes} bytes hash to ${sha256}, etcd sent ${told}`);
    }
    await file.sync();
    await rename(part, path);
    await sync(dirname(path));
    return { sha256, snapshotBytes: bytes };
  } catch (error) {
    await rm(part, { force: true });
    throw error;
  } finally {
    await file.close();
  }
};
