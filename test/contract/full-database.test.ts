/** What etcd tells of a database at its quota that was compacted, and what makes it tell the truth. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { Etcd3 } from 'etcd3';
import { createEtcdClients } from '../../runtime/adapters/etcd/clients.ts';
import { createFreePages } from '../../runtime/controllers/free-pages.ts';
import { etcdConfigFile } from '../../runtime/core/etcd-config.ts';
import { known, type SeenPod } from '../../runtime/core/observed.ts';
import { EtcdFault, type EtcdMemberClient } from '../../runtime/ports/etcd.ts';
import { memberEtcdVersions } from '../cluster/versions.ts';
import { EtcdWorkbench } from './etcd-process.ts';
import { configOf, freePlace } from './etcd-real.ts';
import { eventually } from './patience.ts';

const MIB = 1n << 20n;
const QUOTA = 16n * MIB;
/** etcd's own timer commits ten times a second. */
const SETTLED_MS = 1_500;
/** Whether the last pages are counted by luck, because the timer fires in the middle of the compaction, differs from run to run. */
const ROUNDS = 6;

/** Puts one key again and again until etcd refuses. */
const fill = async (client: EtcdMemberClient): Promise<void> => {
  for (let i = 0; i < 200; i += 1) {
    try {
      await client.put('same', Buffer.alloc(400_000, i));
    } catch (fault) {
      if (!(fault instanceof EtcdFault) || fault.reason !== 'NoSpace') throw fault;
      return;
    }
  }
  assert.fail('the quota was never reached');
};

for (const version of memberEtcdVersions) {
  describe(`a full database of etcd ${version}`, { concurrency: 1 }, () => {
    const clients = createEtcdClients();
    let bench: EtcdWorkbench;
    let client: EtcdMemberClient;
    let admin: Etcd3;

    before(async () => {
      bench = await EtcdWorkbench.open();
      const place = await freePlace('full');
      const config = configOf(version, place, bench.path('full', 'data'), {
        state: 'new',
        token: 'full',
        initialCluster: [place],
      });
      await bench.start(
        version,
        'full',
        etcdConfigFile({ ...config, options: { ...config.options, quotaBackendBytes: Number(QUOTA) } }),
      );
      client = clients.at({ url: place.clientURL });
      admin = new Etcd3({ hosts: place.clientURL });
      await eventually(() => client.put('first', '1'));
    });
    after(async () => {
      admin.close();
      clients.close();
      await bench[Symbol.asyncDispose]();
    });

    const inUse = async (): Promise<bigint> => (await client.status()).dbSizeInUse;

    /** Gives everything back, and takes writes again. */
    const empty = async (): Promise<void> => {
      await client.defragment();
      const { memberId, dbSize } = await client.status();
      assert.ok(dbSize < MIB, `${dbSize} bytes after a defragmentation`);
      await client.disarm({ memberId, alarm: 'NOSPACE' });
    };

    /** A compaction nobody waits for, as etcd's own are, of a database that is full of history. */
    const fillAndCompact = async (): Promise<void> => {
      await fill(client);
      const { revision } = await client.status();
      await admin.kv.compact({ revision: revision.toString(), physical: false });
      await delay(SETTLED_MS);
    };

    test('does not count what a compaction freed, whoever reads, until a snapshot is begun', async (t) => {
      let rounds = 1;
      await fillAndCompact();
      while ((await inUse()) <= QUOTA / 2n) {
        assert.ok(rounds < ROUNDS, 'the pages were counted every time: there may be nothing left to work around');
        rounds += 1;
        await empty();
        await fillAndCompact();
      }
      t.diagnostic(`not counted in round ${rounds}`);
      const said = await inUse();
      await client.get('same');
      await client.get('same', { serializable: true });
      await client.hashKv(0n);
      await delay(SETTLED_MS);
      assert.equal(await inUse(), said, 'reads and time change nothing');

      const pod = { etcd: known(await client.status()) } as unknown as SeenPod;
      const [seen] = await createFreePages(() => 0)('full', [pod], () => client, AbortSignal.timeout(20_000));
      assert.ok(seen?.etcd.known === true);
      assert.ok(seen.etcd.value.dbSizeInUse < MIB, `${seen.etcd.value.dbSizeInUse} bytes in use`);
      assert.ok(seen.etcd.value.dbSize >= said, 'the file stays as large as it was');
    });

    test('is defragmented at once after that, although a snapshot holds its file open, and takes writes again', async () => {
      await empty();
      await eventually(() => client.put('after', '1'));
      assert.deepEqual(await client.alarms(), []);
    });

    test('takes deletions, and counts what is freed by a compaction that somebody waits for', async () => {
      await fill(client);
      await client.delete('same');
      const { revision } = await client.status();
      await client.compact(revision);
      assert.ok((await inUse()) < MIB, 'a compaction that is waited for commits by itself');
      await empty();
      await eventually(() => client.put('after', '2'));
    });
  });
}
