/** A bucket of the test cluster's S3 server, as a namespace uses it and as a test looks into it. */
import { CreateBucketCommand, S3Client } from '@aws-sdk/client-s3';
import type { Secret } from 'kubernetes-types/core/v1.js';
import { createS3Store } from '../../runtime/adapters/s3/s3-store.ts';
import type { StoreLocation } from '../../runtime/core/snapshots/store-access.ts';
import type { SnapshotStore } from '../../runtime/ports/snapshot-store.ts';
import type { Cluster } from '../cluster/cluster.ts';

export type Bucket = {
  readonly name: string;
  /** With the right key, or with another one. */
  secret(name: string, secretKey?: string): Secret;
  /** For a claim or a snapshot: credentials in the Secret `s3`. */
  readonly location: NonNullable<StoreLocation['s3']>;
  /** From here, not from a Pod. The caller closes it. */
  open(): SnapshotStore;
  /** Key of an object that a status names. */
  keyOf(uri: string | undefined): string;
};

/** Makes the bucket where it is not there yet. */
export const bucketIn = async ({ s3 }: Pick<Cluster, 's3'>, name: string): Promise<Bucket> => {
  if (s3 === undefined) throw new Error('this cluster has no S3 server');
  const { endpoint, hostEndpoint, accessKey, secretKey: key, region } = s3;
  const credentials = { accessKeyId: accessKey, secretAccessKey: key };
  const admin = new S3Client({ endpoint: hostEndpoint, region, credentials, forcePathStyle: true });
  await admin.send(new CreateBucketCommand({ Bucket: name })).catch((error: Error) => {
    if (!error.name.startsWith('BucketAlready')) throw error;
  });
  admin.destroy();
  return {
    name,
    secret: (secret, secretKey = key) => ({
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: secret },
      stringData: { AWS_ACCESS_KEY_ID: accessKey, AWS_SECRET_ACCESS_KEY: secretKey },
    }),
    location: { endpoint, bucket: name, region, credentialsSecretRef: { name: 's3' } },
    open: () => createS3Store({ endpoint: hostEndpoint, bucket: name, region, credentials }),
    keyOf: (uri = '') => uri.replace(`s3://${name}/`, ''),
  };
};
