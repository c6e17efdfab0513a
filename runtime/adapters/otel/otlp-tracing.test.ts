import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { type OtlpReceiver, picture, startOtlpReceiver } from '../../../test/otlp/receiver.ts';
import { tracingFromEnv, tracingWanted } from './tracing-from-env.ts';

const traceId = '4bf92f3577b34da6a3ce929d0e0e4736';
const spanId = '00f067aa0ba902b7';

describe('whether anybody wants traces', () => {
  const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318' };
  it('is said by an endpoint, for all signals or for traces', () => {
    assert.equal(tracingWanted({}), false);
    assert.equal(tracingWanted({ OTEL_EXPORTER_OTLP_ENDPOINT: ' ' }), false);
    assert.equal(tracingWanted(endpoint), true);
    assert.equal(tracingWanted({ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://collector:4318/v1/traces' }), true);
  });
  it('is denied by the two variables that OpenTelemetry has for that', () => {
    assert.equal(tracingWanted({ ...endpoint, OTEL_SDK_DISABLED: 'true' }), false);
    assert.equal(tracingWanted({ ...endpoint, OTEL_TRACES_EXPORTER: 'none' }), false);
    assert.equal(tracingWanted({ ...endpoint, OTEL_TRACES_EXPORTER: 'otlp' }), true);
  });
});

describe('traces over OTLP', () => {
  let receiver: OtlpReceiver;
  const before = { ...process.env };
  const troubles: string[] = [];
  const settings = {
    version: '1.2.3',
    resource: { 'service.name': 'etcd-operator-runtime', 'service.instance.id': 'pod-a' },
    onTrouble: (message: string) => void troubles.push(message),
  };
  const start = async (env: Record<string, string> = {}) => {
    Object.assign(process.env, { OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url, ...env });
    const tracing = await tracingFromEnv(process.env, settings);
    assert.ok(tracing);
    return tracing;
  };
  const root = (startMs: number) => ({
    traceId,
    spanId,
    name: 'AddMember',
    startMs,
    attributes: { 'k8s.namespace.name': 'team-a' },
  });
  const at = 1_900_000_000_000.25;

  beforeEach(async () => {
    troubles.length = 0;
    receiver = await startOtlpReceiver();
  });
  afterEach(async () => {
    for (const key of Object.keys(process.env)) if (key.startsWith('OTEL_')) delete process.env[key];
    Object.assign(process.env, before);
    await receiver.close();
  });

  it('keep the IDs and the times they were given, so that another process can go on with them', async () => {
    const tracing = await start();
    const trace = tracing.open(root(at));
    assert.equal(trace.traceId, traceId);
    trace.add({ name: 'Promote', kind: 'internal', startMs: at + 10, endMs: at + 30.5, attributes: { attempts: 2 } }, [
      { name: 'rpc', kind: 'client', startMs: at + 11, endMs: at + 12, attributes: { ok: true }, error: 'Timeout' },
    ]);
    trace.end(at + 50, { outcome: 'joined' });
    await tracing.close();
    assert.equal(picture(receiver.spans), 'AddMember\n  Promote\n    rpc');
    const [first, step, call] = ['AddMember', 'Promote', 'rpc'].map((name) =>
      receiver.spans.find((span) => span.name === name),
    );
    assert.deepEqual([first?.traceId, first?.spanId, first?.parentSpanId], [traceId, spanId, '']);
    assert.equal(first?.startNs, 1_900_000_000_000_250_000n);
    assert.equal(first?.endNs, 1_900_000_000_050_250_000n);
    assert.deepEqual(first?.attributes, { 'k8s.namespace.name': 'team-a', outcome: 'joined' });
    assert.equal(step?.endNs, 1_900_000_000_030_750_000n);
    assert.deepEqual(step?.attributes, { attempts: 2 });
    assert.equal(call?.kind, 'client');
    assert.equal(call?.failed, true);
    assert.deepEqual(call?.attributes, { ok: true, 'error.type': 'Timeout' });
    assert.equal(receiver.requests[0]?.path, '/v1/traces');
    assert.equal(receiver.requests[0]?.headers['content-type'], 'application/x-protobuf');
  });

  it('begin in the past where the change did, also before this process was started', async () => {
    const tracing = await start();
    const startMs = Date.now() - 3_600_000;
    tracing.open(root(startMs)).end(startMs + 5, {});
    await tracing.close();
    assert.equal(receiver.spans[0]?.startNs, BigInt(startMs) * 1_000_000n);
  });

  it('go on with the same trace in another process, which has never heard of the first', async () => {
    const first = await start();
    first.open(root(at)).add({ name: 'BeginOperation', kind: 'internal', startMs: at, endMs: at, attributes: {} }, []);
    await first.close();
    const second = await start();
    const trace = second.open(root(at));
    trace.add({ name: 'Promote', kind: 'internal', startMs: at + 5, endMs: at + 6, attributes: {} }, []);
    trace.end(at + 10, {});
    await second.close();
    assert.equal(picture(receiver.spans), 'AddMember\n  BeginOperation\n  Promote');
    assert.equal(new Set(receiver.spans.map((span) => span.traceId)).size, 1);
    assert.equal(receiver.spans.length, 3, 'the root came once');
  });

  it('join the trace of a parent, and are not sent where that one is not sampled', async () => {
    const parent = { traceId: '1'.repeat(32), spanId: '2'.repeat(16) };
    const tracing = await start();
    tracing.open({ ...root(at), parent: { ...parent, sampled: true } }).end(at + 1, {});
    tracing.open({ ...root(at), spanId: '3'.repeat(16), parent: { ...parent, sampled: false } }).end(at + 1, {});
    await tracing.close();
    assert.equal(receiver.spans.length, 1);
    const [span] = receiver.spans;
    assert.deepEqual([span?.traceId, span?.spanId, span?.parentSpanId], [parent.traceId, spanId, parent.spanId]);
  });

  it('take resource, sampler and headers from the standard variables', async () => {
    const named = await start({
      OTEL_SERVICE_NAME: 'my-runtime',
      OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=prod',
      OTEL_EXPORTER_OTLP_HEADERS: 'authorization=Bearer%20sesame',
    });
    named.open(root(at)).end(at + 1, {});
    await named.close();
    const { resource } = receiver.spans[0] ?? {};
    assert.equal(resource?.['service.name'], 'my-runtime');
    assert.equal(resource?.['service.version'], '1.2.3');
    assert.equal(resource?.['service.instance.id'], 'pod-a');
    assert.equal(resource?.['deployment.environment.name'], 'prod');
    assert.equal(receiver.requests[0]?.headers.authorization, 'Bearer sesame');
    const none = await start({ OTEL_TRACES_SAMPLER: 'always_off' });
    none.open(root(at)).end(at + 1, {});
    await none.close();
    assert.equal(receiver.spans.length, 1);
  });

  it('that nobody takes are told in one line without what was in the headers, and hold up nobody', async () => {
    receiver.answer(401);
    const tracing = await start({ OTEL_EXPORTER_OTLP_HEADERS: 'authorization=Bearer%20sesame' });
    tracing.open(root(at)).end(at + 1, {});
    await tracing.close();
    assert.equal(troubles.length, 1, troubles.join('\n'));
    assert.match(troubles[0] ?? '', /401|Unauthorized/);
    assert.doesNotMatch(troubles.join(), /sesame/);
  });

  it('are told to go by HTTP where somebody asked for gRPC, since only the port would tell otherwise', async () => {
    const tracing = await start({ OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' });
    await tracing.close();
    assert.match(troubles.join(), /http\/protobuf, not as grpc/);
  });
});
