/**
 * Every reason that a condition, an event, a log line or a metric of this project can carry: the same word everywhere.
 * The text says what the person who reads it should do.
 */
export const REASONS = {
  // Nothing to do
  Serving: 'The member serves clients. Nothing to do.',
  Accepted: 'The claim is carried out as it is written. Nothing to do.',
  Settled: 'The cluster is as asked. Nothing to do.',
  QuorumHealthy: 'Every member serves. Nothing to do.',
  QuorumAvailable: 'A majority serves, not everyone. See which member is missing and why in its own conditions.',
  Paused: 'replicas is 0: no Pod runs, identity and volumes are kept. Raise replicas to resume.',

  // In progress
  Creating:
    'The runtime has not acted on this cluster yet. If this stays, look at the runtime Deployment and its logs.',
  Bootstrapping: 'The members are starting for the first time. Wait.',
  BootstrapRestarted:
    'The attempt to form the cluster was given up and a new one begins. Read the message for the cause.',
  Starting: 'The member is starting. Wait; a large write-ahead log takes minutes to replay.',
  Proving: 'The member runs, its identity and revision are being checked before it may serve. Wait.',
  Learner: 'The member is catching up as a learner. Wait.',
  Restarting: 'The member is being restarted on its own data. Wait.',
  Adding: 'A member is being added. Wait.',
  Removing: 'A member is being removed. Wait.',
  Replacing: 'A member is being replaced. Wait.',
  MemberListOrphan:
    'etcd lists a member of this cluster that Kubernetes knows nothing of any more. It is taken off the list. Wait.',
  Leaving: 'The member is leaving the cluster. Wait.',
  Removed: 'The member has left the cluster and its volume is gone. Nothing to do.',
  Deleting: 'The cluster is being deleted. Wait.',
  Orphaned: 'The claim was orphaned: Pods and volumes stay. Apply the claim again to have them kept.',
  Adopting: 'A claim applied again takes over the running cluster. Wait.',
  LeaderMoved: 'Another member leads, since the node of the one that led is being drained. Nothing to do.',
  Downgrading:
    'etcd writes its data back for the lower version; then the members follow one at a time. Wait, or set version back to go forward again.',
  RollingOut: 'A change of the claim is brought to the members one by one. Wait.',
  RolloutHeld: 'The change cannot reach this member without losing its data. Raise replicas to 3 first.',
  UpgradeRefused:
    'There is no safe way from the version that runs to the one that is asked for. Set version as the message says.',

  TlsRemovalRefused:
    'A running cluster is not brought back into the clear. Put spec.tls back, in the claim or in the policy that gave it; members keep the certificates that they have.',

  // Certificates and credentials
  CertificatesValid: 'Every certificate in use is valid for a good while. Nothing to do.',
  CertificateExpiring:
    'A certificate ends soon and was not renewed. Renew the Secret, or find out why cert-manager does not; the message has name and date.',
  CertificateExpired: 'A certificate has expired. Put a new one into the Secret; nothing needs to be restarted.',
  CertificateNotYetValid: 'A certificate is not valid yet. Check the clocks, or issue it anew.',
  CertificateUnreadable: 'What is in the Secret is no certificate or key in PEM. Put the right one in.',
  SecretMissing:
    'A Secret that the claim names, or that cert-manager should make, is not there. Create it, or look at the Certificate of that name.',
  SecretUnread: 'A Secret cannot be read. The message says why; the runtime may lack the right to.',
  SecretWrongType: 'The Secret is of another type. Make it anew with a type that the message names.',
  SecretIncomplete: 'The Secret lacks a key. The message says which; add it.',
  ConfiguringAuth: 'Authentication is being turned on or off. Wait.',
  AuthEnabled: 'etcd asks for passwords from now on. Nothing to do.',
  AuthDisabled: 'etcd asks for no passwords any more. Nothing to do.',
  PasswordChanged: "root's password is that of the Secret now. Nothing to do.",
  AuthRequiredNotConfigured:
    'etcd asks for passwords and the claim says nothing of it. Set auth.enabled, with the Secret that holds the password of root.',
  AuthCredentialsRejected:
    "etcd takes neither root's password from the Secret nor one that was in force before. Put the one in force into the Secret, in restored data that of its time; once the runtime is in, edit it again.",
  KeyMismatch: 'Certificate and key in the Secret do not belong together. Put both in anew.',
  CaMismatch: 'The certificate is not signed by an authority in ca.crt. Put the right ca.crt in, or issue it anew.',
  CaChanging:
    'A certificate of another CA is on its way to the members: all trust both, then show the new one, then drop the former. Wait.',
  CaChangedAtOnce:
    'A certificate is of a CA that running members do not trust, and the one that they show cannot be kept: it has expired, or the Secret in which the runtime held it was deleted. Put a certificate of the former CA into the Secret, with both CAs in ca.crt; the change then goes on by itself. Or delete all Pods at once and bear the interruption.',
  SecretTaken:
    'A Secret has a name that the runtime needs for what is in use, and is not its own. Delete it, after a look at who made it.',
  SanMissing: 'The certificate lacks names that members or clients use. Issue it with the names in the message.',
  UsageMissing: 'The certificate is not for this use. Issue it with the extended key usages in the message.',

  // Kubernetes stands in the way
  Unschedulable:
    'No node takes the Pod. Free resources, or change resources, affinity, tolerations or nodeSelector in the claim.',
  VolumeNotProvisioned:
    'The volume cannot be made. Check storage.storageClassName and the provisioner; the message has its words.',
  VolumeNotGrown:
    'The volume cannot be made larger; the members run on. Allow expansion in the StorageClass, or set storage.size back.',
  VolumeLost: 'The volume is gone. Find out who deleted it.',
  ImagePullFailed: 'The image cannot be pulled. Check version, image.repository and imagePullSecrets in the claim.',
  PodRefused: 'The API server refuses the Pod or volume: quota, admission or policy. Read the message.',
  NodeLost:
    'The node of this member, or of the volume that is being filled for it, is away. If it does not come back, delete its Node object: then it is made anew elsewhere at once.',
  ContainerNotCreated: 'The kubelet cannot create the container. Read the message.',

  // etcd stands in the way
  OptionsRefused: 'etcd does not take these options. Correct spec.options in the claim.',
  VersionUnsupported: 'There is no configuration for this version of etcd. Choose a supported version.',
  OutOfMemory: 'etcd was killed for lack of memory. Raise resources.limits.memory in the claim.',
  VolumeEmpty:
    'The member finds no data on its volume although it has joined before. It will not start. It is replaced by itself while the others hold quorum.',
  VolumeFull: 'The volume is full. Enlarge storage.size or lower options.quotaBackendBytes.',
  DataCorrupt:
    'The data on the volume is damaged and etcd cannot start on it. It is replaced by itself while the others hold quorum. Suspect the disk.',
  DataDiffers:
    "The member's data differs from the others' at the same revision. It will not serve; the others keep serving.",
  NotAnswering:
    'etcd runs and does not answer. The kubelet restarts it by its liveness probe within two minutes; if that repeats, look at the disk and the CPU limit.',
  SpaceLow:
    'The database nears its quota, at which etcd refuses every write. Delete keys, let etcd compact (options.autoCompactionRetention), or raise options.quotaBackendBytes.',
  SpaceFragmented:
    'The database file is much larger than what it holds. It is defragmented by itself when the quota is reached.',
  SpaceExhausted:
    'The database has reached its quota and etcd refuses every write. Delete keys and compact (etcdctl compact --physical) until at most three quarters of the quota are in use, or raise options.quotaBackendBytes. What that frees is given back and the alarm disarmed by itself.',
  CorruptAlarm:
    'etcd has found that data differs between members and refuses every write. Where a majority agrees, the member that differs is replaced and the alarm disarmed by itself. Otherwise find out which data is right, from the hashes in the message, and delete the EtcdMembers that are wrong.',
  CrashLooping: 'etcd ends again and again. The message has its last words.',

  // Certificates
  CertificatesIssued: 'cert-manager has issued every certificate. Nothing to do.',
  CertManagerNotInstalled:
    'The claim asks for certificates of cert-manager, which is not installed. Install it; nothing else has to be done.',
  CertificateNotIssued:
    'cert-manager has not issued a certificate. Look at that Certificate, its CertificateRequest and its issuer.',

  // A person has to decide
  ForeignData:
    'The data belongs to another cluster. The Pod is stopped and the volume kept. Put the right volume back and let it be tried again: kubectl annotate etcdmember NAME etcd-operator.cozystack.io/retry= ; or delete the EtcdMember to replace the member, which deletes that volume.',
  ForeignIdentity:
    'The data belongs to another member. The Pod is stopped and the volume kept. Put the right volume back and let it be tried again: kubectl annotate etcdmember NAME etcd-operator.cozystack.io/retry= ; or delete the EtcdMember to replace the member, which deletes that volume.',
  RevisionTooLow:
    'The data is older than what this member has acknowledged. The Pod is stopped and the volume kept. Put the right volume back and let it be tried again: kubectl annotate etcdmember NAME etcd-operator.cozystack.io/retry= ; or delete the EtcdMember to replace the member, which deletes that volume.',
  OperationUnknown: 'A newer runtime has begun what this one does not know. Bring that runtime back, or report this.',
  MemberListUnknownMember: 'etcd lists a member that no EtcdMember stands for. Find out who added it.',
  ReplacementHeld:
    'Replacing this member now would cost quorum or data. It happens by itself once the others are healthy, and for an only member once replicas was raised.',
  RepairDelayed:
    'The last repair did not help, and the next one comes later. Read the message for the cause and mend that meanwhile.',
  RepairExhausted:
    'The member was repaired several times for the same cause and is not well. Mend the cause, then let it be tried again: kubectl annotate etcdmember NAME etcd-operator.cozystack.io/retry=',
  MemoryLost: 'The memory member lost its Pod and so its data. It is replaced as soon as the others hold quorum.',
  QuorumLost:
    'Fewer than a majority of the voters answer. Bring their nodes back; nothing is done to the data meanwhile.',
  Recovering: 'Quorum is being recovered from the survivor or the snapshot that the claim names. Wait.',
  RecoveryRefused: 'The consent in spec.recovery is not followed. The message says why; correct or remove it.',
  RecoveryBlocked:
    'The recovery waits for Pods on nodes that do not answer: of the lost cluster, which could still take writes, or its own. Make sure that their nodes are down, then act as the message says.',
  SeedingFailed:
    'A volume could not be filled from the survivor or the snapshot, which is untouched; it is tried again. Read the message.',
  AllDataLost:
    'No member has data any more. Consent to going back to a stored snapshot, by the line that the message prints.',
  DeadlineExceeded:
    'The change takes longer than progressDeadlineSeconds. It goes on; read the other conditions for the cause.',
  InvariantBroken: 'A decision was vetoed by the safety check. This is a defect: please report it with the message.',
  ClusterUnreachable: 'No member answers the runtime. Check the network between the runtime and the Pods.',

  // Snapshots
  Restoring: 'The data of a snapshot is brought into the cluster. Wait; if this stays, read the message.',
  RestoreWaiting: 'The restore has not begun or cannot go on yet. The message says what it waits for.',
  RestoreVerifying:
    'The snapshot is restored onto a new volume and opened there; the cluster serves its own data meanwhile. Wait.',
  RestoreRefused:
    'The restore is not carried out and nothing was touched. The message says why; make another EtcdRestore.',
  RestoreFailed:
    'The restore was given up and the cluster has its own data. Read the message, then make another EtcdRestore.',
  RestoreGivenUp: 'The restore was given up and the cluster has its own data. Nothing to do.',
  RestoreBlocked:
    'The restore waits for the end of Pods that could still take writes. Make sure that their nodes are down, then act as the message says; or delete the EtcdRestore.',
  RestoreComplete:
    'The restored data is served by every member. Delete the EtcdRestore when the replaced data is not needed any more.',
  SnapshotNotComplete: 'The EtcdSnapshot is not there or not complete. Correct the name, or wait until it is.',
  SnapshotNotOpened: 'etcd does not start on the data of the snapshot. Nothing was touched. Restore another one.',
  SnapshotStored: 'The snapshot is stored, verified and has its manifest. Nothing to do.',
  SnapshotRunning: 'The snapshot is being taken. Wait; progress stands in the status.',
  SnapshotJobWaiting: 'The Pod of the Job does not start. Read the message.',
  SnapshotMissing:
    'There is no such stored snapshot: it was deleted, or bucket, key or path are others. Name or take another one.',
  SnapshotTooNew: 'The snapshot is of a newer etcd than is to start on it. Set spec.version as the message says.',
  SnapshotFailed: 'The snapshot failed. Read the message, mend the cause, and make another EtcdSnapshot.',
  SnapshotKeyMissing:
    'The snapshot is encrypted with a key that the source does not name or its Secret does not hold. Name the Secret, or put the key into it, as the message says.',
  SnapshotNotEncrypted:
    'The source names a Secret with keys, and the snapshot is not encrypted. Take encryption out of the source; where the snapshot was stored encrypted, it was exchanged: name or take another one.',
  SnapshotKeyUnusable:
    'The Secret with the encryption keys is not there or holds no usable key. Correct it as the message says; an EtcdSnapshot that failed is not tried again: make another.',
  SnapshotDamaged:
    'The database was damaged on its way, in the member or in the store, and is not used. Name or take another; if that repeats, replace the member it came from.',
  NoSnapshotSource: 'No member can be asked for its database. See the conditions of the EtcdCluster.',
  ClusterNotFound: 'There is no such EtcdCluster in this namespace. Correct spec.clusterRef.',
  ClusterPaused: 'A paused cluster serves nobody. Raise replicas, then the snapshot is taken.',
  AgentImageUnknown:
    'The runtime runs outside a cluster and does not know the image of its Jobs. Give it --agent-image.',
  Scheduled: 'Snapshots are taken at the times of the schedule. Nothing to do.',
  ScheduleSuspended: 'spec.suspend is true: no snapshot is begun. Set it to false to go on.',
  ScheduleInvalid:
    'The schedule or its time zone is not understood, or names no time that ever comes. Correct spec.schedule or spec.timeZone of the schedule, in a claim those of spec.backup.',
  BackupFresh: 'There is a good snapshot that is not too old. Nothing to do.',
  BackupPending: 'No snapshot has been taken yet. Wait; if this stays, see the condition Active.',
  BackupFailed: 'The last snapshot failed. Read the message and mend the cause; the next one is taken at its time.',
  BackupOverdue:
    'The last good snapshot is older than two intervals. See the conditions of the EtcdCluster and of its snapshots.',
  ProofRunning: 'The snapshot is being restored into an etcd that is thrown away. Wait.',
  ProofWaiting: 'The proof has not begun or its Pod does not start. Read the message.',
  ProofPassed: 'The snapshot was restored and is what was taken. Nothing to do.',
  SnapshotDiffers:
    'The restored data is not what the manifest says. Take another snapshot; if that repeats, replace the member it came from.',
  SnapshotUnrestorable:
    'etcd cannot be started on what is stored. Take another snapshot; if that repeats, replace the member it came from.',
  ProofFailed:
    'The last proof found a snapshot that cannot be trusted. Read the message for which and why. The next snapshot is proven by itself; prove the others by hand: kubectl annotate etcdsnapshot NAME etcd-operator.cozystack.io/prove=now',
  ProofBlocked:
    'Whether the snapshot can be restored could not be found out. Read the message and mend the cause; then annotate the EtcdSnapshot anew, or wait for the next one.',
  ProofOverdue:
    'Proofs are asked for and none has ended for twice as many snapshots as should be. See the condition Proven of the snapshots and their Jobs.',
  StoreAccessDenied:
    'The store refuses the credentials, or they lack a right that the message names. Correct that. A restore then goes on by itself; a snapshot is asked for by another EtcdSnapshot.',
  StoreMissing:
    'The bucket or volume does not exist. Create it. A restore then goes on by itself; a snapshot is asked for by another EtcdSnapshot.',
  StoreKeyTaken: 'Another snapshot lies under the key. Choose another prefix, and make another EtcdSnapshot.',
  StoreFull: 'The store is full. Enlarge it or delete old snapshots, then make another EtcdSnapshot.',
  StoreClockSkew:
    'The store refuses the time of the node. Set its clock. A restore then goes on by itself; a snapshot is asked for by another EtcdSnapshot.',
  StoreUnreachable:
    'The store cannot be reached or fails, and did for all tries. Check endpoint, network and certificates. A restore then goes on by itself; a snapshot is asked for by another EtcdSnapshot.',
  StoreRefused: 'The store refuses the request. Read the message, mend that, then make another EtcdSnapshot.',

  // The functions
  SpecChanged: 'The claim was changed and the runtime has not answered yet. Wait.',
  RecordLost:
    'The status of the EtcdQuorum is gone although the cluster exists. The runtime writes it again; if this stays, look at its Deployment.',
  NotReported: 'The runtime says nothing of this. Look at the runtime Deployment and its version.',
  Unrenderable: 'Nothing can be rendered from the claim, so nothing is changed. The message says what to correct.',
  FunctionDefect: 'A function failed by a defect and nothing is changed. Please report it with the message.',
} as const;

export type Reason = keyof typeof REASONS;
