/** Hurts real members in every way that a cause of exit is named for, and reads their last words as a Pod's status has them. */

import assert from 'node:assert/strict';
import { open, readdir, rename, rm, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { createEtcdClients } from '../../runtime/adapters/etcd/clients.ts';
import { type EtcdConfig, etcdConfigFile, everyAddress, lockedConfig } from '../../runtime/core/etcd-config.ts';
import { classifyExit, type ExitCause } from '../../runtime/core/exit-causes.ts';
import { memberEtcdVersions } from '../cluster/versions.ts';
import { type Ended, EtcdWorkbench } from './etcd-process.ts';
import { configOf, freePlace } from './etcd-real.ts';

const PATIENCE_MS = 20_000;

const configAt = async (bench: EtcdWorkbench, version: string): Promise<EtcdConfig> => {
  const place = await freePlace('a');
  const start = { initialCluster: [place], state: 'new', token: 'last-words' } as const;
  return configOf(version, place, bench.path('a', 'data'), start);
};

/** As the container's end shows in its Pod: a message only if it failed. */
const classified = ({ exitCode, signal, terminationMessage }: Ended, joining = false) =>
  classifyExit({
    exitCode: exitCode ?? 128 + (signal === 'SIGKILL' ? 9 : signal === 'SIGBUS' ? 7 : 15),
    message: exitCode === 0 ? undefined : terminationMessage,
    joining,
  });

/** A member with some data, stopped. Its raft snapshots are frequent, so the database is ahead of the first log entry. */
const settledMember = async (bench: EtcdWorkbench, version: string): Promise<EtcdConfig> => {
  const config: EtcdConfig = { ...(await configAt(bench, version)), options: { snapshotCount: 10 } };
  const member = await bench.start(version, 'a', etcdConfigFile(config));
  await member.saw(/ready to serve client requests/);
  const clients = createEtcdClients();
  const client = clients.at({ url: config.clientURL });
  for (let i = 0; i < 40; i += 1) await client.put(`key-${i}`, Buffer.alloc(50_000, 65));
  clients.close();
  await member.stop();
  return config;
};

const firstWal = async (data: string): Promise<string> => {
  const [first] = (await readdir(join(data, 'member', 'wal'))).filter((name) => name.endsWith('.wal')).toSorted();
  assert.ok(first !== undefined);
  return join(data, 'member', 'wal', first);
};
const scribble = async (file: string, length: number, at: number): Promise<void> => {
  const handle = await open(file, 'r+');
  await handle.write(Buffer.alloc(length, 7), 0, length, at);
  await handle.close();
};

const damages: readonly (readonly [string, ExitCause, (data: string) => Promise<void>])[] = [
  ['its whole volume emptied', 'WipedOrWalGone', (data) => rm(data, { recursive: true })],
  ['its write-ahead log gone', 'WipedOrWalGone', (data) => rm(join(data, 'member', 'wal'), { recursive: true })],
  ['a few bytes of its log turned over', 'WalCorrupt', async (data) => scribble(await firstWal(data), 8, 2_000)],
  [
    'the beginning of its log and its snapshots gone',
    'SnapshotMissing',
    async (data) => {
      await rename(await firstWal(data), join(data, 'member', 'wal', '0000000000000001-0000000000000020.wal'));
      await rm(join(data, 'member', 'snap'), { recursive: true });
    },
  ],
  ['its database gone', 'BackendMissing', (data) => rm(join(data, 'member', 'snap', 'db'))],
  ['its database emptied', 'BackendMissing', (data) => truncate(join(data, 'member', 'snap', 'db'), 0)],
  [
    'the head of its database overwritten',
    'BackendCorrupt',
    (data) => scribble(join(data, 'member', 'snap', 'db'), 16_384, 0),
  ],
  ['its database cut short', 'SigBus', (data) => truncate(join(data, 'member', 'snap', 'db'), 8_192)],
];

const without = (config: EtcdConfig, key: string): string =>
  etcdConfigFile(config)
    .split('\n')
    .filter((line) => !line.startsWith(`${key}:`))
    .join('\n');

const refusals: readonly (readonly [key: string, value: string, ExitCause, says: RegExp])[] = [
  ['quota-backend-bytes', '"lots"', 'WrongConfig', /quota-backend-bytes of type int64/],
  ['quota-backend-bytes', '99999999999999999999', 'WrongConfig', /quota-backend-bytes/],
  ['snapshot-count', '-5', 'WrongConfig', /number -5 .*snapshot-count/],
  ['auto-compaction-retention', '"soon"', 'WrongConfig', /invalid duration "soon"/],
  ['auto-compaction-retention', '5', 'WrongConfig', /auto-compaction-retention of type string/],
  ['auto-compaction-mode', '"weekly"', 'WrongConfig', /unknown auto-compaction-mode "weekly"/],
  ['log-level', '"loud"', 'WrongConfig', /unrecognized level: "loud"/],
  ['listen-client-urls', '"nonsense"', 'WrongConfig', /URL scheme must be http/],
  ['listen-client-urls', '"http://10.255.255.1:2379"', 'WrongConfig', /cannot assign requested address/],
  ['data-dir', '"/proc/nowhere"', 'DataDirUnusable', /mkdir \/proc\/nowhere/],
  ['initial-cluster', '"b=http://127.0.0.1:1"', 'WrongConfig', /couldn't find local name "a"/],
];

for (const version of memberEtcdVersions) {
  describe(`the last words of etcd ${version}`, () => {
    for (const [what, cause, hurt] of damages) {
      test(`tell ${cause} after a restart with ${what}`, async () => {
        await using bench = await EtcdWorkbench.open();
        const config = await settledMember(bench, version);
        await hurt(config.dataDir);
        const member = await bench.start(version, 'a', etcdConfigFile(lockedConfig(config)));
        const ended = await Promise.race([member.ended, delay(PATIENCE_MS, undefined, { ref: false })]);
        assert.ok(ended !== undefined, `it runs:\n${member.output().slice(-2_000)}`);
        const { reason } = classified(ended);
        assert.equal(reason, cause, ended.terminationMessage);
      });
    }

    for (const [key, value, cause, says] of refusals) {
      test(`tell ${cause} and etcd's own words for ${key}: ${value}`, async () => {
        await using bench = await EtcdWorkbench.open();
        const config = await configAt(bench, version);
        const member = await bench.start(version, 'a', `${without(config, key)}${key}: ${value}\n`);
        const ended = await member.ended;
        const { reason, message } = classified(ended);
        assert.equal(reason, cause, ended.terminationMessage);
        assert.match(message, says);
      });
    }

    test('tell TlsFilesMissing where a certificate is not there', async () => {
      await using bench = await EtcdWorkbench.open();
      const config = await configAt(bench, version);
      const client = config.clientURL.replace('http:', 'https:');
      const member = await bench.start(
        version,
        'a',
        etcdConfigFile({
          ...config,
          clientURL: client,
          listen: { ...config.listen, client },
          clientTls: { certFile: '/no/tls.crt', keyFile: '/no/tls.key', clientCertAuth: false },
        }),
      );
      assert.equal(classified(await member.ended).reason, 'TlsFilesMissing');
    });

    test('tell AddressInUse where another process has the port', async () => {
      await using bench = await EtcdWorkbench.open();
      const first = await configAt(bench, version);
      const running = await bench.start(version, 'a', etcdConfigFile(first));
      await running.saw(/ready to serve client requests/);
      const second = { ...(await configAt(bench, version)), dataDir: bench.path('b', 'data') };
      const port = Number(new URL(first.clientURL).port);
      const member = await bench.start(
        version,
        'b',
        etcdConfigFile({ ...second, listen: { ...second.listen, client: everyAddress(port) } }),
      );
      assert.equal(classified(await member.ended).reason, 'AddressInUse');
    });

    test('tell Stopped for SIGTERM and Killed for SIGKILL', async () => {
      await using bench = await EtcdWorkbench.open();
      const config = await configAt(bench, version);
      const member = await bench.start(version, 'a', etcdConfigFile(config));
      await member.saw(/ready to serve client requests/);
      assert.equal(classified(await member.stop('SIGTERM')).reason, 'Stopped');
      const again = await bench.start(version, 'a', etcdConfigFile(lockedConfig(config)));
      await again.saw(/ready to serve client requests/);
      assert.equal(classified(await again.stop('SIGKILL')).reason, 'Killed');
    });
  });
}

describe('the last words of an older minor', () => {
  test('tell VersionTooOld on the data of a newer one', async () => {
    const [older, newer] = memberEtcdVersions;
    await using bench = await EtcdWorkbench.open();
    const config = await configAt(bench, newer);
    const member = await bench.start(newer, 'a', etcdConfigFile(config));
    await member.saw(/updated storage version/);
    await member.stop();
    const back = await bench.start(older, 'a', etcdConfigFile(lockedConfig({ ...config, minor: '3.5' })));
    const ended = await back.ended;
    assert.equal(classified(ended).reason, 'VersionTooOld', ended.terminationMessage);
  });
});
