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
  times: { last: at('12:00:00'), before: at('11:00:00'), next: at('13:00:00') },
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
  asked: false,
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
      prove: false,
    });
  });

  test('takes the first one at once, as soon as the cluster serves', () => {
    assert.deepEqual(planSchedule(seen({ status: {} })).step, {
      do: 'Begin',
      name: `nightly-${at('08:00:00') / 1_000}`,
      due: at('08:00:00'),
      prove: false,
    });
    assert.equal(stepOf({ status: {}, cluster: 'silent' }), 'Wait');
  });

  test('goes on from the first one, which stays due until that is recorded', () => {
    const first = snapshot(`nightly-${at('08:00:00') / 1_000}`, 'Complete', '08:00:05');
    const { step, status } = planSchedule(seen({ status: {}, snapshots: [first] }));
    assert.equal(step.do, 'Wait');
    assert.equal(status?.lastScheduleTime, '2026-11-30T08:00:00.000Z');
    assert.equal(status?.lastSnapshot, first.name);
    assert.equal(stepOf({ status: status ?? {}, snapshots: [first] }), 'Begin');
  });

  test('that was made anew takes none at once for having no record of those before it', () => {
    const others = [snapshot('nightly-1', 'Complete', '12:05:00'), snapshot('nightly-2', 'Complete', '09:00:00')];
    assert.equal(stepOf({ status: {}, snapshots: others }), 'Wait');
    assert.equal(stepOf({ status: {}, snapshots: others.slice(1) }), 'Begin', 'a time has passed since');
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
    const good = [snapshot('nightly-2', 'Complete', '12:00:00')];
    assert.equal(said({ times: { invalid: 'field 2' }, snapshots: good }, 'BackupHealthy'), 'ScheduleInvalid');
    const spec = { ...seen().spec, suspend: true };
    assert.equal(said({ times: { invalid: 'field 2' }, snapshots: good, spec }, 'BackupHealthy'), 'BackupFresh');
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

  test('is unhealthy when it has nothing to show for ten minutes, and says what stands in the way', () => {
    const stuck: ScheduledSnapshot = {
      ...snapshot('nightly-1', 'Started', '08:00:01'),
      status: {
        phase: 'Started',
        conditions: [
          {
            type: 'Ready',
            status: 'False',
            reason: 'SnapshotJobWaiting',
            message: 'no Secret s3',
            lastTransitionTime: '',
          },
        ],
      },
    };
    const healthAt = (now: string, change: Partial<ScheduleObserved> = {}) =>
      planSchedule(
        seen({
          now: at(now),
          times: { last: undefined, before: undefined, next: at('23:00:00') },
          snapshots: [stuck],
          ...change,
        }),
      ).status?.conditions?.find(({ type }) => type === 'BackupHealthy');
    assert.deepEqual([healthAt('08:09:00')?.status, healthAt('08:09:00')?.reason], ['Unknown', 'BackupPending']);
    const late = healthAt('08:10:00');
    assert.deepEqual([late?.status, late?.reason], ['False', 'BackupPending']);
    assert.match(late?.message ?? '', /SnapshotJobWaiting: no Secret s3/);
    assert.equal(healthAt('08:30:00', { cluster: 'paused' })?.status, 'Unknown', 'nobody expects one');
  });

  test('counts missed times, not hours: a weekend without a backup is none too late', () => {
    const friday = { ...snapshot('n', 'Complete', '00:00:00') };
    const status = { ...friday.status, completionTime: '2026-11-27T03:00:10.000Z' };
    const weekdays = {
      last: at('03:00:00'),
      before: Date.parse('2026-11-27T03:00:00Z'),
      next: Date.parse('2026-12-01T03:00:00Z'),
    };
    const change = { now: at('03:00:30'), times: weekdays, snapshots: [{ ...friday, status }] };
    const begun = { status: { lastScheduleTime: '2026-11-30T03:00:00.000Z' } };
    assert.equal(said({ ...change, ...begun }, 'BackupHealthy'), 'BackupFresh');
    const tuesday = { last: weekdays.next, before: weekdays.last, next: undefined };
    assert.equal(
      said({ ...change, times: tuesday, now: weekdays.next + 1_000, cluster: 'silent' }, 'BackupHealthy'),
      'BackupOverdue',
    );
  });

  test('is asked for again when it should end its first ten minutes, however far its next time is', () => {
    const { step } = planSchedule(
      seen({
        now: at('08:02:00'),
        times: { last: undefined, before: undefined, next: at('23:00:00') },
        snapshots: [snapshot('nightly-1', 'Started', '08:00:01')],
      }),
    );
    assert.deepEqual(step, { do: 'Wait', recheckMs: 8 * 60_000 });
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

type Proof = NonNullable<EtcdSnapshotStatus['proof']>;

describe('the proofs of a schedule', () => {
  const every = (n: number) => ({ ...seen().spec, proof: { every: n } });
  const asked = (one: ScheduledSnapshot, proof?: Partial<Proof>): ScheduledSnapshot => ({
    ...one,
    asked: true,
    status: {
      ...one.status,
      ...(proof === undefined
        ? {}
        : {
            proof: {
              request: 'schedule',
              result: 'Passed',
              reason: 'ProofPassed',
              message: 'as it was',
              time: '2026-11-30T11:30:00.000Z',
              ...proof,
            },
          }),
    },
  });
  const begins = (change: Partial<ScheduleObserved>): boolean => {
    const { step } = planSchedule(seen(change));
    assert.equal(step.do, 'Begin');
    return step.do === 'Begin' && step.prove;
  };
  const good = (name: string, created: string) => snapshot(name, 'Complete', created);
  const rested = { lastScheduleTime: '2026-11-30T12:00:00.000Z' };

  test('are of the first snapshot and of every n-th after it', () => {
    assert.equal(begins({ spec: seen().spec }), false, 'nobody asks');
    assert.equal(begins({ spec: every(3) }), true);
    assert.equal(
      begins({ spec: every(3), snapshots: [asked(good('a', '10:00:00'))] }),
      false,
      'the first is being proven',
    );
    // As it goes on, pass by pass, with the number that the status carries from one to the next.
    let status: ScheduleObserved['status'] = {};
    let snapshots: ScheduledSnapshot[] = [];
    const proven: number[] = [];
    for (let n = 0; n < 10; n += 1) {
      const now = at('12:00:00') + n * 3_600_000;
      const times = { last: now, before: now - 3_600_000, next: now + 3_600_000 };
      const common = { now, times, spec: every(3), createdAt: at('12:00:00') };
      const { step } = planSchedule(seen({ ...common, status, snapshots }));
      assert.ok(step.do === 'Begin');
      const made: ScheduledSnapshot = { ...good(step.name, '12:00:00'), createdAt: now + 1_000, asked: step.prove };
      status = planSchedule(seen({ ...common, status, snapshots: [...snapshots, made] })).status ?? {};
      const time = new Date(now + 60_000).toISOString();
      if (step.prove) proven.push(n);
      // Retention leaves no more than two of them to count by.
      snapshots = [...snapshots.slice(-1), step.prove ? asked(made, { time }) : made];
      status = planSchedule(seen({ ...common, now: now + 90_000, status, snapshots })).status ?? {};
    }
    assert.deepEqual(proven, [0, 3, 6, 9]);
  });

  test('are asked for anew until one passes, and in place of one whose snapshot failed', () => {
    const waiting = { spec: every(10), status: { snapshotsSinceProof: 1 } };
    const times = { last: at('12:00:00'), before: at('11:00:00'), next: at('13:00:00') };
    for (const result of ['Failed', 'Blocked'] as const) {
      const snapshots = [asked(good('a', '11:00:00'), { result })];
      assert.equal(begins({ ...waiting, times, snapshots }), true, result);
    }
    assert.equal(begins({ ...waiting, snapshots: [asked(good('a', '11:00:00'), {})] }), false);
    assert.equal(begins({ ...waiting, snapshots: [asked(snapshot('a', 'Failed', '11:00:00'))] }), true);
    assert.equal(begins({ spec: every(1), snapshots: [asked(good('a', '11:00:00'))] }), true, 'every one');
  });

  test('make the backups unhealthy by their last word, until a later one is better', () => {
    const bad = asked(good('bad', '11:00:00'), {
      result: 'Failed',
      reason: 'SnapshotDamaged',
      message: 's3://b/k has another SHA-256',
    });
    const healthOf = (change: Partial<ScheduleObserved>) => {
      const { status } = planSchedule(seen({ spec: every(3), status: rested, ...change }));
      return { status, health: status?.conditions?.find(({ type }) => type === 'BackupHealthy') };
    };
    const after = healthOf({ snapshots: [bad, good('newer', '12:00:00')] });
    assert.deepEqual([after.health?.status, after.health?.reason], ['False', 'ProofFailed']);
    assert.equal(after.health?.message, 'bad: SnapshotDamaged: s3://b/k has another SHA-256');
    assert.deepEqual(after.status?.lastProof?.result, 'Failed');
    assert.equal(after.status?.lastProvenTime, undefined);

    // The record of the bad one may go; what was found stays.
    const gone = healthOf({ status: after.status ?? {}, snapshots: [good('newer', '12:00:00')] });
    assert.equal((gone.health ?? after.health)?.reason, 'ProofFailed');

    const healed = healthOf({
      status: after.status ?? {},
      snapshots: [bad, asked(good('newer', '12:00:00'), { time: '2026-11-30T12:05:00.000Z' })],
    });
    assert.deepEqual([healed.health?.status, healed.health?.reason], ['True', 'BackupFresh']);
    assert.equal(healed.status?.lastProvenTime, '2026-11-30T12:05:00.000Z');
  });

  test('that could not be carried out say so, after everything that is worse', () => {
    const blocked = asked(good('a', '12:00:00'), {
      result: 'Blocked',
      reason: 'StoreUnreachable',
      message: 'no route',
    });
    const change = { spec: every(3), status: rested };
    assert.equal(said({ ...change, snapshots: [blocked] }, 'BackupHealthy'), 'ProofBlocked');
    const failed = snapshot('b', 'Failed', '12:05:00');
    const { status } = planSchedule(seen({ ...change, snapshots: [blocked, failed] }));
    const health = status?.conditions?.find(({ type }) => type === 'BackupHealthy');
    assert.equal(health?.reason, 'BackupFailed');
    assert.match(health?.message ?? '', /also ProofBlocked: a: StoreUnreachable: no route/);
  });

  test('are overdue when twice as many snapshots have come without one, however often the records of them go', () => {
    const change = { spec: every(2), snapshots: [good('a', '12:00:00')] };
    const healthBy = (snapshotsSinceProof: number) =>
      said({ ...change, status: { ...rested, snapshotsSinceProof } }, 'BackupHealthy');
    assert.equal(healthBy(4), 'BackupFresh');
    assert.equal(healthBy(5), 'ProofOverdue');
    assert.equal(
      said({ ...change, spec: seen().spec, status: { ...rested, snapshotsSinceProof: 50 } }, 'BackupHealthy'),
      'BackupFresh',
      'nobody asks for proofs any more',
    );
  });
});
