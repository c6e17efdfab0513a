/** The Secrets that the runtime makes: what is in use of what the claim's Secrets offer. */
import type { Secret } from 'kubernetes-types/core/v1.js';
import type { OwnerReference } from 'kubernetes-types/meta/v1.js';
import { API_VERSION, clusterLabels, IN_USE_TYPE, type InUsePurpose, inUseName } from '../../api/names.ts';
import type { SeenQuorum } from './observed.ts';

export type InUse = {
  readonly namespace: string;
  readonly cluster: string;
  readonly quorum: Pick<SeenQuorum, 'uid' | 'controllerUID'>;
  readonly purpose: InUsePurpose;
  readonly annotations?: Readonly<Record<string, string>> | undefined;
  /** Base64, as in any Secret. */
  readonly data: Readonly<Record<string, string>>;
};

/**
 * It goes when both are gone. The EtcdQuorum alone may be deleted and made again, the EtcdCluster be orphaned and applied
 * again, while members run; what is in use stands nowhere else.
 */
const owners = (cluster: string, { uid, controllerUID }: InUse['quorum']): OwnerReference[] =>
  [
    { kind: 'EtcdQuorum', uid },
    ...(controllerUID === undefined ? [] : [{ kind: 'EtcdCluster', uid: controllerUID }]),
  ].map((owner) => ({ apiVersion: API_VERSION, name: cluster, blockOwnerDeletion: false, ...owner }));

/**
 * What the Secret with root's passwords holds. Between `next` and etcd's answer to it, either may be in force; a `former` one is
 * in force again where an older snapshot takes the place of the data.
 */
export type RootPasswords = {
  readonly password?: string | undefined;
  readonly next?: string | undefined;
  /** The last one first. */
  readonly former?: readonly string[];
};

/** Each that is refused costs a member the slow digest of a password. */
const FORMER_PASSWORDS = 8;

/** The entries that make the Secret hold these, and what it has held beside them. */
export const rootData = (
  held: RootPasswords,
  { password, next }: Pick<RootPasswords, 'password' | 'next'>,
): Readonly<Record<string, string>> => {
  const former = [...new Set([held.password, held.next, ...(held.former ?? [])])]
    .filter((one) => one !== undefined && one !== password && one !== next)
    .slice(0, FORMER_PASSWORDS);
  return {
    ...(password === undefined ? {} : { password }),
    ...(next === undefined ? {} : { next }),
    ...(former.length === 0 ? {} : { former: JSON.stringify(former) }),
  };
};

/** Passwords that root had before, the last one first; what is stored otherwise is none. */
export const formerPasswords = (stored: string | undefined): readonly string[] => {
  try {
    const all: unknown = JSON.parse(stored ?? '[]');
    return Array.isArray(all) ? all.filter((one): one is string => typeof one === 'string' && one !== '') : [];
  } catch {
    return [];
  }
};

export const inUseSecret = ({ namespace, cluster, quorum, purpose, annotations, data }: InUse) =>
  ({
    apiVersion: 'v1',
    kind: 'Secret',
    type: IN_USE_TYPE,
    metadata: {
      name: inUseName(cluster, purpose),
      namespace,
      labels: clusterLabels(cluster),
      ...(annotations === undefined ? {} : { annotations }),
      ownerReferences: owners(cluster, quorum),
    },
    data,
  }) satisfies Secret;
