import type { EtcdQuorum } from '../../api/etcdquorum.gen.ts';
import { type Claim, record } from './claim.ts';
import { conditionOf, isTrue } from './conditions.ts';
import type { RunFunctionRequest } from './exchange.ts';
import { isDeleting, slotsOf } from './slots.ts';

export const QUORUM_KEY = 'quorum';
export const CERTIFICATES_KEY = 'certificates';

export const quorumOf = (request: RunFunctionRequest): EtcdQuorum | undefined =>
  request.observed?.resources?.[QUORUM_KEY]?.resource as EtcdQuorum | undefined;

/**
 * Whether the runtime has seen the newest spec of the EtcdQuorum. Until then its conditions speak of an older one, and
 * "settled" would be the answer to a question asked before the change.
 */
export const isAnswered = (quorum: EtcdQuorum | undefined): boolean => {
  const generation = record(record(quorum).metadata).generation;
  const observed = record(record(quorum).status).observedGeneration;
  return typeof generation !== 'number' || (typeof observed === 'number' && observed >= generation);
};

/** Whether any cluster has lived under this claim: before, its members come up together and count only together. */
export const hasExisted = (quorum: EtcdQuorum | undefined, claim: Claim): boolean => {
  const status = record(record(quorum).status);
  const phase = status.phase;
  if (phase === 'Pending' || phase === 'Bootstrapping') return false;
  return isText(status.clusterID) || isText(claim.status.clusterID);
};

export const isText = (value: unknown): value is string => typeof value === 'string' && value !== '';

/**
 * Seconds until Crossplane asks again. Usually an event is faster. Two things lose events: a change that nothing tells
 * Crossplane of, and its circuit breaker, which drops them once a claim had too many. A drop shows as Responsive=False on
 * the claim, and asking again is not subject to the breaker, so short while anything is in motion or dropped; a minute
 * otherwise, as a net.
 */
export const ttlSeconds = (request: RunFunctionRequest, claim: Claim): number =>
  isSettled(request, claim) && conditionOf(request.observed?.composite?.resource, 'Responsive')?.status !== 'False'
    ? 60
    : 5;

const isSettled = (request: RunFunctionRequest, claim: Claim): boolean => {
  const quorum = quorumOf(request);
  if (quorum === undefined || isDeleting(quorum) || !isAnswered(quorum)) return false;
  const slots = slotsOf(request, claim);
  if (slots.some(({ observed, required }) => observed === undefined || isDeleting(observed) || isDeleting(required))) {
    return false;
  }
  // A cluster paused at zero keeps its members and is not Ready, and nothing moves in it.
  if (claim.replicas === 0) return record(quorum.status).phase === 'Paused';
  return (
    slots.length === claim.replicas &&
    record(quorum.spec).replicas === claim.replicas &&
    record(quorum.spec).version === claim.version &&
    isTrue(quorum, 'Ready') &&
    conditionOf(quorum, 'Progressing')?.status === 'False'
  );
};
