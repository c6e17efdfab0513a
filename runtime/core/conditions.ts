/** Conditions as the field has them, from what is said now and what stood there before. */
import type { Reason } from '../../api/reasons.ts';
import type { Instant } from './observed.ts';

export type Truth = 'True' | 'False' | 'Unknown';

export type Condition = {
  type: string;
  status: Truth;
  reason: string;
  message?: string;
  /** RFC 3339. */
  lastTransitionTime: string;
  observedGeneration?: number;
};

/** What a condition says now. */
export type Said = { readonly status: Truth; readonly reason: Reason; readonly message: string };

const CONDITION_MESSAGE_MAX = 1_000;

export const truth = (value: boolean): Truth => (value ? 'True' : 'False');

const short = (text: string): string =>
  text.length <= CONDITION_MESSAGE_MAX ? text : `${text.slice(0, CONDITION_MESSAGE_MAX - 1)}…`;

/** One for each type in `said`, in that order; those of other types are not carried over. Transition time moves only when the status value does. */
export const conditions = (
  before: readonly Condition[] | undefined,
  now: Instant,
  generation: number,
  said: Readonly<Record<string, Said>>,
): Condition[] =>
  Object.entries(said).map(([type, { status, reason, message }]) => {
    const old = before?.find((condition) => condition.type === type);
    return {
      type,
      status,
      reason,
      message: short(message),
      lastTransitionTime:
        old !== undefined && old.status === status ? old.lastTransitionTime : new Date(now).toISOString(),
      observedGeneration: generation,
    };
  });
