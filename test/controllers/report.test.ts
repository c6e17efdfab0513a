import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { voterSelector } from '../../api/names.ts';
import { REASONS } from '../../api/reasons.ts';
import { KubeFault, resources } from '../../runtime/ports/kube.ts';
import { CLUSTER, openStage, type Stage } from './stage.ts';

const formed = async (spec: Record<string, unknown> = {}): Promise<Stage> => {
  const stage = openStage();
  stage.apply(spec);
  await stage.settled();
  return stage;
};
const told = (stage: Stage, kind = 'EtcdCluster'): string[] =>
  stage.announced.filter((one) => one.kind === kind).map(({ type, reason }) => `${type} ${reason}`);
const condition = (stage: Stage, type: string) => stage.quorum?.status?.conditions?.find((one) => one.type === type);

describe('what people get to read', () => {
  test('the events of the claim tell how it formed, each thing once', async () => {
    const stage = await formed();
    assert.deepEqual(told(stage), ['Normal Bootstrapping', 'Normal Bootstrapping', 'Normal Serving']);
    const [attempt, latch, serving] = stage.announced.map(({ message }) => message);
    assert.match(attempt ?? '', /attempt 1 at forming a cluster of 3/);
    assert.match(latch ?? '', new RegExp(stage.quorum?.status?.clusterID ?? 'none'));
    assert.match(serving ?? '', /demo-0-.*demo-1-.*demo-2-/);
    stage.close();
  });

  test('every reason that is said is one that has an explanation', async () => {
    const stage = await formed();
    stage.kubelet.kill(stage.podOf(0).metadata.name);
    stage.edit({ replicas: 2 });
    await stage.settled();
    stage.remove(resources.etcdmembers, `${CLUSTER}-1`);
    await stage.settled();
    const reasons = new Set([
      ...stage.announced.map(({ reason }) => reason),
      ...(stage.quorum?.status?.conditions ?? []).map(({ reason }) => reason),
      ...stage.members.flatMap(({ status }) => (status?.conditions ?? []).map(({ reason }) => reason)),
    ]);
    assert.ok(reasons.size > 5);
    for (const reason of reasons) assert.ok(Object.hasOwn(REASONS, reason), reason);
    stage.close();
  });

  test('a refusal by a quota is in the conditions in the words of the API server, and ends with it', async () => {
    const stage = openStage();
    stage.between(async (call, happen) => {
      if (!call.what.startsWith('create pods')) return happen();
      throw new KubeFault('Forbidden', 'create pods: Forbidden (403): exceeded quota: pods', { status: 403 });
    });
    stage.apply({});
    await stage.until(() => condition(stage, 'Synced')?.reason === 'PodRefused', 'said');
    assert.equal(condition(stage, 'Synced')?.status, 'False');
    assert.match(condition(stage, 'Synced')?.message ?? '', /exceeded quota/);
    assert.equal(condition(stage, 'Degraded')?.status, 'True');
    stage.between(undefined);
    await stage.settled();
    assert.equal(condition(stage, 'Synced')?.status, 'True');
    assert.equal(stage.volumes.length, 3, 'nothing of the refused tries is left');
    stage.close();
  });

  test('a Pod that finds no node is told of once, on the member and on the claim', async () => {
    const stage = await formed({ replicas: 3 });
    stage.kubelet.refuse(/-3-/);
    stage.edit({ replicas: 4 });
    await stage.until(() => told(stage, 'EtcdMember').includes('Warning Unschedulable'), 'told');
    await stage.pass(60_000);
    assert.deepEqual(told(stage, 'EtcdMember'), ['Warning Unschedulable']);
    assert.equal(told(stage).filter((line) => line === 'Warning Unschedulable').length, 1);
    assert.match(condition(stage, 'Degraded')?.message ?? '', /demo-3: .*Insufficient memory/);
    assert.equal(condition(stage, 'Available')?.status, 'True');
    stage.close();
  });

  test('the budget lets one member at a time be evicted, and belongs to the claim', async () => {
    for (const [spec, minAvailable, policy] of [
      [{ replicas: 3 }, 2, 'AlwaysAllow'],
      [{ replicas: 5 }, 3, 'AlwaysAllow'],
      [{ replicas: 3, storage: { medium: 'Memory', size: '64Mi' } }, 2, 'IfHealthyBudget'],
    ] as const) {
      const stage = await formed(spec);
      const { budget } = stage;
      assert.equal(budget?.spec?.minAvailable, minAvailable);
      assert.equal(budget?.spec?.maxUnavailable, undefined);
      assert.equal(budget?.spec?.unhealthyPodEvictionPolicy, policy);
      assert.deepEqual(budget?.spec?.selector?.matchLabels, voterSelector(CLUSTER));
      assert.equal(budget?.metadata.ownerReferences?.[0]?.uid, stage.claim?.metadata.uid);
      for (const { metadata } of stage.pods) {
        for (const [label, value] of Object.entries(voterSelector(CLUSTER)))
          assert.equal(metadata.labels?.[label], value);
      }
      stage.close();
    }
  });

  test('a member of one has no budget, which would block every drain', async () => {
    const stage = await formed({ replicas: 1 });
    const least = () => stage.budget?.spec?.minAvailable;
    assert.equal(least(), undefined);
    stage.edit({ replicas: 3 });
    await stage.settled();
    assert.equal(least(), 2);
    stage.edit({ replicas: 1 });
    await stage.settled();
    assert.equal(least(), undefined);
    assert.equal(stage.budget, undefined);
    assert.deepEqual(stage.quorum?.spec.resourceRefs ?? [], [], 'the reference goes with it');
    stage.close();
  });

  test('a lost quorum is told as such, and over when it is over', async () => {
    const stage = await formed();
    const nodes = ['node-0', 'node-1'];
    for (const node of nodes) stage.kubelet.loseNode(node);
    await stage.until(() => stage.quorum?.status?.phase === 'QuorumLost', 'lost');
    assert.equal(condition(stage, 'Available')?.reason, 'QuorumLost');
    const { members } = stage;
    await stage.pass(600_000);
    assert.equal(stage.volumes.length, 3, 'nothing is deleted meanwhile');
    assert.deepEqual(
      stage.members.map(({ metadata }) => metadata.uid),
      members.map(({ metadata }) => metadata.uid),
    );
    for (const { metadata } of stage.pods.filter(({ spec }) => nodes.includes(spec?.nodeName ?? ''))) {
      stage.store.vanish({ resource: resources.pods, namespace: 'team-a', name: metadata.name });
    }
    for (const node of nodes) stage.kubelet.restoreNode(node);
    await stage.settled();
    assert.equal(condition(stage, 'Available')?.reason, 'QuorumHealthy');
    stage.close();
  });
});
