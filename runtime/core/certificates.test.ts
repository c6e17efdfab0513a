import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  type CertificateRole,
  certificateProblem,
  covers,
  endingSoon,
  expiringFrom,
  namesNeeded,
  type SeenCertificate,
  type SeenLeaf,
  type SeenSecret,
  trustBundle,
} from './certificates.ts';
import { known, unknown } from './observed.ts';

const DAY = 24 * 3_600_000;
const NOW = Date.UTC(2030, 0, 1);

const leaf: SeenLeaf = {
  fingerprint: 'aa',
  subject: 'CN=leaf',
  issuer: 'CN=root',
  notBefore: NOW - DAY,
  notAfter: NOW + 90 * DAY,
  names: ['*.demo.ns.svc', 'demo.ns.svc', 'demo-client.ns.svc'],
  usages: ['serverAuth', 'clientAuth'],
  keyMatches: true,
  trustedBy: 'cc',
};
const secret: SeenSecret = { type: 'kubernetes.io/tls', missing: [], unreadable: undefined, leaf, authorities: [] };

const certificate = (
  of: Partial<SeenSecret> | 'absent' | 'unread',
  role: CertificateRole = 'server',
): SeenCertificate => ({
  role,
  secretName: 'mine',
  secret: of === 'absent' ? known(undefined) : of === 'unread' ? unknown('forbidden') : known({ ...secret, ...of }),
  inUse: known(undefined),
});
const problem = (seen: SeenCertificate) => certificateProblem(seen, 'demo', 'ns', NOW);
const withLeaf = (change: Partial<SeenLeaf>): Partial<SeenSecret> => ({ leaf: { ...leaf, ...change } });

describe('what can be wrong with a Secret', () => {
  const table: readonly [what: string, seen: SeenCertificate, reason: string | undefined, words?: RegExp][] = [
    ['nothing', certificate({}), undefined],
    ['nothing, if the user made it without a type', certificate({ type: 'Opaque' }), undefined],
    ['it cannot be read', certificate('unread'), 'SecretUnread', /forbidden/],
    ['it is not there', certificate('absent'), 'SecretMissing', /Secret mine/],
    ['it is of another type', certificate({ type: 'kubernetes.io/basic-auth' }), 'SecretWrongType', /basic-auth/],
    ['it lacks a key', certificate({ missing: ['ca.crt'], leaf: undefined }), 'SecretIncomplete', /no ca\.crt/],
    [
      'it is rubbish',
      certificate({ unreadable: 'tls.key: x', leaf: undefined }),
      'CertificateUnreadable',
      /tls\.key: x/,
    ],
    ['the key is of another certificate', certificate(withLeaf({ keyMatches: false })), 'KeyMismatch'],
    ['it has expired', certificate(withLeaf({ notAfter: NOW })), 'CertificateExpired', /2030-01-01T00:00:00Z/],
    ['it is not valid yet', certificate(withLeaf({ notBefore: NOW + 1 })), 'CertificateNotYetValid'],
    ['another authority signed it', certificate(withLeaf({ trustedBy: undefined })), 'CaMismatch', /CN=root/],
    [
      'it is not for the members',
      certificate(withLeaf({ names: ['demo-client.ns.svc', '*.demo.other.svc'] })),
      'SanMissing',
      /does not carry \*\.demo\.ns\.svc;/,
    ],
    [
      'it is not for the Service',
      certificate(withLeaf({ names: ['*.demo.ns.svc'] })),
      'SanMissing',
      /does not carry demo-client\.ns\.svc;/,
    ],
    ['peers could not tell who dials', certificate(withLeaf({ names: ['*.demo.ns.svc'] }), 'peer'), 'SanMissing'],
    [
      'a peer is a client, too',
      certificate(withLeaf({ usages: ['serverAuth'] }), 'peer'),
      'UsageMissing',
      /clientAuth/,
    ],
    ['a server is none', certificate(withLeaf({ usages: ['serverAuth'] })), undefined],
    ['a client needs no name', certificate(withLeaf({ names: [], usages: ['clientAuth'] }), 'client'), undefined],
    ['a client is no server', certificate(withLeaf({ usages: ['serverAuth'] }), 'client'), 'UsageMissing'],
    ['an unrestricted one is for everything', certificate(withLeaf({ usages: undefined }), 'peer'), undefined],
  ];
  for (const [what, seen, reason, words] of table) {
    test(`${reason ?? 'no problem'}: ${what}`, () => {
      const found = problem(seen);
      assert.equal(found?.reason, reason);
      if (words !== undefined) assert.match(found?.message ?? '', words);
    });
  }

  test('the first thing that is wrong is told, in the order in which a person looks', () => {
    const all = { keyMatches: false, notAfter: NOW - 1, trustedBy: undefined, names: [] };
    assert.equal(problem(certificate(withLeaf(all)))?.reason, 'KeyMismatch');
    assert.equal(problem(certificate(withLeaf({ ...all, keyMatches: true })))?.reason, 'CertificateExpired');
  });
});

test('a wildcard stands for one label and for itself, as TLS has it', () => {
  assert.ok(covers('*.demo.ns.svc', 'demo-0-x1y2z.demo.ns.svc'));
  assert.ok(covers('*.demo.ns.svc', '*.demo.ns.svc'));
  assert.ok(covers('Demo.ns.svc', 'demo.NS.svc'));
  assert.ok(!covers('*.ns.svc', 'demo-0-x1y2z.demo.ns.svc'));
  assert.ok(!covers('*.ns.svc', '*.demo.ns.svc'));
  assert.ok(!covers('*.demo.ns.svc', 'demo.ns.svc'));
  assert.ok(!covers('demo-0-x1y2z.demo.ns.svc', '*.demo.ns.svc'));
});

test('no certificate needs a name that ends in a cluster domain, which nobody here knows', () => {
  for (const role of ['server', 'peer', 'client'] as const) {
    for (const name of namesNeeded(role, 'demo', 'ns')) assert.match(name, /\.svc$/);
  }
});

test('an end is told thirty days ahead, or a sixth of a shorter life, and never of what cert-manager renews in time', () => {
  const year = { notBefore: NOW, notAfter: NOW + 365 * DAY };
  assert.equal(expiringFrom(year), year.notAfter - 30 * DAY);
  const quarter = { notBefore: NOW, notAfter: NOW + 90 * DAY };
  assert.equal(expiringFrom(quarter), quarter.notAfter - 15 * DAY);
  assert.ok(expiringFrom(quarter) > quarter.notAfter - 30 * DAY, 'after cert-manager has renewed');
  const soon = [certificate(withLeaf({ notBefore: NOW - 80 * DAY, notAfter: NOW + 10 * DAY }))];
  assert.equal(endingSoon(soon, NOW)?.reason, 'CertificateExpiring');
  assert.equal(endingSoon([certificate({})], NOW), undefined);
});

test('equal sets of authorities are equal texts, because Pods are compared by them', () => {
  const one = { fingerprint: '1', subject: '', notAfter: 0, pem: 'ONE\n' };
  const two = { fingerprint: '2', subject: '', notAfter: 0, pem: 'TWO\n' };
  assert.equal(trustBundle([two, one, two]), 'ONE\nTWO\n');
  assert.equal(trustBundle([one, two]), trustBundle([two, one]));
});
