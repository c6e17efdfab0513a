import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Deployment } from 'kubernetes-types/apps/v1.js';
import type { Node } from 'kubernetes-types/core/v1.js';
import { parseAllDocuments } from 'yaml';
import { buildFolder, builds, programPath } from './builds.ts';
import { run } from './command.ts';
import { askApiServer } from './control-plane.ts';
import { certManagerImage, corednsImage, crossplaneImage, s3Image } from './images.ts';
import {
  adminKubeconfig,
  configFolder,
  daemon,
  diskInNode,
  dnsAddress,
  nodeAddress,
  nodeNames,
  registryAddress,
  stateFolder,
} from './places.ts';
import { findDaemon, startDaemon } from './processes.ts';

/** What is turned on only when asked for. */
export const optionalAddons = ['cert-manager', 's3'] as const;
export type OptionalAddon = (typeof optionalAddons)[number];

export function isOptionalAddon(name: string): name is OptionalAddon {
  return (optionalAddons as readonly string[]).includes(name);
}

const s3NodePort = 30070;

/** The S3 server of the add-on. It answers by path-style addresses. */
export const s3 = {
  /** For clients inside the cluster. */
  endpoint: 'http://s3.s3.svc:7070',
  /** For clients on this machine; needs the first node. */
  hostEndpoint: `http://${nodeAddress('n1')}:${s3NodePort}`,
  accessKey: 'etcd-operator',
  secretKey: 'etcd-operator-secret',
  region: 'us-east-1',
} as const;

/** A Deployment that has to be available before the cluster counts as up. */
export type Workload = { readonly namespace: string; readonly deployment: string };

export const baseWorkloads: readonly Workload[] = [
  { namespace: 'kube-system', deployment: 'coredns' },
  { namespace: 'local-path-storage', deployment: 'local-path-provisioner' },
  { namespace: 'crossplane-system', deployment: 'crossplane' },
  { namespace: 'crossplane-system', deployment: 'crossplane-rbac-manager' },
];

export const addonWorkloads: Readonly<Record<OptionalAddon, Workload>> = {
  'cert-manager': { namespace: 'cert-manager', deployment: 'cert-manager' },
  s3: { namespace: 's3', deployment: 's3' },
};

export function adminKubectl(args: readonly string[], input?: string): Promise<string> {
  return run([programPath(builds.kubernetes, 'kubectl'), `--kubeconfig=${adminKubeconfig}`, ...args], {
    ...(input === undefined ? {} : { input }),
    timeoutMs: 180_000,
  });
}

type Manifest = { kind: string; metadata: { name: string; annotations?: Record<string, string> } } & Record<
  string,
  unknown
>;

async function apply(manifests: readonly Manifest[]): Promise<void> {
  const list = { apiVersion: 'v1', kind: 'List', items: manifests };
  await adminKubectl(['apply', '--server-side', '--force-conflicts', '-f', '-'], JSON.stringify(list));
}

async function ownManifests(name: string, values: Readonly<Record<string, string>>): Promise<Manifest[]> {
  const text = await readFile(join(import.meta.dirname, 'manifests', `${name}.yaml`), 'utf8');
  return parseManifests(fillIn(text, values));
}

/**
 * Replaces every `$(name)` of a manifest.
 * @throws when a name has no value, or a value is not used
 */
export function fillIn(text: string, values: Readonly<Record<string, string>>): string {
  const used = new Set<string>();
  const filled = text.replaceAll(/\$\((\w+)\)/g, (_, name: string) => {
    const value = values[name];
    if (value === undefined) throw new Error(`the manifest asks for "${name}", which has no value`);
    used.add(name);
    return value;
  });
  const idle = Object.keys(values).filter((name) => !used.has(name));
  if (idle.length > 0) throw new Error(`the manifest does not ask for ${idle.join(', ')}`);
  return filled;
}

function parseManifests(text: string): Manifest[] {
  return parseAllDocuments(text)
    .map((document) => document.toJS() as Manifest | null)
    .filter((manifest) => manifest !== null);
}

export async function applyDns(): Promise<void> {
  await apply(await ownManifests('coredns', { image: corednsImage, address: dnsAddress }));
}

/** Dynamic volumes in a folder of the node, by the default StorageClass `local-path`. */
export async function applyStorage(): Promise<void> {
  const folder = join(buildFolder(builds.localPathProvisioner), 'deploy');
  const manifests = parseManifests(await readFile(join(folder, 'local-path-storage.yaml'), 'utf8'));
  await apply(manifests.map(adaptStorage));
}

/** Fits the provisioner's own manifests to these nodes: where volumes lie, and that its class is the default one. */
export function adaptStorage(manifest: Manifest): Manifest {
  if (manifest.kind === 'StorageClass') {
    const annotations = { ...manifest.metadata.annotations, 'storageclass.kubernetes.io/is-default-class': 'true' };
    return { ...manifest, metadata: { ...manifest.metadata, annotations } };
  }
  if (manifest.kind === 'ConfigMap') {
    const data = manifest.data as Record<string, string>;
    const config = {
      nodePathMap: [{ node: 'DEFAULT_PATH_FOR_NON_LISTED_NODES', paths: [join(diskInNode, 'volumes')] }],
    };
    return { ...manifest, data: { ...data, 'config.json': JSON.stringify(config) } };
  }
  return manifest;
}

export async function startRegistry(): Promise<void> {
  if ((await findDaemon(daemon('registry'))) !== undefined) return;
  await mkdir(configFolder, { recursive: true });
  const config = join(configFolder, 'registry.json');
  await writeFile(
    config,
    JSON.stringify({
      version: '0.1',
      storage: { filesystem: { rootdirectory: join(stateFolder, 'registry') }, delete: { enabled: true } },
      http: { addr: registryAddress },
    }),
  );
  await startDaemon(daemon('registry'), ['docker-registry', 'serve', config]);
}

export async function installCrossplane(): Promise<void> {
  const image = `image.repository=${crossplaneImage.repository},image.tag=${crossplaneImage.tag}`;
  await run(
    [
      ...[programPath(builds.helm, 'helm'), 'upgrade', '--install', 'crossplane'],
      join(buildFolder(builds.crossplane), 'chart'),
      ...['--namespace', 'crossplane-system', '--create-namespace'],
      ...['--set', `${image},image.pullPolicy=IfNotPresent`],
    ],
    { env: { ...process.env, KUBECONFIG: adminKubeconfig }, timeoutMs: 180_000 },
  );
}

export async function applyAddon(addon: OptionalAddon): Promise<void> {
  switch (addon) {
    case 'cert-manager': {
      const folder = join(buildFolder(builds.certManager), 'crds');
      const files = (await readdir(folder)).filter((name) => name.endsWith('.yaml')).sort();
      const crds = await Promise.all(files.map((name) => readFile(join(folder, name), 'utf8')));
      await apply(crds.flatMap(parseManifests));
      await apply(await ownManifests('cert-manager', { image: certManagerImage }));
      return;
    }
    case 's3': {
      const { accessKey, secretKey, region } = s3;
      await apply(
        await ownManifests('s3', { image: s3Image, accessKey, secretKey, region, nodePort: String(s3NodePort) }),
      );
      return;
    }
  }
}

/** Waits until each is available in its present form. */
export async function waitForWorkloads(workloads: readonly Workload[]): Promise<void> {
  await Promise.all(
    workloads.map(async (workload) => {
      // The usual case by far, and kubectl would take a tenth of a second of processor time to find it out.
      if (await isAvailable(workload)) return;
      const { namespace, deployment } = workload;
      await adminKubectl(['-n', namespace, 'rollout', 'status', `deployment/${deployment}`, '--timeout=150s']);
    }),
  );
}

async function isAvailable({ namespace, deployment }: Workload): Promise<boolean> {
  const answer = await askApiServer(`/apis/apps/v1/namespaces/${namespace}/deployments/${deployment}`);
  if (answer.status !== 200) return false;
  const { metadata, spec, status } = JSON.parse(answer.body) as Deployment;
  const wanted = spec?.replicas ?? 1;
  return (
    status?.observedGeneration === metadata?.generation &&
    (status?.updatedReplicas ?? 0) >= wanted &&
    (status?.availableReplicas ?? 0) >= wanted
  );
}

export async function waitForNodes(): Promise<void> {
  const ready = await Promise.all(nodeNames.map(isReady));
  const waiting = nodeNames.filter((_, index) => ready[index] !== true);
  if (waiting.length === 0) return;
  await adminKubectl(['wait', '--for=condition=Ready', 'node', ...waiting, '--timeout=60s']);
}

async function isReady(node: string): Promise<boolean> {
  const answer = await askApiServer(`/api/v1/nodes/${node}`);
  if (answer.status !== 200) return false;
  const { status } = JSON.parse(answer.body) as Node;
  return status?.conditions?.some(({ type, status: value }) => type === 'Ready' && value === 'True') === true;
}
