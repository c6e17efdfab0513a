/** Changes of a running cluster: members that go, versions and options. Its size is in scale.test.ts. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { LABELS, peerURL } from '../../../api/names.ts';
import type { Resource } from '../../../runtime/ports/kube.ts';
import {
  claim,
  claimIn,
  clusterSelector,
  condition,
  conditionOf,
  inMemory,
  memberIn,
  OLDER_VERSION,
  openPods,
  podOf,
  podsOf,
  ready,
  uidsOf,
  VERSION,
} from '../claim.ts';
import { etcdctl, writer } from '../client.ts';
import { eventually, notYet, throughout } from '../eventually.ts';
import { follow } from '../history.ts';
import { leaderAndFollower, oneCluster } from '../identity.ts';
import { inNamespace, seenKinds } from '../place.ts';

describe('a running cluster', () => {
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
    'takes a member off the list that nothing stands for, and asks about one of a foreign name',
    inNamespace('stranger', async (place) => {
      await place.apply(claim('demo', { replicas: 1, storage: inMemory }));
      await ready(place, 'demo');
      const add = async (url: string): Promise<string> => {
        const said = await etcdctl(place, 'demo', 'member', 'add', 'by-hand', '--learner', `--peer-urls=${url}`);
        // Padded to sixteen places with spaces.
        const id = /Member +([0-9a-f]+) added as learner/.exec(said)?.[1];
        assert.ok(id, said);
        return id;
      };
      const orphan = await add(peerURL('demo', place.namespace, 'demo-7-abcde'));
      await eventually('it is off the list', async () => {
        if ((await etcdctl(place, 'demo', 'member', 'list')).includes(orphan)) notYet('it is listed');
      });
      const strange = await add('http://elsewhere.example:2380');
      const words = new RegExp(`${strange}.*nothing is added or replaced`);
      await condition(() => claimIn(place, 'demo'), 'Stalled', { status: 'True', words });
      assert.match(await etcdctl(place, 'demo', 'member', 'list'), new RegExp(strange));
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
    'takes a new minor version one member at a time while clients write, and goes back by the downgrade of etcd',
    inNamespace('upgrade', async (place, t) => {
      await place.apply(claim('demo', { version: OLDER_VERSION }));
      await ready(place, 'demo');
      const before = await oneCluster(place, 'demo', 3);
      const to = async (version: string): Promise<void> => {
        const leader = (await claimIn(place, 'demo')).status?.leader;
        const order: string[] = [];
        await using _restarts = await follow(place.kube, seenKinds.pods, place, ({ type, object }) => {
          if (type === 'DELETED') order.push(object.metadata.labels?.[LABELS.member] ?? '?');
        });
        await using writes = await writer(place, 'demo', 20);
        await place.apply(claim('demo', { version }));
        await eventually(
          `all run ${version}`,
          async () => {
            const { status } = await claimIn(place, 'demo');
            if (status?.version !== version) notYet(`they run ${status?.version}`);
          },
          { deadlineMs: 180_000 },
        );
        await ready(place, 'demo');
        assert.deepEqual(await oneCluster(place, 'demo', 3), before, 'the same members on the same volumes');
        const written = await writes.stop();
        t.diagnostic(`${version}, in order ${order.join(', ')}: ${JSON.stringify(written)}`);
        assert.equal(order.length, 3, 'each member restarts once');
        assert.equal(order.at(-1), leader, 'the leader is the last');
        assert.deepEqual(written.lost, []);
        assert.ok(written.longestGapMs < 3_000, `clients waited ${written.longestGapMs} ms`);
      };
      await to(VERSION);
      await to(OLDER_VERSION);
    }),
  );

  test(
    'brings every option and resource to what runs, an edit in mid-rollout too, and restarts nobody for a label or another spelling',
    inNamespace('options', async (place, t) => {
      const resources = { requests: { cpu: '20m', memory: '64Mi' }, limits: { memory: '512Mi' } };
      await place.apply(claim('demo', { resources }));
      await ready(place, 'demo');
      const before = uidsOf(await podsOf(place, 'demo'));
      const options = {
        quotaBackendBytes: 268_435_456,
        autoCompactionMode: 'revision',
        autoCompactionRetention: '1000',
        snapshotCount: 5_000,
      } as const;
      await place.apply(claim('demo', { resources, options: { ...options, snapshotCount: 4_000 } }));
      await eventually('the first member has another Pod', async () => {
        const now = uidsOf(await podsOf(place, 'demo'));
        if (before.every((uid) => now.includes(uid))) notYet('no member has');
      });
      const more = { ...resources, limits: { memory: '640Mi' } };
      await place.apply(claim('demo', { resources: more, options }));
      await ready(place, 'demo', { deadlineMs: 180_000 });
      const pods = await podsOf(place, 'demo');
      for (const { metadata, spec } of pods) {
        assert.deepEqual(spec?.containers[0]?.resources, more, metadata.name);
        // What etcd itself says that it starts with.
        const log = await place.kubectl(['logs', metadata.name]);
        const said = log.split('\n').find((line) => line.includes('starting an etcd server'));
        for (const word of [
          '"quota-backend-bytes":268435456',
          '"auto-compaction-mode":"revision"',
          '"auto-compaction-interval":"1µs"',
          '"snapshot-count":5000',
        ]) {
          assert.ok(said?.includes(word), `${metadata.name} runs with ${word}: ${said}`);
        }
      }
      await place.apply(
        claim('demo', {
          resources: { ...more, requests: { cpu: '0.02', memory: '65536Ki' } },
          options,
          progressDeadlineSeconds: 700,
          additionalMetadata: { labels: { team: 'a' }, annotations: { note: 'x' } },
        }),
      );
      const labelled = async (wanted: string | undefined): Promise<void> => {
        const kinds = [seenKinds.pods, seenKinds.persistentvolumeclaims, seenKinds.services] as const;
        const named = [
          ...(await Promise.all(kinds.map((kind) => place.list(kind as Resource, clusterSelector('demo'))))).flat(),
          await place.get(seenKinds.poddisruptionbudgets, 'demo'),
        ];
        const wrong = named.filter((object) => object?.metadata?.labels?.team !== wanted);
        if (wrong.length > 0) notYet(`${wrong.length} of ${named.length} do not say so`);
      };
      await eventually('the label is on everything', () => labelled('a'));
      await place.apply(claim('demo', { resources: more, options }));
      await eventually('the label is gone again', () => labelled(undefined));
      await ready(place, 'demo');
      assert.deepEqual(uidsOf(await podsOf(place, 'demo')), uidsOf(pods), 'nobody was restarted');
      t.diagnostic(`${(await claimIn(place, 'demo')).status?.leader} leads`);
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
