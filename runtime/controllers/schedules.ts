/** Passes over EtcdSnapshotSchedules. */
import type { EtcdSnapshot } from '../../api/etcdsnapshot.gen.ts';
import type { EtcdSnapshotSchedule, EtcdSnapshotScheduleStatus } from '../../api/etcdsnapshotschedule.gen.ts';
import { ANNOTATIONS, API_VERSION, clusterLabels } from '../../api/names.ts';
import type { Reason } from '../../api/reasons.ts';
import type { Instant } from '../core/observed.ts';
import {
  planSchedule,
  type ScheduledSnapshot,
  type ScheduleObserved,
  type Times,
} from '../core/snapshots/schedule-plan.ts';
import { SCHEDULE_LABEL } from '../core/snapshots/snapshot-job.ts';
import { isFault, type Resource, resources, type Stored } from '../ports/kube.ts';
import { requestOf } from './proofs.ts';
import { type SnapshotWorld, snapshotKind } from './snapshot-jobs.ts';
import { seenCluster } from './snapshots.ts';
import { mergeTo } from './status-patch.ts';
import { clusterKey, FIELD_MANAGER } from './world.ts';

export type ScheduleWorld = SnapshotWorld & {
  /** The times of a cron schedule around `now`. */
  readonly timesOf: (schedule: string, timeZone: string | undefined, now: Instant) => Times;
};

export const scheduleKind = resources.etcdsnapshotschedules as Resource<EtcdSnapshotSchedule>;

/** Once per snapshot; a person who asks again writes anything else. */
const PROVE_BY_SCHEDULE = 'schedule';

const milliseconds = (text: string | undefined, otherwise: number): number =>
  text === undefined ? otherwise : Date.parse(text);

const snapshotsOf = (world: ScheduleWorld, schedule: Stored<EtcdSnapshotSchedule>): readonly Stored<EtcdSnapshot>[] => {
  const { namespace = '', name } = schedule.metadata;
  return world.caches.snapshots
    .byIndex(clusterKey({ namespace, name: schedule.spec.clusterRef.name }))
    .filter(({ metadata }) => metadata.labels?.[SCHEDULE_LABEL] === name);
};

const observeSchedule = (world: ScheduleWorld, schedule: Stored<EtcdSnapshotSchedule>): ScheduleObserved => {
  const { metadata, spec, status } = schedule;
  const now = world.clock.now();
  const cluster = seenCluster(world, metadata.namespace ?? '', spec.clusterRef.name);
  const snapshots = snapshotsOf(world, schedule);
  return {
    now,
    name: metadata.name,
    generation: metadata.generation ?? 0,
    createdAt: milliseconds(metadata.creationTimestamp, now),
    deleting: metadata.deletionTimestamp !== undefined,
    spec,
    status: status ?? {},
    times: world.timesOf(spec.schedule, spec.timeZone, now),
    cluster:
      cluster === undefined || cluster.deleting
        ? 'absent'
        : cluster.paused
          ? 'paused'
          : cluster.clusterID === undefined || cluster.sources.length === 0
            ? 'silent'
            : 'serves',
    snapshots: snapshots.map(
      (one): ScheduledSnapshot => ({
        name: one.metadata.name,
        uid: one.metadata.uid,
        createdAt: milliseconds(one.metadata.creationTimestamp, now),
        deleting: one.metadata.deletionTimestamp !== undefined,
        asked: requestOf(one) !== undefined,
        status: one.status ?? {},
      }),
    ),
    removed: snapshots.flatMap((one) => one.status?.retention?.removed ?? []),
  };
};

const record = async (
  world: ScheduleWorld,
  schedule: Stored<EtcdSnapshotSchedule>,
  status: EtcdSnapshotScheduleStatus,
  signal: AbortSignal,
): Promise<void> => {
  const { name, uid, resourceVersion, namespace = '' } = schedule.metadata;
  world.caches.schedules.observe(
    await world.kube.mergePatch<EtcdSnapshotSchedule>(
      { resource: scheduleKind, namespace, name },
      { metadata: { uid, resourceVersion }, status: mergeTo(schedule.status ?? {}, status) },
      { subresource: 'status', signal, fieldManager: FIELD_MANAGER },
    ),
  );
  for (const now of status.conditions ?? []) {
    const before = schedule.status?.conditions?.find(({ type }) => type === now.type);
    // Ready repeats what one of the others says.
    if (now.type === 'Ready' || before?.reason === now.reason) continue;
    world.announce(
      { kind: 'EtcdSnapshotSchedule', name, namespace, uid },
      {
        type: now.type === 'BackupHealthy' && now.status === 'False' ? 'Warning' : 'Normal',
        reason: now.reason as Reason,
        message: now.message ?? '',
        action: 'Schedule',
      },
    );
  }
};

/** What lies in the store, as the newest snapshot's retention told. */
const withStored = (
  status: EtcdSnapshotScheduleStatus,
  snapshots: readonly Stored<EtcdSnapshot>[],
): EtcdSnapshotScheduleStatus => {
  const [newest] = snapshots
    .filter(({ status: one }) => one?.retention?.count !== undefined)
    .toSorted((a, b) => milliseconds(b.status?.completionTime, 0) - milliseconds(a.status?.completionTime, 0));
  const { count, sizeBytes, oldest } = newest?.status?.retention ?? {};
  if (count === undefined) return status;
  return {
    ...status,
    stored: {
      count,
      ...(sizeBytes === undefined ? {} : { sizeBytes }),
      ...(oldest === undefined ? {} : { oldest }),
    },
  };
};

/** One pass. Returns in how many milliseconds the schedule wants another one, or nothing. */
export const passOverSchedule = async (
  world: ScheduleWorld,
  namespace: string,
  name: string,
  signal: AbortSignal,
): Promise<number | undefined> => {
  const schedule = world.caches.schedules.get(namespace, name);
  if (schedule === undefined) return undefined;
  const seen = observeSchedule(world, schedule);
  const { step, status } = planSchedule(seen);
  try {
    if (step.do === 'Begin') {
      const snapshot: EtcdSnapshot = {
        apiVersion: API_VERSION,
        kind: 'EtcdSnapshot',
        metadata: {
          name: step.name,
          namespace,
          // Owned by nobody: the record of a stored snapshot must outlive a schedule that was deleted by mistake.
          labels: {
            ...clusterLabels(seen.spec.clusterRef.name),
            'app.kubernetes.io/name': 'etcd-snapshot',
            [SCHEDULE_LABEL]: name,
          },
          ...(step.prove ? { annotations: { [ANNOTATIONS.prove]: PROVE_BY_SCHEDULE } } : {}),
        },
        spec: { clusterRef: seen.spec.clusterRef, destination: seen.spec.destination },
      };
      try {
        world.caches.snapshots.observe(
          await world.kube.create(snapshotKind, snapshot, { signal, fieldManager: FIELD_MANAGER }),
        );
      } catch (error) {
        if (!isFault(error, 'AlreadyExists')) throw error;
      }
      return 0;
    }
    if (step.do === 'Forget') {
      for (const one of step.snapshots) {
        await world.kube.delete({ resource: snapshotKind, namespace, name: one.name }, { uid: one.uid, signal });
      }
      return 1_000;
    }
    if (status !== undefined) await record(world, schedule, withStored(status, snapshotsOf(world, schedule)), signal);
  } catch (error) {
    if (isFault(error, 'NotFound', 'Conflict')) return 200;
    throw error;
  }
  return step.recheckMs;
};
