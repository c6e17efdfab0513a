/** A node that is switched off: it comes back with its member, or it never does and the member is made anew elsewhere. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Node } from 'kubernetes-types/core/v1.js';
import { systemNamespace } from '../../../deploy/names.ts';
import { resources } from '../../../runtime/ports/kube.ts';
import type { NodeName } from '../../cluster/cluster.ts';
import { claim, condition, inMemory, memberIn, openPods, podsOf, ready, volumesOf } from '../claim.ts';
import { writer } from '../client.ts';
import { eventually, notYet } from '../eventually.ts';
import { oneCluster } from '../identity.ts';
import { connected, inNamespace, type Place } from '../place.ts';

const { cluster, kube } = await connected();

/** What a test must not switch off, since the rest would wait for it: the runtime that leads, DNS, the provisioner, Crossplane. */
const busyNodes = async (): Promise<ReadonlySet<string>> => {
  const { items } = await kube.list(resources.pods);
  const lease = await kube.get({
    resource: resources.leases,
    namespace: systemNamespace,
    name: 'etcd-operator-runtime',
  });
  const needed = items.filter(
    ({ metadata: { namespace, name } }) =>
      ['kube-system', 'local-path-storage', 'crossplane-system'].includes(namespace ?? '') ||
      (namespace === systemNamespace && name === lease?.spec?.holderIdentity),
  );
  const counts = new Map<string, number>();
  for (const { spec } of needed) counts.set(spec?.nodeName ?? '', (counts.get(spec?.nodeName ?? '') ?? 0) + 1);
  const quietest = Math.min(...(await nodes()).map(({ metadata }) => counts.get(metadata.name) ?? 0));
  return new Set([...counts].filter(([, count]) => count > quietest).map(([name]) => name));
};

const nodes = async () => (await kube.list(resources.nodes)).items;

const isReady = ({ status }: Node): boolean =>
  status?.conditions?.some((one) => one.type === 'Ready' && one.status === 'True') === true;

const memberOn = async (place: Place, name: string, node: string): Promise<string> => {
  const pod = (await podsOf(place, name)).find(({ spec }) => spec?.nodeName === node);
  assert.ok(pod, `${name} has a member on ${node}`);
  return pod.metadata.name.slice(0, pod.metadata.name.lastIndexOf('-'));
};

const whole = (place: Place, name: string, old: string, member: string): Promise<void> =>
  eventually(
    `${name} is whole without ${old}`,
    async () => {
      const { status } = await memberIn(place, member);
      if (status?.memberID === undefined || status.memberID === old) notYet(`${member} is ${status?.phase}`);
      const open = await openPods(place, name);
      if (open.length !== 3) notYet(`open are ${open.join(', ')}`);
    },
    // Where a DNS server went with the node, half of all names are not found until its Pod is collected, and the new member,
    // which ends when it finds none of the others, is started again by the kubelet after longer and longer pauses.
    { deadlineMs: 300_000 },
  );

describe('a node without power', { skip: cluster.faults === undefined ? 'needs the local cluster' : false }, () => {
  test(
    'keeps its member while it may return; once its Node is deleted, the member is replaced and nothing waits for it',
    inNamespace('node-loss', async (place, t) => {
      const { faults } = cluster;
      assert.ok(faults);
      await place.apply(claim('vol'), claim('mem', { storage: inMemory }));
      await Promise.all([ready(place, 'vol'), ready(place, 'mem')]);
      const before = await oneCluster(place, 'vol', 3);
      const busy = await busyNodes();
      const away = (await nodes()).find(({ metadata }) => !busy.has(metadata.name))?.metadata.name as NodeName;
      const lost = await memberOn(place, 'vol', away);
      const forgetful = await memberOn(place, 'mem', away);
      const voter = (await memberIn(place, lost)).status?.memberID ?? '';
      const fleeting = (await memberIn(place, forgetful)).status?.memberID ?? '';
      await using writes = await writer(place, 'vol');
      try {
        await faults.stopNode(away, 'power');
        const said = await condition(() => memberIn(place, lost), 'Ready', { status: 'False', reason: 'NodeLost' });
        t.diagnostic(`${lost}: ${said.message}`);
        assert.match(said.message ?? '', new RegExp(`node ${away} has not been ready since .* is replaced from`));
        assert.equal((await memberIn(place, lost)).status?.memberID, voter, 'nobody is replaced for it yet');
        await faults.startNode(away);
        await ready(place, 'vol');
        assert.deepEqual(await oneCluster(place, 'vol', 3), before, 'the same members, the one that was away included');
        await ready(place, 'mem');

        await faults.stopNode(away, 'power');
        const began = performance.now();
        await kube.delete({ resource: resources.nodes, name: away });
        await Promise.all([whole(place, 'vol', voter, lost), whole(place, 'mem', fleeting, forgetful)]);
        t.diagnostic(
          `both clusters are whole ${Math.round(performance.now() - began)} ms after their node was deleted`,
        );
      } finally {
        await faults.startNode(away);
      }
      await eventually('the node is back', async () => {
        const node = await kube.get({ resource: resources.nodes, name: away });
        if (node === undefined || !isReady(node)) notYet('it has not reported');
      });
      await eventually('nothing is left of what was given up', async () => {
        const left = [
          ...(await podsOf(place, 'vol')),
          ...(await volumesOf(place, 'vol')),
          ...(await podsOf(place, 'mem')),
        ];
        if (left.length !== 9) notYet(left.map(({ metadata }) => metadata.name).join(', '));
      });
      const after = await oneCluster(place, 'vol', 3);
      assert.equal(after.clusterID, before.clusterID);
      const written = await writes.stop();
      t.diagnostic(`writes: ${JSON.stringify(written)}`);
      assert.deepEqual(written.lost, []);
      assert.ok(written.longestGapMs < 5_000, `clients waited ${written.longestGapMs} ms`);
    }),
  );
});
