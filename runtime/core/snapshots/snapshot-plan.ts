/**
 * What to do next about one EtcdSnapshot, and what its status says. Pure. The Job does the work and can be made again at any
 * time: it writes under a key that carries this object's UID, and finds what an earlier try has finished.
 */
import type { EtcdSnapshotSpec, EtcdSnapshotStatus } from '../../../api/etcdsnapshot.gen.ts';
import type { Reason } from '../../../api/reasons.ts';
import { conditions, type Said } from '../conditions.ts';
import { equalJson } from '../equal-json.ts';
import type { Fact, Instant } from '../observed.ts';
import type { SnapshotManifest } from './manifest.ts';

/** What the agent left in its container's termination message. */
export type AgentReport =
  | {
      readonly done: true;
      readonly uri: string;
      readonly key: string;
      readonly manifest: SnapshotManifest;
      /** What the schedule's retention did, where there is one. */
      readonly retention?: NonNullable<EtcdSnapshotStatus['retention']>;
    }
  | { readonly done: false; readonly reason: string; readonly message: string };

export type SeenJob = {
  readonly uid: string;
  readonly deleting: boolean;
  readonly createdAt: Instant;
  readonly state: 'running' | 'complete' | 'failed';
  /** Kubernetes' words about a failed Job. */
  readonly message: string | undefined;
  /** Of its newest Pod that ended; unknown where the Pod cannot be read any more. */
  readonly report: Fact<AgentReport>;
  /** Why its Pod does not run, if it does not: image, volume, scheduling. */
  readonly waiting: string | undefined;
  /** The node on which its Pod was told to end and does not: no other Pod comes before that node answers. */
  readonly lost: string | undefined;
};

export type SnapshotProgress = {
  readonly bytes: bigint;
  readonly expected: bigint;
  /** Of the try that runs. An older agent does not tell. */
  readonly bytesPerSecond?: bigint | undefined;
};

export type SeenSource = { readonly member: string; readonly url: string };

/** Names of the Secrets by which members are reached; of their contents nothing. */
export type MemberAccess = {
  /** Holds ca.crt; absent where clients talk to members in the clear. */
  readonly caSecret?: string;
  /** Holds tls.crt and tls.key, which the runtime shows to members. */
  readonly clientSecret?: string;
  /** Holds the password of root; absent where nobody has to log in. */
  readonly rootSecret?: string;
};

export type SeenCluster = {
  readonly clusterUID: string;
  /** etcd's; absent before the cluster has formed. */
  readonly clusterID: string | undefined;
  readonly paused: boolean;
  readonly deleting: boolean;
  /** Members that are open to clients now. */
  readonly sources: readonly SeenSource[];
  readonly access: MemberAccess;
};

export type SnapshotObserved = {
  readonly now: Instant;
  readonly name: string;
  readonly uid: string;
  readonly generation: number;
  readonly deleting: boolean;
  readonly spec: EtcdSnapshotSpec;
  readonly status: EtcdSnapshotStatus;
  readonly cluster: SeenCluster | undefined;
  readonly job: SeenJob | undefined;
  /** Asked of the agent while it runs. */
  readonly progress: SnapshotProgress | undefined;
  /** The image that the agent runs from; absent where the runtime was not told. */
  readonly agentImage: string | undefined;
};

export type SnapshotStep =
  | { readonly do: 'Wait'; readonly recheckMs?: number }
  | {
      readonly do: 'CreateJob';
      readonly sources: readonly SeenSource[];
      readonly clusterID: string;
      readonly clusterUID: string;
      readonly access: MemberAccess;
    }
  /** Its Pod cannot end, or is gone with its result. Another Job finds what this one stored, and ends its upload where that still goes on. */
  | { readonly do: 'DeleteJob'; readonly uid: string }
  | { readonly do: 'Nothing' };

export type SnapshotDecision = {
  readonly step: SnapshotStep;
  /** Undefined where nothing changes. */
  readonly status: EtcdSnapshotStatus | undefined;
};

const RECHECK_MS = 5_000;
/** How often progress is written: it is for people who look, and each write goes to every watcher. */
const PROGRESS_MS = 3_000;

const FINAL = new Set(['Complete', 'Failed']);

const failures: Record<string, Reason> = {
  AccessDenied: 'StoreAccessDenied',
  BucketMissing: 'StoreMissing',
  NotFound: 'StoreMissing',
  TakenByOther: 'StoreKeyTaken',
  Full: 'StoreFull',
  ClockSkew: 'StoreClockSkew',
  Unreachable: 'StoreUnreachable',
  Unavailable: 'StoreUnreachable',
  Refused: 'StoreRefused',
  DatabaseDamaged: 'SnapshotDamaged',
  NoSource: 'NoSnapshotSource',
  KeyUnusable: 'SnapshotKeyUnusable',
};

const withCondition = (
  seen: SnapshotObserved,
  said: Said,
  change: Partial<EtcdSnapshotStatus>,
): EtcdSnapshotStatus | undefined => {
  const next: EtcdSnapshotStatus = {
    ...seen.status,
    ...change,
    observedGeneration: seen.generation,
    conditions: conditions(seen.status.conditions, seen.now, seen.generation, { Ready: said }),
  };
  return equalJson(next, seen.status) ? undefined : next;
};

const seconds = (ms: number): string => `${Math.max(0, Math.round(ms / 1_000))}s`;

const pending = (seen: SnapshotObserved, reason: Reason, message: string): SnapshotDecision => ({
  step: { do: 'Wait', recheckMs: RECHECK_MS },
  status: withCondition(seen, { status: 'False', reason, message }, { phase: 'Pending' }),
});

const failed = (seen: SnapshotObserved, reason: Reason, message: string): SnapshotDecision => {
  const { progress: _, ...rest } = seen.status;
  return {
    step: { do: 'Nothing' },
    status: withCondition(
      { ...seen, status: rest },
      { status: 'False', reason, message },
      { phase: 'Failed', completionTime: new Date(seen.now).toISOString() },
    ),
  };
};

const complete = (
  seen: SnapshotObserved,
  { uri, manifest, retention }: Extract<AgentReport, { done: true }>,
): SnapshotDecision => {
  const { progress: _, ...rest } = seen.status;
  const began = rest.startTime === undefined ? seen.now : Date.parse(rest.startTime);
  const ended = Date.parse(manifest.takenAt);
  return {
    step: { do: 'Nothing' },
    status: withCondition(
      { ...seen, status: rest },
      { status: 'True', reason: 'SnapshotStored', message: `stored and verified: ${uri}` },
      {
        phase: 'Complete',
        artifact: {
          uri,
          sizeBytes: Number(manifest.sizeBytes),
          checksum: `sha256:${manifest.sha256}`,
          ...(manifest.encryption === undefined ? {} : { encryptionKeyID: manifest.encryption.keyID }),
        },
        revision: manifest.revision,
        etcdVersion: manifest.etcdVersion,
        clusterID: manifest.clusterID,
        member: manifest.member,
        memberID: manifest.memberID,
        completionTime: manifest.takenAt,
        duration: seconds(ended - began),
        ...(retention === undefined ? {} : { retention }),
      },
    ),
  };
};

const running = (seen: SnapshotObserved, job: SeenJob): SnapshotDecision => {
  const began = job.createdAt;
  const base: Partial<EtcdSnapshotStatus> = {
    phase: 'Started',
    startTime: seen.status.startTime ?? new Date(began).toISOString(),
  };
  if (job.lost !== undefined) {
    const message = `node ${job.lost}, on which it was taken, does not answer: it is taken anew elsewhere`;
    return {
      step: { do: 'DeleteJob', uid: job.uid },
      status: withCondition(seen, { status: 'False', reason: 'SnapshotRunning', message }, base),
    };
  }
  if (job.waiting !== undefined) {
    return {
      step: { do: 'Wait', recheckMs: RECHECK_MS },
      status: withCondition(seen, { status: 'False', reason: 'SnapshotJobWaiting', message: job.waiting }, base),
    };
  }
  const { progress } = seen;
  const retried =
    job.report.known && !job.report.value.done ? `; the try before failed: ${job.report.value.message}` : '';
  return {
    step: { do: 'Wait', recheckMs: PROGRESS_MS },
    status: withCondition(
      seen,
      { status: 'False', reason: 'SnapshotRunning', message: `the snapshot is being taken${retried}` },
      {
        ...base,
        ...(progress === undefined
          ? {}
          : {
              progress: {
                bytes: Number(progress.bytes),
                expectedBytes: Number(progress.expected),
                bytesPerSecond: Number(
                  progress.bytesPerSecond ??
                    Math.round(Number(progress.bytes) / Math.max(1, (seen.now - began) / 1_000)),
                ),
              },
            }),
      },
    ),
  };
};

export const planSnapshot = (seen: SnapshotObserved): SnapshotDecision => {
  const { status, job, cluster } = seen;
  // What is stored stays, and what is recorded is final: a snapshot never happens twice.
  if (seen.deleting || FINAL.has(status.phase ?? '')) return { step: { do: 'Nothing' }, status: undefined };

  if (job !== undefined && !job.deleting) {
    if (job.state === 'running') return running(seen, job);
    if (!job.report.known) {
      return job.state === 'failed'
        ? failed(seen, 'SnapshotFailed', `${job.message ?? 'its Job failed'}; ${job.report.why}`)
        : // It ended well and nobody can say with what: another Job finds what was stored and tells, without taking it again.
          {
            step: { do: 'DeleteJob', uid: job.uid },
            status: withCondition(
              seen,
              {
                status: 'False',
                reason: 'SnapshotRunning',
                message: `the result is asked for again: ${job.report.why}`,
              },
              {},
            ),
          };
    }
    const report = job.report.value;
    if (report.done) return complete(seen, report);
    return failed(seen, failures[report.reason] ?? 'SnapshotFailed', report.message);
  }

  const { clusterRef } = seen.spec;
  if (cluster === undefined || cluster.deleting) {
    return pending(seen, 'ClusterNotFound', `there is no EtcdCluster ${clusterRef.name} in this namespace`);
  }
  if (cluster.paused) {
    return pending(seen, 'ClusterPaused', `EtcdCluster ${clusterRef.name} is paused (replicas 0): no member runs`);
  }
  if (cluster.clusterID === undefined) {
    return pending(seen, 'NoSnapshotSource', `EtcdCluster ${clusterRef.name} has not formed yet`);
  }
  if (cluster.sources.length === 0) {
    return pending(seen, 'NoSnapshotSource', `no member of EtcdCluster ${clusterRef.name} serves`);
  }
  if (seen.agentImage === undefined) {
    return pending(
      seen,
      'AgentImageUnknown',
      'the runtime does not know which image the Job should run: start it with --agent-image',
    );
  }
  if (job !== undefined) return { step: { do: 'Wait', recheckMs: 1_000 }, status: undefined };
  return {
    step: {
      do: 'CreateJob',
      sources: cluster.sources,
      clusterID: cluster.clusterID,
      clusterUID: cluster.clusterUID,
      access: cluster.access,
    },
    status: undefined,
  };
};
