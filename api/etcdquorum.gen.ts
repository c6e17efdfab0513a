// Generated from runtime/crds/etcdquorum.yaml by npm run generate. Change that file, not this one.

import type { ObjectMeta } from 'kubernetes-types/meta/v1.js';

/**
 * Empty for volumes, Memory for tmpfs.
 */
export type EtcdQuorumMedium = '' | 'Memory';
/**
 * When requests carry a checksum of their own; WhenRequired when absent, since many servers refuse others.
 */
export type EtcdQuorumRestoreSourceS3Checksums = 'WhenRequired' | 'WhenSupported';
/**
 * When requests carry a checksum of their own; WhenRequired when absent, since many servers refuse others.
 */
export type EtcdQuorumRecoverySourceS3Checksums = 'WhenRequired' | 'WhenSupported';
/**
 * Whether the user makes the Secrets or cert-manager does.
 */
export type EtcdQuorumTlsClientSource = 'Secret' | 'CertManager';
/**
 * Whether the user makes the Secret or cert-manager does.
 */
export type EtcdQuorumTlsPeerSource = 'Secret' | 'CertManager';
/**
 * The state of the cluster in one word.
 */
export type EtcdQuorumPhase = 'Pending' | 'Bootstrapping' | 'Running' | 'Degraded' | 'QuorumLost' | 'Paused' | 'Failed';
/**
 * Complete: the restored data is served. Failed: the cluster has its own data.
 */
export type EtcdQuorumPastRestoreOutcome = 'Complete' | 'Failed';
/**
 * Where the revision was read: at the client port, or at the metrics port of a member that has restarted since.
 */
export type EtcdQuorumSurvivorSource = 'status' | 'metrics';
/**
 * Whether it is a member or a stored snapshot.
 */
export type EtcdQuorumFurthestKind = 'Survivor' | 'Snapshot';
/**
 * TrustingBoth: members restart to trust the former authority and the new one. Announcing: clients are given time to learn of both. Delivering: members are given the new certificate. DroppingOld: members restart to trust the new authority alone.
 */
export type EtcdQuorumCaChangePhase = 'TrustingBoth' | 'Announcing' | 'Delivering' | 'DroppingOld';
export type EtcdQuorumCaChangeCertificate = 'server' | 'client' | 'peer' | 'consumer';
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
 * A Secret of the namespace with AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, for temporary credentials, AWS_SESSION_TOKEN. Absent: the workload identity of serviceAccountName.
 */
export interface EtcdQuorumRestoreSourceS3CredentialsSecretRef {
  /**
   * Its name.
   */
  name: string;
}
/**
 * A Secret with ca.crt, the authorities that may have signed the server's certificate beside the well-known ones.
 */
export interface EtcdQuorumRestoreSourceS3CaBundleSecretRef {
  /**
   * Its name.
   */
  name: string;
}
/**
 * A bucket of an S3-compatible server.
 */
export interface EtcdQuorumRestoreSourceS3 {
  /**
   * URL of the server, such as https://s3.example.org.
   */
  endpoint: string;
  /**
   * Name of the bucket. It has to exist.
   */
  bucket: string;
  /**
   * The exact key of the object, as in status.artifact.uri of its EtcdSnapshot.
   */
  key: string;
  /**
   * Region that requests are signed for; us-east-1 when absent.
   */
  region?: string;
  /**
   * Address the bucket in the path, not in the host name; true when absent.
   */
  forcePathStyle?: boolean;
  /**
   * A Secret of the namespace with AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, for temporary credentials, AWS_SESSION_TOKEN. Absent: the workload identity of serviceAccountName.
   */
  credentialsSecretRef?: EtcdQuorumRestoreSourceS3CredentialsSecretRef;
  /**
   * ServiceAccount of the Job's Pod where the store knows Pods by it.
   */
  serviceAccountName?: string;
  /**
   * A Secret with ca.crt, the authorities that may have signed the server's certificate beside the well-known ones.
   */
  caBundleSecretRef?: EtcdQuorumRestoreSourceS3CaBundleSecretRef;
  /**
   * When requests carry a checksum of their own; WhenRequired when absent, since many servers refuse others.
   */
  checksums?: EtcdQuorumRestoreSourceS3Checksums;
}
/**
 * A PersistentVolumeClaim of the namespace.
 */
export interface EtcdQuorumRestoreSourcePvc {
  /**
   * Its name.
   */
  claimName: string;
  /**
   * The exact path of the file in it, as in status.artifact.uri of its EtcdSnapshot.
   */
  subPath: string;
}
/**
 * A Secret of the namespace. Its entry key holds 32 random bytes in base64, by which new snapshots are encrypted; every other entry is a key of the same form by which older ones are still read.
 */
export interface EtcdQuorumRestoreSourceEncryptionKeySecretRef {
  /**
   * Its name.
   */
  name: string;
}
/**
 * By which an encrypted snapshot is read. Absent, only one that is not encrypted is taken; present, only one that is.
 */
export interface EtcdQuorumRestoreSourceEncryption {
  /**
   * A Secret of the namespace. Its entry key holds 32 random bytes in base64, by which new snapshots are encrypted; every other entry is a key of the same form by which older ones are still read.
   */
  keySecretRef: EtcdQuorumRestoreSourceEncryptionKeySecretRef;
}
/**
 * Where the snapshot lies.
 */
export interface EtcdQuorumRestoreSource {
  /**
   * A bucket of an S3-compatible server.
   */
  s3?: EtcdQuorumRestoreSourceS3;
  /**
   * A PersistentVolumeClaim of the namespace.
   */
  pvc?: EtcdQuorumRestoreSourcePvc;
  /**
   * By which an encrypted snapshot is read. Absent, only one that is not encrypted is taken; present, only one that is.
   */
  encryption?: EtcdQuorumRestoreSourceEncryption;
}
/**
 * Begin with the data of a snapshot.
 */
export interface EtcdQuorumRestore {
  /**
   * Where the snapshot lies.
   */
  source: EtcdQuorumRestoreSource;
}
/**
 * A Secret of the namespace with AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, for temporary credentials, AWS_SESSION_TOKEN. Absent: the workload identity of serviceAccountName.
 */
export interface EtcdQuorumRecoverySourceS3CredentialsSecretRef {
  /**
   * Its name.
   */
  name: string;
}
/**
 * A Secret with ca.crt, the authorities that may have signed the server's certificate beside the well-known ones.
 */
export interface EtcdQuorumRecoverySourceS3CaBundleSecretRef {
  /**
   * Its name.
   */
  name: string;
}
/**
 * A bucket of an S3-compatible server.
 */
export interface EtcdQuorumRecoverySourceS3 {
  /**
   * URL of the server, such as https://s3.example.org.
   */
  endpoint: string;
  /**
   * Name of the bucket. It has to exist.
   */
  bucket: string;
  /**
   * The exact key of the object, as in status.artifact.uri of its EtcdSnapshot.
   */
  key: string;
  /**
   * Region that requests are signed for; us-east-1 when absent.
   */
  region?: string;
  /**
   * Address the bucket in the path, not in the host name; true when absent.
   */
  forcePathStyle?: boolean;
  /**
   * A Secret of the namespace with AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, for temporary credentials, AWS_SESSION_TOKEN. Absent: the workload identity of serviceAccountName.
   */
  credentialsSecretRef?: EtcdQuorumRecoverySourceS3CredentialsSecretRef;
  /**
   * ServiceAccount of the Job's Pod where the store knows Pods by it.
   */
  serviceAccountName?: string;
  /**
   * A Secret with ca.crt, the authorities that may have signed the server's certificate beside the well-known ones.
   */
  caBundleSecretRef?: EtcdQuorumRecoverySourceS3CaBundleSecretRef;
  /**
   * When requests carry a checksum of their own; WhenRequired when absent, since many servers refuse others.
   */
  checksums?: EtcdQuorumRecoverySourceS3Checksums;
}
/**
 * A PersistentVolumeClaim of the namespace.
 */
export interface EtcdQuorumRecoverySourcePvc {
  /**
   * Its name.
   */
  claimName: string;
  /**
   * The exact path of the file in it, as in status.artifact.uri of its EtcdSnapshot.
   */
  subPath: string;
}
/**
 * A Secret of the namespace. Its entry key holds 32 random bytes in base64, by which new snapshots are encrypted; every other entry is a key of the same form by which older ones are still read.
 */
export interface EtcdQuorumRecoverySourceEncryptionKeySecretRef {
  /**
   * Its name.
   */
  name: string;
}
/**
 * By which an encrypted snapshot is read. Absent, only one that is not encrypted is taken; present, only one that is.
 */
export interface EtcdQuorumRecoverySourceEncryption {
  /**
   * A Secret of the namespace. Its entry key holds 32 random bytes in base64, by which new snapshots are encrypted; every other entry is a key of the same form by which older ones are still read.
   */
  keySecretRef: EtcdQuorumRecoverySourceEncryptionKeySecretRef;
}
/**
 * Where a stored snapshot lies that no EtcdSnapshot of the namespace stands for.
 */
export interface EtcdQuorumRecoverySource {
  /**
   * A bucket of an S3-compatible server.
   */
  s3?: EtcdQuorumRecoverySourceS3;
  /**
   * A PersistentVolumeClaim of the namespace.
   */
  pvc?: EtcdQuorumRecoverySourcePvc;
  /**
   * By which an encrypted snapshot is read. Absent, only one that is not encrypted is taken; present, only one that is.
   */
  encryption?: EtcdQuorumRecoverySourceEncryption;
}
/**
 * A person's consent to go on from one survivor of this lost cluster, or from a stored snapshot.
 */
export interface EtcdQuorumRecovery {
  /**
   * Name of the EtcdMember whose data the cluster goes on with.
   */
  survivor?: string;
  /**
   * Name of the EtcdSnapshot that the cluster goes on from.
   */
  snapshot?: string;
  /**
   * Where a stored snapshot lies that no EtcdSnapshot of the namespace stands for.
   */
  source?: EtcdQuorumRecoverySource;
  /**
   * ID of the cluster that is given up.
   */
  clusterID: string;
  /**
   * That writes which only the lost members had may be lost.
   */
  acceptDataLoss: boolean;
}
/**
 * TLS between clients and members. Absent, clients talk to members in the clear.
 */
export interface EtcdQuorumTlsClient {
  /**
   * Whether the user makes the Secrets or cert-manager does.
   */
  source: EtcdQuorumTlsClientSource;
  /**
   * Secret with what members show to clients, and in ca.crt by what the runtime knows them.
   */
  serverSecretName: string;
  /**
   * Whether clients have to show a certificate.
   */
  mutual: boolean;
  /**
   * Secret whose ca.crt is the CA of the clients' certificates. Present with mutual.
   */
  clientCASecretName?: string;
  /**
   * Secret with the certificate that the runtime shows to members. Present with mutual.
   */
  operatorClientSecretName?: string;
  /**
   * Secret with the certificate that is issued for applications. Present where one is.
   */
  consumerSecretName?: string;
}
/**
 * TLS among the members. Absent, they talk in the clear.
 */
export interface EtcdQuorumTlsPeer {
  /**
   * Whether the user makes the Secret or cert-manager does.
   */
  source: EtcdQuorumTlsPeerSource;
  /**
   * Secret with tls.crt, tls.key and ca.crt.
   */
  secretName: string;
}
/**
 * Which certificates the cluster uses and where they come from.
 */
export interface EtcdQuorumTls {
  /**
   * TLS between clients and members. Absent, clients talk to members in the clear.
   */
  client?: EtcdQuorumTlsClient;
  /**
   * TLS among the members. Absent, they talk in the clear.
   */
  peer?: EtcdQuorumTlsPeer;
}
/**
 * etcd's own users and permissions. Absent is the same as not enabled.
 */
export interface EtcdQuorumAuth {
  /**
   * Whether clients have to log in.
   */
  enabled: boolean;
  /**
   * Secret of type kubernetes.io/basic-auth with the password of root. Present where enabled.
   */
  rootCredentialsSecretName?: string;
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
   * Begin with the data of a snapshot.
   */
  restore?: EtcdQuorumRestore;
  /**
   * A person's consent to go on from one survivor of this lost cluster, or from a stored snapshot.
   */
  recovery?: EtcdQuorumRecovery;
  /**
   * Which certificates the cluster uses and where they come from.
   */
  tls?: EtcdQuorumTls;
  /**
   * etcd's own users and permissions. Absent is the same as not enabled.
   */
  auth?: EtcdQuorumAuth;
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
 * The snapshot that this cluster began with.
 */
export interface EtcdQuorumRestored {
  /**
   * When the restored cluster had formed.
   */
  at: string;
  /**
   * Where the snapshot lies.
   */
  uri: string;
  /**
   * Of the stored bytes.
   */
  sha256?: string;
  /**
   * Up to which revision its manifest promises the data; 0 where it has none.
   */
  revisionBefore: string;
  /**
   * Where the restored cluster went on.
   */
  revisionAfter: string;
}
/**
 * What was found when the snapshot was restored onto the new volume and opened there by etcd.
 */
export interface EtcdQuorumRestoringVerified {
  /**
   * When.
   */
  at: string;
  /**
   * The revision it has come to.
   */
  revision: string;
  /**
   * Keys in it.
   */
  keys: string;
  /**
   * Of the stored bytes.
   */
  sha256: string;
  /**
   * Size of the stored bytes.
   */
  sizeBytes?: number;
  /**
   * Version of the etcd it was taken from.
   */
  etcdVersion?: string;
  /**
   * ID of the cluster it was taken from.
   */
  clusterID?: string;
  /**
   * etcd's hash of the keys, where it was compared with that of the manifest.
   */
  hash?: string;
}
/**
 * The EtcdRestore that is being carried out. Written before anything is made for it. Until operation is RestoreInPlace, the cluster serves its own data and changes as ever.
 */
export interface EtcdQuorumRestoring {
  /**
   * Identifies it in events, logs and traces.
   */
  id: string;
  /**
   * Name of the EtcdRestore.
   */
  restore: string;
  /**
   * Its UID.
   */
  restoreUID: string;
  /**
   * Where the snapshot lies.
   */
  uri: string;
  /**
   * The cluster whose data is replaced.
   */
  clusterID: string;
  /**
   * Name of the EtcdMember that starts on the restored data.
   */
  target: string;
  /**
   * Its token.
   */
  incarnation: string;
  /**
   * What is added to the revisions of the snapshot, so that none is given a second time.
   */
  bump: string;
  /**
   * When it began.
   */
  since: string;
  /**
   * What was found when the snapshot was restored onto the new volume and opened there by etcd.
   */
  verified?: EtcdQuorumRestoringVerified;
  /**
   * The last revision of the data that is replaced.
   */
  revisionBefore?: string;
  /**
   * When every member of the replaced cluster was proven gone.
   */
  stoppedAt?: string;
  /**
   * Why it is given up. While set, what was made for it is taken away.
   */
  failed?: string;
  /**
   * The reason in one word.
   */
  failedReason?: string;
}
/**
 * What was found when the snapshot was restored onto the new volume and opened there by etcd.
 */
export interface EtcdQuorumPastRestoreVerified {
  /**
   * When.
   */
  at: string;
  /**
   * The revision it has come to.
   */
  revision: string;
  /**
   * Keys in it.
   */
  keys: string;
  /**
   * Of the stored bytes.
   */
  sha256: string;
  /**
   * Size of the stored bytes.
   */
  sizeBytes?: number;
  /**
   * Version of the etcd it was taken from.
   */
  etcdVersion?: string;
  /**
   * ID of the cluster it was taken from.
   */
  clusterID?: string;
  /**
   * etcd's hash of the keys, where it was compared with that of the manifest.
   */
  hash?: string;
}
export interface EtcdQuorumPastRestore {
  /**
   * Identifies it in events and logs.
   */
  id: string;
  /**
   * Name of the EtcdRestore.
   */
  restore: string;
  /**
   * Its UID.
   */
  restoreUID: string;
  /**
   * Where the snapshot lies.
   */
  uri: string;
  /**
   * Complete: the restored data is served. Failed: the cluster has its own data.
   */
  outcome: EtcdQuorumPastRestoreOutcome;
  /**
   * Why it failed.
   */
  reason?: string;
  /**
   * Why it failed.
   */
  message?: string;
  /**
   * When it began.
   */
  since: string;
  /**
   * When it ended.
   */
  at: string;
  /**
   * When every member of the replaced cluster was proven gone.
   */
  stoppedAt?: string;
  /**
   * The cluster whose data was to be replaced.
   */
  lostClusterID: string;
  /**
   * The cluster that took its place.
   */
  clusterID?: string;
  /**
   * The last revision of the replaced data.
   */
  revisionBefore?: string;
  /**
   * The revision that the restored data went on at.
   */
  revisionAfter?: string;
  /**
   * What was found when the snapshot was restored onto the new volume and opened there by etcd.
   */
  verified?: EtcdQuorumPastRestoreVerified;
}
/**
 * A consent that stood in the claim before the loss, and so is none. Gone once it was taken out of the claim.
 */
export interface EtcdQuorumLossPriorConsent {
  /**
   * The EtcdMember that it names.
   */
  survivor?: string;
  /**
   * The EtcdSnapshot that it names.
   */
  snapshot?: string;
  /**
   * The stored snapshot that it names by its place.
   */
  uri?: string;
  /**
   * The cluster that it names.
   */
  clusterID: string;
}
/**
 * The present loss of quorum. Gone as soon as there is a quorum again.
 */
export interface EtcdQuorumLoss {
  /**
   * When it was found out.
   */
  since: string;
  /**
   * The last revision that the cluster is known to have come to. It may have come further. Absent where nobody knows.
   */
  lastRevision?: string;
  /**
   * When this process last saw a member at that revision. Absent where it was read from a record.
   */
  lastSeenAt?: string;
  /**
   * A consent that stood in the claim before the loss, and so is none. Gone once it was taken out of the claim.
   */
  priorConsent?: EtcdQuorumLossPriorConsent;
}
export interface EtcdQuorumSurvivor {
  /**
   * Name of the EtcdMember.
   */
  member: string;
  /**
   * The revision its data has come to.
   */
  revision: string;
  /**
   * Where the revision was read: at the client port, or at the metrics port of a member that has restarted since.
   */
  source: EtcdQuorumSurvivorSource;
  /**
   * Whether clients can read its data (serializable) at this moment.
   */
  readable: boolean;
  /**
   * Whether it is a learner; nothing is recovered from one.
   */
  learner: boolean;
}
export interface EtcdQuorumSnapshot {
  /**
   * Name of the EtcdSnapshot.
   */
  name: string;
  /**
   * Everything up to it is in the snapshot.
   */
  revision: string;
  /**
   * What was written after it is not in the snapshot.
   */
  takenAt?: string;
  /**
   * Where it lies.
   */
  uri: string;
}
/**
 * Whoever holds the latest revision while quorum is lost, of survivors and stored snapshots. Absent where nobody holds anything.
 */
export interface EtcdQuorumFurthest {
  /**
   * Whether it is a member or a stored snapshot.
   */
  kind: EtcdQuorumFurthestKind;
  /**
   * Name of the EtcdMember or of the EtcdSnapshot.
   */
  name: string;
  /**
   * How far its data goes.
   */
  revision: string;
}
/**
 * What did not come back, as far as it is known.
 */
export interface EtcdQuorumRecoveredLost {
  /**
   * The same in a sentence.
   */
  message: string;
  /**
   * The first revision that is not there any more.
   */
  fromRevision?: string;
  /**
   * The last revision that is known to have been; there may have been later ones. Absent where nobody knows.
   */
  toRevision?: string;
  /**
   * When the snapshot was taken. What was written after it is lost.
   */
  since?: string;
  /**
   * When quorum was found to be lost.
   */
  until?: string;
}
export interface EtcdQuorumRecovered {
  /**
   * Identifies the operation in events and logs.
   */
  id: string;
  /**
   * When the recovered member answered.
   */
  at: string;
  /**
   * The EtcdMember whose data it went on with. Absent where that was a stored snapshot.
   */
  survivor?: string;
  /**
   * Name of the EtcdSnapshot whose data it went on with, where one stands for it.
   */
  etcdSnapshot?: string;
  /**
   * Where the stored snapshot lies that it went on from.
   */
  uri?: string;
  /**
   * The cluster that was given up.
   */
  lostClusterID: string;
  /**
   * The cluster that took its place.
   */
  clusterID: string;
  /**
   * The last revision of the survivor's data or of the snapshot.
   */
  revisionBefore: string;
  /**
   * The revision the new cluster began at; watchers of older ones are told that they are compacted.
   */
  revisionAfter: string;
  /**
   * SHA-256 of the snapshot that was saved from the survivor, or taken from the store.
   */
  snapshot?: string;
  /**
   * What did not come back, as far as it is known.
   */
  lost?: EtcdQuorumRecoveredLost;
  /**
   * When all members had equal data.
   */
  verifiedAt?: string;
  /**
   * The HashKV that they agreed on, and at which revision.
   */
  verifiedHash?: string;
}
/**
 * A change of a certificate authority that is under way.
 */
export interface EtcdQuorumCaChange {
  /**
   * When it began.
   */
  since?: string;
  /**
   * TrustingBoth: members restart to trust the former authority and the new one. Announcing: clients are given time to learn of both. Delivering: members are given the new certificate. DroppingOld: members restart to trust the new authority alone.
   */
  phase: EtcdQuorumCaChangePhase;
  /**
   * Which certificates it is about.
   */
  certificates: EtcdQuorumCaChangeCertificate[];
}
/**
 * What a RecoverQuorum or Restore goes on from, and what it has come to.
 */
export interface EtcdQuorumOperationRecovery {
  /**
   * Name of the survivor's volume, or URI of the snapshot.
   */
  source: string;
  /**
   * The cluster that is given up; empty for a Restore.
   */
  clusterID: string;
  /**
   * The revision of the survivor or of the snapshot, as known when it began, then as found.
   */
  revision: string;
  /**
   * SHA-256 of the snapshot: of a stored one as its EtcdSnapshot has it, else as it was found.
   */
  snapshot?: string;
  /**
   * Where a stored snapshot lies, as s3 or pvc. Absent where it goes on from a survivor.
   */
  location?: object;
  /**
   * Name of the EtcdSnapshot that stands for it.
   */
  etcdSnapshot?: string;
  /**
   * When the stored snapshot was taken.
   */
  takenAt?: string;
  /**
   * The incarnation of the lost cluster in whose slot the new one is made.
   */
  replaces?: string;
  /**
   * The last revision that the lost cluster is known to have come to.
   */
  lastRevision?: string;
  /**
   * When the first Pod of the lost cluster was asked to end.
   */
  fencedSince?: string;
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
   * What a RecoverQuorum or Restore goes on from, and what it has come to.
   */
  recovery?: EtcdQuorumOperationRecovery;
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
   * The lower minor version, as in 3.5, that etcd has written the data of every member back for. Only with it are members rendered for that version.
   */
  downgradableTo?: string;
  /**
   * The one recorded attempt at forming the cluster, fixed in a single write before any Pod or volume exists. Its size is not read again until the cluster ID is known.
   */
  bootstrap?: EtcdQuorumBootstrap;
  /**
   * The snapshot that this cluster began with.
   */
  restored?: EtcdQuorumRestored;
  /**
   * The EtcdRestore that is being carried out. Written before anything is made for it. Until operation is RestoreInPlace, the cluster serves its own data and changes as ever.
   */
  restoring?: EtcdQuorumRestoring;
  /**
   * EtcdRestores that have ended, newest last.
   */
  pastRestores?: EtcdQuorumPastRestore[];
  /**
   * The present loss of quorum. Gone as soon as there is a quorum again.
   */
  loss?: EtcdQuorumLoss;
  /**
   * Members that still answer while quorum is lost, most data first.
   */
  survivors?: EtcdQuorumSurvivor[];
  /**
   * Stored snapshots of this cluster, most data first, as long as quorum is lost.
   */
  snapshots?: EtcdQuorumSnapshot[];
  /**
   * Whoever holds the latest revision while quorum is lost, of survivors and stored snapshots. Absent where nobody holds anything.
   */
  furthest?: EtcdQuorumFurthest;
  /**
   * Recoveries from lost quorum, newest last.
   */
  recovered?: EtcdQuorumRecovered[];
  /**
   * A change of a certificate authority that is under way.
   */
  caChange?: EtcdQuorumCaChange;
  /**
   * When the first of the certificates in use ends, unless it is renewed before.
   */
  certificatesExpireAt?: string;
  /**
   * Whether etcd asks clients to log in.
   */
  authEnabled?: boolean;
  /**
   * The certificates (PEM) by which clients know the members: ca.crt of the server Secret, of the old and the new CA while it changes. Absent without client TLS.
   */
  clientCA?: string;
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
