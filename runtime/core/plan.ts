/**
 * What to do next about one cluster: an ordered list of named rules, the first that answers wins, one step a pass. The
 * order is the policy; read it from top to bottom. Nothing here asks the world anything.
 */

import { incarnationName, memberName, peerURL } from '../../api/names.ts';
import type { Reason } from '../../api/reasons.ts';
import { etcdMinor, optionProblems } from './etcd-config.ts';
import { blackoutConfig, formingConfig, joiningConfig, type MemberConfig, settledConfig } from './member-config.ts';
import type { Observed, SeenPod } from './observed.ts';
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
const allPods = (s: Situation): readonly SeenPod[] => s.slots.flatMap(({ member }) => member.pods);
const allVolumes = (s: Situation) => s.slots.flatMap(({ member }) => member.volumes);
const podName = (slot: Slot, incarnation: string): string => incarnationName(slot.member.name, incarnation);

/** The references are written before anything exists, so their presence means: it may have existed. */
const wasBegun = (slot: Slot, incarnation: string): boolean => slot.member.claimedPod === podName(slot, incarnation);

const refusedData = ({ member }: Slot): boolean =>
  member.status.phase === 'Failed' &&
  (member.status.conditions ?? []).some(
    ({ type, reason }) =>
      type === 'Ready' && (reason === 'ForeignData' || reason === 'ForeignIdentity' || reason === 'RevisionTooLow'),
  );

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
    if (!now.exists || now.deleting) return teardown(s, marked, 'the EtcdCluster was deleted');
    const old = marked.filter(({ member }) => member.firstClaim !== undefined && member.firstClaim !== now.uid);
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
    for (const { member, pod, identity } of s.held) {
      if (identity.is === 'foreign' && pod !== undefined && !pod.deleting) {
        return {
          do: 'StopImpostor',
          member: named(member),
          pod: named(pod),
          reason: identity.reason,
          why: identity.why,
        };
      }
    }
    return undefined;
  },
};

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
        (seen.budget !== undefined && !seen.budget.deleting && seen.budget.controllerUID !== claim.uid);
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

const newAttempt = (s: Situation, replicas: number, attempt: number): Step => {
  const names = Array.from({ length: replicas }, (_, ordinal) => memberName(s.seen.cluster, ordinal));
  const slots = names.map((name) => s.slots.find(({ member }) => member.name === name && !member.deleting));
  const missing = names.filter((_, i) => slots[i] === undefined);
  if (missing.length > 0) return wait('Creating', `waiting for Crossplane to make EtcdMember ${missing.join(', ')}`);
  return refusedSpec(slots.filter((slot) => slot !== undefined)) ?? { do: 'RecordAttempt', attempt, members: names };
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

    // Whoever reports a leader has formed the cluster: from here on it exists, whatever else is wrong.
    const formed = new Set(
      allPods(s).flatMap(({ etcd }) => (etcd.known && etcd.value.leaderId !== undefined ? [etcd.value.clusterId] : [])),
    );
    const [first, second] = [...formed].toSorted();
    if (second !== undefined) {
      return {
        do: 'AskHuman',
        reason: 'ForeignData',
        message: `members report two cluster IDs, ${first} and ${second}: keep the Pods and volumes and report this`,
      };
    }
    if (first !== undefined) return { do: 'Latch', clusterID: first };

    const replicas = quorum.spec.replicas;
    const attempt = quorum.status.bootstrap;
    if (attempt === undefined || attempt.abandoned !== undefined) {
      const why = attempt?.abandoned ?? 'there is no record of this attempt';
      const clear = clearing(s, why);
      if (clear !== undefined) return clear;
      if (replicas === 0) return wait('Paused', 'no cluster is formed until replicas is raised');
      return newAttempt(s, replicas, (attempt?.attempt ?? 0) + 1);
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

const adding = (
  s: Situation,
  slot: Slot | undefined,
  operation: { incarnation?: string; memberID?: string; target: string },
): Step | undefined => {
  const { membership, cluster, namespace } = s.seen;
  const { incarnation, target } = operation;
  const end = (outcome: 'joined' | 'abandoned'): Step => ({ do: 'EndOperation', kind: 'AddMember', target, outcome });
  if (!membership.known) return undefined;
  const url = incarnation === undefined ? undefined : peerURL(cluster, namespace, incarnationName(target, incarnation));
  const entry = membership.value.members.find(({ peerURLs }) => url !== undefined && peerURLs.includes(url));

  if (slot === undefined || slot.member.deleting || incarnation === undefined || url === undefined) {
    return entry === undefined ? end('abandoned') : { do: 'RemoveMember', target, memberID: entry.id };
  }
  if (entry === undefined) {
    // Listed once and not any more: somebody removed it. What stands in the slot is cleared by the rules below.
    if (operation.memberID !== undefined) return end('abandoned');
    return { do: 'AddLearner', target, peerURL: url };
  }
  const { pod, volume, memory } = slot;
  if (!entry.isLearner) return slot.serving ? end('joined') : undefined;

  // A learner whose data was lost before it could vote is redone, not repaired.
  const begun = wasBegun(slot, incarnation);
  const lost = begun && (memory ? pod === undefined : volume === undefined || volume.deleting);
  if (lost) return { do: 'RemoveMember', target, memberID: entry.id };
  if (pod === undefined || (pod.container.id === undefined && !pod.deleting)) {
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
  if (pod.container.state === 'running' && pod.etcd.known) return { do: 'Promote', target, memberID: entry.id };
  return wait('Adding', `${target} is starting as a learner`, STARTING_RECHECK_MS);
};

const removing = (
  s: Situation,
  slot: Slot | undefined,
  operation: { kind: string; memberID?: string; target: string },
): Step | undefined => {
  const { membership } = s.seen;
  if (!membership.known) return undefined;
  const { target } = operation;
  const kind = operation.kind === 'ReplaceMember' ? 'ReplaceMember' : 'RemoveMember';
  const entry = membership.value.members.find(({ id }) => id === operation.memberID);
  if (entry !== undefined) {
    if (entry.id === s.leaderID) {
      const successor = s.held.find((other) => other.memberID !== entry.id && isHealthyVoter(other));
      if (successor?.memberID !== undefined) return { do: 'MoveLeader', from: entry.id, to: successor.memberID };
    }
    return { do: 'RemoveMember', target, memberID: entry.id };
  }
  const pods = slot?.member.pods ?? [];
  const volumes = slot?.member.volumes ?? [];
  if (pods.length + volumes.length > 0) {
    const step = {
      pods: pods.filter(({ deleting }) => !deleting).map(named),
      volumes: pods.length > 0 ? [] : volumes.filter(({ deleting }) => !deleting).map(named),
    };
    return step.pods.length + step.volumes.length > 0
      ? { do: 'Retire', target, ...step }
      : wait('Removing', `${target} has left; waiting for its Pod and volume to end`, RETRY_MS);
  }
  return { do: 'EndOperation', kind, target, outcome: kind === 'RemoveMember' ? 'removed' : 'emptied' };
};

const operation: Rule = {
  name: 'operation',
  answer: (s) => {
    const inFlight = s.quorum?.status.operation;
    if (inFlight?.target === undefined || s.latch === undefined) return undefined;
    const { target } = inFlight;
    const slot = s.slots.find(({ member }) => member.name === target);
    return inFlight.kind === 'AddMember'
      ? adding(s, slot, { ...inFlight, target })
      : removing(s, slot, { ...inFlight, target });
  },
};

// ----------------------------------------------------------------------------------------------- a running cluster

const pause: Rule = {
  name: 'pause',
  answer: (s) => {
    if (s.latch === undefined || s.quorum?.spec.replicas !== 0) return undefined;
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
    const lost = s.held.filter(({ pod, member }) => !member.deleting && (pod === undefined || isTerminal(pod)));
    if (lost.length === 0) return undefined;
    const ended = lost.flatMap(({ pod, memory }) =>
      pod !== undefined && !pod.deleting && !memory ? [named(pod)] : [],
    );
    if (ended.length > 0) {
      return { do: 'DeletePods', reason: 'Restarting', why: 'it ended and comes back on its volume', pods: ended };
    }
    const places = lost.flatMap((slot): Placement[] => {
      const { member, incarnation, pod, volume, memory } = slot;
      if (pod !== undefined || memory || incarnation === undefined || volume === undefined || volume.deleting)
        return [];
      if (refusedData(slot) && !member.retry) return [];
      const config = (s.seen.membership.known ? settledConfig : blackoutConfig)(s, slot, incarnation);
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

/** No Pod keeps the configuration of its first start: what has started is locked, what has not joins the live list. */
const configure: Rule = {
  name: 'configure',
  answer: (s) => {
    if (s.latch === undefined) return undefined;
    const target = s.quorum?.status.operation?.kind === 'AddMember' ? s.quorum.status.operation.target : undefined;
    const pods = s.held.flatMap((slot) => {
      const { pod, incarnation, member, entry } = slot;
      if (pod === undefined || pod.deleting || incarnation === undefined) return [];
      if (member.name === target && !(entry.known && entry.value?.isLearner === false)) return [];
      if (optionProblems(member.spec.options ?? {}).length > 0) return [];
      const started = slot.volume?.memberID !== undefined || pod.container.id !== undefined;
      // What was made for a start after a blackout has to be read before it is replaced.
      if (pod.container.state !== 'running' && pod.config === blackoutConfig(s, slot, incarnation)?.text) return [];
      const config = started ? settledConfig(s, slot, incarnation) : joiningConfig(s, slot, incarnation);
      return config === undefined || config.text === pod.config ? [] : [{ ...named(pod), config: config.text }];
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
    const pods = s.held.flatMap(({ member, pod, entry, identity, memberID, volume }) => {
      if (pod === undefined || pod.deleting || identity.is !== 'proven' || memberID === undefined) return [];
      if (!entry.known || entry.value === undefined || entry.value.isLearner || member.deleting) return [];
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

const quorumLost: Rule = {
  name: 'quorum lost',
  answer: (s) => {
    if (s.latch === undefined || s.seen.membership.known || s.held.length === 0) return undefined;
    const answering = s.held.filter(({ pod }) => pod?.etcd.known === true);
    const led = answering.filter(({ pod }) => pod?.etcd.known === true && pod.etcd.value.leaderId !== undefined);
    const voters = s.quorum?.status.voters?.length ?? s.held.length;
    if (led.length >= majority(voters)) return undefined;
    const missing = s.held.filter((slot) => !led.includes(slot)).map(({ member }) => member.name);
    return wait(
      'QuorumLost',
      `${led.length} of ${voters} voters are connected, ${majority(voters)} are needed; missing: ${missing.join(', ')}`,
      RETRY_MS,
    );
  },
};

const unknowns: Rule = {
  name: 'unknowns',
  answer: (s) =>
    s.latch === undefined || s.seen.membership.known
      ? undefined
      : s.held.length === 0
        ? { do: 'AskHuman', reason: 'AllDataLost', message: 'no member has a Pod or a volume any more' }
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
    return right ? undefined : { do: 'SetBudget', minAvailable, alwaysEvictUnhealthy };
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
    const listed = new Set(s.seen.membership.value.members.map(({ name }) => name));
    for (const { member, strayPods, strayVolumes } of s.slots) {
      const unlisted = <T extends { name: string; deleting: boolean }>(things: readonly T[]): readonly T[] =>
        things.filter(({ name, deleting }) => !deleting && !listed.has(name));
      const pods = unlisted(strayPods);
      const volumes = strayPods.length > 0 ? [] : unlisted(strayVolumes);
      if (pods.length + volumes.length === 0) continue;
      return { do: 'Retire', target: member.name, pods: pods.map(named), volumes: volumes.map(named) };
    }
    return undefined;
  },
};

/** What cannot come back by itself: deleted by a person, removed from etcd by hand, or in memory that is gone. */
const replace: Rule = {
  name: 'replace',
  answer: (s) => {
    if (s.quorum?.status.operation !== undefined || s.latch === undefined) return undefined;
    for (const slot of s.held) {
      const { member, pod, memory, entry, memberID, incarnation } = slot;
      const asked = member.deleting;
      const gone =
        memory && incarnation !== undefined && wasBegun(slot, incarnation) && (pod === undefined || isTerminal(pod));
      const removed = entry.known && entry.value === undefined && memberID !== undefined;
      if (!asked && !gone && !removed) continue;
      const held: Reason = gone ? 'MemoryLost' : 'ReplacementHeld';
      if (!entry.known) continue;
      if (!safeWithout(s, entry.value?.id)) {
        return wait(held, `${member.name} is not replaced while the others could not hold quorum without it`, RETRY_MS);
      }
      return {
        do: 'BeginOperation',
        kind: 'ReplaceMember',
        target: member.name,
        why: asked
          ? 'its EtcdMember was deleted'
          : removed
            ? 'etcd does not list it any more'
            : 'its Pod is gone and with it its memory',
        ...(memberID === undefined ? {} : { memberID }),
      };
    }
    return undefined;
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
          incarnation === undefined && !member.deleting && member.pods.length === 0 && member.volumes.length === 0,
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

const starting: Rule = {
  name: 'starting',
  answer: (s) => {
    const late = s.held.filter((slot) => !slot.serving);
    if (late.length === 0) return undefined;
    const [one] = late;
    return wait(
      one !== undefined && refusedData(one) ? 'ForeignData' : 'Starting',
      `${late.map(({ member, identity }) => `${member.name} (${identity.is === 'unknown' ? identity.why : identity.is === 'foreign' ? identity.why : 'not ready'})`).join(', ')}`,
      late.some(({ pod }) => pod?.container.state === 'running') ? STARTING_RECHECK_MS : RETRY_MS,
    );
  },
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
  revive,
  configure,
  admit,
  budget,
  quorumLost,
  unknowns,
  strays,
  replace,
  scale,
  starting,
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
