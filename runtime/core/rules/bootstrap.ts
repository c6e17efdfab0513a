/** From nothing to the latch. */

import type { EtcdQuorumBootstrap } from '../../../api/etcdquorum.gen.ts';
import { incarnationName } from '../../../api/names.ts';
import { formingConfig } from '../member-config.ts';
import type { SeenPod, SeenVolume } from '../observed.ts';
import type { Situation, Slot } from '../situation.ts';
import { majority } from '../situation.ts';
import type { ObjectName, Placement, Step } from '../steps.ts';
import { named, RETRY_MS, type Rule, wait } from './rule.ts';
import { allPods, allVolumes, isTerminal, placement, refusedSpec, wasBegun } from './standing.ts';

const FORMING_RECHECK_MS = 100;

/** Longest that a complete set of running members may be without a leader before the attempt counts as failed. */
const NO_LEADER_MS = 120_000;

export const clearing = (
  s: Situation,
  why: string,
  pods: readonly SeenPod[] = allPods(s),
  volumes: readonly SeenVolume[] = allVolumes(s),
): Step | undefined => {
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
  if (pod !== undefined && pod.templateHash !== member.templateHash && pod.restartHash !== member.restartHash)
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
export const formed = (s: Situation, attempt: EtcdQuorumBootstrap | undefined): Step | undefined => {
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
export const bootstrap: Rule = {
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
