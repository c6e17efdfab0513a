import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { fakeClock } from '../../../test/fakes/fake-clock.ts';
import { kubeInProcess } from '../../../test/fakes/fake-kube-in-process.ts';
import { fakeKubeStore } from '../../../test/fakes/fake-kube-store.ts';
import { type Kube, KubeFault, resources } from '../../ports/kube.ts';
import { createNamedSecrets } from './named-secrets.ts';

const secret = (name: string, text: string, namespace = 'ns') => ({
  metadata: { name, namespace },
  type: 'Opaque',
  data: { text: Buffer.from(text).toString('base64') },
});

const opened = () => {
  const clock = fakeClock(0);
  const store = fakeKubeStore({ now: clock.now });
  const { kube } = kubeInProcess(store);
  const asked: string[] = [];
  const watched: Kube = {
    ...kube,
    list: (resource, options) => {
      asked.push(`${options?.namespace} ${options?.fieldSelector}`);
      return kube.list(resource, options);
    },
  };
  const secrets = createNamedSecrets({ kube: watched, clock, random: () => 0.5 });
  const told: string[] = [];
  secrets.onChange((cluster) => told.push(cluster));
  return { clock, store, secrets, told, asked, kube: watched };
};

test('only the Secrets that a cluster names are asked for, each by its name', async () => {
  const { store, secrets, asked } = opened();
  store.put(resources.secrets, secret('mine', 'a'));
  store.put(resources.secrets, secret('somebody-else', 'b'));
  const views = await secrets.follow('ns/demo', 'ns', ['mine', 'late']);
  assert.equal(views.get('mine')?.is, 'there');
  assert.equal(views.get('late')?.is, 'absent');
  assert.deepEqual(asked.toSorted(), ['ns metadata.name=late', 'ns metadata.name=mine']);
  await secrets.stop();
});

test('the clusters that name a Secret are told when it comes, changes and goes, and only they', async () => {
  const { store, secrets, told } = opened();
  await secrets.follow('ns/demo', 'ns', ['late']);
  await secrets.follow('ns/other', 'ns', ['different']);
  await turn();
  told.length = 0;
  store.put(resources.secrets, secret('late', 'a'));
  await turn();
  await turn();
  assert.deepEqual(told, ['ns/demo']);
  store.put(resources.secrets, secret('late', 'b'));
  await turn();
  await turn();
  assert.deepEqual(told, ['ns/demo', 'ns/demo']);
  const [[, view]] = [...(await secrets.follow('ns/demo', 'ns', ['late']))] as [[string, { is: string }]];
  assert.equal(view.is, 'there');
  await secrets.stop();
});

test('what nobody names any more is not followed any more, and what two name stays for the other', async () => {
  const { store, secrets, told } = opened();
  await secrets.follow('ns/a', 'ns', ['shared']);
  await secrets.follow('ns/b', 'ns', ['shared']);
  secrets.forget('ns/a');
  await turn();
  told.length = 0;
  store.put(resources.secrets, secret('shared', 'a'));
  await turn();
  await turn();
  assert.deepEqual(told, ['ns/b']);
  await secrets.follow('ns/b', 'ns', []);
  store.put(resources.secrets, secret('shared', 'b'));
  await turn();
  await turn();
  assert.deepEqual(told, ['ns/b']);
  await secrets.stop();
});

test('a Secret that may not be read is unread with the reason, which is not the same as absent', async () => {
  const clock = fakeClock(0);
  const store = fakeKubeStore({ now: clock.now });
  const { kube } = kubeInProcess(store);
  const secrets = createNamedSecrets({
    clock,
    random: () => 0.5,
    kube: {
      ...kube,
      list: () => Promise.reject(new KubeFault('Forbidden', 'list secrets ns: Forbidden (403): no right')),
    },
  });
  const reading = secrets.follow('ns/demo', 'ns', ['mine']);
  await turn();
  await clock.advance(1_500);
  const view = (await reading).get('mine');
  assert.equal(view?.is, 'unread');
  assert.match(view?.is === 'unread' ? view.why : '', /no right/);
  await secrets.stop();
});
