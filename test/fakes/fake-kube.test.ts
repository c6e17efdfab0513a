/** What the contract suite cannot ask of a real API server: our own kinds, the controllers beside it, and `state`. */
import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import type { EtcdMember } from '../../api/etcdmember.gen.ts';
import { API_VERSION } from '../../api/names.ts';
import { isFault, resources } from '../../runtime/ports/kube.ts';
import { type FakeKube, type FakeKubeOptions, startFakeKube } from './fake-kube.ts';

const { configmaps, etcdclusters, etcdmembers, persistentvolumeclaims, pods } = resources;

const member: EtcdMember = {
  apiVersion: API_VERSION,
  kind: 'EtcdMember',
  metadata: { name: 'a-0', namespace: 'default' },
  spec: {
    clusterName: 'a',
    version: '3.6.16',
    storage: { medium: '', retention: 'Delete' },
    template: { metadata: {}, spec: { containers: [{ name: 'etcd', image: 'etcd' }] } },
  },
};
const at = (name: string) => ({ namespace: 'default', name });

describe('the fake API server', () => {
  let fake: FakeKube | undefined;
  afterEach(async () => fake?.close());
  const begin = async (options?: FakeKubeOptions): Promise<FakeKube> => {
    fake = await startFakeKube(options);
    return fake;
  };

  test('knows our kinds by their CRDs: drops unknown fields, refuses wrong ones', async () => {
    const { kube } = await begin();
    const made = await kube.create(etcdmembers, { ...member, spec: { ...member.spec, surprise: 1 } } as never);
    assert.equal('surprise' in made.spec, false);
    const ref = { resource: etcdmembers, ...at('a-0') };
    const wrong = kube.mergePatch(ref, { status: { phase: 'Dancing' } }, { subresource: 'status' });
    await assert.rejects(wrong, (error) => isFault(error, 'Invalid') && /status\.phase/.test(error.message));
    const { spec: _, ...without } = member;
    const bare = { ...without, metadata: at('a-1') };
    await assert.rejects(kube.create(etcdmembers, bare as never), (error) => isFault(error, 'Invalid'));
  });

  test('counts generations of the spec alone', async () => {
    const { kube } = await begin();
    const ref = { resource: etcdmembers, ...at('a-0') };
    assert.equal((await kube.create(etcdmembers, member)).metadata.generation, 1);
    await kube.mergePatch(ref, { status: { phase: 'Voter' } }, { subresource: 'status' });
    await kube.mergePatch(ref, { metadata: { labels: { a: '1' } } });
    assert.equal((await kube.mergePatch(ref, { spec: { version: '3.6.17' } })).metadata.generation, 2);
  });

  test('merges references by kind and name, each with its owner', async () => {
    const { kube, state } = await begin();
    const { metadata } = await kube.create(etcdmembers, member);
    const refs = (...names: string[]) => ({
      metadata: { ...at('a-0'), uid: metadata.uid },
      spec: { resourceRefs: names.map((name) => ({ apiVersion: 'v1', kind: 'Pod', name })) },
    });
    await kube.apply(etcdmembers, refs('one', 'two'), { fieldManager: 'runtime' });
    await kube.apply(etcdmembers, refs('three'), { fieldManager: 'other' });
    const left = await kube.apply(etcdmembers, refs('two'), { fieldManager: 'runtime' });
    assert.deepEqual(left.spec.resourceRefs?.map(({ name }) => name).toSorted(), ['three', 'two']);
    assert.equal(left.spec.clusterName, 'a', 'what nobody applied stays');
    assert.ok(state.ownersOf(etcdmembers, at('a-0'))?.has('runtime/Apply'));
  });

  test('writes the status of a namesake when only the uid says that another was meant, as the real one does', async () => {
    const { kube, state } = await begin();
    await kube.create(etcdmembers, member);
    const uid = '00000000-0000-0000-0000-000000000000';
    const ref = { resource: etcdmembers, ...at('a-0') };
    const stranger = kube.mergePatch(
      ref,
      { metadata: { uid }, status: { phase: 'Failed' } },
      { subresource: 'status' },
    );
    await assert.rejects(stranger, (error) => isFault(error, 'Conflict'));
    assert.equal(state.get(etcdmembers, at('a-0'))?.status?.phase, 'Failed');
    const spec = kube.mergePatch(ref, { metadata: { uid }, spec: { version: '3.6.17' } });
    await assert.rejects(spec, (error) => isFault(error, 'Conflict'));
    assert.equal(state.get(etcdmembers, at('a-0'))?.spec.version, '3.6.16');
  });

  test('holds a Pod on a node until its kubelet has stopped it', async () => {
    const { kube, state } = await begin();
    state.put(pods, { metadata: at('p'), spec: { nodeName: 'n1' } });
    await kube.delete({ resource: pods, ...at('p') });
    assert.notEqual(state.get(pods, at('p'))?.metadata.deletionTimestamp, undefined);
    state.podStopped(at('p'));
    assert.equal(state.get(pods, at('p')), undefined);
    state.put(pods, { metadata: at('unscheduled'), spec: {} });
    await kube.delete({ resource: pods, ...at('unscheduled') });
    assert.equal(state.get(pods, at('unscheduled')), undefined);
  });

  test('protects a volume while a Pod uses it', async () => {
    const { kube, state } = await begin();
    await kube.create(persistentvolumeclaims, { metadata: at('v') });
    const volumes = [{ name: 'data', persistentVolumeClaim: { claimName: 'v' } }];
    state.put(pods, { metadata: at('p'), spec: { nodeName: 'n1', volumes } });
    assert.equal(await kube.delete({ resource: persistentvolumeclaims, ...at('v') }), 'deleted');
    assert.notEqual(state.get(persistentvolumeclaims, at('v')), undefined);
    state.vanish(pods, at('p'));
    assert.equal(state.get(persistentvolumeclaims, at('v')), undefined);
  });

  describe('with an owner', () => {
    const owned = async (finalizers: string[] = []) => {
      const { kube, state } = await begin();
      const owner = state.put(etcdclusters, { metadata: at('a'), spec: {} });
      const ownerReferences = [
        { apiVersion: API_VERSION, kind: 'EtcdCluster', name: 'a', uid: owner.metadata.uid, blockOwnerDeletion: true },
      ];
      state.put(etcdmembers, { ...member, metadata: { ...member.metadata, ownerReferences, finalizers } });
      return { kube, state };
    };

    test('collects in the background what a deleted owner leaves', async () => {
      const { state } = await owned();
      state.delete(etcdclusters, at('a'));
      assert.equal(state.get(etcdclusters, at('a')), undefined);
      assert.equal(state.get(etcdmembers, at('a-0')), undefined);
    });

    test('keeps the owner of a foreground deletion until the last finalizer below it goes', async () => {
      const { kube, state } = await owned(['x.example/hold']);
      state.delete(etcdclusters, at('a'), 'Foreground');
      assert.deepEqual(state.get(etcdclusters, at('a'))?.metadata.finalizers, ['foregroundDeletion']);
      assert.notEqual(state.get(etcdmembers, at('a-0'))?.metadata.deletionTimestamp, undefined);
      await kube.mergePatch({ resource: etcdmembers, ...at('a-0') }, { metadata: { finalizers: null } });
      assert.equal(state.get(etcdmembers, at('a-0')), undefined);
      assert.equal(state.get(etcdclusters, at('a')), undefined);
    });

    test('leaves an orphan in place without its owner', async () => {
      const { state } = await owned();
      state.delete(etcdclusters, at('a'), 'Orphan');
      assert.equal(state.get(etcdclusters, at('a')), undefined);
      assert.equal(state.get(etcdmembers, at('a-0'))?.metadata.ownerReferences, undefined);
    });
  });

  test('empties a namespace that is being deleted, and waits for finalizers in it', async () => {
    const { kube, state } = await begin();
    state.namespace('home');
    state.put(configmaps, { metadata: { name: 'free', namespace: 'home' } });
    state.put(configmaps, { metadata: { name: 'held', namespace: 'home', finalizers: ['x.example/hold'] } });
    await kube.delete({ resource: resources.namespaces, name: 'home' });
    assert.deepEqual(
      state.list(configmaps, 'home').map(({ metadata }) => metadata.name),
      ['held'],
    );
    assert.equal(state.get(resources.namespaces, { name: 'home' })?.status?.phase, 'Terminating');
    await kube.mergePatch(
      { resource: configmaps, namespace: 'home', name: 'held' },
      { metadata: { finalizers: null } },
    );
    assert.equal(state.get(resources.namespaces, { name: 'home' }), undefined);
  });
});
