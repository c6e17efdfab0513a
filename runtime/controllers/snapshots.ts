/** Passes over EtcdSnapshots: gathers what is known of one, has it planned, and carries the step out. */
import type { Job } from 'kubernetes-types/batch/v1.js';
import type { Pod } from 'kubernetes-types/core/v1.js';
import type { EtcdSnapshot, EtcdSnapshotStatus } from '../../api/etcdsnapshot.gen.ts';
import { addressURL, clientURL, inUseName, LABELS, ROLE_VOTER } from '../../api/names.ts';
import type { Reason } from '../../api/reasons.ts';
import { known, unknown } from '../core/observed.ts';
import { ManifestUnreadable, parseManifest } from '../core/snapshots/manifest.ts';
import {
  AGENT_PORT,
  SCHEDULE_LABEL,
  type SnapshotJobOf,
  snapshotJob,
  snapshotJobName,
} from '../core/snapshots/snapshot-job.ts';
import {
  type AgentReport,
  planSnapshot,
  type SeenCluster,
  type SeenJob,
  type SnapshotObserved,
} from '../core/snapshots/snapshot-plan.ts';
import type { Stored } from '../ports/kube.ts';
import { rootSecretOf } from './in-use-secrets.ts';
import { passOverProof } from './proofs.ts';
import {
  jobState,
  LOOK_AGAIN_MS,
  newestPod,
  podsOfJob,
  recorded,
  type SnapshotWorld,
  startJob,
  waitingOf,
  withoutNewJob,
  writeStatus,
} from './snapshot-jobs.ts';
import { clusterKey } from './world.ts';

const milliseconds = (time: string | undefined, otherwise: number): number =>
  time === undefined ? otherwise : Date.parse(time);

export const seenCluster = (
  { caches, secrets }: SnapshotWorld,
  namespace: string,
  name: string,
): SeenCluster | undefined => {
  const quorum = caches.quorums.get(namespace, name);
  if (quorum === undefined) return undefined;
  const { tls } = quorum.spec;
  const rootSecret = rootSecretOf(secrets, { namespace, name }, quorum);
  const uid = quorum.metadata.ownerReferences?.find(({ kind }) => kind === 'EtcdCluster')?.uid;
  return {
    clusterUID: uid ?? quorum.metadata.uid,
    clusterID: quorum.status?.clusterID,
    paused: quorum.spec.replicas === 0,
    deleting: quorum.metadata.deletionTimestamp !== undefined,
    sources: caches.pods
      .byIndex(clusterKey({ namespace, name }))
      .filter(
        ({ metadata, status }) =>
          metadata.labels?.[LABELS.role] === ROLE_VOTER &&
          metadata.deletionTimestamp === undefined &&
          status?.conditions?.some(({ type, status: value }) => type === 'Ready' && value === 'True') === true,
      )
      .map(({ metadata }) => ({
        member: metadata.labels?.[LABELS.member] ?? metadata.name,
        url: clientURL(name, namespace, metadata.name, tls?.client === undefined ? 'http' : 'https'),
      }))
      .toSorted((a, b) => (a.member < b.member ? -1 : 1)),
    access: {
      ...(tls?.client === undefined ? {} : { caSecret: inUseName(name, 'server') }),
      ...(tls?.client?.operatorClientSecretName === undefined
        ? {}
        : { clientSecret: inUseName(name, 'operator-client') }),
      ...(rootSecret === undefined ? {} : { rootSecret }),
    },
  };
};

/** The termination message is written by our agent, or is the end of its log if it could not even do that. */
export const parseReport = (
  message: string,
  end?: { readonly reason?: string; readonly exitCode: number },
): AgentReport => {
  try {
    const value: unknown = JSON.parse(message);
    if (typeof value !== 'object' || value === null || !('done' in value)) throw new TypeError('no report');
    const report = value as Record<string, unknown>;
    if (report.done === true && typeof report.uri === 'string' && typeof report.key === 'string') {
      return {
        done: true,
        uri: report.uri,
        key: report.key,
        manifest: parseManifest(JSON.stringify(report.manifest)),
        ...(typeof report.retention === 'object' && report.retention !== null ? { retention: report.retention } : {}),
      };
    }
    return { done: false, reason: String(report.reason ?? 'Unknown'), message: String(report.message ?? '') };
  } catch (error) {
    const how = end === undefined ? '' : ` (${end.reason ?? 'Error'}, exit code ${end.exitCode})`;
    const words = error instanceof ManifestUnreadable ? error.message : message.trim().split('\n').slice(-3).join(' ');
    return { done: false, reason: 'Unknown', message: words === '' ? `the agent ended without a word${how}` : words };
  }
};

/** After the grace that the Pod was given. */
const LOST_MS = 30_000;

/** Kubernetes waits for ever for a Pod to end on a node that does not answer, and makes no other in its place. */
const isLost = ({ metadata }: Stored<Pod>, now: number): boolean =>
  metadata.deletionTimestamp !== undefined && now > Date.parse(metadata.deletionTimestamp) + LOST_MS;

type JobSight = { readonly job: SeenJob; readonly agent: string | undefined };

const seenJob = async (world: SnapshotWorld, job: Stored<Job>, signal: AbortSignal): Promise<JobSight> => {
  const { state, message: failure } = jobState(job);
  const items = await podsOfJob(world, job, signal);
  const ended = newestPod(
    items.filter(({ status }) => status?.containerStatuses?.[0]?.state?.terminated !== undefined),
  );
  const end = ended?.status?.containerStatuses?.[0]?.state?.terminated;
  const current = newestPod(items.filter(({ status }) => status?.phase === 'Pending' || status?.phase === 'Running'));
  const ip = current?.status?.phase === 'Running' ? current.status.podIP : undefined;
  return {
    job: {
      uid: job.metadata.uid,
      deleting: job.metadata.deletionTimestamp !== undefined,
      createdAt: milliseconds(job.metadata.creationTimestamp, world.clock.now()),
      state,
      message: failure,
      report: ended === undefined ? unknown('its Pod is gone') : known(parseReport(end?.message ?? '', end)),
      waiting: current === undefined ? undefined : waitingOf(current),
      lost:
        current !== undefined && isLost(current, world.clock.now())
          ? (current.spec?.nodeName ?? 'its node')
          : undefined,
    },
    agent: ip === undefined ? undefined : `${addressURL('http', ip, AGENT_PORT)}/progress`,
  };
};

const observeSnapshot = async (
  world: SnapshotWorld,
  snapshot: Stored<EtcdSnapshot>,
  signal: AbortSignal,
): Promise<SnapshotObserved> => {
  const { metadata, spec, status } = snapshot;
  const namespace = metadata.namespace ?? '';
  const job = world.caches.jobs.get(namespace, snapshotJobName(metadata.name));
  const ours = job?.metadata.ownerReferences?.some(({ uid }) => uid === metadata.uid) === true;
  const sight = job !== undefined && ours ? await seenJob(world, job, signal) : undefined;
  return {
    now: world.clock.now(),
    name: metadata.name,
    uid: metadata.uid,
    generation: metadata.generation ?? 0,
    deleting: metadata.deletionTimestamp !== undefined,
    spec,
    status: status ?? {},
    cluster: seenCluster(world, namespace, spec.clusterRef.name),
    job: sight?.job,
    progress: sight?.agent === undefined ? undefined : await world.askProgress(sight.agent, signal),
    agentImage: world.agentImage,
  };
};

const record = async (
  world: SnapshotWorld,
  snapshot: Stored<EtcdSnapshot>,
  status: EtcdSnapshotStatus,
  signal: AbortSignal,
): Promise<void> => {
  const { name, uid, namespace = '' } = snapshot.metadata;
  await writeStatus(world, snapshot, status, signal);
  const ready = status.conditions?.find(({ type }) => type === 'Ready');
  const before = snapshot.status?.conditions?.find(({ type }) => type === 'Ready');
  if (ready === undefined || ready.reason === before?.reason) return;
  world.log.info({ snapshot: `${namespace}/${name}`, reason: ready.reason, message: ready.message }, 'snapshot');
  world.announce(
    { kind: 'EtcdSnapshot', name, namespace, uid },
    {
      type: status.phase === 'Failed' ? 'Warning' : 'Normal',
      reason: ready.reason as Reason,
      message: ready.message ?? '',
      action: 'Snapshot',
    },
  );
};

/** Its rules as they are now: a retention that was relaxed in the meantime counts. */
const scheduleOf = (world: SnapshotWorld, { metadata }: Stored<EtcdSnapshot>): Pick<SnapshotJobOf, 'schedule'> => {
  const name = metadata.labels?.[SCHEDULE_LABEL];
  if (name === undefined) return {};
  const schedule = world.caches.schedules.get(metadata.namespace ?? '', name);
  return schedule === undefined ? {} : { schedule: { name, retention: schedule.spec.retention } };
};

/** One pass. Returns in how many milliseconds the snapshot wants another one, or nothing. */
export const passOverSnapshot = async (
  world: SnapshotWorld,
  namespace: string,
  name: string,
  signal: AbortSignal,
): Promise<number | undefined> => {
  const snapshot = world.caches.snapshots.get(namespace, name);
  if (snapshot === undefined) return undefined;
  // Final as a snapshot. What remains to be said of it is whether it can be restored.
  if (snapshot.status?.phase === 'Complete') return passOverProof(world, snapshot, signal);
  const seen = await observeSnapshot(world, snapshot, signal);
  const { step, status } = planSnapshot(seen);
  if (status !== undefined && !(await recorded(record(world, snapshot, status, signal)))) return LOOK_AGAIN_MS;
  if (step.do !== 'CreateJob') return withoutNewJob(world, { namespace, name: snapshotJobName(name) }, step, signal);
  const job = snapshotJob({
    namespace,
    name,
    uid: seen.uid,
    spec: seen.spec,
    sources: step.sources,
    clusterID: step.clusterID,
    clusterUID: step.clusterUID,
    access: step.access,
    ...scheduleOf(world, snapshot),
    agentImage: seen.agentImage ?? '',
  });
  return startJob(world, job, signal);
};
