/**
 * Whole stories of a cluster, told as a user and the world would: each leads to one ending, however often the runtime dies
 * on the way.
 */
import assert from 'node:assert/strict';
import { LABELS, ROLE_VOTER } from '../../api/names.ts';
import { KubeFault, resources } from '../../runtime/ports/kube.ts';
import { authStories } from './auth-stories.ts';
import { caStories } from './ca-stories.ts';
import { assertGone } from './ending.ts';
import { nodeStories } from './node-stories.ts';
import { recoveryStories } from './recovery-stories.ts';
import { restoreStories } from './restore-stories.ts';
import { seedingStories } from './seeding-stories.ts';
import { CLUSTER, NAMESPACE, type Stage } from './stage.ts';
import { tlsStories } from './tls-stories.ts';

export type Story = {
  /** A sentence in the present tense. */
  readonly name: string;
  /** How the cluster came to stand there. Another story tells it, so nothing goes wrong in it. */
  readonly before?: (stage: Stage) => Promise<void>;
  readonly play: (stage: Stage) => Promise<void>;
  /** Holds at the end, also when the runtime died on the way. */
  readonly ends?: (stage: Stage) => Promise<void> | void;
  /** Left out of the matrix of deaths, because another story makes the same calls. */
  readonly immortal?: true;
};

const formed = async (stage: Stage, spec: Record<string, unknown>): Promise<void> => {
  stage.apply(spec);
  await stage.settled();
  await stage.put('canary', 'alive');
};
const canaryLives = async (stage: Stage): Promise<void> => {
  assert.equal(await stage.read('canary'), 'alive', 'what was written is still there');
};
const writable = (stage: Stage): Promise<boolean> =>
  stage.put('probe', 'written').then(
    () => true,
    () => false,
  );
const memory = { storage: { medium: 'Memory', size: '256Mi' } };

const oneServes =
  (version: string) =>
  ({ pods }: Stage): boolean =>
    pods.some(
      ({ spec, metadata }) =>
        spec?.containers[0]?.image?.endsWith(`:v${version}`) === true && metadata.labels?.[LABELS.role] === ROLE_VOTER,
    );

const reported = (reason: string) => (stage: Stage) =>
  (stage.quorum?.status?.conditions ?? []).some((condition) => condition.reason === reason);

const bootstraps: readonly Story[] = [
  [1, {}, 'on a volume'],
  [3, {}, 'on volumes'],
  [9, {}, 'on volumes'],
  [1, memory, 'in memory'],
  [3, memory, 'in memory'],
  [9, memory, 'in memory'],
].map(
  ([replicas, spec, where]): Story => ({
    name: `forms a cluster of ${String(replicas)} ${String(where)}`,
    play: async (stage) => {
      stage.apply({ replicas, ...(spec as object) });
      await stage.settled();
    },
    ends: async (stage) => {
      assert.equal((await stage.membership())?.members.length, replicas);
      assert.equal(stage.budget?.spec?.minAvailable, replicas === 1 ? undefined : Math.floor(Number(replicas) / 2) + 1);
    },
    ...(replicas === 9 ? { immortal: true } : {}),
  }),
);

export const stories: readonly Story[] = [
  ...bootstraps,
  ...tlsStories,
  ...authStories,
  ...caStories,
  {
    name: 'starts a member again on its volume after its Pod was deleted',
    before: (stage) => formed(stage, {}),
    play: async (stage) => {
      const before = stage.member(1).status?.memberID;
      const pod = stage.podOf(1);
      stage.remove(resources.pods, pod.metadata.name);
      await stage.settled();
      assert.equal(stage.member(1).status?.memberID, before, 'the same member came back');
      assert.notEqual(stage.podOf(1).metadata.uid, pod.metadata.uid);
    },
    ends: canaryLives,
  },
  {
    name: 'closes a member to clients while its container starts again, proves it, and opens it',
    before: (stage) => formed(stage, {}),
    play: async (stage) => {
      stage.kubelet.kill(stage.podOf(2).metadata.name);
      await stage.settled();
    },
    ends: async (stage) => {
      assert.equal(stage.podOf(2).status?.containerStatuses?.[0]?.restartCount, 1);
      await canaryLives(stage);
    },
  },
  {
    name: 'replaces a member whose volume was wiped, once several starts have found it so',
    before: (stage) => formed(stage, {}),
    play: async (stage) => {
      const pod = stage.podOf(1).metadata.name;
      stage.etcd.wipe(stage.kubelet.diskOf(pod));
      stage.kubelet.kill(pod);
      await stage.settled();
      assert.notEqual(stage.podOf(1).metadata.name, pod);
    },
    ends: async (stage) => {
      assert.deepEqual(
        stage.quorum?.status?.repairs?.map(({ member, cause, count }) => [member, cause, count]),
        [[stage.member(1).metadata.name, 'VolumeEmpty', 1]],
        'however often the runtime died, it was one repair',
      );
      await canaryLives(stage);
    },
  },
  {
    name: 'replaces the member whose data differs from a majority that agrees, and lets clients write again',
    before: (stage) => formed(stage, {}),
    play: async (stage) => {
      const pod = stage.podOf(1).metadata.name;
      stage.etcd.corrupt(stage.kubelet.diskOf(pod));
      const blamed = stage.member(2).status?.memberID;
      assert.ok(blamed);
      stage.etcd.arm(blamed, 'CORRUPT');
      await stage.until(writable, 'clients can write again');
      await stage.settled();
      assert.notEqual(stage.podOf(1).metadata.name, pod);
    },
    ends: async (stage) => {
      await stage.put('after', 'the alarm');
      await canaryLives(stage);
    },
  },
  ...(
    [
      ['defragments one member after the other and disarms the alarm, once a full database holds little', true],
      ['sees what a compaction freed although etcd, which takes no writes, does not count it by itself', false],
    ] as const
  ).map(
    ([name, counted]): Story => ({
      name,
      before: (stage) => formed(stage, {}),
      play: async (stage) => {
        for (const { metadata } of stage.pods) {
          stage.etcd.fragment(stage.kubelet.diskOf(metadata.name), 2n << 30n, { counted });
        }
        const full = stage.member(0).status?.memberID;
        assert.ok(full);
        stage.etcd.arm(full, 'NOSPACE');
        await stage.until(writable, 'clients can write again');
        await stage.settled();
      },
      ends: async (stage) => {
        await stage.put('after', 'the alarm');
        await canaryLives(stage);
      },
    }),
  ),
  {
    name: 'brings every member back after a blackout of all Pods',
    before: (stage) => formed(stage, {}),
    play: async (stage) => {
      for (const { metadata } of stage.pods) stage.remove(resources.pods, metadata.name);
      await stage.settled();
    },
    ends: canaryLives,
  },
  {
    name: 'brings every member back after all Pods were evicted at once',
    before: (stage) => formed(stage, {}),
    play: async (stage) => {
      for (const { metadata } of stage.pods) stage.kubelet.evict(metadata.name);
      await stage.settled();
    },
    ends: canaryLives,
  },
  {
    name: 'pauses at zero, keeps every volume and identity, and resumes',
    before: (stage) => formed(stage, {}),
    play: async (stage) => {
      stage.edit({ replicas: 0 });
      await stage.until(
        ({ pods, quorum, last }) =>
          pods.length === 0 && quorum?.status?.phase === 'Paused' && last?.decision.step.do === 'Wait',
        'paused',
      );
      assert.equal(stage.volumes.length, 3);
      assert.equal(stage.members.length, 3);
      stage.edit({ replicas: 3 });
      await stage.settled();
    },
    ends: canaryLives,
  },
  {
    name: 'resumes with everyone it had before it grows or shrinks',
    before: (stage) => formed(stage, {}),
    play: async (stage) => {
      for (const replicas of [5, 1]) {
        stage.edit({ replicas: 0 });
        await stage.until(({ pods, quorum }) => pods.length === 0 && quorum?.status?.phase === 'Paused', 'paused');
        stage.edit({ replicas });
        await stage.settled();
        assert.equal((await stage.membership())?.members.length, replicas);
      }
    },
    ends: canaryLives,
    immortal: true,
  },
  {
    name: 'scales from one to three',
    before: (stage) => formed(stage, { replicas: 1 }),
    play: async (stage) => {
      stage.edit({ replicas: 3 });
      await stage.settled();
    },
    ends: async (stage) => {
      assert.equal((await stage.membership())?.members.length, 3);
      await canaryLives(stage);
    },
  },
  {
    name: 'scales a memory cluster from three to five',
    before: (stage) => formed(stage, memory),
    play: async (stage) => {
      stage.edit({ replicas: 5 });
      await stage.settled();
    },
    ends: canaryLives,
  },
  {
    name: 'scales from five to three',
    before: (stage) => formed(stage, { replicas: 5 }),
    play: async (stage) => {
      stage.edit({ replicas: 3 });
      await stage.settled();
      assert.equal(stage.members.length, 3, 'the function dropped the members that left');
    },
    ends: async (stage) => {
      assert.equal((await stage.membership())?.members.length, 3);
      assert.equal(stage.volumes.length, 3);
      await canaryLives(stage);
    },
  },
  {
    name: 'scales from three to one, the leader last',
    before: (stage) => formed(stage, {}),
    play: async (stage) => {
      stage.edit({ replicas: 1 });
      await stage.settled();
    },
    ends: canaryLives,
  },
  {
    name: 'replaces a member that a person deleted',
    before: (stage) => formed(stage, {}),
    play: async (stage) => {
      const before = stage.member(0);
      stage.remove(resources.etcdmembers, `${CLUSTER}-0`);
      await stage.until(
        () => stage.get(resources.etcdmembers, `${CLUSTER}-0`)?.metadata.uid !== before.metadata.uid,
        'gone',
      );
      await stage.settled();
      assert.notEqual(stage.member(0).status?.memberID, before.status?.memberID, 'another member took its place');
    },
    ends: async (stage) => {
      assert.equal((await stage.membership())?.members.length, 3);
      assert.equal(stage.volumes.length, 3);
      await canaryLives(stage);
    },
  },
  {
    name: 'takes a member off the list of which nothing is left, and finishes the scale-up that it kept waiting',
    before: (stage) => formed(stage, {}),
    play: async (stage) => {
      await addByHand(stage, `http://${CLUSTER}-7-abcde.${CLUSTER}.${NAMESPACE}.svc:2380`);
      stage.edit({ replicas: 4 });
      await stage.settled();
    },
    ends: async (stage) => {
      const listed = (await stage.membership())?.members.map(({ name }) => name.slice(0, -6)).toSorted();
      assert.deepEqual(
        listed,
        [0, 1, 2, 3].map((ordinal) => `${CLUSTER}-${ordinal}`),
      );
      await canaryLives(stage);
    },
  },
  {
    name: 'asks about a member that was added under a foreign name, and goes on once it is gone',
    before: (stage) => formed(stage, {}),
    play: async (stage) => {
      const added = await addByHand(stage, 'http://elsewhere:2380');
      stage.edit({ replicas: 4 });
      await stage.until(reported('MemberListUnknownMember'), 'it asks');
      await stage.pass(60_000);
      assert.equal((await stage.membership())?.members.length, 4, 'nobody was added and nobody removed');
      await stage.etcd.clients.dial({ url: stage.kubelet.clientURL(stage.podOf(0).metadata.name) }).memberRemove(added);
      await stage.settled();
    },
    ends: async (stage) => {
      assert.equal((await stage.membership())?.members.length, 4);
      await canaryLives(stage);
    },
  },
  {
    name: 'replaces a member that a person deleted in the foreground',
    before: (stage) => formed(stage, {}),
    play: async (stage) => {
      const before = stage.member(1).metadata.uid;
      stage.remove(resources.etcdmembers, `${CLUSTER}-1`, 'Foreground');
      await stage.until(() => stage.get(resources.etcdmembers, `${CLUSTER}-1`)?.metadata.uid !== before, 'gone');
      await stage.settled();
    },
    ends: canaryLives,
  },
  {
    name: 'replaces a memory member that lost its Pod',
    before: (stage) => formed(stage, memory),
    play: async (stage) => {
      stage.remove(resources.pods, stage.podOf(1).metadata.name);
      await stage.settled();
    },
    ends: async (stage) => {
      assert.equal((await stage.membership())?.members.length, 3);
      await canaryLives(stage);
    },
  },
  {
    name: 'replaces a memory member whose Pod was evicted',
    before: (stage) => formed(stage, memory),
    play: async (stage) => {
      stage.kubelet.evict(stage.podOf(0).metadata.name);
      await stage.settled();
    },
    ends: canaryLives,
  },
  {
    name: 'replaces a member whose volume and Pod were deleted',
    before: (stage) => formed(stage, {}),
    play: async (stage) => {
      const { name } = stage.podOf(2).metadata;
      stage.remove(resources.persistentvolumeclaims, name);
      stage.remove(resources.pods, name);
      await stage.settled();
    },
    ends: async (stage) => {
      assert.equal((await stage.membership())?.members.length, 3);
      assert.equal(stage.volumes.length, 3);
      await canaryLives(stage);
    },
  },
  {
    name: 'redoes a learner that lost its Pod before it could vote',
    before: (stage) => formed(stage, memory),
    play: async (stage) => {
      stage.etcd.holdLearners(true);
      stage.edit({ replicas: 4 });
      await stage.until(async () => {
        const learner = (await stage.membership())?.members.find(({ isLearner }) => isLearner);
        return learner !== undefined && stage.pods.length === 4;
      }, 'a learner starts');
      stage.remove(resources.pods, stage.podOf(3).metadata.name);
      stage.etcd.holdLearners(false);
      await stage.settled();
    },
    ends: async (stage) => {
      assert.equal((await stage.membership())?.members.length, 4);
      await canaryLives(stage);
    },
  },
  {
    name: 'takes over the running cluster when an orphaned claim is applied again',
    before: (stage) => formed(stage, {}),
    play: async (stage) => {
      const latch = stage.quorum?.status?.clusterID;
      stage.remove(resources.etcdclusters, CLUSTER, 'Orphan');
      await stage.until(() => stage.claim === undefined, 'the claim is gone');
      assert.equal(stage.pods.length, 3, 'Pods go on');
      stage.apply({});
      await stage.settled();
      assert.equal(stage.quorum?.status?.clusterID, latch);
    },
    ends: async (stage) => {
      const uid = stage.claim?.metadata.uid;
      for (const { metadata } of stage.pods) assert.equal(metadata.ownerReferences?.[0]?.uid, uid);
      await canaryLives(stage);
    },
  },
  {
    name: 'heals an orphaned cluster that lost a Pod, and is taken over later',
    before: (stage) => formed(stage, {}),
    play: async (stage) => {
      stage.remove(resources.etcdclusters, CLUSTER, 'Orphan');
      await stage.until(() => stage.claim === undefined, 'the claim is gone');
      stage.remove(resources.pods, stage.podOf(1).metadata.name);
      await stage.until(
        () => stage.pods.length === 3 && stage.pods.every((pod) => pod.metadata.labels?.[LABELS.role] === 'voter'),
        'healed without a claim',
      );
      stage.apply({});
      await stage.settled();
    },
    ends: canaryLives,
  },
  ...(['Background', 'Foreground'] as const).map(
    (policy): Story => ({
      name: `leaves nothing behind when the claim is deleted in the ${policy.toLowerCase()}`,
      before: (stage) => formed(stage, {}),
      play: async (stage) => {
        stage.remove(resources.etcdclusters, CLUSTER, policy);
        await stage.until(() => stage.members.length === 0 && stage.pods.length === 0, 'everything is gone');
      },
      ends: assertGone,
    }),
  ),
  {
    name: 'leaves nothing behind when the claim is deleted while the cluster forms',
    play: async (stage) => {
      stage.kubelet.refuse(/-2-/);
      stage.apply({});
      await stage.until(() => stage.pods.length === 3, 'it forms');
      stage.remove(resources.etcdclusters, CLUSTER);
      await stage.until(() => stage.members.length === 0 && stage.pods.length === 0, 'everything is gone');
    },
    ends: assertGone,
  },
  {
    name: 'forms a new cluster when a deleted claim is applied again at once',
    before: (stage) => formed(stage, {}),
    play: async (stage) => {
      const latch = stage.quorum?.status?.clusterID;
      stage.remove(resources.etcdclusters, CLUSTER);
      stage.apply({});
      await stage.settled();
      assert.notEqual(stage.quorum?.status?.clusterID, latch);
    },
    ends: async (stage) => {
      assert.equal(await stage.read('canary'), undefined, 'it is another cluster');
      assert.equal(stage.volumes.length, 3);
    },
  },
  {
    name: 'keeps the volumes of a deleted claim that says Retain, out of reach of the next one',
    before: (stage) => formed(stage, { storage: { size: '1Gi', retention: 'Retain' } }),
    play: async (stage) => {
      stage.remove(resources.etcdclusters, CLUSTER);
      await stage.until(() => stage.members.length === 0 && stage.pods.length === 0, 'everything is gone');
      assertGone(stage, 3);
      stage.apply({});
      await stage.settled();
    },
    ends: async (stage) => {
      assert.equal(await stage.read('canary'), undefined);
      assert.equal(stage.volumes.filter(({ metadata }) => metadata.labels?.[LABELS.retained] === CLUSTER).length, 3);
      assert.equal(stage.volumes.length, 6);
    },
  },
  {
    name: 'writes the record again after the EtcdQuorum was deleted',
    before: (stage) => formed(stage, {}),
    play: async (stage) => {
      const latch = stage.quorum?.status?.clusterID;
      stage.remove(resources.etcdquorums, CLUSTER);
      await stage.settled();
      assert.equal(stage.quorum?.status?.clusterID, latch);
    },
    ends: canaryLives,
  },
  {
    name: 'lets a namespace go that is being deleted',
    before: (stage) => formed(stage, {}),
    play: async (stage) => {
      stage.remove(resources.namespaces, NAMESPACE);
      await stage.until(
        () => stage.store.get({ resource: resources.namespaces, name: NAMESPACE }) === undefined,
        'the namespace is gone',
      );
    },
    ends: assertGone,
  },
  {
    name: 'begins again when a volume is lost before the cluster has formed',
    play: async (stage) => {
      stage.kubelet.refuse(/-[12]-/);
      stage.apply({});
      await stage.until(
        () => stage.pods.some(({ status }) => status?.phase === 'Running'),
        'one runs, without a quorum',
      );
      const volume = stage.volumes.find(({ metadata }) => metadata.labels?.[LABELS.member] === `${CLUSTER}-2`);
      if (volume !== undefined) {
        stage.store.vanish({
          resource: resources.persistentvolumeclaims,
          namespace: NAMESPACE,
          name: volume.metadata.name,
        });
      }
      await stage.until(() => (stage.quorum?.status?.bootstrap?.attempt ?? 0) > 1, 'a second attempt');
      stage.kubelet.refuse(undefined);
      await stage.settled();
    },
    ends: async (stage) => {
      assert.equal((await stage.membership())?.members.length, 3);
      assert.equal(stage.volumes.length, 3);
    },
  },
  {
    name: 'stops a Pod that runs on the data of another cluster, and keeps the volume',
    before: (stage) => formed(stage, {}),
    play: async (stage) => {
      const pod = stage.podOf(1);
      // Another cluster that happens to use the same directory: somebody exchanged the volume.
      const { name } = pod.metadata;
      stage.remove(resources.pods, name);
      stage.away(2_000);
      await stage.pass(1_000);
      await foreignData(stage, name);
      await stage.until(
        () => stage.member(1).status?.phase === 'Failed' && stage.pods.length === 2 && reported('ForeignData')(stage),
        'the impostor is stopped, and the quorum says so',
      );
    },
    ends: async (stage) => {
      assert.equal(stage.volumes.length, 3, 'its volume is kept');
      assert.equal(stage.member(1).status?.conditions?.find(({ type }) => type === 'Ready')?.reason, 'ForeignData');
      await canaryLives(stage);
    },
  },
  {
    name: 'deletes no data that was refused where the cluster is only made smaller',
    before: (stage) => formed(stage, {}),
    play: async (stage) => {
      const { name } = stage.podOf(1).metadata;
      stage.remove(resources.pods, name);
      stage.away(2_000);
      await stage.pass(1_000);
      await foreignData(stage, name);
      await stage.until(() => stage.member(1).status?.phase === 'Failed' && stage.pods.length === 2, 'it is stopped');
      stage.edit({ replicas: 2 });
      await stage.settled();
    },
    ends: async (stage) => {
      assert.equal((await stage.membership())?.members.length, 2, 'it is who goes');
      const kept = stage.volumes.filter(({ metadata }) => metadata.labels?.[LABELS.retained] === CLUSTER);
      assert.deepEqual(
        kept.map(({ metadata }) => [metadata.labels?.[LABELS.member], metadata.labels?.[LABELS.cluster]]),
        [[`${CLUSTER}-1`, undefined]],
        'its volume is there, and is nobody’s',
      );
      await canaryLives(stage);
    },
  },
  {
    name: 'brings a change of resources to every member, one at a time',
    before: (stage) => formed(stage, {}),
    play: async (stage) => {
      const before = new Set(stage.pods.map(({ metadata }) => metadata.uid));
      stage.edit({ resources: { limits: { memory: '512Mi' } } });
      await stage.until(
        ({ pods }) => pods.length === 3 && pods.every(({ metadata }) => !before.has(metadata.uid)),
        'every Pod is another one',
      );
      await stage.settled();
    },
    ends: async (stage) => {
      for (const { spec } of stage.pods) assert.equal(spec?.containers[0]?.resources?.limits?.memory, '512Mi');
      await canaryLives(stage);
    },
  },
  {
    name: 'brings labels and annotations to what runs, and takes them back, without a restart',
    before: (stage) => formed(stage, { additionalMetadata: { labels: { team: 'a' }, annotations: { note: 'x' } } }),
    play: async (stage) => {
      const uids = stage.pods.map(({ metadata }) => metadata.uid);
      stage.edit({ additionalMetadata: { labels: { tier: 'gold', team: null }, annotations: { note: null } } });
      await stage.settled();
      assert.deepEqual(
        stage.pods.map(({ metadata }) => metadata.uid),
        uids,
        'no Pod was made anew',
      );
    },
    ends: async (stage) => {
      assert.ok(stage.budget);
      for (const { metadata, kind } of [...stage.pods, ...stage.volumes, stage.budget]) {
        const { labels = {}, annotations = {} } = metadata;
        assert.deepEqual([labels.tier, labels.team, annotations.note], ['gold', undefined, undefined], kind);
      }
      for (const { metadata } of stage.pods) assert.equal(metadata.labels?.[LABELS.role], 'voter');
      await canaryLives(stage);
    },
  },
  {
    name: 'restarts nobody for what is only spelled otherwise',
    before: (stage) => formed(stage, { resources: { requests: { memory: '1Gi' } } }),
    play: async (stage) => {
      const uids = stage.pods.map(({ metadata }) => metadata.uid);
      stage.edit({
        resources: { requests: { memory: '1024Mi' } },
        options: { quotaBackendBytes: 0, autoCompactionMode: 'periodic' },
        progressDeadlineSeconds: 900,
      });
      await stage.settled();
      assert.deepEqual(
        stage.pods.map(({ metadata }) => metadata.uid),
        uids,
      );
    },
    immortal: true,
  },
  {
    name: 'upgrades from one minor version to the next',
    before: (stage) => formed(stage, { version: '3.5.33' }),
    play: async (stage) => {
      stage.edit({ version: '3.6.16' });
      await stage.until(({ quorum }) => quorum?.status?.version === '3.6.16', 'everybody runs the new version');
      await stage.settled();
    },
    ends: async (stage) => {
      for (const { status } of stage.members) assert.equal(status?.version, '3.6.16');
      await canaryLives(stage);
    },
  },
  {
    name: 'moves leadership off a node that is cordoned, before its Pod is evicted',
    before: (stage) => formed(stage, {}),
    play: async (stage) => {
      const before = stage.leader();
      stage.kubelet.cordon(stage.kubelet.nodeOf(stage.podOf(before).metadata.name));
      await stage.until(() => stage.leader() !== before, 'another member leads');
      await stage.settled();
      assert.equal(stage.pods.length, 3);
    },
    ends: canaryLives,
  },
  {
    name: "goes back a minor version by etcd's own downgrade",
    before: (stage) => formed(stage, {}),
    play: async (stage) => {
      stage.edit({ version: '3.5.35' });
      await stage.until(({ quorum }) => quorum?.status?.version === '3.5.35', 'everybody runs the lower version');
      await stage.settled();
    },
    ends: async (stage) => {
      for (const { status } of stage.members) assert.equal(status?.version, '3.5.35');
      assert.equal(stage.quorum?.status?.downgradableTo, undefined);
      await canaryLives(stage);
    },
  },
  {
    name: 'goes forward again when the claim is set back half-way down',
    before: async (stage) => {
      await formed(stage, {});
      stage.kubelet.refuse(/-[01]-/);
      stage.edit({ version: '3.5.35' });
      await stage.until(oneServes('3.5.35'), 'one runs the lower version');
    },
    play: async (stage) => {
      stage.edit({ version: '3.6.16' });
      stage.kubelet.refuse(undefined);
      await stage.until(({ quorum }) => quorum?.status?.version === '3.6.16', 'everybody runs the higher version');
      await stage.settled();
    },
    ends: async (stage) => {
      assert.equal(stage.quorum?.status?.downgradableTo, undefined);
      await canaryLives(stage);
    },
  },
  {
    name: 'goes back when the claim is set back half-way through an upgrade',
    before: async (stage) => {
      await formed(stage, { version: '3.5.35' });
      stage.kubelet.refuse(/-[01]-/);
      stage.edit({ version: '3.6.16' });
      await stage.until(oneServes('3.6.16'), 'one runs the higher version');
    },
    play: async (stage) => {
      stage.edit({ version: '3.5.35' });
      stage.kubelet.refuse(undefined);
      await stage.until(({ quorum }) => quorum?.status?.version === '3.5.35', 'everybody runs what they ran');
      await stage.settled();
      assert.equal(stage.steps.get('Downgrade'), undefined, 'the data was never left: etcd has nothing to write back');
    },
    ends: canaryLives,
  },
  {
    name: 'keeps a member that dies before its data was written back on the version that can read it',
    before: (stage) => formed(stage, {}),
    play: async (stage) => {
      stage.kubelet.refuse(/-1-/);
      const pod = stage.podOf(1);
      stage.remove(resources.pods, pod.metadata.name);
      stage.edit({ version: '3.5.35' });
      await stage.pass(20_000);
      assert.equal(stage.steps.get('Downgrade'), undefined, 'with one member down nothing is written back');
      assert.equal(stage.member(1).spec.version, '3.6.16');
      stage.kubelet.refuse(undefined);
      await stage.until(({ quorum }) => quorum?.status?.version === '3.5.35', 'everybody runs the lower version');
      await stage.settled();
    },
    ends: canaryLives,
    immortal: true,
  },
  {
    name: 'takes back a scale-up whose member finds no node',
    before: (stage) => formed(stage, {}),
    play: async (stage) => {
      stage.kubelet.refuse(/-3-/);
      stage.edit({ replicas: 4 });
      await stage.until(async () => (await stage.membership())?.members.length === 4, 'a learner is listed');
      stage.edit({ replicas: 3 });
      await stage.settled();
    },
    ends: async (stage) => {
      assert.equal((await stage.membership())?.members.length, 3);
      assert.equal(stage.volumes.length, 3);
      await canaryLives(stage);
    },
  },
  {
    name: 'replaces a voter that lost its volume before it ever ran',
    play: async (stage) => {
      stage.kubelet.refuse(/-2-/);
      stage.apply({});
      await stage.until(({ quorum }) => quorum?.status?.clusterID !== undefined, 'two of three have formed');
      await stage.put('canary', 'alive');
      const volume = stage.volumes.find(({ metadata }) => metadata.labels?.[LABELS.member] === `${CLUSTER}-2`);
      assert.ok(volume);
      const { name } = volume.metadata;
      stage.store.vanish({ resource: resources.persistentvolumeclaims, namespace: NAMESPACE, name });
      stage.kubelet.refuse(undefined);
      await stage.settled();
    },
    ends: async (stage) => {
      assert.equal((await stage.membership())?.members.length, 3);
      assert.equal(stage.volumes.length, 3);
      await canaryLives(stage);
    },
  },
  {
    name: 'waits for the record when the EtcdQuorum is deleted in the middle of a scale-up',
    before: (stage) => formed(stage, {}),
    play: async (stage) => {
      stage.edit({ replicas: 5 });
      await stage.until(async () => ((await stage.membership())?.members.length ?? 0) > 3, 'the fourth is listed');
      stage.remove(resources.etcdquorums, CLUSTER);
      await stage.settled();
    },
    ends: async (stage) => {
      assert.equal((await stage.membership())?.members.length, 5);
      assert.equal(stage.volumes.length, 5);
      await canaryLives(stage);
    },
  },
  {
    name: 'replaces a member whose node is lost, when a person says so',
    before: (stage) => formed(stage, {}),
    play: async (stage) => {
      const pod = stage.podOf(1).metadata.name;
      stage.kubelet.loseNode(stage.kubelet.nodeOf(pod));
      await stage.until(({ quorum }) => quorum?.status?.phase === 'Degraded', 'it is seen');
      await stage.pass(60_000);
      assert.equal((await stage.membership())?.members.length, 3, 'nobody is thrown out for being silent');
      stage.remove(resources.etcdmembers, `${CLUSTER}-1`);
      await stage.until(
        async () =>
          (await stage.membership())?.members.every(({ name }) => name !== pod) === true &&
          stage.quorum?.status?.phase === 'Running',
        'another member runs',
      );
    },
    ends: canaryLives,
    immortal: true,
  },
  ...nodeStories,
  ...recoveryStories,
  ...restoreStories,
  ...seedingStories,
  {
    name: 'repairs nothing and deletes nothing while the claims are not served yet',
    before: (stage) => formed(stage, {}),
    play: async (stage) => {
      stage.between(async (call, happen) => {
        if (call.what.startsWith('get etcdclusters')) {
          throw new KubeFault('NotServed', `${call.what}: NotServed (404): the server could not find the resource`);
        }
        return happen();
      });
      stage.remove(resources.etcdmembers, `${CLUSTER}-0`);
      stage.remove(resources.pods, stage.podOf(1).metadata.name);
      const writes = stage.writes.length;
      await stage.pass(30_000);
      const deletions = stage.writes
        .slice(writes)
        .filter((what) => what.startsWith('delete') || what.startsWith('create'));
      assert.deepEqual(deletions, []);
      stage.between(undefined);
      await stage.settled();
    },
    ends: canaryLives,
    immortal: true,
  },
  {
    name: 'waits for its claim without forming anything while a quota refuses Pods, then forms',
    play: async (stage) => {
      stage.between(async (call, happen) => {
        if (call.what.startsWith('create pods')) throw quota();
        return happen();
      });
      stage.apply({});
      await stage.until(reported('PodRefused'), 'the refusal is reported');
      await stage.pass(60_000);
      stage.between(undefined);
      await stage.settled();
    },
    ends: async (stage) => {
      assert.equal((await stage.membership())?.members.length, 3);
      assert.equal(stage.volumes.length, 3);
    },
    immortal: true,
  },
  {
    name: 'comes back from the survivor of a lost quorum by consent, with what it had, and keeps the lost volumes until it is whole',
    before: async (stage) => {
      await formed(stage, {});
      const [first, second] = [stage.podOf(0), stage.podOf(1)];
      const lost = [first, second].map(({ metadata }) => metadata.name);
      const claims = lost.map((name) => stage.get(resources.persistentvolumeclaims, name));
      // Both nodes burn down with their disks, and somebody takes their objects away.
      stage.away(1_000);
      for (const name of lost) stage.remove(resources.pods, name);
      for (const claim of claims)
        if (claim !== undefined) stage.remove(resources.persistentvolumeclaims, claim.metadata.name);
      await stage.until(reported('QuorumLost'), 'quorum is reported lost');
      await stage.pass(10_000);
    },
    play: async (stage) => {
      const clusterID = stage.quorum?.status?.clusterID ?? '';
      assert.deepEqual(
        stage.quorum?.status?.survivors?.map(({ member }) => member),
        [`${CLUSTER}-2`],
      );
      stage.edit({ recovery: { survivor: `${CLUSTER}-2`, clusterID, acceptDataLoss: true } });
      await stage.until(({ quorum }) => quorum?.status?.clusterID !== clusterID, 'the cluster has another ID');
      await stage.settled();
      await stage.until(({ volumes }) => volumes.length === 3, 'the lost volumes are gone');
    },
    ends: async (stage) => {
      await canaryLives(stage);
      const { recovered = [], clusterID } = stage.quorum?.status ?? {};
      assert.equal(recovered.length, 1);
      assert.equal(recovered[0]?.clusterID, clusterID);
      assert.ok(recovered[0]?.verifiedAt, 'the members were compared before the lost volumes went');
      assert.equal((await stage.membership())?.members.length, 3);
      assert.equal(stage.volumes.length, 3);
    },
  },
];

const quota = (): KubeFault =>
  new KubeFault('Forbidden', 'create pods: Forbidden (403): exceeded quota: pods, requested: 1, used: 3, limited: 3', {
    status: 403,
  });

/** As `etcdctl member add --learner` does; the new member's ID. */
const addByHand = async (stage: Stage, url: string): Promise<string> => {
  const client = stage.etcd.clients.dial({ url: stage.kubelet.clientURL(stage.podOf(0).metadata.name) });
  return (await client.memberAddLearner([url])).memberId;
};

/** Puts the data of a cluster of its own onto the volume of this Pod, in the directory that the Pod will look into. */
const foreignData = async (stage: Stage, pod: string): Promise<void> => {
  const volume = stage.get(resources.persistentvolumeclaims, pod);
  assert.ok(volume);
  const process = stage.etcd.start({
    disk: 'elsewhere',
    version: '3.6.16',
    clientURL: 'http://elsewhere:2379',
    metricsURL: 'http://elsewhere:2381',
    configFile: [
      `name: ${pod}`,
      `data-dir: /var/lib/etcd/${pod}`,
      'initial-advertise-peer-urls: http://elsewhere:2380',
      'advertise-client-urls: http://elsewhere:2379',
      `initial-cluster: ${pod}=http://elsewhere:2380`,
      'initial-cluster-state: new',
      'initial-cluster-token: elsewhere',
    ].join('\n'),
  });
  stage.stranger((await stage.etcd.clients.dial({ url: process.clientURL }).status()).clusterId);
  stage.etcd.stop(process.clientURL);
  stage.etcd.copyDisk('elsewhere', volume.metadata.uid);
};
