import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { EtcdQuorum } from '../../api/etcdquorum.gen.ts';
import { countClusters, createMetrics } from './metrics.ts';

const now = Date.UTC(2030, 0, 1);
const quorum = (replicas: number, status: EtcdQuorum['status']): EtcdQuorum =>
  ({ spec: { replicas, version: '3.6.16', medium: '' }, status }) as EtcdQuorum;

describe('what a scrape counts', () => {
  const quorums = [
    quorum(3, {
      phase: 'Running',
      clusterID: 'a1',
      readyMembers: 2,
      voters: ['a-0', 'a-1'],
      learners: ['a-2'],
      operation: {
        id: 'x',
        kind: 'AddMember',
        target: 'a-2',
        step: 'added',
        since: new Date(now - 90_000).toISOString(),
      },
      conditions: [
        { type: 'Degraded', status: 'True', reason: 'OutOfMemory', lastTransitionTime: new Date(now).toISOString() },
      ],
    }),
    quorum(1, undefined),
    quorum(0, { phase: 'Paused', caChange: { phase: 'Delivering', certificates: ['peer'] } }),
  ];
  const lines = async (of: readonly EtcdQuorum[]): Promise<string[]> => {
    const metrics = createMetrics();
    countClusters(metrics, quorums, now);
    countClusters(metrics, of, now);
    return (await metrics.registry.metrics()).split('\n').filter((line) => line.startsWith('etcd_operator_'));
  };

  it('is what is recorded of all clusters together', async () => {
    const told = await lines(quorums);
    for (const line of [
      'etcd_operator_clusters{phase="Running"} 1',
      'etcd_operator_clusters{phase="Pending"} 1',
      'etcd_operator_ca_changes{phase="Delivering"} 1',
      'etcd_operator_members{are="asked"} 4',
      'etcd_operator_members{are="serving"} 2',
      'etcd_operator_members{are="voters"} 2',
      'etcd_operator_members{are="learners"} 1',
      'etcd_operator_changes_in_flight{kind="AddMember"} 1',
      'etcd_operator_oldest_change_seconds 90',
      'etcd_operator_cluster_conditions{type="Degraded",status="True",reason="OutOfMemory"} 1',
    ]) {
      assert.ok(told.includes(line), `${line}\n${told.join('\n')}`);
    }
  });

  it('forgets what is over, since a reason that stays at its last count would ring for ever', async () => {
    const told = await lines([]);
    assert.ok(!told.some((line) => /OutOfMemory|AddMember|Delivering/.test(line)), told.join('\n'));
    assert.ok(told.includes('etcd_operator_oldest_change_seconds 0'));
  });
});
