import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { observed } from '../../test/scenarios/world.ts';
import { plan } from './plan.ts';
import { classify, majority } from './situation.ts';

describe('majority', () => {
  for (const [voters, needed] of [
    [1, 1],
    [2, 2],
    [3, 2],
    [4, 3],
    [5, 3],
    [7, 4],
    [9, 5],
  ] as const) {
    it(`of ${voters} is ${needed}`, () => assert.equal(majority(voters), needed));
  }

  it('is such that two of them always share a voter', () => {
    for (let voters = 1; voters < 20; voters += 1) assert.ok(2 * majority(voters) > voters);
  });
});

const voter = (ordinal: number, also = ''): string => {
  const x = 'abcdefghi'[ordinal] ?? 'z';
  const token = x.repeat(5);
  return `slot ${ordinal} inc=${token} id=${x}1 phase=Voter begun=${token} | pod ${token} running ready voter proven ${also} | answers c1/${x}1@9 leader=a1 | volume ${token} id=${x}1`;
};
const listOf = (size: number): string =>
  `list ${Array.from({ length: size }, (_, i) => `${i}-${'abcdefghi'[i]?.repeat(5)}=${'abcdefghi'[i]}1`).join(' ')}`;
const cluster = (size: number, more = ''): string =>
  ['latch c1', `want ${size}`, listOf(size), more, ...Array.from({ length: size }, (_, i) => voter(i))].join('\n');

describe('the budget', () => {
  for (const [voters, minAvailable] of [
    [2, 2],
    [3, 2],
    [4, 3],
    [5, 3],
    [7, 4],
    [9, 5],
  ] as const) {
    it(`keeps ${minAvailable} of ${voters} voters from being evicted`, () => {
      assert.deepEqual(plan(observed(cluster(voters))).step, {
        do: 'SetBudget',
        minAvailable,
        alwaysEvictUnhealthy: true,
      });
      assert.equal(plan(observed(cluster(voters, `budget ${minAvailable}`))).step.do, 'Settled');
    });
  }

  it('is not made for one voter, whom it would block from every drain for ever, and goes when one is left', () => {
    assert.equal(plan(observed(cluster(1))).step.do, 'Settled');
    assert.deepEqual(plan(observed(cluster(1, 'budget 2'))).step, {
      do: 'SetBudget',
      minAvailable: undefined,
      alwaysEvictUnhealthy: true,
    });
  });

  it('does not let the unhealthy go where their data is their memory', () => {
    const { step } = plan(observed(`shape memory\n${cluster(3)}`));
    assert.deepEqual(step, { do: 'SetBudget', minAvailable: 2, alwaysEvictUnhealthy: false });
  });

  it('does not count a learner', () => {
    const learner = cluster(3).replace('2-ccccc=c1', '2-ccccc=c1/learner');
    const { step } = plan(observed(learner));
    assert.deepEqual(step, { do: 'SetBudget', minAvailable: 2, alwaysEvictUnhealthy: true });
  });
});

describe('classify', () => {
  it('takes the cluster ID of the runtime before the copy in the claim, members and volumes', () => {
    const latch = (notation: string): string | undefined => classify(observed(`want 1\n${notation}`)).latch;
    const slot = 'slot 0 cluster=c3 | volume aaaaa cluster=c4';
    assert.equal(latch(`latch c1\nclaim cluster=c2\n${slot}`), 'c1');
    assert.equal(latch(`claim cluster=c2\n${slot}`), 'c2');
    assert.equal(latch(slot), 'c3');
    assert.equal(latch('slot 0 | volume aaaaa cluster=c4'), 'c4');
    assert.equal(latch('slot 0'), undefined);
  });

  it('counts records that differ, and is not swayed by their order', () => {
    const of = (...ids: string[]): string | undefined =>
      classify(observed(`want 3\n${ids.map((id, i) => `slot ${i} cluster=${id}`).join('\n')}`)).latch;
    assert.equal(of('c9', 'c1', 'c9'), 'c9');
    assert.equal(of('c9', 'c1'), 'c1');
    assert.equal(of('c1', 'c9'), 'c1');
  });

  it('lets nobody who serves other data name the leader', () => {
    const s = classify(
      observed(
        cluster(3)
          .replace('answers c1/b1@9 leader=a1', 'answers c9/f1@9 leader=f1')
          .replace('answers c1/c1@9 leader=a1', 'answers c9/f2@9 leader=f1'),
      ),
    );
    assert.equal(s.leaderID, 'a1');
  });

  it('takes a member list of another cluster for none', () => {
    const s = classify(observed(cluster(1).replace('list', 'list of=c9')));
    assert.equal(s.seen.membership.known, false);
    assert.equal(s.slots[0]?.entry.known, false);
  });

  const incarnations: readonly [string, string, string | undefined][] = [
    ['what is in flight', 'latch c1\noperation AddMember demo-0 inc=zzzzz\nslot 0 inc=aaaaa | volume aaaaa', 'zzzzz'],
    ['before the latch, the attempt and not what an earlier one left', 'attempt 2 0-bbbbb\nslot 0 inc=aaaaa', 'bbbbb'],
    ['the record', 'latch c1\nslot 0 inc=aaaaa', 'aaaaa'],
    [
      'whom etcd lists, where it does not list the recorded one',
      'latch c1\nlist 0-bbbbb=b1\nslot 0 inc=aaaaa',
      'bbbbb',
    ],
    ['the record, where etcd lists neither', 'latch c1\nlist of=c1\nslot 0 inc=aaaaa', 'aaaaa'],
    [
      'whom etcd lists, where the record is older than the incarnation',
      'latch c1\nlist 0-bbbbb=b1\nslot 0 phase=Removed',
      'bbbbb',
    ],
    [
      'a learner that has not started and so has no name yet',
      'latch c1\nlist 0-bbbbb=b1/learner/unstarted\nslot 0',
      'bbbbb',
    ],
    ['nobody, where etcd lists two', 'latch c1\nlist 0-bbbbb=b1 0-ccccc=c1\nslot 0', undefined],
    [
      'without a quorum what was last begun and stands',
      'latch c1\nslot 0 inc=aaaaa begun=bbbbb | volume bbbbb',
      'bbbbb',
    ],
    ['without a quorum the record, where nothing stands', 'latch c1\nslot 0 inc=aaaaa begun=bbbbb', 'aaaaa'],
    ['without any record what stands alone', 'latch c1\nslot 0 | volume bbbbb', 'bbbbb'],
    ['nobody, where two stand', 'latch c1\nslot 0 | volume bbbbb | volume ccccc', undefined],
  ];
  for (const [what, notation, expected] of incarnations) {
    it(`finds in a slot ${what}`, () => {
      assert.equal(classify(observed(`want 1\n${notation}`)).slots[0]?.incarnation, expected);
    });
  }
});
