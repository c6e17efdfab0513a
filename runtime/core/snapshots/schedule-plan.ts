/**
 * What to do next about one EtcdSnapshotSchedule, and what its status says. Pure: when its times are is asked of a calendar
 * outside and comes in as a fact.
 */
import type { EtcdSnapshotStatus } from '../../../api/etcdsnapshot.gen.ts';
import type { EtcdSnapshotScheduleSpec, EtcdSnapshotScheduleStatus } from '../../../api/etcdsnapshotschedule.gen.ts';
import type { Reason } from '../../../api/reasons.ts';
import { conditions, type Said } from '../conditions.ts';
import { equalJson } from '../equal-json.ts';
import type { Instant } from '../observed.ts';
import type { RetentionRules } from './retention.ts';

export type ScheduledSnapshot = {
  readonly name: string;
  readonly uid: string;
  readonly createdAt: Instant;
  readonly deleting: boolean;
  /** Whether a proof of it was asked for. */
  readonly asked: boolean;
  readonly status: EtcdSnapshotStatus;
};

/** The times of a schedule around now. */
export type Times =
  | {
      /** The latest that is not after now. */
      readonly last: Instant | undefined;
      /** The one before that. */
      readonly before: Instant | undefined;
      readonly next: Instant | undefined;
    }
  /** Why the calendar does not understand it. */
  | { readonly invalid: string };

export type ScheduleObserved = {
  readonly now: Instant;
  readonly name: string;
  readonly generation: number;
  readonly createdAt: Instant;
  readonly deleting: boolean;
  readonly spec: EtcdSnapshotScheduleSpec;
  readonly status: EtcdSnapshotScheduleStatus;
  readonly times: Times;
  /** Whether the cluster is there and serves; a schedule of a paused or deleted cluster rests. */
  readonly cluster: 'serves' | 'silent' | 'paused' | 'absent';
  /** Those that this schedule has made, in any order. */
  readonly snapshots: readonly ScheduledSnapshot[];
  /** Names of snapshots whose stored data the last retention has removed. */
  readonly removed: readonly string[];
};

export type ScheduleStep =
  | { readonly do: 'Wait'; readonly recheckMs: number | undefined }
  /** The name is made from the time, so that two processes or two passes make one. */
  | { readonly do: 'Begin'; readonly name: string; readonly due: Instant; readonly prove: boolean }
  /** Records of what retention removed, and of failures beyond the last few. */
  | { readonly do: 'Forget'; readonly snapshots: readonly { readonly name: string; readonly uid: string }[] };

export type ScheduleDecision = {
  readonly step: ScheduleStep;
  readonly status: EtcdSnapshotScheduleStatus | undefined;
};

const STARTING_DEADLINE_SECONDS = 3_600;
/** Failures are kept for people to read, not for ever. */
const FAILURES_KEPT = 5;
const BUSY_MS = 10_000;
/** Timers end at 24 days, and a monthly schedule has longer to wait. */
const LONGEST_REST_MS = 3_600_000;
/** How long a new schedule may be without any snapshot before that is a fault: clusters take a while to form. */
const FIRST_WITHIN_MS = 600_000;
/** Proofs count as late when so many times more snapshots were begun without one than there should be. */
const LATE_AFTER = 2;

const UNIT_MS = { m: 60_000, h: 3_600_000, d: 86_400_000 } as const;
const UNIT_BYTES = { '': 1n, Ki: 1n << 10n, Mi: 1n << 20n, Gi: 1n << 30n, Ti: 1n << 40n } as const;

/** The rules as the claim writes them; the schema has checked their form. */
export const retentionRules = (retention: EtcdSnapshotScheduleSpec['retention']): RetentionRules => {
  const { keepLast, keepDaily, keepWeekly, maxAge, maxTotalSize } = retention ?? {};
  const age = /^(\d+)(m|h|d)$/.exec(maxAge ?? '');
  const size = /^(\d+)(Ki|Mi|Gi|Ti|)$/.exec(maxTotalSize ?? '');
  return {
    keepLast,
    keepDaily,
    keepWeekly,
    maxAgeMs: age === null ? undefined : Number(age[1]) * UNIT_MS[age[2] as keyof typeof UNIT_MS],
    maxTotalBytes: size === null ? undefined : BigInt(size[1] ?? 0) * UNIT_BYTES[size[2] as keyof typeof UNIT_BYTES],
  };
};

const scheduledName = (schedule: string, due: Instant): string => `${schedule}-${Math.floor(due / 1_000)}`;

const isRunning = ({ status }: ScheduledSnapshot): boolean => status.phase !== 'Complete' && status.phase !== 'Failed';
const takenAt = ({ status }: ScheduledSnapshot): number =>
  status.completionTime === undefined ? 0 : Date.parse(status.completionTime);
const laterFirst = (a: ScheduledSnapshot, b: ScheduledSnapshot): number =>
  b.createdAt - a.createdAt || (a.name < b.name ? 1 : -1);

const time = (instant: Instant): string => new Date(instant).toISOString();

/** When the next one should begin: its time, or undefined while there is none. */
const dueNow = (seen: ScheduleObserved): Instant | undefined => {
  const { times, now, spec, status, snapshots } = seen;
  if ('invalid' in times) return undefined;
  const { last } = times;
  const recorded = status.lastScheduleTime === undefined ? undefined : Date.parse(status.lastScheduleTime);
  // The first at once: a cluster without a backup should not wait for the night. It stays due until that is recorded.
  const first = scheduledName(seen.name, seen.createdAt);
  if (recorded === undefined && snapshots.every(({ name }) => name === first)) return seen.createdAt;
  // A schedule that was made anew finds those of the one before, and takes none for having no record of them.
  const begun = recorded ?? Math.max(...snapshots.map(({ createdAt }) => createdAt));
  if (last === undefined || last <= begun) return undefined;
  const patience = (spec.startingDeadlineSeconds ?? STARTING_DEADLINE_SECONDS) * 1_000;
  return now - last <= patience ? last : undefined;
};

type LastProof = NonNullable<EtcdSnapshotScheduleStatus['lastProof']>;

/** The proof that ended last, of a snapshot whose record may be gone by now. */
const lastProofOf = ({ status, snapshots }: ScheduleObserved): LastProof | undefined => {
  const ended = snapshots.flatMap(({ name, status: { proof } }): LastProof[] =>
    proof === undefined
      ? []
      : [
          {
            snapshot: name,
            result: proof.result,
            reason: proof.reason,
            ...(proof.message === undefined ? {} : { message: proof.message }),
            time: proof.time,
          },
        ],
  );
  const [newest] = [...ended, ...(status.lastProof === undefined ? [] : [status.lastProof])].toSorted(
    (a, b) => Date.parse(b.time) - Date.parse(a.time),
  );
  return newest;
};

/** Whether the snapshot that is begun now should be proven. */
const asksForProof = (seen: ScheduleObserved): boolean => {
  const every = seen.spec.proof?.every;
  if (every === undefined) return false;
  const asked = seen.snapshots.filter((one) => one.asked).toSorted(laterFirst);
  const last = lastProofOf(seen);
  // Until one passes: a proof that could not be carried out proves nothing, and one that failed wants a good one after it.
  if (last !== undefined && last.result !== 'Passed') return true;
  // One that was to be proven and came to nothing.
  if (asked[0]?.status.phase === 'Failed') return true;
  if (every === 1) return true;
  if (last === undefined) return asked.length === 0;
  return ((seen.status.snapshotsSinceProof ?? 0) + 1) % every === 0;
};

/** Everything that is wrong with the backups, the worst first. */
const troublesOf = (seen: ScheduleObserved, newest: ScheduledSnapshot | undefined): readonly Said[] => {
  const { times, now, snapshots, spec, status } = seen;
  const troubles: Said[] = [];
  const trouble = (reason: Reason, message: string): void => {
    troubles.push({ status: 'False', reason, message });
  };
  const proof = lastProofOf(seen);
  const found = `${proof?.snapshot}: ${proof?.reason}: ${proof?.message ?? ''}`;
  if (proof?.result === 'Failed') trouble('ProofFailed', found);

  const [latest] = snapshots.filter((one) => !isRunning(one)).toSorted(laterFirst);
  if (latest?.status.phase === 'Failed') {
    const cause = latest.status.conditions?.find(({ type }) => type === 'Ready');
    trouble('BackupFailed', `${latest.name}: ${cause?.reason ?? 'failed'}: ${cause?.message ?? ''}`);
  }

  const rests = spec.suspend === true || seen.cluster === 'paused';
  // By what would it be told that a snapshot is late? The last good one would pass for fresh for ever.
  if (!rests && 'invalid' in times) trouble('ScheduleInvalid', times.invalid);
  if (newest === undefined) {
    const [running] = snapshots.filter(isRunning).toSorted(laterFirst);
    const doing = running?.status.conditions?.find(({ type }) => type === 'Ready');
    if (!rests && latest === undefined && now - seen.createdAt >= FIRST_WITHIN_MS) {
      const words = doing === undefined ? '' : `; ${running?.name}: ${doing.reason}: ${doing.message ?? ''}`;
      trouble('BackupPending', `no snapshot has been taken since ${time(seen.createdAt)}${words}`);
    }
  } else if (!rests && !('invalid' in times) && times.before !== undefined && takenAt(newest) < times.before) {
    trouble(
      'BackupOverdue',
      `the last good snapshot is ${newest.name}, taken at ${newest.status.completionTime}; none came of the times after it`,
    );
  }

  if (proof?.result === 'Blocked') trouble('ProofBlocked', found);
  const since = status.snapshotsSinceProof ?? 0;
  if (spec.proof !== undefined && since > LATE_AFTER * spec.proof.every) {
    const when = proof === undefined ? 'none has ended yet' : `the last was of ${proof.snapshot} at ${proof.time}`;
    trouble(
      'ProofOverdue',
      `one of ${spec.proof.every} snapshots is to be proven, and ${since} were begun without a proof: ${when}`,
    );
  }
  return troubles;
};

const healthOf = (seen: ScheduleObserved, newest: ScheduledSnapshot | undefined): Said => {
  const [worst, ...others] = troublesOf(seen, newest);
  if (worst !== undefined) {
    const more = others.map(({ reason, message }) => `${reason}: ${message}`);
    return { ...worst, message: [worst.message, ...more].join('; also ') };
  }
  if (newest === undefined) {
    return { status: 'Unknown', reason: 'BackupPending', message: 'no snapshot has been taken yet' };
  }
  const proof = lastProofOf(seen);
  const proven = proof === undefined ? '' : `; ${proof.snapshot} was proven at ${proof.time}`;
  return {
    status: 'True',
    reason: 'BackupFresh',
    message: `${newest.name} holds everything up to revision ${newest.status.revision ?? '?'}${proven}`,
  };
};

const activityOf = ({ spec, times, cluster }: ScheduleObserved): Said => {
  if ('invalid' in times) return { status: 'False', reason: 'ScheduleInvalid', message: times.invalid };
  if (spec.suspend === true) return { status: 'False', reason: 'ScheduleSuspended', message: 'spec.suspend is true' };
  if (cluster === 'absent') {
    return { status: 'False', reason: 'ClusterNotFound', message: `there is no EtcdCluster ${spec.clusterRef.name}` };
  }
  if (cluster === 'paused') {
    return { status: 'False', reason: 'ClusterPaused', message: `EtcdCluster ${spec.clusterRef.name} is paused` };
  }
  return { status: 'True', reason: 'Scheduled', message: `${spec.schedule} (${spec.timeZone ?? 'UTC'})` };
};

/** For whoever looks at the object among others: `crossplane resource trace` shows this one. */
const readinessOf = (activity: Said, health: Said): Said => (activity.status === 'True' ? health : activity);

/** Of the snapshots that were begun after the one that was last proven. Counted on from the last pass: records are forgotten. */
const sinceProof = (
  seen: ScheduleObserved,
  proof: LastProof | undefined,
  begun: boolean,
): Pick<EtcdSnapshotScheduleStatus, 'snapshotsSinceProof'> => {
  if (seen.spec.proof === undefined) return {};
  const { lastProof, snapshotsSinceProof = 0 } = seen.status;
  if (proof?.time === lastProof?.time) return { snapshotsSinceProof: snapshotsSinceProof + (begun ? 1 : 0) };
  const proven = seen.snapshots.find(({ name }) => name === proof?.snapshot);
  const after = seen.snapshots.filter(({ createdAt }) => createdAt > (proven?.createdAt ?? 0));
  return { snapshotsSinceProof: after.length };
};

const statusOf = (seen: ScheduleObserved, begun: Instant | undefined, name: string | undefined) => {
  const [newest] = seen.snapshots
    .filter(({ status }) => status.phase === 'Complete')
    .toSorted((a, b) => takenAt(b) - takenAt(a));
  const activity = activityOf(seen);
  const health = healthOf(seen, newest);
  const said: Record<string, Said> = {
    Active: activity,
    BackupHealthy: health,
    Ready: readinessOf(activity, health),
  };
  const { snapshotsSinceProof: _, ...before } = seen.status;
  const proof = lastProofOf(seen);
  const next: EtcdSnapshotScheduleStatus = {
    ...before,
    ...(begun === undefined ? {} : { lastScheduleTime: time(begun) }),
    ...(name === undefined ? {} : { lastSnapshot: name }),
    ...(newest?.status.completionTime === undefined ? {} : { lastSuccessfulTime: newest.status.completionTime }),
    ...(proof === undefined ? {} : { lastProof: proof }),
    ...(proof?.result === 'Passed' ? { lastProvenTime: proof.time } : {}),
    ...sinceProof(seen, proof, begun !== undefined),
    observedGeneration: seen.generation,
    conditions: conditions(seen.status.conditions, seen.now, seen.generation, said),
  };
  return equalJson(next, seen.status) ? undefined : next;
};

export const planSchedule = (seen: ScheduleObserved): ScheduleDecision => {
  const { times, now, spec, snapshots, removed } = seen;
  if (seen.deleting) return { step: { do: 'Wait', recheckMs: undefined }, status: undefined };

  const failures = snapshots.filter(({ status }) => status.phase === 'Failed').toSorted(laterFirst);
  const gone = snapshots.filter(
    (one) => !one.deleting && (removed.includes(one.name) || failures.indexOf(one) >= FAILURES_KEPT),
  );
  if (gone.length > 0) {
    return { step: { do: 'Forget', snapshots: gone.map(({ name, uid }) => ({ name, uid })) }, status: undefined };
  }

  const next =
    'invalid' in times || times.next === undefined
      ? undefined
      : Math.min(LONGEST_REST_MS, Math.max(100, times.next - now));
  // Whether there is a first one by then is a question of its own; no other event asks it.
  const first = seen.createdAt + FIRST_WITHIN_MS - now;
  const rest: ScheduleDecision = {
    step: { do: 'Wait', recheckMs: first > 0 ? Math.min(first, next ?? first) : next },
    status: statusOf(seen, undefined, undefined),
  };
  if ('invalid' in times || spec.suspend === true || seen.cluster === 'absent' || seen.cluster === 'paused')
    return rest;

  const due = dueNow(seen);
  if (due === undefined) return rest;
  const name = scheduledName(seen.name, due);
  // Made by the pass before this, or by one that could not record it any more.
  if (snapshots.some((one) => one.name === name)) return { step: rest.step, status: statusOf(seen, due, name) };
  // The cluster may be down at the time of its backup. What is due stays due until it is too late.
  if (seen.cluster === 'silent') return { ...rest, step: { do: 'Wait', recheckMs: BUSY_MS } };
  const busy = snapshots.some(isRunning);
  if (busy && spec.concurrencyPolicy !== 'Allow') return { ...rest, step: { do: 'Wait', recheckMs: BUSY_MS } };
  return { step: { do: 'Begin', name, due, prove: asksForProof(seen) }, status: undefined };
};
