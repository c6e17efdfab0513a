/** Snapshots as objects of a bucket, by the S3 protocol as many servers speak it. */
import { Readable } from 'node:stream';
import {
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
  type PutObjectCommandInput,
  S3Client,
  type S3ClientConfig,
  S3ServiceException,
} from '@aws-sdk/client-s3';
import { Upload } from '@aws-sdk/lib-storage';
import { type SnapshotStore, type StoreCall, StoreFault, type StoreFaultReason } from '../../ports/snapshot-store.ts';

export type S3Destination = {
  readonly endpoint: string;
  readonly bucket: string;
  readonly region?: string | undefined;
  readonly forcePathStyle?: boolean | undefined;
  /** Absent: the default chain of the SDK (workload identity, environment). */
  readonly credentials?:
    | { readonly accessKeyId: string; readonly secretAccessKey: string; readonly sessionToken?: string | undefined }
    | undefined;
  /** Since early 2025 the SDK adds checksums that many S3-compatible servers refuse; so only where the protocol asks for one. */
  readonly checksums?: 'WhenRequired' | 'WhenSupported' | undefined;
  readonly encryption?: { readonly mode: 'AES256' | 'aws:kms'; readonly kmsKeyID?: string | undefined } | undefined;
};

const MIB = 1024 * 1024;
const MIN_PART = 8 * MIB;
/** S3 takes ten thousand parts; some room is left for a database that grows while it is sent. */
const MOST_PARTS = 9_000n;
/** Parts on their way at a time: memory is this times the size of a part. */
const AT_A_TIME = 2;
const OWNER = 'etcd-snapshot-uid';

/** Bytes of each part for a database of this size. */
export const partBytes = (expected: bigint | undefined): number => {
  const needed = Number((expected ?? 0n) / MOST_PARTS) + 1;
  return needed <= MIN_PART ? MIN_PART : Math.ceil(needed / MIB) * MIB;
};

const byName: Record<string, StoreFaultReason> = {
  NoSuchKey: 'NotFound',
  NotFound: 'NotFound',
  NoSuchBucket: 'BucketMissing',
  AccessDenied: 'AccessDenied',
  Forbidden: 'AccessDenied',
  InvalidAccessKeyId: 'AccessDenied',
  SignatureDoesNotMatch: 'AccessDenied',
  ExpiredToken: 'AccessDenied',
  InvalidToken: 'AccessDenied',
  CredentialsProviderError: 'AccessDenied',
  // What versitygw says of an access key that it does not know, with a 404.
  XAdminUserNotFound: 'AccessDenied',
  RequestTimeTooSkewed: 'ClockSkew',
  RequestExpired: 'ClockSkew',
  SlowDown: 'Unavailable',
  InternalError: 'Unavailable',
  ServiceUnavailable: 'Unavailable',
  XMinioStorageFull: 'Full',
  EntityTooLarge: 'Refused',
};

const isStatus = (error: S3ServiceException, status: number): boolean => error.$metadata.httpStatusCode === status;

/** Only what came from the store or the way to it; a body's own error is its own. */
const faultOf = (error: unknown, doing: string): unknown => {
  if (error instanceof StoreFault || !(error instanceof Error)) return error;
  const named = byName[error.name];
  if (named !== undefined) return new StoreFault(named, doing, error.message || error.name, error);
  if (error instanceof S3ServiceException) {
    const reason: StoreFaultReason = isStatus(error, 404)
      ? 'NotFound'
      : isStatus(error, 401) || isStatus(error, 403)
        ? 'AccessDenied'
        : isStatus(error, 507)
          ? 'Full'
          : (error.$metadata.httpStatusCode ?? 500) >= 500
            ? 'Unavailable'
            : 'Refused';
    // The answer to a HEAD has no body, so no words either.
    const words = error.message === 'UnknownError' ? '' : `: ${error.name}: ${error.message}`;
    return new StoreFault(reason, doing, `HTTP ${error.$metadata.httpStatusCode ?? '?'}${words}`, error);
  }
  if (error.name === 'AbortError') return error;
  if ('code' in error || error.name === 'TimeoutError' || '$metadata' in error) {
    return new StoreFault('Unreachable', doing, error.message, error);
  }
  return error;
};

export const createS3Store = (
  to: S3Destination,
  options: { readonly requestTimeoutMs?: number; readonly maxAttempts?: number } = {},
): SnapshotStore => {
  const { requestTimeoutMs = 60_000, maxAttempts = 4 } = options;
  const checksums = to.checksums === 'WhenSupported' ? 'WHEN_SUPPORTED' : 'WHEN_REQUIRED';
  const config: S3ClientConfig = {
    endpoint: to.endpoint,
    region: to.region ?? 'us-east-1',
    forcePathStyle: to.forcePathStyle ?? true,
    maxAttempts,
    requestChecksumCalculation: checksums,
    responseChecksumValidation: checksums,
    // The SDK waits for ever by default.
    requestHandler: { connectionTimeout: 5_000, requestTimeout: requestTimeoutMs, socketTimeout: requestTimeoutMs },
    ...(to.credentials === undefined
      ? {}
      : {
          credentials: {
            accessKeyId: to.credentials.accessKeyId,
            secretAccessKey: to.credentials.secretAccessKey,
            ...(to.credentials.sessionToken === undefined ? {} : { sessionToken: to.credentials.sessionToken }),
          },
        }),
  };
  const client = new S3Client(config);
  const { bucket: Bucket } = to;

  const ask = async <T>(
    doing: string,
    work: (options: { abortSignal?: AbortSignal }) => Promise<T>,
    call?: StoreCall,
  ) => {
    try {
      return await work(call?.signal === undefined ? {} : { abortSignal: call.signal });
    } catch (error) {
      throw faultOf(error, `${doing} in bucket ${Bucket}`);
    }
  };

  const find: SnapshotStore['find'] = async (key, call) => {
    try {
      const head = await ask(
        `look for ${key}`,
        (http) => client.send(new HeadObjectCommand({ Bucket, Key: key }), http),
        call,
      );
      return {
        key,
        sizeBytes: BigInt(head.ContentLength ?? 0),
        modified: head.LastModified?.getTime() ?? 0,
        owner: head.Metadata?.[OWNER],
      };
    } catch (error) {
      if (error instanceof StoreFault && error.reason === 'NotFound') return undefined;
      throw error;
    }
  };

  async function* read(key: string, call?: StoreCall): AsyncGenerator<Uint8Array, void, undefined> {
    const doing = `read ${key}`;
    const answer = await ask(doing, (http) => client.send(new GetObjectCommand({ Bucket, Key: key }), http), call);
    const body = answer.Body as Readable | undefined;
    if (body === undefined) throw new StoreFault('Refused', doing, 'the answer has no body');
    const stop = (): void => void body.destroy(call?.signal?.reason as Error | undefined);
    call?.signal?.addEventListener('abort', stop, { once: true });
    let received = 0n;
    try {
      for await (const bytes of body as AsyncIterable<Uint8Array>) {
        received += BigInt(bytes.length);
        yield bytes;
      }
    } catch (error) {
      throw faultOf(error, `${doing} in bucket ${Bucket}`);
    } finally {
      call?.signal?.removeEventListener('abort', stop);
      body.destroy();
    }
    if (answer.ContentLength !== undefined && received !== BigInt(answer.ContentLength)) {
      throw new StoreFault('Unavailable', doing, `${received} of ${answer.ContentLength} bytes came`);
    }
  }

  return {
    uri: (key) => `s3://${Bucket}/${key}`,
    find,
    put: async (key, body, { owner, expectedBytes }, call) => {
      const doing = `store ${key}`;
      const present = await find(key, call);
      if (present !== undefined && present.owner !== owner) {
        throw new StoreFault('TakenByOther', doing, `it belongs to ${present.owner ?? 'nobody we know'}`);
      }
      // An upload tells of its body's errors in words of its own; what the body said first is what happened.
      let own: unknown;
      async function* watched(): AsyncGenerator<Uint8Array, void, undefined> {
        try {
          yield* body;
        } catch (error) {
          own = error;
          throw error;
        }
      }
      const params: PutObjectCommandInput = {
        Bucket,
        Key: key,
        Body: Readable.from(watched(), { objectMode: false, highWaterMark: MIB }),
        Metadata: { [OWNER]: owner },
        ...(to.encryption === undefined
          ? {}
          : {
              ServerSideEncryption: to.encryption.mode,
              ...(to.encryption.kmsKeyID === undefined ? {} : { SSEKMSKeyId: to.encryption.kmsKeyID }),
            }),
      };
      const upload = new Upload({
        client,
        params,
        partSize: partBytes(expectedBytes),
        queueSize: AT_A_TIME,
        leavePartsOnError: false,
      });
      const stop = (): void => void upload.abort();
      call?.signal?.addEventListener('abort', stop, { once: true });
      try {
        await upload.done();
      } catch (error) {
        throw own ?? faultOf(error, `${doing} in bucket ${Bucket}`);
      } finally {
        call?.signal?.removeEventListener('abort', stop);
      }
    },
    read,
    async *list(prefix, call) {
      let token: string | undefined;
      do {
        const page = await ask(
          `list ${prefix}`,
          (http) =>
            client.send(
              new ListObjectsV2Command({
                Bucket,
                Prefix: prefix,
                ...(token === undefined ? {} : { ContinuationToken: token }),
              }),
              http,
            ),
          call,
        );
        for (const { Key, Size, LastModified } of page.Contents ?? []) {
          if (Key === undefined) continue;
          yield { key: Key, sizeBytes: BigInt(Size ?? 0), modified: LastModified?.getTime() ?? 0 };
        }
        token = page.IsTruncated === true ? page.NextContinuationToken : undefined;
      } while (token !== undefined);
    },
    remove: async (key, call) => {
      await ask(
        `delete ${key}`,
        (http) => client.send(new DeleteObjectCommand({ Bucket, Key: key }), http),
        call,
      ).catch((error: unknown) => {
        if (!(error instanceof StoreFault && error.reason === 'NotFound')) throw error;
      });
    },
    close: () => client.destroy(),
  };
};
