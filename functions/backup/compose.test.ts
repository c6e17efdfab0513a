import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { EtcdClusterSpec } from '../../api/etcdcluster.gen.ts';
import { API_VERSION } from '../../api/names.ts';
import type { RunFunctionResponse } from '../composing/exchange.ts';
import { INPUT_API_VERSION } from '../composing/step-input.ts';
import { composeBackup, SCHEDULE_KEY } from './compose.ts';

const backup: EtcdClusterSpec['backup'] = {
  schedule: '*/30 * * * *',
  retention: { keepLast: 3 },
  destination: { s3: { endpoint: 'https://s3.example.org', bucket: 'etcd', credentialsSecretRef: { name: 's3' } } },
};

const composed = (spec: Partial<EtcdClusterSpec>, observed?: object): RunFunctionResponse =>
  composeBackup({
    input: { apiVersion: INPUT_API_VERSION, kind: 'Backup' },
    observed: {
      composite: {
        resource: {
          apiVersion: API_VERSION,
          kind: 'EtcdCluster',
          metadata: { name: 'demo', namespace: 'team-a' },
          spec: { version: '3.6.16', ...spec },
        },
      },
      resources: observed === undefined ? {} : { [SCHEDULE_KEY]: { resource: observed } },
    },
  });

const withCondition = (status: string): object => ({
  metadata: { name: 'demo' },
  status: { conditions: [{ type: 'BackupHealthy', status, reason: 'BackupFailed', message: 'no space' }] },
});

describe('the step Backup', () => {
  test('composes a schedule of the claim’s name that says what the claim says', () => {
    const { resource } = composed({ backup }).desired?.resources?.[SCHEDULE_KEY] ?? {};
    assert.deepEqual(
      { ...resource, metadata: undefined },
      {
        apiVersion: API_VERSION,
        kind: 'EtcdSnapshotSchedule',
        metadata: undefined,
        spec: { clusterRef: { name: 'demo' }, ...backup },
      },
    );
  });

  test('has nothing to say of a claim without backups, which is no worse off for that', () => {
    const response = composed({});
    assert.equal(response.desired?.resources?.[SCHEDULE_KEY], undefined);
    assert.deepEqual(response.conditions ?? [], []);
  });

  test('is ready when the schedule exists: a store that is down makes no cluster unready', () => {
    const readiness = (observed?: object) => composed({ backup }, observed).desired?.resources?.[SCHEDULE_KEY]?.ready;
    assert.equal(readiness(), 'False');
    assert.equal(readiness(withCondition('False')), 'True');
  });

  test('tells in the claim when the last snapshot and the last proof were', () => {
    const statusOf = (response: RunFunctionResponse) =>
      (response.desired?.composite?.resource as { status?: { backups?: object } } | undefined)?.status;
    const observed = {
      metadata: { name: 'demo' },
      status: {
        lastSnapshot: 'demo-2',
        lastSuccessfulTime: '2026-11-30T12:00:00Z',
        lastProvenTime: '2026-11-29T12:00:00Z',
        lastProof: { snapshot: 'demo-1', result: 'Failed', reason: 'SnapshotDamaged', time: '2026-11-30T12:01:00Z' },
        snapshotsSinceProof: 1,
      },
    };
    assert.deepEqual(statusOf(composed({ backup }, observed))?.backups, {
      lastSnapshot: 'demo-2',
      lastSuccessfulTime: '2026-11-30T12:00:00Z',
      lastProofTime: '2026-11-30T12:01:00Z',
      lastProofResult: 'Failed',
      lastProvenTime: '2026-11-29T12:00:00Z',
    });
    assert.deepEqual(statusOf(composed({ backup })), {}, 'nothing is claimed of backups that nobody has seen');
  });

  test('says of the backups what the schedule says', () => {
    assert.deepEqual(composed({ backup }, withCondition('False')).conditions, [
      { type: 'BackupHealthy', status: 'False', reason: 'BackupFailed', message: 'no space' },
    ]);
    assert.equal(composed({ backup }).conditions?.[0]?.status, 'Unknown');
  });
});
