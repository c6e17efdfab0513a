/** A snapshot of a real etcd, and what etcd's own tool says of it. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { createFileStore } from '../../runtime/adapters/files/file-store.ts';
import { snapshotKey } from '../../runtime/agent/snapshot-keys.ts';
import { readManifest, takeSnapshot } from '../../runtime/agent/take-snapshot.ts';
import { manifestKey } from '../../runtime/core/snapshots/manifest.ts';
import { StoreFault } from '../../runtime/ports/snapshot-store.ts';
import { ensureEtcd } from '../cluster/builds.ts';
import { memberEtcdVersions } from '../cluster/versions.ts';
import { realEtcd } from './etcd-real.ts';

const run = promisify(execFile);
const folder = await mkdtemp(join(tmpdir(), 'take-snapshot-'));
after(() => rm(folder, { recursive: true, force: true }));

for (const version of memberEtcdVersions) {
  describe(`a snapshot of etcd ${version}`, () => {
    test('holds every key, says so in its manifest, and is restorable by the plain tool', async () => {
      await using lab = await realEtcd(version).open();
      {
        const place = await lab.place('m0');
        await lab.run(place, { initialCluster: [place], state: 'new', token: 't' });
        const client = lab.clients.at({ url: place.clientURL });
        while ((await client.status().catch(() => undefined))?.leaderId === undefined);
        for (let key = 0; key < 50; key += 1) await client.put(`key-${key}`, 'x'.repeat(2_000));
        const status = await client.status();
        const root = join(folder, version);
        await run('mkdir', ['-p', root]);
        const store = createFileStore({ root, name: 'backups' });
        const order = {
          snapshot: { name: 'first', uid: '11111111-aaaa' },
          cluster: { namespace: 'shop', name: 'orders', uid: 'c1', clusterID: status.clusterId },
          members: [{ member: 'orders-0', url: place.clientURL }],
        };
        const tools = { store, etcd: lab.clients, endpoint: (url: string) => ({ url }), now: () => new Date() };
        const { key, manifest, uri } = await takeSnapshot(order, tools);
        assert.equal(uri, `pvc://backups/${key}`);
        assert.equal(manifest.revision, String(status.revision));
        assert.equal(manifest.etcdVersion, version);
        assert.equal(manifest.keys, '50');
        assert.deepEqual(await readManifest(store, key), manifest);

        const etcdutl = join(dirname(await ensureEtcd(version, () => undefined)), 'etcdutl');
        const { stdout } = await run(etcdutl, ['snapshot', 'status', join(root, key), '-w', 'json']);
        const told = JSON.parse(stdout) as { revision: number; totalKey: number };
        assert.ok(told.revision >= Number(status.revision), stdout);
        await run(etcdutl, ['snapshot', 'restore', join(root, key), '--data-dir', join(root, 'restored')]);

        const [before, again] = [await readFile(join(root, key)), await takeSnapshot(order, tools)];
        assert.deepEqual(again.manifest, manifest, 'a second try reports the first');
        assert.ok(before.equals(await readFile(join(root, key))), 'and writes nothing');

        await rm(join(root, manifestKey(key)));
        await takeSnapshot(order, tools);
        assert.ok((await store.find(manifestKey(key))) !== undefined, 'without a manifest it is taken anew');

        await assert.rejects(
          takeSnapshot({ ...order, snapshot: { name: 'first', uid: '11111111-bbbb' } }, tools),
          (error) => error instanceof StoreFault && error.reason === 'TakenByOther',
          'another snapshot never overwrites this one',
        );
        // Encrypted: nothing of it can be read where it lies, and our own command makes the plain file of it again.
        const text = randomBytes(32).toString('base64');
        const keys = join(root, 'keys');
        await mkdir(keys);
        await writeFile(join(keys, 'key'), text);
        const secret = await takeSnapshot(
          { ...order, snapshot: { name: 'secret', uid: '2222' } },
          { ...tools, key: snapshotKey('key', text) },
        );
        const lying = await readFile(join(root, secret.key));
        assert.deepEqual(
          [String(lying.length), createHash('sha256').update(lying).digest('hex'), lying.indexOf('key-1')],
          [secret.manifest.sizeBytes, secret.manifest.sha256, -1],
        );
        assert.ok(before.indexOf('key-1') > 0);
        assert.equal(secret.manifest.encryption?.keyID, snapshotKey('key', text).id);
        const plain = join(root, 'plain.db');
        const agent = join(import.meta.dirname, '../../runtime/agent/main.ts');
        await run(process.execPath, [
          agent,
          'decrypt',
          '--keys',
          keys,
          '--from',
          join(root, secret.key),
          '--to',
          plain,
        ]);
        await run(etcdutl, ['snapshot', 'restore', plain, '--data-dir', join(root, 'restored-plain')]);

        const foreign = {
          ...order,
          snapshot: { name: 'other', uid: '2' },
          cluster: { ...order.cluster, clusterID: 'abc' },
        };
        await assert.rejects(takeSnapshot(foreign, tools), /it serves cluster/, 'data of another cluster is not taken');
      }
    });
  });
}
