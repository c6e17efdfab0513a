import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { EtcdMemberStatus } from '../../api/etcdmember.gen.ts';
import type { EtcdQuorumStatus } from '../../api/etcdquorum.gen.ts';
import { REASONS } from '../../api/reasons.ts';
import { applyClaim, emptyWorld, observe, pass, run, turn, type World } from '../../test/scenarios/simulate.ts';
import { observed } from '../../test/scenarios/world.ts';
import { memberReport } from './member-report.ts';
import type { Observed } from './observed.ts';
import { plan } from './plan.ts';
import { quorumStatus, type StepFault } from './report.ts';

const reportOf = (notation: string): ReturnType<typeof memberReport> => {
  const { situation } = plan(observed(notation));
  const [slot] = situation.slots;
  assert.ok(slot !== undefined);
  return memberReport(situation, slot);
};

const condition = (
  status: EtcdQuorumStatus | EtcdMemberStatus | undefined,
  type: string,
): { status: string; reason: string; message?: string; lastTransitionTime: string } => {
  const found = status?.conditions?.find((one) => one.type === type);
  assert.ok(found !== undefined, `a condition ${type}`);
  return found;
};

describe('what is said of a member', () => {
  const latched = 'latch c1\nwant 1\nlist 0-aaaaa=a1';
  const slot = 'slot 0 inc=aaaaa id=a1 phase=Voter begun=aaaaa';
  const kept = 'volume aaaaa id=a1';
  const forming = 'want 1\nattempt 1 0-aaaaa\nslot 0 begun=aaaaa';
  const rows: readonly [string, string, { phase: string; reason: string; trouble: boolean; says: RegExp }][] = [
    [
      'serves',
      `${latched}\n${slot} | pod aaaaa running ready voter proven | answers c1/a1@9 leader=a1 | ${kept}`,
      { phase: 'Voter', reason: 'Serving', trouble: false, says: /serves clients/ },
    ],
    [
      'waits for its slot to be used',
      'want 3\nslot 0',
      { phase: 'Pending', reason: 'Creating', trouble: false, says: /nothing has been started/ },
    ],
    [
      'is not wanted any more',
      'latch c1\nwant 1\nlist 1-bbbbb=b1\nslot 0\nslot 1 inc=bbbbb id=b1 | volume bbbbb id=b1',
      { phase: 'Removed', reason: 'Removed', trouble: false, says: /has left/ },
    ],
    [
      'is made for the first time',
      forming,
      { phase: 'Provisioning', reason: 'Starting', trouble: false, says: /being made/ },
    ],
    [
      'finds no node, for a moment',
      `${forming} | pod aaaaa new age=1 unschedulable="0/3 nodes" | volume aaaaa`,
      { phase: 'Provisioning', reason: 'Starting', trouble: false, says: /is starting/ },
    ],
    [
      'finds no node',
      `${forming} | pod aaaaa new age=9 unschedulable="0/3 nodes" | volume aaaaa`,
      { phase: 'Provisioning', reason: 'Unschedulable', trouble: true, says: /0\/3 nodes/ },
    ],
    [
      'gets no volume',
      `${forming} | pod aaaaa new age=9 | volume aaaaa pending trouble="no class fast"`,
      { phase: 'Provisioning', reason: 'VolumeNotProvisioned', trouble: true, says: /no class fast/ },
    ],
    [
      'has no image',
      `${forming} | pod aaaaa new waiting=ImagePullBackOff message="not found" | volume aaaaa`,
      { phase: 'Provisioning', reason: 'ImagePullFailed', trouble: true, says: /not found/ },
    ],
    [
      'gets no container',
      `${forming} | pod aaaaa new waiting=CreateContainerConfigError message="secret missing" | volume aaaaa`,
      { phase: 'Provisioning', reason: 'ContainerNotCreated', trouble: true, says: /secret missing/ },
    ],
    [
      'is refused its options by etcd',
      `${latched}\n${slot} | pod aaaaa crashed restarts=4 said="unexpected error setting up" | ${kept}`,
      { phase: 'Restarting', reason: 'OptionsRefused', trouble: true, says: /correct spec\.options/ },
    ],
    [
      'catches up',
      `latch c1\nwant 1\nlist 0-aaaaa=a1/learner\noperation AddMember demo-0 inc=aaaaa\nslot 0 begun=aaaaa | pod aaaaa running joining | volume aaaaa`,
      { phase: 'Learner', reason: 'Learner', trouble: false, says: /catching up/ },
    ],
    [
      'starts again',
      `${latched}\n${slot} | pod aaaaa running | ${kept}`,
      { phase: 'Restarting', reason: 'Restarting', trouble: false, says: /not ready yet/ },
    ],
    [
      'runs on foreign data',
      `${latched}\n${slot} | pod aaaaa running ready | answers c9/a1@9 leader=a1 | ${kept}`,
      { phase: 'Failed', reason: 'ForeignData', trouble: true, says: /c9.*volume is kept/ },
    ],
    [
      'was stopped for its data',
      `latch c1\nwant 1\nslot 0 inc=aaaaa id=a1 phase=Failed reason=RevisionTooLow | ${kept}`,
      { phase: 'Failed', reason: 'RevisionTooLow', trouble: true, says: /./ },
    ],
    [
      'was stopped for its data, and its Pod is still ending',
      `latch c1\nwant 1\nslot 0 inc=aaaaa id=a1 phase=Failed reason=ForeignData | pod aaaaa deleting | ${kept}`,
      { phase: 'Failed', reason: 'ForeignData', trouble: true, says: /./ },
    ],
    [
      'is tried again with its data',
      `latch c1\nwant 1\nslot 0 retry inc=aaaaa id=a1 phase=Failed reason=ForeignData begun=aaaaa | pod aaaaa running | ${kept}`,
      { phase: 'Restarting', reason: 'Restarting', trouble: false, says: /./ },
    ],
    [
      'lost its memory',
      'shape memory\nlatch c1\nwant 1\nslot 0 inc=aaaaa id=a1 phase=Voter begun=aaaaa',
      { phase: 'Failed', reason: 'MemoryLost', trouble: true, says: /Pod is gone/ },
    ],
    [
      'lost its volume',
      `${latched}\n${slot}`,
      { phase: 'Failed', reason: 'VolumeLost', trouble: true, says: /is gone/ },
    ],
    [
      'serves from a volume that is being deleted',
      `${latched}\n${slot} | pod aaaaa running ready voter proven | answers c1/a1@9 leader=a1 | ${kept} deleting`,
      { phase: 'Voter', reason: 'VolumeLost', trouble: true, says: /ends with its Pod/ },
    ],
    [
      'leaves',
      `latch c1\nwant 1\nlist 0-aaaaa=a1\noperation RemoveMember demo-0 id=a1\n${slot} | ${kept}`,
      { phase: 'Leaving', reason: 'Leaving', trouble: false, says: /RemoveMember/ },
    ],
    [
      'is replaced',
      `latch c1\nwant 1\nlist 0-aaaaa=a1\noperation ReplaceMember demo-0 id=a1\n${slot} | ${kept}`,
      { phase: 'Leaving', reason: 'Replacing', trouble: false, says: /ReplaceMember/ },
    ],
    [
      'is not touched by an operation that nobody knows',
      `${latched}\noperation Defragment demo-0\n${slot} | pod aaaaa running ready voter proven | answers c1/a1@9 leader=a1 | ${kept}`,
      { phase: 'Voter', reason: 'Serving', trouble: false, says: /serves/ },
    ],
    [
      'pauses',
      `latch c1\nwant 0\n${slot} | ${kept}`,
      { phase: 'Paused', reason: 'Paused', trouble: false, says: /kept/ },
    ],
  ];
  for (const [what, notation, { phase, reason, trouble, says }] of rows) {
    it(`is ${phase}/${reason} when it ${what}`, () => {
      const said = reportOf(notation);
      assert.deepEqual({ phase: said.phase, reason: said.reason, trouble: said.trouble }, { phase, reason, trouble });
      assert.match(said.message, says);
      assert.ok(said.reason in REASONS);
    });
  }
});

const three = (also: Readonly<Record<number, string>> = {}): string =>
  [
    'latch c1',
    'want 3',
    'budget 2',
    'list 0-aaaaa=a1 1-bbbbb=b1 2-ccccc=c1',
    ...['a', 'b', 'c'].map(
      (x, i) =>
        also[i] ??
        `slot ${i} inc=${x.repeat(5)} id=${x}1 phase=Voter begun=${x.repeat(5)} | pod ${x.repeat(5)} running ready voter proven | answers c1/${x}1@9 leader=a1 | volume ${x.repeat(5)} id=${x}1`,
    ),
  ].join('\n');

const whole = (seen: Observed, fault?: StepFault): EtcdQuorumStatus => {
  const written = quorumStatus(plan(seen), fault);
  assert.ok(written !== undefined);
  return written.status;
};

describe('what is said of the cluster', () => {
  const silent = (flags: string): string =>
    three(
      Object.fromEntries(
        ['a', 'b', 'c'].map((x, i) => [
          i,
          `slot ${i} inc=${x.repeat(5)} id=${x}1 phase=Voter begun=${x.repeat(5)} | pod ${x.repeat(5)} running ${flags} voter proven | volume ${x.repeat(5)} id=${x}1`,
        ]),
      ),
    ).replace(/list .*/, 'list unknown');

  it('is Running and Ready while everybody serves', () => {
    const status = whole(observed(three()));
    assert.equal(status.phase, 'Running');
    assert.equal(status.members, '3/3');
    assert.equal(status.leader, 'demo-0');
    assert.deepEqual(status.voters, ['demo-0', 'demo-1', 'demo-2']);
    assert.equal(condition(status, 'Ready').status, 'True');
    assert.equal(condition(status, 'Progressing').reason, 'Settled');
  });

  it('is Degraded and still Available while a majority serves, and names who does not', () => {
    const status = whole(
      observed(
        three({
          2: 'slot 2 inc=ccccc id=c1 phase=Voter begun=ccccc | pod ccccc crashed exit=137 restarts=3 | volume ccccc id=c1',
        }),
      ),
    );
    assert.equal(status.phase, 'Degraded');
    assert.equal(condition(status, 'Available').reason, 'QuorumAvailable');
    assert.equal(condition(status, 'Ready').status, 'False');
    assert.match(condition(status, 'Degraded').message ?? '', /demo-2/);
  });

  it('is not Ready while an operation is in flight, though everybody serves', () => {
    const status = whole(observed(`operation AddMember demo-3 inc=ddddd\n${three()}`));
    assert.equal(condition(status, 'Ready').status, 'False');
    assert.equal(condition(status, 'Progressing').status, 'True');
  });

  it('has lost its quorum only if neither etcd nor the kubelet knows better', () => {
    const lost = whole(observed(silent('')));
    assert.equal(lost.phase, 'QuorumLost');
    assert.equal(condition(lost, 'Available').status, 'False');
    const cutOff = whole(observed(silent('ready')));
    assert.equal(cutOff.phase, 'Running');
    assert.deepEqual(
      [condition(cutOff, 'Synced').status, condition(cutOff, 'Synced').reason],
      ['False', 'ClusterUnreachable'],
    );
  });

  it('waits for a person where data was refused, not where a lost member is replaced anyway', () => {
    const refused = whole(
      observed(three({ 1: 'slot 1 inc=bbbbb id=b1 phase=Failed reason=ForeignData begun=bbbbb | volume bbbbb id=b1' })),
    );
    assert.equal(condition(refused, 'Stalled').reason, 'ForeignData');
    const lost = whole(observed(three({ 1: 'slot 1 inc=bbbbb id=b1 phase=Voter begun=bbbbb' })));
    assert.equal(condition(lost, 'Stalled').status, 'False');
    assert.equal(condition(lost, 'Degraded').reason, 'VolumeLost');
  });

  it('tells what the API server refused, in its words', () => {
    const status = whole(
      observed(three({ 1: 'slot 1 inc=bbbbb id=b1 phase=Voter begun=bbbbb | volume bbbbb id=b1' })),
      {
        reason: 'PodRefused',
        message: 'exceeded quota',
      },
    );
    for (const type of ['Synced', 'Ready']) {
      assert.deepEqual(
        [condition(status, type).status, condition(status, type).reason, condition(status, type).message],
        ['False', 'PodRefused', 'exceeded quota'],
      );
    }
  });

  it('calls a change late after the deadline of the claim, and goes on', () => {
    const seen = observed(
      three({ 2: 'slot 2 inc=ccccc id=c1 phase=Voter begun=ccccc | pod ccccc running | volume ccccc id=c1' }),
    );
    const first = whole(seen);
    const later = (ms: number): EtcdQuorumStatus =>
      whole({
        ...seen,
        now: seen.now + ms,
        quorum: seen.quorum === undefined ? undefined : { ...seen.quorum, status: { ...first, phase: 'Pending' } },
      });
    assert.equal(condition(later(599_000), 'Progressing').status, 'True');
    assert.deepEqual(
      [condition(later(601_000), 'Progressing').status, condition(later(601_000), 'Progressing').reason],
      ['False', 'DeadlineExceeded'],
    );
  });

  it('tells, once it is late, what the runtime waits for behind the sentence for the whole change', () => {
    const seen = observed(`${three()}\nwant 5`);
    const first = whole(seen);
    const later = (ms: number): string =>
      condition(
        whole({
          ...seen,
          now: seen.now + ms,
          quorum: seen.quorum === undefined ? undefined : { ...seen.quorum, status: { ...first, phase: 'Pending' } },
        }),
        'Progressing',
      ).message ?? '';
    assert.doesNotMatch(later(599_000), /Crossplane/, 'each station of a change would be a write');
    assert.match(later(601_000), /members are added until there are 5; now: waiting for Crossplane/);
  });

  it('moves the time of a transition only with the status value, not with reason or message', () => {
    const seen = observed(three());
    const first = whole(seen);
    const hour = 3_600_000;
    const with_ = (notation: string): EtcdQuorumStatus => {
      const next = observed(notation);
      return whole({
        ...next,
        now: next.now + hour,
        quorum: next.quorum === undefined ? undefined : { ...next.quorum, status: first },
      });
    };
    const degraded = with_(
      three({ 2: 'slot 2 inc=ccccc id=c1 phase=Voter begun=ccccc | pod ccccc running | volume ccccc id=c1' }),
    );
    assert.equal(condition(degraded, 'Available').lastTransitionTime, condition(first, 'Available').lastTransitionTime);
    assert.notEqual(condition(degraded, 'Available').reason, condition(first, 'Available').reason);
    assert.equal(
      Date.parse(condition(degraded, 'Ready').lastTransitionTime) -
        Date.parse(condition(first, 'Ready').lastTransitionTime),
      hour,
    );
  });

  it('cuts a message that no condition could hold', () => {
    const status = whole(
      observed(three({ 1: 'slot 1 inc=bbbbb id=b1 phase=Voter begun=bbbbb | volume bbbbb id=b1' })),
      {
        reason: 'PodRefused',
        message: 'x'.repeat(40_000),
      },
    );
    assert.equal(condition(status, 'Synced').message?.length, 1_000);
  });

  it('is not written a second time when nothing has changed', () => {
    const seen = observed(three());
    const settled = whole(seen);
    const again = { ...seen, quorum: seen.quorum === undefined ? undefined : { ...seen.quorum, status: settled } };
    assert.equal(quorumStatus(plan(again)), undefined);
    assert.equal(quorumStatus(plan({ ...again, now: again.now + 86_400_000 })), undefined);
  });

  it('is not written again while quorum is lost, though the API server gives keys back in an order of its own', () => {
    const alphabetical = <T>(value: T): T =>
      JSON.parse(
        JSON.stringify(value, (_, part: unknown) =>
          typeof part === 'object' && part !== null && !Array.isArray(part)
            ? Object.fromEntries(Object.entries(part).toSorted(([a], [b]) => (a < b ? -1 : 1)))
            : part,
        ),
      ) as T;
    const bare = observed(silent(''));
    const seen = { ...bare, lastSeen: { clusterID: 'c1', revision: 41n, at: bare.now - 1_000 } };
    const lost = whole(seen);
    assert.equal(lost.loss?.lastRevision, '41');
    assert.ok(seen.quorum !== undefined);
    const again = { ...seen, quorum: { ...seen.quorum, status: alphabetical(lost) } };
    assert.equal(quorumStatus(plan(again)), undefined);
  });
});

// ---------------------------------------------------------------------------------------------------------- thrift

/** Pods that start one after the other, a second apart, as images and volumes let them. */
const bringUp = (replicas: number, shape: { medium?: 'Memory' }): World => {
  const w = emptyWorld();
  applyClaim(w, replicas, shape);
  for (let i = 0; i < 200; i += 1) {
    const { decision } = pass(w);
    const { step } = decision;
    if (step.do === 'Settled' && i > 10) return w;
    if (step.do === 'BringUp') for (const pod of w.pods) pod.lost = true;
    if (step.do !== 'Wait' && step.do !== 'Settled') continue;
    const [next] = w.pods.filter(({ lost }) => lost);
    if (next !== undefined) next.lost = false;
    turn(w, 1_000);
  }
  throw new Error(`${replicas} members do not settle: ${plan(observe(w)).sketch}`);
};

describe('thrift', () => {
  for (const [replicas, shape] of [
    [1, {}],
    [3, {}],
    [9, {}],
    [9, { medium: 'Memory' }],
  ] as const) {
    it(`brings up ${replicas} members${'medium' in shape ? ' in memory' : ''} with two status writes each and few of the whole`, () => {
      const w = bringUp(replicas, shape);
      for (const [member, writes] of Object.entries(w.writes.member)) {
        assert.ok(writes <= 2, `${member} was written ${writes} times`);
      }
      assert.equal(Object.keys(w.writes.member).length, replicas);
      assert.ok(w.writes.quorum <= 4, `the EtcdQuorum was written ${w.writes.quorum} times`);
      // Two tokens a write, two more where the claim follows; of a hundred.
      const members = Object.values(w.writes.member).reduce((sum, writes) => sum + writes, 0);
      assert.ok(2 * members + 4 * w.writes.quorum < 80, `${2 * members + 4 * w.writes.quorum} tokens`);
    });
  }

  it('writes nothing while a cluster is settled', () => {
    const w = bringUp(3, {});
    const before = structuredClone(w.writes);
    run(w);
    for (let i = 0; i < 100; i += 1) {
      pass(w);
      turn(w, 60_000);
    }
    assert.deepEqual(w.writes, before);
  });
});
