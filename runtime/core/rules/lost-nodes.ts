/**
 * Members whose node is away. A node that is silent may be off, or only cut off from the control plane with etcd still
 * running on it; nobody here can tell. So nothing on it is ever forced: it gets time to come back, and then its member is
 * taken out of etcd's list by the others and replaced under another name, which is right in both cases.
 */
import type { Instant, Patience, SeenNode, SeenPod, SeenVolume } from '../observed.ts';
import type { Situation, Slot } from '../situation.ts';
import type { Replacement } from './membership.ts';
import { repairHeld } from './repair-budget.ts';
import { isDataless, safeWithout } from './standing.ts';

/** A reboot takes minutes; the copy of a database that somebody has to make instead costs more than waiting for it. */
const PATIENCE: Patience = { nodeMs: 600_000, memoryNodeMs: 60_000 };

export type NodeLoss = {
  /** What is so and what will be done, without anything that ticks. */
  readonly says: string;
  /** In short, for the record of what is done about it. */
  readonly why: string;
  /** From when on the member counts as lost; absent while it does not for another reason. */
  readonly at: Instant | undefined;
  /** Somebody says that the machine is off, as against silence, which may end and begin again. */
  readonly proven: boolean;
};

const clockTime = (at: Instant): string => `${new Date(at).toISOString().slice(0, 19)}Z`;

const stateOf = (node: Exclude<SeenNode, { is: 'ready' }>): string =>
  node.is === 'gone'
    ? 'does not exist any more'
    : node.is === 'outOfService'
      ? 'is out of service'
      : `has not been ready since ${clockTime(node.since)}`;

export const isAway = (node: SeenNode | undefined): node is Exclude<SeenNode, { is: 'ready' }> =>
  node !== undefined && node.is !== 'ready';

const loss = (node: Exclude<SeenNode, { is: 'ready' }>, patienceMs: number, what: string): NodeLoss => {
  const at = node.is === 'notReady' ? node.since + patienceMs : 0;
  const then =
    node.is === 'notReady'
      ? `its member goes on when the node returns, and is replaced from ${clockTime(at)} on, or at once when the Node is deleted`
      : 'its member is replaced as soon as the others hold quorum';
  return {
    at,
    proven: node.is !== 'notReady',
    why: `${what} ${stateOf(node)}`,
    says: `${what} ${stateOf(node)}: ${then}`,
  };
};

/** How a slot suffers from the state of a node; undefined where it does not. */
export const nodeLoss = (s: Situation, slot: Slot): NodeLoss | undefined => {
  const { pod, volume, volatile } = slot;
  if (pod === undefined) return undefined;
  const { nodeMs, memoryNodeMs } = s.seen.patience ?? PATIENCE;
  const home = volume?.home;
  if (pod.node === undefined) {
    if (home?.known !== true || !isAway(home.value.node)) return undefined;
    return loss(home.value.node, nodeMs, `${home.value.name}, on which its volume is,`);
  }
  const { host, node } = pod;
  if (!isAway(host)) return undefined;
  // Kubernetes cannot reach it, and etcd can: its vote and its data are there, so nothing is lost.
  if (slot.identity.is === 'proven' && !pod.deleting) {
    const why = `node ${node} ${stateOf(host)}`;
    return { at: undefined, proven: false, why, says: `${why}, etcd on it still votes` };
  }
  if (volatile) return loss(host, memoryNodeMs, `node ${node}`);
  if (host.is === 'notReady') return loss(host, nodeMs, `node ${node}`);
  // Of such a node Kubernetes itself gives up the Pods. Where the volume can follow to another node, nothing is lost.
  if (home?.known === true && isAway(home.value.node)) return loss(home.value.node, nodeMs, home.value.name);
  const why = `node ${node} ${stateOf(host)}`;
  return {
    at: undefined,
    proven: false,
    why,
    says: `${why}: its Pod comes back on its volume once Kubernetes has given it up`,
  };
};

export const isLostWithNode = (s: Situation, slot: Slot): boolean => {
  const at = nodeLoss(s, slot)?.at;
  return at !== undefined && at <= s.seen.now;
};

/**
 * How the making of a new volume suffers from the state of a node. What is on it was fetched or copied, and no client has
 * written to it: making it once more costs less than a long wait and loses nothing, so it gets the patience of data in memory.
 */
export const fillingLoss = (
  s: Situation,
  pod: SeenPod | undefined,
  volume: SeenVolume | undefined,
): NodeLoss | undefined => {
  const home = volume?.home;
  const pinned = home?.known === true && isAway(home.value.node) ? home.value : undefined;
  const { memoryNodeMs } = s.seen.patience ?? PATIENCE;
  const lost = (node: Exclude<SeenNode, { is: 'ready' }>, what: string): NodeLoss => {
    const at = node.is === 'notReady' ? node.since + memoryNodeMs : 0;
    const why = `${what} ${stateOf(node)}`;
    const then = node.is === 'notReady' ? `from ${clockTime(at)} on, unless the node returns` : 'now';
    return {
      at,
      proven: node.is !== 'notReady',
      why,
      says: `${why}: what was begun there is begun anew elsewhere ${then}`,
    };
  };
  if (pod?.node !== undefined) {
    const { node, host } = pod;
    if (!isAway(host)) return undefined;
    if (host.is === 'notReady' || volume === undefined) return lost(host, `node ${node}`);
  }
  if (pinned !== undefined && isAway(pinned.node))
    return lost(pinned.node, `${pinned.name}, on which the new volume is,`);
  if (pod?.node === undefined) return undefined;
  // Kubernetes itself gives up the Pods of such a node, and this volume can follow to another one.
  const why = `node ${pod.node} is away for good`;
  return { at: undefined, proven: false, why, says: `${why}: it goes on once Kubernetes has given up Pod ${pod.name}` };
};

/**
 * Was asked to end, and ends when its node returns or Kubernetes gives it up. What only fills a new volume, or starts on one that
 * no client has been let to, is not waited for: its names are never used again.
 */
export const isLeftBehind = ({ deleting, host }: SeenPod): boolean => deleting && isAway(host);

/** The reading of {@link nodeLoss} for who votes; learners are redone by whoever adds them. */
export const lostWithNodes = (s: Situation): readonly Replacement[] =>
  s.held.flatMap((slot) => {
    const { entry } = slot;
    if (!entry.known || entry.value === undefined || entry.value.isLearner) return [];
    const found = nodeLoss(s, slot);
    if (found === undefined || !isLostWithNode(s, slot) || isDataless(slot)) return [];
    const safe = safeWithout(s, entry.value.id);
    const { why, proven } = found;
    // What is proven happens as often as somebody proves it. A link that comes and goes must not make members for ever.
    if (proven) return [{ slot, why, reason: 'NodeLost', safe }];
    const instead = repairHeld(s, slot, 'NodeLost', why);
    return [{ slot, why, reason: 'NodeLost', cause: 'NodeLost', safe: safe && instead === undefined, instead }];
  });

/**
 * Was asked to end and stands on a node that is away for good: whether it is gone nobody will ever hear. Enough for letting
 * go of what else waits for it, never for starting anything on its volume.
 */
export const isAbandoned = (s: Situation, { deleting, host }: SeenPod): boolean =>
  deleting &&
  isAway(host) &&
  (host.is !== 'notReady' || host.since + (s.seen.patience ?? PATIENCE).nodeMs <= s.seen.now);
