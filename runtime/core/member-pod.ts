/** From the rendered template of an EtcdMember to the objects of one incarnation. */
import type { Container, PersistentVolumeClaim, Pod, Volume } from 'kubernetes-types/core/v1.js';
import type { OwnerReference } from 'kubernetes-types/meta/v1.js';
import type { EtcdMemberResourceRef, EtcdMemberSpec } from '../../api/etcdmember.gen.ts';
import {
  ANNOTATIONS,
  API_VERSION,
  CLIENT_CA_FILE,
  CLIENT_TLS_VOLUME,
  CONFIG_VOLUME,
  DATA_VOLUME,
  incarnationName,
  inUseName,
  LABELS,
  PEER_CA_FILE,
  PEER_TLS_VOLUME,
} from '../../api/names.ts';
import type { Trust } from './certificates.ts';
import { metadataRecord } from './template-metadata.ts';

export type Incarnation = {
  readonly namespace: string;
  readonly member: string;
  readonly spec: EtcdMemberSpec;
  readonly templateHash: string;
  readonly restartHash: string;
  readonly token: string;
  readonly config: string;
  readonly trust?: Trust | undefined;
  /** UID of the EtcdCluster, absent while an orphaned cluster has none. */
  readonly clusterUID: string | undefined;
  /** What has to be done in the Pod before etcd starts for the first time, see {@link memoryFill}. */
  readonly fill?: { readonly steps: readonly Container[]; readonly volumes: readonly Volume[] } | undefined;
};

/**
 * The EtcdCluster, not the EtcdMember: what an EtcdMember owns would be killed by a foreground deletion while the
 * member's finalizer is still held, and `/scale`, VPA and budgets look for the controller of the Pods. It never blocks
 * the claim's deletion: the members do that, until their finalizers are released.
 */
export const controlledBy = (cluster: string, uid: string): OwnerReference => ({
  apiVersion: API_VERSION,
  kind: 'EtcdCluster',
  name: cluster,
  uid,
  controller: true,
  blockOwnerDeletion: false,
});

export const memberPod = (of: Incarnation): Pod => {
  const { spec, member, token, namespace } = of;
  const name = incarnationName(member, token);
  const { metadata, spec: pod } = spec.template;
  // Only a proof opens a Pod to clients, never a template.
  const { [LABELS.role]: _role, ...labels } = metadata.labels ?? {};
  const { [ANNOTATIONS.verifiedContainer]: _verified, ...annotations } = metadata.annotations ?? {};
  const claimed =
    spec.volumeClaimTemplate === undefined ? [] : [{ name: DATA_VOLUME, persistentVolumeClaim: { claimName: name } }];
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name,
      namespace,
      labels: { ...labels, [LABELS.member]: member, [LABELS.incarnation]: token },
      annotations: {
        ...annotations,
        [ANNOTATIONS.config]: of.config,
        ...(of.trust?.client === undefined ? {} : { [ANNOTATIONS.clientCA]: of.trust.client }),
        ...(of.trust?.peer === undefined ? {} : { [ANNOTATIONS.peerCA]: of.trust.peer }),
        [ANNOTATIONS.template]: of.templateHash,
        [ANNOTATIONS.restart]: of.restartHash,
        [ANNOTATIONS.metadata]: metadataRecord(metadata),
      },
      ...(of.clusterUID === undefined ? {} : { ownerReferences: [controlledBy(spec.clusterName, of.clusterUID)] }),
    },
    spec: {
      ...pod,
      hostname: name,
      ...(of.fill === undefined ? {} : { initContainers: [...(pod.initContainers ?? []), ...of.fill.steps] }),
      volumes: [
        ...(pod.volumes ?? []).map(trusting(of.trust)).map(mountingInUse(spec.clusterName)),
        ...claimed,
        ...(of.fill?.volumes ?? []),
      ],
    },
  };
};

/** The authorities as files beside the configuration. Composed by the runtime, so no template can bring them. */
const trusting =
  (trust: Trust | undefined) =>
  (volume: Volume): Volume => {
    const files = [
      ...(trust?.client === undefined ? [] : [[CLIENT_CA_FILE, ANNOTATIONS.clientCA] as const]),
      ...(trust?.peer === undefined ? [] : [[PEER_CA_FILE, ANNOTATIONS.peerCA] as const]),
    ];
    if (volume.name !== CONFIG_VOLUME || volume.downwardAPI === undefined || files.length === 0) return volume;
    const items = files.map(([path, annotation]) => ({
      path,
      fieldRef: { apiVersion: 'v1', fieldPath: `metadata.annotations['${annotation}']` },
    }));
    return {
      ...volume,
      downwardAPI: { ...volume.downwardAPI, items: [...(volume.downwardAPI.items ?? []), ...items] },
    };
  };

/**
 * What is in use, not what is offered: a certificate that others do not trust yet must not reach a member. Here and not in
 * the template, so that it is no other template and nobody restarts for it.
 */
const mountingInUse =
  (cluster: string) =>
  (volume: Volume): Volume => {
    const purpose = volume.name === CLIENT_TLS_VOLUME ? 'server' : volume.name === PEER_TLS_VOLUME ? 'peer' : undefined;
    return purpose === undefined || volume.secret === undefined
      ? volume
      : { ...volume, secret: { ...volume.secret, secretName: inUseName(cluster, purpose) } };
  };

/** Undefined for memory members. Owned by nobody: only the runtime deletes a volume, and only for a reason. */
export const memberVolume = (of: Incarnation): PersistentVolumeClaim | undefined => {
  const template = of.spec.volumeClaimTemplate;
  if (template === undefined) return undefined;
  const { metadata, spec } = template;
  return {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: {
      name: incarnationName(of.member, of.token),
      namespace: of.namespace,
      labels: { ...metadata.labels, [LABELS.member]: of.member, [LABELS.incarnation]: of.token },
      annotations: {
        ...metadata.annotations,
        [ANNOTATIONS.metadata]: metadataRecord(metadata),
        ...(of.clusterUID === undefined ? {} : { [ANNOTATIONS.clusterUID]: of.clusterUID }),
      },
    },
    spec,
  };
};

/** What `crossplane resource trace` shows under the member. */
export const incarnationRefs = (of: Pick<Incarnation, 'member' | 'token' | 'spec'>): EtcdMemberResourceRef[] => {
  const name = incarnationName(of.member, of.token);
  return [
    { apiVersion: 'v1', kind: 'Pod', name },
    ...(of.spec.volumeClaimTemplate === undefined ? [] : [{ apiVersion: 'v1', kind: 'PersistentVolumeClaim', name }]),
  ];
};
