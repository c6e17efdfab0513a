import assert from 'node:assert/strict';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { cacheFolder } from './cache.ts';

test('the folder that ETCD_OPERATOR_CACHE names wins, because CI keeps only what it was told to keep', () => {
  assert.equal(cacheFolder({ ETCD_OPERATOR_CACHE: '/keep', XDG_CACHE_HOME: '/xdg' }), '/keep/etcd-operator');
});

test('XDG_CACHE_HOME comes next, unless it is relative, which its specification calls invalid', () => {
  assert.equal(cacheFolder({ XDG_CACHE_HOME: '/xdg' }), '/xdg/etcd-operator');
  assert.equal(cacheFolder({ XDG_CACHE_HOME: 'xdg' }), join(homedir(), '.cache/etcd-operator'));
});

test('an empty variable counts as none, because scripts often pass one through', () => {
  assert.equal(cacheFolder({ ETCD_OPERATOR_CACHE: '' }), join(homedir(), '.cache/etcd-operator'));
});
