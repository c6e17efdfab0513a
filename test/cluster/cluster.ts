import { access, constants } from 'node:fs/promises';
import { delimiter, dirname, join, resolve } from 'node:path';
import { type OptionalAddon, s3 } from './addons.ts';
import { buildFolder, builds, ensureBuilds, etcdBuild, type GoBuild, programPath } from './builds.ts';
import { type CommandOptions, run } from './command.ts';
import { type Faults, localFaults } from './faults.ts';
import { status, up } from './lifecycle.ts';
import { importImages } from './node.ts';
import { adminKubeconfig, nodeNames, registryAddress } from './places.ts';
import { type Progress, toStderr } from './progress.ts';
import { versions } from './versions.ts';

export type { OptionalAddon } from './addons.ts';
export { s3 } from './addons.ts';
export { ensureEtcd } from './builds.ts';
export { CommandFailed, type CommandOptions, run } from './command.ts';
export type { Faults } from './faults.ts';
export type { NodeName } from './places.ts';

/** A Kubernetes with Crossplane to run against: the local one, or the one that `KUBECONFIG` names. */
export type Cluster = {
  /** Whether this is the cluster of this folder. Only then are `faults` and `registry` sure to be there. */
  readonly local: boolean;
  readonly kubeconfigPath: string;
  /** This process's environment with `KUBECONFIG` set and the cluster's own tools first in `PATH`, for commands of one's own. */
  readonly env: NodeJS.ProcessEnv;
  /**
   * `host:port` of an OCI registry that speaks plain HTTP, reachable from here and from the nodes. On another cluster it is what
   * `ETCD_OPERATOR_REGISTRY` says.
   */
  readonly registry: string | undefined;
  readonly s3: typeof s3 | undefined;
  readonly faults: Faults | undefined;
  /** Each runs one command to its end and returns what it printed. Throws CommandFailed. */
  kubectl(args: readonly string[], options?: CommandOptions): Promise<string>;
  helm(args: readonly string[], options?: CommandOptions): Promise<string>;
  crossplane(args: readonly string[], options?: CommandOptions): Promise<string>;
  /** Makes the images of docker-archive tars usable on every node, under the names in the archives. */
  loadImage(...archives: readonly string[]): Promise<void>;
};

export type ConnectOptions = { readonly addons?: readonly OptionalAddon[]; readonly progress?: Progress };

/**
 * The cluster that tests, demo and benchmarks use. Where `KUBECONFIG` names a cluster, that one is used as it is. Otherwise the local one is
 * brought up, which takes a second when it is up already.
 * @throws with the way out, when this machine cannot hold a cluster or the named one does not answer
 */
export async function connect(options: ConnectOptions = {}): Promise<Cluster> {
  const progress = options.progress ?? toStderr;
  const named = namedKubeconfig(process.env);
  if (named === undefined) {
    await up({ progress, addons: options.addons ?? [] });
    return localCluster();
  }
  return foreignCluster(named, options, progress);
}

/** The kubeconfig of a cluster other than the local one, if the environment names one. */
export function namedKubeconfig(env: NodeJS.ProcessEnv): string | undefined {
  const named = env.KUBECONFIG;
  // A shell in which "cluster env" was evaluated names the local cluster too.
  if (named === undefined || named === '' || resolve(named) === adminKubeconfig) return undefined;
  return named;
}

/** The local cluster's tools come before what the machine has: an older kubectl may be installed. */
export function toolFolders(): string[] {
  return [builds.kubernetes, builds.crossplaneCli, builds.helm, etcdBuild(versions.etcd)].map(buildFolder);
}

export function clusterEnvironment(kubeconfigPath: string): NodeJS.ProcessEnv {
  const path = [...toolFolders(), process.env.PATH ?? ''].join(delimiter);
  return { ...process.env, KUBECONFIG: kubeconfigPath, PATH: path };
}

function tools(env: NodeJS.ProcessEnv, programs: { kubectl: string; helm: string; crossplane: string }) {
  const command =
    (program: string) =>
    (args: readonly string[], options: CommandOptions = {}): Promise<string> =>
      run([program, ...args], { env, ...options });
  return { kubectl: command(programs.kubectl), helm: command(programs.helm), crossplane: command(programs.crossplane) };
}

export async function localCluster(): Promise<Cluster> {
  const env = clusterEnvironment(adminKubeconfig);
  const now = await status();
  return {
    local: true,
    kubeconfigPath: adminKubeconfig,
    env,
    registry: registryAddress,
    s3: now?.addons.includes('s3') === true ? s3 : undefined,
    faults: localFaults,
    ...tools(env, {
      kubectl: programPath(builds.kubernetes, 'kubectl'),
      helm: programPath(builds.helm, 'helm'),
      crossplane: programPath(builds.crossplaneCli, 'crossplane'),
    }),
    async loadImage(...archives) {
      await Promise.all(nodeNames.map((node) => importImages(node, archives)));
    },
  };
}

async function foreignCluster(kubeconfigPath: string, options: ConnectOptions, progress: Progress): Promise<Cluster> {
  const env: NodeJS.ProcessEnv = { ...process.env, KUBECONFIG: kubeconfigPath };
  const programs = {
    kubectl: await ownOrBuilt('kubectl', builds.kubernetes, progress),
    helm: await ownOrBuilt('helm', builds.helm, progress),
    crossplane: await ownOrBuilt('crossplane', builds.crossplaneCli, progress),
  };
  const commands = tools({ ...env, PATH: [dirname(programs.kubectl), env.PATH ?? ''].join(delimiter) }, programs);
  try {
    await commands.kubectl(['get', '--raw', '/readyz'], { timeoutMs: 15_000 });
  } catch (error) {
    throw new Error(
      `The cluster that KUBECONFIG names (${kubeconfigPath}) does not answer; start it, or unset KUBECONFIG to use a local one.`,
      { cause: error },
    );
  }
  if ((options.addons ?? []).length > 0) {
    progress(
      `using the cluster of ${kubeconfigPath}; ${options.addons?.join(' and ')} must be installed there already`,
    );
  }
  return {
    local: false,
    kubeconfigPath,
    env,
    registry: process.env.ETCD_OPERATOR_REGISTRY,
    s3: undefined,
    faults: undefined,
    ...commands,
    async loadImage(...archives) {
      const context = (await commands.kubectl(['config', 'current-context'])).trim();
      if (!context.startsWith('kind-')) {
        throw new Error(
          `Images cannot be loaded into the cluster of context "${context}"; push ${archives.join(', ')} to a registry that its nodes pull from, or use a kind cluster or the local one.`,
        );
      }
      for (const archive of archives) {
        await run(['kind', 'load', 'image-archive', archive, '--name', context.slice('kind-'.length)], {
          env,
          timeoutMs: 300_000,
        });
      }
    },
  };
}

/** The machine's own program where there is one: with somebody else's cluster nothing should be built that is not needed. */
async function ownOrBuilt(program: string, build: GoBuild, progress: Progress): Promise<string> {
  for (const folder of (process.env.PATH ?? '').split(delimiter)) {
    const path = join(folder, program);
    try {
      await access(path, constants.X_OK);
      return path;
    } catch {
      // The next folder may have it.
    }
  }
  await ensureBuilds([build], progress);
  return programPath(build, program);
}
