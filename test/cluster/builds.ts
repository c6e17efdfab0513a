import { createHash } from 'node:crypto';
import { access, cp, mkdir, readFile, rename, rm, rmdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { cacheFolder } from './cache.ts';
import { CommandFailed, run } from './command.ts';
import { withLock } from './lock.ts';
import { type Progress, secondsSince, toStderr } from './progress.ts';
import { versions } from './versions.ts';

/**
 * One module graph: builds of the same graph are made in one module, so that a library which several of them use is compiled once, at one version.
 */
export type ModuleGraph = {
  readonly name: string;
  /** What `go get` pins, `module@version`. */
  readonly modules: readonly string[];
};

/** One folder of the cache: programs of one project at one version, and folders copied from its module. */
export type GoBuild = {
  readonly name: string;
  readonly version: string;
  readonly graph: ModuleGraph;
  /** Program name to Go package; `./x` is the package of this repository in `go/x`. */
  readonly programs: Readonly<Record<string, string>>;
  /** Folder name in the cache to module and folder inside it. */
  readonly assets?: Readonly<Record<string, { readonly module: string; readonly folder: string }>>;
  readonly ldflags?: string;
};

const minimumGo = { major: 1, minor: 26 };

/** Exactly the libraries of the release: this and etcd are what everything else is tested against. */
const kubernetesGraph: ModuleGraph = {
  name: 'kubernetes',
  modules: [`k8s.io/kubernetes@v${versions.kubernetes}`],
};

/**
 * Each of these alone compiles much the same libraries: 5600 packages one by one, 2200 together. The price is that each gets the highest patch
 * version that any of them asks for.
 */
const toolsGraph: ModuleGraph = {
  name: 'tools',
  modules: [
    `github.com/crossplane/crossplane/v2@v${versions.crossplane}`,
    // Crossplane's go.mod replaces its own apis module by a local folder, which only counts in the main module: it has to be named.
    `github.com/crossplane/crossplane/apis/v2@v${versions.crossplane}`,
    `github.com/crossplane/cli/v2@v${versions.crossplaneCli}`,
    `helm.sh/helm/v3@v${versions.helm}`,
    `github.com/coredns/coredns@v${versions.coredns}`,
    `github.com/rancher/local-path-provisioner@v${versions.localPathProvisioner}`,
  ],
};

export const builds = {
  pause: { name: 'pause', version: '1', graph: { name: 'pause', modules: [] }, programs: { pause: './pause' } },
  kubernetes: {
    name: 'kubernetes',
    version: versions.kubernetes,
    graph: kubernetesGraph,
    programs: Object.fromEntries(
      ['kube-apiserver', 'kube-controller-manager', 'kube-scheduler', 'kubelet', 'kube-proxy', 'kubectl'].map(
        (program) => [program, `k8s.io/kubernetes/cmd/${program}`],
      ),
    ),
    ldflags: kubernetesVersionFlags(versions.kubernetes),
  },
  crossplane: {
    name: 'crossplane',
    version: versions.crossplane,
    graph: toolsGraph,
    programs: { 'crossplane-core': 'github.com/crossplane/crossplane/v2/cmd/crossplane' },
    assets: {
      chart: { module: 'github.com/crossplane/crossplane/v2', folder: 'cluster/charts/crossplane' },
      crds: { module: 'github.com/crossplane/crossplane/v2', folder: 'cluster/crds' },
      webhookconfigurations: { module: 'github.com/crossplane/crossplane/v2', folder: 'cluster/webhookconfigurations' },
    },
    ldflags: `-X github.com/crossplane/crossplane-runtime/v2/pkg/version.version=v${versions.crossplane}`,
  },
  crossplaneCli: {
    name: 'crossplane-cli',
    version: versions.crossplaneCli,
    graph: toolsGraph,
    programs: { crossplane: 'github.com/crossplane/cli/v2/cmd/crossplane' },
    ldflags: crossplaneVersionFlag(versions.crossplaneCli),
  },
  helm: {
    name: 'helm',
    version: versions.helm,
    graph: toolsGraph,
    programs: { helm: 'helm.sh/helm/v3/cmd/helm' },
  },
  coredns: {
    name: 'coredns',
    version: versions.coredns,
    graph: toolsGraph,
    programs: { coredns: './coredns' },
  },
  localPathProvisioner: {
    name: 'local-path-provisioner',
    version: versions.localPathProvisioner,
    graph: toolsGraph,
    programs: { 'local-path-provisioner': 'github.com/rancher/local-path-provisioner' },
    assets: { deploy: { module: 'github.com/rancher/local-path-provisioner', folder: 'deploy' } },
  },
  certManager: {
    name: 'cert-manager',
    version: versions.certManager,
    graph: {
      name: 'cert-manager',
      modules: [`github.com/cert-manager/cert-manager@v${versions.certManager}`],
    },
    programs: { 'cert-manager-controller': './cert-manager' },
    assets: { crds: { module: 'github.com/cert-manager/cert-manager', folder: 'deploy/crds' } },
  },
  versitygw: {
    name: 'versitygw',
    version: versions.versitygw,
    graph: { name: 'versitygw', modules: [`github.com/versity/versitygw@v${versions.versitygw}`] },
    programs: { versitygw: 'github.com/versity/versitygw/cmd/versitygw' },
  },
} as const satisfies Record<string, GoBuild>;

/** etcd's server and both of its tools, of one version, with exactly the libraries of that release. */
export function etcdBuild(version: string): GoBuild {
  return {
    name: 'etcd',
    version,
    graph: {
      name: `etcd-${version}`,
      modules: ['server', 'etcdctl', 'etcdutl'].map((module) => `go.etcd.io/etcd/${module}/v3@v${version}`),
    },
    programs: {
      etcd: 'go.etcd.io/etcd/server/v3',
      etcdctl: 'go.etcd.io/etcd/etcdctl/v3',
      etcdutl: 'go.etcd.io/etcd/etcdutl/v3',
    },
  };
}

function kubernetesVersionFlags(version: string): string {
  const [major, minor] = version.split('.');
  const at = 'k8s.io/component-base/version';
  return `-X ${at}.gitVersion=v${version} -X ${at}.gitMajor=${major} -X ${at}.gitMinor=${minor}`;
}

/** Packages state which versions of Crossplane they work with, and one without a version would refuse them. */
function crossplaneVersionFlag(version: string): string {
  return `-X github.com/crossplane/crossplane-runtime/v2/pkg/version.version=v${version}`;
}

/** The folder of the cache that a build fills, whether or not it is there yet. */
export function buildFolder(build: GoBuild): string {
  return join(cacheFolder(), `${build.name}-${build.version}`);
}

/** The path of one program of a build, whether or not it is there yet. */
export function programPath(build: GoBuild, program: string): string {
  return join(buildFolder(build), program);
}

async function isBuilt(build: GoBuild): Promise<boolean> {
  const folder = buildFolder(build);
  const wanted = [...Object.keys(build.programs), ...Object.keys(build.assets ?? {})];
  const there = await Promise.all(wanted.map((name) => exists(join(folder, name))));
  if (there.includes(false)) return false;
  try {
    return (await readFile(join(folder, recipeFile), 'utf8')) === (await recipe(build));
  } catch {
    return false;
  }
}

const recipeFile = 'recipe.json';

/** All that decides what a build gives, kept beside its programs: a cache that was filled by an older checkout is found out. */
async function recipe(build: GoBuild): Promise<string> {
  const own = Object.values(build.programs).filter((path) => path.startsWith('./'));
  const sources = await Promise.all(own.map((path) => readFile(join(sourceFolder, path, 'main.go'), 'utf8')));
  const { programs, assets, ldflags, graph } = build;
  return JSON.stringify({ modules: graph.modules, programs, assets, ldflags, sources: sources.map(digest) });
}

const sourceFolder = join(import.meta.dirname, 'go');

function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 12);
}

/**
 * Builds what is missing of `wanted`, one after the other: a Go build uses all processors by itself.
 * @throws when Go is absent or too old, or a build fails
 */
export async function ensureBuilds(wanted: readonly GoBuild[], progress: Progress = toStderr): Promise<void> {
  const missing = await absent(wanted);
  if (missing.length === 0) return;
  await mkdir(cacheFolder(), { recursive: true });
  await withLock(join(cacheFolder(), 'build.lock'), progress, async () => {
    const stillMissing = await absent(wanted);
    if (stillMissing.length === 0) return;
    await requireGo();
    for (const [index, build] of stillMissing.entries()) {
      const started = performance.now();
      const title = `${build.name} ${build.version}`;
      progress(`building ${title} (${index + 1} of ${stillMissing.length})`);
      await buildNow(build);
      progress(`built ${title} in ${secondsSince(started)}`);
    }
  });
}

/**
 * Makes sure that an etcd server of that version exists, with `etcdctl` and `etcdutl` of the same version beside it.
 * @param version such as `3.6.16`
 * @returns the path of the server's program
 */
export async function ensureEtcd(version: string, progress: Progress = toStderr): Promise<string> {
  if (!/^3\.\d+\.\d+$/.test(version)) throw new Error(`"${version}" is not an etcd version; write it like 3.6.16`);
  const build = etcdBuild(version);
  await ensureBuilds([build], progress);
  return programPath(build, 'etcd');
}

async function absent(wanted: readonly GoBuild[]): Promise<GoBuild[]> {
  const built = await Promise.all(wanted.map(isBuilt));
  return wanted.filter((_, index) => built[index] !== true);
}

async function requireGo(): Promise<void> {
  const wanted = `${minimumGo.major}.${minimumGo.minor}`;
  let found: string;
  try {
    found = await run(['go', 'env', 'GOVERSION']);
  } catch {
    throw new Error(
      `Go ${wanted} or later is needed to build the cluster's programs and no "go" is on the PATH; install it from https://go.dev/dl, or set KUBECONFIG to use a cluster that exists.`,
    );
  }
  const [, major, minor] = /^go(\d+)\.(\d+)/.exec(found.trim()) ?? [];
  if (Number(major) === minimumGo.major && Number(minor) < minimumGo.minor) {
    throw new Error(
      `Go ${wanted} or later is needed to build the cluster's programs and "go" on the PATH is ${found.trim()}; install a newer one from https://go.dev/dl, or set KUBECONFIG to use a cluster that exists.`,
    );
  }
}

/** Where the module of a graph is kept: resolving its versions again for each of its builds would take longer than a build of the last of them. */
function graphFolder(graph: ModuleGraph): string {
  return join(cacheFolder(), 'modules', `${graph.name}-${digest(graph.modules.join('\n'))}`);
}

type Go = (args: readonly string[], timeoutMs: number) => Promise<string>;

function goIn(folder: string): Go {
  const goflags = `${process.env.GOFLAGS ?? ''} -mod=mod`.trim();
  const env = { ...process.env, CGO_ENABLED: '0', GOFLAGS: goflags, GOWORK: 'off' };
  return (args, timeoutMs) => run(['go', ...args], { cwd: folder, timeoutMs, env });
}

async function ensureModule(graph: ModuleGraph): Promise<Go> {
  const folder = graphFolder(graph);
  if (!(await exists(join(folder, 'go.mod')))) {
    const scratch = `${folder}.resolving`;
    await rm(scratch, { recursive: true, force: true });
    await mkdir(scratch, { recursive: true });
    const go = goIn(scratch);
    await writeFile(join(scratch, 'go.mod'), await moduleFile(graph, go));
    if (graph !== kubernetesGraph && graph.modules.length > 0) await go(['get', ...graph.modules], 1_200_000);
    await rm(folder, { recursive: true, force: true });
    await rename(scratch, folder);
  }
  return goIn(folder);
}

async function buildNow(build: GoBuild): Promise<void> {
  const folder = buildFolder(build);
  // Everything is made beside the final place and renamed at the end, so that what an interrupted build leaves is never taken for a program.
  const scratch = `${folder}.building`;
  await rm(scratch, { recursive: true, force: true });
  await mkdir(scratch, { recursive: true });
  try {
    const go = await ensureModule(build.graph);
    const ldflags = `-s -w ${build.ldflags ?? ''}`.trim();
    const packages = Object.entries(build.programs);
    for (const [, path] of packages.filter(([, path]) => path.startsWith('./'))) {
      await cp(join(sourceFolder, path), join(graphFolder(build.graph), path), { recursive: true });
    }
    // One command for all programs of a build: linking one and compiling the next overlap.
    const output = join(scratch, 'programs');
    await mkdir(output);
    const paths = packages.map(([, path]) => path);
    await go(['build', '-trimpath', '-ldflags', ldflags, '-o', `${output}/`, ...paths], 3_600_000);
    for (const [program, path] of packages) await rename(join(output, builtName(path)), join(scratch, program));
    await rmdir(output);
    for (const [name, asset] of Object.entries(build.assets ?? {})) {
      const module = (await go(['list', '-m', '-f', '{{.Dir}}', asset.module], 600_000)).trim();
      const target = join(scratch, name);
      await cp(join(module, asset.folder), target, { recursive: true });
      // Go's module cache is read-only, and a copy that cannot be deleted would outlive the cache.
      await run(['chmod', '-R', 'u+w', target]);
    }
  } catch (error) {
    if (!(error instanceof CommandFailed)) throw error;
    throw new Error(`${build.name} ${build.version} could not be built. ${error.message}`, { cause: error });
  }
  await writeFile(join(scratch, recipeFile), await recipe(build));
  await rm(folder, { recursive: true, force: true });
  await rename(scratch, folder);
}

/** `go build -o folder/` names a program after the last part of its package path that is not a major version. */
export function builtName(path: string): string {
  const parts = path.split('/').filter((part) => !/^v\d+$/.test(part));
  return parts.at(-1) ?? path;
}

async function moduleFile(graph: ModuleGraph, go: Go): Promise<string> {
  const head = `module cluster-${graph.name}\n\ngo ${minimumGo.major}.${minimumGo.minor}\n`;
  if (graph !== kubernetesGraph) return head;
  // Kubernetes' own go.mod takes its staging modules from folders beside it, at version v0.0.0. Outside its repository each is replaced by the published one.
  const [module = ''] = graph.modules;
  const version = module.slice(module.lastIndexOf('@v') + 2);
  const download = JSON.parse(await go(['mod', 'download', '-json', module], 600_000)) as { GoMod: string };
  const staging = stagingModules(await readFile(download.GoMod, 'utf8'));
  const published = `v0.${version.split('.').slice(1).join('.')}`;
  // Required at the published version too: the version is part of what the compiler's cache is keyed by, and only so does a build of other
  // programs with the same libraries find them compiled.
  const required = staging.map((name) => `require ${name} ${published}\n`).join('');
  const replaced = staging.map((name) => `replace ${name} => ${name} ${published}\n`).join('');
  return `${head}\nrequire k8s.io/kubernetes v${version}\n\n${required}\n${replaced}`;
}

async function exists(path: string): Promise<boolean> {
  try {
    await access(path);
    return true;
  } catch {
    return false;
  }
}

/** The modules that Kubernetes' go.mod replaces by folders of its repository. */
export function stagingModules(goMod: string): string[] {
  const found = goMod.matchAll(/^\s*(?:replace\s+)?(k8s\.io\/[a-z-]+) => \.\/staging/gm);
  return [...new Set([...found].map(([, name]) => name ?? ''))].sort((a, b) => a.localeCompare(b, 'en'));
}
