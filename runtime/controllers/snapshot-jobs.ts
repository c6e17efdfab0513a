/** What passes over snapshots and their proofs work with, and how both read the Jobs that do the work. */
import type { Job } from 'kubernetes-types/batch/v1.js';
import type { Pod } from 'kubernetes-types/core/v1.js';
import type { EtcdSnapshot, EtcdSnapshotStatus } from '../../api/etcdsnapshot.gen.ts';
import type { EtcdSnapshotSchedule } from '../../api/etcdsnapshotschedule.gen.ts';
import type { SeenJob, SnapshotProgress } from '../core/snapshots/snapshot-plan.ts';
import { isFault, type Resource, resources, type Stored } from '../ports/kube.ts';
import { unschedulable } from './observe.ts';
import { mergeTo } from './status-patch.ts';
import { type Cache, FIELD_MANAGER, type World } from './world.ts';

export type SnapshotWorld = Pick<World, 'kube' | 'secrets' | 'clock' | 'log' | 'announce'> & {
  readonly caches: Pick<World['caches'], 'quorums' | 'pods' | 'members'> & {
    readonly snapshots: Cache<EtcdSnapshot>;
    readonly jobs: Cache<Job>;
    readonly schedules: Cache<EtcdSnapshotSchedule>;
  };
  readonly agentImage: string | undefined;
  /** What the agent at this address says of its progress; undefined where it says nothing. */
  readonly askProgress: (url: string, signal: AbortSignal) => Promise<SnapshotProgress | undefined>;
};

export const snapshotKind = resources.etcdsnapshots as Resource<EtcdSnapshot>;

export const jobState = ({ status }: Stored<Job>): Pick<SeenJob, 'state' | 'message'> => {
  const condition = (type: string) => status?.conditions?.find((one) => one.type === type && one.status === 'True');
  const failure = condition('Failed');
  const state = condition('Complete') !== undefined ? 'complete' : failure !== undefined ? 'failed' : 'running';
  return { state, message: failure?.message };
};

export const podsOfJob = async (
  world: SnapshotWorld,
  { metadata: { namespace, uid } }: Stored<Job>,
  signal: AbortSignal,
): Promise<readonly Stored<Pod>[]> => {
  // Not by its name: a Job of the same name that was before may have left a Pod on a node that does not answer.
  const labelSelector = `batch.kubernetes.io/controller-uid=${uid}`;
  return (await world.kube.list(resources.pods, { namespace, labelSelector, signal })).items;
};

export const newestPod = (pods: readonly Stored<Pod>[]): Stored<Pod> | undefined =>
  pods.toSorted(
    (a, b) => Date.parse(b.metadata.creationTimestamp ?? '') - Date.parse(a.metadata.creationTimestamp ?? ''),
  )[0];

/** What Kubernetes calls every start of a Pod. */
const STARTING = ['ContainerCreating', 'PodInitializing'];

export const waitingOf = (pod: Stored<Pod>): string | undefined => {
  const { status } = pod;
  const waiting = [...(status?.initContainerStatuses ?? []), ...(status?.containerStatuses ?? [])]
    .map(({ state }) => state?.waiting)
    .find((one) => one?.reason !== undefined && !STARTING.includes(one.reason));
  if (waiting !== undefined) {
    return `${waiting.reason}${waiting.message === undefined ? '' : `: ${waiting.message}`}`;
  }
  return unschedulable(pod);
};

/** Writes what is not the same already. Fails with a Conflict where somebody else has written in the meantime. */
export const writeStatus = async (
  { kube, caches }: SnapshotWorld,
  { metadata: { name, namespace = '', uid, resourceVersion }, status: before = {} }: Stored<EtcdSnapshot>,
  status: EtcdSnapshotStatus,
  signal: AbortSignal,
): Promise<void> => {
  caches.snapshots.observe(
    await kube.mergePatch<EtcdSnapshot>(
      { resource: snapshotKind, namespace, name },
      { metadata: { uid, resourceVersion }, status: mergeTo(before, status) },
      { subresource: 'status', signal, fieldManager: FIELD_MANAGER },
    ),
  );
};

/** Returns in how many milliseconds to look again. */
export const startJob = async ({ kube, caches }: SnapshotWorld, job: Job, signal: AbortSignal): Promise<number> => {
  try {
    caches.jobs.observe(await kube.create(resources.jobs, job, { signal, fieldManager: FIELD_MANAGER }));
    return 0;
  } catch (error) {
    // A Job of this name that is not ours belongs to a snapshot that was deleted, and goes with it.
    if (!isFault(error, 'AlreadyExists')) throw error;
    return 1_000;
  }
};

/** After a write that somebody else's came before. */
export const LOOK_AGAIN_MS = 200;

/** Whether a status was written; not where the object was changed or deleted meanwhile, which another pass looks at. */
export const recorded = async (write: Promise<void>): Promise<boolean> => {
  try {
    await write;
    return true;
  } catch (error) {
    if (isFault(error, 'NotFound', 'Conflict')) return false;
    throw error;
  }
};

/** What is done about the Job that is there, or that none is. Returns in how many milliseconds to look again, or nothing. */
export const withoutNewJob = async (
  { kube }: SnapshotWorld,
  job: { readonly namespace: string; readonly name: string },
  step:
    | { readonly do: 'Wait'; readonly recheckMs?: number }
    | { readonly do: 'DeleteJob'; readonly uid: string }
    | { readonly do: 'Nothing' },
  signal: AbortSignal,
): Promise<number | undefined> => {
  if (step.do === 'Wait') return step.recheckMs;
  if (step.do === 'Nothing') return undefined;
  // In the background: an orphaned Pod would keep its volume.
  const options = { uid: step.uid, propagationPolicy: 'Background', signal } as const;
  await kube.delete({ resource: resources.jobs, ...job }, options);
  return 1_000;
};
