import type { Clock } from '../../runtime/ports/clock.ts';

export type FakeClock = Clock & {
  /** Moves time, running what falls due in its order, and lets promises settle after each step. */
  advance(ms: number): Promise<void>;
  /** How many timers wait. */
  pending(): number;
  /** Resolves when at least so many timers wait: whoever was busy has come to rest. */
  armed(count: number): Promise<void>;
  /** Milliseconds until the next timer, undefined when none waits. */
  nextIn(): number | undefined;
};

/** Promise chains settle in microtasks; a few turns of the event loop also let loopback I/O callbacks through. */
const settle = async (): Promise<void> => {
  for (let turn = 0; turn < 3; turn++) await new Promise<void>((resolve) => setImmediate(resolve));
};

export const fakeClock = (startMs = Date.UTC(2030, 0, 1)): FakeClock => {
  let elapsed = 0;
  let order = 0;
  const timers = new Set<{ at: number; order: number; then: () => void }>();
  const watching = new Set<() => void>();
  const next = () => [...timers].sort((a, b) => a.at - b.at || a.order - b.order)[0];
  return {
    now: () => startMs + elapsed,
    elapsed: () => elapsed,
    after: (ms, then) => {
      const timer = { at: elapsed + Math.max(0, ms), order: order++, then };
      timers.add(timer);
      for (const look of watching) look();
      return () => timers.delete(timer);
    },
    advance: async (ms) => {
      const until = elapsed + ms;
      await settle();
      for (let due = next(); due !== undefined && due.at <= until; due = next()) {
        timers.delete(due);
        elapsed = Math.max(elapsed, due.at);
        due.then();
        await settle();
      }
      elapsed = until;
      await settle();
    },
    pending: () => timers.size,
    armed: (count) =>
      new Promise((resolve) => {
        const look = (): void => {
          if (timers.size < count) return;
          watching.delete(look);
          resolve();
        };
        watching.add(look);
        look();
      }),
    nextIn: () => {
      const due = next();
      return due === undefined ? undefined : due.at - elapsed;
    },
  };
};
