import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { DatabaseDamaged, verifiedDatabase } from './verified-database.ts';

const withDigest = (database: Uint8Array): Buffer =>
  Buffer.concat([database, createHash('sha256').update(database).digest()]);

async function* cut(bytes: Uint8Array, lengths: readonly number[]): AsyncGenerator<Uint8Array> {
  let at = 0;
  for (const length of lengths) {
    if (at >= bytes.length) return;
    yield bytes.subarray(at, at + length);
    at += length;
  }
  if (at < bytes.length) yield bytes.subarray(at);
}

const collect = async (bytes: AsyncIterable<Uint8Array>): Promise<Buffer> =>
  Buffer.concat(await Array.fromAsync(bytes));

describe('a database on its way from etcd to a store', () => {
  test('comes through as it was sent, however it is cut, with the digest of the whole', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 6 }),
        fc.array(fc.integer({ min: 0, max: 700 }), { maxLength: 12 }),
        async (pages, lengths) => {
          const sent = withDigest(randomBytes(pages * 512));
          const stream = verifiedDatabase(cut(sent, lengths));
          assert.ok(sent.equals(await collect(stream.bytes)));
          assert.deepEqual(stream.summary(), {
            sizeBytes: BigInt(sent.length),
            sha256: createHash('sha256').update(sent).digest('hex'),
          });
        },
      ),
    );
  });

  test('with any one bit changed fails before its last chunk is passed on', async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 0, max: 1024 + 31 }), fc.integer({ min: 0, max: 7 }), async (at, bit) => {
        const sent = withDigest(randomBytes(1024));
        sent[at] = (sent[at] ?? 0) ^ (1 << bit);
        const passed: Uint8Array[] = [];
        await assert.rejects(async () => {
          for await (const bytes of verifiedDatabase(cut(sent, [400, 400])).bytes) passed.push(bytes);
        }, DatabaseDamaged);
        assert.equal(Buffer.concat(passed).length, 800, 'the last chunk is held back');
      }),
      { numRuns: 50 },
    );
  });

  test('that ends early fails, at a page boundary too', async () => {
    const sent = withDigest(randomBytes(2048));
    for (const length of [0, 20, 32, 512, 1024, 2048, 512 + 32, 2048 + 31]) {
      await assert.rejects(collect(verifiedDatabase(cut(sent.subarray(0, length), [])).bytes), DatabaseDamaged);
    }
  });

  test('has no summary before its end, since half a digest would look like one', async () => {
    const stream = verifiedDatabase(cut(withDigest(randomBytes(1024)), [100, 100]));
    for await (const _ of stream.bytes) break;
    assert.throws(() => stream.summary(), /not read to its end/);
  });
});
