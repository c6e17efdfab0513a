/**
 * The JSON merge patch that turns `before` into `after`, key by key at the first level: what is gone becomes null,
 * arrays are replaced. Objects that differ are replaced as a whole, with nulls for their own lost keys.
 */
export const mergeTo = (before: object, after: object): Record<string, unknown> => {
  const old = before as Record<string, unknown>;
  const next = after as Record<string, unknown>;
  const patch: Record<string, unknown> = {};
  for (const key of Object.keys(old)) if (next[key] === undefined) patch[key] = null;
  for (const [key, value] of Object.entries(next)) {
    if (value === undefined) continue;
    patch[key] = isRecord(value) && isRecord(old[key]) ? mergeTo(old[key], value) : value;
  }
  return patch;
};

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
