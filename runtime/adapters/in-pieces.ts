/** A stream of bytes, gathered into few buffers that are used again and again. */

export type Piece = {
  /** Overwritten when the piece that is as many further on as there are buffers is asked for. */
  readonly bytes: Uint8Array;
  readonly last: boolean;
};

/**
 * Pieces of exactly `size` bytes, the last one as long or shorter, and empty only where the stream is. That one is the last is
 * known before it is passed on.
 *
 * The chunks of a stream come from elsewhere and are too many to be kept: whoever holds those of a whole part makes Node's
 * memory grow by a multiple of it, since it frees late what has lived a while, and pays for fresh memory about as much as for
 * a hash of it. Copied they are garbage at once.
 * @param buffers how many pieces may be in use at a time, the one that is being gathered included
 */
export async function* inPieces(
  stream: AsyncIterable<Uint8Array>,
  size: number,
  buffers: number,
): AsyncGenerator<Piece, void, undefined> {
  // Made when they are first needed: most databases are smaller than all of them together.
  const made: Uint8Array[] = [];
  const buffer = (number: number): Uint8Array => (made[number % buffers] ??= Buffer.allocUnsafeSlow(size));
  let number = 0;
  let filling = buffer(number);
  let filled = 0;
  for await (const chunk of stream) {
    for (let from = 0; from < chunk.length; ) {
      // Only with more at hand is it known that a full one is not the last.
      if (filled === size) {
        yield { bytes: filling, last: false };
        filling = buffer(++number);
        filled = 0;
      }
      const part = chunk.subarray(from, from + size - filled);
      filling.set(part, filled);
      filled += part.length;
      from += part.length;
    }
  }
  yield { bytes: filling.subarray(0, filled), last: true };
}
