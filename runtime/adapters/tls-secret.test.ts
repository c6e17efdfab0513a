import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Secret } from 'kubernetes-types/core/v1.js';
import { CLIENT_AUTH, issue, SERVER_AUTH } from '../../functions/server/certificates.fixture.ts';
import { readTlsSecret } from './tls-secret.ts';

const HOUR = 3_600_000;
const secret = (data: Record<string, string>, type = 'kubernetes.io/tls'): Secret => ({
  type,
  data: Object.fromEntries(Object.entries(data).map(([key, text]) => [key, Buffer.from(text).toString('base64')])),
});

const root = issue({ subject: 'root', authority: true, notAfter: 100 * HOUR });
const leaf = issue({
  subject: 'leaf',
  issuer: root,
  usages: [SERVER_AUTH],
  dnsNames: ['*.demo.ns.svc', 'demo.ns.svc'],
});

const good = { 'tls.crt': leaf.certificate, 'tls.key': leaf.key, 'ca.crt': root.certificate };

describe('reading a TLS Secret', () => {
  test('tells names, usages, key, chain and end of a good one', () => {
    const seen = readTlsSecret(secret(good));
    assert.deepEqual(seen.missing, []);
    assert.equal(seen.unreadable, undefined);
    assert.deepEqual(seen.leaf?.names, ['*.demo.ns.svc', 'demo.ns.svc']);
    assert.deepEqual(seen.leaf?.usages, ['serverAuth']);
    assert.equal(seen.leaf?.keyMatches, true);
    assert.equal(seen.leaf?.trustedBy, seen.authorities[0]?.fingerprint);
    assert.ok(Math.abs((seen.leaf?.notAfter ?? 0) - Date.now() - HOUR) < 60_000);
    assert.match(seen.leaf?.issuer ?? '', /root/);
  });

  test('takes certificates between leaf and authority out of tls.crt, and the first end of the chain for its end', () => {
    const middle = issue({ subject: 'middle', issuer: root, authority: true, notAfter: HOUR / 2 });
    const own = issue({ subject: 'leaf', issuer: middle });
    const both = readTlsSecret(
      secret({ ...good, 'tls.crt': own.certificate + middle.certificate, 'tls.key': own.key }),
    );
    assert.equal(both.leaf?.trustedBy, both.authorities[0]?.fingerprint);
    assert.ok((both.leaf?.notAfter ?? Infinity) < Date.now() + HOUR / 2 + 60_000);
    const without = readTlsSecret(secret({ ...good, 'tls.crt': own.certificate, 'tls.key': own.key }));
    assert.equal(without.leaf?.trustedBy, undefined);
  });

  test('is not taken in by an authority of the same name', () => {
    const impostor = issue({ subject: 'root', authority: true });
    assert.equal(readTlsSecret(secret({ ...good, 'ca.crt': impostor.certificate })).leaf?.trustedBy, undefined);
  });

  test('finds the right one among several authorities, as a CA change needs', () => {
    const next = issue({ subject: 'next', authority: true });
    const seen = readTlsSecret(secret({ ...good, 'ca.crt': next.certificate + root.certificate }));
    assert.equal(seen.authorities.length, 2);
    assert.equal(seen.leaf?.trustedBy, seen.authorities[1]?.fingerprint);
  });

  test('lets the ca.crt of another Secret vouch for a client, because that is whose word members take', () => {
    const clients = issue({ subject: 'clients', authority: true });
    const client = issue({ subject: 'operator', issuer: clients, usages: [CLIENT_AUTH] });
    const own = secret({ 'tls.crt': client.certificate, 'tls.key': client.key });
    const authorities = secret({ 'ca.crt': clients.certificate });
    assert.deepEqual(readTlsSecret(own).missing, ['ca.crt']);
    const seen = readTlsSecret(own, authorities);
    assert.deepEqual(seen.missing, []);
    assert.equal(seen.leaf?.trustedBy, seen.authorities[0]?.fingerprint);
  });

  test('says of a key that it is not the right one, and of rubbish that it is rubbish, without quoting either', () => {
    const other = issue({ subject: 'other' });
    assert.equal(readTlsSecret(secret({ ...good, 'tls.key': other.key })).leaf?.keyMatches, false);
    const broken = other.key.replace('BEGIN', 'BEGUN');
    const seen = readTlsSecret(secret({ ...good, 'tls.key': broken }));
    assert.match(seen.unreadable ?? '', /^tls\.key: /);
    assert.ok(!JSON.stringify(seen).includes(broken.slice(60, 90)));
    assert.match(readTlsSecret(secret({ ...good, 'tls.crt': 'hello' })).unreadable ?? '', /^tls\.crt: /);
    assert.match(
      readTlsSecret(secret({ ...good, 'ca.crt': root.certificate.replace(/M/g, '!') })).unreadable ?? '',
      /^ca\.crt: /,
    );
  });

  test('holds no private key in what it returns, since that is logged and planned with', () => {
    const seen = JSON.stringify(readTlsSecret(secret(good)));
    assert.ok(!seen.includes('PRIVATE KEY'));
    assert.ok(!seen.includes(leaf.key.split('\n')[1] ?? '?'));
  });

  test('reads a certificate without a subject, which is what cert-manager issues for names alone', () => {
    const nameless = issue({ subject: '', issuer: root, dnsNames: ['demo.ns.svc'] });
    const seen = readTlsSecret(secret({ ...good, 'tls.crt': nameless.certificate, 'tls.key': nameless.key }));
    assert.equal(seen.leaf?.subject, '(no subject)');
    assert.equal(seen.leaf?.trustedBy, seen.authorities[0]?.fingerprint);
  });

  test('says which keys are missing, an empty one too, and of which type it is', () => {
    const seen = readTlsSecret(secret({ 'tls.crt': leaf.certificate, 'tls.key': '' }, 'Opaque'));
    assert.deepEqual(seen.missing, ['tls.key', 'ca.crt']);
    assert.equal(seen.type, 'Opaque');
  });
});
