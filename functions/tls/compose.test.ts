import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { EtcdClusterSpec } from '../../api/etcdcluster.gen.ts';
import { API_VERSION } from '../../api/names.ts';
import { record } from '../composing/claim.ts';
import type { RunFunctionRequest, RunFunctionResponse } from '../composing/exchange.ts';
import { INPUT_API_VERSION } from '../composing/step-input.ts';
import { CERT_MANAGER_REQUIRED, type Certificate } from './cert-manager.ts';
import { composeTls } from './compose.ts';

const issuer = { name: 'ca' };
const MUTUAL: EtcdClusterSpec['tls'] = {
  client: { certManager: { serverIssuerRef: issuer, operatorClientIssuerRef: issuer } },
  peer: { certManager: { issuerRef: issuer } },
};
const OWN: EtcdClusterSpec['tls'] = { client: { serverSecretRef: { name: 'mine' } } };
const KEYS = ['certificate-operator-client', 'certificate-peer', 'certificate-server'];

const definition = (more: { established?: string; served?: boolean; metadata?: object } = {}): object => ({
  metadata: { name: 'certificates.cert-manager.io', ...more.metadata },
  spec: { versions: [{ name: 'v1', served: more.served ?? true }] },
  status: { conditions: [{ type: 'Established', status: more.established ?? 'True' }] },
});

type World = {
  tls?: EtcdClusterSpec['tls'];
  status?: object;
  /** Absent: Crossplane has not looked yet. */
  certManager?: object[];
  observed?: Record<string, object>;
  input?: object;
};

const asked = ({ tls, status, certManager, observed, input }: World): RunFunctionRequest => ({
  input: { apiVersion: INPUT_API_VERSION, kind: 'Tls', ...input },
  observed: {
    composite: {
      resource: {
        apiVersion: API_VERSION,
        kind: 'EtcdCluster',
        metadata: { name: 'demo', namespace: 'team-a' },
        spec: { version: '3.6.16', ...(tls === undefined ? {} : { tls }) },
        ...(status === undefined ? {} : { status }),
      },
    },
    resources: Object.fromEntries(Object.entries(observed ?? {}).map(([key, resource]) => [key, { resource }])),
  },
  ...(certManager === undefined
    ? {}
    : { requiredResources: { [CERT_MANAGER_REQUIRED]: certManager.map((resource) => ({ resource })) } }),
});

const composed = (world: World): RunFunctionResponse => composeTls(asked(world));
const keys = ({ desired }: RunFunctionResponse): string[] =>
  Object.keys(desired?.resources ?? {})
    .filter((key) => key !== 'connection')
    .sort();
const certificate = ({ desired }: RunFunctionResponse, key: string): Certificate =>
  desired?.resources?.[key]?.resource as Certificate;
const condition = ({ conditions }: RunFunctionResponse): string => {
  const found = conditions?.find(({ type }) => type === 'CertificatesReady');
  return found === undefined ? 'none' : `${found.status} ${found.reason} ${found.message ?? ''}`.trim();
};

const at = (...conditions: object[]): object => ({ status: { conditions } });
const ready = at({ type: 'Ready', status: 'True', reason: 'Ready', message: 'up to date' });
const allReady = Object.fromEntries(KEYS.map((key) => [key, ready]));
const installed = [definition()];

describe('the certificates of a cluster', () => {
  test('a claim without TLS asks for no cert-manager and has no condition, because it has nothing to be ready', () => {
    const response = composed({});
    assert.deepEqual(keys(response), []);
    assert.equal(response.requirements, undefined);
    assert.equal(condition(response), 'none');
  });

  test('own Secrets need no cert-manager', () => {
    const response = composed({ tls: OWN });
    assert.deepEqual(keys(response), []);
    assert.equal(response.requirements, undefined);
  });

  test('cert-manager is looked for before its kind is used, because an unknown kind stops the whole claim', () => {
    const first = composed({ tls: MUTUAL });
    assert.equal(first.requirements?.resources?.[CERT_MANAGER_REQUIRED]?.matchName, 'certificates.cert-manager.io');
    assert.deepEqual(keys(first), []);
    assert.deepEqual(keys(composed({ tls: MUTUAL, certManager: installed })), KEYS);
  });

  for (const [what, certManager] of [
    ['is not there', []],
    ['is not established yet', [definition({ established: 'False' })]],
    ['serves another version only', [definition({ served: false })]],
    ['is being deleted', [definition({ metadata: { deletionTimestamp: '2026-01-01T00:00:00Z' } })]],
  ] as const) {
    test(`no Certificate is composed while its kind ${what}, and the condition says what to install`, () => {
      const response = composed({ tls: MUTUAL, certManager: [...certManager], observed: allReady });
      assert.deepEqual(keys(response), []);
      assert.match(condition(response), /^False CertManagerNotInstalled .*Waiting for cert-manager to be installed\.$/);
      // It goes on asking, so that it recovers by itself.
      assert.ok(response.requirements?.resources?.[CERT_MANAGER_REQUIRED]);
    });
  }

  test('Certificates that are there stay until Crossplane has looked, because a key that is not returned is deleted', () => {
    assert.deepEqual(keys(composed({ tls: MUTUAL, observed: allReady })), KEYS);
  });

  test('server-only TLS has no certificate of the operator, and none for applications', () => {
    const tls = { client: { certManager: { serverIssuerRef: issuer } } };
    assert.deepEqual(keys(composed({ tls, certManager: installed })), ['certificate-server']);
  });

  test('an application gets a certificate of its own name, which is never root unless somebody says so', () => {
    const consumer = (named: object) =>
      composed({
        tls: {
          client: { certManager: { serverIssuerRef: issuer, operatorClientIssuerRef: issuer, consumer: named } },
        },
        certManager: installed,
      });
    assert.equal(certificate(consumer({}), 'certificate-consumer').spec.commonName, 'demo');
    assert.equal(certificate(consumer({ commonName: 'app' }), 'certificate-consumer').spec.commonName, 'app');
    assert.deepEqual(record(record(consumer({}).desired?.composite?.resource).status).connection, {
      configMapName: 'demo-connection',
      secretName: 'demo-consumer-tls',
    });
  });

  test('what members show has no common name, because with auth on etcd would take it for a user', () => {
    const response = composed({ tls: MUTUAL, certManager: installed });
    assert.equal(certificate(response, 'certificate-server').spec.commonName, undefined);
    assert.equal(certificate(response, 'certificate-peer').spec.commonName, undefined);
    assert.equal(certificate(response, 'certificate-operator-client').spec.commonName, 'root');
  });

  test('members may call with what they serve with, and a client may only call', () => {
    const response = composed({ tls: MUTUAL, certManager: installed });
    const usages = (key: string) => certificate(response, key).spec.usages.filter((usage) => usage.endsWith('auth'));
    assert.deepEqual(usages('certificate-server'), ['server auth', 'client auth']);
    assert.deepEqual(usages('certificate-peer'), ['server auth', 'client auth']);
    assert.deepEqual(usages('certificate-operator-client'), ['client auth']);
  });

  test('a Certificate is ready when cert-manager says so, and not while it is being deleted', () => {
    const observed = {
      'certificate-server': ready,
      'certificate-peer': { ...ready, metadata: { deletionTimestamp: '2026-01-01T00:00:00Z' } },
    };
    const { desired } = composed({ tls: MUTUAL, certManager: installed, observed });
    assert.equal(desired?.resources?.['certificate-server']?.ready, 'True');
    assert.equal(desired?.resources?.['certificate-peer']?.ready, 'False');
    assert.equal(desired?.resources?.['certificate-operator-client']?.ready, 'False');
  });

  test('a domain that is none is refused, because it would stand in every certificate', () => {
    const results = composed({ tls: MUTUAL, input: { clusterDomain: 'Cluster Local' } }).results;
    assert.match(results?.[0]?.message ?? '', /input\.clusterDomain is "Cluster Local"; set it to the DNS domain/);
  });
});

describe('the condition CertificatesReady', () => {
  const quorum = (...conditions: object[]) => ({ quorum: { ...at(...conditions) } });

  test('names the first Certificate that is not issued and why the issue failed, not only that a Secret is absent', () => {
    const observed = {
      ...allReady,
      'certificate-operator-client': at(
        { type: 'Ready', status: 'False', reason: 'DoesNotExist', message: 'Secret does not exist' },
        { type: 'Issuing', status: 'False', reason: 'Failed', message: 'the issuer refused' },
      ),
    };
    assert.equal(
      condition(composed({ tls: MUTUAL, certManager: installed, observed })),
      'False CertificateNotIssued Certificate demo-operator-client: the issuer refused',
    );
  });

  test('repeats what Ready says while nothing has failed', () => {
    const observed = { 'certificate-server': at({ type: 'Ready', status: 'False', message: 'Issuer ca not found' }) };
    assert.equal(
      condition(composed({ tls: MUTUAL, certManager: installed, observed })),
      'False CertificateNotIssued Certificate demo-server: Issuer ca not found',
    );
  });

  test('is what the runtime found out about the Secrets as soon as all are issued', () => {
    const found = {
      type: 'CertificatesReady',
      status: 'False',
      reason: 'CertificateExpired',
      message: 'see Secret mine',
    };
    const world = { tls: MUTUAL, certManager: installed };
    assert.equal(condition(composed({ ...world, observed: allReady })), 'True CertificatesIssued');
    const observed = { ...allReady, ...quorum(found) };
    assert.equal(condition(composed({ ...world, observed })), 'False CertificateExpired see Secret mine');
    assert.equal(
      condition(composed({ tls: OWN, observed: quorum(found) })),
      'False CertificateExpired see Secret mine',
    );
  });

  test('is unknown for own Secrets that nobody has checked yet', () => {
    assert.match(condition(composed({ tls: OWN })), /^Unknown NotReported/);
  });
});

describe('what applications connect by', () => {
  const connection = (world: World): { data: Record<string, string>; ready: string | undefined } => {
    const { resource, ready: is } = composed(world).desired?.resources?.connection ?? {};
    return { data: (resource as { data: Record<string, string> }).data, ready: is };
  };
  const CA = '-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n';
  const running = { clusterID: 'ef37ad9dc622a7c4' };
  const quorum = (status: object) => ({ status: { phase: 'Running', ...running, ...status } });
  const HTTP = 'http://demo-client.team-a.svc:2379';
  const HTTPS = 'https://demo-client.team-a.svc:2379';

  test('is the client Service, in the clear without TLS', () => {
    assert.deepEqual(connection({}).data, { endpoints: HTTP });
    assert.equal(connection({ observed: { connection: {} } }).ready, 'True');
  });

  test('holds the CA that the runtime found, and is not ready before', () => {
    const before = connection({ tls: OWN, observed: { connection: {} } });
    assert.deepEqual(before, { data: { endpoints: HTTPS }, ready: 'False' });
    const after = connection({ tls: OWN, observed: { connection: {}, quorum: quorum({ clientCA: CA }) } });
    assert.deepEqual(after, { data: { endpoints: HTTPS, 'ca.crt': CA }, ready: 'True' });
  });

  test('keeps the CA while the record of the runtime is gone, because applications would trust nobody', () => {
    const observed = { connection: { data: { endpoints: HTTPS, 'ca.crt': CA } }, quorum: { status: {} } };
    assert.deepEqual(connection({ tls: OWN, observed, status: running }).data, { endpoints: HTTPS, 'ca.crt': CA });
  });

  test('stays in the clear for a running cluster until every member serves TLS', () => {
    const world = { tls: OWN, status: running };
    assert.equal(connection({ ...world, observed: { quorum: quorum({}) } }).data.endpoints, HTTP);
    assert.equal(connection({ ...world, observed: { quorum: quorum({ clientCA: CA }) } }).data.endpoints, HTTPS);
  });
});
