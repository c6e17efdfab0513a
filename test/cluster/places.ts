import { join } from 'node:path';
import type { Daemon } from './processes.ts';

/**
 * Where the running cluster keeps its state. One fixed place outside the cache, because bridge, addresses and control groups are the machine's
 * too: a second cluster of another user's cache would collide with this one and has to find it.
 */
export const stateFolder = '/var/lib/etcd-operator-cluster';

/** Address plan. Nodes are 10.89.0.11 to .13, their Pods 10.244.1.0/24 to 10.244.3.0/24. */
export const bridge = 'etcdop0';
export const hostAddress = '10.89.0.1';
export const apiServerPort = 6443;
export const registryAddress = `${hostAddress}:5000`;
export const podNetwork = '10.244.0.0/16';
export const serviceNetwork = '10.96.0.0/16';
export const dnsAddress = '10.96.0.10';

/** The parent of every node's control groups. */
export const controlGroup = 'etcd-operator';

export const nodeNames = ['n1', 'n2', 'n3'] as const;
export type NodeName = (typeof nodeNames)[number];

export function isNodeName(name: string): name is NodeName {
  return (nodeNames as readonly string[]).includes(name);
}

function nodeIndex(node: NodeName): number {
  return nodeNames.indexOf(node) + 1;
}

export function nodeAddress(node: NodeName): string {
  return `10.89.0.${10 + nodeIndex(node)}`;
}

export function podSubnet(node: NodeName): string {
  return `10.244.${nodeIndex(node)}.0/24`;
}

/** The host's end of the cable to a node. */
export function cableName(node: NodeName): string {
  return `etcdop-${node}`;
}

export const pkiFolder = join(stateFolder, 'pki');
export const configFolder = join(stateFolder, 'config');
export const adminKubeconfig = join(configFolder, 'admin.kubeconfig');

/** What would be a node's disk: image store, volumes, kubelet's folder. */
export function nodeDisk(node: NodeName): string {
  return join(stateFolder, 'nodes', node);
}

/**
 * Where each node sees its own disk: the same path on all nodes, mounted in the node's mount namespace only. So one configuration fits all, and
 * a volume's path cannot lead to another node's data.
 */
export const diskInNode = join(stateFolder, 'node');

/** Kept on the disk and not in the node's /run, so that the host can reach it. */
export const containerdSocketInNode = join(diskInNode, 'containerd.sock');

export function containerdSocket(node: NodeName): string {
  return join(nodeDisk(node), 'containerd.sock');
}

export function daemon(name: string): Daemon {
  return {
    name,
    pidFile: join(stateFolder, 'processes', `${name}.json`),
    logFile: join(stateFolder, 'log', `${name}.log`),
  };
}
