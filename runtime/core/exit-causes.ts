/**
 * Why an etcd container ended, told from what Kubernetes keeps of it: exit code, signal, its reason, and the last lines.
 *
 * The last lines alone do not settle it: a lost write-ahead log says the same as an empty disk, a halved database dies
 * of SIGBUS among a hundred innocent stack frames, and a removed member says nothing at all. So no cause here is by
 * itself a licence to delete anything; that takes the member list as a second witness.
 */

export type ExitCause =
  | 'OutOfMemory'
  | 'Stopped'
  | 'Killed'
  | 'WipedOrWalGone'
  | 'PeersNotReached'
  | 'DnsNotResolving'
  | 'WalCorrupt'
  | 'SnapshotMissing'
  | 'BackendMissing'
  | 'BackendCorrupt'
  | 'RaftLogLost'
  | 'DataDiffers'
  | 'SigBus'
  | 'DiskFull'
  | 'DataDirUnusable'
  | 'WrongConfig'
  | 'TlsFilesMissing'
  | 'AddressInUse'
  | 'RemovedMember'
  | 'AlreadyBootstrapped'
  | 'MemberCountUnequal'
  | 'PeerURLsDiffer'
  | 'VersionTooOld'
  | 'PanicUnknown'
  | 'Unknown';

export type Exit = {
  readonly exitCode: number;
  /** Kubernetes' own word: `OOMKilled`, `Error`, `Completed`. */
  readonly reason?: string | undefined;
  readonly signal?: number | undefined;
  /** The termination message: with FallbackToLogsOnError the last 2048 bytes or 80 lines of output, if it failed. */
  readonly message?: string | undefined;
  /** Whether the member was started to join others, so that it had names beside its own to ask. */
  readonly joining?: boolean | undefined;
};

export type ClassifiedExit = {
  readonly reason: ExitCause;
  /** One line for people: what happened, etcd's own words where they add something, what to do. */
  readonly message: string;
};

type Said = { readonly what: string; readonly todo: string };

const said: Record<ExitCause, Said> = {
  OutOfMemory: {
    what: 'the kernel killed etcd because the container reached its memory limit',
    todo: 'raise spec.resources.limits.memory (a memory volume counts into it)',
  },
  Stopped: {
    what: 'etcd ended of its own accord: it was asked to stop, or its member was removed from the cluster',
    todo: 'nothing, unless it happens again',
  },
  Killed: {
    what: 'etcd was killed from outside',
    todo: 'look at the events of the Pod and its node (eviction, failed liveness probe, node shutdown)',
  },
  WipedOrWalGone: {
    what: 'the volume holds no write-ahead log to restart from, and the configuration rightly lets the member join nobody',
    todo: 'the volume was emptied or exchanged, or only its log is lost and the database can still be salvaged; with the other voters healthy this member will be replaced, without them keep the volume',
  },
  PeersNotReached: {
    what: 'the member could not reach any other member to join them',
    todo: 'see whether the other members run and a NetworkPolicy lets Pods of the cluster talk on port 2380',
  },
  DnsNotResolving: {
    what: 'a name of a member does not resolve',
    todo: 'see whether the headless Service exists and the cluster DNS answers',
  },
  WalCorrupt: {
    what: 'the write-ahead log is damaged',
    todo: 'suspect the disk; with the other voters healthy this member will be replaced',
  },
  SnapshotMissing: {
    what: 'the write-ahead log does not reach back to a snapshot that is on the volume',
    todo: 'files were lost from the volume; with the other voters healthy this member will be replaced',
  },
  BackendMissing: {
    what: 'the database file is gone or older than the log beside it',
    todo: 'files were lost from the volume; with the other voters healthy this member will be replaced',
  },
  BackendCorrupt: {
    what: 'the database file is damaged',
    todo: 'suspect the disk; with the other voters healthy this member will be replaced',
  },
  RaftLogLost: {
    what: 'the volume holds less than this member had confirmed to the others',
    todo: 'an old copy was put back or writes were lost; with the other voters healthy this member will be replaced',
  },
  DataDiffers: {
    what: "the member's data differs from the other members' at the same revision",
    todo: 'where the others agree in majority, this member will be replaced; otherwise find out which data is right before anything is deleted',
  },
  SigBus: {
    what: 'etcd read beyond the end of its database file: the file was cut short, or the volume vanished under it',
    todo: 'look at the volume and the node; with the other voters healthy this member will be replaced',
  },
  DiskFull: {
    what: 'the volume is full',
    todo: 'enlarge spec.storage.size, or lower spec.options.quotaBackendBytes',
  },
  DataDirUnusable: {
    what: 'etcd cannot use its data directory',
    todo: 'see whether the volume is mounted writable and belongs to the group the Pod runs with',
  },
  WrongConfig: { what: 'etcd refused its configuration', todo: 'correct spec.options' },
  TlsFilesMissing: {
    what: 'a certificate or key that etcd should use is not there',
    todo: 'see whether the Secrets named in spec.tls exist and hold tls.crt, tls.key and ca.crt',
  },
  AddressInUse: {
    what: 'one of its ports is taken',
    todo: 'look for a second container of this Pod on that port, or a Pod on the host network',
  },
  RemovedMember: {
    what: 'the member was removed from the cluster while it was down',
    todo: 'nothing: its slot gets a new member',
  },
  AlreadyBootstrapped: {
    what: 'the member was told to form a new cluster, and one that knows it exists',
    todo: 'nothing by hand: the volume was lost in between and the member will be replaced',
  },
  MemberCountUnequal: {
    what: 'the membership changed between the making of its configuration and its start',
    todo: 'nothing: it starts again with the present list',
  },
  PeerURLsDiffer: {
    what: 'its configuration names other peer URLs than the cluster knows',
    todo: 'nothing: it starts again with the present list',
  },
  VersionTooOld: {
    what: 'this version of etcd is older than the data or the cluster',
    todo: 'set spec.version to the minor that runs; going back is done by lowering it one minor while all members are healthy',
  },
  PanicUnknown: { what: 'etcd crashed', todo: 'keep the log (kubectl logs --previous) and report it' },
  Unknown: { what: 'etcd ended', todo: 'see its log: kubectl logs --previous' },
};

const SIGKILL = 9;
const SIGTERM = 15;
const SIGBUS = 7;
/** A container's exit code for a death by signal. */
const BY_SIGNAL = 128;
/** Go's own exit code for a panic or a fatal signal. */
const GO_CRASH = 2;

/** First match wins. `at` is etcd's last error sentence, or the panic's; where both fail, the whole text is searched. */
const words: readonly (readonly [RegExp, ExitCause])[] = [
  [/no space left on device/, 'DiskFull'],
  // Only said of a directory that it could not fill: a WAL of 64 MB is allocated at the very first start.
  [/failed to create WAL/, 'DiskFull'],
  [/failed to verify flags|unexpected error setting up|error parsing CompactionRetention/, 'WrongConfig'],
  [/unrecognized level|unrecognized feature gate|unknown auto-compaction-mode|error unmarshaling JSON/, 'WrongConfig'],
  [/couldn't find local name|must be provided for (?:client|peer) url/, 'WrongConfig'],
  [/failed to resolve|no such host|couldn't resolve/, 'DnsNotResolving'],
  [/member count is unequal/, 'MemberCountUnequal'],
  [
    /PeerURLs: no match found|missing from --initial-advertise-peer-urls|unmatched member while checking/,
    'PeerURLsDiffer',
  ],
  [/has already been bootstrapped/, 'AlreadyBootstrapped'],
  [/permanently removed from (?:the )?cluster|server is stopping|removed all voters/, 'RemovedMember'],
  [/data inconsistency with peers|checkInitialHashKV/, 'DataDiffers'],
  [/incompatible with current running cluster|server version is lower than|invalid downgrade/, 'VersionTooOld'],
  [/cannot downgrade|cluster cannot be downgraded/, 'VersionTooOld'],
  [
    /cannot access data directory|cannot write to (?:member|WAL) directory|cannot write to directory/,
    'DataDirUnusable',
  ],
  [/address already in use/, 'AddressInUse'],
  [/cannot assign requested address/, 'WrongConfig'],
  [/(?:open|stat) \S+\.(?:crt|key|pem): (?:no such file|permission denied)/, 'TlsFilesMissing'],
  [/cannot fetch cluster info from peer urls/, 'WipedOrWalGone'],
  [/crc mismatch|walpb:|max entry size limit exceeded/, 'WalCorrupt'],
  [/failed to open WAL|wal: file not found|failed to read WAL/, 'SnapshotMissing'],
  [/failed to recover v3 backend from snapshot|failed to find database snapshot file/, 'BackendMissing'],
  [/failed to open database|invalid database|failed to restore kv store/, 'BackendCorrupt'],
  [/tocommit\(\d+\) is out of range/, 'RaftLogLost'],
  [/SIGBUS|unexpected fault address/, 'SigBus'],
];

export const classifyExit = (exit: Exit): ClassifiedExit => {
  const text = exit.message ?? '';
  const detail = lastSentence(text);
  const reason = causeOf(exit, text, detail);
  const { what, todo } = said[reason];
  const quoted = detail === undefined || quiet.has(reason) ? '' : ` ("${detail}")`;
  return { reason, message: `${what}${quoted}; ${todo}` };
};

/** Causes that etcd's own words would only obscure. */
const quiet: ReadonlySet<ExitCause> = new Set([
  'OutOfMemory',
  'Stopped',
  'Killed',
  'RemovedMember',
  'WipedOrWalGone',
  'PeersNotReached',
  'MemberCountUnequal',
  'PeerURLsDiffer',
]);

const causeOf = (exit: Exit, text: string, detail: string | undefined): ExitCause => {
  if (exit.reason === 'OOMKilled') return 'OutOfMemory';
  // Process 1 of a container leaves with 0 on SIGTERM, and so does a removed member.
  if (exit.exitCode === 0) return 'Stopped';

  const found =
    words.find(([pattern]) => detail !== undefined && pattern.test(detail)) ??
    words.find(([pattern]) => pattern.test(lastWordsOf(text)));
  if (found !== undefined) {
    const [, cause] = found;
    return cause === 'WipedOrWalGone' && exit.joining === true ? 'PeersNotReached' : cause;
  }

  const signal = exit.signal ?? (exit.exitCode > BY_SIGNAL ? exit.exitCode - BY_SIGNAL : undefined);
  if (signal === SIGBUS) return 'SigBus';
  if (signal === SIGTERM) return 'Stopped';
  if (signal === SIGKILL) return 'Killed';
  if (exit.exitCode === GO_CRASH) {
    // The panic's own line has scrolled out; the database library in a frame is what is left of "unexpected fault address".
    return /go\.etcd\.io\/bbolt/.test(text) ? 'SigBus' : 'PanicUnknown';
  }
  return 'Unknown';
};

/** Without the informational lines: warnings of an earlier hiccup are no cause, and the configuration is printed there. */
const lastWordsOf = (text: string): string =>
  text
    .split('\n')
    .filter((line) => !/"level":"(?:debug|info)"/.test(line))
    .join('\n');

/** The last `"error"` of etcd's log, the panic, or the last plain line. Undefined where the text tells nothing. */
const lastSentence = (text: string): string | undefined => {
  const panic = /^panic: (.+)$/m.exec(text)?.[1];
  const lines = text.split('\n').filter((line) => line.trim() !== '');
  const severe = lines.findLast((line) => /"level":"(?:warn|error|fatal|panic)"/.test(line) && /"error":"/.test(line));
  const last = lines.at(-1);
  // The start of a long last line is cut off; what is left of it may still hold the sentence.
  const torn = last !== undefined && !last.startsWith('{') ? last : undefined;
  const fatal = lines.findLast((line) => /"level":"(?:fatal|panic)"/.test(line));

  const sentence =
    errorOf(fatal) ??
    errorOf(torn) ??
    panic ??
    errorOf(severe) ??
    field(fatal, 'msg') ??
    (torn !== undefined && lines.length === 1 && !torn.includes('stacktrace') ? torn : undefined);
  if (sentence === undefined) return undefined;
  const line = sentence.replaceAll(/\s+/g, ' ').trim();
  return line.length > LONGEST ? `${line.slice(0, LONGEST)}…` : line;
};

const LONGEST = 300;

const errorOf = (line: string | undefined): string | undefined => field(line, 'error');

const field = (line: string | undefined, name: string): string | undefined => {
  const quoted = line === undefined ? undefined : new RegExp(`"${name}":("(?:[^"\\\\]|\\\\.)*")`).exec(line)?.[1];
  return quoted === undefined ? undefined : unquote(quoted);
};

const unquote = (quoted: string): string => {
  try {
    return JSON.parse(quoted) as string;
  } catch {
    return quoted;
  }
};
