import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { EtcdFault, type EtcdMemberClient } from '../ports/etcd.ts';
import { type Comparison, compareData, type Promised } from './compared-data.ts';

const promised: Promised = {
  revision: 40n,
  keys: '5',
  hashKv: { hash: 7, compactRevision: '3' },
  etcdVersion: '3.6.16',
};

const compacted = (): Promise<never> =>
  Promise.reject(
    new EtcdFault({
      reason: 'Compacted',
      operation: 'countKeys',
      url: 'http://opened',
      detail: 'compacted',
      mayHaveHappened: false,
    }),
  );

const compared = (change: Partial<EtcdMemberClient> = {}, of: Partial<Promised> = {}): Promise<Comparison> =>
  compareData({ ...promised, ...of }, { revision: 41n, version: '3.6.17' }, {
    countKeys: () => Promise.resolve(5n),
    hashKv: () => Promise.resolve({ hash: 7, compactRevision: 3n, hashRevision: 40n }),
    ...change,
  } as EtcdMemberClient);

describe('data that is compared with its manifest', () => {
  test('is equal in all that the manifest promises', async () => {
    assert.deepEqual(await compared(), { keys: '5', hash: 7, equal: ['revision', 'keys', 'hashKv'] });
  });

  test('differs by a single key, whatever else there is', async () => {
    const { difference, equal } = await compared({ countKeys: () => Promise.resolve(4n) });
    assert.deepEqual(difference, { what: 'keys', found: '4', promised: '5' });
    assert.deepEqual(equal, ['revision']);
  });

  test('is not found to differ by what a compaction took away between the note and the stream', async () => {
    const { difference, equal, remark } = await compared({ countKeys: compacted, hashKv: compacted });
    assert.deepEqual([difference, equal], [undefined, ['revision']]);
    assert.match(remark ?? '', /compacted while it was taken/);
  });

  test('is measured by what there is in an older manifest, and the rest is remarked', async () => {
    const { difference, equal, remark } = await compared({}, { keys: undefined, hashKv: undefined });
    assert.deepEqual([difference, equal], [undefined, ['revision']]);
    assert.match(remark ?? '', /no hash/);
  });

  test('is scanned for as long as a large database takes', async () => {
    const deadlines: (number | undefined)[] = [];
    await compared({
      countKeys: (_, call) => {
        deadlines.push(call?.deadlineMs);
        return Promise.resolve(5n);
      },
      hashKv: (_, call) => {
        deadlines.push(call?.deadlineMs);
        return Promise.resolve({ hash: 7, compactRevision: 3n, hashRevision: 40n });
      },
    });
    assert.deepEqual(deadlines, [600_000, 600_000]);
  });
});
