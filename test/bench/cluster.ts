/**
 * How long claims take on the real cluster, measured as a person waits: from the moment the claim is sent until the claim is
 * Ready and all members are behind the client Service, both seen by watches. Images are on the nodes beforehand.
 */
import { randomBytes } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import type { EtcdCluster } from '../../api/etcdcluster.gen.ts';
import { clientServiceName } from '../../api/names.ts';
import type { Resource } from '../../runtime/ports/kube.ts';
import { claim, conditionOf, inMemory, nothingLeft, podOf, podsOf, ready } from '../e2e/claim.ts';
import { follow } from '../e2e/history.ts';
import { leaderAndFollower, listOf, oneCluster, reachable } from '../e2e/identity.ts';
import { connected, MARK, type Place, placeIn, seenKinds } from '../e2e/place.ts';
import { BREAKER_TOKENS, versionsIn, watchBreaker } from '../e2e/traffic.ts';
import type { Measurement } from './function.ts';

const RUNS = Number(process.env.ETCD_OPERATOR_BENCH_RUNS ?? 5);
const GIVE_UP_MS = 300_000;

/** The peer this API comes from, measured on the same kind of cluster with the same images and volumes: its best and worst. */
const PEER = {
  disk: { best: 32, worst: 35 },
  memory: { best: 35, worst: 38 },
  grow: { best: 22, worst: 24 },
  shrink: { best: 0.9, worst: 0.9 },
  memoryPod: { best: 15, worst: 15 },
} as const;

const say = (line: string): void => {
  process.stdout.write(`${line}\n`);
};

export const median = (values: readonly number[]): number => {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : (upper + (sorted[middle - 1] ?? Number.NaN)) / 2;
};

export const inPlace = async <T>(body: (place: Place) => Promise<T>): Promise<T> => {
  const connection = await connected();
  const name = `${process.env.ETCD_OPERATOR_E2E_PREFIX ?? ''}bench-${randomBytes(3).toString('hex')}`;
  await connection.kube.create(seenKinds.namespaces, {
    metadata: { name, labels: { [MARK]: 'true', 'pod-security.kubernetes.io/enforce': 'restricted' } },
  });
  const place = placeIn(connection, name);
  try {
    return await body(place);
  } finally {
    await connection.kube.delete({ resource: seenKinds.namespaces, name });
  }
};

/** Seconds from `change` until the claim in its new form is Ready with as many Pods open to clients as it asks for. */
const timed = async (place: Place, name: string, change: () => Promise<number>): Promise<number> => {
  const { promise, resolve } = Promise.withResolvers<void>();
  let wanted = Number.POSITIVE_INFINITY;
  let seen: EtcdCluster | undefined;
  const open = new Map<string, number>();
  const look = (): void => {
    const current = seen?.status?.observedGeneration === seen?.metadata.generation;
    const isReady = seen !== undefined && current && conditionOf(seen, 'Ready')?.status === 'True';
    const pods = [...open.values()].reduce((sum, count) => sum + count, 0);
    if (isReady && seen?.spec.replicas === wanted && pods === wanted) resolve();
  };
  await using _claims = await follow<EtcdCluster>(
    place.kube,
    seenKinds.etcdclusters as Resource<EtcdCluster>,
    place,
    ({ object }) => {
      if (object.metadata.name !== name) return;
      seen = object;
      look();
    },
  );
  await using _slices = await follow(
    place.kube,
    seenKinds.endpointslices,
    { ...place, labelSelector: `kubernetes.io/service-name=${clientServiceName(name)}` },
    ({ type, object }) => {
      const ready = (object.endpoints ?? []).filter(({ conditions }) => conditions?.ready === true).length;
      open.set(object.metadata.name, type === 'DELETED' ? 0 : ready);
      look();
    },
  );
  const began = performance.now();
  wanted = await change();
  look();
  const timeout = new AbortController();
  const late = await Promise.race([
    promise.then(() => false),
    pause(GIVE_UP_MS, true, { signal: timeout.signal }).catch(() => true),
  ]);
  timeout.abort();
  if (late) throw new Error(`${name} was not ready after ${GIVE_UP_MS / 1000} s`);
  return (performance.now() - began) / 1000;
};

const bringUp = (storage: EtcdCluster['spec']['storage']): Promise<number> =>
  inPlace(async (place) => {
    const wanted = claim('bench', storage === undefined ? {} : { storage });
    const seconds = await timed(place, 'bench', async () => {
      await place.kube.create(seenKinds.etcdclusters, {
        ...wanted,
        metadata: { ...wanted.metadata, namespace: place.namespace },
      } as never);
      return 3;
    });
    await oneCluster(place, 'bench', 3);
    await place.kube.delete({ resource: seenKinds.etcdclusters, namespace: place.namespace, name: 'bench' });
    // The next one starts on a cluster that is at rest again.
    await nothingLeft(place, 'bench', { deadlineMs: 120_000 });
    return seconds;
  });

const compared = (
  what: string,
  seconds: readonly number[],
  peer: { readonly best: number; readonly worst: number },
  ratio: number,
): Measurement[] => {
  const middle = median(seconds);
  say(
    `${what}: ${seconds.map((one) => one.toFixed(1)).join(', ')} s; median ${middle.toFixed(1)} s, ` +
      `${(middle / peer.best).toFixed(2)} to ${(middle / peer.worst).toFixed(2)} × the peer's ` +
      `${peer.best === peer.worst ? peer.best : `${peer.best}–${peer.worst}`} s`,
  );
  return [
    { what: `${what}, median of ${seconds.length}`, value: middle, unit: 's' },
    // Against its best: a ratio that only holds against a bad day of the other's would be no promise.
    { what: `${what}, ratio to the peer`, value: middle / peer.best, unit: '×', budget: ratio },
  ];
};

const repeated = async (work: () => Promise<number>): Promise<number[]> => {
  const results: number[] = [];
  for (let run = 0; run < RUNS; run++) results.push(await work());
  return results;
};

export const benchBootstrap = async (): Promise<Measurement[]> => [
  ...compared(
    'claim applied → 3 voters ready, volumes',
    await repeated(() => bringUp({ size: '1Gi' })),
    PEER.disk,
    0.3,
  ),
  ...compared('claim applied → 3 voters ready, memory', await repeated(() => bringUp(inMemory)), PEER.memory, 0.3),
];

const setReplicas = async (place: Place, name: string, replicas: number): Promise<number> => {
  await place.kube.mergePatch(
    { resource: seenKinds.etcdclusters, namespace: place.namespace, name },
    { spec: { replicas } },
  );
  return replicas;
};

/** Seconds from `change` until etcd's own list, confirmed by a quorum, holds `voters` voters and nobody else. */
const untilListed = async (
  place: Place,
  name: string,
  voters: number,
  change: () => Promise<unknown>,
  isRight: (names: readonly string[]) => boolean = () => true,
): Promise<number> => {
  const pods = reachable(await podsOf(place, name));
  const began = performance.now();
  await change();
  let listed = false;
  // Each is asked by itself: one that goes answers nothing, and must not keep the others waiting.
  const asked = async (pod: (typeof pods)[number]): Promise<number> => {
    while (!listed && performance.now() - began < GIVE_UP_MS) {
      const members = await listOf(place, pod, 500).catch(() => []);
      const right = members.length === voters && members.every(({ isLearner }) => !isLearner);
      if (right && isRight(members.map(({ name: one }) => one))) {
        listed = true;
        return (performance.now() - began) / 1000;
      }
      await pause(20);
    }
    throw new Error(`etcd did not list ${voters} voters within ${GIVE_UP_MS / 1000} s`);
  };
  return Promise.any(pods.map(asked));
};

const memoryPodLost = (): Promise<number> =>
  inPlace(async (place) => {
    await place.apply(claim('bench', { storage: inMemory }));
    await ready(place, 'bench');
    const { follower } = await leaderAndFollower(place, 'bench');
    const { name } = (await podOf(place, follower)).metadata;
    const gone = (names: readonly string[]): boolean => !names.includes(name) && !names.includes('');
    return untilListed(
      place,
      'bench',
      3,
      () => place.kube.delete({ resource: seenKinds.pods, namespace: place.namespace, name }),
      gone,
    );
  });

export const benchScale = async (): Promise<Measurement[]> => {
  const grown: number[] = [];
  const listed: number[] = [];
  const shrunk: number[] = [];
  await inPlace(async (place) => {
    await place.apply(claim('bench'));
    await ready(place, 'bench');
    for (let run = 0; run < RUNS; run++) {
      // As many tokens of the breaker as a cluster has that is at rest; how long a change takes must not depend on the run.
      await pause(BREAKER_TOKENS * 1000);
      grown.push(await timed(place, 'bench', () => setReplicas(place, 'bench', 5)));
      await oneCluster(place, 'bench', 5);
      await pause(30_000);
      let again: Promise<number> | undefined;
      shrunk.push(
        await timed(place, 'bench', () => {
          again = untilListed(place, 'bench', 3, () => setReplicas(place, 'bench', 3));
          return Promise.resolve(3);
        }),
      );
      listed.push((await again) ?? Number.NaN);
      await oneCluster(place, 'bench', 3);
    }
  });
  const lost = await repeated(memoryPodLost);
  return [
    ...compared('scale 3 → 5', grown, PEER.grow, 0.5),
    ...compared('scale 5 → 3, until etcd lists 3 voters', listed, PEER.shrink, 1),
    { what: 'scale 5 → 3, until the claim is Ready', value: median(shrunk), unit: 's' },
    ...compared('memory Pod deleted → 3 voters', lost, PEER.memoryPod, 0.5),
  ];
};

export const benchBreaker = (): Promise<Measurement[]> =>
  inPlace(async (place) => {
    await using breaker = await watchBreaker(place);
    await place.apply(claim('bench', { replicas: 9, storage: inMemory }));
    await ready(place, 'bench', { deadlineMs: 180_000 });
    say(
      `Responsive was ${breaker.opened() ? 'NOT ' : ''}True throughout; fewest tokens left: ${breaker.least()} of ${BREAKER_TOKENS}`,
    );
    return [{ what: 'breaker tokens for bringing up 9 members', value: breaker.tokens(), unit: '', budget: 80 }];
  });

export const benchSettled = (): Promise<Measurement[]> =>
  inPlace(async (place) => {
    const seconds = Number(process.env.ETCD_OPERATOR_SETTLED_SECONDS ?? 300);
    await place.apply(claim('disk'), claim('ram', { storage: inMemory }));
    await ready(place, 'disk');
    await ready(place, 'ram');
    await pause(20_000);
    const before = await versionsIn(place);
    await pause(seconds * 1000);
    const after = await versionsIn(place);
    const changed = [...new Set([...before.keys(), ...after.keys()])].filter(
      (one) => before.get(one) !== after.get(one),
    );
    if (changed.length > 0) say(`written: ${changed.join(', ')}`);
    return [{ what: `objects written in ${seconds} settled seconds`, value: changed.length, unit: '', budget: 0 }];
  });
