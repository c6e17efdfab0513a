/**
 * Every order in which things can happen to a small cluster, breadth first: the runtime's passes, whole or dying after any effect,
 * on a fresh view or an old one; kubelets, etcd, Crossplane; faults and edits, a few of each. Every move is a line of a scenario,
 * so the way to a violation is a scenario file, and the first that is found is a shortest.
 */

import type { Decision } from '../../runtime/core/plan.ts';
import { majority } from '../../runtime/core/situation.ts';
import {
  emptyWorld,
  type Mind,
  observe,
  partakers,
  pass,
  turn,
  Violation,
  votersOf,
  type World,
} from '../scenarios/simulate.ts';
import { line, play } from '../scenarios/story.ts';
import { fingerprintOf, pack, unpack } from './state.ts';

export type Budget = {
  /** Of each kind, how many at most on one way. */
  readonly faults?: number;
  readonly deaths?: number;
  readonly edits?: number;
  /** Passes on a view that has grown old. */
  readonly late?: number;
  /** Long times in which nothing else happens. */
  readonly jumps?: number;
};

export type Sweep = {
  readonly name: string;
  /** Lines of a scenario that lead to the first state. */
  readonly prelude: readonly string[];
  readonly edits: readonly string[];
  /** `%` is each of the members in turn. */
  readonly faults: readonly string[];
  readonly budget: Budget;
};

export type Counterexample = {
  readonly sweep: string;
  readonly why: string;
  readonly story: string;
  readonly moves: number;
};

export type Explored = {
  readonly states: number;
  readonly edges: number;
  readonly depth: number;
  /** Everything within the budget was seen. */
  readonly complete: boolean;
  readonly violation: Counterexample | undefined;
  /** How fair runs ended, and how many states lead there. */
  readonly ends: ReadonlyMap<string, number>;
};

export type Limits = {
  readonly seconds?: number;
  readonly states?: number;
  readonly depth?: number;
};

const KINDS = ['faults', 'deaths', 'edits', 'late', 'jumps'] as const;
type Spent = Readonly<Record<(typeof KINDS)[number], number>>;
const NOTHING: Spent = { faults: 0, deaths: 0, edits: 0, late: 0, jumps: 0 };

/** Stands for each of the members. */
const ANY = '%';
const LONG_MS = 130_000;
const DEATHS_TRIED = 16;
const FAIR_MOVES = 600;

export type Move = { readonly line: string; readonly costs?: (typeof KINDS)[number] };

/** Alive voters of the cluster that serves. */
const strength = (
  w: World,
): { readonly alive: number; readonly voters: number; readonly enough: boolean } | undefined => {
  const etcd = w.etcd.find(({ served, foreign, id }) => served && !foreign && w.served.includes(id));
  if (etcd === undefined) return undefined;
  const voters = votersOf(etcd);
  const alive = partakers(w, etcd).filter(
    ({ pod, disk }) => !pod.deleting && voters.some(({ id }) => id === disk.memberID),
  ).length;
  return { alive, voters: voters.length, enough: alive >= majority(voters.length) };
};

/** What the runtime's own step may not do, told from the world before and after it. */
const checkOwnStep = (before: ReturnType<typeof strength>, w: World, decision: Decision, late: boolean): void => {
  const after = strength(w);
  const asked = w.claim?.replicas ?? 0;
  // Pausing takes everybody, and of one or two voters none can be spared for a restart.
  if (w.claim === undefined || w.claim.deleting || w.namespaceTerminating || asked === 0 || late) return;
  if (before?.enough === true && after?.enough === false && before.voters > 2) {
    throw new Violation(
      `${decision.step.do} costs the quorum: ${after.alive} of ${after.voters} voters stay, before it ${before.alive} of ${before.voters}`,
    );
  }
};

/** A write that was acknowledged is one that a majority had. What etcd has of it later may not be less. */
const promises = (w: World): Map<string, bigint> =>
  new Map(w.etcd.filter(({ served, foreign }) => served && !foreign).map(({ id, revision }) => [id, revision]));

const checkPromises = (before: ReadonlyMap<string, bigint>, w: World): void => {
  for (const etcd of w.etcd) {
    const promised = before.get(etcd.id);
    if (promised !== undefined && etcd.revision < promised && !w.givenUp.includes(etcd.id)) {
      throw new Violation(`acknowledged writes are lost: etcd is at revision ${etcd.revision}, it was at ${promised}`);
    }
  }
};

const checked = <T>(w: World, deed: () => T): T => {
  const before = promises(w);
  const result = deed();
  checkPromises(before, w);
  return result;
};

const RESTS = new Set<string>(['Wait', 'AskHuman', 'Settled']);

/** Makes one move and says what came of it, as a scenario would. */
const make = (
  w: World,
  { line: directive }: Move,
  mind: Mind,
): { readonly told: () => string; readonly over: boolean; readonly rests: boolean } =>
  checked(w, () => {
    const [verb = '', how = ''] = directive.split(' ');
    if (verb !== 'pass' && verb !== 'die') {
      const told = play(w, directive);
      return { told: () => told, over: false, rests: true };
    }
    const late = how === 'late';
    const before = strength(w);
    const life = verb === 'die' ? Number(how.split('=')[1]) : undefined;
    const { decision, fault, died } = pass(w, life, late ? w.view : undefined, mind);
    checkOwnStep(before, w, decision, late);
    if (!late && fault?.message.includes('too many learner') === true) {
      throw new Violation('etcd is asked for a second learner');
    }
    return {
      told: () => `${line(decision, fault)}${died ? ' (the controller dies)' : ''}`,
      over: verb === 'die' && !died,
      rests: fault !== undefined || RESTS.has(decision.step.do),
    };
  });

const movesOf = (w: World, sweep: Sweep, spent: Spent): Move[] => {
  const { budget } = sweep;
  const left = (kind: (typeof KINDS)[number]): boolean => spent[kind] < (budget[kind] ?? 0);
  const moves: Move[] = [{ line: 'pass' }];
  if (w.view !== undefined) {
    moves.push({ line: 'forget' });
    if (left('late')) moves.push({ line: 'pass late', costs: 'late' });
  } else if (left('late')) moves.push({ line: 'remember' });
  for (const whose of ['kubelet', 'etcd', 'crossplane', 'collector']) moves.push({ line: `turn ${whose}` });
  if (left('jumps')) moves.push({ line: `turn ${LONG_MS}`, costs: 'jumps' });
  if (left('edits')) for (const edit of sweep.edits) moves.push({ line: edit, costs: 'edits' });
  if (left('faults')) {
    for (const fault of sweep.faults) {
      if (!fault.includes(ANY)) moves.push({ line: fault, costs: 'faults' });
      else for (const { name } of w.members) moves.push({ line: fault.replace(ANY, name), costs: 'faults' });
    }
  }
  for (const pod of w.pods) {
    if (pod.lost) moves.push({ line: `recover ${pod.member}` });
    if (pod.cut === true) moves.push({ line: `cut ${pod.member} off` });
    if (pod.lagging === true) moves.push({ line: `lag ${pod.member} off` });
  }
  return moves;
};

/** Faults stop: nodes come back, links hold, everybody does their work. What was taken away stays away. */
const heal = (w: World): void => {
  w.composing = true;
  w.refusing = w.unschedulable = w.unprovisioned = w.imageTrouble = w.view = undefined;
  w.blind = { claim: false, namespace: false, etcd: false };
  for (const pod of w.pods) Object.assign(pod, { lost: false, unreachable: false, cut: false, lagging: false });
};

/** Waits whose message tells a person what to do, since nothing else helps. */
const WAITS_FOR_PERSON = new Set<string>(['QuorumLost', 'ForeignData', 'VolumeLost', 'ReplacementHeld']);

/** Whoever has to act reads the conditions, not what was decided last. */
const isTold = (w: World, reason: string): boolean =>
  (w.quorum?.status.conditions ?? []).some(
    (one) => one.reason === reason || (one.status === 'True' && (one.type === 'Degraded' || one.type === 'Stalled')),
  );

/** Where a fair run may end; undefined: there it may not. */
const endOf = (w: World, { step, situation }: Decision): string | undefined => {
  if (step.do === 'AskHuman') return `AskHuman ${step.reason}`;
  if (step.do === 'Settled') {
    const serving = situation.held.filter((slot) => slot.serving).length;
    return w.claim === undefined || serving === w.claim.replicas ? 'Settled' : undefined;
  }
  if (step.do !== 'Wait') return undefined;
  if (w.claim === undefined) return w.pods.length + w.volumes.length === 0 ? 'Gone' : undefined;
  if (step.reason === 'Paused' && w.claim.replicas === 0) return 'Paused';
  return WAITS_FOR_PERSON.has(step.reason) && isTold(w, step.reason) ? `Wait ${step.reason}` : undefined;
};

/** Longer and longer, since what waits for a time waits for seconds, minutes, or a node's patience. */
const PATIENCE_MS = [1_000, 1_000, 5_000, 10_000, 60_000, 600_000, 3_600_000];

/**
 * A fair run from `w`: everybody goes on until nothing changes any more. `good` remembers which states lead to a good end, so
 * that most runs are a few moves long.
 */
const runFair = (
  w: World,
  mind: Mind,
  good: Map<string, string>,
  tell?: (directive: string, told: string) => void,
): string => {
  const way: string[] = [];
  let idle = 0;
  heal(w);
  for (let i = 0; i < FAIR_MOVES; i += 1) {
    const print = fingerprintOf(w);
    const known = good.get(print);
    if (known !== undefined && idle === 0) {
      for (const one of way) good.set(one, known);
      return known;
    }
    if (idle === 0) way.push(print);
    const own = make(w, { line: 'pass' }, mind);
    tell?.('pass', own.told());
    if (!own.rests) {
      idle = 0;
      continue;
    }
    const ms = PATIENCE_MS[idle] ?? 0;
    checked(w, () => turn(w, ms));
    tell?.(`turn ${ms}`, 'ok');
    idle = fingerprintOf(w) === print ? idle + 1 : 0;
    if (idle < PATIENCE_MS.length) continue;
    const last = mind.decide(observe(w));
    const end = endOf(w, last);
    if (end === undefined) throw new Violation(`a fair run ends in ${line(last, undefined)} (${last.sketch})`);
    for (const one of way) good.set(one, end);
    return end;
  }
  throw new Violation(`a fair run has no end within ${FAIR_MOVES} moves`);
};

type Node = { readonly from: number; readonly move: Move | undefined; readonly spent: Spent; readonly depth: number };

/** Of a fair run that does not end, this much is told. */
const TOLD_FAIR = 40;

/** The moves as a scenario, with what comes of them; `fair`: and of a fair run after them. */
export const storyOf = (
  sweep: Pick<Sweep, 'prelude'>,
  moves: readonly Move[],
  mind: Mind,
  why: string,
  fair: boolean,
): string => {
  const w = emptyWorld();
  const lines = [`# ${why}`, ''];
  const tell = (directive: string, told: string): void => void lines.push(directive, '----', told, '');
  for (const directive of sweep.prelude) tell(directive, play(w, directive));
  try {
    for (const move of moves) {
      let told = '';
      try {
        told = make(w, move, mind).told();
      } catch (error) {
        tell(move.line, error instanceof Error ? error.message : String(error));
        throw error;
      }
      tell(move.line, told);
    }
    if (fair) {
      lines.push('# From here on nothing more goes wrong, and everybody does their work.', '');
      let told = 0;
      runFair(w, mind, new Map(), (directive, answer) => {
        told += 1;
        if (told <= TOLD_FAIR) tell(directive, answer);
        else if (told === TOLD_FAIR + 1) lines.push('# … and so on.', '');
      });
    }
  } catch (error) {
    lines.push(`# ${error instanceof Error ? error.message : String(error)}`);
  }
  return `${lines.join('\n')}\n`;
};

export const explore = (
  sweep: Sweep,
  mind: Mind,
  limits: Limits = {},
  onProgress?: (states: number) => void,
): Explored => {
  const deadline = performance.now() + (limits.seconds ?? Number.POSITIVE_INFINITY) * 1_000;
  const first = emptyWorld();
  for (const directive of sweep.prelude) play(first, directive);
  const nodes: Node[] = [{ from: -1, move: undefined, spent: NOTHING, depth: 0 }];
  const seen = new Set([fingerprintOf(first, JSON.stringify(NOTHING))]);
  const good = new Map<string, string>();
  const ends = new Map<string, number>();
  let frontier: { readonly node: number; readonly packed: Buffer }[] = [{ node: 0, packed: pack(first) }];
  let edges = 0;
  let depth = 0;

  const wayTo = (node: number): Move[] => {
    const moves: Move[] = [];
    for (let at = node; at > 0; at = nodes[at]?.from ?? 0) {
      const { move } = nodes[at] ?? {};
      if (move !== undefined) moves.unshift(move);
    }
    return moves;
  };
  const result = (complete: boolean, violation?: Counterexample): Explored => ({
    states: nodes.length,
    edges,
    depth,
    complete,
    violation,
    ends,
  });
  const found = (moves: readonly Move[], error: unknown, fair: boolean): Explored => {
    if (!(error instanceof Error)) throw error;
    const why = error instanceof Violation ? error.message : `${error.stack}`;
    return result(false, {
      sweep: sweep.name,
      why,
      story: storyOf(sweep, moves, mind, why, fair),
      moves: moves.length,
    });
  };
  const judge = (w: World): void => {
    const end = runFair(w, mind, good);
    ends.set(end, (ends.get(end) ?? 0) + 1);
  };

  try {
    judge(unpack(pack(first)));
  } catch (error) {
    return found([], error, true);
  }
  while (frontier.length > 0) {
    if (depth >= (limits.depth ?? Number.POSITIVE_INFINITY)) return result(false);
    depth += 1;
    const next: typeof frontier = [];
    for (const { node, packed } of frontier) {
      const { spent } = nodes[node] ?? { spent: NOTHING };
      const moves = movesOf(unpack(packed), sweep, spent);
      if (spent.deaths < (sweep.budget.deaths ?? 0)) {
        for (let life = 0; life < DEATHS_TRIED; life += 1) moves.push({ line: `die after=${life}`, costs: 'deaths' });
      }
      let survives = false;
      for (const move of moves) {
        if (survives && move.costs === 'deaths') continue;
        if (performance.now() > deadline || nodes.length >= (limits.states ?? Number.POSITIVE_INFINITY))
          return result(false);
        const w = unpack(packed);
        edges += 1;
        try {
          const { over } = make(w, move, mind);
          // The pass was over before it could die: so would every longer life be.
          if (over) {
            survives = true;
            continue;
          }
        } catch (error) {
          return found([...wayTo(node), move], error, false);
        }
        const paid = move.costs === undefined ? spent : { ...spent, [move.costs]: spent[move.costs] + 1 };
        const print = fingerprintOf(w, JSON.stringify(paid));
        if (seen.has(print)) continue;
        seen.add(print);
        nodes.push({ from: node, move, spent: paid, depth });
        const own = nodes.length - 1;
        next.push({ node: own, packed: pack(w) });
        if (nodes.length % 1_000 === 0) onProgress?.(nodes.length);
        try {
          judge(w);
        } catch (error) {
          return found(wayTo(own), error, true);
        }
      }
    }
    frontier = next;
  }
  return result(true);
};
