/**
 * How backups fare, for alerts. The moments of schedules are gauges with the schedule's name, as each is an alert of its own
 * owner; what ended is counted without names, since names of snapshots never end.
 */
import { Counter, Gauge, type Registry } from 'prom-client';
import type { EtcdSnapshot } from '../../api/etcdsnapshot.gen.ts';
import type { EtcdSnapshotSchedule } from '../../api/etcdsnapshotschedule.gen.ts';
import type { Stored } from '../ports/kube.ts';

export type BackupMetrics = ReturnType<typeof createBackupMetrics>;

const SCHEDULE = ['namespace', 'schedule'] as const;

export const createBackupMetrics = (registry: Registry) => {
  const registers = [registry];
  return {
    lastSuccess: new Gauge({
      name: 'etcd_operator_backup_last_success_timestamp_seconds',
      help: 'When the last good snapshot of a schedule was taken, in seconds since 1970; time() minus it is its age. Absent while there is none.',
      labelNames: SCHEDULE,
      registers,
    }),
    lastProof: new Gauge({
      name: 'etcd_operator_backup_last_proof_timestamp_seconds',
      help: 'When a snapshot of a schedule was last found to be restorable. Absent while none was.',
      labelNames: SCHEDULE,
      registers,
    }),
    lastProofPassed: new Gauge({
      name: 'etcd_operator_backup_last_proof_passed',
      help: '1 where the proof that ended last has passed, 0 where it failed or could not be carried out. Absent without any.',
      labelNames: SCHEDULE,
      registers,
    }),
    healthy: new Gauge({
      name: 'etcd_operator_backup_healthy',
      help: 'The condition BackupHealthy of a schedule with its reason: 1 where it is True, 0 where it is False or Unknown.',
      labelNames: [...SCHEDULE, 'reason'] as const,
      registers,
    }),
    snapshots: new Counter({
      name: 'etcd_operator_snapshots_total',
      help: 'Snapshots that came to an end.',
      labelNames: ['outcome', 'reason'] as const,
      registers,
    }),
    proofs: new Counter({
      name: 'etcd_operator_proofs_total',
      help: 'Proofs of snapshots that came to an end.',
      labelNames: ['outcome', 'reason'] as const,
      registers,
    }),
  };
};

const seconds = (time: string): number => Date.parse(time) / 1_000;

/** From what is recorded: a scrape asks nobody anything. */
export const tellBackups = (metrics: BackupMetrics, schedules: readonly Stored<EtcdSnapshotSchedule>[]): void => {
  const { lastSuccess, lastProof, lastProofPassed, healthy } = metrics;
  for (const gauge of [lastSuccess, lastProof, lastProofPassed, healthy]) gauge.reset();
  for (const { metadata, status } of schedules) {
    const of = { namespace: metadata.namespace ?? '', schedule: metadata.name };
    if (status?.lastSuccessfulTime !== undefined) lastSuccess.set(of, seconds(status.lastSuccessfulTime));
    if (status?.lastProvenTime !== undefined) lastProof.set(of, seconds(status.lastProvenTime));
    if (status?.lastProof !== undefined) lastProofPassed.set(of, status.lastProof.result === 'Passed' ? 1 : 0);
    const condition = status?.conditions?.find(({ type }) => type === 'BackupHealthy');
    if (condition !== undefined) {
      healthy.set({ ...of, reason: condition.reason }, condition.status === 'True' ? 1 : 0);
    }
  }
};

const isFinal = (phase: string | undefined): boolean => phase === 'Complete' || phase === 'Failed';

/** What came to an end between two states of one object. */
export const countEndings = (
  metrics: BackupMetrics,
  before: EtcdSnapshot | undefined,
  after: EtcdSnapshot | undefined,
): void => {
  if (before === undefined || after === undefined) return;
  const { phase, proof, conditions } = after.status ?? {};
  if (phase !== undefined && isFinal(phase) && !isFinal(before.status?.phase)) {
    const reason = conditions?.find(({ type }) => type === 'Ready')?.reason ?? '';
    metrics.snapshots.inc({ outcome: phase, reason });
  }
  if (proof !== undefined && proof.time !== before.status?.proof?.time) {
    metrics.proofs.inc({ outcome: proof.result, reason: proof.reason });
  }
};
