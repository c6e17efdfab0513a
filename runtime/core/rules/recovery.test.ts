import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { EtcdQuorumSpec } from '../../../api/etcdquorum.gen.ts';
import { observed } from '../../../test/scenarios/world.ts';
import { advice, adviceOnPlace, consentOf } from '../consent.ts';
import { brokenInvariant } from '../invariants.ts';
import { known, type Observed, type SeenPod } from '../observed.ts';
import { lossSentence } from '../recovery-record.ts';
import { bumpOver, REVISION_BUMP } from '../seeding.ts';
import { classify, type Situation } from '../situation.ts';
import type { KnownSnapshot, StoredSource } from '../snapshots/known-snapshots.ts';
import type { StoreLocation } from '../snapshots/store-access.ts';
import type { Step } from '../steps.ts';
import { lastSeenOf, survivorsOf } from '../survivors.ts';

const LOST = `
latch c1
want 3
voters demo-0 demo-1 demo-2
slot 0 inc=aaaaa id=a1 phase=Voter begun=aaaaa | pod aaaaa running | answers c1/a1@7 | volume aaaaa id=a1 cluster=c1
slot 1 inc=bbbbb id=b1 phase=Voter begun=bbbbb
slot 2 inc=ccccc id=c1 phase=Voter begun=ccccc | pod ccccc running | answers c1/c1@9 | volume ccccc id=c1 cluster=c1`;

const since = new Date(0).toISOString();
const consent = (survivor: string, clusterID = 'c1') => ({ survivor, clusterID, acceptDataLoss: true });

const snapshot = (name: string, revision: bigint, clusterID = 'c1', etcdVersion = '3.6.16'): KnownSnapshot => ({
  name,
  uri: `s3://b/${name}.db`,
  location: { s3: { endpoint: 'https://s3', bucket: 'b', key: `${name}.db` } },
  revision,
  takenAt: '1970-01-01T00:00:00.000Z',
  clusterID,
  etcdVersion,
  sha256: 'a'.repeat(64),
});
const consentToSnapshot = (name: string) => ({ snapshot: name, clusterID: 'c1', acceptDataLoss: true });

type Change = {
  readonly recovery?: NonNullable<EtcdQuorumSpec['recovery']>;
  readonly snapshots?: readonly KnownSnapshot[];
  readonly backups?: readonly StoreLocation[];
  readonly status?: object;
  readonly pod?: (pod: SeenPod) => Partial<SeenPod>;
  readonly agentImage?: string;
};

const scene = (notation: string, { recovery, status, pod, ...rest }: Change = {}): Situation => {
  const seen = observed(notation);
  assert.ok(seen.quorum);
  return classify({
    ...seen,
    agentImage: 'runtime:test',
    ...rest,
    members: seen.members.map((member) => ({
      ...member,
      pods: member.pods.map((one) => ({ ...one, ...pod?.(one) })),
    })),
    quorum: {
      ...seen.quorum,
      spec: { ...seen.quorum.spec, ...(recovery === undefined ? {} : { recovery }) },
      status: { ...seen.quorum.status, loss: { since }, ...status },
    },
  } satisfies Observed);
};

const why = (s: Situation): string => {
  const answer = consentOf(s);
  return answer.is === 'refused' ? answer.why : answer.is;
};

describe('survivors', () => {
  it('are those that answer for this cluster, most data first', () => {
    const told = survivorsOf(scene(LOST)).map(({ slot, revision }) => `${slot.member.name}@${revision}`);
    assert.deepEqual(told, ['demo-2@9', 'demo-0@7']);
  });

  it('are known by their metrics where they have restarted, since then no client port serves', () => {
    const s = scene(LOST, {
      pod: ({ incarnation, etcd }) =>
        incarnation === 'ccccc'
          ? {
              etcd: { known: false, why: 'Timeout' },
              metrics: known({ revision: 12n, isLearner: undefined }),
            }
          : { etcd },
    });
    assert.deepEqual(
      survivorsOf(s).map(({ slot, revision, source }) => `${slot.member.name}@${revision} ${source}`),
      ['demo-2@12 metrics', 'demo-0@7 status'],
    );
  });

  it('are not those that run on the data of another cluster', () => {
    const foreign = LOST.replace('answers c1/c1@9', 'answers c9/c1@900');
    assert.deepEqual(
      survivorsOf(scene(foreign)).map(({ slot }) => slot.member.name),
      ['demo-0'],
    );
  });
});

describe('consent', () => {
  it('is followed when it names the survivor with most data of the cluster that is lost', () =>
    assert.equal(why(scene(LOST, { recovery: consent('demo-2') })), 'given'));

  it('is none while it names another cluster, as one does that is left in Git from an earlier loss', () =>
    assert.equal(why(scene(LOST, { recovery: consent('demo-2', 'c0') })), 'absent'));

  it('is none before the loss is on record, or one that was written too early would count', () =>
    assert.equal(why(scene(LOST, { recovery: consent('demo-2'), status: { loss: undefined } })), 'absent'));

  it('to less data than there is gets refused with the better line', () =>
    assert.match(why(scene(LOST, { recovery: consent('demo-0') })), /revision 7, demo-2 to 9.*survivor: demo-2/));

  it('to a member that does not answer gets refused with the line that is possible', () =>
    assert.match(
      why(scene(LOST, { recovery: consent('demo-1') })),
      /demo-1, which does not answer; possible is recovery/,
    ));

  it('to a learner gets refused, since alone it has no vote to go on with', () => {
    const learner = LOST.replace('answers c1/c1@9', 'answers c1/c1@9 learner');
    assert.match(why(scene(learner, { recovery: consent('demo-2') })), /is a learner/);
  });

  it('to a member whose volume ends with its Pod gets refused before that Pod is stopped', () => {
    const doomed = LOST.replace('volume ccccc', 'volume ccccc deleting');
    assert.match(why(scene(doomed, { recovery: consent('demo-2') })), /is being deleted and ends with its Pod/);
  });
});

describe('consent to going back to a snapshot', () => {
  const GONE = `
latch c1
want 3
voters demo-0 demo-1 demo-2
slot 0 inc=aaaaa id=a1 phase=Voter begun=aaaaa
slot 1 inc=bbbbb id=b1 phase=Voter begun=bbbbb
slot 2 inc=ccccc id=c1 phase=Voter begun=ccccc`;
  const asked = (name: string, ...snapshots: KnownSnapshot[]): string =>
    why(scene(LOST, { recovery: consentToSnapshot(name), snapshots }));

  it('is followed where it goes further than every survivor, or nobody survives', () => {
    assert.equal(asked('far', snapshot('far', 10n)), 'given');
    assert.equal(asked('same', snapshot('same', 9n)), 'given');
    const nobody = scene(GONE, { recovery: consentToSnapshot('old'), snapshots: [snapshot('old', 3n)] });
    assert.equal(why(nobody), 'given');
  });

  it('gets refused where a survivor has more, with the line that loses less', () =>
    assert.match(asked('old', snapshot('old', 8n)), /old has come to revision 8, demo-2 to 9.*survivor: demo-2/));

  it('gets refused where there is no such snapshot, or it is of a cluster that this never was', () => {
    assert.match(asked('gone', snapshot('far', 10n)), /gone, of which there is no complete.*snapshot: "far"/);
    assert.match(asked('foreign', snapshot('foreign', 90n, 'c9')), /of cluster c9, which this cluster has never been/);
  });

  it('is followed where the snapshot is of what the cluster was before an earlier recovery', () => {
    const status = {
      recovered: [
        { id: 'op', at: since, lostClusterID: 'c0', clusterID: 'c1', revisionBefore: '1', revisionAfter: '2' },
      ],
    };
    const recovery = consentToSnapshot('before');
    assert.equal(why(scene(GONE, { recovery, status, snapshots: [snapshot('before', 1n, 'c0')] })), 'given');
  });

  it('gets refused where the claim asks for an etcd that cannot read it, before anything is made', () => {
    const newer = snapshot('newer', 90n, 'c1', '3.7.1');
    assert.match(asked('newer', newer), /set spec.version to 3.7.1/);
    assert.equal(asked('older', snapshot('older', 90n, 'c1', '3.5.35')), 'given');
  });

  it('is none where it stood in the claim before the loss, by whichever name', () => {
    const source = { s3: { endpoint: 'https://s3', bucket: 'b', key: 'k' } };
    for (const [recovery, priorConsent] of [
      [consentToSnapshot('far'), { snapshot: 'far', clusterID: 'c1' }],
      [
        { source, clusterID: 'c1', acceptDataLoss: true },
        { uri: 's3://b/k', clusterID: 'c1' },
      ],
    ] as const) {
      const status = { loss: { since, priorConsent } };
      assert.match(why(scene(LOST, { recovery, status, snapshots: [snapshot('far', 10n)] })), /before quorum was lost/);
      const other = { loss: { since, priorConsent: { survivor: 'demo-2', clusterID: 'c1' } } };
      assert.equal(why(scene(LOST, { recovery, status: other, snapshots: [snapshot('far', 10n)] })), 'given');
    }
  });

  it('is offered first where it goes further, and the survivor beside it, since a snapshot may prove to be of no use', () => {
    const said = advice(scene(LOST, { snapshots: [snapshot('near', 8n), snapshot('far', 12n)] })) ?? '';
    assert.match(
      said,
      /newest snapshot: far at revision 12.*the snapshot goes further.*snapshot: "far".*survivor: demo-2/,
    );
    assert.match(
      advice(scene(GONE, { snapshots: [snapshot('old', 3n)] })) ?? '',
      /what came after revision 3|revisions/,
    );
  });

  it('is offered with the place that a schedule stores at, where no EtcdSnapshot is left', () => {
    const s3 = { endpoint: 'https://s3', bucket: 'b', key: 'etcd', credentialsSecretRef: { name: 's3' } };
    const said = adviceOnPlace(scene(GONE, { backups: [{ s3 }] }));
    const line = /recovery: (\{.*\})$/.exec(said)?.[1] ?? '';
    assert.match(line, /"key":"etcd\/team-a\/demo\/SNAPSHOT.db"/);
    assert.match(line, /"credentialsSecretRef":\{"name":"s3"\}.*clusterID: "c1", acceptDataLoss: true\}$/);
    assert.match(adviceOnPlace(scene(GONE)), /source: \{s3: \{endpoint: URL/);
  });

  it('begins with the revision that the cluster is known to have come to, by whatever record', () => {
    const floor = GONE.replace('phase=Voter begun=ccccc', 'phase=Voter begun=ccccc | volume ccccc cluster=c1 floor=70');
    const lastOf = (notation: string, change: Change): bigint | undefined =>
      lastSeenOf(scene(notation, change))?.revision;
    assert.equal(lastOf(GONE, {}), undefined, 'nobody knows');
    assert.equal(lastOf(floor, {}), 70n);
    assert.equal(lastOf(floor, { status: { loss: { since, lastRevision: '71' } } }), 71n);
    assert.equal(lastOf(LOST, { snapshots: [snapshot('far', 12n)] }), 12n);
    assert.equal(lastOf(LOST, { snapshots: [snapshot('foreign', 90n, 'c9')] }), 9n);
  });
});

describe('what a recovery does not bring back', () => {
  it('is told as far as it is known, and as unknown where it is not', () => {
    const takenAt = '2026-11-30T02:00:00Z';
    assert.match(
      lossSentence({ revision: 55n, takenAt, last: { revision: 60n } }),
      /^revisions 56 to 60, written since 2026/,
    );
    assert.match(lossSentence({ revision: 55n, takenAt, last: undefined }), /how much that is, is not known/);
    assert.match(
      lossSentence({ revision: 55n, takenAt, last: { revision: 55n } }),
      /what came after revision 55.* is lost/,
    );
  });

  it('leaves no revision to be given out twice, however old the snapshot is', () => {
    assert.equal(bumpOver(undefined, 5n), REVISION_BUMP);
    assert.equal(5n + bumpOver(9_000_000_000n, 5n), 9_000_000_000n + REVISION_BUMP);
    assert.equal(bumpOver(3n, 5n), REVISION_BUMP);
  });
});

describe('the veto', () => {
  const fromSnapshot = (step: string): Change => ({
    recovery: consentToSnapshot('far'),
    status: {
      operation: {
        id: 'op-1',
        kind: 'RecoverQuorum',
        target: 'demo-0',
        step,
        since,
        incarnation: 'ddddd',
        recovery: { source: 's3://b/far.db', clusterID: 'c1', revision: '12', location: {}, etcdSnapshot: 'far' },
      },
    },
  });

  it('keeps everything of the lost cluster as it is until the snapshot was verified', () => {
    const fence: Step = { do: 'Fence', why: '', pods: [{ name: 'demo-2-ccccc', uid: 'u' }] };
    assert.match(brokenInvariant(scene(LOST, fromSnapshot('filling')), fence) ?? '', /has not been verified/);
    assert.equal(brokenInvariant(scene(LOST, fromSnapshot('fencing')), fence), undefined);
    const start: Step = { do: 'AdvanceRecovery', to: 'starting' };
    assert.match(brokenInvariant(scene(LOST, fromSnapshot('fencing')), start) ?? '', /is still there/);
    const advance: Step = { do: 'AdvanceRecovery', to: 'fencing', revision: 12n, snapshot: 'a' };
    assert.equal(brokenInvariant(scene(LOST, fromSnapshot('filling')), advance), undefined);
  });

  it('stops a recovery from another snapshot than the one that was consented to', () => {
    const begin = (name: string): Step => ({
      do: 'BeginRecovery',
      target: 'demo-0',
      source: `s3://b/${name}.db`,
      clusterID: 'c1',
      revision: 12n,
      stored: snapshot(name, 12n) as StoredSource,
      replaces: undefined,
      lastRevision: undefined,
    });
    const s = scene(LOST, { recovery: consentToSnapshot('far') });
    assert.match(brokenInvariant(s, begin('near')) ?? '', /nobody consented/);
    assert.equal(brokenInvariant(s, begin('far')), undefined);
  });

  const recovering = (step: string): Change => ({
    recovery: consent('demo-2'),
    status: {
      operation: {
        id: 'op-1',
        kind: 'RecoverQuorum',
        target: 'demo-2',
        step,
        since,
        incarnation: 'ddddd',
        recovery: { source: 'demo-2-ccccc', clusterID: 'c1', revision: '9' },
      },
    },
  });
  const seed: Step = {
    do: 'Seed',
    member: { name: 'demo-2', uid: 'member-2' },
    incarnation: 'ddddd',
    source: { from: 'survivor', volume: 'demo-2-ccccc', clusterID: 'c1' },
    clusterToken: 't',
    bump: 1_000_000_000n,
  };
  const EMPTY = LOST.replaceAll(/ \| pod \w+ running \| answers \S+/g, '');

  it('stops a recovery that nobody consented to', () => {
    const begin: Step = {
      do: 'BeginRecovery',
      target: 'demo-2',
      source: 'demo-2-ccccc',
      clusterID: 'c1',
      revision: 9n,
      replaces: 'demo-2-ccccc',
      lastRevision: 9n,
    };
    assert.match(brokenInvariant(scene(LOST), begin) ?? '', /nobody consented/);
    assert.equal(brokenInvariant(scene(LOST, { recovery: consent('demo-2') }), begin), undefined);
  });

  it('stops it while a Pod of the lost cluster is left, which could still take a write', () => {
    assert.match(brokenInvariant(scene(LOST, recovering('seeding')), seed) ?? '', /demo-0-aaaaa .* is still there/);
    assert.equal(brokenInvariant(scene(EMPTY, recovering('seeding')), seed), undefined);
  });

  it('stops every other step while quorum is being recovered', () => {
    const begin: Step = { do: 'BeginOperation', kind: 'AddMember', target: 'demo-1', why: '' };
    assert.notEqual(brokenInvariant(scene(EMPTY, recovering('starting')), begin), undefined);
    const step: Step = { do: 'SetBudget', minAvailable: undefined, alwaysEvictUnhealthy: true };
    assert.match(brokenInvariant(scene(EMPTY, recovering('starting')), step) ?? '', /while quorum is being recovered/);
  });

  it('stops a member that would throw the others out from ever being one that serves', () => {
    const config = 'name: "demo-2-ccccc"\nforce-new-cluster: true\n';
    const step: Step = { do: 'Configure', why: '', pods: [{ name: 'demo-2-ccccc', uid: 'u', config }] };
    assert.match(brokenInvariant(scene(LOST), step) ?? '', /throw out/);
  });

  it('lets go a new cluster ID only from a member that was started for it', () => {
    const complete: Step = { do: 'CompleteRecovery', clusterID: 'c2', revision: 1_000_000_009n, lost: '' };
    assert.match(brokenInvariant(scene(EMPTY, recovering('seeding')), complete) ?? '', /in step seeding/);
    assert.equal(brokenInvariant(scene(EMPTY, recovering('starting')), complete), undefined);
    assert.match(brokenInvariant(scene(EMPTY), complete) ?? '', /no recovery is recorded/);
  });

  it('keeps the volumes of a lost cluster from every rule but the one for them, and from that until all members serve', () => {
    const NEXT = `
latch c2
want 2
list 2-ddddd=d1
slot 0 phase=Pending | volume aaaaa id=a1 cluster=c1
slot 2 inc=ddddd id=d1 phase=Voter begun=ddddd | pod ddddd running ready voter proven locked | answers c2/d1@1000000009 leader=d1 | volume ddddd id=d1 cluster=c2`;
    const volume = { name: 'demo-0-aaaaa', uid: 'volume-demo-0-aaaaa' };
    const s = scene(NEXT, { status: { loss: undefined } });
    assert.deepEqual(
      s.slots.map(({ lostVolumes }) => lostVolumes.map(({ name }) => name)),
      [['demo-0-aaaaa'], []],
    );
    const retire: Step = { do: 'Retire', target: 'demo-0', pods: [], volumes: [volume] };
    assert.match(brokenInvariant(s, retire) ?? '', /demo-0-aaaaa is of cluster c1/);
    const lost: Step = { do: 'RetireLost', volumes: [{ ...volume, retain: false }] };
    assert.match(brokenInvariant(s, lost) ?? '', /not its full size yet/);
    const whole = scene(NEXT.replace('want 2', 'want 1'), { status: { loss: undefined } });
    assert.equal(brokenInvariant(whole, lost), undefined);
    const own = { name: 'demo-2-ddddd', uid: 'volume-demo-2-ddddd', retain: false };
    assert.match(brokenInvariant(whole, { do: 'RetireLost', volumes: [own] }) ?? '', /of the present cluster/);
  });
});
