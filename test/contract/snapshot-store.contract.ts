/** What every snapshot store promises, asked of each kind alike. */
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { describe, test } from 'node:test';
import { type SnapshotStore, StoreFault, type StoreFaultReason } from '../../runtime/ports/snapshot-store.ts';

const MIB = 1024 * 1024;

async function* inChunks(bytes: Uint8Array, size = 300_000): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

const digest = async (bytes: AsyncIterable<Uint8Array>): Promise<string> => {
  const hash = createHash('sha256');
  for await (const chunk of bytes) hash.update(chunk);
  return hash.digest('hex');
};

const fails = (work: Promise<unknown>, reason: StoreFaultReason): Promise<void> =>
  assert.rejects(work, (error) => error instanceof StoreFault && error.reason === reason);

export const storeContract = (name: string, open: () => Promise<SnapshotStore>): void => {
  describe(`snapshot store: ${name}`, () => {
    const folder = `contract-${randomBytes(4).toString('hex')}/`;
    const key = (name_: string): string => `${folder}${name_}`;

    test('what was stored is read back whole, in several parts too', async () => {
      const store = await open();
      for (const size of [0, 1, 100_000, 20 * MIB + 17]) {
        const bytes = randomBytes(size);
        await store.put(key(`whole-${size}`), inChunks(bytes), { owner: 'a' });
        assert.equal(
          await digest(store.read(key(`whole-${size}`))),
          createHash('sha256').update(bytes).digest('hex'),
          `${size} bytes`,
        );
        const found = await store.find(key(`whole-${size}`));
        assert.deepEqual([found?.sizeBytes, found?.owner], [BigInt(size), 'a']);
      }
      store.close();
    });

    test('a body that fails leaves nothing behind, and its own error comes through', async () => {
      const store = await open();
      for (const size of [1_000, 20 * MIB]) {
        async function* failing(): AsyncGenerator<Uint8Array> {
          yield* inChunks(randomBytes(size));
          throw new TypeError('the database is damaged');
        }
        await assert.rejects(store.put(key(`failing-${size}`), failing(), { owner: 'a' }), TypeError);
        assert.equal(await store.find(key(`failing-${size}`)), undefined, `${size} bytes`);
      }
      assert.deepEqual(
        (await Array.fromAsync(store.list(key('failing')))).map((object) => object.key),
        [],
      );
      store.close();
    });

    test('a failing body leaves what stood there before', async () => {
      const store = await open();
      await store.put(key('kept'), inChunks(Buffer.from('first')), { owner: 'a' });
      async function* failing(): AsyncGenerator<Uint8Array> {
        yield Buffer.from('sec');
        throw new TypeError('broken');
      }
      await assert.rejects(store.put(key('kept'), failing(), { owner: 'a' }), TypeError);
      assert.equal(Buffer.concat(await Array.fromAsync(store.read(key('kept')))).toString(), 'first');
      store.close();
    });

    test('only its owner may overwrite an object', async () => {
      const store = await open();
      await store.put(key('owned'), inChunks(Buffer.from('one')), { owner: 'a' });
      await store.put(key('owned'), inChunks(Buffer.from('two')), { owner: 'a' });
      await fails(store.put(key('owned'), inChunks(Buffer.from('three')), { owner: 'b' }), 'TakenByOther');
      assert.equal(Buffer.concat(await Array.fromAsync(store.read(key('owned')))).toString(), 'two');
      store.close();
    });

    test('what is not there is told apart from trouble', async () => {
      const store = await open();
      assert.equal(await store.find(key('absent')), undefined);
      await fails(digest(store.read(key('absent'))), 'NotFound');
      await store.remove(key('absent'));
      assert.deepEqual(await Array.fromAsync(store.list(key('absent/'))), []);
      store.close();
    });

    test('a listing holds what lies below the prefix and nothing else, until it is removed', async () => {
      const store = await open();
      for (const one of ['list/a/1.db', 'list/a/2.db', 'list/b/1.db']) {
        await store.put(key(one), inChunks(Buffer.from(one)), { owner: 'a' });
      }
      const listed = async (prefix: string): Promise<string[]> =>
        (await Array.fromAsync(store.list(key(prefix)))).map((object) => object.key.slice(folder.length)).sort();
      assert.deepEqual(await listed('list/a/'), ['list/a/1.db', 'list/a/2.db']);
      await store.remove(key('list/a/1.db'));
      assert.deepEqual(await listed('list/a/'), ['list/a/2.db']);
      assert.deepEqual(await listed('list/'), ['list/a/2.db', 'list/b/1.db']);
      store.close();
    });

    test('an aborted upload ends soon and leaves nothing', async () => {
      const store = await open();
      const ending = new AbortController();
      async function* endless(): AsyncGenerator<Uint8Array> {
        for (let sent = 0; ; sent += 1) {
          if (sent === 20) ending.abort(new Error('enough'));
          yield randomBytes(MIB);
        }
      }
      await assert.rejects(store.put(key('aborted'), endless(), { owner: 'a' }, { signal: ending.signal }));
      assert.equal(await store.find(key('aborted')), undefined);
      store.close();
    });
  });
};
