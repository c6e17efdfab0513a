/**
 * Members that etcd ends, and what is done about each: a volume that it cannot start on is answered by another, and nothing else
 * is. The volumes are reached on the nodes' disks.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { claim, claimIn, condition, memberIn, podOf, quorumIn, ready, volumesOf } from '../claim.ts';
import { writer } from '../client.ts';
import { eventually, notYet } from '../eventually.ts';
import { leaderAndFollower, oneCluster } from '../identity.ts';
import { connected, inNamespace, type Place } from '../place.ts';
import { breakDatabase, killEtcd, putBack, takeAway, type Volume, volumeOf } from '../volume.ts';

const { cluster } = await connected();
const skip = cluster.local ? false : 'needs the nodes of the local cluster';

/** The kubelet starts a container three times in half a minute before its back-off tells of a loop. */
const REPLACED_WITHIN_MS = 150_000;

const replaced = (place: Place, member: string, incarnation: string): Promise<void> =>
  eventually(
    `${member} is replaced`,
    async () => {
      const { metadata } = await podOf(place, member);
      if (metadata.name === incarnation) notYet(`it is still ${incarnation}`);
    },
    { deadlineMs: REPLACED_WITHIN_MS },
  );

describe('a member that etcd ends', { skip }, () => {
  test(
    'is replaced when its volume was wiped or damaged, and is not when it lacks memory',
    inNamespace('damage', async (place, t) => {
      await place.apply(claim('demo'));
      await ready(place, 'demo');
      const before = await oneCluster(place, 'demo', 3);
      await using writes = await writer(place, 'demo');

      for (const [reason, harm] of [
        ['VolumeEmpty', async () => {}],
        [
          'DataCorrupt',
          async (volume: Volume, aside: string) => {
            await breakDatabase(aside);
            await putBack(volume, aside);
          },
        ],
      ] as const) {
        const began = performance.now();
        const { follower } = await leaderAndFollower(place, 'demo');
        const victim = await podOf(place, follower);
        const volume = await volumeOf(place, follower);
        const aside = await takeAway(volume);
        await killEtcd(victim.metadata);
        // Only once nothing writes to it: etcd would mend the pages that are broken under it.
        await harm(volume, aside);
        const { message } = await condition(() => memberIn(place, follower), 'Ready', { status: 'False', reason });
        t.diagnostic(`EtcdMember ${follower}: ${message}`);
        await replaced(place, follower, victim.metadata.name);
        await ready(place, 'demo', { deadlineMs: 120_000 });
        t.diagnostic(`${reason}: ${follower} serves again after ${Math.round(performance.now() - began)} ms`);
        const now = await oneCluster(place, 'demo', 3);
        assert.equal(now.clusterID, before.clusterID);
        await eventually('its volume is gone', async () => {
          const left = (await volumesOf(place, 'demo')).map(({ metadata }) => metadata.name);
          if (left.includes(victim.metadata.name) || left.length !== 3) notYet(left.join(', '));
        });
        const { repairs = [] } = (await quorumIn(place, 'demo')).status ?? {};
        assert.deepEqual(
          repairs.filter(({ cause }) => cause === reason).map(({ member, count }) => [member, count]),
          [[follower, 1]],
        );
      }

      const limited = { limits: { memory: '16Mi' }, requests: { cpu: '20m', memory: '16Mi' } };
      const incarnations = (await volumesOf(place, 'demo')).map(({ metadata }) => metadata.name).toSorted();
      await place.apply(claim('demo', { resources: limited }));
      const short = await condition(
        () => claimIn(place, 'demo'),
        'Degraded',
        { status: 'True', reason: 'OutOfMemory', words: /it is 16Mi now/ },
        { deadlineMs: 90_000 },
      );
      t.diagnostic(`EtcdCluster: Degraded ${short.reason}: ${short.message}`);
      // As often as a damaged volume takes to be called one.
      await eventually(
        'the kubelet backs off for long',
        async () => {
          const [status] = (await Promise.all(['demo-0', 'demo-1', 'demo-2'].map((name) => podOf(place, name))))
            .flatMap(({ status: of }) => of?.containerStatuses ?? [])
            .filter(({ state }) => /^back-off (?:40|\dm)/.test(state?.waiting?.message ?? ''));
          if (status === undefined) notYet('no container waits for 40 s');
        },
        { deadlineMs: 150_000 },
      );
      assert.deepEqual(
        (await volumesOf(place, 'demo')).map(({ metadata }) => metadata.name).toSorted(),
        incarnations,
        'nobody is replaced for want of memory',
      );
      await place.apply(claim('demo'));
      await ready(place, 'demo', { deadlineMs: 120_000 });

      const written = await writes.stop();
      t.diagnostic(`writes: ${JSON.stringify(written)}`);
      assert.deepEqual(written.lost, []);
    }),
  );
});
