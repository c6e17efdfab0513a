import assert from 'node:assert/strict';
import { test } from 'node:test';
import { IN_USE_TYPE } from '../../api/names.ts';
import { authority, serverIdentity, tlsSecret } from '../../test/e2e/own-secrets.ts';
import { readTlsSecret } from '../adapters/tls-secret.ts';
import type { EtcdClients, EtcdEndpoint } from '../ports/etcd.ts';
import type { NamedSecrets, SecretView } from '../ports/secrets.ts';
import { createDialler } from './dialler.ts';

const CLUSTER = { namespace: 'ns', name: 'demo' };
const POD = { name: 'demo-0-aaaaa', ip: '10.0.0.1', config: 'advertise-client-urls: "https://x"' };

/** By whom the runtime knows members while these are trusted, as it tries one after the other. */
const tried = async (...subjects: readonly [string, string]): Promise<string[]> => {
  const cas = subjects.map((subject) => authority(subject));
  const [first] = cas;
  assert.ok(first);
  const held = tlsSecret(
    'demo-server-in-use',
    serverIdentity(first, { cluster: 'demo', namespace: 'ns' }),
    cas.map(({ certificate }) => certificate).join(''),
    IN_USE_TYPE,
  );
  const view = {
    is: 'there',
    secret: { ...held, metadata: { name: 'demo-server-in-use', uid: 'u', resourceVersion: '1' } },
  };
  const secrets = {
    follow: async (_: string, __: string, names: readonly string[]) =>
      new Map(
        names.map((name): [string, SecretView] => [
          name,
          name === 'demo-server-in-use' ? (view as SecretView) : { is: 'absent' },
        ]),
      ),
    forget: () => {},
  } as unknown as NamedSecrets;
  const dialled: string[] = [];
  const etcd = {
    at: ({ tls }: EtcdEndpoint) => {
      const ca = Buffer.from(tls?.ca ?? []).toString();
      dialled.push(
        cas
          .flatMap(({ certificate }, n) => (ca.includes(certificate.trim().split('\n')[3] ?? '?') ? [n] : []))
          .join('+'),
      );
    },
    forget: () => {},
  } as unknown as EtcdClients;
  const dialler = createDialler({ secrets, etcd, read: readTlsSecret });
  const tls = { client: { source: 'Secret' as const, serverSecretName: 'mine', mutual: false } };
  await dialler.prepare(CLUSTER, { spec: { replicas: 3, version: '3.6.16', tls }, status: {} } as never);
  dialler.client(CLUSTER, POD);
  for (let n = 0; dialler.knowOtherwise(CLUSTER, POD, n); n++) dialler.client(CLUSTER, POD);
  return dialled;
};

test('members are known by both authorities while one is exchanged for the other', async () => {
  assert.deepEqual(await tried('former', 'new'), ['0+1']);
});

test('of two authorities of one name each is tried by itself, since OpenSSL would take the first for the only one', async () => {
  assert.deepEqual((await tried('same', 'same')).toSorted(), ['0', '1']);
});
