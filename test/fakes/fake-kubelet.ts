/**
 * Scheduler, volume binder and kubelets of the fake cluster: they place Pods, bind volumes, start etcd processes in the
 * fake etcd from the configuration in a Pod's annotation, restart what ends, and report it all in statuses. Nothing runs
 * by itself: `work` does all that is due at the clock's time, so a test decides what happens between two steps.
 */
import { isDeepStrictEqual } from 'node:util';
import type { ContainerStatus, Node, PersistentVolume, Pod, PodCondition } from 'kubernetes-types/core/v1.js';
import {
  ANNOTATIONS,
  CLIENT_TLS_VOLUME,
  CONTAINER,
  DATA_MOUNT,
  DATA_VOLUME,
  LABELS,
  PEER_TLS_VOLUME,
  PORTS,
  SEED_ROLE,
} from '../../api/names.ts';
import { RESTORE_ORDER } from '../../runtime/core/seeding.ts';
import { locationName, type StoreLocation } from '../../runtime/core/snapshots/store-access.ts';
import type { Clock } from '../../runtime/ports/clock.ts';
import { type Resource, resources, type Stored } from '../../runtime/ports/kube.ts';
import type { FakeEtcd, FakeExit, FakeProcess } from './fake-etcd.ts';
import type { JsonObject } from './fake-kube-schema.ts';
import type { Obj, Store } from './fake-kube-store.ts';

export type FakeKubelet = {
  /** Does what is due; true when anything has changed. */
  work(): Promise<boolean>;
  /** The next thing that one Pod waits for, chosen by `pick`; for tests that mix up the order of the world. */
  workOn(pick: (pods: readonly string[]) => string): Promise<boolean>;
  /** Milliseconds until something falls due by itself. */
  nextIn(): number | undefined;
  /** SIGKILL of the container; it starts again. */
  kill(pod: string): void;
  /** The Pod ends for good, as by an eviction; its container is stopped first. */
  evict(pod: string): void;
  /**
   * The node is silent: its processes go, or only nobody reaches them. Its Pods stay as they are, also when they are deleted,
   * as Kubernetes does with them after five minutes.
   */
  loseNode(node: string): void;
  /** The node is back with nothing running on it. */
  restoreNode(node: string): void;
  /** A lost node's object is deleted: Kubernetes gives its Pods up after a while. */
  dropNode(node: string): void;
  /** A person says that a lost node is off: Kubernetes gives its Pods up at once. */
  declareOff(node: string): void;
  /** Nothing new is scheduled there, until `back`. */
  cordon(node: string, back?: 'back'): void;
  /** Pods whose name matches are not scheduled. */
  refuse(pattern: RegExp | undefined): void;
  /** Volumes whose name matches are not bound. */
  starve(pattern: RegExp | undefined): void;
  /** Seeding Pods whose name matches run on and on. */
  hold(pattern: RegExp | undefined): void;
  /** Whoever fetches what lies there ends with these words. */
  spoil(uri: string, words: string): void;
  nodeOf(pod: string): string;
  clientURL(pod: string): string;
  /** The certificate that is shown at this address, as PEM. */
  shown(ip: string, port: number): string;
  /** Name of the disk in the fake etcd that a Pod's data is on. */
  diskOf(pod: string): string;
  /** What was started, in order: Pod and the state that its configuration named. */
  readonly starts: readonly { readonly pod: string; readonly state: string; readonly ran: boolean }[];
};

type Kept = {
  readonly name: string;
  readonly namespace: string;
  readonly node: string;
  readonly ip: string;
  readonly disk: string;
  process: FakeProcess | undefined;
  starts: number;
  startedAt: string;
  restartAt: number | undefined;
  lastExit: FakeExit | undefined;
  /** The exit above has been taken up. */
  ended: boolean;
  evicted: boolean;
  /** Volumes with certificates: the certificate that was last brought, as PEM. Undefined before all were. */
  mounted: ReadonlyMap<string, string> | undefined;
  /** What asked for the last look, and when the next one comes by itself. */
  lookedFor: string | undefined;
  lookAt: number;
};

export type FakeKubeletOptions = {
  readonly store: Store;
  /** The etcd world that a Pod's container belongs to. */
  readonly etcdOf: (pod: Stored<Pod>) => FakeEtcd;
  readonly clock: Clock;
  readonly nodes?: readonly string[];
};

type StoreOrder = { readonly source: StoreLocation; readonly opened?: boolean };

const MANAGER = 'kubelet';
/** Within which a kubelet brings a changed Secret to a Pod by itself. */
const LOOK_MS = 60_000;
/** As long as Pods tolerate by default that their node is unreachable. */
const EVICTION_MS = 300_000;
/** As long as Kubernetes waits whether a node that is gone comes back under its name. */
const ORPHAN_MS = 40_000;

export const createFakeKubelet = (options: FakeKubeletOptions): FakeKubelet => {
  const { store, clock } = options;
  const nodes = options.nodes ?? ['node-0', 'node-1', 'node-2'];
  const lost = new Set<string>();
  /** When the Pods of a lost node are dealt with. */
  const evictions = new Map<string, { readonly at: number; readonly force: boolean }>();
  const kept = new Map<string, Kept>();
  const spoiled = new Map<string, string>();
  const starts: { pod: string; state: string; ran: boolean }[] = [];
  let placed = 0;
  let refused: RegExp | undefined;
  let starved: RegExp | undefined;
  let held: RegExp | undefined;
  let changes = 0;

  store.onChange(() => {
    changes += 1;
  });

  const pods = (): Stored<Pod>[] => store.list(resources.pods) as unknown as Stored<Pod>[];
  const stamp = (): string => new Date(clock.now()).toISOString();
  const at = (resource: Resource, { namespace, name }: { namespace?: string | undefined; name: string }) => ({
    resource,
    namespace,
    name,
  });
  const node = (name: string): Stored<Node> | undefined =>
    store.get({ resource: resources.nodes, name }) as unknown as Stored<Node> | undefined;
  const putNode = (name: string, ready: 'True' | 'Unknown', spec: Node['spec'] = {}): void => {
    const conditions = [{ type: 'Ready', status: ready, lastTransitionTime: stamp() }];
    const metadata = { ...node(name)?.metadata, name, labels: { 'kubernetes.io/hostname': name } };
    store.put(resources.nodes, { metadata, spec, status: { conditions } } as unknown as Obj);
  };
  /** The only node that has this volume on its disk. */
  const pinOf = (volume: Obj | undefined): string | undefined => {
    const name = (volume?.spec as { volumeName?: string } | undefined)?.volumeName;
    const found = name === undefined ? undefined : store.get({ resource: resources.persistentvolumes, name });
    return (found as unknown as PersistentVolume | undefined)?.spec?.nodeAffinity?.required?.nodeSelectorTerms[0]
      ?.matchExpressions?.[0]?.values?.[0];
  };
  const bind = (volume: Obj, pin: string): void => {
    const name = `pv-${volume.metadata.uid}`;
    const term = { matchExpressions: [{ key: 'kubernetes.io/hostname', operator: 'In', values: [pin] }] };
    store.put(resources.persistentvolumes, {
      metadata: { name },
      spec: { nodeAffinity: { required: { nodeSelectorTerms: [term] } } },
    } as unknown as Obj);
    const at = { resource: resources.persistentvolumeclaims, ...pick(volume.metadata) };
    store.write(at, { kind: 'merge', body: { spec: { volumeName: name } }, manager: MANAGER });
    store.write(at, { kind: 'merge', body: { status: { phase: 'Bound' } }, manager: MANAGER }, 'status');
  };
  const pick = ({ namespace, name }: { namespace?: string | undefined; name: string }) => ({ namespace, name });
  const setStatus = (pod: Stored<Pod>, status: NonNullable<Pod['status']>): void => {
    const before = (pod.status ?? {}) as Record<string, unknown>;
    if (Object.entries(status).every(([field, value]) => isDeepStrictEqual(before[field], value))) return;
    store.write(
      at(resources.pods, pod.metadata),
      { kind: 'merge', body: { status } as unknown as JsonObject, manager: MANAGER },
      'status',
    );
  };

  const stopProcess = (own: Kept, how: 'stop' | 'kill'): void => {
    const { process } = own;
    if (process?.running !== true) return;
    const etcd = etcds.get(own);
    if (how === 'stop') etcd?.stop(process.clientURL);
    else etcd?.kill(process.clientURL);
  };
  const etcds = new WeakMap<Kept, FakeEtcd>();

  const claimName = (pod: Stored<Pod>): string | undefined =>
    pod.spec?.volumes?.find(({ name }) => name === DATA_VOLUME)?.persistentVolumeClaim?.claimName;

  const conditions = (pod: Stored<Pod>, said: Record<string, { status: string; message?: string }>): PodCondition[] =>
    Object.entries(said).map(([type, { status, message }]) => {
      const old = pod.status?.conditions?.find((one) => one.type === type);
      return {
        type,
        status,
        ...(message === undefined ? {} : { reason: 'Unschedulable', message }),
        lastTransitionTime: old?.status === status && old.lastTransitionTime ? old.lastTransitionTime : stamp(),
      };
    });

  const schedule = (pod: Stored<Pod>): void => {
    const { namespace, name, uid } = pod.metadata;
    const claim = claimName(pod);
    const volume =
      claim === undefined
        ? undefined
        : store.get({ resource: resources.persistentvolumeclaims, namespace, name: claim });
    const pin = pinOf(volume);
    const usable = nodes.filter((one) => !lost.has(one) && node(one)?.spec?.unschedulable !== true);
    const why =
      refused?.test(name) === true
        ? '0/3 nodes are available: 3 Insufficient memory.'
        : claim !== undefined && volume === undefined
          ? `persistentvolumeclaim "${claim}" not found`
          : volume?.metadata.deletionTimestamp !== undefined
            ? `persistentvolumeclaim "${claim}" is being deleted`
            : starved?.test(name) === true
              ? 'waiting for the volume'
              : pin !== undefined && !usable.includes(pin)
                ? `0/${nodes.length} nodes are available: 1 node(s) had untolerated taint, ${nodes.length - 1} node(s) didn't match PersistentVolume's node affinity.`
                : undefined;
    if (why !== undefined) {
      setStatus(pod, {
        phase: 'Pending',
        conditions: conditions(pod, { PodScheduled: { status: 'False', message: why } }),
      });
      return;
    }
    const chosen = pin ?? usable[placed % usable.length];
    if (chosen === undefined) return;
    placed += 1;
    if (volume !== undefined && pin === undefined) bind(volume, chosen);
    store.write(at(resources.pods, pod.metadata), {
      kind: 'merge',
      body: { spec: { nodeName: chosen } },
      manager: 'scheduler',
    });
    const own: Kept = {
      name,
      namespace: namespace ?? '',
      node: chosen,
      ip: `10.${64 + ((placed >> 16) & 63)}.${(placed >> 8) & 255}.${placed & 255}`,
      // Data lives as long as the volume object, and in memory as long as the Pod object.
      disk: volume?.metadata.uid ?? uid,
      process: undefined,
      starts: 0,
      startedAt: stamp(),
      restartAt: clock.elapsed(),
      lastExit: undefined,
      ended: true,
      evicted: false,
      mounted: undefined,
      lookedFor: undefined,
      lookAt: 0,
    };
    kept.set(uid, own);
    etcds.set(own, options.etcdOf(pod));
  };

  const start = (pod: Stored<Pod>, own: Kept): void => {
    const config = pod.metadata.annotations?.[ANNOTATIONS.config] ?? '';
    const image = pod.spec?.containers.find(({ name }) => name === CONTAINER)?.image ?? '';
    own.restartAt = undefined;
    own.starts += 1;
    own.startedAt = stamp();
    own.ended = false;
    own.process = options.etcdOf(pod).start({
      configFile: config,
      disk: own.disk,
      version: image.slice(image.lastIndexOf(':v') + 2),
      clientURL: `${/^listen-client-urls: "https:/m.test(config) ? 'https' : 'http'}://${own.ip}:${PORTS.client}`,
      metricsURL: `http://${own.ip}:${PORTS.metrics}`,
    });
    const state = /^initial-cluster-state: "(.*)"$/m.exec(config)?.[1] ?? '';
    starts.push({ pod: pod.metadata.name, state, ran: own.process.running });
  };

  /** As of the kubelet: at once after the first end, then ever later. */
  const backOffMs = (own: Kept): number => (own.starts <= 1 ? 0 : Math.min(300_000, 10_000 * 2 ** (own.starts - 2)));

  const containerStatus = (pod: Stored<Pod>, own: Kept, ready: boolean): ContainerStatus => {
    const running = own.process?.running === true;
    const ended = own.lastExit;
    const last =
      ended === undefined
        ? {}
        : {
            lastState: {
              terminated: {
                exitCode: ended.exitCode,
                reason: ended.exitCode === 0 ? 'Completed' : 'Error',
                message: ended.terminationMessage.slice(-2048),
                containerID: `containerd://${pod.metadata.uid}-${running ? own.starts - 1 : own.starts}`,
              },
            },
          };
    return {
      name: CONTAINER,
      image: '',
      imageID: '',
      ready,
      restartCount: Math.max(0, own.starts - 1),
      ...(own.starts === 0 ? {} : { containerID: `containerd://${pod.metadata.uid}-${own.starts}` }),
      state: running
        ? { running: { startedAt: own.startedAt } }
        : {
            waiting:
              own.starts === 0
                ? { reason: 'ContainerCreating' }
                : {
                    reason: 'CrashLoopBackOff',
                    message: `back-off ${backOffMs(own) / 1_000}s restarting failed container=${CONTAINER} pod=${own.name}_${own.namespace}(${pod.metadata.uid})`,
                  },
          },
      ...last,
    };
  };

  /** What a seeding Pod is to fetch. In the fake etcd a stored snapshot is a disk of its own, named by its place. */
  const orderOf = ({ spec }: Stored<Pod>): StoreOrder | undefined => {
    const order = spec?.initContainers
      ?.flatMap(({ env = [] }) => env)
      .find(({ name }) => name === RESTORE_ORDER)?.value;
    return order === undefined ? undefined : (JSON.parse(order) as StoreOrder);
  };

  const certificatesOf = (pod: Stored<Pod>): ReadonlyMap<string, string | undefined> =>
    new Map(
      (pod.spec?.volumes ?? []).flatMap(({ name: volume, secret }) => {
        if (secret?.secretName === undefined) return [];
        const { namespace } = pod.metadata;
        const found = store.get({ resource: resources.secrets, namespace, name: secret.secretName });
        const data = (found as { data?: Record<string, string> } | undefined)?.data?.['tls.crt'];
        return [[volume, data === undefined ? undefined : Buffer.from(data, 'base64').toString()] as const];
      }),
    );

  /** As a kubelet does: everything before the first start, then within a minute, and at once when the Pod changes. */
  const mount = (pod: Stored<Pod>, own: Kept): boolean => {
    const lookedFor = pod.metadata.annotations?.[ANNOTATIONS.certificates];
    if (own.mounted !== undefined && lookedFor === own.lookedFor && clock.elapsed() < own.lookAt) return true;
    const found = certificatesOf(pod);
    const all = [...found].flatMap(([volume, pem]) => (pem === undefined ? [] : [[volume, pem] as const]));
    if (own.mounted === undefined && all.length < found.size) return false;
    own.mounted = new Map([...(own.mounted ?? []), ...all]);
    own.lookedFor = lookedFor;
    own.lookAt = clock.elapsed() + LOOK_MS;
    return true;
  };

  /** Where what a Pod restores comes from. */
  const originOf = (pod: Stored<Pod>): { readonly disk: string; readonly directory?: string } => {
    const { namespace } = pod.metadata;
    const order = orderOf(pod);
    if (order !== undefined) return { disk: locationName(order.source) };
    const source = pod.spec?.volumes?.find(({ name }) => name === 'source')?.persistentVolumeClaim?.claimName ?? '';
    const survivor = store.get({ resource: resources.persistentvolumeclaims, namespace, name: source });
    return { disk: survivor?.metadata.uid ?? '', directory: `${DATA_MOUNT}/${source}` };
  };

  /** What a Pod's own steps restore onto its disk; the revision of their source, if there is data. */
  const restoreInto = (pod: Stored<Pod>, disk: string): bigint | undefined => {
    const words = pod.spec?.initContainers?.find(({ name }) => name === 'restore')?.command ?? [];
    const flag = (name: string): string =>
      words.find((word) => word.startsWith(`--${name}=`))?.slice(name.length + 3) ?? '';
    return options.etcdOf(pod).restore({
      from: originOf(pod),
      to: { disk, directory: `${DATA_MOUNT}/${flag('name')}` },
      name: flag('name'),
      peerURL: flag('initial-advertise-peer-urls'),
      token: flag('initial-cluster-token'),
      bump: BigInt(flag('bump-revision')),
    });
  };

  /** The steps of a seeding Pod, all at once: they end before anybody looks again, or fail and say why. */
  const fill = (pod: Stored<Pod>, own: Kept): void => {
    if (own.starts > 0) return;
    if (held?.test(own.name) === true) {
      setStatus(pod, { phase: 'Running' });
      return;
    }
    own.starts = 1;
    own.restartAt = undefined;
    const order = orderOf(pod);
    const fault = order === undefined ? undefined : spoiled.get(locationName(order.source));
    if (fault !== undefined) {
      setStatus(pod, {
        phase: 'Failed',
        initContainerStatuses: [
          {
            name: 'fetch',
            image: '',
            imageID: '',
            ready: false,
            restartCount: 0,
            state: { terminated: { exitCode: 1, message: fault } },
          },
        ],
      });
      return;
    }
    const revision = restoreInto(pod, own.disk);
    const done = revision !== undefined;
    const message = done
      ? JSON.stringify({
          revision: String(revision),
          sha256: '0'.repeat(64),
          snapshotBytes: 1,
          ...(order?.opened === true ? { keys: String(options.etcdOf(pod).keysOn(originOf(pod))) } : {}),
        })
      : 'no database of etcd';
    setStatus(pod, {
      phase: done ? 'Succeeded' : 'Failed',
      containerStatuses: [
        {
          name: 'report',
          image: '',
          imageID: '',
          ready: false,
          restartCount: 0,
          state: { terminated: { exitCode: done ? 0 : 1, message } },
        },
      ],
    });
  };

  /** Whether this Pod's kubelet had anything to do. */
  const attend = async (pod: Stored<Pod>): Promise<boolean> => {
    const before = changes;
    const { uid, deletionTimestamp, name, namespace } = pod.metadata;
    if (pod.spec?.nodeName === undefined) {
      if (deletionTimestamp === undefined) schedule(pod);
      return changes !== before;
    }
    const own = kept.get(uid);
    if (own === undefined || lost.has(own.node)) return false;
    if (deletionTimestamp !== undefined) {
      stopProcess(own, 'stop');
      store.delete({ resource: resources.pods, namespace, name }, { gracePeriodSeconds: 0 });
      return true;
    }
    if (own.evicted) return false;
    if (pod.metadata.labels?.[LABELS.role] === SEED_ROLE) {
      fill(pod, own);
      return changes !== before;
    }
    const mounted = mount(pod, own);
    const etcd = options.etcdOf(pod);
    if (own.process !== undefined && !own.process.running && !own.ended) {
      own.lastExit = await own.process.ended;
      own.ended = true;
      own.restartAt = clock.elapsed() + backOffMs(own);
    } else if (mounted && own.restartAt !== undefined && own.restartAt <= clock.elapsed()) {
      const isFilled = own.starts > 0 || pod.spec?.initContainers?.some(({ name }) => name === 'restore') !== true;
      if (isFilled || restoreInto(pod, own.disk) !== undefined) start(pod, own);
      else own.restartAt = clock.elapsed() + 10_000;
    }
    const ready =
      own.process?.running === true &&
      (await etcd.probe.readyz(own.process.metricsURL).then(
        ({ ok }) => ok,
        () => false,
      ));
    const status: NonNullable<Pod['status']> = {
      phase: own.starts === 0 ? 'Pending' : 'Running',
      podIP: own.ip,
      conditions: conditions(pod, {
        PodScheduled: { status: 'True' },
        Ready: { status: ready ? 'True' : 'False' },
      }),
      containerStatuses: [containerStatus(pod, own, ready)],
    };
    setStatus(pod, status);
    return changes !== before;
  };

  /** Whoever's object is gone by force has its process killed by the kubelet's garbage collection. */
  const reap = (present: ReadonlySet<string>): void => {
    for (const [uid, own] of kept) {
      if (present.has(uid)) continue;
      stopProcess(own, 'kill');
      kept.delete(uid);
    }
  };

  const byName = (pod: string): { own: Kept; object: Stored<Pod> } => {
    const object = pods().find(({ metadata }) => metadata.name === pod);
    const own = object === undefined ? undefined : kept.get(object.metadata.uid);
    if (object === undefined || own === undefined) throw new TypeError(`no Pod ${pod} is on any node`);
    return { own, object };
  };

  /** What the control plane does with Pods of nodes that are away. */
  const evictDue = (): boolean => {
    const before = changes;
    for (const [away, { at: due, force }] of evictions) {
      if (due > clock.elapsed()) continue;
      evictions.delete(away);
      for (const { spec, metadata } of pods()) {
        if (spec?.nodeName !== away) continue;
        store.delete({ resource: resources.pods, ...pick(metadata) }, force ? { gracePeriodSeconds: 0 } : {});
      }
    }
    return changes !== before;
  };
  for (const name of nodes) if (node(name) === undefined) putNode(name, 'True');

  return {
    work: async () => {
      let any = evictDue();
      const present = pods();
      reap(new Set(present.map(({ metadata }) => metadata.uid)));
      for (const pod of present) if (await attend(pod)) any = true;
      return any;
    },
    workOn: async (pick) => {
      const present = pods();
      reap(new Set(present.map(({ metadata }) => metadata.uid)));
      if (present.length === 0) return false;
      const name = pick(present.map(({ metadata }) => metadata.name));
      const pod = present.find(({ metadata }) => metadata.name === name);
      return pod === undefined ? false : attend(pod);
    },
    nextIn: () => {
      const due = [...kept.values()].flatMap(({ restartAt, node, evicted }) =>
        restartAt === undefined || lost.has(node) || evicted ? [] : [Math.max(0, restartAt - clock.elapsed())],
      );
      for (const pod of pods()) {
        const own = kept.get(pod.metadata.uid);
        if (own?.mounted === undefined || lost.has(own.node) || own.evicted) continue;
        const changed = [...certificatesOf(pod)].some(
          ([volume, pem]) => pem !== undefined && own.mounted?.get(volume) !== pem,
        );
        if (changed) due.push(Math.max(0, own.lookAt - clock.elapsed()));
      }
      for (const { at: evictionAt } of evictions.values()) due.push(Math.max(0, evictionAt - clock.elapsed()));
      return due.length === 0 ? undefined : Math.min(...due);
    },
    kill: (pod) => stopProcess(byName(pod).own, 'kill'),
    evict: (pod) => {
      const { own, object } = byName(pod);
      stopProcess(own, 'stop');
      own.evicted = true;
      setStatus(object, {
        phase: 'Failed',
        reason: 'Evicted',
        conditions: conditions(object, { Ready: { status: 'False' } }),
      });
    },
    cordon: (name, back) => putNode(name, 'True', back === undefined ? { unschedulable: true } : {}),
    loseNode: (away) => {
      lost.add(away);
      evictions.set(away, { at: clock.elapsed() + EVICTION_MS, force: false });
      putNode(away, 'Unknown');
      for (const own of kept.values()) if (own.node === away) stopProcess(own, 'kill');
      for (const pod of pods()) {
        if (pod.spec?.nodeName !== away) continue;
        setStatus(pod, {
          conditions: conditions(pod, { PodScheduled: { status: 'True' }, Ready: { status: 'False' } }),
        });
      }
    },
    restoreNode: (back) => {
      lost.delete(back);
      evictions.delete(back);
      putNode(back, 'True');
    },
    dropNode: (away) => {
      evictions.set(away, { at: clock.elapsed() + ORPHAN_MS, force: true });
      store.vanish({ resource: resources.nodes, name: away });
    },
    declareOff: (away) => {
      evictions.set(away, { at: clock.elapsed(), force: true });
      putNode(away, 'Unknown', { taints: [{ key: 'node.kubernetes.io/out-of-service', effect: 'NoExecute' }] });
    },
    refuse: (pattern) => {
      refused = pattern;
    },
    starve: (pattern) => {
      starved = pattern;
    },
    hold: (pattern) => {
      held = pattern;
    },
    spoil: (uri, words) => {
      spoiled.set(uri, words);
    },
    nodeOf: (pod) => byName(pod).own.node,
    clientURL: (pod) => {
      const { own } = byName(pod);
      return own.process?.clientURL ?? `http://${own.ip}:${PORTS.client}`;
    },
    shown: (ip, port) => {
      const own = [...kept.values()].find((one) => one.ip === ip && one.process?.running === true);
      const pem = own?.mounted?.get(port === PORTS.client ? CLIENT_TLS_VOLUME : PEER_TLS_VOLUME);
      if (pem === undefined) throw new TypeError(`nothing answers at ${ip}:${port}`);
      return pem;
    },
    diskOf: (pod) => byName(pod).own.disk,
    starts,
  };
};
