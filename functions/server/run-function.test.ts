import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import protobuf from 'protobufjs';
import type { RunFunctionResponse } from '../composing/exchange.ts';
import { decodeRequest, encodeResponse } from './run-function.ts';
import { WireError } from './wire.ts';

// An independent implementation of the format, reading the same description that Crossplane's side is built from.
const root = await protobuf.load(join(import.meta.dirname, 'run_function.proto'));
const Request = root.lookupType('apiextensions.fn.proto.v1.RunFunctionRequest');
const Response = root.lookupType('apiextensions.fn.proto.v1.RunFunctionResponse');

type Value = { [kind: string]: unknown };
const toValue = (json: unknown): Value => {
  if (json === null) return { nullValue: 0 };
  if (typeof json === 'number') return { numberValue: json };
  if (typeof json === 'string') return { stringValue: json };
  if (typeof json === 'boolean') return { boolValue: json };
  if (Array.isArray(json)) return { listValue: { values: json.map(toValue) } };
  return { structValue: toStruct(json as object) };
};
const toStruct = (json: object): Value => ({
  fields: Object.fromEntries(Object.entries(json).map(([key, value]) => [key, toValue(value)])),
});
const fromValue = (value: Value): unknown => {
  if ('structValue' in value) return fromStruct(value.structValue as Value);
  if ('listValue' in value) return ((value.listValue as Value).values as Value[] | undefined)?.map(fromValue) ?? [];
  if ('nullValue' in value) return null;
  return value.stringValue ?? value.numberValue ?? value.boolValue;
};
const fromStruct = (struct: Value): unknown =>
  Object.fromEntries(
    Object.entries((struct.fields as Record<string, Value> | undefined) ?? {}).map(([key, value]) => [
      key,
      fromValue(value),
    ]),
  );

const json = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    fc.constant(null),
    fc.boolean(),
    fc.double({ noNaN: true, noDefaultInfinity: true }).map((number) => (Object.is(number, -0) ? 0 : number)),
    fc.string({ unit: 'grapheme' }),
    fc.string({ minLength: 60, maxLength: 300 }),
    fc.array(tie('value'), { maxLength: 5 }),
    tie('object'),
  ),
  object: fc.dictionary(
    fc.string({ unit: 'grapheme' }).filter((key) => key !== '__proto__'),
    tie('value'),
    {
      maxKeys: 6,
      noNullPrototype: true,
    },
  ),
}));
const struct = json.object as fc.Arbitrary<Record<string, unknown>>;
const details = fc.dictionary(
  fc.string({ maxLength: 8 }).filter((key) => key !== '__proto__'),
  fc.uint8Array(),
  {
    maxKeys: 2,
    noNullPrototype: true,
  },
);
const key = fc.stringMatching(/^[a-z0-9-]{1,12}$/);

test('a request that another protobuf implementation wrote is read as it was', () => {
  fc.assert(
    fc.property(
      fc.record({ tag: fc.string(), input: struct, context: struct, composite: struct, details }),
      fc.dictionary(key, struct, { maxKeys: 4, noNullPrototype: true }),
      ({ tag, input, context, composite, details: connection }, resources) => {
        const bytes = Request.encode(
          Request.fromObject({
            meta: { tag },
            observed: {
              composite: { resource: toStruct(composite), connectionDetails: connection, ready: 1 },
              resources: Object.fromEntries(
                Object.entries(resources).map(([name, each]) => [name, { resource: toStruct(each), ready: 2 }]),
              ),
            },
            input: toStruct(input),
            context: toStruct(context),
            requiredResources: {
              members: { items: Object.values(resources).map((each) => ({ resource: toStruct(each) })) },
            },
          }),
        ).finish();
        const request = decodeRequest(Buffer.from(bytes));
        assert.equal(request.tag ?? '', tag);
        assert.deepEqual(request.input, input);
        assert.deepEqual(request.context, context);
        assert.deepEqual(request.observed?.composite?.resource, composite);
        assert.equal(request.observed?.composite?.ready, 'True');
        assert.deepEqual(
          Object.entries(request.observed?.composite?.connectionDetails ?? {}).map(([name, data]) => [name, [...data]]),
          Object.entries(connection).map(([name, data]) => [name, [...data]]),
        );
        assert.deepEqual(
          request.observed?.resources,
          Object.fromEntries(
            Object.entries(resources).map(([name, each]) => [name, { resource: each, ready: 'False' }]),
          ),
        );
        assert.deepEqual(
          request.requiredResources?.members,
          Object.values(resources).map((each) => ({ resource: each })),
        );
      },
    ),
    { numRuns: 300 },
  );
});

test('a response is read by another protobuf implementation as it was', () => {
  fc.assert(
    fc.property(
      struct,
      struct,
      fc.string({ unit: 'grapheme' }),
      fc.nat(600),
      (composite, member, message, ttlSeconds) => {
        const response: RunFunctionResponse = {
          tag: message,
          ttlSeconds,
          desired: {
            composite: {
              resource: composite,
              ready: 'False',
              connectionDetails: { password: new Uint8Array([0, 255]) },
            },
            resources: { 'member-0': { resource: member, ready: 'True' }, other: { resource: {} } },
          },
          context: { some: member },
          results: [
            { severity: 'Fatal', message, reason: 'Why' },
            { severity: 'Normal', message: 'second' },
          ],
          requirements: {
            resources: {
              members: { apiVersion: 'a/v1', kind: 'K', namespace: 'n', matchLabels: { b: '2', a: message } },
              one: { apiVersion: 'a/v1', kind: 'K', matchName: 'x' },
            },
            schemas: { s: { apiVersion: 'a/v1', kind: 'K' } },
          },
          conditions: [
            { type: 'Available', status: 'True', reason: 'Settled', message },
            { type: 'Stalled', status: 'False', reason: 'Settled' },
          ],
        };
        const read = Response.toObject(Response.decode(encodeResponse(response)), {
          defaults: false,
          enums: String,
          longs: Number,
        });
        assert.equal(read.meta.tag ?? '', message);
        assert.equal(read.meta.ttl.seconds ?? 0, ttlSeconds);
        const desired = read.desired;
        assert.deepEqual(fromStruct(desired.composite.resource), composite);
        assert.equal(desired.composite.ready, 'READY_FALSE');
        assert.deepEqual([...desired.composite.connectionDetails.password], [0, 255]);
        assert.deepEqual(fromStruct(desired.resources['member-0'].resource), member);
        assert.equal(desired.resources['member-0'].ready, 'READY_TRUE');
        assert.equal('ready' in desired.resources.other, false);
        assert.deepEqual(fromStruct(read.context), { some: member });
        assert.deepEqual(
          read.results.map((each: Value) => [each.severity, each.message ?? '', each.reason]),
          [
            ['SEVERITY_FATAL', message, 'Why'],
            ['SEVERITY_NORMAL', 'second', undefined],
          ],
        );
        assert.deepEqual({ ...read.requirements.resources.members.matchLabels.labels }, { a: message, b: '2' });
        assert.equal(read.requirements.resources.members.namespace, 'n');
        assert.equal(read.requirements.resources.one.matchName, 'x');
        assert.deepEqual({ ...read.requirements.schemas.s }, { apiVersion: 'a/v1', kind: 'K' });
        assert.deepEqual(
          read.conditions.map((each: Value) => [each.type, each.status, each.reason, each.message]),
          [
            ['Available', 'STATUS_CONDITION_TRUE', 'Settled', message],
            ['Stalled', 'STATUS_CONDITION_FALSE', 'Settled', undefined],
          ],
        );
      },
    ),
    { numRuns: 300 },
  );
});

test('equal responses are equal bytes, whatever order their maps were made in', () => {
  const one = encodeResponse({ desired: { resources: { a: { resource: { x: 1, y: { p: 1, q: 2 } } }, b: {} } } });
  const other = encodeResponse({ desired: { resources: { b: {}, a: { resource: { y: { q: 2, p: 1 }, x: 1 } } } } });
  assert.deepEqual(one, other);
});

test('a key named __proto__ stays a key, because people may write any label', () => {
  const bytes = Request.encode({
    input: { fields: Object.defineProperty({}, '__proto__', { value: { stringValue: 'x' }, enumerable: true }) },
  } as never).finish();
  const { input } = decodeRequest(Buffer.from(bytes));
  assert.deepEqual(Object.keys(input ?? {}), ['__proto__']);
  assert.equal(Object.getPrototypeOf(input), Object.prototype);
});

test('what JSON cannot say is null or left out', () => {
  const read = Response.toObject(
    Response.decode(encodeResponse({ context: { nan: Number.NaN, gone: undefined, list: [undefined] } })),
  );
  assert.deepEqual(fromStruct(read.context), { nan: null, list: [null] });
});

test('bytes that are no request are refused with an error, never read beyond their end or without end', () => {
  const whole = Buffer.from(
    Request.encode(
      Request.fromObject({
        meta: { tag: 't' },
        observed: { composite: { resource: toStruct({ a: [1, 'x', { b: true }] }) } },
      }),
    ).finish(),
  );
  for (let length = 1; length < whole.length; length++) {
    try {
      decodeRequest(whole.subarray(0, length));
    } catch (error) {
      assert.ok(error instanceof WireError, String(error));
    }
  }
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
      try {
        decodeRequest(Buffer.from(bytes));
      } catch (error) {
        assert.ok(error instanceof WireError, String(error));
      }
    }),
    { numRuns: 2000 },
  );
});

test('a Struct nested without bound is refused, because reading it would exhaust the stack', () => {
  let value: Buffer = Buffer.from([0x08, 0x00]);
  const wrap = (tag: number, inner: Buffer): Buffer => {
    const length: number[] = [];
    for (let rest = inner.length; ; rest >>>= 7) {
      length.push(rest > 127 ? (rest & 127) | 128 : rest);
      if (rest <= 127) break;
    }
    return Buffer.concat([Buffer.from([tag, ...length]), inner]);
  };
  for (let depth = 0; depth < 5000; depth++) value = wrap(0x32, wrap(0x0a, value));
  const entry = wrap(0x0a, Buffer.concat([wrap(0x0a, Buffer.from('k')), wrap(0x12, value)]));
  assert.throws(() => decodeRequest(wrap(0x22, entry)), { name: 'WireError', message: /nested deeper/ });
});
