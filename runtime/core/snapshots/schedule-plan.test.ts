import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { EtcdSnapshotStatus } from '../../../api/etcdsnapshot.gen.ts';
import { planSchedule, retentionRules, type ScheduledSnapshot, type ScheduleObserved } from './schedule-plan.ts';

const at = (text: string): number => Date.parse(`2026-11-30T${text}Z`);
const seen = (change: Partial<ScheduleObserved> = {}): ScheduleObserved => ({
  now: at('12:10:00'),
  name: 'nightly',
  generation: 1,
  createdAt: at('08:00:00'),
  deleting: false,
  spec: {
    clusterRef: { name: 'orders' },
    schedule: '0 * * * *',
    destination: { pvc: { claimName: 'backups' } },
  },
  status: { lastScheduleTime: '2026-11-30T11:00:00.000Z' },
  times: { last: at('12:00:00'), next: at('13:00:00') },
  cluster: 'serves',
  snapshots: [],
  removed: [],
  ...change,
});
const snapshot = (name: string, phase: EtcdSnapshotStatus['phase'], created: string): ScheduledSnapshot => ({
  name,
  uid: `uid-${name}`,
  createdAt: at(created),
  deleting: false,
  status: {
    ...(phase === undefined ? {} : { phase }),
    ...(phase === 'Complete' ? { completionTime: `2026-11-30T${created}.000Z`, revision: '7' } : {}),
    ...(phase === 'Failed'
      ? {
          conditions: [
            { type: 'Ready', status: 'False', reason: 'StoreFull', message: 'no space', lastTransitionTime: '' },
          ],
        }
      : {}),
  },
});
const stepOf = (change: Partial<ScheduleObserved>): string => planSchedule(seen(change)).step.do;
const said = (change: Partial<ScheduleObserved>, type: string): string | undefined =>
  planSchedule(seen(change)).status?.conditions?.find((one) => one.type === type)?.reason;

describe('a schedule', () => {
  test('begins one at its time, under a name that is made from the time', () => {
    assert.deepEqual(planSchedule(seen()).step, {
      do: 'Begin',
      name: `nightly-${at('12:00:00') / 1_000}`,
      due: at('12:00:00'),
    });
  });

  test('takes the first one at once, as soon as the cluster serves', () => {
    assert.deepEqual(planSchedule(seen({ status: {} })).step, {
      do: 'Begin',
      name: `nightly-${at('08:00:00') / 1_000}`,
      due: at('08:00:00'),
    });
    assert.equal(stepOf({ status: {}, cluster: 'silent' }), 'Wait');
  });

  test('records what a pass before could make but not record, and makes no second one', () => {
    const made = snapshot(`nightly-${at('12:00:00') / 1_000}`, undefined, '12:00:01');
    const { step, status } = planSchedule(
      seen({ snapshots: [made], spec: { ...seen().spec, concurrencyPolicy: 'Allow' } }),
    );
    assert.equal(step.do, 'Wait');
    assert.equal(status?.lastScheduleTime, '2026-11-30T12:00:00.000Z');
  });

  test('rests until its next time once that one is begun', () => {
    const { step } = planSchedule(seen({ status: { lastScheduleTime: '2026-11-30T12:00:00.000Z' } }));
    assert.deepEqual(step, { do: 'Wait', recheckMs: 50 * 60_000 });
  });

  test('makes up for the last time it missed, not for more, and not when it is too late', () => {
    assert.equal(stepOf({ status: { lastScheduleTime: '2026-11-30T03:00:00.000Z' } }), 'Begin');
    assert.equal(stepOf({ spec: { ...seen().spec, startingDeadlineSeconds: 60 } }), 'Wait');
  });

  test('begins none while one runs, unless it may', () => {
    const running = [snapshot('nightly-1', 'Started', '11:00:00')];
    assert.equal(stepOf({ snapshots: running }), 'Wait');
    assert.equal(stepOf({ snapshots: running, spec: { ...seen().spec, concurrencyPolicy: 'Allow' } }), 'Begin');
  });

  test('says why it rests', () => {
    assert.equal(stepOf({ spec: { ...seen().spec, suspend: true } }), 'Wait');
    assert.equal(said({ spec: { ...seen().spec, suspend: true } }, 'Active'), 'ScheduleSuspended');
    assert.equal(said({ times: { invalid: 'field 2' } }, 'Active'), 'ScheduleInvalid');
    assert.equal(said({ cluster: 'absent' }, 'Active'), 'ClusterNotFound');
    assert.equal(said({ cluster: 'paused' }, 'Active'), 'ClusterPaused');
    assert.equal(said({ cluster: 'silent' }, 'Active'), 'Scheduled');
  });

  test('is healthy by its last good snapshot, and by nothing that came after it failing', () => {
    const good = snapshot('nightly-2', 'Complete', '12:00:00');
    const done = { status: { lastScheduleTime: '2026-11-30T12:00:00.000Z' } };
    assert.equal(said({ ...done, snapshots: [good] }, 'BackupHealthy'), 'BackupFresh');
    assert.equal(said({ ...done, snapshots: [] }, 'BackupHealthy'), 'BackupPending');
    const bad = snapshot('nightly-3', 'Failed', '12:05:00');
    assert.equal(said({ ...done, snapshots: [good, bad] }, 'BackupHealthy'), 'BackupFailed');
    assert.equal(
      said({ ...done, snapshots: [bad, snapshot('n', 'Complete', '12:06:00')] }, 'BackupHealthy'),
      'BackupFresh',
    );
    const old = snapshot('nightly-1', 'Complete', '08:00:00');
    assert.equal(said({ ...done, snapshots: [old] }, 'BackupHealthy'), 'BackupOverdue');
    assert.equal(said({ ...done, snapshots: [old], cluster: 'paused' }, 'BackupHealthy'), 'BackupFresh');
  });

  test('forgets records of what retention removed, and old failures, and nothing else', () => {
    const failures = Array.from({ length: 7 }, (_, n) => snapshot(`f${n}`, 'Failed', `0${n}:00:00`));
    const { step } = planSchedule(
      seen({
        snapshots: [...failures, snapshot('old', 'Complete', '01:00:00'), snapshot('new', 'Complete', '11:00:00')],
        removed: ['old', 'of-another'],
      }),
    );
    assert.equal(step.do, 'Forget');
    assert.deepEqual(step.do === 'Forget' ? step.snapshots.map(({ name }) => name).sort() : [], ['f0', 'f1', 'old']);
  });

  test('reads ages and sizes as the schema lets them be written', () => {
    assert.deepEqual(retentionRules({ keepLast: 3, maxAge: '90d', maxTotalSize: '10Gi' }), {
      keepLast: 3,
      keepDaily: undefined,
      keepWeekly: undefined,
      maxAgeMs: 90 * 86_400_000,
      maxTotalBytes: 10n << 30n,
    });
    assert.equal(retentionRules({ maxTotalSize: '5000' }).maxTotalBytes, 5_000n);
    assert.equal(retentionRules(undefined).maxAgeMs, undefined);
  });
});
