// Generated from xrds/etcdcluster.yaml by npm run generate. Change that file, not this one.

import type { Affinity, LocalObjectReference, ResourceRequirements, Toleration, TopologySpreadConstraint } from 'kubernetes-types/core/v1.js';
import type { ObjectMeta } from 'kubernetes-types/meta/v1.js';

/**
 * Whether a snapshot may begin while the one before runs; Forbid when absent.
 */
export type EtcdClusterBackupConcurrencyPolicy = 'Forbid' | 'Allow';
/**
 * When requests carry a checksum of their own; WhenRequired when absent, since many servers refuse others.
 */
export type EtcdClusterBackupDestinationS3Checksums = 'WhenRequired' | 'WhenSupported';
/**
 * AES256 for keys of the server, aws:kms for a key of its key service.
 */
export type EtcdClusterBackupDestinationS3ServerSideEncryptionMode = 'AES256' | 'aws:kms';
/**
 * When requests carry a checksum of their own; WhenRequired when absent, since many servers refuse others.
 */
export type EtcdClusterBootstrapRestoreSourceS3Checksums = 'WhenRequired' | 'WhenSupported';
/**
 * When requests carry a checksum of their own; WhenRequired when absent, since many servers refuse others.
 */
export type EtcdClusterRecoverySourceS3Checksums = 'WhenRequired' | 'WhenSupported';
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
/**
 * Issuer, which is in the namespace of the cluster, or ClusterIssuer.
 */
export type EtcdClusterTlsClientCertManagerServerIssuerRefKind = 'Issuer' | 'ClusterIssuer';
/**
 * Issuer, which is in the namespace of the cluster, or ClusterIssuer.
 */
export type EtcdClusterTlsClientCertManagerOperatorClientIssuerRefKind = 'Issuer' | 'ClusterIssuer';
/**
 * ECDSA, or RSA where a client cannot do otherwise; its handshakes cost members more.
 */
export type EtcdClusterTlsClientCertManagerPrivateKeyAlgorithm = 'ECDSA' | 'RSA';
/**
 * Issuer, which is in the namespace of the cluster, or ClusterIssuer.
 */
export type EtcdClusterTlsPeerCertManagerIssuerRefKind = 'Issuer' | 'ClusterIssuer';
/**
 * ECDSA, or RSA where a client cannot do otherwise; its handshakes cost members more.
 */
export type EtcdClusterTlsPeerCertManagerPrivateKeyAlgorithm = 'ECDSA' | 'RSA';
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
 * Which stored snapshots stay, among those that this schedule made of this very cluster. What any keep rule keeps stays; without one everything does. Age and total size then bound it. The newest is never removed.
 */
export interface EtcdClusterBackupRetention {
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
export interface EtcdClusterBackupProof {
  /**
   * One of so many snapshots is proven, the first one too; 1 proves every one.
   */
  every: number;
}
/**
 * A Secret of the namespace with AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, for temporary credentials, AWS_SESSION_TOKEN. Absent: the workload identity of serviceAccountName.
 */
export interface EtcdClusterBackupDestinationS3CredentialsSecretRef {
  /**
   * Its name.
   */
  name: string;
}
/**
 * A Secret with ca.crt, the authorities that may have signed the server's certificate beside the well-known ones.
 */
export interface EtcdClusterBackupDestinationS3CaBundleSecretRef {
  /**
   * Its name.
   */
  name: string;
}
/**
 * Encryption that the server is asked for.
 */
export interface EtcdClusterBackupDestinationS3ServerSideEncryption {
  /**
   * AES256 for keys of the server, aws:kms for a key of its key service.
   */
  mode: EtcdClusterBackupDestinationS3ServerSideEncryptionMode;
  /**
   * Which key of the key service.
   */
  kmsKeyID?: string;
}
/**
 * A bucket of an S3-compatible server.
 */
export interface EtcdClusterBackupDestinationS3 {
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
  credentialsSecretRef?: EtcdClusterBackupDestinationS3CredentialsSecretRef;
  /**
   * ServiceAccount of the Job's Pod where the store knows Pods by it.
   */
  serviceAccountName?: string;
  /**
   * A Secret with ca.crt, the authorities that may have signed the server's certificate beside the well-known ones.
   */
  caBundleSecretRef?: EtcdClusterBackupDestinationS3CaBundleSecretRef;
  /**
   * When requests carry a checksum of their own; WhenRequired when absent, since many servers refuse others.
   */
  checksums?: EtcdClusterBackupDestinationS3Checksums;
  /**
   * Encryption that the server is asked for.
   */
  serverSideEncryption?: EtcdClusterBackupDestinationS3ServerSideEncryption;
}
/**
 * A PersistentVolumeClaim of the namespace.
 */
export interface EtcdClusterBackupDestinationPvc {
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
export interface EtcdClusterBackupDestinationEncryptionKeySecretRef {
  /**
   * Its name.
   */
  name: string;
}
/**
 * Encrypts the database before it leaves the Pod, on top of whatever the store does.
 */
export interface EtcdClusterBackupDestinationEncryption {
  /**
   * A Secret of the namespace. Its entry key holds 32 random bytes in base64, by which new snapshots are encrypted; every other entry is a key of the same form by which older ones are still read.
   */
  keySecretRef: EtcdClusterBackupDestinationEncryptionKeySecretRef;
}
/**
 * Where the snapshot is stored.
 */
export interface EtcdClusterBackupDestination {
  /**
   * A bucket of an S3-compatible server.
   */
  s3?: EtcdClusterBackupDestinationS3;
  /**
   * A PersistentVolumeClaim of the namespace.
   */
  pvc?: EtcdClusterBackupDestinationPvc;
  /**
   * Encrypts the database before it leaves the Pod, on top of whatever the store does.
   */
  encryption?: EtcdClusterBackupDestinationEncryption;
}
/**
 * Snapshots of this cluster at the times of a schedule, the first one as soon as the cluster serves. It becomes an EtcdSnapshotSchedule of the same name.
 */
export interface EtcdClusterBackup {
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
  concurrencyPolicy?: EtcdClusterBackupConcurrencyPolicy;
  /**
   * Which stored snapshots stay, among those that this schedule made of this very cluster. What any keep rule keeps stays; without one everything does. Age and total size then bound it. The newest is never removed.
   */
  retention?: EtcdClusterBackupRetention;
  /**
   * Whether snapshots are proven by restoring them into an etcd that is thrown away, and comparing that with what was taken. Absent: only where somebody asks for it.
   */
  proof?: EtcdClusterBackupProof;
  /**
   * Where the snapshot is stored.
   */
  destination: EtcdClusterBackupDestination;
}
/**
 * A Secret of the namespace with AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, for temporary credentials, AWS_SESSION_TOKEN. Absent: the workload identity of serviceAccountName.
 */
export interface EtcdClusterBootstrapRestoreSourceS3CredentialsSecretRef {
  /**
   * Its name.
   */
  name: string;
}
/**
 * A Secret with ca.crt, the authorities that may have signed the server's certificate beside the well-known ones.
 */
export interface EtcdClusterBootstrapRestoreSourceS3CaBundleSecretRef {
  /**
   * Its name.
   */
  name: string;
}
/**
 * A bucket of an S3-compatible server.
 */
export interface EtcdClusterBootstrapRestoreSourceS3 {
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
  credentialsSecretRef?: EtcdClusterBootstrapRestoreSourceS3CredentialsSecretRef;
  /**
   * ServiceAccount of the Job's Pod where the store knows Pods by it.
   */
  serviceAccountName?: string;
  /**
   * A Secret with ca.crt, the authorities that may have signed the server's certificate beside the well-known ones.
   */
  caBundleSecretRef?: EtcdClusterBootstrapRestoreSourceS3CaBundleSecretRef;
  /**
   * When requests carry a checksum of their own; WhenRequired when absent, since many servers refuse others.
   */
  checksums?: EtcdClusterBootstrapRestoreSourceS3Checksums;
}
/**
 * A PersistentVolumeClaim of the namespace.
 */
export interface EtcdClusterBootstrapRestoreSourcePvc {
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
export interface EtcdClusterBootstrapRestoreSourceEncryptionKeySecretRef {
  /**
   * Its name.
   */
  name: string;
}
/**
 * By which an encrypted snapshot is read. Absent, only one that is not encrypted is taken; present, only one that is.
 */
export interface EtcdClusterBootstrapRestoreSourceEncryption {
  /**
   * A Secret of the namespace. Its entry key holds 32 random bytes in base64, by which new snapshots are encrypted; every other entry is a key of the same form by which older ones are still read.
   */
  keySecretRef: EtcdClusterBootstrapRestoreSourceEncryptionKeySecretRef;
}
/**
 * Where the snapshot lies.
 */
export interface EtcdClusterBootstrapRestoreSource {
  /**
   * A bucket of an S3-compatible server.
   */
  s3?: EtcdClusterBootstrapRestoreSourceS3;
  /**
   * A PersistentVolumeClaim of the namespace.
   */
  pvc?: EtcdClusterBootstrapRestoreSourcePvc;
  /**
   * By which an encrypted snapshot is read. Absent, only one that is not encrypted is taken; present, only one that is.
   */
  encryption?: EtcdClusterBootstrapRestoreSourceEncryption;
}
/**
 * Begin with the data of a snapshot.
 */
export interface EtcdClusterBootstrapRestore {
  /**
   * Where the snapshot lies.
   */
  source: EtcdClusterBootstrapRestoreSource;
}
/**
 * How the cluster begins. Read only once, when it forms; without it the cluster begins empty.
 */
export interface EtcdClusterBootstrap {
  /**
   * Begin with the data of a snapshot.
   */
  restore: EtcdClusterBootstrapRestore;
}
/**
 * A Secret of the namespace with AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, for temporary credentials, AWS_SESSION_TOKEN. Absent: the workload identity of serviceAccountName.
 */
export interface EtcdClusterRecoverySourceS3CredentialsSecretRef {
  /**
   * Its name.
   */
  name: string;
}
/**
 * A Secret with ca.crt, the authorities that may have signed the server's certificate beside the well-known ones.
 */
export interface EtcdClusterRecoverySourceS3CaBundleSecretRef {
  /**
   * Its name.
   */
  name: string;
}
/**
 * A bucket of an S3-compatible server.
 */
export interface EtcdClusterRecoverySourceS3 {
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
  credentialsSecretRef?: EtcdClusterRecoverySourceS3CredentialsSecretRef;
  /**
   * ServiceAccount of the Job's Pod where the store knows Pods by it.
   */
  serviceAccountName?: string;
  /**
   * A Secret with ca.crt, the authorities that may have signed the server's certificate beside the well-known ones.
   */
  caBundleSecretRef?: EtcdClusterRecoverySourceS3CaBundleSecretRef;
  /**
   * When requests carry a checksum of their own; WhenRequired when absent, since many servers refuse others.
   */
  checksums?: EtcdClusterRecoverySourceS3Checksums;
}
/**
 * A PersistentVolumeClaim of the namespace.
 */
export interface EtcdClusterRecoverySourcePvc {
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
export interface EtcdClusterRecoverySourceEncryptionKeySecretRef {
  /**
   * Its name.
   */
  name: string;
}
/**
 * By which an encrypted snapshot is read. Absent, only one that is not encrypted is taken; present, only one that is.
 */
export interface EtcdClusterRecoverySourceEncryption {
  /**
   * A Secret of the namespace. Its entry key holds 32 random bytes in base64, by which new snapshots are encrypted; every other entry is a key of the same form by which older ones are still read.
   */
  keySecretRef: EtcdClusterRecoverySourceEncryptionKeySecretRef;
}
/**
 * Where a stored snapshot lies that no EtcdSnapshot of the namespace stands for.
 */
export interface EtcdClusterRecoverySource {
  /**
   * A bucket of an S3-compatible server.
   */
  s3?: EtcdClusterRecoverySourceS3;
  /**
   * A PersistentVolumeClaim of the namespace.
   */
  pvc?: EtcdClusterRecoverySourcePvc;
  /**
   * By which an encrypted snapshot is read. Absent, only one that is not encrypted is taken; present, only one that is.
   */
  encryption?: EtcdClusterRecoverySourceEncryption;
}
/**
 * Consent to go on after quorum was lost for good: from one surviving member, or from a stored snapshot. What is not in it is given up. Available=False with reason QuorumLost or AllDataLost prints what to put here. Bound to the lost cluster, so that it does nothing once that was recovered; it may stay.
 */
export interface EtcdClusterRecovery {
  /**
   * Name of the EtcdMember whose data the cluster goes on with.
   */
  survivor?: string;
  /**
   * Name of the EtcdSnapshot, of this cluster and in its namespace, that the cluster goes on from.
   */
  snapshot?: string;
  /**
   * Where a stored snapshot lies that no EtcdSnapshot of the namespace stands for.
   */
  source?: EtcdClusterRecoverySource;
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
 * Secret with the certificate that members show to clients: tls.crt, tls.key and ca.crt. It has to be valid for every member there can ever be, see docs/tls.md. With operatorClientSecretRef, clients have to show a certificate of this ca.crt.
 */
export interface EtcdClusterTlsClientServerSecretRef {
  /**
   * Name of the Secret.
   */
  name: string;
}
/**
 * Secret with the certificate by which the operator is a client: tls.crt and tls.key. Its presence turns on mutual TLS: members refuse clients without a certificate.
 */
export interface EtcdClusterTlsClientOperatorClientSecretRef {
  /**
   * Name of the Secret.
   */
  name: string;
}
/**
 * Issuer of the certificate that members show to clients.
 */
export interface EtcdClusterTlsClientCertManagerServerIssuerRef {
  /**
   * Name of the issuer.
   */
  name: string;
  /**
   * Issuer, which is in the namespace of the cluster, or ClusterIssuer.
   */
  kind?: EtcdClusterTlsClientCertManagerServerIssuerRefKind;
}
/**
 * Issuer of the certificate by which the operator is a client. Its presence turns on mutual TLS: members refuse clients without a certificate of this issuer.
 */
export interface EtcdClusterTlsClientCertManagerOperatorClientIssuerRef {
  /**
   * Name of the issuer.
   */
  name: string;
  /**
   * Issuer, which is in the namespace of the cluster, or ClusterIssuer.
   */
  kind?: EtcdClusterTlsClientCertManagerOperatorClientIssuerRefKind;
}
/**
 * The keys that certificates are issued for. A renewed certificate gets a new one.
 */
export interface EtcdClusterTlsClientCertManagerPrivateKey {
  /**
   * ECDSA, or RSA where a client cannot do otherwise; its handshakes cost members more.
   */
  algorithm?: EtcdClusterTlsClientCertManagerPrivateKeyAlgorithm;
  /**
   * Bits of the key: 256, 384 or 521 for ECDSA (256 when absent), 2048, 3072 or 4096 for RSA (2048 when absent).
   */
  size?: number;
}
/**
 * Have a client certificate issued for applications too, into the Secret that status.connection.secretName names.
 */
export interface EtcdClusterTlsClientCertManagerConsumer {
  /**
   * Common name of the certificate; where auth is on, the etcd user that its bearer is. Absent: the name of the cluster. With root, every application that mounts the Secret may do everything.
   */
  commonName?: string;
}
/**
 * Have cert-manager issue the certificates and renew them.
 */
export interface EtcdClusterTlsClientCertManager {
  /**
   * Issuer of the certificate that members show to clients.
   */
  serverIssuerRef: EtcdClusterTlsClientCertManagerServerIssuerRef;
  /**
   * Issuer of the certificate by which the operator is a client. Its presence turns on mutual TLS: members refuse clients without a certificate of this issuer.
   */
  operatorClientIssuerRef?: EtcdClusterTlsClientCertManagerOperatorClientIssuerRef;
  /**
   * Further names by which clients reach the members, such as that of a load balancer. The names of the Services and of every member are always in the certificate.
   *
   * Items: A DNS name; its first label may be *.
   */
  dnsNames?: string[];
  /**
   * Further addresses by which clients reach the members.
   *
   * Items: An IPv4 or IPv6 address.
   */
  ipAddresses?: string[];
  /**
   * How long a certificate is valid, such as 2160h (also what an absent one means). It can be changed at any time; cert-manager issues anew.
   */
  duration?: string;
  /**
   * How long before its end a certificate is replaced by a new one. Absent: after two thirds of its life. Nothing restarts for that.
   */
  renewBefore?: string;
  /**
   * The keys that certificates are issued for. A renewed certificate gets a new one.
   */
  privateKey?: EtcdClusterTlsClientCertManagerPrivateKey;
  /**
   * Have a client certificate issued for applications too, into the Secret that status.connection.secretName names.
   */
  consumer?: EtcdClusterTlsClientCertManagerConsumer;
}
/**
 * TLS between clients and members, with certificates from a Secret of your own or from cert-manager. Absent, clients talk to members in the clear.
 */
export interface EtcdClusterTlsClient {
  /**
   * Secret with the certificate that members show to clients: tls.crt, tls.key and ca.crt. It has to be valid for every member there can ever be, see docs/tls.md. With operatorClientSecretRef, clients have to show a certificate of this ca.crt.
   */
  serverSecretRef?: EtcdClusterTlsClientServerSecretRef;
  /**
   * Secret with the certificate by which the operator is a client: tls.crt and tls.key. Its presence turns on mutual TLS: members refuse clients without a certificate.
   */
  operatorClientSecretRef?: EtcdClusterTlsClientOperatorClientSecretRef;
  /**
   * Have cert-manager issue the certificates and renew them.
   */
  certManager?: EtcdClusterTlsClientCertManager;
}
/**
 * Secret with the certificate that members show to each other: tls.crt, tls.key and ca.crt. It has to be valid for every member there can ever be, see docs/tls.md.
 */
export interface EtcdClusterTlsPeerSecretRef {
  /**
   * Name of the Secret.
   */
  name: string;
}
/**
 * Issuer of the certificate that members show to each other. Everyone with a certificate of its CA can join as a member, so give it to nobody else.
 */
export interface EtcdClusterTlsPeerCertManagerIssuerRef {
  /**
   * Name of the issuer.
   */
  name: string;
  /**
   * Issuer, which is in the namespace of the cluster, or ClusterIssuer.
   */
  kind?: EtcdClusterTlsPeerCertManagerIssuerRefKind;
}
/**
 * The keys that certificates are issued for. A renewed certificate gets a new one.
 */
export interface EtcdClusterTlsPeerCertManagerPrivateKey {
  /**
   * ECDSA, or RSA where a client cannot do otherwise; its handshakes cost members more.
   */
  algorithm?: EtcdClusterTlsPeerCertManagerPrivateKeyAlgorithm;
  /**
   * Bits of the key: 256, 384 or 521 for ECDSA (256 when absent), 2048, 3072 or 4096 for RSA (2048 when absent).
   */
  size?: number;
}
/**
 * Have cert-manager issue the certificate and renew it.
 */
export interface EtcdClusterTlsPeerCertManager {
  /**
   * Issuer of the certificate that members show to each other. Everyone with a certificate of its CA can join as a member, so give it to nobody else.
   */
  issuerRef: EtcdClusterTlsPeerCertManagerIssuerRef;
  /**
   * How long a certificate is valid, such as 2160h (also what an absent one means). It can be changed at any time; cert-manager issues anew.
   */
  duration?: string;
  /**
   * How long before its end a certificate is replaced by a new one. Absent: after two thirds of its life. Nothing restarts for that.
   */
  renewBefore?: string;
  /**
   * The keys that certificates are issued for. A renewed certificate gets a new one.
   */
  privateKey?: EtcdClusterTlsPeerCertManagerPrivateKey;
}
/**
 * TLS among the members, always mutual: whoever has no certificate of the same CA is no member. Absent, members talk to each other in the clear.
 */
export interface EtcdClusterTlsPeer {
  /**
   * Secret with the certificate that members show to each other: tls.crt, tls.key and ca.crt. It has to be valid for every member there can ever be, see docs/tls.md.
   */
  secretRef?: EtcdClusterTlsPeerSecretRef;
  /**
   * Have cert-manager issue the certificate and renew it.
   */
  certManager?: EtcdClusterTlsPeerCertManager;
}
/**
 * Encryption of what clients and members say, each for itself. It can be turned on for a running cluster and its Secrets and issuers can be changed, not turned off again.
 */
export interface EtcdClusterTls {
  /**
   * TLS between clients and members, with certificates from a Secret of your own or from cert-manager. Absent, clients talk to members in the clear.
   */
  client?: EtcdClusterTlsClient;
  /**
   * TLS among the members, always mutual: whoever has no certificate of the same CA is no member. Absent, members talk to each other in the clear.
   */
  peer?: EtcdClusterTlsPeer;
}
/**
 * Secret of type kubernetes.io/basic-auth with root's password under the key password.
 */
export interface EtcdClusterAuthRootCredentialsSecretRef {
  /**
   * Name of the Secret.
   */
  name: string;
}
/**
 * etcd's own users and permissions. Turned on, root's password is that of the Secret, and edits of the Secret change it. Can be turned on and off at any time.
 */
export interface EtcdClusterAuth {
  /**
   * Whether clients have to log in. Needs spec.tls.client, or passwords would travel in the clear.
   */
  enabled?: boolean;
  /**
   * Secret of type kubernetes.io/basic-auth with root's password under the key password.
   */
  rootCredentialsSecretRef?: EtcdClusterAuthRootCredentialsSecretRef;
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
   * Snapshots of this cluster at the times of a schedule, the first one as soon as the cluster serves. It becomes an EtcdSnapshotSchedule of the same name.
   */
  backup?: EtcdClusterBackup;
  /**
   * How the cluster begins. Read only once, when it forms; without it the cluster begins empty.
   */
  bootstrap?: EtcdClusterBootstrap;
  /**
   * Consent to go on after quorum was lost for good: from one surviving member, or from a stored snapshot. What is not in it is given up. Available=False with reason QuorumLost or AllDataLost prints what to put here. Bound to the lost cluster, so that it does nothing once that was recovered; it may stay.
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
   * Encryption of what clients and members say, each for itself. It can be turned on for a running cluster and its Secrets and issuers can be changed, not turned off again.
   */
  tls?: EtcdClusterTls;
  /**
   * etcd's own users and permissions. Turned on, root's password is that of the Secret, and edits of the Secret change it. Can be turned on and off at any time.
   */
  auth?: EtcdClusterAuth;
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
/**
 * How the snapshots of spec.backup fare; the condition BackupHealthy judges it.
 */
export interface EtcdClusterBackups {
  /**
   * The EtcdSnapshot that was last begun.
   */
  lastSnapshot?: string;
  /**
   * When the last complete snapshot was taken.
   */
  lastSuccessfulTime?: string;
  /**
   * When a proof last ended.
   */
  lastProofTime?: string;
  /**
   * What it found: Passed, Failed or Blocked.
   */
  lastProofResult?: string;
  /**
   * When a proof last passed.
   */
  lastProvenTime?: string;
}
/**
 * What an application needs to be a client of this cluster, as names of objects beside it.
 */
export interface EtcdClusterConnection {
  /**
   * ConfigMap with the keys endpoints and, with TLS, ca.crt: the certificates by which members are known, of the old and the new CA while it changes.
   */
  configMapName?: string;
  /**
   * Secret with the client certificate of spec.tls.client.certManager.consumer, as members take it at this moment: tls.crt, tls.key and ca.crt.
   */
  secretName?: string;
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
   * How the snapshots of spec.backup fare; the condition BackupHealthy judges it.
   */
  backups?: EtcdClusterBackups;
  /**
   * What an application needs to be a client of this cluster, as names of objects beside it.
   */
  connection?: EtcdClusterConnection;
  /**
   * How far a change of a certificate authority has come: TrustingBoth, Announcing, Delivering or DroppingOld. Absent while there is none.
   */
  caChange?: string;
  /**
   * When the first of the certificates in use ends, unless it is renewed before.
   */
  certificatesExpireAt?: string;
  /**
   * Whether etcd asks clients to log in.
   */
  authEnabled?: boolean;
  /**
   * What the last recovery from lost quorum went on from, and what it did not bring back. Every recovery stands in status.recovered of the EtcdQuorum.
   */
  lastRecovery?: string;
  /**
   * The last value of the annotation crossplane.io/reconcile-requested-at that Crossplane acted on.
   */
  lastHandledReconcileAt?: string;
  /**
   * Conditions of the resource.
   */
  conditions?: EtcdClusterCondition[];
}
