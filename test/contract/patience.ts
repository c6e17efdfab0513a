/** Waiting for what etcd announces to nobody. */
import { setTimeout as delay } from 'node:timers/promises';

const PATIENCE_MS = 20_000;

/** The first answer of `look` that does not throw. etcd announces nothing, so it is asked. */
export const eventually = async <T>(look: () => Promise<T>): Promise<T> => {
  const deadline = Date.now() + PATIENCE_MS;
  for (;;) {
    try {
      return await look();
    } catch (failure) {
      if (Date.now() > deadline) throw failure;
      await delay(25);
    }
  }
};
