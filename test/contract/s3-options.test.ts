/** What each option of a bucket does to the requests, and by what the agent in its image proves who it is. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type RequestListener } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo, Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { bundle, programs } from '../../deploy/bundle.ts';
import { issue, SERVER_AUTH } from '../../functions/server/certificates.fixture.ts';
import { createS3Store, type S3Destination } from '../../runtime/adapters/s3/s3-store.ts';
import { RESTORE_ORDER } from '../../runtime/core/seeding.ts';
import { StoreFault } from '../../runtime/ports/snapshot-store.ts';

const folder = await mkdtemp(join(tmpdir(), 's3-options-'));
after(() => rm(folder, { recursive: true, force: true }));

type Seen = {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
};

/** Takes everything that is stored, has nothing, and gives whoever shows the right token a key for a while. */
const recorder = async (
  serve: (listener: RequestListener) => Server = createServer,
): Promise<{ port: number; seen: Seen[] }> => {
  const seen: Seen[] = [];
  const server = serve(async (request, response) => {
    const body = Buffer.concat(await Array.fromAsync(request as AsyncIterable<Buffer>)).toString();
    seen.push({ method: request.method ?? '', url: request.url ?? '', headers: request.headers, body });
    if (request.method === 'POST') {
      response.setHeader('content-type', 'text/xml');
      response.end(
        body.includes('WebIdentityToken=token-of-the-pod')
          ? '<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>ASSUMED</AccessKeyId><SecretAccessKey>secret</SecretAccessKey><SessionToken>session-of-the-role</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>'
          : '<ErrorResponse><Error><Code>AccessDenied</Code></Error></ErrorResponse>',
      );
      return;
    }
    response.statusCode = request.method === 'PUT' ? 200 : 404;
    response.setHeader('etag', '"e"');
    response.end();
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  after(() => server.close());
  return { port: (server.address() as AddressInfo).port, seen };
};

const credentials = { accessKeyId: 'KEY', secretAccessKey: 'secret' };

/** The request that stores an object of two bytes. */
const storing = async (option: Partial<S3Destination>): Promise<Seen> => {
  const { port, seen } = await recorder();
  const store = createS3Store({ endpoint: `http://127.0.0.1:${port}`, bucket: 'etcd', credentials, ...option });
  async function* body(): AsyncGenerator<Uint8Array> {
    yield Buffer.from('hi');
  }
  await store.put('a/b.db', body(), { owner: 'u' });
  store.close();
  const put = seen.find(({ method }) => method === 'PUT');
  assert.ok(put !== undefined);
  return put;
};
const checksums = ({ headers }: Seen): string[] =>
  Object.keys(headers).filter((name) => /^x-amz-(checksum|sdk-checksum|trailer)/.test(name));

describe('an option of a bucket', () => {
  test('checksums: none of its own by default, one where the server is said to take it', async () => {
    assert.deepEqual(checksums(await storing({})), []);
    assert.deepEqual(checksums(await storing({ checksums: 'WhenRequired' })), []);
    assert.ok(checksums(await storing({ checksums: 'WhenSupported' })).length > 0);
  });

  test('region: what requests are signed for', async () => {
    assert.match((await storing({})).headers.authorization ?? '', /KEY\/\d+\/us-east-1\/s3/);
    assert.match((await storing({ region: 'eu-central-1' })).headers.authorization ?? '', /\/eu-central-1\/s3/);
  });

  test('forcePathStyle: the bucket in the path by default, else in the name of the host', async () => {
    assert.match((await storing({})).url, /^\/etcd\/a\/b\.db/);
    const store = createS3Store(
      { endpoint: 'http://s3.invalid', bucket: 'etcd', credentials, forcePathStyle: false },
      { maxAttempts: 1 },
    );
    await assert.rejects(
      store.find('a'),
      (error) => error instanceof StoreFault && /etcd\.s3\.invalid/.test(error.message),
    );
    store.close();
  });

  test('serverSideEncryption: what the server is asked for', async () => {
    const plain = await storing({});
    assert.equal(plain.headers['x-amz-server-side-encryption'], undefined);
    const own = await storing({ encryption: { mode: 'AES256' } });
    assert.equal(own.headers['x-amz-server-side-encryption'], 'AES256');
    const kms = await storing({ encryption: { mode: 'aws:kms', kmsKeyID: 'alias/etcd' } });
    assert.equal(kms.headers['x-amz-server-side-encryption'], 'aws:kms');
    assert.equal(kms.headers['x-amz-server-side-encryption-aws-kms-key-id'], 'alias/etcd');
  });
});

describe('the agent of the image', () => {
  const agent = bundle(programs.runtime, folder).then((made) => join(made, 'lib/agent.mjs'));

  /** What it said, asked to fetch an object that no server here has. */
  const fetching = async (endpoint: string, env: Readonly<Record<string, string>>): Promise<string> => {
    const order = { source: { s3: { endpoint, bucket: 'etcd', key: 'a.db' } }, version: '3.6.16' };
    const { promise, resolve } = Promise.withResolvers<string>();
    execFile(
      process.execPath,
      [await agent, 'fetch', '--work', join(folder, 'work')],
      {
        env: {
          ...env,
          [RESTORE_ORDER]: JSON.stringify(order),
          AWS_EC2_METADATA_DISABLED: 'true',
          AWS_MAX_ATTEMPTS: '1',
        },
        timeout: 120_000,
      },
      (_, stdout, stderr) => resolve(`${stdout}${stderr}`),
    );
    return promise;
  };

  test('signs with the key of its environment, a temporary one with its session token', async () => {
    const { port, seen } = await recorder();
    const keys = { AWS_ACCESS_KEY_ID: 'TEMPORARY', AWS_SECRET_ACCESS_KEY: 's', AWS_SESSION_TOKEN: 'the-session' };
    assert.match(await fetching(`http://127.0.0.1:${port}`, keys), /NotFound/);
    assert.match(seen[0]?.headers.authorization ?? '', /Credential=TEMPORARY/);
    assert.equal(seen[0]?.headers['x-amz-security-token'], 'the-session');
  });

  test('exchanges the token of its account where the platform has given it one', async () => {
    const { port, seen } = await recorder();
    const token = join(folder, 'token');
    await writeFile(token, 'token-of-the-pod');
    const said = await fetching(`http://127.0.0.1:${port}`, {
      AWS_ROLE_ARN: 'arn:aws:iam::1:role/etcd',
      AWS_WEB_IDENTITY_TOKEN_FILE: token,
      AWS_ENDPOINT_URL_STS: `http://127.0.0.1:${port}`,
      AWS_REGION: 'us-east-1',
    });
    assert.match(said, /NotFound/);
    const asked = seen.filter(({ method }) => method !== 'POST');
    assert.match(asked[0]?.headers.authorization ?? said, /Credential=ASSUMED/);
    assert.equal(asked[0]?.headers['x-amz-security-token'], 'session-of-the-role');
  });

  test('says that nobody gave it a key, instead of asking without one', async () => {
    const { port, seen } = await recorder();
    assert.match(await fetching(`http://127.0.0.1:${port}`, {}), /AccessDenied/);
    assert.deepEqual(seen, []);
  });

  test('trusts the authority that it was given, and nobody else’s', async () => {
    const issuer = issue({ subject: 'store authority', authority: true });
    const server = issue({ subject: 'store', issuer, usages: [SERVER_AUTH], dnsNames: ['localhost'] });
    const { port, seen } = await recorder((listener) =>
      createTlsServer({ cert: server.certificate, key: server.key }, listener),
    );
    const keys = { AWS_ACCESS_KEY_ID: 'KEY', AWS_SECRET_ACCESS_KEY: 's' };
    const endpoint = `https://localhost:${port}`;
    assert.match(await fetching(endpoint, keys), /Unreachable/);
    assert.deepEqual(seen, []);
    const ca = join(folder, 'ca.crt');
    await writeFile(ca, issuer.certificate);
    assert.match(await fetching(endpoint, { ...keys, NODE_EXTRA_CA_CERTS: ca }), /NotFound/);
  });
});
