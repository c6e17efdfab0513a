/** What a claim costs: the circuit breaker's tokens, and writes to the API server while nothing is asked. */
import type { EtcdCluster } from '../../api/etcdcluster.gen.ts';
import type { KubeObject, Resource } from '../../runtime/ports/kube.ts';
import { conditionOf } from './claim.ts';
import { follow } from './history.ts';
import { type Place, seenKinds } from './place.ts';

/** Crossplane's default: so many at first, and one more each second. */
export const BREAKER_TOKENS = 100;

export type Breaker = AsyncDisposable & {
  /** Tokens that events of the claim and what it composes have taken: two for a change, one for a creation or an end. */
  tokens(): number;
  /** Least number of tokens that were left, with one coming back each second. */
  least(): number;
  /** Whether the claim's `Responsive` was ever anything but True in any state that the API server held. */
  opened(): boolean;
};

/**
 * Counts as Crossplane does, as far as that shows from outside: it watches the claim and its composed objects, and the
 * change of an object comes to it as the old and the new one.
 */
export const watchBreaker = async (place: Place): Promise<Breaker> => {
  let spent = 0;
  let left = BREAKER_TOKENS;
  let least = left;
  let at = performance.now();
  let opened = false;
  const take = (type: string): void => {
    if (type === 'PRESENT') return;
    const now = performance.now();
    left = Math.min(BREAKER_TOKENS, left + (now - at) / 1000);
    at = now;
    const cost = type === 'MODIFIED' ? 2 : 1;
    spent += cost;
    left -= cost;
    least = Math.min(least, left);
  };
  const kinds = [
    seenKinds.etcdmembers,
    seenKinds.etcdquorums,
    seenKinds.services,
  ] as unknown as readonly Resource<KubeObject>[];
  const histories = await Promise.all([
    follow<EtcdCluster>(place.kube, seenKinds.etcdclusters as Resource<EtcdCluster>, place, ({ type, object }) => {
      take(type);
      const responsive = conditionOf(object, 'Responsive');
      if (responsive !== undefined && responsive.status !== 'True') opened = true;
    }),
    ...kinds.map((kind) => follow(place.kube, kind, place, ({ type }) => take(type))),
  ]);
  return {
    tokens: () => spent,
    least: () => Math.round(least),
    opened: () => opened,
    [Symbol.asyncDispose]: async () => {
      await Promise.all(histories.map(({ stop }) => stop()));
    },
  };
};

/**
 * Resource version of everything that the claims of a namespace are made of. Leases are not among them: the runtime renews
 * the one by which it leads every two seconds, whether there are clusters or not.
 */
export const versionsIn = async (place: Place): Promise<Map<string, string>> => {
  const kinds = [
    seenKinds.etcdclusters,
    seenKinds.etcdquorums,
    seenKinds.etcdmembers,
    seenKinds.pods,
    seenKinds.persistentvolumeclaims,
    seenKinds.services,
    seenKinds.endpointslices,
    seenKinds.poddisruptionbudgets,
    seenKinds.configmaps,
    seenKinds.events,
  ] as unknown as readonly Resource<KubeObject>[];
  const lists = await Promise.all(kinds.map((kind) => place.list(kind)));
  return new Map(
    lists.flat().map(({ kind, metadata }) => [`${kind} ${metadata.name}`, metadata.resourceVersion] as const),
  );
};
