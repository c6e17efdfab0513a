/** Passes over the proofs of EtcdSnapshots: gathers what is known of one, has it planned, and carries the step out. */
import type { Job } from 'kubernetes-types/batch/v1.js';
import type { ContainerStatus, Pod } from 'kubernetes-types/core/v1.js';
import type { EtcdSnapshot, EtcdSnapshotStatus } from '../../api/etcdsnapshot.gen.ts';
import { ANNOTATIONS, CONTAINER } from '../../api/names.ts';
import type { Reason } from '../../api/reasons.ts';
import { type Fact, known, unknown } from '../core/observed.ts';
import { knownSnapshot } from '../core/snapshots/known-snapshots.ts';
import {
  COMPARE,
  FETCH,
  type ProofPlacement,
  proofJob,
  proofJobName,
  RESTORE,
  SERVE,
} from '../core/snapshots/proof-job.ts';
import { type ProofObserved, type ProofReport, planProof, type SeenProofJob } from '../core/snapshots/proof-plan.ts';
import { SCHEDULE_LABEL } from '../core/snapshots/snapshot-job.ts';
import type { Stored } from '../ports/kube.ts';
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

/** Longer ones are told apart by their beginning; it stands in the status. */
const LONGEST_REQUEST = 200;
/** Times that etcd may end on the restored data before that is taken for an answer. */
const RESTARTS = 2;

export const requestOf = ({ metadata }: Pick<Stored<EtcdSnapshot>, 'metadata'>): string | undefined =>
  metadata.annotations?.[ANNOTATIONS.prove]?.slice(0, LONGEST_REQUEST);

const lastLines = (text: string | undefined): string => (text ?? '').trim().split('\n').slice(-3).join(' ').slice(-700);

/** What our agent wrote, or the end of a log where it could not even do that. */
const agentWords = (container: string, message: string): ProofReport => {
  try {
    const said = JSON.parse(message) as Partial<ProofReport> | null;
    if (said?.done === true && typeof said.revision === 'string' && Array.isArray(said.compared)) {
      return said as ProofReport;
    }
    if (said?.done === false) return { done: false, reason: String(said.reason), message: String(said.message) };
  } catch {
    // Not ours; told as it is.
  }
  return { done: false, reason: 'Unknown', message: `${container}: ${lastLines(message) || 'ended without a word'}` };
};

const etcdutlWords = (message: string): ProofReport => ({
  done: false,
  reason: /no space left/i.test(message) ? 'NoRoom' : 'Unrestorable',
  message: `etcdutl does not restore it: ${lastLines(message)}`,
});

/** How far a Pod came that has ended: its last container, or the first that failed. */
const reportOf = ({ status }: Stored<Pod>): ProofReport => {
  const all = [...(status?.initContainerStatuses ?? []), ...(status?.containerStatuses ?? [])];
  const ended = (name: string) => all.find((one) => one.name === name)?.state?.terminated;
  for (const name of [FETCH, RESTORE, COMPARE]) {
    const end = ended(name);
    if (end === undefined || (end.exitCode === 0 && name !== COMPARE)) continue;
    if (end.reason === 'OOMKilled')
      return { done: false, reason: 'Unknown', message: `${name} was killed for lack of memory` };
    return name === RESTORE ? etcdutlWords(end.message ?? '') : agentWords(name, end.message ?? '');
  }
  const words = [status?.reason, status?.message].filter((one) => one !== undefined).join(': ');
  return { done: false, reason: 'Unknown', message: `its Pod ended: ${words === '' ? 'nobody says why' : words}` };
};

/** Undefined while etcd runs, or may yet. */
const etcdEnded = (pod: Stored<Pod>): string | undefined => {
  const etcd: ContainerStatus | undefined = pod.status?.initContainerStatuses?.find(({ name }) => name === SERVE);
  if (etcd === undefined || etcd.restartCount < RESTARTS) return undefined;
  const { message, exitCode, reason } = etcd.lastState?.terminated ?? {};
  if (reason === 'OOMKilled') return undefined;
  return `exit code ${exitCode ?? '?'}: ${lastLines(message)}`;
};

const seenProofJob = async (world: SnapshotWorld, job: Stored<Job>, signal: AbortSignal): Promise<SeenProofJob> => {
  const pods = await podsOfJob(world, job, signal);
  const ended = newestPod(pods.filter(({ status }) => status?.phase === 'Failed' || status?.phase === 'Succeeded'));
  const current = newestPod(pods.filter(({ status }) => status?.phase === 'Pending' || status?.phase === 'Running'));
  const { state, message } = jobState(job);
  const report: Fact<ProofReport> = ended === undefined ? unknown('its Pod is gone') : known(reportOf(ended));
  return {
    uid: job.metadata.uid,
    deleting: job.metadata.deletionTimestamp !== undefined,
    createdAt: Date.parse(job.metadata.creationTimestamp ?? ''),
    request: job.metadata.annotations?.[ANNOTATIONS.prove] ?? '',
    state,
    message,
    report,
    waiting: current === undefined ? undefined : waitingOf(current),
    ended: current === undefined ? undefined : etcdEnded(current),
  };
};

const isProof = ({ metadata }: Stored<Job>): boolean => metadata.annotations?.[ANNOTATIONS.prove] !== undefined;

/** Another snapshot of the cluster that is being proven now. */
const busyWith = ({ caches }: SnapshotWorld, snapshot: Stored<EtcdSnapshot>): string | undefined => {
  const cluster = clusterKey({ namespace: snapshot.metadata.namespace ?? '', name: snapshot.spec.clusterRef.name });
  return caches.jobs
    .byIndex(cluster)
    .filter((job) => isProof(job) && jobState(job).state === 'running')
    .map(({ metadata }) => metadata.ownerReferences?.[0]?.name ?? metadata.name)
    .find((name) => name !== snapshot.metadata.name);
};

const retentionOf = ({ caches }: SnapshotWorld, snapshot: Stored<EtcdSnapshot>): ProofObserved['retention'] => {
  const { namespace = '', name, labels } = snapshot.metadata;
  const schedule = labels?.[SCHEDULE_LABEL];
  if (schedule === undefined) return 'rests';
  const others = caches.snapshots
    .byIndex(clusterKey({ namespace, name: snapshot.spec.clusterRef.name }))
    .filter(({ metadata }) => metadata.labels?.[SCHEDULE_LABEL] === schedule && metadata.name !== name);
  if (others.some(({ status }) => status?.retention?.removed?.includes(name) === true)) return 'removed it';
  return others.some(({ status }) => status?.phase === 'Started') ? 'may run' : 'rests';
};

/** As the members are placed now; the cluster may be gone, and its snapshots can be proven all the same. */
const placementOf = ({ caches }: SnapshotWorld, snapshot: Stored<EtcdSnapshot>): ProofPlacement => {
  const cluster = clusterKey({ namespace: snapshot.metadata.namespace ?? '', name: snapshot.spec.clusterRef.name });
  const [member] = caches.members.byIndex(cluster);
  if (member === undefined) return { inMemory: false };
  const { template, storage, version, volumeClaimTemplate } = member.spec;
  const pod = template.spec as NonNullable<Pod['spec']>;
  const etcd = pod.containers.find(({ name }) => name === CONTAINER);
  const limit = etcd?.resources?.limits?.memory;
  const { storageClassName } = (volumeClaimTemplate?.spec ?? {}) as { storageClassName?: string };
  return {
    image: etcd?.image,
    imageVersion: version,
    inMemory: storage.medium === 'Memory',
    ...(storageClassName === undefined ? {} : { storageClassName }),
    ...(limit === undefined ? {} : { memoryLimit: String(limit) }),
    ...(pod.nodeSelector === undefined ? {} : { nodeSelector: pod.nodeSelector }),
    ...(pod.tolerations === undefined ? {} : { tolerations: pod.tolerations }),
    ...(pod.imagePullSecrets === undefined ? {} : { imagePullSecrets: pod.imagePullSecrets }),
  };
};

const observeProof = async (
  world: SnapshotWorld,
  snapshot: Stored<EtcdSnapshot>,
  signal: AbortSignal,
): Promise<ProofObserved> => {
  const { metadata, status } = snapshot;
  const job = world.caches.jobs.get(metadata.namespace ?? '', proofJobName(metadata.name));
  const ours = job?.metadata.ownerReferences?.some(({ uid }) => uid === metadata.uid) === true;
  return {
    now: world.clock.now(),
    generation: metadata.generation ?? 0,
    deleting: metadata.deletionTimestamp !== undefined,
    status: status ?? {},
    request: requestOf(snapshot),
    job: job !== undefined && ours ? await seenProofJob(world, job, signal) : undefined,
    retention: retentionOf(world, snapshot),
    busyWith: busyWith(world, snapshot),
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
  const provenIn = (of: EtcdSnapshotStatus | undefined) => of?.conditions?.find(({ type }) => type === 'Proven');
  const proven = provenIn(status);
  const before = provenIn(snapshot.status);
  const repeated = proven?.reason === before?.reason && status.proof?.time === snapshot.status?.proof?.time;
  if (proven === undefined || repeated) return;
  const { reason, message = '' } = proven;
  world.log.info({ snapshot: `${namespace}/${name}`, reason, message }, 'proof');
  const wrong = status.proof?.time !== snapshot.status?.proof?.time && status.proof?.result !== 'Passed';
  world.announce(
    { kind: 'EtcdSnapshot', name, namespace, uid },
    { type: wrong ? 'Warning' : 'Normal', reason: reason as Reason, message, action: 'Prove' },
  );
};

/** One pass over a complete snapshot. Returns in how many milliseconds it wants another one, or nothing. */
export const passOverProof = async (
  world: SnapshotWorld,
  snapshot: Stored<EtcdSnapshot>,
  signal: AbortSignal,
): Promise<number | undefined> => {
  const { name, uid, namespace = '' } = snapshot.metadata;
  const seen = await observeProof(world, snapshot, signal);
  const { step, status } = planProof(seen);
  if (status !== undefined && !(await recorded(record(world, snapshot, status, signal)))) return LOOK_AGAIN_MS;
  if (step.do !== 'CreateJob') return withoutNewJob(world, { namespace, name: proofJobName(name) }, step, signal);
  const stored = knownSnapshot(snapshot);
  const { sizeBytes } = snapshot.status?.artifact ?? {};
  if (stored?.sha256 === undefined || stored.etcdVersion === undefined || sizeBytes === undefined) {
    throw new Error(`EtcdSnapshot ${namespace}/${name} is Complete, and its status does not say what was stored`);
  }
  const job = proofJob({
    namespace,
    name,
    uid,
    cluster: snapshot.spec.clusterRef.name,
    request: step.request,
    source: stored.location,
    sha256: stored.sha256,
    sizeBytes: BigInt(sizeBytes),
    etcdVersion: stored.etcdVersion,
    placement: placementOf(world, snapshot),
    agentImage: seen.agentImage ?? '',
  });
  return startJob(world, job, signal);
};
