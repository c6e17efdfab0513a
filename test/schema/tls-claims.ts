/** What a claim may and may not say of TLS and auth, for `admission.test.ts`. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';

type Spec = Record<string, unknown>;

const own = { serverSecretRef: { name: 'server' } };
const mutual = { ...own, operatorClientSecretRef: { name: 'operator' } };
const issued = { certManager: { serverIssuerRef: { name: 'ca' } } };
const clientWith = (more: Spec): Spec => ({
  tls: {
    client: { certManager: { serverIssuerRef: { name: 'ca' }, operatorClientIssuerRef: { name: 'ca' }, ...more } },
  },
});
const peerWith = (more: Spec): Spec => ({ tls: { peer: { certManager: { issuerRef: { name: 'ca' }, ...more } } } });
const auth = { enabled: true, rootCredentialsSecretRef: { name: 'root' } };

const CLIENT = 'spec.tls.client.certManager';
const PEER = 'spec.tls.peer.certManager';

/** The sentence, the spec, the field that is named, words of the message. */
export const tlsRefusals: [string, Spec, string, string][] = [
  ['client TLS from nowhere', { tls: { client: {} } }, 'spec.tls.client', 'exactly one of serverSecretRef and'],
  [
    'client TLS from a Secret and from cert-manager',
    { tls: { client: { ...own, ...issued } } },
    'spec.tls.client',
    'exactly one of serverSecretRef and certManager',
  ],
  [
    'a client Secret of ones own beside cert-manager',
    { tls: { client: { ...issued, operatorClientSecretRef: { name: 'operator' } } } },
    'spec.tls.client.operatorClientSecretRef',
    'name certManager.operatorClientIssuerRef instead',
  ],
  ['peer TLS from nowhere', { tls: { peer: {} } }, 'spec.tls.peer', 'exactly one of secretRef and certManager'],
  [
    'peer TLS from a Secret and from cert-manager',
    { tls: { peer: { secretRef: { name: 'peer' }, certManager: { issuerRef: { name: 'ca' } } } } },
    'spec.tls.peer',
    'exactly one of secretRef and certManager',
  ],
  ['a Secret without a name', { tls: { peer: { secretRef: {} } } }, 'spec.tls.peer.secretRef.name', 'Required value'],
  [
    'a Secret with an empty name',
    { tls: { client: { serverSecretRef: { name: '' } } } },
    'spec.tls.client.serverSecretRef.name',
    'at least 1',
  ],
  [
    'cert-manager without an issuer',
    { tls: { client: { certManager: {} } } },
    `${CLIENT}.serverIssuerRef`,
    'Required value',
  ],
  ['an issuer with an empty name', peerWith({ issuerRef: { name: '' } }), `${PEER}.issuerRef.name`, 'at least 1'],
  [
    'an issuer of a kind that does not exist',
    peerWith({ issuerRef: { name: 'ca', kind: 'Vault' } }),
    `${PEER}.issuerRef.kind`,
    'supported values: "Issuer", "ClusterIssuer"',
  ],
  ['a life in days, which Go does not know', peerWith({ duration: '90d' }), `${PEER}.duration`, 'should match'],
  ['a life that cert-manager does not issue', clientWith({ duration: '59m' }), `${CLIENT}.duration`, 'at least 1h'],
  ['a renewal later than cert-manager takes', peerWith({ renewBefore: '1m' }), `${PEER}.renewBefore`, 'at least 5m'],
  [
    'a renewal before the issue',
    clientWith({ duration: '24h', renewBefore: '24h' }),
    `${CLIENT}.renewBefore`,
    'must be shorter than duration',
  ],
  [
    'a renewal before the issue where the life is left to the default',
    peerWith({ renewBefore: '2160h' }),
    `${PEER}.renewBefore`,
    'must be shorter than duration',
  ],
  [
    'a key of an algorithm that etcd does not take',
    peerWith({ privateKey: { algorithm: 'DSA' } }),
    `${PEER}.privateKey.algorithm`,
    'supported values: "ECDSA", "RSA"',
  ],
  [
    'a key of a size that its algorithm does not have',
    clientWith({ privateKey: { algorithm: 'RSA', size: 256 } }),
    `${CLIENT}.privateKey`,
    'give 256, 384 or 521 for ECDSA',
  ],
  [
    'the size of an RSA key without the word RSA',
    peerWith({ privateKey: { size: 2048 } }),
    `${PEER}.privateKey`,
    'give 256, 384 or 521 for ECDSA',
  ],
  ['a name with a port', clientWith({ dnsNames: ['etcd.example.org:2379'] }), `${CLIENT}.dnsNames[0]`, 'should match'],
  [
    'a name where an address is asked for',
    clientWith({ ipAddresses: ['203.0.113.7', 'etcd.example.org'] }),
    `${CLIENT}.ipAddresses[1]`,
    'and names under dnsNames',
  ],
  ['a name twice', clientWith({ dnsNames: ['a', 'a'] }), `${CLIENT}.dnsNames[1]`, 'Duplicate value'],
  [
    'a certificate for applications that no member asks for',
    { tls: { client: { certManager: { serverIssuerRef: { name: 'ca' }, consumer: {} } } } },
    `${CLIENT}.consumer`,
    'name operatorClientIssuerRef, or remove consumer',
  ],
  ['passwords in the clear', { auth }, 'spec.auth.enabled', 'add tls.client, or leave auth off'],
  [
    'passwords in the clear among encrypted members',
    { auth, tls: { peer: { secretRef: { name: 'peer' } } } },
    'spec.auth.enabled',
    'add tls.client, or leave auth off',
  ],
  [
    'auth without a password',
    { auth: { enabled: true }, tls: { client: own } },
    'spec.auth.rootCredentialsSecretRef',
    "the Secret with root's password; name it",
  ],
];

const told = parse(
  /```yaml\n(own Secrets:.*?)```/s.exec(readFileSync(join(import.meta.dirname, '../../docs/tls.md'), 'utf8'))?.[1] ??
    '',
) as Record<string, { client: Spec; peer: Spec }>;
const sources = ['off', ...Object.keys(told)];

/** All combinations of what docs/tls.md shows. */
const modes = sources.flatMap((client) =>
  sources.map((peer): [string, Spec] => [
    `what docs/tls.md shows, clients ${client}, members ${peer}`,
    { tls: { ...(told[client] && { client: told[client].client }), ...(told[peer] && { peer: told[peer].peer }) } },
  ]),
);

export const tlsAcceptances: [string, Spec][] = [
  ...modes,
  ['TLS that nobody uses', { tls: {}, auth: {} }],
  ['own Secrets for clients and members', { tls: { client: own, peer: { secretRef: { name: 'peer' } } } }],
  ['own Secrets and mutual TLS', { tls: { client: mutual } }],
  ['issuers of both kinds', clientWith({ operatorClientIssuerRef: { name: 'ca', kind: 'ClusterIssuer' } })],
  [
    'everything that cert-manager can be told',
    {
      tls: {
        client: {
          certManager: {
            serverIssuerRef: { name: 'ca' },
            operatorClientIssuerRef: { name: 'ca' },
            duration: '1h',
            renewBefore: '59m',
            privateKey: { algorithm: 'RSA', size: 4096 },
            dnsNames: ['etcd.example.org', '*.etcd.example.org', 'etcd'],
            ipAddresses: ['203.0.113.7', '2001:db8::7', '::1'],
            consumer: { commonName: 'app' },
          },
        },
        peer: {
          certManager: {
            issuerRef: { name: 'ca' },
            duration: '8760h30m',
            privateKey: { algorithm: 'ECDSA', size: 384 },
          },
        },
      },
      auth,
    },
  ],
  ['auth that is off and has its password already', { auth: { ...auth, enabled: false } }],
];

/** The sentence, the spec before, the spec after, the field that is named, words of the message. */
export const tlsFrozen: [string, Spec, Spec, string, string][] = [
  ['client TLS taken away', { tls: { client: own } }, { tls: {} }, 'spec.tls.client', 'cannot be taken away'],
  [
    'peer TLS taken away',
    { tls: { client: own, peer: { secretRef: { name: 'peer' } } } },
    { tls: { client: own } },
    'spec.tls.peer',
    'cannot be taken away',
  ],
  ['all TLS taken away', { tls: { client: own } }, {}, 'spec.tls', 'spec.tls cannot be taken away'],
];

export const tlsChanges: [string, Spec, Spec][] = [
  ['TLS turned on', {}, { tls: { client: own, peer: { secretRef: { name: 'peer' } } } }],
  ['TLS that nobody used taken away', { tls: {} }, {}],
  ['own Secrets to cert-manager and back', { tls: { client: own } }, { tls: { client: issued } }],
  ['cert-manager to own Secrets', { tls: { client: issued } }, { tls: { client: own } }],
  ['another issuer', peerWith({}), peerWith({ issuerRef: { name: 'other', kind: 'ClusterIssuer' } })],
  [
    'another life, other names and another key',
    clientWith({}),
    clientWith({ duration: '24h', dnsNames: ['a.example'] }),
  ],
  ['mutual TLS turned on', { tls: { client: own } }, { tls: { client: mutual } }],
  ['mutual TLS turned off', { tls: { client: mutual } }, { tls: { client: own } }],
  ['auth turned on', { tls: { client: own } }, { tls: { client: own }, auth }],
  ['auth turned off', { tls: { client: own }, auth }, { tls: { client: own }, auth: { enabled: false } }],
  ['auth left out', { tls: { client: own }, auth }, { tls: { client: own } }],
  [
    "another Secret of root's password",
    { tls: { client: own }, auth },
    { tls: { client: own }, auth: { ...auth, rootCredentialsSecretRef: { name: 'other' } } },
  ],
];
