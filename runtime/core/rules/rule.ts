/** What a rule of the plan is, and the words all of them are written with. */
import type { Reason } from '../../../api/reasons.ts';
import type { Situation } from '../situation.ts';
import type { ObjectName, Step } from '../steps.ts';

export type Rule = { readonly name: string; readonly answer: (s: Situation) => Step | undefined };

export const STARTING_RECHECK_MS = 500;

export const RETRY_MS = 2_000;

export const named = ({ name, uid }: ObjectName): ObjectName => ({ name, uid });

export const wait = (reason: Reason, message: string, recheckMs?: number): Step => ({
  do: 'Wait',
  reason,
  message,
  ...(recheckMs === undefined ? {} : { recheckMs }),
});
