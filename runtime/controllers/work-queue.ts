/**
 * Which key is worked on when. Keys, not events, are queued: however often a cluster changes while it waits or while a pass
 * over it runs, one more pass sees it all.
 */
import type { Clock } from '../ports/clock.ts';

export type WorkOutcome = {
  key: string;
  /** From when the key fell due to when a worker took it. */
  waitedMs: number;
  ranMs: number;
  /** Present when the work threw. `failures` counts those in a row. */
  error?: unknown;
  failures: number;
};

export type WorkQueueOptions = {
  /** How many keys are worked on at a time; never one key twice. */
  workers: number;
  /**
   * One pass. Returns in how many milliseconds the key wants another one, or nothing. What it throws is a failed pass, tried
   * again after a growing delay. The signal is aborted when the queue stops.
   */
  work: (key: string, signal: AbortSignal) => Promise<number | undefined>;
  /** After each pass. */
  onOutcome?: ((outcome: WorkOutcome) => void) | undefined;
  /** How long a key rests after its n-th failure in a row (from 1). */
  backOffMs?: ((failures: number, error: unknown) => number) | undefined;
  clock: Clock;
  random?: (() => number) | undefined;
};

export type WorkQueue = {
  /** Asks for a pass, `afterMs` from now. Asked for twice, the earlier time counts. */
  enqueue(key: string, afterMs?: number): void;
  /** Drops a waiting key and its failures: the cluster is gone. A running pass goes on and leaves nothing behind. */
  forget(key: string): void;
  stats(): {
    /** Due and waiting for a worker. */
    ready: number;
    /** Waiting for their time. */
    delayed: number;
    running: number;
    /** How long the key at the head has been due. */
    oldestReadyMs: number;
    longestRunningMs: number;
  };
  /** Takes no more keys, tells the running passes, and resolves when the last of them has ended. */
  stop(): Promise<void>;
};

/**
 * A key that just failed rests at least this long even when something new has happened to it: the failing pass may itself
 * be what makes the events.
 */
const LEAST_REST_MS = 1000;
const CAP_MS = 60_000;

type Item = {
  key: string;
  failures: number;
  /** No pass before this moment; set by a failure. */
  restUntil: number;
  /** When it is to run next; undefined when nobody asked. */
  dueAt: number | undefined;
  cancelTimer: (() => void) | undefined;
  runningSince: number | undefined;
  /** Forgotten while a pass runs: it stays here until the pass ends, or the key could be worked on twice at once. */
  forgotten: boolean;
};

export const createWorkQueue = (options: WorkQueueOptions): WorkQueue => {
  const { clock, work, workers } = options;
  const random = options.random ?? Math.random;
  const backOffMs =
    options.backOffMs ?? ((failures: number) => Math.min(CAP_MS, 500 * 2 ** (failures - 1)) * (0.8 + 0.2 * random()));
  const items = new Map<string, Item>();
  /** In the order in which they fell due; a key that runs again goes to the end, so none starves the others. */
  const ready = new Set<Item>();
  const running = new Map<Item, Promise<void>>();
  const stopping = new AbortController();

  const schedule = (item: Item, dueAt: number): void => {
    if (item.dueAt !== undefined && item.dueAt <= dueAt) return;
    item.dueAt = dueAt;
    // Its worker looks at dueAt when the pass ends.
    if (item.runningSince === undefined) arm(item);
  };

  const arm = (item: Item): void => {
    item.cancelTimer?.();
    item.cancelTimer = undefined;
    if (item.dueAt === undefined || stopping.signal.aborted) return;
    const wait = item.dueAt - clock.elapsed();
    if (wait <= 0) {
      ready.add(item);
      pump();
      return;
    }
    item.cancelTimer = clock.after(wait, () => {
      item.cancelTimer = undefined;
      ready.add(item);
      pump();
    });
  };

  const run = async (item: Item, waitedMs: number, started: number): Promise<void> => {
    let error: unknown;
    let failed = false;
    let againMs: number | undefined;
    try {
      againMs = await work(item.key, stopping.signal);
    } catch (thrown) {
      failed = true;
      error = thrown;
    }
    const ended = clock.elapsed();
    item.runningSince = undefined;
    running.delete(item);
    if (failed && !item.forgotten) {
      item.failures += 1;
      againMs = backOffMs(item.failures, error);
      item.restUntil = ended + Math.min(againMs, LEAST_REST_MS);
      if (item.dueAt !== undefined) item.dueAt = Math.max(item.dueAt, item.restUntil);
    } else {
      item.failures = 0;
      item.restUntil = 0;
    }
    if (againMs !== undefined && !item.forgotten) {
      const dueAt = ended + againMs;
      item.dueAt = item.dueAt === undefined ? dueAt : Math.min(item.dueAt, dueAt);
    }
    if (item.dueAt === undefined) items.delete(item.key);
    else arm(item);
    const { failures } = item;
    options.onOutcome?.({ key: item.key, waitedMs, ranMs: ended - started, failures, ...(failed ? { error } : {}) });
  };

  const pump = (): void => {
    while (running.size < workers && !stopping.signal.aborted) {
      const [item] = ready;
      if (item === undefined) return;
      ready.delete(item);
      const started = clock.elapsed();
      const waitedMs = started - (item.dueAt ?? started);
      // Before anything else can run: from here on an enqueue asks for the pass after this one.
      item.dueAt = undefined;
      item.runningSince = started;
      running.set(
        item,
        Promise.resolve()
          .then(() => run(item, waitedMs, started))
          // A rejection here could only be onOutcome's; it must not leave a worker idle.
          .finally(pump),
      );
    }
  };

  return {
    enqueue: (key, afterMs = 0) => {
      if (stopping.signal.aborted) return;
      let item = items.get(key);
      if (item === undefined) {
        item = {
          key,
          failures: 0,
          restUntil: 0,
          dueAt: undefined,
          cancelTimer: undefined,
          runningSince: undefined,
          forgotten: false,
        };
        items.set(key, item);
      }
      item.forgotten = false;
      schedule(item, Math.max(clock.elapsed() + Math.max(0, afterMs), item.restUntil));
    },

    forget: (key) => {
      const item = items.get(key);
      if (item === undefined) return;
      item.cancelTimer?.();
      item.cancelTimer = undefined;
      item.dueAt = undefined;
      ready.delete(item);
      if (item.runningSince === undefined) items.delete(key);
      else item.forgotten = true;
    },

    stats: () => {
      const now = clock.elapsed();
      const [head] = ready;
      const since = [...running.keys()].map((item) => now - (item.runningSince ?? now));
      return {
        ready: ready.size,
        delayed: [...items.values()].filter((item) => item.cancelTimer !== undefined).length,
        running: running.size,
        oldestReadyMs: head === undefined ? 0 : now - (head.dueAt ?? now),
        longestRunningMs: Math.max(0, ...since),
      };
    },

    stop: async () => {
      stopping.abort();
      for (const item of items.values()) item.cancelTimer?.();
      ready.clear();
      await Promise.allSettled(running.values());
    },
  };
};
