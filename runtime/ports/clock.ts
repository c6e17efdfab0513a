/** Time as the runtime sees it, so that tests can hold it still and move it. */
export type Clock = {
  /** Milliseconds since the epoch: for what people and other processes read. Somebody may set it back. */
  now(): number;
  /** Milliseconds since some fixed moment, never going back: for every duration, age and deadline. */
  elapsed(): number;
  /** Runs `then` once, `ms` from now, unless the function it returns is called before. */
  after(ms: number, then: () => void): () => void;
};

/** Resolves after `ms`, or at once when `signal` is or becomes aborted; never rejects, so look at the signal after it. */
export const pause = (clock: Clock, ms: number, signal?: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal?.aborted || ms <= 0) return resolve();
    const done = (): void => {
      cancel();
      signal?.removeEventListener('abort', done);
      resolve();
    };
    const cancel = clock.after(ms, done);
    signal?.addEventListener('abort', done);
  });
