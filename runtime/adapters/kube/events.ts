/**
 * Kubernetes Events. An Event is a courtesy: it is counted instead of repeated, limited per object, written one at a time in
 * the background, and dropped rather than allowed to hold anything up.
 */
import { randomBytes } from 'node:crypto';
import type { Event } from 'kubernetes-types/core/v1.js';
import type { Clock } from '../../ports/clock.ts';
import {
  type EventNote,
  isFault,
  type Kube,
  type KubeEvents,
  KubeFault,
  type KubeObject,
  resources,
} from '../../ports/kube.ts';
import { systemClock } from '../system-clock.ts';

export type EventRecorderOptions = {
  kube: Kube;
  /** Shown as the source: who says so. */
  component: string;
  /** Which of several processes: a Pod's name. */
  instance: string;
  /** An Event that was not written, and why: the limit, a full queue, or the API server's answer. */
  onDropped?: ((why: 'limited' | 'full' | KubeFault) => void) | undefined;
  clock?: Clock | undefined;
};

export type EventRecorder = KubeEvents & {
  /** Writes what waits for its minute, and resolves when everything recorded so far has been written or dropped. */
  flush(): Promise<void>;
};

/** A repeat is counted here and written at most this often: nothing of ours ticks in etcd. */
const REPEAT_MS = 60_000;
/** Per object: so many different Events at once, as client-go allows, then one each half minute. */
const BURST = 25;
const REFILL_MS = 30_000;
const LARGEST_QUEUE = 200;
const LARGEST_MEMORY = 2000;
/** The API server forgets Events after an hour; a repeat later than that is a new one. */
const FORGET_MS = 3_000_000;
const LONGEST_MESSAGE = 1024;

type Remembered = {
  name: string;
  namespace: string;
  count: number;
  written: number;
  lastAt: string;
  lastElapsed: number;
  writtenElapsed: number;
  cancelLater: (() => void) | undefined;
};

/** Keeps the map from growing with every object that ever lived: the oldest entry goes. */
const bound = <V>(map: Map<string, V>): void => {
  if (map.size <= LARGEST_MEMORY) return;
  for (const oldest of map.keys()) {
    map.delete(oldest);
    return;
  }
};

export const createEventRecorder = (options: EventRecorderOptions): EventRecorder => {
  const { kube, component, instance } = options;
  const clock = options.clock ?? systemClock;
  const dropped = (why: 'limited' | 'full' | KubeFault): void => options.onDropped?.(why);
  const remembered = new Map<string, Remembered>();
  const budgets = new Map<string, { tokens: number; at: number }>();
  let pending = 0;
  let tail: Promise<void> = Promise.resolve();

  const stamp = (): string => `${new Date(clock.now()).toISOString().slice(0, 19)}Z`;

  const affords = (uid: string): boolean => {
    const now = clock.elapsed();
    const budget = budgets.get(uid) ?? { tokens: BURST, at: now };
    const tokens = Math.min(BURST, budget.tokens + (now - budget.at) / REFILL_MS);
    // Most recently used last, for bound().
    budgets.delete(uid);
    budgets.set(uid, { tokens: tokens >= 1 ? tokens - 1 : tokens, at: now });
    bound(budgets);
    return tokens >= 1;
  };

  const later = (write: () => Promise<unknown>): void => {
    if (pending >= LARGEST_QUEUE) {
      dropped('full');
      return;
    }
    pending += 1;
    tail = tail.then(async () => {
      try {
        await write();
      } catch (error) {
        dropped(KubeFault.from(error, 'write an Event'));
      } finally {
        pending -= 1;
      }
    });
  };

  const writeCount = (entry: Remembered): void => {
    entry.cancelLater = undefined;
    entry.writtenElapsed = clock.elapsed();
    later(async () => {
      if (entry.written === entry.count) return;
      const { count, lastAt } = entry;
      await kube.mergePatch(
        { resource: resources.events, namespace: entry.namespace, name: entry.name },
        { count, lastTimestamp: lastAt },
        { deadlineMs: 5000 },
      );
      entry.written = count;
    });
  };

  const repeat = (entry: Remembered): void => {
    entry.count += 1;
    entry.lastAt = stamp();
    entry.lastElapsed = clock.elapsed();
    if (entry.cancelLater !== undefined) return;
    const wait = entry.writtenElapsed + REPEAT_MS - clock.elapsed();
    if (wait <= 0) writeCount(entry);
    else entry.cancelLater = clock.after(wait, () => writeCount(entry));
  };

  const record = (about: KubeObject, note: EventNote): void => {
    const meta = about.metadata;
    const uid = meta?.uid ?? '';
    const message = note.message.slice(0, LONGEST_MESSAGE);
    const key = [uid, note.type, note.reason, note.action ?? '', message].join('\n');
    const known = remembered.get(key);
    if (known !== undefined && clock.elapsed() - known.lastElapsed < FORGET_MS) {
      repeat(known);
      return;
    }
    // Draws on what is left all the same: what it cost, the others do without.
    if (!affords(uid) && note.essential !== true) {
      dropped('limited');
      return;
    }
    // Events of cluster-scoped objects live in the default namespace.
    const namespace = meta?.namespace ?? 'default';
    const now = stamp();
    const entry: Remembered = {
      name: `${(meta?.name ?? 'unknown').slice(0, 200)}.${randomBytes(8).toString('hex')}`,
      namespace,
      count: 1,
      written: 1,
      lastAt: now,
      lastElapsed: clock.elapsed(),
      writtenElapsed: clock.elapsed(),
      cancelLater: undefined,
    };
    remembered.delete(key);
    remembered.set(key, entry);
    bound(remembered);
    const event: Event = {
      metadata: { name: entry.name, namespace },
      involvedObject: {
        ...(about.apiVersion === undefined ? {} : { apiVersion: about.apiVersion }),
        ...(about.kind === undefined ? {} : { kind: about.kind }),
        ...(meta?.namespace === undefined ? {} : { namespace: meta.namespace }),
        ...(meta?.name === undefined ? {} : { name: meta.name }),
        ...(meta?.resourceVersion === undefined ? {} : { resourceVersion: meta.resourceVersion }),
        uid,
      },
      type: note.type,
      reason: note.reason,
      message,
      ...(note.action === undefined ? {} : { action: note.action }),
      source: { component },
      reportingComponent: component,
      reportingInstance: instance,
      firstTimestamp: now,
      lastTimestamp: now,
      count: 1,
    };
    later(async () => {
      try {
        await kube.create(resources.events, event, { deadlineMs: 5000 });
      } catch (error) {
        // The next one like it is written anew, since there is nothing to count up.
        remembered.delete(key);
        // A namespace that is being deleted takes no Events, and nobody is there to read them.
        if (!isFault(error, 'NamespaceTerminating')) throw error;
      }
    });
  };

  return {
    record,
    flush: () => {
      for (const entry of remembered.values()) {
        if (entry.cancelLater === undefined) continue;
        entry.cancelLater();
        writeCount(entry);
      }
      return tail;
    },
  };
};
