// Generated from runtime/crds/etcdsnapshot.yaml by npm run generate. Change that file, not this one.

import type { ObjectMeta } from 'kubernetes-types/meta/v1.js';

/**
 * When requests carry a checksum of their own; WhenRequired when absent, since many servers refuse others.
 */
export type EtcdSnapshotDestinationS3Checksums = 'WhenRequired' | 'WhenSupported';
/**
 * AES256 for keys of the server, aws:kms for a key of its key service.
 */
export type EtcdSnapshotDestinationS3ServerSideEncryptionMode = 'AES256' | 'aws:kms';
/**
 * Complete only once the stored object was verified and its manifest written.
 */
export type EtcdSnapshotPhase = 'Pending' | 'Started' | 'Complete' | 'Failed';
/**
 * Passed: it can be restored and is what it was. Failed: what is stored is not what was taken. Blocked: that could not be found out.
 */
export type EtcdSnapshotProofResult = 'Passed' | 'Failed' | 'Blocked';
/**
 * True, False or Unknown.
 */
export type EtcdSnapshotConditionStatus = 'True' | 'False' | 'Unknown';

/**
 * EtcdSnapshot asks for one snapshot of an EtcdCluster of its namespace and records what became of it. Its spec cannot change: another snapshot is another object. Deleting it deletes no stored data. The annotation etcd-operator.cozystack.io/prove, with any value that it has not had, asks for a proof that it can be restored.
 */
export interface EtcdSnapshot {
  apiVersion: 'etcd-operator.cozystack.io/v1alpha2';
  kind: 'EtcdSnapshot';
  metadata: ObjectMeta;
  /**
   * What to take and where to put it.
   */
  spec: EtcdSnapshotSpec;
  /**
   * What became of it.
   */
  status?: EtcdSnapshotStatus;
}
/**
 * The EtcdCluster, in the same namespace.
 */
export interface EtcdSnapshotClusterRef {
  /**
   * Its name.
   */
  name: string;
}
/**
 * A Secret of the namespace with AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, for temporary credentials, AWS_SESSION_TOKEN. Absent: the workload identity of serviceAccountName.
 */
export interface EtcdSnapshotDestinationS3CredentialsSecretRef {
  /**
   * Its name.
   */
  name: string;
}
/**
 * A Secret with ca.crt, the authorities that may have signed the server's certificate beside the well-known ones.
 */
export interface EtcdSnapshotDestinationS3CaBundleSecretRef {
  /**
   * Its name.
   */
  name: string;
}
/**
 * Encryption that the server is asked for.
 */
export interface EtcdSnapshotDestinationS3ServerSideEncryption {
  /**
   * AES256 for keys of the server, aws:kms for a key of its key service.
   */
  mode: EtcdSnapshotDestinationS3ServerSideEncryptionMode;
  /**
   * Which key of the key service.
   */
  kmsKeyID?: string;
}
/**
 * A bucket of an S3-compatible server.
 */
export interface EtcdSnapshotDestinationS3 {
  /**
   * URL of the server, such as https://s3.example.org.
   */
  endpoint: string;
  /**
   * Name of the bucket. It has to exist.
   */
  bucket: string;
  /**
   * Prefix of the object's key. The whole key is <prefix>/<namespace>/<cluster>/<name>-<uid>.db and stands in status.artifact.uri.
   */
  key?: string;
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
  credentialsSecretRef?: EtcdSnapshotDestinationS3CredentialsSecretRef;
  /**
   * ServiceAccount of the Job's Pod where the store knows Pods by it.
   */
  serviceAccountName?: string;
  /**
   * A Secret with ca.crt, the authorities that may have signed the server's certificate beside the well-known ones.
   */
  caBundleSecretRef?: EtcdSnapshotDestinationS3CaBundleSecretRef;
  /**
   * When requests carry a checksum of their own; WhenRequired when absent, since many servers refuse others.
   */
  checksums?: EtcdSnapshotDestinationS3Checksums;
  /**
   * Encryption that the server is asked for.
   */
  serverSideEncryption?: EtcdSnapshotDestinationS3ServerSideEncryption;
}
/**
 * A PersistentVolumeClaim of the namespace.
 */
export interface EtcdSnapshotDestinationPvc {
  /**
   * Its name.
   */
  claimName: string;
  /**
   * Folder in it below which the file is put.
   */
  subPath?: string;
}
/**
 * A Secret of the namespace. Its entry key holds 32 random bytes in base64, by which new snapshots are encrypted; every other entry is a key of the same form by which older ones are still read.
 */
export interface EtcdSnapshotDestinationEncryptionKeySecretRef {
  /**
   * Its name.
   */
  name: string;
}
/**
 * Encrypts the database before it leaves the Pod, on top of whatever the store does.
 */
export interface EtcdSnapshotDestinationEncryption {
  /**
   * A Secret of the namespace. Its entry key holds 32 random bytes in base64, by which new snapshots are encrypted; every other entry is a key of the same form by which older ones are still read.
   */
  keySecretRef: EtcdSnapshotDestinationEncryptionKeySecretRef;
}
/**
 * Where the snapshot is stored.
 */
export interface EtcdSnapshotDestination {
  /**
   * A bucket of an S3-compatible server.
   */
  s3?: EtcdSnapshotDestinationS3;
  /**
   * A PersistentVolumeClaim of the namespace.
   */
  pvc?: EtcdSnapshotDestinationPvc;
  /**
   * Encrypts the database before it leaves the Pod, on top of whatever the store does.
   */
  encryption?: EtcdSnapshotDestinationEncryption;
}
/**
 * What to take and where to put it.
 */
export interface EtcdSnapshotSpec {
  /**
   * The EtcdCluster, in the same namespace.
   */
  clusterRef: EtcdSnapshotClusterRef;
  /**
   * Where the snapshot is stored.
   */
  destination: EtcdSnapshotDestination;
}
/**
 * The stored database.
 */
export interface EtcdSnapshotArtifact {
  /**
   * Where it lies: s3://bucket/key or pvc://claim/path.
   */
  uri: string;
  /**
   * Its size.
   */
  sizeBytes?: number;
  /**
   * sha256:<hex> of the stored bytes.
   */
  checksum?: string;
  /**
   * ID of the key it is encrypted with; absent where it is not encrypted.
   */
  encryptionKeyID?: string;
}
/**
 * What the schedule's retention did after this snapshot was stored.
 */
export interface EtcdSnapshotRetention {
  /**
   * Snapshots whose stored data it removed.
   *
   * Items: Name of the EtcdSnapshot.
   */
  removed?: string[];
  /**
   * Stored snapshots of the schedule that stay.
   */
  count?: number;
  /**
   * All of them together.
   */
  sizeBytes?: number;
  /**
   * When the oldest was taken.
   */
  oldest?: string;
  /**
   * Why it could not remove everything. It is tried again after the next snapshot.
   */
  error?: string;
}
/**
 * The last proof that ended. It restores what is stored into an etcd that is thrown away, and compares that with the manifest.
 */
export interface EtcdSnapshotProof {
  /**
   * The value of the annotation that asked for it.
   */
  request: string;
  /**
   * Passed: it can be restored and is what it was. Failed: what is stored is not what was taken. Blocked: that could not be found out.
   */
  result: EtcdSnapshotProofResult;
  /**
   * One word, the same in condition, event, log and metric.
   */
  reason: string;
  /**
   * The particulars.
   */
  message?: string;
  /**
   * When its Job was made.
   */
  startTime?: string;
  /**
   * When it ended.
   */
  time: string;
  /**
   * Version of the etcd that served the restored data.
   */
  etcdVersion?: string;
  /**
   * Revision of the restored data, decimal.
   */
  revision?: string;
  /**
   * Keys at the revision of the manifest, decimal.
   */
  keys?: string;
  /**
   * etcd's hash of the key space at that revision.
   */
  hash?: number;
  /**
   * What was found equal to the manifest. Older manifests promise less.
   *
   * Items: sha256, revision, keys or hashKv.
   */
  compared?: string[];
}
/**
 * How far it is while it runs.
 */
export interface EtcdSnapshotProgress {
  /**
   * Bytes read from etcd.
   */
  bytes?: number;
  /**
   * Size of the database when it began.
   */
  expectedBytes?: number;
  /**
   * Since it began.
   */
  bytesPerSecond?: number;
}
export interface EtcdSnapshotCondition {
  /**
   * Ready or Proven.
   */
  type: string;
  /**
   * True, False or Unknown.
   */
  status: EtcdSnapshotConditionStatus;
  /**
   * One word, the same in events, logs and metrics.
   */
  reason: string;
  /**
   * The particulars.
   */
  message?: string;
  /**
   * When the status last changed.
   */
  lastTransitionTime: string;
  /**
   * Generation it tells of.
   */
  observedGeneration?: number;
}
/**
 * What became of it.
 */
export interface EtcdSnapshotStatus {
  /**
   * Complete only once the stored object was verified and its manifest written.
   */
  phase?: EtcdSnapshotPhase;
  /**
   * The stored database.
   */
  artifact?: EtcdSnapshotArtifact;
  /**
   * Everything up to this revision is in it, decimal.
   */
  revision?: string;
  /**
   * Version of the member it came from.
   */
  etcdVersion?: string;
  /**
   * etcd's cluster ID.
   */
  clusterID?: string;
  /**
   * The EtcdMember it came from.
   */
  member?: string;
  /**
   * etcd's ID of that member.
   */
  memberID?: string;
  /**
   * What the schedule's retention did after this snapshot was stored.
   */
  retention?: EtcdSnapshotRetention;
  /**
   * The last proof that ended. It restores what is stored into an etcd that is thrown away, and compares that with the manifest.
   */
  proof?: EtcdSnapshotProof;
  /**
   * How far it is while it runs.
   */
  progress?: EtcdSnapshotProgress;
  /**
   * When its Job was made.
   */
  startTime?: string;
  /**
   * When it was complete or failed.
   */
  completionTime?: string;
  /**
   * From Job to manifest, such as 12s.
   */
  duration?: string;
  /**
   * The Job that takes it.
   */
  jobName?: string;
  /**
   * Generation this status tells of.
   */
  observedGeneration?: number;
  /**
   * Ready, and Proven once a proof was asked for, each with the reason.
   */
  conditions?: EtcdSnapshotCondition[];
}
