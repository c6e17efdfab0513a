/** A member whose volume is filled before etcd starts on it: from a survivor, or from a stored snapshot. */
import { incarnationName } from '../../../api/names.ts';
import type { Reason } from '../../../api/reasons.ts';
import type { EtcdMemberStatus } from '../../ports/etcd.ts';
import { settledConfig } from '../member-config.ts';
import type { SeenPod, SeenVolume } from '../observed.ts';
import { seedFailure } from '../seed-failures.ts';
import { type MemoryFill, type SeedReport, seedPodName, seedReport } from '../seeding.ts';
import type { Situation, Slot } from '../situation.ts';
import type { ObjectName, Step } from '../steps.ts';
import { fillingLoss, isLeftBehind, type NodeLoss } from './lost-nodes.ts';
import { named, RETRY_MS, STARTING_RECHECK_MS, wait } from './rule.ts';
import { isTerminal, placement, refusedSpec, wasBegun } from './standing.ts';

/** Long enough to read the failed Pod's logs, short enough for a disk or a store that had a bad moment. */
const SEED_AGAIN_MS = 30_000;
/** What was read and found to be wrong is wrong the next time as well, and stores charge for what is read. */
const DAMAGED_AGAIN_MS = 600_000;
const WRONG: readonly Reason[] = ['SnapshotDamaged', 'SnapshotNotEncrypted'];

export type Seeded = { readonly slot: Slot; readonly incarnation: string };

/** What is said while it takes its time. */
export type SeedWords = {
  readonly reason: Reason;
  readonly filling: string;
  readonly starting: string;
  /** What a person can do while it fails. */
  readonly failing?: string;
};

const seedOf = ({ slot: { member }, incarnation }: Seeded) =>
  member.pods.find(({ name }) => name === seedPodName(member.name, incarnation));

/** The answer to a node that is away with what is being made on it. */
export type OnLoss = (loss: NodeLoss) => Step;

/** By `step`, once the node has been away for long enough. */
export const anew =
  (s: Situation, step: (why: string) => Step): OnLoss =>
  ({ at, why, says }) =>
    at !== undefined && at <= s.seen.now ? step(why) : wait('NodeLost', says, RETRY_MS);

export type Taken = {
  readonly pods: readonly ObjectName[];
  readonly volumes: readonly ObjectName[];
  /** Nothing is left but what ends with the return of its node. */
  readonly done: boolean;
};

/** What to ask to go of something that is given up: Pods before volumes. */
export const takingAway = (pods: readonly SeenPod[], volumes: readonly SeenVolume[]): Taken => {
  const left = pods.filter((pod) => !isLeftBehind(pod));
  const gone = volumes.length === 0 || (left.length < pods.length && volumes.every(({ deleting }) => deleting));
  return {
    pods: left.filter(({ deleting }) => !deleting).map(named),
    volumes: left.length > 0 ? [] : volumes.filter(({ deleting }) => !deleting).map(named),
    done: left.length === 0 && gone,
  };
};

/** The report of the Pod that has filled the volume; else the step to take, where `make` is the one that makes that Pod. */
export const filled = (s: Situation, of: Seeded, words: SeedWords, make: Step, onLoss: OnLoss): SeedReport | Step => {
  const seed = seedOf(of);
  if (seed === undefined) return refusedSpec([of.slot]) ?? make;
  const { member } = of.slot;
  const own = incarnationName(member.name, of.incarnation);
  const volume = member.volumes.find(({ name }) => name === own);
  // Also where it has done its work: what it has filled is where it was.
  const loss = fillingLoss(s, seed, volume);
  if (loss !== undefined) return onLoss(loss);
  if (seed.deleting) return wait(words.reason, `waiting for the end of ${seed.name}`, RETRY_MS);
  const report = seed.seed?.report === undefined ? undefined : seedReport(seed.seed.report);
  if (seed.seed?.state === 'succeeded' && report !== undefined) return report;
  const trouble = seed.seed?.trouble ?? seed.unschedulable;
  const way = words.failing === undefined ? '' : `; ${words.failing}`;
  if (isTerminal(seed)) {
    const reason = seedFailure(trouble);
    const againMs = WRONG.includes(reason) ? DAMAGED_AGAIN_MS : SEED_AGAIN_MS;
    const why = `Pod ${seed.name}: ${trouble ?? 'it ended without a report'}${way}`;
    return s.seen.now - seed.createdAt < againMs
      ? wait(reason, why, RETRY_MS)
      : { do: 'DeletePods', reason, why, pods: [named(seed)] };
  }
  return trouble === undefined
    ? wait(words.reason, words.filling, RETRY_MS)
    : wait(seedFailure(trouble), `Pod ${seed.name}: ${trouble}${way}`, RETRY_MS);
};

/**
 * What the member answers once it leads itself on what was filled in; else the step to take, `lost` if its volume went. A member
 * in memory is filled in its own Pod, by `fill`, and is lost with it.
 */
export const started = (
  s: Situation,
  of: Seeded,
  words: SeedWords,
  lost: Step,
  onLoss: OnLoss,
  fill?: MemoryFill,
): EtcdMemberStatus | Step => {
  const { slot, incarnation } = of;
  const { member, pod, volume } = slot;
  const seed = seedOf(of);
  const answer = pod?.etcd.known === true && !pod.deleting ? pod.etcd.value : undefined;
  const leads = pod?.container.state === 'running' && answer !== undefined && answer.leaderId === answer.memberId;
  const loss = leads ? undefined : fillingLoss(s, seed ?? pod, volume);
  if (loss !== undefined) return onLoss(loss);
  if (seed !== undefined) {
    return seed.deleting
      ? wait(words.reason, `waiting for the end of ${seed.name}`, RETRY_MS)
      : { do: 'DeletePods', reason: words.reason, why: 'its work is done', pods: [named(seed)] };
  }
  if (slot.memory) {
    if (pod === undefined ? wasBegun(slot, incarnation) : isTerminal(pod)) return lost;
  } else if (volume === undefined || volume.deleting) return lost;
  if (pod === undefined) {
    const config = settledConfig(s, slot, incarnation);
    const refused = refusedSpec([slot]);
    if (refused !== undefined || config === undefined) {
      return refused ?? wait('VersionUnsupported', `etcd ${member.spec.version} is not supported`, RETRY_MS);
    }
    return {
      do: 'BringUp',
      why: words.starting,
      places: [placement(slot, incarnation, config, false, slot.memory ? fill : undefined)],
    };
  }
  if (pod.deleting) return wait(words.reason, `waiting for the end of ${pod.name}`, RETRY_MS);
  if (isTerminal(pod)) {
    return { do: 'DeletePods', reason: 'Restarting', why: 'it ended and comes back on its volume', pods: [named(pod)] };
  }
  const trouble = pod.container.state === 'running' ? undefined : pod.seed?.trouble;
  if (trouble !== undefined) return wait(seedFailure(trouble), `Pod ${pod.name}: ${trouble}`, RETRY_MS);
  return leads ? answer : wait(words.reason, words.starting, STARTING_RECHECK_MS);
};
