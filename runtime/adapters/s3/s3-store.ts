/** Snapshots as objects of a bucket, by the S3 protocol as many servers speak it. */
import type { Readable } from 'node:stream';
import { setTimeout as pause } from 'node:timers/promises';
import {
  AbortMultipartUploadCommand,
  type CompletedPart,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
  type S3ClientConfig,
  S3ServiceException,
  UploadPartCommand,
} from '@aws-sdk/client-s3';
import { type SnapshotStore, type StoreCall, StoreFault, type StoreFaultReason } from '../../ports/snapshot-store.ts';
import { inPieces } from '../in-pieces.ts';

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
/** Parts on their way at a time, while the next one is gathered: memory is this and one, times the size of a part. */
const AT_A_TIME = 2;
const OWNER = 'etcd-snapshot-uid';
/** With the SDK's growing pauses some ten seconds: longer than a server takes to start again. */
const ATTEMPTS = 8;
/** Neither side sends a byte. */
const SILENCE_MS = 30_000;
/** Some servers put the parts of a large object together before they say a word, and what timed out would be done in vain. */
const COMPLETE_SILENCE_MS = 600_000;
const COMPLETE_ATTEMPTS = 3;
/** Shorter than the grace of a Pod that ends. */
const CLEAN_UP_MS = 10_000;
/** Before a transfer that was cut is gone on with; twice as long after each that brought nothing. */
const READ_AGAIN_MS = 250;
const LONGEST_PAUSE_MS = 10_000;

/** Bytes of each part for a database of this size. */
export const partBytes = (expected: bigint | undefined): number => {
  const needed = Number((expected ?? 0n) / MOST_PARTS) + 1;
  return needed <= MIN_PART ? MIN_PART : Math.ceil(needed / MIB) * MIB;
};

/** What a HEAD is refused with. */
const WORDLESS: readonly StoreFaultReason[] = ['AccessDenied', 'Refused'];

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
  RequestTimeout: 'Unavailable',
  // Somebody ended the upload: a later try of the same snapshot, or the bucket's own rules.
  NoSuchUpload: 'Unavailable',
  XMinioStorageFull: 'Full',
  XMinioAdminBucketQuotaExceeded: 'Full',
  QuotaExceeded: 'Full',
  StorageCapExceeded: 'Full',
  InsufficientStorage: 'Full',
  EntityTooLarge: 'Refused',
  NotImplemented: 'Refused',
  // Of an archive that must be brought back first, with a 403.
  InvalidObjectState: 'Refused',
  PreconditionFailed: 'Refused',
  InvalidBucketName: 'Refused',
};

const isStatus = (error: S3ServiceException, status: number): boolean => error.$metadata.httpStatusCode === status;

/** Only what came from the store or the way to it; a body's own error is its own. */
const faultOf = (error: unknown, doing: string): unknown => {
  if (error instanceof StoreFault || !(error instanceof Error)) return error;
  const named = byName[error.name];
  if (named !== undefined) {
    const words = error.message === '' || error.message === 'UnknownError' ? '' : `: ${error.message}`;
    return new StoreFault(named, doing, `${error.name}${words}`, error);
  }
  if (error instanceof S3ServiceException) {
    const reason: StoreFaultReason = isStatus(error, 404)
      ? 'NotFound'
      : isStatus(error, 401) || isStatus(error, 403)
        ? 'AccessDenied'
        : isStatus(error, 507)
          ? 'Full'
          : isStatus(error, 408) || isStatus(error, 429) || (error.$metadata.httpStatusCode ?? 500) >= 500
            ? 'Unavailable'
            : 'Refused';
    // The answer to a HEAD has no body, so no words either.
    const words = error.message === 'UnknownError' ? '' : `: ${error.name}: ${error.message}`;
    return new StoreFault(reason, doing, `HTTP ${error.$metadata.httpStatusCode ?? '?'}${words}`, error);
  }
  if (error.name === 'AbortError') return error;
  const code = 'code' in error ? error.code : undefined;
  // Node's, of the header with the access key.
  if (code === 'ERR_INVALID_CHAR') {
    const words = 'the access key or session token in the Secret has a line break or another character that no key has';
    return new StoreFault('AccessDenied', doing, words, error);
  }
  if (code === 'ERR_INVALID_URL') {
    return new StoreFault('Refused', doing, 'the endpoint is no URL: write it like https://s3.example.org', error);
  }
  if ('code' in error || error.name === 'TimeoutError' || '$metadata' in error) {
    // Where a name has several addresses, the error says nothing and those in it speak.
    const words =
      error instanceof AggregateError ? error.errors.map((one: Error) => one.message).join('; ') : error.message;
    return new StoreFault('Unreachable', doing, words.replace('@smithy/node-http-handler - ', ''), error);
  }
  return error;
};

export const createS3Store = (
  to: S3Destination,
  options: { readonly silenceMs?: number; readonly maxAttempts?: number } = {},
): SnapshotStore => {
  const { silenceMs = SILENCE_MS, maxAttempts = ATTEMPTS } = options;
  const checksums = to.checksums === 'WhenSupported' ? 'WHEN_SUPPORTED' : 'WHEN_REQUIRED';
  const config: S3ClientConfig = {
    endpoint: to.endpoint,
    region: to.region ?? 'us-east-1',
    forcePathStyle: to.forcePathStyle ?? true,
    maxAttempts,
    requestChecksumCalculation: checksums,
    responseChecksumValidation: checksums,
    // The SDK waits for ever by default. Its requestTimeout would only write a warning.
    requestHandler: { connectionTimeout: 5_000, socketTimeout: silenceMs },
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
  const patient = new S3Client({
    ...config,
    maxAttempts: Math.min(maxAttempts, COMPLETE_ATTEMPTS),
    requestHandler: { connectionTimeout: 5_000, socketTimeout: Math.max(silenceMs, COMPLETE_SILENCE_MS) },
  });
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
      throw await inWords(error, key, call);
    }
  };

  /** The answer to a HEAD has no body, so that a wrong region and an expired token are a bare 400: a GET says which it is. */
  const inWords = async (error: unknown, key: string, call: StoreCall | undefined): Promise<unknown> => {
    if (!(error instanceof StoreFault) || !WORDLESS.includes(error.reason)) return error;
    try {
      for await (const _ of read(key, call)) break;
    } catch (said) {
      if (said instanceof StoreFault && [...WORDLESS, 'ClockSkew', 'BucketMissing'].includes(said.reason)) return said;
    }
    return error;
  };

  /** Goes on where a transfer was cut, with the same object or not at all. */
  async function* read(key: string, call?: StoreCall): AsyncGenerator<Uint8Array, void, undefined> {
    const doing = `read ${key}`;
    let received = 0n;
    let whole: { readonly size: bigint | undefined; readonly tag: string | undefined } | undefined;
    for (let vain = 0; ; ) {
      const { tag } = whole ?? {};
      const rest = {
        ...(received === 0n ? {} : { Range: `bytes=${received}-` }),
        ...(tag === undefined ? {} : { IfMatch: tag }),
      };
      const before = received;
      try {
        const get = new GetObjectCommand({ Bucket, Key: key, ...rest });
        const answer = await ask(doing, (http) => client.send(get, http), call);
        const size = answer.ContentLength === undefined ? undefined : BigInt(answer.ContentLength);
        whole ??= { size, tag: answer.ETag };
        for await (const bytes of bodyOf(answer.Body as Readable | undefined, doing, call?.signal)) {
          received += BigInt(bytes.length);
          yield bytes;
        }
        if (whole.size === undefined || received === whole.size) return;
        throw new StoreFault('Unavailable', doing, `${received} of ${whole.size} bytes came`);
      } catch (error) {
        // Whatever failed before the first byte was tried often enough.
        const cut = error instanceof StoreFault && ['Unavailable', 'Unreachable'].includes(error.reason);
        if (!cut || received === 0n || whole?.tag === undefined) throw error;
        vain = received > before ? 0 : vain + 1;
        if (vain >= maxAttempts) throw error;
        await pause(Math.min(READ_AGAIN_MS * 2 ** vain, LONGEST_PAUSE_MS), undefined, { ...call });
      }
    }
  }

  async function* bodyOf(
    body: Readable | undefined,
    doing: string,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<Uint8Array, void, undefined> {
    if (body === undefined) throw new StoreFault('Refused', doing, 'the answer has no body');
    const stop = (): void => void body.destroy(signal?.reason as Error | undefined);
    signal?.addEventListener('abort', stop, { once: true });
    try {
      yield* body as AsyncIterable<Uint8Array>;
    } catch (error) {
      throw faultOf(error, `${doing} in bucket ${Bucket}`);
    } finally {
      signal?.removeEventListener('abort', stop);
      body.destroy();
    }
  }

  /**
   * Parts of a try that was killed: they take room, and no listing of objects shows them. Only those of this very key; and if
   * such a try still runs somewhere, it ends here, so that there is never more than one upload of a snapshot. Who may not
   * list or end uploads can still store: what is left then is for the bucket's own rules.
   */
  const endUploads = async (key: string, call: StoreCall | undefined): Promise<void> => {
    const http = call?.signal === undefined ? {} : { abortSignal: call.signal };
    try {
      const { Uploads = [] } = await client.send(new ListMultipartUploadsCommand({ Bucket, Prefix: key }), http);
      for (const { Key, UploadId } of Uploads) {
        if (Key === key) await client.send(new AbortMultipartUploadCommand({ Bucket, Key, UploadId }), http);
      }
    } catch (error) {
      if (!(error instanceof S3ServiceException)) throw faultOf(error, `end old uploads of ${key} in bucket ${Bucket}`);
    }
  };

  return {
    uri: (key) => `s3://${Bucket}/${key}`,
    find,
    put: async (key, body, { owner, expectedBytes }, call) => {
      const doing = `store ${key}`;
      const present = await find(key, call);
      if (present !== undefined && present.owner !== owner) {
        throw new StoreFault('TakenByOther', doing, `it belongs to ${present.owner ?? 'nobody we know'}`);
      }
      await endUploads(key, call);
      const object = { Bucket, Key: key };
      const described = {
        ...object,
        Metadata: { [OWNER]: owner },
        ...(to.encryption === undefined
          ? {}
          : {
              ServerSideEncryption: to.encryption.mode,
              ...(to.encryption.kmsKeyID === undefined ? {} : { SSEKMSKeyId: to.encryption.kmsKeyID }),
            }),
      };
      let UploadId: string | undefined;
      const parts: Promise<CompletedPart>[] = [];
      const begin = async (): Promise<string | undefined> => {
        const command = new CreateMultipartUploadCommand({
          ...described,
          ...(checksums === 'WHEN_SUPPORTED' ? { ChecksumAlgorithm: 'CRC32' } : {}),
        });
        return (await ask(doing, (http) => client.send(command, http), call)).UploadId;
      };
      const sendPart = async (Body: Uint8Array, PartNumber: number): Promise<CompletedPart> => {
        const command = new UploadPartCommand({ ...object, UploadId, PartNumber, Body });
        const { ETag, ChecksumCRC32 } = await ask(doing, (http) => client.send(command, http), call);
        return { PartNumber, ETag, ChecksumCRC32 };
      };
      try {
        for await (const { bytes, last } of inPieces(body, partBytes(expectedBytes), AT_A_TIME + 1)) {
          call?.signal?.throwIfAborted();
          if (last && parts.length === 0) {
            await ask(doing, (http) => client.send(new PutObjectCommand({ ...described, Body: bytes }), http), call);
            return;
          }
          UploadId ??= await begin();
          // Only what was acknowledged is never sent again, and the memory of that part is the next to be used.
          await parts.at(-AT_A_TIME);
          const part = sendPart(bytes, parts.length + 1);
          // Awaited above or below, also where the body fails first.
          part.catch(() => undefined);
          parts.push(part);
        }
        const command = new CompleteMultipartUploadCommand({
          ...object,
          UploadId,
          MultipartUpload: { Parts: await Promise.all(parts) },
        });
        await ask(doing, (http) => patient.send(command, http), call);
      } catch (error) {
        // A part that arrives after the end of its upload would stay.
        await Promise.allSettled(parts);
        if (UploadId !== undefined) {
          const abort = new AbortMultipartUploadCommand({ ...object, UploadId });
          await client.send(abort, { abortSignal: AbortSignal.timeout(CLEAN_UP_MS) }).catch(() => undefined);
        }
        // Once more: of an upload whose beginning was interrupted, nobody here knows the name.
        await endUploads(key, { signal: AbortSignal.timeout(CLEAN_UP_MS) }).catch(() => undefined);
        throw error;
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
    close: () => {
      client.destroy();
      patient.destroy();
    },
  };
};
