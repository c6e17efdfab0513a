import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { CreateBucketCommand, S3Client } from '@aws-sdk/client-s3';
import { createFileStore } from '../../runtime/adapters/files/file-store.ts';
import { createS3Store, partBytes, type S3Destination } from '../../runtime/adapters/s3/s3-store.ts';
import { StoreFault } from '../../runtime/ports/snapshot-store.ts';
import { connect } from '../cluster/cluster.ts';
import { storeContract } from './snapshot-store.contract.ts';

const volume = await mkdtemp(join(tmpdir(), 'snapshots-'));
after(() => rm(volume, { recursive: true, force: true }));
storeContract('a volume', async () => createFileStore({ root: volume, name: 'backups' }));

const { s3 } = await connect({ addons: ['s3'], progress: () => undefined });
assert.ok(s3 !== undefined, 'the test cluster has an S3 server');
const credentials = { accessKeyId: s3.accessKey, secretAccessKey: s3.secretKey };
const bucket = 'contract';
const destination: S3Destination = { endpoint: s3.hostEndpoint, bucket, region: s3.region, credentials };
const admin = new S3Client({ endpoint: s3.hostEndpoint, region: s3.region, credentials, forcePathStyle: true });
await admin.send(new CreateBucketCommand({ Bucket: bucket })).catch((error: Error) => {
  if (!error.name.startsWith('BucketAlready')) throw error;
});
after(() => admin.destroy());
storeContract('S3', async () => createS3Store(destination));

describe('S3', () => {
  const reasonOf = async (other: Partial<S3Destination>): Promise<string> => {
    const store = createS3Store({ ...destination, ...other }, { maxAttempts: 1, silenceMs: 2_000 });
    try {
      async function* body(): AsyncGenerator<Uint8Array> {
        yield Buffer.from('x');
      }
      await store.put('reasons/x', body(), { owner: 'a' });
      return 'stored';
    } catch (error) {
      assert.ok(error instanceof StoreFault, String(error));
      assert.ok(!error.message.includes(s3.secretKey), 'no secret in the message');
      return error.reason;
    } finally {
      store.close();
    }
  };

  test('wrong credentials, no bucket and nobody there are told apart', async () => {
    assert.equal(await reasonOf({ credentials: { ...credentials, secretAccessKey: 'wrong' } }), 'AccessDenied');
    assert.equal(await reasonOf({ credentials: { ...credentials, accessKeyId: 'nobody' } }), 'AccessDenied');
    assert.equal(await reasonOf({ bucket: 'no-such-bucket' }), 'BucketMissing');
    assert.equal(await reasonOf({ endpoint: 'http://127.0.0.1:1' }), 'Unreachable');
    assert.equal(await reasonOf({ checksums: 'WhenSupported' }), 'stored');
  });

  test('parts grow with the database, so that ten thousand suffice for any', () => {
    const mib = 1024n * 1024n;
    for (const size of [0n, mib, 8_192n * mib, 100n * 1024n * mib, 1024n * 1024n * mib]) {
      assert.ok((size + BigInt(partBytes(size)) - 1n) / BigInt(partBytes(size)) <= 10_000n, `${size}`);
      assert.ok(partBytes(size) >= Number(5n * mib));
    }
  });
});
