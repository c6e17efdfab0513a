/** Members that etcd lists and no slot stands for: left by an incarnation of this cluster, or added by somebody. */
import { hasPeerURL, ordinalOf } from '../../api/names.ts';
import type { EtcdMember } from '../ports/etcd.ts';
import type { Observed } from './observed.ts';
import type { Situation } from './situation.ts';

export const strangersIn = ({ seen, slots }: Situation): readonly EtcdMember[] => {
  if (!seen.membership.known) return [];
  const ours = new Set(slots.flatMap(({ entry }) => (entry.known ? (entry.value?.id ?? []) : [])));
  return seen.membership.value.members.filter(({ id }) => !ours.has(id));
};

export type ListedIncarnation = {
  /** Name of its slot, which need not exist. */
  readonly member: string;
  readonly token: string;
  readonly name: string;
};

/**
 * The incarnation of this cluster that a line of the list can be. The URL counts, since it leads only to Pods under this
 * cluster's headless Service; the name comes with the first start and must not say otherwise.
 */
export const listedIncarnation = (
  { cluster, namespace }: Pick<Observed, 'cluster' | 'namespace'>,
  { name: started, peerURLs }: EtcdMember,
): ListedIncarnation | undefined => {
  const [url = '', ...more] = peerURLs;
  const [, name = '', member = '', token = ''] = /^https?:\/\/(([^./:]+)-([a-z0-9]{5}))\./.exec(url) ?? [];
  if (more.length > 0 || ordinalOf(cluster, member) === undefined) return undefined;
  if (!hasPeerURL(peerURLs, cluster, namespace, name) || (started !== '' && started !== name)) return undefined;
  return { member, token, name };
};
