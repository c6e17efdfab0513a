/**
 * A running cluster is given the data of one of its snapshots: a damaged one is refused while it serves on, a good one takes
 * over under revisions that nobody has seen, and what it replaced stays until the restore is deleted.
 */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { parse } from 'yaml';
import type { EtcdRestore } from '../../../api/etcdrestore.gen.ts';
import type { EtcdSnapshot } from '../../../api/etcdsnapshot.gen.ts';
import { API_VERSION, PORTS } from '../../../api/names.ts';
import { bucketIn } from '../bucket.ts';
import { claim, claimIn, conditionOf, podOf, podsOf, quorumIn, ready, volumesOf } from '../claim.ts';
import { put, read } from '../client.ts';
import { eventually, notYet } from '../eventually.ts';
import { oneCluster, reachable, selfOf } from '../identity.ts';
import { connected, inNamespace, type Place, seenKinds } from '../place.ts';

const { cluster } = await connected();
const EXAMPLE = join(import.meta.dirname, '../../../examples/restore-in-place.yaml');
const PATIENCE_MS = 240_000;

const restoreOf = (name: string, clusterID: string, source: EtcdRestore['spec']['source']): EtcdRestore => ({
  apiVersion: API_VERSION,
  kind: 'EtcdRestore',
  metadata: { name },
  spec: { clusterRef: { name: 'demo' }, source, clusterID, acceptDataLoss: true },
});

const statusOf = async (place: Place, name: string): Promise<NonNullable<EtcdRestore['status']>> =>
  ((await place.get(seenKinds.etcdrestores, name)) ?? notYet(`EtcdRestore ${name} is not there`)).status ?? {};

const inPhase = (place: Place, name: string, phase: string): Promise<NonNullable<EtcdRestore['status']>> =>
  eventually(
    `EtcdRestore ${name} is ${phase}`,
    async () => {
      const status = await statusOf(place, name);
      return status.phase === phase ? status : notYet(`${status.phase}: ${JSON.stringify(status.conditions)}`);
    },
    { deadlineMs: PATIENCE_MS },
  );

/** What a watch is told that goes on from `revision`, as an informer does whose connection broke. */
const watchFrom = async (pod: { ip: string }, revision: string): Promise<string> => {
  const answer = await fetch(`http://${pod.ip}:${PORTS.client}/v3/watch`, {
    method: 'POST',
    body: JSON.stringify({
      create_request: { key: Buffer.from('key-1').toString('base64'), start_revision: revision },
    }),
    signal: AbortSignal.timeout(60_000),
  });
  let said = '';
  for await (const piece of answer.body ?? []) {
    said += Buffer.from(piece).toString();
    if (said.includes('"canceled":true')) break;
  }
  return said;
};

describe('an EtcdRestore', { skip: cluster.s3 === undefined ? 'needs an S3 server' : false }, () => {
  test(
    'puts a snapshot in the place of what a running cluster holds, and nothing in its place that is not whole',
    inNamespace('in-place', async (place, t) => {
      const bucket = await bucketIn(cluster, 'e2e-restore-in-place');
      const s3 = bucket.location;
      await place.apply(bucket.secret('s3'), claim('demo'));
      const before = await ready(place, 'demo', { deadlineMs: PATIENCE_MS }).then(() => oneCluster(place, 'demo', 3));
      const { clusterID } = before;
      const [member] = reachable([await podOf(place, 'demo-0')]);
      assert.ok(member !== undefined);
      const keys = Array.from({ length: 20 }, (_, n) => `key-${n}`);
      for (const key of keys) await put(place, member, key, `value of ${key}`);
      const snapshot: EtcdSnapshot = {
        apiVersion: API_VERSION,
        kind: 'EtcdSnapshot',
        metadata: { name: 'before-the-upgrade' },
        spec: { clusterRef: { name: 'demo' }, destination: { s3 } },
      };
      await place.apply(snapshot);
      const taken = await eventually(
        'the snapshot is complete',
        async () => {
          const { status } =
            (await place.get(seenKinds.etcdsnapshots, 'before-the-upgrade')) ?? notYet('it is not there');
          return status?.phase === 'Complete' ? status : notYet(JSON.stringify(status?.conditions));
        },
        { deadlineMs: PATIENCE_MS },
      );
      for (const key of keys) await put(place, member, key, 'a mistake');
      await put(place, member, 'later', 'a mistake');

      // One bit of it changed: the cluster serves on as if nobody had asked.
      const objects = bucket.open();
      const key = bucket.keyOf(taken.artifact?.uri);
      const bytes = Buffer.concat(await Array.fromAsync(objects.read(key)));
      const manifest = Buffer.concat(await Array.fromAsync(objects.read(`${key}.manifest.json`)));
      async function* one(content: Uint8Array): AsyncGenerator<Uint8Array> {
        yield content;
      }
      bytes[9_000] = (bytes[9_000] ?? 0) ^ 1;
      const altered = `altered-${place.namespace}.db`;
      await objects.put(altered, one(bytes), { owner: 'e2e' });
      await objects.put(`${altered}.manifest.json`, one(manifest), { owner: 'e2e' });
      objects.close();
      await place.apply(restoreOf('altered', clusterID, { s3: { ...s3, key: altered } }));
      const refused = await inPhase(place, 'altered', 'Failed');
      const [said] = refused.conditions ?? [];
      t.diagnostic(`altered: ${said?.reason}: ${said?.message}`);
      assert.equal(said?.reason, 'SnapshotDamaged');
      assert.deepEqual((await oneCluster(place, 'demo', 3)).members, before.members, 'nobody was touched');
      assert.equal(await read(place, member, 'later'), 'a mistake');

      const { revision } = await selfOf(place, member);
      const old = (await volumesOf(place, 'demo')).map(({ metadata }) => metadata.name).toSorted();
      const started = performance.now();
      // As people copy it, with the one thing that they have to put in.
      const example = parse(await readFile(EXAMPLE, 'utf8')) as EtcdRestore;
      const asked: EtcdRestore = { ...example, spec: { ...example.spec, clusterID } };
      await place.apply(asked);
      const complete = await inPhase(place, 'back', 'Complete');
      t.diagnostic(`complete ${Math.round(performance.now() - started)} ms after it was applied`);
      const outage = Date.parse(complete.servedAt ?? '') - Date.parse(complete.stoppedAt ?? '');
      t.diagnostic(`from the last member's end to the restored one's answer: ${outage} ms; lost: ${complete.lost}`);
      await ready(place, 'demo', { deadlineMs: PATIENCE_MS });

      const after = await oneCluster(place, 'demo', 3);
      assert.notEqual(after.clusterID, clusterID);
      assert.deepEqual(complete.after?.clusterID, after.clusterID);
      const pods = reachable(await podsOf(place, 'demo'));
      for (const pod of pods) {
        for (const name of keys)
          assert.equal(await read(place, pod, name), `value of ${name}`, `${name} on ${pod.name}`);
        assert.equal(await read(place, pod, 'later'), undefined);
      }
      assert.equal(complete.verified?.revision, taken.revision);
      assert.equal(complete.verified?.keys, String(keys.length));
      assert.ok(complete.verified?.hash !== undefined, "etcd's own hash was compared with the manifest's");
      assert.equal(complete.before?.revision, String(revision));
      assert.equal(
        complete.lost,
        `revisions ${BigInt(taken.revision ?? '0') + 1n} to ${revision} of cluster ${clusterID}`,
      );
      const [pod] = pods;
      assert.ok(pod !== undefined);
      assert.ok((await selfOf(place, pod)).revision > revision + 999_999_999n, 'no revision is given a second time');
      assert.match(await watchFrom(pod, String(revision)), /"compact_revision":"1\d{9}"/, 'an old watch is told');
      assert.equal(conditionOf(await claimIn(place, 'demo'), 'Accepted')?.status, 'True');

      // What it replaced is all there, until nobody refers to it any more.
      assert.deepEqual(complete.before?.volumes, old);
      await place.kubectl(['delete', 'etcdrestores.etcd-operator.cozystack.io', 'back']);
      await eventually(
        'the replaced volumes are gone',
        async () => {
          const names = (await volumesOf(place, 'demo')).map(({ metadata }) => metadata.name).toSorted();
          assert.deepEqual(names, [...after.members.keys()].toSorted());
        },
        { deadlineMs: PATIENCE_MS },
      );
      // Applied again, as a tool that keeps to Git would: the consent was to another cluster.
      await place.apply(restoreOf('back', clusterID, { snapshotRef: { name: 'before-the-upgrade' } }));
      const again = await inPhase(place, 'back', 'Failed');
      assert.equal(again.conditions?.[0]?.reason, 'RestoreRefused');
      assert.equal((await quorumIn(place, 'demo')).status?.clusterID, after.clusterID);
    }),
  );
});
