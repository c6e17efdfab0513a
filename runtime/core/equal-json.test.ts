import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { equalJson } from './equal-json.ts';

const reordered = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(reordered);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .toReversed()
      .map(([key, one]) => [key, reordered(one)]),
  );
};

describe('two JSON values', () => {
  test('say the same in whatever order their keys come', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        assert.ok(equalJson(value, reordered(value)));
      }),
    );
  });

  test('differ where the API server would see a difference', () => {
    for (const [a, b] of [
      [{ a: 1 }, { a: 2 }],
      [{ a: 1 }, {}],
      [{ a: null }, {}],
      [
        [1, 2],
        [2, 1],
      ],
      [[1], [1, 2]],
      [[], {}],
      ['1', 1],
    ]) {
      assert.ok(!equalJson(a, b), JSON.stringify([a, b]));
      assert.ok(!equalJson(b, a), JSON.stringify([b, a]));
    }
    assert.ok(equalJson({ a: undefined }, {}));
  });
});
