/** Nodes, seen from a Pod or a volume: whether what is needed there can still come back. */
import type {
  Node,
  NodeSelectorRequirement,
  NodeSelectorTerm,
  PersistentVolume,
  PersistentVolumeClaim,
} from 'kubernetes-types/core/v1.js';
import { type Fact, known, type SeenHome, type SeenNode, unknown, unknownBy } from '../core/observed.ts';
import { resources, type Stored } from '../ports/kube.ts';
import type { World } from './world.ts';

export type NodeWorld = Pick<World, 'kube'> & { readonly caches: Pick<World['caches'], 'nodes'> };

/** On a volume that nobody has made yet: the node for which it is to be made, and where its Pod has to go then. */
const SELECTED_NODE = 'volume.kubernetes.io/selected-node';
const OUT_OF_SERVICE = 'node.kubernetes.io/out-of-service';

/** What is read of a Node and nothing else: some carry the names of fifty images. */
export const trimNode = (node: Stored<Node>): void => {
  const { name, uid, resourceVersion } = node.metadata;
  const taints = node.spec?.taints?.filter(({ key }) => key === OUT_OF_SERVICE);
  const conditions = node.status?.conditions?.filter(({ type }) => type === 'Ready');
  Object.assign(node, {
    metadata: { name, uid, resourceVersion },
    spec: { taints, unschedulable: node.spec?.unschedulable },
    status: { conditions },
  });
};

/** Undefined where its kubelet has never reported. */
export const seenNode = ({ spec, status }: Node): SeenNode | undefined => {
  const ready = status?.conditions?.find(({ type }) => type === 'Ready');
  if (ready === undefined) return undefined;
  if (ready.status === 'True') return spec?.unschedulable === true ? { is: 'ready', cordoned: true } : { is: 'ready' };
  if (spec?.taints?.some(({ key }) => key === OUT_OF_SERVICE) === true) return { is: 'outOfService' };
  const since = Date.parse(ready.lastTransitionTime ?? '');
  return Number.isNaN(since) ? undefined : { is: 'notReady', since };
};

/** A Pod can be heard of before its new node is, so only the API server's word counts for "gone". */
export const hostOf = async (world: NodeWorld, name: string, signal: AbortSignal): Promise<SeenNode | undefined> => {
  const cached = world.caches.nodes.get('', name);
  if (cached !== undefined) return seenNode(cached);
  try {
    const found = await world.kube.get({ resource: resources.nodes, name }, { signal });
    return found === undefined ? { is: 'gone' } : seenNode(found);
  } catch {
    return undefined;
  }
};

const wordOf = ({ key, operator, values = [] }: NodeSelectorRequirement): string | undefined => {
  switch (operator) {
    case 'In':
      return values.length === 1 ? `${key}=${values[0]}` : `${key} in (${values.join(',')})`;
    case 'NotIn':
      return `${key} notin (${values.join(',')})`;
    case 'Exists':
      return key;
    case 'DoesNotExist':
      return `!${key}`;
    default:
      return undefined;
  }
};

type Selection = { readonly labelSelector?: string; readonly fieldSelector?: string; readonly name: string };

/** The term as the API server selects by it; undefined where it cannot. */
const selectionOf = ({ matchExpressions = [], matchFields = [] }: NodeSelectorTerm): Selection | undefined => {
  // A term without any requirement matches no node.
  if (matchExpressions.length + matchFields.length === 0) return undefined;
  const words = matchExpressions.map(wordOf);
  const fields = matchFields.map((field) =>
    field.operator === 'In' && field.values?.length === 1 ? field : undefined,
  );
  if (words.includes(undefined) || fields.includes(undefined)) return undefined;
  const names = [...matchExpressions, ...matchFields].flatMap(({ values = [] }) => values);
  return {
    ...(words.length === 0 ? {} : { labelSelector: words.join(',') }),
    ...(fields.length === 0 ? {} : { fieldSelector: fields.map((one) => `${one?.key}=${one?.values?.[0]}`).join(',') }),
    name: names.length === 0 ? words.join(',') : names.join(', '),
  };
};

/** The one that gives most hope; of nodes that are away, the one that went last. */
const best = (nodes: readonly SeenNode[]): SeenNode =>
  nodes.find(({ is }) => is === 'ready') ??
  nodes
    .filter((node) => node.is === 'notReady')
    .toSorted((a, b) => b.since - a.since)
    .at(0) ??
  nodes.find(({ is }) => is === 'outOfService') ?? { is: 'gone' };

/**
 * Where this volume can be mounted, asked past every cache: an answer may end with the volume being given up. The
 * PersistentVolume is bound to its nodes by labels, so the API server itself picks them.
 */
export const homeOf = async (
  world: World,
  { metadata, spec }: Stored<PersistentVolumeClaim>,
  signal: AbortSignal,
): Promise<Fact<SeenHome> | undefined> => {
  const name = spec?.volumeName;
  if (name === undefined || name === '') {
    const selected = metadata.annotations?.[SELECTED_NODE];
    const node = selected === undefined ? undefined : await hostOf(world, selected, signal);
    return node === undefined ? undefined : known({ name: `node ${selected}`, node });
  }
  try {
    const volume = await world.kube.get<PersistentVolume>({ resource: resources.persistentvolumes, name }, { signal });
    if (volume === undefined) return unknown(`PersistentVolume ${name} does not exist`);
    const terms = volume.spec?.nodeAffinity?.required?.nodeSelectorTerms;
    if (terms === undefined) return known({ name: 'any node', node: { is: 'ready' } });
    const selections = terms.map(selectionOf);
    const nodes: SeenNode[] = [];
    for (const selection of selections) {
      if (selection === undefined) return unknown(`the node affinity of PersistentVolume ${name} is not understood`);
      const { labelSelector, fieldSelector } = selection;
      const { items } = await world.kube.list<Node>(resources.nodes, { labelSelector, fieldSelector, signal });
      for (const node of items) {
        const seen = seenNode(node);
        if (seen === undefined) return unknown(`node ${node.metadata.name} has not reported yet`);
        nodes.push(seen);
      }
    }
    return known({ name: `node ${selections.map((one) => one?.name).join(', ')}`, node: best(nodes) });
  } catch (error) {
    return unknownBy(error);
  }
};
