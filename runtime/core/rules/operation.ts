/** Membership changes in flight. */
import { hasPeerURL, incarnationName, peerURL } from '../../../api/names.ts';
import { joiningConfig, peerScheme } from '../member-config.ts';
import { isOutdated } from '../rollout.ts';
import { isHealthyVoter, type Situation, type Slot } from '../situation.ts';
import type { Step } from '../steps.ts';
import { differing } from './corrupt.ts';
import { damagedData, damageOf, isRuinedLearner, isWorthKeeping } from './damaged-data.ts';
import { admit, configure, locked } from './identity.ts';
import { isLostWithNode, lostWithNodes } from './lost-nodes.ts';
import { removingOrphan } from './orphans.ts';
import { revive } from './restart.ts';
import { named, RETRY_MS, type Rule, STARTING_RECHECK_MS, wait } from './rule.ts';
import {
  isDataless,
  isPodless,
  isProvenStart,
  isRefused,
  isTerminal,
  leftovers,
  livesOnlyIn,
  placement,
  refusalOf,
  refusedSpec,
  safeWithout,
  untilTheyVote,
  wasBegun,
} from './standing.ts';

/** Voters that should go because they cannot come back; a scale-up must not keep them waiting. */
const isBeyondHope = (s: Situation, slot: Slot): boolean => {
  const { entry } = slot;
  if (!entry.known) return false;
  if ([...lostWithNodes(s), ...damagedData(s), ...differing(s)].some((one) => one.slot === slot && one.safe))
    return true;
  // A person gave up on it and it is not well: whoever is added waits for the very member that is to go.
  const givenUp = (slot.member.deleting || livesOnlyIn(slot)) && !isHealthyVoter(slot) && slot.pod?.ready !== true;
  const beyond = entry.value === undefined || (!entry.value.isLearner && (isDataless(slot) || givenUp));
  return beyond && safeWithout(s, entry.value?.id);
};

const adding = (
  s: Situation,
  slot: Slot | undefined,
  operation: { incarnation?: string; target: string },
): Step | undefined => {
  const { membership, cluster, namespace } = s.seen;
  const { incarnation, target } = operation;
  const end = (outcome: 'joined' | 'abandoned'): Step => ({
    do: 'EndOperation',
    kind: 'AddMember',
    target,
    outcome,
    pods: [],
    volumes: [],
  });
  if (!membership.known) return undefined;
  const { members } = membership.value;
  const own = incarnation === undefined ? undefined : incarnationName(target, incarnation);
  const entry = members.find(({ peerURLs }) => own !== undefined && hasPeerURL(peerURLs, cluster, namespace, own));
  const others = s.held.filter(({ member }) => member.name !== target);
  const unwanted =
    slot === undefined ||
    slot.member.deleting ||
    incarnation === undefined ||
    s.held.length > (s.quorum?.spec.replicas ?? 0);
  const urgent = others.some((other) => isBeyondHope(s, other));

  if (entry === undefined) {
    // Begun and not listed: it was listed once, and its token is spent. What stands in the slot is cleared by the rules
    // below, and a new operation draws a new token. Listed once and never begun, nothing has ever run under it.
    const spent = slot !== undefined && wasBegun(slot, incarnation ?? '');
    if (unwanted || urgent || spent || own === undefined || members.some(({ isLearner }) => isLearner)) {
      return end('abandoned');
    }
    // etcd refuses to add anyone while a voter is not connected.
    const unwell = others.filter((other) => !isHealthyVoter(other));
    if (unwell.length > 0) return untilTheyVote(`${target} is added`, unwell);
    return { do: 'AddLearner', target, peerURL: peerURL(cluster, namespace, own, peerScheme(slot)) };
  }
  // Once it votes the change is made. What may still befall it is for the rules of a running cluster, which need the
  // operation out of their way.
  if (!entry.isLearner) {
    // Its kubelet finds it ready a second later; the next one need not wait for that, the last one tells that all is done.
    const more = s.held.length < (s.quorum?.spec.replicas ?? 0);
    const admitted = slot?.pod?.voterRole === true && isProvenStart(slot.pod) && isHealthyVoter(slot);
    const ruined = (of: Slot): boolean =>
      isDataless(of) || livesOnlyIn(of) || isLostWithNode(s, of) || damageOf(of) !== undefined;
    return unwanted || urgent || slot.serving || (more && admitted) || ruined(slot) ? end('joined') : undefined;
  }

  const drop: Step = { do: 'RemoveMember', target, memberID: entry.id };
  if (unwanted) return drop;
  const { pod, volume, memory } = slot;
  // A learner whose data was lost before it could vote is redone, not repaired.
  const begun = wasBegun(slot, incarnation);
  if (begun && (memory ? isPodless(slot) : volume === undefined || volume.deleting)) return drop;
  // A person is asked about its data. A voter that has to be replaced does not wait for the answer: the volume is kept.
  if (isRefused(slot)) return urgent ? drop : undefined;
  if (begun && (isLostWithNode(s, slot) || isRuinedLearner(slot))) return drop;
  if (urgent && pod?.container.state !== 'running') return drop;
  // Made anew by the rules for any Pod: what ended, and what cannot start as the claim no longer wants it.
  const stuck = isOutdated(slot) && pod?.container.state !== 'running';
  if (stuck && memory) return drop;
  if (pod !== undefined && (isTerminal(pod) || stuck)) return undefined;
  // etcd learns a member's name when it has joined. One that never has can have been given the wrong list: an older one, or, by
  // a blackout, its own name alone. It would find no cluster by that, however often it is started.
  const neverJoined = pod?.container.id === undefined || (pod.container.state !== 'running' && entry.name === '');
  if (pod === undefined || (neverJoined && !pod.deleting)) {
    const refused = refusedSpec([slot]);
    if (refused !== undefined) return refused;
    const config = joiningConfig(s, slot, incarnation);
    if (config === undefined) return wait('Adding', `the list that ${target} has to join is not complete`, RETRY_MS);
    if (pod === undefined) {
      return {
        do: 'BringUp',
        why: `${target} joins as a learner`,
        places: [placement(slot, incarnation, config, !memory && !begun)],
      };
    }
    if (pod.config !== config.text) {
      return {
        do: 'Configure',
        why: 'it has not joined yet, and this is the list to join by',
        pods: [{ ...named(pod), config: config.text }],
      };
    }
    return wait('Adding', `${target} has not started yet`, RETRY_MS);
  }
  // It cannot be locked any more, and what is promoted now would be a voter that is down.
  if (pod.deleting) return wait('Adding', `the Pod of ${target} is ending`, RETRY_MS);
  if (pod.container.state === 'running' && slot.identity.is === 'proven') {
    // From its first vote on it must not be able to start on an empty disk.
    const locking = locked(s, slot);
    if (locking !== undefined) return { do: 'Configure', why: 'it is locked before it votes', pods: [locking] };
    return { do: 'Promote', target, memberID: entry.id };
  }
  const why = slot.identity.is === 'unknown' ? ` (${slot.identity.why})` : '';
  return wait('Adding', `${target} is starting as a learner${why}`, STARTING_RECHECK_MS);
};

const removing = (
  s: Situation,
  slot: Slot | undefined,
  operation: { kind: 'RemoveMember' | 'ReplaceMember'; memberID?: string; target: string; cause?: string },
): Step | undefined => {
  const { membership } = s.seen;
  if (!membership.known) return undefined;
  const { target, kind } = operation;
  const { members } = membership.value;
  const entry = members.find(({ id }) => id === operation.memberID);
  if (entry !== undefined) {
    // Nothing is lost yet, so what has changed since this was begun counts again.
    const regretted =
      kind === 'RemoveMember'
        ? s.held.length <= (s.quorum?.spec.replicas ?? 0)
        : operation.cause !== undefined && slot?.serving === true;
    if (regretted || (!entry.isLearner && !safeWithout(s, entry.id))) {
      return { do: 'EndOperation', kind, target, outcome: 'abandoned', pods: [], volumes: [] };
    }
    if (entry.id === s.leaderID) {
      const successor = s.held.find((other) => other.memberID !== entry.id && isHealthyVoter(other));
      if (successor?.memberID !== undefined) return { do: 'MoveLeader', from: entry.id, to: successor.memberID };
    }
    return { do: 'RemoveMember', target, memberID: entry.id };
  }
  // Asked to end is enough: the next incarnation has other names, and a Pod on a dead node may never be gone.
  const pods = slot === undefined ? [] : leftovers(s, slot.member, slot.member.pods);
  const volumes = slot === undefined ? [] : leftovers(s, slot.member, slot.member.volumes);
  const mayBeLookedAt = isWorthKeeping(operation.cause) && slot?.member.spec.storage.retention === 'Retain';
  // Somebody else's data, as far as anybody knows. Only whoever deletes the EtcdMember gives it up.
  const keep = mayBeLookedAt || (slot !== undefined && !slot.member.deleting && refusalOf(slot) !== undefined);
  if (keep && pods.length + volumes.length > 0) {
    return { do: 'Retire', target, pods: pods.map(named), volumes: volumes.map(named), keep };
  }
  return {
    do: 'EndOperation',
    kind,
    target,
    outcome: kind === 'RemoveMember' ? 'removed' : 'emptied',
    pods: pods.map(named),
    volumes: volumes.map(named),
  };
};

/**
 * A learner may wait for a node for hours, and the others must not wait with it: whose Pod is gone comes back, and who was started
 * anew is proven and opened to clients. Where there are passwords the learner waits for them in its turn, since only a
 * voter that serves gives out the token by which it can be asked.
 */
const meanwhile = (s: Situation, target: string): Step | undefined => {
  const revived = revive.answer(s);
  const others = revived?.do !== 'BringUp' || revived.places.every(({ member }) => member.name !== target);
  return (others ? revived : undefined) ?? configure.answer(s) ?? admit.answer(s);
};

export const operation: Rule = {
  name: 'operation',
  answer: (s) => {
    const inFlight = s.quorum?.status.operation;
    if (inFlight === undefined || s.latch === undefined) return undefined;
    const { target, kind } = inFlight;
    const slot = s.slots.find(({ member }) => member.name === target);
    if (target !== undefined && kind === 'AddMember') {
      const step = adding(s, slot, { ...inFlight, target });
      return (step?.do === 'Wait' ? meanwhile(s, target) : undefined) ?? step;
    }
    if (target !== undefined && (kind === 'RemoveMember' || kind === 'ReplaceMember')) {
      return removing(s, slot, { ...inFlight, kind, target });
    }
    if (target !== undefined && kind === 'RemoveOrphan') return removingOrphan(s, { ...inFlight, target });
    return {
      do: 'AskHuman',
      reason: 'OperationUnknown',
      message: `${kind} of ${target ?? 'nothing'} is in flight, which this version of the runtime cannot carry on`,
    };
  },
};
