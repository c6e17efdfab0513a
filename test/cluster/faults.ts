import { startControlPlane } from './control-plane.ts';
import { cutPair, healPair, isCut, type Pair, replug, unplug } from './network.ts';
import { haltNodePrograms, nodeInit, powerOff, requireInit, startNodePrograms } from './node.ts';
import { daemon, type NodeName, nodeNames } from './places.ts';
import { stopDaemon } from './processes.ts';

/**
 * Faults of nodes and of the network between them. Each is idempotent. A node that loses power forgets what was cut between it and others, as
 * these cuts are rules in its own network.
 */
export type Faults = {
  /**
   * Takes a node away. `programs`: kubelet and container runtime are killed, its Pods run on. `power`: everything on it ends at
   * once, with its memory volumes; what is on its disk stays.
   */
  stopNode(node: NodeName, loss: 'programs' | 'power'): Promise<void>;
  /** Starts what {@link stopNode} ended, and returns when the node has reported itself Ready; at once where it cannot reach the API server. */
  startNode(node: NodeName): Promise<void>;
  /** Cuts a node off from everything, or only two nodes and their Pods from each other. Open connections hang. */
  cutLink(node: NodeName, other?: NodeName): Promise<void>;
  healLink(node: NodeName, other?: NodeName): Promise<void>;
  /**
   * Kills the API server, and scheduler and controller manager with it: elsewhere they end by themselves when they cannot renew
   * their leases for ten seconds. Everybody else who watches it has to find their way back when it starts again.
   */
  stopApiServer(): Promise<void>;
  /** Returns when the API server is ready. */
  startApiServer(): Promise<void>;
  /** Undoes all faults, for the end of a test. */
  healAll(): Promise<void>;
};

async function pair(node: NodeName, other: NodeName): Promise<Pair> {
  if (node === other) throw new Error(`a link has two ends, and both given are ${node}`);
  return [
    { node, member: await requireInit(node) },
    { node: other, member: await requireInit(other) },
  ];
}

export const localFaults: Faults = {
  stopNode: (node, loss) => (loss === 'power' ? powerOff(node) : haltNodePrograms(node)),
  startNode: (node) => startNodePrograms(node),
  cutLink: async (node, other) => (other === undefined ? unplug(node) : cutPair(await pair(node, other))),
  healLink: async (node, other) => (other === undefined ? replug(node) : healPair(await pair(node, other))),
  async stopApiServer() {
    // Without leases to lose (they are not elected here) they would run on and wait for up to a minute and more before they look again.
    for (const program of ['kube-scheduler', 'kube-controller-manager', 'kube-apiserver'] as const) {
      await stopDaemon(daemon(program), 0);
    }
  },
  startApiServer: startControlPlane,
  async healAll() {
    await startControlPlane();
    await Promise.all(
      nodeNames.map(async (node) => {
        // In this order, as only a node with a network can report itself Ready.
        if ((await nodeInit(node)) !== undefined) await replug(node);
        await startNodePrograms(node);
      }),
    );
    for (const [node, other] of nodePairs()) await healPair(await pair(node, other));
  },
};

function nodePairs(): [NodeName, NodeName][] {
  return nodeNames.flatMap((node, index) =>
    nodeNames.slice(index + 1).map((other): [NodeName, NodeName] => [node, other]),
  );
}

/** The pairs of nodes that are cut from each other. A node that is off has no cuts. */
export async function cutPairs(): Promise<[NodeName, NodeName][]> {
  const found: [NodeName, NodeName][] = [];
  for (const [node, other] of nodePairs()) {
    const members = await Promise.all([nodeInit(node), nodeInit(other)]);
    const cuts = await Promise.all([
      members[0] !== undefined && isCut(members[0], other),
      members[1] !== undefined && isCut(members[1], node),
    ]);
    if (cuts.includes(true)) found.push([node, other]);
  }
  return found;
}
