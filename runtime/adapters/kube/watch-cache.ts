/**
 * A local copy of one kind of object, kept by a watch that is expected to fail: streams end, fall silent, skip and lie,
 * and none of that may stop the runtime or make it act on a past that it has already left.
 */
import { type Clock, pause } from '../../ports/clock.ts';
import {
  type Kube,
  KubeFault,
  type KubeObject,
  type Resource,
  type Stored,
  type WatchEvent,
} from '../../ports/kube.ts';
import { systemClock } from '../system-clock.ts';
import { backOffMs } from './back-off.ts';
import { labelSelector } from './label-selector.ts';

export type ObjectKey = { readonly namespace: string; readonly name: string };

/** `before` undefined: new. `after` undefined: gone, or no longer matched by the selector. */
export type ChangeListener<T extends KubeObject> = (
  key: ObjectKey,
  before: Stored<T> | undefined,
  after: Stored<T> | undefined,
) => void;

/** What happened to the watch, for metrics and the log. */
export type WatchIncident =
  /** A full list was read, `count` objects. */
  | { what: 'listed'; resource: string; count: number }
  /** The server answered the watch. */
  | { what: 'connected'; resource: string }
  /** The server ended the stream as announced. */
  | { what: 'ended'; resource: string }
  /** The stream or a list failed; `fault.reason` says how (Gone, Timeout = silence, Malformed, Unavailable…). */
  | { what: 'failed'; resource: string; fault: KubeFault }
  /** The safety relist found what the watch had passed over in silence: a bug somewhere between us and etcd. */
  | { what: 'missed'; resource: string; count: number }
  /** A listener threw. The cache goes on. */
  | { what: 'listener-failed'; resource: string; error: unknown };

export type WatchTimings = {
  /** Shortest time between two connects, however the first one ended. */
  gapMs: number;
  /** Silence after which a stream counts as dead. The server sends a bookmark about once a minute. */
  idleMs: number;
  /** Bounds of the random life of one stream; random so that many watches do not end together. */
  lifeSeconds: readonly [number, number];
  /** Between two safety relists. */
  relistMs: number;
};

const TIMINGS: WatchTimings = { gapMs: 1000, idleMs: 150_000, lifeSeconds: [240, 480], relistMs: 600_000 };

export type WatchCacheOptions<T extends KubeObject> = {
  kube: Kube;
  resource: Resource<T>;
  /** Absent: the whole cluster. */
  namespace?: string | undefined;
  labelSelector?: string | undefined;
  fieldSelector?: string | undefined;
  /** The key of the cluster an object belongs to, for `byIndex`; undefined leaves it out of the index. */
  index?: ((object: Stored<T>) => string | undefined) | undefined;
  /** Removes, in place, what nobody here reads: memory is kept for every object of every cluster. */
  trim?: ((object: Stored<T>) => void) | undefined;
  onIncident?: ((incident: WatchIncident) => void) | undefined;
  clock?: Clock | undefined;
  random?: (() => number) | undefined;
  timings?: Partial<WatchTimings> | undefined;
};

/** Objects that come out of it are shared: whoever changes one changes it for everybody. */
export type WatchCache<T extends KubeObject> = {
  readonly resource: Resource<T>;
  /** Resolves after the first full list; rejects with `Cancelled` when stopped before. */
  readonly synced: Promise<void>;
  hasSynced(): boolean;
  get(namespace: string, name: string): Stored<T> | undefined;
  list(): Stored<T>[];
  byIndex(key: string): Stored<T>[];
  /** Called synchronously, after the cache has changed. Returns how to stop listening. */
  onChange(listener: ChangeListener<T>): () => void;
  /**
   * Takes the answer to a write of our own, so that the pass that follows it reads what it wrote. An older version never
   * overwrites a newer one, whichever way each of them came.
   */
  observe(object: Stored<T>): void;
  /** Milliseconds since the last byte from the server. */
  silentMs(): number;
  /** Milliseconds since the loop last did anything. Beyond some minutes it is dead, while an absent API server is not our death. */
  stuckMs(): number;
  stop(): Promise<void>;
};

type Entry<T extends KubeObject> = { object: Stored<T>; version: bigint; index: string | undefined };

/** How long a deletion is remembered: no call of ours lives longer, so nothing older can still arrive. */
const TOMBSTONE_MS = 600_000;

export const startWatchCache = <T extends KubeObject>(options: WatchCacheOptions<T>): WatchCache<T> => {
  const { kube, resource, namespace, fieldSelector } = options;
  const clock = options.clock ?? systemClock;
  const random = options.random ?? Math.random;
  const timings = { ...TIMINGS, ...options.timings };
  const plural = resource.plural;
  const matches = labelSelector(options.labelSelector);

  const entries = new Map<string, Entry<T>>();
  const indexed = new Map<string, Map<string, Entry<T>>>();
  const tombstones = new Map<string, { version: bigint; at: number }>();
  const listeners = new Set<ChangeListener<T>>();
  const stopping = new AbortController();
  const first = Promise.withResolvers<void>();
  // Nobody has to wait for it; a stopped cache is no unhandled rejection.
  first.promise.catch(() => {});

  let synced = false;
  let lastByte = clock.elapsed();
  let lastAct = clock.elapsed();

  const tell = (incident: WatchIncident): void => options.onIncident?.(incident);
  const heard = (): void => {
    lastByte = clock.elapsed();
    lastAct = lastByte;
  };

  /**
   * Resource versions are compared as numbers. Kubernetes 1.35 promises this for every kind (KEP-5504, "Comparable Resource
   * Version"); older servers do the same without the promise. Equality alone could not tell old from new, and a late answer
   * to a write would undo a newer event.
   */
  const versionOf = (object: Stored<T>): bigint => BigInt(object.metadata.resourceVersion);

  const idOf = (object: Stored<T>): string => `${object.metadata.namespace ?? ''}/${object.metadata.name}`;

  const emit = (object: Stored<T>, before: Stored<T> | undefined, after: Stored<T> | undefined): void => {
    const key = { namespace: object.metadata.namespace ?? '', name: object.metadata.name };
    for (const listener of listeners) {
      try {
        listener(key, before, after);
      } catch (error) {
        tell({ what: 'listener-failed', resource: plural, error });
      }
    }
  };

  const unindex = (id: string, entry: Entry<T>): void => {
    if (entry.index === undefined) return;
    const members = indexed.get(entry.index);
    members?.delete(id);
    if (members?.size === 0) indexed.delete(entry.index);
  };

  const bury = (uid: string, version: bigint): void => {
    const buried = tombstones.get(uid);
    if (buried === undefined || buried.version < version) tombstones.set(uid, { version, at: clock.elapsed() });
  };

  /** True when the object was gone already in a newer state: a late event or answer must not bring it back. */
  const isBuried = (uid: string, version: bigint): boolean => {
    const buried = tombstones.get(uid);
    return buried !== undefined && version <= buried.version;
  };

  const drop = (object: Stored<T>, version: bigint): boolean => {
    const id = idOf(object);
    const entry = entries.get(id);
    // Written after this deletion, or after the list that lacks it, was made: its own event will speak for it.
    if (entry?.object.metadata.uid === object.metadata.uid && version < entry.version) return false;
    bury(object.metadata.uid, version);
    if (entry === undefined || entry.object.metadata.uid !== object.metadata.uid) return false;
    entries.delete(id);
    unindex(id, entry);
    emit(object, entry.object, undefined);
    return true;
  };

  const put = (object: Stored<T>): boolean => {
    const { uid } = object.metadata;
    const version = versionOf(object);
    if (isBuried(uid, version)) return false;
    const id = idOf(object);
    const entry = entries.get(id);
    if (entry !== undefined && version <= entry.version) return false;
    // The same name and another uid: the old one is gone although nobody told us, and whatever was known of it is void.
    if (entry !== undefined && entry.object.metadata.uid !== uid) drop(entry.object, version);
    const before = entries.get(id);
    if (before !== undefined) unindex(id, before);
    const index = options.index?.(object);
    const next: Entry<T> = { object, version, index };
    entries.set(id, next);
    if (index !== undefined) {
      const members = indexed.get(index);
      if (members === undefined) indexed.set(index, new Map([[id, next]]));
      else members.set(id, next);
    }
    emit(object, before?.object, object);
    return true;
  };

  const slim = (object: Stored<T>): Stored<T> => {
    // A third of a Pod, and read by nobody here.
    delete object.metadata.managedFields;
    options.trim?.(object);
    return object;
  };

  /** A full list as the truth of its version; returns what it changed, by uid. */
  const absorb = (items: Stored<T>[], resourceVersion: string): Map<string, bigint> => {
    const version = BigInt(resourceVersion);
    const changed = new Map<string, bigint>();
    const present = new Set<string>();
    for (const item of items) {
      present.add(item.metadata.uid);
      if (put(slim(item))) changed.set(item.metadata.uid, versionOf(item));
    }
    for (const { object } of [...entries.values()]) {
      if (present.has(object.metadata.uid)) continue;
      if (drop(object, version)) changed.set(object.metadata.uid, version);
    }
    const old = clock.elapsed() - TOMBSTONE_MS;
    for (const [uid, { at }] of tombstones) if (at < old) tombstones.delete(uid);
    return changed;
  };

  const listAll = async (resourceVersion?: string): Promise<{ items: Stored<T>[]; resourceVersion: string }> => {
    lastAct = clock.elapsed();
    const listed = await kube.list(resource, {
      namespace,
      labelSelector: options.labelSelector,
      fieldSelector,
      resourceVersion,
      // A page of Pods on a busy server; each page has this long.
      deadlineMs: 30_000,
      signal: stopping.signal,
    });
    heard();
    tell({ what: 'listed', resource: plural, count: listed.items.length });
    return listed;
  };

  /** What the safety relist changed and the watch has not confirmed yet; it should have by the time it passes `until`. */
  let unconfirmed: { until: bigint; changes: Map<string, bigint> } | undefined;
  let connection: AbortController | undefined;

  const confirm = (uid: string, version: bigint): void => {
    const expected = unconfirmed?.changes.get(uid);
    if (expected !== undefined && version >= expected) unconfirmed?.changes.delete(uid);
  };

  const audit = (reached: bigint): void => {
    if (unconfirmed === undefined || reached < unconfirmed.until) return;
    const count = unconfirmed.changes.size;
    unconfirmed = undefined;
    if (count === 0) return;
    tell({ what: 'missed', resource: plural, count });
    // A stream that skips is not to be trusted with what comes next.
    connection?.abort();
  };

  /** Handles one event; returns the version from which the watch may resume. */
  const take = (event: WatchEvent<T>): string => {
    if (event.type === 'BOOKMARK') {
      audit(BigInt(event.resourceVersion));
      return event.resourceVersion;
    }
    const { object } = event;
    const version = versionOf(object);
    // The version before this one has been passed for certain; this one only once its event was handled.
    audit(version - 1n);
    if (event.type === 'DELETED') {
      // The relist could only bury it at the list's own version, which is later than the deletion.
      unconfirmed?.changes.delete(object.metadata.uid);
      drop(object, version);
    } else {
      confirm(object.metadata.uid, version);
      put(slim(object));
    }
    audit(version);
    return object.metadata.resourceVersion;
  };

  const follow = async (): Promise<void> => {
    /** Undefined: list first. */
    let from: string | undefined;
    let failures = 0;
    let connectedAt = Number.NEGATIVE_INFINITY;
    while (!stopping.signal.aborted) {
      try {
        if (from === undefined) {
          // The first list may come from the server's cache, which spares etcd when everything restarts at once. After a
          // 410 it may not: the cache we were told to leave behind could answer.
          const listed = await listAll(synced ? undefined : '0');
          unconfirmed = undefined;
          absorb(listed.items, listed.resourceVersion);
          from = listed.resourceVersion;
          if (!synced) {
            synced = true;
            first.resolve();
          }
        }
        await pause(clock, connectedAt + timings.gapMs - clock.elapsed(), stopping.signal);
        if (stopping.signal.aborted) break;
        connectedAt = clock.elapsed();
        lastAct = connectedAt;
        const [least, most] = timings.lifeSeconds;
        const current = new AbortController();
        connection = current;
        const stop = (): void => current.abort();
        stopping.signal.addEventListener('abort', stop, { once: true });
        let answered = false;
        try {
          const events = kube.watch(resource, {
            namespace,
            labelSelector: options.labelSelector,
            fieldSelector,
            resourceVersion: from,
            timeoutSeconds: Math.round(least + (most - least) * random()),
            idleTimeoutMs: timings.idleMs,
            signal: current.signal,
            onBytes: () => {
              heard();
              if (answered) return;
              answered = true;
              tell({ what: 'connected', resource: plural });
            },
          });
          for await (const event of events) {
            from = take(event);
            failures = 0;
          }
          tell({ what: 'ended', resource: plural });
        } finally {
          connection = undefined;
          stopping.signal.removeEventListener('abort', stop);
        }
      } catch (error) {
        if (stopping.signal.aborted) break;
        const fault = KubeFault.from(error, `watch ${plural}`);
        tell({ what: 'failed', resource: plural, fault });
        // Gone: history was compacted. Malformed: a line was lost. Cancelled: our own doubt, after a missed event.
        if (['Gone', 'Malformed', 'Cancelled'].includes(fault.reason)) from = undefined;
        failures += 1;
        // One of these is everyday life and is answered at once; a server that gives nothing else is not hammered.
        const atOnce = failures === 1 && ['Gone', 'Malformed', 'Timeout', 'Cancelled'].includes(fault.reason);
        const wait = atOnce ? 0 : Math.max(fault.retryAfterMs ?? 0, backOffMs(failures, random));
        await pause(clock, wait, stopping.signal);
      }
    }
    first.reject(new KubeFault('Cancelled', `watch ${plural}: Cancelled: stopped before the first list`));
  };

  /** The net below the watch. It runs beside it, since what it must find is a stream that looks healthy. */
  const relist = async (): Promise<void> => {
    for (;;) {
      await pause(clock, timings.relistMs * (0.9 + 0.2 * random()), stopping.signal);
      if (stopping.signal.aborted) return;
      if (!synced) continue;
      try {
        const { items, resourceVersion } = await listAll();
        const changes = absorb(items, resourceVersion);
        // Without a stream there is nothing to hold to account: the next connect starts where the last one stopped.
        unconfirmed =
          changes.size > 0 && connection !== undefined ? { until: BigInt(resourceVersion), changes } : undefined;
      } catch (error) {
        if (stopping.signal.aborted) return;
        tell({ what: 'failed', resource: plural, fault: KubeFault.from(error, `list ${plural}`) });
      }
    }
  };

  const running = Promise.all([follow(), relist()]);

  return {
    resource,
    synced: first.promise,
    hasSynced: () => synced,
    get: (inNamespace, name) => entries.get(`${inNamespace}/${name}`)?.object,
    list: () => Array.from(entries.values(), (entry) => entry.object),
    byIndex: (key) => Array.from(indexed.get(key)?.values() ?? [], (entry) => entry.object),
    onChange: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    observe: (object) => {
      if (namespace !== undefined && object.metadata.namespace !== namespace) return;
      // The caller keeps its object; what is trimmed is a copy.
      const own = slim(
        options.trim === undefined ? { ...object, metadata: { ...object.metadata } } : structuredClone(object),
      );
      if (matches(object.metadata.labels)) put(own);
      else drop(own, versionOf(own));
    },
    silentMs: () => clock.elapsed() - lastByte,
    stuckMs: () => clock.elapsed() - lastAct,
    stop: async () => {
      stopping.abort();
      await running;
    },
  };
};
