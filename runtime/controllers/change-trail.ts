/**
 * Follows each change of a quorum from its first step to its last: how it ended and how long it took for the metrics, and, where
 * somebody listens, its trace. The root span is sent last, with the time at which the change is recorded to have begun; a
 * process that takes over derives the same IDs and goes on with the same trace.
 */
import { createHash } from 'node:crypto';
import {
  type Change,
  type ChangeOutcome,
  changeBegunBy,
  outcomeRecorded,
  outcomeSeen,
  recordedChange,
} from '../core/changes.ts';
import type { Decision } from '../core/plan.ts';
import { parentOf } from '../core/traceparent.ts';
import { resources } from '../ports/kube.ts';
import type { FinishedSpan, SpanAttributes, Trace, TraceContext } from '../ports/tracing.ts';
import { type ClusterName, clusterKey, type World } from './world.ts';

export type ChangeEnd = { readonly kind: string; readonly outcome: ChangeOutcome; readonly seconds: number };

/** One pass as the trail wants to know it. */
export type PassTrace = {
  readonly decision: Decision;
  readonly outcome: string;
  readonly startMs: number;
  readonly endMs: number;
  readonly calls: readonly FinishedSpan[];
  /** `error.type` of what stopped the step. */
  readonly error?: string | undefined;
};

/** The same step, or the same wait, over as many passes as it takes. */
type Stretch = FinishedSpan & {
  readonly key: string;
  readonly attempts: number;
  readonly calls: readonly FinishedSpan[];
};

type Followed = { readonly change: Change; readonly trace: Trace | undefined; stretch: Stretch | undefined };

type Following = { recorded: Followed | undefined; seen: Followed | undefined };

/** Spans of one step; a promotion that waits for a big learner tries for minutes. */
const CALLS_KEPT = 64;
const PARENT_DEADLINE_MS = 2_000;

const hex = (text: string, digits: number): string => createHash('sha256').update(text).digest('hex').slice(0, digits);

/** Of the change, not of chance: whoever carries it on finds them again. */
const idsOf = (change: Change): { traceId: string; spanId: string } => ({
  traceId: hex(`etcd-operator trace ${change.id}`, 32),
  spanId: hex(`etcd-operator span ${change.id}`, 16),
});

export type ChangeTrail = {
  /** Tells what a pass did, after it. */
  passed(cluster: ClusterName, pass: PassTrace, signal: AbortSignal): Promise<void>;
  /** The cluster is gone. */
  forget(cluster: ClusterName): void;
};

export const createChangeTrail = (world: World, onEnd: (end: ChangeEnd) => void): ChangeTrail => {
  const clusters = new Map<string, Following>();
  const followingOf = (key: string): Following => {
    const present = clusters.get(key);
    if (present !== undefined) return present;
    const fresh: Following = { recorded: undefined, seen: undefined };
    clusters.set(key, fresh);
    return fresh;
  };

  /** Read once per change, past every cache: the claim is not watched, and the edit that asked for the change is on it. */
  const parent = async (cluster: ClusterName, signal: AbortSignal): Promise<TraceContext | undefined> => {
    try {
      const claim = await world.kube.get(
        { resource: resources.etcdclusters, ...cluster },
        { signal, deadlineMs: PARENT_DEADLINE_MS },
      );
      const found = parentOf(claim?.metadata.annotations ?? {});
      if (found === undefined) return undefined;
      if ('context' in found) return found.context;
      const { annotation, value } = found.invalid;
      world.log.warn(
        { cluster: clusterKey(cluster), annotation, value: value.slice(0, 80) },
        'annotation of the EtcdCluster is no traceparent and is ignored: 00-<32 hex digits>-<16 hex digits>-01',
      );
    } catch (error) {
      world.log.warn({ cluster: clusterKey(cluster), err: error }, 'the trace of this change has no parent: no claim');
    }
    return undefined;
  };

  const follow = async (
    cluster: ClusterName,
    change: Change,
    { situation }: Decision,
    signal: AbortSignal,
  ): Promise<Followed> => {
    const { tracing } = world;
    const trace =
      tracing === undefined
        ? undefined
        : tracing.open({
            ...idsOf(change),
            name: change.kind,
            startMs: change.since,
            attributes: rootAttributes(cluster, change, situation.quorum?.controllerUID),
            parent: await parent(cluster, signal),
          });
    world.log.info(
      {
        cluster: clusterKey(cluster),
        change: change.id,
        kind: change.kind,
        targets: change.targets.map(({ member }) => member),
        ...(trace === undefined ? {} : { trace_id: trace.traceId }),
      },
      'change begins',
    );
    return { change, trace, stretch: undefined };
  };

  const closeStretch = (followed: Followed, endMs?: number): void => {
    const { stretch, trace } = followed;
    followed.stretch = undefined;
    if (stretch === undefined || trace === undefined) return;
    const { key: _, attempts, calls, ...span } = stretch;
    trace.add(
      {
        ...span,
        endMs: Math.max(stretch.endMs, endMs ?? stretch.endMs),
        attributes: {
          ...span.attributes,
          ...(attempts > 1 && span.name !== 'Wait' ? { 'etcd_operator.attempts': attempts } : {}),
        },
      },
      calls,
    );
  };

  const note = (followed: Followed, pass: PassTrace): void => {
    if (followed.trace === undefined) return;
    const { decision, outcome, startMs, endMs, error } = pass;
    const { step } = decision;
    const about = 'reason' in step ? step.reason : 'target' in step ? step.target : '';
    const key = `${step.do}/${about}`;
    const before = followed.stretch?.key === key ? followed.stretch : undefined;
    // A wait lasts until something else is decided; a step that was carried out has ended by itself.
    const waits = followed.stretch?.name === 'Wait';
    if (before === undefined) closeStretch(followed, waits ? startMs : undefined);
    followed.stretch = {
      key,
      name: step.do,
      kind: 'internal',
      startMs: before?.startMs ?? startMs,
      endMs,
      attempts: (before?.attempts ?? 0) + 1,
      calls: joined(before?.calls ?? [], pass.calls),
      attributes: stepAttributes(decision, outcome),
      ...(error === undefined ? {} : { error }),
    };
    if (outcome === 'applied') closeStretch(followed);
  };

  const end = (cluster: ClusterName, followed: Followed, outcome: ChangeOutcome, endMs: number): void => {
    const { change, trace } = followed;
    closeStretch(followed, followed.stretch?.name === 'Wait' ? endMs : undefined);
    const attributes = { 'etcd_operator.change.outcome': outcome };
    trace?.end(endMs, attributes, outcome === 'abandoned' ? 'abandoned' : undefined);
    const seconds = Math.max(0, endMs - change.since) / 1_000;
    world.log.info(
      {
        cluster: clusterKey(cluster),
        change: change.id,
        kind: change.kind,
        outcome,
        seconds,
        ...(trace === undefined ? {} : { trace_id: trace.traceId }),
      },
      'change ends',
    );
    onEnd({ kind: change.kind, outcome, seconds });
  };

  const passed = async (cluster: ClusterName, pass: PassTrace, signal: AbortSignal): Promise<void> => {
    const key = clusterKey(cluster);
    const following = followingOf(key);
    const { decision, startMs, endMs } = pass;
    const { situation, step } = decision;
    const before = recordedChange(situation.quorum?.status);
    const status = world.caches.quorums.get(cluster.namespace, cluster.name)?.status;
    const after = recordedChange(status);

    if (following.seen !== undefined) {
      const outcome = outcomeSeen(following.seen.change, situation);
      if (outcome !== undefined) {
        end(cluster, following.seen, outcome, startMs);
        following.seen = undefined;
      }
    }
    if (following.seen?.change.kind === 'Deletion' || (step.do === 'Teardown' && decision.rule === 'deletion')) {
      // Whatever else was in flight ends with the cluster.
      following.recorded = undefined;
      const deletion = following.seen?.change.kind === 'Deletion' ? undefined : changeBegunBy(decision);
      if (deletion !== undefined) following.seen = await follow(cluster, deletion, decision, signal);
      if (following.seen !== undefined) note(following.seen, pass);
      return;
    }
    // Ended by somebody else, who has told of it.
    if (following.recorded !== undefined && following.recorded.change.id !== before?.id) following.recorded = undefined;
    const begins = step.do === 'BeginOperation' || step.do === 'RecordAttempt';
    if (before !== undefined && before.id !== after?.id) {
      const ended = following.recorded ?? (await follow(cluster, before, decision, signal));
      if (!begins) note(ended, pass);
      end(cluster, ended, outcomeRecorded(before, decision, status), endMs);
      following.recorded = undefined;
      if (!begins) return;
    }
    if (after !== undefined) {
      following.recorded ??= await follow(cluster, after, decision, signal);
      note(following.recorded, pass);
      return;
    }
    if (following.seen === undefined) {
      const begun = changeBegunBy(decision);
      if (begun !== undefined) following.seen = await follow(cluster, begun, decision, signal);
    }
    if (following.seen !== undefined) note(following.seen, pass);
  };

  return {
    passed,
    forget: (cluster) => {
      const key = clusterKey(cluster);
      const seen = clusters.get(key)?.seen;
      if (seen?.change.kind === 'Deletion') end(cluster, seen, 'deleted', world.clock.now());
      clusters.delete(key);
    },
  };
};

/** A refusal that comes again and again is told once; how often is told by the attempts. */
const isRepeat = (last: FinishedSpan | undefined, call: FinishedSpan): boolean =>
  last !== undefined && call.error !== undefined && last.name === call.name && last.error === call.error;

const joined = (before: readonly FinishedSpan[], more: readonly FinishedSpan[]): readonly FinishedSpan[] => {
  const calls = [...before];
  for (const call of more) if (calls.length < CALLS_KEPT && !isRepeat(calls.at(-1), call)) calls.push(call);
  return calls;
};

const rootAttributes = (
  { namespace, name }: ClusterName,
  { id, kind, targets, versions }: Change,
  claimUID: string | undefined,
): SpanAttributes => ({
  'k8s.namespace.name': namespace,
  'etcd_operator.cluster.name': name,
  ...(claimUID === undefined ? {} : { 'etcd_operator.cluster.uid': claimUID }),
  'etcd_operator.change.id': id,
  'etcd_operator.change.kind': kind,
  'etcd_operator.change.targets': targets.map(({ member }) => member).join(','),
  ...(versions === undefined
    ? {}
    : { 'etcd_operator.version.from': versions.from, 'etcd_operator.version.to': versions.to }),
});

const stepAttributes = ({ step, rule, sketch }: Decision, outcome: string): SpanAttributes => ({
  'etcd_operator.rule': rule,
  'etcd_operator.seen': sketch,
  'etcd_operator.outcome': outcome,
  ...('target' in step ? { 'etcd_operator.member.name': step.target } : {}),
  ...('memberID' in step && step.memberID !== undefined ? { 'etcd_operator.member.id': step.memberID } : {}),
  ...('reason' in step ? { 'etcd_operator.reason': step.reason } : {}),
  ...('message' in step ? { 'etcd_operator.message': step.message } : {}),
  ...('why' in step ? { 'etcd_operator.message': step.why } : {}),
});
