/**
 * The frame of the Jobs that take and prove snapshots: it goes with its EtcdSnapshot, its Pods are as the restricted Pod security
 * standard has them, and they have no rights in Kubernetes.
 */
import type { Job } from 'kubernetes-types/batch/v1.js';
import type { Container, PodSpec } from 'kubernetes-types/core/v1.js';
import { API_VERSION, GROUP } from '../../../api/names.ts';

/** On the Job and its Pod: name of the EtcdSnapshot. Never a label that a Service of the cluster selects. */
export const SNAPSHOT_LABEL = `${GROUP}/snapshot`;
/** On the Job: name of the EtcdCluster, under a key of its own for the same reason. */
export const SNAPSHOT_OF_LABEL = `${GROUP}/snapshot-of`;

/** Exit code of a failure that another try would only repeat. */
export const HOPELESS = 3;

/** A stalled stream ends much sooner, by the agent's own deadlines; this is for what nobody thought of. */
const LONGEST_SECONDS = 4 * 3_600;

export type AgentJobOf = {
  /** Of the Job. */
  readonly name: string;
  readonly snapshot: { readonly namespace: string; readonly name: string; readonly uid: string };
  /** Name of the EtcdCluster that the snapshot is of. */
  readonly cluster: string;
  /** What its Pods are, under the well-known label for it. */
  readonly appName: string;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly triesAfterTheFirst: number;
  /** How long the Job stays when it has ended, unless somebody deletes it before. */
  readonly keptSeconds: number;
  /** The containers whose exit code says whether another try would help. */
  readonly judges: readonly string[];
  /** Where a store knows Pods by their account. The token of it is mounted then, and only then. */
  readonly serviceAccountName: string | undefined;
  readonly pod: Pick<
    PodSpec,
    | 'containers'
    | 'imagePullSecrets'
    | 'initContainers'
    | 'nodeSelector'
    | 'terminationGracePeriodSeconds'
    | 'tolerations'
    | 'volumes'
  >;
};

/** With the user of our image. */
const RESTRICTED_POD: PodSpec['securityContext'] & object = {
  runAsNonRoot: true,
  runAsUser: 65532,
  runAsGroup: 65532,
  fsGroup: 65532,
  fsGroupChangePolicy: 'OnRootMismatch',
  seccompProfile: { type: 'RuntimeDefault' },
};

/** For each container that stands in such a Job. */
export const RESTRICTED_CONTAINER: Container['securityContext'] & object = {
  allowPrivilegeEscalation: false,
  readOnlyRootFilesystem: true,
  capabilities: { drop: ['ALL'] },
};

export const agentJob = (of: AgentJobOf): Job => {
  const labels = {
    'app.kubernetes.io/name': of.appName,
    'app.kubernetes.io/managed-by': 'etcd-operator',
    [SNAPSHOT_LABEL]: of.snapshot.name,
    [SNAPSHOT_OF_LABEL]: of.cluster,
  };
  return {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: {
      name: of.name,
      namespace: of.snapshot.namespace,
      labels,
      ...(of.annotations === undefined ? {} : { annotations: { ...of.annotations } }),
      ownerReferences: [
        {
          apiVersion: API_VERSION,
          kind: 'EtcdSnapshot',
          name: of.snapshot.name,
          uid: of.snapshot.uid,
          controller: true,
          blockOwnerDeletion: false,
        },
      ],
    },
    spec: {
      backoffLimit: of.triesAfterTheFirst,
      activeDeadlineSeconds: LONGEST_SECONDS,
      ttlSecondsAfterFinished: of.keptSeconds,
      podFailurePolicy: {
        rules: [
          ...of.judges.map((containerName) => ({
            action: 'FailJob',
            onExitCodes: { containerName, operator: 'In', values: [HOPELESS] },
          })),
          // That a Pod was drained is no failure of what it did.
          { action: 'Ignore', onPodConditions: [{ type: 'DisruptionTarget', status: 'True' }] },
        ],
        // kubernetes-types wants both kinds of condition in each rule, and the API server refuses that.
      } as NonNullable<Job['spec']>['podFailurePolicy'] & object,
      template: {
        metadata: { labels },
        spec: {
          // What was begun is begun again by another Pod, from the first step.
          restartPolicy: 'Never',
          automountServiceAccountToken: of.serviceAccountName !== undefined,
          ...(of.serviceAccountName === undefined ? {} : { serviceAccountName: of.serviceAccountName }),
          enableServiceLinks: false,
          securityContext: RESTRICTED_POD,
          ...of.pod,
        },
      },
    },
  };
};
