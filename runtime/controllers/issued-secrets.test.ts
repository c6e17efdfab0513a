import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import type { EtcdQuorumTls } from '../../api/etcdquorum.gen.ts';
import { ANNOTATIONS, API_VERSION, LABELS } from '../../api/names.ts';
import { fakeClock } from '../../test/fakes/fake-clock.ts';
import { kubeInProcess } from '../../test/fakes/fake-kube-in-process.ts';
import { fakeKubeStore } from '../../test/fakes/fake-kube-store.ts';
import { createNamedSecrets } from '../adapters/kube/named-secrets.ts';
import type { Observed } from '../core/observed.ts';
import { type Kube, KubeFault, type KubeObject, type Resource, resources } from '../ports/kube.ts';
import { createSecretOwnership, issuedSecretNames } from './issued-secrets.ts';
import type { World } from './world.ts';

const AT = { namespace: 'ns', name: 'demo' };
const TLS: EtcdQuorumTls = {
  client: { source: 'CertManager', serverSecretName: 'demo-server-tls', mutual: false },
};

const issued = (metadata: { labels?: object; annotations?: object; ownerReferences?: object[] } = {}) => ({
  metadata: {
    namespace: 'ns',
    name: 'demo-server-tls',
    labels: { [LABELS.cluster]: 'demo', [LABELS.certificate]: 'server' },
    annotations: { 'cert-manager.io/certificate-name': 'demo-server' },
    ...metadata,
  },
  type: 'kubernetes.io/tls',
  data: { 'tls.crt': 'YQ==', 'tls.key': 'Yg==' },
});

const opened = async (t: TestContext, secret: object = issued()) => {
  const store = fakeKubeStore({ now: () => 0 });
  store.put(resources.namespaces, { metadata: { name: 'ns' } });
  const { kube } = kubeInProcess(store);
  const claim = await kube.create(resources.etcdclusters, { metadata: AT } as never);
  const owner = { apiVersion: API_VERSION, kind: 'EtcdCluster', name: 'demo', uid: claim.metadata.uid };
  const set = { metadata: { ...AT, ownerReferences: [{ ...owner, controller: true, blockOwnerDeletion: true }] } };
  await kube.create(resources.etcdcertificatesets, set as never);
  store.put(resources.secrets, secret as never);
  const clock = fakeClock(0);
  const secrets = createNamedSecrets({ kube });
  await secrets.follow('ns/demo', 'ns', ['demo-server-tls']);
  t.after(() => secrets.stop());
  const warnings: string[] = [];
  let writes = 0;
  let refused = false;
  const counting: Kube = {
    ...kube,
    apply: (...call) => {
      writes += 1;
      if (refused) throw new KubeFault('Forbidden', 'no right to');
      return kube.apply(...call);
    },
  };
  const log = { warn: (_: object, message: string) => warnings.push(message) };
  const ownership = createSecretOwnership({ kube: counting, secrets, clock, log } as unknown as World);
  const ensure = async (quorum: object = {}): Promise<void> => {
    // Until the watch has told.
    await turn();
    await turn();
    const seen = {
      ...{ namespace: 'ns', cluster: 'demo' },
      quorum: { deleting: false, controllerUID: claim.metadata.uid, spec: { tls: TLS }, ...quorum },
    };
    await ownership.ensure(seen as unknown as Observed, AbortSignal.timeout(20_000));
  };
  return {
    kube,
    store,
    clock,
    ensure,
    warnings,
    writes: () => writes,
    refuse: (is: boolean) => {
      refused = is;
    },
    stored: () => kube.get({ resource: resources.secrets, namespace: 'ns', name: 'demo-server-tls' }),
    remove: (
      resource: Resource<KubeObject>,
      propagationPolicy: 'Background' | 'Foreground' | 'Orphan' = 'Background',
    ) => kube.delete({ resource, ...AT }, { propagationPolicy }),
    owners: async () => {
      const found = await kube.get({ resource: resources.secrets, namespace: 'ns', name: 'demo-server-tls' });
      return (found?.metadata.ownerReferences ?? []).map(({ kind }) => kind);
    },
  };
};

test('Secrets that cert-manager fills are known by name, and only for planes that it looks after', () => {
  assert.deepEqual(issuedSecretNames('demo', TLS), ['demo-server-tls']);
  assert.deepEqual(issuedSecretNames('demo', undefined), []);
  const own: EtcdQuorumTls = { peer: { source: 'Secret', secretName: 'demo-peer-tls' } };
  assert.deepEqual(issuedSecretNames('demo', own), []);
  const client = { source: 'CertManager', serverSecretName: 'demo-server-tls', mutual: true } as const;
  assert.deepEqual(
    issuedSecretNames('demo', { client, peer: { source: 'CertManager', secretName: 'demo-peer-tls' } }),
    ['demo-server-tls', 'demo-operator-client-tls', 'demo-consumer-tls', 'demo-peer-tls'],
  );
});

for (const how of ['Background', 'Foreground'] as const) {
  test(`an issued Secret goes with its cluster, deleted in the ${how.toLowerCase()}, since it holds a private key`, async (t) => {
    const { ensure, remove, stored } = await opened(t);
    await ensure();
    await remove(resources.etcdclusters as Resource<KubeObject>, how);
    assert.equal(await stored(), undefined);
  });
}

test('it stays while the cluster lives, although its Certificates are taken away', async (t) => {
  const { ensure, remove, stored } = await opened(t);
  await ensure();
  await remove(resources.etcdcertificatesets as Resource<KubeObject>);
  assert.ok(await stored());
});

test('it stays when its cluster is orphaned, and a pass in the middle of that brings no reference back', async (t) => {
  const { ensure, remove, stored, owners } = await opened(t);
  await ensure();
  await remove(resources.etcdclusters as Resource<KubeObject>, 'Orphan');
  await ensure();
  assert.ok(await stored());
  assert.deepEqual(await owners(), ['EtcdCertificateSet']);
});

test('it has its owners from one write, and what it holds is left alone', async (t) => {
  const { ensure, owners, stored, writes } = await opened(t);
  await ensure();
  await ensure();
  assert.deepEqual((await owners()).toSorted(), ['EtcdCertificateSet', 'EtcdCluster']);
  assert.deepEqual((await stored())?.data, issued().data);
  assert.equal(writes(), 1);
});

for (const [what, secret] of [
  ['a Secret that a person made under this name', issued({ annotations: {} })],
  ['a Secret of another cluster', issued({ labels: { [LABELS.cluster]: 'other', [LABELS.certificate]: 'server' } })],
  ['a Secret without our labels', issued({ labels: {} })],
  [
    'a Secret that a person wants kept',
    issued({ annotations: { ...issued().metadata.annotations, [ANNOTATIONS.keep]: '' } }),
  ],
] as const) {
  test(`${what} outlives the cluster`, async (t) => {
    const { ensure, remove, stored, writes } = await opened(t, secret);
    await ensure();
    assert.equal(writes(), 0);
    await remove(resources.etcdclusters as Resource<KubeObject>);
    assert.ok(await stored());
  });
}

test('one that is to be kept from now on loses the owners that it had from us, and keeps others', async (t) => {
  const theirs = { apiVersion: 'v1', kind: 'ConfigMap', name: 'theirs', uid: 'u' };
  const { ensure, kube, owners } = await opened(t, issued({ ownerReferences: [theirs] }));
  await ensure();
  assert.equal((await owners()).length, 3);
  await kube.mergePatch(
    { resource: resources.secrets, namespace: 'ns', name: 'demo-server-tls' },
    { metadata: { annotations: { [ANNOTATIONS.keep]: '' } } },
  );
  await ensure();
  assert.deepEqual(await owners(), ['ConfigMap']);
});

test('a right that is lacking is told, keeps no pass from its work, and is asked for again a minute later', async (t) => {
  const { ensure, refuse, warnings, clock, owners, writes } = await opened(t);
  refuse(true);
  await ensure();
  await ensure();
  assert.equal(warnings.length, 1);
  assert.equal(writes(), 1);
  refuse(false);
  await clock.advance(60_000);
  await ensure();
  assert.equal((await owners()).length, 2);
});

for (const [what, quorum] of [
  ['is being deleted', { deleting: true }],
  ['has no claim', { controllerUID: undefined }],
  ['is of an earlier claim', { controllerUID: 'earlier' }],
] as const) {
  test(`nothing is written for a cluster whose record ${what}`, async (t) => {
    const { ensure, writes } = await opened(t);
    await ensure(quorum);
    assert.equal(writes(), 0);
  });
}
