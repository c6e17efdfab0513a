/**
 * What the status of an EtcdRestore says, from the record of its cluster: it decides nothing, so that there is one place where
 * a restore is decided on and one write that says what has become of it.
 */
import type { EtcdQuorumPastRestore, EtcdQuorumSpec, EtcdQuorumStatus } from '../../api/etcdquorum.gen.ts';
import type { EtcdRestoreStatus } from '../../api/etcdrestore.gen.ts';
import type { Reason } from '../../api/reasons.ts';
import { conditions } from './conditions.ts';
import { equalJson } from './equal-json.ts';
import type { Instant, SeenSeed } from './observed.ts';
import { hindranceNow, hindranceTo, type RestoreSource, type Restoring } from './restores.ts';
import { seedFailure } from './seed-failures.ts';

export type RestoreObserved = {
  readonly now: Instant;
  readonly uid: string;
  readonly generation: number;
  /** The cluster that its consent gives up. */
  readonly clusterID: string;
  readonly status: EtcdRestoreStatus;
  readonly source: RestoreSource;
  readonly quorum: { readonly spec: EtcdQuorumSpec; readonly status: EtcdQuorumStatus } | undefined;
  /** The Pod that fills the new volume. */
  readonly seed: SeenSeed | undefined;
  /** What is on nodes that are away: that Pod, and Pods of the cluster. */
  readonly away?: { readonly seedNode: string | undefined; readonly members: readonly string[] };
  /** Volumes with data of the cluster that is given up, sorted by name. */
  readonly volumes: readonly string[];
  readonly agentImage: string | undefined;
};

type Said = {
  readonly phase: NonNullable<EtcdRestoreStatus['phase']>;
  readonly reason: Reason;
  readonly message: string;
};

/** What of the replaced data is not in the restored, as far as the two can be compared. */
export const lostOf = ({ lostClusterID, revisionBefore, verified }: EtcdQuorumPastRestore): string | undefined => {
  if (revisionBefore === undefined || verified === undefined) return undefined;
  const [before, snapshot] = [BigInt(revisionBefore), BigInt(verified.revision)];
  if (verified.clusterID !== lostClusterID) {
    return `everything that cluster ${lostClusterID} had, up to revision ${before}; the snapshot is of ${verified.clusterID === undefined ? 'a cluster that is not known' : `cluster ${verified.clusterID}`}`;
  }
  return before > snapshot ? `revisions ${snapshot + 1n} to ${before} of cluster ${lostClusterID}` : 'nothing';
};

const ofPast = (past: EtcdQuorumPastRestore, { quorum }: RestoreObserved): Said => {
  if (past.outcome === 'Failed') {
    return {
      phase: 'Failed',
      reason: (past.reason ?? 'RestoreFailed') as Reason,
      message: `${past.message ?? 'it was given up'}; the cluster has its own data`,
    };
  }
  const { spec, status } = quorum ?? {};
  const whole =
    status?.clusterID !== past.clusterID ||
    (status?.operation === undefined &&
      status?.phase === 'Running' &&
      (status.readyMembers ?? 0) >= (spec?.replicas ?? 0));
  return whole
    ? {
        phase: 'Complete',
        reason: 'RestoreComplete',
        message: `every member serves the data of ${past.uri}; deleting this EtcdRestore deletes the volumes of what it replaced`,
      }
    : {
        phase: 'Joining',
        reason: 'Restoring',
        message: `the data of ${past.uri} is served; members join until there are ${spec?.replicas}`,
      };
};

const verifying = (of: Restoring, { seed, quorum, away }: RestoreObserved): Said => {
  if (away?.seedNode !== undefined) {
    return {
      phase: 'Verifying',
      reason: 'NodeLost',
      message: `node ${away.seedNode}, on which ${of.uri} is made ready, is away: it is made ready anew elsewhere if the node does not return soon; the cluster is not touched`,
    };
  }
  if (of.verified === undefined) {
    const trouble = seed?.trouble;
    return {
      phase: 'Verifying',
      reason: trouble === undefined ? 'RestoreVerifying' : seedFailure(trouble),
      message:
        trouble ??
        `${of.uri} is restored onto a new volume of ${of.target} and opened there; the cluster serves its own data meanwhile`,
    };
  }
  const unproven =
    (away?.members.length ?? 0) === 0
      ? undefined
      : {
          reason: 'NodeLost' as const,
          why: `it waits, since these Pods are on nodes that are away and could not be proven to have ended: ${away?.members.join(', ')}. Bring the node back; or make sure that it is off, then "kubectl taint nodes NODE node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"`,
        };
  const { reason, why } = (quorum === undefined ? undefined : hindranceNow(quorum)) ??
    unproven ?? {
      reason: 'RestoreVerifying' as const,
      why: 'it takes over in a moment',
    };
  return {
    phase: 'Verifying',
    reason,
    message: `the snapshot is good, with ${of.verified.keys} keys at revision ${of.verified.revision}; ${why}`,
  };
};

const ofCurrent = (of: Restoring, seen: RestoreObserved): Said => {
  const overtaking = seen.quorum?.status.operation?.kind === 'RestoreInPlace';
  if (of.failed !== undefined) {
    return {
      phase: overtaking ? 'Switching' : 'Verifying',
      reason: (of.failedReason ?? 'RestoreFailed') as Reason,
      message: `${of.failed}; what was made for it is taken away`,
    };
  }
  if (!overtaking) return verifying(of, seen);
  const step = seen.quorum?.status.operation?.step;
  return {
    phase: 'Switching',
    reason: 'Restoring',
    message:
      step === 'starting'
        ? `${of.target} starts on the restored data`
        : 'clients are shut out, the members are being stopped; their volumes stay',
  };
};

const saidOf = (seen: RestoreObserved): Said => {
  const { restoring, pastRestores = [] } = seen.quorum?.status ?? {};
  const past = pastRestores.findLast(({ restoreUID }) => restoreUID === seen.uid);
  if (past !== undefined) return ofPast(past, seen);
  if (restoring?.restoreUID === seen.uid) return ofCurrent(restoring, seen);
  const hindrance = hindranceTo(seen, seen.quorum, seen.agentImage);
  if (hindrance === undefined) {
    return { phase: 'Pending', reason: 'RestoreWaiting', message: 'it begins in a moment' };
  }
  const { reason, why, never } = hindrance;
  return never
    ? { phase: 'Failed', reason, message: `${why}; nothing was touched` }
    : { phase: 'Pending', reason, message: why };
};

const isOver = (phase: EtcdRestoreStatus['phase']): boolean => phase === 'Complete' || phase === 'Failed';

/** What its cluster's record knows of it; what is not known any more stays as it was. */
const facts = (seen: RestoreObserved): Partial<EtcdRestoreStatus> => {
  const { restoring, pastRestores = [] } = seen.quorum?.status ?? {};
  const past = pastRestores.findLast(({ restoreUID }) => restoreUID === seen.uid);
  const of = past ?? (restoring?.restoreUID === seen.uid ? restoring : undefined);
  if (of === undefined) return {};
  const { before } = seen.status;
  const lost = past?.outcome === 'Complete' ? lostOf(past) : undefined;
  const replaced = past?.lostClusterID ?? restoring?.clusterID;
  return {
    uri: of.uri,
    startTime: of.since,
    ...(of.verified === undefined ? {} : { verified: of.verified }),
    ...(of.revisionBefore === undefined || past?.outcome === 'Failed'
      ? {}
      : {
          before: {
            ...before,
            ...(replaced === undefined ? {} : { clusterID: replaced }),
            revision: of.revisionBefore,
            ...(past?.outcome === 'Complete' ? { volumes: [...seen.volumes] } : {}),
          },
        }),
    ...(of.stoppedAt === undefined ? {} : { stoppedAt: of.stoppedAt }),
    ...(past?.clusterID === undefined || past.revisionAfter === undefined
      ? {}
      : { after: { clusterID: past.clusterID, revision: past.revisionAfter }, servedAt: past.at }),
    ...(lost === undefined ? {} : { lost }),
  };
};

/** The status to write; undefined where it says all of that already. */
export const restoreStatus = (seen: RestoreObserved): EtcdRestoreStatus | undefined => {
  const before = seen.status;
  if (isOver(before.phase)) {
    // What has ended stays so. Only which volumes are left may still change.
    const kept = before.before?.volumes;
    return kept === undefined || equalJson(kept, seen.volumes)
      ? undefined
      : { ...before, before: { ...before.before, volumes: [...seen.volumes] } };
  }
  const { phase, reason, message } = saidOf(seen);
  const at = new Date(seen.now).toISOString();
  const status = phase === 'Complete' ? 'True' : 'False';
  const next: EtcdRestoreStatus = {
    ...before,
    ...facts(seen),
    phase,
    ...(isOver(phase) ? { completionTime: at } : {}),
    observedGeneration: seen.generation,
    conditions: conditions(before.conditions, seen.now, seen.generation, { Ready: { status, reason, message } }),
  };
  return equalJson(next, before) ? undefined : next;
};
