import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createFakeEtcd, type FakeEtcd } from '../../test/fakes/fake-etcd.ts';
import { known, type SeenPod } from '../core/observed.ts';
import { createDataHashes } from './data-hashes.ts';

const signal = AbortSignal.timeout(10_000);

/** The members as a pass sees them, by client URL. */
const seen = async (etcd: FakeEtcd, urls: readonly string[]): Promise<SeenPod[]> =>
  Promise.all(
    urls.map(
      async (url) =>
        ({
          uid: url,
          ip: url,
          container: { id: 'containerd://1', lastExit: undefined },
          etcd: known(await etcd.clients.at({ url }).status()),
        }) as unknown as SeenPod,
    ),
  );

const stage = async () => {
  const etcd = createFakeEtcd();
  const urls = etcd.bootstrap(3).map(({ clientURL }) => clientURL);
  const [first = ''] = urls;
  await etcd.clients.at({ url: first }).put('key', 'value');
  let now = 0;
  const hashes = createDataHashes(() => now);
  return {
    etcd,
    urls,
    asked: () => etcd.calls.filter(({ operation }) => operation === 'hashKv').length,
    wait: (ms: number): void => {
      now += ms;
    },
    alarm: async () => etcd.arm((await etcd.clients.at({ url: first }).status()).memberId, 'CORRUPT'),
    look: async (change: (pods: SeenPod[]) => SeenPod[] = (pods) => pods): Promise<readonly SeenPod[]> =>
      hashes('team-a/demo', change(await seen(etcd, urls)), ({ ip }) => etcd.clients.at({ url: ip ?? '' }), signal),
  };
};

describe('hashes of the data', () => {
  test('are not asked for while nobody doubts it: each reads a whole database', async () => {
    const { look, asked } = await stage();
    assert.ok((await look()).every(({ hash }) => hash === undefined));
    assert.equal(asked(), 0);
  });

  test('are asked for at one revision of all members when an alarm says that they differ', async () => {
    const { look, alarm, asked } = await stage();
    await alarm();
    const pods = await look();
    assert.equal(new Set(pods.map(({ hash }) => (hash?.known === true ? hash.value.hash : undefined))).size, 1);
    assert.equal(asked(), 3);
  });

  test('are remembered for a minute, and only as long as the same process runs', async () => {
    const { look, alarm, asked, wait } = await stage();
    await alarm();
    await look();
    wait(59_000);
    await look();
    assert.equal(asked(), 3);
    await look((pods) => pods.map((pod, i) => (i === 0 ? { ...pod, container: { ...pod.container, id: 'x' } } : pod)));
    assert.equal(asked(), 6, 'another start may have other data');
    wait(60_000);
    await look();
    assert.equal(asked(), 9);
  });

  test('that could not be had are unknown, and asked for again after a moment', async () => {
    const { etcd, urls, look, alarm, asked, wait } = await stage();
    await alarm();
    etcd.failNext({ operation: 'hashKv', reason: 'Timeout', url: urls[2] });
    assert.deepEqual(
      (await look()).map(({ hash }) => hash?.known),
      [true, true, false],
    );
    wait(5_000);
    await look();
    assert.equal(asked(), 3, 'the others are not made to read everything again at once');
    wait(5_000);
    assert.ok((await look()).every(({ hash }) => hash?.known === true));
  });
});
