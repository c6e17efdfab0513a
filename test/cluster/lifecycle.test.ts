import assert from 'node:assert/strict';
import { test } from 'node:test';
import { namedKubeconfig } from './cluster.ts';
import { requireCapableMachine } from './lifecycle.ts';
import { adminKubeconfig } from './places.ts';

test('a machine that cannot hold the cluster is told why in one sentence, with the way out', () => {
  for (const [platform, uid, why] of [
    ['darwin', 501, /needs Linux and this is darwin/],
    ['linux', 1000, /needs root/],
  ] as const) {
    assert.throws(
      () => requireCapableMachine(platform, uid),
      (error: Error) => {
        assert.match(error.message, why);
        assert.match(error.message, /set KUBECONFIG to use a cluster that exists\.$/);
        assert.equal(error.message.split('. ').length, 1);
        return true;
      },
    );
  }
  assert.doesNotThrow(() => requireCapableMachine('linux', 0));
});

test('KUBECONFIG wins over the local cluster, except where it names the local cluster', () => {
  assert.equal(namedKubeconfig({ KUBECONFIG: '/home/me/.kube/config' }), '/home/me/.kube/config');
  assert.equal(namedKubeconfig({ KUBECONFIG: adminKubeconfig }), undefined);
  assert.equal(namedKubeconfig({ KUBECONFIG: '' }), undefined);
  assert.equal(namedKubeconfig({}), undefined);
});
