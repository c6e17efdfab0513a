/** Passes over EtcdRestores: each tells in its status what the record of its cluster says of it. */
import type { Pod } from 'kubernetes-types/core/v1.js';
import type { EtcdRestore, EtcdRestoreStatus } from '../../api/etcdrestore.gen.ts';
import { ANNOTATIONS } from '../../api/names.ts';
import type { Reason } from '../../api/reasons.ts';
import type { SeenSeed } from '../core/observed.ts';
import { restoreStatus } from '../core/restore-report.ts';
import { sourceOf } from '../core/restores.ts';
import { isAway } from '../core/rules/lost-nodes.ts';
import { isSeedPod, seedPodName } from '../core/seeding.ts';
import { isFault, type Resource, resources, type Stored } from '../ports/kube.ts';
import { seenSeed, unschedulable } from './observe.ts';
import { hostOf } from './observe-nodes.ts';
import { mergeTo } from './status-patch.ts';
import { clusterKey, FIELD_MANAGER, type World } from './world.ts';

export const restoreKind = resources.etcdrestores as Resource<EtcdRestore>;

export type RestoreWorld = Pick<World, 'kube' | 'clock' | 'log' | 'announce' | 'agentImage'> & {
  readonly caches: Pick<World['caches'], 'quorums' | 'pods' | 'nodes' | 'volumes' | 'restores' | 'snapshots'>;
  /** Once, when it has ended. */
  readonly onRestoreEnd?: (outcome: 'Complete' | 'Failed', reason: string) => void;
};

const RETRY_MS = 200;

const record = async (
  world: RestoreWorld,
  { metadata, status: before }: Stored<EtcdRestore>,
  status: EtcdRestoreStatus,
  signal: AbortSignal,
): Promise<void> => {
  const { name, uid, resourceVersion } = metadata;
  const namespace = metadata.namespace ?? '';
  world.caches.restores.observe(
    await world.kube.mergePatch<EtcdRestore>(
      { resource: restoreKind, namespace, name },
      { metadata: { uid, resourceVersion }, status: mergeTo(before ?? {}, status) },
      { subresource: 'status', signal, fieldManager: FIELD_MANAGER },
    ),
  );
  const ready = status.conditions?.find(({ type }) => type === 'Ready');
  const old = before?.conditions?.find(({ type }) => type === 'Ready');
  const { phase } = status;
  if (phase !== before?.phase && (phase === 'Complete' || phase === 'Failed')) {
    world.onRestoreEnd?.(phase, ready?.reason ?? '');
  }
  if (ready === undefined || (ready.reason === old?.reason && phase === before?.phase)) return;
  world.log.info({ restore: `${namespace}/${name}`, phase, reason: ready.reason, message: ready.message }, 'restore');
  world.announce(
    { kind: 'EtcdRestore', name, namespace, uid },
    {
      type: phase === 'Failed' ? 'Warning' : 'Normal',
      reason: ready.reason as Reason,
      message: ready.message ?? '',
      action: 'Restore',
    },
  );
};

/** With the scheduler's words where it finds no node: without them the restore would seem to go on. */
const seedIn = (pod: Stored<Pod>): SeenSeed | undefined => {
  const seen = seenSeed(pod);
  return seen === undefined ? undefined : { ...seen, trouble: seen.trouble ?? unschedulable(pod) };
};

/** Pods of a cluster whose nodes are away, by the name of their node. */
const podsAway = async (
  world: RestoreWorld,
  cluster: string,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, string>> => {
  const placed = world.caches.pods
    .byIndex(cluster)
    .flatMap(({ metadata, spec }) => (spec?.nodeName === undefined ? [] : [[metadata.name, spec.nodeName] as const]));
  const seen = await Promise.all(placed.map(async ([, node]) => isAway(await hostOf(world, node, signal))));
  return new Map(placed.filter((_, index) => seen[index] === true));
};

/** One pass. Returns in how many milliseconds the restore wants another one, or nothing. */
export const passOverRestore = async (
  world: RestoreWorld,
  namespace: string,
  name: string,
  signal: AbortSignal,
): Promise<number | undefined> => {
  const { caches } = world;
  const restore = caches.restores.get(namespace, name);
  if (restore === undefined || restore.metadata.deletionTimestamp !== undefined) return undefined;
  const { spec, status = {}, metadata } = restore;
  const quorum = caches.quorums.get(namespace, spec.clusterRef.name);
  const { restoring } = quorum?.status ?? {};
  const seed =
    restoring?.restoreUID === metadata.uid
      ? caches.pods.get(namespace, seedPodName(restoring.target, restoring.incarnation))
      : undefined;
  const cluster = clusterKey({ namespace, name: spec.clusterRef.name });
  const away =
    restoring?.restoreUID === metadata.uid ? await podsAway(world, cluster, signal) : new Map<string, string>();
  const next = restoreStatus({
    now: world.clock.now(),
    uid: metadata.uid,
    generation: metadata.generation ?? 0,
    clusterID: spec.clusterID,
    status,
    source: sourceOf(spec, caches.snapshots.get(namespace, spec.source.snapshotRef?.name ?? '')),
    quorum: quorum === undefined ? undefined : { spec: quorum.spec, status: quorum.status ?? {} },
    seed: seed === undefined ? undefined : seedIn(seed),
    away: {
      seedNode: away.get(seed?.metadata.name ?? ''),
      members: [...away]
        .filter(([name]) => !isSeedPod({ name }))
        .map(([name, node]) => `${name} on node ${node}`)
        .toSorted(),
    },
    volumes: caches.volumes
      .byIndex(cluster)
      .filter(
        (volume) =>
          volume.metadata.annotations?.[ANNOTATIONS.clusterID] === spec.clusterID &&
          volume.metadata.deletionTimestamp === undefined,
      )
      .map((volume) => volume.metadata.name)
      .toSorted(),
    agentImage: world.agentImage,
  });
  if (next === undefined) return undefined;
  try {
    await record(world, restore, next, signal);
  } catch (error) {
    if (isFault(error, 'NotFound', 'Conflict')) return RETRY_MS;
    throw error;
  }
  return undefined;
};
