/**
 * The steps a pass can take. A step is data; carrying it out is idempotent, and each says what makes it safe to repeat
 * after a crash in its middle.
 */
import type { Reason } from '../../api/reasons.ts';
import type { EtcdAlarm } from '../ports/etcd.ts';
import type { CertificateRole, Trust } from './certificates.ts';
import type { MemoryFill, SeedSource } from './seeding.ts';
import type { StoredSource } from './snapshots/known-snapshots.ts';
import type { StoreLocation } from './snapshots/store-access.ts';

export type ObjectName = { readonly name: string; readonly uid: string };

export type MetadataPatch = {
  readonly labels: Readonly<Record<string, string | null>>;
  readonly annotations: Readonly<Record<string, string | null>>;
};

/** One incarnation to be brought up in a slot. */
export type Placement = {
  readonly member: ObjectName;
  readonly incarnation: string;
  /** Text of etcd's configuration file. */
  readonly config: string;
  /** Authorities that the configuration names as files. */
  readonly trust?: Trust | undefined;
  /** `new` only inside the one recorded attempt. */
  readonly initialState: 'new' | 'existing';
  /** False once the volume exists: a lost volume is never quietly made again under a known identity. */
  readonly makeVolume: boolean;
  /** Only of a member in memory that is made from a snapshot. */
  readonly fill?: MemoryFill;
};

/** What the agent found when etcd had opened the restored data. */
export type VerifiedData = {
  readonly revision: bigint;
  readonly keys: bigint;
  readonly sha256: string;
  readonly sizeBytes: number;
  readonly etcdVersion: string | undefined;
  readonly clusterID: string | undefined;
  readonly hash: string | undefined;
};

export type OperationKind =
  | 'AddMember'
  | 'RemoveMember'
  | 'ReplaceMember'
  /** Of a member without a slot; the target is the name of its incarnation. */
  | 'RemoveOrphan'
  | 'RecoverQuorum'
  | 'Restore'
  /** From the moment at which clients are shut out; what comes before is no change of the cluster. */
  | 'RestoreInPlace';

/** Written before the first membership call, with a resource-version check. The token of a new member is drawn here. */
export type BeginOperation = {
  readonly do: 'BeginOperation';
  readonly kind: OperationKind;
  readonly target: string;
  readonly why: string;
  readonly memberID?: string;
  /** The trouble that this repairs; counted in the same write. */
  readonly cause?: Reason;
};

export type Step =
  /** Nothing can be done before something changes; `recheckMs` where no watch would tell. */
  | { readonly do: 'Wait'; readonly reason: Reason; readonly message: string; readonly recheckMs?: number }
  /** Nothing is done before a person has decided. */
  | { readonly do: 'AskHuman'; readonly reason: Reason; readonly message: string }
  | { readonly do: 'Settled' }

  /** One status write with a resource-version check, before any Pod or volume exists; the tokens are drawn here. */
  | { readonly do: 'RecordAttempt'; readonly attempt: number; readonly members: readonly string[] }
  /** One status write. The record stays until its Pods and volumes are gone. */
  | { readonly do: 'AbandonAttempt'; readonly reason: Reason; readonly why: string }
  /** Deletes by UID; Pods first, volumes in a later pass once no Pod is left. */
  | { readonly do: 'ClearAttempt'; readonly pods: readonly ObjectName[]; readonly volumes: readonly ObjectName[] }
  /** Finalizer and references in one apply by UID, then the volume, then the Pod; names are fixed, so repeats collide. */
  | { readonly do: 'BringUp'; readonly why: string; readonly places: readonly Placement[] }
  /** One status write; never undone but by {@link ForgetRecord}. */
  | { readonly do: 'Latch'; readonly clusterID: string }
  /** Clears a record that another claim of the same name left and nothing else supports any more. */
  | { readonly do: 'ForgetRecord'; readonly why: string }
  /** Makes the claim that was applied again the controller of Pods and budget, and records its UID. */
  | { readonly do: 'Adopt'; readonly clusterUID: string }
  /** Writes the configuration that the next container start reads. */
  | {
      readonly do: 'Configure';
      readonly why: string;
      readonly pods: readonly (ObjectName & { readonly config: string })[];
    }
  /** Records the identity on the volume, then labels the Pod for clients, naming the container start that was proven. */
  | {
      readonly do: 'Admit';
      readonly pods: readonly (ObjectName & {
        readonly container: string;
        readonly clusterID: string;
        readonly memberID: string;
        readonly revision: bigint;
        readonly volume: string | undefined;
      })[];
    }
  /** Takes Pods away from clients: their identity is not proven in this container start. */
  | { readonly do: 'Dismiss'; readonly why: string; readonly pods: readonly ObjectName[] }
  /** Stops a Pod that runs on the wrong data and marks the slot; the volume stays. */
  | {
      readonly do: 'StopImpostor';
      readonly member: ObjectName;
      readonly pod: ObjectName;
      readonly reason: Reason;
      readonly why: string;
    }
  /** Deletes Pods whose data lives on: they come back on the same volume. */
  | {
      readonly do: 'DeletePods';
      readonly why: string;
      readonly reason: Reason;
      readonly pods: readonly ObjectName[];
      /** The repair that this is; counted in a write before the first deletion, so that no crash makes it free of charge. */
      readonly repair?: { readonly member: string; readonly cause: Reason };
    }
  | {
      readonly do: 'SetBudget';
      /** Absent: the budget goes. */
      readonly minAvailable: number | undefined;
      readonly alwaysEvictUnhealthy: boolean;
    }
  | BeginOperation
  /** Follows a linearizable list without this peer URL; a repeat is refused by etcd with PeerURLExists. */
  | { readonly do: 'AddLearner'; readonly target: string; readonly peerURL: string }
  | { readonly do: 'Promote'; readonly target: string; readonly memberID: string }
  /** The member stays who it is; a repeat changes nothing. */
  | { readonly do: 'UpdatePeer'; readonly target: string; readonly memberID: string; readonly peerURL: string }
  | { readonly do: 'MoveLeader'; readonly from: string; readonly to: string; readonly why?: string }
  /**
   * etcd's own protocol: enabled, it writes its data back for `target`, a minor. A repeat is refused with DowngradeRefused and the
   * next look tells what is so.
   */
  | { readonly do: 'Downgrade'; readonly action: 'enable' | 'cancel'; readonly target: string }
  /** Follows a linearizable list with this ID; a repeat is refused by etcd with MemberNotFound. */
  | { readonly do: 'RemoveMember'; readonly target: string; readonly memberID: string }
  /** Deletes what an operation that was given up left; a volume in use stays until its Pod ends. */
  | {
      readonly do: 'Retire';
      readonly target: string;
      readonly pods: readonly ObjectName[];
      readonly volumes: readonly ObjectName[];
      /** The volumes are let go of, not deleted: somebody may want to save something from them. */
      readonly keep?: true;
    }
  /**
   * Deletes what is left of an incarnation that is out of the member list, then clears the operation; `outcome` says what
   * becomes of the target's record. Where another operation follows at once, it is recorded in the same write.
   */
  | {
      readonly do: 'EndOperation';
      readonly kind: OperationKind;
      readonly target: string;
      readonly outcome: 'joined' | 'removed' | 'emptied' | 'abandoned';
      readonly pods: readonly ObjectName[];
      readonly volumes: readonly ObjectName[];
      readonly next?: BeginOperation;
    }

  /** Labels and annotations of the claim, on what runs; null takes one away. Writing the same again changes nothing. */
  | {
      readonly do: 'WriteMetadata';
      readonly pods: readonly (ObjectName & MetadataPatch)[];
      readonly volumes: readonly (ObjectName & MetadataPatch)[];
    }
  /** Gives the free pages of one database back to its volume. The member answers nobody meanwhile. */
  | {
      readonly do: 'Defragment';
      readonly target: string;
      readonly pod: ObjectName;
      /** What there is to copy. */
      readonly inUse: bigint;
      readonly why: string;
      readonly repair: { readonly member: string; readonly cause: Reason };
    }
  /** By member ID: an alarm outlives the member that it blames. What is not armed is disarmed without a word. */
  | {
      readonly do: 'Disarm';
      readonly alarms: readonly EtcdAlarm[];
      readonly reason: Reason;
      readonly why: string;
      readonly repair?: { readonly member: string; readonly cause: Reason };
    }
  /** Written before anything is done, with a resource-version check; the token of the new incarnation is drawn here. */
  | {
      readonly do: 'BeginRecovery';
      readonly target: string;
      /** Name of the survivor's volume, or where the snapshot lies. */
      readonly source: string;
      /** The cluster that is given up. */
      readonly clusterID: string;
      /** Of the survivor's data or the snapshot, as far as it is known yet. */
      readonly revision: bigint;
      /** Absent where it goes on from a survivor. */
      readonly stored?: StoredSource;
      /** The incarnation in whose slot the new one is made. */
      readonly replaces: string | undefined;
      readonly lastRevision: bigint | undefined;
    }
  /** Ends Pods of the lost cluster, gracefully; their volumes stay. */
  | { readonly do: 'Fence'; readonly why: string; readonly pods: readonly ObjectName[] }
  /** One status write. On the way to `seeding` or `starting` every Pod is looked for once more, past every cache. */
  | {
      readonly do: 'AdvanceRecovery';
      /** From a survivor: fencing, seeding, starting. From a snapshot: filling, fencing, starting. */
      readonly to: 'fencing' | 'seeding' | 'starting';
      readonly revision?: bigint;
      readonly snapshot?: string;
      readonly takenAt?: string;
    }
  /** References, then the new volume, then the Pod that fills it; names are fixed, so repeats collide. */
  | {
      readonly do: 'Seed';
      readonly member: ObjectName;
      readonly incarnation: string;
      readonly source: SeedSource;
      /** etcd's initial-cluster-token of the new cluster. */
      readonly clusterToken: string;
      /** Added to the revision. */
      readonly bump: bigint;
    }
  /** One status write: the new cluster ID, what was recovered from what, and no operation any more. */
  | {
      readonly do: 'CompleteRecovery';
      readonly clusterID: string;
      readonly revision: bigint;
      /** What did not come back, for people. */
      readonly lost: string;
    }
  /** Takes away what the recovery made, then its record. The lost cluster's volumes are as they were. */
  | {
      readonly do: 'AbandonRecovery';
      readonly why: string;
      readonly pods: readonly ObjectName[];
      readonly volumes: readonly ObjectName[];
    }
  /** Written before anything is made, with a resource-version check; the token of the first incarnation is drawn here. */
  | { readonly do: 'BeginRestore'; readonly target: string; readonly uri: string }
  /** References, then the volume, then the Pod that fills it from a stored snapshot; names are fixed, so repeats collide. */
  | {
      readonly do: 'SeedFromSnapshot';
      readonly member: ObjectName;
      readonly incarnation: string;
      readonly location: StoreLocation;
      /** etcd's initial-cluster-token of the cluster that begins here. */
      readonly clusterToken: string;
    }
  /** One status write: what was fetched, verified and restored. */
  | { readonly do: 'AdvanceRestore'; readonly revision: bigint; readonly snapshot: string }
  /** One status write: the cluster ID, which is the latch, and what was restored. */
  | { readonly do: 'CompleteRestore'; readonly clusterID: string; readonly revision: bigint }
  /** Takes away what the restore made, Pods first, and clears its record once nothing is left. */
  | {
      readonly do: 'AbandonRestore';
      readonly why: string;
      readonly pods: readonly ObjectName[];
      readonly volumes: readonly ObjectName[];
      readonly done: boolean;
    }

  /** Written before anything is made, with a resource-version check; the token of the new incarnation is drawn here. */
  | {
      readonly do: 'BeginRestoreInPlace';
      readonly restore: ObjectName;
      readonly target: string;
      readonly uri: string;
      readonly clusterID: string;
      readonly bump: bigint;
    }
  /** References, then a volume beside the member's own, then the Pod that fills and opens it; names are fixed, so repeats collide. */
  | {
      readonly do: 'PrepareRestore';
      readonly member: ObjectName;
      readonly present: string | undefined;
      readonly incarnation: string;
      readonly location: StoreLocation;
      readonly sha256: string | undefined;
      readonly clusterToken: string;
      readonly bump: bigint;
    }
  /** One status write with another token: what was made under the former one belongs to nobody from then on, and goes. */
  | { readonly do: 'PrepareElsewhere'; readonly target: string; readonly why: string; readonly bump: bigint }
  /** One status write: what was found in the restored data. The cluster has not been touched. */
  | { readonly do: 'RecordVerified'; readonly verified: VerifiedData }
  /** One status write, after one more look past every cache for the EtcdRestore: from here on clients are shut out. */
  | { readonly do: 'BeginCutOver'; readonly target: string; readonly incarnation: string }
  /** Ends Pods of the cluster that is replaced, gracefully; their volumes stay. */
  | { readonly do: 'StopReplaced'; readonly why: string; readonly pods: readonly ObjectName[] }
  /** One status write: how far the data had come that is replaced, when nobody could write any more. */
  | { readonly do: 'NoteReached'; readonly revision: bigint }
  /** One status write, after every Pod was looked for once more, past every cache. */
  | { readonly do: 'StartRestored' }
  /** One status write: the new cluster ID, what was replaced by what, and no operation any more. */
  | { readonly do: 'CompleteRestoreInPlace'; readonly clusterID: string; readonly revision: bigint }
  /** Takes away what the restore made, Pods first, and ends its record once nothing is left. Nothing else is touched. */
  | {
      readonly do: 'GiveUpRestore';
      readonly reason: Reason;
      readonly why: string;
      readonly pods: readonly ObjectName[];
      readonly volumes: readonly ObjectName[];
      readonly done: boolean;
      /** Because the EtcdRestore is gone, which is made sure of past every cache. */
      readonly unwanted: boolean;
    }

  /** Deletes volumes of a lost cluster, or releases them where the claim says Retain, once all members agree on their data. */
  | { readonly do: 'RetireLost'; readonly volumes: readonly (ObjectName & { readonly retain: boolean })[] }

  /**
   * Writes root's password into the runtime's own Secret: `next` beside the one in force, before etcd is told; `inForce` in
   * place of all others, after etcd took it.
   */
  | { readonly do: 'KeepPassword'; readonly as: 'next' | 'inForce' }
  /** User, role, then the switch; each is refused by etcd with its own word when it was done before. */
  | { readonly do: 'EnableAuth'; readonly again: boolean }
  | { readonly do: 'DisableAuth' }
  /** From the password in force, or by certificate, to that of the Secret. */
  | { readonly do: 'ChangePassword' }
  /** One status write: what etcd was found to be, after a crash or somebody's own hand. */
  | { readonly do: 'LatchAuth'; readonly enabled: boolean }

  /**
   * One write of what is in use of a certificate, on the versions of both Secrets that were decided on. The key is carried from
   * Secret to Secret and is no part of the step.
   */
  | {
      readonly do: 'UseCertificate';
      readonly role: CertificateRole;
      /** First use; trust more; show the one that is offered; trust less. */
      readonly what: 'begin' | 'widen' | 'pass on' | 'narrow';
      readonly from: string;
      /** SHA-256 of the certificate that is in use afterwards. */
      readonly fingerprint: string;
      /** PEM of everybody who has to be trusted from then on. */
      readonly authorities: string;
      readonly versions: { readonly from: string | undefined; readonly inUse: string | undefined };
      /** It is, or leads to, a certificate of another authority: whom the event names. */
      readonly authority?: string | undefined;
    }
  /** Has kubelets look for new certificates now and not within a minute; writing the same again changes nothing. */
  | { readonly do: 'FetchCertificates'; readonly pods: readonly ObjectName[]; readonly certificates: string }

  /** Asks for larger volumes. The API server refuses what would shrink one, or what its StorageClass cannot. */
  | { readonly do: 'GrowVolumes'; readonly volumes: readonly (ObjectName & { readonly size: string })[] }
  /** Takes the finalizer off members that are going and leaves their Pods and volumes as they are. */
  | { readonly do: 'LetGo'; readonly why: string; readonly members: readonly ObjectName[] }
  /** The cluster goes: Pods, then volumes (or their release, where the claim says Retain), then finalizers. */
  | {
      readonly do: 'Teardown';
      readonly why: string;
      readonly pods: readonly ObjectName[];
      readonly volumes: readonly (ObjectName & { readonly retain: boolean })[];
      /**
       * Members with nothing left but `behind`, UIDs of what was asked to end on a node that is away; their finalizer is
       * released after one more look past every cache.
       */
      readonly release: readonly (ObjectName & { readonly behind: readonly string[] })[];
      readonly budget: ObjectName | undefined;
    };
