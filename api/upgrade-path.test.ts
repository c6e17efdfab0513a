import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { upgradeRefusal } from './upgrade-path.ts';

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
  ] as const) {
    test(`goes from ${running ?? 'nothing'} to ${wanted}`, () =>
      assert.equal(upgradeRefusal(running, wanted), undefined));
  }

  for (const [running, wanted, why] of [
    ['3.5.23', '3.6.16', /entered from 3\.5\.24 or later/],
    ['3.5.10', '3.6.0', /entered from 3\.5\.24 or later/],
    ['3.5.35', '3.7.3', /one at a time; set version to 3\.6\.x first/],
    ['3.6.16', '3.5.35', /going back a minor version/],
    ['3.5.35-3.6.16', '3.5.35', /going back a minor version/],
    ['3.5.20-3.5.35', '3.6.16', /entered from 3\.5\.24 or later/],
    ['3.6.16', '4.0.0', /no way from one major version to another/],
  ] as const) {
    test(`refuses ${running} to ${wanted} and says what to do`, () =>
      assert.match(upgradeRefusal(running, wanted) ?? '', why));
  }
});
