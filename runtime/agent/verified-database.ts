/**
 * etcd ends the stream of a snapshot with the SHA-256 of what it sent. This passes the stream on and compares, so that a
 * database that was damaged on its way fails before its last byte reaches the store, and nothing is stored.
 */
import { createHash } from 'node:crypto';

const DIGEST_BYTES = 32;
/** A backend file consists of whole pages, the smallest of which has 512 bytes; with its digest it does not. */
const PAGE_BYTES = 512;

export class DatabaseDamaged extends Error {
  override readonly name = 'DatabaseDamaged';
}

export type DatabaseSummary = {
  /** Of all bytes that were passed on, etcd's digest included. */
  readonly sizeBytes: bigint;
  /** SHA-256 of the same bytes, lower-case hexadecimal: of the file as it is stored. */
  readonly sha256: string;
};

export type VerifiedDatabase = {
  readonly bytes: AsyncIterable<Uint8Array>;
  /** Once {@link bytes} was read to its end. */
  summary(): DatabaseSummary;
};

/**
 * `bytes` throws {@link DatabaseDamaged} at the end of a stream that does not match its digest; the last chunk is held back
 * until it is known to be good. Memory: one chunk and 32 bytes.
 */
export const verifiedDatabase = (
  chunks: AsyncIterable<Uint8Array>,
  onProgress: (bytes: bigint) => void = () => undefined,
): VerifiedDatabase => {
  // One pass for two digests, since hashing is most of what this costs: that of the database is that of the file before its end.
  const hash = createHash('sha256');
  let size = 0n;
  let summary: DatabaseSummary | undefined;

  async function* bytes(): AsyncGenerator<Uint8Array, void, undefined> {
    // What may still turn out to be the digest: the last bytes seen, never more than it is long.
    let tail = Buffer.alloc(0);
    let held: Uint8Array | undefined;
    for await (const chunk of chunks) {
      if (chunk.length === 0) continue;
      if (held !== undefined) yield held;
      held = chunk;
      size += BigInt(chunk.length);
      if (chunk.length >= DIGEST_BYTES) {
        hash.update(tail);
        hash.update(chunk.subarray(0, chunk.length - DIGEST_BYTES));
        tail = Buffer.from(chunk.subarray(chunk.length - DIGEST_BYTES));
      } else {
        const pending = Buffer.concat([tail, chunk]);
        const keep = Math.min(DIGEST_BYTES, pending.length);
        hash.update(pending.subarray(0, pending.length - keep));
        tail = pending.subarray(pending.length - keep);
      }
      onProgress(size);
    }
    if (held === undefined || size <= BigInt(DIGEST_BYTES) || size % BigInt(PAGE_BYTES) !== BigInt(DIGEST_BYTES)) {
      throw new DatabaseDamaged(
        `the snapshot has ${size} bytes, which is no database followed by its digest; take it again`,
      );
    }
    const expected = tail.toString('hex');
    const computed = hash.copy().digest('hex');
    if (computed !== expected) {
      throw new DatabaseDamaged(
        `the database has SHA-256 ${computed}, its own digest says ${expected}: it was damaged; take it again, and look at the member it came from if that repeats`,
      );
    }
    summary = { sizeBytes: size, sha256: hash.update(tail).digest('hex') };
    yield held;
  }

  return {
    bytes: bytes(),
    summary: () => {
      if (summary === undefined) throw new Error('the database was not read to its end');
      return summary;
    },
  };
};
