import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { EventEmitter, getEventListeners, once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import http2 from 'node:http2';
import type { AddressInfo, Server, Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { EtcdFault, type EtcdFaultReason } from '../../ports/etcd.ts';
import { createEtcdClients } from './clients.ts';
import { createMemberClient } from './member-client.ts';

/** One gRPC request as the stub saw it. */
type Request = { readonly path: string; readonly token: string | undefined };
type Reply = { readonly grpcStatus: number; readonly message?: string; readonly body?: Uint8Array };

/** A server that speaks just enough gRPC to answer badly on purpose, and counts what reaches it. */
class Stub extends EventEmitter implements AsyncDisposable {
  readonly requests: Request[] = [];
  readonly sockets = new Set<Socket>();
  connections = 0;
  url = '';
  answer: (request: Request, stream: http2.ServerHttp2Stream) => Reply | undefined = () => ({ grpcStatus: 0 });
  #server: Server | undefined;

  static async listen(host = '127.0.0.1', tls?: http2.SecureServerOptions, at = 0): Promise<Stub> {
    const stub = new Stub();
    const server = tls === undefined ? http2.createServer() : http2.createSecureServer(tls);
    stub.#server = server as unknown as Server;
    server.on('connection', (socket: Socket) => {
      stub.connections += 1;
      stub.sockets.add(socket);
      socket.on('close', () => {
        stub.sockets.delete(socket);
        stub.emit('disconnected');
      });
    });
    server.on('session', (session) => session.on('error', () => undefined));
    server.on('sessionError', () => undefined);
    server.on('stream', (stream: http2.ServerHttp2Stream, headers) => {
      stream.on('error', () => undefined);
      const token = headers.token;
      const request = { path: String(headers[':path']), token: typeof token === 'string' ? token : undefined };
      stub.requests.push(request);
      const reply = stub.answer(request, stream);
      if (reply === undefined) return;
      stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
      stream.on('wantTrailers', () => {
        if (stream.destroyed) return;
        stream.sendTrailers({
          'grpc-status': reply.grpcStatus,
          'grpc-message': encodeURIComponent(reply.message ?? ''),
        });
      });
      if (reply.grpcStatus === 0) stream.end(frame(reply.body ?? new Uint8Array()));
      else stream.end();
    });
    server.listen(at, host);
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    stub.url = `${tls === undefined ? 'http' : 'https'}://${host.includes(':') ? `[${host}]` : host}:${port}`;
    return stub;
  }

  paths(): readonly string[] {
    return this.requests.map(({ path }) => path);
  }

  async allDisconnected(): Promise<void> {
    while (this.sockets.size > 0) await once(this, 'disconnected', { signal: AbortSignal.timeout(5_000) });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.sockets) socket.destroy();
    await new Promise((done) => this.#server?.close(done));
  }
}

const frame = (body: Uint8Array): Buffer => {
  const head = Buffer.alloc(5);
  head.writeUInt32BE(body.length, 1);
  return Buffer.concat([head, body]);
};

/** Field 1: a header with cluster 0xabc and member 0xdef. */
const header = Buffer.from([0x0a, 0x06, 0x08, 0xbc, 0x15, 0x10, 0xef, 0x1b]);
const tokenAnswer = (token: string): Buffer =>
  Buffer.concat([header, Buffer.from([0x12, token.length]), Buffer.from(token)]);

const faultOf = async (call: Promise<unknown>): Promise<EtcdFault> => {
  const failure = await call.then(
    () => assert.fail('the call went well'),
    (cause: unknown) => cause,
  );
  assert.ok(failure instanceof EtcdFault, String(failure));
  return failure;
};

describe('an identity', () => {
  test('keeps all its 64 bits, unsigned, and no leading zero', async () => {
    await using stub = await Stub.listen();
    // Header: cluster 2^64-1. One member: ID 2^63+1; another: ID 16.
    const highest = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    const high = [0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01];
    stub.answer = () => ({
      grpcStatus: 0,
      body: Buffer.from([0x0a, 0x0b, 0x08, ...highest, 0x12, 0x0b, 0x08, ...high, 0x12, 0x02, 0x08, 0x10]),
    });
    const client = createMemberClient({ url: stub.url });
    const { clusterId, members } = await client.memberList({ linearizable: true });
    assert.equal(clusterId, 'ffffffffffffffff');
    assert.deepEqual(
      members.map(({ id }) => id),
      ['10', '8000000000000001'],
    );
    client.close();
  });
});

describe('a membership change', () => {
  const badDays: readonly (readonly [
    string,
    (stream: http2.ServerHttp2Stream) => Reply | undefined,
    EtcdFaultReason,
  ])[] = [
    ['the server is stopping', () => ({ grpcStatus: 14, message: 'etcdserver: server stopped' }), 'Unavailable'],
    [
      'the cluster is unhealthy',
      () => ({ grpcStatus: 14, message: 'etcdserver: unhealthy cluster' }),
      'UnhealthyCluster',
    ],
    ['the server times out', () => ({ grpcStatus: 14, message: 'etcdserver: request timed out' }), 'ServerTimeout'],
    ['the server fails inside', () => ({ grpcStatus: 13, message: 'oops' }), 'BrokenAnswer'],
    ['the server aborts', () => ({ grpcStatus: 10, message: 'aborted' }), 'Unknown'],
    ['the server is busy', () => ({ grpcStatus: 8, message: 'etcdserver: too many requests' }), 'RateLimited'],
    ['the answer cannot be read', () => ({ grpcStatus: 0, body: Buffer.from([0x0a, 0x7f, 0x01]) }), 'BrokenAnswer'],
    ['the answer is empty', () => ({ grpcStatus: 0 }), 'BrokenAnswer'],
    [
      'the connection breaks after the request was sent',
      (stream) => {
        stream.session?.destroy();
        return undefined;
      },
      'Unreachable',
    ],
    [
      'the stream is refused',
      (stream) => {
        stream.close(http2.constants.NGHTTP2_REFUSED_STREAM);
        return undefined;
      },
      'Unreachable',
    ],
    ['nobody answers', () => undefined, 'Timeout'],
  ];
  for (const [what, reply, reason] of badDays) {
    test(`is sent exactly once when ${what}`, async () => {
      await using stub = await Stub.listen();
      stub.answer = (_, stream) => reply(stream);
      const client = createMemberClient({ url: stub.url });
      const fault = await faultOf(client.memberAddLearner(['http://new:2380'], { deadlineMs: 400 }));
      assert.equal(fault.reason, reason, fault.message);
      assert.equal(fault.operation, 'memberAddLearner');
      assert.equal(fault.url, stub.url);
      // Long enough for a retry with etcd3's or gRPC's own back-off to show.
      await delay(150);
      assert.deepEqual(stub.paths(), ['/etcdserverpb.Cluster/MemberAdd']);
      client.close();
    });
  }

  test('may have happened when its connection breaks, and has not when none stood', async () => {
    await using stub = await Stub.listen();
    stub.answer = (_, stream) => {
      stream.session?.destroy();
      return undefined;
    };
    const client = createMemberClient({ url: stub.url });
    assert.equal((await faultOf(client.memberRemove('abc'))).mayHaveHappened, true);
    await stub[Symbol.asyncDispose]();
    const refused = await faultOf(client.memberRemove('abc'));
    assert.equal(refused.reason, 'Unreachable');
    assert.equal(refused.mayHaveHappened, false);
    client.close();
  });
});

describe('a connection', () => {
  const ask = (stub: Stub, idleMs?: number) => {
    stub.answer = () => ({ grpcStatus: 0, body: header });
    return createMemberClient({ url: stub.url }, { idleMs });
  };

  test('is not dialled before the first call, and serves all kinds of calls', async () => {
    await using stub = await Stub.listen();
    const client = ask(stub);
    await delay(30);
    assert.equal(stub.connections, 0);
    await client.memberList({ linearizable: true });
    await client.put('k', 'v');
    await client.alarms();
    await Promise.all(Array.from({ length: 20 }, () => client.memberList({ linearizable: false })));
    assert.equal(stub.connections, 1);
    client.close();
    await stub.allDisconnected();
  });

  test('is closed when it idles, and dialled again by the next call', async () => {
    await using stub = await Stub.listen();
    const client = ask(stub, 20);
    await client.alarms();
    await stub.allDisconnected();
    await client.alarms();
    assert.equal(stub.connections, 2);
    client.close();
  });

  test('is closed after each call when it may not idle at all', async () => {
    await using stub = await Stub.listen();
    const client = ask(stub, 0);
    for (let i = 0; i < 3; i += 1) {
      await client.alarms();
      await stub.allDisconnected();
    }
    assert.equal(stub.connections, 3);
    client.close();
  });

  test('is dialled anew right after it was refused, without the ever longer waits of gRPC', async () => {
    const before = await Stub.listen();
    const { port } = new URL(before.url);
    await before[Symbol.asyncDispose]();
    const client = createMemberClient({ url: before.url });
    for (let i = 0; i < 5; i += 1) assert.equal((await faultOf(client.alarms())).reason, 'Unreachable');
    await using back = await Stub.listen('127.0.0.1', undefined, Number(port));
    back.answer = () => ({ grpcStatus: 0, body: header });
    await client.alarms();
    client.close();
  });

  test('to an IPv6 address works', async () => {
    await using stub = await Stub.listen('::1');
    const client = ask(stub);
    await client.alarms();
    client.close();
  });

  test('never goes through a proxy of the environment', async () => {
    await using stub = await Stub.listen();
    const client = ask(stub);
    process.env.grpc_proxy = 'http://127.0.0.1:9';
    try {
      await client.alarms();
    } finally {
      delete process.env.grpc_proxy;
      client.close();
    }
  });

  test('leaves no listener on a signal that outlives many calls', async () => {
    await using stub = await Stub.listen();
    const client = ask(stub);
    const { signal } = new AbortController();
    for (let i = 0; i < 50; i += 1) await client.alarms({ signal });
    assert.equal(getEventListeners(signal, 'abort').length, 0);
    client.close();
  });
});

describe('a token', () => {
  test('is fetched once for many calls, and once more when it went stale', async () => {
    await using stub = await Stub.listen();
    let valid = 'first';
    stub.answer = ({ path, token }) => {
      if (path.endsWith('/Authenticate')) return { grpcStatus: 0, body: tokenAnswer(valid) };
      return token === valid
        ? { grpcStatus: 0, body: header }
        : { grpcStatus: 16, message: 'etcdserver: invalid auth token' };
    };
    const client = createMemberClient({ url: stub.url, auth: { username: 'root', password: 'secret-word' } });
    const asked = () => stub.paths().filter((path) => path.endsWith('/Authenticate')).length;
    await Promise.all(Array.from({ length: 10 }, () => client.alarms()));
    assert.equal(asked(), 1);
    valid = 'second';
    await Promise.all(Array.from({ length: 10 }, () => client.memberRemove('abc')));
    assert.ok(asked() >= 2);
    const before = asked();
    await client.alarms();
    assert.equal(asked(), before);
    client.close();
  });

  test('that is refused even when new ends the call, and tells no password', async () => {
    await using stub = await Stub.listen();
    stub.answer = ({ path }) =>
      path.endsWith('/Authenticate')
        ? { grpcStatus: 0, body: tokenAnswer('t') }
        : { grpcStatus: 16, message: 'etcdserver: invalid auth token' };
    const client = createMemberClient({ url: stub.url, auth: { username: 'root', password: 'secret-word' } });
    const fault = await faultOf(client.memberRemove('abc'));
    assert.equal(fault.reason, 'InvalidAuth');
    assert.equal(stub.paths().filter((path) => path.endsWith('/MemberRemove')).length, 2);
    assert.equal(`${fault.message}${fault.stack}${String(fault.cause)}`.includes('secret-word'), false);
    client.close();
  });

  test('that nobody hands out does not hold a call beyond its own deadline', async () => {
    await using stub = await Stub.listen();
    stub.answer = () => undefined;
    const client = createMemberClient({ url: stub.url, auth: { username: 'root', password: 'secret-word' } });
    const began = performance.now();
    assert.equal((await faultOf(client.status({ deadlineMs: 100 }))).reason, 'Timeout');
    assert.ok(performance.now() - began < 1_000);
    client.close();
  });
});

describe('a snapshot', () => {
  const piece = (remaining: number, blob: Buffer): Buffer => {
    const varint = (value: number): number[] => (value < 128 ? [value] : [(value & 127) | 128, ...varint(value >>> 7)]);
    const left = remaining === 0 ? [] : [0x10, ...varint(remaining)];
    return frame(Buffer.concat([Buffer.from([...left, 0x1a, ...varint(blob.length)]), blob]));
  };
  const streaming = (stub: Stub, send: (stream: http2.ServerHttp2Stream) => void) => {
    stub.answer = (_, stream) => {
      stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
      stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': 0 }));
      send(stream);
      return undefined;
    };
    return createMemberClient({ url: stub.url });
  };
  const drain = async (chunks: AsyncIterable<unknown>): Promise<number> => {
    let count = 0;
    for await (const _ of chunks) count += 1;
    return count;
  };

  test('that ends before its last byte is a fault, although gRPC calls it a success', async () => {
    await using stub = await Stub.listen();
    const client = streaming(stub, (stream) => stream.end(piece(100, Buffer.alloc(10))));
    const fault = await faultOf(drain(client.snapshot()));
    assert.equal(fault.reason, 'BrokenAnswer');
    assert.match(fault.message, /100 bytes early/);
    client.close();
  });

  test('that is empty is a fault', async () => {
    await using stub = await Stub.listen();
    const client = streaming(stub, (stream) => stream.end());
    assert.equal((await faultOf(drain(client.snapshot()))).reason, 'BrokenAnswer');
    client.close();
  });

  test('that falls silent is a timeout', async () => {
    await using stub = await Stub.listen();
    const client = streaming(stub, (stream) => stream.write(piece(100, Buffer.alloc(10))));
    assert.equal((await faultOf(drain(client.snapshot({ deadlineMs: 100 })))).reason, 'Timeout');
    client.close();
  });

  test('may be read slower than its deadline', async () => {
    await using stub = await Stub.listen();
    const client = streaming(stub, (stream) => {
      stream.write(piece(10, Buffer.alloc(10)));
      stream.end(piece(0, Buffer.alloc(10)));
    });
    let seen = 0;
    for await (const _ of client.snapshot({ deadlineMs: 100 })) {
      seen += 1;
      await delay(150);
    }
    assert.equal(seen, 2);
    client.close();
  });

  test('is not sent faster than it is read, so that memory stays flat', async () => {
    await using stub = await Stub.listen();
    const size = 64 * 1024;
    const pieces = 512;
    let sent = 0;
    const client = streaming(stub, (stream) => {
      const send = () => {
        while (sent < pieces) {
          sent += 1;
          if (!stream.write(piece((pieces - sent) * size, Buffer.alloc(size)))) {
            stream.once('drain', send);
            return;
          }
        }
        stream.end();
      };
      send();
    });
    let seen = 0;
    for await (const { blob } of client.snapshot()) {
      seen += 1;
      assert.equal(blob.length, size);
      if (seen === 1) {
        await delay(200);
        assert.ok(sent < 64, `${sent} of ${pieces} pieces were sent to a reader that took one`);
      }
    }
    assert.equal(seen, pieces);
    client.close();
  });

  test('ends at the server when the reader leaves or gives up', async () => {
    await using stub = await Stub.listen();
    const ended = Promise.withResolvers<void>();
    let streams = 0;
    const client = streaming(stub, (stream) => {
      stream.write(piece(100, Buffer.alloc(10)));
      stream.on('close', () => {
        streams += 1;
        if (streams === 2) ended.resolve();
      });
    });
    for await (const _ of client.snapshot()) break;
    const caller = new AbortController();
    const reading = drain(client.snapshot({ signal: caller.signal }));
    setTimeout(() => caller.abort(), 50);
    assert.equal((await faultOf(reading)).reason, 'Cancelled');
    await ended.promise;
    client.close();
  });
});

describe('TLS', () => {
  let directory = '';
  const run = promisify(execFile);
  const file = (name: string) => join(directory, name);
  const issue = async (name: string, authority: string, names: string, days = '1') => {
    const request = [
      'req',
      '-newkey',
      'ec',
      '-pkeyopt',
      'ec_paramgen_curve:prime256v1',
      '-nodes',
      '-subj',
      `/CN=${name}`,
    ];
    await run('openssl', [...request, '-keyout', file(`${name}.key`), '-out', file(`${name}.csr`)]);
    await writeFile(file(`${name}.ext`), `subjectAltName=${names}\n`);
    const sign = ['x509', '-req', '-in', file(`${name}.csr`), '-CA', file(`${authority}.crt`), '-CAkey'];
    const rest = [file(`${authority}.key`), '-CAcreateserial', '-days', days, '-extfile', file(`${name}.ext`)];
    await run('openssl', [...sign, ...rest, '-out', file(`${name}.crt`)]);
  };
  const authority = async (name: string) => {
    const request = [
      'req',
      '-x509',
      '-newkey',
      'ec',
      '-pkeyopt',
      'ec_paramgen_curve:prime256v1',
      '-nodes',
      '-days',
      '1',
    ];
    await run('openssl', [
      ...request,
      '-subj',
      `/CN=${name}`,
      '-keyout',
      file(`${name}.key`),
      '-out',
      file(`${name}.crt`),
    ]);
  };
  before(async () => {
    directory = await mkdtemp(join(tmpdir(), 'etcd-tls-'));
    await authority('ours');
    await authority('foreign');
    await issue('server', 'ours', 'DNS:blue-0-a.blue.shop.svc');
    await issue('client', 'ours', 'DNS:runtime');
    await issue('stranger', 'foreign', 'DNS:runtime');
  });
  after(() => rm(directory, { recursive: true, force: true }));

  const serverOptions = async (): Promise<http2.SecureServerOptions> => ({
    key: await readFile(file('server.key')),
    cert: await readFile(file('server.crt')),
    ca: await readFile(file('ours.crt')),
    requestCert: true,
    rejectUnauthorized: true,
  });
  const endpoint = async (url: string, ca: string, identity: string | undefined, serverName: string | undefined) => ({
    url,
    tls: {
      ca: await readFile(file(`${ca}.crt`)),
      serverName,
      ...(identity === undefined
        ? {}
        : { certificate: await readFile(file(`${identity}.crt`)), key: await readFile(file(`${identity}.key`)) }),
    },
  });

  test('reaches a member by address under the name in its certificate, with a client certificate', async () => {
    await using stub = await Stub.listen('127.0.0.1', await serverOptions());
    stub.answer = () => ({ grpcStatus: 0, body: header });
    const client = createMemberClient(await endpoint(stub.url, 'ours', 'client', 'blue-0-a.blue.shop.svc'));
    await client.alarms();
    client.close();
  });

  const refused: readonly (readonly [string, string, string | undefined, string | undefined])[] = [
    ['a server of a foreign authority', 'foreign', 'client', 'blue-0-a.blue.shop.svc'],
    ['a server under another name', 'ours', 'client', 'red-0-a.red.shop.svc'],
    ['a server by an address that its certificate lacks', 'ours', 'client', undefined],
    ['a client without a certificate', 'ours', undefined, 'blue-0-a.blue.shop.svc'],
    ['a client of a foreign authority', 'ours', 'stranger', 'blue-0-a.blue.shop.svc'],
  ];
  for (const [what, ca, identity, serverName] of refused) {
    test(`is refused with ${what}`, async () => {
      await using stub = await Stub.listen('127.0.0.1', await serverOptions());
      stub.answer = () => ({ grpcStatus: 0, body: header });
      const client = createMemberClient(await endpoint(stub.url, ca, identity, serverName));
      const fault = await faultOf(client.memberRemove('abc', { deadlineMs: 2_000 }));
      assert.ok(fault.reason === 'TlsRefused' || (fault.reason === 'Unreachable' && ca === 'ours'), fault.message);
      assert.deepEqual(stub.paths(), []);
      client.close();
    });
  }

  test('is kept for a URL that says http by mistake: a password never goes out in the clear', async () => {
    await using stub = await Stub.listen();
    const wrong = await endpoint(stub.url, 'ours', undefined, 'blue-0-a.blue.shop.svc');
    const client = createMemberClient({ ...wrong, auth: { username: 'root', password: 'secret-word' } });
    await faultOf(client.status({ deadlineMs: 300 }));
    assert.deepEqual(stub.paths(), []);
    client.close();
  });
});

describe('shared clients', () => {
  test('are one for the same member and credentials, and others for other ones', () => {
    const clients = createEtcdClients();
    const url = 'http://10.0.0.1:2379';
    const auth = { username: 'root', password: 'a' };
    const ca = Buffer.from('ca');
    assert.equal(clients.at({ url }), clients.at({ url }));
    assert.equal(clients.at({ url, auth }), clients.at({ url, auth: { ...auth } }));
    assert.equal(clients.at({ url, tls: { ca } }), clients.at({ url, tls: { ca: Buffer.from('ca') } }));
    const all = [
      clients.at({ url }),
      clients.at({ url: 'http://10.0.0.2:2379' }),
      clients.at({ url, auth }),
      clients.at({ url, auth: { ...auth, password: 'b' } }),
      clients.at({ url, auth: { username: 'roota', password: '' } }),
      clients.at({ url, tls: { ca } }),
      clients.at({ url, tls: { ca, serverName: 'ca' } }),
      clients.dial({ url }),
    ];
    assert.equal(new Set(all).size, all.length);
    clients.close();
  });

  test('of a member that is gone are closed, and those of others are not', async () => {
    await using gone = await Stub.listen();
    await using stays = await Stub.listen();
    for (const stub of [gone, stays]) stub.answer = () => ({ grpcStatus: 0, body: header });
    const clients = createEtcdClients();
    const old = clients.at({ url: gone.url });
    await Promise.all([old.alarms(), clients.at({ url: stays.url }).alarms()]);
    clients.forget(gone.url);
    await gone.allDisconnected();
    assert.equal((await faultOf(old.alarms())).reason, 'Closed');
    assert.notEqual(clients.at({ url: gone.url }), old);
    await clients.at({ url: stays.url }).alarms();
    assert.equal(stays.connections, 1);
    clients.close();
    await stays.allDisconnected();
  });
});
