/**
 * The Job that proves one snapshot: it is fetched, restored by `etcdutl`, served by an etcd that nobody but this Pod reaches,
 * and compared with its manifest. All of it lies on a volume that goes with the Pod.
 */
import type { Job } from 'kubernetes-types/batch/v1.js';
import type { Container, PodSpec, Volume } from 'kubernetes-types/core/v1.js';
import { ANNOTATIONS, DEFAULT_IMAGE_REPOSITORY } from '../../../api/names.ts';
import { AGENT } from '../seeding.ts';
import { agentJob, RESTRICTED_CONTAINER } from './agent-job.ts';
import { type StoreLocation, storeAccess } from './store-access.ts';

/** What the agent is told, as JSON in its environment. No secret is in it. */
export type ProofOrder = {
  /** The exact object. */
  readonly source: StoreLocation;
  readonly snapshotUID: string;
  /** As recorded in Kubernetes: a manifest that was replaced with its database does not speak for itself. */
  readonly sha256: string;
};

export const PROOF_ORDER = 'ETCD_OPERATOR_PROOF';

/** The names of the containers, by which a Pod's status tells how far it came. */
export const FETCH = 'fetch';
export const RESTORE = 'restore';
export const SERVE = 'etcd';
export const COMPARE = 'compare';

const VOLUME = 'proof';
const MOUNT = '/proof';
const WORK = `${MOUNT}/work`;
/** In the Pod's own network namespace; no port of it is open to others. */
const CLIENT = 'http://127.0.0.1:2379';
const PEER = 'http://127.0.0.1:2380';
/** Signs the token by which the agent is root, see {@link proofJob}. */
export const TOKEN_KEY = 'token.key';

const TRIES_AFTER_THE_FIRST = 2;
/** It is deleted as soon as its result is recorded; this is for a runtime that never comes back. */
const KEPT_SECONDS = 3_600;

const GIB = 1n << 30n;
/** What etcd adds to the two copies: its log, which it lays out in advance, and the pages of a first few writes. */
const SPARE = 256n << 20n;

/** Of the volume: the snapshot, what is restored from it, and what etcd adds. Whole GiB, since some storage knows no less. */
export const proofVolumeGiB = (snapshotBytes: bigint): bigint => (2n * snapshotBytes + SPARE + GIB - 1n) / GIB;

/** Names at most 58 characters long become one that a Job may have. */
export const proofJobName = (snapshot: string): string => `${snapshot}-test`;

/** What the members of the cluster run with, as far as it matters to a Pod that runs the same etcd. */
export type ProofPlacement = Pick<PodSpec, 'nodeSelector' | 'tolerations' | 'imagePullSecrets'> & {
  /** The members' image, tag included; absent where there is no member any more. */
  readonly image?: string | undefined;
  readonly imageVersion?: string | undefined;
  readonly storageClassName?: string | undefined;
  /** Members in memory say nothing about where disk is to be had. */
  readonly inMemory: boolean;
  readonly memoryLimit?: string | undefined;
};

export type ProofJobOf = {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly cluster: string;
  /** The value of the annotation that asks for it. */
  readonly request: string;
  readonly source: StoreLocation;
  readonly sha256: string;
  readonly sizeBytes: bigint;
  /** That it was taken from, and that opens it. */
  readonly etcdVersion: string;
  readonly placement: ProofPlacement;
  readonly agentImage: string;
};

/** The members' own image of another version: what they are pulled from can be pulled from here. */
export const etcdImage = ({ image, imageVersion }: ProofPlacement, version: string): string => {
  if (image === undefined) return `${DEFAULT_IMAGE_REPOSITORY}:v${version}`;
  const tag = `:v${imageVersion}`;
  return image.endsWith(tag) ? `${image.slice(0, -tag.length)}:v${version}` : image;
};

const volume = ({ placement, sizeBytes }: ProofJobOf): Volume => {
  const size = `${proofVolumeGiB(sizeBytes)}Gi`;
  if (placement.inMemory) return { name: VOLUME, emptyDir: { sizeLimit: size } };
  return {
    name: VOLUME,
    ephemeral: {
      volumeClaimTemplate: {
        spec: {
          accessModes: ['ReadWriteOnce'],
          ...(placement.storageClassName === undefined ? {} : { storageClassName: placement.storageClassName }),
          resources: { requests: { storage: size } },
        },
      },
    },
  };
};

/**
 * Data of a cluster with passwords is served with them, and which they were at that time nobody may know any more. So this
 * etcd takes tokens that are signed with a key which the first step draws, and the agent signs itself one for root.
 */
export const proofJob = (of: ProofJobOf): Job => {
  const store = storeAccess(of.source, true);
  const order: ProofOrder = { source: of.source, snapshotUID: of.uid, sha256: of.sha256 };
  const work = { name: VOLUME, mountPath: MOUNT };
  const agent = (name: string, step: string): Container => ({
    name,
    image: of.agentImage,
    imagePullPolicy: 'IfNotPresent',
    command: [...AGENT, step, '--work', WORK],
    resources: { requests: { cpu: '50m', memory: '96Mi' }, limits: { memory: '512Mi' } },
    terminationMessagePolicy: 'FallbackToLogsOnError',
    securityContext: RESTRICTED_CONTAINER,
    volumeMounts: [work],
  });
  const image = etcdImage(of.placement, of.etcdVersion);
  const { memoryLimit } = of.placement;
  const etcd = (name: string, command: readonly string[]): Container => ({
    name,
    image,
    imagePullPolicy: 'IfNotPresent',
    command: [...command],
    resources: {
      requests: { cpu: '100m', memory: '128Mi' },
      ...(memoryLimit === undefined ? {} : { limits: { memory: memoryLimit } }),
    },
    terminationMessagePolicy: 'FallbackToLogsOnError',
    securityContext: RESTRICTED_CONTAINER,
    volumeMounts: [work],
  });
  const fetch = agent(FETCH, 'proof-fetch');
  const { nodeSelector, tolerations, imagePullSecrets } = of.placement;
  return agentJob({
    name: proofJobName(of.name),
    snapshot: of,
    cluster: of.cluster,
    // Neither this nor any other label is one that a Service of the cluster selects.
    appName: 'etcd-proof',
    annotations: { [ANNOTATIONS.prove]: of.request },
    triesAfterTheFirst: TRIES_AFTER_THE_FIRST,
    keptSeconds: KEPT_SECONDS,
    judges: [FETCH, COMPARE],
    serviceAccountName: of.source.s3?.serviceAccountName,
    pod: {
      terminationGracePeriodSeconds: 10,
      ...(imagePullSecrets === undefined ? {} : { imagePullSecrets }),
      ...(nodeSelector === undefined ? {} : { nodeSelector }),
      ...(tolerations === undefined ? {} : { tolerations }),
      initContainers: [
        {
          ...fetch,
          env: [{ name: PROOF_ORDER, value: JSON.stringify(order) }, ...store.env],
          volumeMounts: [work, ...store.mounts],
        },
        // As it was: no revision is added, since the hash speaks of those that the snapshot has.
        etcd(RESTORE, [
          '/usr/local/bin/etcdutl',
          'snapshot',
          'restore',
          `${WORK}/snapshot.db`,
          `--data-dir=${WORK}/restored`,
          '--name=proof',
          `--initial-cluster=proof=${PEER}`,
          `--initial-advertise-peer-urls=${PEER}`,
          '--initial-cluster-token=proof',
        ]),
        {
          ...etcd(SERVE, [
            '/usr/local/bin/etcd',
            '--name=proof',
            `--data-dir=${WORK}/restored`,
            `--listen-client-urls=${CLIENT}`,
            `--advertise-client-urls=${CLIENT}`,
            `--listen-peer-urls=${PEER}`,
            `--initial-advertise-peer-urls=${PEER}`,
            `--initial-cluster=proof=${PEER}`,
            '--initial-cluster-token=proof',
            `--auth-token=jwt,priv-key=${WORK}/${TOKEN_KEY},sign-method=HS256`,
            // No quota: one that is exceeded would be told as a fault of the snapshot.
            '--quota-backend-bytes=-1',
            // Nothing here is worth a disk's flush.
            '--unsafe-no-fsync',
            '--log-level=warn',
          ]),
          restartPolicy: 'Always',
        },
      ],
      containers: [
        {
          ...agent(COMPARE, 'proof-compare'),
          command: [...AGENT, 'proof-compare', '--work', WORK, '--endpoint', CLIENT],
        },
      ],
      volumes: [volume(of), ...store.volumes],
    },
  });
};
