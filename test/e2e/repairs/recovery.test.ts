/**
 * Two of three volumes destroyed under a writer: nothing is done until a person consents by the line that the condition
 * prints, and then everything that the survivor had is there again, under an identity and at revisions that nobody knew.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { parse } from 'yaml';
import { claim, claimIn, condition, conditionOf, podOf, podsOf, quorumIn, ready, volumesOf } from '../claim.ts';
import { watchFrom, writer } from '../client.ts';
import { eventually, notYet, throughout } from '../eventually.ts';
import { askMember, oneCluster, reachable, selfOf } from '../identity.ts';
import { connected, inNamespace, type Place } from '../place.ts';
import { killEtcd } from '../volume.ts';

const { cluster } = await connected();
const skip = cluster.local ? false : 'needs the nodes of the local cluster';

const text = (value: string): string => Buffer.from(value).toString('base64');

/** Keys of the writer that this member has, whatever the others know. */
const keysOf = async (place: Place, pod: { name: string; ip: string }): Promise<string[]> => {
  const { kvs = [] } = await askMember<{ kvs?: { key: string }[] }>(place, pod, '/v3/kv/range', {
    key: text('written/'),
    range_end: text('written0'),
    keys_only: true,
    serializable: true,
  });
  return kvs.map(({ key }) => Buffer.from(key, 'base64').toString());
};

describe('quorum lost for good', { skip }, () => {
  test(
    'comes back from the survivor by one edit, and nothing that it had is lost',
    inNamespace('recovery', async (place, t) => {
      await place.apply(claim('demo'));
      await ready(place, 'demo');
      const before = await oneCluster(place, 'demo', 3);
      await using writes = await writer(place, 'demo');
      await eventually('some writes are there', () =>
        writes.sofar().acknowledged >= 40 ? undefined : notYet(`${writes.sofar().acknowledged}`),
      );

      const [first, second] = await Promise.all([podOf(place, 'demo-0'), podOf(place, 'demo-1')]);
      const lost = [first.metadata.name, second.metadata.name];
      await place.kubectl(['delete', 'pvc', ...lost, '--wait=false']);
      await place.kubectl(['delete', 'pod', ...lost, '--grace-period=0', '--force']);

      const { message = '' } = await condition(() => claimIn(place, 'demo'), 'Available', {
        status: 'False',
        reason: 'QuorumLost',
        words: /survivors: demo-2 at revision .*recovery: \{/,
      });
      t.diagnostic(`Available: ${message}`);
      const survivor = await podOf(place, 'demo-2');
      const [alive] = reachable([survivor]);
      assert.ok(alive, 'the survivor has an address');
      const had = await keysOf(place, alive);
      const { revision } = await selfOf(place, alive);
      assert.ok(had.length >= 40, `${had.length} keys`);

      // Restarted, it serves nobody any more; only its metrics port tells how far its data goes.
      await killEtcd(survivor.metadata);
      await eventually('the survivor is known by its metrics', async () => {
        const { survivors } = (await quorumIn(place, 'demo')).status ?? {};
        assert.deepEqual(survivors, [
          { member: 'demo-2', revision: String(revision), source: 'metrics', readable: false, learner: false },
        ]);
      });
      await throughout(2_000, async () => {
        assert.equal((await quorumIn(place, 'demo')).status?.operation?.kind === 'RecoverQuorum', false);
        assert.ok((await volumesOf(place, 'demo')).some(({ metadata }) => metadata.name === survivor.metadata.name));
      });

      // The line as it stands in the condition, put into the claim as it is.
      const line = /recovery: \{.*\}/.exec(message)?.[0] ?? assert.fail(`no line to copy in: ${message}`);
      const started = performance.now();
      await place.kubectl([
        'patch',
        'etcdclusters.etcd-operator.cozystack.io',
        'demo',
        '--type=merge',
        '-p',
        JSON.stringify({ spec: parse(line) }),
      ]);

      await eventually(
        'somebody serves again',
        async () => {
          const status = (await claimIn(place, 'demo')).status;
          if (status?.clusterID === before.clusterID || status?.readyMembers === 0)
            notYet(JSON.stringify(status?.conditions));
        },
        { deadlineMs: 120_000 },
      );
      t.diagnostic(`serving again ${Math.round(performance.now() - started)} ms after the edit`);
      await ready(place, 'demo', { deadlineMs: 120_000 });
      t.diagnostic(`three members ${Math.round(performance.now() - started)} ms after the edit`);

      const after = await oneCluster(place, 'demo', 3);
      assert.notEqual(after.clusterID, before.clusterID);
      const [one] = reachable(await podsOf(place, 'demo'));
      assert.ok(one);
      const kept = new Set(await keysOf(place, one));
      assert.deepEqual(
        had.filter((key) => !kept.has(key)),
        [],
        'every key of the survivor is there',
      );
      assert.ok((await selfOf(place, one)).revision > revision + 999_999_999n, 'no revision is given a second time');
      assert.match(
        await watchFrom(one, revision),
        /"compact_revision":"1\d{9}"/,
        'an old watch is told that it missed something',
      );

      // What was lost goes only now, and the record tells what was done.
      await eventually('the volumes of the lost cluster are gone', async () => {
        const names = (await volumesOf(place, 'demo')).map(({ metadata }) => metadata.name);
        assert.deepEqual(names.toSorted(), [...after.members.keys()].toSorted());
      });
      const [entry] = (await quorumIn(place, 'demo')).status?.recovered ?? [];
      assert.equal(entry?.survivor, 'demo-2');
      assert.equal(entry?.lostClusterID, before.clusterID);
      assert.equal(entry?.clusterID, after.clusterID);
      assert.ok(entry?.verifiedAt !== undefined, 'all members were found to have equal data before');
      assert.equal(conditionOf(await claimIn(place, 'demo'), 'Accepted')?.status, 'True', 'the consent may stay');
      const { acknowledged } = writes.sofar();
      await eventually('the writer goes on', () =>
        writes.sofar().acknowledged > acknowledged ? undefined : notYet(writes.sofar().lastError ?? ''),
      );
    }),
  );
});
