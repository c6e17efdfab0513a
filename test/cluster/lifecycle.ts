import { access, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import {
  addonWorkloads,
  applyAddon,
  applyDns,
  applyStorage,
  baseWorkloads,
  installCrossplane,
  type OptionalAddon,
  startRegistry,
  waitForNodes,
  waitForWorkloads,
} from './addons.ts';
import { builds, ensureBuilds, etcdBuild, type GoBuild } from './builds.ts';
import { succeeds } from './command.ts';
import { processesInGroups, removeGroups } from './control-groups.ts';
import { answersReady, controlPlanePrograms, startControlPlane } from './control-plane.ts';
import { ensurePackages } from './debian.ts';
import { localFaults } from './faults.ts';
import { certManager, ensureImages, memberImages, s3Server, systemImages } from './images.ts';
import { withLock } from './lock.ts';
import { makeBridge, removeBridge } from './network.ts';
import {
  bootNode,
  importImages,
  type NodeState,
  nodePrograms,
  nodeState,
  powerOff,
  startNodePrograms,
} from './node.ts';
import { makePki } from './pki.ts';
import { adminKubeconfig, daemon, nodeNames, stateFolder } from './places.ts';
import { findDaemon, identify, type ProcessIdentity, stopDaemon, stopProcesses } from './processes.ts';
import { type Progress, secondsSince, toStderr } from './progress.ts';
import { memberEtcdVersions, versions } from './versions.ts';

/** What is remembered about the cluster beside its processes. */
type ClusterRecord = {
  /** What the machine looked like before, to be restored by `down`. */
  readonly before: { readonly forwarding: string };
  /** Add-ons that were applied to the end; `base` stands for all that every cluster has. */
  readonly applied: readonly ('base' | OptionalAddon)[];
};

const recordFile = join(stateFolder, 'record.json');
const lockFile = `${stateFolder}.lock`;

const daemonNames = [
  ...controlPlanePrograms,
  'registry',
  ...nodeNames,
  ...nodeNames.flatMap((node) => nodePrograms.map((program) => `${node}-${program}`)),
];

/**
 * Says in one sentence why this machine cannot hold the cluster.
 * @throws when it is not Linux, or this process is not root
 */
export function requireCapableMachine(
  platform: string = process.platform,
  uid: number | undefined = process.getuid?.(),
): void {
  const instead = 'set KUBECONFIG to use a cluster that exists';
  if (platform !== 'linux') throw new Error(`The local cluster needs Linux and this is ${platform}; ${instead}.`);
  if (uid !== 0) {
    throw new Error(
      `The local cluster needs root, for network namespaces and control groups; run this as root, or ${instead}.`,
    );
  }
}

export type UpOptions = { readonly addons?: readonly OptionalAddon[]; readonly progress?: Progress };

/** Everything that has to be built before a cluster can start, the slowest and most needed first. */
export function neededBuilds(addons: readonly OptionalAddon[]): GoBuild[] {
  return [
    builds.pause,
    builds.kubernetes,
    ...memberEtcdVersions.map(etcdBuild),
    ...(memberEtcdVersions.some((version) => version === versions.etcd) ? [] : [etcdBuild(versions.etcd)]),
    builds.crossplane,
    builds.helm,
    builds.coredns,
    builds.localPathProvisioner,
    builds.crossplaneCli,
    ...(addons.includes('cert-manager') ? [builds.certManager] : []),
    ...(addons.includes('s3') ? [builds.versitygw] : []),
  ];
}

/**
 * Brings the cluster up, whatever is there before: nothing, all of it, or the remains of one whose processes were killed. A cluster whose etcd
 * still runs is repaired and keeps its objects, and faults that were injected are undone. Anything else is cleared away and made anew, because that
 * etcd does not sync to disk.
 */
export async function up(options: UpOptions = {}): Promise<void> {
  const progress = options.progress ?? toStderr;
  const addons = options.addons ?? [];
  requireCapableMachine();
  const started = performance.now();
  await ensurePackages(progress);
  await ensureBuilds(neededBuilds(addons), progress);
  const system = await ensureImages(systemImages, progress);
  const members = await ensureImages(memberImages, progress);
  const extra = await ensureImages(addonImages(addons), progress);
  await withLock(lockFile, progress, async () => {
    const record = await readRecord();
    // A start that was interrupted left things half done in a way that only starting over is sure to mend.
    const complete = record?.applied.includes('base') === true;
    if (complete && (await findDaemon(daemon('etcd'))) !== undefined) {
      await repair(record, { system, members, extra, addons, progress });
    } else {
      await clear(progress);
      await startFresh({ system, members, extra, addons, progress });
    }
  });
  progress(`cluster is up after ${secondsSince(started)}; its kubeconfig is ${adminKubeconfig}`);
}

type Parts = {
  readonly system: readonly string[];
  readonly members: readonly string[];
  readonly extra: readonly string[];
  readonly addons: readonly OptionalAddon[];
  readonly progress: Progress;
};

function addonImages(addons: readonly OptionalAddon[]) {
  return addons.map((addon) => (addon === 'cert-manager' ? certManager : s3Server));
}

async function startFresh(parts: Parts): Promise<void> {
  const { progress } = parts;
  const step = stopwatch(progress);
  await mkdir(stateFolder, { recursive: true, mode: 0o755 });
  for (const module of ['br_netfilter', 'overlay']) await succeeds(['modprobe', module]);
  const [before] = await Promise.all([makeBridge(), makePki()]);
  await writeRecord({ before, applied: [] });
  step('certificates and network');

  const controlPlane = startControlPlane().then(() => step('control plane'));
  const nodes = Promise.all(
    nodeNames.map(async (node) => {
      await bootNode(node);
      // Before the kubelet: a Pod that finds its image missing waits ten seconds before it looks again.
      await importImages(node, [...parts.system, ...parts.extra]);
      await controlPlane;
      await startNodePrograms(node);
      await importImages(node, parts.members);
    }),
  ).then(() => step('nodes and their images'));
  const base = controlPlane.then(() => applyBase()).then(() => step('DNS, volumes, registry and Crossplane applied'));
  await allSettledOrFirstError([controlPlane, nodes, base]);
  await settle(parts, { before, applied: [] });
}

async function repair(record: ClusterRecord, parts: Parts): Promise<void> {
  await startControlPlane();
  await startRegistry();
  for (const { node, powered, programs } of await Promise.all(nodeNames.map(nodeState))) {
    if (!powered) parts.progress(`node ${node} is off; starting it`);
    else if (programs.length < nodePrograms.length) parts.progress(`starting what is missing on node ${node}`);
  }
  await localFaults.healAll();
  // Pods of a node that was off start anew.
  await waitForWorkloads(baseWorkloads);
  const missing = parts.addons.filter((addon) => !record.applied.includes(addon));
  if (missing.length > 0) await Promise.all(nodeNames.map((node) => importImages(node, parts.extra)));
  await settle(parts, record);
}

async function applyBase(): Promise<void> {
  await Promise.all([applyDns(), applyStorage(), startRegistry(), installCrossplane()]);
}

async function settle(parts: Parts, record: ClusterRecord): Promise<void> {
  const step = stopwatch(parts.progress);
  const missing = parts.addons.filter((addon) => !record.applied.includes(addon));
  await Promise.all(missing.map(applyAddon));
  await waitForNodes();
  if (!record.applied.includes('base')) await waitForWorkloads(baseWorkloads);
  await waitForWorkloads(missing.map((addon) => addonWorkloads[addon]));
  const applied = [...new Set([...record.applied, 'base' as const, ...missing])];
  if (applied.length !== record.applied.length) {
    await writeRecord({ before: record.before, applied });
    step('everything ready');
  }
}

/** Waits for all, so that nothing goes on behind the back of whoever handles the error. */
async function allSettledOrFirstError(work: readonly Promise<unknown>[]): Promise<void> {
  const results = await Promise.allSettled(work);
  const failed = results.find((result) => result.status === 'rejected');
  if (failed !== undefined) throw failed.reason;
}

function stopwatch(progress: Progress): (what: string) => void {
  const started = performance.now();
  return (what) => progress(`  ${secondsSince(started).padStart(6)}  ${what}`);
}

async function exists(path: string): Promise<boolean> {
  try {
    await access(path);
    return true;
  } catch {
    return false;
  }
}

async function readRecord(): Promise<ClusterRecord | undefined> {
  try {
    return JSON.parse(await readFile(recordFile, 'utf8')) as ClusterRecord;
  } catch {
    return undefined;
  }
}

async function writeRecord(record: ClusterRecord): Promise<void> {
  await writeFile(recordFile, JSON.stringify(record));
}

/** Ends everything that `up` started and takes away everything that it made, outside the cache. */
export async function down(options: { readonly progress?: Progress } = {}): Promise<void> {
  const progress = options.progress ?? toStderr;
  requireCapableMachine();
  const started = performance.now();
  await withLock(lockFile, progress, () => clear(progress));
  progress(`cluster is down after ${secondsSince(started)}`);
}

async function clear(progress: Progress): Promise<void> {
  const record = await readRecord();
  if (await exists(stateFolder)) progress('clearing the cluster that was here');
  // Nodes first and all at once: their processes, mounts and network namespaces end with their process 1.
  await Promise.all(nodeNames.map(powerOff));
  await Promise.all(daemonNames.map((name) => stopDaemon(daemon(name), 0)));
  // Pods of a node whose process 1 was killed from outside are gone with it; what the groups still hold is ours all the same.
  const left: ProcessIdentity[] = [];
  for (const pid of await processesInGroups()) {
    try {
      left.push(await identify(pid));
    } catch {
      // Ended meanwhile.
    }
  }
  await stopProcesses(left, 0);
  await removeGroups();
  await removeBridge(record?.before);
  await rm(stateFolder, { recursive: true, force: true });
}

export type ClusterStatus = {
  readonly controlPlane: readonly { readonly program: string; readonly pid: number | undefined }[];
  readonly nodes: readonly NodeState[];
  readonly addons: readonly string[];
  readonly ready: boolean;
};

/** What runs of the local cluster. Undefined when there is none. */
export async function status(): Promise<ClusterStatus | undefined> {
  const record = await readRecord();
  if (record === undefined) return undefined;
  const controlPlane = await Promise.all(
    [...controlPlanePrograms, 'registry'].map(async (program) => ({
      program,
      pid: (await findDaemon(daemon(program)))?.pid,
    })),
  );
  const nodes = await Promise.all(nodeNames.map(nodeState));
  const ready =
    record.applied.includes('base') &&
    controlPlane.every(({ pid }) => pid !== undefined) &&
    nodes.every((node) => node.powered && node.plugged && node.programs.length === nodePrograms.length) &&
    (await answersReady());
  return { controlPlane, nodes, addons: record.applied.filter((name) => name !== 'base'), ready };
}
