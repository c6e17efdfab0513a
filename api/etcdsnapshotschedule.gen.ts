// Generated from runtime/crds/etcdsnapshotschedule.yaml by npm run generate. Change that file, not this one.

import type { ObjectMeta } from 'kubernetes-types/meta/v1.js';

/**
 * Whether a snapshot may begin while the one before runs; Forbid when absent.
 */
export type EtcdSnapshotScheduleConcurrencyPolicy = 'Forbid' | 'Allow';
/**
 * When requests carry a checksum of their own; WhenRequired when absent, since many servers refuse others.
 */
export type EtcdSnapshotScheduleDestinationS3Checksums = 'WhenRequired' | 'WhenSupported';
/**
 * AES256 for keys of the server, aws:kms for a key of its key service.
 */
export type EtcdSnapshotScheduleDestinationS3ServerSideEncryptionMode = 'AES256' | 'aws:kms';
/**
 * Passed: it can be restored and is what it was. Failed: what is stored is not what was taken. Blocked: that could not be found out.
 */
export type EtcdSnapshotScheduleLastProofResult = 'Passed' | 'Failed' | 'Blocked';
/**
 * True, False or Unknown.
 */
export type EtcdSnapshotScheduleConditionStatus = 'True' | 'False' | 'Unknown';

/**
 * EtcdSnapshotSchedule takes a snapshot of an EtcdCluster of its namespace at the times of a cron schedule, the first one as soon as the cluster serves, and removes stored ones by its retention. Deleting it deletes neither snapshots nor stored data.
 */
export interface EtcdSnapshotSchedule {
  apiVersion: 'etcd-operator.cozystack.io/v1alpha2';
  kind: 'EtcdSnapshotSchedule';
  metadata: ObjectMeta;
  /**
   * What to take, when, where to put it, and how long to keep it.
   */
  spec: EtcdSnapshotScheduleSpec;
  /**
   * What became of it.
   */
  status?: EtcdSnapshotScheduleStatus;
}
/**
 * The EtcdCluster, in the same namespace.
 */
export interface EtcdSnapshotScheduleClusterRef {
  /**
   * Its name.
   */
  name: string;
}
/**
 * Which stored snapshots stay, among those that this schedule made of this very cluster. What any keep rule keeps stays; without one everything does. Age and total size then bound it. The newest is never removed.
 */
export interface EtcdSnapshotScheduleRetention {
  /**
   * The newest that are kept.
   */
  keepLast?: number;
  /**
   * The newest of each of so many days (UTC) that have one.
   */
  keepDaily?: number;
  /**
   * The newest of each of so many weeks (Monday to Sunday, UTC) that have one.
   */
  keepWeekly?: number;
  /**
   * Older ones go: minutes, hours or days, such as 90d.
   */
  maxAge?: string;
  /**
   * The oldest go while all together are larger: bytes, or with Ki, Mi, Gi, Ti.
   */
  maxTotalSize?: string;
}
/**
 * Whether snapshots are proven by restoring them into an etcd that is thrown away, and comparing that with what was taken. Absent: only where somebody asks for it.
 */
export interface EtcdSnapshotScheduleProof {
  /**
   * One of so many snapshots is proven, the first one too; 1 proves every one.
   */
  every: number;
}
/**
 * A Secret of the namespace with AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, for temporary credentials, AWS_SESSION_TOKEN. Absent: the workload identity of serviceAccountName.
 */
export interface EtcdSnapshotScheduleDestinationS3CredentialsSecretRef {
  /**
   * Its name.
   */
  name: string;
}
/**
 * A Secret with ca.crt, the authorities that may have signed the server's certificate beside the well-known ones.
 */
export interface EtcdSnapshotScheduleDestinationS3CaBundleSecretRef {
  /**
   * Its name.
   */
  name: string;
}
/**
 * Encryption that the server is asked for.
 */
export interface EtcdSnapshotScheduleDestinationS3ServerSideEncryption {
  /**
   * AES256 for keys of the server, aws:kms for a key of its key service.
   */
  mode: EtcdSnapshotScheduleDestinationS3ServerSideEncryptionMode;
  /**
   * Which key of the key service.
   */
  kmsKeyID?: string;
}
/**
 * A bucket of an S3-compatible server.
 */
export interface EtcdSnapshotScheduleDestinationS3 {
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
  credentialsSecretRef?: EtcdSnapshotScheduleDestinationS3CredentialsSecretRef;
  /**
   * ServiceAccount of the Job's Pod where the store knows Pods by it.
   */
  serviceAccountName?: string;
  /**
   * A Secret with ca.crt, the authorities that may have signed the server's certificate beside the well-known ones.
   */
  caBundleSecretRef?: EtcdSnapshotScheduleDestinationS3CaBundleSecretRef;
  /**
   * When requests carry a checksum of their own; WhenRequired when absent, since many servers refuse others.
   */
  checksums?: EtcdSnapshotScheduleDestinationS3Checksums;
  /**
   * Encryption that the server is asked for.
   */
  serverSideEncryption?: EtcdSnapshotScheduleDestinationS3ServerSideEncryption;
}
/**
 * A PersistentVolumeClaim of the namespace.
 */
export interface EtcdSnapshotScheduleDestinationPvc {
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
export interface EtcdSnapshotScheduleDestinationEncryptionKeySecretRef {
  /**
   * Its name.
   */
  name: string;
}
/**
 * Encrypts the database before it leaves the Pod, on top of whatever the store does.
 */
export interface EtcdSnapshotScheduleDestinationEncryption {
  /**
   * A Secret of the namespace. Its entry key holds 32 random bytes in base64, by which new snapshots are encrypted; every other entry is a key of the same form by which older ones are still read.
   */
  keySecretRef: EtcdSnapshotScheduleDestinationEncryptionKeySecretRef;
}
/**
 * Where the snapshot is stored.
 */
export interface EtcdSnapshotScheduleDestination {
  /**
   * A bucket of an S3-compatible server.
   */
  s3?: EtcdSnapshotScheduleDestinationS3;
  /**
   * A PersistentVolumeClaim of the namespace.
   */
  pvc?: EtcdSnapshotScheduleDestinationPvc;
  /**
   * Encrypts the database before it leaves the Pod, on top of whatever the store does.
   */
  encryption?: EtcdSnapshotScheduleDestinationEncryption;
}
/**
 * What to take, when, where to put it, and how long to keep it.
 */
export interface EtcdSnapshotScheduleSpec {
  /**
   * The EtcdCluster, in the same namespace.
   */
  clusterRef: EtcdSnapshotScheduleClusterRef;
  /**
   * Cron times, five fields: "30 2 * * *" is half past two every night, "* /30 * * * *" every half hour.
   */
  schedule: string;
  /**
   * Where those times are meant, such as Europe/Berlin; UTC when absent.
   */
  timeZone?: string;
  /**
   * No snapshot is begun while true. Stored ones stay.
   */
  suspend?: boolean;
  /**
   * How late a snapshot may begin, when the runtime or the cluster was away at its time; 3600 when absent. Of several that were missed only the last is made up for.
   */
  startingDeadlineSeconds?: number;
  /**
   * Whether a snapshot may begin while the one before runs; Forbid when absent.
   */
  concurrencyPolicy?: EtcdSnapshotScheduleConcurrencyPolicy;
  /**
   * Which stored snapshots stay, among those that this schedule made of this very cluster. What any keep rule keeps stays; without one everything does. Age and total size then bound it. The newest is never removed.
   */
  retention?: EtcdSnapshotScheduleRetention;
  /**
   * Whether snapshots are proven by restoring them into an etcd that is thrown away, and comparing that with what was taken. Absent: only where somebody asks for it.
   */
  proof?: EtcdSnapshotScheduleProof;
  /**
   * Where the snapshot is stored.
   */
  destination: EtcdSnapshotScheduleDestination;
}
/**
 * The proof of one of its snapshots that ended last.
 */
export interface EtcdSnapshotScheduleLastProof {
  /**
   * Name of the EtcdSnapshot.
   */
  snapshot: string;
  /**
   * Passed: it can be restored and is what it was. Failed: what is stored is not what was taken. Blocked: that could not be found out.
   */
  result: EtcdSnapshotScheduleLastProofResult;
  /**
   * One word, the same in condition, event, log and metric.
   */
  reason: string;
  /**
   * The particulars.
   */
  message?: string;
  /**
   * When it ended.
   */
  time: string;
}
/**
 * What lies in the store after the last retention.
 */
export interface EtcdSnapshotScheduleStored {
  /**
   * Snapshots.
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
}
export interface EtcdSnapshotScheduleCondition {
  /**
   * Active, BackupHealthy or Ready.
   */
  type: string;
  /**
   * True, False or Unknown.
   */
  status: EtcdSnapshotScheduleConditionStatus;
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
export interface EtcdSnapshotScheduleStatus {
  /**
   * The time of the schedule for which a snapshot was last begun.
   */
  lastScheduleTime?: string;
  /**
   * When the last complete snapshot was taken.
   */
  lastSuccessfulTime?: string;
  /**
   * Name of the EtcdSnapshot that was last begun.
   */
  lastSnapshot?: string;
  /**
   * Snapshots that were begun after the one that was last proven.
   */
  snapshotsSinceProof?: number;
  /**
   * When a proof last passed.
   */
  lastProvenTime?: string;
  /**
   * The proof of one of its snapshots that ended last.
   */
  lastProof?: EtcdSnapshotScheduleLastProof;
  /**
   * What lies in the store after the last retention.
   */
  stored?: EtcdSnapshotScheduleStored;
  /**
   * Generation this status tells of.
   */
  observedGeneration?: number;
  /**
   * Active (whether it runs), BackupHealthy (whether there is a good snapshot that is not too old, and the last proof passed), and Ready, which is both.
   */
  conditions?: EtcdSnapshotScheduleCondition[];
}
