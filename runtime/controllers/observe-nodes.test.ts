import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Node, NodeSelectorTerm, PersistentVolumeClaim } from 'kubernetes-types/core/v1.js';
import { kubeInProcess } from '../../test/fakes/fake-kube-in-process.ts';
import { fakeKubeStore, type Obj } from '../../test/fakes/fake-kube-store.ts';
import type { SeenNode } from '../core/observed.ts';
import { KubeFault, resources, type Stored } from '../ports/kube.ts';
import { homeOf, hostOf, seenNode, trimNode } from './observe-nodes.ts';
import type { World } from './world.ts';

const SINCE = '2030-01-01T00:00:00Z';
const { signal } = new AbortController();

const node = (name: string, ready: string | undefined, more: { labels?: object; taints?: object[] } = {}) => ({
  metadata: { name, labels: { 'kubernetes.io/hostname': name, ...more.labels } },
  spec: more.taints === undefined ? {} : { taints: more.taints },
  status: {
    images: [{ names: ['quay.io/coreos/etcd:v3.6.16'] }],
    conditions: [
      { type: 'MemoryPressure', status: 'False', lastTransitionTime: '2029-01-01T00:00:00Z' },
      ...(ready === undefined ? [] : [{ type: 'Ready', status: ready, lastTransitionTime: SINCE }]),
    ],
  },
});
const off = { key: 'node.kubernetes.io/out-of-service', value: 'nodeshutdown', effect: 'NoExecute' };
const unreachable = { key: 'node.kubernetes.io/unreachable', effect: 'NoExecute' };
const away = { is: 'notReady', since: Date.parse(SINCE) } as const;

const stored = (object: object): Stored<Node> => object as Stored<Node>;

describe('a node', () => {
  for (const [what, object, seen] of [
    ['is ready by its condition alone', node('n1', 'True', { taints: [off] }), { is: 'ready' }],
    ['that is silent is away since its transition', node('n1', 'Unknown', { taints: [unreachable] }), away],
    ['whose kubelet says that it is not ready is away, too', node('n1', 'False'), away],
    [
      'that a person declared off is out of service',
      node('n1', 'Unknown', { taints: [unreachable, off] }),
      { is: 'outOfService' },
    ],
    ['that has never reported is not judged', node('n1', undefined), undefined],
  ] as const) {
    test(what, () => {
      assert.deepEqual(seenNode(stored(object)), seen);
      const trimmed = stored(
        structuredClone({ ...object, metadata: { ...object.metadata, uid: 'u', resourceVersion: '1' } }),
      );
      trimNode(trimmed);
      assert.deepEqual(seenNode(trimmed), seen, 'nor is anything lost of it that is read');
      assert.equal(JSON.stringify(trimmed).includes('quay.io'), false, 'the rest is not kept');
    });
  }
});

type Options = { nodes?: object[]; terms?: NodeSelectorTerm[] | undefined; pinned?: boolean };
const worldOf = (options: Options = {}) => {
  const store = fakeKubeStore();
  for (const one of options.nodes ?? []) store.put(resources.nodes, one as Obj);
  if (options.pinned !== false) {
    store.put(resources.persistentvolumes, {
      metadata: { name: 'pv-1' },
      spec: options.terms === undefined ? {} : { nodeAffinity: { required: { nodeSelectorTerms: options.terms } } },
    } as unknown as Obj);
  }
  const { kube } = kubeInProcess(store);
  // A cache that has heard of nothing yet.
  return { kube, caches: { nodes: { get: () => undefined } } } as unknown as World;
};
const claim = { metadata: { name: 'demo-0-aaaaa' }, spec: { volumeName: 'pv-1' } } as Stored<PersistentVolumeClaim>;
const on = (...values: string[]): NodeSelectorTerm => ({
  matchExpressions: [{ key: 'kubernetes.io/hostname', operator: 'In', values }],
});

describe('the nodes that can mount a volume', () => {
  const homes: [string, Options, string, SeenNode][] = [
    [
      'a local volume is where its node is',
      { nodes: [node('n1', 'Unknown'), node('n2', 'True')], terms: [on('n1')] },
      'node n1',
      away,
    ],
    [
      'it is nowhere once that node is deleted',
      { nodes: [node('n2', 'True')], terms: [on('n1')] },
      'node n1',
      { is: 'gone' },
    ],
    [
      'one of several nodes is enough',
      { nodes: [node('n1', 'Unknown'), node('n2', 'True')], terms: [on('n1', 'n2')] },
      'node n1, n2',
      { is: 'ready' },
    ],
    [
      'and so is one of several terms',
      { nodes: [node('n1', 'Unknown'), node('n2', 'True')], terms: [on('n1'), on('n2')] },
      'node n1, n2',
      { is: 'ready' },
    ],
    [
      'a zone is as good as its best node',
      {
        nodes: [
          node('n1', 'Unknown', { labels: { zone: 'a' }, taints: [off] }),
          node('n2', 'Unknown', { labels: { zone: 'a' } }),
          node('n3', 'True', { labels: { zone: 'b' } }),
        ],
        terms: [{ matchExpressions: [{ key: 'zone', operator: 'In', values: ['a'] }] }],
      },
      'node a',
      away,
    ],
    [
      'a volume without affinity goes anywhere',
      { nodes: [node('n1', 'Unknown')], terms: undefined },
      'any node',
      { is: 'ready' },
    ],
  ];
  for (const [what, options, name, home] of homes) {
    test(what, async () => {
      const found = await homeOf(worldOf(options), claim, signal);
      assert.deepEqual(found, { known: true, value: { name, node: home } });
    });
  }

  const doubts: [string, Options][] = [
    [
      'an affinity that no selector of the API server expresses',
      { nodes: [], terms: [{ matchExpressions: [{ key: 'gen', operator: 'Gt', values: ['3'] }] }] },
    ],
    ['a term that matches nothing', { nodes: [], terms: [{}] }],
    ['a node that has never reported', { nodes: [node('n1', undefined)], terms: [on('n1')] }],
    ['a PersistentVolume that is not there', { pinned: false }],
  ];
  for (const [what, options] of doubts) {
    test(`are unknown with ${what}, and unknown is not gone`, async () => {
      const found = await homeOf(worldOf(options), claim, signal);
      assert.equal(found?.known, false);
    });
  }

  test('are unknown while the API server does not answer', async () => {
    const world = worldOf({ terms: [on('n1')] });
    const list = async (): Promise<never> => {
      throw new KubeFault('Timeout', 'list nodes: Timeout');
    };
    const found = await homeOf({ ...world, kube: { ...world.kube, list } }, claim, signal);
    assert.deepEqual(found, { known: false, why: 'list nodes: Timeout' });
  });

  test('are nobody’s business before the volume is bound', async () => {
    assert.equal(await homeOf(worldOf(), { ...claim, spec: {} }, signal), undefined);
  });

  test('are the one that the scheduler chose while the volume is being made there', async () => {
    const annotations = { 'volume.kubernetes.io/selected-node': 'n1' };
    const unbound = { ...claim, metadata: { ...claim.metadata, annotations }, spec: {} };
    const world = worldOf({ nodes: [node('n1', 'Unknown'), node('n2', 'True')] });
    assert.deepEqual(await homeOf(world, unbound, signal), { known: true, value: { name: 'node n1', node: away } });
  });
});

describe('the node of a Pod', () => {
  test('is gone only if the API server says so, since a Pod may be heard of before its new node', async () => {
    const world = worldOf({ nodes: [node('n1', 'True')] });
    assert.deepEqual(await hostOf(world, 'n1', signal), { is: 'ready' });
    assert.deepEqual(await hostOf(world, 'n2', signal), { is: 'gone' });
    const get = async (): Promise<never> => {
      throw new KubeFault('Timeout', 'get nodes: Timeout');
    };
    assert.equal(await hostOf({ ...world, kube: { ...world.kube, get } }, 'n2', signal), undefined);
  });
});
