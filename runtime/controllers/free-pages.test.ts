import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createFakeEtcd } from '../../test/fakes/fake-etcd.ts';
import { known, type SeenPod } from '../core/observed.ts';
import { createFreePages } from './free-pages.ts';

const GIB = 1n << 30n;
const signal = AbortSignal.timeout(10_000);

const stage = async () => {
  const etcd = createFakeEtcd();
  const urls = etcd.bootstrap(3).map(({ clientURL }) => clientURL);
  const clientAt = (url: string) => etcd.clients.at({ url });
  const { memberId } = await clientAt(urls[0] ?? '').status();
  let now = 0;
  const freePages = createFreePages(() => now);
  return {
    etcd,
    urls,
    asked: () => etcd.calls.filter(({ operation }) => operation === 'snapshot').length,
    alarm: () => etcd.arm(memberId, 'NOSPACE'),
    compact: () => {
      for (const disk of ['m0', 'm1', 'm2']) etcd.fragment(disk, 2n * GIB, { counted: false });
    },
    wait: (ms: number): void => {
      now += ms;
    },
    look: async (): Promise<readonly (bigint | undefined)[]> => {
      const pods = await Promise.all(
        urls.map(async (url) => ({ ip: url, etcd: known(await clientAt(url).status()) }) as unknown as SeenPod),
      );
      const seen = await freePages('team-a/demo', pods, ({ ip }) => clientAt(ip ?? ''), signal);
      return seen.map(({ etcd: said }) => (said.known ? said.value.dbSizeInUse / GIB : undefined));
    },
  };
};

describe('what a full database holds', () => {
  test('is believed while etcd takes writes: it commits all the time', async () => {
    const { look, compact, asked } = await stage();
    compact();
    assert.deepEqual(await look(), [2n, 2n, 2n]);
    assert.equal(asked(), 0);
  });

  test('is asked for anew once etcd takes none, since it does not count what was freed last', async () => {
    const { look, alarm, compact } = await stage();
    compact();
    alarm();
    assert.deepEqual(await look(), [0n, 0n, 0n]);
  });

  test('is believed of a database with many free pages: what there is to do is known', async () => {
    const { etcd, look, alarm, asked } = await stage();
    for (const disk of ['m0', 'm1', 'm2']) etcd.fragment(disk, 2n * GIB);
    alarm();
    assert.deepEqual(await look(), [0n, 0n, 0n]);
    assert.equal(asked(), 0);
  });

  test('is asked for once a minute, and what is freed meanwhile is seen then', async () => {
    const { look, alarm, compact, asked, wait } = await stage();
    alarm();
    await look();
    const first = asked();
    assert.ok(first > 0);
    compact();
    wait(59_000);
    assert.deepEqual(await look(), [2n, 2n, 2n]);
    assert.equal(asked(), first);
    wait(1_000);
    assert.deepEqual(await look(), [0n, 0n, 0n]);
  });

  test('stays as it was said where a member does not let itself be asked, until a moment later', async () => {
    const { etcd, urls, look, alarm, compact, wait } = await stage();
    compact();
    alarm();
    etcd.failNext({ operation: 'snapshot', reason: 'Timeout', url: urls[2] });
    assert.deepEqual(await look(), [0n, 0n, 2n]);
    wait(10_000);
    assert.deepEqual(await look(), [0n, 0n, 0n]);
  });
});
