/**
 * What to do next about one cluster: an ordered list of named rules, the first that answers wins, one step a pass. The
 * order is the policy; read it from top to bottom. Nothing here asks the world anything.
 */
import { afterEnd } from './ending.ts';
import type { Observed } from './observed.ts';
import { authentication, credentials } from './rules/authentication.ts';
import { bootstrap } from './rules/bootstrap.ts';
import { authorities, certificates, handover } from './rules/certificates.ts';
import { corrupt } from './rules/corrupt.ts';
import { deletion, release } from './rules/deletion.ts';
import { downgrade } from './rules/downgrade.ts';
import { vacate } from './rules/drain.ts';
import { relieve } from './rules/full-volume.ts';
import { admit, configure, dismiss, impostor, record } from './rules/identity.ts';
import { held, replace, scale, spare, strays } from './rules/membership.ts';
import { operation } from './rules/operation.ts';
import { strangers } from './rules/orphans.ts';
import { peerAddress } from './rules/peer-address.ts';
import { budget, dataLost, quorumLost, unknowns } from './rules/quorum.ts';
import { recovery, retireLost } from './rules/recovery.ts';
import { pause, revive } from './rules/restart.ts';
import { restore } from './rules/restore.ts';
import { prepareRestore, restoreInPlace } from './rules/restore-in-place.ts';
import { grow, relabel, remake, roll, starting } from './rules/rollout.ts';
import type { Rule } from './rules/rule.ts';
import { space, spaceExhausted } from './rules/space.ts';
import { classify, type Situation, sketch } from './situation.ts';
import type { Step } from './steps.ts';

export type Decision = {
  readonly rule: string;
  readonly step: Step;
  /** The rules that had nothing to say, in order, then the one that answered. */
  readonly tried: readonly string[];
  readonly sketch: string;
  readonly situation: Situation;
};

export const RULES: readonly Rule[] = [
  deletion,
  dismiss,
  release,
  record,
  restoreInPlace,
  certificates,
  credentials,
  restore,
  bootstrap,
  recovery,
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
  prepareRestore,
  corrupt,
  space,
  strays,
  strangers,
  replace,
  scale,
  held,
  vacate,
  relabel,
  downgrade,
  peerAddress,
  authorities,
  roll,
  relieve,
  authentication,
  starting,
  retireLost,
  spaceExhausted,
  grow,
  spare,
  handover,
];

type Answer = Pick<Decision, 'rule' | 'step' | 'tried'>;

const firstAnswer = (s: Situation): Answer => {
  const tried: string[] = [];
  for (const { name, answer } of RULES) {
    tried.push(name);
    const step = answer(s);
    if (step !== undefined) return { rule: name, step, tried };
  }
  return { rule: 'settled', step: { do: 'Settled' }, tried };
};

/**
 * The end of one change and the beginning of the next are one write, because each costs the claim tokens of its circuit
 * breaker. What would come between them is done before the end, while the operation that made it necessary is in flight.
 */
const withWhatFollows = (s: Situation, answer: Answer): Answer => {
  const { step } = answer;
  if (step.do !== 'EndOperation') return answer;
  const following = firstAnswer(classify(afterEnd(s.seen, step)));
  if (following.step.do === 'SetBudget') return following;
  return following.step.do === 'BeginOperation' ? { ...answer, step: { ...step, next: following.step } } : answer;
};

export const plan = (seen: Observed): Decision => {
  const situation = classify(seen);
  return { ...withWhatFollows(situation, firstAnswer(situation)), sketch: sketch(situation), situation };
};
