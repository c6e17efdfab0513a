import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import type { ClusterRole, PolicyRule, Role } from 'kubernetes-types/rbac/v1.js';
import { parseAllDocuments } from 'yaml';
import { resources } from '../runtime/ports/kube.ts';
import { root } from './bundle.ts';

const WATCHED = ['get', 'list', 'watch'];

/**
 * What the runtime asks of the API server. An apply counts as a patch, and as a create where the object may be absent. The
 * end-to-end tests hold the other end: there the real API server must have refused nothing.
 */
const needed: Readonly<Record<string, readonly string[]>> = {
  etcdmembers: [...WATCHED, 'patch'],
  etcdquorums: [...WATCHED, 'patch'],
  'etcdmembers/status': ['patch'],
  'etcdquorums/status': ['patch'],
  etcdsnapshots: [...WATCHED, 'create', 'delete'],
  'etcdsnapshots/status': ['patch'],
  etcdsnapshotschedules: WATCHED,
  'etcdsnapshotschedules/status': ['patch'],
  etcdrestores: WATCHED,
  'etcdrestores/status': ['patch'],
  jobs: [...WATCHED, 'create', 'delete'],
  etcdclusters: ['get'],
  etcdcertificatesets: ['get'],
  namespaces: ['get'],
  nodes: WATCHED,
  persistentvolumes: ['get'],
  pods: [...WATCHED, 'create', 'patch', 'delete'],
  persistentvolumeclaims: [...WATCHED, 'create', 'patch', 'delete'],
  poddisruptionbudgets: [...WATCHED, 'create', 'patch', 'delete'],
  secrets: ['list', 'watch', 'create', 'patch'],
  events: ['create', 'list', 'patch'],
};

const neededInOwnNamespace: Readonly<Record<string, readonly string[]>> = { leases: ['create', 'get', 'patch'] };

const documents = parseAllDocuments(await readFile(join(root, 'deploy/runtime/rbac.yaml'), 'utf8')).map(
  (document) => document.toJS() as (ClusterRole | Role) & { kind: string },
);

const rulesOf = (kind: 'ClusterRole' | 'Role'): PolicyRule[] => {
  const found = documents.find((object) => object.kind === kind && object.metadata?.name === 'etcd-operator-runtime');
  assert.ok(found?.rules, `deploy/runtime/rbac.yaml has a ${kind} etcd-operator-runtime`);
  return found.rules;
};

const granted = (rules: readonly PolicyRule[]): Record<string, string[]> => {
  const verbs = new Map<string, Set<string>>();
  for (const rule of rules) {
    for (const resource of rule.resources ?? []) {
      verbs.set(resource, new Set([...(verbs.get(resource) ?? []), ...rule.verbs]));
    }
  }
  return Object.fromEntries([...verbs].map(([resource, of]) => [resource, [...of].sort()]));
};

const sorted = (table: Readonly<Record<string, readonly string[]>>): Record<string, string[]> =>
  Object.fromEntries(Object.entries(table).map(([resource, verbs]) => [resource, [...verbs].sort()]));

test('the runtime may do what it does and nothing else, since its account reaches into every namespace', () => {
  assert.deepEqual(granted(rulesOf('ClusterRole')), sorted(needed));
  assert.deepEqual(granted(rulesOf('Role')), sorted(neededInOwnNamespace));
});

test('each right names the group that its resource is in, since a right in another group is none', () => {
  for (const { apiGroups, resources: names } of [...rulesOf('ClusterRole'), ...rulesOf('Role')]) {
    for (const name of names ?? []) {
      const [plural = ''] = name.split('/');
      const known = Object.values(resources).find((resource) => resource.plural === plural);
      assert.deepEqual(apiGroups, [known?.group], name);
    }
  }
});

test('rights are given for the resources that the sources name, so that a new one is not forgotten here', async () => {
  const named = new Set<string>();
  for (const folder of ['runtime/adapters', 'runtime/controllers', 'runtime']) {
    for (const file of await readdir(join(root, folder))) await collect(join(root, folder, file), named);
  }
  for (const file of await readdir(join(root, 'runtime/adapters/kube'))) {
    await collect(join(root, 'runtime/adapters/kube', file), named);
  }
  const plurals = [...Object.keys(needed), ...Object.keys(neededInOwnNamespace)].filter((name) => !name.includes('/'));
  assert.deepEqual([...named].sort(), plurals.sort());
});

async function collect(file: string, named: Set<string>): Promise<void> {
  if (!file.endsWith('.ts') || file.endsWith('.test.ts')) return;
  const source = await readFile(file, 'utf8');
  for (const [, plural = ''] of source.matchAll(/\bresources\.(\w+)/g)) {
    if (plural in resources) named.add(plural);
  }
}

test('nobody may delete Secrets, nor do anything in Pods, nor everything', () => {
  for (const { resources: names = [], verbs, apiGroups = [] } of documents.flatMap(({ rules }) => rules ?? [])) {
    assert.ok(!names.includes('pods/exec'), String(names));
    if (names.includes('secrets')) {
      assert.deepEqual(
        verbs.filter((verb) => !['list', 'watch', 'create', 'patch'].includes(verb)),
        [],
      );
    }
    assert.ok(![...names, ...verbs, ...apiGroups].includes('*'), String(names));
  }
});
