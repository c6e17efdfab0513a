import { cutPair, healPair, isCut, type Pair, replug, unplug } from './network.ts';
import { haltNodePrograms, nodeInit, powerOff, requireInit, startNodePrograms } from './node.ts';
import { type NodeName, nodeNames } from './places.ts';

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
  /** Starts what {@link stopNode} ended. The node is Ready a few seconds later. */
  startNode(node: NodeName): Promise<void>;
  /** Cuts a node off from everything, or only two nodes and their Pods from each other. Open connections hang. */
  cutLink(node: NodeName, other?: NodeName): Promise<void>;
  healLink(node: NodeName, other?: NodeName): Promise<void>;
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
  async healAll() {
    await Promise.all(nodeNames.map((node) => startNodePrograms(node)));
    for (const [index, node] of nodeNames.entries()) {
      await replug(node);
      for (const other of nodeNames.slice(index + 1)) await healPair(await pair(node, other));
    }
  },
};

/** The pairs of nodes that are cut from each other. */
export async function cutPairs(): Promise<[NodeName, NodeName][]> {
  const found: [NodeName, NodeName][] = [];
  for (const [index, node] of nodeNames.entries()) {
    for (const other of nodeNames.slice(index + 1)) {
      const member = (await nodeInit(node)) ?? (await nodeInit(other));
      if (member === undefined) continue;
      const seenFrom = (await nodeInit(node)) === undefined ? node : other;
      if (await isCut(member, seenFrom)) found.push([node, other]);
    }
  }
  return found;
}
