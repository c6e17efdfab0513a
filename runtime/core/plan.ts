/**
 * What to do next about one cluster: an ordered list of named rules, the first that answers wins, one step a pass. The
 * order is the policy; read it from top to bottom. Nothing here asks the world anything.
 */

import type { EtcdQuorumBootstrap } from '../../api/etcdquorum.gen.ts';
import { incarnationName, peerURL } from '../../api/names.ts';
import type { Reason } from '../../api/reasons.ts';
import { etcdMinor, optionProblems } from './etcd-config.ts';
import {
  blackoutConfig,
  formingConfig,
  isLocked,
  joiningConfig,
  type MemberConfig,
  nextConfig,
  relocked,
} from './member-config.ts';
import type { Observed, SeenMember, SeenPod, SeenVolume } from './observed.ts';
import { isOutdated, nextToRoll, outdatedIdle, rolloutRefusal, volumesToGrow } from './rollout.ts';
import { classify, isHealthyVoter, isLeader, majority, type Situation, type Slot, sketch } from './situation.ts';
import type { ObjectName, Placement, Step } from './steps.ts';

type Rule = { readonly name: string; readonly answer: (s: Situation) => Step | undefined };

export type Decision = {
  readonly rule: string;
  readonly step: Step;
  /** The rules that had nothing to say, in order, then the one that answered. */
  readonly tried: readonly string[];
  readonly sketch: string;
  readonly situation: Situation;
};

const FORMING_RECHECK_MS = 100;
const STARTING_RECHECK_MS = 500;
const RETRY_MS = 2_000;
/** Longest that a complete set of running members may be without a leader before the attempt counts as failed. */
const NO_LEADER_MS = 120_000;

const named = ({ name, uid }: ObjectName): ObjectName => ({ name, uid });
const wait = (reason: Reason, message: string, recheckMs?: number): Step => ({
  do: 'Wait',
  reason,
  message,
  ...(recheckMs === undefined ? {} : { recheckMs }),
});

const isTerminal = (pod: SeenPod): boolean => pod.phase === 'Failed' || pod.phase === 'Succeeded';
/** There is something in the slot that would be left behind without the member's finalizer. */
export const isStanding = ({ pod, volume }: Slot): boolean => pod !== undefined || volume !== undefined;
const allPods = (s: Situation): readonly SeenPod[] => s.slots.flatMap(({ member }) => member.pods);
const allVolumes = (s: Situation) => s.slots.flatMap(({ member }) => member.volumes);
const podName = (slot: Slot, incarnation: string): string => incarnationName(slot.member.name, incarnation);

/** The references are written before anything exists, so their presence means: it may have existed. */
const wasBegun = (slot: Slot, incarnation: string): boolean => slot.member.claimedPod === podName(slot, incarnation);

const REFUSALS: readonly Reason[] = ['ForeignData', 'ForeignIdentity', 'RevisionTooLow'];

/** Why the data of this slot was refused, if it was: its Pod stays down until a person has decided. */
const refusalOf = ({ member }: Slot): Reason | undefined =>
  member.status.phase === 'Failed'
    ? REFUSALS.find((refusal) =>
        (member.status.conditions ?? []).some(({ type, reason }) => type === 'Ready' && reason === refusal),
      )
    : undefined;
const isRefused = (slot: Slot): boolean => refusalOf(slot) !== undefined && !slot.member.retry;

const isPodless = ({ pod }: Slot): boolean => pod === undefined || isTerminal(pod);
const isVolumeless = ({ volume }: Slot): boolean => volume === undefined || volume.deleting;
/** The data of a slot lives in its volume, and in memory as long as its Pod. */
const isDataless = (slot: Slot): boolean =>
  slot.volatile
    ? isPodless(slot) || isStranded(slot)
    : (slot.pod === undefined || isStranded(slot)) && isVolumeless(slot);
/** A Pod without a node has never run, and one whose volume went before that never will. */
const isStranded = (slot: Slot): boolean =>
  !slot.memory && slot.pod !== undefined && slot.pod.node === undefined && isVolumeless(slot);

/** Whether the volume was deleted and waits for the Pod to end. */
const livesOnlyIn = ({ pod, volume }: Slot): boolean =>
  pod !== undefined && !pod.deleting && !isTerminal(pod) && volume?.deleting === true;

// ---------------------------------------------------------------------------------------------------------- deletion

const teardown = (s: Situation, slots: readonly Slot[], why: string): Step => {
  const { budget } = s.seen;
  const step = {
    pods: slots.flatMap(({ member }) => member.pods.filter((pod) => !pod.deleting).map(named)),
    // A volume goes only when no Pod of its slot is left that could still write to it.
    volumes: slots
      .filter(({ member }) => member.pods.length === 0)
      .flatMap(({ member }) =>
        member.volumes
          .filter((volume) => !volume.deleting)
          .map((volume) => ({ ...named(volume), retain: member.spec.storage.retention === 'Retain' })),
      ),
    release: slots
      .filter(({ member }) => member.finalized && member.pods.length === 0 && member.volumes.length === 0)
      .map(({ member }) => named(member)),
    budget: budget !== undefined && !budget.deleting ? { name: s.seen.cluster, uid: budget.uid } : undefined,
  };
  const idle = step.pods.length + step.volumes.length + step.release.length === 0 && step.budget === undefined;
  return idle
    ? wait('Deleting', `${why}; waiting for Pods and volumes to end`, RETRY_MS)
    : { do: 'Teardown', why, ...step };
};

/**
 * An orphaned cluster's members can be swept away after all: a reconcile of Crossplane that began before the orphaning puts the
 * old owner back on what it composes, and the garbage collector then takes that for children of a claim that is gone. It never
 * puts it back on Pods, which Crossplane does not compose. So a live Pod without a controller means: its claim was orphaned,
 * somebody wants this data. In a background or foreground deletion Pods keep their reference and are deleted by it.
 */
const wasOrphaned = (s: Situation): boolean =>
  allPods(s).some(({ deleting, controllerUID }) => !deleting && controllerUID === undefined);

const letGo = (slots: readonly Slot[]): Step => {
  const members = slots.filter(({ member }) => member.finalized).map(({ member }) => named(member));
  const why = 'the EtcdCluster was orphaned: Pods and volumes stay, for a claim that is applied again';
  return members.length > 0 ? { do: 'LetGo', why, members } : wait('Deleting', why, RETRY_MS);
};

/**
 * Why a member has a deletion timestamp is decided in this order, from facts read past every cache. The namespace first:
 * its Pods die before its members are marked. Then the claim: a claim applied again while members terminate adopts them
 * silently, so what counts is the claim they were made for.
 */
const deletion: Rule = {
  name: 'deletion',
  answer: (s) => {
    const { namespaceTerminating, claim } = s.seen;
    const marked = s.slots.filter(({ member }) => member.deleting);
    if (namespaceTerminating.known && namespaceTerminating.value) {
      const why = 'the namespace is being deleted';
      return marked.length > 0 ? teardown(s, marked, why) : wait('Deleting', `${why}; nothing is repaired`, RETRY_MS);
    }
    if (claim.known && claim.value.exists && claim.value.deleting && marked.length === 0) {
      return wait('Deleting', 'the EtcdCluster is being deleted; nothing is repaired', RETRY_MS);
    }
    if (claim.known && !claim.value.exists && s.quorum?.controllerUID !== undefined && marked.length === 0) {
      return wait('Deleting', 'the EtcdCluster is gone and its objects follow; nothing is repaired', RETRY_MS);
    }
    if (marked.length === 0) return undefined;
    if (!namespaceTerminating.known) {
      return wait('Deleting', `the namespace cannot be read: ${namespaceTerminating.why}`, RETRY_MS);
    }
    if (!claim.known) return wait('Deleting', `the EtcdCluster cannot be read: ${claim.why}`, RETRY_MS);
    const now = claim.value;
    // Where unmarked members live on, under the claim that was applied again or orphaned under none, this is their
    // cluster still: then a marked one is replaced like any other. Taking it down could cost the rest their quorum.
    const owner = now.exists ? now.uid : undefined;
    // Collected for a claim that is gone, while its Pod tells that the cluster was orphaned: only the object goes.
    const swept = marked.filter(
      ({ member, pod }) =>
        member.controllerUID !== undefined &&
        member.controllerUID !== owner &&
        pod?.deleting === false &&
        pod.controllerUID === undefined,
    );
    if (swept.length > 0) return letGo(swept);
    const lives = ({ member }: Slot): boolean =>
      !member.deleting && (member.controllerUID === undefined || member.controllerUID === owner);
    if (!(now.exists && now.deleting) && s.held.some(lives)) return undefined;
    if (!now.exists || now.deleting) {
      return wasOrphaned(s) ? letGo(marked) : teardown(s, marked, 'the EtcdCluster was deleted');
    }
    const old = marked.filter(({ member }) => member.firstClaim !== undefined && member.firstClaim !== now.uid);
    if (old.length > 0 && wasOrphaned(s)) return letGo(old);
    return old.length > 0 ? teardown(s, old, 'they belong to an EtcdCluster of this name that was deleted') : undefined;
  },
};

/** A member that somebody deleted and that nothing is left of. */
const release: Rule = {
  name: 'release',
  answer: (s) => {
    const gone = s.slots.filter(
      ({ member, entry }) =>
        member.deleting &&
        member.finalized &&
        member.pods.length === 0 &&
        member.volumes.length === 0 &&
        (s.latch === undefined || (entry.known && entry.value === undefined)),
    );
    return gone.length === 0
      ? undefined
      : {
          do: 'Teardown',
          why: 'nothing is left of the member',
          pods: [],
          volumes: [],
          release: gone.map(({ member }) => named(member)),
          budget: undefined,
        };
  },
};

// ------------------------------------------------------------------------------------------------------- identity

/** Before anything else that may take time: whoever is not proven in this very container start serves nobody. */
const dismiss: Rule = {
  name: 'dismiss',
  answer: (s) => {
    const pods = s.slots.flatMap(({ member }) =>
      member.pods.filter(
        ({ voterRole, container, verifiedContainer }) =>
          voterRole && (container.state !== 'running' || container.id !== verifiedContainer),
      ),
    );
    return pods.length === 0
      ? undefined
      : { do: 'Dismiss', why: 'its container started again and has to be proven', pods: pods.map(named) };
  },
};

const impostor: Rule = {
  name: 'impostor',
  answer: (s) => {
    const foreign = s.held.flatMap(({ member, pod, identity, entry }) =>
      identity.is === 'foreign' && pod !== undefined && !pod.deleting ? [{ member, pod, identity, entry }] : [],
    );
    const [first] = foreign.filter(({ pod }) => !isProvenStart(pod));
    if (first !== undefined) {
      const { member, pod, identity } = first;
      return { do: 'StopImpostor', member: named(member), pod: named(pod), reason: identity.reason, why: identity.why };
    }
    // Data does not change under a running etcd: what changed since this very start was proven is the record of it.
    // Whom etcd does not list is replaced whatever it runs as.
    const [contradicted] = foreign.filter(({ entry }) => !entry.known || entry.value !== undefined);
    return contradicted === undefined
      ? undefined
      : {
          do: 'AskHuman',
          reason: contradicted.identity.reason,
          message: `${contradicted.identity.why}, and it was proven right when it started: the records of this cluster contradict each other`,
        };
  },
};

/** Whether this container start has been proven. */
const isProvenStart = ({ container, verifiedContainer }: SeenPod): boolean =>
  container.state === 'running' && container.id !== undefined && container.id === verifiedContainer;

const record: Rule = {
  name: 'record',
  answer: (s) => {
    const { quorum, seen } = s;
    if (quorum === undefined) return wait('Creating', 'the EtcdQuorum is missing; Crossplane makes it again');
    const claim = seen.claim.known && seen.claim.value.exists ? seen.claim.value : undefined;
    const strange =
      claim !== undefined && quorum.status.clusterUID !== undefined && quorum.status.clusterUID !== claim.uid;
    if (
      strange &&
      allPods(s).length === 0 &&
      allVolumes(s).length === 0 &&
      seen.members.every(({ status }) => status.clusterID === undefined)
    ) {
      return {
        do: 'ForgetRecord',
        why: `it tells of a deleted EtcdCluster of this name (UID ${quorum.status.clusterUID}) and nothing of that is left`,
      };
    }
    if (claim !== undefined && !claim.deleting && quorum.controllerUID === claim.uid) {
      const stale =
        strange ||
        seen.members.some(
          ({ firstClaim, deleting }) => !deleting && firstClaim !== undefined && firstClaim !== claim.uid,
        ) ||
        allPods(s).some(({ controllerUID, deleting }) => !deleting && controllerUID !== claim.uid) ||
        (seen.budget !== undefined && !seen.budget.deleting && seen.budget.controllerUID !== claim.uid) ||
        // Made again by Crossplane around a Pod or volume that was let go.
        (s.latch !== undefined &&
          s.held.some((slot) => !slot.member.deleting && !slot.member.finalized && isStanding(slot)));
      if (stale) return { do: 'Adopt', clusterUID: claim.uid };
    }
    if (s.latch !== undefined && quorum.status.clusterID !== s.latch) return { do: 'Latch', clusterID: s.latch };
    return undefined;
  },
};

// ------------------------------------------------------------------------------------------------------ bootstrap

const refusedSpec = (slots: readonly Slot[]): Step | undefined => {
  for (const { member } of slots) {
    if (etcdMinor(member.spec.version) === undefined) {
      return {
        do: 'AskHuman',
        reason: 'VersionUnsupported',
        message: `etcd ${member.spec.version} is not supported: there is no configuration for its minor version`,
      };
    }
    const [problem] = optionProblems(member.spec.options ?? {});
    if (problem !== undefined) return { do: 'AskHuman', reason: 'OptionsRefused', message: problem };
  }
  return undefined;
};

const clearing = (s: Situation, why: string): Step | undefined => {
  const pods = allPods(s);
  const volumes = allVolumes(s);
  if (pods.length + volumes.length === 0) return undefined;
  const step = {
    pods: pods.filter(({ deleting }) => !deleting).map(named),
    volumes: pods.length > 0 ? [] : volumes.filter(({ deleting }) => !deleting).map(named),
  };
  return step.pods.length + step.volumes.length > 0
    ? { do: 'ClearAttempt', ...step }
    : wait('BootstrapRestarted', `${why}; waiting until its Pods and volumes are proven gone`, RETRY_MS);
};

/**
 * Of the slots that there are the lowest: which ordinals exist is Crossplane's affair, and slots that are left from a
 * larger size or a member that somebody deleted may leave holes.
 */
const newAttempt = (s: Situation, replicas: number, attempt: number): Step => {
  const slots = s.slots.filter(({ member }) => !member.deleting).slice(0, replicas);
  if (slots.length < replicas) {
    return wait(
      'Creating',
      `waiting for Crossplane to make ${replicas} EtcdMembers; there are ${slots.length}`,
      RETRY_MS,
    );
  }
  return refusedSpec(slots) ?? { do: 'RecordAttempt', attempt, members: slots.map(({ member }) => member.name) };
};

/** Why the attempt cannot succeed any more, or must not: what it was made of has changed. */
const failureOf = (s: Situation, slot: Slot, incarnation: string): string | undefined => {
  const { member, pod, volume, memory } = slot;
  const begun = wasBegun(slot, incarnation);
  if (member.deleting) return `EtcdMember ${member.name} was deleted`;
  if (begun && !memory && (volume === undefined || volume.deleting)) return `the volume of ${member.name} was lost`;
  if (begun && memory && (pod === undefined || pod.deleting)) return `the Pod of memory member ${member.name} was lost`;
  if (pod !== undefined && memory && isTerminal(pod)) return `the Pod of memory member ${member.name} ended`;
  if (pod !== undefined && pod.templateHash !== member.templateHash)
    return `the claim changed what ${member.name} runs`;
  if (pod !== undefined && pod.config !== formingConfig(s, slot, incarnation)?.text) {
    return `the claim changed the options of ${member.name}`;
  }
  return undefined;
};

const isOfAttempt = ({ members }: EtcdQuorumBootstrap, name: string): boolean =>
  members.some((one) => incarnationName(one.name, one.incarnation) === name);

/**
 * Whoever reports a leader has formed the cluster: from then on it exists, whatever else is wrong. Except where it could
 * not live: a given up attempt, or one that a majority of its Pods has left, holds nothing that a client wrote, and
 * would be latched only to be mourned.
 */
const formed = (s: Situation, attempt: EtcdQuorumBootstrap | undefined): Step | undefined => {
  const pods = allPods(s);
  const reports = (pod: SeenPod): string[] =>
    pod.etcd.known && pod.etcd.value.leaderId !== undefined ? [pod.etcd.value.clusterId] : [];
  const [served] = pods.filter(({ verifiedContainer }) => verifiedContainer !== undefined).flatMap(reports);
  if (served !== undefined) return { do: 'Latch', clusterID: served };
  if (attempt?.abandoned !== undefined) return undefined;

  // A Pod of another attempt has no say; it ends with this attempt, or as a stray of the cluster.
  const own = attempt === undefined ? pods : pods.filter(({ name }) => isOfAttempt(attempt, name));
  const [first, second] = [...new Set(own.flatMap(reports))].toSorted();
  if (first === undefined) return undefined;
  if (second !== undefined) {
    return {
      do: 'AskHuman',
      reason: 'ForeignData',
      message: `members report two cluster IDs, ${first} and ${second}: keep the Pods and volumes and report this`,
    };
  }
  const { membership } = s.seen;
  if (attempt === undefined && !membership.known) {
    return wait('ClusterUnreachable', `the members of cluster ${first} cannot be listed: ${membership.why}`, RETRY_MS);
  }
  const size = attempt?.members.length ?? (membership.known ? membership.value.members.length : 0);
  const staying = own.filter(({ deleting, container }) => !deleting && container.state === 'running').length;
  return staying >= majority(size) ? { do: 'Latch', clusterID: first } : undefined;
};

/**
 * One recorded attempt at a time. Its size and names are fixed before anything exists and are not read from the claim
 * again; whatever it loses ends it, because a second set of names, or a second first start on an empty volume, can form
 * a second cluster.
 */
const bootstrap: Rule = {
  name: 'bootstrap',
  answer: (s) => {
    const { quorum, latch, seen } = s;
    if (latch !== undefined || quorum === undefined) return undefined;

    const replicas = quorum.spec.replicas;
    const attempt = quorum.status.bootstrap;
    const exists = formed(s, attempt);
    if (exists !== undefined) return exists;

    if (attempt === undefined || attempt.abandoned !== undefined) {
      const why = attempt?.abandoned ?? 'there is no record of this attempt';
      // The claim is one of the witnesses that a cluster has existed, and nothing is begun in what is being deleted.
      if (!seen.claim.known)
        return wait('Bootstrapping', `the EtcdCluster cannot be read: ${seen.claim.why}`, RETRY_MS);
      if (!seen.namespaceTerminating.known) {
        return wait('Bootstrapping', `the namespace cannot be read: ${seen.namespaceTerminating.why}`, RETRY_MS);
      }
      const served = allPods(s).find(({ verifiedContainer }) => verifiedContainer !== undefined);
      if (served !== undefined) {
        return wait('ClusterUnreachable', `${served.name} has served this cluster and does not answer`, RETRY_MS);
      }
      const clear = clearing(s, why);
      if (clear !== undefined) return clear;
      if (replicas === 0) return wait('Paused', 'no cluster is formed until replicas is raised');
      if (!seen.claim.value.exists) return wait('Creating', 'no EtcdCluster asks for a cluster');
      return newAttempt(s, replicas, (attempt?.attempt ?? 0) + 1);
    }

    // Never on the honest path: nothing stands when an attempt is recorded. Two attempts side by side form two clusters.
    const [other] = [...allPods(s), ...allVolumes(s)].filter(({ name }) => !isOfAttempt(attempt, name));
    if (other !== undefined) {
      return { do: 'AbandonAttempt', reason: 'BootstrapRestarted', why: `${other.name} is of another attempt` };
    }

    const places: Placement[] = [];
    const ended: ObjectName[] = [];
    let running = 0;
    for (const { name, incarnation } of attempt.members) {
      const slot = s.slots.find(({ member }) => member.name === name);
      const why = slot === undefined ? `EtcdMember ${name} is gone` : failureOf(s, slot, incarnation);
      if (slot === undefined || why !== undefined) {
        return { do: 'AbandonAttempt', reason: 'BootstrapRestarted', why: why ?? `EtcdMember ${name} is gone` };
      }
      const { pod } = slot;
      const config = formingConfig(s, slot, incarnation);
      if (pod === undefined && config !== undefined) {
        places.push(placement(slot, incarnation, config, !slot.memory && !wasBegun(slot, incarnation)));
      } else if (pod !== undefined && isTerminal(pod) && !pod.deleting) {
        ended.push(named(pod));
      } else if (pod?.container.state === 'running') {
        running += 1;
      }
    }
    const refused = refusedSpec(
      s.slots.filter(({ member }) => attempt.members.some(({ name }) => name === member.name)),
    );
    if (refused !== undefined) return refused;
    if (places.length > 0) return { do: 'BringUp', why: `attempt ${attempt.attempt} at forming the cluster`, places };
    if (ended.length > 0) {
      return { do: 'DeletePods', reason: 'Restarting', why: 'it ended and comes back on its volume', pods: ended };
    }
    const complete = running === attempt.members.length;
    const since = Math.max(...allPods(s).map(({ container }) => container.startedAt ?? seen.now));
    if (complete && seen.now - since > NO_LEADER_MS) {
      return {
        do: 'AbandonAttempt',
        reason: 'BootstrapRestarted',
        why: `all members have run for ${NO_LEADER_MS / 1_000} s without electing a leader`,
      };
    }
    return wait(
      'Bootstrapping',
      `${running} of ${attempt.members.length} members run`,
      running > 0 ? FORMING_RECHECK_MS : RETRY_MS,
    );
  },
};

const placement = (slot: Slot, incarnation: string, config: MemberConfig, makeVolume: boolean): Placement => ({
  member: named(slot.member),
  incarnation,
  config: config.text,
  initialState: config.initialState,
  makeVolume,
});

// ------------------------------------------------------------------------------------------- operations in flight

/** Voters that should go because they cannot come back; a scale-up must not keep them waiting. */
const isBeyondHope = (s: Situation, slot: Slot): boolean => {
  const { entry } = slot;
  if (!entry.known) return false;
  return (entry.value === undefined || (!entry.value.isLearner && isDataless(slot))) && safeWithout(s, entry.value?.id);
};

const adding = (
  s: Situation,
  slot: Slot | undefined,
  operation: { incarnation?: string; memberID?: string; target: string },
): Step | undefined => {
  const { membership, cluster, namespace } = s.seen;
  const { incarnation, target } = operation;
  const end = (outcome: 'joined' | 'abandoned'): Step => ({ do: 'EndOperation', kind: 'AddMember', target, outcome });
  if (!membership.known) return undefined;
  const { members } = membership.value;
  const url = incarnation === undefined ? undefined : peerURL(cluster, namespace, incarnationName(target, incarnation));
  const entry = members.find(({ peerURLs }) => url !== undefined && peerURLs.includes(url));
  const others = s.held.filter(({ member }) => member.name !== target);
  const unwanted =
    slot === undefined ||
    slot.member.deleting ||
    incarnation === undefined ||
    s.held.length > (s.quorum?.spec.replicas ?? 0);
  const urgent = others.some((other) => isBeyondHope(s, other));

  if (entry === undefined) {
    // Listed once and not any more, or begun and not listed: its token is spent. What stands in the slot is cleared by
    // the rules below, and a new operation draws a new token.
    const spent = operation.memberID !== undefined || (slot !== undefined && wasBegun(slot, incarnation ?? ''));
    if (unwanted || urgent || spent || url === undefined || members.some(({ isLearner }) => isLearner)) {
      return end('abandoned');
    }
    // etcd refuses to add anyone while a voter is not connected.
    const unwell = others.filter((other) => !isHealthyVoter(other)).map(({ member }) => member.name);
    if (unwell.length > 0) return wait('Adding', `${target} is added once ${unwell.join(', ')} can vote`, RETRY_MS);
    return { do: 'AddLearner', target, peerURL: url };
  }
  // Once it votes the change is made. What may still befall it is for the rules of a running cluster, which need the
  // operation out of their way.
  if (!entry.isLearner) return unwanted || urgent || slot.serving || isDataless(slot) ? end('joined') : undefined;

  const drop: Step = { do: 'RemoveMember', target, memberID: entry.id };
  if (unwanted) return drop;
  if (isRefused(slot)) return undefined;
  const { pod, volume, memory } = slot;
  // A learner whose data was lost before it could vote is redone, not repaired.
  const begun = wasBegun(slot, incarnation);
  if (begun && (memory ? isPodless(slot) : volume === undefined || volume.deleting)) return drop;
  if (urgent && pod?.container.state !== 'running') return drop;
  // Made anew by the rules for any Pod: what ended, and what cannot start as the claim no longer wants it.
  const stuck = isOutdated(slot) && pod?.container.state !== 'running';
  if (stuck && memory) return drop;
  if (pod !== undefined && (isTerminal(pod) || stuck)) return undefined;
  if (pod === undefined || (pod.container.id === undefined && !pod.deleting)) {
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
        why: 'the member list changed before its first start',
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
  return wait('Adding', `${target} is starting as a learner`, STARTING_RECHECK_MS);
};

const removing = (
  s: Situation,
  slot: Slot | undefined,
  operation: { kind: 'RemoveMember' | 'ReplaceMember'; memberID?: string; target: string },
): Step | undefined => {
  const { membership } = s.seen;
  if (!membership.known) return undefined;
  const { target, kind } = operation;
  const { members } = membership.value;
  const entry = members.find(({ id }) => id === operation.memberID);
  if (entry !== undefined) {
    // Nothing is lost yet, so what has changed since this was begun counts again.
    const regretted = kind === 'RemoveMember' && s.held.length <= (s.quorum?.spec.replicas ?? 0);
    if (regretted || (!entry.isLearner && !safeWithout(s, entry.id))) {
      return { do: 'EndOperation', kind, target, outcome: 'abandoned' };
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
  return pods.length + volumes.length > 0
    ? { do: 'Retire', target, pods: pods.map(named), volumes: volumes.map(named) }
    : { do: 'EndOperation', kind, target, outcome: kind === 'RemoveMember' ? 'removed' : 'emptied' };
};

/**
 * Whether etcd's list has a line for this incarnation: by name, by URL, by the record on its volume, or by what its Pod
 * answers. Each can be wrong where two records differ, so one is enough. Without a list: it may have.
 */
const isListed = ({ seen }: Situation, { pods, volumes }: SeenMember, incarnation: string): boolean => {
  const { membership, cluster, namespace } = seen;
  if (!membership.known) return true;
  const { clusterId, members } = membership.value;
  const ids = [
    ...volumes.filter((volume) => volume.incarnation === incarnation).map(({ memberID }) => memberID),
    ...pods
      .filter((pod) => pod.incarnation === incarnation)
      .map(({ etcd }) => (etcd.known && etcd.value.clusterId === clusterId ? etcd.value.memberId : undefined)),
  ];
  return [...pods, ...volumes]
    .filter((thing) => thing.incarnation === incarnation)
    .some(({ name: own }) =>
      members.some(
        ({ id, name, peerURLs }) =>
          name === own || peerURLs.includes(peerURL(cluster, namespace, own)) || ids.includes(id),
      ),
    );
};

/** What of a slot nobody has asked to end yet and etcd does not know any more. */
const leftovers = <T extends SeenPod | SeenVolume>(s: Situation, member: SeenMember, things: readonly T[]): T[] =>
  things.filter((thing) => !thing.deleting && !isListed(s, member, thing.incarnation));

const operation: Rule = {
  name: 'operation',
  answer: (s) => {
    const inFlight = s.quorum?.status.operation;
    if (inFlight === undefined || s.latch === undefined) return undefined;
    const { target, kind } = inFlight;
    const slot = s.slots.find(({ member }) => member.name === target);
    if (target !== undefined && kind === 'AddMember') return adding(s, slot, { ...inFlight, target });
    if (target !== undefined && (kind === 'RemoveMember' || kind === 'ReplaceMember')) {
      return removing(s, slot, { ...inFlight, kind, target });
    }
    return {
      do: 'AskHuman',
      reason: 'OperationUnknown',
      message: `${kind} of ${target ?? 'nothing'} is in flight, which this version of the runtime cannot carry on`,
    };
  },
};

// ----------------------------------------------------------------------------------------------- a running cluster

const pause: Rule = {
  name: 'pause',
  answer: (s) => {
    if (s.latch === undefined || s.quorum?.spec.replicas !== 0) return undefined;
    const [doomed] = s.slots.flatMap(({ member, memory }) =>
      member.pods
        .filter((pod) => !pod.deleting && !isTerminal(pod))
        .filter(({ incarnation }) => !member.volumes.some((kept) => kept.incarnation === incarnation && !kept.deleting))
        .map(({ name }) => ({ name, memory })),
    );
    if (doomed !== undefined) {
      return doomed.memory
        ? { do: 'AskHuman', reason: 'OptionsRefused', message: 'a cluster in memory cannot pause: raise replicas' }
        : {
            do: 'AskHuman',
            reason: 'VolumeLost',
            message: `the volume of ${doomed.name} was deleted, and its data ends with its Pod: raise replicas, then the member is replaced, and pause again`,
          };
    }
    const pods = allPods(s).filter(({ deleting }) => !deleting);
    return pods.length === 0
      ? wait('Paused', 'replicas is 0: identity and volumes are kept, raise replicas to resume')
      : { do: 'DeletePods', reason: 'Paused', why: 'replicas is 0', pods: pods.map(named) };
  },
};

/** Recreates Pods on intact volumes. Needs no quorum: without this there would never be one again after a blackout. */
const revive: Rule = {
  name: 'revive',
  answer: (s) => {
    if (s.latch === undefined) return undefined;
    const { namespaceTerminating, claim } = s.seen;
    // A member that somebody deleted is not started again, unless the others cannot decide anything without it.
    const lost = s.held.filter(
      (slot) =>
        isPodless(slot) &&
        (!slot.member.deleting || !s.seen.membership.known) &&
        !(slot.entry.known && slot.entry.value === undefined),
    );
    if (lost.length === 0) return undefined;
    const ended = lost.flatMap(({ pod, volume }) =>
      pod !== undefined && !pod.deleting && volume !== undefined && !volume.deleting ? [named(pod)] : [],
    );
    if (ended.length > 0) {
      return { do: 'DeletePods', reason: 'Restarting', why: 'it ended and comes back on its volume', pods: ended };
    }
    const places = lost.flatMap((slot): Placement[] => {
      const { incarnation, pod, volume, memory } = slot;
      if (pod !== undefined || memory || incarnation === undefined || volume === undefined || volume.deleting)
        return [];
      if (isRefused(slot) || refusedSpec([slot]) !== undefined) return [];
      const config = (s.seen.membership.known ? nextConfig : blackoutConfig)(s, slot, incarnation);
      return config === undefined ? [] : [placement(slot, incarnation, config, false)];
    });
    if (places.length === 0) return undefined;
    // A Pod may be missing because everything is being deleted, and its members are not marked yet.
    if (!namespaceTerminating.known) {
      return wait('Restarting', `the namespace cannot be read: ${namespaceTerminating.why}`, RETRY_MS);
    }
    if (!claim.known) return wait('Restarting', `the EtcdCluster cannot be read: ${claim.why}`, RETRY_MS);
    return { do: 'BringUp', why: 'its Pod is gone, its volume is intact', places };
  },
};

/** The Pod with the configuration that its next start should read, where it does not have it already. */
const locked = (s: Situation, slot: Slot): (ObjectName & { readonly config: string }) | undefined => {
  const { pod, incarnation, member, entry } = slot;
  if (pod === undefined || pod.deleting || incarnation === undefined) return undefined;
  // What was made for a start after a blackout has to be read before it is replaced.
  if (!entry.known && pod.container.state !== 'running' && pod.config === blackoutConfig(s, slot, incarnation)?.text)
    return undefined;
  const upToDate = pod.templateHash === member.templateHash && optionProblems(member.spec.options ?? {}).length === 0;
  const next = upToDate ? nextConfig(s, slot, incarnation)?.text : undefined;
  const text =
    next ??
    (pod.config === undefined || pod.container.id === undefined ? undefined : relocked(s, pod.config, pod.name));
  return text === undefined || text === pod.config ? undefined : { ...named(pod), config: text };
};

/** No Pod keeps the configuration of its first start: what has started is locked, what has not joins the live list. */
const configure: Rule = {
  name: 'configure',
  answer: (s) => {
    if (s.latch === undefined) return undefined;
    const target = s.quorum?.status.operation?.kind === 'AddMember' ? s.quorum.status.operation.target : undefined;
    const pods = s.held.flatMap((slot) => {
      // A learner is configured by the operation that brings it up.
      if (slot.member.name === target && !(slot.entry.known && slot.entry.value?.isLearner === false)) return [];
      if (slot.entry.known && slot.entry.value === undefined) return [];
      return locked(s, slot) ?? [];
    });
    return pods.length === 0
      ? undefined
      : { do: 'Configure', why: 'the next start must find its own data and nothing else', pods };
  },
};

const admit: Rule = {
  name: 'admit',
  answer: (s) => {
    const { latch } = s;
    if (latch === undefined) return undefined;
    const pods = s.held.flatMap(({ pod, entry, identity, memberID, volume }) => {
      if (pod === undefined || pod.deleting || identity.is !== 'proven' || memberID === undefined) return [];
      if (!entry.known || entry.value === undefined || entry.value.isLearner) return [];
      if (pod.config === undefined || !isLocked(pod.config)) return [];
      if (pod.container.id === undefined || (pod.voterRole && pod.verifiedContainer === pod.container.id)) return [];
      if (!pod.etcd.known) return [];
      return [
        {
          ...named(pod),
          container: pod.container.id,
          clusterID: latch,
          memberID,
          revision: pod.etcd.value.revision,
          volume: volume?.name,
        },
      ];
    });
    return pods.length === 0 ? undefined : { do: 'Admit', pods };
  },
};

/** Without a quorum and with nothing left to start one from. */
const dataLost: Rule = {
  name: 'data lost',
  answer: (s) => {
    if (s.latch === undefined || s.seen.membership.known) return undefined;
    if (s.slots.length === 0) return wait('Creating', 'waiting for Crossplane to make the EtcdMembers');
    if (!s.held.every(isDataless)) return undefined;
    const [one] = [...allPods(s), ...allVolumes(s)].filter(({ deleting }) => !deleting);
    return one === undefined
      ? { do: 'AskHuman', reason: 'AllDataLost', message: 'no member has a Pod or a volume with its data any more' }
      : wait('ClusterUnreachable', `${one.name} stands in a slot that no record knows it to belong to`, RETRY_MS);
  },
};

/** A Pod that is gone and that nobody makes again, since etcd would not start as the claim wants it. */
const refusedToStart = (s: Situation): Step | undefined =>
  refusedSpec(s.held.filter((slot) => slot.pod === undefined && !slot.member.deleting));

const quorumLost: Rule = {
  name: 'quorum lost',
  answer: (s) => {
    if (s.latch === undefined || s.seen.membership.known || s.held.length === 0) return undefined;
    const answering = s.held.filter(({ pod }) => pod?.etcd.known === true);
    const led = answering.filter(({ pod }) => pod?.etcd.known === true && pod.etcd.value.leaderId !== undefined);
    const voters = s.quorum?.status.voters?.length ?? s.held.length;
    // Where the kubelet finds a silent member ready, it is the runtime that is cut off; where it finds one ready that knows
    // of no leader, there was one seconds ago, and an election takes one.
    const able = s.held.filter((slot) => led.includes(slot) || (slot.pod?.ready === true && !slot.pod.deleting));
    if (able.length >= majority(voters)) return undefined;
    const refused = refusedToStart(s);
    if (refused !== undefined) return refused;
    const missing = s.held.filter((slot) => !answering.includes(slot)).map(({ member }) => member.name);
    return wait(
      'QuorumLost',
      missing.length === 0
        ? `all ${voters} voters answer, but only ${led.length} know of a leader`
        : `${answering.length} of ${voters} voters answer, ${majority(voters)} are needed; missing: ${missing.join(', ')}`,
      RETRY_MS,
    );
  },
};

const unknowns: Rule = {
  name: 'unknowns',
  answer: (s) =>
    s.latch === undefined || s.seen.membership.known
      ? undefined
      : wait('ClusterUnreachable', `the member list cannot be read: ${s.seen.membership.why}`, STARTING_RECHECK_MS),
};

const budget: Rule = {
  name: 'budget',
  answer: (s) => {
    const { membership, budget: present } = s.seen;
    if (!membership.known || s.latch === undefined) return undefined;
    const voters = membership.value.members.filter(({ isLearner }) => !isLearner).length;
    // With one member any budget blocks every drain for ever, and there is no quorum to protect.
    const minAvailable = voters > 1 ? majority(voters) : undefined;
    const alwaysEvictUnhealthy = s.quorum?.spec.medium === '';
    if (present?.deleting === true) return undefined;
    const right =
      present === undefined
        ? minAvailable === undefined
        : present.minAvailable === minAvailable && present.alwaysEvictUnhealthy === alwaysEvictUnhealthy;
    // An EtcdQuorum that was deleted comes back without the reference by which people find the budget.
    const referred = (s.quorum?.spec.resourceRefs ?? []).length > 0 === (minAvailable !== undefined);
    return right && (referred || s.quorum === undefined)
      ? undefined
      : { do: 'SetBudget', minAvailable, alwaysEvictUnhealthy };
  },
};

/** True if the voters that stay after `leaving` went are healthy in majority, all of them if there are only few. */
const safeWithout = (s: Situation, leaving: string | undefined): boolean => {
  if (!s.seen.membership.known) return false;
  const voters = s.seen.membership.value.members.filter(({ isLearner }) => !isLearner);
  const staying = voters.filter(({ id }) => id !== leaving);
  const healthy = staying.filter(({ id }) => s.held.some((slot) => slot.memberID === id && isHealthyVoter(slot)));
  return staying.length > 0 && healthy.length >= majority(staying.length);
};

/** Left by an operation that was given up: neither the slot's record nor etcd's list knows it. */
const strays: Rule = {
  name: 'strays',
  answer: (s) => {
    if (s.latch === undefined || !s.seen.membership.known || s.quorum?.status.operation !== undefined) return undefined;
    for (const { member, strayPods, strayVolumes } of s.slots) {
      const pods = leftovers(s, member, strayPods);
      const volumes = leftovers(s, member, strayVolumes);
      if (pods.length + volumes.length === 0) continue;
      return { do: 'Retire', target: member.name, pods: pods.map(named), volumes: volumes.map(named) };
    }
    return undefined;
  },
};

/** Changes of the list are made for members that we know. A stranger may be a learner or a voter, and it counts. */
const strangers: Rule = {
  name: 'strangers',
  answer: (s) => {
    if (s.latch === undefined || !s.seen.membership.known || s.quorum?.status.operation !== undefined) return undefined;
    if (s.slots.length === 0) return wait('Creating', 'waiting for Crossplane to make the EtcdMembers', RETRY_MS);
    const ours = new Set(s.slots.flatMap(({ entry }) => (entry.known ? (entry.value?.id ?? []) : [])));
    const [stranger] = s.seen.membership.value.members.filter(({ id }) => !ours.has(id));
    return stranger === undefined
      ? undefined
      : {
          do: 'AskHuman',
          reason: 'MemberListUnknownMember',
          message: `etcd lists member ${stranger.id} (${stranger.name || stranger.peerURLs.join(', ')}), for which there is no EtcdMember; nothing is added or replaced meanwhile`,
        };
  },
};

type Replacement = {
  readonly slot: Slot;
  readonly why: string;
  readonly reason: Reason;
  /** Whether it can be done now. */
  readonly safe: boolean;
};

/** What cannot come back by itself, then what a person deleted. Whoever is of no use any more goes first. */
const replacements = (s: Situation): readonly Replacement[] => {
  const dead: Replacement[] = [];
  const asked: Replacement[] = [];
  const complete = s.held.length >= (s.quorum?.spec.replicas ?? 0);
  for (const slot of s.held) {
    const { entry, member, memory } = slot;
    if (!entry.known) continue;
    const safe = safeWithout(s, entry.value?.id);
    // One by one: while somebody is missing, taking a healthy one would leave ever fewer copies of the data. One that is
    // silent counts as unhealthy only if its kubelet finds it so, too.
    const inTurn = complete || (!isHealthyVoter(slot) && slot.pod?.ready !== true);
    if (entry.value === undefined) {
      dead.push({ slot, why: 'etcd does not list it any more', reason: 'ReplacementHeld', safe });
    } else if (entry.value.isLearner) {
      dead.push({ slot, why: 'it is a learner that no operation brings up', reason: 'ReplacementHeld', safe });
    } else if (isDataless(slot)) {
      dead.push(
        memory
          ? { slot, why: 'its Pod is gone and with it its memory', reason: 'MemoryLost', safe }
          : { slot, why: 'its volume is gone', reason: 'VolumeLost', safe },
      );
    } else if (member.deleting) {
      asked.push({ slot, why: 'its EtcdMember was deleted', reason: 'ReplacementHeld', safe: safe && inTurn });
    } else if (livesOnlyIn(slot)) {
      asked.push({ slot, why: 'its volume is being deleted', reason: 'VolumeLost', safe: safe && inTurn });
    }
  }
  return [...dead, ...asked];
};

const replace: Rule = {
  name: 'replace',
  answer: (s) => {
    if (s.quorum?.status.operation !== undefined || s.latch === undefined) return undefined;
    const next = replacements(s).find(({ safe }) => safe);
    if (next === undefined) return undefined;
    // Pods of a namespace or claim that is being deleted die before its members are marked. Only what is missing may be
    // missing for that reason; everything else is certain without asking.
    const { namespaceTerminating, claim } = s.seen;
    if (isDataless(next.slot) && !namespaceTerminating.known) {
      return wait('Replacing', `the namespace cannot be read: ${namespaceTerminating.why}`, RETRY_MS);
    }
    if (isDataless(next.slot) && !claim.known) {
      return wait('Replacing', `the EtcdCluster cannot be read: ${claim.why}`, RETRY_MS);
    }
    const { slot, why } = next;
    return {
      do: 'BeginOperation',
      kind: 'ReplaceMember',
      target: slot.member.name,
      why,
      ...(slot.memberID === undefined ? {} : { memberID: slot.memberID }),
    };
  },
};

/** After scaling, since a cluster of one can only lose its member once it has a second. */
const held: Rule = {
  name: 'held',
  answer: (s) => {
    if (s.quorum?.status.operation !== undefined || s.latch === undefined) return undefined;
    const [first] = replacements(s);
    if (first === undefined) return undefined;
    const { slot, why, reason } = first;
    return wait(
      reason,
      s.held.length === 1
        ? `${slot.member.name} is the only member: raise replicas, then it is replaced`
        : `${slot.member.name} is not replaced (${why}) while the others could not hold quorum without it`,
      RETRY_MS,
    );
  },
};

/** Victims of a scale-down, first to go first: unhealthy, then learners, then the highest ordinal, the leader last. */
const leavesBefore =
  (s: Situation) =>
  (a: Slot, b: Slot): number => {
    const rank = (slot: Slot): number =>
      isLeader(s, slot)
        ? 3
        : !isHealthyVoter(slot)
          ? slot.entry.known && slot.entry.value?.isLearner === true
            ? 1
            : 0
          : 2;
    return rank(a) - rank(b) || b.member.ordinal - a.member.ordinal;
  };

const scale: Rule = {
  name: 'scale',
  answer: (s) => {
    const { quorum, latch, held, seen } = s;
    if (latch === undefined || quorum === undefined || quorum.status.operation !== undefined) return undefined;
    if (!seen.membership.known) return undefined;
    const want = quorum.spec.replicas;
    if (held.length > want) {
      const [victim] = held.toSorted(leavesBefore(s));
      if (victim === undefined) return undefined;
      if (!safeWithout(s, victim.memberID)) {
        return wait(
          'Removing',
          `${victim.member.name} does not leave while the others could not hold quorum`,
          RETRY_MS,
        );
      }
      return {
        do: 'BeginOperation',
        kind: 'RemoveMember',
        target: victim.member.name,
        why: `${want} of ${held.length} members are wanted`,
        ...(victim.memberID === undefined ? {} : { memberID: victim.memberID }),
      };
    }
    if (held.length < want) {
      const unwell = held.filter((slot) => !slot.serving);
      if (unwell.length > 0) {
        const names = unwell.map(({ member }) => member.name).join(', ');
        return wait('Adding', `a member is added once ${names} ${unwell.length === 1 ? 'serves' : 'serve'}`, RETRY_MS);
      }
      const free = s.slots.find(
        ({ member, incarnation }) =>
          incarnation === undefined &&
          !member.deleting &&
          [...member.pods, ...member.volumes].every(({ deleting }) => deleting),
      );
      if (free === undefined) return wait('Creating', 'waiting for Crossplane to make the next EtcdMember', RETRY_MS);
      return (
        refusedSpec([free]) ?? {
          do: 'BeginOperation',
          kind: 'AddMember',
          target: free.member.name,
          why: `${want} members are wanted, ${held.length} are there`,
        }
      );
    }
    return undefined;
  },
};

/** A change that stopped a member is mended by the next change, without waiting for anybody's back-off. */
const remake: Rule = {
  name: 'remake',
  answer: (s) => (s.latch === undefined || s.quorum?.spec.replicas === 0 ? undefined : outdatedIdle(s)),
};

/** Only while everybody serves: the first changed member that does not come back stops the rollout by itself. */
const roll: Rule = {
  name: 'roll',
  answer: (s) => {
    const { quorum, latch, seen } = s;
    if (latch === undefined || quorum === undefined || quorum.status.operation !== undefined) return undefined;
    if (!seen.membership.known || s.held.length === 0) return undefined;
    // A Pod that is labelled and ready may still be silent: then nobody knows whether its vote counts.
    if (!s.held.every((slot) => slot.serving && isHealthyVoter(slot) && !livesOnlyIn(slot))) return undefined;
    const slot = nextToRoll(s);
    if (slot?.pod === undefined) return undefined;
    const refusal = rolloutRefusal(s);
    if (refusal !== undefined) return { do: 'AskHuman', reason: 'UpgradeRefused', message: refusal };
    const { name } = slot.member;
    if (!slot.volatile) {
      return {
        do: 'DeletePods',
        reason: 'RollingOut',
        why: `the claim changed what ${name} runs`,
        pods: [named(slot.pod)],
      };
    }
    if (s.held.length === 1 || !safeWithout(s, slot.memberID)) {
      return {
        do: 'AskHuman',
        reason: 'RolloutHeld',
        message: `${name} keeps its data in memory and nobody else could hold it meanwhile: raise replicas to 3 first`,
      };
    }
    return {
      do: 'BeginOperation',
      kind: 'ReplaceMember',
      target: name,
      why: 'the claim changed what it runs',
      ...(slot.memberID === undefined ? {} : { memberID: slot.memberID }),
    };
  },
};

const starting: Rule = {
  name: 'starting',
  answer: (s) => {
    const late = s.held.filter((slot) => !slot.serving);
    if (late.length === 0) return undefined;
    const refused = refusedToStart(s);
    if (refused !== undefined) return refused;
    const refusal = late
      .map((slot) => (isRefused(slot) ? refusalOf(slot) : undefined))
      .find((one) => one !== undefined);
    return wait(
      refusal ?? 'Starting',
      `${late.map(({ member, identity }) => `${member.name} (${identity.is === 'proven' ? 'not ready' : identity.why})`).join(', ')}`,
      late.some(({ pod }) => pod?.container.state === 'running') ? STARTING_RECHECK_MS : RETRY_MS,
    );
  },
};

/** Last: a StorageClass that cannot grow its volumes must keep nothing else waiting. */
const grow: Rule = {
  name: 'grow',
  answer: (s) => (s.latch === undefined ? undefined : volumesToGrow(s)),
};

export const RULES: readonly Rule[] = [
  deletion,
  dismiss,
  release,
  record,
  bootstrap,
  impostor,
  operation,
  pause,
  remake,
  revive,
  configure,
  admit,
  budget,
  dataLost,
  quorumLost,
  unknowns,
  strays,
  strangers,
  replace,
  scale,
  held,
  roll,
  starting,
  grow,
];

export const plan = (seen: Observed): Decision => {
  const situation = classify(seen);
  const tried: string[] = [];
  for (const { name, answer } of RULES) {
    tried.push(name);
    const step = answer(situation);
    if (step !== undefined) return { rule: name, step, tried, sketch: sketch(situation), situation };
  }
  return { rule: 'settled', step: { do: 'Settled' }, tried, sketch: sketch(situation), situation };
};
