import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { artifactKey, ManifestUnreadable, manifestText, parseManifest, type SnapshotManifest } from './manifest.ts';

const manifest: SnapshotManifest = {
  format: 1,
  snapshotUID: '5d8f7c5e-0000-4000-8000-000000000001',
  snapshot: 'nightly-1',
  schedule: 'nightly',
  namespace: 'shop',
  cluster: 'orders',
  clusterUID: '5d8f7c5e-0000-4000-8000-000000000002',
  clusterID: 'cdf818194e3a8c32',
  member: 'orders-1',
  memberID: '8e9e05c52164694d',
  etcdVersion: '3.6.16',
  revision: '9007199254740993',
  sizeBytes: '20512',
  sha256: 'a'.repeat(64),
  hashKv: { hash: 4294967295, compactRevision: '-1' },
  keys: '9007199254740994',
  takenAt: '2026-11-30T12:00:00.000Z',
};

/** Absent from manifests of older versions, of snapshots that no schedule made, and where etcd did not tell. */
const OPTIONAL = ['hashKv', 'schedule', 'keys'];

describe('a manifest', () => {
  test('is read as it was written, revisions beyond 2^53 too', () => {
    assert.deepEqual(parseManifest(manifestText(manifest)), manifest);
  });

  test('that lacks anything it promises is no manifest', () => {
    for (const field of Object.keys(manifest).filter((one) => !OPTIONAL.includes(one))) {
      const { [field as keyof SnapshotManifest]: _, ...rest } = manifest;
      assert.throws(() => parseManifest(JSON.stringify(rest)), new RegExp(field), field);
    }
    const without = Object.fromEntries(Object.entries(manifest).filter(([field]) => !OPTIONAL.includes(field)));
    assert.deepEqual(parseManifest(JSON.stringify(without)), without);
    assert.throws(() => parseManifest(JSON.stringify({ ...manifest, keys: 3 })), /keys/);
  });

  test('cut short, of another kind or of a newer format says so', () => {
    assert.throws(() => parseManifest(manifestText(manifest).slice(0, 80)), ManifestUnreadable);
    assert.throws(() => parseManifest('[]'), /no usable format/);
    assert.throws(() => parseManifest(JSON.stringify({ ...manifest, format: 2 })), /a newer operator wrote it/);
  });
});

describe('the key of a snapshot', () => {
  const of = { namespace: 'shop', cluster: 'orders', snapshot: 'nightly', snapshotUID: manifest.snapshotUID };

  test('lies below the prefix, whether or not that ends in a slash', () => {
    const key = 'backups/etcd/shop/orders/nightly-5d8f7c5e.db';
    for (const prefix of ['backups/etcd', 'backups/etcd/', '/backups/etcd']) assert.equal(artifactKey(prefix, of), key);
    assert.equal(artifactKey(undefined, of), 'shop/orders/nightly-5d8f7c5e.db');
    assert.equal(artifactKey('', of), 'shop/orders/nightly-5d8f7c5e.db');
  });

  test('differs for two snapshots of one name: one that was deleted and made again overwrites nothing', () => {
    assert.notEqual(artifactKey('x', of), artifactKey('x', { ...of, snapshotUID: 'ffffffff-0000' }));
  });
});
