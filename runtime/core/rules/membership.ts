/** Which change of the membership begins next. */
import type { Reason } from '../../../api/reasons.ts';
import { isHealthyVoter, isLeader, type Situation, type Slot } from '../situation.ts';
import type { Step } from '../steps.ts';
import { differing } from './corrupt.ts';
import { damagedData } from './damaged-data.ts';
import { lostWithNodes } from './lost-nodes.ts';
import { named, RETRY_MS, type Rule, wait } from './rule.ts';
import {
  isDataless,
  isUnwanted,
  leftovers,
  livesOnlyIn,
  refusedSpec,
  safeWithout,
  spareInMs,
  untilTheyVote,
} from './standing.ts';

/** Left by an operation that was given up: neither the slot's record nor etcd's list knows it. */
export const strays: Rule = {
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

export type Replacement = {
  readonly slot: Slot;
  readonly why: string;
  readonly reason: Reason;
  /** Whether it can be done now. */
  readonly safe: boolean;
  /** The trouble that this repairs, counted against the repair budget. */
  readonly cause?: Reason;
  /** What is said while the repair budget lets it not begin. */
  readonly instead?: Step | undefined;
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
  return [...dead, ...lostWithNodes(s), ...damagedData(s), ...differing(s), ...asked];
};

export const replace: Rule = {
  name: 'replace',
  answer: (s) => {
    if (s.quorum?.status.operation !== undefined || s.latch === undefined) return undefined;
    const next = replacements(s).find(({ safe }) => safe);
    if (next === undefined) return undefined;
    // Pods of a namespace or claim that is being deleted die before its members are marked. Only what is missing may be
    // missing for that reason; everything else is certain without asking.
    const { namespaceTerminating, claim } = s.seen;
    const missing = isDataless(next.slot) || next.slot.pod?.deleting === true || next.slot.volume?.deleting === true;
    if (missing && !namespaceTerminating.known) {
      return wait('Replacing', `the namespace cannot be read: ${namespaceTerminating.why}`, RETRY_MS);
    }
    if (missing && !claim.known) {
      return wait('Replacing', `the EtcdCluster cannot be read: ${claim.why}`, RETRY_MS);
    }
    const { slot, why, cause } = next;
    return {
      do: 'BeginOperation',
      kind: 'ReplaceMember',
      target: slot.member.name,
      why,
      ...(slot.memberID === undefined ? {} : { memberID: slot.memberID }),
      ...(cause === undefined ? {} : { cause }),
    };
  },
};

/** After scaling, since a cluster of one can only lose its member once it has a second. */
export const held: Rule = {
  name: 'held',
  answer: (s) => {
    if (s.quorum?.status.operation !== undefined || s.latch === undefined) return undefined;
    const [first] = replacements(s);
    if (first === undefined) return undefined;
    if (first.instead !== undefined) return first.instead;
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

export const scale: Rule = {
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
      const unwell = held.filter((slot) => !isHealthyVoter(slot));
      if (unwell.length > 0) return untilTheyVote('a member is added', unwell);
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

/** Given back a moment later: what is empty now may be wanted as soon as the EtcdQuorum tells of the new size. */
export const spare: Rule = {
  name: 'spare',
  answer: (s) => {
    const soon = s.slots.filter((slot) => slot.incarnation === undefined && isUnwanted(s, slot));
    const [first] = soon.map((slot) => spareInMs(s, slot)).toSorted((a, b) => b - a);
    return first === undefined || first === 0
      ? undefined
      : wait('Settled', 'an EtcdMember that nobody wants is given back in a moment', first);
  },
};
