import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { EtcdFault, type EtcdFaultReason, type EtcdMemberClient } from '../ports/etcd.ts';
import type { Fetched } from './fetch-snapshot.ts';
import { checkOpened } from './opened-data.ts';

const promised: Fetched = {
  revision: '40',
  version: '3.6.16',
  clusterID: 'c1',
  takenAt: undefined,
  sha256: 'a'.repeat(64),
  snapshotBytes: 1,
  hashKv: { hash: 7, compactRevision: '3' },
};

const refuse = (reason: EtcdFaultReason): Promise<never> =>
  Promise.reject(
    new EtcdFault({ reason, operation: 'get', url: 'http://opened', detail: reason, mayHaveHappened: false }),
  );

type Finds = {
  revision?: bigint;
  version?: string;
  hash?: number;
  compactRevision?: bigint;
  refuses?: EtcdFaultReason;
};

const etcd = ({ revision = 41n, version = '3.6.16', hash = 7, compactRevision = 3n, refuses }: Finds = {}) =>
  ({
    get: () => (refuses === undefined ? Promise.resolve(undefined) : refuse(refuses)),
    status: () => Promise.resolve({ revision, version }),
    countKeys: () => Promise.resolve(5n),
    hashKv: (of: bigint) => Promise.resolve({ hash, compactRevision, hashRevision: of }),
  }) as unknown as EtcdMemberClient;

const check = (client: EtcdMemberClient, roots: readonly EtcdMemberClient[] = [], of: Partial<Fetched> = {}) =>
  checkOpened({ ...promised, ...of }, { client, roots, withinMs: 0 });

describe('data that etcd has opened', () => {
  test('is what its manifest promises, with what was written while it was taken', async () => {
    assert.deepEqual(await check(etcd()), { revision: '41', keys: '5', hash: '7 at revision 40' });
  });

  test('that ends before the manifest does, or hashes to something else, is damaged', async () => {
    await assert.rejects(check(etcd({ revision: 39n })), /SnapshotDamaged: .*revision 39, its manifest promises 40/);
    await assert.rejects(check(etcd({ hash: 8 })), /SnapshotDamaged: .*hash 8 at revision 40, its manifest promises 7/);
  });

  test('is not compared by a hash over another history, of another minor version, or where there is none', async () => {
    const unlike = { hash: 8 };
    assert.equal((await check(etcd({ ...unlike, compactRevision: 9n }))).hash, undefined);
    assert.equal((await check(etcd(unlike), [], { version: '3.5.35' })).hash, undefined);
    const { hashKv: _, ...without } = promised;
    assert.deepEqual(await checkOpened(without, { client: etcd(unlike), roots: [] }), {
      revision: '41',
      keys: '5',
    });
  });

  test('is read as root where it asks for a password, and refused where nobody could log in after it', async () => {
    const locked = etcd({ refuses: 'AuthRequired' });
    const rejected = etcd({ refuses: 'InvalidAuth' });
    assert.equal((await check(locked, [etcd()])).keys, '5');
    assert.equal((await check(locked, [rejected, etcd()])).keys, '5', 'by a password that root had before');
    await assert.rejects(check(locked), /^Unrestorable: AuthRequiredNotConfigured: /);
    await assert.rejects(check(locked, [rejected, rejected]), /^Unrestorable: AuthCredentialsRejected: /);
  });

  test('that etcd does not start on is refused in the end, with what etcd says', async () => {
    await assert.rejects(check(etcd({ refuses: 'Unreachable' })), /^Unrestorable: SnapshotNotOpened: .*Unreachable/);
  });
});
