/**
 * What real etcd makes of the files that we generate. It ignores a key it does not know, so a key counts as known only
 * if a value of the wrong type in it stops the server and is named in the refusal.
 */

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { parse, stringify } from 'yaml';
import { createEtcdClients } from '../../runtime/adapters/etcd/clients.ts';
import { createEtcdHealthProbe } from '../../runtime/adapters/etcd/health-probe.ts';
import {
  type EtcdConfig,
  etcdConfigFile,
  etcdMinor,
  everyAddress,
  lockedConfig,
} from '../../runtime/core/etcd-config.ts';
import { memberEtcdVersions } from '../cluster/versions.ts';
import { EtcdWorkbench, freePorts } from './etcd-process.ts';

type Keys = Record<string, unknown>;

/** Something that no key of that kind takes: text and lists get a map, everything else gets text. */
const wrong = (value: unknown): unknown =>
  typeof value === 'string' || Array.isArray(value) ? { no: 'thing' } : 'no such thing';

const full = async (version: string, dataDir: string): Promise<EtcdConfig & { metricsURL: string }> => {
  const minor = etcdMinor(version);
  assert.ok(minor !== undefined);
  const [peer = 0, client = 0, metrics = 0] = await freePorts(3);
  const peerURL = `http://127.0.0.1:${peer}`;
  return {
    minor,
    name: 'blue-0-a',
    dataDir,
    peerURL,
    clientURL: `http://127.0.0.1:${client}`,
    metricsURL: `http://127.0.0.1:${metrics}`,
    listen: { peer: everyAddress(peer), client: everyAddress(client), metrics: everyAddress(metrics) },
    initialCluster: [{ name: 'blue-0-a', peerURL }],
    initialClusterState: 'new',
    initialClusterToken: 'uid-1',
    options: {
      quotaBackendBytes: 5_368_709_120,
      autoCompactionMode: 'periodic',
      autoCompactionRetention: '90m',
      snapshotCount: 4_321,
    },
  };
};

for (const version of memberEtcdVersions) {
  describe(`etcd ${version}`, () => {
    test('knows every key that is written, those of the TLS sections too', async () => {
      await using bench = await EtcdWorkbench.open();
      const files = { certFile: '/c/tls.crt', keyFile: '/c/tls.key', trustedCAFile: '/c/ca.crt', clientCertAuth: true };
      const config = await full(version, bench.path('data'));
      const every = parse(
        etcdConfigFile({ ...config, clientTls: files, peerTls: files, forceNewCluster: true }),
      ) as Keys;

      const broken: [string, Keys][] = [];
      for (const [key, value] of Object.entries(every)) {
        broken.push([key, { ...every, [key]: wrong(value) }]);
        if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
          for (const [inner, innerValue] of Object.entries(value)) {
            broken.push([inner, { ...every, [key]: { ...value, [inner]: wrong(innerValue) } }]);
          }
        }
      }
      assert.ok(broken.length > 20);
      for (const [key, file] of broken) {
        const member = await bench.start(version, 'probe', stringify(file));
        const { exitCode } = await member.ended;
        assert.notEqual(exitCode, 0, key);
        assert.match(
          member.output(),
          new RegExp(`cannot unmarshal .*\\b${key} of type`),
          `${version} does not know ${key}`,
        );
      }
    });

    test('ignores a key it does not know, which is why the test above is needed', async () => {
      await using bench = await EtcdWorkbench.open();
      const config = await full(version, bench.path('data'));
      const member = await bench.start(version, 'a', `${etcdConfigFile(config)}no-such-key: {"no": "thing"}\n`);
      await member.saw(/ready to serve client requests/);
      await member.stop();
    });

    test('does what the file says, and listens on both address families', async () => {
      await using bench = await EtcdWorkbench.open();
      const config = await full(version, bench.path('data'));
      const member = await bench.start(version, 'a', etcdConfigFile(config));
      await member.saw(/ready to serve client requests/);
      const started = JSON.parse(await member.saw(/"msg":"starting an etcd server"/)) as Keys;
      const expected: Keys = {
        name: 'blue-0-a',
        'data-dir': bench.path('data'),
        'force-new-cluster': false,
        'initial-advertise-peer-urls': [config.peerURL],
        'advertise-client-urls': [config.clientURL],
        'initial-cluster': `blue-0-a=${config.peerURL}`,
        'initial-cluster-state': 'new',
        'initial-cluster-token': 'uid-1',
        'quota-backend-bytes': 5_368_709_120,
        'auto-compaction-mode': 'periodic',
        'auto-compaction-interval': '1h30m0s',
        'snapshot-count': 4_321,
      };
      for (const [key, value] of Object.entries(expected)) assert.deepEqual(started[key], value, key);
      if (config.minor === '3.5') assert.equal(started['initial-corrupt-check'], true);
      else assert.match(String(started['feature-gates']), /InitialCorruptCheck=true/);

      const clients = createEtcdClients();
      const probe = createEtcdHealthProbe();
      for (const host of ['127.0.0.1', '[::1]']) {
        const at = (url: string) => Object.assign(new URL(url), { hostname: host }).href.replace(/\/$/, '');
        const status = await clients.at({ url: at(config.clientURL) }).status();
        assert.equal(status.version, version);
        assert.equal((await probe.metrics(at(config.metricsURL))).quotaBackendBytes, 5_368_709_120n);
      }
      clients.close();
      await member.stop();

      // Once there is data the check is really made, and the locked file starts on it.
      const again = await bench.start(version, 'a', etcdConfigFile(lockedConfig(config)));
      await again.saw(/starting initial corruption check/);
      await again.saw(/ready to serve client requests/);
      await again.stop();
      const without = await bench.start(
        version,
        'a',
        etcdConfigFile(lockedConfig({ ...config, initialCorruptCheck: false })),
      );
      await without.saw(/ready to serve client requests/);
      assert.doesNotMatch(without.output(), /starting initial corruption check/);
      await without.stop();
    });

    test('leaves its own defaults where nothing was set', async () => {
      await using bench = await EtcdWorkbench.open();
      const { options, ...config } = await full(version, bench.path('data'));
      assert.ok(options !== undefined);
      const member = await bench.start(version, 'a', etcdConfigFile(config));
      const started = JSON.parse(await member.saw(/"msg":"starting an etcd server"/)) as Keys;
      assert.equal(started['quota-backend-bytes'], 2_147_483_648);
      assert.equal(started['auto-compaction-interval'], '0s');
      await member.stop('SIGKILL');
    });

    test('counts revisions where the mode says so', async () => {
      await using bench = await EtcdWorkbench.open();
      const config = await full(version, bench.path('data'));
      const options = { autoCompactionMode: 'revision', autoCompactionRetention: '1000' } as const;
      const member = await bench.start(version, 'a', etcdConfigFile({ ...config, options }));
      const started = JSON.parse(await member.saw(/"msg":"starting an etcd server"/)) as Keys;
      assert.equal(started['auto-compaction-mode'], 'revision');
      assert.equal(started['auto-compaction-interval'], '1µs');
      await member.stop('SIGKILL');
    });
  });
}
