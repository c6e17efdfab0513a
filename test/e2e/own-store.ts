/** An S3 server of a test's own, on a volume, that the test may kill without taking anybody else's store away. */
import { CreateBucketCommand, ListMultipartUploadsCommand, S3Client } from '@aws-sdk/client-s3';
import type { Secret } from 'kubernetes-types/core/v1.js';
import { createS3Store, type S3Destination } from '../../runtime/adapters/s3/s3-store.ts';
import type { StoreLocation } from '../../runtime/core/snapshots/store-access.ts';
import type { KubeObject } from '../../runtime/ports/kube.ts';
import type { SnapshotStore } from '../../runtime/ports/snapshot-store.ts';
import { s3Image } from '../cluster/images.ts';
import { eventually } from './eventually.ts';
import { killPods } from './kill-pods.ts';
import { type Place, seenKinds } from './place.ts';

const NAME = 'store';
const PORT = 7070;
const BUCKET = 'snapshots';

export type OwnStore = {
  /** For a claim or a snapshot: credentials in the Secret `s3`. */
  readonly location: NonNullable<StoreLocation['s3']>;
  readonly destination: S3Destination;
  /** From here, not from a Pod. The caller closes it. */
  open(): SnapshotStore;
  /** Keys of uploads that nobody completed or ended. */
  uploads(): Promise<readonly string[]>;
  /** At once; another Pod follows with the same objects. */
  kill(): Promise<void>;
  serves(): Promise<void>;
};

const objects = (secret: Secret): readonly KubeObject[] => [
  secret,
  {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: { name: NAME },
    spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } },
  } as KubeObject,
  {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name: NAME },
    spec: {
      selector: { matchLabels: { app: NAME } },
      strategy: { type: 'Recreate' },
      template: {
        metadata: { labels: { app: NAME } },
        spec: {
          securityContext: {
            runAsNonRoot: true,
            runAsUser: 1000,
            fsGroup: 1000,
            seccompProfile: { type: 'RuntimeDefault' },
          },
          terminationGracePeriodSeconds: 1,
          containers: [
            {
              name: 'versitygw',
              image: s3Image,
              imagePullPolicy: 'IfNotPresent',
              args: ['--port', `:${PORT}`, '--region', 'us-east-1', 'posix', '/data'],
              env: [
                {
                  name: 'ROOT_ACCESS_KEY',
                  valueFrom: { secretKeyRef: { name: 's3', key: 'AWS_ACCESS_KEY_ID' } },
                },
                {
                  name: 'ROOT_SECRET_KEY',
                  valueFrom: { secretKeyRef: { name: 's3', key: 'AWS_SECRET_ACCESS_KEY' } },
                },
              ],
              securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
              readinessProbe: { tcpSocket: { port: PORT }, periodSeconds: 1 },
              volumeMounts: [{ name: 'data', mountPath: '/data' }],
            },
          ],
          volumes: [{ name: 'data', persistentVolumeClaim: { claimName: NAME } }],
        },
      },
    },
  } as KubeObject,
  {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: NAME },
    spec: { type: 'NodePort', selector: { app: NAME }, ports: [{ port: PORT, targetPort: PORT }] },
  } as KubeObject,
];

/** @param reachable URL of any node, as this machine reaches it */
export const ownStore = async (place: Place, reachable: string): Promise<OwnStore> => {
  const credentials = { accessKeyId: 'access', secretAccessKey: 'only-for-tests' };
  await place.apply(
    ...objects({
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: 's3' },
      stringData: {
        AWS_ACCESS_KEY_ID: credentials.accessKeyId,
        AWS_SECRET_ACCESS_KEY: credentials.secretAccessKey,
      },
    }),
  );
  const nodePort = await place.kubectl(['get', 'service', NAME, '-o', 'jsonpath={.spec.ports[0].nodePort}']);
  const endpoint = `http://${new URL(reachable).hostname}:${nodePort.trim()}`;
  const region = 'us-east-1';
  const admin = new S3Client({ endpoint, region, credentials, forcePathStyle: true });
  const serves = (): Promise<void> =>
    eventually(
      'the S3 server serves',
      async () => {
        await admin.send(new ListMultipartUploadsCommand({ Bucket: BUCKET }));
      },
      { deadlineMs: 120_000 },
    );
  await eventually(
    'the bucket is made',
    async () => {
      await admin.send(new CreateBucketCommand({ Bucket: BUCKET })).catch((error: Error) => {
        if (!error.name.startsWith('BucketAlready')) throw error;
      });
    },
    { deadlineMs: 120_000 },
  );
  const destination = { endpoint, bucket: BUCKET, region, credentials };
  return {
    destination,
    location: {
      endpoint: `http://${NAME}.${place.namespace}.svc:${PORT}`,
      bucket: BUCKET,
      region,
      credentialsSecretRef: { name: 's3' },
    },
    open: () => createS3Store(destination),
    uploads: async () => {
      const { Uploads = [] } = await admin.send(new ListMultipartUploadsCommand({ Bucket: BUCKET }));
      return Uploads.map(({ Key = '' }) => Key);
    },
    kill: async () => {
      await killPods(place, await place.list(seenKinds.pods, `app=${NAME}`));
    },
    serves,
  };
};
