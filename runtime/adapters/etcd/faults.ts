/** What a gRPC status from etcd means. The code alone says little: etcd answers eight different refusals with FailedPrecondition. */

import type { EtcdFaultReason } from '../../ports/etcd.ts';

export type GrpcFailure = { readonly code: number; readonly details: string };
export type Meaning = { readonly reason: EtcdFaultReason; readonly mayHaveHappened: boolean };

const CANCELLED = 1;
const DEADLINE_EXCEEDED = 4;
const UNAVAILABLE = 14;

/**
 * etcd's own sentences, the more specific first. Matched as parts of the text, because 3.5 answers some calls with the
 * bare error of an inner package ("auth: user name is empty", code Unknown) instead of the translated one.
 */
const sentences: readonly (readonly [part: string, reason: EtcdFaultReason, mayHaveHappened: boolean])[] = [
  ['which is in sync with leader', 'LearnerNotReady', false],
  ['can only promote a learner member', 'NotALearner', false],
  ['too many learner members', 'TooManyLearners', false],
  ['unhealthy cluster', 'UnhealthyCluster', false],
  ['not enough started members', 'NotEnoughStarted', false],
  ['member not found', 'MemberNotFound', false],
  ['member ID already exist', 'MemberExists', false],
  ['Peer URLs already exists', 'PeerURLExists', false],
  ['given member URLs are invalid', 'InvalidRequest', false],
  ['rpc not supported for learner', 'NotServedByLearner', false],
  ['bad leader transferee', 'BadLeaderTarget', false],
  ['not leader', 'NotLeader', false],
  // A request that waits for its own commit is given up with one of the next three: it may still be committed.
  ['leader changed', 'LeaderChanged', true],
  ['request timed out', 'ServerTimeout', true],
  ['server stopped', 'Unavailable', true],
  ['no leader', 'NoLeader', false],
  ['database space exceeded', 'NoSpace', false],
  ['corrupt cluster', 'Corrupt', false],
  ['too many requests', 'RateLimited', false],
  ['has been compacted', 'Compacted', false],
  ['is a future revision', 'FutureRevision', false],
  ['permission denied', 'PermissionDenied', false],
  ['root user does not exist', 'RootMissing', false],
  ['root user does not have root role', 'RootMissing', false],
  ['user name already exists', 'UserExists', false],
  ['role name already exists', 'RoleExists', false],
  // A certificate's name that is no user's; a wrong name beside a password is "authentication failed".
  ['user name not found', 'PermissionDenied', false],
  ['auth: user not found', 'PermissionDenied', false],
  ['user name is empty', 'AuthRequired', false],
  ['invalid auth token', 'InvalidAuth', false],
  ['revision of auth store is old', 'InvalidAuth', false],
  ['revision in header is old', 'InvalidAuth', false],
  ['authentication failed', 'InvalidAuth', false],
  ['downgrade', 'DowngradeRefused', false],
  ['cluster ID mismatch', 'InvalidRequest', false],
  ['not capable', 'Unsupported', false],
];

/** Where only the code is left to go by. */
const codes: ReadonlyMap<number, Meaning> = new Map([
  [3, { reason: 'InvalidRequest', mayHaveHappened: false }],
  [7, { reason: 'PermissionDenied', mayHaveHappened: false }],
  [8, { reason: 'RateLimited', mayHaveHappened: false }],
  [11, { reason: 'InvalidRequest', mayHaveHappened: false }],
  [12, { reason: 'Unsupported', mayHaveHappened: false }],
  [13, { reason: 'BrokenAnswer', mayHaveHappened: true }],
  [15, { reason: 'Corrupt', mayHaveHappened: true }],
  [16, { reason: 'InvalidAuth', mayHaveHappened: false }],
]);

/** Words of Node's TLS layer and of TLS alerts. They reach us inside the text of an Unavailable. */
const tls =
  /certificate|self.signed|altnames|\balert\b|\bSSL\b|wrong version number|unknown ca|UNABLE_TO_|ERR_TLS|ERR_SSL/i;

/** The request never left: no connection stood. */
const neverSent = /No connection established|Name resolution failed|before call started|Failed to connect/i;

/** `writes` says whether the request could change anything at all. */
export const meaningOf = (failure: GrpcFailure, writes: boolean): Meaning => {
  const found = meaning(failure);
  return writes ? found : { ...found, mayHaveHappened: false };
};

const meaning = ({ code, details }: GrpcFailure): Meaning => {
  if (code === DEADLINE_EXCEEDED) return { reason: 'Timeout', mayHaveHappened: true };
  // By the server: what we cancel ourselves never comes here.
  if (code === CANCELLED) return { reason: 'Unavailable', mayHaveHappened: true };

  const sentence = sentences.find(([part]) => details.includes(part));
  if (sentence !== undefined) return { reason: sentence[1], mayHaveHappened: sentence[2] };

  if (code === UNAVAILABLE) {
    const sent = !neverSent.test(details);
    if (tls.test(details)) return { reason: 'TlsRefused', mayHaveHappened: sent };
    // etcd's own words for "not now" all begin so; what is left comes from the connection.
    return { reason: details.includes('etcdserver:') ? 'Unavailable' : 'Unreachable', mayHaveHappened: sent };
  }
  return codes.get(code) ?? { reason: 'Unknown', mayHaveHappened: true };
};
