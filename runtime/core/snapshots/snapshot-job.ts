/** The Job that takes one snapshot: the runtime's own image, one container. */
import type { Job } from 'kubernetes-types/batch/v1.js';
import type { EnvVar, Volume, VolumeMount } from 'kubernetes-types/core/v1.js';
import type { EtcdSnapshotSpec } from '../../../api/etcdsnapshot.gen.ts';
import type { EtcdSnapshotScheduleSpec } from '../../../api/etcdsnapshotschedule.gen.ts';
import { GROUP } from '../../../api/names.ts';
import { AGENT } from '../seeding.ts';
import { agentJob, RESTRICTED_CONTAINER } from './agent-job.ts';
import type { MemberAccess, SeenSource } from './snapshot-plan.ts';
import { storeAccess } from './store-access.ts';

/** On an EtcdSnapshot: name of the EtcdSnapshotSchedule that made it. */
export const SCHEDULE_LABEL = `${GROUP}/snapshot-schedule`;

export const AGENT_PORT = 8080;

/** `server/ca.crt`, `client/tls.crt` and `client/tls.key`, each where the cluster has it. */
export const MEMBER_TLS_MOUNT = '/etc/etcd-operator/members';
export const ROOT_PASSWORD_VARIABLE = 'ETCD_PASSWORD';
const TRIES_AFTER_THE_FIRST = 3;
/** Long enough that a runtime which was away finds the result; after that another Job would find the object. */
const KEPT_SECONDS = 600;

/** What the agent is told, as JSON in its environment. No secret is in it. */
export type SnapshotAgentOrder = {
  readonly snapshot: { readonly name: string; readonly uid: string };
  readonly cluster: {
    readonly namespace: string;
    readonly name: string;
    readonly uid: string;
    /** etcd's cluster ID: what answers with another one is not this cluster. */
    readonly clusterID: string;
  };
  readonly members: readonly SeenSource[];
  readonly destination: EtcdSnapshotSpec['destination'];
  /** The schedule it is taken for, with what that keeps. */
  readonly schedule?: { readonly name: string; readonly retention: EtcdSnapshotScheduleSpec['retention'] };
};

export const ORDER_VARIABLE = 'ETCD_OPERATOR_SNAPSHOT';

export const snapshotJobName = (snapshot: string): string => `${snapshot}-snap`;

export type SnapshotJobOf = {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly spec: EtcdSnapshotSpec;
  readonly sources: readonly SeenSource[];
  readonly clusterID: string;
  readonly clusterUID: string;
  readonly access: MemberAccess;
  readonly schedule?: SnapshotAgentOrder['schedule'];
  readonly agentImage: string;
  readonly imagePullSecrets?: readonly { readonly name: string }[];
};

export const snapshotJob = (of: SnapshotJobOf): Job => {
  const store = storeAccess(of.spec.destination, false);
  const order: SnapshotAgentOrder = {
    snapshot: { name: of.name, uid: of.uid },
    cluster: { namespace: of.namespace, name: of.spec.clusterRef.name, uid: of.clusterUID, clusterID: of.clusterID },
    members: of.sources,
    destination: of.spec.destination,
    ...(of.schedule === undefined ? {} : { schedule: of.schedule }),
  };
  const { caSecret, clientSecret, rootSecret } = of.access;
  const env: EnvVar[] = [
    { name: ORDER_VARIABLE, value: JSON.stringify(order) },
    ...store.env,
    ...(rootSecret === undefined
      ? []
      : [{ name: ROOT_PASSWORD_VARIABLE, valueFrom: { secretKeyRef: { name: rootSecret, key: 'password' } } }]),
  ];
  const memberTls = [
    ...(caSecret === undefined ? [] : [{ folder: 'server', secretName: caSecret, keys: ['ca.crt'] }]),
    ...(clientSecret === undefined
      ? []
      : [{ folder: 'client', secretName: clientSecret, keys: ['tls.crt', 'tls.key'] }]),
  ];
  const mounts: VolumeMount[] = [
    ...memberTls.map(({ folder }) => ({
      name: `members-${folder}`,
      mountPath: `${MEMBER_TLS_MOUNT}/${folder}`,
      readOnly: true,
    })),
    ...store.mounts,
  ];
  const volumes: Volume[] = [
    ...memberTls.map(({ folder, secretName, keys }) => ({
      name: `members-${folder}`,
      secret: { secretName, items: keys.map((key) => ({ key, path: key })) },
    })),
    ...store.volumes,
  ];
  return agentJob({
    name: snapshotJobName(of.name),
    snapshot: of,
    cluster: of.spec.clusterRef.name,
    appName: 'etcd-snapshot',
    triesAfterTheFirst: TRIES_AFTER_THE_FIRST,
    keptSeconds: KEPT_SECONDS,
    judges: ['snapshot'],
    serviceAccountName: of.spec.destination.s3?.serviceAccountName,
    pod: {
      // A minute, where Kubernetes would wait five before it gives up a node that does not answer.
      tolerations: ['not-ready', 'unreachable'].map((taint) => ({
        key: `node.kubernetes.io/${taint}`,
        operator: 'Exists',
        effect: 'NoExecute',
        tolerationSeconds: 60,
      })),
      ...(of.imagePullSecrets === undefined ? {} : { imagePullSecrets: [...of.imagePullSecrets] }),
      containers: [
        {
          name: 'snapshot',
          image: of.agentImage,
          imagePullPolicy: 'IfNotPresent',
          command: [...AGENT, 'snapshot'],
          env,
          ports: [{ name: 'progress', containerPort: AGENT_PORT, protocol: 'TCP' }],
          resources: { requests: { cpu: '50m', memory: '128Mi' }, limits: { memory: '512Mi' } },
          // Only what is written here for us; of a crash the log's end.
          terminationMessagePolicy: 'FallbackToLogsOnError',
          securityContext: RESTRICTED_CONTAINER,
          ...(mounts.length === 0 ? {} : { volumeMounts: mounts }),
        },
      ],
      ...(volumes.length === 0 ? {} : { volumes }),
    },
  });
};
