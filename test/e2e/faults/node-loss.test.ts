/** A node that is switched off: it comes back with its member, or it never does and the member is made anew elsewhere. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { resources } from '../../../runtime/ports/kube.ts';
import { claim, condition, inMemory, memberIn, openPods, podsOf, ready, volumesOf } from '../claim.ts';
import { writer } from '../client.ts';
import { eventually, notYet } from '../eventually.ts';
import { oneCluster } from '../identity.ts';
import { connected, inNamespace, type Place } from '../place.ts';
import { nodeIsBack, quietNode } from '../quiet-node.ts';

const connection = await connected();
const { cluster, kube } = connection;

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
      const away = await quietNode(connection);
      await place.apply(claim('vol'), claim('mem', { storage: inMemory }));
      await Promise.all([ready(place, 'vol'), ready(place, 'mem')]);
      const before = await oneCluster(place, 'vol', 3);
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
      await nodeIsBack(connection, away);
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
