/** Waiting for what a cluster does in its own time. */
import { setTimeout as pause } from 'node:timers/promises';

export type Patience = {
  /** Milliseconds until the wait is given up; a minute when absent. */
  readonly deadlineMs?: number;
  readonly everyMs?: number;
};

/** Thrown by a probe that can say how far things are; the last one's words end up in the message of the failed wait. */
export class NotYet extends Error {
  override readonly name = 'NotYet';
}

export const notYet = (why: string): never => {
  throw new NotYet(why);
};

/**
 * Asks `probe` until it returns, and returns what it returned. It throws while things are not so yet: what it threw last is
 * why the wait failed.
 * @throws after the deadline, with `what` and the last reason
 */
export const eventually = async <T>(what: string, probe: () => Promise<T> | T, patience: Patience = {}): Promise<T> => {
  const { deadlineMs = 60_000, everyMs = 150 } = patience;
  const giveUp = performance.now() + deadlineMs;
  for (;;) {
    try {
      return await probe();
    } catch (error) {
      if (performance.now() > giveUp) {
        const why = error instanceof Error ? error.message : String(error);
        throw new Error(`not so after ${Math.round(deadlineMs / 1000)} s: ${what}; at last: ${why}`, { cause: error });
      }
    }
    await pause(everyMs);
  }
};

/** The other way round: `check` must hold the whole time. It throws as soon as it does not. */
export const throughout = async (ms: number, check: () => Promise<void> | void, everyMs = 200): Promise<void> => {
  const end = performance.now() + ms;
  do {
    await check();
    await pause(everyMs);
  } while (performance.now() < end);
};
