import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { EtcdCertificateSet } from '../../api/etcdcertificateset.gen.ts';
import type { EtcdClusterSpec } from '../../api/etcdcluster.gen.ts';
import { API_VERSION } from '../../api/names.ts';
import { record } from '../composing/claim.ts';
import type { RunFunctionRequest, RunFunctionResponse } from '../composing/exchange.ts';
import { INPUT_API_VERSION } from '../composing/step-input.ts';
import { CERT_MANAGER_REQUIRED, type CertificateSpec } from './cert-manager.ts';
import { composeTls } from './compose.ts';
import { composeCertificates } from './compose-certificates.ts';

const issuer = { name: 'ca' };
const MUTUAL: EtcdClusterSpec['tls'] = {
  client: { certManager: { serverIssuerRef: issuer, operatorClientIssuerRef: issuer } },
  peer: { certManager: { issuerRef: issuer } },
};
const OWN: EtcdClusterSpec['tls'] = { client: { serverSecretRef: { name: 'mine' } } };

const definition = (more: { established?: string; served?: boolean; metadata?: object } = {}): object => ({
  metadata: { name: 'certificates.cert-manager.io', ...more.metadata },
  spec: { versions: [{ name: 'v1', served: more.served ?? true }] },
  status: { conditions: [{ type: 'Established', status: more.established ?? 'True' }] },
});
const installed = [definition()];

type World = {
  tls?: EtcdClusterSpec['tls'];
  status?: object;
  /** Absent: Crossplane has not looked yet. */
  certManager?: object[];
  observed?: Record<string, object>;
  input?: object;
};

const required = (certManager: object[] | undefined): Pick<RunFunctionRequest, 'requiredResources'> =>
  certManager === undefined
    ? {}
    : { requiredResources: { [CERT_MANAGER_REQUIRED]: certManager.map((resource) => ({ resource })) } };
const resources = (observed: Record<string, object> | undefined) =>
  Object.fromEntries(Object.entries(observed ?? {}).map(([key, resource]) => [key, { resource }]));

/** The step of the claim. */
const composed = ({ tls, status, certManager, observed, input }: World): RunFunctionResponse =>
  composeTls({
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
      resources: resources(observed),
    },
    ...required(certManager),
  });

const setOf = ({ desired }: RunFunctionResponse): EtcdCertificateSet | undefined =>
  desired?.resources?.certificates?.resource as EtcdCertificateSet | undefined;
const namesOf = (response: RunFunctionResponse): string[] =>
  (setOf(response)?.spec.certificates ?? []).map(({ name }) => name).sort();
const certificate = (response: RunFunctionResponse, name: string): CertificateSpec =>
  setOf(response)?.spec.certificates.find((each) => each.name === name)?.spec as CertificateSpec;

/** The step of the EtcdCertificateSet that a claim with mutual TLS gets. */
const issuing = (certManager?: object[], observed?: Record<string, object>): RunFunctionResponse =>
  composeCertificates({
    input: { apiVersion: INPUT_API_VERSION, kind: 'Certificates' },
    observed: {
      composite: { resource: setOf(composed({ tls: MUTUAL })) as object },
      resources: resources(observed),
    },
    ...required(certManager),
  });

const CERTIFICATES = ['demo-operator-client', 'demo-peer', 'demo-server'];
const keys = ({ desired }: RunFunctionResponse): string[] => Object.keys(desired?.resources ?? {}).sort();
const condition = ({ conditions }: RunFunctionResponse): string => {
  const found = conditions?.find(({ type }) => type.startsWith('Certificates'));
  return found === undefined ? 'none' : `${found.status} ${found.reason} ${found.message ?? ''}`.trim();
};

const at = (...conditions: object[]): object => ({ status: { conditions } });
const ready = at({ type: 'Ready', status: 'True', reason: 'Ready', message: 'up to date' });
const allReady = Object.fromEntries(CERTIFICATES.map((name) => [name, ready]));

describe('what cert-manager is asked for', () => {
  test('a claim without TLS asks for no cert-manager and has no condition, because it has nothing to be ready', () => {
    const response = composed({});
    assert.equal(setOf(response), undefined);
    assert.equal(response.requirements, undefined);
    assert.equal(condition(response), 'none');
  });

  test('own Secrets need no cert-manager', () => {
    const response = composed({ tls: OWN });
    assert.equal(setOf(response), undefined);
    assert.equal(response.requirements, undefined);
  });

  test('mutual TLS everywhere takes three certificates, server-only TLS one', () => {
    assert.deepEqual(namesOf(composed({ tls: MUTUAL })), CERTIFICATES);
    const tls = { client: { certManager: { serverIssuerRef: issuer } } };
    assert.deepEqual(namesOf(composed({ tls })), ['demo-server']);
  });

  test('the set is the same whatever is observed, because a key that is not returned is deleted', () => {
    const set = setOf(composed({ tls: MUTUAL }));
    for (const certManager of [[], installed]) assert.deepEqual(setOf(composed({ tls: MUTUAL, certManager })), set);
  });

  test('an application gets a certificate of its own name, which is never root unless somebody says so', () => {
    const consumer = (named: object) =>
      composed({
        tls: {
          client: { certManager: { serverIssuerRef: issuer, operatorClientIssuerRef: issuer, consumer: named } },
        },
      });
    assert.equal(certificate(consumer({}), 'demo-consumer').commonName, 'demo');
    assert.equal(certificate(consumer({ commonName: 'app' }), 'demo-consumer').commonName, 'app');
    assert.deepEqual(record(record(consumer({}).desired?.composite?.resource).status).connection, {
      configMapName: 'demo-connection',
      secretName: 'demo-consumer-in-use',
    });
  });

  test('what members show has no common name, because with auth on etcd would take it for a user', () => {
    const response = composed({ tls: MUTUAL });
    assert.equal(certificate(response, 'demo-server').commonName, undefined);
    assert.equal(certificate(response, 'demo-peer').commonName, undefined);
    assert.equal(certificate(response, 'demo-operator-client').commonName, 'root');
  });

  test('members may call with what they serve with, and a client may only call', () => {
    const response = composed({ tls: MUTUAL });
    const usages = (name: string) => certificate(response, name).usages.filter((usage) => usage.endsWith('auth'));
    assert.deepEqual(usages('demo-server'), ['server auth', 'client auth']);
    assert.deepEqual(usages('demo-peer'), ['server auth', 'client auth']);
    assert.deepEqual(usages('demo-operator-client'), ['client auth']);
  });

  test('keys are ECDSA P-256 unless RSA is asked for', () => {
    const peer = (privateKey: object) =>
      certificate(composed({ tls: { peer: { certManager: { issuerRef: issuer, privateKey } } } }), 'demo-peer');
    assert.partialDeepStrictEqual(peer({}).privateKey, { algorithm: 'ECDSA', size: 256 });
    assert.partialDeepStrictEqual(peer({ algorithm: 'RSA' }).privateKey, { algorithm: 'RSA', size: 2048 });
    assert.partialDeepStrictEqual(peer({ algorithm: 'RSA', size: 4096 }).privateKey, { algorithm: 'RSA', size: 4096 });
  });

  test('a domain that is none is refused, because it would stand in every certificate', () => {
    const results = composed({ tls: MUTUAL, input: { clusterDomain: 'Cluster Local' } }).results;
    assert.match(results?.[0]?.message ?? '', /input\.clusterDomain is "Cluster Local"; set it to the DNS domain/);
  });

  test('a reference without a name is refused, because a member would wait for a Secret that nobody can make', () => {
    const tls = { client: { serverSecretRef: {} } } as unknown as EtcdClusterSpec['tls'];
    const message = composed({ tls }).results?.[0]?.message ?? '';
    assert.match(message, /spec\.tls\.client\.serverSecretRef\.name is absent; it has to be text/);
  });
});

describe('the Certificates of a set', () => {
  test('cert-manager is looked for before its kind is used, because an unknown kind ends the pass with an error', () => {
    const first = issuing();
    assert.equal(first.requirements?.resources?.[CERT_MANAGER_REQUIRED]?.matchName, 'certificates.cert-manager.io');
    assert.deepEqual(keys(first), []);
    assert.deepEqual(keys(issuing(installed)), CERTIFICATES);
  });

  for (const [what, certManager] of [
    ['is not there', []],
    ['is not established yet', [definition({ established: 'False' })]],
    ['serves another version only', [definition({ served: false })]],
    ['is being deleted', [definition({ metadata: { deletionTimestamp: '2026-01-01T00:00:00Z' } })]],
  ] as const) {
    test(`none is composed while their kind ${what}, and the condition says what to install`, () => {
      const response = issuing([...certManager], allReady);
      assert.deepEqual(keys(response), []);
      assert.match(condition(response), /^False CertManagerNotInstalled .*Waiting for cert-manager to be installed\.$/);
      assert.equal(response.desired?.composite?.ready, 'False');
      // It goes on asking, so that it recovers by itself.
      assert.ok(response.requirements?.resources?.[CERT_MANAGER_REQUIRED]);
      assert.equal(response.ttlSeconds, 5);
    });
  }

  test('those that are there stay until Crossplane has looked, because a key that is not returned is deleted', () => {
    assert.deepEqual(keys(issuing(undefined, allReady)), CERTIFICATES);
  });

  test('one is ready when cert-manager says so, and not while it is being deleted', () => {
    const observed = {
      'demo-server': ready,
      'demo-peer': { ...ready, metadata: { deletionTimestamp: '2026-01-01T00:00:00Z' } },
    };
    const { desired } = issuing(installed, observed);
    assert.equal(desired?.resources?.['demo-server']?.ready, 'True');
    assert.equal(desired?.resources?.['demo-peer']?.ready, 'False');
    assert.equal(desired?.resources?.['demo-operator-client']?.ready, 'False');
    assert.equal(desired?.composite?.ready, 'False');
    assert.equal(issuing(installed, allReady).desired?.composite?.ready, 'True');
  });

  test('the condition names the first that is not issued and why the issue failed, not only that a Secret is absent', () => {
    const observed = {
      ...allReady,
      'demo-operator-client': at(
        { type: 'Ready', status: 'False', reason: 'DoesNotExist', message: 'Secret does not exist' },
        { type: 'Issuing', status: 'False', reason: 'Failed', message: 'the issuer refused' },
      ),
    };
    assert.equal(
      condition(issuing(installed, observed)),
      'False CertificateNotIssued Certificate demo-operator-client: the issuer refused',
    );
  });

  test('the condition repeats what Ready says while nothing has failed', () => {
    const observed = { 'demo-server': at({ type: 'Ready', status: 'False', message: 'Issuer ca not found' }) };
    assert.equal(
      condition(issuing(installed, observed)),
      'False CertificateNotIssued Certificate demo-server: Issuer ca not found',
    );
  });

  test('the step refuses an object of another kind, and says where it belongs', () => {
    const { results } = composeCertificates({ input: {}, observed: { composite: { resource: { spec: {} } } } });
    assert.match(results?.[0]?.message ?? '', /no spec\.certificates; run this step in a Composition for/);
  });
});

describe('the condition CertificatesValid of a claim', () => {
  const quorum = (condition: object) => ({ quorum: at({ ...condition, type: 'CertificatesValid' }) });
  const set = (...conditions: object[]) => ({ certificates: at(...conditions) });
  const is = (status: string, reason: string, message: string) => ({
    type: 'CertificatesReady',
    status,
    reason,
    message,
  });
  const world = { tls: MUTUAL, certManager: installed };
  const issued = is('True', 'CertificatesIssued', '');

  test('says that cert-manager is not installed even where the set can say nothing any more', () => {
    const frozen = set(is('Unknown', 'FatalError', 'A fatal error occurred'));
    assert.match(
      condition(composed({ ...world, certManager: [], observed: frozen })),
      /^False CertManagerNotInstalled/,
    );
  });

  test('is what the set says while something is not issued', () => {
    const observed = { ...set(is('False', 'CertificateNotIssued', 'see x')), ...quorum(issued) };
    assert.equal(condition(composed({ ...world, observed })), 'False CertificateNotIssued see x');
  });

  test('says why Crossplane could not compose the set', () => {
    const synced = { type: 'Synced', status: 'False', reason: 'ReconcileError', message: 'forbidden' };
    const frozen = set(is('Unknown', 'FatalError', ''), synced);
    assert.equal(
      condition(composed({ ...world, observed: frozen })),
      'False CertificateNotIssued EtcdCertificateSet: forbidden',
    );
  });

  test('is what the runtime found while the set says nothing, because members that have a certificate do not lose it by that', () => {
    const frozen = set(is('Unknown', 'FatalError', ''));
    const valid = quorum(is('True', 'CertificatesValid', ''));
    assert.equal(condition(composed({ ...world, observed: { ...frozen, ...valid } })), 'True CertificatesValid');
    const missing = quorum(is('False', 'SecretMissing', 'see Secret demo-server-tls'));
    assert.match(condition(composed({ ...world, observed: { ...frozen, ...missing } })), /^False CertificateNotIssued/);
  });

  test('is what the runtime found out about the Secrets as soon as all are issued', () => {
    const found = is('False', 'CertificateExpired', 'see Secret mine');
    assert.match(condition(composed({ ...world, observed: set(issued) })), /^Unknown NotReported/);
    const observed = { ...set(issued), ...quorum(found) };
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
