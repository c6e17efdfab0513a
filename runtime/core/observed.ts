/**
 * What the planner sees of one cluster, gathered once per pass. Each remote fact is known or unknown with the cause;
 * unknown is never read as zero, false or absent. Lists are sorted by the gatherer, so equal worlds are equal values.
 */
import type { EtcdMemberSpec, EtcdMemberStatus } from '../../api/etcdmember.gen.ts';
import type { EtcdQuorumSpec, EtcdQuorumStatus } from '../../api/etcdquorum.gen.ts';
import type { EtcdMemberStatus as EtcdAnswer, EtcdHashKv, EtcdMembership } from '../ports/etcd.ts';
import type { SeenCertificate, Trust } from './certificates.ts';
import type { SeenRestore } from './restores.ts';
import type { KnownSnapshot } from './snapshots/known-snapshots.ts';
import type { StoreLocation } from './snapshots/store-access.ts';

export type Fact<T> = { readonly known: true; readonly value: T } | { readonly known: false; readonly why: string };

export const known = <T>(value: T): Fact<T> => ({ known: true, value });
export const unknown = <T = never>(why: string): Fact<T> => ({ known: false, why });
/** What could not be had, in the words of what was thrown for it. */
export const unknownBy = <T = never>(error: unknown): Fact<T> =>
  unknown(error instanceof Error ? error.message : String(error));

/** Milliseconds since the epoch. */
export type Instant = number;

export type SeenContainer = {
  /** `containerd://…`; a new start of the container has a new one. Absent before the first start. */
  readonly id: string | undefined;
  readonly state: 'waiting' | 'running' | 'terminated' | 'unknown';
  readonly ready: boolean;
  readonly restarts: number;
  /** `ImagePullBackOff`, `CrashLoopBackOff`, `CreateContainerConfigError`… while waiting. */
  readonly waitingReason: string | undefined;
  readonly waitingMessage: string | undefined;
  /** When the running container started. */
  readonly startedAt: Instant | undefined;
  /** How it last ended, whether or not it runs again. */
  readonly lastExit:
    | { readonly code: number; readonly reason: string; readonly message: string; readonly signal: number | undefined }
    | undefined;
};

/**
 * What the control plane says of a node. A dead node, a dead kubelet and a cut link all look like `notReady`; only the other
 * two are proof: somebody deleted the Node object, or tainted it `node.kubernetes.io/out-of-service`.
 */
export type SeenNode =
  /** Cordoned is how a drain begins: what runs there is asked to go next. */
  | { readonly is: 'ready'; readonly cordoned?: true }
  | { readonly is: 'notReady'; readonly since: Instant }
  | { readonly is: 'outOfService' }
  | { readonly is: 'gone' };

/** What may mount a volume: the best of the nodes that its PersistentVolume admits. */
export type SeenHome = {
  /** For people: `node n2`. */
  readonly name: string;
  readonly node: SeenNode;
};

export type SeenSeed = {
  readonly state: 'running' | 'succeeded' | 'failed';
  /** The last words of the step that reports. */
  readonly report: string | undefined;
  /** Which step does not get on, and its words. */
  readonly trouble: string | undefined;
};

export type SeenPod = {
  readonly name: string;
  readonly uid: string;
  /** Token from its label. */
  readonly incarnation: string;
  readonly deleting: boolean;
  readonly phase: 'Pending' | 'Running' | 'Succeeded' | 'Failed' | 'Unknown';
  readonly node: string | undefined;
  /** The state of that node; absent where there is none or it is not known. */
  readonly host?: SeenNode | undefined;
  readonly ip: string | undefined;
  readonly ready: boolean;
  /** The scheduler's message while it finds no node. */
  readonly unschedulable: string | undefined;
  readonly createdAt: Instant;
  readonly controllerUID: string | undefined;
  readonly voterRole: boolean;
  /** The configuration annotation; what the next container start reads. */
  readonly config: string | undefined;
  /** The authorities that its etcd trusts; they came with the Pod and stay. */
  readonly trust?: Trust | undefined;
  /** Which certificates its kubelet was last asked to bring, see {@link ANNOTATIONS.certificates}. */
  readonly certificates?: string | undefined;
  /** SHA-256 of the certificates that it shows at this moment. Only asked for while an authority is to be dropped. */
  readonly shows?: Readonly<Partial<Record<'server' | 'peer', Fact<string>>>> | undefined;
  readonly templateHash: string | undefined;
  /** Hash of the part of its template that needs another Pod; absent on Pods of an older runtime. */
  readonly restartHash: string | undefined;
  /** What of the template's metadata was last written to it; absent on Pods of an older runtime. */
  readonly metadata: string | undefined;
  /** The container start whose identity was last proven. */
  readonly verifiedContainer: string | undefined;
  readonly container: SeenContainer;
  /** Only of a Pod that fills a new member's volume; its container is not etcd. */
  readonly seed?: SeenSeed | undefined;
  /** What a member whose client port is silent tells on its metrics port; asked only while quorum is lost. */
  readonly metrics?: Fact<{ readonly revision: bigint; readonly isLearner: boolean | undefined }> | undefined;
  /** What the member at this Pod's address answered. Unknown also while nothing runs there. */
  readonly etcd: Fact<EtcdAnswer>;
  /** The hash of its data. It reads all of it, so it is only asked for where data is in doubt. */
  readonly hash?: Fact<EtcdHashKv> | undefined;
};

export type SeenVolume = {
  readonly name: string;
  readonly uid: string;
  readonly incarnation: string;
  readonly deleting: boolean;
  readonly phase: 'Pending' | 'Bound' | 'Lost';
  readonly createdAt: Instant;
  readonly clusterUID: string | undefined;
  readonly clusterID: string | undefined;
  readonly memberID: string | undefined;
  readonly revisionFloor: bigint | undefined;
  /** What it asks the provisioner for, as it was written. */
  readonly requested?: string | undefined;
  /** As of a Pod. */
  readonly metadata: string | undefined;
  /** The provisioner's words while it cannot make the volume; from the claim's events, only read while it is pending. */
  readonly trouble: string | undefined;
  /** Only asked for while its Pod finds no node, or has one that is not there; absent otherwise. */
  readonly home?: Fact<SeenHome> | undefined;
};

/** One slot: the EtcdMember object with the Pods and volumes that carry its name, of any incarnation. */
export type SeenMember = {
  readonly name: string;
  readonly ordinal: number;
  readonly uid: string;
  readonly generation: number;
  readonly createdAt?: Instant | undefined;
  readonly deleting: boolean;
  /** Whether Crossplane still counts it among the claim's resources. */
  readonly composed: boolean;
  /** UID of the EtcdCluster that controls it. */
  readonly controllerUID: string | undefined;
  readonly finalized: boolean;
  /** UID of the EtcdCluster it was first seen under: from its status, or the annotation set with the finalizer. */
  readonly firstClaim: string | undefined;
  /** A person's mark: start the member again although its data was refused. */
  readonly retry: boolean;
  /** Pod name from `spec.resourceRefs`, which is written before the Pod exists. */
  readonly claimedPod: string | undefined;
  readonly spec: EtcdMemberSpec;
  readonly status: EtcdMemberStatus;
  /** SHA-256 of the template in its spec. */
  readonly templateHash: string;
  /** SHA-256 of what of it needs another Pod. */
  readonly restartHash: string;
  readonly pods: readonly SeenPod[];
  readonly volumes: readonly SeenVolume[];
};

export type SeenQuorum = {
  readonly uid: string;
  /** What was seen is what a write stands on: with any other version under it, the picture was old. */
  readonly resourceVersion?: string | undefined;
  readonly generation: number;
  readonly deleting: boolean;
  readonly controllerUID: string | undefined;
  readonly spec: EtcdQuorumSpec;
  readonly status: EtcdQuorumStatus;
};

/** The claim as the API server has it now, never from a cache. */
export type SeenClaim =
  | { readonly exists: false }
  | { readonly exists: true; readonly uid: string; readonly deleting: boolean; readonly clusterID: string | undefined };

export type SeenBudget = {
  readonly uid: string;
  readonly deleting: boolean;
  readonly controllerUID: string | undefined;
  readonly minAvailable: number | undefined;
  readonly alwaysEvictUnhealthy: boolean;
  /** The claim's metadata that was last written to it. */
  readonly metadata: string | undefined;
};

/** How long a node may be away before its members are given up. A setting of the runtime. */
export type Patience = {
  readonly nodeMs: number;
  /** For members in memory, whose data a node that is really off does not bring back. */
  readonly memoryNodeMs: number;
  /** How long clients may take until they have what the cluster's ConfigMap says of its authorities. */
  readonly clientsMs?: number | undefined;
};

/** How the runtime is let in, and nothing of what it is let in by. */
export type SeenAuth = {
  /** Whether the Secret has a password of root; where not, why. */
  readonly password:
    | { readonly known: true }
    | {
        readonly known: false;
        readonly reason: 'SecretMissing' | 'SecretUnread' | 'SecretIncomplete' | 'SecretWrongType';
        readonly why: string;
      };
  /** Whether the runtime's own Secret holds the password that the claim's Secret has: alone, among others, or not. */
  readonly kept: Fact<'alone' | 'among' | 'missing'>;
  /** What members took: the claim's Secret's password, one that is kept from before, the certificate; or nothing. */
  readonly accepted: 'password' | 'earlier' | 'certificate' | 'none' | undefined;
  /** Whether etcd asks for passwords. */
  readonly enabled: Fact<boolean>;
};

/** A listed member of this cluster's own shape that no slot stands for, as it was looked for past every cache. */
export type SeenStranger = {
  readonly id: string;
  /** What Kubernetes still has of it: `Pod demo-7-abcde`. */
  readonly traces: Fact<readonly string[]>;
  /** Whether anything answers under its name. */
  readonly answers: boolean;
};

export type Observed = {
  readonly namespace: string;
  readonly cluster: string;
  readonly now: Instant;
  readonly namespaceTerminating: Fact<boolean>;
  readonly claim: Fact<SeenClaim>;
  readonly quorum: SeenQuorum | undefined;
  /** Sorted by ordinal. */
  readonly members: readonly SeenMember[];
  readonly budget: SeenBudget | undefined;
  /** The TLS Secrets that the cluster names, in the order in which they are judged. Absent: no TLS. */
  readonly certificates?: readonly SeenCertificate[] | undefined;
  /** Absent: nobody asks for passwords, neither claim nor etcd. */
  readonly auth?: SeenAuth | undefined;
  /** Confirmed by a quorum of etcd. Unknown without one. */
  readonly membership: Fact<EtcdMembership>;
  /** Only looked for while etcd lists one and no other change is in flight. */
  readonly strangers?: readonly SeenStranger[] | undefined;
  /** Stored snapshots, as far as complete EtcdSnapshots of this cluster's name tell; only gathered without a quorum. */
  readonly snapshots?: readonly KnownSnapshot[] | undefined;
  /** Where schedules of this cluster store, by a prefix; only gathered without a quorum. */
  readonly backups?: readonly StoreLocation[] | undefined;
  /** The highest revision at which this process has seen a proven member, and when it last did. */
  readonly lastSeen?: { readonly clusterID: string; readonly revision: bigint; readonly at: Instant } | undefined;
  readonly patience?: Patience | undefined;
  /** The EtcdRestores that name this cluster. */
  readonly restores?: readonly SeenRestore[] | undefined;
  /** Image of this runtime, whose agent fills volumes; absent where nobody told. */
  readonly agentImage?: string | undefined;
};
