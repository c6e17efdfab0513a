import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Registry } from 'prom-client';
import type { EtcdSnapshot } from '../../api/etcdsnapshot.gen.ts';
import type { EtcdSnapshotSchedule, EtcdSnapshotScheduleStatus } from '../../api/etcdsnapshotschedule.gen.ts';
import type { Stored } from '../ports/kube.ts';
import { countEndings, createBackupMetrics, tellBackups } from './backup-metrics.ts';

const schedule = (name: string, status?: EtcdSnapshotScheduleStatus): Stored<EtcdSnapshotSchedule> =>
  ({ metadata: { name, namespace: 'shop' }, status }) as Stored<EtcdSnapshotSchedule>;
const told = async (registry: Registry): Promise<string[]> =>
  (await registry.metrics()).split('\n').filter((line) => line.startsWith('etcd_operator_'));

describe('the metrics of backups', () => {
  const nightly = schedule('nightly', {
    lastSuccessfulTime: '2026-11-30T12:00:00Z',
    lastProvenTime: '2026-11-29T12:00:00Z',
    lastProof: { snapshot: 'nightly-1', result: 'Failed', reason: 'SnapshotDamaged', time: '2026-11-30T12:01:00Z' },
    conditions: [
      { type: 'BackupHealthy', status: 'False', reason: 'ProofFailed', lastTransitionTime: '2026-11-30T12:01:00Z' },
    ],
  });

  test('give the moments of each schedule, and nothing for what has not happened', async () => {
    const registry = new Registry();
    const metrics = createBackupMetrics(registry);
    tellBackups(metrics, [nightly, schedule('young')]);
    const of = '{namespace="shop",schedule="nightly"}';
    assert.deepEqual(await told(registry), [
      `etcd_operator_backup_last_success_timestamp_seconds${of} ${Date.parse('2026-11-30T12:00:00Z') / 1_000}`,
      `etcd_operator_backup_last_proof_timestamp_seconds${of} ${Date.parse('2026-11-29T12:00:00Z') / 1_000}`,
      `etcd_operator_backup_last_proof_passed${of} 0`,
      'etcd_operator_backup_healthy{namespace="shop",schedule="nightly",reason="ProofFailed"} 0',
    ]);
    tellBackups(metrics, []);
    assert.deepEqual(await told(registry), [], 'a schedule that is gone is not told of');
  });

  test('count each end once, however often its object changes afterwards', async () => {
    const registry = new Registry();
    const metrics = createBackupMetrics(registry);
    const running = { status: { phase: 'Started' } } as EtcdSnapshot;
    const ready = { type: 'Ready', status: 'True', reason: 'SnapshotStored', lastTransitionTime: '' } as const;
    const complete = { status: { phase: 'Complete', conditions: [ready] } } as EtcdSnapshot;
    const proof = { request: 'x', result: 'Passed', reason: 'ProofPassed', time: '2026-11-30T12:01:00Z' } as const;
    const proven: EtcdSnapshot = { ...complete, status: { ...complete.status, proof } };
    for (const [before, after] of [
      [undefined, running],
      [running, complete],
      [complete, complete],
      [complete, proven],
      [proven, proven],
      [proven, undefined],
    ] as const) {
      countEndings(metrics, before, after);
    }
    assert.deepEqual(await told(registry), [
      'etcd_operator_snapshots_total{outcome="Complete",reason="SnapshotStored"} 1',
      'etcd_operator_proofs_total{outcome="Passed",reason="ProofPassed"} 1',
    ]);
  });
});
