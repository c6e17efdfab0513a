import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { otlpTracing } from '../../runtime/adapters/otel/otlp-tracing.ts';
import { EtcdFault } from '../../runtime/ports/etcd.ts';
import { resources } from '../../runtime/ports/kube.ts';
import { type MemoryTrace, memoryTracing } from '../otlp/memory.ts';
import { picture, startOtlpReceiver } from '../otlp/receiver.ts';
import { password, wanted } from './auth-stories.ts';
import { CLUSTER, openStage, type Stage } from './stage.ts';
import { formedWithTls } from './tls-secrets.ts';

const parent = { traceId: '4bf92f3577b34da6a3ce929d0e0e4736', spanId: '00f067aa0ba902b7' };

const traced = (spec: Record<string, unknown> = {}) => {
  const tracing = memoryTracing();
  const stage = openStage({ tracing });
  stage.apply(spec);
  return { stage, tracing };
};
const names = ({ steps }: MemoryTrace): string[] => steps.map(({ span }) => span.name);
const acts = (trace: MemoryTrace): string[] => names(trace).filter((name) => name !== 'Wait');
const calls = ({ steps }: MemoryTrace): string[] => steps.flatMap(({ calls: made }) => made.map(({ name }) => name));
const annotate = (stage: Stage, annotations: Record<string, string>): void =>
  stage.change(resources.etcdclusters, CLUSTER, (claim) => {
    claim.metadata.annotations = annotations;
  });

describe('the trace of a change', () => {
  it('is one for the bootstrap, from the recorded attempt to the last member that serves', async () => {
    const { stage, tracing } = traced();
    await stage.settled();
    assert.equal(tracing.traces.length, 1);
    const [trace] = tracing.traces;
    assert.ok(trace);
    assert.equal(trace.name, 'Bootstrap');
    assert.equal(trace.ends, 1);
    assert.equal(trace.attributes['etcd_operator.change.outcome'], 'formed');
    assert.equal(trace.startMs, Date.parse(stage.quorum?.status?.bootstrap?.startedAt ?? ''));
    const steps = acts(trace);
    assert.equal(steps[0], 'RecordAttempt');
    assert.ok(steps.indexOf('BringUp') < steps.indexOf('Latch') && steps.indexOf('Latch') < steps.lastIndexOf('Admit'));
    stage.close();
  });

  it('of a scale-up reaches a receiver over OTLP as one, its steps in order, under the parent that the claim names', async () => {
    const receiver = await startOtlpReceiver();
    process.env.OTEL_EXPORTER_OTLP_ENDPOINT = receiver.url;
    const tracing = otlpTracing({ version: '0', resource: {}, onTrouble: assert.fail });
    const stage = openStage({ tracing });
    try {
      stage.apply({ replicas: 1 });
      await stage.settled();
      annotate(stage, { 'etcd-operator.cozystack.io/traceparent': `00-${parent.traceId}-${parent.spanId}-01` });
      stage.edit({ replicas: 2 });
      await stage.settled();
      await tracing.close();
      const spans = receiver.spans.filter(({ traceId }) => traceId === parent.traceId);
      const [root, ...others] = spans.filter(({ parentSpanId }) => parentSpanId === parent.spanId);
      assert.equal(others.length, 0, 'one change');
      assert.ok(root);
      assert.equal(root.name, 'AddMember');
      assert.equal(root.attributes['etcd_operator.change.outcome'], 'joined');
      assert.equal(root.attributes['k8s.namespace.name'], 'team-a');
      const steps = spans
        .filter((span) => span.parentSpanId === root.spanId)
        .toSorted((a, b) => Number(a.startNs - b.startNs))
        .map(({ name }) => name)
        .filter((name) => name !== 'Wait');
      const stations = ['BeginOperation', 'AddLearner', 'BringUp', 'Configure', 'Promote', 'Admit', 'EndOperation'];
      assert.deepEqual(
        steps.filter((name) => stations.includes(name)).filter((name, i, all) => name !== all[i - 1]),
        stations,
        picture(spans),
      );
      const add = spans.find(({ name }) => name === 'etcdserverpb.Cluster/MemberAdd');
      assert.equal(add?.kind, 'client');
      assert.equal(add?.attributes['rpc.system.name'], 'grpc');
      assert.equal(add?.attributes['server.port'], 2379);
      assert.equal(spans.find(({ spanId }) => spanId === add?.parentSpanId)?.name, 'AddLearner');
      for (const span of spans) {
        assert.ok(span.startNs >= root.startNs && span.endNs <= root.endNs, `${span.name} lies within its change`);
      }
    } finally {
      stage.close();
      delete process.env.OTEL_EXPORTER_OTLP_ENDPOINT;
      await receiver.close();
    }
  });

  it('goes on in the next process, whatever call the runtime dies before', async () => {
    const { stage, tracing } = traced({ replicas: 1 });
    await stage.settled();
    stage.edit({ replicas: 2 });
    let writes = 0;
    stage.between(async (call, happen) => {
      if (call.writes && tracing.traces.length > 1) {
        writes += 1;
        if (writes % 3 === 2) stage.die();
      }
      return happen();
    });
    await stage.settled();
    assert.ok(stage.lives > 2, 'it died');
    const adds = tracing.traces.filter(({ name }) => name === 'AddMember');
    assert.equal(adds.length, 1, 'one trace');
    assert.equal(adds[0]?.attributes['etcd_operator.change.outcome'], 'joined');
    assert.deepEqual(stage.wrongs, []);
    stage.close();
  });

  it('tells a promotion that is refused until the learner has caught up as one step with its attempts', async () => {
    const { stage, tracing } = traced({ replicas: 1 });
    await stage.settled();
    let refusals = 0;
    stage.between(async (call, happen) => {
      if (call.what !== 'memberPromote' || refusals >= 5) return happen();
      refusals += 1;
      throw new EtcdFault({
        reason: 'LearnerNotReady',
        operation: 'memberPromote',
        url: 'http://10.0.0.1:2379',
        detail: 'not in sync',
        mayHaveHappened: false,
      });
    });
    stage.edit({ replicas: 2 });
    await stage.settled();
    const trace = tracing.traces.find(({ name }) => name === 'AddMember');
    const promotions = trace?.steps.filter(({ span }) => span.name === 'Promote') ?? [];
    assert.equal(promotions.length, 1);
    assert.equal(promotions[0]?.span.attributes['etcd_operator.attempts'], 6);
    const made = promotions[0]?.calls.filter(({ name }) => name.endsWith('MemberPromote')).map(({ error }) => error);
    assert.deepEqual(made, ['LearnerNotReady', undefined], 'the same refusal is told once');
    stage.close();
  });

  it('is one each for removal, replacement, restart, rollout, pause and resume', async () => {
    const { stage, tracing } = traced();
    await stage.settled();
    const since = (): MemoryTrace[] => tracing.traces.slice(before);
    let before = tracing.traces.length;
    const told = async (): Promise<string[]> => {
      await stage.settled();
      const found = since().map(
        ({ name, ends, attributes }) => `${name} ${ends === 1 ? attributes['etcd_operator.change.outcome'] : ends}`,
      );
      before = tracing.traces.length;
      return found;
    };
    stage.remove(resources.pods, stage.podOf(1).metadata.name);
    assert.deepEqual(await told(), ['Restart serving']);
    stage.kubelet.kill(stage.podOf(2).metadata.name);
    assert.deepEqual(await told(), ['Restart serving']);
    stage.edit({ options: { autoCompactionRetention: '2h' } });
    assert.deepEqual(await told(), ['Rollout serving', 'Rollout serving', 'Rollout serving']);
    stage.edit({ version: '3.6.17' });
    const upgrades = await told();
    assert.ok(upgrades.length === 3 && upgrades.every((one) => one === 'Upgrade serving'), upgrades.join());
    const first = stage.member(0).metadata.uid;
    stage.remove(resources.etcdmembers, `${CLUSTER}-0`);
    await stage.until(() => stage.get(resources.etcdmembers, `${CLUSTER}-0`)?.metadata.uid !== first, 'another object');
    assert.deepEqual(await told(), ['ReplaceMember emptied', 'AddMember joined']);
    stage.edit({ replicas: 2 });
    assert.deepEqual(await told(), ['RemoveMember removed']);
    stage.edit({ replicas: 0 });
    await stage.until(({ pods, quorum }) => pods.length === 0 && quorum?.status?.phase === 'Paused', 'paused');
    stage.edit({ replicas: 2 });
    assert.deepEqual(await told(), ['Pause stopped', 'Resume serving']);
    assert.deepEqual(stage.changes.length, tracing.traces.length, 'the metrics count the same changes');
    stage.close();
  });

  it('of a deletion ends when nothing is left', async () => {
    const { stage, tracing } = traced({ replicas: 1 });
    await stage.settled();
    stage.remove(resources.etcdclusters, CLUSTER);
    await stage.until(({ members, quorum }) => members.length === 0 && quorum === undefined, 'gone');
    await stage.pass(5_000);
    const trace = tracing.traces.at(-1);
    assert.equal(trace?.name, 'Deletion');
    assert.equal(trace?.attributes['etcd_operator.change.outcome'], 'deleted');
    assert.equal(stage.changes.at(-1), 'Deletion deleted');
    stage.close();
  });

  it('has no parent where the annotation is no traceparent, and the change goes on', async () => {
    const { stage, tracing } = traced({ replicas: 1 });
    annotate(stage, { traceparent: 'nonsense' });
    await stage.settled();
    assert.equal(tracing.traces[0]?.parent, undefined);
    assert.equal(tracing.traces[0]?.attributes['etcd_operator.change.outcome'], 'formed');
    stage.close();
  });

  it('says where calls went and never what they carried', async () => {
    const { stage, tracing } = traced({ replicas: 1 });
    await stage.settled();
    const [trace] = tracing.traces;
    assert.ok(trace);
    const made = trace.steps.flatMap((step) => step.calls);
    const pod = made.find(({ name }) => name === 'POST /api/v1/namespaces/{namespace}/pods');
    assert.equal(pod?.attributes['k8s.pod.name'], stage.podOf(0).metadata.name);
    assert.equal(pod?.attributes['server.address'], '10.96.0.1');
    assert.ok(
      calls(trace).includes(
        'PATCH /apis/etcd-operator.cozystack.io/v1alpha2/namespaces/{namespace}/etcdquorums/{name}/status',
      ),
    );
    const config = stage.podOf(0).metadata.annotations?.['etcd-operator.cozystack.io/config'] ?? '';
    assert.ok(config.length > 100);
    for (const { attributes } of [...made, ...trace.steps.map(({ span }) => span)]) {
      for (const value of Object.values(attributes)) assert.ok(!String(value).includes('initial-cluster:'));
    }
    stage.close();
  });

  it('costs no call where nobody listens', async () => {
    const run = async (tracing?: ReturnType<typeof memoryTracing>): Promise<Stage> => {
      const stage = openStage(tracing === undefined ? {} : { tracing });
      stage.apply({});
      await stage.settled();
      stage.edit({ replicas: 4 });
      await stage.settled();
      stage.close();
      return stage;
    };
    const silent = await run();
    const heard = await run(memoryTracing());
    assert.deepEqual(heard.writes, silent.writes, 'a trace writes nothing');
    // The claim is read once for each of the two changes.
    assert.equal(heard.calls - silent.calls, 2);
    assert.deepEqual(silent.changes, ['Bootstrap formed', 'AddMember joined'], 'they are counted all the same');
  });

  it('holds no password, though calls that are made with one are among its steps', async () => {
    const tracing = memoryTracing();
    const stage = openStage({ tracing });
    password(stage, 'sesame-one');
    await formedWithTls(stage);
    stage.edit(wanted);
    await stage.until(({ quorum }) => quorum?.status?.authEnabled === true, 'it is on');
    password(stage, 'sesame-two');
    stage.edit({ replicas: 4 });
    await stage.settled();
    const text = JSON.stringify(tracing.traces, (_, value: unknown) =>
      typeof value === 'bigint' ? String(value) : value,
    );
    assert.ok(text.includes('MemberAdd'));
    for (const word of ['sesame-one', 'sesame-two']) {
      assert.ok(!text.includes(word) && !text.includes(Buffer.from(word).toString('base64')), word);
    }
    stage.close();
  });
});
