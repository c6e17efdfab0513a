import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { inPieces } from './in-pieces.ts';

async function* streamOf(chunks: readonly Uint8Array[]): AsyncGenerator<Uint8Array> {
  yield* chunks;
}

describe('the pieces of a stream', () => {
  test('hold its bytes in their order, each of one size but the last, which alone is marked', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.uint8Array({ maxLength: 20 })),
        fc.integer({ min: 1, max: 16 }),
        fc.integer({ min: 1, max: 3 }),
        async (chunks, size, buffers) => {
          const seen: { readonly bytes: Buffer; readonly last: boolean }[] = [];
          for await (const { bytes, last } of inPieces(streamOf(chunks), size, buffers)) {
            seen.push({ bytes: Buffer.from(bytes), last });
          }
          assert.ok(Buffer.concat(chunks).equals(Buffer.concat(seen.map(({ bytes }) => bytes))));
          assert.deepEqual(
            seen.map(({ last }) => last),
            seen.map((_, n) => n === seen.length - 1),
          );
          for (const { bytes, last } of seen) assert.ok(last ? bytes.length <= size : bytes.length === size);
          assert.ok(seen.length === 1 || (seen.at(-1)?.bytes.length ?? 0) > 0, 'empty only where the stream is');
        },
      ),
    );
  });

  test('stay what they are while as many others as there are buffers are not asked for', async () => {
    const pieces = inPieces(streamOf([Buffer.from('aabbccdd')]), 2, 3);
    const next = async (): Promise<Uint8Array> => {
      const { value } = await pieces.next();
      assert.ok(value);
      return value.bytes;
    };
    const [a, b, c] = [await next(), await next(), await next()];
    assert.deepEqual([a, b, c].map(String), [Buffer.from('aa'), Buffer.from('bb'), Buffer.from('cc')].map(String));
    const d = await next();
    assert.equal(d.buffer, a.buffer, 'the fourth lies where the first one was: memory does not grow with the stream');
    assert.equal(Buffer.from(b).toString(), 'bb');
  });

  test('end the stream when their reader leaves', async () => {
    let ended = false;
    async function* stream(): AsyncGenerator<Uint8Array> {
      try {
        for (;;) yield Buffer.alloc(10);
      } finally {
        ended = true;
      }
    }
    for await (const { last } of inPieces(stream(), 4, 1)) {
      assert.equal(last, false);
      break;
    }
    assert.ok(ended);
  });
});
