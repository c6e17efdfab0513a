/**
 * How often a slot may be repaired for one cause. A repair that does not help would otherwise be tried for ever, and each
 * try takes a member away and makes a volume. What was tried stands in the EtcdQuorum's status, so that a restart of the
 * runtime forgets nothing.
 */
import type { EtcdQuorumStatus } from '../../../api/etcdquorum.gen.ts';
import type { Reason } from '../../../api/reasons.ts';
import type { Instant } from '../observed.ts';
import type { Situation, Slot } from '../situation.ts';
import type { Step } from '../steps.ts';
import { wait } from './rule.ts';

export type RepairRecord = NonNullable<EtcdQuorumStatus['repairs']>[number];

/** A member that stays well this long after a repair was helped by it: what befalls it then is counted anew. */
const HELPED_MS = 3_600_000;
/** Repairs of one member for one cause, none of which helped. */
export const MOST_REPAIRS = 3;
const BACK_OFF_MS = 60_000;
const BACK_OFF_FACTOR = 4;
/** As the definition of the status has it; nine members have fewer causes. */
const MOST_RECORDS = 64;

/** Since when the member has not been ready; now, where it still is or nothing is known. */
const unwellSince = ({ seen }: Situation, slot: Slot): Instant => {
  const ready = slot.member.status.conditions?.find(({ type }) => type === 'Ready');
  const since = ready?.status === 'False' ? Date.parse(ready.lastTransitionTime) : Number.NaN;
  return Number.isNaN(since) ? seen.now : Math.min(since, seen.now);
};

/**
 * Not the age of the repair counts but how long the member was well after it. By its age alone, an hour of waiting for a
 * person would earn the next three repairs.
 */
const isOver = (s: Situation, { member, lastTime }: RepairRecord): boolean => {
  const slot = s.slots.find((one) => one.member.name === member);
  if (slot === undefined) return true;
  const wellFor = unwellSince(s, slot) - Date.parse(lastTime);
  return Number.isNaN(wellFor) || wellFor > HELPED_MS;
};

const recordOf = (s: Situation, member: string, cause: Reason): RepairRecord | undefined =>
  s.quorum?.status.repairs?.find((one) => one.member === member && one.cause === cause && !isOver(s, one));

export type RepairAnswer =
  | { readonly may: 'begin' }
  | { readonly may: 'later'; readonly at: Instant; readonly count: number }
  /** Until a person has marked the member with the retry annotation. */
  | { readonly may: 'not'; readonly count: number };

/** Whether a repair of this slot for this cause may begin now. */
export const mayRepair = (s: Situation, slot: Slot, cause: Reason): RepairAnswer => {
  const past = recordOf(s, slot.member.name, cause);
  if (past === undefined || slot.member.retry) return { may: 'begin' };
  const { count } = past;
  if (count >= MOST_REPAIRS) return { may: 'not', count };
  const at = Date.parse(past.lastTime) + BACK_OFF_MS * BACK_OFF_FACTOR ** (count - 1);
  return s.seen.now >= at ? { may: 'begin' } : { may: 'later', at, count };
};

/** What is said in place of a repair that may not begin; undefined where it may. */
export const repairHeld = (s: Situation, slot: Slot, cause: Reason, why: string): Step | undefined => {
  const answer = mayRepair(s, slot, cause);
  const { name } = slot.member;
  switch (answer.may) {
    case 'begin':
      return undefined;
    case 'later':
      return wait(
        'RepairDelayed',
        `${name} was repaired ${answer.count === 1 ? 'once' : `${answer.count} times`} for ${cause} and is not well again (${why}); the next repair begins at ${new Date(answer.at).toISOString()}`,
        Math.max(answer.at - s.seen.now, 1),
      );
    case 'not':
      return {
        do: 'AskHuman',
        reason: 'RepairExhausted',
        message: `${name} was repaired ${answer.count} times for ${cause} and is not well again (${why})`,
      };
    default:
      return answer satisfies never;
  }
};

/** The records with one more repair in them, without those that are over. Written before the repair begins. */
export const withRepair = (s: Situation, member: string, cause: Reason): RepairRecord[] => {
  const retried = s.slots.some((slot) => slot.member.name === member && slot.member.retry);
  const count = retried ? 1 : (recordOf(s, member, cause)?.count ?? 0) + 1;
  const others = (s.quorum?.status.repairs ?? []).filter(
    (one) => !(one.member === member && one.cause === cause) && !isOver(s, one),
  );
  return [...others.slice(1 - MOST_RECORDS), { member, cause, count, lastTime: new Date(s.seen.now).toISOString() }];
};
