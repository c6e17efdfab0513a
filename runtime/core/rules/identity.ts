/** Who may serve: lock, proof, and what is done with data that is not the member's own. */
import { optionProblems } from '../etcd-config.ts';
import { blackoutConfig, isLocked, nextConfig, relocked } from '../member-config.ts';
import { isOutdated } from '../rollout.ts';
import type { Situation, Slot } from '../situation.ts';
import type { ObjectName } from '../steps.ts';
import { named, type Rule, wait } from './rule.ts';
import { allPods, allVolumes, isProvenStart, isStanding } from './standing.ts';

/** Before anything else that may take time: whoever is not proven in this very container start serves nobody. */
export const dismiss: Rule = {
  name: 'dismiss',
  answer: (s) => {
    const pods = s.slots.flatMap(({ member }) =>
      member.pods.filter(
        ({ voterRole, container, verifiedContainer, deleting }) =>
          voterRole &&
          // In a Pod that is ending, what has stopped never starts again, and its end closes it to clients.
          (container.state === 'running' ? container.id !== verifiedContainer : !deleting),
      ),
    );
    return pods.length === 0
      ? undefined
      : { do: 'Dismiss', why: 'its container started again and has to be proven', pods: pods.map(named) };
  },
};

export const impostor: Rule = {
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

export const record: Rule = {
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

/** The Pod with the configuration that its next start should read, where it does not have it already. */
export const locked = (s: Situation, slot: Slot): (ObjectName & { readonly config: string }) | undefined => {
  const { pod, incarnation, member, entry } = slot;
  if (pod === undefined || pod.deleting || incarnation === undefined) return undefined;
  // What was made for a start after a blackout has to be read before it is replaced.
  if (!entry.known && pod.container.state !== 'running' && pod.config === blackoutConfig(s, slot, incarnation)?.text)
    return undefined;
  const upToDate = !isOutdated(slot) && optionProblems(member.spec.options ?? {}).length === 0;
  const next = upToDate ? nextConfig(s, slot, incarnation)?.text : undefined;
  const text =
    next ??
    (pod.config === undefined || pod.container.id === undefined ? undefined : relocked(s, pod.config, pod.name));
  return text === undefined || text === pod.config ? undefined : { ...named(pod), config: text };
};

/** No Pod keeps the configuration of its first start: what has started is locked, what has not joins the live list. */
export const configure: Rule = {
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

export const admit: Rule = {
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
