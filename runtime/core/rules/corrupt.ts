/**
 * Members whose data differs at the same revision. etcd's alarm CORRUPT makes every member unready and may blame the wrong
 * one, so it is taken as a question, and the members' own hashes are the answer. Only a majority that agrees can convict.
 */
import { agreementOf, alarmsIn } from '../alarms.ts';
import { isCrashLooping } from '../crash-loop.ts';
import { lastExitOf } from '../exit-reasons.ts';
import { majority, type Situation, type Slot } from '../situation.ts';
import type { Replacement } from './membership.ts';
import { repairHeld } from './repair-budget.ts';
import type { Rule } from './rule.ts';
import { safeWithout } from './standing.ts';

/** etcd itself refused to start beside the others: its check at the start found its data to differ. */
const isTurnedAway = ({ pod }: Slot): boolean =>
  pod !== undefined && isCrashLooping(pod) && lastExitOf(pod)?.reason === 'DataDiffers';

/** Voters that the majority outvotes, by their hash, or by their own refusal to start beside it. */
export const differing = (s: Situation): readonly Replacement[] => {
  const alarmed = alarmsIn(s).some(({ alarm }) => alarm === 'CORRUPT');
  const turnedAway = s.held.filter(isTurnedAway);
  if (!alarmed && turnedAway.length === 0) return [];
  const agreement = agreementOf(s);
  if (agreement === undefined || agreement.majority.length < majority(agreement.voters)) return [];
  return [...(alarmed ? agreement.differing : []), ...turnedAway].flatMap((slot) => {
    const { entry, member } = slot;
    if (!entry.known || entry.value === undefined || entry.value.isLearner || member.deleting) return [];
    const others = agreement.majority.map((one) => one.member.name).join(', ');
    const why = `its data differs from that of ${others}, which agree`;
    const instead = repairHeld(s, slot, 'DataDiffers', why);
    return [
      {
        slot,
        why,
        reason: 'ReplacementHeld',
        cause: 'DataDiffers',
        safe: safeWithout(s, entry.value.id) && instead === undefined,
        instead,
      },
    ];
  });
};

export const corrupt: Rule = {
  name: 'corrupt',
  answer: (s) => {
    if (s.latch === undefined) return undefined;
    const alarms = alarmsIn(s).filter(({ alarm }) => alarm === 'CORRUPT');
    if (alarms.length === 0) return undefined;
    const agreement = agreementOf(s);
    // Whoever differs is replaced first. Whoever is silent may differ, or make a majority.
    if (agreement === undefined || agreement.differing.length > 0 || agreement.silent.length > 0) return undefined;
    const said = agreement.said.map((one) => one.said).join('; ');
    const [first] = agreement.majority;
    if (first === undefined) {
      return {
        do: 'AskHuman',
        reason: 'CorruptAlarm',
        message: `the members' data differs and no majority of the ${agreement.voters} voters agrees: ${said}`,
      };
    }
    const blamed = s.held.find(({ memberID }) => alarms.some(({ memberId }) => memberId === memberID)) ?? first;
    const held = repairHeld(s, blamed, 'CorruptAlarm', `all voters agree (${said}) and the alarm was raised again`);
    if (held !== undefined) return held;
    return {
      do: 'Disarm',
      alarms,
      reason: 'CorruptAlarm',
      why: `all ${agreement.voters} voters agree: ${said}`,
      repair: { member: blamed.member.name, cause: 'CorruptAlarm' },
    };
  },
};
