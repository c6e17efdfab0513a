/**
 * What the runtime relies on in an API server, run against the fake and against a real one. A check that only one of them
 * passes is a bug in the fake or in our idea of Kubernetes.
 *
 * It needs rights on one namespace of its own and on nothing else: ConfigMaps, Leases and Pods that never run.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import type { ConfigMap } from 'kubernetes-types/core/v1.js';
import { isFault, type Kube, type KubeFaultReason, resources, type Stored } from '../../runtime/ports/kube.ts';

const { configmaps, leases, namespaces, pods } = resources;
const MANAGER = 'contract';

const faultOf = async (call: Promise<unknown>): Promise<KubeFaultReason> => {
  try {
    await call;
  } catch (error) {
    assert.ok(isFault(error), String(error));
    assert.doesNotMatch(error.message, /\n/, 'a fault is one line');
    return error.reason;
  }
  return assert.fail('the call succeeded');
};

export type KubeUnderTest = { kube: Kube; done(): Promise<void> };

/**
 * `forgets`: whether version 1 is forgotten when the checks begin. On a real server that is a matter of its age and of its
 * caches' sizes, and of no call of ours.
 */
export const kubeContract = (
  name: string,
  begin: () => Promise<KubeUnderTest>,
  { forgets }: { readonly forgets: boolean },
): void => {
  describe(`Kubernetes port on ${name}`, () => {
    let subject: KubeUnderTest;
    let kube: Kube;
    const namespace = `contract-${randomBytes(4).toString('hex')}`;

    before(async () => {
      subject = await begin();
      kube = subject.kube;
      await kube.create(namespaces, { metadata: { name: namespace } });
    });

    after(async () => {
      await kube.delete({ resource: namespaces, name: namespace });
      await subject.done();
    });

    const configMap = (
      objectName: string,
      data: Record<string, string>,
      labels?: Record<string, string>,
    ): ConfigMap => ({
      metadata: { name: objectName, namespace, ...(labels === undefined ? {} : { labels }) },
      data,
    });
    const at = (objectName: string) => ({ resource: configmaps, namespace, name: objectName });

    test('gets undefined for an object that does not exist', async () => {
      assert.equal(await kube.get(at('nothing')), undefined);
    });

    test('creates an object once and says so the second time', async () => {
      const made = await kube.create(configmaps, configMap('once', { a: '1' }));
      assert.equal(made.data?.a, '1');
      assert.equal(await faultOf(kube.create(configmaps, configMap('once', {}))), 'AlreadyExists');
      assert.equal((await kube.get(at('once')))?.metadata.uid, made.metadata.uid);
    });

    test('refuses an object in a namespace that does not exist', async () => {
      const lost = { metadata: { name: 'lost', namespace: `${namespace}-not` } };
      assert.equal(await faultOf(kube.create(configmaps, lost)), 'NotFound');
    });

    test('lists every page, by label and by field, with kinds that lists leave out', async () => {
      for (const n of [1, 2, 3, 4, 5]) {
        await kube.create(configmaps, configMap(`page-${n}`, {}, { pages: n === 3 ? 'odd' : 'yes' }));
      }
      const all = await kube.list(configmaps, { namespace, labelSelector: 'pages', limit: 2 });
      assert.deepEqual(
        all.items.map((item) => item.metadata.name),
        ['page-1', 'page-2', 'page-3', 'page-4', 'page-5'],
      );
      assert.equal(all.items[0]?.kind, 'ConfigMap');
      assert.equal(all.items[0]?.apiVersion, 'v1');
      const some = await kube.list(configmaps, { namespace, labelSelector: 'pages=yes', resourceVersion: '0' });
      assert.equal(some.items.length, 4);
      const one = await kube.list(configmaps, { namespace, fieldSelector: 'metadata.name=page-2' });
      assert.deepEqual(
        one.items.map((item) => item.metadata.name),
        ['page-2'],
      );
    });

    test('orders resource versions of one kind as numbers, newer ones larger', async () => {
      const first = await kube.create(configmaps, configMap('order', { n: '0' }));
      const second = await kube.mergePatch(at('order'), { data: { n: '1' } });
      const other = await kube.create(configmaps, configMap('order-2', {}));
      assert.ok(BigInt(first.metadata.resourceVersion) < BigInt(second.metadata.resourceVersion));
      assert.ok(BigInt(second.metadata.resourceVersion) < BigInt(other.metadata.resourceVersion));
      const { resourceVersion } = await kube.list(configmaps, { namespace });
      assert.ok(BigInt(other.metadata.resourceVersion) <= BigInt(resourceVersion));
    });

    describe('apply', () => {
      test('creates what is absent', async () => {
        const made = await kube.apply(configmaps, configMap('applied', { a: '1' }), { fieldManager: MANAGER });
        assert.equal(made.data?.a, '1');
      });

      test('never makes a ghost of a deleted object when the uid is given', async () => {
        const made = await kube.create(configmaps, configMap('ghost', {}));
        await kube.delete(at('ghost'));
        const { uid } = made.metadata;
        const again = { ...configMap('ghost', { a: '1' }), metadata: { name: 'ghost', namespace, uid } };
        assert.equal(await faultOf(kube.apply(configmaps, again, { fieldManager: MANAGER })), 'Conflict');
        assert.equal(await kube.get(at('ghost')), undefined);
      });

      test('leaves the namesake of a deleted object alone when the uid is given', async () => {
        const old = await kube.create(configmaps, configMap('namesake', { who: 'old' }));
        await kube.delete(at('namesake'));
        await kube.create(configmaps, configMap('namesake', { who: 'new' }));
        const mine = {
          ...configMap('namesake', { who: 'mine' }),
          metadata: { name: 'namesake', namespace, uid: old.metadata.uid },
        };
        const reason = await faultOf(kube.apply(configmaps, mine, { fieldManager: MANAGER, force: true }));
        assert.equal(reason, 'Conflict');
        assert.equal((await kube.get(at('namesake')))?.data?.who, 'new');
      });

      test('removes a field that its only owner applies no more, and keeps those of others', async () => {
        await kube.apply(configmaps, configMap('owned', { mine: '1', ours: '1' }), { fieldManager: 'one' });
        await kube.apply(configmaps, configMap('owned', { ours: '1', theirs: '1' }), { fieldManager: 'two' });
        const left = await kube.apply(configmaps, configMap('owned', {}), { fieldManager: 'one' });
        assert.deepEqual(left.data, { ours: '1', theirs: '1' });
      });

      test('removes what holds nothing any more with the last that it held', async () => {
        await kube.apply(configmaps, configMap('emptied', { a: '1', b: '2' }), { fieldManager: 'one' });
        const left = await kube.apply(
          configmaps,
          { metadata: { name: 'emptied', namespace } },
          { fieldManager: 'one' },
        );
        assert.equal('data' in left, false);
      });

      test('refuses to take a field of another manager, unless forced', async () => {
        await kube.apply(configmaps, configMap('contested', { a: '1' }), { fieldManager: 'one' });
        const other = configMap('contested', { a: '2' });
        assert.equal(await faultOf(kube.apply(configmaps, other, { fieldManager: 'two' })), 'FieldConflict');
        const taken = await kube.apply(configmaps, other, { fieldManager: 'two', force: true });
        assert.equal(taken.data?.a, '2');
        // The field has one owner now, so its old owner's silence about it removes nothing.
        const after = await kube.apply(configmaps, configMap('contested', {}), { fieldManager: 'one' });
        assert.equal(after.data?.a, '2');
      });

      test('treats finalizers as a set with an owner for each', async () => {
        const withFinalizer = (...finalizers: string[]) => ({
          metadata: { name: 'final', namespace, finalizers },
        });
        await kube.apply(configmaps, withFinalizer('a.example/one'), { fieldManager: 'one' });
        const both = await kube.apply(configmaps, withFinalizer('a.example/two'), { fieldManager: 'two' });
        assert.deepEqual(both.metadata.finalizers?.toSorted(), ['a.example/one', 'a.example/two']);
        const one = await kube.apply(configmaps, withFinalizer(), { fieldManager: 'one' });
        assert.deepEqual(one.metadata.finalizers, ['a.example/two']);
        const none = await kube.apply(configmaps, withFinalizer(), { fieldManager: 'two' });
        assert.equal(none.metadata.finalizers, undefined);
      });

      test('that changes nothing keeps the resource version, so that a settled world stays silent', async () => {
        const first = await kube.apply(configmaps, configMap('same', { a: '1' }), { fieldManager: MANAGER });
        const second = await kube.apply(configmaps, configMap('same', { a: '1' }), { fieldManager: MANAGER });
        assert.equal(second.metadata.resourceVersion, first.metadata.resourceVersion);
      });
    });

    test('merge patch removes by null, and conflicts on an old resource version', async () => {
      const made = await kube.create(configmaps, configMap('merged', { a: '1', b: '1' }));
      const patched = await kube.mergePatch(at('merged'), { data: { a: null, c: '1' } });
      assert.deepEqual(patched.data, { b: '1', c: '1' });
      const stale = { metadata: { resourceVersion: made.metadata.resourceVersion }, data: { d: '1' } };
      assert.equal(await faultOf(kube.mergePatch(at('merged'), stale)), 'Conflict');
      assert.equal(await faultOf(kube.mergePatch(at('absent'), { data: {} })), 'NotFound');
    });

    test('JSON patch does all or nothing, and a failed test is Invalid', async () => {
      await kube.create(configmaps, configMap('json', { a: '1' }));
      const patched = await kube.jsonPatch(at('json'), [
        { op: 'test', path: '/data/a', value: '1' },
        { op: 'add', path: '/data/b', value: '2' },
        { op: 'remove', path: '/data/a' },
      ]);
      assert.deepEqual(patched.data, { b: '2' });
      const failing = kube.jsonPatch(at('json'), [
        { op: 'add', path: '/data/c', value: '3' },
        { op: 'test', path: '/data/b', value: 'other' },
      ]);
      assert.equal(await faultOf(failing), 'Invalid');
      assert.deepEqual((await kube.get(at('json')))?.data, { b: '2' });
    });

    test('deletes by uid and resource version only what was meant', async () => {
      const made = await kube.create(configmaps, configMap('meant', {}));
      const uid = '00000000-0000-0000-0000-000000000000';
      assert.equal(await kube.delete(at('meant'), { uid }), 'conflict');
      await kube.mergePatch(at('meant'), { data: { a: '1' } });
      const { resourceVersion } = made.metadata;
      assert.equal(await kube.delete(at('meant'), { resourceVersion }), 'conflict');
      assert.equal(await kube.delete(at('meant'), { uid: made.metadata.uid }), 'deleted');
      assert.equal(await kube.delete(at('meant')), 'absent');
    });

    test('holds a deleted object until its last finalizer goes, and takes no new one', async () => {
      const held = configMap('held', {});
      held.metadata = { ...held.metadata, finalizers: ['a.example/hold'] };
      const made = await kube.create(configmaps, held);
      assert.equal(await kube.delete(at('held')), 'deleted');
      const marked = await kube.get(at('held'));
      assert.equal(marked?.metadata.uid, made.metadata.uid);
      assert.notEqual(marked?.metadata.deletionTimestamp, undefined);
      const more = { metadata: { finalizers: ['a.example/hold', 'a.example/more'] } };
      assert.equal(await faultOf(kube.mergePatch(at('held'), more)), 'Invalid');
      await kube.mergePatch(at('held'), { metadata: { finalizers: null } });
      assert.equal(await kube.get(at('held')), undefined);
    });

    test('keeps status and the rest apart, each behind its own endpoint', async () => {
      const pod = await kube.create(pods, {
        metadata: { name: 'parts', namespace },
        // No scheduler takes it, so nothing runs and nothing else writes.
        spec: { schedulerName: 'nobody', containers: [{ name: 'c', image: 'example.invalid/c' }] },
      });
      const ref = { resource: pods, namespace, name: 'parts' };
      await kube.mergePatch(ref, { metadata: { labels: { a: '1' } }, status: { message: 'not here' } });
      const message = 'by the status endpoint';
      const patched = await kube.mergePatch(ref, { status: { message } }, { subresource: 'status' });
      assert.equal(patched.status?.message, message);
      assert.equal(patched.metadata.labels?.a, '1');
      assert.equal(patched.spec?.containers[0]?.image, pod.spec?.containers[0]?.image);
      assert.equal(await kube.delete(ref, { gracePeriodSeconds: 0 }), 'deleted');
    });

    test('guards the status of a built-in kind by uid and by resource version', async () => {
      const made = await kube.create(pods, {
        metadata: { name: 'guarded', namespace },
        spec: { schedulerName: 'nobody', containers: [{ name: 'c', image: 'example.invalid/c' }] },
      });
      const ref = { resource: pods, namespace, name: 'guarded' };
      const uid = '00000000-0000-0000-0000-000000000000';
      const through = { subresource: 'status' };
      const stranger = kube.mergePatch(ref, { metadata: { uid }, status: { message: 'stranger' } }, through);
      assert.equal(await faultOf(stranger), 'Conflict');
      const renewed = await kube.mergePatch(ref, { metadata: { labels: { a: '1' } } });
      assert.notEqual(renewed.metadata.resourceVersion, made.metadata.resourceVersion);
      const { resourceVersion } = made.metadata;
      const stale = kube.mergePatch(ref, { metadata: { resourceVersion }, status: { message: 'stale' } }, through);
      assert.equal(await faultOf(stale), 'Conflict');
      assert.equal((await kube.get(ref))?.status?.message, undefined);
      await kube.delete(ref, { gracePeriodSeconds: 0 });
    });

    test('creates and updates a lease under a version check', async () => {
      const spec = { holderIdentity: 'one', leaseDurationSeconds: 15, renewTime: '2030-01-01T00:00:00.000000Z' };
      const made = await kube.create(leases, { metadata: { name: 'lease', namespace }, spec });
      const ref = { resource: leases, namespace, name: 'lease' };
      const { resourceVersion } = made.metadata;
      const taken = await kube.mergePatch(ref, { metadata: { resourceVersion }, spec: { holderIdentity: 'two' } });
      assert.equal(taken.spec?.holderIdentity, 'two');
      const late = kube.mergePatch(ref, { metadata: { resourceVersion }, spec: { holderIdentity: 'three' } });
      assert.equal(await faultOf(late), 'Conflict');
    });

    describe('watch', () => {
      const begun = async (labelSelector?: string) => {
        const { resourceVersion } = await kube.list(configmaps, {
          namespace,
          ...(labelSelector ? { labelSelector } : {}),
        });
        const stop = new AbortController();
        const events = kube
          .watch(configmaps, {
            namespace,
            labelSelector,
            resourceVersion,
            timeoutSeconds: 30,
            idleTimeoutMs: 20_000,
            signal: stop.signal,
          })
          [Symbol.asyncIterator]();
        const next = async (): Promise<{ type: string; object: Stored<ConfigMap> }> => {
          for (;;) {
            const { value, done } = await events.next();
            assert.notEqual(done, true, 'the watch ended');
            if (value.type !== 'BOOKMARK') return value;
          }
        };
        const end = async (): Promise<void> => {
          const pending = events.next();
          stop.abort();
          assert.equal(await faultOf(pending), 'Cancelled');
        };
        return { next, end };
      };

      test('tells of creation, change and deletion, in order and with rising versions', async () => {
        const { next, end } = await begun();
        const made = await kube.create(configmaps, configMap('seen', { a: '1' }));
        await kube.mergePatch(at('seen'), { data: { a: '2' } });
        await kube.delete(at('seen'));
        const [added, modified, deleted] = [await next(), await next(), await next()];
        assert.deepEqual([added.type, modified.type, deleted.type], ['ADDED', 'MODIFIED', 'DELETED']);
        assert.equal(deleted.object.metadata.uid, made.metadata.uid);
        assert.equal(modified.object.data?.a, '2');
        const versions = [added, modified, deleted].map(({ object }) => BigInt(object.metadata.resourceVersion));
        assert.deepEqual(
          versions,
          versions.toSorted((a, b) => (a < b ? -1 : 1)),
        );
        assert.notEqual(versions[1], versions[2], 'a deletion has a version of its own');
        await end();
      });

      test('reports an object that stops matching the labels as deleted', async () => {
        const { next, end } = await begun('leaves=no');
        await kube.create(configmaps, configMap('leaver', {}, { leaves: 'no' }));
        const changed = await kube.mergePatch(at('leaver'), { metadata: { labels: { leaves: 'yes' } } });
        await kube.mergePatch(at('leaver'), { metadata: { labels: { leaves: 'no' } } });
        const [added, left, back] = [await next(), await next(), await next()];
        assert.deepEqual([added.type, left.type, back.type], ['ADDED', 'DELETED', 'ADDED']);
        assert.equal(left.object.metadata.resourceVersion, changed.metadata.resourceVersion);
        await end();
      });

      if (forgets) {
        test('from a version that is forgotten says Gone', async () => {
          const watch = kube.watch(configmaps, {
            namespace,
            resourceVersion: '1',
            timeoutSeconds: 10,
            idleTimeoutMs: 10_000,
            signal: AbortSignal.timeout(15_000),
          });
          assert.equal(await faultOf(watch[Symbol.asyncIterator]().next()), 'Gone');
        });
      }

      test('ends cleanly when its time is over', async () => {
        const { resourceVersion } = await kube.list(configmaps, { namespace });
        const signal = AbortSignal.timeout(15_000);
        const watch = kube.watch(configmaps, {
          namespace,
          resourceVersion,
          timeoutSeconds: 1,
          idleTimeoutMs: 10_000,
          signal,
        });
        for await (const event of watch) assert.equal(event.type, 'BOOKMARK');
      });
    });

    test('refuses new objects in a namespace that is being deleted, with a reason of its own', async () => {
      const home = `${namespace}-going`;
      await kube.create(namespaces, { metadata: { name: home } });
      const stay = { metadata: { name: 'stay', namespace: home, finalizers: ['a.example/hold'] } };
      await kube.create(configmaps, stay);
      assert.equal(await kube.delete({ resource: namespaces, name: home }), 'deleted');
      const late = { metadata: { name: 'late', namespace: home } };
      assert.equal(await faultOf(kube.create(configmaps, late)), 'NamespaceTerminating');
      assert.equal(await faultOf(kube.apply(configmaps, late, { fieldManager: MANAGER })), 'NamespaceTerminating');
      await kube.mergePatch(
        { resource: configmaps, namespace: home, name: 'stay' },
        { metadata: { finalizers: null } },
      );
    });

    test('stops when told', async () => {
      assert.equal(await faultOf(kube.get(at('any'), { signal: AbortSignal.abort() })), 'Cancelled');
    });
  });
};
