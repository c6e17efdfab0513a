import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compose } from '../steps.ts';
import { selfCheck } from './self-check.ts';

test('this build answers a plain request in every step', () => {
  selfCheck(compose);
});

test('a build in which one step is broken does not get as far as serving', () => {
  const throwing = (): never => {
    throw new TypeError('x is not a function');
  };
  assert.throws(() => selfCheck(throwing), TypeError);
  const refusing = () => ({ results: [{ severity: 'Fatal', message: 'no' }] as const });
  assert.throws(() => selfCheck(refusing), /step Members cannot answer a plain request: no/);
  const endless: { self?: object } = {};
  endless.self = endless;
  assert.throws(() => selfCheck(() => ({ context: endless })), RangeError);
});
