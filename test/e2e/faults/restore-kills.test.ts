/**
 * The runtime, the Pods that it began and their store killed at random moments of a snapshot, of a restore into a new cluster and
 * of one in place; and the node taken away on which a new volume is being filled while its store is away. The runtime is a process
 * of this machine here, so that it ends at once and starts at once. One round here; for many:
 * `ETCD_OPERATOR_KILL_ROUNDS=10 node --test test/e2e/faults/restore-kills.test.ts`.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import type { EtcdRestore } from '../../../api/etcdrestore.gen.ts';
import type { EtcdSnapshot } from '../../../api/etcdsnapshot.gen.ts';
import { API_VERSION } from '../../../api/names.ts';
import { isSeedPod } from '../../../runtime/core/seeding.ts';
import { resources } from '../../../runtime/ports/kube.ts';
import { claim, podOf, podsOf, quorumIn, ready, said, volumesOf } from '../claim.ts';
import { put, read } from '../client.ts';
import { eventually, notYet } from '../eventually.ts';
import { oneCluster, reachable } from '../identity.ts';
import { killPods } from '../kill-pods.ts';
import { ownStore } from '../own-store.ts';
import { connected, inNamespace, type Place, seenKinds } from '../place.ts';
import { nodeIsBack, quietNode } from '../quiet-node.ts';
import { agentImage, hostRuntime, runtimeKubeconfig, withoutRuntime } from '../runtime.ts';

const connection = await connected();
const { cluster, kube } = connection;
const { faults, s3 } = cluster;
const PATIENCE_MS = 300_000;
/** A start takes half a second, or several on a busy machine; what comes of none is answered by a longer wait. */
const SHORTEST_LIFE_MS = 300;
const LONGEST_LIFE_MS = 2_500;
const KILLS = 4;
const rounds = Number(process.env.ETCD_OPERATOR_KILL_ROUNDS ?? 1);

type Victim = 'runtime' | 'pods' | 'store';
/** The runtime half of the time: it is what goes on from whatever the others leave. */
const VICTIMS: readonly Victim[] = ['runtime', 'runtime', 'pods', 'store'];

/** Kills again and again, after waits of any length, until `done`; then waits for that without killing. Tells who was killed when. */
const underFire = async (
  strike: (victim: Victim) => Promise<number>,
  done: () => Promise<boolean>,
): Promise<string> => {
  const told: string[] = [];
  for (let kill = 0; kill < KILLS; kill++) {
    const life = Math.round(SHORTEST_LIFE_MS + Math.random() * (LONGEST_LIFE_MS - SHORTEST_LIFE_MS));
    await pause(life);
    if (await done()) break;
    const victim = VICTIMS[Math.floor(Math.random() * VICTIMS.length)] ?? 'runtime';
    const killed = await strike(victim);
    told.push(`${killed} ${victim} after ${life} ms`);
  }
  await eventually('what was begun has ended', async () => void ((await done()) || notYet('it goes on')), {
    deadlineMs: PATIENCE_MS,
  });
  return told.join(', ');
};

/** Pods that take or prove a snapshot, or fill a volume. */
const beganByRuntime = async (place: Place) =>
  (await place.list(seenKinds.pods)).filter(
    ({ metadata }) => isSeedPod(metadata) || metadata.labels?.['batch.kubernetes.io/job-name'] !== undefined,
  );

const snapshotOf = async (place: Place, name: string): Promise<NonNullable<EtcdSnapshot['status']>> =>
  (await place.get(seenKinds.etcdsnapshots, name))?.status ?? {};
const restoreOf = async (place: Place, name: string): Promise<NonNullable<EtcdRestore['status']>> =>
  (await place.get(seenKinds.etcdrestores, name))?.status ?? {};

/** Everything in `keys` on every member, and nothing left of what filled their volumes. */
const holds = async (place: Place, name: string, keys: ReadonlyMap<string, string>): Promise<void> => {
  for (const pod of reachable(await podsOf(place, name))) {
    for (const [key, value] of keys) assert.equal(await read(place, pod, key), value, `${key} on ${pod.name}`);
  }
  assert.deepEqual(
    (await podsOf(place, name)).filter(({ metadata }) => isSeedPod(metadata)).map(({ metadata }) => metadata.name),
    [],
  );
};

const skip = faults === undefined || s3 === undefined ? 'needs the local cluster and the image of an S3 server' : false;

describe('restores under fire', { skip }, () => {
  test(
    'go on from where a killed runtime was, and elsewhere when the node goes that has the new volume',
    inNamespace('restore-kills', async (place, t) => {
      assert.ok(faults);
      const away = await quietNode(connection);
      const others = (await kube.list(resources.nodes)).items
        .map(({ metadata }) => metadata.name)
        .filter((node) => node !== away);
      const folder = await mkdtemp(join(tmpdir(), 'etcd-operator-e2e-'));
      try {
        const kubeconfig = await runtimeKubeconfig(cluster, folder);
        await withoutRuntime(cluster, async () => {
          const logFile = join(folder, 'runtime.log');
          const runtime = await hostRuntime(cluster, {
            logFile,
            kubeconfig,
            clusters: `${place.namespace}/*`,
            agentImage: await agentImage(cluster),
          });
          try {
            // Neither the store nor the cluster that is snapshotted is to go with the node.
            await cluster.kubectl(['cordon', away]);
            const store = await ownStore(place, s3?.hostEndpoint ?? '');
            await place.apply(claim('source', { replicas: 1 }));
            await ready(place, 'source', { deadlineMs: PATIENCE_MS });
            await cluster.kubectl(['uncordon', away]);
            const [member] = reachable([await podOf(place, 'source-0')]);
            assert.ok(member !== undefined);
            const keys = new Map(
              Array.from({ length: 4 }, (_, n) => [`key-${n}`, randomBytes(600_000).toString('base64')]),
            );
            for (const [key, value] of keys) await put(place, member, key, value);

            const strike = async (victim: Victim): Promise<number> => {
              if (victim === 'pods') return killPods(place, await beganByRuntime(place));
              await (victim === 'store' ? store.kill() : runtime.kill());
              return 1;
            };

            let source: NonNullable<EtcdRestore['spec']>['source'] = {};
            for (let round = 0; round < rounds; round++) {
              const name = `round-${round}`;
              const snapshot: EtcdSnapshot = {
                apiVersion: API_VERSION,
                kind: 'EtcdSnapshot',
                metadata: { name },
                spec: { clusterRef: { name: 'source' }, destination: { s3: store.location } },
              };
              await place.apply(snapshot);
              const ended = async () => ['Complete', 'Failed'].includes((await snapshotOf(place, name)).phase ?? '');
              t.diagnostic(`snapshot: ${await underFire(strike, ended)}`);
              const { phase, artifact, conditions } = await snapshotOf(place, name);
              assert.equal(phase, 'Complete', JSON.stringify(conditions));
              await store.serves();
              const objects = store.open();
              const stored = await Array.fromAsync(objects.list(''), ({ key }) => key);
              objects.close();
              assert.equal(stored.length, 2 * (round + 1), `each object and its manifest: ${stored.join(', ')}`);
              assert.deepEqual(await store.uploads(), []);

              const copy = `copy-${round}`;
              source = { s3: { ...store.location, key: (artifact?.uri ?? '').replace(/^s3:\/\/[^/]*\//, '') } };
              await place.apply(claim(copy, { replicas: 1, bootstrap: { restore: { source } } }));
              const restored = async () => (await quorumIn(place, copy)).status?.restored !== undefined;
              t.diagnostic(`restore: ${await underFire(strike, restored)}`);
              await ready(place, copy, { deadlineMs: PATIENCE_MS });
              await holds(place, copy, keys);

              const [restoredMember] = reachable(await podsOf(place, copy));
              assert.ok(restoredMember !== undefined);
              await put(place, restoredMember, 'key-0', 'a mistake');
              const before = await oneCluster(place, copy, 1);
              const back: EtcdRestore = {
                apiVersion: API_VERSION,
                kind: 'EtcdRestore',
                metadata: { name },
                spec: { clusterRef: { name: copy }, source, clusterID: before.clusterID, acceptDataLoss: true },
              };
              await place.apply(back);
              const over = async () => ['Complete', 'Failed'].includes((await restoreOf(place, name)).phase ?? '');
              t.diagnostic(`restore in place: ${await underFire(strike, over)}`);
              const inPlace = await restoreOf(place, name);
              assert.equal(inPlace.phase, 'Complete', JSON.stringify(inPlace.conditions));
              await ready(place, copy, { deadlineMs: PATIENCE_MS });
              assert.equal((await oneCluster(place, copy, 1)).clusterID, inPlace.after?.clusterID);
              await holds(place, copy, keys);
              await place.kubectl(['delete', 'etcdcluster', copy, '--wait=false']);
            }

            // The store is away, so that filling does not end before the node goes; and it must be that node.
            await place.kubectl(['scale', 'deployment/store', '--replicas=0']);
            await cluster.kubectl(['cordon', ...others]);
            await place.apply(claim('moved', { replicas: 1, bootstrap: { restore: { source } } }));
            await eventually(
              `a volume is being filled on ${away}`,
              async () => {
                const [pod] = await podsOf(place, 'moved');
                const [volume] = await volumesOf(place, 'moved');
                if (pod?.spec?.nodeName !== away || volume?.status?.phase !== 'Bound')
                  notYet(`${volume?.status?.phase}`);
              },
              { deadlineMs: 120_000 },
            );
            const [given] = await volumesOf(place, 'moved');
            await cluster.kubectl(['uncordon', ...others]);
            await faults.stopNode(away, 'programs');
            try {
              const began = performance.now();
              await kube.delete({ resource: resources.nodes, name: away });
              await place.kubectl(['scale', 'deployment/store', '--replicas=1']);
              await ready(place, 'moved', { deadlineMs: PATIENCE_MS });
              t.diagnostic(`restored elsewhere ${Math.round(performance.now() - began)} ms after the node had gone`);
              const [pod] = reachable(await podsOf(place, 'moved'));
              assert.ok(pod !== undefined);
              assert.notEqual((await podOf(place, 'moved-0')).spec?.nodeName, away);
            } finally {
              await faults.startNode(away);
            }
            await nodeIsBack(connection, away);
            await eventually(
              'nothing is left of what was begun there',
              async () => {
                const left = await volumesOf(place, 'moved');
                if (left.length !== 1 || left[0]?.metadata.uid === given?.metadata.uid)
                  notYet(`${left.length} volumes`);
              },
              { deadlineMs: 120_000 },
            );
            await holds(place, 'moved', keys);
            t.diagnostic(`the runtime was started ${runtime.starts()} times`);
          } catch (error) {
            const log = await readFile(logFile, 'utf8');
            const why = error instanceof Error ? error.message : String(error);
            const told = await quorumIn(place, 'moved').then(
              (quorum) => said(quorum, 'Available'),
              () => '',
            );
            throw new Error(`${why}\n${told}\nlog of the killed runtime:\n${log.slice(-6_000)}`, { cause: error });
          } finally {
            await runtime.stop();
          }
        });
      } finally {
        await cluster.kubectl(['uncordon', away, ...others]);
        await rm(folder, { recursive: true, force: true });
      }
    }),
  );
});
