/**
 * A member whose data is not its own. Locked configuration refuses an empty disk by itself; a foreign one it runs happily
 * on, so what keeps clients away from it is the proof that comes before the label; and when only its container starts again,
 * that the Service closes the Pod. The volumes are reached on the nodes' disks.
 */
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import type { EndpointSlice } from 'kubernetes-types/discovery/v1.js';
import { ANNOTATIONS, clientServiceName } from '../../../api/names.ts';
import { stateFolder } from '../../cluster/places.ts';
import { claim, claimIn, condition, conditionOf, memberIn, openPods, podOf, ready, said, volumesOf } from '../claim.ts';
import { put, read, spyOn, writer } from '../client.ts';
import { eventually, notYet } from '../eventually.ts';
import { follow, type History } from '../history.ts';
import { leaderAndFollower, oneCluster, reachable, selfOf } from '../identity.ts';
import { connected, inNamespace, type Place, seenKinds } from '../place.ts';
import { copyOf, killEtcd, putBack, putIn, takeAway, volumeOf } from '../volume.ts';

const { cluster } = await connected();
const skip = cluster.local ? false : 'needs the nodes of the local cluster';

/** Longest that clients may wait while a follower goes: no election, only a connection that breaks. */
const SERVES_WITHIN_MS = 5_000;

const endpointHistory = (place: Place, name: string): Promise<History<EndpointSlice>> =>
  follow(place.kube, seenKinds.endpointslices, {
    namespace: place.namespace,
    labelSelector: `kubernetes.io/service-name=${clientServiceName(name)}`,
  });

/** Whether `pod` was open to clients in any state of the Service at or after the moment `fromMs`. */
const wasOpen = (history: History<EndpointSlice>, pod: string, fromMs: number): boolean =>
  history.happenings.some(
    ({ object, atMs }) =>
      atMs >= fromMs &&
      (object.endpoints ?? []).some(
        ({ conditions, targetRef }) => conditions?.ready === true && targetRef?.name === pod,
      ),
  );

/** When the Service first closed the Pod off after the fault, in milliseconds since the history began. */
const closedAt = (history: History<EndpointSlice>, pod: string): number | undefined => {
  let open = false;
  for (const { object, atMs } of history.happenings) {
    const now = (object.endpoints ?? []).some(
      ({ conditions, targetRef }) => conditions?.ready === true && targetRef?.name === pod,
    );
    if (open && !now) return atMs;
    open = now;
  }
  return undefined;
};

const nodeReady = async (place: Place, member: string): Promise<boolean> =>
  conditionOf(await memberIn(place, member), 'Ready')?.status === 'True';

describe('a member whose volume is wiped', { skip }, () => {
  test(
    'while its container restarts never serves, the others do, and the condition says which member and why',
    inNamespace('wiped', async (place, t) => {
      await place.apply(claim('demo'));
      await ready(place, 'demo');
      const before = await oneCluster(place, 'demo', 3);
      const { follower } = await leaderAndFollower(place, 'demo');
      const victim = await podOf(place, follower);
      const volume = await volumeOf(place, follower);
      await using history = await endpointHistory(place, 'demo');
      await using writes = await writer(place, 'demo');

      const aside = await takeAway(volume);
      await killEtcd(victim.metadata);

      const { message } = await condition(() => memberIn(place, follower), 'Ready', {
        status: 'False',
        reason: 'VolumeEmpty',
      });
      t.diagnostic(`EtcdMember ${follower}: ${message}`);
      const degraded = await condition(() => claimIn(place, 'demo'), 'Degraded', {
        status: 'True',
        reason: 'VolumeEmpty',
        words: new RegExp(follower),
      });
      t.diagnostic(`EtcdCluster: Degraded ${degraded.reason}: ${degraded.message}`);
      assert.equal(conditionOf(await claimIn(place, 'demo'), 'Available')?.status, 'True');

      const closed = closedAt(history, victim.metadata.name) ?? assert.fail('it was never closed to clients');
      assert.ok(!wasOpen(history, victim.metadata.name, closed + 1), 'it was open to clients again');
      const survivors = await openPods(place, 'demo');
      assert.equal(survivors.length, 2);
      assert.equal((await volumesOf(place, 'demo')).length, 3, 'its volume is kept');

      await putBack(volume, aside);
      // Nobody touches anything in Kubernetes: the container's own next start finds the data.
      await ready(place, 'demo', { deadlineMs: 120_000 });
      assert.deepEqual(await oneCluster(place, 'demo', 3), before);
      const written = await writes.stop();
      await history.stop();
      assert.equal(history.gaps(), 0, 'the watch of the Service saw everything');
      t.diagnostic(`writes: ${JSON.stringify(written)}`);
      assert.deepEqual(written.lost, []);
      assert.ok(written.longestGapMs < SERVES_WITHIN_MS, `clients waited ${written.longestGapMs} ms`);
    }),
  );

  test(
    'while its Pod is made again never serves either',
    inNamespace('wiped-pod', async (place, t) => {
      await place.apply(claim('demo'));
      await ready(place, 'demo');
      const before = await oneCluster(place, 'demo', 3);
      const { follower } = await leaderAndFollower(place, 'demo');
      const victim = await podOf(place, follower);
      const volume = await volumeOf(place, follower);
      await using history = await endpointHistory(place, 'demo');
      await using writes = await writer(place, 'demo');

      const aside = await takeAway(volume);
      await place.kubectl(['delete', 'pod', victim.metadata.name, '--wait=false']);
      await condition(() => memberIn(place, follower), 'Ready', { status: 'False', reason: 'VolumeEmpty' });

      const closed = closedAt(history, victim.metadata.name) ?? assert.fail('it was never closed to clients');
      assert.ok(!wasOpen(history, victim.metadata.name, closed + 1), 'it was open to clients again');
      await putBack(volume, aside);
      await ready(place, 'demo', { deadlineMs: 120_000 });
      assert.deepEqual(await oneCluster(place, 'demo', 3), before);
      const written = await writes.stop();
      await history.stop();
      t.diagnostic(`writes: ${JSON.stringify(written)}`);
      assert.deepEqual(written.lost, []);
      assert.ok(written.longestGapMs < SERVES_WITHIN_MS, `clients waited ${written.longestGapMs} ms`);
    }),
  );
});

describe('a member whose volume holds the data of another cluster', { skip }, () => {
  for (const { how, title } of [
    // Between the end of a container and the Service's notice of it lies what kubelet and API server take, and the next start
    // can be faster (decision 2): nobody but the Pod itself could refuse clients then.
    {
      how: 'container',
      title: 'while its container restarts is stopped, closed to clients as soon as the restart is known',
    },
    { how: 'pod', title: 'while its Pod is made again is stopped before it serves anyone' },
  ] as const) {
    test(
      `${title}, and serves again on its own data when told to retry`,
      inNamespace(`foreign-${how}`, async (place, t) => {
        // A cluster of one starts alone, so nothing but the operator keeps it from serving. It is paused while it is
        // copied, as a member of it must not run twice.
        await Promise.all([place.apply(claim('demo')), place.apply(claim('other', { replicas: 1 }))]);
        await Promise.all([ready(place, 'demo'), ready(place, 'other')]);
        const before = await oneCluster(place, 'demo', 3);
        const other = await podOf(place, 'other-0');
        const [address = { name: '', ip: '' }] = reachable([other]);
        await put(place, address, 'secret-of-other', 'foreign');
        const foreignID = (await selfOf(place, address)).clusterID;
        assert.notEqual(foreignID, before.clusterID);
        const otherVolume = await volumeOf(place, 'other-0');
        await place.kubectl(['scale', 'etcdcluster/other', '--replicas=0']);
        await eventually('the other cluster is paused', async () => {
          if ((await place.get(seenKinds.pods, other.metadata.name)) !== undefined) notYet('its Pod is there');
        });
        const folder = await mkdtemp(join(stateFolder, 'foreign-'));
        try {
          const copy = join(folder, 'data');
          await copyOf(otherVolume, copy);

          const { follower } = await leaderAndFollower(place, 'demo');
          const victim = await podOf(place, follower);
          const volume = await volumeOf(place, follower);
          await using history = await endpointHistory(place, 'demo');
          await using writes = await writer(place, 'demo');

          await using spy = await spyOn(
            place,
            'demo',
            async () => reachable([await podOf(place, follower)])[0],
            before.clusterID,
          );

          const aside = await takeAway(volume);
          await putIn(volume, copy);
          if (how === 'container') await killEtcd(victim.metadata);
          else await place.kubectl(['delete', 'pod', victim.metadata.name, '--wait=false']);

          const { message } = await condition(() => memberIn(place, follower), 'Ready', {
            status: 'False',
            reason: 'ForeignData',
            words: new RegExp(foreignID),
          });
          t.diagnostic(`EtcdMember ${follower}: ${message}`);
          const stalled = await condition(() => claimIn(place, 'demo'), 'Stalled', {
            status: 'True',
            reason: 'ForeignData',
            words: new RegExp(follower),
          });
          t.diagnostic(`EtcdCluster: Stalled ${stalled.reason}: ${stalled.message}`);
          await eventually('its Pod is stopped', async () => {
            const pod = await place.get(seenKinds.pods, victim.metadata.name);
            if (pod !== undefined && pod.metadata.deletionTimestamp === undefined) notYet('it runs');
          });
          t.diagnostic(`it answered with foreign data ${spy.foreign()} times, to clients ${spy.servedAt.length} times`);
          const closed = closedAt(history, victim.metadata.name) ?? assert.fail('it was never closed to clients');
          assert.deepEqual(
            spy.servedAt.filter((at) => how === 'pod' || at > history.beganAt + closed),
            [],
            'answers from foreign data through the client Service',
          );
          assert.ok(!wasOpen(history, victim.metadata.name, closed + 1), 'it was open to clients on foreign data');
          assert.equal(conditionOf(await claimIn(place, 'demo'), 'Available')?.status, 'True', 'the others serve');
          assert.equal((await volumesOf(place, 'demo')).length, 3, 'its volume is kept');
          for (const pod of await openPods(place, 'demo')) {
            const [open] = reachable([(await place.get(seenKinds.pods, pod)) ?? notYet(`${pod} is gone`)]);
            assert.ok(open !== undefined);
            assert.equal(await read(place, open, 'secret-of-other'), undefined);
          }

          await putBack(volume, aside);
          assert.ok(!(await nodeReady(place, follower)), 'nothing starts before somebody says so');
          await place.kubectl(['annotate', 'etcdmember', follower, `${ANNOTATIONS.retry}=true`]);
          await ready(place, 'demo', { deadlineMs: 120_000 });
          assert.deepEqual(await oneCluster(place, 'demo', 3), before);
          assert.equal(
            (await memberIn(place, follower)).metadata.annotations?.[ANNOTATIONS.retry],
            undefined,
            'the runtime takes the mark away',
          );
          assert.match(said(await claimIn(place, 'demo'), 'Stalled'), /^Stalled=False/);
          const written = await writes.stop();
          await history.stop();
          assert.equal(history.gaps(), 0, 'the watch of the Service saw everything');
          t.diagnostic(`writes: ${JSON.stringify(written)}`);
          assert.deepEqual(
            written.lost.filter(({ pod }) => how === 'pod' || pod !== victim.metadata.name),
            [],
          );
          assert.ok(written.longestGapMs < SERVES_WITHIN_MS, `clients waited ${written.longestGapMs} ms`);
        } finally {
          await rm(folder, { recursive: true, force: true });
        }
      }),
    );
  }

  test(
    'and under its own name is empty for this member: it does not start',
    inNamespace('foreign-name', async (place) => {
      await Promise.all([place.apply(claim('demo')), place.apply(claim('other', { replicas: 1 }))]);
      await Promise.all([ready(place, 'demo'), ready(place, 'other')]);
      const { follower } = await leaderAndFollower(place, 'demo');
      const victim = await podOf(place, follower);
      const volume = await volumeOf(place, follower);
      const otherVolume = await volumeOf(place, 'other-0');
      await place.kubectl(['scale', 'etcdcluster/other', '--replicas=0']);
      await eventually('the other cluster is paused', async () => {
        if ((await place.get(seenKinds.pods, otherVolume.incarnation)) !== undefined) notYet('its Pod is there');
      });
      const aside = await takeAway(volume);
      await copyOf(otherVolume, join(volume.path, otherVolume.incarnation));
      await killEtcd(victim.metadata);
      await condition(() => memberIn(place, follower), 'Ready', { status: 'False', reason: 'VolumeEmpty' });
      assert.equal((await openPods(place, 'demo')).includes(victim.metadata.name), false);
      await putBack(volume, aside);
      await ready(place, 'demo', { deadlineMs: 120_000 });
    }),
  );
});
