import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { needsDowngrade, upgradeRefusal } from './upgrade-path.ts';

describe('upgrade path', () => {
  for (const [running, wanted] of [
    [undefined, '3.6.16'],
    ['3.6.16', '3.6.16'],
    ['3.6.8', '3.6.16'],
    ['3.6.16', '3.6.8'],
    ['3.5.24', '3.6.16'],
    ['3.5.35', '3.6.0'],
    ['3.6.16', '3.7.3'],
    ['3.5.24-3.6.16', '3.6.16'],
    ['3.6.8-3.6.16', '3.6.12'],
    ['3.6.16', '3.5.24'],
    ['3.7.3', '3.6.11'],
    ['3.5.35-3.6.16', '3.5.35'],
  ] as const) {
    test(`goes from ${running ?? 'nothing'} to ${wanted}`, () =>
      assert.equal(upgradeRefusal(running, wanted), undefined));
  }

  for (const [running, wanted, why] of [
    ['3.5.23', '3.6.16', /entered from 3\.5\.24 or later/],
    ['3.5.10', '3.6.0', /entered from 3\.5\.24 or later/],
    ['3.5.35', '3.7.3', /one at a time; set version to 3\.6\.x first/],
    ['3.5.35', '3.4.30', /cannot write its data back for 3\.4; set version to 3\.5\.x/],
    ['3.7.3', '3.5.35', /left one at a time; set version to 3\.6\.x/],
    ['3.6.16', '3.5.23', /leads to 3\.5\.24 or later/],
    ['3.7.3', '3.6.10', /leads to 3\.6\.11 or later/],
    ['3.5.35-3.6.16', '3.4.30', /left one at a time/],
    ['3.5.35-3.6.16', '3.7.3', /one at a time; set version to 3\.6\.x first/],
    ['3.5.20-3.5.35', '3.6.16', /entered from 3\.5\.24 or later/],
    ['3.6.16', '4.0.0', /no way from one major version to another/],
  ] as const) {
    test(`refuses ${running} to ${wanted} and says what to do`, () =>
      assert.match(upgradeRefusal(running, wanted) ?? '', why));
  }
});

describe('the data has to be written back', () => {
  test('when every member runs a higher minor', () => assert.ok(needsDowngrade('3.6.8-3.6.16', '3.5.35')));

  test('not once one runs the wanted minor: it never left it, or could not run it otherwise', () =>
    assert.ok(!needsDowngrade('3.5.35-3.6.16', '3.5.35')));

  test('not for a patch, a minor upwards, or before anything runs', () => {
    assert.ok(!needsDowngrade('3.6.16', '3.6.8'));
    assert.ok(!needsDowngrade('3.5.35', '3.6.16'));
    assert.ok(!needsDowngrade(undefined, '3.5.35'));
  });
});
