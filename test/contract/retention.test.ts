/** Retention on the real stores: what it should remove is gone, what is anybody else's is there byte for byte. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { createFileStore } from '../../runtime/adapters/files/file-store.ts';
import { applyRetention, type RetentionOrder } from '../../runtime/agent/apply-retention.ts';
import {
  artifactKey,
  manifestKey,
  manifestText,
  type SnapshotManifest,
} from '../../runtime/core/snapshots/manifest.ts';
import { type SnapshotStore, StoreFault } from '../../runtime/ports/snapshot-store.ts';
import { connect } from '../cluster/cluster.ts';
import { bucketIn } from '../e2e/bucket.ts';

const HOUR = 3_600_000;
const now = Date.parse('2026-11-30T12:00:00Z');

async function* one(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text);
}

const retentionOn = (name: string, open: () => Promise<SnapshotStore>): void => {
  describe(`retention on ${name}`, () => {
    /** A prefix of its own for each test, as two teams would share a bucket. */
    const begin = async () => {
      const store = await open();
      const prefix = `retention-${randomBytes(4).toString('hex')}`;
      const order: RetentionOrder = {
        schedule: 'nightly',
        clusterUID: 'c1',
        namespace: 'shop',
        cluster: 'orders',
        prefix,
        rules: {},
      };
      const snapshot = async (hoursAgo: number, change: Partial<SnapshotManifest> = {}): Promise<string> => {
        const snapshotUID = `${randomBytes(4).toString('hex')}-0000`;
        const of = { namespace: 'shop', cluster: 'orders', snapshot: `nightly-${hoursAgo}`, ...change, snapshotUID };
        const key = artifactKey(prefix, of);
        const manifest: SnapshotManifest = {
          format: 1,
          schedule: 'nightly',
          clusterUID: 'c1',
          clusterID: 'cdf8',
          member: 'orders-0',
          memberID: '8e9e',
          etcdVersion: '3.6.16',
          revision: '7',
          sizeBytes: '100',
          sha256: 'a'.repeat(64),
          takenAt: new Date(now - hoursAgo * HOUR).toISOString(),
          ...of,
        };
        await store.put(key, one('x'.repeat(100)), { owner: snapshotUID });
        await store.put(manifestKey(key), one(manifestText(manifest)), { owner: snapshotUID });
        return key;
      };
      const keys = async (): Promise<string[]> => {
        const found: string[] = [];
        for await (const { key } of store.list(`${prefix}/`)) found.push(key);
        return found.sort();
      };
      return { store, prefix, order, snapshot, keys };
    };
    const pairs = (keys: readonly string[]): string[] => keys.flatMap((key) => [key, manifestKey(key)]).sort();

    test('removes the database and the manifest of what no rule keeps, and no other object beside them', async () => {
      const { store, prefix, order, snapshot, keys } = await begin();
      const own = [await snapshot(1), await snapshot(2), await snapshot(3), await snapshot(4)];
      const foreign = [
        await snapshot(50, { schedule: 'weekly' }),
        await snapshot(51, { clusterUID: 'an-earlier-cluster-of-this-name' }),
        await snapshot(52, { cluster: 'invoices' }),
        await snapshot(53, { namespace: 'shop-of-others' }),
      ];
      const byHand = await snapshot(54);
      const { schedule: _, ...asked } = JSON.parse(
        Buffer.concat(await Array.fromAsync(store.read(manifestKey(byHand)))).toString(),
      );
      await store.remove(manifestKey(byHand));
      await store.put(manifestKey(byHand), one(JSON.stringify(asked)), { owner: 'somebody' });
      const strays = [
        'README.txt',
        'shop/orders/notes.db',
        'shop/orders/broken.db.manifest.json',
        'shop/orders/.manifest.json',
      ];
      for (const stray of strays) await store.put(`${prefix}/${stray}`, one('{"format":1}'), { owner: 'somebody' });

      const outcome = await applyRetention({ ...order, rules: { keepLast: 2 } }, store, now);
      assert.deepEqual(outcome.removed, ['nightly-3', 'nightly-4']);
      assert.deepEqual([outcome.count, outcome.sizeBytes], [2, 200n]);
      const left = [...pairs([...own.slice(0, 2), ...foreign, byHand]), ...strays.map((stray) => `${prefix}/${stray}`)];
      assert.deepEqual(await keys(), left.sort());
      store.close();
    });

    test('that breaks off in the middle of one removes the rest of it the next time, and no other in its place', async () => {
      const { store, order, snapshot, keys } = await begin();
      const [newest] = [await snapshot(1), await snapshot(2), await snapshot(3)];
      const rules = { keepLast: 1 };
      let removals = 0;
      const breaking: SnapshotStore = {
        ...store,
        remove: async (key, call) => {
          removals += 1;
          if (removals === 2) throw new StoreFault('Unavailable', 'remove', '503');
          await store.remove(key, call);
        },
      };
      const broken = await applyRetention({ ...order, rules }, breaking, now);
      assert.match(broken.error?.message ?? '', /503/);
      assert.deepEqual(broken.removed, ['nightly-3'], 'its data is gone, and so its record may go');
      const { removed } = await applyRetention({ ...order, rules }, store, now);
      assert.deepEqual(removed, ['nightly-2', 'nightly-3']);
      assert.deepEqual(await keys(), pairs([newest ?? '']));
      store.close();
    });

    test('removes nothing while there is no whole snapshot, and nothing that a clock set back makes the future', async () => {
      const { store, order, snapshot, keys } = await begin();
      const first = await snapshot(30);
      await store.remove(first);
      const rules = { keepLast: 1, maxAgeMs: HOUR };
      assert.deepEqual((await applyRetention({ ...order, rules }, store, now)).removed, []);
      const [ahead, later] = [await snapshot(-40), await snapshot(-41)];
      const { removed } = await applyRetention({ ...order, rules: { maxAgeMs: HOUR } }, store, now);
      assert.deepEqual(removed, ['nightly-30'], 'a manifest without its database');
      assert.deepEqual(await keys(), pairs([ahead, later]));
      store.close();
    });
  });
};

const volume = await mkdtemp(join(tmpdir(), 'retention-'));
after(() => rm(volume, { recursive: true, force: true }));
retentionOn('a volume', async () => createFileStore({ root: volume, name: 'backups' }));

const bucket = await bucketIn(await connect({ addons: ['s3'], progress: () => undefined }), 'contract');
retentionOn('S3', async () => bucket.open());
