import assert from 'node:assert/strict';
import { test } from 'node:test';
import { buildFolder, builds, builtName, ensureEtcd, etcdBuild, stagingModules } from './builds.ts';
import { neededBuilds } from './lifecycle.ts';

test("Kubernetes' staging modules are read from its go.mod, in block and in single lines, once each", () => {
  const goMod = `module k8s.io/kubernetes
replace k8s.io/single => ./staging/src/k8s.io/single
replace (
	k8s.io/client-go => ./staging/src/k8s.io/client-go
	k8s.io/api => ./staging/src/k8s.io/api
	k8s.io/api => ./staging/src/k8s.io/api
	example.org/other => ./staging/other
	k8s.io/elsewhere => ../elsewhere
)
`;
  assert.deepEqual(stagingModules(goMod), ['k8s.io/api', 'k8s.io/client-go', 'k8s.io/single']);
});

test("a program's name is the last part of its package that is no major version, as Go names it", () => {
  assert.equal(builtName('go.etcd.io/etcd/server/v3'), 'server');
  assert.equal(builtName('k8s.io/kubernetes/cmd/kubelet'), 'kubelet');
  assert.equal(builtName('./coredns'), 'coredns');
});

test('the programs of one build have different names before they are renamed, or one would overwrite the other', () => {
  for (const build of [...Object.values(builds), etcdBuild('3.6.16')]) {
    const names = Object.values(build.programs).map((path: string) => builtName(path));
    assert.equal(new Set(names).size, names.length, build.name);
  }
});

test('two versions of etcd never share a folder, so that both can be tested at once', () => {
  assert.notEqual(buildFolder(etcdBuild('3.5.35')), buildFolder(etcdBuild('3.6.16')));
});

test('a version that is no etcd version is refused before anything is built', async () => {
  for (const version of ['v3.6.16', '3.6', 'latest', '3.6.16; rm -rf /']) {
    await assert.rejects(ensureEtcd(version), /is not an etcd version; write it like 3\.6\.16/);
  }
});

test('a plain cluster does not build the add-ons, because the first start has to be short', () => {
  const names = neededBuilds([]).map((build) => build.name);
  assert.ok(!names.includes('cert-manager') && !names.includes('versitygw'));
  assert.ok(neededBuilds(['cert-manager', 's3']).length === names.length + 2);
});
