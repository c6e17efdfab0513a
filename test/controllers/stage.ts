/**
 * The runtime's real shell on a stage of fakes: real passes, real watch caches, real composition functions; the API server,
 * etcd, the kubelets and the clock are fakes that hold still. A story is played one thing at a time until nothing more
 * happens, and the runtime's process may die at any call.
 */
import assert from 'node:assert/strict';
import type { PersistentVolumeClaim, Pod } from 'kubernetes-types/core/v1.js';
import type { PodDisruptionBudget } from 'kubernetes-types/policy/v1.js';
import type { EtcdCluster } from '../../api/etcdcluster.gen.ts';
import type { EtcdMember } from '../../api/etcdmember.gen.ts';
import type { EtcdQuorum } from '../../api/etcdquorum.gen.ts';
import type { EtcdRestore } from '../../api/etcdrestore.gen.ts';
import type { EtcdSnapshot } from '../../api/etcdsnapshot.gen.ts';
import { ANNOTATIONS, API_VERSION, hasPeerURL, inUseName, LABELS, ROLE_VOTER } from '../../api/names.ts';
import { createNamedSecrets } from '../../runtime/adapters/kube/named-secrets.ts';
import { startWatchCache, type WatchCache } from '../../runtime/adapters/kube/watch-cache.ts';
import { readTlsSecret } from '../../runtime/adapters/tls-secret.ts';
import { createDialler } from '../../runtime/controllers/dialler.ts';
import { createPasses, type PassResult } from '../../runtime/controllers/pass.ts';
import { passOverRestore, restoreKind } from '../../runtime/controllers/restores.ts';
import { scheduleKind } from '../../runtime/controllers/schedules.ts';
import { snapshotKind } from '../../runtime/controllers/snapshot-jobs.ts';
import { clusterKey, kinds, type World } from '../../runtime/controllers/world.ts';
import { formerPasswords } from '../../runtime/core/in-use-secret.ts';
import { isLocked } from '../../runtime/core/member-config.ts';
import type { EtcdClients, EtcdEndpoint, EtcdMemberClient, EtcdMembership } from '../../runtime/ports/etcd.ts';
import { type Kube, type KubeObject, type Resource, resources, type Stored } from '../../runtime/ports/kube.ts';
import type { Tracing } from '../../runtime/ports/tracing.ts';
import { type FakeClock, fakeClock } from '../fakes/fake-clock.ts';
import { claimObject, createFakeCrossplane, type FakeCrossplane } from '../fakes/fake-crossplane.ts';
import { createFakeEtcd, type FakeEtcd } from '../fakes/fake-etcd.ts';
import { type InProcessKube, kubeInProcess } from '../fakes/fake-kube-in-process.ts';
import type { JsonObject } from '../fakes/fake-kube-schema.ts';
import { fakeKubeStore, type Obj, type Store } from '../fakes/fake-kube-store.ts';
import { createFakeKubelet, type FakeKubelet } from '../fakes/fake-kubelet.ts';
import { distrustAmong, fingerprintOf } from './shown-certificates.ts';

export const NAMESPACE = 'team-a';
export const CLUSTER = 'demo';

/** One call of the runtime to the API server or to etcd. */
export type Call = {
  /** `patch etcdquorums/status demo`, `memberAddLearner`. */
  readonly what: string;
  readonly writes: boolean;
};

/**
 * Stands between the runtime and a server. Runs `happen` to let the call take effect; what it returns or throws is what
 * the runtime gets.
 */
export type Between = <T>(call: Call, happen: () => Promise<T>) => Promise<T>;

export type Announced = {
  readonly kind: string;
  readonly name: string;
  readonly type: string;
  readonly reason: string;
  readonly message: string;
};

type RuntimeProcess = {
  /** Milliseconds until the next pass is wanted; undefined when nothing is to do. */
  dueIn(): number | undefined;
  pass(): Promise<PassResult | undefined>;
  readonly died: boolean;
  readonly last: PassResult | undefined;
  stop(): void;
};

export type Stage = {
  readonly store: Store;
  readonly server: InProcessKube;
  readonly etcd: FakeEtcd;
  readonly clock: FakeClock;
  readonly kubelet: FakeKubelet;
  readonly crossplane: FakeCrossplane;
  /** Every write of the runtime, in order. */
  readonly writes: readonly string[];
  readonly calls: number;
  readonly announced: readonly Announced[];
  /** `rule → step` of every pass, with the situation; for the reader of a failed test. */
  readonly diary: readonly string[];
  /** How often each step was taken. */
  readonly steps: ReadonlyMap<string, number>;
  readonly last: PassResult | undefined;
  /** What must never be seen. Empty in a good run. */
  readonly wrongs: string[];
  /** Steps that were taken twenty times in a row. Right only while the caches are old. */
  readonly stubborn: readonly string[];
  /** Passes that ended by an exception. */
  readonly thrown: string[];
  /** `AddMember joined`: every change of the quorum that ended. */
  readonly changes: readonly string[];
  /** How often the process was started. */
  readonly lives: number;
  /** Puts something between the runtime and its servers, from now on. */
  between(between: Between | undefined): void;
  /** Ends the runtime's process; the next thing that happens starts a new one. */
  die(): void;
  /** Ends it, and none is started for so long. */
  away(ms: number): void;

  /** Plays on until `goal` holds with nothing left to do at once. Fails after `limitMs` of the stage's time. */
  until(goal: (stage: Stage) => boolean | Promise<boolean>, what: string, limitMs?: number): Promise<void>;
  /** Until the runtime is settled and the claim says so. */
  settled(): Promise<void>;
  /** Lets so much time pass, doing what falls due. */
  pass(ms: number): Promise<void>;
  /** One thing of the world, whichever `random` picks; for orders that no story tells. */
  oneThing(random: () => number): Promise<void>;

  apply(spec: Record<string, unknown>): void;
  /** Changes the claim's spec. */
  edit(spec: Record<string, unknown>): void;
  remove(resource: Resource, name: string, policy?: 'Background' | 'Foreground' | 'Orphan'): void;
  change<T extends KubeObject>(resource: Resource<T>, name: string, change: (object: Stored<T>) => void): void;
  get<T extends KubeObject>(resource: Resource<T>, name: string): Stored<T> | undefined;
  /** How many members the claim asks for. */
  readonly size: number;
  readonly claim: Stored<EtcdCluster> | undefined;
  readonly quorum: Stored<EtcdQuorum> | undefined;
  readonly members: readonly Stored<EtcdMember>[];
  readonly pods: readonly Stored<Pod>[];
  readonly volumes: readonly Stored<PersistentVolumeClaim>[];
  readonly budget: Stored<PodDisruptionBudget> | undefined;
  readonly restores: readonly Stored<EtcdRestore>[];
  member(ordinal: number): Stored<EtcdMember>;
  podOf(ordinal: number): Stored<Pod>;
  leader(): number;
  /** The member list as a quorum of etcd confirms it, whoever of them answers. */
  membership(): Promise<EtcdMembership | undefined>;
  put(key: string, value: string): Promise<void>;
  read(key: string): Promise<string | undefined>;
  /** A cluster that the story brings in itself. */
  stranger(clusterID: string): void;
  /** Asks for the data of what the kubelets find in the store under `key`. */
  restore(name: string, key: string, clusterID?: string): void;
  close(): void;
};

const indexByLabel = ({ metadata }: Stored<KubeObject>): string | undefined => {
  const name = metadata.labels?.[LABELS.cluster];
  return name === undefined || metadata.namespace === undefined
    ? undefined
    : clusterKey({ namespace: metadata.namespace, name });
};

const referredKey = ({ metadata, spec }: Stored<KubeObject & { spec: { clusterRef: { name: string } } }>): string =>
  clusterKey({ namespace: metadata.namespace ?? '', name: spec.clusterRef.name });

/** Timers of the event loop do not move the stage's clock; this lets whatever waits for promises go on. */
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

const ETCD_WRITES = new Set([
  ...['memberAddLearner', 'memberPromote', 'memberRemove', 'memberUpdate', 'moveLeader'],
  ...['authEnable', 'authDisable', 'userAdd', 'userChangePassword', 'userGrantRole', 'roleAdd'],
]);

export const openStage = ({ tracing }: { readonly tracing?: Tracing } = {}): Stage => {
  const clock = fakeClock(Date.UTC(2030, 0, 1));
  let uids = 0;
  const store = fakeKubeStore({
    now: clock.now,
    ownedUpdates: false,
    drawUid: () => `00000000-0000-4000-8000-${String(++uids).padStart(12, '0')}`,
  });
  store.put(resources.namespaces, { metadata: { name: NAMESPACE }, status: { phase: 'Active' } });
  const server = kubeInProcess(store);
  const etcd = createFakeEtcd();
  const kubelet = createFakeKubelet({ store, clock, etcdOf: () => etcd });
  const crossplane = createFakeCrossplane(store, { namespace: NAMESPACE, name: CLUSTER }, clock.now);
  let between: Between | undefined;
  let tokens = 0;
  let lives = 0;
  let calls = 0;
  let backAt = 0;
  const writes: string[] = [];
  const announced: Announced[] = [];
  const diary: string[] = [];
  const steps = new Map<string, number>();
  const wrongs: string[] = [];
  const stubborn: string[] = [];
  const thrown: string[] = [];
  const changes: string[] = [];

  const list = <T extends KubeObject>(resource: Resource<T>): Stored<T>[] =>
    store.list(resource, NAMESPACE) as unknown as Stored<T>[];
  const get = <T extends KubeObject>(resource: Resource<T>, name: string): Stored<T> | undefined =>
    store.get({ resource, namespace: NAMESPACE, name }) as unknown as Stored<T> | undefined;

  /** The stage itself is a client that is always let in. */
  const at = (url: string): EtcdEndpoint => {
    const password = etcd.process(url) === undefined ? undefined : etcd.rootPassword(url);
    return {
      url,
      ...(url.startsWith('https:')
        ? { tls: { ca: new Uint8Array(), certificate: new Uint8Array(), key: new Uint8Array() } }
        : {}),
      ...(password === undefined ? {} : { auth: { username: 'root', password, loginAt: () => running().map(at) } }),
    };
  };

  /** Every client URL at which a process runs. */
  const running = (): string[] =>
    list(resources.pods).flatMap(({ status, metadata }) =>
      status?.podIP === undefined || etcd.process(kubelet.clientURL(metadata.name))?.running !== true
        ? []
        : [kubelet.clientURL(metadata.name)],
    );

  const membership = async (): Promise<EtcdMembership | undefined> => {
    for (const url of running()) {
      const found = await etcd.clients
        .dial(at(url))
        .memberList({ linearizable: true })
        .catch(() => undefined);
      if (found !== undefined && found.clusterId === stage.quorum?.status?.clusterID) return found;
    }
    return undefined;
  };

  // ------------------------------------------------------------------------------------------------- what must never be

  /** The cluster that clients were let into, by the claim that stood there. */
  const served = new Map<string, string>();
  const strangers = new Set<string>();
  const leaving = (): boolean => {
    const claim = get(resources.etcdclusters, CLUSTER);
    const home = store.get({ resource: resources.namespaces, name: NAMESPACE });
    return (
      claim === undefined ||
      claim.metadata.deletionTimestamp !== undefined ||
      home?.metadata.deletionTimestamp !== undefined
    );
  };

  /** Before the runtime deletes a volume: its member must be out of etcd's list, or never have been in one. */
  const watchDeletion = async (name: string): Promise<void> => {
    const made = get(resources.persistentvolumeclaims, name)?.metadata.annotations?.[ANNOTATIONS.clusterUID];
    if (leaving() || (made !== undefined && made !== stage.claim?.metadata.uid)) return;
    const found = await membership();
    const line = found?.members.find(
      (member) => member.name === name || hasPeerURL(member.peerURLs, CLUSTER, NAMESPACE, name),
    );
    if (line !== undefined) wrongs.push(`the volume ${name} is deleted while etcd lists its member ${line.id}`);
    const volume = get(resources.persistentvolumeclaims, name);
    const noted = volume?.metadata.annotations?.[ANNOTATIONS.memberID];
    const lost = volume?.metadata.annotations?.[ANNOTATIONS.clusterID];
    if (lost !== undefined && found !== undefined && lost !== found.clusterId && found.members.length < stage.size) {
      wrongs.push(`the volume ${name} of the lost cluster is deleted before the next one is whole`);
    }
    if (found === undefined && noted !== undefined) {
      wrongs.push(`the volume ${name} of member ${noted} is deleted while nobody confirms the member list`);
    }
  };

  store.onChange(({ object, type }) => {
    if (type === 'DELETED') return;
    const pod = object as unknown as Stored<Pod>;
    if (object.kind === 'Pod' && pod.metadata.labels?.[LABELS.role] === ROLE_VOTER) {
      const config = pod.metadata.annotations?.[ANNOTATIONS.config] ?? '';
      if (!isLocked(config)) wrongs.push(`${pod.metadata.name} is open to clients and not locked`);
    }
  });

  const inspect = async (): Promise<void> => {
    const led = new Set<string>();
    for (const pod of list(resources.pods)) {
      const url = pod.status?.podIP === undefined ? '' : kubelet.clientURL(pod.metadata.name);
      if (etcd.process(url)?.running !== true) continue;
      const status = await etcd.clients
        .dial(at(url))
        .status()
        .catch(() => undefined);
      if (status?.leaderId === undefined || strangers.has(status.clusterId)) continue;
      const uid = pod.metadata.ownerReferences?.[0]?.uid ?? '';
      led.add(`${uid} ${status.clusterId}`);
      if (pod.metadata.labels?.[LABELS.role] !== ROLE_VOTER) continue;
      const { recovered = [], pastRestores = [] } = stage.quorum?.status ?? {};
      const replaced = [...recovered, ...pastRestores].some(({ clusterID }) => clusterID === status.clusterId);
      const before = (replaced ? undefined : served.get(uid)) ?? status.clusterId;
      served.set(uid, before);
      if (before !== status.clusterId) wrongs.push(`clients of cluster ${before} are sent to ${status.clusterId}`);
    }
    const claims = [...led].map((one) => one.split(' ')[0]);
    if (new Set(claims).size < claims.length) wrongs.push(`two clusters run under one claim: ${[...led].join(', ')}`);
    wrongs.push(...distrustAmong(list(resources.pods), kubelet));
    const found = await membership();
    const learners = found?.members.filter(({ isLearner }) => isLearner).length ?? 0;
    if (learners > 1) wrongs.push(`${learners} learners at once`);
    const keeps = get(resources.secrets, inUseName(CLUSTER, 'root'))?.data;
    const [url] = running();
    const asks = url === undefined ? undefined : etcd.rootPassword(url);
    if (keeps !== undefined && asks !== undefined) {
      const known = Object.entries(keeps).flatMap(([key, stored]) => {
        const text = Buffer.from(stored, 'base64').toString();
        return key === 'former' ? formerPasswords(text) : [text];
      });
      if (!known.includes(asks)) wrongs.push('etcd asks for a password that is written down nowhere');
    }
  };

  // ---------------------------------------------------------------------------------------------------------- the runtime

  const startRuntime = async (): Promise<RuntimeProcess> => {
    lives += 1;
    let dead = false;
    const died = Promise.withResolvers<undefined>();
    const never = new Promise<never>(() => {});

    const through = async <T>(call: Call, work: () => Promise<T>, before?: () => Promise<void>): Promise<T> => {
      if (dead) return never;
      calls += 1;
      await before?.();
      if (call.writes) writes.push(call.what);
      const happen = (): Promise<T> => (dead ? never : work());
      const answer = between === undefined ? await happen() : await between(call, happen);
      return dead ? never : answer;
    };

    const { kube: direct } = server;
    const name = (verb: string, ref: { resource: Resource; name: string }, subresource?: string): string =>
      `${verb} ${ref.resource.plural}${subresource === undefined ? '' : `/${subresource}`} ${ref.name}`;
    const kube: Kube = {
      get: (ref, o) => through({ what: name('get', ref), writes: false }, () => direct.get(ref, o)),
      list: (resource, o) =>
        through({ what: `list ${resource.plural}`, writes: false }, () => direct.list(resource, o)),
      create: (resource, object, o) =>
        through({ what: name('create', { resource, name: object.metadata?.name ?? '' }), writes: true }, () =>
          direct.create(resource, object, o),
        ),
      apply: (resource, object, o) =>
        through(
          { what: name('apply', { resource, name: object.metadata?.name ?? '' }, o.subresource), writes: true },
          () => direct.apply(resource, object, o),
        ),
      mergePatch: (ref, patch, o) =>
        through({ what: name('patch', ref, o?.subresource), writes: true }, () => direct.mergePatch(ref, patch, o)),
      jsonPatch: (ref, operations, o) =>
        through({ what: name('patch', ref, o?.subresource), writes: true }, () => direct.jsonPatch(ref, operations, o)),
      delete: (ref, o) =>
        through(
          { what: name('delete', ref), writes: true },
          () => direct.delete(ref, o),
          async () => {
            if (ref.resource.plural === 'persistentvolumeclaims') await watchDeletion(ref.name);
          },
        ),
      watch: (resource, o) => direct.watch(resource, o),
    };
    const clients = new Proxy({} as EtcdClients, {
      get: (_, property: keyof EtcdClients) => {
        if (property !== 'at') return etcd.clients[property];
        return (endpoint: { url: string }) =>
          new Proxy(etcd.clients.at(endpoint), {
            get: (target, method: keyof EtcdMemberClient) => {
              const own = target[method];
              // A stream is no promise; nobody's life depends on one here.
              if (typeof own !== 'function' || method === 'snapshot') return own;
              return (...given: unknown[]) =>
                through({ what: method, writes: ETCD_WRITES.has(method) }, () =>
                  (own as (...given: unknown[]) => Promise<unknown>)(...given),
                );
            },
          });
      },
    });

    let dueAt: number | undefined;
    const enqueue = (afterMs: number): void => {
      const at = clock.elapsed() + afterMs;
      if (dueAt === undefined || at < dueAt) dueAt = at;
    };
    const watch = <T extends KubeObject>(
      resource: Resource<T>,
      index: (object: Stored<T>) => string | undefined,
      labelSelector?: string,
    ): WatchCache<T> =>
      startWatchCache<T>({
        kube: direct,
        resource,
        ...(labelSelector === undefined ? {} : { labelSelector }),
        index,
        clock,
        random: () => 0.5,
        onIncident: (incident) => {
          if (incident.what === 'listener-failed' || incident.what === 'missed') {
            wrongs.push(`watch of ${incident.resource}: ${incident.what}`);
          }
        },
      });
    const caches = {
      members: watch(kinds.members, ({ metadata, spec }) =>
        clusterKey({ namespace: metadata.namespace ?? '', name: spec.clusterName }),
      ),
      quorums: watch(kinds.quorums, ({ metadata }) =>
        clusterKey({ namespace: metadata.namespace ?? '', name: metadata.name }),
      ),
      pods: watch(resources.pods, indexByLabel, LABELS.member),
      volumes: watch(resources.persistentvolumeclaims, indexByLabel, `${LABELS.cluster},${LABELS.member}`),
      budgets: watch(resources.poddisruptionbudgets, indexByLabel, LABELS.cluster),
      nodes: watch(resources.nodes, () => undefined),
      restores: watch<EtcdRestore>(restoreKind, referredKey),
      snapshots: watch<EtcdSnapshot>(snapshotKind, referredKey),
      schedules: watch(scheduleKind, referredKey),
    };
    const all = Object.values(caches) as readonly Pick<WatchCache<KubeObject>, 'onChange' | 'synced' | 'stop'>[];
    await Promise.all(all.map(({ synced }) => synced));
    for (const cache of all) cache.onChange(() => enqueue(0));

    const secrets = createNamedSecrets({ kube: direct, clock, random: () => 0.5 });
    secrets.onChange(() => enqueue(0));

    const note =
      (level: string) =>
      (fields: object, message: string): void => {
        const { veto } = fields as { veto?: string };
        if (level === 'error') wrongs.push(`${message}: ${veto ?? JSON.stringify(fields)}`);
        if (message === 'the same step again and again') stubborn.push(`${message}: ${JSON.stringify(fields)}`);
      };
    const world: World = {
      kube,
      caches,
      etcd: clients,
      probe: etcd.probe,
      handshake: async ({ host, port }) => fingerprintOf(kubelet.shown(host, port)),
      agentImage: 'runtime:test',
      secrets,
      dialler: createDialler({ secrets, etcd: clients, read: readTlsSecret }),
      clock,
      log: { debug: note('debug'), info: note('info'), warn: note('warn'), error: note('error') },
      announce: (about, { type, reason, message }) => {
        if (!dead) announced.push({ kind: about.kind, name: about.name, type, reason, message });
      },
      tracing,
      apiServer: 'https://10.96.0.1:443',
      drawToken: () => (++tokens + 36 ** 4).toString(36).slice(-5),
      revisions: new Map(),
      lastSeen: new Map(),
      deleted: new Set(),
    };
    const passes = createPasses(world, () => 60_000, {
      onChangeEnd: ({ kind, outcome }) => {
        if (!dead) changes.push(`${kind} ${outcome}`);
      },
    });
    let last: PassResult | undefined;
    enqueue(0);

    return {
      dueIn: () => (dueAt === undefined ? undefined : Math.max(0, dueAt - clock.elapsed())),
      pass: async () => {
        dueAt = undefined;
        // As main.ts: a cluster of which nothing is left is forgotten.
        if (
          caches.quorums.get(NAMESPACE, CLUSTER) === undefined &&
          caches.members.byIndex(clusterKey({ namespace: NAMESPACE, name: CLUSTER })).length === 0
        ) {
          last = undefined;
          passes.forget({ namespace: NAMESPACE, name: CLUSTER });
          return undefined;
        }
        const run = passes.run({ namespace: NAMESPACE, name: CLUSTER }, new AbortController().signal).then(
          (result) => result,
          (error: unknown) => {
            if (dead) return undefined;
            thrown.push(error instanceof Error ? error.message : String(error));
            diary.push(`thrown: ${thrown.at(-1)}`);
            enqueue(1_000);
            return undefined;
          },
        );
        const result = await Promise.race([run, died.promise]);
        if (dead || result === undefined) return undefined;
        last = result;
        enqueue(result.againMs);
        const { decision, outcome } = result;
        steps.set(decision.step.do, (steps.get(decision.step.do) ?? 0) + 1);
        const words = 'message' in decision.step ? ` (${decision.step.message})` : '';
        diary.push(`${clock.elapsed()} ${decision.rule} → ${decision.step.do}${words}: ${outcome} ${decision.sketch}`);
        if (outcome === 'vetoed') wrongs.push(`vetoed: ${JSON.stringify(diary.at(-1))}`);
        for (const { metadata } of caches.restores.list()) {
          if (dead) return undefined;
          const told = passOverRestore(world, NAMESPACE, metadata.name, new AbortController().signal);
          const againMs = await Promise.race([told, died.promise]);
          if (againMs !== undefined) enqueue(againMs);
        }
        return result;
      },
      get died() {
        return dead;
      },
      get last() {
        return last;
      },
      stop: () => {
        dead = true;
        died.resolve(undefined);
        // Nothing is aborted: a request that was sent when the process died takes effect.
        for (const cache of all) void cache.stop();
        void secrets.stop();
      },
    };
  };

  let runtime: RuntimeProcess | undefined;
  const alive = async (): Promise<RuntimeProcess | undefined> => {
    if (runtime?.died === true) runtime = undefined;
    if (runtime === undefined && clock.elapsed() >= backAt) runtime = await startRuntime();
    return runtime;
  };

  // ------------------------------------------------------------------------------------------------------------- playing

  /** All that can happen at this moment of the clock; true if anything did. */
  const happen = async (): Promise<boolean> => {
    let busy = false;
    if (crossplane.reconcile()) busy = true;
    if (await kubelet.work()) busy = true;
    await turn();
    const process = await alive();
    if (process?.dueIn() === 0) {
      busy = true;
      await process.pass();
      await turn();
    }
    if (busy) await inspect();
    return busy;
  };

  const nextIn = (): number | undefined => {
    const back = backAt > clock.elapsed() ? backAt - clock.elapsed() : undefined;
    const waits = [back ?? runtime?.dueIn(), kubelet.nextIn()].filter((ms) => ms !== undefined);
    return waits.length === 0 ? undefined : Math.min(...waits);
  };

  const play = async (
    goal: ((stage: Stage) => boolean | Promise<boolean>) | undefined,
    limitMs: number,
  ): Promise<boolean> => {
    const end = clock.elapsed() + limitMs;
    for (let things = 0; things < 5_000; things += 1) {
      if (await happen()) continue;
      if (goal !== undefined && (await goal(stage))) return true;
      const left = end - clock.elapsed();
      if (left <= 0) return false;
      await clock.advance(Math.min(left, Math.max(1, nextIn() ?? left)));
    }
    return false;
  };

  const stage: Stage = {
    store,
    server,
    etcd,
    clock,
    kubelet,
    crossplane,
    writes,
    get calls() {
      return calls;
    },
    announced,
    diary,
    steps,
    get last() {
      return runtime?.last;
    },
    wrongs,
    stubborn,
    thrown,
    changes,
    get lives() {
      return lives;
    },
    between: (next) => {
      between = next;
    },
    die: () => {
      runtime?.stop();
    },
    away: (ms) => {
      runtime?.stop();
      backAt = clock.elapsed() + ms;
    },

    until: async (goal, what, limitMs = 900_000) => {
      if (await play(goal, limitMs)) return;
      assert.fail(
        `not reached: ${what}\n${diary.slice(-12).join('\n')}\n${wrongs.join('\n')}\n${JSON.stringify(stage.quorum?.status, null, 1)}`,
      );
    },
    settled: () =>
      stage.until(
        ({ last, claim }) =>
          last?.decision.step.do === 'Settled' &&
          (claim?.status?.conditions ?? []).some(({ type, status }) => type === 'Ready' && status === 'True') &&
          (claim?.status?.conditions ?? []).some(({ type, status }) => type === 'Progressing' && status === 'False'),
        'settled, and the claim says so',
      ),
    pass: async (ms) => {
      await play(undefined, ms);
    },
    oneThing: async (random) => {
      const process = await alive();
      const choice = random();
      if (choice < 0.15) crossplane.reconcile();
      else if (choice < 0.5) await kubelet.workOn((pods) => pods[Math.floor(random() * pods.length)] ?? '');
      else if (choice < 0.9 && process?.dueIn() === 0) await process.pass();
      else await clock.advance(Math.min(2_000, nextIn() ?? 500));
      await turn();
      await inspect();
    },

    apply: (spec) => {
      const object = claimObject({ namespace: NAMESPACE, name: CLUSTER }, spec);
      store.create(resources.etcdclusters, object, 'user');
    },
    edit: (spec) => {
      store.write(
        { resource: resources.etcdclusters, namespace: NAMESPACE, name: CLUSTER },
        { kind: 'merge', body: { spec } as unknown as JsonObject, manager: 'user' },
      );
    },
    remove: (resource, name, propagationPolicy) => {
      const at = resource.namespaced ? { resource, namespace: NAMESPACE, name } : { resource, name };
      store.delete(at, { propagationPolicy });
    },
    change: (resource, name, change) => {
      const object = store.get({ resource, namespace: NAMESPACE, name });
      assert.ok(object, `${resource.plural} ${name} is there to be changed`);
      const next = structuredClone(object);
      change(next as unknown as Parameters<typeof change>[0]);
      store.put(resource, next as Obj);
    },
    get,
    get size() {
      return stage.claim?.spec.replicas ?? 3;
    },
    get claim() {
      return get(resources.etcdclusters, CLUSTER);
    },
    get quorum() {
      return get(resources.etcdquorums, CLUSTER);
    },
    get members() {
      return list(resources.etcdmembers);
    },
    get pods() {
      return list(resources.pods);
    },
    get volumes() {
      return list(resources.persistentvolumeclaims);
    },
    get budget() {
      return get(resources.poddisruptionbudgets, CLUSTER);
    },
    get restores() {
      return list(restoreKind);
    },
    member: (ordinal) => {
      const found = get(resources.etcdmembers, `${CLUSTER}-${ordinal}`);
      assert.ok(found, `EtcdMember ${CLUSTER}-${ordinal} exists`);
      return found;
    },
    podOf: (ordinal) => {
      const found = list(resources.pods).filter(
        ({ metadata }) => metadata.labels?.[LABELS.member] === `${CLUSTER}-${ordinal}`,
      );
      assert.equal(found.length, 1, `slot ${ordinal} has one Pod`);
      return found[0] as Stored<Pod>;
    },
    leader: () => {
      const leads = list(resources.etcdmembers).find(({ metadata }) => metadata.name === stage.quorum?.status?.leader);
      assert.ok(leads, 'a leader is reported');
      return Number(leads.metadata.name.split('-').at(-1));
    },
    membership,
    put: async (key, value) => {
      const [url] = running();
      assert.ok(url, 'somebody serves');
      await etcd.clients.dial(at(url)).put(key, value);
    },
    read: async (key) => {
      const [url] = running();
      assert.ok(url, 'somebody serves');
      const found = await etcd.clients.dial(at(url)).get(key);
      return found === undefined ? undefined : Buffer.from(found.value).toString();
    },
    restore: (name, key, clusterID = stage.quorum?.status?.clusterID ?? '') => {
      const spec: EtcdRestore['spec'] = {
        clusterRef: { name: CLUSTER },
        source: { pvc: { claimName: 'backups', subPath: key } },
        clusterID,
        acceptDataLoss: true,
      };
      const object = { apiVersion: API_VERSION, kind: 'EtcdRestore', metadata: { name, namespace: NAMESPACE }, spec };
      store.create(restoreKind, object as unknown as Obj, 'user');
    },
    stranger: (clusterID) => {
      strangers.add(clusterID);
    },
    close: () => {
      runtime?.stop();
    },
  };
  return stage;
};
