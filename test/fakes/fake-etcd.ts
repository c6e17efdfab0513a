/**
 * An etcd world in memory: disks, processes, clusters, and the network between them. It keeps the promises of the etcd
 * port that `test/contract/etcd.test.ts` writes down, and nothing in it depends on time or chance: what real etcd
 * does within milliseconds (electing, replicating, publishing a name) is done before the control function returns.
 *
 * Members are started as a kubelet would start them, by a configuration file and a disk, so what a wiped, locked,
 * foreign or late member does here follows from the same inputs as there. Not modelled: a voter that was wiped and
 * started with the full list has forgotten its promises; here it only catches up.
 */

import { createHash, X509Certificate } from 'node:crypto';
import { parse } from 'yaml';
import {
  type EtcdAlarm,
  type EtcdAlarmKind,
  type EtcdAuth,
  type EtcdCall,
  type EtcdClients,
  type EtcdEndpoint,
  EtcdFault,
  type EtcdFaultReason,
  type EtcdHealthProbe,
  type EtcdMember,
  type EtcdMemberClient,
  type EtcdMemberStatus,
  type EtcdMembership,
  type EtcdSnapshotChunk,
  type MemberId,
} from '../../runtime/ports/etcd.ts';

export type FakeEtcdOptions = {
  /** Whether connections stay young after a start until `matureConnections`; false: they are old at once. */
  readonly youngConnections?: boolean | undefined;
  /** How a call to a hung member waits for its deadline; default: the deadline passes at once. Fits `Clock.after`. */
  readonly after?: ((ms: number, then: () => void) => () => void) | undefined;
};

export type FakeStart = {
  /** etcd's configuration file. */
  readonly configFile: string;
  /** The volume's name; its content outlives the process. */
  readonly disk: string;
  readonly version: string;
  /** Where clients and probes reach the process; default: where the file says that it listens. */
  readonly clientURL?: string | undefined;
  readonly metricsURL?: string | undefined;
};

export type FakeRestore = {
  /** Without a directory: the one that is there, as in a store, where a snapshot bears nobody's name. */
  readonly from: { readonly disk: string; readonly directory?: string };
  readonly to: { readonly disk: string; readonly directory: string };
  readonly name: string;
  readonly peerURL: string;
  readonly token: string;
  /** Added to the revision; all before it is marked compacted. */
  readonly bump: bigint;
};

export type FakeExit = { readonly exitCode: number; readonly terminationMessage: string };

export type FakeProcess = {
  readonly name: string;
  readonly clientURL: string;
  readonly metricsURL: string;
  readonly running: boolean;
  /** Resolves when the process is gone, by itself or killed. */
  readonly ended: Promise<FakeExit>;
};

export type ScriptedFailure = {
  /** A method of the client: `memberAddLearner`. */
  readonly operation: keyof EtcdMemberClient;
  readonly reason: EtcdFaultReason;
  /** Whether the request takes effect although its answer is lost. */
  readonly happens?: boolean | undefined;
  /** Only at this member. */
  readonly url?: string | undefined;
};

export type FakeCallRecord = {
  readonly url: string;
  readonly operation: string;
  readonly arguments: readonly unknown[];
};

export type FakeEtcd = {
  readonly clients: EtcdClients;
  readonly probe: EtcdHealthProbe;
  /** Every call that reached the network, oldest first. */
  readonly calls: readonly FakeCallRecord[];
  start(start: FakeStart): FakeProcess;
  /** The process that serves at this client URL. */
  process(clientURL: string): FakeProcess | undefined;
  /** SIGTERM: hands leadership over, then ends. SIGKILL: ends. */
  stop(clientURL: string): void;
  kill(clientURL: string): void;
  hang(clientURL: string): void;
  resume(clientURL: string): void;
  wipe(disk: string): void;
  /** Replaces `to` by a copy of `from`: an exchanged or restored volume. */
  copyDisk(from: string, to: string): void;
  /** etcdutl's restore of a snapshot of `from`: a cluster of one on `to`. Returns the source's revision, if there is data. */
  restore(restored: FakeRestore): bigint | undefined;
  /** Keys in the data of this directory. */
  keysOn(from: FakeRestore['from']): bigint;
  /** Only members of one group hear each other; members in no group are a group together. By client URL. */
  partition(...groups: readonly (readonly string[])[]): void;
  heal(): void;
  matureConnections(): void;
  /** While held, learners do not catch up. */
  holdLearners(held: boolean): void;
  /** The next matching call fails so; several are used up in order. */
  failNext(failure: ScriptedFailure): void;
  arm(memberId: MemberId, alarm: EtcdAlarmKind): void;
  /** Makes the data of the disk differ from the others' at the same revision. */
  corrupt(disk: string): void;
  /**
   * Leaves so many free pages in the database file, as a compaction does. `counted: false` is one that nobody waited for while
   * etcd refuses writes: the member calls them in use until a snapshot makes it commit, or it is defragmented.
   */
  fragment(disk: string, bytes: bigint, options?: { readonly counted: boolean }): void;
  enableAuth(clientURL: string, users: Readonly<Record<string, string>>): void;
  disableAuth(clientURL: string): void;
  /** Root's password, where the cluster asks for it. */
  rootPassword(clientURL: string): string | undefined;
  /** A cluster of this many voters, ready to serve, with made-up addresses `http://m0:2379`… */
  bootstrap(size: number, version?: string): readonly FakeProcess[];
};

type Entry = { readonly revision: bigint; readonly key: string; readonly value: Uint8Array | undefined };

/** What is replicated. Never changed in place: a member that falls behind keeps the old one. */
type State = {
  readonly index: bigint;
  readonly members: ReadonlyMap<MemberId, EtcdMember>;
  readonly removed: ReadonlySet<MemberId>;
  readonly revision: bigint;
  readonly compacted: bigint;
  readonly history: readonly Entry[];
  readonly alarms: readonly EtcdAlarm[];
  /** Who may log in while clients have to. */
  readonly users: Readonly<Record<string, string>> | undefined;
  /** Users and roles are there, and kept, whether clients have to log in or not. */
  readonly authRevision: bigint;
  readonly accounts: Readonly<Record<string, string>>;
  readonly roles: readonly string[];
  readonly rootRole: boolean;
  readonly downgradeTo: string | undefined;
};

type Cluster = {
  readonly id: string;
  readonly token: string;
  /** Members that have been started once: they may not be formed again. */
  readonly born: Set<MemberId>;
  committed: State;
  /** The cluster's version, as which all data is written. */
  minor: number;
  term: bigint;
  leader: Process | undefined;
};

type Data = {
  readonly cluster: Cluster;
  readonly memberId: MemberId;
  applied: State;
  version: string;
  corrupt: boolean;
  /** Bytes of the file that nothing is in any more, until a defragmentation. */
  freePages: bigint;
  /** So many of them are called in use. */
  uncounted?: bigint;
};

type Process = {
  readonly name: string;
  readonly clientURL: string;
  readonly metricsURL: string;
  readonly peerURL: string;
  readonly advertised: readonly string[];
  readonly version: string;
  /** Whether clients have to show a certificate. Whose, is not modelled. */
  readonly mutual: boolean;
  readonly data: Data | undefined;
  running: boolean;
  hung: boolean;
  /** The client port answers from the first leader on that the process sees. */
  serves: boolean;
  readonly ended: Promise<FakeExit>;
  readonly end: (exit: FakeExit) => void;
};

const EMPTY: State = {
  index: 0n,
  members: new Map(),
  removed: new Set(),
  revision: 1n,
  compacted: 0n,
  history: [],
  alarms: [],
  users: undefined,
  authRevision: 1n,
  accounts: {},
  roles: [],
  rootRole: false,
  downgradeTo: undefined,
};

const PAGE = 4096;
const CHUNK = 32 * 1024;

/** 64 bits of a digest, as etcd makes its identities. */
const identity = (...parts: readonly string[]): string =>
  createHash('sha1').update(parts.join('\n')).digest().readBigUInt64BE().toString(16);

const quorum = (voters: number): number => Math.floor(voters / 2) + 1;
const votersOf = (state: State): readonly EtcdMember[] => [...state.members.values()].filter((m) => !m.isLearner);
const minor = (version: string): number => Number(version.split('.')[1]);
const byId = (a: EtcdMember, b: EtcdMember): number => (a.id.padStart(16, '0') < b.id.padStart(16, '0') ? -1 : 1);

const fatal = (error: string): FakeExit => ({
  exitCode: 1,
  terminationMessage: `{"level":"fatal","caller":"etcdmain/etcd.go","msg":"discovery failed","error":${JSON.stringify(error)}}\n`,
});

export const createFakeEtcd = (options: FakeEtcdOptions = {}): FakeEtcd => {
  const disks = new Map<string, Map<string, Data>>();
  const processes = new Map<string, Process>();
  const clusters = new Set<Cluster>();
  const groups = new Map<string, number>();
  const failures: ScriptedFailure[] = [];
  const calls: FakeCallRecord[] = [];
  let young = false;
  let learnersHeld = false;
  let added = 0;

  const all = (): readonly Process[] => [...processes.values()];
  const alive = (process: Process): boolean => process.running && !process.hung;
  const hears = (a: Process, b: Process): boolean =>
    a === b || (alive(a) && alive(b) && groups.get(a.clientURL) === groups.get(b.clientURL));
  const processesOf = (cluster: Cluster): readonly (Process & { data: Data })[] =>
    all().filter((process): process is Process & { data: Data } => process.data?.cluster === cluster);

  /** The processes that can act together with this one, itself included. */
  const companions = (process: Process & { data: Data }): readonly (Process & { data: Data })[] =>
    processesOf(process.data.cluster).filter((other) => hears(process, other));
  const hasQuorum = (process: Process & { data: Data }): boolean => {
    const { committed } = process.data.cluster;
    const voting = companions(process).filter(
      (other) => alive(other) && committed.members.get(other.data.memberId)?.isLearner === false,
    );
    return voting.length >= quorum(votersOf(committed).length);
  };
  /** Whom this process takes for the leader. */
  const leaderSeenBy = (process: Process & { data: Data }): Process | undefined => {
    const { leader } = process.data.cluster;
    return leader !== undefined && hears(process, leader) ? leader : undefined;
  };

  const setPassword = (cluster: Cluster, name: string, password: string): void => {
    const accounts = { ...cluster.committed.accounts, [name]: password };
    commit(cluster, { accounts, ...(cluster.committed.users === undefined ? {} : { users: accounts }) });
  };

  const commit = (cluster: Cluster, change: Partial<State>): void => {
    const { index, authRevision } = cluster.committed;
    const rights = ['users', 'accounts', 'roles', 'rootRole'].some((field) => field in change);
    cluster.committed = {
      ...cluster.committed,
      ...change,
      authRevision: authRevision + (rights ? 1n : 0n),
      index: index + 1n,
    };
  };

  /** Decided only while every member says what it runs; a downgrade ends by itself when all run what it leads to. */
  const decideVersion = (cluster: Cluster): void => {
    const { downgradeTo, members } = cluster.committed;
    const running = processesOf(cluster)
      .filter(alive)
      .map(({ version }) => minor(version));
    const complete = running.length === members.size;
    if (downgradeTo !== undefined) {
      cluster.minor = Math.min(cluster.minor, minor(downgradeTo));
      if (complete && running.every((one) => one <= minor(downgradeTo))) commit(cluster, { downgradeTo: undefined });
    } else if (complete) cluster.minor = Math.min(...running);
  };

  /** Lets the cluster do all it can do by itself now: elect, replicate, publish, throw out. */
  const settle = (cluster: Cluster): void => {
    const running = processesOf(cluster).filter(alive);
    const electors = running.filter(
      (process) => hasQuorum(process) && cluster.committed.members.get(process.data.memberId)?.isLearner === false,
    );
    if (cluster.leader === undefined || !electors.includes(cluster.leader as Process & { data: Data })) {
      // Only a log as long as the quorum's may win; the identity breaks ties so that a run can be repeated.
      const [best] = electors.toSorted((a, b) => {
        const ahead = b.data.applied.index - a.data.applied.index;
        return ahead !== 0n ? (ahead > 0n ? 1 : -1) : a.data.memberId < b.data.memberId ? -1 : 1;
      });
      cluster.leader = best;
      if (best !== undefined) cluster.term += 1n;
    }
    const { leader } = cluster;
    if (leader === undefined) return;
    decideVersion(cluster);

    const followers = running.filter((process) => hears(process, leader));
    for (const process of followers) {
      const member = cluster.committed.members.get(process.data.memberId);
      if (member === undefined || (member.isLearner && learnersHeld)) continue;
      process.serves = true;
      if (member.name !== process.name || member.clientURLs.join() !== process.advertised.join()) {
        const published = { ...member, name: process.name, clientURLs: process.advertised };
        commit(cluster, { members: new Map(cluster.committed.members).set(member.id, published) });
      }
    }
    for (const process of followers) {
      const { memberId } = process.data;
      const member = cluster.committed.members.get(memberId);
      if (member === undefined) {
        if (cluster.committed.removed.has(memberId)) end(process, { exitCode: 0, terminationMessage: '' });
      } else if (!(member.isLearner && learnersHeld)) {
        process.data.applied = cluster.committed;
      }
    }
  };
  const settleAll = (): void => {
    for (const cluster of clusters) settle(cluster);
  };

  const end = (process: Process, exit: FakeExit): void => {
    if (!process.running) return;
    process.running = false;
    process.hung = false;
    process.end(exit);
    settleAll();
  };

  const start = (given: FakeStart): FakeProcess => {
    const file = parse(given.configFile) as Readonly<Record<string, string>>;
    const setting = (key: string): string => {
      const value = file[key];
      if (value === undefined) throw new TypeError(`the configuration file has no ${key}`);
      return value;
    };
    const security = (file as Readonly<Record<string, unknown>>)['client-transport-security'] as
      | { readonly 'client-cert-auth'?: boolean }
      | undefined;
    const name = setting('name');
    const peerURL = setting('initial-advertise-peer-urls');
    const clientURL = given.clientURL ?? setting('listen-client-urls');
    const list = setting('initial-cluster')
      .split(',')
      .map((pair) => {
        const at = pair.indexOf('=');
        return { name: pair.slice(0, at), peerURL: pair.slice(at + 1) };
      });
    const disk = disks.get(given.disk) ?? new Map<string, Data>();
    disks.set(given.disk, disk);

    const ending = Promise.withResolvers<FakeExit>();
    const make = (data: Data | undefined): Process => ({
      name,
      clientURL,
      metricsURL: given.metricsURL ?? setting('listen-metrics-urls'),
      peerURL,
      advertised: setting('advertise-client-urls').split(','),
      version: given.version,
      mutual: security?.['client-cert-auth'] === true,
      data,
      running: data !== undefined,
      hung: false,
      serves: false,
      ended: ending.promise,
      end: ending.resolve,
    });
    const refuse = (exit: FakeExit): FakeProcess => {
      const process = make(undefined);
      processes.set(clientURL, process);
      process.end(exit);
      return process;
    };
    const run = (data: Data): FakeProcess => {
      disk.set(setting('data-dir'), data);
      data.version = given.version;
      data.cluster.born.add(data.memberId);
      const process = make(data);
      processes.set(clientURL, process);
      young = options.youngConnections === true;
      settle(data.cluster);
      return process;
    };

    if (processes.get(clientURL)?.running === true)
      return refuse(fatal(`listen tcp ${clientURL}: bind: address already in use`));

    const own = disk.get(setting('data-dir'));
    if (own !== undefined) return restart(own, given.version, run, refuse);
    if (!list.some((peer) => peer.name === name)) {
      return refuse(fatal(`couldn't find local name "${name}" in the initial cluster configuration`));
    }
    const reach = (url: string) =>
      all().find((other) => alive(other) && other.peerURL === url && sameGroup(other.clientURL, clientURL));

    return setting('initial-cluster-state') === 'new'
      ? form(list, setting('initial-cluster-token'), peerURL, reach, run, refuse)
      : join(list, peerURL, reach, run, refuse);
  };

  const sameGroup = (a: string, b: string): boolean => groups.get(a) === groups.get(b);

  type Run = (data: Data) => FakeProcess;
  type Refuse = (exit: FakeExit) => FakeProcess;
  type Reach = (peerURL: string) => Process | undefined;
  type Peers = readonly { readonly name: string; readonly peerURL: string }[];

  const restart = (data: Data, version: string, run: Run, refuse: Refuse): FakeProcess => {
    const { cluster, memberId } = data;
    if (minor(version) < cluster.minor) {
      return refuse(fatal('invalid downgrade; server version is lower than determined cluster version'));
    }
    if (cluster.committed.removed.has(memberId) && processesOf(cluster).some(alive)) {
      return refuse(minor(version) < 6 ? { exitCode: 0, terminationMessage: '' } : fatal('server is stopping'));
    }
    if (data.corrupt && cluster.leader !== undefined) {
      return refuse(fatal(`${memberId} found data inconsistency with peers`));
    }
    return run(data);
  };

  const form = (list: Peers, token: string, peerURL: string, reach: Reach, run: Run, refuse: Refuse): FakeProcess => {
    const members = list.map(
      (peer): EtcdMember => ({
        id: identity(peer.peerURL, token),
        name: '',
        peerURLs: [peer.peerURL],
        clientURLs: [],
        isLearner: false,
      }),
    );
    const id = identity(...members.map((member) => member.id).toSorted());
    const memberId = identity(peerURL, token);
    const fellow = list.map((peer) => reach(peer.peerURL)).find((process) => process?.data?.cluster.id === id);
    if (fellow?.data?.cluster.born.has(memberId) === true) {
      return refuse(fatal(`member ${memberId} has already been bootstrapped`));
    }
    const known = [...clusters].findLast((cluster) => cluster.id === id && !cluster.born.has(memberId));
    const cluster: Cluster = known ?? {
      id,
      token,
      born: new Set(),
      minor: 0,
      committed: { ...EMPTY, index: 1n, members: new Map(members.map((member) => [member.id, member])) },
      term: 1n,
      leader: undefined,
    };
    clusters.add(cluster);
    if (!cluster.committed.members.has(memberId)) return refuse({ exitCode: 0, terminationMessage: '' });
    // Everybody writes the first list into their own log, so it is there before anything is replicated.
    const applied: State = { ...EMPTY, index: 1n, members: new Map(members.map((member) => [member.id, member])) };
    return run({ cluster, memberId, applied, version: '', corrupt: false, freePages: 0n });
  };

  const join = (list: Peers, peerURL: string, reach: Reach, run: Run, refuse: Refuse): FakeProcess => {
    const others = list.filter((peer) => peer.peerURL !== peerURL);
    const fellow = others.map((peer) => reach(peer.peerURL)).find((process) => process?.data !== undefined);
    if (fellow?.data === undefined) {
      return refuse(
        fatal('cannot fetch cluster info from peer urls: could not retrieve cluster information from the given URLs'),
      );
    }
    const { cluster } = fellow.data;
    const members = [...fellow.data.applied.members.values()];
    const problem = (why: string) =>
      refuse(fatal(`error validating peerURLs {ClusterID:${cluster.id} Members:[] RemovedMemberIDs:[]}: ${why}`));
    if (members.length !== list.length) return problem('member count is unequal');
    const stranger = members.find((member) => !list.some((peer) => member.peerURLs.includes(peer.peerURL)));
    if (stranger !== undefined) {
      return problem(`PeerURLs: no match found for existing member (${stranger.id}, [${stranger.peerURLs.join(' ')}])`);
    }
    const self = members.find((member) => member.peerURLs.includes(peerURL));
    if (self === undefined) return problem('unmatched member while checking PeerURLs');
    return run({ cluster, memberId: self.id, applied: EMPTY, version: '', corrupt: false, freePages: 0n });
  };

  // --- what a client sees -------------------------------------------------------------------------------------------

  type Asked = {
    readonly operation: keyof EtcdMemberClient;
    readonly endpoint: EtcdEndpoint;
    readonly writes: boolean;
    readonly deadlineMs: number;
    readonly call: EtcdCall | undefined;
    readonly closed: AbortSignal;
  };

  const faultAt =
    (url: string, operation: string) => (reason: EtcdFaultReason, detail: string, mayHaveHappened: boolean) =>
      new EtcdFault({ reason, operation, url, detail, mayHaveHappened });

  /** Waits as a call to a hung member does. */
  const silence = (
    deadlineMs: number,
    signals: readonly (AbortSignal | undefined)[],
  ): Promise<'deadline' | 'aborted'> =>
    new Promise((resolve) => {
      const given = signals.filter((signal) => signal !== undefined);
      const finish = (how: 'deadline' | 'aborted') => {
        cancel();
        for (const signal of given) signal.removeEventListener('abort', onAbort);
        resolve(how);
      };
      const onAbort = () => finish('aborted');
      for (const signal of given) signal.addEventListener('abort', onAbort, { once: true });
      const after =
        options.after ??
        ((_: number, then: () => void) => {
          const immediate = setImmediate(then);
          return () => clearImmediate(immediate);
        });
      const cancel = after(deadlineMs, () => finish('deadline'));
      if (given.some((signal) => signal.aborted)) finish('aborted');
    });

  const perform = async <T>(
    asked: Asked,
    given: readonly unknown[],
    work: (process: Process & { data: Data }, refuse: (reason: EtcdFaultReason, detail?: string) => EtcdFault) => T,
  ): Promise<T> => {
    const { operation, endpoint, writes, call, closed } = asked;
    const { url } = endpoint;
    const make = faultAt(url, operation);
    if (closed.aborted) throw make('Closed', 'the client was closed before', false);
    if (call?.signal?.aborted === true) throw make('Cancelled', 'the caller gave up before', false);
    await Promise.resolve();
    calls.push({ url, operation, arguments: given });

    const scripted = failures.findIndex(
      (failure) => failure.operation === operation && (failure.url === undefined || failure.url === url),
    );
    const failure = failures[scripted];
    if (failure !== undefined) {
      failures.splice(scripted, 1);
      if (failure.happens !== true) throw make(failure.reason, 'as the test asked', false);
    }

    const process = processes.get(url);
    if (process?.running !== true || process.data === undefined)
      throw make('Unreachable', `connect ECONNREFUSED ${url}`, false);
    if (process.clientURL.startsWith('https:')) {
      if (endpoint.tls === undefined) throw make('TlsRefused', 'unable to get local issuer certificate', false);
      if (process.mutual && endpoint.tls.certificate === undefined) {
        throw make('TlsRefused', 'alert certificate required', false);
      }
    }
    // A member that has seen no leader yet has its client port open and answers nothing there.
    if (process.hung || !process.serves) {
      const how = await silence(call?.deadlineMs ?? asked.deadlineMs, [call?.signal, closed]);
      if (how === 'deadline') throw make('Timeout', 'Deadline exceeded', writes);
      throw closed.aborted
        ? make('Closed', 'the client was closed', writes)
        : make('Cancelled', 'the caller gave up', writes);
    }
    const answer = work(process as Process & { data: Data }, (reason, detail = reason) =>
      make(reason, detail, writes && (reason === 'Timeout' || reason === 'ServerTimeout')),
    );
    settleAll();
    if (failure !== undefined) throw make(failure.reason, 'as the test asked, after it took effect', writes);
    return answer;
  };

  type Refusal = (reason: EtcdFaultReason, detail?: string) => EtcdFault;
  /** Without `admin`, whoever is anybody is answered; with mutual TLS every certificate is. */
  type Needs = { readonly learner?: boolean; readonly admin?: boolean; readonly quorum?: boolean };

  /** Common name of the client's certificate; empty for one without. */
  const bearer = (certificate: Uint8Array | undefined): string =>
    certificate === undefined || certificate.length === 0
      ? ''
      : (/^CN=(.*)$/m.exec(new X509Certificate(certificate).subject)?.[1] ?? '');

  /** A learner gives out no tokens. */
  const logInElsewhere = ({ loginAt }: EtcdAuth, refuse: Refusal): void => {
    if (loginAt === undefined) throw refuse('NotServedByLearner', 'etcdserver: rpc not supported for learner');
    const voters = all().filter(({ data }) => data?.applied.members.get(data.memberId)?.isLearner === false);
    const served = loginAt().some(({ url }) => voters.some((voter) => voter.clientURL === url && alive(voter)));
    if (!served) throw refuse('Unreachable', 'no voter gives out a token');
  };

  const admit = (
    process: Process & { data: Data },
    { auth, tls }: EtcdEndpoint,
    needs: Needs,
    refuse: Refusal,
  ): void => {
    const { users } = process.data.applied;
    if (users !== undefined) {
      const user = auth?.username ?? (process.mutual ? bearer(tls?.certificate) : undefined);
      if (user === undefined) throw refuse('AuthRequired', 'etcdserver: user name is empty');
      if (auth !== undefined) {
        if (process.data.applied.members.get(process.data.memberId)?.isLearner === true) logInElsewhere(auth, refuse);
        if (users[user] !== auth.password) throw refuse('InvalidAuth', 'etcdserver: authentication failed');
      }
      if (needs.admin === true && user !== 'root') {
        if (user === '') throw refuse('AuthRequired', 'etcdserver: user name is empty');
        throw refuse('PermissionDenied', 'etcdserver: permission denied');
      }
    }
    const { memberId, applied } = process.data;
    if (needs.learner !== true && applied.members.get(memberId)?.isLearner === true) {
      throw refuse('NotServedByLearner', 'etcdserver: rpc not supported for learner');
    }
    if (needs.quorum === true && leaderSeenBy(process) === undefined) throw refuse('Timeout', 'Deadline exceeded');
  };

  const membershipOf = (cluster: Cluster, state: State): EtcdMembership => ({
    clusterId: cluster.id,
    members: [...state.members.values()].toSorted(byId),
  });

  const activeVoters = (process: Process & { data: Data }): number =>
    votersOf(process.data.cluster.committed).filter((member) =>
      companions(process).some(
        (other) => other.data.memberId === member.id && alive(other) && (other === process || !young),
      ),
    ).length;

  const write = (
    process: Process & { data: Data },
    key: string,
    value: Uint8Array | undefined,
    refuse: Refusal,
  ): bigint => {
    const { cluster } = process.data;
    const armed = cluster.committed.alarms.map(({ alarm }) => alarm);
    if (armed.includes('CORRUPT')) throw refuse('Corrupt', 'etcdserver: corrupt cluster');
    if (armed.includes('NOSPACE') && value !== undefined)
      throw refuse('NoSpace', 'etcdserver: mvcc: database space exceeded');
    const revision = cluster.committed.revision + 1n;
    commit(cluster, { revision, history: [...cluster.committed.history, { revision, key, value }] });
    return revision;
  };

  const latest = (state: State, key: string): Entry | undefined => {
    const entry = state.history.findLast((candidate) => candidate.key === key);
    return entry?.value === undefined ? undefined : entry;
  };

  const countKeys = (state: State | undefined): bigint =>
    state === undefined
      ? 0n
      : BigInt(
          [...new Set(state.history.map(({ key }) => key))].filter((key) => latest(state, key) !== undefined).length,
        );

  const statusOf = (process: Process & { data: Data }): EtcdMemberStatus => {
    const { cluster, memberId, applied } = process.data;
    const leader = leaderSeenBy(process);
    const size = BigInt(database(process.data).length);
    return {
      clusterId: cluster.id,
      memberId,
      leaderId: leader?.data?.memberId,
      version: process.version,
      storageVersion: minor(process.version) < 6 ? undefined : `3.${cluster.minor}.0`,
      downgradeTarget:
        minor(process.version) < 6 || cluster.committed.downgradeTo === undefined
          ? undefined
          : `${cluster.committed.downgradeTo}.0`,
      dbSize: size + process.data.freePages,
      dbSizeInUse: size + (process.data.uncounted ?? 0n),
      dbSizeQuota: minor(process.version) < 6 ? undefined : 2_147_483_648n,
      raftIndex: leader === undefined ? applied.index : cluster.committed.index,
      raftAppliedIndex: applied.index,
      raftTerm: cluster.term,
      isLearner: applied.members.get(memberId)?.isLearner ?? false,
      revision: applied.revision,
      errors: [
        ...applied.alarms.map((alarm) => `memberID:${BigInt(`0x${alarm.memberId}`)} alarm:${alarm.alarm} `),
        ...(leader === undefined ? ['etcdserver: no leader'] : []),
      ],
    };
  };

  /** Whole pages, as a database file is. */
  const database = (data: Data): Buffer => {
    const content = Buffer.concat(
      data.applied.history.flatMap(({ key, value }) => (value === undefined ? [] : [Buffer.from(key), value])),
    );
    const pages = Math.max(1, Math.ceil(content.length / PAGE));
    return Buffer.concat([content], pages * PAGE);
  };

  const hash = (data: Data, upTo: bigint): number => {
    const digest = createHash('sha1').update(data.corrupt ? 'corrupt' : '');
    for (const { revision, key, value } of data.applied.history) {
      if (revision > upTo) break;
      digest.update(`${revision};${key};`).update(value ?? 'deleted');
    }
    return digest.digest().readUInt32BE();
  };

  const client = (endpoint: EtcdEndpoint): EtcdMemberClient => {
    const closing = new AbortController();
    const { url } = endpoint;
    const ask = (
      operation: keyof EtcdMemberClient,
      writes: boolean,
      deadlineMs: number,
      call: EtcdCall | undefined,
    ): Asked => ({
      operation,
      endpoint,
      writes,
      deadlineMs,
      call,
      closed: closing.signal,
    });
    const read = (operation: keyof EtcdMemberClient, call: EtcdCall | undefined, ms = 2_000) =>
      ask(operation, false, ms, call);
    const change = (operation: keyof EtcdMemberClient, call: EtcdCall | undefined, ms = 5_000) =>
      ask(operation, true, ms, call);

    /** Refuses what is no identity before the call reaches the network. */
    const checked = async (asked: Asked, id: MemberId): Promise<void> => {
      if (closing.signal.aborted || /^[0-9a-f]{1,16}$/.test(id)) return;
      throw faultAt(url, asked.operation)('InvalidRequest', `"${id}" is no member ID`, false);
    };

    return {
      url,

      status: (call) =>
        perform(read('status', call), [], (process, refuse) => {
          admit(process, endpoint, { learner: true }, refuse);
          return statusOf(process);
        }),

      memberList: ({ linearizable }, call) =>
        perform(read('memberList', call), [{ linearizable }], (process, refuse) => {
          admit(process, endpoint, { quorum: linearizable }, refuse);
          const { cluster, applied } = process.data;
          return membershipOf(cluster, linearizable ? cluster.committed : applied);
        }),

      memberAddLearner: (peerURLs, call) =>
        perform(change('memberAddLearner', call), [peerURLs], (process, refuse) => {
          admit(process, endpoint, { admin: true, quorum: true }, refuse);
          const { cluster } = process.data;
          const { committed } = cluster;
          // One voter alone may always take on another member.
          const voters = votersOf(committed).length;
          if (voters > 1 && activeVoters(process) < quorum(voters + 1)) {
            throw refuse('UnhealthyCluster', 'etcdserver: unhealthy cluster');
          }
          const members = [...committed.members.values()];
          if (members.some((member) => member.peerURLs.some((peer) => peerURLs.includes(peer)))) {
            throw refuse('PeerURLExists', 'etcdserver: Peer URLs already exists');
          }
          if (members.some(({ isLearner }) => isLearner)) {
            throw refuse('TooManyLearners', 'etcdserver: too many learner members in cluster');
          }
          added += 1;
          const id = identity(...peerURLs, cluster.token, `${added}`);
          const member: EtcdMember = { id, name: '', peerURLs, clientURLs: [], isLearner: true };
          commit(cluster, { members: new Map(committed.members).set(id, member) });
          return { memberId: id, membership: membershipOf(cluster, cluster.committed) };
        }),

      memberPromote: async (id, call) => {
        const asked = change('memberPromote', call);
        await checked(asked, id);
        return perform(asked, [id], (process, refuse) => {
          admit(process, endpoint, { admin: true, quorum: true }, refuse);
          const { cluster } = process.data;
          const member = cluster.committed.members.get(id);
          if (member === undefined) throw refuse('MemberNotFound', 'etcdserver: member not found');
          const caughtUp = processesOf(cluster).some(
            (other) => other.data.memberId === id && other.data.applied === cluster.committed && alive(other),
          );
          if (member.isLearner && !caughtUp) {
            throw refuse(
              'LearnerNotReady',
              'etcdserver: can only promote a learner member which is in sync with leader',
            );
          }
          if (!member.isLearner) throw refuse('NotALearner', 'etcdserver: can only promote a learner member');
          commit(cluster, { members: new Map(cluster.committed.members).set(id, { ...member, isLearner: false }) });
          return membershipOf(cluster, cluster.committed);
        });
      },

      memberRemove: async (id, call) => {
        const asked = change('memberRemove', call);
        await checked(asked, id);
        return perform(asked, [id], (process, refuse) => {
          admit(process, endpoint, { admin: true, quorum: true }, refuse);
          const { cluster } = process.data;
          const { committed } = cluster;
          const member = committed.members.get(id);
          if (member === undefined) throw refuse('MemberNotFound', 'etcdserver: member not found');
          if (!member.isLearner) {
            const voters = votersOf(committed);
            const staying = voters.filter((voter) => voter.id !== id);
            if (staying.filter(({ name }) => name !== '').length < quorum(staying.length)) {
              throw refuse('NotEnoughStarted', 'etcdserver: re-configuration failed due to not enough started members');
            }
            const down = !companions(process).some((other) => other.data.memberId === id && alive(other));
            if (!down && activeVoters(process) - 1 < 1 + Math.floor((voters.length - 1) / 2)) {
              throw refuse('UnhealthyCluster', 'etcdserver: unhealthy cluster');
            }
          }
          const members = new Map(committed.members);
          members.delete(id);
          commit(cluster, {
            members,
            removed: new Set(committed.removed).add(id),
          });
          const answer = membershipOf(cluster, cluster.committed);
          settle(cluster);
          return answer;
        });
      },

      moveLeader: async (target, call) => {
        const asked = change('moveLeader', call);
        await checked(asked, target);
        return perform(asked, [target], (process, refuse) => {
          admit(process, endpoint, { admin: true }, refuse);
          const { cluster } = process.data;
          if (leaderSeenBy(process) !== process) throw refuse('NotLeader', 'etcdserver: not leader');
          if (cluster.committed.members.get(target)?.isLearner !== false) {
            throw refuse('BadLeaderTarget', 'etcdserver: bad leader transferee');
          }
          const next = companions(process).find((other) => other.data.memberId === target && alive(other));
          if (next === undefined) throw refuse('Timeout', 'Deadline exceeded');
          if (next !== process) cluster.term += 1n;
          cluster.leader = next;
        });
      },

      memberUpdate: async (id, peerURLs, call) => {
        const asked = change('memberUpdate', call);
        await checked(asked, id);
        return perform(asked, [id, peerURLs], (process, refuse) => {
          admit(process, endpoint, { admin: true, quorum: true }, refuse);
          const { cluster } = process.data;
          const member = cluster.committed.members.get(id);
          if (member === undefined) throw refuse('MemberNotFound', 'etcdserver: member not found');
          commit(cluster, { members: new Map(cluster.committed.members).set(id, { ...member, peerURLs }) });
          return membershipOf(cluster, cluster.committed);
        });
      },

      authStatus: (call) =>
        perform(read('authStatus', call), [], (process, refuse) => {
          try {
            admit(process, endpoint, { admin: true, quorum: true }, refuse);
          } catch (failure) {
            const others =
              failure instanceof EtcdFault && ['AuthRequired', 'PermissionDenied'].includes(failure.reason);
            if (others) return 'onForOthers';
            throw failure;
          }
          return process.data.cluster.committed.users === undefined ? 'off' : 'onForRoot';
        }),
      authRevision: (call) =>
        perform(read('authRevision', call), [], (process, refuse) => {
          admit(process, endpoint, { admin: true }, refuse);
          return process.data.cluster.committed.authRevision;
        }),
      authEnable: (call) =>
        perform(change('authEnable', call), [], (process, refuse) => {
          admit(process, endpoint, { admin: true, quorum: true }, refuse);
          const { cluster } = process.data;
          const { accounts } = cluster.committed;
          if (accounts.root === undefined || !cluster.committed.rootRole) {
            throw refuse('RootMissing', 'etcdserver: root user does not exist');
          }
          commit(cluster, { users: accounts });
        }),
      authDisable: (call) =>
        perform(change('authDisable', call), [], (process, refuse) => {
          admit(process, endpoint, { admin: true, quorum: true }, refuse);
          commit(process.data.cluster, { users: undefined });
        }),
      userAdd: (name, password, call) =>
        perform(change('userAdd', call), [name], (process, refuse) => {
          admit(process, endpoint, { admin: true, quorum: true }, refuse);
          if (process.data.cluster.committed.accounts[name] !== undefined) {
            throw refuse('UserExists', 'etcdserver: user name already exists');
          }
          setPassword(process.data.cluster, name, password);
        }),
      userChangePassword: (name, password, call) =>
        perform(change('userChangePassword', call), [name], (process, refuse) => {
          admit(process, endpoint, { admin: true, quorum: true }, refuse);
          setPassword(process.data.cluster, name, password);
        }),
      userGrantRole: (name, role, call) =>
        perform(change('userGrantRole', call), [name, role], (process, refuse) => {
          admit(process, endpoint, { admin: true, quorum: true }, refuse);
          if (name === 'root' && role === 'root') commit(process.data.cluster, { rootRole: true });
        }),
      roleAdd: (role, call) =>
        perform(change('roleAdd', call), [role], (process, refuse) => {
          admit(process, endpoint, { admin: true, quorum: true }, refuse);
          const { cluster } = process.data;
          if (cluster.committed.roles.includes(role))
            throw refuse('RoleExists', 'etcdserver: role name already exists');
          commit(cluster, { roles: [...cluster.committed.roles, role] });
        }),

      alarms: (call) =>
        perform(read('alarms', call), [], (process, refuse) => {
          admit(process, endpoint, { quorum: true }, refuse);
          return process.data.cluster.committed.alarms;
        }),

      disarm: async (alarm, call) => {
        const asked = change('disarm', call);
        await checked(asked, alarm.memberId);
        return perform(asked, [alarm], (process, refuse) => {
          admit(process, endpoint, { admin: true, quorum: true }, refuse);
          const { cluster } = process.data;
          const alarms = cluster.committed.alarms.filter(
            (armed) => armed.memberId !== alarm.memberId || armed.alarm !== alarm.alarm,
          );
          commit(cluster, { alarms });
        });
      },

      hashKv: (revision, call) =>
        perform(read('hashKv', call, 30_000), [revision], (process, refuse) => {
          admit(process, endpoint, { admin: true }, refuse);
          const { applied } = process.data;
          if (revision !== 0n && revision < applied.compacted) {
            throw refuse('Compacted', 'etcdserver: mvcc: required revision has been compacted');
          }
          if (revision > applied.revision) {
            throw refuse('FutureRevision', 'etcdserver: mvcc: required revision is a future revision');
          }
          const hashRevision = revision === 0n ? applied.revision : revision;
          return { hash: hash(process.data, hashRevision), compactRevision: applied.compacted, hashRevision };
        }),

      countKeys: (revision, call) =>
        perform(read('countKeys', call, 30_000), [revision], (process, refuse) => {
          admit(process, endpoint, { admin: true }, refuse);
          const { applied } = process.data;
          if (revision < applied.compacted) {
            throw refuse('Compacted', 'etcdserver: mvcc: required revision has been compacted');
          }
          if (revision > applied.revision) {
            throw refuse('FutureRevision', 'etcdserver: mvcc: required revision is a future revision');
          }
          const keys = new Map<string, boolean>();
          for (const write of applied.history) {
            if (write.revision <= revision) keys.set(write.key, write.value !== undefined);
          }
          return BigInt([...keys.values()].filter(Boolean).length);
        }),

      defragment: (call) =>
        perform(change('defragment', call, 60_000), [], (process, refuse) => {
          admit(process, endpoint, { admin: true }, refuse);
          process.data.freePages = 0n;
          process.data.uncounted = 0n;
        }),

      compact: (revision, call) =>
        perform(change('compact', call, 30_000), [revision], (process, refuse) => {
          admit(process, endpoint, { quorum: true }, refuse);
          const { cluster } = process.data;
          if (revision <= cluster.committed.compacted) {
            throw refuse('Compacted', 'etcdserver: mvcc: required revision has been compacted');
          }
          if (revision > cluster.committed.revision) {
            throw refuse('FutureRevision', 'etcdserver: mvcc: required revision is a future revision');
          }
          commit(cluster, { compacted: revision });
        }),

      downgrade: (action, target, call) =>
        perform(ask('downgrade', action !== 'validate', 5_000, call), [action, target], (process, refuse) => {
          admit(process, endpoint, { admin: true, quorum: true }, refuse);
          const { cluster } = process.data;
          const running = cluster.minor;
          const { downgradeTo } = cluster.committed;
          if (action === 'cancel') {
            if (downgradeTo === undefined) throw refuse('DowngradeRefused', 'etcdserver: no inflight downgrade job');
            commit(cluster, { downgradeTo: undefined });
          } else {
            if (downgradeTo !== undefined) {
              throw refuse('DowngradeRefused', 'etcdserver: cluster has a downgrade job in progress');
            }
            if (target.split('.').slice(0, 2).join('.') !== `3.${running - 1}`) {
              throw refuse('DowngradeRefused', 'etcdserver: invalid downgrade target version');
            }
            if (action === 'enable') commit(cluster, { downgradeTo: target });
          }
          return `3.${running}.0`;
        }),

      snapshot: async function* (call): AsyncGenerator<EtcdSnapshotChunk, void, undefined> {
        const bytes = await perform(read('snapshot', call, 30_000), [], (process, refuse) => {
          admit(process, endpoint, { admin: true, learner: true }, refuse);
          process.data.uncounted = 0n;
          return database(process.data);
        });
        for (let at = 0; at < bytes.length; at += CHUNK) {
          const blob = bytes.subarray(at, at + CHUNK);
          if (call?.signal?.aborted === true) throw faultAt(url, 'snapshot')('Cancelled', 'the caller gave up', false);
          if (closing.signal.aborted) throw faultAt(url, 'snapshot')('Closed', 'the client was closed', false);
          yield { blob, remainingBytes: BigInt(bytes.length - at - blob.length) };
        }
        yield { blob: createHash('sha256').update(bytes).digest(), remainingBytes: 0n };
      },

      get: (key, call) =>
        perform(read('get', call), [key], (process, refuse) => {
          const serializable = call?.serializable === true;
          admit(process, endpoint, { admin: true, learner: serializable, quorum: !serializable }, refuse);
          const found = latest(serializable ? process.data.applied : process.data.cluster.committed, key);
          return found?.value === undefined ? undefined : { value: found.value, modRevision: found.revision };
        }),

      put: (key, value, call) =>
        perform(change('put', call), [key], (process, refuse) => {
          admit(process, endpoint, { admin: true, quorum: true }, refuse);
          return write(process, key, Buffer.from(value), refuse);
        }),

      delete: (key, call) =>
        perform(change('delete', call), [key], (process, refuse) => {
          admit(process, endpoint, { admin: true, quorum: true }, refuse);
          if (latest(process.data.cluster.committed, key) === undefined) return 0;
          write(process, key, undefined, refuse);
          return 1;
        }),

      close: () => closing.abort(),
    };
  };

  const shared = new Map<string, EtcdMemberClient>();
  const clients: EtcdClients = {
    at: (endpoint) => {
      const { url, auth, tls } = endpoint;
      const shown = tls?.certificate === undefined ? undefined : Buffer.from(tls.certificate).toString('base64');
      const key = JSON.stringify([url, auth?.username, auth?.password, tls?.serverName, shown]);
      const found = shared.get(key) ?? client(endpoint);
      shared.set(key, found);
      return found;
    },
    dial: client,
    forget: (url) => {
      for (const [key, known] of shared) {
        if (known.url !== url) continue;
        known.close();
        shared.delete(key);
      }
    },
    close: () => {
      for (const known of shared.values()) known.close();
      shared.clear();
    },
  };

  const probed = async <T>(
    operation: string,
    url: string,
    call: EtcdCall | undefined,
    look: (process: Process & { data: Data }) => T,
  ): Promise<T> => {
    const make = faultAt(url, operation);
    if (call?.signal?.aborted === true) throw make('Cancelled', 'the caller gave up before', false);
    await Promise.resolve();
    const process = all().find((candidate) => candidate.metricsURL === url && candidate.running);
    if (process?.data === undefined) throw make('Unreachable', `connect ECONNREFUSED ${url}`, false);
    if (process.hung) {
      const how = await silence(call?.deadlineMs ?? 2_000, [call?.signal]);
      throw how === 'deadline' ? make('Timeout', 'no answer', false) : make('Cancelled', 'the caller gave up', false);
    }
    return look(process as Process & { data: Data });
  };

  const probe: EtcdHealthProbe = {
    livez: (url, call) => probed('livez', url, call, () => ({ ok: true })),
    readyz: (url, call) =>
      probed('readyz', url, call, (process) => {
        const { applied, memberId } = process.data;
        if (applied.alarms.some(({ alarm }) => alarm === 'CORRUPT'))
          return { ok: false, why: '503 [-]data_corruption failed' };
        if (leaderSeenBy(process) === undefined || applied.members.get(memberId)?.isLearner === true) {
          return { ok: false, why: '503 [-]linearizable_read failed' };
        }
        return { ok: true };
      }),
    metrics: (url, call) =>
      probed('metrics', url, call, (process) => {
        const { applied, memberId, cluster } = process.data;
        const leader = leaderSeenBy(process);
        return {
          hasLeader: leader !== undefined,
          isLeader: leader === process,
          isLearner: applied.members.get(memberId)?.isLearner ?? false,
          version: process.version,
          clusterVersion: leader === undefined ? undefined : `3.${cluster.minor}`,
          currentRevision: applied.revision,
          quotaBackendBytes: 2_147_483_648n,
        };
      }),
  };

  const running = (clientURL: string): Process => {
    const process = processes.get(clientURL);
    if (process?.running !== true) throw new TypeError(`no process runs at ${clientURL}`);
    return process;
  };
  const clusterAt = (clientURL: string): Cluster => {
    const cluster = running(clientURL).data?.cluster;
    if (cluster === undefined) throw new TypeError(`no member runs at ${clientURL}`);
    return cluster;
  };

  return {
    clients,
    probe,
    calls,
    start,
    process: (clientURL) => processes.get(clientURL),
    stop: (clientURL) => end(running(clientURL), { exitCode: 0, terminationMessage: '' }),
    kill: (clientURL) => end(running(clientURL), { exitCode: 137, terminationMessage: '' }),
    hang: (clientURL) => {
      running(clientURL).hung = true;
      settleAll();
    },
    resume: (clientURL) => {
      running(clientURL).hung = false;
      settleAll();
    },
    wipe: (disk) => {
      disks.delete(disk);
    },
    copyDisk: (from, to) => {
      disks.set(to, new Map([...(disks.get(from) ?? [])].map(([directory, data]) => [directory, { ...data }])));
    },
    restore: ({ from, to, name, peerURL, token, bump }) => {
      const there = disks.get(from.disk);
      const source = from.directory === undefined ? there?.values().next().value : there?.get(from.directory);
      if (source === undefined) return undefined;
      const { applied } = source;
      const { users, accounts, roles, rootRole } = applied;
      const id = identity(peerURL, token);
      const self: EtcdMember = { id, name, peerURLs: [peerURL], clientURLs: [], isLearner: false };
      const revision = applied.revision + bump;
      const committed: State = {
        ...EMPTY,
        index: 1n,
        members: new Map([[id, self]]),
        revision,
        compacted: revision,
        history: applied.history,
        users,
        accounts,
        roles,
        rootRole,
      };
      const cluster: Cluster = {
        id: identity(id),
        token,
        born: new Set([id]),
        minor: source.cluster.minor,
        committed,
        term: 1n,
        leader: undefined,
      };
      clusters.add(cluster);
      const disk = disks.get(to.disk) ?? new Map<string, Data>();
      disks.set(to.disk, disk);
      const data = {
        cluster,
        memberId: id,
        applied: committed,
        version: source.version,
        corrupt: false,
        freePages: 0n,
      };
      disk.set(to.directory, data);
      return applied.revision;
    },
    keysOn: ({ disk, directory }) => {
      const there = disks.get(disk);
      return countKeys((directory === undefined ? there?.values().next().value : there?.get(directory))?.applied);
    },
    partition: (...parts) => {
      groups.clear();
      for (const [number, urls] of parts.entries()) for (const url of urls) groups.set(url, number);
      settleAll();
    },
    heal: () => {
      groups.clear();
      settleAll();
    },
    matureConnections: () => {
      young = false;
    },
    holdLearners: (held) => {
      learnersHeld = held;
      settleAll();
    },
    failNext: (failure) => {
      failures.push(failure);
    },
    arm: (memberId, alarm) => {
      const cluster = [...clusters].find(({ committed }) => committed.members.has(memberId));
      if (cluster === undefined) throw new TypeError(`no cluster has a member ${memberId}`);
      commit(cluster, { alarms: [...cluster.committed.alarms, { memberId, alarm }] });
      settle(cluster);
    },
    fragment: (disk, bytes, { counted } = { counted: true }) => {
      for (const data of disks.get(disk)?.values() ?? []) {
        data.freePages += bytes;
        if (!counted) data.uncounted = (data.uncounted ?? 0n) + bytes;
      }
    },
    corrupt: (disk) => {
      for (const data of disks.get(disk)?.values() ?? []) data.corrupt = true;
    },
    enableAuth: (clientURL, users) => {
      const cluster = clusterAt(clientURL);
      commit(cluster, { users, accounts: users, roles: ['root'], rootRole: true });
      settle(cluster);
    },
    rootPassword: (clientURL) => clusterAt(clientURL).committed.users?.root,
    disableAuth: (clientURL) => {
      const cluster = clusterAt(clientURL);
      commit(cluster, { users: undefined });
      settle(cluster);
    },
    bootstrap: (size, version = '3.6.16') => {
      const names = Array.from({ length: size }, (_, ordinal) => `m${ordinal}`);
      const list = names.map((name) => `${name}=http://${name}:2380`).join(',');
      return names.map((name) =>
        start({
          disk: name,
          version,
          configFile: [
            `name: ${name}`,
            `data-dir: /data/${name}`,
            `initial-advertise-peer-urls: http://${name}:2380`,
            `advertise-client-urls: http://${name}:2379`,
            `listen-client-urls: http://${name}:2379`,
            `listen-metrics-urls: http://${name}:2381`,
            `initial-cluster: ${list}`,
            'initial-cluster-state: new',
            'initial-cluster-token: fake',
          ].join('\n'),
        }),
      );
    },
  };
};
