/**
 * Fills the volume of a new incarnation before its member starts: a one-shot Pod that takes what a source holds, makes a
 * snapshot of it where it is none yet, and restores that under the new name. Nothing is ever written to the source.
 */
import type { Container, Pod, ResourceRequirements, Volume, VolumeMount } from 'kubernetes-types/core/v1.js';
import type { EtcdMemberSpec } from '../../api/etcdmember.gen.ts';
import {
  ANNOTATIONS,
  CONTAINER,
  clusterLabels,
  DATA_MOUNT,
  DATA_VOLUME,
  incarnationName,
  LABELS,
  peerURL,
  SEED_ROLE,
} from '../../api/names.ts';
import { controlledBy } from './member-pod.ts';
import { type StoreLocation, storeAccess } from './snapshots/store-access.ts';

/**
 * Where the agent is in the runtime's image. What streams through it is garbage at once, and V8 collects that when it is some
 * multiple of the nursery: a small one keeps memory low and in the processor's caches, so it is faster as well.
 */
export const AGENT = ['/usr/local/bin/node', '--max-semi-space-size=2', '/opt/etcd-operator/lib/agent.mjs'] as const;

/**
 * Added to the revision of what is restored. Writes that were lost had revisions too, and somebody may have seen them: a
 * revision that is given a second time makes watchers miss events and caches keep what never was. This many are never lost.
 */
export const REVISION_BUMP = 1_000_000_000n;

/**
 * What to add to data that ends at `revision` where `known` is the last revision that anybody is known to have seen: an old
 * snapshot of a busy cluster may be further behind than {@link REVISION_BUMP}.
 */
export const bumpOver = (known: bigint | undefined, revision: bigint): bigint =>
  REVISION_BUMP + (known !== undefined && known > revision ? known - revision : 0n);

export type SeedSource =
  | {
      readonly from: 'survivor';
      /** Name of the survivor's volume, and of the data directory on it. */
      readonly volume: string;
      /** The cluster that its data must be of. */
      readonly clusterID: string;
    }
  | {
      readonly from: 'snapshot';
      readonly location: StoreLocation;
      /** Whether etcd opens the data as it was, before it is restored under the new identity, and what it finds is compared. */
      readonly opened?: true | undefined;
      /** Of the stored bytes, where somebody recorded it beside the manifest that lies with them. */
      readonly sha256?: string | undefined;
    };

export type Seeding = {
  readonly namespace: string;
  readonly member: string;
  readonly spec: EtcdMemberSpec;
  /** Token of the incarnation whose volume is filled. */
  readonly token: string;
  /** etcd's initial-cluster-token of the cluster that begins here; a new one, so that its ID is new. */
  readonly clusterToken: string;
  readonly source: SeedSource;
  /** See {@link bumpOver}. */
  readonly bump: bigint;
  /** Secret with root's password, where etcd asks even the operator to log in. */
  readonly credentials: string | undefined;
  readonly agentImage: string;
  readonly clusterUID: string | undefined;
};

/** The environment variable in which the agent finds what to restore, as JSON. No secret is in it. */
export const RESTORE_ORDER = 'ETCD_OPERATOR_RESTORE';

const SEED_SUFFIX = '-seed';

/** The Pod that fills the volume of an incarnation of this name. */
export const seedOf = (incarnation: string): string => `${incarnation}${SEED_SUFFIX}`;

export const seedPodName = (member: string, token: string): string => seedOf(incarnationName(member, token));

/** By its name: a token is longer. Of a Pod that fills a volume nobody hears, so it takes no write and no vote. */
export const isSeedPod = ({ name }: { readonly name: string }): boolean => name.endsWith(SEED_SUFFIX);

/** All on the new volume, beside the data directory that they become. */
const WORK = `${DATA_MOUNT}/recovery`;
const SOURCE_MOUNT = '/source';
const SOURCE_VOLUME = 'source';
/** Inside the Pod's own network, which no Service and no other Pod reaches. */
const LOCAL_CLIENT = 'http://127.0.0.1:2379';
const LOCAL_PEER = 'http://127.0.0.1:2380';

const AGENT_RESOURCES: ResourceRequirements = {
  requests: { cpu: '50m', memory: '64Mi' },
  // Buffers wait for their collection: 170 MiB were seen with a database of any size, encrypted or not.
  limits: { memory: '512Mi' },
};

type Agent = (step: string, args: readonly string[], mounts: Container['volumeMounts']) => Container;
type Server = (step: string, command: readonly string[], mounts?: VolumeMount[]) => Container;
type Filled = { readonly steps: readonly Container[]; readonly volumes: readonly Volume[] };

const DATA = { name: DATA_VOLUME, mountPath: DATA_MOUNT };

const rootLogin = (credentials: string): NonNullable<Container['env']> => [
  { name: 'ETCD_USERNAME', value: 'root' },
  { name: 'ETCD_PASSWORD', valueFrom: { secretKeyRef: { name: credentials, key: 'password' } } },
];

/** The data may be from before root's password was changed. */
const formerRootLogin = (credentials: string): NonNullable<Container['env']> => [
  ...rootLogin(credentials),
  {
    name: 'ETCD_FORMER_PASSWORDS',
    valueFrom: { secretKeyRef: { name: credentials, key: 'former', optional: true } },
  },
];

const fromSurvivor = (
  { spec, credentials }: Seeding,
  source: Extract<SeedSource, { from: 'survivor' }>,
  { agent, server }: Builders,
): Filled => {
  // The mount, not the claim: a volume attached read-only cannot replay the journal of its file system.
  const old = { name: SOURCE_VOLUME, mountPath: SOURCE_MOUNT, readOnly: true };
  const save = agent('save', ['--endpoint', LOCAL_CLIENT, '--work', WORK, '--cluster-id', source.clusterID], [DATA]);
  const quota = spec.options?.quotaBackendBytes;
  return {
    steps: [
      agent('copy', ['--from', `${SOURCE_MOUNT}/${source.volume}`, '--work', WORK], [old, DATA]),
      {
        // Runs on the copy, beside the steps that follow. It throws every other member out of its copy: that is why
        // it hears nobody but this Pod, and ends with it.
        ...server('survivor', [
          '/usr/local/bin/etcd',
          `--name=${source.volume}`,
          `--data-dir=${WORK}/copy`,
          '--force-new-cluster',
          `--listen-client-urls=${LOCAL_CLIENT}`,
          `--advertise-client-urls=${LOCAL_CLIENT}`,
          `--listen-peer-urls=${LOCAL_PEER}`,
          `--initial-advertise-peer-urls=${LOCAL_PEER}`,
          `--initial-cluster=${source.volume}=${LOCAL_PEER}`,
          // Without it, a database above the default would raise an alarm that the restored one would inherit.
          ...(quota === undefined ? [] : [`--quota-backend-bytes=${quota}`]),
        ]),
        restartPolicy: 'Always',
      },
      credentials === undefined ? save : { ...save, env: rootLogin(credentials) },
    ],
    volumes: [{ name: SOURCE_VOLUME, persistentVolumeClaim: { claimName: source.volume } }],
  };
};

/**
 * The data as it was, under a name that is nobody's: with the revisions of the snapshot, so that what etcd says of them can be
 * compared with what it said when the snapshot was taken.
 */
const openedData = (
  { spec, credentials }: Pick<Seeding, 'spec'> & Partial<Pick<Seeding, 'credentials'>>,
  { agent, server }: Builders,
): readonly Container[] => {
  const quota = spec.options?.quotaBackendBytes;
  return [
    server('unpack', [
      '/usr/local/bin/etcdutl',
      'snapshot',
      'restore',
      `${WORK}/snapshot.db`,
      `--data-dir=${WORK}/opened`,
      '--name=opened',
      `--initial-cluster=opened=${LOCAL_PEER}`,
      `--initial-advertise-peer-urls=${LOCAL_PEER}`,
    ]),
    {
      ...server('opened', [
        '/usr/local/bin/etcd',
        '--name=opened',
        `--data-dir=${WORK}/opened`,
        `--listen-client-urls=${LOCAL_CLIENT}`,
        `--advertise-client-urls=${LOCAL_CLIENT}`,
        `--listen-peer-urls=${LOCAL_PEER}`,
        `--initial-advertise-peer-urls=${LOCAL_PEER}`,
        `--initial-cluster=opened=${LOCAL_PEER}`,
        ...(quota === undefined ? [] : [`--quota-backend-bytes=${quota}`]),
      ]),
      restartPolicy: 'Always',
    },
    {
      ...agent('check', ['--endpoint', LOCAL_CLIENT, '--work', WORK], [DATA]),
      ...(credentials === undefined ? {} : { env: formerRootLogin(credentials) }),
    },
  ];
};

const fromSnapshot = (
  of: Pick<Seeding, 'spec'> & Partial<Pick<Seeding, 'credentials'>>,
  source: Extract<SeedSource, { from: 'snapshot' }>,
  { agent, server }: Builders,
  work: string = WORK,
  on: VolumeMount = DATA,
): Filled => {
  const store = storeAccess(source.location, true);
  const { location, opened, sha256 } = source;
  const order = {
    source: location,
    version: of.spec.version,
    ...(opened === undefined ? {} : { opened }),
    ...(sha256 === undefined ? {} : { sha256 }),
  };
  return {
    steps: [
      {
        ...agent('fetch', ['--work', work], [on, ...store.mounts]),
        env: [{ name: RESTORE_ORDER, value: JSON.stringify(order) }, ...store.env],
      },
      ...(opened === true ? openedData(of, { agent, server }) : []),
    ],
    volumes: store.volumes,
  };
};

type Builders = { readonly agent: Agent; readonly server: Server };

const builders = (
  { spec, agentImage }: Pick<Seeding, 'spec' | 'agentImage'>,
  agentResources: ResourceRequirements,
): Builders => {
  const etcd = spec.template.spec.containers.find((container) => container.name === CONTAINER);
  const { securityContext } = etcd ?? {};
  const common = {
    imagePullPolicy: 'IfNotPresent',
    ...(securityContext === undefined ? {} : { securityContext }),
    terminationMessagePolicy: 'FallbackToLogsOnError',
  } as const;
  return {
    agent: (step, args, mounts) => ({
      name: step,
      image: agentImage,
      command: [...AGENT, step, ...args],
      resources: agentResources,
      ...common,
      volumeMounts: mounts ?? [],
    }),
    server: (step, command, mounts = [DATA]) => ({
      name: step,
      ...(etcd?.image === undefined ? {} : { image: etcd.image }),
      command: [...command],
      ...(etcd?.resources === undefined ? {} : { resources: etcd.resources }),
      ...common,
      volumeMounts: mounts,
    }),
  };
};

type Restored = Pick<Seeding, 'namespace' | 'member' | 'spec' | 'token' | 'clusterToken' | 'bump'>;

/** etcd's own program, of the version that is to start on what it makes in `work`. */
const restoring = ({ namespace, member, spec, token, clusterToken, bump }: Restored, work: string): string[] => {
  const name = incarnationName(member, token);
  const url = peerURL(spec.clusterName, namespace, name, spec.tls?.peer === undefined ? 'http' : 'https');
  return [
    '/usr/local/bin/etcdutl',
    'snapshot',
    'restore',
    `${work}/snapshot.db`,
    `--data-dir=${work}/restored`,
    `--name=${name}`,
    `--initial-cluster=${name}=${url}`,
    `--initial-advertise-peer-urls=${url}`,
    `--initial-cluster-token=${clusterToken}`,
    `--bump-revision=${bump}`,
    '--mark-compacted',
  ];
};

export const seedPod = (of: Seeding): Pod => {
  const { spec, member, token, namespace, source } = of;
  const { metadata, spec: pod } = spec.template;
  const name = incarnationName(member, token);
  const { agent, server } = builders(of, AGENT_RESOURCES);
  const account = source.from === 'snapshot' ? source.location.s3?.serviceAccountName : undefined;
  const filled =
    source.from === 'survivor'
      ? fromSurvivor(of, source, { agent, server })
      : fromSnapshot(of, source, { agent, server });
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name: seedPodName(member, token),
      namespace,
      labels: {
        ...metadata.labels,
        ...clusterLabels(spec.clusterName),
        // In no Service, and not the claim's Pod for /scale: those select the name "etcd".
        'app.kubernetes.io/name': 'etcd-seed',
        [LABELS.member]: member,
        [LABELS.role]: SEED_ROLE,
      },
      annotations: { [ANNOTATIONS.clusterUID]: of.clusterUID ?? '' },
      ...(of.clusterUID === undefined ? {} : { ownerReferences: [controlledBy(spec.clusterName, of.clusterUID)] }),
    },
    spec: {
      // Where a store knows Pods by their account. Whoever vouches for it mounts what is needed; the API's own token is not.
      ...(account === undefined ? {} : { serviceAccountName: account }),
      // Begun again from the first step by another Pod: etcdutl refuses a directory that an earlier try has left.
      restartPolicy: 'Never',
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      terminationGracePeriodSeconds: 10,
      ...(pod.securityContext === undefined ? {} : { securityContext: pod.securityContext }),
      ...(pod.nodeSelector === undefined ? {} : { nodeSelector: pod.nodeSelector }),
      ...(pod.tolerations === undefined ? {} : { tolerations: pod.tolerations }),
      ...(pod.priorityClassName === undefined ? {} : { priorityClassName: pod.priorityClassName }),
      ...(pod.imagePullSecrets === undefined ? {} : { imagePullSecrets: pod.imagePullSecrets }),
      initContainers: [...filled.steps, server('restore', restoring(of, WORK))],
      containers: [agent('report', ['--work', WORK, '--to', `${DATA_MOUNT}/${name}`], [DATA])],
      volumes: [
        ...filled.volumes,
        // Of a member in memory nothing stays: its Pod does the same again, and here is found out whether it will succeed.
        spec.volumeClaimTemplate === undefined
          ? { name: DATA_VOLUME, emptyDir: {} }
          : { name: DATA_VOLUME, persistentVolumeClaim: { claimName: name } },
      ],
    },
  };
};

/** How a member in memory gets what it starts on: its data lives in its Pod, so there it has to be made. */
export type MemoryFill = {
  readonly location: StoreLocation;
  readonly sha256: string | undefined;
  readonly clusterToken: string;
  readonly bump: bigint;
};

export const PLACE_STEP = 'place';
const MEMORY_WORK = '/recovery';
const MEMORY_WORK_VOLUME = 'recovery';

/**
 * Steps before etcd in the Pod of a member in memory. They work on the node's disk, which outlives a restart of the node where
 * memory does not: there is noted that the data was put in place once, since a second time would bring back old data under an
 * identity that has voted.
 */
export const memoryFill = (
  of: Restored & Pick<Seeding, 'agentImage'> & Pick<MemoryFill, 'location' | 'sha256'>,
): { readonly steps: readonly Container[]; readonly volumes: readonly Volume[] } => {
  const { spec, member, token, location, sha256 } = of;
  const work = { name: MEMORY_WORK_VOLUME, mountPath: MEMORY_WORK };
  const etcd = spec.template.spec.containers.find(({ name }) => name === CONTAINER);
  // What a step writes into memory counts as its own.
  const { agent, server } = builders(of, etcd?.resources ?? AGENT_RESOURCES);
  const fetched = fromSnapshot(of, { from: 'snapshot', location, sha256 }, { agent, server }, MEMORY_WORK, work);
  const to = `${DATA_MOUNT}/${incarnationName(member, token)}`;
  return {
    steps: [
      ...fetched.steps,
      server('restore', restoring(of, MEMORY_WORK), [work]),
      agent(PLACE_STEP, ['--work', MEMORY_WORK, '--to', to], [DATA, work]),
    ],
    volumes: [...fetched.volumes, { name: MEMORY_WORK_VOLUME, emptyDir: {} }],
  };
};

/** What the agent found and saved; the last words of a seeding Pod that has done its work. */
export type SeedReport = {
  /** Of the survivor's data, everything it had written to its log included. */
  readonly revision: bigint;
  /** SHA-256 of the snapshot, as verified when it was saved. */
  readonly sha256: string;
  readonly snapshotBytes: number;
  /** RFC 3339, of a stored snapshot. */
  readonly takenAt?: string;
  /** Only where etcd has opened the data. */
  readonly opened?:
    | {
        readonly keys: bigint;
        readonly etcdVersion: string | undefined;
        readonly clusterID: string | undefined;
        readonly hash: string | undefined;
      }
    | undefined;
};

const textOf = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined);

/** Undefined where these are not the words of an agent that has done its work. */
export const seedReport = (message: string): SeedReport | undefined => {
  let said: unknown;
  try {
    said = JSON.parse(message);
  } catch {
    return undefined;
  }
  if (typeof said !== 'object' || said === null) return undefined;
  const { revision, sha256, snapshotBytes, takenAt, keys, version, clusterID, hash } = said as Record<string, unknown>;
  const opened =
    typeof keys === 'string' && /^\d+$/.test(keys)
      ? { keys: BigInt(keys), etcdVersion: textOf(version), clusterID: textOf(clusterID), hash: textOf(hash) }
      : undefined;
  return typeof revision === 'string' &&
    /^\d+$/.test(revision) &&
    typeof sha256 === 'string' &&
    /^[0-9a-f]{64}$/.test(sha256) &&
    typeof snapshotBytes === 'number'
    ? {
        revision: BigInt(revision),
        sha256,
        snapshotBytes,
        ...(typeof takenAt === 'string' ? { takenAt } : {}),
        ...(opened === undefined ? {} : { opened }),
      }
    : undefined;
};
