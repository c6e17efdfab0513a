/** Asks an agent how far it is. Whoever does not answer at once is just not asked again until the next pass. */
import type { SnapshotProgress } from '../core/snapshots/snapshot-plan.ts';

const DEADLINE_MS = 1_000;

export const askProgress = async (url: string, signal: AbortSignal): Promise<SnapshotProgress | undefined> => {
  try {
    const answer = await fetch(url, { signal: AbortSignal.any([signal, AbortSignal.timeout(DEADLINE_MS)]) });
    const { bytes, expected } = (await answer.json()) as { bytes?: unknown; expected?: unknown };
    return typeof bytes === 'string' && typeof expected === 'string' && /^\d+$/.test(bytes) && /^\d+$/.test(expected)
      ? { bytes: BigInt(bytes), expected: BigInt(expected) }
      : undefined;
  } catch {
    return undefined;
  }
};
