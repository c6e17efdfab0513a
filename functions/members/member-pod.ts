import type {
  Container,
  HTTPGetAction,
  PodSpec,
  Probe,
  ResourceRequirements,
  Volume,
} from 'kubernetes-types/core/v1.js';
import type { EtcdMemberTemplate, EtcdMemberVolumeClaimTemplate } from '../../api/etcdmember.gen.ts';
import {
  ANNOTATIONS,
  CLIENT_TLS_MOUNT,
  CLIENT_TLS_VOLUME,
  CONFIG_FILE,
  CONFIG_MOUNT,
  CONFIG_VOLUME,
  CONTAINER,
  clusterLabels,
  DATA_MOUNT,
  DATA_VOLUME,
  DEFAULT_IMAGE_REPOSITORY,
  LABELS,
  memberSelector,
  PEER_TLS_MOUNT,
  PEER_TLS_VOLUME,
  PORTS,
  peerServiceName,
} from '../../api/names.ts';
import { isEqual, sum } from '../../api/quantity.ts';
import { metadataWith } from '../composing/additional-metadata.ts';
import type { Claim } from '../composing/claim.ts';
import { tlsOf } from '../composing/transport-security.ts';

const DEFAULT_SIZE = '1Gi';
const DEFAULT_RESOURCES: ResourceRequirements = { requests: { cpu: '100m', memory: '128Mi' } };

/** The user and group of every member; a volume's files belong to it. */
const ETCD_ID = 65532;

export const isMemory = (claim: Claim): boolean => claim.spec.storage?.medium === 'Memory';

/** Quantities may be written as numbers, and a number here and a string there would be two different templates. */
const storageSize = (claim: Claim): string => String(claim.spec.storage?.size ?? DEFAULT_SIZE);

/** The member's Pod but for what belongs to one incarnation. Equal claims give equal values: rollouts compare its hash. */
export const memberTemplate = (
  claim: Claim,
  member: string,
  imageRepository: string | undefined,
): EtcdMemberTemplate => ({
  metadata: metadataWith(claim, { ...clusterLabels(claim.name), [LABELS.member]: member }),
  spec: podSpec(claim, imageRepository),
});

const podSpec = (claim: Claim, imageRepository: string | undefined): PodSpec => {
  const { spec } = claim;
  return {
    // Half of the name under which members know each other; the other half, the hostname, is the incarnation's.
    subdomain: peerServiceName(claim.name),
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    terminationGracePeriodSeconds: 30,
    securityContext: {
      runAsNonRoot: true,
      runAsUser: ETCD_ID,
      runAsGroup: ETCD_ID,
      fsGroup: ETCD_ID,
      // Walking a large volume's files at every start would delay a member for nothing.
      fsGroupChangePolicy: 'OnRootMismatch',
      seccompProfile: { type: 'RuntimeDefault' },
    },
    affinity: spec.affinity ?? {
      podAntiAffinity: {
        preferredDuringSchedulingIgnoredDuringExecution: [
          {
            weight: 100,
            podAffinityTerm: {
              topologyKey: 'kubernetes.io/hostname',
              labelSelector: { matchLabels: memberSelector(claim.name) },
            },
          },
        ],
      },
    },
    topologySpreadConstraints: spec.topologySpreadConstraints?.map((constraint) => ({
      // A constraint that selects nothing spreads nothing, and the API server takes it without a word.
      ...(constraint.labelSelector === undefined ? { labelSelector: { matchLabels: memberSelector(claim.name) } } : {}),
      ...constraint,
    })) ?? [
      {
        maxSkew: 1,
        topologyKey: 'topology.kubernetes.io/zone',
        // Never DoNotSchedule by default: a member that waits for a zone is worse than two members in one.
        whenUnsatisfiable: 'ScheduleAnyway',
        labelSelector: { matchLabels: memberSelector(claim.name) },
      },
    ],
    ...(spec.tolerations === undefined ? {} : { tolerations: spec.tolerations }),
    ...(spec.nodeSelector === undefined ? {} : { nodeSelector: spec.nodeSelector }),
    ...(spec.priorityClassName === undefined ? {} : { priorityClassName: spec.priorityClassName }),
    ...(spec.imagePullSecrets === undefined ? {} : { imagePullSecrets: spec.imagePullSecrets }),
    containers: [etcdContainer(claim, imageRepository)],
    volumes: [
      {
        name: CONFIG_VOLUME,
        downwardAPI: {
          items: [
            {
              path: CONFIG_FILE,
              fieldRef: { apiVersion: 'v1', fieldPath: `metadata.annotations['${ANNOTATIONS.config}']` },
            },
          ],
        },
      },
      ...(isMemory(claim)
        ? [{ name: DATA_VOLUME, emptyDir: { medium: 'Memory', sizeLimit: storageSize(claim) } }]
        : []),
      ...certificateVolumes(claim),
    ],
  };
};

const etcdContainer = (claim: Claim, imageRepository: string | undefined): Container => ({
  name: CONTAINER,
  image: `${claim.spec.image?.repository ?? imageRepository ?? DEFAULT_IMAGE_REPOSITORY}:v${claim.version}`,
  imagePullPolicy: 'IfNotPresent',
  // No further arguments and no environment: beside a configuration file etcd ignores both without a word.
  command: ['/usr/local/bin/etcd', `--config-file=${CONFIG_MOUNT}/${CONFIG_FILE}`],
  ports: [
    { name: 'client', containerPort: PORTS.client, protocol: 'TCP' },
    { name: 'peer', containerPort: PORTS.peer, protocol: 'TCP' },
    { name: 'metrics', containerPort: PORTS.metrics, protocol: 'TCP' },
  ],
  resources: resources(claim),
  ...probes(claim.version),
  securityContext: {
    allowPrivilegeEscalation: false,
    capabilities: { drop: ['ALL'] },
    privileged: false,
    readOnlyRootFilesystem: true,
  },
  // Without log access, this is where the runtime reads why etcd ended.
  terminationMessagePolicy: 'FallbackToLogsOnError',
  volumeMounts: [
    { name: CONFIG_VOLUME, mountPath: CONFIG_MOUNT, readOnly: true },
    { name: DATA_VOLUME, mountPath: DATA_MOUNT },
    ...(claim.spec.tls?.client === undefined
      ? []
      : [{ name: CLIENT_TLS_VOLUME, mountPath: CLIENT_TLS_MOUNT, readOnly: true }]),
    ...(claim.spec.tls?.peer === undefined
      ? []
      : [{ name: PEER_TLS_VOLUME, mountPath: PEER_TLS_MOUNT, readOnly: true }]),
  ],
});

/**
 * Whole directories and never single files: the kubelet brings a renewed Secret to the former only. Which authorities a
 * member trusts is not taken from here, since etcd reads that at its start alone; the runtime sees to it.
 */
const certificateVolumes = (claim: Claim): Volume[] => {
  const { client, peer } = tlsOf(claim) ?? {};
  // Read by the group, which is etcd's, and by nobody else.
  const volume = (name: string, secretName: string): Volume => ({ name, secret: { secretName, defaultMode: 0o440 } });
  return [
    ...(client === undefined ? [] : [volume(CLIENT_TLS_VOLUME, client.serverSecretName)]),
    ...(peer === undefined ? [] : [volume(PEER_TLS_VOLUME, peer.secretName)]),
  ];
};

/**
 * A tmpfs is charged to the container that writes it. Without room for it in the limit, a database that grows into the
 * space it was promised gets etcd killed. The request follows only where it equalled the limit: then the user asked for
 * the Guaranteed class, and moving one without the other would silently take it away.
 */
const resources = (claim: Claim): ResourceRequirements => {
  const asked = claim.spec.resources ?? DEFAULT_RESOURCES;
  const limit = asked.limits?.memory;
  if (!isMemory(claim) || limit === undefined) return asked;
  const raised = sum(limit, storageSize(claim));
  // Not a quantity: the API server will say so in its own words when the Pod is made.
  if (raised === undefined) return asked;
  const request = asked.requests?.memory;
  return {
    ...asked,
    limits: { ...asked.limits, memory: raised },
    ...(request !== undefined && isEqual(request, limit) ? { requests: { ...asked.requests, memory: raised } } : {}),
  };
};

/**
 * `/health` counts alarms: one member out of space would make every member unready and empty the Service. So `/livez` and
 * `/readyz`, or what comes nearest to them in versions that lack them.
 */
const probes = (version: string): Pick<Container, 'startupProbe' | 'livenessProbe' | 'readinessProbe'> => {
  const has = hasLivez(version);
  const alive = has ? '/livez' : '/health?serializable=true&exclude=NOSPACE&exclude=CORRUPT';
  const ready = has ? '/readyz' : alive;
  return {
    // Replaying a large log or waiting for names takes minutes, and killing etcd meanwhile starts it over.
    startupProbe: { ...probe(alive), periodSeconds: 1, timeoutSeconds: 2, failureThreshold: 600 },
    livenessProbe: { ...probe(alive), periodSeconds: 10, timeoutSeconds: 5, failureThreshold: 6 },
    // Every second, because a member's first answer is what a forming cluster waits for; five failures, so that an
    // election takes no member out of the Service.
    readinessProbe: { ...probe(ready), periodSeconds: 1, timeoutSeconds: 2, failureThreshold: 5 },
  };
};

const probe = (path: string): Probe => ({
  httpGet: { path, port: PORTS.metrics, scheme: 'HTTP' } satisfies HTTPGetAction,
  successThreshold: 1,
});

const hasLivez = (version: string): boolean => {
  const [major = 0, minor = 0, patch = 0] = version.split('.').map(Number);
  return major > 3 || (major === 3 && (minor > 5 || (minor === 5 && patch >= 11)));
};

/** The member's volume but for its name; undefined for a memory member. */
export const volumeClaimTemplate = (claim: Claim, member: string): EtcdMemberVolumeClaimTemplate | undefined => {
  if (isMemory(claim)) return undefined;
  const storageClassName = claim.spec.storage?.storageClassName;
  return {
    metadata: metadataWith(claim, { ...clusterLabels(claim.name), [LABELS.member]: member }),
    spec: {
      accessModes: ['ReadWriteOnce'],
      resources: { requests: { storage: storageSize(claim) } },
      // The empty name is a name: it asks for no dynamic provisioning.
      ...(storageClassName === undefined ? {} : { storageClassName }),
    },
  };
};
