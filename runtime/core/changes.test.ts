import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { observed } from '../../test/scenarios/world.ts';
import { changeBegunBy, outcomeRecorded, recordedChange } from './changes.ts';
import { type Decision, plan } from './plan.ts';
import type { Step } from './steps.ts';

const since = '2030-01-01T00:00:00.000Z';
const decided = (step: Step): Decision => ({ ...plan(observed('latch c1')), step });

describe('the change that is recorded', () => {
  it('is the operation, known by its ID', () => {
    const operation = { id: 'x', kind: 'AddMember', target: 'demo-3', step: 'begun', since, incarnation: 'aaaaa' };
    assert.deepEqual(recordedChange({ operation }), {
      id: 'x',
      kind: 'AddMember',
      since: Date.parse(since),
      targets: [{ member: 'demo-3', incarnation: 'aaaaa' }],
    });
  });

  it('is the bootstrap until everybody has served, since a cluster that has formed is of no use to anybody yet', () => {
    const bootstrap = { attempt: 2, token: 'claim-2', startedAt: since, members: [] };
    for (const [status, kind] of [
      [{ bootstrap }, 'Bootstrap'],
      [{ bootstrap, clusterID: 'c1', phase: 'Bootstrapping' as const }, 'Bootstrap'],
      [{ bootstrap, clusterID: 'c1', phase: 'Running' as const }, undefined],
      [{ bootstrap, clusterID: 'c1', phase: 'Degraded' as const }, undefined],
      [undefined, undefined],
    ] as const) {
      assert.equal(recordedChange(status)?.kind, kind);
    }
  });

  it('is a change of authorities from its first phase to its last, restarts and all', () => {
    const status = { caChange: { phase: 'Delivering' as const, certificates: ['peer' as const], since } };
    const change = recordedChange(status);
    assert.equal(change?.kind, 'CaChange');
    assert.equal(change.id, recordedChange({ caChange: { ...status.caChange, phase: 'DroppingOld' } })?.id);
    assert.equal(outcomeRecorded(change, decided({ do: 'Settled' }), {}), 'exchanged');
    assert.equal(outcomeRecorded(change, decided({ do: 'Settled' }), status), 'abandoned');
  });

  it('ends as the step says that ended it, and as abandoned where none does', () => {
    const recovery = { id: 'x', kind: 'RecoverQuorum', since: 0, targets: [] };
    const complete = { do: 'CompleteRecovery' } as unknown as Step;
    assert.equal(outcomeRecorded(recovery, decided(complete), {}), 'recovered');
    assert.equal(outcomeRecorded(recovery, decided({ do: 'Settled' }), {}), 'abandoned');
    const bootstrap = { id: 'x', kind: 'Bootstrap', since: 0, targets: [] };
    assert.equal(outcomeRecorded(bootstrap, decided({ do: 'Settled' }), { clusterID: 'c1' }), 'formed');
    assert.equal(outcomeRecorded(bootstrap, decided({ do: 'Settled' }), {}), 'abandoned');
  });
});

describe('a change that is not recorded', () => {
  const one = (slot: string): Decision => plan(observed(`latch c1\nlist 0-aaaaa=a1\nwant 1\n${slot}`));

  it('is no change where nothing stops or starts', () => {
    const settled = one(
      'slot 0 inc=aaaaa id=a1 phase=Voter begun=aaaaa | pod aaaaa running ready voter proven | volume aaaaa id=a1 | answers c1/a1@9 leader=a1',
    );
    assert.equal(changeBegunBy({ ...settled, step: { do: 'Settled' } }), undefined);
  });

  it('is a restart where a Pod is made again on its volume, with an ID that the next process finds, too', () => {
    const slot = 'slot 0 inc=aaaaa id=a1 phase=Voter begun=aaaaa | volume aaaaa id=a1';
    const [first, second] = [one(slot), one(slot)].map(changeBegunBy);
    assert.equal(first?.kind, 'Restart');
    assert.deepEqual(first?.targets, [{ member: 'demo-0', incarnation: 'aaaaa' }]);
    assert.equal(first?.id, second?.id);
  });
});
