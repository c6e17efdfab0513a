import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { EtcdSnapshotStatus } from '../../../api/etcdsnapshot.gen.ts';
import { known, unknown } from '../observed.ts';
import { type ProofObserved, type ProofReport, planProof, type SeenProofJob } from './proof-plan.ts';

const now = Date.parse('2026-11-30T12:10:00Z');
const began = Date.parse('2026-11-30T12:09:00Z');
const stored: EtcdSnapshotStatus = {
  phase: 'Complete',
  conditions: [
    {
      type: 'Ready',
      status: 'True',
      reason: 'SnapshotStored',
      message: 'stored',
      lastTransitionTime: '2026-11-30T12:00:00Z',
    },
  ],
};
const job = (change: Partial<SeenProofJob> = {}): SeenProofJob => ({
  uid: 'j1',
  deleting: false,
  createdAt: began,
  request: 'now',
  state: 'running',
  message: undefined,
  report: unknown('its Pod is gone'),
  waiting: undefined,
  ended: undefined,
  ...change,
});
const seen = (change: Partial<ProofObserved> = {}): ProofObserved => ({
  now,
  generation: 1,
  deleting: false,
  status: stored,
  request: 'now',
  job: undefined,
  retention: 'rests',
  busyWith: undefined,
  agentImage: 'agent:1',
  ...change,
});
const passed: ProofReport = {
  done: true,
  etcdVersion: '3.6.16',
  revision: '42',
  keys: '7',
  hash: 9,
  compared: ['sha256', 'revision', 'keys', 'hashKv'],
};
const ended = (report: ProofReport): SeenProofJob =>
  job({ state: report.done ? 'complete' : 'failed', report: known(report) });
const failing = (reason: string): SeenProofJob => ended({ done: false, reason, message: 'words' });
const proven = (status: EtcdSnapshotStatus | undefined) => status?.conditions?.find(({ type }) => type === 'Proven');

describe('the proof of an EtcdSnapshot', () => {
  test('begins when it is asked for and never else', () => {
    assert.deepEqual(planProof(seen()).step, { do: 'CreateJob', request: 'now' });
    for (const change of [
      { request: undefined },
      { deleting: true },
      { status: { ...stored, phase: 'Started' as const } },
      { status: { ...stored, phase: 'Failed' as const } },
    ]) {
      assert.deepEqual(planProof(seen(change)), { step: { do: 'Nothing' }, status: undefined });
    }
  });

  test('is recorded before its Job goes, and is not done again for the same request', () => {
    const { step, status } = planProof(seen({ job: ended(passed) }));
    assert.equal(step.do, 'Wait');
    assert.deepEqual(status?.proof, {
      request: 'now',
      result: 'Passed',
      reason: 'ProofPassed',
      message: 'restored by etcd 3.6.16 and equal to its manifest: sha256, revision, keys, hashKv',
      startTime: '2026-11-30T12:09:00.000Z',
      time: '2026-11-30T12:10:00.000Z',
      etcdVersion: '3.6.16',
      revision: '42',
      keys: '7',
      hash: 9,
      compared: ['sha256', 'revision', 'keys', 'hashKv'],
    });
    assert.equal(proven(status)?.status, 'True');
    assert.ok(
      status?.conditions?.some(({ type }) => type === 'Ready'),
      'it is as complete as it was',
    );
    const after = seen({ status: status ?? {} });
    assert.deepEqual(planProof({ ...after, job: ended(passed) }).step, { do: 'DeleteJob', uid: 'j1' });
    assert.deepEqual(planProof(after), { step: { do: 'Nothing' }, status: undefined });
    assert.deepEqual(planProof({ ...after, request: 'again' }).step, { do: 'CreateJob', request: 'again' });
  });

  test('tells what speaks against the snapshot from what only stood in the way', () => {
    const cases: [string, string, string, string][] = [
      ['NotFound', 'Failed', 'SnapshotMissing', 'False'],
      ['SnapshotDamaged', 'Failed', 'SnapshotDamaged', 'False'],
      ['SnapshotNotEncrypted', 'Failed', 'SnapshotDamaged', 'False'],
      ['Different', 'Failed', 'SnapshotDiffers', 'False'],
      ['Unrestorable', 'Failed', 'SnapshotUnrestorable', 'False'],
      ['AccessDenied', 'Blocked', 'StoreAccessDenied', 'Unknown'],
      ['Unavailable', 'Blocked', 'StoreUnreachable', 'Unknown'],
      ['NoRoom', 'Blocked', 'ProofBlocked', 'Unknown'],
      ['TypeError', 'Blocked', 'ProofBlocked', 'Unknown'],
    ];
    for (const [said, result, reason, status] of cases) {
      const decision = planProof(seen({ job: failing(said) }));
      assert.deepEqual(
        [decision.status?.proof?.result, decision.status?.proof?.reason, proven(decision.status)?.status],
        [result, reason, status],
        said,
      );
    }
    const lost = planProof(seen({ job: job({ state: 'failed', message: 'DeadlineExceeded' }) }));
    assert.deepEqual([lost.status?.proof?.result, lost.status?.proof?.reason], ['Blocked', 'ProofBlocked']);
    assert.match(lost.status?.proof?.message ?? '', /DeadlineExceeded/);
  });

  test('says nothing of data that is gone by the retention of its schedule, and waits to hear whether it is', () => {
    const observed = { job: failing('NotFound') };
    assert.deepEqual(planProof(seen({ ...observed, retention: 'removed it' })), {
      step: { do: 'Nothing' },
      status: undefined,
    });
    const maybe = planProof(seen({ ...observed, retention: 'may run' }));
    assert.deepEqual([maybe.step.do, maybe.status], ['Wait', undefined]);
    const damaged = planProof(seen({ job: failing('SnapshotDamaged'), retention: 'may run' }));
    assert.equal(damaged.status?.proof?.result, 'Failed', 'retention damages nothing');
  });

  test('fails as soon as etcd ends on the data again and again, without waiting for anybody to ask it', () => {
    const { status } = planProof(seen({ job: job({ ended: 'exit code 2: panic: page 7 already freed' }) }));
    assert.deepEqual([status?.proof?.result, status?.proof?.reason], ['Failed', 'SnapshotUnrestorable']);
    assert.match(status?.proof?.message ?? '', /page 7 already freed/);
  });

  test('whose result went with its Pod is done again, and one for another request gives way', () => {
    assert.equal(planProof(seen({ job: job({ state: 'complete' }) })).step.do, 'DeleteJob');
    assert.equal(planProof(seen({ job: job({ request: 'before' }) })).step.do, 'DeleteJob');
    assert.equal(planProof(seen({ job: job({ deleting: true }) })).step.do, 'Wait');
  });

  test('waits for that of another snapshot of the cluster, and for a runtime that knows its image', () => {
    for (const [change, reason] of [
      [{ busyWith: 'nightly-1' }, 'ProofWaiting'],
      [{ agentImage: undefined }, 'AgentImageUnknown'],
    ] as const) {
      const { step, status } = planProof(seen(change));
      assert.equal(step.do, 'Wait');
      assert.deepEqual([proven(status)?.status, proven(status)?.reason], ['Unknown', reason]);
    }
  });

  test('says while it runs why it does not, once that is no start any more, and is written only when it changes', () => {
    const waiting = { waiting: 'ImagePullBackOff: no such image' };
    const late = planProof(seen({ job: job(waiting) })).status;
    assert.deepEqual([proven(late)?.reason, proven(late)?.message], ['ProofWaiting', waiting.waiting]);
    const early = planProof(seen({ job: job({ ...waiting, createdAt: now - 5_000 }) })).status;
    assert.equal(proven(early)?.reason, 'ProofRunning');
    assert.equal(planProof(seen({ job: job(), status: early ?? {}, now: now + 3_000 })).status, undefined);
    const retried = job({ report: known({ done: false, reason: 'Unreachable', message: 'no route' }) });
    assert.match(proven(planProof(seen({ job: retried })).status)?.message ?? '', /the try before failed: no route/);
  });

  test('that is called off leaves the word of the last one, or none', () => {
    const running = planProof(seen({ job: job() })).status ?? {};
    assert.equal(planProof(seen({ status: running, request: undefined, job: job() })).step.do, 'DeleteJob');
    const called = planProof(seen({ status: running, request: undefined })).status;
    assert.deepEqual(
      called?.conditions?.map(({ type }) => type),
      ['Ready'],
    );
    const before = planProof(seen({ job: failing('Different') })).status ?? {};
    const again = planProof(seen({ status: before, request: 'again', job: job({ request: 'again' }) })).status ?? {};
    assert.equal(proven(again)?.reason, 'ProofRunning');
    assert.equal(proven(planProof(seen({ status: again, request: 'now' })).status)?.reason, 'SnapshotDiffers');
  });
});
