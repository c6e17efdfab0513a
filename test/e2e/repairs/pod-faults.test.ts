/** Pods that go or hang at the worst moment: each comes back as who it was, and nobody else is touched. */
import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { describe, test } from 'node:test';
import type { Pod } from 'kubernetes-types/core/v1.js';
import { resources, type Stored } from '../../../runtime/ports/kube.ts';
import { claim, condition, memberIn, podOf, podsOf, ready, uidsOf, volumesOf } from '../claim.ts';
import { writer } from '../client.ts';
import { eventually, notYet } from '../eventually.ts';
import { leaderAndFollower, oneCluster } from '../identity.ts';
import { connected, inNamespace, type Place } from '../place.ts';

const { cluster } = await connected();

/** The etcd of a Pod, as this machine sees it: nodes of the local cluster share its processes. */
const processOf = async ({ metadata }: Stored<Pod>): Promise<number> => {
  for (const entry of await readdir('/proc')) {
    if (!/^\d+$/.test(entry)) continue;
    const text = (name: string): Promise<string> => readFile(`/proc/${entry}/${name}`, 'utf8').catch(() => '');
    if ((await text('comm')).trim() !== 'etcd') continue;
    if ((await text('cgroup')).includes(metadata.uid)) return Number(entry);
  }
  return notYet(`no etcd runs for Pod ${metadata.name}`);
};

const another = (place: Place, member: string, old: Stored<Pod>): Promise<Stored<Pod>> =>
  eventually(
    `another Pod of ${member}`,
    async () => {
      const pod = await podOf(place, member);
      return pod.metadata.uid === old.metadata.uid ? notYet('it is the old one') : pod;
    },
    { everyMs: 30 },
  );

const remove = (place: Place, pod: Stored<Pod>): Promise<unknown> =>
  place.kube.delete({ resource: resources.pods, namespace: place.namespace, name: pod.metadata.name });

describe('a Pod', () => {
  test(
    'deleted in any phase of its life costs nobody an identity: pending, starting, learner, follower, leader',
    inNamespace('pod-gone', async (place, t) => {
      await place.apply(claim('demo'));
      const pending = await eventually('a first Pod', async () => (await podsOf(place, 'demo'))[0] ?? notYet('none'), {
        everyMs: 30,
      });
      await remove(place, pending);
      await ready(place, 'demo');
      const before = await oneCluster(place, 'demo', 3);
      const volumes = uidsOf(await volumesOf(place, 'demo'));
      await using writes = await writer(place, 'demo');

      const { leader, follower } = await leaderAndFollower(place, 'demo');
      for (const member of [follower, leader]) {
        const old = await podOf(place, member);
        await remove(place, old);
        // The next one is hit while it starts.
        const starting = await another(place, member, old);
        await remove(place, starting);
        await another(place, member, starting);
        await ready(place, 'demo');
        assert.deepEqual(await oneCluster(place, 'demo', 3), before, `${member} came back as who it was`);
      }
      assert.deepEqual(uidsOf(await volumesOf(place, 'demo')), volumes);

      await place.kubectl(['scale', 'etcdcluster/demo', '--replicas=4']);
      const learner = await eventually('the Pod of the learner', () => podOf(place, 'demo-3'), { everyMs: 30 });
      await remove(place, learner);
      await ready(place, 'demo');
      const after = await oneCluster(place, 'demo', 4);
      assert.equal(after.clusterID, before.clusterID);
      for (const [pod, id] of before.members) assert.equal(after.members.get(pod), id, `${pod} is who it was`);
      const written = await writes.stop();
      t.diagnostic(`writes: ${JSON.stringify(written)}`);
      assert.deepEqual(written.lost, []);
    }),
  );

  test(
    'whose etcd hangs is told of and left to its kubelet, and serves again when it goes on',
    { skip: cluster.faults === undefined ? 'needs the local cluster' : false },
    inNamespace('hung', async (place, t) => {
      await place.apply(claim('demo'));
      await ready(place, 'demo');
      const before = await oneCluster(place, 'demo', 3);
      const pods = uidsOf(await podsOf(place, 'demo'));
      await using writes = await writer(place, 'demo');
      const { follower } = await leaderAndFollower(place, 'demo');
      const etcd = await processOf(await podOf(place, follower));
      const began = performance.now();
      process.kill(etcd, 'SIGSTOP');
      try {
        await condition(() => memberIn(place, follower), 'Ready', { status: 'False', reason: 'NotAnswering' });
        t.diagnostic(`told after ${Math.round(performance.now() - began)} ms`);
        assert.deepEqual(uidsOf(await podsOf(place, 'demo')), pods, 'no Pod is taken away for it');
      } finally {
        process.kill(etcd, 'SIGCONT');
      }
      await ready(place, 'demo');
      assert.deepEqual(await oneCluster(place, 'demo', 3), before);
      assert.deepEqual(uidsOf(await podsOf(place, 'demo')), pods);
      const written = await writes.stop();
      t.diagnostic(`writes: ${JSON.stringify(written)}`);
      assert.deepEqual(written.lost, []);
    }),
  );
});
