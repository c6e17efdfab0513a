import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { Node } from 'kubernetes-types/core/v1.js';
import { builds, programPath } from './builds.ts';
import { cacheFolder } from './cache.ts';
import { run } from './command.ts';
import { makeNodeGroup } from './control-groups.ts';
import { answersReady, askApiServer } from './control-plane.ts';
import { pauseImage } from './images.ts';
import { isPlugged, plugIn } from './network.ts';
import { kubeconfigOf, pkiFile } from './pki.ts';
import {
  configFolder,
  containerdSocket,
  containerdSocketInNode,
  controlGroup,
  daemon,
  diskInNode,
  dnsAddress,
  hostAddress,
  type NodeName,
  nodeAddress,
  nodeDisk,
  podNetwork,
  podSubnet,
  registryAddress,
  stateFolder,
} from './places.ts';
import {
  childrenOf,
  findDaemon,
  findInNamespaceOf,
  lastWords,
  type ProcessIdentity,
  startDaemon,
  stopProcesses,
} from './processes.ts';

/** The programs that make a node, as the kernel names them. */
export type NodeProgram = 'containerd' | 'kubelet' | 'kube-proxy';
export const nodePrograms: readonly NodeProgram[] = ['containerd', 'kubelet', 'kube-proxy'];

const registryConfigFolder = join(configFolder, 'registries');

/** Process 1 of a node, as the host numbers it; undefined when the node is without power. */
export async function nodeInit(node: NodeName): Promise<number | undefined> {
  const wrapper = await findDaemon(daemon(node));
  if (wrapper === undefined) return undefined;
  const [init] = await childrenOf(wrapper.pid);
  return init;
}

/** @throws when the node is without power */
export async function requireInit(node: NodeName): Promise<number> {
  const init = await nodeInit(node);
  if (init === undefined)
    throw new Error(`Node ${node} is off; start it with "npm run cluster -- node start ${node}".`);
  return init;
}

async function runningPrograms(node: NodeName): Promise<NodeProgram[]> {
  const init = await nodeInit(node);
  if (init === undefined) return [];
  const found = await Promise.all(nodePrograms.map((program) => findInNamespaceOf(init, program)));
  return nodePrograms.filter((_, index) => (found[index]?.length ?? 0) > 0);
}

/** Gives a node power and network, and starts its container runtime. Nothing happens to what runs already. */
export async function bootNode(node: NodeName): Promise<void> {
  const init = (await nodeInit(node)) ?? (await powerOn(node));
  if ((await findInNamespaceOf(init, 'containerd')).length === 0) await startContainerd(node, init);
}

async function powerOn(node: NodeName): Promise<number> {
  const disk = nodeDisk(node);
  await mkdir(disk, { recursive: true });
  await mkdir(diskInNode, { recursive: true });
  await mkdir(configFolder, { recursive: true });
  await makeNodeGroup(node);
  const resolvConf = join(configFolder, 'resolv.conf');
  // Nothing listens there: a name outside the cluster fails at once, and with it the pull of an image that nobody loaded.
  await writeFile(resolvConf, `nameserver ${hostAddress}\n`);
  const wrapper = await startDaemon(daemon(node), [
    ...['unshare', '--mount', '--propagation', 'private', '--net', '--pid', '--uts', '--fork', '--kill-child'],
    ...['sh', join(import.meta.dirname, 'node-boot.sh'), node, disk, diskInNode, resolvConf],
    programPath(builds.pause, 'pause'),
    ...[stateFolder, cacheFolder()],
  ]);
  const init = await initOf(node, wrapper);
  await plugIn(node, init);
  return init;
}

/** The boot script has done its work when its process has become the waiting program. */
async function initOf(node: NodeName, wrapper: ProcessIdentity): Promise<number> {
  const giveUp = performance.now() + 10_000;
  while (performance.now() < giveUp) {
    const [init] = await childrenOf(wrapper.pid);
    if (init !== undefined && (await readComm(init)) === 'pause') return init;
    await pause(10);
  }
  throw new Error(`node ${node} did not boot:\n${await lastWords(daemon(node))}`);
}

async function readComm(pid: number): Promise<string> {
  try {
    return (await readFile(`/proc/${pid}/comm`, 'utf8')).trim();
  } catch {
    return '';
  }
}

function inNode(init: number, argv: readonly string[]): string[] {
  return ['nsenter', '-t', String(init), '-m', '-n', '-p', '-u', '--', ...argv];
}

async function startContainerd(node: NodeName, init: number): Promise<void> {
  const config = join(nodeDisk(node), 'containerd.toml');
  const networks = join(nodeDisk(node), 'cni');
  await mkdir(networks, { recursive: true });
  await writeFile(join(networks, '10-pods.conflist'), JSON.stringify(podNetworkConfig(node), null, 1));
  await writeFile(config, containerdConfig());
  await writeRegistryConfig();
  await startDaemon(
    daemon(`${node}-containerd`),
    inNode(init, ['containerd', '-c', join(diskInNode, 'containerd.toml')]),
  );
  await socketAnswers(node);
}

async function socketAnswers(node: NodeName): Promise<void> {
  const giveUp = performance.now() + 30_000;
  while (performance.now() < giveUp) {
    const answers = await new Promise<boolean>((resolve) => {
      const socket = connect(containerdSocket(node), () => {
        socket.destroy();
        resolve(true);
      });
      socket.on('error', () => resolve(false));
    });
    if (answers) return;
    await pause(25);
  }
  throw new Error(`containerd of ${node} does not answer:\n${await lastWords(daemon(`${node}-containerd`))}`);
}

/**
 * Starts what is missing of a node. Where it can reach the API server, the node has reported itself Ready when this returns.
 * @throws when it does not become Ready within a minute
 */
export async function startNodePrograms(node: NodeName): Promise<void> {
  await bootNode(node);
  const init = await requireInit(node);
  const running = await runningPrograms(node);
  const started = Math.floor(Date.now() / 1000) * 1000;
  if (!running.includes('kubelet')) {
    await mkdir(join(nodeDisk(node), 'pod-logs'), { recursive: true });
    await mkdir(join(nodeDisk(node), 'volumes'), { recursive: true });
    await writeFile(join(nodeDisk(node), 'kubelet.json'), JSON.stringify(kubeletConfig(node), null, 1));
    await startDaemon(
      daemon(`${node}-kubelet`),
      inNode(init, [
        programPath(builds.kubernetes, 'kubelet'),
        `--config=${join(diskInNode, 'kubelet.json')}`,
        `--kubeconfig=${kubeconfigOf(node)}`,
        `--hostname-override=${node}`,
        `--node-ip=${nodeAddress(node)}`,
        `--node-labels=topology.kubernetes.io/zone=zone-${node}`,
        `--root-dir=${join(diskInNode, 'kubelet')}`,
        `--cert-dir=${join(diskInNode, 'kubelet', 'pki')}`,
        '--v=1',
      ]),
    );
  }
  if (!running.includes('kube-proxy')) {
    await startDaemon(
      daemon(`${node}-kube-proxy`),
      inNode(init, [
        programPath(builds.kubernetes, 'kube-proxy'),
        `--kubeconfig=${kubeconfigOf('proxy')}`,
        `--hostname-override=${node}`,
        '--proxy-mode=iptables',
        `--cluster-cidr=${podNetwork}`,
        // These limits belong to the host's kernel and cannot be set from a node.
        '--conntrack-max-per-core=0',
        '--conntrack-tcp-timeout-established=0',
        '--conntrack-tcp-timeout-close-wait=0',
      ]),
    );
  }
  if (!running.includes('kubelet') && (await isPlugged(node)) && (await answersReady()))
    await reportsReady(node, started);
}

/** A node that was gone for a moment still counts as Ready by its last report, so only one since `since` (milliseconds, whole seconds) counts. */
async function reportsReady(node: NodeName, since: number): Promise<void> {
  const giveUp = performance.now() + 60_000;
  while (performance.now() < giveUp) {
    const answer = await askApiServer(`/api/v1/nodes/${node}`);
    const conditions = answer.status === 200 ? (JSON.parse(answer.body) as Node).status?.conditions : undefined;
    const ready = conditions?.find(({ type }) => type === 'Ready');
    if (ready?.status === 'True' && Date.parse(String(ready.lastHeartbeatTime)) >= since) return;
    await pause(100);
  }
  throw new Error(`node ${node} is not Ready after 60 s:\n${await lastWords(daemon(`${node}-kubelet`))}`);
}

/** Loads image archives into a node's image store, one after the other. */
export async function importImages(node: NodeName, archives: readonly string[]): Promise<void> {
  for (const archive of archives) {
    await run(['ctr', '-a', containerdSocket(node), '-n', 'k8s.io', 'images', 'import', archive], {
      timeoutMs: 300_000,
    });
  }
}

/** Kills kubelet and container runtime: the node goes NotReady, its Pods run on unwatched. */
export async function haltNodePrograms(node: NodeName): Promise<void> {
  const init = await requireInit(node);
  const programs = await Promise.all(
    (['kubelet', 'containerd'] as const).map((program) => findInNamespaceOf(init, program)),
  );
  await stopProcesses(programs.flat(), 0);
}

/** Takes a node's power: everything that ran on it ends without a farewell; its disk stays. */
export async function powerOff(node: NodeName): Promise<void> {
  const wrapper = await findDaemon(daemon(node));
  if (wrapper === undefined) return;
  const init = await nodeInit(node);
  // The kernel ends all processes of a process namespace with its process 1, those of nested ones too.
  await stopProcesses([wrapper], 0);
  const giveUp = performance.now() + 20_000;
  while (init !== undefined && (await readComm(init)) !== '') {
    if (performance.now() > giveUp) throw new Error(`processes of node ${node} do not end`);
    await pause(20);
  }
}

export type NodeState = {
  readonly node: NodeName;
  readonly powered: boolean;
  readonly plugged: boolean;
  readonly programs: readonly NodeProgram[];
};

export async function nodeState(node: NodeName): Promise<NodeState> {
  const powered = (await nodeInit(node)) !== undefined;
  return {
    node,
    powered,
    plugged: powered && (await isPlugged(node)),
    programs: await runningPrograms(node),
  };
}

function podNetworkConfig(node: NodeName): unknown {
  return {
    cniVersion: '0.4.0',
    name: 'pods',
    plugins: [
      {
        type: 'bridge',
        bridge: 'cni0',
        isGateway: true,
        ipMasq: false,
        hairpinMode: true,
        mtu: 1500,
        ipam: {
          type: 'host-local',
          // With the Pods' network namespaces, so that a power loss does not leave addresses taken.
          dataDir: '/run/cni-addresses',
          ranges: [[{ subnet: podSubnet(node) }]],
          routes: [{ dst: '0.0.0.0/0' }],
        },
      },
      { type: 'portmap', capabilities: { portMappings: true } },
    ],
  };
}

function containerdConfig(): string {
  const cri = 'plugins."io.containerd.grpc.v1.cri"';
  return `version = 2
root = "${join(diskInNode, 'containerd')}"
state = "/run/containerd"

[grpc]
  address = "${containerdSocketInNode}"

[${cri}]
  sandbox_image = "${pauseImage}"
  # Lowering a score needs CAP_SYS_RESOURCE, which a container or a small virtual machine may not have.
  restrict_oom_score_adj = true
  [${cri}.cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "${join(diskInNode, 'cni')}"
  [${cri}.containerd]
    snapshotter = "overlayfs"
    [${cri}.containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [${cri}.containerd.runtimes.runc.options]
        SystemdCgroup = false
  [${cri}.registry]
    config_path = "${registryConfigFolder}"
`;
}

/** Tells containerd that the cluster's registry speaks plain HTTP. */
async function writeRegistryConfig(): Promise<void> {
  const folder = join(registryConfigFolder, registryAddress);
  await mkdir(folder, { recursive: true });
  await writeFile(
    join(folder, 'hosts.toml'),
    `server = "http://${registryAddress}"\n\n[host."http://${registryAddress}"]\n  capabilities = ["pull", "resolve"]\n`,
  );
}

function kubeletConfig(node: NodeName): unknown {
  return {
    apiVersion: 'kubelet.config.k8s.io/v1beta1',
    kind: 'KubeletConfiguration',
    authentication: {
      anonymous: { enabled: false },
      webhook: { enabled: true },
      x509: { clientCAFile: pkiFile('ca.crt') },
    },
    authorization: { mode: 'Webhook' },
    cgroupDriver: 'cgroupfs',
    cgroupRoot: `/${controlGroup}/${node}`,
    failCgroupV1: false,
    failSwapOn: false,
    enforceNodeAllocatable: [],
    clusterDNS: [dnsAddress],
    clusterDomain: 'cluster.local',
    containerRuntimeEndpoint: `unix://${containerdSocketInNode}`,
    podLogsDir: join(diskInNode, 'pod-logs'),
    // The usual place is one of the host's folders.
    volumePluginDir: join(diskInNode, 'volume-plugins'),
    // The disk is the machine's: others may fill it, and images that were loaded by hand could not be pulled again.
    imageGCHighThresholdPercent: 100,
    evictionHard: { 'memory.available': '100Mi', 'nodefs.available': '2%', 'imagefs.available': '2%' },
    nodeStatusUpdateFrequency: '4s',
    registryPullQPS: 0,
    serializeImagePulls: false,
  };
}
