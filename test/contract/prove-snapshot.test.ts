/** The commands of a proof's Pod, as they stand in it, on snapshots of real etcd. */
import assert from 'node:assert/strict';
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, describe, test } from 'node:test';
import type { Container } from 'kubernetes-types/core/v1.js';
import { createMemberClient } from '../../runtime/adapters/etcd/member-client.ts';
import { createFileStore } from '../../runtime/adapters/files/file-store.ts';
import { fetchProof } from '../../runtime/agent/prove-snapshot.ts';
import { takeSnapshot } from '../../runtime/agent/take-snapshot.ts';
import { manifestKey, type SnapshotManifest } from '../../runtime/core/snapshots/manifest.ts';
import { COMPARE, type ProofOrder, proofJob, RESTORE, SERVE } from '../../runtime/core/snapshots/proof-job.ts';
import type { ProofReport } from '../../runtime/core/snapshots/proof-plan.ts';
import { memberEtcdVersions } from '../cluster/versions.ts';
import { etcdBinary, freePorts } from './etcd-process.ts';
import { realEtcd } from './etcd-real.ts';

const root = join(import.meta.dirname, '../..');
const folder = await mkdtemp(join(tmpdir(), 'prove-snapshot-'));
after(() => rm(folder, { recursive: true, force: true }));
const store = createFileStore({ root: folder, name: 'backups' });

const run = (program: string, words: readonly string[], env: Record<string, string>): Promise<number> =>
  new Promise((done) => {
    execFile(program, [...words], { env, timeout: 60_000 }, (error) =>
      done(error === null ? 0 : typeof error.code === 'number' ? error.code : -1),
    );
  });

/** What the kubelet would do with the Pod once its volume is there: its mounts are folders, its network is loopback. */
const proven = async (key: string, manifest: SnapshotManifest): Promise<ProofReport | { readonly restore: number }> => {
  const work = await mkdtemp(join(folder, 'work-'));
  const order: ProofOrder = {
    source: { pvc: { claimName: 'backups', subPath: key } },
    snapshotUID: manifest.snapshotUID,
    sha256: manifest.sha256,
  };
  try {
    await fetchProof(order, store, work);
  } catch (error) {
    return { done: false, reason: (error as Error).name, message: (error as Error).message };
  }
  const { etcdVersion } = manifest;
  const job = proofJob({
    namespace: 'shop',
    name: 'first',
    uid: manifest.snapshotUID,
    cluster: 'orders',
    request: 'now',
    ...order,
    sizeBytes: BigInt(manifest.sizeBytes),
    etcdVersion,
    placement: { inMemory: true },
    agentImage: 'agent',
  });
  const [client, peer] = await freePorts(2);
  const programs = dirname(await etcdBinary(etcdVersion));
  const here = (text: string): string =>
    text
      .replaceAll('/proof/work', work)
      .replaceAll(':2379', `:${client}`)
      .replaceAll(':2380', `:${peer}`)
      .replace('/usr/local/bin/etcd', join(programs, 'etcd'))
      .replace('/usr/local/bin/node', process.execPath)
      .replace('/opt/etcd-operator/lib/agent.mjs', join(root, 'runtime/agent/main.ts'));
  const { initContainers = [], containers = [] } = job.spec?.template.spec ?? {};
  const wordsOf = (name: string): string[] =>
    ([...initContainers, ...containers].find((one: Container) => one.name === name)?.command ?? []).map(here);

  const [etcdutl = '', ...restore] = wordsOf(RESTORE);
  const restored = await run(etcdutl, restore, {});
  if (restored !== 0) return { restore: restored };
  const [etcd = '', ...serve] = wordsOf(SERVE);
  const sidecar: ChildProcess = spawn(etcd, serve, { stdio: 'ignore', env: {} });
  await once(sidecar, 'spawn');
  const report = join(work, 'termination-log');
  try {
    const [node = '', ...compare] = wordsOf(COMPARE);
    await run(node, compare, {
      PATH: process.env.PATH ?? '',
      ETCD_OPERATOR_TERMINATION_LOG: report,
    });
  } finally {
    sidecar.kill('SIGTERM');
    await (sidecar.exitCode ?? once(sidecar, 'close'));
  }
  return JSON.parse(await readFile(report, 'utf8')) as ProofReport;
};

for (const version of memberEtcdVersions) {
  describe(`a snapshot of etcd ${version}, when it is proven`, () => {
    test('passes by all that its manifest says, and fails by each of it that is not so', async () => {
      await using lab = await realEtcd(version).open();
      const place = await lab.place('m0');
      await lab.run(place, { initialCluster: [place], state: 'new', token: 't' });
      const client = lab.clients.at({ url: place.clientURL });
      while ((await client.status().catch(() => undefined))?.leaderId === undefined);
      for (let key = 0; key < 30; key += 1) await client.put(`key-${key}`, 'x'.repeat(1_000));
      await client.delete('key-7');
      await client.compact((await client.status()).revision - 3n);
      const { clusterId } = await client.status();
      const taken = (uid: string, password?: string) =>
        takeSnapshot(
          {
            snapshot: { name: `s-${uid}`, uid },
            cluster: { namespace: 'shop', name: 'orders', uid: 'c1', clusterID: clusterId },
            members: [{ member: 'orders-0', url: place.clientURL }],
            prefix: version,
          },
          {
            store,
            etcd: lab.clients,
            endpoint: (url) => ({ url, ...(password === undefined ? {} : { auth: { username: 'root', password } }) }),
            now: () => new Date(),
          },
        );

      const { key, manifest } = await taken('11111111');
      const passed = await proven(key, manifest);
      assert.ok('done' in passed && passed.done, JSON.stringify(passed));
      assert.deepEqual(passed.compared, ['sha256', 'revision', 'keys', 'hashKv']);
      assert.deepEqual([passed.keys, passed.hash, passed.etcdVersion], ['29', manifest.hashKv?.hash, version]);

      // The manifest is what the data is measured by: one that says anything else is not met.
      const rewritten = async (change: Partial<SnapshotManifest>): Promise<unknown> => {
        await writeFile(join(folder, manifestKey(key)), JSON.stringify({ ...manifest, ...change }));
        const report = await proven(key, manifest);
        return 'done' in report && !report.done ? report.reason : report;
      };
      assert.equal(await rewritten({ keys: '30' }), 'Different');
      assert.equal(
        await rewritten({ hashKv: { hash: 1, compactRevision: manifest.hashKv?.compactRevision ?? '' } }),
        'Different',
      );
      assert.equal(await rewritten({ revision: '4000' }), 'Different');
      assert.equal(await rewritten({ snapshotUID: 'another' }), 'SnapshotDamaged');
      const { keys: _, hashKv: __, ...older } = manifest;
      await writeFile(join(folder, manifestKey(key)), JSON.stringify(older));
      const less = await proven(key, manifest);
      assert.ok('done' in less && less.done, JSON.stringify(less));
      assert.deepEqual(less.compared, ['sha256', 'revision'], 'an older manifest promises less');
      await writeFile(join(folder, manifestKey(key)), JSON.stringify(manifest));

      const bytes = await readFile(join(folder, key));
      const at = Math.floor(bytes.length / 2);
      bytes[at] = (bytes[at] ?? 0) ^ 4;
      await writeFile(join(folder, key), bytes);
      const flipped = await proven(key, manifest);
      assert.ok('done' in flipped && !flipped.done);
      assert.equal(flipped.reason, 'SnapshotDamaged');
      assert.ok(flipped.message.includes(store.uri(key)), flipped.message);
      await rm(join(folder, manifestKey(key)));
      assert.equal(((await proven(key, manifest)) as { reason?: string }).reason, 'NotFound');
    });

    test('needs no password of the cluster, which may have changed since', async () => {
      await using lab = await realEtcd(version).open();
      const place = await lab.place('m0');
      await lab.run(place, { initialCluster: [place], state: 'new', token: 't' });
      const open = lab.clients.at({ url: place.clientURL });
      while ((await open.status().catch(() => undefined))?.leaderId === undefined);
      await open.put('secret', 'x');
      const { clusterId } = await open.status();
      await open.userAdd('root', 'correct');
      await open.roleAdd('root');
      await open.userGrantRole('root', 'root');
      await open.authEnable();
      const { key, manifest } = await takeSnapshot(
        {
          snapshot: { name: 'auth', uid: '22222222' },
          cluster: { namespace: 'shop', name: 'orders', uid: 'c1', clusterID: clusterId },
          members: [{ member: 'orders-0', url: place.clientURL }],
          prefix: `auth-${version}`,
        },
        {
          store,
          etcd: lab.clients,
          endpoint: (url) => ({ url, auth: { username: 'root', password: 'correct' } }),
          now: () => new Date(),
        },
      );
      const report = await proven(key, manifest);
      assert.ok('done' in report && report.done, JSON.stringify(report));
      assert.deepEqual(report.compared, ['sha256', 'revision', 'keys', 'hashKv']);
      const forged = createMemberClient({ url: place.clientURL, token: 'a.b.c' });
      await assert.rejects(forged.status(), /InvalidAuth|AuthRequired/, 'a token of its own opens no cluster');
      forged.close();
    });
  });
}
