// Generated from runtime/crds/etcdquorum.yaml by npm run generate. Change that file, not this one.

import type { ObjectMeta } from 'kubernetes-types/meta/v1.js';

/**
 * Empty for volumes, Memory for tmpfs.
 */
export type EtcdQuorumMedium = '' | 'Memory';
/**
 * The state of the cluster in one word.
 */
export type EtcdQuorumPhase = 'Pending' | 'Bootstrapping' | 'Running' | 'Degraded' | 'QuorumLost' | 'Paused' | 'Failed';
/**
 * Whether it holds.
 */
export type EtcdQuorumConditionStatus = 'True' | 'False' | 'Unknown';

/**
 * EtcdQuorum is what the runtime keeps of one etcd cluster: its identity, what is in flight, what was decided and why. Its spec is written by the composition functions, its status by the runtime.
 */
export interface EtcdQuorum {
  apiVersion: 'etcd-operator.cozystack.io/v1alpha2';
  kind: 'EtcdQuorum';
  metadata: ObjectMeta;
  /**
   * What the cluster as a whole should be.
   */
  spec: EtcdQuorumSpec;
  /**
   * What the cluster is. EtcdCluster's status is projected from here.
   */
  status?: EtcdQuorumStatus;
}
/**
 * Labels and annotations the user wants on every object; here for the PodDisruptionBudget.
 */
export interface EtcdQuorumAdditionalMetadata {
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
export interface EtcdQuorumResourceRef {
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
 * What the cluster as a whole should be.
 */
export interface EtcdQuorumSpec {
  /**
   * Number of voters asked for.
   */
  replicas: number;
  /**
   * The etcd version asked for.
   */
  version: string;
  /**
   * Empty for volumes, Memory for tmpfs.
   */
  medium: EtcdQuorumMedium;
  /**
   * Seconds after which an unfinished change is called late.
   */
  progressDeadlineSeconds?: number;
  /**
   * Labels and annotations the user wants on every object; here for the PodDisruptionBudget.
   */
  additionalMetadata?: EtcdQuorumAdditionalMetadata;
  /**
   * The PodDisruptionBudget and Jobs of the cluster, written by the runtime; crossplane resource trace follows it.
   */
  resourceRefs?: EtcdQuorumResourceRef[];
}
export interface EtcdQuorumBootstrapMember {
  /**
   * Name of the EtcdMember.
   */
  name: string;
  /**
   * Its token.
   */
  incarnation: string;
}
/**
 * The one recorded attempt at forming the cluster, fixed in a single write before any Pod or volume exists. Its size is not read again until the cluster ID is known.
 */
export interface EtcdQuorumBootstrap {
  /**
   * Number of the attempt.
   */
  attempt: number;
  /**
   * etcd's initial-cluster-token; unique to the attempt.
   */
  token: string;
  /**
   * When the attempt was recorded.
   */
  startedAt: string;
  /**
   * Why the attempt was given up. While set, its Pods and volumes are taken away before the next one is recorded.
   */
  abandoned?: string;
  /**
   * The members of the attempt.
   */
  members: EtcdQuorumBootstrapMember[];
}
/**
 * What is in flight, written before the first call that changes membership.
 */
export interface EtcdQuorumOperation {
  /**
   * Identifies the operation in events, logs and traces.
   */
  id: string;
  /**
   * AddMember, RemoveMember, ReplaceMember and so on.
   */
  kind: string;
  /**
   * Name of the EtcdMember it is about.
   */
  target?: string;
  /**
   * The step it reached.
   */
  step: string;
  /**
   * When it began.
   */
  since: string;
  /**
   * etcd member ID it is about.
   */
  memberID?: string;
  /**
   * Token of the incarnation it makes.
   */
  incarnation?: string;
  /**
   * The trouble that it repairs, if it repairs one.
   */
  cause?: string;
}
export interface EtcdQuorumRepair {
  /**
   * Name of the EtcdMember.
   */
  member: string;
  /**
   * The trouble, one of the reasons.
   */
  cause: string;
  /**
   * Repairs in a row.
   */
  count: number;
  /**
   * When the last one began.
   */
  lastTime: string;
}
/**
 * The last decision that had consequences.
 */
export interface EtcdQuorumDecision {
  /**
   * The rule that answered.
   */
  rule?: string;
  /**
   * What was seen, in one line.
   */
  seen?: string;
  /**
   * What is done or waited for.
   */
  next?: string;
}
export interface EtcdQuorumCondition {
  /**
   * The condition.
   */
  type: string;
  /**
   * Whether it holds.
   */
  status: EtcdQuorumConditionStatus;
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
 * What the cluster is. EtcdCluster's status is projected from here.
 */
export interface EtcdQuorumStatus {
  /**
   * etcd's cluster ID in lower-case hex. Once set, this cluster is never bootstrapped again.
   */
  clusterID?: string;
  /**
   * UID of the EtcdCluster this record was made under.
   */
  clusterUID?: string;
  /**
   * The state of the cluster in one word.
   */
  phase?: EtcdQuorumPhase;
  /**
   * Members that serve / members asked for, as in 3/3.
   */
  members?: string;
  /**
   * Members that serve clients.
   */
  readyMembers?: number;
  /**
   * The etcd version that runs, or the lowest and highest while they differ.
   */
  version?: string;
  /**
   * Name of the EtcdMember that leads.
   */
  leader?: string;
  /**
   * Names of the EtcdMembers that etcd lists as voters.
   */
  voters?: string[];
  /**
   * Names of the EtcdMembers that etcd lists as learners.
   */
  learners?: string[];
  /**
   * The one recorded attempt at forming the cluster, fixed in a single write before any Pod or volume exists. Its size is not read again until the cluster ID is known.
   */
  bootstrap?: EtcdQuorumBootstrap;
  /**
   * What is in flight, written before the first call that changes membership.
   */
  operation?: EtcdQuorumOperation;
  /**
   * Repairs that have not been followed by a good hour. They bound how often a member is repaired for the same cause; the annotation etcd-operator.cozystack.io/retry on the EtcdMember starts the count anew.
   */
  repairs?: EtcdQuorumRepair[];
  /**
   * The last decision that had consequences.
   */
  decision?: EtcdQuorumDecision;
  /**
   * The generation of the spec this status answers.
   */
  observedGeneration?: number;
  /**
   * Ready and Synced, and Available, Progressing, Degraded and Stalled, which the claim repeats.
   */
  conditions?: EtcdQuorumCondition[];
}
