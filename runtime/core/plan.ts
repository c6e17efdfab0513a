/**
 * What to do next about one cluster: an ordered list of named rules, the first that answers wins, one step a pass. The
 * order is the policy; read it from top to bottom. Nothing here asks the world anything.
 */
import type { Observed } from './observed.ts';
import { bootstrap } from './rules/bootstrap.ts';
import { corrupt } from './rules/corrupt.ts';
import { deletion, release } from './rules/deletion.ts';
import { downgrade } from './rules/downgrade.ts';
import { admit, configure, dismiss, impostor, record } from './rules/identity.ts';
import { held, replace, scale, strangers, strays } from './rules/membership.ts';
import { operation } from './rules/operation.ts';
import { budget, dataLost, quorumLost, unknowns } from './rules/quorum.ts';
import { recovery, retireLost } from './rules/recovery.ts';
import { pause, revive } from './rules/restart.ts';
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
  corrupt,
  space,
  strays,
  strangers,
  replace,
  scale,
  held,
  relabel,
  downgrade,
  roll,
  starting,
  retireLost,
  spaceExhausted,
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
