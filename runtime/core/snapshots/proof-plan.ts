/**
 * What to do next about the proof of one EtcdSnapshot, and what its status says. Pure. Asked for by an annotation; done once
 * the value of that annotation stands in the status. So a Job may be lost at any time: another one finds out the same.
 */
import type { EtcdSnapshotStatus } from '../../../api/etcdsnapshot.gen.ts';
import type { Reason } from '../../../api/reasons.ts';
import { conditions, type Said } from '../conditions.ts';
import { equalJson } from '../equal-json.ts';
import type { Fact, Instant } from '../observed.ts';

type Proof = NonNullable<EtcdSnapshotStatus['proof']>;
export type ProofResult = Proof['result'];

/** What the steps of the Job said. */
export type ProofReport =
  | {
      readonly done: true;
      readonly etcdVersion: string;
      /** Decimal, as in the manifest. */
      readonly revision: string;
      readonly keys?: string;
      readonly hash?: number;
      readonly compared: readonly string[];
      /** What could not be compared, and why. */
      readonly remark?: string;
    }
  | { readonly done: false; readonly reason: string; readonly message: string };

export type SeenProofJob = {
  readonly uid: string;
  readonly deleting: boolean;
  readonly createdAt: Instant;
  /** The request that it answers. */
  readonly request: string;
  readonly state: 'running' | 'complete' | 'failed';
  /** Kubernetes' words about a failed Job. */
  readonly message: string | undefined;
  readonly report: Fact<ProofReport>;
  readonly waiting: string | undefined;
  /** Last words of the etcd on the restored data, where it has ended more than once. */
  readonly ended: string | undefined;
};

export type ProofObserved = {
  readonly now: Instant;
  readonly generation: number;
  readonly deleting: boolean;
  readonly status: EtcdSnapshotStatus;
  /** Value of the annotation; absent where nobody asks. */
  readonly request: string | undefined;
  readonly job: SeenProofJob | undefined;
  /**
   * Whether its schedule's retention may be what its data is gone by: it may run now, in the Job of a later snapshot, or it
   * has said so, and the EtcdSnapshot is about to go as well.
   */
  readonly retention: 'rests' | 'may run' | 'removed it';
  /** Another snapshot of this cluster whose proof runs. */
  readonly busyWith: string | undefined;
  readonly agentImage: string | undefined;
};

export type ProofStep =
  | { readonly do: 'Wait'; readonly recheckMs: number }
  | { readonly do: 'CreateJob'; readonly request: string }
  | { readonly do: 'DeleteJob'; readonly uid: string }
  | { readonly do: 'Nothing' };

export type ProofDecision = { readonly step: ProofStep; readonly status: EtcdSnapshotStatus | undefined };

const RECHECK_MS = 3_000;
const BUSY_MS = 5_000;
/** So long a Pod may wait for its volume and image without anybody being told. */
const STARTS_WITHIN_MS = 20_000;
const PROVEN = 'Proven';

type Verdict = { readonly result: ProofResult; readonly reason: Reason };

const verdicts: Record<string, Verdict> = {
  NotFound: { result: 'Failed', reason: 'SnapshotMissing' },
  SnapshotDamaged: { result: 'Failed', reason: 'SnapshotDamaged' },
  Different: { result: 'Failed', reason: 'SnapshotDiffers' },
  Unrestorable: { result: 'Failed', reason: 'SnapshotUnrestorable' },
  // The EtcdSnapshot says that it was stored encrypted.
  SnapshotNotEncrypted: { result: 'Failed', reason: 'SnapshotDamaged' },
  SnapshotKeyMissing: { result: 'Blocked', reason: 'SnapshotKeyMissing' },
  SnapshotKeyUnusable: { result: 'Blocked', reason: 'SnapshotKeyUnusable' },
  AccessDenied: { result: 'Blocked', reason: 'StoreAccessDenied' },
  BucketMissing: { result: 'Blocked', reason: 'StoreMissing' },
  ClockSkew: { result: 'Blocked', reason: 'StoreClockSkew' },
  Unreachable: { result: 'Blocked', reason: 'StoreUnreachable' },
  Unavailable: { result: 'Blocked', reason: 'StoreUnreachable' },
  Refused: { result: 'Blocked', reason: 'StoreRefused' },
};
/** What is not known to speak against the snapshot, does not. */
const verdictOn = (reason: string): Verdict => verdicts[reason] ?? { result: 'Blocked', reason: 'ProofBlocked' };

const withProven = (
  seen: ProofObserved,
  said: Said | undefined,
  change: Partial<EtcdSnapshotStatus> = {},
): EtcdSnapshotStatus | undefined => {
  const before = seen.status.conditions ?? [];
  const others = before.filter(({ type }) => type !== PROVEN);
  if (others.length === before.length && said === undefined) return undefined;
  const next: EtcdSnapshotStatus = {
    ...seen.status,
    ...change,
    conditions: [
      ...others,
      ...(said === undefined ? [] : conditions(before, seen.now, seen.generation, { [PROVEN]: said })),
    ],
  };
  return equalJson(next, seen.status) ? undefined : next;
};

const saidOf = (proof: Proof): Said => ({
  status: proof.result === 'Passed' ? 'True' : proof.result === 'Failed' ? 'False' : 'Unknown',
  reason: proof.reason as Reason,
  message: proof.message ?? '',
});

const concluded = (seen: ProofObserved, job: SeenProofJob, report: ProofReport): ProofDecision => {
  const base = {
    request: job.request,
    startTime: new Date(job.createdAt).toISOString(),
    time: new Date(seen.now).toISOString(),
  };
  const proof: Proof = report.done
    ? {
        ...base,
        result: 'Passed',
        reason: 'ProofPassed' satisfies Reason,
        message: `restored by etcd ${report.etcdVersion} and equal to its manifest: ${report.compared.join(', ')}${report.remark === undefined ? '' : `; ${report.remark}`}`,
        etcdVersion: report.etcdVersion,
        revision: report.revision,
        ...(report.keys === undefined ? {} : { keys: report.keys }),
        ...(report.hash === undefined ? {} : { hash: report.hash }),
        compared: [...report.compared],
      }
    : { ...base, ...verdictOn(report.reason), message: report.message.slice(0, 1_000) };
  // Recorded before the Job goes: what was found out is not lost with it.
  return { step: { do: 'Wait', recheckMs: 0 }, status: withProven(seen, saidOf(proof), { proof }) };
};

const underway = (seen: ProofObserved, job: SeenProofJob): ProofDecision => {
  const retried =
    job.report.known && !job.report.value.done ? `; the try before failed: ${job.report.value.message}` : '';
  const said: Said =
    job.waiting === undefined || seen.now - job.createdAt < STARTS_WITHIN_MS
      ? { status: 'Unknown', reason: 'ProofRunning', message: `the snapshot is being restored${retried}` }
      : { status: 'Unknown', reason: 'ProofWaiting', message: job.waiting };
  return { step: { do: 'Wait', recheckMs: RECHECK_MS }, status: withProven(seen, said) };
};

const waits = (seen: ProofObserved, reason: Reason, message: string): ProofDecision => ({
  step: { do: 'Wait', recheckMs: BUSY_MS },
  status: withProven(seen, { status: 'Unknown', reason, message }),
});

export const planProof = (seen: ProofObserved): ProofDecision => {
  const { status, job, request } = seen;
  if (seen.deleting || status.phase !== 'Complete') return { step: { do: 'Nothing' }, status: undefined };
  const answered = request === undefined || status.proof?.request === request;

  if (job !== undefined) {
    if (job.deleting) return { step: { do: 'Wait', recheckMs: 1_000 }, status: undefined };
    // Its result is recorded, or nobody wants it any more.
    if (answered || job.request !== request) return { step: { do: 'DeleteJob', uid: job.uid }, status: undefined };
    if (job.state === 'running') {
      return job.ended === undefined
        ? underway(seen, job)
        : concluded(seen, job, {
            done: false,
            reason: 'Unrestorable',
            message: `etcd ends on the restored data: ${job.ended}`,
          });
    }
    if (job.report.known) {
      const report = job.report.value;
      // What goes as it should is no alarm.
      const missing = !report.done && verdictOn(report.reason).reason === 'SnapshotMissing';
      if (missing && seen.retention === 'removed it') return { step: { do: 'Nothing' }, status: undefined };
      if (missing && seen.retention === 'may run')
        return { step: { do: 'Wait', recheckMs: BUSY_MS }, status: undefined };
      return concluded(seen, job, report);
    }
    return job.state === 'failed'
      ? concluded(seen, job, {
          done: false,
          reason: 'Unknown',
          message: `${job.message ?? 'the Job of the proof failed'}; ${job.report.why}`,
        })
      : // It ended well and its Pod is gone with what it said: another one says it again.
        { step: { do: 'DeleteJob', uid: job.uid }, status: undefined };
  }
  if (answered) {
    // Whoever took the annotation back in the midst of it leaves no condition that waits for ever.
    return {
      step: { do: 'Nothing' },
      status: withProven(seen, status.proof === undefined ? undefined : saidOf(status.proof)),
    };
  }
  if (seen.agentImage === undefined) {
    return waits(
      seen,
      'AgentImageUnknown',
      'the runtime does not know which image the Job should run: start it with --agent-image',
    );
  }
  // One at a time: each needs as much disk and memory as a member.
  if (seen.busyWith !== undefined) return waits(seen, 'ProofWaiting', `the proof of ${seen.busyWith} runs`);
  return { step: { do: 'CreateJob', request }, status: undefined };
};
