/**
 * Bad weather: random events, in random order, with the controller dying anywhere, and then calm. Whatever happened, the
 * simulated world must never have held what must not be, and once it is calm everything must be as the claim says.
 */
import type { Observed } from '../../runtime/core/observed.ts';
import { plan } from '../../runtime/core/plan.ts';
import { classify, isHealthyVoter } from '../../runtime/core/situation.ts';
import {
  applyClaim,
  check,
  deleteClaim,
  emptyWorld,
  foreignDisk,
  observe,
  pass,
  restartContainer,
  run,
  turn,
  turnCollector,
  turnCrossplane,
  turnEtcd,
  turnKubelet,
  Violation,
  type World,
} from './simulate.ts';

/** Small, fast, and the same everywhere. */
const dice = (seed: number): (() => number) => {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let value = Math.imul(state ^ (state >>> 15), 1 | state);
    value = (value + Math.imul(value ^ (value >>> 7), 61 | value)) ^ value;
    return ((value ^ (value >>> 14)) >>> 0) / 2 ** 32;
  };
};

type Weather = { readonly w: World; readonly roll: () => number; readonly log: string[]; lossy: boolean };

const pick = <T>(roll: () => number, values: readonly T[]): T | undefined => values[Math.floor(roll() * values.length)];

const isWell = (w: World): boolean => {
  const s = classify(observe(w));
  return (
    (s.latch === undefined && w.etcd.every(({ leader, foreign }) => foreign || leader === undefined)) ||
    (s.seen.membership.known &&
      s.quorum?.status.operation === undefined &&
      s.held.length > 2 &&
      s.held.every((slot) => isHealthyVoter(slot)) &&
      s.seen.membership.value.members.length === s.held.length)
  );
};

/** What may befall a cluster. `gentle` ones take no data away; the others need a cluster that can spare a member. */
const EVENTS: readonly {
  readonly name: string;
  readonly gentle: boolean;
  readonly happen: (weather: Weather) => unknown;
}[] = [
  {
    name: 'resize',
    gentle: true,
    happen: ({ w, roll }) => {
      if (w.claim === undefined) return;
      const sizes = w.claim.shape.medium === 'Memory' ? [1, 3, 5] : [0, 1, 2, 3, 4, 5];
      w.claim.replicas = pick(roll, sizes) ?? 3;
    },
  },
  {
    name: 'options',
    gentle: true,
    happen: ({ w, roll }) =>
      w.claim !== undefined &&
      applyClaim(w, w.claim.replicas, { options: { snapshotCount: 10_000 + Math.floor(roll() * 5) } }),
  },
  {
    name: 'template',
    gentle: true,
    happen: ({ w, roll }) =>
      w.claim !== undefined && applyClaim(w, w.claim.replicas, { template: String(Math.floor(roll() * 4)) }),
  },
  {
    name: 'delete member',
    gentle: true,
    happen: ({ w, roll }) => {
      const member = pick(roll, w.members);
      if (member?.finalized === true) member.deleting = true;
      else if (member !== undefined) w.members = w.members.filter((one) => one !== member);
    },
  },
  {
    name: 'restart container',
    gentle: true,
    happen: ({ w, roll }) => restartContainer(w, pick(roll, w.members)?.name ?? ''),
  },
  {
    name: 'delete quorum',
    gentle: true,
    happen: ({ w }) => {
      w.quorum = undefined;
    },
  },
  {
    name: 'removed behind our back',
    gentle: false,
    happen: ({ w, roll }) => {
      const [etcd] = w.etcd.filter(({ foreign, leader }) => !foreign && leader !== undefined);
      const victim = pick(roll, etcd?.members.filter(({ id }) => id !== etcd.leader) ?? []);
      if (etcd !== undefined && classify(observe(w)).latch !== undefined) {
        etcd.members = etcd.members.filter((member) => member !== victim);
      }
    },
  },
  {
    name: 'blind to the claim',
    gentle: true,
    happen: ({ w }) => {
      w.blind.claim = !w.blind.claim;
    },
  },
  {
    name: 'blind to the namespace',
    gentle: true,
    happen: ({ w }) => {
      w.blind.namespace = !w.blind.namespace;
    },
  },
  {
    name: 'blind to etcd',
    gentle: true,
    happen: ({ w }) => {
      w.blind.etcd = !w.blind.etcd;
    },
  },
  {
    name: 'unreachable',
    gentle: true,
    happen: ({ w, roll }) => {
      const pod = pick(roll, w.pods);
      if (pod !== undefined) pod.unreachable = !pod.unreachable;
    },
  },
  {
    name: 'Crossplane stops or starts',
    gentle: true,
    happen: ({ w }) => {
      w.composing = !w.composing;
    },
  },
  {
    name: 'Pods refused',
    gentle: true,
    happen: ({ w }) => {
      w.refusing = w.refusing === undefined ? 'exceeded quota' : undefined;
    },
  },
  {
    name: 'unschedulable',
    gentle: true,
    happen: ({ w }) => {
      w.unschedulable = w.unschedulable === undefined ? '0/3 nodes' : undefined;
    },
  },
  {
    name: 'no volumes',
    gentle: true,
    happen: ({ w }) => {
      w.unprovisioned = w.unprovisioned === undefined ? 'no class' : undefined;
    },
  },
  {
    name: 'delete pod',
    gentle: false,
    happen: ({ w, roll }) => {
      const pod = pick(roll, w.pods);
      if (pod !== undefined) pod.deleting = true;
    },
  },
  {
    name: 'pod fails',
    gentle: false,
    happen: ({ w, roll }) => {
      const pod = pick(roll, w.pods);
      if (pod === undefined) return;
      restartContainer(w, pod.member);
      pod.phase = 'Failed';
      pod.container.running = false;
      pod.ready = false;
    },
  },
  {
    name: 'node lost',
    gentle: false,
    happen: ({ w, roll }) => {
      const pod = pick(roll, w.pods);
      if (pod === undefined) return;
      pod.lost = true;
      pod.ready = false;
      pod.deleting = roll() < 0.5;
    },
  },
  {
    name: 'delete volume',
    gentle: false,
    happen: ({ w, roll }) => {
      const volume = pick(roll, w.volumes);
      if (volume !== undefined) volume.deleting = true;
    },
  },
  {
    name: 'wipe',
    gentle: false,
    happen: ({ w, roll }) => {
      const volume = pick(roll, w.volumes);
      if (volume === undefined) return;
      volume.disk = undefined;
      restartContainer(w, volume.member);
    },
  },
  {
    name: 'foreign disk',
    gentle: false,
    happen: ({ w, roll }) => {
      const volume = pick(roll, w.volumes);
      // Before the cluster has formed nobody can tell whose data it is.
      if (volume?.memberID === undefined) return;
      restartContainer(w, volume.member);
      foreignDisk(w, volume.member);
    },
  },
];

const LIFE: readonly { readonly name: string; readonly happen: (weather: Weather) => unknown }[] = [
  { name: 'claim deleted in the background', happen: ({ w }) => deleteClaim(w, 'background') },
  { name: 'claim deleted in the foreground', happen: ({ w }) => deleteClaim(w, 'foreground') },
  { name: 'claim orphaned', happen: ({ w }) => deleteClaim(w, 'orphan') },
  {
    name: 'namespace deleted',
    happen: ({ w }) => {
      w.namespaceTerminating = true;
    },
  },
  {
    name: 'claim applied',
    happen: ({ w, roll }) =>
      w.claim === undefined && !w.namespaceTerminating ? applyClaim(w, pick(roll, [1, 3, 5]) ?? 3) : undefined,
  },
];

const calm = (w: World): void => {
  w.composing = true;
  w.refusing = undefined;
  w.unschedulable = undefined;
  w.unprovisioned = undefined;
  w.blind = { claim: false, namespace: false, etcd: false };
  for (const pod of w.pods) {
    pod.unreachable = false;
    // The node comes back, or somebody says that it never will.
    pod.lost = false;
  }
};

/** What a person does who reads the conditions: members whose data was refused or lost are replaced. */
const mend = (w: World): boolean => {
  const s = classify(observe(w));
  // The only member can be replaced, and in memory be changed, once it is not the only one any more.
  if (w.claim?.replicas === 1 && s.held.length === 1) {
    w.claim.replicas = 3;
    return true;
  }
  const broken = s.held.filter(
    (slot) => !slot.serving && !slot.member.deleting && slot.pod?.container.state !== 'running',
  );
  const [one] = broken;
  const member = w.members.find(({ uid }) => uid === one?.member.uid);
  if (member === undefined) return false;
  member.deleting = true;
  return true;
};

export type Journey = { readonly log: readonly string[]; readonly w: World };

export const explore = (
  seed: number,
  options: { readonly memory?: boolean; readonly mortal?: boolean; readonly slow?: boolean; readonly length?: number },
): Journey => {
  const roll = dice(seed);
  const w = emptyWorld();
  w.slow = options.slow ?? false;
  const weather: Weather = { w, roll, log: [], lossy: false };
  const { log } = weather;
  applyClaim(w, pick(roll, [1, 3, 3, 3, 5]) ?? 3, options.memory === true ? { medium: 'Memory' } : {});
  const guarded = <T>(what: string, deed: () => T): T => {
    log.push(what);
    try {
      const result = deed();
      check(w);
      return result;
    } catch (error) {
      if (error instanceof Error) error.message = `seed ${seed}: ${error.message}\n  ${log.slice(-400).join('\n  ')}`;
      throw error;
    }
  };
  // What slow caches, or a second controller that does not know yet that it is none, may still believe.
  const past: Observed[] = [];
  const step = (life?: number): void =>
    guarded('pass', () => {
      const stale = options.slow === true && roll() < 0.2;
      const now = structuredClone(observe(w));
      past.unshift(now);
      past.splice(6);
      const { decision, fault, died } = pass(w, life, stale ? (pick(roll, past) ?? now) : now);

      log[log.length - 1] =
        `${decision.rule}: ${decision.step.do}${'message' in decision.step ? ` ${decision.step.message}` : ''}${died ? ' (died)' : ''}${fault === undefined ? '' : ` (${fault.message})`} ${decision.sketch}`;
    });

  for (let i = 0; i < (options.length ?? 120); i += 1) {
    const chance = roll();
    if (chance < 0.55) step(roll() < 0.15 ? Math.floor(roll() * 4) : undefined);
    else if (chance < 0.9) {
      const move = pick(roll, [turn, turn, turnCollector, turnCrossplane, turnKubelet, turnEtcd]) ?? turn;
      guarded(move.name, () => move(w));
    } else if (options.mortal === true && chance < 0.915) {
      const event = pick(roll, LIFE);
      if (event !== undefined) guarded(`*** ${event.name}`, () => event.happen(weather));
    } else {
      const event = pick(roll, EVENTS);
      if (event === undefined || (!event.gentle && !isWell(w))) continue;
      guarded(`*** ${event.name}`, () => event.happen(weather));
    }
  }

  guarded('*** calm', () => calm(w));
  const settle = (): void => {
    guarded('run', () =>
      run(w, {
        each: ({ rule, step: taken, fault }) =>
          log.push(
            `${rule}: ${taken.do}${'message' in taken ? ` ${taken.message}` : ''}${fault === undefined ? '' : ` (${fault.message})`}`,
          ),
      }),
    );
  };
  settle();
  for (
    let i = 0;
    i < 8 && w.claim !== undefined && w.claim.replicas > 0 && plan(observe(w)).step.do !== 'Settled' && mend(w);
    i += 1
  ) {
    log.push('*** mended');
    settle();
  }
  guarded('the end', () => verdict(w, log));
  return { log, w };
};

const verdict = (w: World, log: readonly string[]): void => {
  if (w.claim === undefined) {
    // What was orphaned stays, and waits for its claim: nobody deletes it.
    if ([...w.members, ...w.pods].some(({ deleting, controllerUID }) => !deleting && controllerUID === undefined))
      return;
    if (log.includes('*** claim orphaned') && log.some((line) => line.includes('LetGo'))) return;
    if (w.members.some(({ deleting }) => deleting)) throw new Violation('a member cannot end');
    if (w.pods.length + w.volumes.length + w.members.length > 0) throw new Violation('something is left behind');
    return;
  }
  const { step, sketch, situation } = plan(observe(w));
  const { replicas } = w.claim;
  if (replicas === 0) {
    const doomed = step.do === 'AskHuman' && step.reason === 'VolumeLost';
    if (!doomed && (step.do !== 'Wait' || step.reason !== 'Paused'))
      throw new Violation(`not paused: ${JSON.stringify(step)} ${sketch}`);
    return;
  }
  const serving = situation.held.filter((slot) => slot.serving).length;
  // A slot that was Removed when its claim was orphaned is nobody's: no claim composes it again.
  const kept = w.members.filter(
    ({ controllerUID, status }) => controllerUID !== undefined || status.phase !== 'Removed',
  );
  if (step.do !== 'Settled' || serving !== replicas || kept.length !== replicas) {
    throw new Violation(
      `does not settle: ${'message' in step ? step.message : step.do} ${sketch}, ${w.members.length} members`,
    );
  }
  const phase = w.quorum?.status.phase;
  if (phase !== 'Running') throw new Violation(`settled, and its phase is ${phase}`);
};
