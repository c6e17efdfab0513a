import assert from 'node:assert/strict';
import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { parseAllDocuments } from 'yaml';
import { root } from './bundle.ts';
import { functionPackage, release, runtimeImage, runtimeName, systemNamespace } from './names.ts';

type Manifest = {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string; readonly labels?: Record<string, string> };
  // What a manifest holds is known only by looking.
  readonly spec: Record<string, never> & {
    readonly template: {
      readonly spec: {
        readonly securityContext: Record<string, unknown>;
        readonly containers: readonly { readonly image: string; readonly securityContext: Record<string, unknown> }[];
      };
    };
    readonly package: string;
  };
};

type Kustomization = { readonly namespace?: string; readonly resources: readonly string[] };

const read = async (path: string): Promise<unknown[]> =>
  parseAllDocuments(await readFile(path, 'utf8')).map((document) => document.toJS() as unknown);

/** Everything that a kustomization applies, as `kubectl kustomize` finds it, without its transformations. */
const applied = async (folder: string): Promise<Manifest[]> => {
  const found: Manifest[] = [];
  const kustomization = await Promise.any(
    ['kustomization.yaml', 'kustomization.yml'].map(async (name) => (await read(join(folder, name)))[0]),
  );
  for (const resource of (kustomization as Kustomization).resources) {
    const path = join(folder, resource);
    if ((await stat(path)).isDirectory()) found.push(...(await applied(path)));
    else found.push(...((await read(path)) as Manifest[]));
  }
  return found;
};

const all = await applied(join(root, 'deploy'));

const one = (kind: string, name: string): Manifest => {
  const found = all.filter((object) => object.kind === kind && object.metadata.name === name);
  assert.equal(found.length, 1, `${kind} ${name} is applied once`);
  return found[0] as Manifest;
};

test('the manifests name the images of this release, since a user applies them as they are', () => {
  const [container] = one('Deployment', runtimeName).spec.template.spec.containers;
  assert.equal(container?.image, `${runtimeImage}:${release}`);
  assert.equal(one('Function', 'function-etcd').spec.package, `${functionPackage}:${release}`);
});

test('one kustomization holds everything that a claim needs, so that one command installs it', () => {
  for (const [kind, name] of [
    ['Namespace', systemNamespace],
    ['CustomResourceDefinition', 'etcdmembers.etcd-operator.cozystack.io'],
    ['CustomResourceDefinition', 'etcdquorums.etcd-operator.cozystack.io'],
    ['CustomResourceDefinition', 'etcdrestores.etcd-operator.cozystack.io'],
    ['CustomResourceDefinition', 'etcdsnapshots.etcd-operator.cozystack.io'],
    ['CustomResourceDefinition', 'etcdsnapshotschedules.etcd-operator.cozystack.io'],
    ['CompositeResourceDefinition', 'etcdclusters.etcd-operator.cozystack.io'],
    ['Composition', 'etcd-operator'],
    ['DeploymentRuntimeConfig', 'function-etcd'],
    ['ServiceAccount', runtimeName],
    ['ValidatingAdmissionPolicy', 'etcd-operator-runtime-secrets'],
    ['ValidatingAdmissionPolicyBinding', 'etcd-operator-runtime-secrets'],
  ] as const) {
    one(kind, name);
  }
});

test('the runtime passes the restricted Pod security standard that its namespace enforces', () => {
  assert.equal(one('Namespace', systemNamespace).metadata.labels?.['pod-security.kubernetes.io/enforce'], 'restricted');
  const { securityContext, containers } = one('Deployment', runtimeName).spec.template.spec;
  assert.equal(securityContext.runAsNonRoot, true);
  assert.deepEqual(securityContext.seccompProfile, { type: 'RuntimeDefault' });
  assert.deepEqual(
    containers.map((container) => container.securityContext),
    [{ allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: { drop: ['ALL'] } }],
  );
});
