/**
 * Where snapshots lie: objects of a bucket, or files of a volume. Every method rejects with a {@link StoreFault} and nothing
 * else, except that an error thrown by a body that is being stored comes through as it is.
 */

export type StoredObject = {
  readonly key: string;
  readonly sizeBytes: bigint;
  /** Milliseconds since the epoch, by the store's own clock. */
  readonly modified: number;
};

export type StoreCall = { readonly signal?: AbortSignal | undefined };

export type SnapshotStore = {
  /** `s3://bucket/key` or `pvc://claim/path`: how people name the object. */
  uri(key: string): string;
  /**
   * Stores the whole body or nothing: a body that throws, or a store that fails, leaves no object under the key. What stood
   * there before is replaced only if it carries the same `owner`; else `TakenByOther`.
   */
  put(
    key: string,
    body: AsyncIterable<Uint8Array>,
    options: { readonly owner: string /** Decides the size of the parts. */; readonly expectedBytes?: bigint },
    call?: StoreCall,
  ): Promise<void>;
  /** Rejects with `NotFound`. Reads as it is pulled; leaving the loop early ends the transfer. */
  read(key: string, call?: StoreCall): AsyncIterable<Uint8Array>;
  /** Undefined where there is none. */
  find(key: string, call?: StoreCall): Promise<(StoredObject & { readonly owner: string | undefined }) | undefined>;
  list(prefix: string, call?: StoreCall): AsyncIterable<StoredObject>;
  /** What is not there is no fault. */
  remove(key: string, call?: StoreCall): Promise<void>;
  close(): void;
};

/** Why a store refuses or fails, with what a person should do. */
export const storeFaults = {
  NotFound: 'There is no such object. Check bucket, key and claim.',
  BucketMissing: 'The bucket or volume does not exist. Create it, or correct the destination.',
  AccessDenied:
    'Check the Secret and its rights: s3:GetObject, s3:PutObject, s3:DeleteObject and s3:AbortMultipartUpload on the objects, s3:ListBucket and s3:ListBucketMultipartUploads on the bucket. A volume must be writable for user 65532.',
  TakenByOther: 'Another snapshot lies under this key. Choose another key or prefix.',
  Full: 'No space is left. Enlarge the store or its quota, or delete old snapshots.',
  ClockSkew: 'The store refuses the time of this machine. Set its clock.',
  Unreachable: 'The store cannot be reached. Check endpoint, network and certificates.',
  Unavailable: 'The store fails or asks to slow down. See its own logs.',
  Refused: 'The store refuses the request. Read the message.',
} as const;
export type StoreFaultReason = keyof typeof storeFaults;

/** `message` is one line: reason, what was asked, of which object, the store's words, what to do. It never holds credentials. */
export class StoreFault extends Error {
  override readonly name = 'StoreFault';
  readonly reason: StoreFaultReason;

  constructor(reason: StoreFaultReason, doing: string, detail: string, cause?: unknown) {
    const words = detail.replaceAll(/\s+/g, ' ').trim().replace(/\.$/, '').slice(0, 400);
    super(`${reason}: ${doing}: ${words}. ${storeFaults[reason]}`, { cause });
    this.reason = reason;
  }
}
