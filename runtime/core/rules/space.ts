/**
 * A database that has reached its quota. etcd then refuses every write, and goes on refusing them when there is room again,
 * until somebody disarms the alarm. Room is made by whoever knows which keys and how much history are needed: the user, or
 * etcd's own compaction where the claim asks for it. Nothing here compacts.
 */
import type { EtcdAlarm } from '../../ports/etcd.ts';
import { alarmsIn, bytes, hasRoom, isFragmented, type Space, spaceOf } from '../alarms.ts';
import { isHealthyVoter, isLeader, type Situation, type Slot } from '../situation.ts';
import type { Step } from '../steps.ts';
import { mayRepair, repairHeld } from './repair-budget.ts';
import { named, type Rule } from './rule.ts';

type Measured = { readonly slot: Slot; readonly space: Space };

/**
 * Voters hold the same keys, so the smallest of their figures counts for all. etcd counts free pages one commit late, and while it
 * refuses writes it commits nothing more: whoever could not be made to would be called full for ever.
 */
const counted = (all: readonly Measured[]): readonly Measured[] => {
  const [least] = all.map(({ space }) => space.inUse).toSorted((a, b) => (a < b ? -1 : a > b ? 1 : 0));
  return least === undefined ? all : all.map(({ slot, space }) => ({ slot, space: { ...space, inUse: least } }));
};

/** Every voter with its space, the leader last; undefined unless all of them are well and say it. */
const measured = (s: Situation): readonly Measured[] | undefined => {
  if (!s.seen.membership.known) return undefined;
  const all: Measured[] = [];
  for (const { id, isLearner } of s.seen.membership.value.members) {
    const slot = s.held.find(({ memberID }) => memberID === id);
    const space = slot === undefined ? undefined : spaceOf(slot);
    if (isLearner || slot === undefined || space === undefined || !isHealthyVoter(slot)) return undefined;
    all.push({ slot, space });
  }
  return counted(all).toSorted(
    (a, b) =>
      Number(isLeader(s, a.slot)) - Number(isLeader(s, b.slot)) || a.slot.member.ordinal - b.slot.member.ordinal,
  );
};

/** One member at a time, since it answers nobody meanwhile; then the alarm, once it would not be raised again at once. */
const makeRoom = (s: Situation, all: readonly Measured[]): Step | undefined => {
  const full = all.filter(({ space }) => !hasRoom(space));
  if (full.some(({ space }) => !isFragmented(space))) return undefined;
  const [next] = full;
  if (next === undefined) return disarm(s, all);
  const { slot, space } = next;
  if (slot.pod === undefined || slot.memberID === undefined) return undefined;
  if (mayRepair(s, slot, 'SpaceFragmented').may !== 'begin') return undefined;
  const successor = all.find((other) => other.slot !== slot)?.slot.memberID;
  if (isLeader(s, slot) && successor !== undefined) return { do: 'MoveLeader', from: slot.memberID, to: successor };
  return {
    do: 'Defragment',
    target: slot.member.name,
    pod: named(slot.pod),
    inUse: space.inUse,
    why: `its database takes ${bytes(space.size)} of ${bytes(space.quota)} and holds ${bytes(space.inUse)}`,
    repair: { member: slot.member.name, cause: 'SpaceFragmented' },
  };
};

const alarmsOfSpace = (s: Situation): readonly EtcdAlarm[] => alarmsIn(s).filter(({ alarm }) => alarm === 'NOSPACE');

/** In whose name disarming is counted: an alarm that is raised again and again needs a person. None where all have left. */
const blamed = (s: Situation, all: readonly Measured[]): Slot | undefined =>
  alarmsOfSpace(s).flatMap(({ memberId }) => all.find(({ slot }) => slot.memberID === memberId)?.slot ?? [])[0];

const disarm = (s: Situation, all: readonly Measured[]): Step | undefined => {
  const alarms = alarmsOfSpace(s);
  const one = blamed(s, all);
  if (one !== undefined && mayRepair(s, one, 'SpaceExhausted').may !== 'begin') return undefined;
  return {
    do: 'Disarm',
    alarms,
    reason: 'SpaceExhausted',
    why: 'every database has room below its quota again',
    ...(one === undefined ? {} : { repair: { member: one.member.name, cause: 'SpaceExhausted' } }),
  };
};

export const space: Rule = {
  name: 'space',
  answer: (s) => {
    if (s.latch === undefined || s.quorum?.status.operation !== undefined) return undefined;
    if (alarmsOfSpace(s).length === 0) return undefined;
    const all = measured(s);
    return all === undefined ? undefined : makeRoom(s, all);
  },
};

/** What the budget of repairs keeps from being done again now, or from ever being done again. */
const heldBack = (s: Situation, all: readonly Measured[]): Step | undefined => {
  const full = all.filter(({ space: of }) => !hasRoom(of));
  const one = full.length === 0 ? blamed(s, all) : undefined;
  if (one !== undefined) {
    return repairHeld(
      s,
      one,
      'SpaceExhausted',
      'every database had room, writes were allowed, and they filled it again: find what writes so much, or raise options.quotaBackendBytes',
    );
  }
  return full
    .filter(({ space: of }) => isFragmented(of))
    .map(({ slot, space: of }) =>
      repairHeld(s, slot, 'SpaceFragmented', `its database takes ${bytes(of.size)} of ${bytes(of.quota)} again`),
    )
    .find((step) => step !== undefined);
};

/** After everything else that could help: a rollout that raises the quota must not wait for a person. */
export const spaceExhausted: Rule = {
  name: 'space exhausted',
  answer: (s) => {
    if (s.latch === undefined || alarmsOfSpace(s).length === 0) return undefined;
    const all = measured(s) ?? [];
    const held = heldBack(s, all);
    if (held !== undefined) return held;
    const said = s.held.flatMap((slot) => {
      const of = spaceOf(slot);
      return of === undefined
        ? []
        : [`${slot.member.name} holds ${bytes(of.inUse)} in ${bytes(of.size)} of ${bytes(of.quota)}`];
    });
    return {
      do: 'AskHuman',
      reason: 'SpaceExhausted',
      message: `etcd refuses writes since a database has reached its quota: ${said.join(', ')}. Delete keys and compact until at most three quarters of the quota are in use, or raise options.quotaBackendBytes`,
    };
  },
};
