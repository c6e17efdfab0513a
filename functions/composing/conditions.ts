import { record } from './claim.ts';
import type { ConditionStatus } from './exchange.ts';

/** A condition as it stands in an object's status. */
export type StatusCondition = {
  readonly type: string;
  readonly status: ConditionStatus;
  readonly reason: string;
  readonly message: string;
};

/** The condition of that type in `object.status.conditions`, or undefined when it is absent or malformed. */
export const conditionOf = (object: object | undefined, type: string): StatusCondition | undefined => {
  const conditions = record(record(object).status).conditions;
  if (!Array.isArray(conditions)) return undefined;
  for (const each of conditions) {
    const condition = record(each);
    if (condition.type !== type) continue;
    const { status, reason, message } = condition;
    if (status !== 'True' && status !== 'False' && status !== 'Unknown') return undefined;
    return {
      type,
      status,
      reason: typeof reason === 'string' ? reason : '',
      message: typeof message === 'string' ? message : '',
    };
  }
  return undefined;
};

export const isTrue = (object: object | undefined, type: string): boolean =>
  conditionOf(object, type)?.status === 'True';
