/** What a person is told by the real server who has written something wrong about a bucket. */
import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { createS3Store, type S3Destination } from '../../runtime/adapters/s3/s3-store.ts';
import { StoreFault } from '../../runtime/ports/snapshot-store.ts';
import { s3Server } from './s3-process.ts';

const server = await s3Server();
after(() => server[Symbol.asyncDispose]());
const good = await server.bucket('etcd');
const { accessKeyId, secretAccessKey } = server.credentials;

async function* body(): AsyncGenerator<Uint8Array> {
  yield Buffer.from('x');
}

const said = async (wrong: Partial<S3Destination>, act: 'find' | 'put'): Promise<string> => {
  const to = { ...good, ...wrong };
  const store = createS3Store(to, { maxAttempts: 1, silenceMs: 2_000 });
  try {
    await (act === 'find' ? store.find('a.db') : store.put('a.db', body(), { owner: 'u' }));
    return 'no fault';
  } catch (error) {
    assert.ok(error instanceof StoreFault, String(error));
    assert.ok(!error.message.includes(to.credentials?.secretAccessKey ?? '-'), 'no secret in the message');
    return error.message;
  } finally {
    store.close();
  }
};

describe('a wrong input about a bucket', () => {
  const key = (change: Partial<typeof server.credentials & { sessionToken: string }>): Partial<S3Destination> => ({
    credentials: { accessKeyId, secretAccessKey, ...change },
  });
  const cases: readonly (readonly [string, Partial<S3Destination>, RegExp])[] = [
    ['another region', { region: 'eu-central-1' }, /^Refused: .*region "eu-central-1" is wrong; expecting "us-east-1"/],
    ['another secret key', key({ secretAccessKey: 'not-the-secret' }), /^AccessDenied: .*SignatureDoesNotMatch/],
    ['a token that is none', key({ sessionToken: 'expired' }), /^AccessDenied: .*InvalidToken/],
    ['a line break in the key', key({ accessKeyId: `${accessKeyId}\n` }), /^AccessDenied: .*has a line break/],
    ['an endpoint without a host', { endpoint: 'https://' }, /^Refused: .*the endpoint is no URL: write it like/],
    ['a folder in the name of the bucket', { bucket: 'etcd/backups' }, /^Refused: .*InvalidBucketName: /],
    ['a port that nobody listens on', { endpoint: 'http://127.0.0.1:1' }, /^Unreachable: .*127\.0\.0\.1:1/],
  ];
  for (const [what, wrong, words] of cases) {
    test(`${what} is told in words, whether it is read or written`, async () => {
      assert.match(await said(wrong, 'find'), words);
      assert.match(await said(wrong, 'put'), words);
    });
  }

  test('a bucket or a user that is not there is told where something is stored', async () => {
    assert.match(await said({ bucket: 'absent' }, 'put'), /^BucketMissing: .*NoSuchBucket/);
    assert.match(await said(key({ accessKeyId: 'nobody' }), 'put'), /^AccessDenied: .*XAdminUserNotFound/);
  });
});
