import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { observed } from '../../../test/scenarios/world.ts';
import type { Observed } from '../observed.ts';
import { plan } from '../plan.ts';

/** Three members on volumes of 1Gi, of which the last one ended with `said`, and a claim that asks for `size`. */
const picture = (said: string, size: string): Observed => {
  const seen = observed(`
    latch c1
    want 3
    list 0-aaaaa=a1 1-bbbbb=b1 2-ccccc=c1
    budget 2
    slot 0 inc=aaaaa id=a1 phase=Voter begun=aaaaa | pod aaaaa running ready voter proven | answers c1/a1@9 leader=a1 | volume aaaaa id=a1
    slot 1 inc=bbbbb id=b1 phase=Voter begun=bbbbb | pod bbbbb running ready voter proven | answers c1/b1@9 leader=a1 | volume bbbbb id=b1
    slot 2 inc=ccccc id=c1 phase=Restarting begun=ccccc | pod ccccc crashed restarts=9 message="back-off 5m0s restarting failed container=etcd" said="${said}" | volume ccccc id=c1`);
  return {
    ...seen,
    members: seen.members.map((member) => ({
      ...member,
      volumes: member.volumes.map((volume) => ({ ...volume, requested: '1Gi' })),
      spec: {
        ...member.spec,
        volumeClaimTemplate: { metadata: {}, spec: { resources: { requests: { storage: size } } } },
      },
    })),
  };
};
const FULL = 'write /var/lib/etcd/wal: no space left on device';

describe('a member that ends because its volume is full', () => {
  it('gets the larger volume that the claim asks for, although it does not serve', () => {
    const { rule, step } = plan(picture(FULL, '2Gi'));
    assert.equal(rule, 'relieve');
    assert.ok(step.do === 'GrowVolumes');
    assert.deepEqual(
      step.volumes.map(({ name, size }) => [name, size]),
      [
        ['demo-0-aaaaa', '2Gi'],
        ['demo-1-bbbbb', '2Gi'],
        ['demo-2-ccccc', '2Gi'],
      ],
    );
  });

  it('is waited for while nobody has asked for a larger one: a new member would fill the next volume', () => {
    assert.equal(plan(picture(FULL, '1Gi')).rule, 'starting');
  });

  it('is the only one for whom growing does not wait until everybody serves', () => {
    assert.equal(plan(picture('etcd ended', '2Gi')).rule, 'starting');
  });
});
