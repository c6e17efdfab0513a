import assert from 'node:assert/strict';
import { test } from 'node:test';
import { labelSelector } from './label-selector.ts';

const labels = { app: 'etcd', 'example.org/cluster': 'a', empty: '' };

for (const [selector, expected] of [
  ['', true],
  [undefined, true],
  ['app', true],
  ['!app', false],
  ['absent', false],
  ['!absent', true],
  ['app=etcd', true],
  ['app==etcd', true],
  ['app=other', false],
  ['app!=other', true],
  ['absent!=other', true],
  ['empty=', true],
  ['app=etcd,example.org/cluster=a', true],
  ['app=etcd,example.org/cluster=b', false],
  ['app in (x, etcd), example.org/cluster', true],
  ['app in (x,y)', false],
  ['absent in (x)', false],
  ['app notin (x,y)', true],
  ['absent notin (x)', true],
  ['app notin (etcd)', false],
] as const) {
  test(`"${selector}" ${expected ? 'matches' : 'does not match'} as on the server`, () => {
    assert.equal(labelSelector(selector)(labels), expected);
  });
}

test('refuses a selector it cannot read, since a guess would hide objects', () => {
  assert.throws(() => labelSelector('app in x'), /label selector: "app in x"/);
});
