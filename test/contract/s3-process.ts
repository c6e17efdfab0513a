/** The S3 server of the test cluster, as a process of its own that a test may starve, break and kill. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { CreateBucketCommand, ListMultipartUploadsCommand, ListObjectsV2Command, S3Client } from '@aws-sdk/client-s3';
import type { S3Destination } from '../../runtime/adapters/s3/s3-store.ts';
import { builds, ensureBuilds, programPath } from '../cluster/builds.ts';
import { freePorts } from './etcd-process.ts';

export type S3Server = AsyncDisposable & {
  readonly url: string;
  /** Where its buckets lie, each a folder of plain files. */
  readonly directory: string;
  readonly credentials: { readonly accessKeyId: string; readonly secretAccessKey: string };
  /** A new bucket, with the right credentials. */
  bucket(name: string): Promise<S3Destination>;
  /** Keys that are there, and keys of uploads that nobody has completed or aborted. */
  contents(bucket: string): Promise<{ readonly keys: readonly string[]; readonly uploads: readonly string[] }>;
  kill(): Promise<void>;
  start(): Promise<void>;
};

const listens = async (port: number): Promise<boolean> => {
  const socket = connect(port, '127.0.0.1');
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
};

export const s3Server = async (in_: { readonly directory?: string } = {}): Promise<S3Server> => {
  await ensureBuilds([builds.versitygw], () => undefined);
  const own = in_.directory === undefined ? await mkdtemp(join(tmpdir(), 's3-')) : undefined;
  const directory = in_.directory ?? join(own ?? '', 'data');
  await mkdir(directory, { recursive: true });
  const credentials = { accessKeyId: 'access', secretAccessKey: 'only-for-tests' };
  const [port = 0] = await freePorts(1);
  const url = `http://127.0.0.1:${port}`;
  let child: ReturnType<typeof spawn> | undefined;

  const start = async (): Promise<void> => {
    const { accessKeyId, secretAccessKey } = credentials;
    child = spawn(
      programPath(builds.versitygw, 'versitygw'),
      ['--port', `127.0.0.1:${port}`, '--region', 'us-east-1', '--quiet', 'posix', directory],
      {
        env: { ROOT_ACCESS_KEY: accessKeyId, ROOT_SECRET_KEY: secretAccessKey },
        stdio: 'ignore',
      },
    );
    for (let tries = 0; !(await listens(port)); tries += 1) {
      if (tries > 200 || child.exitCode !== null) throw new Error(`versitygw does not listen on ${port}`);
      await pause(50);
    }
  };
  const kill = async (): Promise<void> => {
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
  };
  const admin = new S3Client({ endpoint: url, region: 'us-east-1', credentials, forcePathStyle: true });
  await start();
  return {
    url,
    directory,
    credentials,
    bucket: async (name) => {
      await admin.send(new CreateBucketCommand({ Bucket: name }));
      return { endpoint: url, bucket: name, region: 'us-east-1', credentials };
    },
    contents: async (Bucket) => {
      const [objects, uploads] = await Promise.all([
        admin.send(new ListObjectsV2Command({ Bucket })),
        admin.send(new ListMultipartUploadsCommand({ Bucket })),
      ]);
      return {
        keys: (objects.Contents ?? []).map(({ Key = '' }) => Key),
        uploads: (uploads.Uploads ?? []).map(({ Key = '' }) => Key),
      };
    },
    kill,
    start,
    [Symbol.asyncDispose]: async () => {
      admin.destroy();
      await kill();
      if (own !== undefined) await rm(own, { recursive: true, force: true });
    },
  };
};
