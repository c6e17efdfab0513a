import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { EtcdFaultReason } from '../../ports/etcd.ts';
import { meaningOf } from './faults.ts';

/** Codes and sentences as etcd 3.5 and 3.6, grpc-js 1.14 and Node 24 say them. */
const cases: readonly (readonly [code: number, details: string, EtcdFaultReason, mayHaveHappened: boolean])[] = [
  [14, 'etcdserver: unhealthy cluster', 'UnhealthyCluster', false],
  [9, 'etcdserver: can only promote a learner member which is in sync with leader', 'LearnerNotReady', false],
  [9, 'etcdserver: can only promote a learner member', 'NotALearner', false],
  [9, 'etcdserver: too many learner members in cluster', 'TooManyLearners', false],
  [9, 'etcdserver: re-configuration failed due to not enough started members', 'NotEnoughStarted', false],
  [5, 'etcdserver: member not found', 'MemberNotFound', false],
  [9, 'etcdserver: member ID already exist', 'MemberExists', false],
  [9, 'etcdserver: Peer URLs already exists', 'PeerURLExists', false],
  [3, 'etcdserver: given member URLs are invalid', 'InvalidRequest', false],
  [9, 'etcdserver: rpc not supported for learner', 'NotServedByLearner', false],
  [14, 'etcdserver: rpc not supported for learner', 'NotServedByLearner', false],
  [9, 'etcdserver: not leader', 'NotLeader', false],
  [9, 'etcdserver: bad leader transferee', 'BadLeaderTarget', false],
  [14, 'etcdserver: no leader', 'NoLeader', false],
  [14, 'etcdserver: leader changed', 'LeaderChanged', true],
  [14, 'etcdserver: request timed out', 'ServerTimeout', true],
  [14, 'etcdserver: request timed out, possibly due to previous leader failure', 'ServerTimeout', true],
  [14, 'etcdserver: server stopped', 'Unavailable', true],
  [8, 'etcdserver: mvcc: database space exceeded', 'NoSpace', false],
  [8, 'etcdserver: too many requests', 'RateLimited', false],
  [15, 'etcdserver: corrupt cluster', 'Corrupt', false],
  [11, 'etcdserver: mvcc: required revision has been compacted', 'Compacted', false],
  [11, 'etcdserver: mvcc: required revision is a future revision', 'FutureRevision', false],
  [3, 'etcdserver: user name is empty', 'AuthRequired', false],
  [2, 'auth: user name is empty', 'AuthRequired', false],
  [7, 'etcdserver: permission denied', 'PermissionDenied', false],
  [2, 'auth: permission denied', 'PermissionDenied', false],
  [16, 'etcdserver: invalid auth token', 'InvalidAuth', false],
  [3, 'etcdserver: authentication failed, invalid user ID or password', 'InvalidAuth', false],
  [3, 'etcdserver: revision of auth store is old', 'InvalidAuth', false],
  [9, 'etcdserver: cluster has a downgrade job in progress', 'DowngradeRefused', false],
  [3, 'etcdserver: invalid downgrade target version', 'DowngradeRefused', false],
  [12, 'unknown method Downgrade for service etcdserverpb.Maintenance', 'Unsupported', false],
  [4, 'Deadline exceeded after 2.001s,name resolution: 0.003s,Waiting for LB pick', 'Timeout', true],
  [1, 'Call cancelled', 'Unavailable', true],
  [14, 'No connection established. Last error: Error: connect ECONNREFUSED 10.0.0.7:2379', 'Unreachable', false],
  [14, 'Name resolution failed for target dns:nowhere.invalid:2379', 'Unreachable', false],
  [14, 'read ECONNRESET', 'Unreachable', true],
  [14, 'Connection dropped', 'Unreachable', true],
  [14, 'No connection established. Last error: Error: self-signed certificate', 'TlsRefused', false],
  [14, 'No connection established. Last error: Error: certificate has expired', 'TlsRefused', false],
  [
    14,
    "No connection established. Last error: Error [ERR_TLS_CERT_ALTNAME_INVALID]: Hostname/IP does not match certificate's altnames: IP: 10.0.0.7 is not in the cert's list",
    'TlsRefused',
    false,
  ],
  [14, 'etcdserver: something new', 'Unavailable', true],
  [13, 'Received RST_STREAM with code 2', 'BrokenAnswer', true],
  [2, 'something new', 'Unknown', true],
];

describe('the meaning of a gRPC failure', () => {
  for (const [code, details, reason, mayHaveHappened] of cases) {
    test(`${code} "${details.slice(0, 90)}" is ${reason}, and the change ${mayHaveHappened ? 'may be' : 'is not'} made`, () => {
      assert.deepEqual(meaningOf({ code, details }, true), { reason, mayHaveHappened });
      assert.deepEqual(meaningOf({ code, details }, false), { reason, mayHaveHappened: false });
    });
  }
});
