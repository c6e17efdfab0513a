/** Clusters without a quorum, and the budget that keeps evictions from making one. */

import { incarnationName } from '../../../api/names.ts';
import { advice, adviceOnPlace, type Consent, consentOf, heldIn } from '../consent.ts';
import { majority, type Situation } from '../situation.ts';
import type { Step } from '../steps.ts';
import { lastSeenOf } from '../survivors.ts';
import { metadataRecord } from '../template-metadata.ts';
import { RETRY_MS, type Rule, STARTING_RECHECK_MS, wait } from './rule.ts';
import { allPods, allVolumes, isDataless, refusedSpec } from './standing.ts';

/** The recovery that a person consented to, from its first record on. */
const beginning = (s: Situation, consent: Extract<Consent, { is: 'given' }>): Step | undefined => {
  if (s.latch === undefined) return undefined;
  const lastRevision = lastSeenOf(s)?.revision;
  const common = { do: 'BeginRecovery', clusterID: s.latch, lastRevision } as const;
  if (consent.to === 'snapshot') {
    const { stored, target } = consent;
    const { member, incarnation } = target;
    return {
      ...common,
      target: member.name,
      source: stored.uri,
      revision: stored.revision ?? 0n,
      stored,
      replaces: incarnation === undefined ? undefined : incarnationName(member.name, incarnation),
    };
  }
  const { slot, revision } = consent.survivor;
  return slot.volume === undefined
    ? undefined
    : { ...common, target: slot.member.name, source: slot.volume.name, revision, replaces: slot.volume.name };
};

/** Without a quorum and with nothing left to start one from. */
export const dataLost: Rule = {
  name: 'data lost',
  answer: (s) => {
    if (s.latch === undefined || s.seen.membership.known) return undefined;
    if (s.slots.length === 0) return wait('Creating', 'waiting for Crossplane to make the EtcdMembers');
    if (!s.held.every(isDataless)) return undefined;
    // The Pod of a member without data is known: it has ended, or never ran before its volume went.
    const known = s.held.flatMap(({ pod }) => (pod === undefined ? [] : [pod.uid]));
    const [one] = [...allPods(s), ...allVolumes(s)].filter(({ deleting, uid }) => !deleting && !known.includes(uid));
    if (one !== undefined) {
      return wait('ClusterUnreachable', `${one.name} stands in a slot that no record knows it to belong to`, RETRY_MS);
    }
    const lost = 'no member has a Pod or a volume with its data any more';
    const consent = consentOf(s);
    if (consent.is === 'refused') {
      return { do: 'AskHuman', reason: 'RecoveryRefused', message: `${lost}; ${consent.why}` };
    }
    const begin = consent.is === 'given' ? beginning(s, consent) : undefined;
    return begin ?? { do: 'AskHuman', reason: 'AllDataLost', message: `${lost}; ${advice(s) ?? adviceOnPlace(s)}` };
  },
};

/** A Pod that is gone and that nobody makes again, since etcd would not start as the claim wants it. */
export const refusedToStart = (s: Situation): Step | undefined =>
  refusedSpec(s.held.filter((slot) => slot.pod === undefined && !slot.member.deleting));

/** Starting again needs nobody's consent and takes seconds; on a busy node, some tens of them. */
const COMING_BACK_MS = 60_000;

const ENOUGH_LEFT = 'a majority is still there and may serve again by itself';

/** Whether the loss may still end by itself: enough members have their data, and had less time than a start may take. */
const mayEndByItself = (s: Situation, voters: number): boolean => {
  const since = s.quorum?.status.loss?.since;
  if (since !== undefined && s.seen.now - Date.parse(since) >= COMING_BACK_MS) return false;
  return s.held.filter((slot) => !isDataless(slot)).length >= majority(voters);
};

export const quorumLost: Rule = {
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
    const consent = consentOf(s);
    const begin = consent.is === 'given' ? beginning(s, consent) : undefined;
    if (begin !== undefined) return begin;
    const missing = s.held.filter((slot) => !answering.includes(slot)).map(({ member }) => member.name);
    if (missing.length === 0) {
      return wait('QuorumLost', `all ${voters} voters answer, but only ${led.length} know of a leader`, RETRY_MS);
    }
    const lost = `${answering.length} of ${voters} voters answer, ${majority(voters)} are needed; missing: ${missing.join(', ')}`;
    if (consent.is === 'refused') {
      return { do: 'AskHuman', reason: 'RecoveryRefused', message: `${lost}; ${consent.why}` };
    }
    // Whoever reads how to give data up while members are merely starting might do it.
    const advised = advice(s);
    const way = advised !== undefined && mayEndByItself(s, voters) ? [...heldIn(s), ENOUGH_LEFT].join('; ') : advised;
    return wait('QuorumLost', way === undefined ? lost : `${lost}; ${way}`, RETRY_MS);
  },
};

export const unknowns: Rule = {
  name: 'unknowns',
  answer: (s) =>
    s.latch === undefined || s.seen.membership.known
      ? undefined
      : wait('ClusterUnreachable', `the member list cannot be read: ${s.seen.membership.why}`, STARTING_RECHECK_MS),
};

export const budget: Rule = {
  name: 'budget',
  answer: (s) => {
    const { membership, budget: present } = s.seen;
    if (!membership.known || s.latch === undefined) return undefined;
    const voters = membership.value.members.filter(({ isLearner }) => !isLearner).length;
    // With one member any budget blocks every drain for ever, and there is no quorum to protect.
    const minAvailable = voters > 1 ? majority(voters) : undefined;
    const alwaysEvictUnhealthy = s.quorum?.spec.medium === '';
    const extra = s.quorum?.spec.additionalMetadata;
    const metadata = extra === undefined ? undefined : metadataRecord(extra);
    if (present?.deleting === true) return undefined;
    const right =
      present === undefined
        ? minAvailable === undefined
        : present.minAvailable === minAvailable &&
          present.alwaysEvictUnhealthy === alwaysEvictUnhealthy &&
          (minAvailable === undefined || present.metadata === metadata);
    // An EtcdQuorum that was deleted comes back without the reference by which people find the budget.
    const referred = (s.quorum?.spec.resourceRefs ?? []).length > 0 === (minAvailable !== undefined);
    return right && (referred || s.quorum === undefined)
      ? undefined
      : { do: 'SetBudget', minAvailable, alwaysEvictUnhealthy };
  },
};
