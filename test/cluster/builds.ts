import { access, cp, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { cacheFolder } from './cache.ts';
import { CommandFailed, run } from './command.ts';
import { withLock } from './lock.ts';
import { type Progress, secondsSince, toStderr } from './progress.ts';
import { versions } from './versions.ts';

/** One folder of the cache, made by one `go build`: programs that share a module graph, and folders copied from their modules. */
export type GoBuild = {
  readonly name: string;
  readonly version: string;
  /** What `go get` pins, `module@version`. */
  readonly modules: readonly string[];
  /** Program name to Go package. */
  readonly programs: Readonly<Record<string, string>>;
  /** A main package of this repository, by its folder below `go/`, for programs whose package is `.`. */
  readonly source?: string;
  /** Folder name in the cache to module and folder inside it. */
  readonly assets?: Readonly<Record<string, { readonly module: string; readonly folder: string }>>;
  readonly ldflags?: string;
};

const minimumGo = { major: 1, minor: 26 };

export const builds = {
  pause: { name: 'pause', version: '1', modules: [], programs: { pause: '.' }, source: 'pause' },
  kubernetes: {
    name: 'kubernetes',
    version: versions.kubernetes,
    modules: [`k8s.io/kubernetes@v${versions.kubernetes}`],
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
    // Crossplane's go.mod replaces its own apis module by a local folder, which only counts in the main module: it has to be named.
    modules: [
      `github.com/crossplane/crossplane/v2@v${versions.crossplane}`,
      `github.com/crossplane/crossplane/apis/v2@v${versions.crossplane}`,
    ],
    programs: { 'crossplane-core': 'github.com/crossplane/crossplane/v2/cmd/crossplane' },
    assets: {
      chart: { module: 'github.com/crossplane/crossplane/v2', folder: 'cluster/charts/crossplane' },
      crds: { module: 'github.com/crossplane/crossplane/v2', folder: 'cluster/crds' },
      webhookconfigurations: { module: 'github.com/crossplane/crossplane/v2', folder: 'cluster/webhookconfigurations' },
    },
    ldflags: `-X github.com/crossplane/crossplane/v2/internal/version.version=v${versions.crossplane}`,
  },
  crossplaneCli: {
    name: 'crossplane-cli',
    version: versions.crossplaneCli,
    modules: [`github.com/crossplane/cli/v2@v${versions.crossplaneCli}`],
    programs: { crossplane: 'github.com/crossplane/cli/v2/cmd/crossplane' },
  },
  helm: {
    name: 'helm',
    version: versions.helm,
    modules: [`helm.sh/helm/v3@v${versions.helm}`],
    programs: { helm: 'helm.sh/helm/v3/cmd/helm' },
  },
  coredns: {
    name: 'coredns',
    version: versions.coredns,
    modules: [`github.com/coredns/coredns@v${versions.coredns}`],
    programs: { coredns: 'github.com/coredns/coredns' },
  },
  localPathProvisioner: {
    name: 'local-path-provisioner',
    version: versions.localPathProvisioner,
    modules: [`github.com/rancher/local-path-provisioner@v${versions.localPathProvisioner}`],
    programs: { 'local-path-provisioner': 'github.com/rancher/local-path-provisioner' },
    assets: { deploy: { module: 'github.com/rancher/local-path-provisioner', folder: 'deploy' } },
  },
  certManager: {
    name: 'cert-manager',
    version: versions.certManager,
    modules: [`github.com/cert-manager/cert-manager@v${versions.certManager}`],
    programs: { 'cert-manager-controller': '.' },
    source: 'cert-manager',
    assets: { crds: { module: 'github.com/cert-manager/cert-manager', folder: 'deploy/crds' } },
  },
  versitygw: {
    name: 'versitygw',
    version: versions.versitygw,
    modules: [`github.com/versity/versitygw@v${versions.versitygw}`],
    programs: { versitygw: 'github.com/versity/versitygw/cmd/versitygw' },
  },
} as const satisfies Record<string, GoBuild>;

/** etcd's server and both of its tools, of one version. */
export function etcdBuild(version: string): GoBuild {
  return {
    name: 'etcd',
    version,
    modules: ['server', 'etcdctl', 'etcdutl'].map((module) => `go.etcd.io/etcd/${module}/v3@v${version}`),
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

/** The folder of the cache that a build fills, whether or not it is there yet. */
export function buildFolder(build: GoBuild): string {
  return join(cacheFolder(), `${build.name}-${build.version}`);
}

/** The path of one program of a build, whether or not it is there yet. */
export function programPath(build: GoBuild, program: string): string {
  return join(buildFolder(build), program);
}

export async function isBuilt(build: GoBuild): Promise<boolean> {
  const wanted = [...Object.keys(build.programs), ...Object.keys(build.assets ?? {})];
  try {
    await Promise.all(wanted.map((name) => access(join(buildFolder(build), name))));
    return true;
  } catch {
    return false;
  }
}

/**
 * Builds what is missing of `wanted`, one after the other: a Go build uses all processors by itself.
 * @throws when Go is absent or too old, or a build fails
 */
export async function ensureBuilds(wanted: readonly GoBuild[], progress: Progress = toStderr): Promise<void> {
  const missing = await absent(wanted);
  if (missing.length === 0) return;
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

async function buildNow(build: GoBuild): Promise<void> {
  const folder = buildFolder(build);
  // Everything is made beside the final place and renamed at the end, so that what an interrupted build leaves is never taken for a program.
  const scratch = `${folder}.building`;
  await rm(scratch, { recursive: true, force: true });
  const sources = join(scratch, 'module');
  const output = join(scratch, 'output');
  await mkdir(sources, { recursive: true });
  await mkdir(output, { recursive: true });
  if (build.source !== undefined) {
    await cp(join(import.meta.dirname, 'go', build.source, 'main.go'), join(sources, 'main.go'));
  }
  const go = (args: readonly string[], timeoutMs: number) =>
    run(['go', ...args], {
      cwd: sources,
      timeoutMs,
      env: {
        ...process.env,
        CGO_ENABLED: '0',
        GOFLAGS: `${process.env.GOFLAGS ?? ''} -mod=mod`.trim(),
        GOWORK: 'off',
      },
    });
  try {
    await writeFile(join(sources, 'go.mod'), await moduleFile(build, go));
    if (build.modules.length > 0 && build.name !== 'kubernetes') await go(['get', ...build.modules], 1_200_000);
    const ldflags = `-s -w ${build.ldflags ?? ''}`.trim();
    const byPackage = Object.entries(build.programs);
    await go(
      ['build', '-trimpath', '-ldflags', ldflags, '-o', `${output}/`, ...byPackage.map(([, path]) => path)],
      3_600_000,
    );
    await mkdir(join(scratch, 'done'));
    for (const [program, path] of byPackage) {
      await rename(join(output, builtName(path, build)), join(scratch, 'done', program));
    }
    for (const [name, asset] of Object.entries(build.assets ?? {})) {
      const module = (await go(['list', '-m', '-f', '{{.Dir}}', asset.module], 600_000)).trim();
      const target = join(scratch, 'done', name);
      await cp(join(module, asset.folder), target, { recursive: true });
      // Go's module cache is read-only, and a copy that cannot be deleted would outlive the cache.
      await run(['chmod', '-R', 'u+w', target]);
    }
  } catch (error) {
    if (!(error instanceof CommandFailed)) throw error;
    throw new Error(`${build.name} ${build.version} could not be built. ${error.message}`, { cause: error });
  }
  await rm(folder, { recursive: true, force: true });
  await rename(join(scratch, 'done'), folder);
  await rm(scratch, { recursive: true, force: true });
}

/** `go build -o folder/` names a program after the last part of its package path that is not a major version. */
export function builtName(path: string, build: GoBuild): string {
  if (path === '.') return moduleName(build);
  const parts = path.split('/').filter((part) => !/^v\d+$/.test(part));
  return parts.at(-1) ?? path;
}

function moduleName(build: GoBuild): string {
  return `cluster-${build.name}`;
}

async function moduleFile(
  build: GoBuild,
  go: (args: readonly string[], timeoutMs: number) => Promise<string>,
): Promise<string> {
  const head = `module ${moduleName(build)}\n\ngo ${minimumGo.major}.${minimumGo.minor}\n`;
  if (build.name !== 'kubernetes') return head;
  // Kubernetes' own go.mod takes its staging modules from folders beside it, at version v0.0.0. Outside its repository each is replaced by the published one.
  const [module] = build.modules;
  const download = JSON.parse(await go(['mod', 'download', '-json', module ?? ''], 600_000)) as { GoMod: string };
  const staging = stagingModules(await readFile(download.GoMod, 'utf8'));
  const published = `v0.${build.version.split('.').slice(1).join('.')}`;
  // Required at the published version too: the version becomes part of what the compiler's cache is keyed by, and only so do
  // the other programs of this file find these libraries compiled.
  const required = staging.map((name) => `require ${name} ${published}\n`).join('');
  const replaced = staging.map((name) => `replace ${name} => ${name} ${published}\n`).join('');
  return `${head}\nrequire k8s.io/kubernetes v${build.version}\n\n${required}\n${replaced}`;
}

/** The modules that Kubernetes' go.mod replaces by folders of its repository. */
export function stagingModules(goMod: string): string[] {
  const found = goMod.matchAll(/^\s*(?:replace\s+)?(k8s\.io\/[a-z-]+) => \.\/staging/gm);
  return [...new Set([...found].map(([, name]) => name ?? ''))].sort((a, b) => a.localeCompare(b, 'en'));
}
