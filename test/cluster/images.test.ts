import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isOtherArchive } from './images.ts';

test('a new archive replaces older ones of its image only, so the cache neither grows nor loses another version', () => {
  const current = 'etcd-3.6.16-0123456789ab.tar';
  const others = [
    'etcd-3.6.16-ffffffffffff.tar',
    'etcd-3.6.1-ffffffffffff.tar',
    'etcd-3.6.16-rc-ffffffffffff.tar',
    current,
  ];
  assert.deepEqual(
    others.filter((file) => isOtherArchive(file, 'etcd-3.6.16', current)),
    ['etcd-3.6.16-ffffffffffff.tar'],
  );
});
