/**
 * What to do next about one EtcdSnapshotSchedule, and what its status says. Pure: when its times are is asked of a calendar
 * outside and comes in as a fact.
 */
import type { EtcdSnapshotStatus } from '../../../api/etcdsnapshot.gen.ts';
import type { EtcdSnapshotScheduleSpec, EtcdSnapshotScheduleStatus } from '../../../api/etcdsnapshotschedule.gen.ts';
import type { Reason } from '../../../api/reasons.ts';
import type { Instant } from '../observed.ts';
import type { RetentionRules } from './retention.ts';

export type ScheduledSnapshot = {
  readonly name: string;
  readonly uid: string;
  readonly createdAt: Instant;
  readonly deleting: boolean;
  readonly status: EtcdSnapshotStatus;
};

/** The times of a schedule around now. */
export type Times =
  | { readonly last: Instant | undefined; readonly next: Instant | undefined }
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
  | { readonly do: 'Begin'; readonly name: string; readonly due: Instant }
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
/** A backup counts as late when the schedule has passed this often without one. */
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

export const scheduledName = (schedule: string, due: Instant): string => `${schedule}-${Math.floor(due / 1_000)}`;

type Said = { readonly status: 'True' | 'False' | 'Unknown'; readonly reason: Reason; readonly message: string };

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
  const begun = status.lastScheduleTime === undefined ? undefined : Date.parse(status.lastScheduleTime);
  // The first at once: a cluster without a backup should not wait for the night.
  if (begun === undefined) return snapshots.length === 0 ? seen.createdAt : undefined;
  if (last === undefined || last <= begun) return undefined;
  const patience = (spec.startingDeadlineSeconds ?? STARTING_DEADLINE_SECONDS) * 1_000;
  return now - last <= patience ? last : undefined;
};

const healthOf = (seen: ScheduleObserved, complete: readonly ScheduledSnapshot[]): Said => {
  const { times, now, snapshots } = seen;
  const [newest] = complete;
  const [latest] = snapshots.filter((one) => !isRunning(one)).toSorted(laterFirst);
  const failed = latest?.status.phase === 'Failed' ? latest : undefined;
  if (failed !== undefined) {
    const cause = failed.status.conditions?.find(({ type }) => type === 'Ready');
    return {
      status: 'False',
      reason: 'BackupFailed',
      message: `${failed.name}: ${cause?.reason ?? 'failed'}: ${cause?.message ?? ''}`,
    };
  }
  if (newest === undefined) {
    return { status: 'Unknown', reason: 'BackupPending', message: 'no snapshot has been taken yet' };
  }
  const age = now - takenAt(newest);
  const interval =
    'invalid' in times || times.last === undefined || times.next === undefined ? undefined : times.next - times.last;
  if (
    seen.spec.suspend !== true &&
    seen.cluster !== 'paused' &&
    interval !== undefined &&
    age > LATE_AFTER * interval + BUSY_MS
  ) {
    return {
      status: 'False',
      reason: 'BackupOverdue',
      message: `the last good snapshot is ${newest.name}, taken at ${newest.status.completionTime}`,
    };
  }
  return {
    status: 'True',
    reason: 'BackupFresh',
    message: `${newest.name} holds everything up to revision ${newest.status.revision ?? '?'}`,
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

const statusOf = (seen: ScheduleObserved, begun: Instant | undefined, name: string | undefined) => {
  const complete = seen.snapshots
    .filter(({ status }) => status.phase === 'Complete')
    .toSorted((a, b) => takenAt(b) - takenAt(a));
  const [newest] = complete;
  const said: Record<string, Said> = { Active: activityOf(seen), BackupHealthy: healthOf(seen, complete) };
  const next: EtcdSnapshotScheduleStatus = {
    ...seen.status,
    ...(begun === undefined ? {} : { lastScheduleTime: time(begun) }),
    ...(name === undefined ? {} : { lastSnapshot: name }),
    ...(newest?.status.completionTime === undefined ? {} : { lastSuccessfulTime: newest.status.completionTime }),
    observedGeneration: seen.generation,
    conditions: Object.entries(said).map(([type, { status, reason, message }]) => {
      const before = seen.status.conditions?.find((one) => one.type === type);
      return {
        type,
        status,
        reason,
        message: message.slice(0, 1_000),
        lastTransitionTime: before?.status === status ? before.lastTransitionTime : time(seen.now),
        observedGeneration: seen.generation,
      };
    }),
  };
  return JSON.stringify(next) === JSON.stringify(seen.status) ? undefined : next;
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
  const rest: ScheduleDecision = {
    step: { do: 'Wait', recheckMs: next },
    status: statusOf(seen, undefined, undefined),
  };
  if ('invalid' in times || spec.suspend === true || seen.cluster === 'absent' || seen.cluster === 'paused')
    return rest;

  const due = dueNow(seen);
  if (due === undefined) return rest;
  // The cluster may be down at the time of its backup. What is due stays due until it is too late.
  if (seen.cluster === 'silent') return { ...rest, step: { do: 'Wait', recheckMs: BUSY_MS } };
  const busy = snapshots.some(isRunning);
  if (busy && spec.concurrencyPolicy !== 'Allow') return { ...rest, step: { do: 'Wait', recheckMs: BUSY_MS } };
  const name = scheduledName(seen.name, due);
  // Made by a pass that could not record it any more.
  if (snapshots.some((one) => one.name === name)) return { step: rest.step, status: statusOf(seen, due, name) };
  return { step: { do: 'Begin', name, due }, status: undefined };
};
