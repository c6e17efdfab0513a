import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { observed, START } from '../../../test/scenarios/world.ts';
import { quorumStatus } from '../report.ts';
import { classify, type Situation, type Slot } from '../situation.ts';
import { MOST_REPAIRS, mayRepair, repairHeld, withRepair } from './repair-budget.ts';

/** Slot 0 of a cluster, broken `since` seconds ago, or well. */
const situation = (records: string, slot = 'reason=DataCorrupt since=10'): Situation =>
  classify(
    observed(`latch c1\nwant 1\n${records}\nslot 0 inc=aaaaa id=a1 phase=Restarting ${slot} | volume aaaaa id=a1`),
  );
const first = (s: Situation): Slot => {
  const [slot] = s.slots;
  assert.ok(slot);
  return slot;
};
const may = (records: string, slot?: string): unknown => {
  const s = situation(records, slot);
  return mayRepair(s, first(s), 'DataCorrupt');
};

describe('the repair budget', () => {
  it('lets the first repair begin at once', () => {
    assert.deepEqual(may(''), { may: 'begin' });
    assert.equal(repairHeld(situation(''), first(situation('')), 'DataCorrupt', 'why'), undefined);
  });

  it('counts each member and each cause for itself', () => {
    assert.deepEqual(may('repaired demo-1 DataCorrupt count=3'), { may: 'begin' });
    assert.deepEqual(may('repaired demo-0 VolumeEmpty count=3'), { may: 'begin' });
  });

  for (const [count, seconds] of [
    [1, 60],
    [2, 240],
  ] as const) {
    it(`waits ${seconds} seconds after repair ${count}, since one that did not help is not hurried`, () => {
      const at = START + 1_000;
      assert.deepEqual(may(`repaired demo-0 DataCorrupt count=${count} ago=${seconds - 1}`), {
        may: 'later',
        at,
        count,
      });
      assert.deepEqual(may(`repaired demo-0 DataCorrupt count=${count} ago=${seconds}`), { may: 'begin' });
    });
  }

  it(`asks a person after ${MOST_REPAIRS} that did not help, and goes on asking however long that takes`, () => {
    const exhausted = { may: 'not', count: MOST_REPAIRS };
    assert.deepEqual(may(`repaired demo-0 DataCorrupt count=${MOST_REPAIRS} ago=30`), exhausted);
    assert.deepEqual(
      may(`repaired demo-0 DataCorrupt count=${MOST_REPAIRS} ago=90000`, 'reason=DataCorrupt since=89000'),
      exhausted,
    );
    const s = situation(`repaired demo-0 DataCorrupt count=${MOST_REPAIRS} ago=30`);
    const step = repairHeld(s, first(s), 'DataCorrupt', 'its database is damaged');
    assert.ok(step?.do === 'AskHuman');
    assert.equal(step.reason, 'RepairExhausted');
    assert.match(step.message, /demo-0 was repaired 3 times for DataCorrupt .*its database is damaged/);
  });

  it('forgets a repair that was followed by a good hour, by whatever the member breaks then', () => {
    assert.deepEqual(
      may(`repaired demo-0 DataCorrupt count=${MOST_REPAIRS} ago=90000`, 'reason=DataCorrupt since=10'),
      { may: 'begin' },
    );
  });

  it('begins anew when a person says so', () => {
    const records = `repaired demo-0 DataCorrupt count=${MOST_REPAIRS} ago=30`;
    assert.deepEqual(may(records, 'retry reason=DataCorrupt since=10'), { may: 'begin' });
    assert.deepEqual(withRepair(situation(records, 'retry'), 'demo-0', 'DataCorrupt'), [
      { member: 'demo-0', cause: 'DataCorrupt', count: 1, lastTime: new Date(START).toISOString() },
    ]);
  });

  it('tells when the next repair begins, in words that stay the same until then', () => {
    const s = situation('repaired demo-0 DataCorrupt ago=20');
    const step = repairHeld(s, first(s), 'DataCorrupt', 'its database is damaged');
    assert.deepEqual(step, {
      do: 'Wait',
      reason: 'RepairDelayed',
      message:
        'demo-0 was repaired once for DataCorrupt and is not well again (its database is damaged); the next repair begins at 2026-01-01T00:00:40.000Z',
      recheckMs: 40_000,
    });
  });
});

describe('the record of repairs', () => {
  it('counts on, keeps what is not over of others, and drops what is', () => {
    const s = situation(
      'repaired demo-0 DataCorrupt ago=100\nrepaired demo-0 VolumeEmpty ago=90\nrepaired demo-0 PodRefused ago=9000\nrepaired demo-7 DataCorrupt',
      'reason=DataCorrupt since=10',
    );
    assert.deepEqual(
      withRepair(s, 'demo-0', 'DataCorrupt').map(({ member, cause, count }) => `${member} ${cause} ${count}`),
      ['demo-0 VolumeEmpty 1', 'demo-0 DataCorrupt 2'],
    );
  });

  it('is carried on by every report of the cluster', () => {
    const s = situation('repaired demo-0 DataCorrupt ago=100');
    const due = quorumStatus({ rule: 'held', step: { do: 'Settled' }, tried: [], sketch: '', situation: s });
    assert.deepEqual(due?.status.repairs, s.quorum?.status.repairs);
    assert.equal(due?.status.repairs?.length, 1);
  });
});
