import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { createServer as createTcpServer, type Server } from 'node:net';
import { type TestContext, test } from 'node:test';
import { createServer } from 'node:tls';
import { authority, peerIdentity } from '../../test/e2e/own-secrets.ts';
import { handshake } from './handshake.ts';

const of = { cluster: 'demo', namespace: 'ns' };
const ca = authority('peers');

const listening = async (
  t: TestContext,
  server: Server,
): Promise<{ host: string; port: number; serverName: string }> => {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  return { host: '127.0.0.1', port: (server.address() as AddressInfo).port, serverName: 'demo-0-aaaaa.demo.ns.svc' };
};
const options = () => ({ signal: new AbortController().signal, deadlineMs: 5_000 });

test('the certificate of a listener that wants one of its clients is seen by who has none, as the runtime has none of a peer', async (t) => {
  const { certificate, key } = peerIdentity(ca, of);
  const server = createServer({
    cert: certificate,
    key,
    ca: ca.certificate,
    requestCert: true,
    rejectUnauthorized: true,
    minVersion: 'TLSv1.3',
  });
  server.on('tlsClientError', () => {});
  const at = await listening(t, server);
  const expected = new X509Certificate(certificate).fingerprint256.replaceAll(':', '').toLowerCase();
  assert.equal(await handshake(at, options()), expected);
});

test('who does not answer, or hangs up, is a failure with a word, and not a member that shows something', async (t) => {
  const silent = createTcpServer((socket) => t.after(() => socket.destroy()));
  const at = await listening(t, silent);
  await assert.rejects(handshake(at, { ...options(), deadlineMs: 50 }), /timeout/i);
  const rude = createTcpServer((socket) => socket.destroy());
  await assert.rejects(handshake(await listening(t, rude), options()));
  await assert.rejects(handshake({ ...at, port: 1 }, options()), /ECONNREFUSED/);
  await assert.rejects(handshake(at, { signal: AbortSignal.abort(new Error('given up')), deadlineMs: 50 }), /given up/);
});
