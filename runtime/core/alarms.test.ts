import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { observed } from '../../test/scenarios/world.ts';
import { agreementOf, alarmsIn, bytes, hasRoom, isFragmented, isNearQuota, spaceOf } from './alarms.ts';
import { brokenInvariant } from './invariants.ts';
import type { SeenMember } from './observed.ts';
import { classify, type Situation } from './situation.ts';
import type { Step } from './steps.ts';

const slot = (ordinal: number, more: string): string => {
  const x = 'abc'[ordinal];
  const token = x?.repeat(5);
  return `slot ${ordinal} inc=${token} id=${x}1 phase=Voter begun=${token} | pod ${token} running ready voter proven | answers c1/${x}1@9 leader=a1${more} | volume ${token} id=${x}1`;
};
const situation = (lines: string, ...more: readonly [string, string, string]): Situation =>
  classify(
    observed(
      [
        'latch c1',
        'want 3',
        'list 0-aaaaa=a1 1-bbbbb=b1 2-ccccc=c1',
        lines,
        ...more.map((text, i) => slot(i, text)),
      ].join('\n'),
    ),
  );

describe('alarms', () => {
  it('are read from what members answer, in hexadecimal as everywhere, whatever the spaces between', () => {
    const s = situation('', '', '', '');
    const errors = [
      'memberID:10501334649042878790 alarm:NOSPACE ',
      'memberID:161  alarm:CORRUPT',
      'etcdserver: no leader',
      'memberID:7 alarm:NEWER ',
    ];
    const told = (member: SeenMember): SeenMember => ({
      ...member,
      pods: member.pods.map((pod) => ({
        ...pod,
        etcd: pod.etcd.known ? { known: true, value: { ...pod.etcd.value, errors } } : pod.etcd,
      })),
    });
    assert.deepEqual(alarmsIn(classify({ ...s.seen, members: s.seen.members.map(told) })), [
      { memberId: '91bc3c398fb3c146', alarm: 'NOSPACE' },
      { memberId: 'a1', alarm: 'CORRUPT' },
    ]);
  });

  it('of another cluster do not count: a foreign volume may bring its own', () => {
    const s = situation('alarm CORRUPT a1', '', '', '');
    assert.deepEqual(alarmsIn({ ...s, latch: 'another' }), []);
  });
});

describe('space', () => {
  it("is measured against the member's own quota, and etcd's default where it tells none", () => {
    const [with3, without] = situation('', ' | space 15/3/16', '', '').held;
    assert.ok(with3 && without);
    assert.deepEqual(spaceOf(with3), { size: 15n << 20n, inUse: 3n << 20n, quota: 16n << 20n });
    assert.equal(spaceOf(without)?.quota, 2n << 30n);
  });

  for (const [size, inUse, room, fragmented, near] of [
    [79n, 79n, true, false, false],
    [80n, 75n, true, true, true],
    [90n, 10n, true, true, true],
    [91n, 76n, false, false, true],
  ] as const) {
    it(`of ${size} with ${inUse} in use out of 100 ${room ? 'has' : 'has no'} room`, () => {
      const space = { size, inUse, quota: 100n };
      assert.deepEqual([hasRoom(space), isFragmented(space), isNearQuota(space)], [room, fragmented, near]);
    });
  }

  it('is told in words of one unit', () => {
    assert.deepEqual([2n << 30n, (3n << 20n) + 1n, 1536n, 7n].map(bytes), ['2 GiB', '3 MiB', '1.5 KiB', '7 B']);
  });
});

describe('agreement', () => {
  it('needs more than half of all voters, not of those that speak', () => {
    assert.equal(agreementOf(situation('', ' | hash 7/9/1', '', ''))?.majority.length, 0);
    assert.equal(agreementOf(situation('', ' | hash 7/9/1', ' | hash 7/9/1', ''))?.majority.length, 2);
  });

  it('calls silent, not differing, whoever has compacted another part of the history', () => {
    const found = agreementOf(situation('', ' | hash 7/9/1', ' | hash 7/9/1', ' | hash 8/9/3'));
    assert.deepEqual([found?.differing, found?.silent], [[], ['demo-2']]);
  });
});

describe('the veto', () => {
  const disarm = (alarm: 'NOSPACE' | 'CORRUPT'): Step => ({
    do: 'Disarm',
    alarms: [{ memberId: 'b1', alarm }],
    reason: 'CorruptAlarm',
    why: '',
  });
  const agree = [' | hash 7/9/1', ' | hash 7/9/1', ' | hash 7/9/1'] as const;

  it('lets writes begin again where all voters agree, and not where one differs or is silent', () => {
    assert.equal(brokenInvariant(situation('', ...agree), disarm('CORRUPT')), undefined);
    assert.match(
      brokenInvariant(situation('', agree[0], agree[1], ' | hash 8/9/1'), disarm('CORRUPT')) ?? '',
      /differs/,
    );
    assert.match(brokenInvariant(situation('', agree[0], agree[1], ''), disarm('CORRUPT')) ?? '', /not every voter/);
  });

  it('does not let them begin again above a quota', () => {
    const full = situation('', ' | space 3/3/16', ' | space 3/3/16', ' | space 16/3/16');
    assert.match(brokenInvariant(full, disarm('NOSPACE')) ?? '', /not every voter/);
  });

  it('keeps a leader, and a cluster with a member that is unwell, from being defragmented', () => {
    const well = situation('', '', '', '');
    const of = (s: Situation, ordinal: number): Step => {
      const pod = s.slots[ordinal]?.pod;
      assert.ok(pod);
      return {
        do: 'Defragment',
        target: `demo-${ordinal}`,
        pod,
        inUse: 0n,
        why: '',
        repair: { member: `demo-${ordinal}`, cause: 'SpaceFragmented' },
      };
    };
    assert.equal(brokenInvariant(well, of(well, 1)), undefined);
    assert.match(brokenInvariant(well, of(well, 0)) ?? '', /demo-0 leads/);
    const ill = classify({
      ...well.seen,
      members: well.seen.members.map((member) =>
        member.ordinal === 2
          ? { ...member, pods: member.pods.map((pod) => ({ ...pod, etcd: { known: false, why: 'silent' } as const })) }
          : member,
      ),
    });
    assert.match(brokenInvariant(ill, of(ill, 1)) ?? '', /1 of 3 voters are not healthy/);
  });
});
