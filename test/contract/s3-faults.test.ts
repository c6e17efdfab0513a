/**
 * What networks and servers do between a snapshot and its bucket: each fault ends in time and has a reason of its own, and
 * whatever happens, there is a whole object or none, and no part of one that somebody would have to pay for.
 */
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { after, afterEach, describe, test } from 'node:test';
import {
  CreateMultipartUploadCommand,
  ListMultipartUploadsCommand,
  S3Client,
  UploadPartCommand,
} from '@aws-sdk/client-s3';
import { createS3Store } from '../../runtime/adapters/s3/s3-store.ts';
import { StoreFault, type StoreFaultReason, storeFaults } from '../../runtime/ports/snapshot-store.ts';
import { eventually, notYet } from '../e2e/eventually.ts';
import { type Asked, type Fault, faultProxy, type Operation } from './s3-fault-proxy.ts';
import { s3Server } from './s3-process.ts';

const MIB = 1024 * 1024;
const s3 = await s3Server();
const proxy = await faultProxy(s3.url);
const bucket = 'faults';
const destination = { ...(await s3.bucket(bucket)), endpoint: proxy.url };
after(async () => {
  await proxy[Symbol.asyncDispose]();
  await s3[Symbol.asyncDispose]();
});
afterEach(() => {
  proxy.rule = () => undefined;
});

/** Patience for tests: what is waited for here is only ever that nothing comes. */
const open = (options: { readonly silenceMs?: number; readonly maxAttempts?: number } = {}) =>
  createS3Store(destination, { silenceMs: 1_000, maxAttempts: 2, ...options });

const LARGE = 12 * MIB;
const large = randomBytes(LARGE);
async function* inChunks(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += MIB) yield bytes.subarray(at, at + MIB);
}
const digest = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

const always = (operation: Operation, fault: Fault) => (asked: Asked) =>
  asked.operation === operation ? fault : undefined;
/** Only the first `times` of these requests. */
const atFirst = (operation: Operation, times: number, fault: Fault) => {
  let met = 0;
  return (asked: Asked) => (asked.operation === operation && met++ < times ? fault : undefined);
};

let numbered = 0;
const stored = async (bytes: Uint8Array, options?: Parameters<typeof open>[0], signal?: AbortSignal) => {
  numbered += 1;
  const key = `n/c/${numbered}.db`;
  const store = open(options);
  try {
    await store.put(key, inChunks(bytes), { owner: 'a' }, { signal });
    return { key, fault: undefined };
  } catch (error) {
    return { key, fault: error };
  } finally {
    store.close();
  }
};
const thereIs = async (key: string) => {
  const { keys, uploads } = await s3.contents(bucket);
  return { whole: keys.includes(key), parts: uploads.filter((one) => one === key).length };
};

describe('an upload that meets', () => {
  const failing: readonly (readonly [string, Operation, Fault, StoreFaultReason])[] = [
    ['503 for every part', 'UploadPart', { answer: 503, code: 'SlowDown' }, 'Unavailable'],
    ['500 for every part', 'UploadPart', { answer: 500, code: 'InternalError' }, 'Unavailable'],
    ['429 for every part', 'UploadPart', { answer: 429, code: 'TooManyRequests' }, 'Unavailable'],
    ['500 at its end', 'CompleteUpload', { answer: 500, code: 'InternalError' }, 'Unavailable'],
    ['503 at its beginning', 'CreateUpload', { answer: 503, code: 'SlowDown' }, 'Unavailable'],
    ['the end of its upload by somebody else', 'CompleteUpload', { answer: 404, code: 'NoSuchUpload' }, 'Unavailable'],
    ['a cut in the middle of each part', 'UploadPart', { cutRequestAfter: 3 * MIB }, 'Unreachable'],
    ['a server that hears parts and says nothing', 'UploadPart', { stallAfter: 0 }, 'Unreachable'],
    ['a server that says nothing at all', 'HeadObject', { stallAfter: 0 }, 'Unreachable'],
    ['credentials that may list and not write', 'UploadPart', { answer: 403, code: 'AccessDenied' }, 'AccessDenied'],
    ['credentials that may not look', 'HeadObject', { answer: 403 }, 'AccessDenied'],
    ['a token that expires half-way', 'UploadPart', { answer: 400, code: 'ExpiredToken' }, 'AccessDenied'],
    ['a quota', 'UploadPart', { answer: 403, code: 'QuotaExceeded' }, 'Full'],
    ['a full disk', 'UploadPart', { answer: 507, code: 'XMinioStorageFull' }, 'Full'],
    ['a full disk without a word', 'UploadPart', { answer: 507 }, 'Full'],
    ['a bucket that was deleted', 'CreateUpload', { answer: 404, code: 'NoSuchBucket' }, 'BucketMissing'],
    ['another clock', 'CreateUpload', { answer: 403, code: 'RequestTimeTooSkewed' }, 'ClockSkew'],
    ['a server that cannot do what is asked', 'CreateUpload', { answer: 501, code: 'NotImplemented' }, 'Refused'],
  ];
  for (const [what, operation, fault, reason] of failing) {
    test(`${what} fails with ${reason}, says what to do, and leaves neither object nor parts`, async () => {
      proxy.rule = always(operation, fault);
      const { key, fault: seen } = await stored(large);
      proxy.rule = () => undefined;
      assert.ok(seen instanceof StoreFault, String(seen));
      assert.equal(seen.reason, reason, seen.message);
      assert.ok(seen.message.endsWith(storeFaults[reason]), seen.message);
      assert.ok(!seen.message.includes('only-for-tests'), 'no secret in it');
      assert.deepEqual(await thereIs(key), { whole: false, parts: 0 });
    });
  }

  const passing: readonly (readonly [string, (asked: Asked) => Fault | undefined])[] = [
    ['some 503s', atFirst('UploadPart', 3, { answer: 503, code: 'SlowDown' })],
    ['a cut in the middle of a part', atFirst('UploadPart', 1, { cutRequestAfter: 2 * MIB })],
    ['a part that is never answered', atFirst('UploadPart', 1, { stallAfter: 0 })],
    ['a slow store', always('UploadPart', { bytesPerSecond: 6 * MIB })],
    ['a store that lets nobody list uploads', always('ListUploads', { answer: 403, code: 'AccessDenied' })],
    ['a store that lets nobody list objects', always('ListObjects', { answer: 403, code: 'AccessDenied' })],
  ];
  for (const [what, rule] of passing) {
    test(`${what} ends well, with every byte in its place`, async () => {
      proxy.rule = rule;
      const { key, fault } = await stored(large, { silenceMs: 5_000, maxAttempts: 8 });
      assert.equal(fault, undefined);
      proxy.rule = () => undefined;
      const store = open({ silenceMs: 10_000 });
      assert.equal(digest(Buffer.concat(await Array.fromAsync(store.read(key)))), digest(large));
      store.close();
      assert.deepEqual(await thereIs(key), { whole: true, parts: 0 });
    });
  }

  test('the loss of parts that others overtake ends well, though the memory of parts is used again', async () => {
    const huge = randomBytes(5 * 8 * MIB + 1);
    for (const checksums of ['WhenRequired', 'WhenSupported'] as const) {
      proxy.rule = atFirst('UploadPart', 3, { cutRequestAfter: 6 * MIB });
      const store = createS3Store({ ...destination, checksums }, { silenceMs: 10_000, maxAttempts: 8 });
      const key = `n/c/${checksums}.db`;
      await store.put(key, inChunks(huge), { owner: 'a', expectedBytes: BigInt(huge.length) });
      proxy.rule = () => undefined;
      assert.equal(digest(Buffer.concat(await Array.fromAsync(store.read(key)))), digest(huge), checksums);
      assert.equal((await store.find(key))?.owner, 'a');
      store.close();
      assert.deepEqual(await thereIs(key), { whole: true, parts: 0 });
    }
  });

  test('a server of another time ends well, since its answer tells the time', async (t) => {
    const now = Date.now.bind(Date);
    t.mock.method(Date, 'now', () => now() - 20 * 60_000);
    const { fault } = await stored(large);
    assert.equal(fault, undefined);
  });

  test('a store that is not there yet waits for it', async () => {
    await proxy.down();
    const { fault } = await (async () => {
      const storing = stored(large.subarray(0, MIB), { silenceMs: 5_000, maxAttempts: 8 });
      await proxy.up();
      return storing;
    })();
    assert.equal(fault, undefined);
  });

  test('the end of its Pod stops soon, though the store says nothing, and leaves no parts', async () => {
    const ending = new AbortController();
    proxy.rule = (asked) => {
      if (asked.operation !== 'UploadPart') return undefined;
      setImmediate(() => ending.abort(new Error('the Pod is ending')));
      return { stallAfter: 0 };
    };
    const began = performance.now();
    const { key, fault } = await stored(large, { silenceMs: 600_000 }, ending.signal);
    assert.ok(fault instanceof Error && !(fault instanceof StoreFault), String(fault));
    assert.ok(performance.now() - began < 20_000, 'within the grace of a Pod');
    proxy.rule = () => undefined;
    assert.deepEqual(await thereIs(key), { whole: false, parts: 0 });
  });
});

test("a later try takes away the parts of one that was killed, and nobody else's", async () => {
  const admin = new S3Client({
    endpoint: s3.url,
    region: 'us-east-1',
    credentials: s3.credentials,
    forcePathStyle: true,
  });
  const begun = async (Key: string): Promise<void> => {
    const { UploadId } = await admin.send(new CreateMultipartUploadCommand({ Bucket: bucket, Key }));
    const part = { Bucket: bucket, Key, UploadId, PartNumber: 1, Body: large.subarray(0, 8 * MIB) };
    await admin.send(new UploadPartCommand(part));
  };
  for (const key of ['k/one.db', 'k/one.db', 'k/one.db.more', 'k/two.db']) await begun(key);
  const store = open({ silenceMs: 10_000 });
  await store.put('k/one.db', inChunks(large), { owner: 'a' });
  store.close();
  const { Uploads = [] } = await admin.send(new ListMultipartUploadsCommand({ Bucket: bucket, Prefix: 'k/' }));
  assert.deepEqual(Uploads.map(({ Key }) => Key).sort(), ['k/one.db.more', 'k/two.db']);
  admin.destroy();
});

test('a try that still runs somewhere is ended by the next one, and only the last one is stored', async () => {
  const key = 'twice/one.db';
  const [first, second] = [open({ silenceMs: 30_000 }), open({ silenceMs: 30_000 })];
  let goOn: () => void = () => undefined;
  const held = new Promise<void>((resolve) => {
    goOn = resolve;
  });
  async function* slow(): AsyncGenerator<Uint8Array> {
    yield* inChunks(large);
    await held;
    yield randomBytes(1);
  }
  const lost = first.put(key, slow(), { owner: 'a' });
  // Some servers say that the upload is gone, some hang up.
  const failed = assert.rejects(
    lost,
    (error) => error instanceof StoreFault && ['Unavailable', 'Unreachable'].includes(error.reason),
  );
  await eventually('its upload is there', async () => {
    if ((await thereIs(key)).parts === 0) notYet('not yet');
  });
  await second.put(key, inChunks(large), { owner: 'a' });
  goOn();
  await failed;
  assert.equal(digest(Buffer.concat(await Array.fromAsync(second.read(key)))), digest(large));
  first.close();
  second.close();
});

describe('a download that meets', () => {
  const key = 'read/one.db';
  const readAll = async (options?: Parameters<typeof open>[0]): Promise<Buffer> => {
    const store = open(options);
    try {
      return Buffer.concat(await Array.fromAsync(store.read(key)));
    } finally {
      store.close();
    }
  };
  test('cuts and silence goes on where it was, and the bytes are the same', async () => {
    const store = open({ silenceMs: 10_000 });
    await store.put(key, inChunks(large), { owner: 'a' });
    store.close();
    for (const fault of [{ cutAnswerAfter: 5 * MIB }, { stallAfter: 5 * MIB }, { answer: 503, code: 'SlowDown' }]) {
      proxy.rule = atFirst('GetObject', 2, fault);
      assert.equal(digest(await readAll({ maxAttempts: 4 })), digest(large), JSON.stringify(fault));
    }
  });

  test('a cut that comes each time before another byte ends with a reason', async () => {
    let sent = 0;
    proxy.rule = ({ operation }) =>
      operation === 'GetObject' ? (sent++ === 0 ? { cutAnswerAfter: MIB } : { cutAnswerAfter: 0 }) : undefined;
    await assert.rejects(
      readAll({ maxAttempts: 1 }),
      (error) => error instanceof StoreFault && error.reason === 'Unreachable',
    );
  });

  test('another object half-way ends, and mixes no two', async () => {
    proxy.rule = atFirst('GetObject', 1, { cutAnswerAfter: 5 * MIB });
    const [store, other] = [open({ silenceMs: 10_000 }), open({ silenceMs: 10_000 })];
    let received = 0;
    await assert.rejects(
      async () => {
        for await (const bytes of store.read(key)) {
          if (received === 0) await other.put(key, inChunks(randomBytes(LARGE)), { owner: 'a' });
          received += bytes.length;
        }
      },
      (error) => error instanceof StoreFault && error.reason === 'Refused',
    );
    store.close();
    other.close();
  });
});
