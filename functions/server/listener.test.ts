import assert from 'node:assert/strict';
import { type EventEmitter, once } from 'node:events';
import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { connect as connectHttp2 } from 'node:http2';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { connect as connectTls } from 'node:tls';
import { Client, credentials, Metadata, type ServiceError, status } from '@grpc/grpc-js';
import { pino } from 'pino';
import type { Compose } from '../composing/exchange.ts';
import {
  type Authority,
  CLIENT_AUTH,
  CROSSPLANE,
  crossplaneAuthority,
  crossplaneClient,
  functionServer,
  type Identity,
  issue,
  SERVER_AUTH,
} from './certificates.fixture.ts';
import { type Listener, listen, listenInsecurely } from './listener.ts';
import { createMetrics, type Metrics } from './metrics.ts';
import { createRunner } from './runner.ts';

const log = pino({ level: 'silent' });
const path = (version: string) => `/apiextensions.fn.proto.${version}.FunctionRunnerService/RunFunction`;
const REQUEST = Buffer.from([0x0a, 0x03, 0x0a, 0x01, 0x74]); // meta { tag: "t" }

const echo: Compose = (request) => ({ ...(request.tag === undefined ? {} : { tag: request.tag }), ttlSeconds: 60 });

type Peer = { readonly identity: Identity | undefined; readonly trusts: Authority };

const clientOf = (port: number, peer: Peer | 'insecure'): Client =>
  new Client(
    `localhost:${port}`,
    peer === 'insecure'
      ? credentials.createInsecure()
      : credentials.createSsl(
          Buffer.from(peer.trusts.certificate),
          peer.identity === undefined ? null : Buffer.from(peer.identity.key),
          peer.identity === undefined ? null : Buffer.from(peer.identity.certificate),
        ),
    { 'grpc.enable_retries': 0 },
  );

const call = (client: Client, version = 'v1', deadlineMs = 3_000): Promise<Buffer> =>
  new Promise((resolve, reject) => {
    client.makeUnaryRequest(
      path(version),
      (bytes: Buffer) => bytes,
      (bytes: Buffer) => bytes,
      REQUEST,
      new Metadata(),
      { deadline: Date.now() + deadlineMs },
      (error, answer) => (error === null ? resolve(answer as Buffer) : reject(error)),
    );
  });

const callOnce = async (port: number, peer: Peer | 'insecure', version = 'v1'): Promise<Buffer> => {
  const client = clientOf(port, peer);
  try {
    return await call(client, version);
  } finally {
    client.close();
  }
};

const isRefused = (error: ServiceError): boolean => error.code === status.UNAVAILABLE;

/** A directory as a kubelet makes a Secret volume: the names are links through `..data`, which is exchanged at once. */
const secretVolume = async () => {
  const directory = await mkdtemp(join(tmpdir(), 'function-tls-'));
  let generation = 0;
  const write = async (files: Record<string, string>): Promise<void> => {
    const data = `..${++generation}`;
    await mkdir(join(directory, data));
    for (const [name, text] of Object.entries(files)) await writeFile(join(directory, data, name), text);
    await symlink(data, join(directory, '..next'));
    await rename(join(directory, '..next'), join(directory, '..data'));
  };
  return { directory, write };
};
const linkFiles = async (directory: string): Promise<void> => {
  for (const name of ['ca.crt', 'tls.crt', 'tls.key']) await symlink(join('..data', name), join(directory, name));
};
const filesOf = (ca: Authority, server: Identity) => ({
  'ca.crt': ca.certificate,
  'tls.crt': server.certificate,
  'tls.key': server.key,
});

const refusals = async (metrics: Metrics): Promise<{ [reason: string]: number | undefined }> => {
  const metric = await metrics.registry.getSingleMetric('function_connections_refused_total')?.get();
  return Object.fromEntries(metric?.values.map(({ labels, value }) => [labels.reason, value]) ?? []);
};

const allRefusals = async (metrics: Metrics): Promise<number> =>
  Object.values(await refusals(metrics)).reduce((sum: number, each) => sum + (each ?? 0), 0);

/** Once the other side has ended the connection, with or without an error. */
const closedBy = (connection: EventEmitter): Promise<void> =>
  new Promise((resolve, reject) => {
    const late = setTimeout(reject, 5_000, new Error('the connection is still open'));
    connection.on('error', () => {});
    connection.once('close', () => {
      clearTimeout(late);
      resolve();
    });
  });

const start = async (files: Record<string, string>, compose: Compose = echo, pollMs = 60_000) => {
  const volume = await secretVolume();
  await volume.write(files);
  await linkFiles(volume.directory);
  const metrics = createMetrics();
  const listener = await listen({
    address: { host: undefined, port: 0 },
    run: createRunner(compose, log, metrics),
    maxReceiveBytes: 1024 * 1024,
    log,
    metrics,
    directory: volume.directory,
    pollMs,
  });
  return {
    ...volume,
    metrics,
    listener,
    stop: async () => {
      await listener.drain(100);
      await rm(volume.directory, { recursive: true });
    },
  };
};

describe('client certificates', () => {
  const ca = crossplaneAuthority();
  const stranger = crossplaneAuthority();
  let serving: Awaited<ReturnType<typeof start>>;
  let listener: Listener;
  before(async () => {
    serving = await start(filesOf(ca, functionServer(ca)));
    listener = serving.listener;
  });
  after(() => serving.stop());

  test("a client whose certificate has its CA's subject and no key identifiers is served, because Crossplane's is so", async () => {
    const answer = await callOnce(listener.port, { identity: crossplaneClient(ca), trusts: ca });
    assert.ok(answer.includes(Buffer.from('t')));
  });

  test('v1beta1 is served too, because Crossplane falls back to it', async () => {
    assert.ok((await callOnce(listener.port, { identity: crossplaneClient(ca), trusts: ca }, 'v1beta1')).length > 0);
  });

  const refused: [what: string, reason: string, identity: () => Identity | undefined][] = [
    ['without a certificate', 'NoCertificate', () => undefined],
    ['with a certificate of a foreign CA of the same name', 'ForeignIssuer', () => crossplaneClient(stranger)],
    [
      "with a self-signed certificate in the CA's name",
      'ForeignIssuer',
      () => issue({ subject: CROSSPLANE, usages: [CLIENT_AUTH] }),
    ],
    ['with a certificate that has ended', 'Expired', () => crossplaneClient(ca, { notAfter: -1_000 })],
    ['with a certificate that is not valid yet', 'NotYetValid', () => crossplaneClient(ca, { notBefore: 60_000 })],
    ['with a certificate for servers', 'NotForClients', () => crossplaneClient(ca, { usages: [SERVER_AUTH] })],
    ['with a certificate that names no usage', 'NotForClients', () => issue({ subject: CROSSPLANE, issuer: ca })],
    [
      'with a certificate signed by a client and not by the CA',
      'ForeignIssuer',
      () => crossplaneClient(issue({ subject: CROSSPLANE, issuer: ca, usages: [CLIENT_AUTH] })),
    ],
  ];
  for (const [what, reason, identity] of refused) {
    test(`a client ${what} is refused`, async () => {
      const before = (await refusals(serving.metrics))[reason] ?? 0;
      await assert.rejects(callOnce(listener.port, { identity: identity(), trusts: ca }), isRefused);
      assert.ok(((await refusals(serving.metrics))[reason] ?? 0) > before, `counted as ${reason}`);
    });
  }

  test('a client that does not speak TLS is refused', async () => {
    await assert.rejects(callOnce(listener.port, 'insecure'), isRefused);
  });
});

describe('certificate files', () => {
  test('the server does not start without its certificates, and says which file is missing', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'function-tls-'));
    const metrics = createMetrics();
    const serving = {
      address: { host: undefined, port: 0 },
      run: createRunner(echo, log, metrics),
      maxReceiveBytes: 1024,
      log,
      metrics,
    };
    await assert.rejects(listen({ ...serving, directory }), /ENOENT.*ca\.crt/);
    const ca = crossplaneAuthority();
    const files = { ...filesOf(ca, functionServer(ca)), 'tls.key': functionServer(ca).key };
    for (const [name, text] of Object.entries(files)) await writeFile(join(directory, name), text);
    await assert.rejects(listen({ ...serving, directory }), /tls\.key with tls\.crt/);
    await writeFile(join(directory, 'ca.crt'), crossplaneClient(ca).certificate);
    await assert.rejects(listen({ ...serving, directory }), /ca\.crt: there is no CA certificate/);
    await rm(directory, { recursive: true });
  });

  test('replaced files are used without a restart, and who only the old CA signed loses its connection', async () => {
    const old = crossplaneAuthority();
    const next = crossplaneAuthority();
    const serving = await start(filesOf(old, functionServer(old)));
    const before = clientOf(serving.listener.port, { identity: crossplaneClient(old), trusts: old });
    await call(before);
    await serving.write(filesOf(next, functionServer(next)));
    const peer = { identity: crossplaneClient(next), trusts: next };
    await eventually(() => callOnce(serving.listener.port, peer));
    await assert.rejects(call(before), isRefused);
    before.close();
    await serving.stop();
  });

  test('a TLS session from before the CA was replaced is no way around the check', async () => {
    const old = crossplaneAuthority();
    const next = crossplaneAuthority();
    const serving = await start(filesOf(old, functionServer(old)));
    const identity = crossplaneClient(old);
    const options = {
      port: serving.listener.port,
      host: 'localhost',
      cert: identity.certificate,
      key: identity.key,
      rejectUnauthorized: false,
      ALPNProtocols: ['h2'],
      maxVersion: 'TLSv1.2' as const,
    };
    const first = connectTls(options);
    await once(first, 'secureConnect');
    const session = first.getSession();
    assert.ok(session !== undefined, 'the server gave a session');
    await serving.write(filesOf(next, functionServer(next)));
    await eventually(() => callOnce(serving.listener.port, { identity: crossplaneClient(next), trusts: next }));
    const before = await allRefusals(serving.metrics);
    const second = connectTls({ ...options, session });
    await closedBy(second);
    assert.equal((await allRefusals(serving.metrics)) - before, 1);
    first.destroy();
    await serving.stop();
  });

  test('half-written files change nothing: what was good stays in use and the failure is counted', async () => {
    const ca = crossplaneAuthority();
    const serving = await start(filesOf(ca, functionServer(ca)));
    await serving.write({ ...filesOf(ca, functionServer(ca)), 'tls.key': 'half' });
    await eventually(async () => {
      const metric = await serving.metrics.registry.getSingleMetric('function_certificate_reloads_total')?.get();
      assert.deepEqual(
        metric?.values.map(({ labels, value }) => [labels.outcome, value]),
        [['failed', 1]],
      );
    });
    await callOnce(serving.listener.port, { identity: crossplaneClient(ca), trusts: ca });
    await serving.stop();
  });

  test('a server whose own certificate has ended says that it is not ready', async () => {
    const ca = crossplaneAuthority();
    const serving = await start(filesOf(ca, functionServer(ca, { notAfter: -1_000 })));
    assert.match(serving.listener.unready() ?? '', /certificate ended/);
    await serving.stop();
  });
});

describe('life of the server', () => {
  const serveInsecurely = (compose: Compose, maxReceiveBytes = 1024 * 1024) => {
    const metrics = createMetrics();
    return listenInsecurely({
      address: { host: '127.0.0.1', port: 0 },
      run: createRunner(compose, log, metrics),
      maxReceiveBytes,
      log,
      metrics,
    });
  };

  test('a defect in a step is a FATAL result with the tag and the cause, and the server lives on', async () => {
    let calls = 0;
    const listener = await serveInsecurely((request) => {
      if (++calls === 1) throw new TypeError('x is not a function');
      return echo(request);
    });
    const client = clientOf(listener.port, 'insecure');
    const answer = (await call(client)).toString('latin1');
    assert.match(answer, /TypeError: x is not a function/);
    assert.match(answer, /FunctionDefect/);
    assert.match((await call(client)).toString('latin1'), /t/);
    client.close();
    await listener.drain(100);
  });

  test('a request larger than allowed is refused with a gRPC status that says so', async () => {
    const listener = await serveInsecurely(echo, 4);
    await assert.rejects(callOnce(listener.port, 'insecure'), (error: ServiceError) => {
      return error.code === status.RESOURCE_EXHAUSTED;
    });
    await listener.drain(100);
  });

  test('an address that is taken is an error, never a server that listens on nothing', async () => {
    const listener = await serveInsecurely(echo);
    const metrics = createMetrics();
    const serving = {
      address: { host: '127.0.0.1', port: listener.port },
      run: createRunner(echo, log, metrics),
      maxReceiveBytes: 1024,
      log,
      metrics,
    };
    await assert.rejects(listenInsecurely(serving));
    const ca = crossplaneAuthority();
    const volume = await secretVolume();
    await volume.write(filesOf(ca, functionServer(ca)));
    await linkFiles(volume.directory);
    await assert.rejects(listen({ ...serving, directory: volume.directory }), /EADDRINUSE/);
    await rm(volume.directory, { recursive: true });
    await listener.drain(100);
  });

  test('draining breaks a call that does not end in time, so that a stuck client cannot hold the process', async () => {
    const listener = await serveInsecurely(echo);
    const session = connectHttp2(`http://127.0.0.1:${listener.port}`);
    const closed = closedBy(session);
    const stream = session.request({
      ':method': 'POST',
      ':path': path('v1'),
      'content-type': 'application/grpc',
      te: 'trailers',
    });
    stream.on('error', () => {});
    // Half of a message: the server waits for the rest.
    stream.write(Buffer.from([0, 0, 0, 0, 5, 0x0a]));
    await once(session, 'remoteSettings');
    await callOnce(listener.port, 'insecure');
    assert.equal(await listener.drain(200), 'broken');
    await closed;
  });

  for (const kind of ['mTLS', 'insecure'] as const) {
    test(`draining ends idle ${kind} connections at once and takes no new call`, async () => {
      const ca = crossplaneAuthority();
      const serving = kind === 'mTLS' ? await start(filesOf(ca, functionServer(ca))) : undefined;
      const listener = serving?.listener ?? (await serveInsecurely(echo));
      const peer = kind === 'mTLS' ? { identity: crossplaneClient(ca), trusts: ca } : 'insecure';
      const client = clientOf(listener.port, peer);
      await call(client);
      const drained = listener.drain(5_000);
      assert.equal(listener.unready(), 'stopping');
      const started = performance.now();
      assert.equal(await drained, 'drained');
      assert.ok(performance.now() - started < 4_000, 'did not wait for the limit');
      await assert.rejects(call(client, 'v1', 1_000));
      client.close();
      if (serving !== undefined) await rm(serving.directory, { recursive: true });
    });
  }
});

/** Until it does not throw, for at most five seconds: a watched file tells when, and nothing else can be awaited. */
const eventually = async (attempt: () => Promise<unknown>): Promise<void> => {
  const deadline = Date.now() + 5_000;
  for (;;) {
    try {
      await attempt();
      return;
    } catch (error) {
      if (Date.now() > deadline) throw error;
      await new Promise((resolve) => setTimeout(resolve, 25));
    }
  }
};
