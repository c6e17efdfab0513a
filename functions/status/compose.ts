/** The step `Status`: the claim's status, conditions and readiness, from the EtcdQuorum alone. */
import type { EtcdClusterStatus } from '../../api/etcdcluster.gen.ts';
import type { EtcdQuorumStatus } from '../../api/etcdquorum.gen.ts';
import { API_VERSION, memberSelector } from '../../api/names.ts';
import type { Reason } from '../../api/reasons.ts';
import { accepted, type Refusal } from '../composing/accepted.ts';
import { type Claim, claimOf, record } from '../composing/claim.ts';
import { conditionOf, isTrue } from '../composing/conditions.ts';
import type { Compose, Condition, Ready, RunFunctionRequest } from '../composing/exchange.ts';
import { renderable, respond } from '../composing/response.ts';
import { hasExisted, isAnswered, isText, quorumOf, ttlSeconds } from '../composing/settling.ts';
import { isDeleting } from '../composing/slots.ts';
import { renderVersionOf } from '../composing/step-input.ts';

/** The conditions are Crossplane's to write; a response has a list of its own for ours. */
type ProjectedStatus = Omit<EtcdClusterStatus, 'conditions'>;

export const composeStatus: Compose = renderable((request) => {
  renderVersionOf(request);
  const { claim, refusal } = accepted(request, claimOf(request));
  const quorum = quorumOf(request);
  const before = record(request.desired?.composite?.resource);
  const projected = projectedStatus(request, claim);
  const said = [
    acceptance(refusal, consentRefusal(request, claim)),
    ...conditions(request, claim).map((condition) => stalledBy(condition, refusal)),
  ];
  // The runtime has yet to see what was changed; that it was ready before is no answer to it.
  const ready = isTrue(quorum, 'Ready') && !isDeleting(quorum) && isAsked(request, claim) ? 'True' : 'False';
  const held = isStatusAhead(request, projected);
  return respond(request, {
    composite: {
      resource: {
        apiVersion: API_VERSION,
        kind: 'EtcdCluster',
        ...before,
        status: { ...record(before.status), ...projected },
      },
      // Explicit: derived from the keys, Ready would wait for whatever a platform team's own steps add without a flag.
      ready: held ? readiness(request, ready) : ready,
    },
    conditions: held ? said.map((condition) => asItStands(request, condition)) : said,
    // The write that asks for the reconcile with the conditions may be one that an open circuit breaker drops.
    ttlSeconds: held ? HELD_SECONDS : ttlSeconds(request, claim),
  });
});

const HELD_SECONDS = 5;

/**
 * Whether the fields of the claim's status change in this very call. Then its conditions stay as they are until the next one.
 * Crossplane writes both in two writes, and the first of them makes it reconcile again at once: from a picture that lacks the
 * second, whose conditions it writes back before it corrects them, which makes it reconcile again. Seen from outside, Ready
 * flickers; each round costs the claim four tokens of its circuit breaker, and rounds went on until it opened.
 */
const isStatusAhead = (request: RunFunctionRequest, projected: ProjectedStatus): boolean => {
  const composite = request.observed?.composite?.resource;
  const present = record(record(composite).status);
  return (
    conditionOf(composite, 'Available') !== undefined &&
    // Plain values only: they come back as they were written, and a difference that stayed would hold the conditions for ever.
    Object.entries(projected).some(([key, value]) => typeof value !== 'object' && present[key] !== value)
  );
};

const asItStands = (request: RunFunctionRequest, condition: Condition): Condition => {
  const present = conditionOf(request.observed?.composite?.resource, condition.type);
  if (present === undefined) return condition;
  const { type, status, reason, message } = present;
  return { type, status, reason, ...(message === '' ? {} : { message }) };
};

const readiness = (request: RunFunctionRequest, wanted: Ready): Ready => {
  const present = conditionOf(request.observed?.composite?.resource, 'Ready')?.status;
  return present === undefined ? wanted : present === 'True' ? 'True' : 'False';
};

/**
 * Consent that fits no loss. One for a cluster that has been recovered is carried out, and may stay in Git for ever; while
 * quorum is lost, the runtime answers.
 */
const consentRefusal = (request: RunFunctionRequest, claim: Claim): string | undefined => {
  const consent = claim.spec.recovery;
  const status = quorumOf(request)?.status;
  if (consent === undefined || status?.phase === undefined || status.phase === 'QuorumLost') return undefined;
  const { clusterID } = consent;
  if ((status.recovered ?? []).some(({ lostClusterID }) => lostClusterID === clusterID)) return undefined;
  if (status.operation?.kind === 'RecoverQuorum') return undefined;
  return clusterID === status.clusterID
    ? 'spec.recovery consents to giving up this cluster, and it has its quorum: nothing is done; remove spec.recovery'
    : `spec.recovery names cluster ${clusterID}, which this is not and has not been: nothing is done; remove spec.recovery`;
};

const acceptance = (refusal: Refusal | undefined, consent: string | undefined): Condition =>
  refusal === undefined
    ? consent === undefined
      ? { type: 'Accepted', status: 'True', reason: 'Accepted' satisfies Reason }
      : { type: 'Accepted', status: 'False', reason: 'RecoveryRefused' satisfies Reason, message: consent }
    : { type: 'Accepted', status: 'False', ...refusal };

/** Whoever waits for this claim waits for a person: tools that follow kstatus read that from Stalled. */
const stalledBy = (condition: Condition, refusal: Refusal | undefined): Condition =>
  refusal === undefined || condition.type !== 'Stalled' || condition.status === 'True'
    ? condition
    : { type: 'Stalled', status: 'True', ...refusal };

const PROJECTED = ['Available', 'Progressing', 'Degraded', 'Stalled'] as const;

/** All of them on every call: one that is not returned stays as it was, and after a FATAL result that is Unknown. */
const conditions = (request: RunFunctionRequest, claim: Claim): Condition[] => {
  const quorum = quorumOf(request);
  if (quorum?.status?.conditions === undefined) return unreported(hasExisted(undefined, claim));
  return PROJECTED.map((type) => {
    const condition = conditionOf(quorum, type);
    if (condition === undefined)
      return { type, status: 'Unknown', reason: 'NotReported' satisfies Reason, message: WAITING };
    if (type === 'Progressing' && condition.status !== 'True' && !isAsked(request, claim)) {
      return {
        type,
        status: 'True',
        reason: 'SpecChanged' satisfies Reason,
        message: 'The runtime has yet to see the change.',
      };
    }
    const { status, reason, message } = condition;
    return { type, status, reason, ...(message === '' ? {} : { message }) };
  });
};

/** The end of a message is what `crossplane resource trace` shows of it. */
const WAITING = 'Waiting for the runtime to act; if this stays, check the etcd-operator runtime Deployment.';

const unreported = (existed: boolean): Condition[] => {
  const reason: Reason = existed ? 'RecordLost' : 'Creating';
  const message = existed
    ? 'The EtcdQuorum has no status, yet this cluster exists. Waiting for the runtime to write it again; check its Deployment.'
    : WAITING;
  return [
    // What ran before runs on without its record, so nothing is known to be down.
    { type: 'Available', status: existed ? 'Unknown' : 'False', reason, message },
    { type: 'Progressing', status: 'True', reason, message },
    { type: 'Degraded', status: existed ? 'Unknown' : 'False', reason, message },
    { type: 'Stalled', status: 'False', reason, message },
  ];
};

/**
 * Whether the runtime's answer is about the claim as it stands: the EtcdQuorum carries what the claim asks for, and its
 * status has seen that. In the call that changes the EtcdQuorum it has not, and "settled" would be read by whoever waits
 * for the change as done.
 */
const isAsked = (request: RunFunctionRequest, claim: Claim): boolean => {
  const quorum = quorumOf(request);
  const spec = record(quorum?.spec);
  return isAnswered(quorum) && spec.replicas === claim.replicas && spec.version === claim.version;
};

const projectedStatus = (request: RunFunctionRequest, claim: Claim): ProjectedStatus => {
  const status = quorumOf(request)?.status;
  const observedGeneration = isAsked(request, claim) ? claim.generation : claim.status.observedGeneration;
  const selector = Object.entries(memberSelector(claim.name))
    .map(([key, value]) => `${key}=${value}`)
    .join(',');
  return {
    ...(observedGeneration === undefined ? {} : { observedGeneration }),
    selector,
    // Crossplane 2.4 answers this request for managed resources only. For a claim, this very call is the answer.
    ...(claim.reconcileRequest === undefined ? {} : { lastHandledReconcileAt: claim.reconcileRequest }),
    ...(status?.phase === undefined ? lastKnown(claim) : fromQuorum(status, claim)),
  };
};

const fromQuorum = (status: EtcdQuorumStatus, claim: Claim): ProjectedStatus => {
  // A record that another claim of this name left is not this claim's past; taken over, it would bar a first start for ever.
  const own = claim.uid === '' || status.clusterUID === undefined || status.clusterUID === claim.uid;
  const clusterID = (own ? status.clusterID : undefined) ?? claim.status.clusterID;
  const lastRecovery = own ? status.recovered?.at(-1)?.lost?.message : undefined;
  return {
    ...(status.phase === undefined ? {} : { phase: status.phase }),
    ...(status.members === undefined ? {} : { members: status.members }),
    readyMembers: status.readyMembers ?? 0,
    // The claim is one of the places that remember that this cluster exists; it must not forget because another did.
    ...(clusterID === undefined ? {} : { clusterID }),
    ...(status.version === undefined ? {} : { version: status.version }),
    ...(status.leader === undefined ? {} : { leader: status.leader }),
    voters: status.voters?.length ?? 0,
    learners: status.learners?.length ?? 0,
    ...(status.caChange === undefined ? {} : { caChange: status.caChange.phase }),
    ...(status.certificatesExpireAt === undefined ? {} : { certificatesExpireAt: status.certificatesExpireAt }),
    ...(status.authEnabled === undefined ? {} : { authEnabled: status.authEnabled }),
    ...(lastRecovery === undefined ? {} : { lastRecovery }),
  };
};

/**
 * Without the runtime's record nothing is known, and unknown is not zero: an autoscaler reads `readyMembers`. What was
 * last known stays, and the conditions say that it is old.
 */
const lastKnown = (claim: Claim): ProjectedStatus => {
  if (!isText(claim.status.clusterID)) {
    return { phase: 'Pending', members: `0/${claim.replicas}`, readyMembers: 0, voters: 0, learners: 0 };
  }
  const { phase, members, readyMembers, clusterID, version, leader, voters, learners } = claim.status;
  const { certificatesExpireAt, authEnabled, lastRecovery } = claim.status;
  const known = { phase, members, readyMembers, clusterID, version, leader, voters, learners };
  return Object.fromEntries(
    Object.entries({ ...known, certificatesExpireAt, authEnabled, lastRecovery }).filter(
      ([, value]) => value !== undefined,
    ),
  );
};
