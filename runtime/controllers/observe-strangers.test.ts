import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { ANNOTATIONS, LABELS } from '../../api/names.ts';
import { kubeInProcess } from '../../test/fakes/fake-kube-in-process.ts';
import { fakeKubeStore, type Obj } from '../../test/fakes/fake-kube-store.ts';
import { known, type Observed, unknown } from '../core/observed.ts';
import { EtcdFault, type EtcdFaultReason } from '../ports/etcd.ts';
import { KubeFault, resources } from '../ports/kube.ts';
import { strangersOf } from './observe-strangers.ts';
import type { World } from './world.ts';

const { signal } = new AbortController();
const NAME = 'demo-7-abcde';
const seen: Observed = {
  namespace: 'shop',
  cluster: 'demo',
  now: 0,
  namespaceTerminating: known(false),
  claim: unknown('not asked in this pass'),
  quorum: undefined,
  members: [],
  budget: undefined,
  membership: known({
    clusterId: 'c1',
    members: [
      { id: 'a1', name: '', peerURLs: [`http://${NAME}.demo.shop.svc:2380`], clientURLs: [], isLearner: true },
      { id: 'f1', name: '', peerURLs: ['http://elsewhere:2380'], clientURLs: [], isLearner: false },
    ],
  }),
};

const silence = async (reason?: EtcdFaultReason): Promise<never> => {
  throw new EtcdFault({
    reason: reason ?? 'Unreachable',
    operation: 'metrics',
    url: '',
    detail: 'nothing is there',
    mayHaveHappened: false,
  });
};

const lookedFor = (
  put: (store: ReturnType<typeof fakeKubeStore>) => void = () => {},
  { metrics = () => silence(), picture = seen }: { metrics?: () => Promise<unknown>; picture?: Observed } = {},
) => {
  const store = fakeKubeStore();
  put(store);
  // No cache at all: whatever is found was read from the server.
  const world = { kube: kubeInProcess(store).kube, probe: { metrics } } as unknown as World;
  return strangersOf(world, picture, signal);
};

const object = (name: string, metadata: object = {}, more: object = {}): Obj =>
  ({ metadata: { name, namespace: 'shop', ...metadata }, ...more }) as unknown as Obj;

describe('what is left of a member without a slot', () => {
  test('is nothing where no object is of it, and it is silent; one of a foreign URL is not looked for', async () => {
    const found = await lookedFor((store) => {
      store.put(resources.pods, object('demo-0-aaaaa'));
      store.put(
        resources.persistentvolumeclaims,
        object('demo-0-aaaaa', { annotations: { [ANNOTATIONS.memberID]: 'b1' } }),
      );
      store.put(
        resources.etcdmembers,
        object('demo-7', {}, { spec: {}, status: { incarnation: 'zzzzz', memberID: 'b7' } }),
      );
    });
    assert.deepEqual(found, [{ id: 'a1', traces: known([]), answers: false }]);
  });

  for (const [what, trace, put] of [
    ['its Pod', `Pod ${NAME}`, (store) => store.put(resources.pods, object(NAME))],
    [
      'a Pod that carries its host name',
      'Pod by-hand',
      (store) => store.put(resources.pods, object('by-hand', {}, { spec: { hostname: NAME, containers: [] } })),
    ],
    [
      'a Pod that fills its volume',
      `Pod ${NAME}-seed`,
      (store) =>
        store.put(
          resources.pods,
          object(`${NAME}-seed`, { labels: { [LABELS.member]: 'demo-7', [LABELS.incarnation]: 'abcde' } }),
        ),
    ],
    [
      'its volume',
      `PersistentVolumeClaim ${NAME}`,
      (store) => store.put(resources.persistentvolumeclaims, object(NAME)),
    ],
    [
      'a volume that notes its member ID',
      'PersistentVolumeClaim copy',
      (store) =>
        store.put(resources.persistentvolumeclaims, object('copy', { annotations: { [ANNOTATIONS.memberID]: 'a1' } })),
    ],
    [
      'its slot, as yet without a record',
      'EtcdMember demo-7',
      (store) => store.put(resources.etcdmembers, object('demo-7', {}, { spec: {} })),
    ],
    [
      'a record of its member ID in another slot',
      'EtcdMember demo-1',
      (store) => store.put(resources.etcdmembers, object('demo-1', {}, { spec: {}, status: { memberID: 'a1' } })),
    ],
  ] as [string, string, (store: ReturnType<typeof fakeKubeStore>) => void][]) {
    test(`is ${what}`, async () => {
      assert.deepEqual((await lookedFor(put))[0]?.traces, known([trace]));
    });
  }

  test('is not known while the API server does not answer, which is never taken for nothing', async () => {
    const world = {
      kube: { list: () => Promise.reject(new KubeFault('Timeout', 'it took too long')) },
      probe: { metrics: () => silence() },
    } as unknown as World;
    const [found] = await strangersOf(world, seen, signal);
    assert.deepEqual(found?.traces, unknown('it took too long'));
  });
});

describe('a member without a slot', () => {
  for (const [what, metrics, answers] of [
    ['answers where its health port does', async () => ({}), true],
    ['answers also with nonsense', () => silence('BrokenAnswer'), true],
    ['is silent where no name resolves', () => silence('Unreachable'), false],
    ['is silent where the deadline passes', () => silence('Timeout'), false],
  ] as [string, () => Promise<unknown>, boolean][]) {
    test(what, async () => assert.equal((await lookedFor(undefined, { metrics }))[0]?.answers, answers));
  }

  test('is not looked for while another change is in flight, which may be bringing it', async () => {
    const operation = { id: 'o', kind: 'AddMember', since: '2030-01-01T00:00:00Z', step: 'begun' };
    const quorum = { uid: 'q', generation: 1, deleting: false, controllerUID: 'u', spec: {}, status: { operation } };
    const picture = { ...seen, quorum: quorum as unknown as NonNullable<Observed['quorum']> };
    assert.deepEqual(await lookedFor(undefined, { picture }), []);
  });
});
