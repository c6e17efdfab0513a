import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { IN_USE_TYPE } from '../../api/names.ts';
import { kubeInProcess } from '../../test/fakes/fake-kube-in-process.ts';
import { fakeKubeStore } from '../../test/fakes/fake-kube-store.ts';
import { createNamedSecrets } from '../adapters/kube/named-secrets.ts';
import type { Observed } from '../core/observed.ts';
import { isFault, resources } from '../ports/kube.ts';
import { rootSecretOf, writeInUse } from './in-use-secrets.ts';
import type { World } from './world.ts';

const NAME = 'demo-root-in-use';
const text = (value: string): string => Buffer.from(value).toString('base64');

const opened = (t: TestContext) => {
  const store = fakeKubeStore({ now: () => 0 });
  store.put(resources.namespaces, { metadata: { name: 'ns' } });
  const { kube } = kubeInProcess(store);
  const secrets = createNamedSecrets({ kube });
  const follow = () => secrets.follow('ns/demo', 'ns', [NAME]);
  const scene = {
    world: { kube, secrets } as unknown as World,
    seen: { namespace: 'ns', cluster: 'demo', quorum: { uid: 'q1', controllerUID: 'c1' } } as Observed,
    signal: AbortSignal.timeout(20_000),
  };
  const write = (data: Record<string, string>) => writeInUse(scene, { purpose: 'root', data });
  const stored = () => kube.get({ resource: resources.secrets, namespace: 'ns', name: NAME });
  t.after(() => secrets.stop());
  return { secrets, store, follow, write, stored };
};

test('it is made once and rewritten from then on, and what it held before is gone', async (t) => {
  const { follow, write, stored } = opened(t);
  await follow();
  await write({ password: text('a'), other: text('b') });
  await write({ password: text('c') });
  const secret = await stored();
  assert.deepEqual(secret?.data, { password: text('c') });
  assert.equal(secret?.type, IN_USE_TYPE);
  assert.deepEqual(
    secret?.metadata.ownerReferences?.map(({ kind, uid }) => [kind, uid]),
    [
      ['EtcdQuorum', 'q1'],
      ['EtcdCluster', 'c1'],
    ],
    'it stays while either is there',
  );
});

test('a write on top of one that was not seen is refused, since it was decided on something else', async (t) => {
  const { store, follow, write } = opened(t);
  await follow();
  await write({ password: text('a') });
  store.put(resources.secrets, {
    metadata: { name: NAME, namespace: 'ns' },
    type: IN_USE_TYPE,
    data: { password: text('b') },
  });
  await assert.rejects(write({ password: text('c') }), (error) => isFault(error, 'Conflict'));
});

test("somebody else's Secret of that name is left as it is", async (t) => {
  const { store, follow, write, stored } = opened(t);
  store.put(resources.secrets, {
    metadata: { name: NAME, namespace: 'ns' },
    type: 'Opaque',
    data: { password: text('theirs') },
  });
  await follow();
  await assert.rejects(write({ password: text('c') }), (error) => isFault(error, 'Forbidden'));
  assert.deepEqual((await stored())?.data, { password: text('theirs') });
});

test('nothing is written where it is not known what is there', async (t) => {
  const { write, stored } = opened(t);
  await assert.rejects(write({ password: text('c') }), (error) => isFault(error, 'Unavailable'));
  assert.equal(await stored(), undefined);
});

test("Pods take root's password from what is in force, and from the claim's Secret while nothing is kept yet", async (t) => {
  const { secrets, follow, write } = opened(t);
  await follow();
  const of = (authEnabled: boolean, rootCredentialsSecretName?: string) =>
    rootSecretOf(
      secrets,
      { namespace: 'ns', name: 'demo' },
      {
        spec: {
          replicas: 3,
          medium: '',
          version: '3.6.16',
          ...(rootCredentialsSecretName === undefined ? {} : { auth: { enabled: true, rootCredentialsSecretName } }),
        },
        status: { authEnabled },
      },
    );
  assert.equal(of(false, 'theirs'), undefined, 'nobody asks for it');
  assert.equal(of(true, 'theirs'), 'theirs');
  await write({ next: text('b') });
  assert.equal(of(true, 'theirs'), 'theirs', 'etcd may not have taken it yet');
  await write({ password: text('b') });
  assert.equal(of(true, 'theirs'), NAME);
  assert.equal(of(true), NAME, 'also where the claim names none any more');
});
