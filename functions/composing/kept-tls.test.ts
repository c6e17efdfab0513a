import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { EtcdClusterSpec } from '../../api/etcdcluster.gen.ts';
import { API_VERSION } from '../../api/names.ts';
import { composeMembers } from '../members/compose.ts';
import { composeStatus } from '../status/compose.ts';
import { composeTls } from '../tls/compose.ts';
import { EFFECTIVE_CLAIM, record } from './claim.ts';
import type { Compose, Condition, RunFunctionRequest } from './exchange.ts';
import { INPUT_API_VERSION } from './step-input.ts';

type Tls = NonNullable<EtcdClusterSpec['tls']>;

const life = { duration: '720h', renewBefore: '240h', privateKey: { algorithm: 'RSA', size: 3072 } } as const;
const CLIENT: Readonly<Record<string, Tls['client']>> = {
  off: undefined,
  'from a Secret': { serverSecretRef: { name: 'mine' } },
  'from Secrets, mutual': { serverSecretRef: { name: 'mine' }, operatorClientSecretRef: { name: 'operator' } },
  issued: { certManager: { serverIssuerRef: { name: 'ca' } } },
  'issued, mutual, with every setting': {
    certManager: {
      serverIssuerRef: { name: 'servers', kind: 'ClusterIssuer' },
      operatorClientIssuerRef: { name: 'clients' },
      dnsNames: ['etcd.example.org', 'localhost'],
      ipAddresses: ['203.0.113.7'],
      consumer: { commonName: 'app' },
      ...life,
    },
  },
};
const PEER: Readonly<Record<string, Tls['peer']>> = {
  off: undefined,
  'from a Secret': { secretRef: { name: 'among-us' } },
  issued: { certManager: { issuerRef: { name: 'members', kind: 'ClusterIssuer' }, ...life } },
};

const ID = 'ef37ad9dc622a7c4';
type Observed = Record<string, object>;

const asked = (
  step: string,
  spec: object,
  more: { observed?: Observed; effective?: object; clusterID?: string },
): RunFunctionRequest => ({
  input: { apiVersion: INPUT_API_VERSION, kind: step },
  observed: {
    composite: {
      resource: {
        apiVersion: API_VERSION,
        kind: 'EtcdCluster',
        metadata: { name: 'demo', namespace: 'team-a' },
        spec: { version: '3.6.16', ...spec },
        status: more.clusterID === undefined ? {} : { clusterID: more.clusterID },
      },
    },
    resources: Object.fromEntries(Object.entries(more.observed ?? {}).map(([key, resource]) => [key, { resource }])),
  },
  ...(more.effective === undefined
    ? {}
    : { context: { [EFFECTIVE_CLAIM]: { spec: { version: '3.6.16', ...more.effective } } } }),
});

/** Every object of the two steps that render anything of TLS; the ConfigMap but for what only the runtime tells. */
const rendered = (spec: object, more: Parameters<typeof asked>[2]): Observed => {
  const of = (compose: Compose, step: string): Observed =>
    Object.fromEntries(
      Object.entries(compose(asked(step, spec, more)).desired?.resources ?? {}).map(([key, { resource }]) => [
        key,
        resource ?? {},
      ]),
    );
  return { ...of(composeMembers, 'Members'), ...of(composeTls, 'Tls') };
};

const running = (objects: Observed): Observed => ({
  ...objects,
  quorum: { ...objects.quorum, status: { phase: 'Running', clusterID: ID, version: '3.6.16', clientCA: 'PEM' } },
});

const acceptedOf = (spec: object, more: Parameters<typeof asked>[2]): Condition | undefined =>
  composeStatus(asked('Status', spec, more)).conditions?.find(({ type }) => type === 'Accepted');

describe('TLS of a running cluster', () => {
  for (const [how, client] of Object.entries(CLIENT)) {
    for (const [among, peer] of Object.entries(PEER)) {
      if (client === undefined && peer === undefined) continue;
      test(`clients ${how}, members ${among}: a policy that takes it away changes nothing that is rendered, and is refused by name`, () => {
        const tls = { ...(client === undefined ? {} : { client }), ...(peer === undefined ? {} : { peer }) };
        const observed = running(rendered({}, { effective: { tls } }));
        const before = rendered({}, { observed, effective: { tls }, clusterID: ID });
        assert.deepEqual(rendered({}, { observed, effective: {}, clusterID: ID }), before);
        const condition = acceptedOf({}, { observed, effective: {}, clusterID: ID });
        assert.equal(condition?.reason, 'TlsRemovalRefused');
        assert.equal(condition?.message?.includes('spec.tls.client'), client !== undefined);
        assert.equal(condition?.message?.includes('spec.tls.peer'), peer !== undefined);
        assert.equal(acceptedOf({}, { observed, effective: { tls }, clusterID: ID })?.status, 'True');
      });
    }
  }

  test('that is exchanged or made stricter is carried out, because nobody is shut out who follows', () => {
    const observed = running(rendered({ tls: { client: CLIENT['from a Secret'] } }, {}));
    const tls = { client: CLIENT['issued, mutual, with every setting'] };
    const { quorum } = rendered({ tls }, { observed, clusterID: ID });
    assert.partialDeepStrictEqual(record(quorum).spec, { tls: { client: { source: 'CertManager', mutual: true } } });
    assert.equal(acceptedOf({ tls }, { observed, clusterID: ID })?.status, 'True');
  });

  test('is kept by the names of its Secrets where nobody remembers who issued them', () => {
    const { certificates: _, ...observed } = running(rendered({ tls: { peer: PEER.issued } }, {}));
    const { quorum } = rendered({}, { observed, clusterID: ID });
    assert.partialDeepStrictEqual(record(quorum).spec, { tls: { peer: { secretName: 'demo-peer-tls' } } });
  });

  test('that has not formed yet follows its claim, because nobody has connected', () => {
    const observed = rendered({ tls: { peer: PEER['from a Secret'] } }, {});
    const { quorum } = rendered({}, { observed });
    assert.equal('tls' in record(record(quorum).spec), false);
    assert.equal(acceptedOf({}, { observed })?.status, 'True');
  });
});
