/** The size of a cluster, as people and autoscalers set it: up, down, to nothing and back, one cluster all the way. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { API_VERSION } from '../../../api/names.ts';
import type { Resource } from '../../../runtime/ports/kube.ts';
import { claim, claimIn, leftovers, membersOf, podsOf, type quorumIn, ready, uidsOf, volumesOf } from '../claim.ts';
import { everything, writer } from '../client.ts';
import { eventually, notYet } from '../eventually.ts';
import { follow } from '../history.ts';
import { type Identity, oneCluster, reachable, watchMembership } from '../identity.ts';
import { inNamespace, type Place, seenKinds } from '../place.ts';
import { BREAKER_TOKENS, watchBreaker } from '../traffic.ts';

const scale = (place: Place, name: string, replicas: number): Promise<string> =>
  place.kubectl(['scale', `etcdcluster/${name}`, `--replicas=${replicas}`]);

type Scale = { spec: { replicas: number }; status: { replicas: number; selector?: string } };

/** What a HorizontalPodAutoscaler reads before it sets anything. */
const scaleOf = async (place: Place, name: string): Promise<Scale> =>
  JSON.parse(
    await place.kubectl([
      'get',
      ...['--raw', `/apis/${API_VERSION}/namespaces/${place.namespace}/etcdclusters/${name}/scale`],
    ]),
  ) as Scale;

const namesOf = (objects: readonly { readonly metadata: { readonly name: string } }[]): string[] =>
  objects.map(({ metadata }) => metadata.name).toSorted();

const dataOf = async (place: Place, name: string): ReturnType<typeof everything> => {
  const [pod] = reachable(await podsOf(place, name));
  return pod === undefined ? notYet(`no Pod of ${name} has an address`) : await everything(place, pod);
};

const seconds = (since: number): string => `${((performance.now() - since) / 1000).toFixed(1)} s`;

describe('the size of a cluster', () => {
  test(
    'goes 1 → 3 → 5 → 3 → 1 → 3 while clients write, then to 0 and back, and stays one cluster with all its data',
    inNamespace('scale', async (place, t) => {
      await place.apply(claim('demo', { replicas: 1 }), claim('later', { replicas: 0 }));
      await ready(place, 'demo');
      let before = await oneCluster(place, 'demo', 1);
      const { clusterID } = before;

      await t.test('up and down', async (t) => {
        await using membership = watchMembership(place, 'demo');
        await using records = await follow(place.kube, seenKinds.etcdquorums as Resource, place);
        await using breaker = await watchBreaker(place);
        await using writes = await writer(place, 'demo', 20, 500);
        for (const size of [3, 5, 3, 1, 3]) {
          const from = before.members.size;
          const began = performance.now();
          await scale(place, 'demo', size);
          await ready(place, 'demo', { deadlineMs: 120_000 });
          const took = seconds(began);
          const after = await oneCluster(place, 'demo', size);
          const { longestGapMs } = writes.sofar();
          t.diagnostic(
            `${from} → ${size}: ${took}; longest time without a write so far ${longestGapMs} ms; ` +
              `breaker: ${breaker.tokens()} tokens taken, at least ${breaker.least()} of ${BREAKER_TOKENS} left, ` +
              `${breaker.opened() ? 'opened' : 'closed'}`,
          );
          assert.equal(after.clusterID, clusterID);
          assertSameMembers(before, after);
          await eventually(`all that is there is ${size} of each, and a majority is protected`, async () => {
            const parts = [await membersOf(place, 'demo'), await podsOf(place, 'demo'), await volumesOf(place, 'demo')];
            if (parts.some(({ length }) => length !== size)) notYet(parts.map(({ length }) => length).join(', '));
            const budget = await place.get(seenKinds.poddisruptionbudgets, 'demo');
            const protectedPods = size === 1 ? undefined : Math.floor(size / 2) + 1;
            if (budget?.spec?.minAvailable !== protectedPods) notYet(`minAvailable is ${budget?.spec?.minAvailable}`);
          });
          before = after;
        }
        const written = await writes.stop();
        t.diagnostic(`writes: ${JSON.stringify(written)}; ${membership.looks()} looks at the members`);
        assert.deepEqual(written.lost, []);
        assert.ok(written.longestGapMs < 2_000, `clients waited ${written.longestGapMs} ms`);
        assert.equal(membership.mostLearners(), 1, 'learners that etcd listed at a time');
        assert.deepEqual(membership.clusterIDs(), [clusterID], 'cluster IDs that members answered with');
        const recorded = records.happenings
          .filter(({ object }) => object.metadata.name === 'demo')
          .map(({ object }) => (object as Awaited<ReturnType<typeof quorumIn>>).status);
        assert.ok(recorded.every((status) => (status?.learners ?? []).length <= 1));
        assert.ok(recorded.every((status) => status?.clusterID === clusterID));
      });

      await t.test('read by an autoscaler', async () => {
        const { spec, status } = await scaleOf(place, 'demo');
        assert.deepEqual([spec.replicas, status.replicas], [3, 3]);
        assert.ok(status.selector, 'without a selector an autoscaler does nothing');
        const selected = await place.list(seenKinds.pods, status.selector);
        assert.deepEqual(namesOf(selected), [...before.members.keys()].toSorted());
      });

      await t.test('down to nothing and back', async (t) => {
        const volumes = uidsOf(await volumesOf(place, 'demo'));
        const data = await dataOf(place, 'demo');
        const stopping = performance.now();
        await scale(place, 'demo', 0);
        await eventually('it is paused', async () => {
          const { status } = await claimIn(place, 'demo');
          if (status?.phase !== 'Paused') notYet(`it is ${status?.phase}`);
          const pods = await podsOf(place, 'demo');
          if (pods.length > 0) notYet(`${pods.length} Pods are there`);
        });
        t.diagnostic(`3 → 0: ${seconds(stopping)}`);
        assert.deepEqual(uidsOf(await volumesOf(place, 'demo')), volumes);
        assert.deepEqual((await scaleOf(place, 'demo')).status.replicas, 0);

        const starting = performance.now();
        await scale(place, 'demo', 3);
        await ready(place, 'demo');
        t.diagnostic(`0 → 3: ${seconds(starting)}`);
        assert.deepEqual(await oneCluster(place, 'demo', 3), before, 'cluster ID, names and member IDs');
        assert.deepEqual(uidsOf(await volumesOf(place, 'demo')), volumes);
        assert.deepEqual(await dataOf(place, 'demo'), data, `${data.length} keys`);
      });

      await t.test('from 0 at first', async () => {
        const { status } = await claimIn(place, 'later');
        assert.equal(status?.phase, 'Paused');
        assert.equal(status?.clusterID, undefined, 'nothing was formed in all that time');
        const running = (await leftovers(place, 'later')).filter((name) => /^(Pod|PersistentVolumeClaim) /.test(name));
        assert.deepEqual(running, []);
        await scale(place, 'later', 1);
        await ready(place, 'later');
        assert.notEqual((await oneCluster(place, 'later', 1)).clusterID, clusterID);
      });
    }),
  );
});

/** Whoever stays keeps name and member ID, and nobody takes over an ID of one that went. */
const assertSameMembers = (before: Identity, after: Identity): void => {
  const shared = [...after.members.keys()].filter((pod) => before.members.has(pod));
  assert.equal(shared.length, Math.min(before.members.size, after.members.size), 'only so many come or go as must');
  for (const pod of shared) assert.equal(after.members.get(pod), before.members.get(pod), `${pod} is who it was`);
};
