import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { LABELS, memberSelector } from '../../../api/names.ts';
import { etcdImage, type ProofJobOf, proofJob, proofJobName, proofVolumeGiB } from './proof-job.ts';

const of: ProofJobOf = {
  namespace: 'shop',
  name: 'nightly-1',
  uid: 'u1',
  cluster: 'orders',
  request: 'schedule',
  source: { s3: { endpoint: 'https://s3', bucket: 'b', key: 'k.db', credentialsSecretRef: { name: 's3' } } },
  sha256: 'a'.repeat(64),
  sizeBytes: 20_512n,
  etcdVersion: '3.6.16',
  placement: {
    image: 'registry.example.org/etcd:v3.6.17',
    imageVersion: '3.6.17',
    inMemory: false,
    storageClassName: 'fast',
    memoryLimit: '2Gi',
    tolerations: [{ key: 'etcd', operator: 'Exists' }],
  },
  agentImage: 'agent:1',
};
const podOf = (change: Partial<ProofJobOf> = {}) => proofJob({ ...of, ...change }).spec?.template;

describe('the Job of a proof', () => {
  test('has a Pod that no Service of the cluster selects and that no standard refuses', () => {
    const template = podOf();
    const labels = template?.metadata?.labels ?? {};
    assert.ok(Object.entries(memberSelector('orders')).every(([key, value]) => labels[key] !== value));
    assert.equal(labels[LABELS.cluster], undefined);
    const pod = template?.spec;
    assert.deepEqual([pod?.securityContext?.runAsNonRoot, pod?.automountServiceAccountToken], [true, false]);
    for (const { securityContext, name } of [...(pod?.initContainers ?? []), ...(pod?.containers ?? [])]) {
      assert.deepEqual(
        [
          securityContext?.allowPrivilegeEscalation,
          securityContext?.readOnlyRootFilesystem,
          securityContext?.capabilities,
        ],
        [false, true, { drop: ['ALL'] }],
        name,
      );
    }
  });

  test('shows the store and its credentials to the step that fetches, and to nobody else', () => {
    const pod = podOf({ source: { pvc: { claimName: 'backups', subPath: 'k.db' } } })?.spec;
    const [fetch, ...others] = [...(pod?.initContainers ?? []), ...(pod?.containers ?? [])];
    assert.ok(fetch?.volumeMounts?.some(({ name, readOnly }) => name === 'store' && readOnly === true));
    for (const { env, volumeMounts } of others) {
      assert.equal(env, undefined);
      assert.deepEqual(
        volumeMounts?.map(({ name }) => name),
        ['proof'],
      );
    }
  });

  test('listens to its own Pod only, and keeps revisions as they are', () => {
    const pod = podOf()?.spec;
    const words = (pod?.initContainers ?? []).flatMap(({ command }) => command ?? []);
    for (const word of words.filter((one) => one.startsWith('--listen'))) assert.match(word, /=http:\/\/127\.0\.0\.1:/);
    assert.ok(!words.some((word) => word.startsWith('--bump-revision')));
  });

  test('works on a volume that goes with the Pod and holds the snapshot twice', () => {
    const [volume] = podOf({ sizeBytes: 3n << 30n })?.spec?.volumes ?? [];
    const claim = volume?.ephemeral?.volumeClaimTemplate?.spec;
    assert.deepEqual([claim?.resources?.requests?.storage, claim?.storageClassName], ['7Gi', 'fast']);
    const [memory] = podOf({ placement: { inMemory: true } })?.spec?.volumes ?? [];
    assert.deepEqual(memory?.emptyDir, { sizeLimit: '1Gi' });
    assert.equal(proofVolumeGiB(384n << 20n), 1n);
    assert.equal(proofVolumeGiB((384n << 20n) + 1n), 2n);
  });

  test('runs the etcd that the snapshot is of, from where the members are pulled', () => {
    assert.equal(etcdImage(of.placement, '3.5.35'), 'registry.example.org/etcd:v3.5.35');
    assert.equal(etcdImage({ inMemory: false }, '3.5.35'), 'quay.io/coreos/etcd:v3.5.35');
    const pinned = 'registry.example.org/etcd@sha256:abc';
    assert.equal(etcdImage({ inMemory: false, image: pinned, imageVersion: '3.6.17' }, '3.5.35'), pinned);
  });

  test('has a name that a Job may have, for every name that a snapshot may have', () => {
    assert.ok(proofJobName('x'.repeat(58)).length <= 63);
  });
});
