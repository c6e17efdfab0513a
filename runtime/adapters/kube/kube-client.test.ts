import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { getEventListeners, once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { Agent as HttpsAgent } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, describe, test } from 'node:test';
import { fakeClock } from '../../../test/fakes/fake-clock.ts';
import { type FakeKube, startFakeKube } from '../../../test/fakes/fake-kube.ts';
import { KubeFault, type KubeFaultReason, resources } from '../../ports/kube.ts';
import { kubeAccess, kubeconfigAccess, plainAccess, podAccess } from './kube-access.ts';
import { createKube, type KubeRequestSeen } from './kube-client.ts';

const { configmaps, pods } = resources;

const faultOf = async (call: Promise<unknown>): Promise<KubeFault> => {
  try {
    await call;
  } catch (error) {
    assert.ok(error instanceof KubeFault, String(error));
    return error;
  }
  return assert.fail('the call succeeded');
};

/** A server that answers what the test says. */
const serve = async (answer: (request: IncomingMessage, response: ServerResponse) => void) => {
  const server = createServer(answer);
  const sockets = new Set<Socket>();
  server.on('connection', (socket) => sockets.add(socket));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url,
    connections: () => sockets.size,
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
};

describe('the client', () => {
  const open: (() => Promise<void> | void)[] = [];
  afterEach(async () => {
    for (const close of open.splice(0).reverse()) await close();
  });
  const fakeServer = async (): Promise<FakeKube> => {
    const fake = await startFakeKube();
    open.push(() => fake.close());
    return fake;
  };
  const at = { resource: configmaps, namespace: 'default', name: 'a' };

  test('tells an absent object from a kind that is not served, which says nothing about objects', async () => {
    const fake = await fakeServer();
    assert.equal(await fake.kube.get(at), undefined);
    fake.inject.fault({
      verb: 'get',
      status: 404,
      reason: 'NotFound',
      message: 'the server could not find the requested resource',
    });
    assert.equal((await faultOf(fake.kube.get(at))).reason, 'NotServed');
  });

  for (const [status, reason, expected, retry] of [
    [400, 'BadRequest', 'BadRequest', 'never'],
    [403, 'Forbidden', 'Forbidden', 'backoff'],
    [404, 'NotFound', 'NotServed', 'backoff'],
    [409, 'AlreadyExists', 'AlreadyExists', 'soon'],
    [409, 'Conflict', 'Conflict', 'soon'],
    [410, 'Expired', 'Gone', 'soon'],
    [422, 'Invalid', 'Invalid', 'never'],
    [429, 'TooManyRequests', 'TooManyRequests', 'backoff'],
    [500, 'InternalError', 'Unavailable', 'backoff'],
    [503, 'ServiceUnavailable', 'Unavailable', 'backoff'],
    [504, 'Timeout', 'Timeout', 'backoff'],
    [418, '', 'Unknown', 'backoff'],
  ] as const satisfies readonly (readonly [number, string, KubeFaultReason, string])[]) {
    test(`turns ${status} ${reason} into ${expected}, with one line that says what failed`, async () => {
      const fake = await fakeServer();
      fake.inject.fault({ verb: 'create', status, reason, message: 'two\nlines' });
      const fault = await faultOf(fake.kube.create(configmaps, { metadata: { name: 'a', namespace: 'default' } }));
      assert.equal(fault.reason, expected);
      assert.equal(fault.retry, retry);
      assert.equal(fault.status, status);
      assert.equal(fault.message, `create configmaps default: ${expected} (${status}): two lines`);
    });
  }

  test('passes on how long the server wants to be left alone', async () => {
    const fake = await fakeServer();
    fake.inject.fault({ status: 429, retryAfterSeconds: 7 });
    assert.equal((await faultOf(fake.kube.get(at))).retryAfterMs, 7000);
  });

  test('gives up at the deadline, also when the answer has begun', async () => {
    const fake = await fakeServer();
    fake.inject.fault({ how: 'hang' });
    assert.equal((await faultOf(fake.kube.get(at, { deadlineMs: 20 }))).reason, 'Timeout');
    const slow = await serve((_, response) => {
      response.writeHead(200, { 'content-type': 'application/json' });
      response.write('{"metadata":');
    });
    open.push(slow.close);
    const kube = createKube({ access: plainAccess(slow.url) });
    assert.equal((await faultOf(kube.get(at, { deadlineMs: 50 }))).reason, 'Timeout');
  });

  test('stops at once when the caller says so', async () => {
    const fake = await fakeServer();
    fake.inject.fault({ how: 'hang' });
    const stop = new AbortController();
    const call = faultOf(fake.kube.get(at, { signal: stop.signal }));
    stop.abort();
    assert.equal((await call).reason, 'Cancelled');
  });

  test('repeats a read that met a closing connection, and leaves a write to its caller', async () => {
    const fake = await fakeServer();
    const reads = fake.inject.fault({ verb: 'get', how: 'reset' });
    assert.equal(await fake.kube.get(at), undefined);
    assert.equal(reads.met(), 1);
    fake.inject.fault({ verb: 'create', how: 'lose' });
    const made = fake.kube.create(configmaps, { metadata: { name: 'a', namespace: 'default' } });
    assert.equal((await faultOf(made)).reason, 'Unavailable');
    assert.equal(fake.writes().length, 1);
    assert.notEqual(fake.state.get(configmaps, at), undefined, 'a lost answer is not a lost write');
  });

  test('starts a paged list again when its version is gone between two pages', async () => {
    const fake = await fakeServer();
    for (const name of ['a', 'b', 'c']) fake.state.put(configmaps, { metadata: { name, namespace: 'default' } });
    let lists = 0;
    const kube = createKube({
      access: plainAccess(fake.url),
      onRequest: () => {
        lists += 1;
        if (lists === 1) fake.inject.compact();
      },
    });
    const { items } = await kube.list(configmaps, { namespace: 'default', limit: 2 });
    assert.deepEqual(
      items.map((item) => item.metadata.name),
      ['a', 'b', 'c'],
    );
    assert.equal(lists, 4, 'page, refused page, page, page');
  });

  test('never quotes what it could not read, because it may be a Secret', async () => {
    const server = await serve((_, response) => response.end('{"data":{"password":"aHVudGVyMg=="},'));
    open.push(server.close);
    const kube = createKube({ access: plainAccess(server.url) });
    const fault = await faultOf(kube.get(at));
    assert.equal(fault.reason, 'Malformed');
    assert.doesNotMatch(JSON.stringify([fault.message, String(fault.cause)]), /aHVudGVyMg|password/);
  });

  test('refuses an object without identity rather than let it pass for one', async () => {
    const server = await serve((_, response) => response.end('{"metadata":{"name":"a"}}'));
    open.push(server.close);
    const fault = await faultOf(createKube({ access: plainAccess(server.url) }).get(at));
    assert.equal(fault.reason, 'Malformed');
  });

  test('asks for a namespace before the server would misunderstand', async () => {
    const fake = await fakeServer();
    const fault = await faultOf(fake.kube.get({ resource: pods, name: 'a' }));
    assert.equal(fault.reason, 'BadRequest');
    assert.equal(fake.requests.length, 0);
  });

  test('uses one connection for calls that follow each other', async () => {
    const server = await serve((request, response) => {
      request.resume();
      response.writeHead(404).end('{"details":{"name":"a"}}');
    });
    open.push(server.close);
    const kube = createKube({ access: plainAccess(server.url) });
    for (let n = 0; n < 20; n++) await kube.get(at);
    assert.equal(server.connections(), 1);
  });

  test('reports each request once, with its part of the object and its status', async () => {
    const fake = await fakeServer();
    const seen: KubeRequestSeen[] = [];
    const kube = createKube({ access: plainAccess(fake.url), onRequest: (request) => seen.push(request) });
    const ref = { resource: pods, namespace: 'default', name: 'p' };
    await kube.get(ref);
    await faultOf(kube.mergePatch(ref, {}, { subresource: 'status' }));
    fake.inject.fault({ how: 'hang' });
    await faultOf(kube.get(ref, { deadlineMs: 10 }));
    assert.deepEqual(
      seen.map(({ verb, resource, status }) => [verb, resource, status]),
      [
        ['get', 'pods', 404],
        ['patch', 'pods/status', 404],
        ['get', 'pods', 0],
      ],
    );
  });

  describe('watching', () => {
    const watch = (url: string, more: { idleTimeoutMs?: number; signal?: AbortSignal } = {}) =>
      createKube({ access: plainAccess(url) })
        .watch(configmaps, {
          resourceVersion: '1',
          timeoutSeconds: 60,
          idleTimeoutMs: more.idleTimeoutMs ?? 5000,
          signal: more.signal ?? new AbortController().signal,
        })
        [Symbol.asyncIterator]();
    const event = (name: string): string =>
      `${JSON.stringify({ type: 'ADDED', object: { metadata: { name, uid: name, resourceVersion: '2' } } })}\n`;
    const streaming = async (begin: (response: ServerResponse) => void) => {
      const server = await serve((_, response) => {
        response.writeHead(200);
        response.flushHeaders();
        begin(response);
      });
      open.push(server.close);
      return server.url;
    };

    test('puts lines together however the bytes arrive, also within a character', async () => {
      const bytes = Buffer.from(event('grün') + event('b') + event('c'));
      const cut = bytes.indexOf(0xc3) + 1;
      const parts = [bytes.subarray(0, cut), bytes.subarray(cut, cut + 80), bytes.subarray(cut + 80)];
      const url = await streaming((response) => {
        const next = (): void => {
          const part = parts.shift();
          if (part === undefined) response.end();
          else response.write(part, () => setImmediate(next));
        };
        next();
      });
      const names: string[] = [];
      const events = watch(url);
      for (let step = await events.next(); step.done !== true; step = await events.next()) {
        if (step.value.type !== 'BOOKMARK') names.push(step.value.object.metadata.name);
      }
      assert.deepEqual(names, ['grün', 'b', 'c']);
    });

    test('fails with Timeout on a silent stream, since a dead link says nothing', async () => {
      const url = await streaming((response) => response.write(event('a')));
      const events = watch(url, { idleTimeoutMs: 60 });
      assert.equal((await events.next()).done, false);
      assert.equal((await faultOf(events.next())).reason, 'Timeout');
    });

    test('lives as long as bytes come, however long that is', async () => {
      const url = await streaming((response) => {
        let left = 5;
        const next = (): void => {
          response.write(event('a'));
          left -= 1;
          if (left > 0) setTimeout(next, 150);
          else response.end();
        };
        next();
      });
      const events = watch(url, { idleTimeoutMs: 500 });
      let seen = 0;
      while ((await events.next()).done !== true) seen += 1;
      assert.equal(seen, 5);
    });

    for (const [what, line] of [
      ['is not JSON', '{"type":'],
      ['has an unknown type', '{"type":"NEWS","object":{}}'],
      ['lacks an identity', '{"type":"ADDED","object":{"metadata":{"name":"a"}}}'],
      ['is a bookmark without a version', '{"type":"BOOKMARK","object":{}}'],
    ] as const) {
      test(`fails with Malformed on a line that ${what}, since an event was lost`, async () => {
        const url = await streaming((response) => response.write(`${line}\n`));
        assert.equal((await faultOf(watch(url).next())).reason, 'Malformed');
      });
    }

    test('fails with Malformed when the stream ends within a line', async () => {
      const url = await streaming((response) => response.end('{"type":"ADDED"'));
      assert.equal((await faultOf(watch(url).next())).reason, 'Malformed');
    });

    test('fails with Gone on an ERROR event of 410', async () => {
      const url = await streaming((response) =>
        response.write('{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}\n'),
      );
      assert.equal((await faultOf(watch(url).next())).reason, 'Gone');
    });

    test('fails with Unavailable when the connection breaks', async () => {
      const url = await streaming((response) => setImmediate(() => response.socket?.resetAndDestroy()));
      assert.equal((await faultOf(watch(url).next())).reason, 'Unavailable');
    });

    test('leaves no listener on a signal that outlives it', async () => {
      const url = await streaming((response) => response.end());
      const stop = new AbortController();
      for (let n = 0; n < 5; n++) assert.equal((await watch(url, stop).next()).done, true);
      assert.equal(getEventListeners(stop.signal, 'abort').length, 0);
    });
  });

  describe('credentials', () => {
    const account = async (token: string): Promise<string> => {
      const folder = await mkdtemp(path.join(tmpdir(), 'account-'));
      open.push(() => rm(folder, { recursive: true }));
      await writeFile(path.join(folder, 'token'), `${token}\n`);
      await writeFile(path.join(folder, 'ca.crt'), 'one');
      await writeFile(path.join(folder, 'namespace'), 'etcd-system');
      return folder;
    };
    const env = { KUBERNETES_SERVICE_HOST: 'fd00::1', KUBERNETES_SERVICE_PORT: '6443' };

    test('of a Pod come from its files, and a renewed token is used within a minute on the same connections', async () => {
      const folder = await account('first');
      const clock = fakeClock();
      const access = await podAccess(env, folder, clock);
      assert.equal(access.server.href, 'https://[fd00::1]:6443/');
      assert.equal(access.namespace, 'etcd-system');
      const first = await access.credentials();
      assert.equal(first.headers.authorization, 'Bearer first');
      await writeFile(path.join(folder, 'token'), 'second');
      assert.equal((await access.credentials()).headers.authorization, 'Bearer first', 'read at most once a minute');
      await clock.advance(61_000);
      const second = await access.credentials();
      assert.equal(second.headers.authorization, 'Bearer second');
      assert.equal(second.agent, first.agent);
    });

    test('with a new CA get a new agent, since the old one trusts the wrong server', async () => {
      const folder = await account('token');
      const access = await podAccess(env, folder, fakeClock());
      const first = await access.credentials();
      await writeFile(path.join(folder, 'ca.crt'), 'two');
      access.expire();
      assert.notEqual((await access.credentials()).agent, first.agent);
    });

    test('that cannot be read fail the call and are tried again by the next', async () => {
      const folder = await account('token');
      const access = await podAccess(env, folder, fakeClock());
      await rm(path.join(folder, 'token'));
      const kube = createKube({ access });
      assert.equal((await faultOf(kube.get(at))).reason, 'Unavailable');
      await writeFile(path.join(folder, 'token'), 'back');
      assert.equal((await access.credentials()).headers.authorization, 'Bearer back');
    });

    test('that never come end the call all the same', async () => {
      const folder = await account('token');
      const clock = fakeClock();
      const access = await podAccess(env, folder, clock);
      const token = path.join(folder, 'token');
      await rm(token);
      execFileSync('mkfifo', [token]);
      const call = faultOf(createKube({ access }).get(at));
      await clock.armed(1);
      await clock.advance(10_000);
      assert.equal((await call).reason, 'Timeout');
      // Lets the read that still waits for a writer end.
      await writeFile(token, 'late');
    });

    test('refused with 401 are read again at once, and the call repeated once', async () => {
      const fake = await fakeServer();
      const inner = plainAccess(fake.url);
      let expired = 0;
      const expire = (): void => {
        expired += 1;
      };
      const access = { ...inner, expire };
      const kube = createKube({ access });
      fake.inject.fault({ status: 401, times: 1 });
      await kube.create(configmaps, { metadata: { name: 'a', namespace: 'default' } });
      fake.inject.fault({ status: 401, times: 2 });
      assert.equal((await faultOf(kube.get(at))).reason, 'Unauthorized');
      assert.equal(expired, 2);
    });

    test('of a kubeconfig are those of its context', async () => {
      const folder = await account('unused');
      const file = path.join(folder, 'config');
      await writeFile(
        file,
        `apiVersion: v1
kind: Config
current-context: two
contexts:
- {name: one, context: {cluster: one, user: one}}
- {name: two, context: {cluster: two, user: two, namespace: here}}
clusters:
- {name: one, cluster: {server: 'https://one.example:6443'}}
- {name: two, cluster: {server: 'https://two.example:6443/behind/', insecure-skip-tls-verify: true}}
users:
- {name: one, user: {token: t1}}
- {name: two, user: {token: t2}}
`,
      );
      const access = await kubeconfigAccess({ file });
      assert.equal(access.server.href, 'https://two.example:6443/behind');
      assert.equal(access.namespace, 'here');
      const { headers, agent } = await access.credentials();
      assert.equal(headers.authorization, 'Bearer t2');
      assert.equal((agent as HttpsAgent).options.rejectUnauthorized, false);
      assert.equal((await access.credentials()).agent, agent);
      const other = await kubeconfigAccess({ file, context: 'one' });
      assert.equal((await other.credentials()).headers.authorization, 'Bearer t1');
      await assert.rejects(kubeconfigAccess({ file, context: 'three' }), /context "three" names no cluster/);
    });

    test('come from KUBECONFIG before the Pod, so that a developer in a Pod can point elsewhere', async () => {
      const folder = await account('unused');
      const file = path.join(folder, 'config');
      await writeFile(file, 'current-context: a\ncontexts: []\nclusters: []\nusers: []\n');
      const before = process.env.KUBECONFIG;
      process.env.KUBECONFIG = file;
      try {
        await assert.rejects(kubeAccess({ ...env, KUBECONFIG: file }), /names no cluster/);
      } finally {
        if (before === undefined) delete process.env.KUBECONFIG;
        else process.env.KUBECONFIG = before;
      }
    });
  });
});
