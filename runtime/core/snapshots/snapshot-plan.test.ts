import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { known, unknown } from '../observed.ts';
import type { SnapshotManifest } from './manifest.ts';
import { planSnapshot, type SeenCluster, type SeenJob, type SnapshotObserved } from './snapshot-plan.ts';

const now = Date.parse('2026-11-30T12:00:30Z');
const manifest: SnapshotManifest = {
  format: 1,
  snapshotUID: 'u1',
  snapshot: 'nightly',
  namespace: 'shop',
  cluster: 'orders',
  clusterUID: 'c1',
  clusterID: 'cdf818194e3a8c32',
  member: 'orders-1',
  memberID: '8e9e05c52164694d',
  etcdVersion: '3.6.16',
  revision: '42',
  sizeBytes: '20512',
  sha256: 'a'.repeat(64),
  takenAt: '2026-11-30T12:00:12.000Z',
};
const cluster: SeenCluster = {
  clusterUID: 'c1',
  clusterID: 'cdf818194e3a8c32',
  paused: false,
  deleting: false,
  sources: [{ member: 'orders-0', url: 'http://orders-0-abcde.orders.shop.svc:2379' }],
  access: {},
};
const job = (change: Partial<SeenJob> = {}): SeenJob => ({
  uid: 'j1',
  deleting: false,
  createdAt: Date.parse('2026-11-30T12:00:00Z'),
  state: 'running',
  message: undefined,
  report: unknown('its Pod is gone'),
  waiting: undefined,
  lost: undefined,
  ...change,
});
const seen = (change: Partial<SnapshotObserved> = {}): SnapshotObserved => ({
  now,
  name: 'nightly',
  uid: 'u1',
  generation: 1,
  deleting: false,
  spec: {
    clusterRef: { name: 'orders' },
    destination: { s3: { endpoint: 'http://s3', bucket: 'b', credentialsSecretRef: { name: 's' } } },
  },
  status: {},
  cluster,
  job: undefined,
  progress: undefined,
  agentImage: 'agent:1',
  ...change,
});
const stored = { done: true as const, uri: 's3://b/k.db', key: 'k.db', manifest };
const reasonOf = (observed: SnapshotObserved): string | undefined =>
  planSnapshot(observed).status?.conditions?.[0]?.reason;

describe('an EtcdSnapshot', () => {
  test('gets a Job that asks the members which serve', () => {
    assert.deepEqual(planSnapshot(seen()).step, {
      do: 'CreateJob',
      sources: cluster.sources,
      clusterID: cluster.clusterID,
      clusterUID: 'c1',
      access: {},
    });
  });

  test('waits, and says for what, while it cannot be taken', () => {
    const waiting: [Partial<SnapshotObserved>, string][] = [
      [{ cluster: undefined }, 'ClusterNotFound'],
      [{ cluster: { ...cluster, deleting: true } }, 'ClusterNotFound'],
      [{ cluster: { ...cluster, paused: true } }, 'ClusterPaused'],
      [{ cluster: { ...cluster, clusterID: undefined } }, 'NoSnapshotSource'],
      [{ cluster: { ...cluster, sources: [] } }, 'NoSnapshotSource'],
      [{ agentImage: undefined }, 'AgentImageUnknown'],
    ];
    for (const [change, reason] of waiting) {
      const { step, status } = planSnapshot(seen(change));
      assert.equal(step.do, 'Wait', reason);
      assert.deepEqual([status?.phase, status?.conditions?.[0]?.reason], ['Pending', reason]);
    }
  });

  test('is complete only by a manifest, with what that says', () => {
    const { step, status } = planSnapshot(
      seen({
        job: job({ state: 'complete', report: known(stored) }),
        status: { phase: 'Started', startTime: '2026-11-30T12:00:00.000Z', progress: { bytes: 1 } },
      }),
    );
    assert.equal(step.do, 'Nothing');
    assert.deepEqual(
      { ...status, conditions: undefined },
      {
        phase: 'Complete',
        startTime: '2026-11-30T12:00:00.000Z',
        artifact: { uri: 's3://b/k.db', sizeBytes: 20512, checksum: `sha256:${'a'.repeat(64)}` },
        revision: '42',
        etcdVersion: '3.6.16',
        clusterID: 'cdf818194e3a8c32',
        member: 'orders-1',
        memberID: '8e9e05c52164694d',
        completionTime: '2026-11-30T12:00:12.000Z',
        duration: '12s',
        observedGeneration: 1,
        conditions: undefined,
      },
    );
    assert.equal(status?.conditions?.[0]?.status, 'True');
  });

  test('whose Job ended well but whose report is gone is not called complete, and another Job is asked', () => {
    const { step, status } = planSnapshot(seen({ job: job({ state: 'complete' }) }));
    assert.deepEqual(step, { do: 'DeleteJob', uid: 'j1' });
    assert.equal(status?.phase, undefined);
  });

  test('whose Job was deleted by somebody gets another: it finds what the first one stored', () => {
    assert.equal(planSnapshot(seen({ status: { phase: 'Started' } })).step.do, 'CreateJob');
    assert.equal(planSnapshot(seen({ job: job({ deleting: true }) })).step.do, 'Wait');
  });

  test('fails with the reason that the store or the member gave', () => {
    const failing: [string, string][] = [
      ['AccessDenied', 'StoreAccessDenied'],
      ['BucketMissing', 'StoreMissing'],
      ['Full', 'StoreFull'],
      ['DatabaseDamaged', 'SnapshotDamaged'],
      ['NoSource', 'NoSnapshotSource'],
      ['TypeError', 'SnapshotFailed'],
    ];
    for (const [reason, expected] of failing) {
      const observed = seen({
        job: job({ state: 'failed', report: known({ done: false, reason, message: 'words' }) }),
      });
      const { step, status } = planSnapshot(observed);
      assert.equal(step.do, 'Nothing');
      assert.deepEqual([status?.phase, status?.conditions?.[0]?.reason], ['Failed', expected]);
      assert.equal(status?.conditions?.[0]?.message, 'words');
    }
    assert.equal(reasonOf(seen({ job: job({ state: 'failed', message: 'DeadlineExceeded' }) })), 'SnapshotFailed');
  });

  test('that runs shows its progress, the last failure, and why its Pod does not start', () => {
    const { status } = planSnapshot(seen({ job: job(), progress: { bytes: 3_000n, expected: 9_000n } }));
    assert.deepEqual(status?.progress, { bytes: 3000, expectedBytes: 9000, bytesPerSecond: 100 });
    const told = planSnapshot(
      seen({ job: job(), progress: { bytes: 3_000n, expected: 9_000n, bytesPerSecond: 700n } }),
    );
    assert.equal(told.status?.progress?.bytesPerSecond, 700, 'a later try has not run since the Job was made');
    const again = job({ report: known({ done: false, reason: 'Unreachable', message: 'no route' }) });
    assert.match(
      planSnapshot(seen({ job: again })).status?.conditions?.[0]?.message ?? '',
      /the try before failed: no route/,
    );
    assert.equal(reasonOf(seen({ job: job({ waiting: 'ImagePullBackOff: x' }) })), 'SnapshotJobWaiting');
  });

  test('whose node does not answer is taken anew elsewhere, since Kubernetes would wait for that node', () => {
    const { step, status } = planSnapshot(seen({ job: job({ lost: 'n2' }) }));
    assert.deepEqual(step, { do: 'DeleteJob', uid: 'j1' });
    assert.match(status?.conditions?.[0]?.message ?? '', /n2/);
    assert.equal(status?.phase, 'Started');
  });

  test('that is complete or failed is final, whatever has become of Job and cluster', () => {
    for (const phase of ['Complete', 'Failed'] as const) {
      for (const change of [{}, { job: job() }, { cluster: undefined }]) {
        assert.deepEqual(planSnapshot(seen({ status: { phase }, ...change })), {
          step: { do: 'Nothing' },
          status: undefined,
        });
      }
    }
  });

  test('is written only when something changed', () => {
    const first = planSnapshot(seen({ cluster: undefined })).status;
    assert.ok(first !== undefined);
    assert.equal(planSnapshot(seen({ cluster: undefined, status: first, now: now + 5_000 })).status, undefined);
  });
});
