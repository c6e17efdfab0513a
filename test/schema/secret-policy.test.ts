/** Which Secrets the runtime's account may write, as a real API server judges it with the policy that is installed. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { inUseSecret } from '../../runtime/core/in-use-secret.ts';
import { type ApiServer, startApiServer } from './apiserver.ts';

const SECRETS = '/api/v1/namespaces/default/secrets';
const RUNTIME = 'system:serviceaccount:etcd-operator-system:etcd-operator-runtime';

let server: ApiServer;
let numbered = 0;

const ours = (cluster = `c${++numbered}`) =>
  inUseSecret({
    namespace: 'default',
    cluster,
    quorum: { uid: 'q', controllerUID: 'c' },
    purpose: 'peer',
    data: { text: 'YQ==' },
  });
const anybodys = (name = `s${++numbered}`) => ({
  apiVersion: 'v1',
  kind: 'Secret',
  metadata: { name, labels: {} },
  data: { text: 'YQ==' },
});

const create = (object: object, as = RUNTIME) => server.request('POST', SECRETS, object, as);
const patch = (name: string, object: object, as = RUNTIME) => server.request('PATCH', `${SECRETS}/${name}`, object, as);

before(async () => {
  server = await startApiServer();
  await server.kubectl('apply', '-f', join(import.meta.dirname, '../../deploy/runtime/secret-policy.yaml'));
  // The API server takes a moment to heed a new policy.
  const deadline = performance.now() + 60_000;
  while ((await create(anybodys())).code === 201) {
    assert.ok(performance.now() < deadline, 'the policy is heeded');
    await pause(200);
  }
});
after(async () => {
  await server[Symbol.asyncDispose]();
});

test('the runtime makes and changes Secrets of its own type, which is all that it needs', async () => {
  const secret = ours();
  const created = await create(secret);
  assert.equal(created.code, 201, created.body.message);
  const changed = await patch(secret.metadata.name, { data: { text: 'Yg==' } });
  assert.equal(changed.code, 200, changed.body.message);
});

const wrong: readonly (readonly [string, object])[] = [
  ['of another type', { ...ours(), type: 'Opaque' }],
  ['without a type', anybodys('c0-peer-in-use')],
  ['without labels', { ...ours(), metadata: { name: 'c0-peer-in-use' } }],
  ['labelled with another cluster', { ...ours(), metadata: { ...ours().metadata, name: 'other-peer-in-use' } }],
  ['of another name', { ...ours('demo'), metadata: { ...ours('demo').metadata, name: 'demo-server-tls' } }],
  [
    'that is a token of an account',
    {
      ...ours('demo'),
      type: 'kubernetes.io/service-account-token',
      metadata: { ...ours('demo').metadata, annotations: { 'kubernetes.io/service-account.name': 'default' } },
    },
  ],
];
for (const [what, object] of wrong) {
  test(`the runtime makes no Secret ${what}, since its account reaches into every namespace`, async () => {
    const { code, body } = await create(object);
    assert.equal(code, 422, body.message);
    assert.match(body.message, /the runtime writes Secrets/);
  });
}

test("the runtime changes nobody else's Secret, even to give it the label that its own have", async () => {
  const { body } = await server.request('POST', SECRETS, anybodys('theirs-in-use'));
  for (const change of [
    { data: { text: 'Yg==' } },
    { metadata: { labels: { 'etcd-operator.cozystack.io/cluster': 'theirs' } } },
  ]) {
    const answer = await patch(body.metadata.name, change);
    assert.equal(answer.code, 422, answer.body.message);
    assert.match(answer.body.message, /ValidatingAdmissionPolicy/);
  }
  assert.equal((await patch('theirs-in-use', { type: 'etcd-operator.cozystack.io/in-use' })).code, 422);
});

const OWNER = { apiVersion: 'etcd-operator.cozystack.io/v1alpha2', kind: 'EtcdCluster', name: 'demo', uid: 'c' };

test('of a Secret that cert-manager filled for a cluster the runtime changes the owners, so that it goes with the cluster, and nothing else', async () => {
  const issued = {
    ...anybodys('demo-server-tls'),
    metadata: {
      name: 'demo-server-tls',
      labels: { 'etcd-operator.cozystack.io/certificate': 'server' },
      annotations: { 'cert-manager.io/certificate-name': 'demo-server' },
    },
  };
  assert.equal((await server.request('POST', SECRETS, issued)).code, 201);
  const owned = await patch('demo-server-tls', { metadata: { ownerReferences: [OWNER] } });
  assert.equal(owned.code, 200, owned.body.message);
  for (const change of [
    { data: { text: 'Yg==' } },
    { stringData: { text: 'b' } },
    { immutable: true },
    { metadata: { labels: { other: 'x' } } },
    { metadata: { annotations: { other: 'x' } } },
    { metadata: { finalizers: ['example.com/x'] } },
    { metadata: { ownerReferences: [{ ...OWNER, apiVersion: 'v1', kind: 'ConfigMap' }] } },
  ]) {
    const answer = await patch('demo-server-tls', change);
    assert.equal(answer.code, 422, `${JSON.stringify(change)} ${answer.body.message}`);
  }
  const given = await patch('demo-server-tls', { metadata: { ownerReferences: null } });
  assert.equal(given.code, 200, given.body.message);
  assert.equal((await server.request('POST', SECRETS, anybodys('anybodys'))).code, 201);
  assert.equal((await patch('anybodys', { metadata: { ownerReferences: [OWNER] } })).code, 422);
});

test('everybody else writes Secrets as before', async () => {
  assert.equal((await server.request('POST', SECRETS, anybodys())).code, 201);
  assert.equal((await create(anybodys(), 'system:serviceaccount:default:default')).code, 201);
});
