/** Bytes on their way, counted and hashed. */
import { createHash } from 'node:crypto';

export type Digested = {
  readonly bytes: AsyncIterable<Uint8Array>;
  /** Once {@link bytes} was read to its end. */
  summary(): { readonly sizeBytes: bigint /** Lower-case hexadecimal. */; readonly sha256: string };
};

export const digested = (chunks: AsyncIterable<Uint8Array>): Digested => {
  const hash = createHash('sha256');
  let size = 0n;
  let ended = false;
  async function* bytes(): AsyncGenerator<Uint8Array, void, undefined> {
    for await (const chunk of chunks) {
      hash.update(chunk);
      size += BigInt(chunk.length);
      yield chunk;
    }
    ended = true;
  }
  return {
    bytes: bytes(),
    summary: () => {
      if (!ended) throw new Error('the stream was not read to its end');
      return { sizeBytes: size, sha256: hash.copy().digest('hex') };
    },
  };
};
