// Generated from xrds/etcdcluster.yaml by npm run generate. Change that file, not this one.

import type { Affinity, LocalObjectReference, ResourceRequirements, Toleration, TopologySpreadConstraint } from 'kubernetes-types/core/v1.js';
import type { ObjectMeta } from 'kubernetes-types/meta/v1.js';

/**
 * Empty for a PersistentVolumeClaim, Memory for a tmpfs volume that dies with its Pod.
 */
export type EtcdClusterStorageMedium = '' | 'Memory';
/**
 * What happens to the volumes when the cluster is deleted.
 */
export type EtcdClusterStorageRetention = 'Delete' | 'Retain';
/**
 * How etcd compacts by itself.
 */
export type EtcdClusterOptionsAutoCompactionMode = 'periodic' | 'revision';
export type EtcdClusterCrossplaneCompositionUpdatePolicy = 'Automatic' | 'Manual';

/**
 * EtcdCluster is an etcd cluster. It is the one object a person writes: applying it makes the cluster, changing it changes the running cluster, deleting it takes the cluster away.
 */
export interface EtcdCluster {
  apiVersion: 'etcd-operator.cozystack.io/v1alpha2';
  kind: 'EtcdCluster';
  metadata: ObjectMeta;
  /**
   * What the cluster should be.
   */
  spec: EtcdClusterSpec;
  /**
   * What the cluster is.
   */
  status?: EtcdClusterStatus;
}
/**
 * Where members keep their data.
 */
export interface EtcdClusterStorage {
  /**
   * Capacity for each member's data.
   */
  size?: number | string;
  /**
   * Empty for a PersistentVolumeClaim, Memory for a tmpfs volume that dies with its Pod.
   */
  medium?: EtcdClusterStorageMedium;
  /**
   * StorageClass of the volumes.
   */
  storageClassName?: string;
  /**
   * What happens to the volumes when the cluster is deleted.
   */
  retention?: EtcdClusterStorageRetention;
}
/**
 * Labels and annotations for every object that is made for the cluster.
 */
export interface EtcdClusterAdditionalMetadata {
  /**
   * Labels.
   */
  labels?: {
    [k: string]: string;
  };
  /**
   * Annotations.
   */
  annotations?: {
    [k: string]: string;
  };
}
/**
 * Typed etcd settings; absent ones are left to etcd's defaults.
 */
export interface EtcdClusterOptions {
  /**
   * Size limit of the database in bytes.
   */
  quotaBackendBytes?: number;
  /**
   * How etcd compacts by itself.
   */
  autoCompactionMode?: EtcdClusterOptionsAutoCompactionMode;
  /**
   * How much history auto-compaction keeps.
   */
  autoCompactionRetention?: string;
  /**
   * Committed transactions between raft snapshots.
   */
  snapshotCount?: number;
}
/**
 * Where the etcd image comes from.
 */
export interface EtcdClusterImage {
  /**
   * Image repository without a tag.
   */
  repository?: string;
}
export interface EtcdClusterCrossplaneCompositionRef {
  name: string;
}
export interface EtcdClusterCrossplaneCompositionSelector {
  matchLabels: {
    [k: string]: string;
  };
}
export interface EtcdClusterCrossplaneCompositionRevisionRef {
  name: string;
}
export interface EtcdClusterCrossplaneCompositionRevisionSelector {
  matchLabels: {
    [k: string]: string;
  };
}
export interface EtcdClusterCrossplaneResourceRef {
  apiVersion: string;
  name?: string;
  kind: string;
}
/**
 * Configures how Crossplane will reconcile this composite resource
 */
export interface EtcdClusterCrossplane {
  compositionRef?: EtcdClusterCrossplaneCompositionRef;
  compositionSelector?: EtcdClusterCrossplaneCompositionSelector;
  compositionRevisionRef?: EtcdClusterCrossplaneCompositionRevisionRef;
  compositionRevisionSelector?: EtcdClusterCrossplaneCompositionRevisionSelector;
  compositionUpdatePolicy?: EtcdClusterCrossplaneCompositionUpdatePolicy;
  resourceRefs?: EtcdClusterCrossplaneResourceRef[];
}
/**
 * What the cluster should be.
 */
export interface EtcdClusterSpec {
  /**
   * Number of voting members.
   */
  replicas?: number;
  /**
   * The etcd version to run, without a leading v.
   */
  version: string;
  /**
   * Where members keep their data.
   */
  storage?: EtcdClusterStorage;
  /**
   * CPU and memory of each member.
   */
  resources?: ResourceRequirements;
  /**
   * Where members may run.
   */
  affinity?: Affinity;
  /**
   * How members are spread.
   */
  topologySpreadConstraints?: TopologySpreadConstraint[];
  /**
   * Taints that members tolerate.
   */
  tolerations?: Toleration[];
  /**
   * Labels a node must carry.
   */
  nodeSelector?: {
    [k: string]: string;
  };
  /**
   * PriorityClass of the members' Pods.
   */
  priorityClassName?: string;
  /**
   * Labels and annotations for every object that is made for the cluster.
   */
  additionalMetadata?: EtcdClusterAdditionalMetadata;
  /**
   * Typed etcd settings; absent ones are left to etcd's defaults.
   */
  options?: EtcdClusterOptions;
  /**
   * Secrets for pulling the image.
   */
  imagePullSecrets?: LocalObjectReference[];
  /**
   * Where the etcd image comes from.
   */
  image?: EtcdClusterImage;
  /**
   * Seconds after which an unfinished change is called late.
   */
  progressDeadlineSeconds?: number;
  /**
   * Configures how Crossplane will reconcile this composite resource
   */
  crossplane?: EtcdClusterCrossplane;
}
export interface EtcdClusterCondition {
  lastTransitionTime: string;
  message?: string;
  reason: string;
  status: string;
  type: string;
  observedGeneration?: number;
}
/**
 * What the cluster is.
 */
export interface EtcdClusterStatus {
  /**
   * The generation of the spec this status answers.
   */
  observedGeneration?: number;
  /**
   * The state of the cluster in one word.
   */
  phase?: string;
  /**
   * Members that serve / members asked for, as in 3/3.
   */
  members?: string;
  /**
   * Members that serve clients.
   */
  readyMembers?: number;
  /**
   * Label selector of the members' Pods.
   */
  selector?: string;
  /**
   * etcd's cluster ID in lower-case hex.
   */
  clusterID?: string;
  /**
   * The etcd version that runs.
   */
  version?: string;
  /**
   * Name of the EtcdMember that leads.
   */
  leader?: string;
  /**
   * Members that etcd lists as voters.
   */
  voters?: number;
  /**
   * Members that etcd lists as learners.
   */
  learners?: number;
  /**
   * The last value of the annotation crossplane.io/reconcile-requested-at that Crossplane answered.
   */
  lastHandledReconcileAt?: string;
  /**
   * Conditions of the resource.
   */
  conditions?: EtcdClusterCondition[];
}
