/** Delays that grow by 1.6 from one second to a minute, each moved by up to a fifth so that many callers spread out. */
const FIRST_MS = 1000;
const FACTOR = 1.6;
const CAP_MS = 60_000;
const JITTER = 0.2;

/** `failures` counts from 1. `random` is in [0, 1). */
export const backOffMs = (failures: number, random: () => number = Math.random): number => {
  const base = Math.min(CAP_MS, FIRST_MS * FACTOR ** Math.max(0, failures - 1));
  return Math.min(CAP_MS, base * (1 - JITTER + 2 * JITTER * random()));
};
