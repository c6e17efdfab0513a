/**
 * Members whose volume etcd cannot start on, told from how it ends again and again. Each is replaced while the others hold
 * quorum without it, and then no acknowledged write can be on its volume alone: a write is acknowledged by a majority,
 * and any two majorities share a voter. That a volume looks empty is no reason by itself; a lost log beside a good
 * database looks the same, and without a quorum of the others that database may be the last copy.
 */
import type { Reason } from '../../../api/reasons.ts';
import { isCrashLooping } from '../crash-loop.ts';
import type { ExitCause } from '../exit-causes.ts';
import { exitReasons, lastExitOf } from '../exit-reasons.ts';
import type { Situation, Slot } from '../situation.ts';
import type { Replacement } from './membership.ts';
import { repairHeld } from './repair-budget.ts';
import { isDataless, livesOnlyIn, safeWithout } from './standing.ts';

/**
 * What a new volume mends. Everything else that ends etcd is not here on purpose: lack of memory, a full volume, a wrong
 * option, a version that is too old or a missing certificate would meet the next incarnation just the same.
 */
const DAMAGE = new Map<ExitCause, string>([
  ['WipedOrWalGone', 'its volume was emptied or has lost its log'],
  ['WalCorrupt', 'its write-ahead log is damaged'],
  ['SnapshotMissing', 'files of its log or snapshots are missing'],
  ['BackendMissing', 'its database is missing'],
  ['BackendCorrupt', 'its database is damaged'],
  ['RaftLogLost', 'its volume holds less than it had confirmed'],
  ['SigBus', 'its database was cut short'],
]);

export type Damage = { readonly reason: Reason; readonly what: string };

/** Seen in several starts, not in one. */
const damageSeen = ({ pod }: Slot): Damage | undefined => {
  if (pod === undefined || !isCrashLooping(pod)) return undefined;
  const cause = lastExitOf(pod)?.reason;
  const what = cause === undefined ? undefined : DAMAGE.get(cause);
  const reason = cause === undefined ? undefined : exitReasons[cause];
  return what === undefined || reason === undefined ? undefined : { reason, what };
};

/** Undefined too for who is leaving by another way. */
export const damageOf = (slot: Slot): Damage | undefined => {
  const { entry, member } = slot;
  if (member.deleting || !entry.known || entry.value === undefined || entry.value.isLearner) return undefined;
  return isDataless(slot) || livesOnlyIn(slot) ? undefined : damageSeen(slot);
};

/**
 * A learner that had joined and cannot start again. Nobody counts on what it holds, so it is added anew rather than mended. One
 * that has never joined is another matter: it ends in the same words while its peers cannot be reached.
 */
export const isRuinedLearner = (slot: Slot): boolean =>
  slot.entry.known &&
  slot.entry.value?.isLearner === true &&
  slot.entry.value.name !== '' &&
  damageSeen(slot) !== undefined;

/** A volume that a person may want to look into, or to save something from. */
export const isWorthKeeping = (cause: string | undefined): boolean =>
  cause === 'VolumeEmpty' || cause === 'DataCorrupt' || cause === 'DataDiffers';

export const damagedData = (s: Situation): readonly Replacement[] =>
  s.held.flatMap((slot) => {
    const damage = damageOf(slot);
    if (damage === undefined) return [];
    const { reason, what: why } = damage;
    const instead = repairHeld(s, slot, reason, why);
    const safe = safeWithout(s, slot.entry.known ? slot.entry.value?.id : undefined);
    return [{ slot, why, reason: 'ReplacementHeld', cause: reason, safe: safe && instead === undefined, instead }];
  });
