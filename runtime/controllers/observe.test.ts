import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Pod } from 'kubernetes-types/core/v1.js';
import type { EtcdMember, EtcdMemberSpec } from '../../api/etcdmember.gen.ts';
import { LABELS, SEED_ROLE } from '../../api/names.ts';
import { createNamedSecrets } from '../adapters/kube/named-secrets.ts';
import { readTlsSecret } from '../adapters/tls-secret.ts';
import type { Stored } from '../ports/kube.ts';
import { createDialler } from './dialler.ts';
import { observe, seenSeed } from './observe.ts';
import { templateHash } from './template-hash.ts';
import type { World } from './world.ts';

const spec = (more: Partial<EtcdMemberSpec> = {}): EtcdMemberSpec => ({
  clusterName: 'demo',
  version: '3.6.16',
  storage: { medium: '', retention: 'Delete' },
  options: { snapshotCount: 10_000 },
  template: {
    metadata: { labels: { a: 'b' } },
    spec: { containers: [{ name: 'etcd', image: 'quay.io/coreos/etcd:v3.6.16' }] },
  },
  ...more,
});

describe('the hash of a member template', () => {
  test('never changes for the same template, since running Pods carry it and a new one would roll every cluster', () => {
    assert.equal(templateHash(spec()), 'ddfbe37b63eaa63565359ea03d309287');
  });

  test('does not depend on the order of keys, which the API server does not keep', () => {
    const { template, options, version } = spec();
    const turned: EtcdMemberSpec = {
      ...spec(),
      version,
      ...(options === undefined ? {} : { options }),
      template: { spec: template.spec, metadata: template.metadata },
    };
    assert.equal(templateHash(turned), templateHash(spec()));
  });

  test('changes with the version, the options and the Pod, and with nothing else', () => {
    assert.notEqual(templateHash(spec({ version: '3.6.17' })), templateHash(spec()));
    assert.notEqual(templateHash(spec({ options: { snapshotCount: 5_000 } })), templateHash(spec()));
    assert.equal(templateHash(spec({ storage: { medium: '', retention: 'Retain' } })), templateHash(spec()));
    assert.equal(
      templateHash(spec({ resourceRefs: [{ apiVersion: 'v1', kind: 'Pod', name: 'x' }] })),
      templateHash(spec()),
    );
  });
});

describe('what is observed', () => {
  test('of a step that was killed for lack of memory is that, and not what it last said of something else', () => {
    const terminated = { exitCode: 137, reason: 'OOMKilled', message: 'restoring snapshot' };
    const pod = {
      metadata: { name: 'demo-0-aaaaa-seed', labels: { [LABELS.role]: SEED_ROLE } },
      spec: { initContainers: [{ name: 'restore', resources: { limits: { memory: '256Mi' } } }], containers: [] },
      status: { phase: 'Failed', initContainerStatuses: [{ name: 'restore', state: { terminated } }] },
    } as unknown as Stored<Pod>;
    assert.equal(seenSeed(pod)?.trouble, 'restore ended with 137: OOMKilled: it needed more memory than 256Mi');
  });

  test('is a Pod on its way out from the moment its deletion was taken, whatever the cache still shows', async () => {
    const pod = {
      metadata: {
        name: 'demo-0-aaaaa',
        namespace: 'default',
        uid: 'u1',
        resourceVersion: '1',
        labels: { [LABELS.cluster]: 'demo', [LABELS.member]: 'demo-0', [LABELS.incarnation]: 'aaaaa' },
      },
    } as Stored<Pod>;
    const member = {
      metadata: { name: 'demo-0', namespace: 'default', uid: 'm1', resourceVersion: '1' },
      spec: spec(),
    } as Stored<EtcdMember>;
    const nothing = { get: () => undefined, byIndex: () => [], observe: () => {} };
    const kube = { get: async () => undefined } as unknown as World['kube'];
    const etcd = {} as World['etcd'];
    const world = {
      kube,
      dialler: createDialler({ secrets: createNamedSecrets({ kube }), etcd, read: readTlsSecret }),
      caches: {
        members: { ...nothing, byIndex: () => [member] },
        quorums: nothing,
        pods: { ...nothing, byIndex: () => [pod] },
        volumes: nothing,
        budgets: nothing,
        restores: nothing,
        snapshots: nothing,
        schedules: nothing,
      },
      clock: { now: () => 0 },
      revisions: new Map(),
      lastSeen: new Map(),
      deleted: new Set<string>(),
    } as unknown as World;
    const deleting = async (): Promise<boolean | undefined> =>
      (await observe(world, { namespace: 'default', name: 'demo' }, AbortSignal.timeout(5_000))).members[0]?.pods[0]
        ?.deleting;
    assert.equal(await deleting(), false);
    world.deleted.add('u1');
    assert.equal(await deleting(), true);
  });
});
