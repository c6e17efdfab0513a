/** From the sources to an operator on a cluster, in the steps that a user takes: images, package, `kubectl apply -k`. */
import { mkdir, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { type BuiltImage, buildFunctionPackage, buildRuntime } from '../../deploy/build.ts';
import { root } from '../../deploy/bundle.ts';
import { functionName, imagePrefix, runtimeImage, runtimeName, systemNamespace } from '../../deploy/names.ts';
import { type Cluster, CommandFailed } from './cluster.ts';
import { withLock } from './lock.ts';
import { type Progress, secondsSince, toStderr } from './progress.ts';

export type InstallOptions = {
  readonly progress?: Progress;
  /** Milliseconds for each thing that is waited for; three minutes when absent. */
  readonly timeoutMs?: number;
};

export type Installed = { readonly runtimeImage: string; readonly functionPackage: string };

const definition = 'etcdclusters.etcd-operator.cozystack.io';
const certificates = 'etcdcertificatesets.etcd-operator.cozystack.io';
const ownKinds = ['etcdmembers', 'etcdquorums', 'etcdrestores', 'etcdsnapshots', 'etcdsnapshotschedules'];

/**
 * Builds what changed, brings it to the cluster and waits until a claim can be applied. Doing it again when nothing changed
 * takes seconds and changes nothing.
 * @throws when the cluster has no registry, or something is not ready in time; the message holds what the cluster says of it
 */
export function installOperator(cluster: Cluster, options: InstallOptions = {}): Promise<Installed> {
  const progress = options.progress ?? toStderr;
  // Two that install different sources at once would leave a mixture.
  return withLock(join(root, 'build/install.lock'), progress, () =>
    install(cluster, progress, options.timeoutMs ?? 180_000),
  );
}

async function install(cluster: Cluster, progress: Progress, timeoutMs: number): Promise<Installed> {
  const registry = registryOf(cluster);
  const started = performance.now();
  // The nodes of the local cluster get the runtime's image from its archive: that spares a push and three pulls.
  const runtimePrefix = cluster.local ? imagePrefix : `${registry}/etcd-operator`;
  const runtime = await buildRuntime({ prefix: runtimePrefix, progress });
  const pack = await buildFunctionPackage(cluster.crossplane, { prefix: `${registry}/etcd-operator`, progress });
  progress(`built in ${secondsSince(started)}`);

  const bringing = performance.now();
  await Promise.all([bringRuntime(cluster, runtime, progress), push(cluster, registry, pack, progress)]);
  progress(`images are where the cluster finds them, after ${secondsSince(bringing)}`);

  const applying = performance.now();
  const overlay = await writeOverlay(runtime, pack);
  await cluster.kubectl(['apply', '--server-side', '--force-conflicts', '-k', overlay]);
  progress(`applied deploy/ in ${secondsSince(applying)}`);

  const waiting = performance.now();
  const wanted = { runtimeImage: reference(runtime), functionPackage: reference(pack) };
  await waitUntilReady(cluster, wanted, timeoutMs);
  progress(`definitions, function and runtime are ready, after ${secondsSince(waiting)}`);
  return wanted;
}

function registryOf(cluster: Cluster): string {
  if (cluster.registry !== undefined && cluster.registry !== '') return cluster.registry.replace(/\/+$/, '');
  throw new Error(
    'Crossplane pulls function packages from a registry, and none is known for this cluster: set ETCD_OPERATOR_REGISTRY ' +
      '(or --registry) to one that this machine may push to and the cluster pulls from, such as ghcr.io/you or ' +
      '192.168.1.5:5000. Its host needs a dot; plain HTTP works for private addresses.',
  );
}

const reference = ({ name, tag }: BuiltImage): string => `${name}:${tag}`;

async function bringRuntime(cluster: Cluster, runtime: BuiltImage, progress: Progress): Promise<void> {
  if (!cluster.local) return push(cluster, registryOf(cluster), runtime, progress);
  if (await isOnEveryNode(cluster, reference(runtime))) return;
  const started = performance.now();
  await cluster.loadImage(runtime.archive);
  progress(`loaded ${reference(runtime)} into the nodes in ${secondsSince(started)}`);
}

async function isOnEveryNode(cluster: Cluster, image: string): Promise<boolean> {
  const nodes = JSON.parse(await cluster.kubectl(['get', 'nodes', '-o', 'json'])) as {
    items: { status: { images?: { names?: string[] }[] } }[];
  };
  return nodes.items.every(({ status }) => status.images?.some(({ names }) => names?.includes(image)) === true);
}

/** Crossplane's CLI pushes any docker-archive, with the credentials of the machine's Docker configuration. */
async function push(cluster: Cluster, registry: string, image: BuiltImage, progress: Progress): Promise<void> {
  if (cluster.local && (await isInRegistry(registry, image))) return;
  const started = performance.now();
  await cluster.crossplane(['xpkg', 'push', '-f', image.archive, reference(image)], { timeoutMs: 600_000 });
  progress(`pushed ${reference(image)} in ${secondsSince(started)}`);
}

/** Tags are made from content, so one that is there is the right one. */
async function isInRegistry(registry: string, { name, tag }: BuiltImage): Promise<boolean> {
  const url = `http://${registry}/v2/${name.slice(registry.length + 1)}/manifests/${tag}`;
  const accept = [
    'application/vnd.oci.image.manifest.v1+json',
    'application/vnd.docker.distribution.manifest.v2+json',
    'application/vnd.oci.image.index.v1+json',
  ].join(', ');
  const answer = await fetch(url, { method: 'HEAD', headers: { accept }, signal: AbortSignal.timeout(5_000) });
  return answer.ok;
}

/** What a user writes who installs other images than the released ones. */
async function writeOverlay(runtime: BuiltImage, pack: BuiltImage): Promise<string> {
  const folder = join(root, 'build/install');
  await mkdir(folder, { recursive: true });
  const overlay = {
    apiVersion: 'kustomize.config.k8s.io/v1beta1',
    kind: 'Kustomization',
    resources: [relative(folder, join(root, 'deploy'))],
    images: [{ name: runtimeImage, newName: runtime.name, newTag: runtime.tag }],
    patches: [
      {
        target: { group: 'pkg.crossplane.io', kind: 'Function', name: functionName },
        patch: JSON.stringify([{ op: 'replace', path: '/spec/package', value: reference(pack) }]),
      },
    ],
  };
  await writeFile(join(folder, 'kustomization.yaml'), JSON.stringify(overlay, undefined, 2));
  return folder;
}

async function waitUntilReady(cluster: Cluster, wanted: Installed, timeoutMs: number): Promise<void> {
  const timeout = `--timeout=${Math.ceil(timeoutMs / 1000)}s`;
  const wait = (what: string, condition: string, ...more: string[]): Promise<string> =>
    cluster.kubectl(['wait', what, `--for=${condition}`, timeout, ...more], { timeoutMs: timeoutMs + 10_000 });
  const definitions = async (): Promise<void> => {
    await wait(`xrd/${definition}`, 'condition=Established');
    await wait(`xrd/${certificates}`, 'condition=Established');
    await Promise.all(
      [definition, ...ownKinds.map((plural) => `${plural}.etcd-operator.cozystack.io`)].map((name) =>
        wait(`crd/${name}`, 'condition=Established'),
      ),
    );
  };
  const theFunction = async (): Promise<void> => {
    // Healthy may still be said of the package before this one.
    await wait(
      `function.pkg.crossplane.io/${functionName}`,
      `jsonpath={.status.currentIdentifier}=${wanted.functionPackage}`,
    );
    await wait(`function.pkg.crossplane.io/${functionName}`, 'condition=Healthy');
  };
  const theRuntime = (): Promise<string> =>
    cluster.kubectl(['-n', systemNamespace, 'rollout', 'status', `deployment/${runtimeName}`, timeout], {
      timeoutMs: timeoutMs + 10_000,
    });
  const outcomes = await Promise.allSettled([definitions(), theFunction(), theRuntime()]);
  const failures = outcomes.filter((outcome) => outcome.status === 'rejected').map(({ reason }) => reason as Error);
  if (failures.length === 0) return;
  throw new Error(`${failures.map(({ message }) => message).join('\n')}\n${await whatTheClusterSays(cluster)}`);
}

async function whatTheClusterSays(cluster: Cluster): Promise<string> {
  const questions = [
    ['get', 'xrd', definition, '-o', 'jsonpath={range .status.conditions[*]}{.type}={.status} {.message}{"\\n"}{end}'],
    [
      'get',
      'functionrevisions',
      '-o',
      'jsonpath={range .items[*].status.conditions[*]}{.type}={.status} {.message}{"\\n"}{end}',
    ],
    ['-n', systemNamespace, 'get', 'pods', '-o', 'wide'],
    ['-n', systemNamespace, 'logs', `deployment/${runtimeName}`, '--tail=15'],
    ['-n', 'crossplane-system', 'get', 'pods', '-o', 'wide'],
  ];
  const answers = await Promise.all(
    questions.map(async (question) => {
      const answer = await cluster
        .kubectl(question, { timeoutMs: 15_000 })
        .catch((error: unknown) => (error instanceof CommandFailed ? error.message : String(error)));
      return `$ kubectl ${question.join(' ')}\n${answer.trim()}`;
    }),
  );
  return answers.join('\n\n');
}
