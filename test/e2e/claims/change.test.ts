/** Changes of a running cluster: size, pause, and members that go. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  claim,
  claimIn,
  condition,
  conditionOf,
  inMemory,
  memberIn,
  membersOf,
  OLDER_VERSION,
  openPods,
  podOf,
  podsOf,
  ready,
  uidsOf,
  VERSION,
  volumesOf,
} from '../claim.ts';
import { writer } from '../client.ts';
import { eventually, notYet, throughout } from '../eventually.ts';
import { leaderAndFollower, oneCluster } from '../identity.ts';
import { inNamespace, type Place, seenKinds } from '../place.ts';

const scale = (place: Place, name: string, replicas: number): Promise<string> =>
  place.kubectl(['scale', `etcdcluster/${name}`, `--replicas=${replicas}`]);

describe('a running cluster', () => {
  test(
    'paused keeps every identity and every volume, and resumes as the same cluster',
    inNamespace('pause', async (place) => {
      await place.apply(claim('demo'));
      await ready(place, 'demo');
      const before = await oneCluster(place, 'demo', 3);
      const volumes = uidsOf(await volumesOf(place, 'demo'));

      await scale(place, 'demo', 0);
      await eventually('it is paused', async () => {
        const { status } = await claimIn(place, 'demo');
        if (status?.phase !== 'Paused') notYet(`it is ${status?.phase}`);
        const pods = await podsOf(place, 'demo');
        if (pods.length > 0) notYet(`${pods.length} Pods are there`);
      });
      assert.deepEqual(uidsOf(await volumesOf(place, 'demo')), volumes);

      await scale(place, 'demo', 3);
      await ready(place, 'demo');
      assert.deepEqual(await oneCluster(place, 'demo', 3), before, 'cluster ID, names and member IDs');
      assert.deepEqual(uidsOf(await volumesOf(place, 'demo')), volumes);
    }),
  );

  test(
    'grows to five and shrinks to three while clients write, and loses nothing',
    inNamespace('scale', async (place, t) => {
      await place.apply(claim('demo'));
      await ready(place, 'demo');
      const before = await oneCluster(place, 'demo', 3);
      await using writes = await writer(place, 'demo');

      await scale(place, 'demo', 5);
      await ready(place, 'demo', { deadlineMs: 120_000 });
      const grown = await oneCluster(place, 'demo', 5);
      assert.equal(grown.clusterID, before.clusterID);
      for (const [pod, id] of before.members) assert.equal(grown.members.get(pod), id, `${pod} is who it was`);
      await eventually('the budget protects a majority of five', async () => {
        const budget = await place.get(seenKinds.poddisruptionbudgets, 'demo');
        if (budget?.spec?.minAvailable !== 3) notYet(`minAvailable is ${budget?.spec?.minAvailable}`);
      });

      await scale(place, 'demo', 3);
      await ready(place, 'demo', { deadlineMs: 120_000 });
      assert.equal((await oneCluster(place, 'demo', 3)).clusterID, before.clusterID);
      await eventually('nothing of the two is left', async () => {
        const left = [await membersOf(place, 'demo'), await podsOf(place, 'demo'), await volumesOf(place, 'demo')];
        if (left.some((objects) => objects.length !== 3)) notYet(left.map((objects) => objects.length).join(', '));
      });
      const written = await writes.stop();
      t.diagnostic(`writes: ${JSON.stringify(written)}`);
      assert.deepEqual(written.lost, []);
      assert.ok(written.longestGapMs < 5_000, `clients waited ${written.longestGapMs} ms`);
    }),
  );

  test(
    'replaces a member whose EtcdMember was deleted by a new identity on a new volume',
    inNamespace('replace', async (place, t) => {
      await place.apply(claim('demo'));
      await ready(place, 'demo');
      const before = await oneCluster(place, 'demo', 3);
      const { follower } = await leaderAndFollower(place, 'demo');
      const old = (await podOf(place, follower)).metadata.name;
      const { uid } = (await memberIn(place, follower)).metadata;
      await using writes = await writer(place, 'demo');

      await place.kubectl(['delete', 'etcdmember', follower, '--wait=false']);
      await eventually('the slot is a new object', async () => {
        if ((await memberIn(place, follower)).metadata.uid === uid) notYet('it is the old one');
      });
      await ready(place, 'demo', { deadlineMs: 120_000 });
      const after = await oneCluster(place, 'demo', 3);
      assert.equal(after.clusterID, before.clusterID);
      assert.ok(!after.members.has(old), 'names are never used again');
      assert.ok(![...after.members.values()].includes(before.members.get(old) ?? ''), 'nor are IDs');
      await eventually('the old volume is gone', async () => {
        if ((await place.get(seenKinds.persistentvolumeclaims, old)) !== undefined) notYet('it is there');
      });
      const written = await writes.stop();
      t.diagnostic(`writes: ${JSON.stringify(written)}`);
      assert.deepEqual(written.lost, []);
      assert.ok(written.longestGapMs < 5_000, `clients waited ${written.longestGapMs} ms`);
    }),
  );

  test(
    'in memory replaces a member whose Pod was deleted',
    inNamespace('memory-pod', async (place, t) => {
      await place.apply(claim('quick', { storage: inMemory }));
      await ready(place, 'quick');
      const before = await oneCluster(place, 'quick', 3);
      const { follower } = await leaderAndFollower(place, 'quick');
      const old = (await podOf(place, follower)).metadata.name;
      await using writes = await writer(place, 'quick');
      await place.kubectl(['delete', 'pod', old, '--wait=false']);
      await eventually('it is out of the list', async () => {
        const after = await oneCluster(place, 'quick', 3);
        if (after.members.has(old)) notYet('it is in it');
        assert.equal(after.clusterID, before.clusterID);
      });
      await ready(place, 'quick');
      const written = await writes.stop();
      t.diagnostic(`writes: ${JSON.stringify(written)}`);
      assert.deepEqual(written.lost, []);
      assert.ok(written.longestGapMs < 5_000, `clients waited ${written.longestGapMs} ms`);
    }),
  );

  test(
    'on volumes starts a deleted Pod again with the same identity, the leader too',
    inNamespace('pod', async (place, t) => {
      await place.apply(claim('demo'));
      await ready(place, 'demo');
      const before = await oneCluster(place, 'demo', 3);
      const { leader } = await leaderAndFollower(place, 'demo');
      const old = await podOf(place, leader);
      await using writes = await writer(place, 'demo');
      await place.kubectl(['delete', 'pod', old.metadata.name, '--wait=false']);
      await eventually('it is another Pod of the same name', async () => {
        const now = await podOf(place, leader);
        if (now.metadata.uid === old.metadata.uid) notYet('it is the old one');
        assert.equal(now.metadata.name, old.metadata.name);
      });
      await ready(place, 'demo');
      assert.deepEqual(await oneCluster(place, 'demo', 3), before);
      const written = await writes.stop();
      t.diagnostic(`writes: ${JSON.stringify(written)}`);
      assert.deepEqual(written.lost, []);
      assert.ok(written.longestGapMs < 5_000, `clients waited ${written.longestGapMs} ms`);
    }),
  );

  test(
    'takes a new minor version one member at a time while clients write',
    inNamespace('upgrade', async (place, t) => {
      await place.apply(claim('demo', { version: OLDER_VERSION }));
      await ready(place, 'demo');
      const before = await oneCluster(place, 'demo', 3);
      await using writes = await writer(place, 'demo', 20);
      await place.apply(claim('demo', { version: VERSION }));
      await eventually(
        `all run ${VERSION}`,
        async () => {
          const { status } = await claimIn(place, 'demo');
          if (status?.version !== VERSION) notYet(`they run ${status?.version}`);
        },
        { deadlineMs: 120_000 },
      );
      await ready(place, 'demo');
      assert.deepEqual(await oneCluster(place, 'demo', 3), before, 'the same members on the same volumes');
      const written = await writes.stop();
      t.diagnostic(`writes: ${JSON.stringify(written)}`);
      assert.deepEqual(written.lost, []);
      assert.ok(written.longestGapMs < 5_000, `clients waited ${written.longestGapMs} ms`);
    }),
  );

  test(
    'told to run an image that does not exist stops at the first member, serves on, and goes back when told so',
    inNamespace('rollback', async (place, t) => {
      await place.apply(claim('demo'));
      await ready(place, 'demo');
      const before = await oneCluster(place, 'demo', 3);
      await using writes = await writer(place, 'demo');
      await place.apply(claim('demo', { version: '3.6.99' }));
      const { message } = await condition(() => claimIn(place, 'demo'), 'Degraded', {
        status: 'True',
        reason: 'ImagePullFailed',
        words: /3\.6\.99/,
      });
      t.diagnostic(`Degraded=True ImagePullFailed: ${message}`);
      await throughout(5_000, async () => {
        const open = await openPods(place, 'demo');
        assert.ok(open.length >= 2, `open to clients: ${open.join(', ')}`);
      });
      assert.equal(conditionOf(await claimIn(place, 'demo'), 'Available')?.status, 'True');
      await place.apply(claim('demo'));
      await ready(place, 'demo', { deadlineMs: 120_000 });
      assert.deepEqual(await oneCluster(place, 'demo', 3), before);
      const written = await writes.stop();
      t.diagnostic(`writes: ${JSON.stringify(written)}`);
      assert.deepEqual(written.lost, []);
      assert.ok(written.longestGapMs < 5_000, `clients waited ${written.longestGapMs} ms`);
    }),
  );
});
