import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { EtcdSnapshot } from '../../../api/etcdsnapshot.gen.ts';
import { byRevision, knownSnapshot } from './known-snapshots.ts';

const snapshot = (
  name: string,
  status: EtcdSnapshot['status'] | undefined,
  destination: EtcdSnapshot['spec']['destination'] = { pvc: { claimName: 'backups', subPath: 'etcd' } },
): EtcdSnapshot => ({
  apiVersion: 'etcd-operator.cozystack.io/v1alpha2',
  kind: 'EtcdSnapshot',
  metadata: { name, namespace: 'team-a' },
  spec: { clusterRef: { name: 'demo' }, destination },
  ...(status === undefined ? {} : { status }),
});
const complete = {
  phase: 'Complete',
  artifact: { uri: 'pvc://backups/etcd/team-a/demo/nightly-1234abcd.db', checksum: `sha256:${'a'.repeat(64)}` },
  revision: '55',
  startTime: '2026-11-30T02:00:00.000Z',
  completionTime: '2026-11-30T02:00:09.000Z',
  etcdVersion: '3.6.16',
  clusterID: 'cdf8',
} as const;

describe('a stored snapshot', () => {
  test('is known with the exact place that it was stored at, which its destination only begins', () => {
    assert.deepEqual(knownSnapshot(snapshot('nightly', complete)), {
      name: 'nightly',
      uri: complete.artifact.uri,
      location: { pvc: { claimName: 'backups', subPath: 'etcd/team-a/demo/nightly-1234abcd.db' } },
      revision: 55n,
      takenAt: complete.startTime,
      clusterID: 'cdf8',
      etcdVersion: '3.6.16',
      sha256: 'a'.repeat(64),
    });
    const s3 = { endpoint: 'https://s3', bucket: 'b', credentialsSecretRef: { name: 'keys' } };
    const encryption = { keySecretRef: { name: 'snapshot-keys' } };
    const stored = { ...complete, artifact: { uri: 's3://b/team-a/demo/x.db' } };
    assert.deepEqual(knownSnapshot(snapshot('x', stored, { s3, encryption }))?.location, {
      s3: { ...s3, key: 'team-a/demo/x.db' },
      encryption,
    });
  });

  test('is none before its manifest was written, without a revision, and where it lies elsewhere than it was to', () => {
    const { revision: _, ...unnumbered } = complete;
    for (const status of [
      undefined,
      { ...complete, phase: 'Started' as const },
      { ...complete, phase: 'Failed' as const },
      unnumbered,
      { ...complete, artifact: { uri: 'pvc://another/etcd/x.db' } },
      { ...complete, artifact: { uri: 'pvc://backups/' } },
    ]) {
      assert.equal(knownSnapshot(snapshot('nightly', status)), undefined, JSON.stringify(status));
    }
  });

  test('that goes further comes first, and among equals the one that was taken last', () => {
    const of = (name: string, revision: string, startTime: string) =>
      knownSnapshot(snapshot(name, { ...complete, revision, startTime })) ?? assert.fail(name);
    const sorted = [
      of('old', '9', '2026-11-30T04:00:00Z'),
      of('further', '10', '2026-11-30T03:00:00Z'),
      of('again', '10', '2026-11-30T05:00:00Z'),
    ].toSorted(byRevision);
    assert.deepEqual(
      sorted.map(({ name }) => name),
      ['again', 'further', 'old'],
    );
  });
});
