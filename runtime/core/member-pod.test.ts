import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ANNOTATIONS, LABELS } from '../../api/names.ts';
import { memberSpec, SHAPE } from '../../test/scenarios/world.ts';
import { controlledBy, type Incarnation, incarnationRefs, memberPod, memberVolume } from './member-pod.ts';

const spec = memberSpec(SHAPE);
const of: Incarnation = {
  namespace: 'team-a',
  member: 'demo-1',
  spec: {
    ...spec,
    template: {
      metadata: {
        labels: { app: 'x', [LABELS.role]: 'voter' },
        annotations: { note: 'y', [ANNOTATIONS.verifiedContainer]: 'z' },
      },
      spec: { containers: [], volumes: [{ name: 'config' }] },
    },
  },
  templateHash: 'hash',
  restartHash: 'restart',
  token: 'k3x9p',
  config: 'name: "demo-1-k3x9p"\n',
  clusterUID: 'claim-1',
};
const inMemory: Incarnation = { ...of, spec: memberSpec({ ...SHAPE, medium: 'Memory' }) };

describe('the Pod of an incarnation', () => {
  const pod = memberPod(of);

  it('carries the name of the incarnation as its own and as its host name', () => {
    assert.equal(pod.metadata?.name, 'demo-1-k3x9p');
    assert.equal(pod.spec?.hostname, 'demo-1-k3x9p');
  });

  it('carries its configuration, what it was made from, and whose it is', () => {
    assert.deepEqual(pod.metadata?.annotations, {
      note: 'y',
      [ANNOTATIONS.config]: of.config,
      [ANNOTATIONS.template]: 'hash',
      [ANNOTATIONS.restart]: 'restart',
      [ANNOTATIONS.metadata]: '{"labels":{"app":"x"},"annotations":{"note":"y"}}',
    });
    assert.equal(pod.metadata?.labels?.[LABELS.member], 'demo-1');
    assert.equal(pod.metadata?.labels?.[LABELS.incarnation], 'k3x9p');
    assert.equal(pod.metadata?.labels?.app, 'x');
  });

  it('is never open to clients by its template: only a proof opens it', () => {
    assert.equal(pod.metadata?.labels?.[LABELS.role], undefined);
    assert.equal(pod.metadata?.annotations?.[ANNOTATIONS.verifiedContainer], undefined);
  });

  it('is controlled by the claim and does not keep it from being deleted', () => {
    assert.deepEqual(pod.metadata?.ownerReferences, [controlledBy('demo', 'claim-1')]);
    assert.deepEqual(controlledBy('demo', 'claim-1'), {
      apiVersion: 'etcd-operator.cozystack.io/v1alpha2',
      kind: 'EtcdCluster',
      name: 'demo',
      uid: 'claim-1',
      controller: true,
      blockOwnerDeletion: false,
    });
  });

  it('has no owner while its cluster is orphaned', () => {
    assert.equal(memberPod({ ...of, clusterUID: undefined }).metadata?.ownerReferences, undefined);
  });

  it('mounts the volume of its own name, beside what the template mounts', () => {
    assert.deepEqual(pod.spec?.volumes, [
      { name: 'config' },
      { name: 'data', persistentVolumeClaim: { claimName: 'demo-1-k3x9p' } },
    ]);
    assert.deepEqual(memberPod(inMemory).spec?.volumes, []);
  });
});

describe('the volume of an incarnation', () => {
  it('is owned by nobody, since garbage collection would take it before its time', () => {
    const volume = memberVolume(of);
    assert.equal(volume?.metadata?.name, 'demo-1-k3x9p');
    assert.equal(volume?.metadata?.ownerReferences, undefined);
    assert.equal(volume?.metadata?.annotations?.[ANNOTATIONS.clusterUID], 'claim-1');
    assert.deepEqual(volume?.spec, of.spec.volumeClaimTemplate?.spec);
  });

  it('is not made for a member in memory', () => assert.equal(memberVolume(inMemory), undefined));
});

describe('the references of an incarnation', () => {
  it('name the Pod and, where there is one, the volume', () => {
    assert.deepEqual(incarnationRefs(of), [
      { apiVersion: 'v1', kind: 'Pod', name: 'demo-1-k3x9p' },
      { apiVersion: 'v1', kind: 'PersistentVolumeClaim', name: 'demo-1-k3x9p' },
    ]);
    assert.deepEqual(incarnationRefs(inMemory), [{ apiVersion: 'v1', kind: 'Pod', name: 'demo-1-k3x9p' }]);
  });
});
