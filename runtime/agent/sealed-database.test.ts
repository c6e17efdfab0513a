import assert from 'node:assert/strict';
import { createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { KeyMissing, NotSealed, SealBroken, sealed, unsealed } from './sealed-database.ts';
import { type SnapshotKey, type SnapshotKeys, snapshotKey } from './snapshot-keys.ts';

const MIB = 1024 * 1024;
const SEALED_CHUNK = MIB + 16;
const newKey = (): SnapshotKey => snapshotKey('key', randomBytes(32).toString('base64'));
const ring = (...keys: readonly SnapshotKey[]): SnapshotKeys => ({
  current: keys[0] as SnapshotKey,
  ids: keys.map(({ id }) => id),
  find: (id) => keys.find((key) => key.id === id),
});
const key = newKey();
const name = 'nightly-5d8f7c5e.db';

async function* cut(bytes: Uint8Array, sizes: readonly number[]): AsyncGenerator<Uint8Array> {
  let at = 0;
  for (let n = 0; at < bytes.length; n += 1) {
    const size = sizes[n % sizes.length] ?? bytes.length;
    yield bytes.subarray(at, at + size);
    at += size;
  }
}
const whole = async (chunks: AsyncIterable<Uint8Array>): Promise<Buffer> =>
  Buffer.concat(await Array.fromAsync(chunks));
const seal = (bytes: Uint8Array, sizes: readonly number[] = [32_768]): Promise<Buffer> =>
  whole(sealed(cut(bytes, sizes), { key, name }));
const open = (
  bytes: Uint8Array,
  options: Parameters<typeof unsealed>[1] = { keys: ring(key), name },
  sizes: readonly number[] = [65_536],
): Promise<Buffer> => whole(unsealed(cut(bytes, sizes), options));
const headerEnd = (bytes: Buffer): number => bytes.indexOf('\n', bytes.indexOf('\n') + 1) + 1;

describe('an encrypted database', () => {
  test('comes back as it was, whatever its size and however it is cut on the way', async () => {
    for (const size of [0, 1, 1_000, MIB - 1, MIB, MIB + 1, 2 * MIB, 3 * MIB + 17]) {
      const bytes = randomBytes(size);
      const stored = await seal(bytes, [99_991]);
      assert.ok(bytes.equals(await open(stored)), `${size} bytes`);
      assert.ok(bytes.equals(await open(stored, { keys: ring(key), name }, [1_300_001, 7])), `${size} bytes`);
    }
    // The header byte by byte.
    assert.equal((await open(await seal(Buffer.from('small')), undefined, [1])).toString(), 'small');
  });

  test('is never the same twice, since each has a key of its own', async () => {
    const bytes = Buffer.alloc(100);
    const [one, other] = [await seal(bytes), await seal(bytes)];
    assert.ok(!one.subarray(headerEnd(one)).equals(other.subarray(headerEnd(other))));
    assert.equal(one.indexOf(bytes), -1);
  });

  test('is what the format says, so that others can read it', async () => {
    const stored = await seal(Buffer.from('the database'));
    const end = headerEnd(stored);
    const [magic, line] = stored.toString('utf8', 0, end).split('\n');
    const { keyID, salt } = JSON.parse(line ?? '') as { keyID: string; salt: string };
    assert.equal(magic, 'etcd-operator.cozystack.io/sealed/v1');
    assert.equal(keyID, key.id);
    const own = hkdfSync('sha256', key.secret, Buffer.from(salt, 'base64'), stored.subarray(0, end), 32);
    const cipher = createDecipheriv('aes-256-gcm', Buffer.from(own), Buffer.from('000000000000000000000001', 'hex'));
    cipher.setAuthTag(stored.subarray(-16));
    assert.equal(cipher.update(stored.subarray(end, -16)).toString(), 'the database');
    cipher.final();
  });

  test('with any one bit changed is refused, header included', async () => {
    const stored = await seal(randomBytes(300));
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 0, max: stored.length - 1 }),
        fc.integer({ min: 0, max: 7 }),
        async (at, bit) => {
          const altered = Buffer.from(stored);
          altered[at] = (altered[at] ?? 0) ^ (1 << bit);
          await assert.rejects(
            open(altered),
            (error) => error instanceof SealBroken || error instanceof NotSealed || error instanceof KeyMissing,
          );
        },
      ),
      { numRuns: 300 },
    );
  });

  test('that was cut anywhere is refused, between two chunks too', async () => {
    const stored = await seal(randomBytes(2 * MIB + 100));
    const end = headerEnd(stored);
    for (const length of [
      end,
      end + 10,
      end + SEALED_CHUNK - 1,
      end + SEALED_CHUNK,
      end + 2 * SEALED_CHUNK,
      end + 2 * SEALED_CHUNK + 20,
      stored.length - 1,
    ]) {
      await assert.rejects(open(stored.subarray(0, length)), SealBroken, `${length} bytes`);
    }
    await assert.rejects(open(stored.subarray(0, end - 5)), /within its header/);
  });

  test('with chunks exchanged, repeated, left out or added is refused', async () => {
    const stored = await seal(randomBytes(3 * MIB));
    const end = headerEnd(stored);
    const header = stored.subarray(0, end);
    const chunk = (n: number): Buffer => stored.subarray(end + n * SEALED_CHUNK, end + (n + 1) * SEALED_CHUNK);
    const [a, b, c] = [chunk(0), chunk(1), chunk(2)];
    assert.equal((await open(Buffer.concat([header, a, b, c]))).length, 3 * MIB);
    for (const order of [[b, a, c], [a, a, b, c], [a, c], [c], [a, b], [a, b, c, c], [a, b, c, Buffer.alloc(16)]]) {
      await assert.rejects(open(Buffer.concat([header, ...order])), SealBroken);
    }
  });

  test('is not made of the chunks of two, nor taken for another', async () => {
    const [one, other] = [await seal(randomBytes(MIB + 5)), await seal(randomBytes(MIB + 5))];
    const mixed = Buffer.concat([one.subarray(0, headerEnd(one)), other.subarray(headerEnd(other))]);
    await assert.rejects(open(mixed), SealBroken);
    await assert.rejects(open(one, { keys: ring(key), name: 'hourly-11112222.db' }), /exchanged or renamed/);
    assert.equal((await open(one, { keys: ring(key) })).length, MIB + 5, 'a person may have renamed a copy');
  });

  test('is opened by whichever key it names, and says which one is missing', async () => {
    const stored = await seal(Buffer.from('old'));
    const next = newKey();
    assert.equal((await open(stored, { keys: ring(next, key), name })).toString(), 'old');
    await assert.rejects(
      open(stored, { keys: ring(next), name }),
      (error) =>
        error instanceof KeyMissing &&
        error.message.includes(key.id) &&
        error.message.includes(next.id) &&
        !error.message.includes(Buffer.from(key.secret).toString('base64')),
    );
  });

  test('is told from one that is not encrypted', async () => {
    await assert.rejects(open(randomBytes(4_096)), NotSealed);
    for (const bytes of [Buffer.alloc(0), Buffer.from('etcd-op')]) {
      await assert.rejects(open(bytes), (error) => error instanceof SealBroken && /too short/.test(error.message));
    }
    const endless = Buffer.concat([Buffer.from('etcd-operator.cozystack.io/sealed/v1\n'), Buffer.alloc(10_000, 'x')]);
    await assert.rejects(open(endless), /no end/);
  });

  test('whose source fails, fails with that error and ends the source', async () => {
    let ended = false;
    async function* failing(): AsyncGenerator<Uint8Array> {
      try {
        yield randomBytes(MIB + 1);
        throw new TypeError('the database is damaged');
      } finally {
        ended = true;
      }
    }
    await assert.rejects(whole(sealed(failing(), { key, name })), TypeError);
    assert.ok(ended);
    ended = false;
    await assert.rejects(whole(unsealed(failing(), { keys: ring(key) })), NotSealed);
    assert.ok(ended, 'a transfer that nobody reads on is ended');
    ended = false;
    async function* foreign(): AsyncGenerator<Uint8Array> {
      try {
        yield await seal(Buffer.from('x'));
        yield Buffer.alloc(1);
      } finally {
        ended = true;
      }
    }
    await assert.rejects(whole(unsealed(foreign(), { keys: ring(newKey()) })), KeyMissing);
    assert.ok(ended, 'the key is known to be missing before the rest has come');
  });
});
