import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isEqual, oneSpelling, sum } from './quantity.ts';

test('quantities are added exactly, whatever units they are written in', () => {
  for (const [a, b, expected] of [
    ['1Gi', '512Mi', '1536Mi'],
    ['1Gi', '1Gi', '2Gi'],
    ['1.5Gi', '512Mi', '2Gi'],
    ['1G', '1Gi', '2073741824'],
    [1024, '1Ki', '2Ki'],
    ['1e3', '24', '1Ki'],
    ['1E3', '24', '1Ki'],
    ['1E', '0', '976562500000000Ki'],
    ['0', '0', '0'],
    ['500m', '500m', '1'],
    ['100m', '0', '100m'],
    ['1000000u', '0', '1'],
    ['9007199254740993', '0', '9007199254740993'],
    ['.5Gi', '512Mi', '1Gi'],
    ['2.', '1', '3'],
  ] as const) {
    assert.equal(sum(a, b), expected, `${a} + ${b}`);
  }
});

test('what is no quantity is not guessed at', () => {
  for (const text of ['', '.', 'plenty', '1 Gi', '1gi', '-1', '1KiB', '0x10', '1ee3', 'NaN']) {
    assert.equal(sum(text, '1'), undefined, text);
    assert.equal(isEqual(text, text), false, text);
  }
});

test('one amount written in two ways is equal', () => {
  assert.ok(isEqual('1Gi', '1024Mi'));
  assert.ok(isEqual(1, '1000m'));
  assert.ok(!isEqual('1Gi', '1G'));
});

test('one amount has one spelling, and what is no quantity keeps its own', () => {
  assert.equal(oneSpelling('1024Mi'), '1Gi');
  assert.equal(oneSpelling(1024), '1Ki');
  assert.equal(oneSpelling('plenty'), 'plenty');
});
