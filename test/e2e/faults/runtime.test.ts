/**
 * The runtime killed in the middle of what it does, and away for a while. It runs as a process of this machine here, since
 * kubelets start a container that is killed again and again ever later.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { picture, startOtlpReceiver } from '../../otlp/receiver.ts';
import { claim, claimIn, inMemory, OLDER_VERSION, podOf, podsOf, quorumIn, ready, VERSION } from '../claim.ts';
import { writer } from '../client.ts';
import { eventually, notYet } from '../eventually.ts';
import { leaderAndFollower, oneCluster, reachable, selfOf, watchMembership } from '../identity.ts';
import { connected, inNamespace, type Place } from '../place.ts';
import { type HostRuntime, hostRuntime, runtimeKubeconfig, withoutRuntime } from '../runtime.ts';

const { cluster } = await connected();
const skip = cluster.local ? false : 'the runtime must reach the Pods from here';

const KILLS = 20;
const ROUNDS = 4;

/** Every cluster ID under which members of `name` ever agreed on a leader, looked at all the time. */
const watchFormations = (place: Place, name: string): { seen: Map<string, string>; stop: () => Promise<void> } => {
  const seen = new Map<string, string>();
  let stopped = false;
  const run = async (): Promise<void> => {
    while (!stopped) {
      const pods = reachable(await podsOf(place, name).catch(() => []));
      const selves = await Promise.all(pods.map((pod) => selfOf(place, pod, 400).catch(() => undefined)));
      for (const self of selves) if (self !== undefined && self.leaderID !== '0') seen.set(self.clusterID, self.pod);
      await pause(150);
    }
  };
  const running = run();
  return {
    seen,
    stop: async () => {
      stopped = true;
      await running;
    },
  };
};

/** SIGKILL at random, two to five seconds apart, from now on. */
const killAtRandom = (runtime: HostRuntime): { stop: () => Promise<readonly number[]> } => {
  const waits: number[] = [];
  const stopping = new AbortController();
  const run = async (): Promise<void> => {
    for (;;) {
      const wait = Math.round(2_000 + Math.random() * 3_000);
      await pause(wait, undefined, { signal: stopping.signal }).catch(() => undefined);
      if (stopping.signal.aborted) return;
      waits.push(wait);
      await runtime.kill();
    }
  };
  const running = run();
  return {
    stop: async () => {
      stopping.abort();
      await running;
      return waits;
    },
  };
};

describe('the runtime', { skip }, () => {
  test(
    `killed with SIGKILL at ${KILLS} random moments of bootstraps leaves one cluster with one ID each time`,
    inNamespace('killed', async (place, t) => {
      const folder = await mkdtemp(join(tmpdir(), 'etcd-operator-e2e-'));
      try {
        const kubeconfig = await runtimeKubeconfig(cluster, folder);
        await withoutRuntime(cluster, async () => {
          const runtime = await hostRuntime(cluster, { logFile: join(folder, 'runtime.log'), kubeconfig });
          try {
            const waits: number[] = [];
            for (let round = 0; round < ROUNDS; round++) {
              const names = [`disk-${round}`, `ram-${round}`];
              const formations = names.map((name) => watchFormations(place, name));
              try {
                await place.apply(claim(names[0] ?? ''), claim(names[1] ?? '', { storage: inMemory }));
                for (let kill = 0; kill < KILLS / ROUNDS; kill++) {
                  // A start takes half a second: shorter waits kill it before it acts, longer ones in all later moments.
                  const wait = Math.round(Math.random() * 2_500);
                  waits.push(wait);
                  await pause(wait);
                  await runtime.kill();
                }
                for (const [index, name] of names.entries()) {
                  await ready(place, name, { deadlineMs: 120_000 });
                  const { clusterID } = await oneCluster(place, name, 3);
                  assert.deepEqual([...(formations[index]?.seen.keys() ?? [])], [clusterID], 'cluster IDs that formed');
                  t.diagnostic(`${name}: attempt ${(await quorumIn(place, name)).status?.bootstrap?.attempt}`);
                }
              } finally {
                await Promise.all(formations.map(({ stop }) => stop()));
              }
              await place.kubectl(['delete', 'etcdcluster', '--all', '--wait=false']);
            }
            t.diagnostic(`killed after ${waits.join(', ')} ms; started ${runtime.starts()} times`);
            // It must also be able to take away what it was killed over.
            await eventually('all is gone', async () => {
              const left = await podsOf(place, 'disk-3');
              if (left.length > 0) notYet(`${left.length} Pods`);
            });
          } catch (error) {
            const log = await readFile(join(folder, 'runtime.log'), 'utf8');
            const why = error instanceof Error ? error.message : String(error);
            throw new Error(`${why}\nlog of the killed runtime:\n${log.slice(-6_000)}`, { cause: error });
          } finally {
            await runtime.stop();
          }
        });
      } finally {
        await rm(folder, { recursive: true, force: true });
      }
    }),
  );

  test(
    'killed every few seconds while three members become five, three again and a newer etcd loses no write and no identity',
    inNamespace('killed-scale', async (place, t) => {
      const folder = await mkdtemp(join(tmpdir(), 'etcd-operator-e2e-'));
      try {
        const kubeconfig = await runtimeKubeconfig(cluster, folder);
        await withoutRuntime(cluster, async () => {
          const runtime = await hostRuntime(cluster, {
            logFile: join(folder, 'runtime.log'),
            kubeconfig,
            clusters: `${place.namespace}/*`,
          });
          try {
            await place.apply(claim('demo', { version: OLDER_VERSION }));
            await ready(place, 'demo');
            const before = await oneCluster(place, 'demo', 3);
            await using membership = watchMembership(place, 'demo');
            await using writes = await writer(place, 'demo', 20, 500);
            const killing = killAtRandom(runtime);
            try {
              for (const size of [5, 3]) {
                await place.kubectl(['scale', 'etcdcluster/demo', `--replicas=${size}`]);
                await ready(place, 'demo', { deadlineMs: 180_000 });
                assert.equal((await oneCluster(place, 'demo', size)).clusterID, before.clusterID);
              }
              const kept = await oneCluster(place, 'demo', 3);
              await place.kubectl([
                'patch',
                'etcdcluster/demo',
                '--type=merge',
                '-p',
                `{"spec":{"version":"${VERSION}"}}`,
              ]);
              await eventually(
                `every member runs ${VERSION}`,
                async () => {
                  const { status } = await claimIn(place, 'demo');
                  if (status?.version !== VERSION) notYet(`${status?.version}, ${status?.members}`);
                },
                { deadlineMs: 180_000 },
              );
              await ready(place, 'demo', { deadlineMs: 120_000 });
              assert.deepEqual(await oneCluster(place, 'demo', 3), kept);
            } finally {
              t.diagnostic(`killed after ${(await killing.stop()).join(', ')} ms`);
            }
            const written = await writes.stop();
            t.diagnostic(`writes: ${JSON.stringify(written)}`);
            assert.ok(runtime.starts() > 2, `started ${runtime.starts()} times`);
            assert.deepEqual(written.lost, []);
            assert.ok(written.longestGapMs < 2_000, `clients waited ${written.longestGapMs} ms`);
            assert.equal(membership.mostLearners(), 1, 'learners at a time');
            assert.deepEqual(membership.clusterIDs(), [before.clusterID]);
          } finally {
            await runtime.stop();
          }
        });
      } finally {
        await rm(folder, { recursive: true, force: true });
      }
    }),
  );

  test(
    'killed during a scale-up leaves one trace of it at the receiver, under the parent that the claim names',
    inNamespace('traced', async (place, t) => {
      const folder = await mkdtemp(join(tmpdir(), 'etcd-operator-e2e-'));
      const receiver = await startOtlpReceiver();
      const parent = { traceId: randomBytes(16).toString('hex'), spanId: randomBytes(8).toString('hex') };
      try {
        const kubeconfig = await runtimeKubeconfig(cluster, folder);
        await withoutRuntime(cluster, async () => {
          const runtime = await hostRuntime(cluster, {
            logFile: join(folder, 'runtime.log'),
            kubeconfig,
            clusters: `${place.namespace}/*`,
            env: { OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url, OTEL_BSP_SCHEDULE_DELAY: '100' },
          });
          try {
            await place.apply(claim('demo', { replicas: 1, storage: inMemory }));
            await ready(place, 'demo');
            await place.kubectl([
              ...['annotate', 'etcdcluster/demo'],
              `etcd-operator.cozystack.io/traceparent=00-${parent.traceId}-${parent.spanId}-01`,
            ]);
            await place.kubectl(['scale', 'etcdcluster/demo', '--replicas=2']);
            await eventually('the first spans have come', async () => {
              if (!receiver.spans.some(({ traceId }) => traceId === parent.traceId)) notYet('none');
            });
            await runtime.kill();
            await ready(place, 'demo');
          } finally {
            // It sends what is left as it stops.
            await runtime.stop();
          }
        });
        const spans = receiver.spans.filter(({ traceId }) => traceId === parent.traceId);
        t.diagnostic(`\n${picture(spans)}`);
        const roots = spans.filter(({ parentSpanId }) => parentSpanId === parent.spanId);
        assert.deepEqual(
          roots.map(({ name, attributes }) => [name, attributes['etcd_operator.change.outcome']]),
          [['AddMember', 'joined']],
        );
        const steps = spans
          .filter(({ parentSpanId }) => parentSpanId === roots[0]?.spanId)
          .toSorted((a, b) => Number(a.startNs - b.startNs))
          .map(({ name }) => name);
        const stations = ['BeginOperation', 'Promote', 'EndOperation'];
        assert.deepEqual(
          steps.filter((name) => stations.includes(name)),
          stations,
        );
      } finally {
        await receiver.close();
        await rm(folder, { recursive: true, force: true });
      }
    }),
  );

  test(
    'away while a Pod is deleted costs no client anything, and back again starts it with the same identity',
    inNamespace('away', async (place, t) => {
      await place.apply(claim('demo'));
      await ready(place, 'demo');
      const before = await oneCluster(place, 'demo', 3);
      const { follower } = await leaderAndFollower(place, 'demo');
      const { metadata } = await podOf(place, follower);
      await using writes = await writer(place, 'demo');
      await withoutRuntime(cluster, async () => {
        await place.kubectl(['delete', 'pod', metadata.name, '--timeout=60s'], { timeoutMs: 70_000 });
        assert.equal((await podsOf(place, 'demo')).length, 2);
      });
      await ready(place, 'demo');
      assert.deepEqual(await oneCluster(place, 'demo', 3), before);
      const written = await writes.stop();
      t.diagnostic(`writes: ${JSON.stringify(written)}`);
      assert.deepEqual(written.lost, []);
      assert.ok(written.longestGapMs < 5_000, `clients waited ${written.longestGapMs} ms`);
    }),
  );
});
