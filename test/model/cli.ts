/** `npm run model`: see docs/model.md. Ends with one line of figures, and with code 1 if anything was found. */
import { writeFile } from 'node:fs/promises';
import { Command, InvalidArgumentError } from 'commander';
import { breaks, brokenMind, soundMind } from './breaks.ts';
import { type Explored, explore, type Sweep } from './explorer.ts';
import { sweepOf, sweeps } from './sweeps.ts';

const whole = (text: string): number => {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 0) throw new InvalidArgumentError('give a whole number');
  return value;
};

const options = new Command('model')
  .description('Goes through what can happen to a small cluster under the real planner, and checks it on every edge.')
  .option('--size <members>', 'one sweep that starts from so many settled members, with the budget given here', whole)
  .option('--faults <n>', 'faults on one way, with --size', whole, 1)
  .option('--deaths <n>', 'deaths of the runtime on one way, with --size', whole, 1)
  .option('--edits <n>', 'edits of the claim on one way, with --size', whole, 1)
  .option('--late <n>', 'passes on an old view on one way, with --size', whole, 0)
  .option('--only <text>', 'only the sweeps whose name contains this')
  .option('--depth <moves>', 'longest way from the first state', whole)
  .option('--seconds <s>', 'for all sweeps together', whole, 600)
  .option('--states <n>', 'for each sweep', whole, 400_000)
  .option('--break <name>', `break a rule on purpose: ${Object.keys(breaks).join(', ')}`)
  .option('--story <file>', 'write the counterexample there as a scenario')
  .parse()
  .opts<{
    size?: number;
    faults: number;
    deaths: number;
    edits: number;
    late: number;
    only?: string;
    depth?: number;
    seconds: number;
    states: number;
    break?: string;
    story?: string;
  }>();

const say = (text: string): void => void process.stdout.write(`${text}\n`);

const broken = options.break === undefined ? undefined : breaks[options.break];
if (options.break !== undefined && broken === undefined) {
  process.stderr.write(`there is no break "${options.break}": one of ${Object.keys(breaks).join(', ')}\n`);
  process.exit(2);
}
const { faults, deaths, edits, late } = options;
const all: readonly Sweep[] =
  broken !== undefined
    ? [{ name: `broken: ${broken.what}`, ...broken.sweep }]
    : options.size !== undefined
      ? [sweepOf(options.size, { faults, deaths, edits, late })]
      : sweeps.filter(({ name }) => name.includes(options.only ?? ''));
const mind = broken === undefined ? soundMind : brokenMind(broken);

const started = performance.now();
const left = (): number => options.seconds - (performance.now() - started) / 1_000;
const total = { states: 0, edges: 0, violations: 0, whole: 0 };
for (const [i, sweep] of all.entries()) {
  const from = performance.now();
  const explored: Explored = explore(
    sweep,
    mind,
    {
      // What an earlier one did not need is there for the later ones.
      seconds: left() / (all.length - i),
      states: options.states,
      ...(options.depth === undefined ? {} : { depth: options.depth }),
    },
    (states) => process.stderr.isTTY && process.stderr.write(`\r${sweep.name}: ${states} states`),
  );
  if (process.stderr.isTTY) process.stderr.write('\r');
  const seconds = (performance.now() - from) / 1_000;
  const { states, edges, depth, complete, ends, violation } = explored;
  total.states += states;
  total.edges += edges;
  total.whole += complete ? 1 : 0;
  const came = [...ends].toSorted(([, a], [, b]) => b - a).map(([end, n]) => `${end} ${n}`);
  say(
    `${sweep.name}: ${states} states, ${edges} edges, ${depth} moves deep${complete ? ', all of it' : ''}, ${seconds.toFixed(1)} s; fair runs end in: ${came.join(', ') || 'nothing'}`,
  );
  if (violation === undefined) continue;
  total.violations += 1;
  say(`\nVIOLATION after ${violation.moves} moves: ${violation.why}\n\n${violation.story}`);
  if (options.story !== undefined) await writeFile(options.story, violation.story);
}
const seconds = (performance.now() - started) / 1_000;
say(
  `model: ${total.states} states, ${total.edges} edges, ${Math.round(total.states / seconds)} states per second, ${total.whole} of ${all.length} sweeps whole, ${total.violations === 0 ? 'no violations' : `${total.violations} violations`}`,
);
process.exit(total.violations === 0 ? 0 : 1);
