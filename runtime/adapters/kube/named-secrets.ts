import type { Secret } from 'kubernetes-types/core/v1.js';
import { type Clock, pause } from '../../ports/clock.ts';
import { type Kube, resources } from '../../ports/kube.ts';
import type { NamedSecrets, SecretView } from '../../ports/secrets.ts';
import { systemClock } from '../system-clock.ts';
import { startWatchCache, type WatchCache, type WatchIncident } from './watch-cache.ts';

/** Long enough for an API server that is well; a pass that does not wait would call every Secret unread once. */
const FIRST_READING_MS = 1_500;

export type NamedSecretsOptions = {
  readonly kube: Kube;
  readonly clock?: Clock | undefined;
  readonly random?: (() => number) | undefined;
  readonly onIncident?: ((incident: WatchIncident) => void) | undefined;
};

type Followed = {
  readonly cache: WatchCache<Secret>;
  readonly clusters: Set<string>;
  /** The last failure since the last answer. */
  trouble: string | undefined;
};

/**
 * One watch for each Secret that a cluster names, by its name: a watch of all Secrets would hold every password of the
 * cluster in this process, and its right to read them would be the only one ever used.
 */
export const createNamedSecrets = (options: NamedSecretsOptions): NamedSecrets => {
  const clock = options.clock ?? systemClock;
  const followed = new Map<string, Followed>();
  const named = new Map<string, ReadonlySet<string>>();
  const listeners = new Set<(cluster: string) => void>();
  const endings = new Set<Promise<void>>();

  const tell = (clusters: ReadonlySet<string>): void => {
    for (const cluster of clusters) for (const listener of listeners) listener(cluster);
  };

  const begin = (namespace: string, name: string): Followed => {
    const clusters = new Set<string>();
    const cache = startWatchCache<Secret>({
      kube: options.kube,
      resource: resources.secrets,
      namespace,
      fieldSelector: `metadata.name=${name}`,
      clock: options.clock,
      random: options.random,
      onIncident: (incident) => {
        const before = own.trouble;
        if (incident.what === 'failed') own.trouble = incident.fault.message;
        if (incident.what === 'listed' || incident.what === 'connected') own.trouble = undefined;
        // A first reading that fails, or that comes late: whoever waits for it has gone on without.
        if (!cache.hasSynced() && own.trouble !== before) tell(clusters);
        options.onIncident?.(incident);
      },
    });
    const own: Followed = { cache, clusters, trouble: undefined };
    cache.onChange(() => tell(clusters));
    cache.synced.then(
      () => tell(clusters),
      () => undefined,
    );
    return own;
  };

  const letGo = (key: string, cluster: string): void => {
    const own = followed.get(key);
    own?.clusters.delete(cluster);
    if (own === undefined || own.clusters.size > 0) return;
    followed.delete(key);
    const ending = own.cache.stop().finally(() => endings.delete(ending));
    endings.add(ending);
  };

  const view = ({ cache, trouble }: Followed, namespace: string, name: string): SecretView => {
    if (!cache.hasSynced()) return { is: 'unread', why: trouble ?? 'it was not read yet' };
    const secret = cache.get(namespace, name);
    return secret === undefined ? { is: 'absent' } : { is: 'there', secret };
  };

  const set = (cluster: string, keys: ReadonlySet<string>): void => {
    for (const key of named.get(cluster) ?? []) if (!keys.has(key)) letGo(key, cluster);
    if (keys.size === 0) named.delete(cluster);
    else named.set(cluster, keys);
  };

  return {
    follow: async (cluster, namespace, names) => {
      const own = new Map(
        names.map((name) => {
          const key = `${namespace}/${name}`;
          const present = followed.get(key) ?? begin(namespace, name);
          followed.set(key, present);
          present.clusters.add(cluster);
          return [name, present] as const;
        }),
      );
      set(cluster, new Set(names.map((name) => `${namespace}/${name}`)));
      const late = [...own.values()].filter(({ cache, trouble }) => !cache.hasSynced() && trouble === undefined);
      if (late.length > 0) {
        const enough = new AbortController();
        const first = Promise.allSettled(late.map(({ cache }) => cache.synced));
        await Promise.race([first, pause(clock, FIRST_READING_MS, enough.signal)]);
        enough.abort();
      }
      return new Map([...own].map(([name, one]) => [name, view(one, namespace, name)]));
    },
    get: (namespace, name) => {
      const own = followed.get(`${namespace}/${name}`);
      return own === undefined ? { is: 'unread', why: 'nobody follows it' } : view(own, namespace, name);
    },
    keep: (secret) => followed.get(`${secret.metadata.namespace}/${secret.metadata.name}`)?.cache.observe(secret),
    forget: (cluster) => set(cluster, new Set()),
    onChange: (listener) => listeners.add(listener),
    stop: async () => {
      for (const cluster of [...named.keys()]) set(cluster, new Set());
      await Promise.all(endings);
    },
  };
};
