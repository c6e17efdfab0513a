// Generated from runtime/crds/etcdrestore.yaml by npm run generate. Change that file, not this one.

import type { ObjectMeta } from 'kubernetes-types/meta/v1.js';

/**
 * When requests carry a checksum of their own; WhenRequired when absent, since many servers refuse others.
 */
export type EtcdRestoreSourceS3Checksums = 'WhenRequired' | 'WhenSupported';
/**
 * Until Verifying ends nothing of the cluster is touched. Switching is the only time in which nobody is served. In Joining the restored data is served and the members grow to their number. Failed: the cluster has its own data.
 */
export type EtcdRestorePhase = 'Pending' | 'Verifying' | 'Switching' | 'Joining' | 'Complete' | 'Failed';
/**
 * True, False or Unknown.
 */
export type EtcdRestoreConditionStatus = 'True' | 'False' | 'Unknown';

/**
 * EtcdRestore replaces the data of a running EtcdCluster of its namespace by that of a snapshot, and records what became of it. The snapshot is verified first, while the cluster serves. Its spec cannot change: another restore is another object. Deleting it before it is complete brings the cluster back to its own data; deleting it afterwards deletes the volumes of the data that was replaced.
 */
export interface EtcdRestore {
  apiVersion: 'etcd-operator.cozystack.io/v1alpha2';
  kind: 'EtcdRestore';
  metadata: ObjectMeta;
  /**
   * What to restore, and a person's consent to what that costs.
   */
  spec: EtcdRestoreSpec;
  /**
   * What became of it.
   */
  status?: EtcdRestoreStatus;
}
/**
 * The EtcdCluster, in the same namespace.
 */
export interface EtcdRestoreClusterRef {
  /**
   * Its name.
   */
  name: string;
}
/**
 * An EtcdSnapshot of the namespace that is complete. The stored data must be what its status says. It is read by the keys that it was encrypted from, or by those of encryption beside it.
 */
export interface EtcdRestoreSourceSnapshotRef {
  /**
   * Its name.
   */
  name: string;
}
/**
 * A Secret of the namespace with AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, for temporary credentials, AWS_SESSION_TOKEN. Absent: the workload identity of serviceAccountName.
 */
export interface EtcdRestoreSourceS3CredentialsSecretRef {
  /**
   * Its name.
   */
  name: string;
}
/**
 * A Secret with ca.crt, the authorities that may have signed the server's certificate beside the well-known ones.
 */
export interface EtcdRestoreSourceS3CaBundleSecretRef {
  /**
   * Its name.
   */
  name: string;
}
/**
 * A bucket of an S3-compatible server.
 */
export interface EtcdRestoreSourceS3 {
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
  credentialsSecretRef?: EtcdRestoreSourceS3CredentialsSecretRef;
  /**
   * ServiceAccount of the Job's Pod where the store knows Pods by it.
   */
  serviceAccountName?: string;
  /**
   * A Secret with ca.crt, the authorities that may have signed the server's certificate beside the well-known ones.
   */
  caBundleSecretRef?: EtcdRestoreSourceS3CaBundleSecretRef;
  /**
   * When requests carry a checksum of their own; WhenRequired when absent, since many servers refuse others.
   */
  checksums?: EtcdRestoreSourceS3Checksums;
}
/**
 * A PersistentVolumeClaim of the namespace.
 */
export interface EtcdRestoreSourcePvc {
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
export interface EtcdRestoreSourceEncryptionKeySecretRef {
  /**
   * Its name.
   */
  name: string;
}
/**
 * By which an encrypted snapshot is read. Absent, only one that is not encrypted is taken; present, only one that is.
 */
export interface EtcdRestoreSourceEncryption {
  /**
   * A Secret of the namespace. Its entry key holds 32 random bytes in base64, by which new snapshots are encrypted; every other entry is a key of the same form by which older ones are still read.
   */
  keySecretRef: EtcdRestoreSourceEncryptionKeySecretRef;
}
/**
 * The snapshot.
 */
export interface EtcdRestoreSource {
  /**
   * An EtcdSnapshot of the namespace that is complete. The stored data must be what its status says. It is read by the keys that it was encrypted from, or by those of encryption beside it.
   */
  snapshotRef?: EtcdRestoreSourceSnapshotRef;
  /**
   * A bucket of an S3-compatible server.
   */
  s3?: EtcdRestoreSourceS3;
  /**
   * A PersistentVolumeClaim of the namespace.
   */
  pvc?: EtcdRestoreSourcePvc;
  /**
   * By which an encrypted snapshot is read. Absent, only one that is not encrypted is taken; present, only one that is.
   */
  encryption?: EtcdRestoreSourceEncryption;
}
/**
 * What to restore, and a person's consent to what that costs.
 */
export interface EtcdRestoreSpec {
  /**
   * The EtcdCluster, in the same namespace.
   */
  clusterRef: EtcdRestoreClusterRef;
  /**
   * etcd's ID of the cluster whose data is given up, in lower-case hex. The restored cluster has another one, so that an EtcdRestore that is applied again, by Git for example, does nothing a second time.
   */
  clusterID: string;
  /**
   * That everything which was written after the snapshot was taken may be lost.
   */
  acceptDataLoss: boolean;
  /**
   * The snapshot.
   */
  source: EtcdRestoreSource;
}
/**
 * What was found when the snapshot was restored onto a new volume and opened there by etcd.
 */
export interface EtcdRestoreVerified {
  /**
   * When.
   */
  at: string;
  /**
   * The revision it has come to, decimal.
   */
  revision: string;
  /**
   * Keys in it, decimal.
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
   * Version of the etcd it was taken from; absent without a manifest.
   */
  etcdVersion?: string;
  /**
   * ID of the cluster it was taken from; absent without a manifest.
   */
  clusterID?: string;
  /**
   * etcd's hash of the keys, where it was compared with that of the manifest.
   */
  hash?: string;
}
/**
 * The data that was replaced.
 */
export interface EtcdRestoreBefore {
  /**
   * etcd's cluster ID.
   */
  clusterID?: string;
  /**
   * The last revision it had come to, decimal.
   */
  revision?: string;
  /**
   * PersistentVolumeClaims that still hold it. They are kept until this EtcdRestore is deleted.
   *
   * Items: Name of the PersistentVolumeClaim.
   */
  volumes?: string[];
}
/**
 * The restored data.
 */
export interface EtcdRestoreAfter {
  /**
   * etcd's cluster ID.
   */
  clusterID?: string;
  /**
   * The revision it went on at. Everything below is compacted, and watchers are told so.
   */
  revision?: string;
}
export interface EtcdRestoreCondition {
  /**
   * Ready.
   */
  type: string;
  /**
   * True, False or Unknown.
   */
  status: EtcdRestoreConditionStatus;
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
export interface EtcdRestoreStatus {
  /**
   * Until Verifying ends nothing of the cluster is touched. Switching is the only time in which nobody is served. In Joining the restored data is served and the members grow to their number. Failed: the cluster has its own data.
   */
  phase?: EtcdRestorePhase;
  /**
   * Where the snapshot lies: s3://bucket/key or pvc://claim/path.
   */
  uri?: string;
  /**
   * What was found when the snapshot was restored onto a new volume and opened there by etcd.
   */
  verified?: EtcdRestoreVerified;
  /**
   * The data that was replaced.
   */
  before?: EtcdRestoreBefore;
  /**
   * The restored data.
   */
  after?: EtcdRestoreAfter;
  /**
   * What of the replaced data is not in the restored, as a range of revisions.
   */
  lost?: string;
  /**
   * When the members stopped serving the data that is replaced.
   */
  stoppedAt?: string;
  /**
   * When the restored data was served.
   */
  servedAt?: string;
  /**
   * When it began.
   */
  startTime?: string;
  /**
   * When it was complete or failed.
   */
  completionTime?: string;
  /**
   * Generation this status tells of.
   */
  observedGeneration?: number;
  /**
   * Ready, with the reason.
   */
  conditions?: EtcdRestoreCondition[];
}
