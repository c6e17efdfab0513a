/**
 * Snapshots and a restore while their Pods and their store are killed at random moments. One round of each here; for many,
 * and for nodes or the runtime killed beside it: `ETCD_OPERATOR_KILL_ROUNDS=20 node --test test/e2e/faults/snapshot-kills.test.ts`.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import type { EtcdSnapshot } from '../../../api/etcdsnapshot.gen.ts';
import { API_VERSION } from '../../../api/names.ts';
import { fetchSnapshot } from '../../../runtime/agent/fetch-snapshot.ts';
import { readManifest } from '../../../runtime/agent/take-snapshot.ts';
import { keyOfManifest } from '../../../runtime/core/snapshots/manifest.ts';
import { snapshotJobName } from '../../../runtime/core/snapshots/snapshot-job.ts';
import { claim, clusterSelector, podOf, podsOf, quorumIn, ready, VERSION } from '../claim.ts';
import { put, read } from '../client.ts';
import { eventually, notYet } from '../eventually.ts';
import { oneCluster, reachable } from '../identity.ts';
import { killPods } from '../kill-pods.ts';
import { type OwnStore, ownStore } from '../own-store.ts';
import { connected, inNamespace, type Place, seenKinds } from '../place.ts';

const { cluster } = await connected();
const rounds = Number(process.env.ETCD_OPERATOR_KILL_ROUNDS ?? 1);
/** From nothing of it to a snapshot that is stored, on a machine that does much else. */
const LATEST_MS = 6_000;

const ended = (place: Place, name: string): Promise<NonNullable<EtcdSnapshot['status']>> =>
  eventually(
    `snapshot ${name} has come to an end`,
    async () => {
      const { status } = (await place.get(seenKinds.etcdsnapshots, name)) ?? notYet('it is not there');
      const said = status?.conditions?.find(({ type }) => type === 'Ready');
      if (status?.phase !== 'Complete' && status?.phase !== 'Failed') {
        notYet(`${status?.phase}: ${said?.reason} ${said?.message}`);
      }
      return status ?? notYet('no status');
    },
    { deadlineMs: 420_000 },
  );

/** Every object with a manifest, fetched as a restore fetches it. */
const restorable = async (store: OwnStore): Promise<Map<string, string>> => {
  const work = await mkdtemp(join(tmpdir(), 'snapshot-kills-'));
  const objects = store.open();
  try {
    const found = new Map<string, string>();
    for await (const { key: listed } of objects.list('')) {
      const key = keyOfManifest(listed);
      if (key === undefined) continue;
      const { sha256 } = await readManifest(objects, key);
      const order = { source: { s3: { ...store.location, key } }, version: VERSION };
      assert.equal((await fetchSnapshot(order, objects, work)).sha256, sha256, key);
      found.set(objects.uri(key), `sha256:${sha256}`);
    }
    return found;
  } finally {
    objects.close();
    await rm(work, { recursive: true, force: true });
  }
};

describe('snapshots under fire', { skip: cluster.s3 === undefined ? 'needs the image of an S3 server' : false }, () => {
  test(
    'are whole or not there, and a restore ends with every key, whatever is killed when',
    inNamespace('kills', async (place, t) => {
      const store = await ownStore(place, cluster.s3?.hostEndpoint ?? '');
      const snapshot = (name: string): EtcdSnapshot => ({
        apiVersion: API_VERSION,
        kind: 'EtcdSnapshot',
        metadata: { name },
        spec: { clusterRef: { name: 'source' }, destination: { s3: store.location } },
      });
      await place.apply(claim('source', { replicas: 1 }));
      await ready(place, 'source', { deadlineMs: 180_000 });
      const [member] = reachable([await podOf(place, 'source-0')]);
      assert.ok(member !== undefined);
      // Of two parts, so that an upload has a middle.
      const values = Array.from(
        { length: 10 },
        (_, n) => [`key-${n}`, randomBytes(700_000).toString('base64')] as const,
      );
      for (const [key, value] of values) await put(place, member, key, value);
      const before = await oneCluster(place, 'source', 1);

      await place.apply(snapshot('undisturbed'));
      const good = await ended(place, 'undisturbed');
      assert.equal(good.phase, 'Complete', JSON.stringify(good.conditions));

      const statuses = new Map([['undisturbed', good]]);
      for (let round = 0; round < rounds; round += 1) {
        for (const victim of ['agent', 'store'] as const) {
          const name = `${victim}-${round}`;
          const job = `batch.kubernetes.io/job-name=${snapshotJobName(name)}`;
          await place.apply(snapshot(name));
          await eventually(`${name} has a Pod`, async () => {
            if ((await place.list(seenKinds.pods, job)).length === 0) notYet('none');
          });
          const after = Math.round(Math.random() * LATEST_MS);
          await pause(after);
          if (victim === 'agent') await killPods(place, await place.list(seenKinds.pods, job));
          else await store.kill();
          await store.serves();
          const status = await ended(place, name);
          statuses.set(name, status);
          const { phase, artifact, conditions } = status;
          t.diagnostic(`${victim} killed after ${after} ms: ${phase} ${artifact?.uri ?? conditions?.[0]?.message}`);
          // An outage of a store for seconds is nothing that a person should have to act on, nor is the loss of a Pod.
          assert.equal(phase, 'Complete', JSON.stringify(conditions));
        }
      }
      const there = await restorable(store);
      assert.deepEqual(
        [...there].toSorted(),
        [...statuses.values()].map(({ artifact }) => [artifact?.uri, artifact?.checksum]).toSorted(),
        'what is complete is restorable, and nothing else looks like a snapshot',
      );
      assert.deepEqual(await store.uploads(), [], 'no part of any is left');

      for (let round = 0; round < rounds; round += 1) {
        const name = `copy-${round}`;
        const key = (good.artifact?.uri ?? '').replace(/^s3:\/\/[^/]*\//, '');
        await place.apply(
          claim(name, { replicas: 1, bootstrap: { restore: { source: { s3: { ...store.location, key } } } } }),
        );
        const seed = clusterSelector(name);
        await eventually(`${name} has a Pod`, async () => {
          if ((await place.list(seenKinds.pods, seed)).length === 0) notYet('none');
        });
        const after = Math.round(Math.random() * LATEST_MS);
        await pause(after);
        const [killed] = await Promise.all([killPods(place, await place.list(seenKinds.pods, seed)), store.kill()]);
        await ready(place, name, { deadlineMs: 420_000 });
        t.diagnostic(`restore: ${killed} Pods and the store killed after ${after} ms`);
        const [pod] = reachable(await podsOf(place, name));
        assert.ok(pod !== undefined);
        for (const [key_, value] of values) assert.equal(await read(place, pod, key_), value, key_);
        const { restored } = (await quorumIn(place, name)).status ?? {};
        assert.equal(restored?.uri, good.artifact?.uri);
        await place.kubectl(['delete', 'etcdcluster', name, '--wait=false']);
      }
      assert.deepEqual(await oneCluster(place, 'source', 1), before, 'the source is as it was');
      for (const [key, value] of values) assert.equal(await read(place, member, key), value, key);
    }),
  );
});
