import type { Pod } from 'kubernetes-types/core/v1.js';
import type { Place } from './place.ts';

/** At once, without a word to their programs; the API forgets them before the kubelet has ended them. Answers how many there were. */
export const killPods = async (place: Place, pods: readonly Pod[]): Promise<number> => {
  const names = pods.flatMap(({ metadata }) => metadata?.name ?? []);
  if (names.length === 0) return 0;
  await place.kubectl([
    ...['delete', 'pod', ...names, '--grace-period=0', '--force', '--wait=false', '--ignore-not-found'],
  ]);
  return names.length;
};
