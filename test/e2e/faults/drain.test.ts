/** Every node is drained in turn, as for an upgrade of the cluster, while clients write. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Node } from 'kubernetes-types/core/v1.js';
import { type Resource, resources } from '../../../runtime/ports/kube.ts';
import { claim, claimIn, clusterSelector, condition, podOf, podsOf, ready } from '../claim.ts';
import { writer } from '../client.ts';
import { eventually, notYet } from '../eventually.ts';
import { askMember, oneCluster } from '../identity.ts';
import { inNamespace, type Place } from '../place.ts';

const nodes = resources.nodes as Resource<Node>;

const leaderOf = async (place: Place): Promise<string> =>
  (await claimIn(place, 'demo')).status?.leader ?? notYet('nobody leads');

/** Each election is a new term, and so is each hand-over. */
const term = async (place: Place): Promise<number> => {
  const pod = await podOf(place, await leaderOf(place));
  const { raftTerm } = await askMember<{ raftTerm: string }>(
    place,
    { name: pod.metadata.name, ip: pod.status?.podIP ?? '' },
    '/v3/maintenance/status',
    {},
  );
  return Number(raftTerm);
};

test(
  'drained one after the other, no node waits for etcd and no write is lost; the leader has moved before it is evicted',
  inNamespace('drain', async (place, t) => {
    await place.apply(claim('demo'));
    await ready(place, 'demo');
    const before = await oneCluster(place, 'demo', 3);
    const hosts = [...new Set((await podsOf(place, 'demo')).map(({ spec }) => spec?.nodeName ?? ''))];
    if (hosts.length < 3) return t.skip('needs three nodes that members can run on');
    const back = (host: string): Promise<unknown> =>
      place.kube.mergePatch<Node>({ resource: nodes, name: host }, { spec: { unschedulable: null } });
    await using writes = await writer(place, 'demo', 20);
    for (const host of hosts) {
      const mine = (await podsOf(place, 'demo')).find(({ spec }) => spec?.nodeName === host);
      assert.ok(mine, `a member runs on ${host}`);
      const led = (await podOf(place, await leaderOf(place))).metadata.uid === mine.metadata.uid;
      const terms = await term(place);
      try {
        if (led) {
          const old = await leaderOf(place);
          await place.kubectl(['cordon', host]);
          await eventually('another member leads', async () => {
            if ((await leaderOf(place)) === old) notYet(`${old} leads`);
          });
          assert.equal((await podOf(place, old)).metadata.uid, mine.metadata.uid, 'nobody was evicted for it');
        }
        const began = performance.now();
        // As people drain, but for the Pods of other tests.
        await place.kubectl(
          [
            'drain',
            host,
            '--ignore-daemonsets',
            '--delete-emptydir-data',
            `--pod-selector=${clusterSelector('demo')}`,
            '--timeout=60s',
          ],
          { timeoutMs: 70_000 },
        );
        t.diagnostic(
          `${host}${led ? ', with the leader,' : ''} drained in ${Math.round(performance.now() - began)} ms`,
        );
        await condition(() => claimIn(place, 'demo'), 'Available', { status: 'True', reason: 'QuorumAvailable' });
      } finally {
        await back(host);
      }
      await ready(place, 'demo', { deadlineMs: 120_000 });
      assert.ok((await term(place)) - terms <= 1, `${host}: ${(await term(place)) - terms} terms passed`);
    }
    assert.deepEqual(await oneCluster(place, 'demo', 3), before, 'the same members on the same volumes');
    const written = await writes.stop();
    t.diagnostic(`writes: ${JSON.stringify(written)}`);
    assert.deepEqual(written.lost, []);
    assert.ok(written.longestGapMs < 5_000, `clients waited ${written.longestGapMs} ms`);
  }),
);
