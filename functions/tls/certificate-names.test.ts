import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import {
  clientServiceName,
  clientURL,
  incarnationName,
  memberName,
  peerHost,
  peerServiceName,
  peerURL,
} from '../../api/names.ts';
import { type CertificateNames, peerNames, serverNames } from './certificate-names.ts';

const label = (maxLength: number): fc.Arbitrary<string> =>
  fc.stringMatching(/^[a-z][a-z0-9-]{0,20}$/).map((text) => text.slice(0, maxLength).replace(/-+$/, 'x'));
/** Up to the 45 characters that the name of a claim may have. */
const cluster = fc.oneof(label(45), fc.constant('e'.repeat(45)));
const namespace = fc.oneof(label(63), fc.constant('n'.repeat(63)));
const domain = fc.oneof(
  fc.constant('cluster.local'),
  fc.array(label(20), { minLength: 1, maxLength: 4 }).map((labels) => labels.join('.')),
);
const place = fc.record({ cluster, namespace, domain });
const ordinal = fc.nat({ max: 30 });
const token = fc.stringMatching(/^[a-z0-9]{5}$/);

/** As in RFC 6125 and in Go: a star stands for exactly one label, the first. */
const covers = ({ dnsNames }: CertificateNames, host: string): boolean =>
  dnsNames.some((name) =>
    name.startsWith('*.') ? host.split('.').slice(1).join('.') === name.slice(2) : host === name,
  );

const hostOf = (url: string): string => new URL(url).hostname;

describe('names in certificates', () => {
  test('every member that can ever exist is covered by what it is called among members and by clients', () => {
    fc.assert(
      fc.property(place, ordinal, token, (at, number, of) => {
        const incarnation = incarnationName(memberName(at.cluster, number), of);
        const host = peerHost(at.cluster, at.namespace, incarnation);
        const peer = hostOf(peerURL(at.cluster, at.namespace, incarnation, 'https'));
        const client = hostOf(clientURL(at.cluster, at.namespace, incarnation, 'https'));
        for (const names of [peerNames(at), serverNames(at, {})]) {
          for (const name of [host, peer, client, `${host}.${at.domain}`]) assert.ok(covers(names, name), name);
        }
      }),
    );
  });

  test('both Services are covered by every name that a Pod in any namespace calls them by', () => {
    fc.assert(
      fc.property(place, (at) => {
        const names = serverNames(at, {});
        for (const service of [clientServiceName(at.cluster), peerServiceName(at.cluster)]) {
          const short = `${service}.${at.namespace}`;
          for (const name of [service, short, `${short}.svc`, `${short}.svc.${at.domain}`]) {
            assert.ok(covers(names, name), name);
          }
        }
        assert.ok(covers(names, 'localhost'));
        assert.deepEqual(names.ipAddresses, ['127.0.0.1', '::1']);
      }),
    );
  });

  test('no other cluster is covered, not even one whose name begins or ends alike', () => {
    fc.assert(
      fc.property(place, label(20), ordinal, token, (at, other, number, of) => {
        for (const name of [`${at.cluster}-${other}`, `${other}-${at.cluster}`]) {
          const host = peerHost(name, at.namespace, incarnationName(memberName(name, number), of));
          assert.ok(!covers(peerNames(at), host) && !covers(serverNames(at, {}), host), host);
        }
        const elsewhere = peerHost(at.cluster, `${at.namespace}x`, incarnationName(memberName(at.cluster, number), of));
        assert.ok(!covers(peerNames(at), elsewhere));
      }),
    );
  });

  test('etcd knows a calling member by its address whatever the domain of the cluster is really called', () => {
    fc.assert(
      fc.property(place, (at) => {
        // A name without a star is asked for its addresses; that of the headless Service has those of all members.
        const exact = peerNames(at).dnsNames.filter((name) => !name.startsWith('*.'));
        assert.ok(exact.includes(`${peerServiceName(at.cluster)}.${at.namespace}.svc`));
      }),
    );
  });

  test('names are of a length and form that a certificate takes, and none stands there twice', () => {
    fc.assert(
      fc.property(place, fc.array(label(20), { maxLength: 5 }), (at, more) => {
        const { dnsNames } = serverNames(at, { dnsNames: [...more, ...more, 'localhost'], ipAddresses: ['::1'] });
        assert.equal(new Set(dnsNames).size, dnsNames.length);
        for (const name of [...dnsNames, ...peerNames(at).dnsNames]) {
          assert.ok(name.length <= 253 && name.split('.').every((part) => part.length <= 63), name);
          assert.match(name, /^(\*\.)?[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/);
        }
        for (const name of more) assert.ok(dnsNames.includes(name));
      }),
    );
  });
});
