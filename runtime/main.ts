/** The runtime's process: flags, watches, the lease, the queue. */
import { randomInt } from 'node:crypto';
import { hostname } from 'node:os';
import { matchesGlob } from 'node:path';
import { Command, InvalidArgumentError } from 'commander';
import type { Node, PersistentVolumeClaim, Pod } from 'kubernetes-types/core/v1.js';
import { pino } from 'pino';
import type { EtcdMember } from '../api/etcdmember.gen.ts';
import type { EtcdRestore } from '../api/etcdrestore.gen.ts';
import type { EtcdSnapshot } from '../api/etcdsnapshot.gen.ts';
import { API_VERSION, LABELS, SEED_ROLE } from '../api/names.ts';
import release from '../package.json' with { type: 'json' };
import { askProgress } from './adapters/agent-progress.ts';
import { timesOf } from './adapters/calendar.ts';
import { createEtcdClients } from './adapters/etcd/clients.ts';
import { createEtcdHealthProbe } from './adapters/etcd/health-probe.ts';
import { handshake } from './adapters/handshake.ts';
import { createEventRecorder } from './adapters/kube/events.ts';
import { kubeAccess } from './adapters/kube/kube-access.ts';
import { createKube } from './adapters/kube/kube-client.ts';
import { contendForLease } from './adapters/kube/leader-lease.ts';
import { createNamedSecrets } from './adapters/kube/named-secrets.ts';
import { startWatchCache, type WatchCache } from './adapters/kube/watch-cache.ts';
import { tracingFromEnv } from './adapters/otel/tracing-from-env.ts';
import { systemClock } from './adapters/system-clock.ts';
import { readTlsSecret } from './adapters/tls-secret.ts';
import { countEndings, createBackupMetrics, tellBackups } from './controllers/backup-metrics.ts';
import { createDialler } from './controllers/dialler.ts';
import { serveHealth, serveMetrics } from './controllers/endpoints.ts';
import { countClusters, createMetrics } from './controllers/metrics.ts';
import { seenNode, trimNode } from './controllers/observe-nodes.ts';
import { ownImage } from './controllers/own-image.ts';
import { createPasses } from './controllers/pass.ts';
import { passOverRestore, type RestoreWorld, restoreKind } from './controllers/restores.ts';
import { passOverSchedule, type ScheduleWorld, scheduleKind } from './controllers/schedules.ts';
import { snapshotKind } from './controllers/snapshot-jobs.ts';
import { passOverSnapshot } from './controllers/snapshots.ts';
import { createWorkQueue } from './controllers/work-queue.ts';
import { clusterKey, clusterOf, kinds, type World } from './controllers/world.ts';
import { SNAPSHOT_LABEL, SNAPSHOT_OF_LABEL } from './core/snapshots/agent-job.ts';
import { SCHEDULE_LABEL } from './core/snapshots/snapshot-job.ts';
import { type KubeObject, resources, type Stored } from './ports/kube.ts';

const positive = (text: string): number => {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 1) throw new InvalidArgumentError('give a whole number above zero');
  return value;
};

const options = new Command('etcd-operator-runtime')
  .description('Keeps etcd clusters: membership, Pods, volumes, identity.')
  .option('--namespace <name>', 'watch this namespace only; absent: all')
  .option('--clusters <glob>', 'act on clusters whose namespace/name matches, such as staging-*/*; absent: all', '*/*')
  .option('--lease-namespace <name>', 'where the leader lease lives; absent: the namespace of the Pod')
  .option('--lease-name <name>', 'name of the leader lease', 'etcd-operator-runtime')
  .option('--agent-image <image>', 'what Jobs and seeding Pods run from; absent: the image of this Pod')
  .option('--health-address <address>', 'where /livez and /readyz are served', ':8081')
  .option('--metrics-address <address>', 'where /metrics is served', ':8080')
  .option('--workers <number>', 'clusters worked on at a time', positive, 8)
  .option('--node-patience <seconds>', 'replace a member whose node has not been ready for so long', positive, 600)
  .option(
    '--memory-node-patience <seconds>',
    'the same for a member that keeps its data in memory, and for a volume that is being filled',
    positive,
    60,
  )
  .option('--log-level <level>', 'debug, info, warn or error', 'info')
  .parse()
  .opts<{
    namespace?: string;
    clusters: string;
    leaseNamespace?: string;
    leaseName: string;
    healthAddress: string;
    metricsAddress: string;
    workers: number;
    nodePatience: number;
    memoryNodePatience: number;
    agentImage?: string;
    logLevel: string;
  }>();

const log = pino({
  level: options.logLevel,
  base: { app: 'etcd-operator-runtime' },
  timestamp: pino.stdTimeFunctions.isoTime,
});

// A lost promise is a defect: nobody knows what was not done. The process ends and begins again from what is recorded.
process.on('unhandledRejection', (error) => {
  log.fatal({ err: error }, 'unhandled rejection');
  process.exit(1);
});

const clock = systemClock;
const metrics = createMetrics();
const backupMetrics = createBackupMetrics(metrics.registry);
const access = await kubeAccess();
const kube = createKube({
  access,
  userAgent: 'etcd-operator-runtime',
  onRequest: ({ verb, resource, status, ms }) => {
    metrics.requests.inc({ verb, resource, code: status });
    if (verb !== 'watch') metrics.requestSeconds.observe({ verb }, ms / 1_000);
  },
  onWarning: (warning) => log.warn({ warning }, 'the API server warns'),
});
const identity = process.env.POD_NAME ?? `${hostname()}-${process.pid}`;
const events = createEventRecorder({
  kube,
  component: 'etcd-operator-runtime',
  instance: identity,
  onDropped: () => metrics.eventsDropped.inc(),
});

/** A cluster's objects find their way to its key by label; our own kinds also by what they are. */
const keyByLabel = ({ metadata }: Stored<KubeObject>): string | undefined => {
  const name = metadata.labels?.[LABELS.cluster];
  return name === undefined || metadata.namespace === undefined
    ? undefined
    : clusterKey({ namespace: metadata.namespace, name });
};

const memberKey = ({ metadata, spec }: Stored<EtcdMember>): string =>
  clusterKey({ namespace: metadata.namespace ?? '', name: spec.clusterName });
const quorumKey = ({ metadata }: Stored<KubeObject>): string =>
  clusterKey({ namespace: metadata.namespace ?? '', name: metadata.name });

const watch = <T extends KubeObject>(
  resource: Parameters<typeof startWatchCache<T>>[0]['resource'],
  index: (object: Stored<T>) => string | undefined,
  labelSelector?: string,
  trim?: (object: Stored<T>) => void,
): WatchCache<T> =>
  startWatchCache<T>({
    kube,
    resource,
    ...(options.namespace === undefined || !resource.namespaced ? {} : { namespace: options.namespace }),
    ...(trim === undefined ? {} : { trim }),
    ...(labelSelector === undefined ? {} : { labelSelector }),
    index,
    onIncident: (incident) => {
      metrics.watchIncidents.inc({ resource: incident.resource, what: incident.what });
      if (incident.what === 'failed') {
        log.warn(
          { resource: incident.resource, reason: incident.fault.reason, message: incident.fault.message },
          'watch failed',
        );
      }
      if (incident.what === 'missed' || incident.what === 'listener-failed') log.error(incident, 'watch incident');
    },
  });

const referredKey = ({ metadata, spec }: Stored<KubeObject & { spec: { clusterRef: { name: string } } }>): string =>
  clusterKey({ namespace: metadata.namespace ?? '', name: spec.clusterRef.name });

const caches = {
  members: watch(kinds.members, memberKey),
  quorums: watch(kinds.quorums, quorumKey),
  pods: watch<Pod>(resources.pods, keyByLabel, LABELS.member),
  volumes: watch<PersistentVolumeClaim>(
    resources.persistentvolumeclaims,
    keyByLabel,
    `${LABELS.cluster},${LABELS.member}`,
  ),
  budgets: watch(resources.poddisruptionbudgets, keyByLabel, LABELS.cluster),
  nodes: watch<Node>(resources.nodes, () => undefined, undefined, trimNode),
  restores: watch<EtcdRestore>(restoreKind, referredKey),
  snapshots: watch<EtcdSnapshot>(snapshotKind, referredKey),
};
const snapshotCaches = {
  schedules: watch(scheduleKind, referredKey),
  jobs: watch(
    resources.jobs,
    ({ metadata: { namespace = '', labels } }) => clusterKey({ namespace, name: labels?.[SNAPSHOT_OF_LABEL] ?? '' }),
    SNAPSHOT_LABEL,
  ),
};
const watches = Object.values({ ...caches, ...snapshotCaches }) as readonly Pick<
  WatchCache<KubeObject>,
  'resource' | 'hasSynced' | 'silentMs' | 'stuckMs' | 'stop' | 'synced'
>[];

const tracing = await tracingFromEnv(process.env, {
  version: release.version,
  resource: {
    'service.name': 'etcd-operator-runtime',
    'service.instance.id': identity,
    'k8s.pod.name': identity,
    ...(access.namespace === undefined ? {} : { 'k8s.namespace.name': access.namespace }),
  },
  onTrouble: (message) => log.warn({ message }, 'tracing'),
});
if (tracing !== undefined) log.info('traces are exported');

const alphabet = 'abcdefghijklmnopqrstuvwxyz0123456789';
const etcd = createEtcdClients();
const agentImage =
  options.agentImage ?? (await ownImage(kube, { namespace: access.namespace, pod: process.env.POD_NAME }));
const secrets = createNamedSecrets({
  kube,
  onIncident: ({ what }) => metrics.watchIncidents.inc({ resource: 'secrets', what }),
});
const world: World = {
  kube,
  caches: { ...caches, schedules: snapshotCaches.schedules },
  etcd,
  probe: createEtcdHealthProbe(),
  handshake,
  agentImage,
  secrets,
  dialler: createDialler({ secrets, etcd, read: readTlsSecret }),
  clock,
  log,
  announce: ({ kind, name, namespace, uid }, { type, reason, message, action, essential }) =>
    events.record(
      { apiVersion: API_VERSION, kind, metadata: { name, namespace, uid } },
      { type, reason, message, action, essential },
    ),
  drawToken: () => Array.from({ length: 5 }, () => alphabet[randomInt(alphabet.length)]).join(''),
  revisions: new Map(),
  lastSeen: new Map(),
  deleted: new Set(),
  patience: { nodeMs: options.nodePatience * 1_000, memoryNodeMs: options.memoryNodePatience * 1_000 },
  apiServer: access.server.origin,
  tracing,
};

const snapshotWorld: ScheduleWorld & RestoreWorld = {
  ...world,
  caches: { ...caches, ...snapshotCaches },
  askProgress,
  timesOf,
  onRestoreEnd: (outcome, reason) => metrics.restores.inc({ outcome, reason }),
};

let leading = false;
let stopping = false;
const STUCK_MS = 300_000;

const endpoints = {
  livez: () => {
    const dead = watches.find((cache) => cache.stuckMs() > STUCK_MS);
    return dead === undefined
      ? { ok: true, why: 'ok' }
      : {
          ok: false,
          why: `the watch of ${dead.resource.plural} has done nothing for ${Math.round(dead.stuckMs() / 1_000)} s`,
        };
  },
  readyz: () => {
    const late = watches.find((cache) => !cache.hasSynced());
    if (stopping) return { ok: false, why: 'stopping' };
    return late === undefined
      ? { ok: true, why: leading ? 'ok, leading' : 'ok, standing by' }
      : { ok: false, why: `the first list of ${late.resource.plural} is not there yet` };
  },
  metrics: async () => {
    metrics.leads.set(leading ? 1 : 0);
    for (const cache of watches) metrics.watchAge.set({ resource: cache.resource.plural }, cache.silentMs() / 1_000);
    countClusters(metrics, caches.quorums.list(), clock.now());
    tellBackups(backupMetrics, snapshotCaches.schedules.list());
    metrics.certificateExpiry.reset();
    for (const { cluster, secret, notAfter } of world.dialler.expiries()) {
      metrics.certificateExpiry.set({ namespace: cluster.namespace, cluster: cluster.name, secret }, notAfter / 1_000);
    }
    const stats = queue.stats();
    metrics.queue.set({ state: 'ready' }, stats.ready);
    metrics.queue.set({ state: 'delayed' }, stats.delayed);
    metrics.queue.set({ state: 'running' }, stats.running);
    metrics.queueAge.set(stats.oldestReadyMs / 1_000);
    return { type: metrics.registry.contentType, text: await metrics.registry.metrics() };
  },
};

/** Every cluster is looked at now and then, rarely enough that five hundred settled ones stay cheap. */
const settledMs = (): number => {
  const base = Math.min(60_000, Math.max(10_000, caches.quorums.list().length * 120));
  return base * (0.9 + Math.random() * 0.2);
};
const passes = createPasses(world, settledMs, {
  onChangeEnd: ({ kind, outcome, seconds }) => {
    metrics.changes.inc({ kind, outcome });
    metrics.changeSeconds.observe({ kind }, seconds);
  },
  onLeaderChange: () => metrics.leaderChanges.inc(),
});

const queue = createWorkQueue({
  workers: options.workers,
  clock,
  work: async (key, signal) => {
    const cluster = clusterOf(key);
    if (caches.quorums.get(cluster.namespace, cluster.name) === undefined && caches.members.byIndex(key).length === 0) {
      passes.forget(cluster);
      world.lastSeen.delete(key);
      world.dialler.forget(cluster);
      queue.forget(key);
      return undefined;
    }
    const { outcome, decision, reason, againMs } = await passes.run(cluster, signal);
    metrics.passes.inc({ outcome });
    metrics.steps.inc({ step: decision.step.do, outcome, reason: reason ?? '' });
    if (outcome === 'vetoed') metrics.vetoes.inc();
    log.debug(
      {
        cluster: key,
        rule: decision.rule,
        step: decision.step,
        seen: decision.sketch,
        tried: decision.tried,
        outcome,
        againMs,
      },
      'pass',
    );
    return againMs;
  },
  onOutcome: ({ key, ranMs, error, failures }) => {
    metrics.passSeconds.observe(ranMs / 1_000);
    if (error === undefined) return;
    metrics.passes.inc({ outcome: 'failed' });
    log.error({ cluster: key, failures, err: error }, 'pass failed');
  },
});

/** For objects that are worked on one by one, not with their cluster. */
const queueOf = (
  what: string,
  cache: Pick<WatchCache<KubeObject>, 'get'>,
  pass: (
    world: ScheduleWorld & RestoreWorld,
    namespace: string,
    name: string,
    signal: AbortSignal,
  ) => Promise<number | undefined>,
) => {
  const own = createWorkQueue({
    workers: options.workers,
    clock,
    work: (key, signal) => {
      const { namespace, name } = clusterOf(key);
      if (cache.get(namespace, name) === undefined) own.forget(key);
      return pass(snapshotWorld, namespace, name, signal);
    },
    onOutcome: ({ key, error, failures }) => {
      if (error !== undefined) log.error({ [what]: key, failures, err: error }, `pass over a ${what} failed`);
    },
  });
  const enqueue = (namespace: string, name: string): void => {
    const key = clusterKey({ namespace, name });
    if (matchesGlob(key, options.clusters)) own.enqueue(key);
  };
  return { enqueue, stop: own.stop };
};
const snapshotQueue = queueOf('snapshot', caches.snapshots, passOverSnapshot);
const scheduleQueue = queueOf('schedule', snapshotCaches.schedules, passOverSchedule);
const restoreQueue = queueOf('restore', caches.restores, passOverRestore);

const health = await serveHealth(endpoints, options.healthAddress);
const metricsServer = await serveMetrics(endpoints, options.metricsAddress);

await Promise.all(watches.map(({ synced }) => synced));
log.info({ quorums: caches.quorums.list().length, members: caches.members.list().length }, 'caches filled');

const lease = contendForLease({
  kube,
  namespace: options.leaseNamespace ?? access.namespace ?? 'default',
  name: options.leaseName,
  identity,
  onIncident: (incident) => log.info(incident, 'lease'),
});

const stop = async (why: string): Promise<void> => {
  if (stopping) return;
  stopping = true;
  log.info({ why }, 'stopping');
  await Promise.all([queue.stop(), snapshotQueue.stop(), scheduleQueue.stop(), restoreQueue.stop()]);
  await Promise.all([events.flush(), tracing?.close()]);
  await lease.release();
  await Promise.all([...watches.map((cache) => cache.stop()), secrets.stop()]);
  etcd.close();
  health.close();
  metricsServer.close();
  access.close();
  process.exit(why === 'lease lost' ? 1 : 0);
};
process.on('SIGTERM', () => void stop('SIGTERM'));
process.on('SIGINT', () => void stop('SIGINT'));

await lease.acquired;
lease.signal.addEventListener('abort', () => void stop('lease lost'));
leading = true;

const enqueue = (key: string): void => {
  if (matchesGlob(key, options.clusters)) queue.enqueue(key);
};
const enqueueByKey =
  <T extends KubeObject>(index: (object: Stored<T>) => string | undefined) =>
  (_: unknown, before: Stored<T> | undefined, after: Stored<T> | undefined): void => {
    for (const object of [before, after]) {
      const key = object === undefined ? undefined : index(object);
      if (key !== undefined) enqueue(key);
    }
  };

caches.members.onChange(enqueueByKey(memberKey));
caches.quorums.onChange(enqueueByKey(quorumKey));
caches.pods.onChange(enqueueByKey(keyByLabel));
caches.volumes.onChange(enqueueByKey(keyByLabel));
caches.budgets.onChange(enqueueByKey(keyByLabel));
// A kubelet's heartbeats change a Node every few minutes; only what they say about being there is of interest.
caches.nodes.onChange(({ name }, before, after) => {
  const state = (node: Stored<Node> | undefined): string | undefined =>
    node === undefined ? undefined : `${seenNode(node)?.is ?? 'silent'} ${node.spec?.unschedulable === true}`;
  if (state(before) === state(after)) return;
  for (const pod of caches.pods.list()) {
    if (pod.spec?.nodeName !== name) continue;
    enqueue(keyByLabel(pod) ?? '');
    restoresOf(keyByLabel(pod));
  }
});
secrets.onChange(enqueue);
for (const quorum of caches.quorums.list()) enqueue(quorumKey(quorum));
for (const member of caches.members.list()) enqueue(memberKey(member));

const restoresOf = (cluster: string | undefined): void => {
  if (cluster === undefined) return;
  for (const { metadata } of caches.restores.byIndex(cluster)) {
    restoreQueue.enqueue(metadata.namespace ?? '', metadata.name);
  }
};
caches.restores.onChange(enqueueByKey(referredKey));
caches.restores.onChange(({ namespace, name }) => restoreQueue.enqueue(namespace, name));
caches.quorums.onChange(({ namespace, name }) => restoresOf(clusterKey({ namespace, name })));
caches.volumes.onChange((_, before, after) => {
  const volume = after ?? before;
  if (volume !== undefined) restoresOf(keyByLabel(volume));
});
// The Pod that fills a volume is of a member, so that it is in the same cache; what it complains of is told by its restore.
caches.pods.onChange((_, before, after) => {
  const pod = after ?? before;
  if (pod?.metadata.labels?.[LABELS.role] === SEED_ROLE) restoresOf(keyByLabel(pod));
});
// One that was not complete yet may be what a restore waits for.
caches.snapshots.onChange((_, before, after) => {
  const snapshot = after ?? before;
  if (snapshot === undefined || caches.restores.byIndex(referredKey(snapshot)).length === 0) return;
  enqueue(referredKey(snapshot));
  restoresOf(referredKey(snapshot));
});
for (const { metadata } of caches.restores.list()) restoreQueue.enqueue(metadata.namespace ?? '', metadata.name);

caches.snapshots.onChange(({ namespace, name }, before, after) => {
  countEndings(backupMetrics, before, after);
  snapshotQueue.enqueue(namespace, name);
});
// Of interest to a cluster that has lost its quorum, and to no other.
caches.snapshots.onChange((_, before, after) => {
  const of = after ?? before;
  if (of === undefined) return;
  const quorum = caches.quorums.get(of.metadata.namespace ?? '', of.spec.clusterRef.name);
  if (quorum?.status?.phase === 'QuorumLost') enqueue(referredKey(of));
});
snapshotCaches.jobs.onChange(({ namespace }, before, after) => {
  const name = (after ?? before)?.metadata.labels?.[SNAPSHOT_LABEL];
  if (name !== undefined) snapshotQueue.enqueue(namespace, name);
});
for (const { metadata } of caches.snapshots.list()) snapshotQueue.enqueue(metadata.namespace ?? '', metadata.name);

snapshotCaches.schedules.onChange(({ namespace, name }) => scheduleQueue.enqueue(namespace, name));
caches.snapshots.onChange(({ namespace }, before, after) => {
  const name = (after ?? before)?.metadata.labels?.[SCHEDULE_LABEL];
  if (name !== undefined) scheduleQueue.enqueue(namespace, name);
});
for (const { metadata } of snapshotCaches.schedules.list())
  scheduleQueue.enqueue(metadata.namespace ?? '', metadata.name);
// What could not be taken yet may be possible now.
caches.quorums.onChange(({ namespace, name }) => {
  const cluster = clusterKey({ namespace, name });
  for (const { metadata, status } of caches.snapshots.byIndex(cluster)) {
    if (status?.phase === undefined || status.phase === 'Pending') snapshotQueue.enqueue(namespace, metadata.name);
  }
  for (const { metadata } of snapshotCaches.schedules.byIndex(cluster)) scheduleQueue.enqueue(namespace, metadata.name);
});
