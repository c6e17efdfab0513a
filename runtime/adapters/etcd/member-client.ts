/**
 * The etcd port over npm's etcd3: the only file that knows that library, its protocol files and gRPC.
 *
 * etcd3 is used for its protocol definitions and its pool, and not for its calls: those lose the gRPC code of a failure,
 * cannot be cancelled, retry membership changes behind the caller's back, shift the arguments of Snapshot so that its
 * token is lost, and name a HashKV that does not exist.
 */

import {
  Channel,
  type ChannelCredentials,
  type ClientUnaryCall,
  credentials,
  Metadata,
  type ServiceDefinition,
} from '@grpc/grpc-js';
import {
  Etcd3,
  type IAlarmResponse,
  type IDeleteRangeResponse,
  type IDowngradeResponse,
  type IHashKVResponse,
  type IMember,
  type IMemberAddResponse,
  type IPutResponse,
  type IRangeResponse,
  type IResponseHeader,
  type ISnapshotResponse,
  type IStatusResponse,
} from 'etcd3';
import {
  type EtcdAlarm,
  type EtcdAuth,
  type EtcdCall,
  type EtcdEndpoint,
  EtcdFault,
  type EtcdMember,
  type EtcdMemberClient,
  type EtcdMembership,
  type EtcdSnapshotChunk,
  type EtcdTls,
} from '../../ports/etcd.ts';
import { type GrpcFailure, meaningOf } from './faults.ts';
import { messageFields } from './message-fields.ts';

type ServiceName = 'KV' | 'Cluster' | 'Maintenance' | 'Auth';

const READ_MS = 2_000;
const CHANGE_MS = 5_000;
const SCAN_MS = 30_000;
const DEFRAGMENT_MS = 60_000;
const SNAPSHOT_SILENCE_MS = 30_000;
const AUTHENTICATE_MS = 5_000;

/** Enumerations go out as numbers: a name that etcd3's protocol files spell otherwise would silently become 0. */
const ALARM_ACTION = { get: 0, deactivate: 2 };
const ALARM = { NOSPACE: 1, CORRUPT: 2 };
const DOWNGRADE = { validate: 0, enable: 1, cancel: 2 };

/** Fields younger than etcd3's protocol files. */
const STATUS_STORAGE_VERSION = 11;
const STATUS_DB_SIZE_QUOTA = 12;
/** Its own message: whether a downgrade is enabled, and to what. */
const STATUS_DOWNGRADE_INFO = 13;
const DOWNGRADE_ENABLED = 1;
const DOWNGRADE_TARGET = 2;
const HASH_KV_HASH_REVISION = 4;
const AUTH_STATUS_REVISION = 3;

const channelOptions = {
  // A dead node answers nothing, not even a reset; without pings a call on a kept connection ends only by its deadline.
  'grpc.keepalive_time_ms': 10_000,
  'grpc.keepalive_timeout_ms': 5_000,
  // One try per call, decided by the caller. gRPC would otherwise send a call again by itself.
  'grpc.enable_retries': 0,
  // No TXT look-ups for a "service config", and no HTTP proxy between the runtime and a Pod.
  'grpc.service_config_disable_resolution': 1,
  'grpc.enable_http_proxy': 0,
  // Connections belong to one client: closing it closes them, and a failed dial of another client delays nobody.
  'grpc.use_local_subchannel_pool': 1,
  'grpc.enable_channelz': 0,
  // A snapshot's sender may be so far ahead. With HTTP/2's own 64 KiB it waits for this process after every second chunk.
  'grpc-node.flow_control_window': 2 * 1024 * 1024,
};

const onceOnly = { global: passThrough(), host: () => passThrough() };

/** A cockatiel policy that does nothing; etcd3 asks for one and exports none. */
function passThrough() {
  const nothing = () => ({ dispose: () => undefined });
  return {
    onSuccess: nothing,
    onFailure: nothing,
    execute: async <T>(call: (context: { signal: AbortSignal }) => PromiseLike<T> | T): Promise<T> =>
      call({ signal: neverAborted }),
  } as never;
}
const neverAborted = new AbortController().signal;

/** TLS settings win over the scheme of the URL: a password never goes out in the clear because of a typing error. */
const channelCredentials = (url: string, tls: EtcdTls | undefined): ChannelCredentials => {
  if (tls === undefined) return url.startsWith('https:') ? credentials.createSsl() : credentials.createInsecure();
  const pem = (bytes: Uint8Array | undefined) => (bytes === undefined ? null : Buffer.from(bytes));
  return credentials.createSsl(Buffer.from(tls.ca), pem(tls.key), pem(tls.certificate));
};

/** One HTTP/2 connection to one member. */
class Wire extends Etcd3 {
  constructor({ url, tls }: EtcdEndpoint) {
    let channel: Channel | undefined;
    super({
      hosts: url,
      faultHandling: onceOnly,
      grpcOptions: {
        ...channelOptions,
        ...(tls?.serverName === undefined
          ? {}
          : { 'grpc.ssl_target_name_override': tls.serverName, 'grpc.default_authority': tls.serverName }),
        // etcd3 makes a client per service, and each would dial a connection of its own.
        channelFactoryOverride: (address: string, _: unknown, options: object) => {
          channel ??= new Channel(address, channelCredentials(url, tls), options);
          return channel;
        },
      },
    });
  }

  /** Sends one request, once. Rejects with gRPC's own error. */
  unary<Answer>(
    service: ServiceName,
    method: string,
    request: object,
    options: { readonly token: string | undefined; readonly deadline: Date; readonly begun: (call: Ending) => void },
  ): Promise<{ answer: Answer; bytes: Uint8Array }> {
    return this.pool.withConnection(
      service,
      ({ client }) =>
        new Promise((resolve, reject) => {
          const { path, requestSerialize, responseDeserialize } = definition(client, method);
          const call: ClientUnaryCall = client.makeUnaryRequest(
            path,
            requestSerialize,
            (bytes: Buffer) => ({ answer: responseDeserialize(bytes) as Answer, bytes }),
            request,
            metadataWith(options.token),
            { deadline: options.deadline },
            (failure, answer) => {
              if (failure !== null) reject(new GrpcError(failure));
              else if (answer === undefined) reject(new GrpcError({ code: 13, details: 'no answer' }));
              else resolve(answer);
            },
          );
          options.begun(call);
        }),
    );
  }

  /** Opens an answer that comes in pieces. */
  stream<Piece>(service: ServiceName, method: string, request: object, token: string | undefined) {
    return this.pool.withConnection(service, ({ client }) => {
      const { path, requestSerialize, responseDeserialize } = definition(client, method);
      return client.makeServerStreamRequest(
        path,
        requestSerialize,
        (bytes: Buffer) => responseDeserialize(bytes) as Piece,
        request,
        metadataWith(token),
        {},
      );
    });
  }
}

type Ending = { cancel(): void };

/** A gRPC failure in a class of its own: etcd3 rewrites every plain Error that passes it and drops the code. */
class GrpcError extends Error {
  readonly code: number;
  readonly details: string;
  constructor({ code, details }: GrpcFailure) {
    super(details);
    this.code = code;
    this.details = details;
  }
}

/** gRPC's stream errors come as they are; its unary ones are wrapped where they arise. */
const grpcError = (failure: unknown): unknown =>
  failure instanceof Error && !(failure instanceof GrpcError) && 'code' in failure && 'details' in failure
    ? new GrpcError(failure as unknown as GrpcFailure)
    : failure;

const definition = (client: object, method: string): ServiceDefinition[string] => {
  const found = (client.constructor as unknown as { service: ServiceDefinition }).service[method];
  if (found === undefined) throw new TypeError(`etcd3's protocol files have no method ${method}`);
  return found;
};

const metadataWith = (token: string | undefined): Metadata => {
  const metadata = new Metadata();
  if (token !== undefined) metadata.set('token', token);
  return metadata;
};

/** etcd's identities are unsigned 64 bits, in decimal on this wire. */
const hex = (decimal: string): string => BigInt(decimal).toString(16);

const toMember = (member: IMember): EtcdMember => ({
  id: hex(member.ID),
  name: member.name,
  peerURLs: member.peerURLs,
  clientURLs: member.clientURLs,
  isLearner: member.isLearner,
});

const toMembership = (answer: { header: IResponseHeader; members: IMember[] }): EtcdMembership => ({
  clusterId: hex(answer.header.cluster_id),
  members: answer.members.map(toMember).toSorted((a, b) => (a.id.padStart(16, '0') < b.id.padStart(16, '0') ? -1 : 1)),
});

export type MemberClientOptions = {
  /** How long a connection may idle before it is closed; 0 closes it after each call. Default two minutes. */
  readonly idleMs?: number | undefined;
};

type Operation = {
  readonly name: string;
  readonly writes: boolean;
  readonly deadlineMs: number;
  readonly call: EtcdCall | undefined;
};

/** A client of one member. No connection stands before the first call, nor after `idleMs` without one. */
export const createMemberClient = (endpoint: EtcdEndpoint, options: MemberClientOptions = {}): EtcdMemberClient => {
  const { url } = endpoint;
  const { idleMs = 120_000 } = options;

  let wire: Wire | undefined;
  let borrowers = 0;
  let idle: NodeJS.Timeout | undefined;
  let closed = false;
  let token: Promise<string | undefined> | undefined;
  const closing = new AbortController();

  const hangUp = () => {
    clearTimeout(idle);
    wire?.close();
    wire = undefined;
  };
  const borrow = (): Wire => {
    clearTimeout(idle);
    borrowers += 1;
    wire ??= new Wire(endpoint);
    return wire;
  };
  const giveBack = (borrowed: Wire, broken: boolean) => {
    borrowers -= 1;
    if (broken && borrowed === wire) {
      // gRPC would wait, longer each time, before it dials again, and meanwhile answer every call with the old failure.
      hangUp();
    } else if (borrowers === 0 && wire !== undefined) {
      if (idleMs === 0) hangUp();
      else idle = setTimeout(hangUp, idleMs).unref();
    }
  };

  const fault = (operation: Operation, cause: unknown, deadline: Date): EtcdFault => {
    if (cause instanceof EtcdFault) return cause;
    const { name, writes } = operation;
    const make = (reason: EtcdFault['reason'], detail: string, mayHaveHappened: boolean) =>
      new EtcdFault({ reason, operation: name, url, detail, mayHaveHappened: writes && mayHaveHappened, cause });

    if (closed) return make('Closed', 'the client was closed', true);
    if (operation.call?.signal?.aborted === true) return make('Cancelled', 'the caller gave up', true);
    if (cause instanceof GrpcError) {
      // The server counts the deadline down too, and when it is first its word for it is "cancelled".
      if (cause.code === 1 && Date.now() >= deadline.getTime() - 100)
        return make('Timeout', 'the deadline passed', true);
      const { reason, mayHaveHappened } = meaningOf(cause, writes);
      return make(reason, cause.details, mayHaveHappened);
    }
    const text = cause instanceof Error ? cause.message : String(cause);
    return make('Unknown', text, true);
  };

  /** Fails `promise` at the deadline or when the signal says so. */
  const within = async <T>(promise: Promise<T>, deadline: Date, signal: AbortSignal): Promise<T> => {
    const giveUp = Promise.withResolvers<never>();
    const timer = setTimeout(
      () => giveUp.reject(new GrpcError({ code: 4, details: 'no token before the deadline' })),
      deadline.getTime() - Date.now(),
    );
    const onAbort = () => giveUp.reject(new GrpcError({ code: 1, details: 'cancelled' }));
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      return await Promise.race([promise, giveUp.promise]);
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', onAbort);
    }
  };

  /** The token for the endpoint's user. Several calls share one question, so it has a deadline of its own. */
  const logIn = async (wire: Wire, { username, password }: EtcdAuth): Promise<string> => {
    const { answer } = await wire.unary<{ token: string }>(
      'Auth',
      'Authenticate',
      { name: username, password },
      { token: undefined, deadline: new Date(Date.now() + AUTHENTICATE_MS), begun: () => undefined },
    );
    return answer.token;
  };
  /** The first voter that answers decides, also where it refuses the password: the others would say the same. */
  const logInElsewhere = async (auth: EtcdAuth, refused: GrpcError): Promise<string> => {
    let failure: unknown = refused;
    for (const place of auth.loginAt?.() ?? []) {
      const voter = new Wire(place);
      try {
        return await logIn(voter, auth);
      } catch (cause) {
        failure = cause;
        const silent = cause instanceof GrpcError && ['Unreachable', 'Timeout'].includes(meaningOf(cause, true).reason);
        if (!silent) break;
      } finally {
        voter.close();
      }
    }
    throw failure;
  };
  const authenticate = async (borrowed: Wire): Promise<string | undefined> => {
    const { auth } = endpoint;
    if (auth === undefined) return undefined;
    try {
      try {
        return await logIn(borrowed, auth);
      } catch (failure) {
        const learner = failure instanceof GrpcError && meaningOf(failure, true).reason === 'NotServedByLearner';
        if (!learner) throw failure;
        // Tokens go through raft's log, so that a learner knows those that a voter gave out.
        return await logInElsewhere(auth, failure);
      }
    } catch (failure) {
      token = undefined;
      // Credentials are configured before authentication is switched on, and stay after it was switched off.
      if (failure instanceof GrpcError && failure.details.includes('authentication is not enabled')) return undefined;
      throw failure;
    }
  };
  /** Only if it is still the one that was refused: another call may have asked for a new one already. */
  const forgetToken = (refused: Promise<string | undefined>): void => {
    if (token === refused) token = undefined;
  };
  const currentToken = (borrowed: Wire): Promise<string | undefined> => {
    if (endpoint.auth === undefined) return Promise.resolve(endpoint.token);
    token ??= authenticate(borrowed);
    return token;
  };

  /** The deadline, and a signal that also fires when the client is closed. */
  const begin = (operation: Operation): { readonly deadline: Date; readonly signal: AbortSignal } => {
    const { call } = operation;
    const refuse = (reason: 'Closed' | 'Cancelled', detail: string) =>
      new EtcdFault({ reason, operation: operation.name, url, detail, mayHaveHappened: false });
    if (closed) throw refuse('Closed', 'the client was closed before');
    if (call?.signal?.aborted === true) throw refuse('Cancelled', 'the caller gave up before');
    return {
      deadline: new Date(Date.now() + (call?.deadlineMs ?? operation.deadlineMs)),
      signal: call?.signal === undefined ? closing.signal : AbortSignal.any([call.signal, closing.signal]),
    };
  };

  /** Whether a new token may mend this. The server looks at the token before anything else, so nothing has happened. */
  const staleToken = (failure: unknown): boolean =>
    endpoint.auth !== undefined &&
    failure instanceof GrpcError &&
    // Required: it was turned on since the client found that there was nothing to log in to.
    ['InvalidAuth', 'AuthRequired'].includes(meaningOf(failure, true).reason) &&
    !failure.details.includes('authentication failed');

  const breaks = ({ reason }: EtcdFault): boolean =>
    reason === 'Unreachable' || reason === 'TlsRefused' || reason === 'Timeout';

  /** Sends the request once, or once more with a new token where the old one was refused, and reads the answer. */
  const ask = async <Answer, T>(
    operation: Operation,
    [service, method]: readonly [ServiceName, string],
    request: object,
    read: (answer: Answer, bytes: Uint8Array) => T,
  ): Promise<T> => {
    const { deadline, signal } = begin(operation);
    const borrowed = borrow();
    let sent: Ending | undefined;
    const onAbort = () => sent?.cancel();
    signal.addEventListener('abort', onAbort, { once: true });

    const once = async (withToken: Promise<string | undefined>) =>
      borrowed.unary<Answer>(service, method, request, {
        token: await within(withToken, deadline, signal),
        deadline,
        begun: (begun) => {
          sent = begun;
          if (signal.aborted) begun.cancel();
        },
      });

    let broken = false;
    try {
      const used = currentToken(borrowed);
      const { answer, bytes } = await once(used).catch((failure: unknown) => {
        if (!staleToken(failure)) throw failure;
        forgetToken(used);
        return once(currentToken(borrowed));
      });
      try {
        return read(answer, bytes);
      } catch (cause) {
        throw new GrpcError({ code: 13, details: `unreadable answer: ${String(cause)}` });
      }
    } catch (failure) {
      const made = fault(operation, failure, deadline);
      broken = breaks(made);
      throw made;
    } finally {
      signal.removeEventListener('abort', onAbort);
      giveBack(borrowed, broken);
    }
  };

  const read = (name: string, call: EtcdCall | undefined, deadlineMs = READ_MS): Operation => ({
    name,
    writes: false,
    deadlineMs,
    call,
  });
  const change = (name: string, call: EtcdCall | undefined, deadlineMs = CHANGE_MS): Operation => ({
    name,
    writes: true,
    deadlineMs,
    call,
  });

  const toDecimal = (operation: Operation, id: string): string => {
    if (/^[0-9a-f]{1,16}$/.test(id)) return BigInt(`0x${id}`).toString();
    throw new EtcdFault({
      reason: 'InvalidRequest',
      operation: operation.name,
      url,
      detail: `"${id}" is no member ID; give lower-case hexadecimal as etcdctl prints it`,
      mayHaveHappened: false,
    });
  };

  async function* snapshot(call?: EtcdCall): AsyncGenerator<EtcdSnapshotChunk, void, undefined> {
    const silenceMs = call?.deadlineMs ?? SNAPSHOT_SILENCE_MS;
    const operation = read('snapshot', call, silenceMs);
    const { deadline, signal } = begin(operation);
    const borrowed = borrow();

    let ending: Ending | undefined;
    let silent = false;
    const onAbort = () => ending?.cancel();
    const onSilence = () => {
      silent = true;
      ending?.cancel();
    };
    signal.addEventListener('abort', onAbort, { once: true });
    let timer: NodeJS.Timeout | undefined;
    let left: bigint | undefined;
    let used: Promise<string | undefined> | undefined;

    async function* pieces(): AsyncGenerator<EtcdSnapshotChunk, void, undefined> {
      used = currentToken(borrowed);
      const withToken = await within(used, deadline, signal);
      const stream = await borrowed.stream<ISnapshotResponse>('Maintenance', 'Snapshot', {}, withToken);
      ending = stream;
      if (signal.aborted) stream.cancel();
      timer = setTimeout(onSilence, silenceMs);
      for await (const piece of stream as AsyncIterable<ISnapshotResponse>) {
        // The clock stands still while the reader works: a slow upload is no silence of etcd's.
        clearTimeout(timer);
        left = BigInt(piece.remaining_bytes);
        yield { blob: piece.blob, remainingBytes: left };
        timer = setTimeout(onSilence, silenceMs);
      }
      clearTimeout(timer);
      if (left !== 0n) {
        const what = left === undefined ? 'the stream was empty' : `the stream ended ${left} bytes early`;
        throw new GrpcError({ code: 13, details: what });
      }
    }

    let broken = false;
    try {
      try {
        yield* pieces();
      } catch (failure) {
        if (left !== undefined || used === undefined || !staleToken(grpcError(failure))) throw failure;
        forgetToken(used);
        yield* pieces();
      }
    } catch (failure) {
      const seen = silent ? new GrpcError({ code: 4, details: `silent for ${silenceMs} ms` }) : grpcError(failure);
      const made = fault(operation, seen, deadline);
      broken = breaks(made);
      throw made;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', onAbort);
      ending?.cancel();
      giveBack(borrowed, broken);
    }
  }

  return {
    url,

    status: (call) =>
      ask(read('status', call), ['Maintenance', 'Status'], {}, (answer: IStatusResponse, bytes) => {
        const newer = messageFields(bytes);
        const downgrade = newer.message(STATUS_DOWNGRADE_INFO);
        return {
          clusterId: hex(answer.header.cluster_id),
          memberId: hex(answer.header.member_id),
          leaderId: answer.leader === '0' ? undefined : hex(answer.leader),
          version: answer.version,
          storageVersion: newer.text(STATUS_STORAGE_VERSION),
          downgradeTarget: downgrade?.number(DOWNGRADE_ENABLED) === 1n ? downgrade.text(DOWNGRADE_TARGET) : undefined,
          dbSize: BigInt(answer.dbSize),
          dbSizeInUse: BigInt(answer.dbSizeInUse),
          dbSizeQuota: newer.number(STATUS_DB_SIZE_QUOTA),
          raftIndex: BigInt(answer.raftIndex),
          raftAppliedIndex: BigInt(answer.raftAppliedIndex),
          raftTerm: BigInt(answer.raftTerm),
          isLearner: answer.isLearner,
          revision: BigInt(answer.header.revision),
          errors: answer.errors,
        };
      }),

    memberList: ({ linearizable }, call) =>
      ask(read('memberList', call), ['Cluster', 'MemberList'], { linearizable }, toMembership),

    memberAddLearner: (peerURLs, call) =>
      ask(
        change('memberAddLearner', call),
        ['Cluster', 'MemberAdd'],
        { peerURLs, isLearner: true },
        (answer: IMemberAddResponse) => ({ memberId: hex(answer.member.ID), membership: toMembership(answer) }),
      ),

    memberPromote: async (id, call) => {
      const operation = change('memberPromote', call);
      return ask(operation, ['Cluster', 'MemberPromote'], { ID: toDecimal(operation, id) }, toMembership);
    },

    memberRemove: async (id, call) => {
      const operation = change('memberRemove', call);
      return ask(operation, ['Cluster', 'MemberRemove'], { ID: toDecimal(operation, id) }, toMembership);
    },

    moveLeader: async (target, call) => {
      const operation = change('moveLeader', call);
      const request = { targetID: toDecimal(operation, target) };
      return ask(operation, ['Maintenance', 'MoveLeader'], request, () => undefined);
    },

    memberUpdate: async (id, peerURLs, call) => {
      const operation = change('memberUpdate', call);
      return ask(operation, ['Cluster', 'MemberUpdate'], { ID: toDecimal(operation, id), peerURLs }, toMembership);
    },

    authStatus: async (call) => {
      try {
        return await ask(read('authStatus', call), ['Auth', 'AuthStatus'], {}, (answer: { enabled?: boolean }) =>
          answer.enabled === true ? 'onForRoot' : 'off',
        );
      } catch (failure) {
        // Only root may ask, and only where everybody is asked who they are.
        if (failure instanceof EtcdFault && ['AuthRequired', 'PermissionDenied'].includes(failure.reason)) {
          return 'onForOthers';
        }
        throw failure;
      }
    },
    authRevision: (call) =>
      ask(
        read('authRevision', call),
        ['Auth', 'AuthStatus'],
        {},
        (_, bytes) => messageFields(bytes).number(AUTH_STATUS_REVISION) ?? 0n,
      ),
    authEnable: (call) => ask(change('authEnable', call), ['Auth', 'AuthEnable'], {}, () => undefined),
    authDisable: (call) => ask(change('authDisable', call), ['Auth', 'AuthDisable'], {}, () => undefined),
    userAdd: (name, password, call) =>
      ask(change('userAdd', call), ['Auth', 'UserAdd'], { name, password }, () => undefined),
    userChangePassword: (name, password, call) =>
      ask(change('userChangePassword', call), ['Auth', 'UserChangePassword'], { name, password }, () => undefined),
    userGrantRole: (user, role, call) =>
      ask(change('userGrantRole', call), ['Auth', 'UserGrantRole'], { user, role }, () => undefined),
    roleAdd: (name, call) => ask(change('roleAdd', call), ['Auth', 'RoleAdd'], { name }, () => undefined),

    alarms: (call) =>
      ask(
        read('alarms', call),
        ['Maintenance', 'Alarm'],
        { action: ALARM_ACTION.get },
        (answer: IAlarmResponse): readonly EtcdAlarm[] =>
          answer.alarms.flatMap(({ memberID, alarm }) => {
            const kind = alarm.toUpperCase();
            return kind === 'NOSPACE' || kind === 'CORRUPT' ? [{ memberId: hex(memberID), alarm: kind }] : [];
          }),
      ),

    disarm: async ({ memberId, alarm }, call) => {
      const operation = change('disarm', call);
      const request = {
        action: ALARM_ACTION.deactivate,
        memberID: toDecimal(operation, memberId),
        alarm: ALARM[alarm],
      };
      return ask(operation, ['Maintenance', 'Alarm'], request, () => undefined);
    },

    hashKv: (revision, call) =>
      ask(
        read('hashKv', call, SCAN_MS),
        ['Maintenance', 'HashKV'],
        { revision: revision.toString() },
        (answer: IHashKVResponse, bytes) => ({
          hash: Number(answer.hash),
          compactRevision: BigInt(answer.compact_revision),
          hashRevision:
            messageFields(bytes).number(HASH_KV_HASH_REVISION) ??
            (revision === 0n ? BigInt(answer.header.revision) : revision),
        }),
      ),

    countKeys: (revision, call) =>
      ask(
        read('countKeys', call, SCAN_MS),
        ['KV', 'Range'],
        // From the lowest key to the end: a zero byte stands for both.
        {
          key: Buffer.alloc(1),
          range_end: Buffer.alloc(1),
          revision: revision.toString(),
          count_only: true,
          serializable: true,
        },
        ({ count }: IRangeResponse) => BigInt(count),
      ),

    defragment: (call) =>
      ask(change('defragment', call, DEFRAGMENT_MS), ['Maintenance', 'Defragment'], {}, () => undefined),

    compact: (revision, call) => {
      const request = { revision: revision.toString(), physical: true };
      return ask(change('compact', call, SCAN_MS), ['KV', 'Compact'], request, () => undefined);
    },

    downgrade: (action, target, call) =>
      ask(
        { ...change('downgrade', call), writes: action !== 'validate' },
        ['Maintenance', 'Downgrade'],
        { action: DOWNGRADE[action], version: target },
        (answer: IDowngradeResponse) => answer.version,
      ),

    snapshot,

    get: (key, call) =>
      ask(
        read('get', call),
        ['KV', 'Range'],
        { key: Buffer.from(key), serializable: call?.serializable === true },
        ({ kvs: [found] }: IRangeResponse) =>
          found === undefined ? undefined : { value: found.value, modRevision: BigInt(found.mod_revision) },
      ),

    put: (key, value, call) =>
      ask(
        change('put', call),
        ['KV', 'Put'],
        { key: Buffer.from(key), value: Buffer.from(value) },
        (answer: IPutResponse) => BigInt(answer.header.revision),
      ),

    delete: (key, call) =>
      ask(change('delete', call), ['KV', 'DeleteRange'], { key: Buffer.from(key) }, (answer: IDeleteRangeResponse) =>
        Number(answer.deleted),
      ),

    close: () => {
      if (closed) return;
      closed = true;
      closing.abort();
      hangUp();
    },
  };
};
