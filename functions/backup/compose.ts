/** The step `Backup`: the claim's schedule of snapshots, and how its backups fare. */
import type { EtcdSnapshotScheduleStatus } from '../../api/etcdsnapshotschedule.gen.ts';
import { API_VERSION, clusterLabels } from '../../api/names.ts';
import type { Reason } from '../../api/reasons.ts';
import { metadataWith } from '../composing/additional-metadata.ts';
import { type Claim, claimOf, record } from '../composing/claim.ts';
import { conditionOf } from '../composing/conditions.ts';
import type { Compose, Condition, Resource, RunFunctionRequest } from '../composing/exchange.ts';
import { renderable, respond } from '../composing/response.ts';
import { ttlSeconds } from '../composing/settling.ts';
import { isDeleting } from '../composing/slots.ts';
import { renderVersionOf } from '../composing/step-input.ts';

export const SCHEDULE_KEY = 'backup';

export const composeBackup: Compose = renderable((request) => {
  renderVersionOf(request);
  const claim = claimOf(request);
  if (claim.spec.backup === undefined) return respond(request, { ttlSeconds: ttlSeconds(request, claim) });
  return respond(request, {
    composite: withBackups(request),
    resources: { [SCHEDULE_KEY]: schedule(request, claim, claim.spec.backup) },
    conditions: [backupHealthy(request)],
    ttlSeconds: ttlSeconds(request, claim),
  });
});

const observedSchedule = (request: RunFunctionRequest): object | undefined =>
  request.observed?.resources?.[SCHEDULE_KEY]?.resource;

const schedule = (
  request: RunFunctionRequest,
  claim: Claim,
  backup: NonNullable<Claim['spec']['backup']>,
): Resource => {
  const observed = observedSchedule(request);
  return {
    resource: {
      apiVersion: API_VERSION,
      kind: 'EtcdSnapshotSchedule',
      metadata: { name: claim.name, namespace: claim.namespace, ...metadataWith(claim, clusterLabels(claim.name)) },
      spec: { clusterRef: { name: claim.name }, ...backup },
    },
    // It exists: a store that is down makes no cluster unready. How the backups fare is a condition of its own.
    ready: observed !== undefined && !isDeleting(observed) ? 'True' : 'False',
  };
};

/** In the claim, what its owner wants to know of the schedule. Moments, not ages: what ticks would be written for ever. */
const withBackups = (request: RunFunctionRequest): Resource => {
  const before = record(request.desired?.composite?.resource);
  const status = record(record(observedSchedule(request)).status) as EtcdSnapshotScheduleStatus;
  const { lastSnapshot, lastSuccessfulTime, lastProvenTime, lastProof } = status;
  const backups = Object.entries({
    lastSnapshot,
    lastSuccessfulTime,
    lastProofTime: lastProof?.time,
    lastProofResult: lastProof?.result,
    lastProvenTime,
  }).filter(([, value]) => value !== undefined);
  return {
    resource: {
      apiVersion: API_VERSION,
      kind: 'EtcdCluster',
      ...before,
      status: { ...record(before.status), ...(backups.length === 0 ? {} : { backups: Object.fromEntries(backups) }) },
    },
  };
};

const BACKUP_HEALTHY = 'BackupHealthy';

const backupHealthy = (request: RunFunctionRequest): Condition =>
  conditionOf(observedSchedule(request), BACKUP_HEALTHY) ?? {
    type: BACKUP_HEALTHY,
    status: 'Unknown',
    reason: 'BackupPending' satisfies Reason,
    message: 'No snapshot has been taken yet.',
  };
