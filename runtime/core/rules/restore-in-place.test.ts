import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { EtcdQuorumStatus } from '../../../api/etcdquorum.gen.ts';
import { observed } from '../../../test/scenarios/world.ts';
import { brokenInvariant } from '../invariants.ts';
import { known, type Observed, type SeenMember, type SeenNode } from '../observed.ts';
import { plan } from '../plan.ts';
import type { Restoring, SeenRestore } from '../restores.ts';
import { REVISION_BUMP } from '../seeding.ts';
import { classify } from '../situation.ts';
import type { Step } from '../steps.ts';

const RUNNING = `
latch c1
want 3
budget 2
list 0-aaaaa=a1 1-bbbbb=b1 2-ccccc=c1
slot 0 inc=aaaaa id=a1 phase=Voter begun=aaaaa | pod aaaaa running ready voter proven locked | answers c1/a1@57 leader=c1 | volume aaaaa id=a1 cluster=c1
slot 1 inc=bbbbb id=b1 phase=Voter begun=bbbbb | pod bbbbb running ready voter proven locked | answers c1/b1@57 leader=c1 | volume bbbbb id=b1 cluster=c1
slot 2 inc=ccccc id=c1 phase=Voter begun=ccccc | pod ccccc running ready voter proven locked | answers c1/c1@57 leader=c1 | volume ccccc id=c1 cluster=c1`;

const at = new Date(0).toISOString();
const asked = (change: Partial<SeenRestore> = {}): SeenRestore => ({
  name: 'back',
  uid: 'r1',
  createdAt: 0,
  deleting: false,
  phase: undefined,
  clusterID: 'c1',
  source: {
    is: 'known',
    location: { pvc: { claimName: 'backups', subPath: 'last.db' } },
    uri: 'pvc://backups/last.db',
  },
  ...change,
});
const restoring = (change: Partial<Restoring> = {}): Restoring => ({
  id: 'op1',
  restore: 'back',
  restoreUID: 'r1',
  uri: 'pvc://backups/last.db',
  clusterID: 'c1',
  target: 'demo-0',
  incarnation: 'zzzzz',
  bump: String(REVISION_BUMP + 57n),
  since: at,
  ...change,
});
const verified = { at, revision: '20', keys: '3', sha256: 'a'.repeat(64) };
const overtaking = (step: string) => ({
  operation: { id: 'op1', kind: 'RestoreInPlace', target: 'demo-0', step, since: at, incarnation: 'zzzzz' },
});

type Change = {
  readonly restores?: readonly SeenRestore[];
  readonly status?: Partial<EtcdQuorumStatus>;
  readonly replicas?: number;
  readonly medium?: '' | 'Memory';
  readonly member?: (member: SeenMember) => Partial<SeenMember>;
  readonly claim?: Observed['claim'];
  readonly agentImage?: string | undefined;
  readonly now?: number;
};

const scene = (change: Change = {}, notation = RUNNING): Observed => {
  const seen = observed(notation);
  assert.ok(seen.quorum);
  const { status, replicas = 3, medium = '', member, restores = [asked()], ...rest } = change;
  return {
    ...seen,
    agentImage: 'runtime:test',
    claim: known({ exists: true, uid: 'u', deleting: false, clusterID: 'c1' }),
    namespaceTerminating: known(false),
    ...rest,
    restores,
    members: seen.members.map((one) => ({ ...one, ...member?.(one) })),
    quorum: {
      ...seen.quorum,
      spec: { ...seen.quorum.spec, replicas, medium },
      status: { ...seen.quorum.status, ...status },
    },
  };
};

const decided = (seen: Observed): { rule: string; step: Step } => {
  const { rule, step, situation } = plan(seen);
  assert.equal(brokenInvariant(situation, step), undefined, step.do);
  return { rule, step };
};
const step = (change: Change = {}, notation?: string): Step => decided(scene(change, notation)).step;

/** The new volume beside the member's own, and the Pod that fills it. */
const beside =
  (seed?: 'running' | { report: string } | { trouble: string }) =>
  (member: SeenMember): Partial<SeenMember> => {
    const [pod] = member.pods;
    const [volume] = member.volumes;
    if (member.name !== 'demo-0' || pod === undefined || volume === undefined) return {};
    const name = 'demo-0-zzzzz';
    const { clusterID: _, memberID: __, ...blank } = volume;
    return {
      volumes: [
        volume,
        { ...blank, clusterID: undefined, memberID: undefined, name, uid: 'pvc-z', incarnation: 'zzzzz' },
      ],
      pods: [
        pod,
        ...(seed === undefined
          ? []
          : [
              {
                ...pod,
                name: `${name}-seed`,
                uid: 'pod-z',
                incarnation: '',
                voterRole: false,
                verifiedContainer: undefined,
                phase:
                  seed === 'running'
                    ? ('Running' as const)
                    : 'report' in seed
                      ? ('Succeeded' as const)
                      : ('Failed' as const),
                etcd: { known: false as const, why: 'it is no etcd' },
                seed: {
                  state:
                    seed === 'running'
                      ? ('running' as const)
                      : 'report' in seed
                        ? ('succeeded' as const)
                        : ('failed' as const),
                  report: typeof seed === 'object' && 'report' in seed ? seed.report : undefined,
                  trouble: typeof seed === 'object' && 'trouble' in seed ? seed.trouble : undefined,
                },
              },
            ]),
      ],
    };
  };
const report = JSON.stringify({
  revision: '20',
  sha256: 'a'.repeat(64),
  snapshotBytes: 9,
  keys: '3',
  version: '3.6.16',
  clusterID: 'c1',
});

describe('a restore in place', () => {
  it('begins on a new volume beside a member, with revisions above all that the cluster has reached', () => {
    const begun = step();
    assert.equal(begun.do, 'BeginRestoreInPlace');
    assert.equal(begun.do === 'BeginRestoreInPlace' ? begun.bump : 0n, REVISION_BUMP + 57n);
  });

  it('is not begun where the consent is to another cluster, or another one comes first, or none can be', () => {
    const cases: [string, Change][] = [
      ['another cluster', { restores: [asked({ clusterID: 'c0' })] }],
      ['ended before', { restores: [asked({ phase: 'Failed' })] }],
      ['being deleted', { restores: [asked({ deleting: true })] }],
      [
        'ended, as only the record knows',
        {
          status: {
            pastRestores: [
              { ...restoring(), outcome: 'Failed', lostClusterID: 'c1', at } as unknown as NonNullable<
                EtcdQuorumStatus['pastRestores']
              >[number],
            ],
          },
        },
      ],
      [
        'no snapshot yet',
        { restores: [asked({ source: { is: 'unknown', reason: 'SnapshotNotComplete', why: '', never: false } })] },
      ],
      ['paused', { replicas: 0 }],
      ['claim not read', { claim: { known: false, why: 'Timeout' } }],
      ['claim goes', { claim: known({ exists: true, uid: 'u', deleting: true, clusterID: 'c1' }) }],
      ['no image', { agentImage: undefined }],
    ];
    for (const [what, change] of cases) {
      const { do: done } = plan(scene(change)).step;
      assert.ok(!done.includes('RestoreInPlace'), `${what}: ${done}`);
    }
  });

  it('takes the oldest first, and of the same age the first by name', () => {
    const restores = [
      asked({ name: 'b', uid: 'rb' }),
      asked({ name: 'a', uid: 'ra' }),
      asked({ uid: 'r9', createdAt: 9 }),
    ];
    const begun = step({ restores });
    assert.equal(begun.do === 'BeginRestoreInPlace' ? begun.restore.name : '', 'a');
  });

  it('keeps the cluster from nothing while the snapshot is brought in', () => {
    const { rule } = decided(scene({ status: { restoring: restoring() }, member: beside('running') }));
    assert.ok(!['restore in place', 'prepare restore', 'strays'].includes(rule), rule);
  });

  it('records what etcd found in the data, then takes over once nothing else is in flight', () => {
    const found = step({ status: { restoring: restoring() }, member: beside({ report }) });
    assert.equal(found.do, 'RecordVerified');
    assert.deepEqual(found.do === 'RecordVerified' ? [found.verified.keys, found.verified.revision] : [], [3n, 20n]);
    const change: Change = { status: { restoring: restoring({ verified }) }, member: beside({ report }) };
    assert.equal(step(change).do, 'BeginCutOver');
    const adding = { id: 'x', kind: 'AddMember', target: 'demo-1', step: 'begun', since: at };
    assert.notEqual(
      plan(scene({ ...change, status: { ...change.status, operation: adding } })).step.do,
      'BeginCutOver',
    );
  });

  it('does not take over with data that nobody has opened', () => {
    const { keys: _, ...unopened } = JSON.parse(report) as Record<string, unknown>;
    const answer = step({ status: { restoring: restoring() }, member: beside({ report: JSON.stringify(unopened) }) });
    assert.equal(answer.do, 'GiveUpRestore');
  });

  it('ends where another try would find the same, and tries again where the store may come back', () => {
    const failing = (trouble: string, restores = [asked()]): Step =>
      step({ restores, status: { restoring: restoring() }, member: beside({ trouble }), now: Date.UTC(2026, 0, 2) });
    const damaged = failing('fetch ended with 1: SnapshotDamaged: it was altered');
    assert.equal(damaged.do === 'GiveUpRestore' ? damaged.reason : damaged.do, 'SnapshotDamaged');
    assert.equal(failing('fetch ended with 1: Unavailable: 503').do, 'DeletePods');
    const locked = failing('check ended with 1: AuthCredentialsRejected: root had another password');
    assert.equal(locked.do === 'GiveUpRestore' ? locked.reason : locked.do, 'AuthCredentialsRejected');
    const sealed = 'fetch ended with 1: SnapshotKeyMissing: it is encrypted with key 1f';
    assert.equal(failing(sealed).do, 'GiveUpRestore', 'its spec, which names no Secret, cannot change');
    const source = {
      is: 'known',
      uri: 'pvc://backups/last.db',
      location: { encryption: { keySecretRef: { name: 'keys' } } },
    } as const;
    assert.equal(failing(sealed, [asked({ source })]).do, 'DeletePods', 'the Secret can be given that key');
    const plain = 'fetch ended with 1: SnapshotNotEncrypted: it is not encrypted';
    const given = failing(plain, [asked({ source })]);
    assert.equal(
      given.do === 'GiveUpRestore' ? given.reason : given.do,
      'SnapshotNotEncrypted',
      'no Secret mends that',
    );
  });

  it('is not begun above revisions that could have been given out since', () => {
    const far = RUNNING.replaceAll('@57', '@900000000');
    const change = { status: { restoring: restoring({ verified }) }, member: beside({ report }) };
    const answer = step(change, far);
    assert.equal(answer.do === 'GiveUpRestore' ? answer.reason : answer.do, 'RestoreFailed');
  });

  /** With the node of some Pods, or of the new volume where no Pod is, in this state. */
  const onNode =
    (host: SeenNode, of: (pod: string) => boolean, seed?: Parameters<typeof beside>[0], home?: SeenNode) =>
    (member: SeenMember): Partial<SeenMember> => {
      const all = { ...member, ...beside(seed)(member) };
      return {
        ...all,
        pods: all.pods.map((pod) => (of(pod.name) ? { ...pod, node: 'n1', host } : pod)),
        volumes: all.volumes.map((volume) =>
          volume.incarnation === 'zzzzz' && home !== undefined
            ? { ...volume, home: known({ name: 'node n1', node: home }) }
            : volume,
        ),
      };
    };
  const isFiller = (name: string): boolean => name.endsWith('-seed');
  const silent = { is: 'notReady', since: 0 } as const;

  it('is made ready anew elsewhere a minute after the node went that has the new volume, verified or not', () => {
    for (const [status, seed] of [
      [{ restoring: restoring() }, 'running'],
      [{ restoring: restoring({ verified }) }, { report }],
    ] as const) {
      const member = onNode(silent, isFiller, seed);
      const early = step({ status, member, now: 59_000 });
      assert.ok(early.do === 'Settled' || early.do === 'Wait', early.do);
      const answer = step({ status, member, now: 60_000 });
      assert.equal(answer.do, 'PrepareElsewhere');
      assert.match(answer.do === 'PrepareElsewhere' ? answer.why : '', /node n1 has not been ready since/);
    }
    const gone = step({
      status: { restoring: restoring({ verified }) },
      member: onNode({ is: 'gone' }, () => false, undefined, { is: 'gone' }),
    });
    assert.equal(gone.do, 'PrepareElsewhere', 'the Pod is gone with its node, and the volume can be mounted nowhere');
  });

  it('stays on a volume that can follow to another node, once Kubernetes has given up the Pod', () => {
    const status = { restoring: restoring() };
    const member = onNode({ is: 'outOfService' }, isFiller, 'running', { is: 'ready' });
    assert.notEqual(step({ status, member, now: 10_000_000 }).do, 'PrepareElsewhere');
  });

  it('does not begin to stop a cluster of which a member could not be proven to have ended', () => {
    const status = { restoring: restoring({ verified }) };
    const answer = step({ status, member: onNode(silent, (name) => name === 'demo-1-bbbbb', { report }), now: 30_000 });
    assert.notEqual(answer.do, 'BeginCutOver');
    assert.equal(step({ status, member: beside({ report }) }).do, 'BeginCutOver');
  });

  it('goes back where the node went of a member that was asked to end', () => {
    const member = (one: SeenMember): Partial<SeenMember> => {
      const all = { ...one, ...onNode(silent, (name) => name === 'demo-1-bbbbb')(one) };
      return { ...all, pods: all.pods.map((pod) => ({ ...pod, deleting: true, voterRole: false })) };
    };
    const status = { restoring: restoring({ verified, revisionBefore: '57' }), ...overtaking('stopping') };
    const answer = step({ status, member, now: 30_000 });
    assert.equal(answer.do === 'GiveUpRestore' ? answer.reason : answer.do, 'NodeLost');
  });

  it('ends without waiting for what its node keeps from going', () => {
    const left = (one: SeenMember): Partial<SeenMember> => {
      const all = { ...one, ...onNode(silent, isFiller, 'running')(one) };
      const going = <T extends { name: string }>(thing: T): T =>
        thing.name.includes('zzzzz') ? { ...thing, deleting: true } : thing;
      return { ...all, pods: all.pods.map(going), volumes: all.volumes.map(going) };
    };
    const status = { restoring: restoring({ failed: 'it was deleted', failedReason: 'RestoreGivenUp' }) };
    const answer = step({ status, member: left });
    assert.equal(answer.do === 'GiveUpRestore' && answer.done, true);
  });

  it('shuts clients out before it stops anybody, and stops the leader last', () => {
    const change: Change = {
      status: { restoring: restoring({ verified }), ...overtaking('stopping') },
      member: beside(),
    };
    const first = step(change);
    assert.equal(first.do === 'Dismiss' ? first.pods.length : first.do, 3);
    const shut = (member: SeenMember): Partial<SeenMember> => {
      const all = { ...member, ...beside()(member) };
      return { ...all, pods: all.pods.map((pod) => ({ ...pod, voterRole: false })) };
    };
    const next = step({ ...change, member: shut });
    assert.equal(next.do, 'StopReplaced');
    const stopped = next.do === 'StopReplaced' ? next.pods.map(({ name }) => name) : [];
    assert.deepEqual(
      stopped,
      ['demo-0-aaaaa', 'demo-1-bbbbb'],
      'the leader has no majority without them, and can be asked',
    );
  });

  it('notes how far the data has come when nobody can write any more, and only then stops the last', () => {
    const alone = (member: SeenMember): Partial<SeenMember> => {
      const all = { ...member, ...beside()(member) };
      return { ...all, pods: member.name === 'demo-2' ? all.pods.map((pod) => ({ ...pod, voterRole: false })) : [] };
    };
    const status = { restoring: restoring({ verified }), ...overtaking('stopping') };
    const noted = step({ status, member: alone });
    assert.deepEqual(noted, { do: 'NoteReached', revision: 57n });
    const stopped = step({
      status: { ...status, restoring: restoring({ verified, revisionBefore: '57' }) },
      member: alone,
    });
    assert.equal(stopped.do, 'StopReplaced');
  });

  it('says what to do where a Pod does not end, and that deleting the EtcdRestore is a way back', () => {
    const ending = (member: SeenMember): Partial<SeenMember> => {
      const all = { ...member, ...beside()(member) };
      return { ...all, pods: member.name === 'demo-1' ? all.pods.map((pod) => ({ ...pod, deleting: true })) : [] };
    };
    const status = { restoring: restoring({ verified, revisionBefore: '57' }), ...overtaking('stopping') };
    const answer = step({ status, member: ending, now: 10_000_000 });
    assert.equal(answer.do === 'Wait' ? answer.reason : answer.do, 'RestoreBlocked');
    assert.match(answer.do === 'Wait' ? answer.message : '', /out-of-service.*delete EtcdRestore back/);
  });

  it('goes back, whatever it had come to, when the EtcdRestore is gone', () => {
    for (const status of [
      { restoring: restoring() },
      { restoring: restoring({ verified }) },
      { restoring: restoring({ verified }), ...overtaking('stopping') },
      { restoring: restoring({ verified, stoppedAt: at }), ...overtaking('starting') },
    ]) {
      const answer = step({ status, restores: [], member: beside({ report }) });
      assert.equal(answer.do === 'GiveUpRestore' ? answer.reason : answer.do, 'RestoreGivenUp');
      assert.deepEqual(answer.do === 'GiveUpRestore' ? answer.pods.map(({ name }) => name) : [], ['demo-0-zzzzz-seed']);
    }
  });

  it('makes way for a recovery of lost quorum', () => {
    const operation = {
      id: 'x',
      kind: 'RecoverQuorum',
      target: 'demo-2',
      step: 'fencing',
      since: at,
      incarnation: 'yyyyy',
    };
    const answer = step({ status: { restoring: restoring(), operation }, member: beside('running') });
    assert.equal(answer.do === 'GiveUpRestore' ? answer.reason : answer.do, 'QuorumLost');
  });
});

describe('the veto on a restore in place', () => {
  const vetoed = (change: Change, wrong: Step): string =>
    brokenInvariant(classify(scene(change)), wrong) ?? assert.fail(`${wrong.do} is let through`);
  const ready: Change = { status: { restoring: restoring({ verified }) }, member: beside({ report }) };
  const cutOver: Step = { do: 'BeginCutOver', target: 'demo-0', incarnation: 'zzzzz' };

  it('lets nobody be shut out for data that was not verified, is gone, or without consent', () => {
    assert.equal(brokenInvariant(classify(scene(ready)), cutOver), undefined);
    assert.match(vetoed({ ...ready, status: { restoring: restoring() } }, cutOver), /nothing was verified/);
    assert.match(vetoed({ ...ready, restores: [] }, cutOver), /nobody consented/);
    assert.match(vetoed({ ...ready, restores: [asked({ clusterID: 'c0' })] }, cutOver), /nobody consented/);
    assert.match(vetoed({ status: ready.status ?? {} }, cutOver), /no restored data/);
    const unreachable = (member: SeenMember): Partial<SeenMember> => {
      const all = { ...member, ...beside({ report })(member) };
      return { ...all, pods: all.pods.map((pod) => ({ ...pod, host: { is: 'notReady', since: 0 } as const })) };
    };
    assert.match(vetoed({ ...ready, member: unreachable }, cutOver), /could not be proven to have ended/);
  });

  it('lets the restored member not start beside anybody, nor take over with a revision that was given out', () => {
    const starting: Change = { ...ready, status: { ...ready.status, ...overtaking('starting') } };
    assert.match(vetoed(starting, { do: 'StartRestored' }), /is still there/);
    assert.match(
      vetoed(starting, { do: 'CompleteRestoreInPlace', clusterID: 'c2', revision: 2_000_000_000n }),
      /are not gone/,
    );
    const alone = (member: SeenMember): Partial<SeenMember> => ({
      pods: [],
      volumes: member.volumes.map((volume) => ({ ...volume, revisionFloor: 70n })),
    });
    assert.match(
      vetoed({ ...starting, member: alone }, { do: 'CompleteRestoreInPlace', clusterID: 'c1', revision: 99n }),
      /would go on as c1/,
    );
  });

  it('lets no other volume go with a restore that is given up, and none that an EtcdRestore refers to', () => {
    const giveUp = (name: string, uid: string): Step => ({
      do: 'GiveUpRestore',
      reason: 'RestoreFailed',
      why: '',
      pods: [],
      volumes: [{ name, uid }],
      done: false,
      unwanted: false,
    });
    const { uid = '' } = scene(ready).members[1]?.volumes[0] ?? {};
    assert.match(vetoed(ready, giveUp('demo-1-bbbbb', uid)), /was not made by this restore/);
    const kept = (member: SeenMember): Partial<SeenMember> => ({
      volumes: member.volumes.map((volume) => ({ ...volume, clusterID: 'c0', incarnation: 'old' })),
    });
    assert.match(
      vetoed(
        { restores: [asked({ clusterID: 'c0', phase: 'Complete' })], member: kept },
        { do: 'RetireLost', volumes: [{ name: 'demo-1-bbbbb', uid, retain: false }] },
      ),
      /still refers to what it replaced|not everybody serves/,
    );
  });
});
