import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type EtcdConfig, etcdConfigFile, lockedConfig } from '../../runtime/core/etcd-config.ts';
import { EtcdFault, type EtcdFaultReason } from '../../runtime/ports/etcd.ts';
import { createFakeEtcd, type FakeEtcd, type FakeProcess } from './fake-etcd.ts';

const three = (): { fake: FakeEtcd; a: FakeProcess; b: FakeProcess; c: FakeProcess } => {
  const fake = createFakeEtcd();
  const [a, b, c] = fake.bootstrap(3);
  assert.ok(a !== undefined && b !== undefined && c !== undefined);
  return { fake, a, b, c };
};
const client = (fake: FakeEtcd, { clientURL }: { clientURL: string }) => fake.clients.at({ url: clientURL });

const refuses = async (call: Promise<unknown>, reason: EtcdFaultReason): Promise<EtcdFault> => {
  const failure = await call.then(
    () => assert.fail('the call went well'),
    (cause: unknown) => cause,
  );
  assert.ok(failure instanceof EtcdFault, String(failure));
  assert.equal(failure.reason, reason, failure.message);
  return failure;
};

const configOf = (name: string, more: Partial<EtcdConfig> = {}): EtcdConfig => ({
  minor: '3.6',
  name,
  dataDir: `/data/${name}`,
  peerURL: `http://${name}:2380`,
  clientURL: `http://${name}:2379`,
  listen: { peer: 'http://0.0.0.0:2380', client: `http://${name}:2379`, metrics: `http://${name}:2381` },
  initialCluster: [{ name, peerURL: `http://${name}:2380` }],
  initialClusterState: 'new',
  initialClusterToken: 'fake',
  ...more,
});
const start = (fake: FakeEtcd, name: string, config: EtcdConfig, disk = name): FakeProcess =>
  fake.start({ configFile: etcdConfigFile(config), disk, version: '3.6.16' });

describe('the fake etcd', () => {
  test('answers the same to the same moves', async () => {
    const story = async () => {
      const { fake, a, b } = three();
      await client(fake, a).put('k', 'v');
      const gone = (await client(fake, a).status()).memberId;
      fake.kill(a.clientURL);
      await client(fake, b).memberRemove(gone);
      const { memberId } = await client(fake, b).memberAddLearner(['http://m3:2380']);
      return {
        memberId,
        status: await client(fake, b).status(),
        list: await client(fake, b).memberList({ linearizable: true }),
      };
    };
    assert.deepEqual(await story(), await story());
  });

  test('loses an answer before or after the request took effect, once and where it was told to', async () => {
    const { fake, a, b } = three();
    fake.failNext({ operation: 'memberAddLearner', reason: 'Unavailable', url: a.clientURL });
    const before = await refuses(client(fake, a).memberAddLearner(['http://m3:2380']), 'Unavailable');
    assert.equal(before.mayHaveHappened, false);
    assert.equal((await client(fake, b).memberList({ linearizable: true })).members.length, 3);

    fake.failNext({ operation: 'memberAddLearner', reason: 'Timeout', happens: true });
    const after = await refuses(client(fake, b).memberAddLearner(['http://m3:2380']), 'Timeout');
    assert.equal(after.mayHaveHappened, true);
    assert.equal((await client(fake, b).memberList({ linearizable: true })).members.length, 4);
    await refuses(client(fake, b).memberAddLearner(['http://m3:2380']), 'PeerURLExists');
    assert.equal(fake.calls.filter(({ operation }) => operation === 'memberAddLearner').length, 3);
  });

  test('lets the greater side of a partition go on and the smaller one know only what it knew', async () => {
    const { fake, a, b, c } = three();
    const list = await client(fake, a).memberList({ linearizable: true });
    fake.partition([a.clientURL], [b.clientURL, c.clientURL]);
    await client(fake, b).put('k', 'v');
    assert.equal((await client(fake, a).status()).leaderId, undefined);
    await refuses(client(fake, a).memberList({ linearizable: true }), 'Timeout');
    assert.deepEqual(await client(fake, a).memberList({ linearizable: false }), list);
    const behind = await client(fake, a).status();
    assert.ok(behind.revision < (await client(fake, b).status()).revision);
    fake.heal();
    assert.equal((await client(fake, a).status()).revision, (await client(fake, b).status()).revision);
    assert.notEqual((await client(fake, a).status()).leaderId, undefined);
  });

  test('never elects a member that lacks what a quorum has', async () => {
    const { fake, a, b, c } = three();
    fake.kill(a.clientURL);
    await client(fake, b).put('k', 'acknowledged');
    fake.kill(b.clientURL);
    start(fake, 'm0', lockedConfig(configOf('m0')));
    assert.equal(Buffer.from((await client(fake, a).get('k'))?.value ?? []).toString(), 'acknowledged');
    assert.equal((await client(fake, a).status()).leaderId, (await client(fake, c).status()).memberId);
  });

  test('holds learners back while told so', async () => {
    const { fake, a } = three();
    const { memberId } = await client(fake, a).memberAddLearner(['http://m3:2380']);
    fake.holdLearners(true);
    const initialCluster = [0, 1, 2, 3].map((i) => ({ name: `m${i}`, peerURL: `http://m${i}:2380` }));
    start(fake, 'm3', configOf('m3', { initialCluster, initialClusterState: 'existing' }));
    await refuses(client(fake, a).memberPromote(memberId), 'LearnerNotReady');
    fake.holdLearners(false);
    await client(fake, a).memberPromote(memberId);
  });

  test('runs a foreign volume under a locked configuration, as real etcd does, with the identities of that volume', async () => {
    const { fake, a } = three();
    const ours = await client(fake, a).status();
    const other = start(fake, 'red', configOf('red', { dataDir: '/data/m0', initialClusterToken: 'other' }));
    await client(fake, other).put('foreign', '1');
    fake.kill(a.clientURL);
    fake.copyDisk('red', 'm0');
    fake.kill(other.clientURL);
    const impostor = start(fake, 'm0', lockedConfig(configOf('m0')));
    const theirs = await client(fake, impostor).status();
    assert.notEqual(theirs.clusterId, ours.clusterId);
    assert.notEqual(theirs.memberId, ours.memberId);
  });

  test('forms two clusters from two tokens, and one from one', async () => {
    const fake = createFakeEtcd();
    const first = start(fake, 'x', configOf('x', { initialClusterToken: 'one' }));
    const second = start(fake, 'y', configOf('y', { initialClusterToken: 'two' }));
    assert.notEqual((await client(fake, first).status()).clusterId, (await client(fake, second).status()).clusterId);
  });

  test('hashes corrupt data to another value, and does not let it start among others', async () => {
    const { fake, a, b } = three();
    await client(fake, a).put('k', 'v');
    fake.corrupt('m1');
    assert.notEqual((await client(fake, a).hashKv(0n)).hash, (await client(fake, b).hashKv(0n)).hash);
    fake.stop(b.clientURL);
    const { exitCode } = await start(fake, 'm1', lockedConfig(configOf('m1'))).ended;
    assert.equal(exitCode, 1);
  });

  test('goes down a minor only after it was asked to', async () => {
    const { fake, a } = three();
    const locked = etcdConfigFile({ ...lockedConfig(configOf('m0')), minor: '3.5' });
    await refuses(client(fake, a).downgrade('enable', '3.4'), 'DowngradeRefused');
    await refuses(client(fake, a).downgrade('cancel', ''), 'DowngradeRefused');
    fake.stop(a.clientURL);
    assert.equal((await fake.start({ configFile: locked, disk: 'm0', version: '3.5.35' }).ended).exitCode, 1);
    await client(fake, { clientURL: 'http://m1:2379' }).downgrade('enable', '3.5');
    assert.equal(fake.start({ configFile: locked, disk: 'm0', version: '3.5.35' }).running, true);
  });
});
