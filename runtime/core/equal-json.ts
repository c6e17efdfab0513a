/**
 * Whether two JSON values say the same. Not by their text: the API server gives the keys of our kinds back in alphabetical
 * order, so that a status compared by its text would be written again in every pass. An undefined field is an absent one.
 */
export const equalJson = (a: unknown, b: unknown): boolean => {
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return a === b;
  if (Array.isArray(a) || Array.isArray(b)) {
    return Array.isArray(a) && Array.isArray(b) && a.length === b.length && a.every((one, at) => equalJson(one, b[at]));
  }
  const [left, right] = [a, b] as readonly [Record<string, unknown>, Record<string, unknown>];
  return [...new Set([...Object.keys(left), ...Object.keys(right)])].every((key) => equalJson(left[key], right[key]));
};
