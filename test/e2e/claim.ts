/** EtcdCluster claims as tests write them, and waiting for what becomes of them. */
import type { PersistentVolumeClaim, Pod } from 'kubernetes-types/core/v1.js';
import type { EtcdCluster, EtcdClusterCondition, EtcdClusterSpec } from '../../api/etcdcluster.gen.ts';
import type { EtcdMember } from '../../api/etcdmember.gen.ts';
import type { EtcdQuorum } from '../../api/etcdquorum.gen.ts';
import { API_VERSION, clientServiceName, LABELS } from '../../api/names.ts';
import type { Reason } from '../../api/reasons.ts';
import type { Resource, Stored } from '../../runtime/ports/kube.ts';
import { eventually, notYet, type Patience } from './eventually.ts';
import { type Place, seenKinds } from './place.ts';

/** Both are in the local cluster's images. */
export const VERSION = '3.6.16';
export const OLDER_VERSION = '3.5.35';

export const claim = (name: string, spec: Partial<EtcdClusterSpec> = {}): EtcdCluster => ({
  apiVersion: API_VERSION,
  kind: 'EtcdCluster',
  metadata: { name },
  spec: {
    replicas: 3,
    version: VERSION,
    storage: { size: '1Gi' },
    // Nine and more members share two processors here.
    resources: { requests: { cpu: '20m', memory: '64Mi' } },
    ...spec,
  },
});

/** etcd lays out two logs of 64 MB in advance; with less room its first write now and then finds none. */
export const inMemory = { medium: 'Memory', size: '256Mi' } as const;

const members = seenKinds.etcdmembers as Resource<EtcdMember>;
const quorums = seenKinds.etcdquorums as Resource<EtcdQuorum>;

export const clusterSelector = (name: string): string => `${LABELS.cluster}=${name}`;

export const claimIn = async (place: Place, name: string): Promise<Stored<EtcdCluster>> =>
  (await place.get(seenKinds.etcdclusters, name)) ?? notYet(`there is no EtcdCluster ${name}`);

export const quorumIn = async (place: Place, name: string): Promise<Stored<EtcdQuorum>> =>
  (await place.get(quorums, name)) ?? notYet(`there is no EtcdQuorum ${name}`);

export const memberIn = async (place: Place, name: string): Promise<Stored<EtcdMember>> =>
  (await place.get(members, name)) ?? notYet(`there is no EtcdMember ${name}`);

export const membersOf = async (place: Place, name: string): Promise<Stored<EtcdMember>[]> =>
  (await place.list(members)).filter(({ spec }) => spec.clusterName === name);

export const podsOf = (place: Place, name: string): Promise<Stored<Pod>[]> =>
  place.list(seenKinds.pods, clusterSelector(name));

export const volumesOf = (place: Place, name: string): Promise<Stored<PersistentVolumeClaim>[]> =>
  place.list(seenKinds.persistentvolumeclaims, clusterSelector(name));

/** The Pod of the present incarnation of a slot. */
export const podOf = async (place: Place, member: string): Promise<Stored<Pod>> => {
  const pods = await place.list(seenKinds.pods, `${LABELS.member}=${member}`);
  return pods.find(({ metadata }) => metadata.deletionTimestamp === undefined) ?? notYet(`member ${member} has no Pod`);
};

export const uidsOf = (objects: readonly Stored<Pod | PersistentVolumeClaim>[]): string[] =>
  objects.map(({ metadata }) => metadata.uid).toSorted();

/** Names of the Pods behind the client Service, as kube-proxy reads them: ready ones only. */
export const openPods = async (place: Place, name: string): Promise<string[]> => {
  const slices = await place.list(seenKinds.endpointslices, `kubernetes.io/service-name=${clientServiceName(name)}`);
  return slices
    .flatMap(({ endpoints }) => endpoints ?? [])
    .flatMap(({ conditions, targetRef }) => (conditions?.ready === true ? [targetRef?.name ?? '?'] : []))
    .toSorted();
};

type Conditioned = { readonly status?: { readonly conditions?: readonly EtcdClusterCondition[] } };

export const conditionOf = (object: Conditioned, type: string): EtcdClusterCondition | undefined =>
  object.status?.conditions?.find((condition) => condition.type === type);

export const said = (object: Conditioned, type: string): string => {
  const condition = conditionOf(object, type);
  return condition === undefined
    ? `no condition ${type}`
    : `${type}=${condition.status} ${condition.reason}: ${condition.message ?? ''}`;
};

/** The claim is Ready in its present form, and as many Pods as it asks for are open to clients. */
export const ready = (place: Place, name: string, patience: Patience = {}): Promise<Stored<EtcdCluster>> =>
  eventually(
    `EtcdCluster ${place.namespace}/${name} is ready`,
    async () => {
      const found = await claimIn(place, name);
      const { status, spec, metadata } = found;
      if (status?.observedGeneration !== metadata.generation) {
        notYet(`observedGeneration is ${status?.observedGeneration}, generation ${metadata.generation}`);
      }
      if (conditionOf(found, 'Ready')?.status !== 'True')
        notYet(`${said(found, 'Ready')}, ${said(found, 'Progressing')}`);
      const open = await openPods(place, name);
      if (open.length !== spec.replicas) notYet(`${open.length} of ${spec.replicas} Pods are open to clients`);
      return found;
    },
    { deadlineMs: 90_000, ...patience },
  );

/** Waits for a condition of claim, quorum or member. `words` must be in its message. */
export const condition = (
  what: () => Promise<Conditioned>,
  type: string,
  wanted: { readonly status?: string; readonly reason?: Reason | readonly Reason[]; readonly words?: RegExp },
  patience: Patience = {},
): Promise<EtcdClusterCondition> =>
  eventually(
    `condition ${type} is ${JSON.stringify({ ...wanted, words: wanted.words?.source })}`,
    async () => {
      const object = await what();
      const found = conditionOf(object, type);
      const reasons = [wanted.reason ?? []].flat();
      if (
        found === undefined ||
        (wanted.status !== undefined && found.status !== wanted.status) ||
        (reasons.length > 0 && !reasons.includes(found.reason as Reason)) ||
        (wanted.words !== undefined && !wanted.words.test(found.message ?? ''))
      ) {
        return notYet(said(object, type));
      }
      return found;
    },
    patience,
  );

/** Whatever a claim of this name would leave behind. Kept volumes carry another label and are not counted. */
export const leftovers = async (place: Place, name: string): Promise<string[]> => {
  const labelled = await Promise.all(
    [
      seenKinds.pods,
      seenKinds.persistentvolumeclaims,
      seenKinds.poddisruptionbudgets,
      seenKinds.services,
      quorums,
      seenKinds.endpointslices,
      seenKinds.secrets,
    ].map(async (kind) =>
      (await place.list(kind as Resource, clusterSelector(name))).map((object) => [kind, object] as const),
    ),
  );
  const own = await Promise.all([
    place.get(seenKinds.etcdclusters, name),
    place.get(quorums, name),
    membersOf(place, name),
  ]);
  return [
    ...labelled.flat().map(([{ kind }, { metadata }]) => `${kind} ${metadata.name}`),
    ...own.flat().flatMap((object) => (object === undefined ? [] : [`${object.kind} ${object.metadata.name}`])),
  ];
};

export const nothingLeft = (place: Place, name: string, patience: Patience = {}): Promise<void> =>
  eventually(
    `nothing is left of ${place.namespace}/${name}`,
    async () => {
      const left = await leftovers(place, name);
      if (left.length > 0) notYet(`there is ${left.join(', ')}`);
    },
    patience,
  );
