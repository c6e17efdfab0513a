import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { messageFields } from './message-fields.ts';

const varint = (value: bigint): number[] => {
  const bytes: number[] = [];
  let left = value;
  do {
    bytes.push(Number(left & 0x7fn) | (left > 0x7fn ? 0x80 : 0));
    left >>= 7n;
  } while (left > 0n);
  return bytes;
};
const numberField = (field: number, value: bigint): number[] => [...varint(BigInt(field) << 3n), ...varint(value)];
const textField = (field: number, text: string): number[] => {
  const bytes = [...Buffer.from(text)];
  return [...varint((BigInt(field) << 3n) | 2n), ...varint(BigInt(bytes.length)), ...bytes];
};

describe('the fields of a protobuf message', () => {
  test('are read whatever stands around them', () => {
    fc.assert(
      fc.property(
        fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
        fc.string(),
        fc.array(fc.tuple(fc.integer({ min: 20, max: 5_000 }), fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }))),
        (quota, version, others) => {
          const noise = others.flatMap(([field, value]) => [
            ...numberField(field, value),
            ...textField(field, `${value}`),
            ...varint((BigInt(field) << 3n) | 5n),
            ...[1, 2, 3, 4],
            ...varint((BigInt(field) << 3n) | 1n),
            ...[1, 2, 3, 4, 5, 6, 7, 8],
          ]);
          const fields = messageFields(
            Uint8Array.from([...noise, ...textField(11, version), ...noise, ...numberField(12, quota)]),
          );
          assert.equal(fields.text(11), Buffer.from(version).toString());
          assert.equal(fields.number(12), quota);
        },
      ),
    );
  });

  test('are absent where the message does not have them', () => {
    const fields = messageFields(Uint8Array.from(numberField(3, 7n)));
    assert.equal(fields.number(12), undefined);
    assert.equal(fields.text(11), undefined);
    assert.equal(messageFields(new Uint8Array()).number(3), undefined);
  });

  test('never read past the end: cut or random bytes are an error or a shorter message, not a hang', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 64 }), (bytes) => {
        try {
          messageFields(bytes);
        } catch (error) {
          assert.ok(error instanceof RangeError);
        }
      }),
    );
    assert.throws(() => messageFields(Uint8Array.from([0x5a, 0x05, 0x33])), RangeError);
    assert.throws(() => messageFields(Uint8Array.from([0x60, 0xff])), RangeError);
  });
});
