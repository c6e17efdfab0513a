// Generated from xrds/etcdcluster.yaml by npm run generate. Change that file, not this one.

import type { Affinity, LocalObjectReference, ResourceRequirements, Toleration, TopologySpreadConstraint } from 'kubernetes-types/core/v1.js';
import type { ObjectMeta } from 'kubernetes-types/meta/v1.js';

/**
 * Empty for a PersistentVolumeClaim per member. Memory for a tmpfs per member, which is fast, takes the memory of its node and is lost with its Pod: when a majority of Pods is lost at once, all data is.
 */
export type EtcdClusterStorageMedium = '' | 'Memory';
/**
 * What becomes of the volumes when the EtcdCluster is deleted. With Retain they stay, with the data of the members that were there.
 */
export type EtcdClusterStorageRetention = 'Delete' | 'Retain';
/**
 * Whether autoCompactionRetention counts time (periodic) or revisions (revision).
 */
export type EtcdClusterOptionsAutoCompactionMode = 'periodic' | 'revision';
export type EtcdClusterCrossplaneCompositionUpdatePolicy = 'Automatic' | 'Manual';

/**
 * EtcdCluster is an etcd cluster, and the one object a person writes: applying it makes the cluster, changing it changes the running cluster, deleting it takes the cluster away.
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
   * What the cluster is, as the runtime found it. Crossplane adds conditions.
   */
  status?: EtcdClusterStatus;
}
/**
 * Consent to go on from one surviving member after quorum was lost for good. Writes that only the lost members had are given up. Available=False with reason QuorumLost prints what to put here. Bound to the lost cluster, so that it does nothing once that was recovered; it may stay.
 */
export interface EtcdClusterRecovery {
  /**
   * Name of the EtcdMember whose data the cluster goes on with.
   */
  survivor: string;
  /**
   * etcd's ID of the cluster that is given up, in lower-case hex.
   */
  clusterID: string;
  /**
   * That writes which only the lost members had may be lost.
   */
  acceptDataLoss: boolean;
}
/**
 * Where members keep their data.
 */
export interface EtcdClusterStorage {
  /**
   * Capacity for each member, as a quantity such as 8Gi: the size of its volume, or of its tmpfs. It may grow, not shrink.
   */
  size?: number | string;
  /**
   * Empty for a PersistentVolumeClaim per member. Memory for a tmpfs per member, which is fast, takes the memory of its node and is lost with its Pod: when a majority of Pods is lost at once, all data is.
   */
  medium?: EtcdClusterStorageMedium;
  /**
   * StorageClass of the volumes. Absent means the default class, the empty string none, that is volumes which somebody made beforehand. Cannot be added, changed or removed later.
   */
  storageClassName?: string;
  /**
   * What becomes of the volumes when the EtcdCluster is deleted. With Retain they stay, with the data of the members that were there.
   */
  retention?: EtcdClusterStorageRetention;
}
/**
 * Labels and annotations put on every object that is made for the cluster. Keys of the group etcd-operator.cozystack.io and keys that the operator sets itself are left out.
 */
export interface EtcdClusterAdditionalMetadata {
  /**
   * Labels.
   */
  labels?: {
    /**
     * Value of the label.
     */
    [k: string]: string;
  };
  /**
   * Annotations.
   */
  annotations?: {
    /**
     * Value of the annotation.
     */
    [k: string]: string;
  };
}
/**
 * Settings of etcd. What is absent is left to etcd's own default.
 */
export interface EtcdClusterOptions {
  /**
   * Largest size of the database in bytes; beyond it etcd takes no writes until space is freed. 0 is etcd's default of 2 GiB. Keep it well below storage.size.
   */
  quotaBackendBytes?: number;
  /**
   * Whether autoCompactionRetention counts time (periodic) or revisions (revision).
   */
  autoCompactionMode?: EtcdClusterOptionsAutoCompactionMode;
  /**
   * How much history etcd keeps when it compacts by itself. With mode periodic a duration in Go's form, such as 30m or 1h30m, or a bare number of hours; with mode revision a bare number of revisions. 0 or absent turns it off.
   */
  autoCompactionRetention?: string;
  /**
   * Number of committed transactions after which a member writes its raft state to disk and drops older log entries.
   */
  snapshotCount?: number;
}
/**
 * Where the etcd image comes from.
 */
export interface EtcdClusterImage {
  /**
   * Repository of the image, without tag or digest: spec.version decides the tag. When absent, the one the operator is set up with.
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
   * Number of voting members, 0 to 9. An odd number survives the most losses for its size: 3 members the loss of one, 5 of two. 0 pauses a cluster on volumes: its Pods go, each member keeps its identity and its data.
   */
  replicas?: number;
  /**
   * Consent to go on from one surviving member after quorum was lost for good. Writes that only the lost members had are given up. Available=False with reason QuorumLost prints what to put here. Bound to the lost cluster, so that it does nothing once that was recovered; it may stay.
   */
  recovery?: EtcdClusterRecovery;
  /**
   * The etcd version of the members, three numbers without a leading v. It is also the tag of the image, with a v before it.
   */
  version: string;
  /**
   * Where members keep their data.
   */
  storage?: EtcdClusterStorage;
  /**
   * CPU and memory of each member's etcd container, as in a Pod. When absent, 100m CPU and 128Mi memory are requested and nothing is limited.
   */
  resources?: ResourceRequirements;
  /**
   * Where members may run, as in a Pod. When absent, members prefer nodes that hold no other member of the cluster.
   */
  affinity?: Affinity;
  /**
   * How members are spread over zones, nodes and other places, as in a Pod. When absent, over zones as far as possible. A constraint without a labelSelector counts the members of this cluster.
   */
  topologySpreadConstraints?: TopologySpreadConstraint[];
  /**
   * Taints of nodes that members tolerate, as in a Pod.
   */
  tolerations?: Toleration[];
  /**
   * Labels that a node must carry to run a member.
   */
  nodeSelector?: {
    /**
     * Value of the label.
     */
    [k: string]: string;
  };
  /**
   * PriorityClass of the members' Pods.
   */
  priorityClassName?: string;
  /**
   * Labels and annotations put on every object that is made for the cluster. Keys of the group etcd-operator.cozystack.io and keys that the operator sets itself are left out.
   */
  additionalMetadata?: EtcdClusterAdditionalMetadata;
  /**
   * Settings of etcd. What is absent is left to etcd's own default.
   */
  options?: EtcdClusterOptions;
  /**
   * Secrets in the namespace of the cluster with which the image is pulled.
   */
  imagePullSecrets?: LocalObjectReference[];
  /**
   * Where the etcd image comes from.
   */
  image?: EtcdClusterImage;
  /**
   * Seconds after which an unfinished change is reported as late. Work on it goes on.
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
 * What the cluster is, as the runtime found it. Crossplane adds conditions.
 */
export interface EtcdClusterStatus {
  /**
   * The metadata.generation that this status answers. It trails while a change is not yet taken up.
   */
  observedGeneration?: number;
  /**
   * The state of the cluster in one word: Pending, Bootstrapping, Running, Degraded, QuorumLost, Paused or Failed. The conditions say why.
   */
  phase?: string;
  /**
   * Members that serve / members asked for, as in 3/3.
   */
  members?: string;
  /**
   * Members that serve clients; the replicas of the scale subresource.
   */
  readyMembers?: number;
  /**
   * Label selector of the members' Pods, for the scale subresource.
   */
  selector?: string;
  /**
   * etcd's cluster ID in lower-case hex. Once set, the cluster is never bootstrapped again.
   */
  clusterID?: string;
  /**
   * The etcd version that runs, or the lowest and the highest while they differ.
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
   * Members that etcd lists as learners, which do not vote yet.
   */
  learners?: number;
  /**
   * The last value of the annotation crossplane.io/reconcile-requested-at that Crossplane acted on.
   */
  lastHandledReconcileAt?: string;
  /**
   * Conditions of the resource.
   */
  conditions?: EtcdClusterCondition[];
}
