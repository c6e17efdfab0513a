/**
 * A running cluster with mutual TLS and passwords is given the data of encrypted snapshots. What is damaged, or cannot be read,
 * is refused or waited for while it serves; what is lost after clients were shut out leads back to its own data; and a good one, of
 * before an upgrade and a change of root's password, takes over under revisions that nobody has seen.
 */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { describe, test } from 'node:test';
import { parse } from 'yaml';
import type { EtcdRestore } from '../../../api/etcdrestore.gen.ts';
import type { EtcdSnapshot, EtcdSnapshotStatus } from '../../../api/etcdsnapshot.gen.ts';
import { API_VERSION, incarnationName } from '../../../api/names.ts';
import { EtcdFault } from '../../../runtime/ports/etcd.ts';
import { bucketIn } from '../bucket.ts';
import {
  claim,
  claimIn,
  conditionOf,
  OLDER_VERSION,
  podOf,
  podsOf,
  quorumIn,
  ready,
  VERSION,
  volumesOf,
} from '../claim.ts';
import { eventually, notYet } from '../eventually.ts';
import { certificatesOf, guarded, guards, heldBy, keySecret, passwords, rootSecret } from '../guarded.ts';
import { reachable } from '../identity.ts';
import { connected, inNamespace, type Place, seenKinds } from '../place.ts';

const { cluster } = await connected();
const EXAMPLE = join(import.meta.dirname, '../../../examples/restore-in-place.yaml');
const PATIENCE = { deadlineMs: 300_000 };
const [THEN, NOW] = ['the password of then', 'the password of now'];

const restoreOf = (name: string, clusterID: string, source: EtcdRestore['spec']['source']): EtcdRestore => ({
  apiVersion: API_VERSION,
  kind: 'EtcdRestore',
  metadata: { name },
  spec: { clusterRef: { name: 'demo' }, source, clusterID, acceptDataLoss: true },
});

const statusOf = async (place: Place, name: string): Promise<NonNullable<EtcdRestore['status']>> =>
  ((await place.get(seenKinds.etcdrestores, name)) ?? notYet(`EtcdRestore ${name} is not there`)).status ?? {};

const inPhase = (
  place: Place,
  name: string,
  phase: string,
  reason?: string,
): Promise<NonNullable<EtcdRestore['status']>> =>
  eventually(
    `EtcdRestore ${name} is ${phase} ${reason ?? ''}`,
    async () => {
      const status = await statusOf(place, name);
      const right = status.phase === phase && (reason === undefined || status.conditions?.[0]?.reason === reason);
      return right ? status : notYet(`${status.phase}: ${JSON.stringify(status.conditions)}`);
    },
    PATIENCE,
  );

const taken = async (place: Place, name: string, destination: EtcdSnapshot['spec']['destination']) => {
  const snapshot: EtcdSnapshot = {
    apiVersion: API_VERSION,
    kind: 'EtcdSnapshot',
    metadata: { name },
    spec: { clusterRef: { name: 'demo' }, destination },
  };
  await place.apply(snapshot);
  return eventually<EtcdSnapshotStatus>(
    `snapshot ${name} is complete`,
    async () => {
      const { status } = (await place.get(seenKinds.etcdsnapshots, name)) ?? notYet('it is not there');
      return status?.phase === 'Complete' ? status : notYet(JSON.stringify(status?.conditions));
    },
    PATIENCE,
  );
};

/** A Pod that is asked to end does not go before it is let go. */
const hold = async (place: Place, pod: string): Promise<() => Promise<unknown>> => {
  const held = (finalizers: string[] | null): Promise<string> =>
    place.kubectl(['patch', 'pod', pod, '--type=merge', '-p', JSON.stringify({ metadata: { finalizers } })]);
  await held(['e2e.example.org/held']);
  return () => held(null);
};

const skip = !cluster.local
  ? 'the test must reach the Pods from here'
  : cluster.s3 === undefined
    ? 'needs an S3 server'
    : false;

describe('an EtcdRestore', { skip }, () => {
  test(
    'puts a snapshot in the place of what a guarded cluster holds, and nothing in its place that is not whole',
    inNamespace('in-place', async (place, t) => {
      const bucket = await bucketIn(cluster, 'e2e-restore-in-place');
      const encryption = { keySecretRef: { name: 'keys' } };
      const destination = { s3: bucket.location, encryption };
      const secretOfKeys = keySecret('keys');
      await place.apply(bucket.secret('s3'), secretOfKeys, rootSecret(THEN), ...certificatesOf(place, 'demo'));
      await place.apply(claim('demo', { version: OLDER_VERSION, tls: guards('demo'), auth: passwords }));
      const demo = guarded(place, 'demo', PATIENCE);
      await demo.asks();
      const keys = Array.from({ length: 20 }, (_, n) => `key-${n}`);
      await demo.asRoot(THEN, async (root) => {
        for (const key of keys) await root.put(key, `value of ${key}`);
      });
      const then = await taken(place, 'before-the-upgrade', destination);

      const upgrade = JSON.stringify({ spec: { version: VERSION } });
      await place.kubectl(['patch', 'etcdcluster', 'demo', '--type=merge', '-p', upgrade]);
      await place.apply(rootSecret(NOW));
      await eventually(
        'it is upgraded',
        async () => {
          const images = (await podsOf(place, 'demo')).map(({ spec }) => spec?.containers[0]?.image ?? '');
          if (images.length !== 3 || !images.every((image) => image.endsWith(`v${VERSION}`))) notYet(images.join());
        },
        PATIENCE,
      );
      await ready(place, 'demo', PATIENCE);
      await demo.takes(NOW, THEN);
      const after = await taken(place, 'after-the-upgrade', destination);
      await demo.asRoot(NOW, async (root) => {
        for (const key of [...keys, 'later']) await root.put(key, 'a mistake');
      });
      const before = await demo.one(NOW, 3);
      const { clusterID } = before;

      // One bit of it changed, under its own name since that is sealed in: the cluster serves on as if nobody had asked.
      const objects = bucket.open();
      const key = bucket.keyOf(then.artifact?.uri);
      const bytes = Buffer.concat(await Array.fromAsync(objects.read(key)));
      const manifest = Buffer.concat(await Array.fromAsync(objects.read(`${key}.manifest.json`)));
      async function* one(content: Uint8Array): AsyncGenerator<Uint8Array> {
        yield content;
      }
      bytes[9_000] = (bytes[9_000] ?? 0) ^ 1;
      const altered = `altered-${place.namespace}/${basename(key)}`;
      await objects.put(altered, one(bytes), { owner: 'e2e' });
      await objects.put(`${altered}.manifest.json`, one(manifest), { owner: 'e2e' });
      objects.close();
      await place.apply(restoreOf('altered', clusterID, { s3: { ...bucket.location, key: altered }, encryption }));
      const refused = await inPhase(place, 'altered', 'Failed');
      const [said] = refused.conditions ?? [];
      t.diagnostic(`altered: ${said?.reason}: ${said?.message}`);
      assert.equal(said?.reason, 'SnapshotDamaged');

      // Nothing to read it with: told, waited for, and gone on with.
      await place.kubectl(['delete', 'secret', 'keys']);
      await place.apply(restoreOf('undone', clusterID, { snapshotRef: { name: 'after-the-upgrade' } }));
      const waiting = await inPhase(place, 'undone', 'Verifying', 'SnapshotKeyUnusable');
      t.diagnostic(`undone: ${waiting.conditions?.[0]?.message}`);
      assert.deepEqual((await demo.one(NOW, 3)).members, before.members, 'nobody was touched');
      const letGo = await hold(place, (await podOf(place, 'demo-2')).metadata.name);
      await place.apply(secretOfKeys);
      // It is tried again every half minute by itself, too.
      const { target = '', incarnation = '' } = (await quorumIn(place, 'demo')).status?.restoring ?? {};
      const restored = incarnationName(target, incarnation);
      await place.kubectl(['delete', 'pod', `${restored}-seed`, '--wait=false', '--ignore-not-found']);
      // Clients are shut out, the members are being stopped, and what was restored is lost: back to the own data.
      const switching = await inPhase(place, 'undone', 'Switching');
      assert.equal(switching.verified?.revision, after.revision);
      assert.ok(switching.verified?.hash !== undefined, "etcd's own hash was compared with the manifest's");
      await place.kubectl(['delete', 'pvc', restored, '--wait=false']);
      await letGo();
      const undone = await inPhase(place, 'undone', 'Failed', 'VolumeLost');
      t.diagnostic(`undone: ${undone.conditions?.[0]?.message}`);
      await ready(place, 'demo', PATIENCE);
      const own = await demo.one(NOW, 3);
      assert.deepEqual([own.clusterID, own.members], [clusterID, before.members], 'the same members, on their data');
      assert.equal(await demo.asRoot(NOW, (root) => heldBy(root, 'later')), 'a mistake');

      const { revision } = own;
      const old = (await volumesOf(place, 'demo')).map(({ metadata }) => metadata.name).toSorted();
      assert.equal(old.length, 3, 'what was made for the others is gone');
      const started = performance.now();
      // As people copy it, with the one thing that they have to put in.
      const example = parse(await readFile(EXAMPLE, 'utf8')) as EtcdRestore;
      const asked: EtcdRestore = { ...example, spec: { ...example.spec, clusterID } };
      await place.apply(asked);
      const complete = await inPhase(place, 'back', 'Complete');
      t.diagnostic(`complete ${Math.round(performance.now() - started)} ms after it was applied`);
      const outage = Date.parse(complete.servedAt ?? '') - Date.parse(complete.stoppedAt ?? '');
      t.diagnostic(`from the last member's end to the restored one's answer: ${outage} ms; lost: ${complete.lost}`);
      await ready(place, 'demo', PATIENCE);

      // In the data root has the password of then; the Secret's is put in its place.
      await demo.takes(NOW, THEN);
      const now = await demo.one(NOW, 3);
      assert.notEqual(now.clusterID, clusterID);
      assert.deepEqual(complete.after?.clusterID, now.clusterID);
      const pods = reachable(await podsOf(place, 'demo'));
      for (const pod of pods) {
        await demo.asRoot(
          NOW,
          async (root) => {
            for (const name of keys) {
              assert.equal(await heldBy(root, name), `value of ${name}`, `${name} on ${pod.name}`);
            }
            assert.equal(await root.get('later'), undefined);
          },
          pod,
        );
      }
      assert.equal(complete.verified?.revision, then.revision);
      assert.equal(complete.verified?.keys, String(keys.length));
      assert.equal(complete.verified?.etcdVersion, OLDER_VERSION);
      assert.equal(complete.before?.revision, String(revision));
      assert.equal(
        complete.lost,
        `revisions ${BigInt(then.revision ?? '0') + 1n} to ${revision} of cluster ${clusterID}`,
      );
      assert.ok(now.revision > revision + 999_999_999n, 'no revision is given a second time');
      await assert.rejects(
        demo.asRoot(NOW, (root) => root.countKeys(revision)),
        (error) => error instanceof EtcdFault && error.reason === 'Compacted',
        'who goes on from before is told',
      );
      assert.equal(conditionOf(await claimIn(place, 'demo'), 'Accepted')?.status, 'True');

      // What it replaced is all there, until nobody refers to it any more.
      assert.deepEqual(complete.before?.volumes, old);
      await place.kubectl(['delete', 'etcdrestores.etcd-operator.cozystack.io', 'back']);
      await eventually(
        'the replaced volumes are gone',
        async () => {
          const names = (await volumesOf(place, 'demo')).map(({ metadata }) => metadata.name).toSorted();
          assert.deepEqual(names, pods.map(({ name }) => name).toSorted());
        },
        PATIENCE,
      );
      // Applied again, as a tool that keeps to Git would: the consent was to another cluster.
      await place.apply(restoreOf('back', clusterID, { snapshotRef: { name: 'before-the-upgrade' } }));
      const again = await inPhase(place, 'back', 'Failed');
      assert.equal(again.conditions?.[0]?.reason, 'RestoreRefused');
      assert.equal((await quorumIn(place, 'demo')).status?.clusterID, now.clusterID);
    }),
  );
});
