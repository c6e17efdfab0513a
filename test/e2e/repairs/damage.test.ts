/**
 * Members that etcd ends, and what is done about each: a volume that it cannot start on is answered by another, and nothing else
 * is. The volumes are reached on the nodes' disks.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { claim, claimIn, condition, conditionOf, memberIn, podOf, quorumIn, ready, volumesOf } from '../claim.ts';
import { etcdctl, read, writer } from '../client.ts';
import { eventually, notYet } from '../eventually.ts';
import { askMember, leaderAndFollower, oneCluster, reachable } from '../identity.ts';
import { connected, inNamespace, type Place } from '../place.ts';
import { breakDatabase, falsify, killEtcd, putBack, takeAway, type Volume, volumeOf } from '../volume.ts';

const { cluster } = await connected();
const skip = cluster.local ? false : 'needs the nodes of the local cluster';

const MIB = 1 << 20;
/** A database file grows by 16 MiB at a time, and a quota is reached by the file: of a small one much would be free pages. */
const QUOTA = 80 * MIB;
/** Found in the database file as it is: etcd neither compresses nor checks its pages. */
const MARK = 'this-value-is-the-same-everywhere';
const base64 = (value: string): string => Buffer.from(value).toString('base64');

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

describe('data and space', { skip, concurrency: true }, () => {
  test(
    'a member whose volume was wiped or damaged is replaced, and no acknowledged write is lost',
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

      const written = await writes.stop();
      t.diagnostic(`writes: ${JSON.stringify(written)}`);
      assert.deepEqual(written.lost, []);
    }),
  );

  test(
    'a member that lacks memory is not replaced: the next one would lack it as well',
    inNamespace('memory-limit', async (place, t) => {
      await place.apply(claim('demo'));
      await ready(place, 'demo');

      const limited = { limits: { memory: '10Mi' }, requests: { cpu: '20m', memory: '10Mi' } };
      const incarnations = (await volumesOf(place, 'demo')).map(({ metadata }) => metadata.name).toSorted();
      await place.apply(claim('demo', { resources: limited }));
      const short = await condition(
        () => claimIn(place, 'demo'),
        'Degraded',
        { status: 'True', reason: 'OutOfMemory', words: /it is 10Mi now/ },
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
    }),
  );

  test(
    'writes that etcd refuses by an alarm are allowed again once there is room and the data agrees',
    inNamespace('alarms', async (place, t) => {
      await place.apply(claim('demo', { options: { quotaBackendBytes: QUOTA } }));
      await ready(place, 'demo');
      const before = await oneCluster(place, 'demo', 3);
      const ask = async <T>(path: string, body: unknown): Promise<T> => {
        const { leader } = await leaderAndFollower(place, 'demo');
        const [pod] = reachable([await podOf(place, leader)]);
        assert.ok(pod);
        return askMember<T>(place, pod, path, body, 10_000);
      };
      const write = (key: string, value: string): Promise<unknown> =>
        ask('/v3/kv/put', { key: base64(key), value: base64(value) });

      // The database fills with versions of one key, until even a defragmented one is full of history.
      await write('marker', MARK);
      let versions = 0;
      const stalled = await eventually(
        'the database is full of what is in use',
        async () => {
          for (;;) {
            versions += 1;
            const refused = await write('big', String(versions).padEnd(MIB, '.')).then(
              () => undefined,
              (error: unknown) => (error instanceof Error ? error.message : String(error)),
            );
            if (refused === undefined) continue;
            assert.match(refused, /database space exceeded/);
            break;
          }
          const found = conditionOf(await claimIn(place, 'demo'), 'Stalled');
          return found?.reason === 'SpaceExhausted' ? found : notYet(`Stalled ${found?.status} ${found?.reason}`);
        },
        { deadlineMs: 90_000 },
      );
      const full = await condition(() => claimIn(place, 'demo'), 'Ready', { status: 'False' });
      t.diagnostic(`EtcdCluster: Ready=False ${full.reason}; Stalled ${stalled.reason}: ${stalled.message}`);

      // As docs/faults.md tells people to.
      const fields = await etcdctl(place, 'demo', 'get', '/', '-w', 'fields');
      const revision = /^"Revision" : (\d+)$/m.exec(fields)?.[1] ?? assert.fail(`no revision in ${fields}`);
      await etcdctl(place, 'demo', 'compact', '--physical', revision);
      const began = performance.now();
      await eventually('clients can write again', () => write('after', 'the alarm'), { deadlineMs: 120_000 });
      t.diagnostic(`writes are allowed ${Math.round(performance.now() - began)} ms after the compaction`);
      await ready(place, 'demo');

      // An alarm that blames a member whose data is like everyone's.
      const { follower } = await leaderAndFollower(place, 'demo');
      const victim = await podOf(place, follower);
      const blamed = BigInt(`0x${before.members.get(victim.metadata.name) ?? '0'}`).toString();
      await ask('/v3/maintenance/alarm', { action: 'ACTIVATE', memberID: blamed, alarm: 'CORRUPT' });
      await assert.rejects(write('during', 'the alarm'), /corrupt cluster/);
      await eventually('clients can write again', () => write('after', 'the second alarm'), { deadlineMs: 60_000 });
      await ready(place, 'demo');
      assert.equal((await podOf(place, follower)).metadata.name, victim.metadata.name, 'nobody is replaced for it');

      // One value differs on one member, which etcd finds when it starts.
      const volume = await volumeOf(place, follower);
      const aside = await takeAway(volume);
      await killEtcd(victim.metadata);
      await falsify(aside, MARK);
      await putBack(volume, aside);
      const { message } = await condition(() => memberIn(place, follower), 'Ready', {
        status: 'False',
        reason: 'DataDiffers',
      });
      t.diagnostic(`EtcdMember ${follower}: ${message}`);
      await replaced(place, follower, victim.metadata.name);
      await ready(place, 'demo', { deadlineMs: 120_000 });
      const [now] = reachable([await podOf(place, follower)]);
      assert.ok(now);
      assert.equal(await read(place, now, 'marker', { serializable: true }), MARK);
      const { repairs = [] } = (await quorumIn(place, 'demo')).status ?? {};
      t.diagnostic(`repairs: ${repairs.map(({ member, cause, count }) => `${member} ${cause} ${count}`).join(', ')}`);
    }),
  );
});
