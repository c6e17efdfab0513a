import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { adaptStorage, fillIn } from './addons.ts';

test('a manifest that asks for a value nobody gives is refused, because its literal text would be applied', () => {
  assert.equal(fillIn('image: $(image)', { image: 'x:1' }), 'image: x:1');
  assert.throws(() => fillIn('image: $(image)', {}), /asks for "image"/);
  assert.throws(() => fillIn('image: x', { image: 'x:1' }), /does not ask for image/);
});

test('the storage class becomes the default one and keeps what it says otherwise', () => {
  const adapted = adaptStorage({
    kind: 'StorageClass',
    metadata: { name: 'local-path', annotations: { a: 'b' } },
    provisioner: 'rancher.io/local-path',
  });
  assert.deepEqual(adapted, {
    kind: 'StorageClass',
    metadata: { name: 'local-path', annotations: { a: 'b', 'storageclass.kubernetes.io/is-default-class': 'true' } },
    provisioner: 'rancher.io/local-path',
  });
});

test("volumes lie on the node's own disk, and the provisioner's scripts stay as they are", () => {
  const adapted = adaptStorage({
    kind: 'ConfigMap',
    metadata: { name: 'local-path-config' },
    data: { 'config.json': '{"nodePathMap":[]}', setup: 'mkdir' },
  });
  const data = adapted.data as Record<string, string>;
  assert.equal(data.setup, 'mkdir');
  const config = JSON.parse(data['config.json'] ?? '') as { nodePathMap: [{ paths: string[] }] };
  assert.deepEqual(config.nodePathMap[0].paths, ['/var/lib/etcd-operator-cluster/node/volumes']);
});

test('no name of the whole Corefile is left to a server outside, because the cluster has no way out', () => {
  const text = readFileSync(join(import.meta.dirname, 'manifests/coredns.yaml'), 'utf8');
  assert.doesNotMatch(text, /\bforward\b/);
  assert.match(text, /rcode NXDOMAIN/);
});
