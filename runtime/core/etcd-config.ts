/**
 * etcd's configuration file, generated from typed values. etcd silently ignores a key that it does not know and refuses a
 * value of the wrong type at start, so both are decided here: the keys by minor version, the spelling by kind of value.
 */

/** The minors whose files are known. */
const ETCD_MINORS = ['3.5', '3.6', '3.7'] as const;
export type EtcdMinor = (typeof ETCD_MINORS)[number];

/** The minor of `3.6.16` or `v3.6.16`; undefined where we cannot write a file for it. */
export const etcdMinor = (version: string): EtcdMinor | undefined => {
  const found = /^v?(\d+\.\d+)\.\d+(?:[-+].*)?$/.exec(version)?.[1];
  return ETCD_MINORS.find((minor) => minor === found);
};

/** What a user may set. Absent = etcd's own default. */
export type EtcdOptions = {
  /** Bytes; 0 is etcd's default of 2 GiB. */
  readonly quotaBackendBytes?: number | undefined;
  readonly autoCompactionMode?: 'periodic' | 'revision' | undefined;
  /** A Go duration (`1h30m`) or a number: of hours when periodic, of revisions otherwise. `0` turns compaction off. */
  readonly autoCompactionRetention?: string | undefined;
  readonly snapshotCount?: number | undefined;
};

/** Files inside the container. */
export type EtcdTlsFiles = {
  readonly certFile: string;
  readonly keyFile: string;
  readonly trustedCAFile?: string | undefined;
  /** Whether the other side must show a certificate of `trustedCAFile`. */
  readonly clientCertAuth: boolean;
};

export type EtcdPeer = { readonly name: string; readonly peerURL: string };

export type EtcdConfig = {
  readonly minor: EtcdMinor;
  /** The incarnation's name. */
  readonly name: string;
  readonly dataDir: string;
  /** What this member tells the others. */
  readonly peerURL: string;
  readonly clientURL: string;
  readonly listen: { readonly peer: string; readonly client: string; readonly metrics: string };
  readonly initialCluster: readonly EtcdPeer[];
  readonly initialClusterState: 'new' | 'existing';
  readonly initialClusterToken: string;
  readonly options?: EtcdOptions | undefined;
  readonly clientTls?: EtcdTlsFiles | undefined;
  readonly peerTls?: EtcdTlsFiles | undefined;
  /**
   * Compare the data with the other members' before serving; on unless set to false. From 3.6 on, members that all start
   * at once wait seven seconds for each other's hashes, which none of them serves yet: 14 s for three, 28 s for five,
   * and nothing learnt.
   */
  readonly initialCorruptCheck?: boolean | undefined;
  /** Only in a one-shot recovery Pod that serves nobody: evicts every other member. */
  readonly forceNewCluster?: boolean | undefined;
};

/**
 * Listening on every address. `0.0.0.0` looks like IPv4 only and is not: etcd listens by Go's network "tcp", which opens
 * an unspecified address of either family as one dual-stack socket. `[::]` would do the same, except on a kernel without
 * IPv6, where it fails to bind and this falls back to IPv4.
 */
export const everyAddress = (port: number, scheme: 'http' | 'https' = 'http'): string => `${scheme}://0.0.0.0:${port}`;

/**
 * The configuration of a member that has joined: it restarts on its own data and refuses to start on a wiped volume,
 * because no other member is named that it could learn a cluster from. The full list with `existing` would start a
 * wiped voter, which then votes without its promises: acknowledged writes get lost.
 */
export const lockedConfig = (config: EtcdConfig): EtcdConfig => ({
  ...config,
  initialCluster: [{ name: config.name, peerURL: config.peerURL }],
  initialClusterState: 'existing',
});

const goDuration = /^(?:\d+(?:\.\d+)?(?:ns|us|µs|ms|s|m|h))+$/;
const bareInteger = /^\d+$/;
/** More hours than a Go duration holds (292 years). etcd would wrap around and compact at once. */
const MOST_HOURS = 2_562_047;

/** One sentence for each value that etcd would refuse or, worse, take for something else; empty when all is well. */
export const optionProblems = (options: EtcdOptions): readonly string[] => {
  const problems: string[] = [];
  const { quotaBackendBytes: quota, snapshotCount, autoCompactionMode: mode, autoCompactionRetention } = options;

  if (quota !== undefined && !(Number.isSafeInteger(quota) && quota >= 0)) {
    problems.push(
      `options.quotaBackendBytes is ${quota}: give a whole number of bytes, 0 for etcd's default (a negative number would switch the quota off)`,
    );
  }
  if (snapshotCount !== undefined && !(Number.isSafeInteger(snapshotCount) && snapshotCount >= 1)) {
    problems.push(`options.snapshotCount is ${snapshotCount}: give a whole number of transactions, at least 1`);
  }
  if (mode !== undefined && mode !== 'periodic' && mode !== 'revision') {
    problems.push(`options.autoCompactionMode is "${String(mode)}": give periodic or revision`);
  }
  if (autoCompactionRetention !== undefined && !bareInteger.test(autoCompactionRetention)) {
    if (!goDuration.test(autoCompactionRetention)) {
      problems.push(
        `options.autoCompactionRetention is "${autoCompactionRetention}": give a duration such as 30m or 1h30m, or a whole number`,
      );
    } else if (mode === 'revision') {
      // etcd starts with this and reads "5m" as 300 thousand million revisions: compaction would silently never run.
      problems.push(
        `options.autoCompactionRetention is "${autoCompactionRetention}" with autoCompactionMode revision: give a whole number of revisions`,
      );
    }
  } else if (
    autoCompactionRetention !== undefined &&
    Number(autoCompactionRetention) > (mode === 'revision' ? Number.MAX_SAFE_INTEGER : MOST_HOURS)
  ) {
    problems.push(
      `options.autoCompactionRetention is "${autoCompactionRetention}": more ${mode === 'revision' ? 'revisions' : 'hours'} than etcd can count`,
    );
  }
  return problems;
};

type Value = string | number | boolean | readonly string[] | { readonly [key: string]: Value };

const transportSecurity = (files: EtcdTlsFiles): Value => ({
  'cert-file': files.certFile,
  'key-file': files.keyFile,
  ...(files.trustedCAFile === undefined ? {} : { 'trusted-ca-file': files.trustedCAFile }),
  'client-cert-auth': files.clientCertAuth,
});

/** A member whose data differs from the others' must not serve. 3.6 turned the setting into a feature gate, 3.7 dropped the old name. */
const initialCorruptCheck = (minor: EtcdMinor): Record<string, Value> =>
  minor === '3.5' ? { 'experimental-initial-corrupt-check': true } : { 'feature-gates': 'InitialCorruptCheck=true' };

const entries = (config: EtcdConfig): Record<string, Value> => {
  const { options = {} } = config;
  return {
    name: config.name,
    'data-dir': config.dataDir,
    'listen-peer-urls': config.listen.peer,
    'listen-client-urls': config.listen.client,
    'listen-metrics-urls': config.listen.metrics,
    'initial-advertise-peer-urls': config.peerURL,
    'advertise-client-urls': config.clientURL,
    'initial-cluster': config.initialCluster
      .map(({ name, peerURL }) => `${name}=${peerURL}`)
      .toSorted()
      .join(','),
    'initial-cluster-state': config.initialClusterState,
    'initial-cluster-token': config.initialClusterToken,
    // Refuses membership changes that would cost quorum, also those made by hand beside us.
    'strict-reconfig-check': true,
    ...(config.initialCorruptCheck === false ? {} : initialCorruptCheck(config.minor)),
    logger: 'zap',
    'log-level': 'info',
    // Not the journal: the last lines on stderr become the Pod's termination message.
    'log-outputs': ['stderr'],
    ...(options.quotaBackendBytes === undefined ? {} : { 'quota-backend-bytes': options.quotaBackendBytes }),
    ...(options.autoCompactionMode === undefined ? {} : { 'auto-compaction-mode': options.autoCompactionMode }),
    ...(options.autoCompactionRetention === undefined
      ? {}
      : { 'auto-compaction-retention': options.autoCompactionRetention }),
    ...(options.snapshotCount === undefined ? {} : { 'snapshot-count': options.snapshotCount }),
    ...(config.clientTls === undefined ? {} : { 'client-transport-security': transportSecurity(config.clientTls) }),
    ...(config.peerTls === undefined ? {} : { 'peer-transport-security': transportSecurity(config.peerTls) }),
    ...(config.forceNewCluster === true ? { 'force-new-cluster': true } : {}),
  };
};

/**
 * The file's text. One key a line, in a fixed order, each value as JSON, which is YAML too: quoting needs no further
 * rule and equal configurations are equal texts. Check {@link optionProblems} first; this writes what it is given.
 */
export const etcdConfigFile = (config: EtcdConfig): string =>
  Object.entries(entries(config))
    .map(([key, value]) => `${key}: ${JSON.stringify(value)}\n`)
    .join('');
