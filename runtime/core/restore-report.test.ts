import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { EtcdQuorumPastRestore, EtcdQuorumStatus } from '../../api/etcdquorum.gen.ts';
import { lostOf, type RestoreObserved, restoreStatus } from './restore-report.ts';

const at = new Date(0).toISOString();
const verified = { at, revision: '20', keys: '3', sha256: 'a'.repeat(64), clusterID: 'c1' };
const restoring = {
  id: 'op1',
  restore: 'back',
  restoreUID: 'r1',
  uri: 'pvc://backups/last.db',
  clusterID: 'c1',
  target: 'demo-0',
  incarnation: 'zzzzz',
  bump: '1',
  since: at,
};
const past: EtcdQuorumPastRestore = {
  ...restoring,
  outcome: 'Complete',
  at,
  lostClusterID: 'c1',
  clusterID: 'c2',
  revisionBefore: '57',
  revisionAfter: '1000000077',
  verified,
};

const seen = (status: Partial<EtcdQuorumStatus>, change: Partial<RestoreObserved> = {}): RestoreObserved => ({
  now: 0,
  uid: 'r1',
  generation: 1,
  clusterID: 'c1',
  status: {},
  source: {
    is: 'known',
    location: { pvc: { claimName: 'backups', subPath: 'last.db' } },
    uri: 'pvc://backups/last.db',
  },
  quorum: {
    spec: { replicas: 3, version: '3.6.16', medium: '' },
    status: { clusterID: 'c1', phase: 'Running', readyMembers: 3, ...status },
  },
  seed: undefined,
  volumes: ['demo-0-aaaaa'],
  agentImage: 'runtime:test',
  ...change,
});
const said = (of: RestoreObserved): string => {
  const { phase, conditions } = restoreStatus(of) ?? {};
  return `${phase} ${conditions?.[0]?.status} ${conditions?.[0]?.reason}`;
};
const message = (of: RestoreObserved): string => restoreStatus(of)?.conditions?.[0]?.message ?? '';

describe('what an EtcdRestore says', () => {
  test('is what it waits for, in the words of the cluster', () => {
    const adding = { id: 'x', kind: 'AddMember', target: 'demo-2', step: 'begun', since: at };
    const cases: [RestoreObserved, string][] = [
      [seen({}, { quorum: undefined }), 'Pending False ClusterNotFound'],
      [seen({ operation: adding }), 'Pending False RestoreWaiting'],
      [seen({ phase: 'QuorumLost' }), 'Pending False QuorumLost'],
      [seen({ restoring: { ...restoring, restoreUID: 'r0', restore: 'first' } }), 'Pending False RestoreWaiting'],
      [seen({}, { agentImage: undefined }), 'Pending False AgentImageUnknown'],
      [seen({ clusterID: 'c2' }), 'Failed False RestoreRefused'],
      [seen({ restoring }), 'Verifying False RestoreVerifying'],
      [seen({ restoring: { ...restoring, verified }, operation: adding }), 'Verifying False RestoreWaiting'],
      [
        seen(
          { restoring },
          { seed: { state: 'failed', report: undefined, trouble: 'fetch ended with 1: Unavailable: 503' } },
        ),
        'Verifying False StoreUnreachable',
      ],
      [seen({ restoring, operation: { ...adding, kind: 'RestoreInPlace', id: 'op1' } }), 'Switching False Restoring'],
      [seen({ clusterID: 'c2', pastRestores: [past], readyMembers: 1 }), 'Joining False Restoring'],
      [seen({ clusterID: 'c2', pastRestores: [past] }), 'Complete True RestoreComplete'],
      [
        seen({ pastRestores: [{ ...past, outcome: 'Failed', reason: 'SnapshotDamaged', message: 'altered' }] }),
        'Failed False SnapshotDamaged',
      ],
    ];
    for (const [of, words] of cases) assert.equal(said(of), words);
  });

  test('is what keeps a cluster from being stopped, or a snapshot from being verified, where nodes are away', () => {
    const one = { seedNode: 'n2', members: ['demo-1-bbbbb on node n2'] };
    const filling = seen({ restoring }, { away: one });
    assert.equal(said(filling), 'Verifying False NodeLost');
    assert.match(message(filling), /node n2.* is made ready anew elsewhere/);
    const waiting = seen({ restoring: { ...restoring, verified } }, { away: { ...one, seedNode: undefined } });
    assert.equal(said(waiting), 'Verifying False NodeLost');
    assert.match(message(waiting), /the snapshot is good.*demo-1-bbbbb on node n2.*out-of-service/);
  });

  test('names the ID that a consent would have to name, and tells a restore that is over from a mistake', () => {
    assert.match(message(seen({ clusterID: 'c2' })), /gives up cluster c1, and the one that runs is c2/);
    const before = { ...past, restoreUID: 'r0' };
    assert.match(message(seen({ clusterID: 'c2', pastRestores: [before] })), /has been replaced by a restore already/);
  });

  test('has what was replaced by what, what was lost, and the volumes that still hold it', () => {
    const status = restoreStatus(seen({ clusterID: 'c2', pastRestores: [past] }));
    assert.deepEqual(status?.before, { clusterID: 'c1', revision: '57', volumes: ['demo-0-aaaaa'] });
    assert.deepEqual(status?.after, { clusterID: 'c2', revision: '1000000077' });
    assert.equal(status?.lost, 'revisions 21 to 57 of cluster c1');
  });

  test('does not change once it has ended, but for the volumes that are left', () => {
    const of = seen({ clusterID: 'c2', pastRestores: [past] });
    const status = restoreStatus(of);
    assert.ok(status);
    assert.equal(restoreStatus({ ...of, status }), undefined);
    assert.equal(restoreStatus({ ...seen({ phase: 'QuorumLost' }), status, now: 9_999 }), undefined);
    assert.deepEqual(restoreStatus({ ...of, status, volumes: [] })?.before?.volumes, []);
  });

  test('calls everything lost where the snapshot is of another cluster, whose revisions are others', () => {
    const foreign = { ...past, verified: { ...verified, clusterID: 'c9' } };
    assert.match(
      lostOf(foreign) ?? '',
      /everything that cluster c1 had, up to revision 57; the snapshot is of cluster c9/,
    );
    assert.equal(lostOf({ ...past, revisionBefore: '20' }), 'nothing');
  });
});
