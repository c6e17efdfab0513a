/**
 * What the runtime asks of etcd, one member at a time. A client speaks to exactly one endpoint: the answers of different
 * members are different facts, and a client that picks "some" member would mix them.
 *
 * Identities are lower-case hexadecimal without leading zeros, as `etcdctl` prints them (`8e9e05c52164694d`).
 * Revisions, indexes, terms and byte sizes are `bigint`. Every method rejects with an {@link EtcdFault} and nothing else.
 */

/** Lower-case hexadecimal member identity, never "0". */
export type MemberId = string;
/** Lower-case hexadecimal cluster identity, never "0". */
export type ClusterId = string;

export type EtcdCall = {
  /** Ends the call early with reason `Cancelled`. */
  readonly signal?: AbortSignal | undefined;
  /** Milliseconds for the whole call, dialling and authentication included. Each method documents its default. */
  readonly deadlineMs?: number | undefined;
};

export type EtcdTls = {
  /** PEM of the authorities that may have signed the server's certificate. */
  readonly ca: Uint8Array;
  /** PEM of the client's certificate chain and its key; both or neither. */
  readonly certificate?: Uint8Array | undefined;
  readonly key?: Uint8Array | undefined;
  /** The DNS name that the server's certificate must carry; needed when the endpoint is dialled by Pod address. */
  readonly serverName?: string | undefined;
};

export type EtcdLoginPlace = { readonly url: string; readonly tls?: EtcdTls | undefined };

export type EtcdAuth = {
  readonly username: string;
  readonly password: string;
  /**
   * Where this member is a learner, which takes tokens and gives none: the voters to log in at, tried in turn. Asked for at
   * each login, because a client outlives the voters that served when it was made.
   */
  readonly loginAt?: (() => readonly EtcdLoginPlace[]) | undefined;
};

export type EtcdEndpoint = {
  /** Client URL of one member: `http://10.1.2.3:2379`, `https://[fd00::7]:2379`. */
  readonly url: string;
  readonly tls?: EtcdTls | undefined;
  readonly auth?: EtcdAuth | undefined;
  /** A token that etcd takes without a login, where the caller holds the key that signs them. */
  readonly token?: string | undefined;
};

export type EtcdMember = {
  readonly id: MemberId;
  /** Empty until the member has started for the first time. */
  readonly name: string;
  readonly peerURLs: readonly string[];
  /** Empty until the member has started for the first time. */
  readonly clientURLs: readonly string[];
  readonly isLearner: boolean;
};

export type EtcdMembership = {
  readonly clusterId: ClusterId;
  /** Sorted by identity, so that equal memberships are equal values. */
  readonly members: readonly EtcdMember[];
};

export type EtcdMemberStatus = {
  readonly clusterId: ClusterId;
  /** The identity of the member that answered. */
  readonly memberId: MemberId;
  /** Absent while the member knows of no leader. */
  readonly leaderId: MemberId | undefined;
  /** The server's own version, `3.6.16`. */
  readonly version: string;
  /** `3.6.0`; absent below 3.6 and until the first storage migration. */
  readonly storageVersion: string | undefined;
  /** `3.5.0` while a downgrade to it is enabled in the cluster; absent below 3.6, which does not tell. */
  readonly downgradeTarget?: string | undefined;
  readonly dbSize: bigint;
  readonly dbSizeInUse: bigint;
  /** Absent below 3.6. */
  readonly dbSizeQuota: bigint | undefined;
  readonly raftIndex: bigint;
  readonly raftAppliedIndex: bigint;
  readonly raftTerm: bigint;
  readonly isLearner: boolean;
  /** The revision of the member's key space as it is now; a serializable fact, it may lag behind the leader. */
  readonly revision: bigint;
  /** etcd's own words about alarms and a missing leader. */
  readonly errors: readonly string[];
};

export type EtcdAlarmKind = 'NOSPACE' | 'CORRUPT';
export type EtcdAlarm = { readonly memberId: MemberId; readonly alarm: EtcdAlarmKind };

export type EtcdHashKv = {
  /** Unsigned 32 bits; compare only between members at equal `hashRevision` and equal `compactRevision`. */
  readonly hash: number;
  readonly compactRevision: bigint;
  /** Up to which revision the hash was taken; below 3.6 the revision that was asked for (or the present one for 0). */
  readonly hashRevision: bigint;
};

export type EtcdSnapshotChunk = {
  readonly blob: Uint8Array;
  /** Bytes still to come after this chunk. */
  readonly remainingBytes: bigint;
};

export type EtcdValue = { readonly value: Uint8Array; readonly modRevision: bigint };

export type EtcdDowngradeAction = 'validate' | 'enable' | 'cancel';

/**
 * Whether clients have to log in, and whether the one that asks has done so as root. With mutual TLS etcd answers Status,
 * MemberList and Alarms to every certificate, so an answer to those does not tell.
 */
export type EtcdAuthStatus = 'off' | 'onForRoot' | 'onForOthers';

export type EtcdMemberClient = {
  readonly url: string;

  /**
   * Answered by the member itself, without quorum, but not before it has seen a leader once since its start: until then
   * every call here is a `Timeout`, and only the metrics port tells anything. Default deadline 2 s.
   */
  status(call?: EtcdCall): Promise<EtcdMemberStatus>;
  /**
   * `linearizable: true` is confirmed by a quorum and refuses (`Timeout`, `ServerTimeout`, `NoLeader`) where there is none:
   * the only list a membership change may follow. `false` is the member's own opinion, possibly old. Default deadline 2 s.
   */
  memberList(options: { readonly linearizable: boolean }, call?: EtcdCall): Promise<EtcdMembership>;

  /**
   * Returns the identity of the new learner and the list after the change. Asked for a URL that is listed already it
   * refuses with `PeerURLExists`, or within the same second with `MemberExists`. Default deadline 5 s; sent at most once.
   */
  memberAddLearner(
    peerURLs: readonly string[],
    call?: EtcdCall,
  ): Promise<{ readonly memberId: MemberId; readonly membership: EtcdMembership }>;
  /** Refuses with `LearnerNotReady` until the learner has caught up. Default deadline 5 s; sent at most once. */
  memberPromote(id: MemberId, call?: EtcdCall): Promise<EtcdMembership>;
  /** Default deadline 5 s; sent at most once. */
  memberRemove(id: MemberId, call?: EtcdCall): Promise<EtcdMembership>;
  /** Only the leader takes this call, every other member answers `NotLeader`. Default deadline 5 s; sent at most once. */
  moveLeader(target: MemberId, call?: EtcdCall): Promise<void>;

  /** Makes these the member's peer URLs; it keeps its identity. Default deadline 5 s; sent at most once. */
  memberUpdate(id: MemberId, peerURLs: readonly string[], call?: EtcdCall): Promise<EtcdMembership>;

  /** Goes through the log of raft, so it is not asked often. Default deadline 2 s. */
  authStatus(call?: EtcdCall): Promise<EtcdAuthStatus>;
  /** Of users, roles and passwords: higher after each change. Needs root where anybody has to log in. Default deadline 2 s. */
  authRevision(call?: EtcdCall): Promise<bigint>;
  /** Refuses with `RootMissing` where there is no user root with the role root. Default deadline 5 s, as for all of these. */
  authEnable(call?: EtcdCall): Promise<void>;
  authDisable(call?: EtcdCall): Promise<void>;
  /** Refuses with `UserExists`. */
  userAdd(name: string, password: string, call?: EtcdCall): Promise<void>;
  /** Ends no connection, but every token of the user is refused from now on. */
  userChangePassword(name: string, password: string, call?: EtcdCall): Promise<void>;
  userGrantRole(name: string, role: string, call?: EtcdCall): Promise<void>;
  /** Refuses with `RoleExists`. */
  roleAdd(role: string, call?: EtcdCall): Promise<void>;

  /** Default deadline 2 s. Needs quorum. */
  alarms(call?: EtcdCall): Promise<readonly EtcdAlarm[]>;
  /** Disarming what is not armed is no fault. Default deadline 5 s. */
  disarm(alarm: EtcdAlarm, call?: EtcdCall): Promise<void>;

  /** Revision 0 means "up to now". Default deadline 30 s: it reads the whole key space. */
  hashKv(revision: bigint, call?: EtcdCall): Promise<EtcdHashKv>;
  /** How many keys there were at the revision, as this member has them. `Compacted` or `FutureRevision` where it cannot tell. Default deadline 30 s. */
  countKeys(revision: bigint, call?: EtcdCall): Promise<bigint>;
  /** The member answers nothing else meanwhile. Default deadline 60 s. */
  defragment(call?: EtcdCall): Promise<void>;
  /** Waits until the compaction is on disk. Default deadline 30 s. */
  compact(revision: bigint, call?: EtcdCall): Promise<void>;
  /** `target` is a minor (`3.5`), ignored by `cancel`. Returns the cluster's version. Default deadline 5 s. */
  downgrade(action: EtcdDowngradeAction, target: string, call?: EtcdCall): Promise<string>;

  /**
   * The database as the member has it, followed by 32 bytes of SHA-256 over it. Pulled by the reader: nothing is buffered
   * beyond a chunk or two. Leaving the loop early ends the call. `deadlineMs` (default 30 s) is the longest silence between
   * two chunks, not the length of the whole stream. A stream that ends before its last byte rejects.
   */
  snapshot(call?: EtcdCall): AsyncIterable<EtcdSnapshotChunk>;

  /** Linearizable unless told otherwise. Default deadline 2 s. */
  get(key: string, call?: EtcdCall & { readonly serializable?: boolean | undefined }): Promise<EtcdValue | undefined>;
  /** Returns the revision of the write. Default deadline 5 s; sent at most once. */
  put(key: string, value: string | Uint8Array, call?: EtcdCall): Promise<bigint>;
  /** Returns how many keys went (0 or 1). Default deadline 5 s; sent at most once. */
  delete(key: string, call?: EtcdCall): Promise<number>;

  /** Ends calls in flight with `Closed`. A closed client refuses every further call. May be called twice. */
  close(): void;
};

/** Hands out clients. Holding many is cheap: a client opens its connection with the first call and closes it when idle. */
export type EtcdClients = {
  /** The shared client for this endpoint and these credentials. Other credentials give another client; never close it. */
  at(endpoint: EtcdEndpoint): EtcdMemberClient;
  /** A client of the caller's own, which the caller closes. */
  dial(endpoint: EtcdEndpoint): EtcdMemberClient;
  /** Closes and drops the shared clients of a member that is gone, whatever their credentials. */
  forget(url: string): void;
  /** Closes all that `at` handed out. */
  close(): void;
};

/** What one health endpoint said: `ok` or etcd's own words about what is wrong. */
export type EtcdProbe = { readonly ok: true } | { readonly ok: false; readonly why: string };

/** What a member tells on its metrics port even when its client port does not serve. Absent = the member did not say. */
export type EtcdMetrics = {
  readonly hasLeader: boolean | undefined;
  readonly isLeader: boolean | undefined;
  readonly isLearner: boolean | undefined;
  /** `etcd_server_version`, `3.6.16`. */
  readonly version: string | undefined;
  /** `etcd_cluster_version`'s label, `3.6`. */
  readonly clusterVersion: string | undefined;
  /** Of the member's key space; right also in a survivor without quorum. */
  readonly currentRevision: bigint | undefined;
  readonly quotaBackendBytes: bigint | undefined;
};

/** The plain HTTP listener on 2381. All calls: default deadline 2 s, reject with an {@link EtcdFault}. */
export type EtcdHealthProbe = {
  /** `url` is the base, `http://10.1.2.3:2381`. */
  livez(url: string, call?: EtcdCall): Promise<EtcdProbe>;
  readyz(url: string, call?: EtcdCall): Promise<EtcdProbe>;
  metrics(url: string, call?: EtcdCall): Promise<EtcdMetrics>;
};

export type EtcdRetry = 'soon' | 'backoff' | 'never';

/** Every reason an {@link EtcdFault} can have, with when to try the same call again. */
export const etcdFaultRetry = {
  /** Nothing accepts connections there, or the connection broke. */
  Unreachable: 'soon',
  /** The deadline passed without an answer: a hung process, a dead node, a partition. */
  Timeout: 'backoff',
  /** The caller's signal ended the call. */
  Cancelled: 'never',
  /** The client was closed by us. */
  Closed: 'never',
  /** No trust: expired, foreign or missing certificate, or a name that does not match. */
  TlsRefused: 'backoff',
  /** The member answers but its cluster did not commit in time (no quorum, lost leader, slow disk). */
  ServerTimeout: 'backoff',
  NoLeader: 'soon',
  /** The leader changed while the request was in flight. */
  LeaderChanged: 'soon',
  /** This call must go to the leader. */
  NotLeader: 'soon',
  /** The target of a leader move is no voter or not connected. */
  BadLeaderTarget: 'backoff',
  /** etcd wants every voter connected, for about five seconds already, before it changes the membership. */
  UnhealthyCluster: 'soon',
  /** A change that would leave too few started members. */
  NotEnoughStarted: 'backoff',
  LearnerNotReady: 'soon',
  /** The member to promote is a voter already. */
  NotALearner: 'never',
  /** A learner does not serve this call. */
  NotServedByLearner: 'never',
  TooManyLearners: 'never',
  MemberNotFound: 'never',
  MemberExists: 'never',
  PeerURLExists: 'never',
  PermissionDenied: 'backoff',
  /** The cluster wants a user and none was given. */
  AuthRequired: 'never',
  /** Wrong user, password or token. */
  InvalidAuth: 'backoff',
  /** Authentication cannot be turned on without the user root and its role. */
  RootMissing: 'never',
  UserExists: 'never',
  RoleExists: 'never',
  NoSpace: 'backoff',
  Corrupt: 'never',
  /** etcd has too many requests pending. */
  RateLimited: 'backoff',
  Compacted: 'never',
  FutureRevision: 'backoff',
  /** No downgrade to cancel, one running already, or a target that is not one minor below. */
  DowngradeRefused: 'never',
  /** The request itself is wrong. */
  InvalidRequest: 'never',
  /** This version of etcd has no such call. */
  Unsupported: 'never',
  /** The server is stopping, or not serving yet. */
  Unavailable: 'soon',
  /** The stream or the answer broke the protocol, ended early or could not be read. */
  BrokenAnswer: 'backoff',
  Unknown: 'backoff',
} as const satisfies Record<string, EtcdRetry>;

export type EtcdFaultReason = keyof typeof etcdFaultRetry;

/**
 * The one fault of this port. `message` is one line: reason, what was asked, of which endpoint, and etcd's words.
 * It never holds credentials.
 */
export class EtcdFault extends Error {
  override readonly name = 'EtcdFault';
  readonly reason: EtcdFaultReason;
  readonly retry: EtcdRetry;
  /** What was asked: `memberAddLearner`. */
  readonly operation: string;
  readonly url: string;
  /**
   * False only if the request certainly changed nothing, as with a refusal or a connection that never stood.
   * After true the caller must look before it asks again.
   */
  readonly mayHaveHappened: boolean;

  constructor(fault: {
    readonly reason: EtcdFaultReason;
    readonly operation: string;
    readonly url: string;
    readonly detail: string;
    readonly mayHaveHappened: boolean;
    readonly cause?: unknown;
  }) {
    const detail = fault.detail.replaceAll(/\s+/g, ' ').trim();
    super(`${fault.reason}: ${fault.operation} at ${fault.url}: ${detail}`, { cause: fault.cause });
    this.reason = fault.reason;
    this.retry = etcdFaultRetry[fault.reason];
    this.operation = fault.operation;
    this.url = fault.url;
    this.mayHaveHappened = fault.mayHaveHappened;
  }
}
