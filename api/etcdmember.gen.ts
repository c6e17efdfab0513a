// Generated from runtime/crds/etcdmember.yaml by npm run generate. Change that file, not this one.

import type { ObjectMeta } from 'kubernetes-types/meta/v1.js';
import type { PersistentVolumeClaimSpec, PodSpec } from 'kubernetes-types/core/v1.js';

/**
 * Empty for a PersistentVolumeClaim, Memory for a tmpfs volume that dies with its Pod.
 */
export type EtcdMemberStorageMedium = '' | 'Memory';
/**
 * What happens to the volume when the whole cluster is deleted. A replaced member's volume is always deleted once it is out of the member list.
 */
export type EtcdMemberStorageRetention = 'Delete' | 'Retain';
/**
 * How etcd compacts by itself.
 */
export type EtcdMemberOptionsAutoCompactionMode = 'periodic' | 'revision';
/**
 * Where the present incarnation stands.
 */
export type EtcdMemberPhase =
  'Pending' | 'Provisioning' | 'Learner' | 'Voter' | 'Restarting' | 'Paused' | 'Leaving' | 'Removed' | 'Failed';
/**
 * Whether it holds.
 */
export type EtcdMemberConditionStatus = 'True' | 'False' | 'Unknown';

/**
 * EtcdMember is a slot for one member of an etcd cluster. What lives in it is an incarnation: one etcd member identity, one Pod, one volume. Its spec is written by the composition functions, its status by the runtime. Deleting one asks for the replacement of its incarnation.
 */
export interface EtcdMember {
  apiVersion: 'etcd-operator.cozystack.io/v1alpha2';
  kind: 'EtcdMember';
  metadata: ObjectMeta;
  /**
   * What the member should be, rendered whole by the composition functions.
   */
  spec: EtcdMemberSpec;
  /**
   * What the member is, recorded by the runtime.
   */
  status?: EtcdMemberStatus;
}
/**
 * Where the member keeps its data.
 */
export interface EtcdMemberStorage {
  /**
   * Empty for a PersistentVolumeClaim, Memory for a tmpfs volume that dies with its Pod.
   */
  medium: EtcdMemberStorageMedium;
  /**
   * What happens to the volume when the whole cluster is deleted. A replaced member's volume is always deleted once it is out of the member list.
   */
  retention: EtcdMemberStorageRetention;
}
/**
 * Typed etcd settings; absent ones are left to etcd's defaults.
 */
export interface EtcdMemberOptions {
  /**
   * Size limit of the database in bytes.
   */
  quotaBackendBytes?: number;
  /**
   * How etcd compacts by itself.
   */
  autoCompactionMode?: EtcdMemberOptionsAutoCompactionMode;
  /**
   * How much history auto-compaction keeps: a duration, or a number of hours or revisions.
   */
  autoCompactionRetention?: string;
  /**
   * Number of committed transactions between raft snapshots.
   */
  snapshotCount?: number;
}
/**
 * What the member shows to clients. Absent, it serves them in the clear.
 */
export interface EtcdMemberTlsClient {
  /**
   * Secret with tls.crt, tls.key and ca.crt.
   */
  secretName: string;
  /**
   * Whether clients have to show a certificate.
   */
  mutual: boolean;
  /**
   * Secret whose ca.crt is the CA of the clients' certificates. Present with mutual.
   */
  clientCASecretName?: string;
}
/**
 * What the member shows to other members, and they to it. Absent, they talk in the clear.
 */
export interface EtcdMemberTlsPeer {
  /**
   * Secret with tls.crt, tls.key and ca.crt.
   */
  secretName: string;
}
/**
 * The Secrets whose certificates the member uses. The template mounts them.
 */
export interface EtcdMemberTls {
  /**
   * What the member shows to clients. Absent, it serves them in the clear.
   */
  client?: EtcdMemberTlsClient;
  /**
   * What the member shows to other members, and they to it. Absent, they talk in the clear.
   */
  peer?: EtcdMemberTlsPeer;
}
/**
 * The member's Pod, complete but for what belongs to one incarnation: name, hostname, the data volume of a PersistentVolumeClaim, and the configuration annotation.
 */
export interface EtcdMemberTemplate {
  /**
   * Labels and annotations of the Pod.
   */
  metadata: ObjectMeta;
  /**
   * The PodSpec.
   */
  spec: PodSpec;
}
/**
 * The member's PersistentVolumeClaim but for its name. Absent for memory members.
 */
export interface EtcdMemberVolumeClaimTemplate {
  /**
   * Labels and annotations of the claim.
   */
  metadata: ObjectMeta;
  /**
   * The PersistentVolumeClaimSpec.
   */
  spec: PersistentVolumeClaimSpec;
}
export interface EtcdMemberResourceRef {
  /**
   * API version of the object.
   */
  apiVersion: string;
  /**
   * Kind of the object.
   */
  kind: string;
  /**
   * Name of the object, in the same namespace.
   */
  name: string;
}
/**
 * What the member should be, rendered whole by the composition functions.
 */
export interface EtcdMemberSpec {
  /**
   * Name of the EtcdCluster, in the same namespace.
   */
  clusterName: string;
  /**
   * The etcd version this member should run, without a leading v.
   */
  version: string;
  /**
   * Where the member keeps its data.
   */
  storage: EtcdMemberStorage;
  /**
   * Typed etcd settings; absent ones are left to etcd's defaults.
   */
  options?: EtcdMemberOptions;
  /**
   * The Secrets whose certificates the member uses. The template mounts them.
   */
  tls?: EtcdMemberTls;
  /**
   * The member's Pod, complete but for what belongs to one incarnation: name, hostname, the data volume of a PersistentVolumeClaim, and the configuration annotation.
   */
  template: EtcdMemberTemplate;
  /**
   * The member's PersistentVolumeClaim but for its name. Absent for memory members.
   */
  volumeClaimTemplate?: EtcdMemberVolumeClaimTemplate;
  /**
   * The Pod, volume and Jobs of the present incarnation, written by the runtime before they exist; crossplane resource trace follows it.
   */
  resourceRefs?: EtcdMemberResourceRef[];
}
export interface EtcdMemberCondition {
  /**
   * Ready or Synced.
   */
  type: string;
  /**
   * Whether it holds.
   */
  status: EtcdMemberConditionStatus;
  /**
   * One word; the same in event, log and metric.
   */
  reason: string;
  /**
   * What is so and what to do.
   */
  message?: string;
  /**
   * When status last changed.
   */
  lastTransitionTime: string;
  /**
   * The generation of the spec it answers.
   */
  observedGeneration?: number;
}
/**
 * What the member is, recorded by the runtime.
 */
export interface EtcdMemberStatus {
  /**
   * Where the present incarnation stands.
   */
  phase?: EtcdMemberPhase;
  /**
   * The token in the names of the Pod, the volume and the etcd member.
   */
  incarnation?: string;
  /**
   * etcd's member ID in lower-case hex.
   */
  memberID?: string;
  /**
   * etcd's cluster ID in lower-case hex. Once set here, this cluster is never bootstrapped again.
   */
  clusterID?: string;
  /**
   * UID of the EtcdCluster this member was first seen under.
   */
  clusterUID?: string;
  /**
   * Name of the Pod.
   */
  podName?: string;
  /**
   * UID of the Pod. The data of a memory member lives exactly as long as this Pod.
   */
  podUID?: string;
  /**
   * Name of the PersistentVolumeClaim. Absent for memory members.
   */
  pvcName?: string;
  /**
   * Whether etcd lists the member as a voter.
   */
  isVoter?: boolean;
  /**
   * Whether the member leads.
   */
  isLeader?: boolean;
  /**
   * The etcd version that runs.
   */
  version?: string;
  /**
   * The generation of the spec this status answers.
   */
  observedGeneration?: number;
  /**
   * Ready (may serve clients) and Synced (the runtime could do what the spec asks).
   */
  conditions?: EtcdMemberCondition[];
}
