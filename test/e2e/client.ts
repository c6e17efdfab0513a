/** Clients of an etcd cluster: one that writes all the time as an application would, and etcdctl in a Pod of its own. */

import { setTimeout as pause } from 'node:timers/promises';
import type { Pod } from 'kubernetes-types/core/v1.js';
import { clientServiceName, PORTS } from '../../api/names.ts';
import { VERSION } from './claim.ts';
import { eventually, notYet } from './eventually.ts';
import { follow } from './history.ts';
import { askMember, selfOf } from './identity.ts';
import { type Place, seenKinds } from './place.ts';

/** Whether the client Service lets clients through to a Pod at this moment, told by a watch. */
export type OpenPods = AsyncDisposable & { isOpen(pod: string): boolean };

export const watchOpenPods = async (place: Place, name: string): Promise<OpenPods> => {
  const slices = new Map<string, Set<string>>();
  const history = await follow(
    place.kube,
    seenKinds.endpointslices,
    { namespace: place.namespace, labelSelector: `kubernetes.io/service-name=${clientServiceName(name)}` },
    ({ type, object }) => {
      const ready = (object.endpoints ?? []).filter(({ conditions }) => conditions?.ready === true);
      slices.set(
        object.metadata.name,
        new Set(type === 'DELETED' ? [] : ready.flatMap(({ targetRef }) => targetRef?.name ?? [])),
      );
    },
  );
  return {
    isOpen: (pod) => [...slices.values()].some((pods) => pods.has(pod)),
    [Symbol.asyncDispose]: history.stop,
  };
};

export type Spy = AsyncDisposable & {
  /** When a client would have got an answer of another cluster through the Service, by `performance.now()`, oldest first. */
  readonly servedAt: readonly number[];
  /** Foreign answers in all; those that no client could get are no harm, and show that the spy looked. */
  readonly foreign: () => number;
};

/**
 * Asks one Pod who it is, all the time. Answers count as served when the Service let clients through both as the question
 * went out and as the answer came.
 */
export const spyOn = async (
  place: Place,
  name: string,
  pod: () => Promise<{ name: string; ip: string } | undefined>,
  clusterID: string,
): Promise<Spy> => {
  const open = await watchOpenPods(place, name);
  const servedAt: number[] = [];
  let foreign = 0;
  let stopped = false;
  const run = async (): Promise<void> => {
    while (!stopped) {
      const target = await pod().catch(() => undefined);
      if (target !== undefined) {
        const before = open.isOpen(target.name);
        const self = await selfOf(place, target, 500).catch(() => undefined);
        if (self !== undefined && self.clusterID !== clusterID) {
          foreign += 1;
          if (before && open.isOpen(target.name)) servedAt.push(performance.now());
        }
      }
      await pause(50);
    }
  };
  const running = run();
  return {
    servedAt,
    foreign: () => foreign,
    [Symbol.asyncDispose]: async () => {
      stopped = true;
      await running;
      await open[Symbol.asyncDispose]();
    },
  };
};

const text = (value: string): string => Buffer.from(value).toString('base64');

export const put = (place: Place, pod: { name: string; ip: string }, key: string, value: string): Promise<unknown> =>
  askMember(place, pod, '/v3/kv/put', { key: text(key), value: text(value) });

export const read = async (
  place: Place,
  pod: { name: string; ip: string },
  key: string,
  options: { readonly serializable?: boolean } = {},
): Promise<string | undefined> => {
  const { kvs } = await askMember<{ kvs?: { value: string }[] }>(place, pod, '/v3/kv/range', {
    key: text(key),
    serializable: options.serializable ?? false,
  });
  const value = kvs?.[0]?.value;
  return value === undefined ? undefined : Buffer.from(value, 'base64').toString();
};

/** What a watch is told that goes on from `revision`, as an informer does whose connection broke. */
export const watchFrom = async (pod: { ip: string }, revision: bigint): Promise<string> => {
  const answer = await fetch(`http://${pod.ip}:${PORTS.client}/v3/watch`, {
    method: 'POST',
    body: JSON.stringify({ create_request: { key: text('written/0'), start_revision: String(revision) } }),
    signal: AbortSignal.timeout(10_000),
  });
  let said = '';
  for await (const piece of answer.body ?? []) {
    said += Buffer.from(piece).toString();
    if (said.includes('"canceled":true')) return said;
  }
  return said;
};

/** Every key with its value and revisions, read with a quorum: what must be the same after whatever happened in between. */
export const everything = async (
  place: Place,
  pod: { name: string; ip: string },
): Promise<{ readonly key: string; readonly value?: string; readonly mod_revision: string }[]> => {
  const all = { key: Buffer.from([0]).toString('base64'), range_end: Buffer.from([0]).toString('base64') };
  const { kvs } = await askMember<{ kvs?: { key: string; value?: string; mod_revision: string }[] }>(
    place,
    pod,
    '/v3/kv/range',
    all,
    10_000,
  );
  return kvs ?? [];
};

export type Written = {
  readonly acknowledged: number;
  readonly failed: number;
  /** Longest time without one successful write. */
  readonly longestGapMs: number;
  readonly lastError: string | undefined;
};

export type Acknowledged = { readonly key: string; readonly pod: string };

export type Writer = AsyncDisposable & {
  sofar(): Written;
  /** Ends it, and reads every acknowledged write back, with a quorum. */
  stop(): Promise<Written & { readonly lost: readonly Acknowledged[] }>;
};

export type MembersBehind = AsyncDisposable & { members(): readonly { name: string; ip: string }[] };

/** What stands behind the client Service at each moment, as kube-proxy would choose, told by a watch. */
export const membersBehind = async (place: Place, name: string): Promise<MembersBehind> => {
  let open: { name: string; ip: string }[] = [];
  const endpoints = new Map<string, { name: string; ip: string }[]>();
  const slices = await follow(
    place.kube,
    seenKinds.endpointslices,
    { namespace: place.namespace, labelSelector: `kubernetes.io/service-name=${clientServiceName(name)}` },
    ({ type, object }) => {
      const ready = (object.endpoints ?? []).flatMap(({ conditions, targetRef, addresses }) => {
        const [ip] = addresses;
        return conditions?.ready === true && targetRef?.name !== undefined && ip !== undefined
          ? [{ name: targetRef.name, ip }]
          : [];
      });
      if (type === 'DELETED') endpoints.delete(object.metadata.name);
      else endpoints.set(object.metadata.name, ready);
      open = [...endpoints.values()].flat();
    },
  );
  return { members: () => open, [Symbol.asyncDispose]: slices.stop };
};

/**
 * Writes through what stands behind the client Service at each moment, as kube-proxy would choose, every few milliseconds
 * and with a short deadline.
 */
export const writer = async (place: Place, name: string, everyMs = 50, deadlineMs = 1_000): Promise<Writer> => {
  const open = await membersBehind(place, name);

  const acknowledged: Acknowledged[] = [];
  let failed = 0;
  let lastError: string | undefined;
  let lastSuccess = performance.now();
  let longestGapMs = 0;
  let stopped = false;
  const gap = (): void => {
    longestGapMs = Math.max(longestGapMs, performance.now() - lastSuccess);
  };
  const run = async (): Promise<void> => {
    for (let n = 0; !stopped; n++) {
      const pods = open.members();
      const pod = pods[n % Math.max(1, pods.length)];
      const key = `written/${n}`;
      try {
        if (pod === undefined) throw new Error('nobody is behind the client Service');
        await askMember(place, pod, '/v3/kv/put', { key: text(key), value: text(String(n)) }, deadlineMs);
        acknowledged.push({ key, pod: pod.name });
        gap();
        lastSuccess = performance.now();
      } catch (error) {
        failed += 1;
        lastError = error instanceof Error ? `${error.message} ${String(error.cause ?? '')}` : String(error);
      }
      await pause(everyMs);
    }
  };
  const running = run();
  const sofar = (): Written => {
    gap();
    return { acknowledged: acknowledged.length, failed, longestGapMs: Math.round(longestGapMs), lastError };
  };
  const end = async (): Promise<void> => {
    stopped = true;
    await running;
    await open[Symbol.asyncDispose]();
  };
  return {
    sofar,
    [Symbol.asyncDispose]: end,
    stop: async () => {
      const [pod] = open.members();
      await end();
      const result = sofar();
      if (pod === undefined) throw new Error(`nobody is behind the client Service of ${name} to read back from`);
      const { kvs = [] } = await askMember<{ kvs?: { key: string }[] }>(
        place,
        pod,
        '/v3/kv/range',
        { key: text('written/'), range_end: text('written0'), keys_only: true },
        10_000,
      );
      const there = new Set(kvs.map(({ key }) => Buffer.from(key, 'base64').toString()));
      return { ...result, lost: acknowledged.filter(({ key }) => !there.has(key)) };
    },
  };
};

/** etcdctl in a Pod that the restricted standard admits, against the client Service by name, as an application connects. */
export const etcdctl = async (place: Place, cluster: string, ...args: readonly string[]): Promise<string> => {
  const name = `etcdctl-${Math.random().toString(36).slice(2, 8)}`;
  const pod: Pod = {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name },
    spec: {
      restartPolicy: 'Never',
      automountServiceAccountToken: false,
      securityContext: { runAsNonRoot: true, runAsUser: 1000, seccompProfile: { type: 'RuntimeDefault' } },
      containers: [
        {
          name: 'etcdctl',
          image: `quay.io/coreos/etcd:v${VERSION}`,
          imagePullPolicy: 'IfNotPresent',
          command: [
            'etcdctl',
            `--endpoints=http://${clientServiceName(cluster)}.${place.namespace}.svc:${PORTS.client}`,
            '--command-timeout=15s',
            ...args,
          ],
          securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
        },
      ],
    },
  };
  await place.apply(pod);
  const phase = await eventually(
    `etcdctl ${args.join(' ')} ends`,
    async () => {
      const found = await place.get(seenKinds.pods, name);
      const now = found?.status?.phase;
      return now === 'Succeeded' || now === 'Failed' ? now : notYet(`its Pod is ${now}`);
    },
    { deadlineMs: 40_000 },
  );
  const printed = await place.kubectl(['logs', name]);
  if (phase === 'Failed') throw new Error(`etcdctl ${args.join(' ')} failed: ${printed}`);
  return printed;
};
