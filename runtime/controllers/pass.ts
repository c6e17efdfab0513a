/** One pass over one cluster: observe, plan, veto, act, record. */
import type { Reason } from '../../api/reasons.ts';
import { brokenInvariant } from '../core/invariants.ts';
import { memberReport, memberStatus } from '../core/member-report.ts';
import { type Decision, plan } from '../core/plan.ts';
import { certificatesSaid, quorumStatus, type StepFault } from '../core/report.ts';
import { ESSENTIAL, wordsFor } from '../core/step-events.ts';
import type { Step } from '../core/steps.ts';
import { EtcdFault } from '../ports/etcd.ts';
import { isFault, KubeFault } from '../ports/kube.ts';
import type { FinishedSpan } from '../ports/tracing.ts';
import { act } from './act.ts';
import { type ChangeEnd, createChangeTrail } from './change-trail.ts';
import { createSecretOwnership } from './issued-secrets.ts';
import { observe } from './observe.ts';
import { errorType, recordingCalls } from './recorded-calls.ts';
import { type About, type ClusterName, clusterKey, type World } from './world.ts';
import { type Outcome, writeMember, writeQuorum } from './writes.ts';

export type PassResult = {
  readonly decision: Decision;
  readonly outcome: 'applied' | 'early' | 'refused' | 'vetoed' | 'idle';
  /** Why nothing was done, or not what was meant: the word that condition and event have for it. */
  readonly reason?: Reason | undefined;
  /** Milliseconds until the next pass is wanted; 0 = at once. */
  readonly againMs: number;
};

/** Between two writes of the quorum's status that nobody waits for. */
const GATHER_MS = 5_000;
/** The same while members come and go: each change ends with a write, and one more in its middle tells nobody anything. */
const GATHER_UNDERWAY_MS = 20_000;
/** Steps that write the quorum's status, with all that is to be said. */
const WRITING: readonly Step['do'][] = ['RecordAttempt', 'AbandonAttempt', 'Latch', 'BeginOperation', 'EndOperation'];
/** The same step this often in a row, each time "done", is a defect: slow down and say so. */
const STUBBORN = 20;
const STUBBORN_MS = 1_000;
const REFUSED_MS = 5_000;
const ASKING_MS = 15_000;
/** A StorageClass does not change its mind, and everything else is settled: asking often would only be noise. */
const NOT_GROWN_MS = 300_000;
/** Somebody was faster, or an object went away: nothing failed, the picture was old. */
const STALE = ['Conflict', 'NotFound', 'AlreadyExists'] as const;
const STALE_MS = 100;

type Memory = {
  lastStep: string;
  repeats: number;
  lastGathered: number | undefined;
  /** `<member>/<reason>` of the troubles already announced. */
  announced: Set<string>;
  leader: string | undefined;
};

export type Passes = {
  run(cluster: ClusterName, signal: AbortSignal): Promise<PassResult>;
  forget(cluster: ClusterName): void;
};

const claimOf = ({ situation }: Decision): About | undefined => {
  const uid = situation.quorum?.controllerUID;
  const { cluster, namespace } = situation.seen;
  return uid === undefined ? undefined : { kind: 'EtcdCluster', name: cluster, namespace, uid };
};

const reasonOf = (step: Step): Reason | undefined => ('reason' in step ? step.reason : undefined);

/** What the metrics want to know of changes that take many passes. */
export type PassListeners = {
  readonly onChangeEnd?: (end: ChangeEnd) => void;
  readonly onLeaderChange?: () => void;
};

export const createPasses = (world: World, settledMs: () => number, listeners: PassListeners = {}): Passes => {
  const ownership = createSecretOwnership(world);
  const trail = createChangeTrail(world, (end) => listeners.onChangeEnd?.(end));
  const memories = new Map<string, Memory>();
  const memoryOf = (key: string): Memory => {
    const present = memories.get(key);
    if (present !== undefined) return present;
    const fresh: Memory = {
      lastStep: '',
      repeats: 0,
      lastGathered: undefined,
      announced: new Set(),
      leader: undefined,
    };
    memories.set(key, fresh);
    return fresh;
  };

  const announceTroubles = (decision: Decision, memory: Memory): void => {
    const { situation } = decision;
    const now = new Set<string>();
    for (const slot of situation.slots) {
      const said = memberReport(situation, slot);
      if (!said.trouble) continue;
      const key = `${slot.member.name}/${said.reason}`;
      now.add(key);
      if (memory.announced.has(key)) continue;
      const event = { type: 'Warning', reason: said.reason, message: said.message, action: 'Observe' } as const;
      world.announce(
        { kind: 'EtcdMember', name: slot.member.name, namespace: situation.seen.namespace, uid: slot.member.uid },
        event,
      );
      const claim = claimOf(decision);
      if (claim !== undefined) world.announce(claim, { ...event, message: `${slot.member.name}: ${said.message}` });
    }
    const certificates = certificatesSaid(situation);
    const claim = claimOf(decision);
    if (certificates !== undefined && certificates.reason !== 'CertificatesValid' && claim !== undefined) {
      now.add(certificates.reason);
      if (!memory.announced.has(certificates.reason)) {
        const { reason, message } = certificates;
        world.announce(claim, { type: 'Warning', reason, message, action: 'Observe' });
      }
    }
    memory.announced = now;
  };

  /** Writes what has consequences. Returns in how many milliseconds a gathered write falls due. */
  const record = async (
    through: World,
    decision: Decision,
    memory: Memory,
    signal: AbortSignal,
    fault?: StepFault,
  ): Promise<number | undefined> => {
    const { situation } = decision;
    const scene = { world: through, seen: situation.seen, signal };
    announceTroubles(decision, memory);
    try {
      await Promise.all(
        situation.slots.map(async (slot) => {
          const status = memberStatus(situation, slot);
          if (status !== undefined) await writeMember(scene, slot.member, status);
        }),
      );
      return await recordQuorum(through, decision, memory, signal, fault);
    } catch (error) {
      if (isFault(error, ...STALE)) return STALE_MS;
      throw error;
    }
  };

  const recordQuorum = async (
    through: World,
    decision: Decision,
    memory: Memory,
    signal: AbortSignal,
    fault: StepFault | undefined,
  ): Promise<number | undefined> => {
    const scene = { world: through, seen: decision.situation.seen, signal };
    const due = quorumStatus(decision, fault);
    if (due === undefined) return undefined;
    const now = world.clock.elapsed();
    const gatherMs = due.status.operation === undefined ? GATHER_MS : GATHER_UNDERWAY_MS;
    const waitMs = memory.lastGathered === undefined ? 0 : memory.lastGathered + gatherMs - now;
    if (!due.urgent && waitMs > 0) return waitMs;
    await writeQuorum(scene, due.status);
    memory.lastGathered = now;
    return undefined;
  };

  /** Only of a proven identity: what an impostor answers must not become the floor of the volume that it sits on. */
  const remember = ({ situation }: Decision): void => {
    const { seen } = situation;
    for (const { pod, identity } of situation.held) {
      if (pod?.etcd.known !== true || identity.is !== 'proven') continue;
      const { revision, clusterId } = pod.etcd.value;
      if (revision > (world.revisions.get(pod.name) ?? 0n)) world.revisions.set(pod.name, revision);
      const key = clusterKey({ namespace: seen.namespace, name: seen.cluster });
      const last = world.lastSeen.get(key);
      // A claim applied again under this name has a cluster of its own, whose revisions begin anew.
      if (last === undefined || last.clusterID !== clusterId || revision >= last.revision) {
        world.lastSeen.set(key, { clusterID: clusterId, revision, at: seen.now });
      }
    }
  };

  const noteLeader = ({ situation }: Decision, memory: Memory): void => {
    const { leaderID } = situation;
    if (leaderID === undefined) return;
    if (memory.leader !== undefined && memory.leader !== leaderID) listeners.onLeaderChange?.();
    memory.leader = leaderID;
  };

  const run = async (cluster: ClusterName, signal: AbortSignal): Promise<PassResult> => {
    const decision = plan(await observe(world, cluster, signal));
    const since = { now: world.clock.now(), elapsed: world.clock.elapsed() };
    const nowMs = (): number => since.now + world.clock.elapsed() - since.elapsed;
    const calls: FinishedSpan[] = [];
    const through = world.tracing === undefined ? world : recordingCalls(world, calls, nowMs);
    const traced = (of: { decision: Decision; outcome: string }, error?: string): Promise<void> =>
      trail.passed(cluster, { ...of, startMs: since.now, endMs: nowMs(), calls, error }, signal);
    try {
      const result = await take(through, cluster, decision, signal);
      await traced(result, result.outcome === 'refused' ? result.reason : undefined);
      await ownership.ensure(decision.situation.seen, signal);
      return result;
    } catch (error) {
      await traced({ decision, outcome: 'failed' }, errorType(error));
      throw error;
    }
  };

  const take = async (
    through: World,
    cluster: ClusterName,
    decided: Decision,
    signal: AbortSignal,
  ): Promise<PassResult> => {
    const key = clusterKey(cluster);
    const memory = memoryOf(key);
    let decision = decided;
    remember(decision);
    noteLeader(decision, memory);
    const { log } = world;
    const fields = { cluster: key, rule: decision.rule, step: decision.step.do, seen: decision.sketch };

    const veto = brokenInvariant(decision.situation, decision.step);
    if (veto !== undefined) {
      log.error({ ...fields, veto, detail: decision.step }, 'step vetoed');
      decision = {
        ...decision,
        step: { do: 'AskHuman', reason: 'InvariantBroken', message: `${decision.step.do}: ${veto}` },
      };
      await record(through, decision, memory, signal);
      return { decision, outcome: 'vetoed', reason: 'InvariantBroken', againMs: REFUSED_MS };
    }

    const { step } = decision;
    if (step.do === 'Wait' || step.do === 'AskHuman' || step.do === 'Settled') {
      const dueMs = await record(through, decision, memory, signal);
      memory.lastStep = '';
      memory.repeats = 0;
      const ownMs =
        step.do === 'Settled' ? settledMs() : step.do === 'AskHuman' ? ASKING_MS : (step.recheckMs ?? settledMs());
      return { decision, outcome: 'idle', reason: reasonOf(step), againMs: Math.min(ownMs, dueMs ?? ownMs) };
    }

    const text = JSON.stringify(step, (_, value: unknown) => (typeof value === 'bigint' ? String(value) : value));
    memory.repeats = text === memory.lastStep ? memory.repeats + 1 : 0;
    memory.lastStep = text;
    if (memory.repeats === 0) {
      log.info(
        { ...fields, detail: step.do === 'BringUp' ? step.places.map(({ member }) => member.name) : undefined },
        'step',
      );
      const claim = claimOf(decision);
      for (const one of step.do === 'EndOperation' && step.next !== undefined ? [step, step.next] : [step]) {
        const words = wordsFor(one);
        if (words !== undefined && claim !== undefined) {
          world.announce(claim, { ...words, action: one.do, essential: ESSENTIAL.has(one.do) });
        }
      }
    }

    let outcome: Outcome;
    try {
      outcome = await act(through, decision, signal);
    } catch (error) {
      if (isFault(error, ...STALE)) return { decision, outcome: 'early', againMs: STALE_MS };
      if (!(error instanceof KubeFault || error instanceof EtcdFault)) throw error;
      if (signal.aborted || !isFault(error, 'Invalid', 'Forbidden', 'BadRequest')) throw error;
      outcome = { was: 'refused', fault: { reason: 'PodRefused', message: error.message } };
    }
    if (WRITING.includes(step.do)) memory.lastGathered = world.clock.elapsed();
    if (outcome.was === 'done') {
      if (memory.repeats < STUBBORN)
        return { decision, outcome: 'applied', reason: reasonOf(step), againMs: outcome.recheckMs ?? 0 };
      if (memory.repeats === STUBBORN)
        log.warn({ ...fields, repeats: memory.repeats }, 'the same step again and again');
      return { decision, outcome: 'early', againMs: STUBBORN_MS };
    }
    const fault = outcome.was === 'refused' ? outcome.fault : undefined;
    if (outcome.was === 'early' && memory.repeats === 0) log.info({ ...fields, why: outcome.why }, 'step not yet');
    if (fault !== undefined) log.warn({ ...fields, reason: fault.reason, message: fault.message }, 'step refused');
    const dueMs = await record(through, decision, memory, signal, fault);
    const refusedMs = step.do === 'GrowVolumes' ? NOT_GROWN_MS : REFUSED_MS;
    const ownMs = outcome.was === 'early' ? outcome.recheckMs : refusedMs;
    return {
      decision,
      outcome: outcome.was,
      reason: fault?.reason ?? reasonOf(step),
      againMs: Math.min(ownMs, dueMs ?? ownMs),
    };
  };

  return {
    run,
    forget: (cluster) => {
      memories.delete(clusterKey(cluster));
      trail.forget(cluster);
      ownership.forget(cluster);
    },
  };
};
