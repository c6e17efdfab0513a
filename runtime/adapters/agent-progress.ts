/** Asks an agent how far it is. Whoever does not answer at once is just not asked again until the next pass. */
import type { SnapshotProgress } from '../core/snapshots/snapshot-plan.ts';

const DEADLINE_MS = 1_000;

const count = (text: unknown): bigint | undefined =>
  typeof text === 'string' && /^\d+$/.test(text) ? BigInt(text) : undefined;

export const askProgress = async (url: string, signal: AbortSignal): Promise<SnapshotProgress | undefined> => {
  try {
    const answer = await fetch(url, { signal: AbortSignal.any([signal, AbortSignal.timeout(DEADLINE_MS)]) });
    const said = (await answer.json()) as { bytes?: unknown; expected?: unknown; bytesPerSecond?: unknown };
    const [bytes, expected, bytesPerSecond] = [said.bytes, said.expected, said.bytesPerSecond].map(count);
    return bytes === undefined || expected === undefined ? undefined : { bytes, expected, bytesPerSecond };
  } catch {
    return undefined;
  }
};
