/**
 * The seeding Pod's commands, run as they stand in the Pod on real etcd: what a survivor had is there afterwards, under a
 * new identity and at a revision that nobody has seen.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, readdir, readFile, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import type { Container } from 'kubernetes-types/core/v1.js';
import { CONTAINER, DATA_MOUNT, incarnationName } from '../../api/names.ts';
import { createEtcdClients } from '../../runtime/adapters/etcd/clients.ts';
import { etcdConfigFile } from '../../runtime/core/etcd-config.ts';
import { AGENT, REVISION_BUMP, seedPod, seedReport } from '../../runtime/core/seeding.ts';
import { EtcdFault } from '../../runtime/ports/etcd.ts';
import { EtcdWorkbench, etcdBinary, freePorts } from './etcd-process.ts';
import { configOf } from './etcd-real.ts';

const VERSIONS = ['3.5.35', '3.6.16'] as const;
const root = join(import.meta.dirname, '../..');

/** Names and sizes of everything below a folder, with a digest of each file. */
const inventory = async (folder: string): Promise<string[]> => {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  return Promise.all(
    files.sort().map(async (file) => {
      const { mtimeMs } = await stat(file);
      return `${file} ${mtimeMs} ${createHash('sha256')
        .update(await readFile(file))
        .digest('hex')}`;
    }),
  );
};

for (const version of VERSIONS) {
  test(`etcd ${version}: a new member is made from one survivor of three, with all that it had`, async () => {
    await using bench = await EtcdWorkbench.open();
    const clients = createEtcdClients();
    const ports = await freePorts(14);
    const place = (name: string, at: number) => ({
      name,
      peerURL: `http://127.0.0.1:${ports[at]}`,
      clientURL: `http://127.0.0.1:${ports[at + 1]}`,
      metricsURL: `http://127.0.0.1:${ports[at + 2]}`,
    });
    const survivor = incarnationName('demo-2', 'ccccc');
    const old = [place('demo-0-aaaaa', 0), place('demo-1-bbbbb', 3), place(survivor, 6)];
    const initialCluster = old.map(({ name, peerURL }) => ({ name, peerURL }));
    const running = await Promise.all(
      old.map((one) =>
        bench.start(
          version,
          one.name,
          etcdConfigFile(
            configOf(version, one, bench.path('old', one.name), { initialCluster, state: 'new', token: 'lost' }),
          ),
        ),
      ),
    );
    const of = (at: number) => clients.at({ url: old[at]?.clientURL ?? '' });
    await running[2]?.saw(/ready to serve client requests|serving client traffic/);
    let last = 0n;
    for (let i = 0; i < 50; i += 1) last = await of(i % 3).put(`key-${i}`, `value-${i}`);
    const before = await of(2).status();
    // A read that a quorum confirms: so far has the survivor come, whatever it would answer by itself.
    assert.equal((await of(2).get('key-49'))?.modRevision, last);
    await Promise.all([running[0]?.stop('SIGKILL'), running[1]?.stop('SIGKILL')]);
    await running[2]?.stop();
    const untouched = await inventory(bench.path('old', survivor));

    // What the kubelet would do with the Pod, on this machine: its mounts are folders, its network is loopback.
    const member = incarnationName('demo-2', 'ddddd');
    const mount = bench.path('new');
    await mkdir(mount);
    const pod = seedPod({
      namespace: 'team-a',
      member: 'demo-2',
      token: 'ddddd',
      clusterToken: 'recovered',
      source: { from: 'survivor', volume: survivor, clusterID: before.clusterId },
      bump: REVISION_BUMP,
      credentials: undefined,
      agentImage: 'agent',
      clusterUID: undefined,
      spec: {
        clusterName: 'demo',
        version,
        storage: { medium: '', retention: 'Delete' },
        template: { metadata: {}, spec: { containers: [{ name: CONTAINER, image: 'etcd' }] } },
      },
    });
    const programs = dirname(await etcdBinary(version));
    const here = (text: string): string =>
      text
        .replace(`${DATA_MOUNT}/`, `${mount}/`)
        .replace('/source/', `${bench.path('old')}/`)
        .replace('127.0.0.1:2379', `127.0.0.1:${ports[9]}`)
        .replaceAll('127.0.0.1:2380', `127.0.0.1:${ports[10]}`);
    const command = ({ command: words = [] }: Container): [string, string[]] => {
      const [program = '', ...rest] = words.map(here);
      return program === AGENT[0]
        ? [process.execPath, [join(root, 'runtime/agent/main.ts'), ...rest.slice(AGENT.length - 1)]]
        : [join(programs, program.replace('/usr/local/bin/', '')), rest];
    };
    const message = bench.path('termination-log');
    const sidecars: ChildProcess[] = [];
    try {
      for (const container of [...(pod.spec?.initContainers ?? []), ...(pod.spec?.containers ?? [])]) {
        const [program, words] = command(container);
        if (container.restartPolicy === 'Always') {
          const child = spawn(program, words, { stdio: 'ignore', env: {} });
          await once(child, 'spawn');
          sidecars.push(child);
        } else {
          const told = container.name === 'report' ? ['--message', message] : [];
          await promisify(execFile)(program, [...words, ...told], { env: { PATH: process.env.PATH } });
        }
      }
    } finally {
      for (const child of sidecars) child.kill('SIGTERM');
      await Promise.all(sidecars.map((child) => child.exitCode ?? once(child, 'close')));
    }

    assert.deepEqual(await inventory(bench.path('old', survivor)), untouched, "the survivor's volume is as it was");
    const report = seedReport(await readFile(message, 'utf8'));
    assert.ok(report, 'the agent reports what it has done');
    assert.equal(report.revision, last);
    const snapshot = await readFile(join(mount, 'recovery/snapshot.db'));
    assert.equal(createHash('sha256').update(snapshot).digest('hex'), report.sha256);
    assert.deepEqual(await readdir(join(mount, 'recovery')), ['saved.json', 'snapshot.db'], 'the copy is gone');

    const fresh = { ...place(member, 11), name: member };
    const locked = {
      initialCluster: [{ name: member, peerURL: fresh.peerURL }],
      state: 'existing',
      token: 'any',
    } as const;
    const started = await bench.start(
      version,
      member,
      etcdConfigFile(configOf(version, fresh, join(mount, member), locked)),
    );
    await started.saw(/ready to serve client requests|serving client traffic/);
    const client = clients.at({ url: fresh.clientURL });
    const after = await client.status();
    assert.notEqual(after.clusterId, before.clusterId, 'the ID is new, so nobody of the lost cluster can join in');
    assert.ok(after.revision >= last + REVISION_BUMP, `${after.revision} is above all that was ever given`);
    const { members } = await client.memberList({ linearizable: true });
    assert.deepEqual(
      members.map(({ name }) => name),
      [member],
    );
    for (let i = 0; i < 50; i += 1) {
      assert.equal(Buffer.from((await client.get(`key-${i}`))?.value ?? '').toString(), `value-${i}`);
    }
    // As the API server's watches find out that they have missed something.
    await assert.rejects(client.hashKv(last), (error) => error instanceof EtcdFault && error.reason === 'Compacted');
    clients.close();
  });
}
