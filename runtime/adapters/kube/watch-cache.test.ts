import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import type { ConfigMap } from 'kubernetes-types/core/v1.js';
import { type FakeClock, fakeClock } from '../../../test/fakes/fake-clock.ts';
import { type FakeKube, startFakeKube } from '../../../test/fakes/fake-kube.ts';
import { type Kube, KubeFault, resources, type Stored, type WatchEvent } from '../../ports/kube.ts';
import { startWatchCache, type WatchCache, type WatchCacheOptions, type WatchIncident } from './watch-cache.ts';

const { configmaps } = resources;
const at = (name: string) => ({ namespace: 'default', name });

type Watched = {
  cache: WatchCache<ConfigMap>;
  clock: FakeClock;
  incidents: WatchIncident[];
  /** `+name` new, `~name` changed, `-name` gone; with the value of data.v. */
  changes: string[];
  told(what: WatchIncident['what'], count?: number): Promise<void>;
  /** Resolves when the cache holds what `holds` wants. */
  until(holds: () => boolean): Promise<void>;
};

const watching = (kube: Kube, options: Partial<WatchCacheOptions<ConfigMap>> = {}): Watched => {
  const clock = fakeClock();
  const incidents: WatchIncident[] = [];
  const changes: string[] = [];
  const looking = new Set<() => void>();
  const look = (): void => {
    for (const one of looking) one();
  };
  const cache = startWatchCache({
    kube,
    resource: configmaps,
    clock,
    random: () => 0.5,
    ...options,
    onIncident: (incident) => {
      incidents.push(incident);
      look();
    },
  });
  cache.onChange(({ name }, before, after) => {
    const value = (after ?? before)?.data?.v ?? '';
    changes.push(`${before === undefined ? '+' : after === undefined ? '-' : '~'}${name}${value}`);
    look();
  });
  const until = (holds: () => boolean): Promise<void> =>
    new Promise((resolve) => {
      const one = (): void => {
        if (!holds()) return;
        looking.delete(one);
        resolve();
      };
      looking.add(one);
      one();
    });
  const told: Watched['told'] = (what, count = 1) =>
    until(() => incidents.filter((incident) => incident.what === what).length >= count);
  return { cache, clock, incidents, changes, told, until };
};

const reasons = (incidents: WatchIncident[]): string[] =>
  incidents.flatMap((incident) => (incident.what === 'failed' ? [incident.fault.reason] : []));

describe('the watch cache', () => {
  const open: (() => Promise<void>)[] = [];
  afterEach(async () => {
    for (const close of open.splice(0).reverse()) await close();
  });

  const begin = async (options: Partial<WatchCacheOptions<ConfigMap>> = {}) => {
    const fake = await startFakeKube();
    open.push(() => fake.close());
    const put = (name: string, v: string, labels: Record<string, string> = {}) =>
      fake.state.put(configmaps, { metadata: { ...at(name), labels }, data: { v } });
    const start = async (): Promise<Watched> => {
      const watched = watching(fake.kube, options);
      open.push(() => watched.cache.stop());
      await watched.cache.synced;
      await fake.watched('configmaps');
      return watched;
    };
    return { fake, put, start };
  };

  const lists = (fake: FakeKube) => fake.requests.filter(({ verb }) => verb === 'list');
  const watches = (fake: FakeKube) => fake.requests.filter(({ verb }) => verb === 'watch');

  test('lists from the server cache first, then follows with bookmarks and a random end', async () => {
    const { fake, put, start } = await begin();
    put('a', '1');
    const { cache, changes, until } = await start();
    assert.equal(cache.get('default', 'a')?.data?.v, '1');
    assert.equal(lists(fake)[0]?.query.get('resourceVersion'), '0');
    const asked = watches(fake)[0]?.query;
    assert.equal(asked?.get('allowWatchBookmarks'), 'true');
    assert.equal(asked.get('timeoutSeconds'), '360');
    put('b', '1');
    put('a', '2');
    fake.state.vanish(configmaps, at('b'));
    await until(() => changes.length === 4);
    assert.deepEqual(changes, ['+a1', '+b1', '~a2', '-b1']);
    assert.deepEqual(
      cache.list().map((object) => object.metadata.name),
      ['a'],
    );
  });

  test('keeps to its labels, and drops an object that loses them', async () => {
    const { put, start } = await begin({ labelSelector: 'cluster' });
    put('mine', '1', { cluster: 'x' });
    put('other', '1');
    const { cache, changes, until } = await start();
    put('mine', '2');
    await until(() => changes.at(-1) === '-mine1');
    put('mine', '3', { cluster: 'x' });
    await until(() => changes.at(-1) === '+mine3');
    assert.equal(cache.list().length, 1);
  });

  test('finds objects by the key of their cluster, also after the key has changed', async () => {
    const { put, start } = await begin({ index: (object) => object.metadata.labels?.cluster });
    put('a', '1', { cluster: 'x' });
    put('b', '1', { cluster: 'x' });
    put('c', '1');
    const { cache, changes, until } = await start();
    const names = (key: string) => cache.byIndex(key).map((object) => object.metadata.name);
    assert.deepEqual(names('x'), ['a', 'b']);
    put('a', '2', { cluster: 'y' });
    await until(() => changes.at(-1) === '~a2');
    assert.deepEqual([names('x'), names('y'), names('z')], [['b'], ['a'], []]);
  });

  test('tells of a namesake as one gone and one new, since they share nothing but the name', async () => {
    const { fake, put, start } = await begin();
    put('a', '1');
    const { changes, until } = await start();
    fake.inject.hold();
    fake.state.vanish(configmaps, at('a'));
    put('a', '2');
    fake.inject.compact();
    fake.inject.release();
    // What was between is compacted away: the new list shows only the new one.
    await until(() => changes.at(-1) === '+a2');
    assert.deepEqual(changes, ['+a1', '-a1', '+a2']);
  });

  test('forgets what nobody reads', async () => {
    const { fake, put, start } = await begin({ trim: (object) => void delete object.data });
    put('a', '1');
    const managed = [{ manager: 'x' }];
    fake.state.put(configmaps, { metadata: { ...at('b'), managedFields: managed } });
    const { cache } = await start();
    assert.equal(cache.get('default', 'a')?.data, undefined);
    const mine = await fake.kube.mergePatch({ resource: configmaps, ...at('a') }, { data: { v: '2' } });
    cache.observe(mine);
    assert.equal(mine.data?.v, '2', 'the caller keeps what it has');
    assert.equal(cache.get('default', 'a')?.data, undefined);
    assert.equal(cache.get('default', 'b')?.metadata.managedFields, undefined);
  });

  test('goes on when a listener throws', async () => {
    const { put, start } = await begin();
    const { cache, incidents, changes, until } = await start();
    cache.onChange(() => {
      throw new Error('listener');
    });
    put('a', '1');
    put('b', '1');
    await until(() => changes.length === 2);
    await until(() => incidents.filter(({ what }) => what === 'listener-failed').length === 2);
    assert.equal(cache.list().length, 2);
  });

  describe('of our own writes', () => {
    test('shows them before the watch does', async () => {
      const { fake, start } = await begin();
      const { cache, changes } = await start();
      fake.inject.hold();
      const made = await fake.kube.create(configmaps, { metadata: at('a'), data: { v: '1' } });
      cache.observe(made);
      assert.equal(cache.get('default', 'a')?.data?.v, '1');
      fake.inject.release();
      await fake.kube.create(configmaps, { metadata: at('b') });
      assert.deepEqual(
        changes.filter((change) => change.startsWith('+a')),
        ['+a1'],
        'the event that follows is no news',
      );
    });

    test('never lets an older state overwrite a newer one, whichever way it came', async () => {
      const { fake, put, start } = await begin();
      const old = put('a', '1');
      const { cache, changes, until } = await start();
      const newer = put('a', '2');
      await until(() => changes.at(-1) === '~a2');
      cache.observe(old);
      assert.equal(cache.get('default', 'a')?.data?.v, '2');
      fake.inject.hold();
      put('a', '3');
      const newest = await fake.kube.mergePatch({ resource: configmaps, ...at('a') }, { data: { v: '4' } });
      cache.observe(newest);
      fake.inject.release();
      put('z', '');
      await until(() => changes.at(-1) === '+z');
      assert.deepEqual(changes, ['+a1', '~a2', '~a4', '+z']);
      // As text, 99 would be larger than 100.
      assert.ok(BigInt(newest.metadata.resourceVersion) > BigInt(newer.metadata.resourceVersion));
    });

    test('never brings back what is gone', async () => {
      const { fake, put, start } = await begin();
      put('a', '1');
      const { cache, changes, until } = await start();
      const late = await fake.kube.mergePatch({ resource: configmaps, ...at('a') }, { data: { v: '2' } });
      fake.state.vanish(configmaps, at('a'));
      await until(() => changes.at(-1)?.startsWith('-a') === true);
      cache.observe(late);
      assert.equal(cache.get('default', 'a'), undefined);
      const again = put('a', '3');
      cache.observe(again);
      assert.equal(cache.get('default', 'a')?.data?.v, '3', 'a namesake is another object');
    });

    test('takes out what a write has taken out of the selection', async () => {
      const { fake, put, start } = await begin({ labelSelector: 'cluster', namespace: 'default' });
      put('a', '1', { cluster: 'x' });
      const { cache } = await start();
      fake.inject.hold();
      const ref = { resource: configmaps, ...at('a') };
      cache.observe(await fake.kube.mergePatch(ref, { metadata: { labels: null } }));
      assert.equal(cache.get('default', 'a'), undefined);
      cache.observe(await fake.kube.mergePatch(ref, { metadata: { labels: { cluster: 'x' } } }));
      assert.notEqual(cache.get('default', 'a'), undefined);
      const elsewhere = { ...(cache.list()[0] as Stored<ConfigMap>) };
      elsewhere.metadata = { ...elsewhere.metadata, namespace: 'kube-system' };
      cache.observe(elsewhere);
      assert.equal(cache.list().length, 1, 'another namespace is not watched');
    });
  });

  describe('when the stream fails', () => {
    test('resumes a clean end where it stopped, without a list and at most once a second', async () => {
      const { fake, put, start } = await begin();
      put('a', '1');
      const { clock, changes, told, until } = await start();
      put('b', '1');
      await until(() => changes.length === 2);
      const version = fake.state.version;
      for (let n = 1; n <= 10; n++) {
        fake.inject.endWatches();
        await told('ended', n);
        await clock.advance(999);
        assert.equal(watches(fake).length, n, 'not before a second has passed');
        await clock.advance(1);
        await told('connected', n + 1);
      }
      assert.equal(lists(fake).length, 1);
      assert.equal(watches(fake).at(-1)?.query.get('resourceVersion'), String(version));
    });

    test('connects at most once a second to a server that ends every watch at once', async () => {
      const clock = fakeClock();
      let connects = 0;
      const kube = {
        list: async () => ({ items: [], resourceVersion: '5' }),
        watch: async function* (): AsyncGenerator<never> {
          connects += 1;
          yield* [];
        },
      } as unknown as Kube;
      const cache = startWatchCache({ kube, resource: configmaps, clock });
      open.push(() => cache.stop());
      await cache.synced;
      await clock.advance(60_000);
      assert.ok(connects >= 55 && connects <= 61, `${connects} connects in a minute`);
    });

    test('resumes after a reset where it stopped, after a second or so', async () => {
      const { fake, put, start } = await begin();
      const { clock, incidents, changes, told, until } = await start();
      put('a', '1');
      await until(() => changes.length === 1);
      fake.inject.resetWatches();
      await told('failed');
      put('b', '1');
      await clock.advance(1000);
      await until(() => changes.length === 2);
      assert.deepEqual(reasons(incidents), ['Unavailable']);
      assert.equal(lists(fake).length, 1);
    });

    test('replaces a stream that fell silent, which nothing else would tell', async () => {
      const { fake, put, start } = await begin({ timings: { idleMs: 50 } });
      const { clock, incidents, changes, told, until } = await start();
      fake.inject.freezeWatches();
      put('a', '1');
      await told('failed');
      await clock.advance(1000);
      await until(() => changes.length === 1);
      assert.equal(reasons(incidents)[0], 'Timeout');
      assert.equal(lists(fake).length, 1);
    });

    for (const how of ['in the stream', 'as the answer'] as const) {
      test(`lists again after 410 ${how}, and not from the cache that was behind`, async () => {
        const { fake, put, start } = await begin();
        put('a', '1');
        put('b', '1');
        const { clock, changes, incidents, told, until } = await start();
        if (how === 'in the stream') {
          fake.inject.hold();
          fake.state.vanish(configmaps, at('b'));
          fake.inject.expireWatches();
        } else {
          fake.inject.fault({ verb: 'watch', status: 410, reason: 'Expired' });
          fake.inject.endWatches();
          await told('ended');
          fake.state.vanish(configmaps, at('b'));
          await clock.advance(1000);
        }
        await until(() => changes.at(-1) === '-b1');
        assert.deepEqual(reasons(incidents), ['Gone']);
        assert.equal(lists(fake).length, 2);
        assert.equal(lists(fake)[1]?.query.get('resourceVersion'), null);
      });
    }

    test('does not spin on a server that answers every watch with 410', async () => {
      const { fake, start } = await begin();
      const { clock, told } = await start();
      fake.inject.fault({ verb: 'watch', status: 410, reason: 'Expired', times: 1000 });
      fake.inject.endWatches();
      await told('ended');
      // The net relist, the loop's pause; nothing is in flight when both wait.
      while (clock.elapsed() < 120_000) {
        await clock.advance(clock.nextIn() ?? 0);
        await clock.armed(2);
      }
      assert.ok(lists(fake).length <= 14, `${lists(fake).length} lists in two minutes`);
      assert.ok(watches(fake).length <= 14, `${watches(fake).length} watches in two minutes`);
    });

    test('counts a line it cannot read and lists again, since an event was lost', async () => {
      const { fake, put, start } = await begin();
      const { clock, changes, incidents, until } = await start();
      fake.inject.hold();
      put('a', '1');
      fake.inject.garble();
      await until(() => changes.length === 1);
      assert.deepEqual(reasons(incidents), ['Malformed']);
      assert.equal(lists(fake).length, 2);
      fake.inject.release();
      await clock.advance(1000);
      await fake.watched('configmaps');
    });

    test('waits as long as an overloaded server wishes', async () => {
      const { fake, start } = await begin();
      const { clock, told } = await start();
      fake.inject.fault({ verb: 'watch', status: 429, retryAfterSeconds: 30 });
      fake.inject.endWatches();
      await told('ended');
      await clock.advance(1000);
      await told('failed');
      await clock.advance(29_000);
      assert.equal(watches(fake).length, 2);
      await clock.advance(1000);
      await told('connected', 2);
    });

    test('waits longer each time while there is no server, and at most a minute', async () => {
      const { fake, start } = await begin();
      const { clock, told } = await start();
      const fault = fake.inject.fault({ verb: 'watch', status: 503, times: 1000 });
      fake.inject.endWatches();
      await told('ended');
      const before = clock.elapsed();
      while (clock.elapsed() < before + 300_000) {
        await clock.advance(clock.nextIn() ?? 0);
        await clock.armed(2);
      }
      assert.ok(fault.met() >= 9 && fault.met() <= 14, `${fault.met()} tries in five minutes`);
      fault.remove();
      await clock.advance(60_000);
      await fake.watched('configmaps');
    });

    test('waits for a kind that does not exist yet: its CRD may come', async () => {
      const fake = await startFakeKube();
      open.push(() => fake.close());
      fake.inject.fault({ verb: 'list', status: 404, times: 3 });
      const { cache, clock, told } = watching(fake.kube);
      open.push(() => cache.stop());
      for (let n = 1; n <= 3; n++) {
        await told('failed', n);
        await clock.armed(2);
        assert.equal(cache.hasSynced(), false);
        await clock.advance(clock.nextIn() ?? 0);
      }
      await cache.synced;
    });
  });

  describe('in doubt', () => {
    test('finds by its relist what a healthy-looking watch passed over, says so, and begins anew', async () => {
      const { fake, put, start } = await begin({ timings: { relistMs: 600_000 } });
      put('stays', '1');
      put('goes', '1');
      const { cache, clock, incidents, changes, told, until } = await start();
      fake.inject.freezeWatches();
      put('stays', '2');
      fake.state.vanish(configmaps, at('goes'));
      await clock.advance(600_000);
      await until(() => changes.length === 4);
      assert.deepEqual(changes, ['+goes1', '+stays1', '~stays2', '-goes1']);
      assert.equal(cache.list().length, 1);
      // The watch claims to have come past all that.
      const bookmark = { type: 'BOOKMARK', object: { metadata: { resourceVersion: String(fake.state.version) } } };
      fake.inject.garble(JSON.stringify(bookmark));
      await told('missed');
      assert.deepEqual(
        incidents.flatMap((incident) => (incident.what === 'missed' ? [incident.count] : [])),
        [2],
      );
      await told('connected', 2);
    });

    test('does not blame a watch that is merely slower than the relist', async () => {
      const { fake, put, start } = await begin();
      put('goes', '1');
      const { clock, incidents, changes, told, until } = await start();
      fake.inject.hold();
      put('a', '1');
      put('a', '2');
      fake.state.vanish(configmaps, at('goes'));
      await clock.advance(600_000);
      await told('listed', 2);
      fake.inject.release();
      fake.inject.bookmark();
      put('last', '');
      await until(() => changes.at(-1) === '+last');
      assert.deepEqual(
        incidents.filter(({ what }) => what === 'missed'),
        [],
      );
      assert.equal(watches(fake).length, 1);
    });

    test('keeps an object of our own that is newer than the relist', async () => {
      const clock = fakeClock();
      const listed = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      let calls = 0;
      const kube = {
        list: async () => {
          calls += 1;
          if (calls > 1) await listed[1]?.promise;
          return { items: [], resourceVersion: '10' };
        },
        watch: async function* (
          _: unknown,
          { signal }: { signal: AbortSignal },
        ): AsyncGenerator<WatchEvent<ConfigMap>> {
          await new Promise((resolve) => signal.addEventListener('abort', resolve));
        },
      } as unknown as Kube;
      const cache = startWatchCache({ kube, resource: configmaps, clock, random: () => 0.5 });
      open.push(() => cache.stop());
      await cache.synced;
      await clock.advance(600_000);
      cache.observe({ metadata: { ...at('mine'), uid: 'u', resourceVersion: '11' } });
      listed[1]?.resolve();
      await clock.advance(0);
      assert.equal(calls, 2);
      assert.notEqual(cache.get('default', 'mine'), undefined);
    });

    test('knows the age of the last byte and of its own last act', async () => {
      const { fake, start } = await begin();
      const { cache, clock, told } = await start();
      await told('connected');
      await clock.advance(90_000);
      assert.equal(cache.silentMs(), 90_000);
      fake.inject.bookmark();
      while (cache.silentMs() !== 0) await fake.kube.list(configmaps);
      fake.inject.fault({ status: 503, times: 1000 });
      fake.inject.resetWatches();
      await told('failed');
      while (clock.elapsed() < 400_000) {
        await clock.advance(clock.nextIn() ?? 0);
        await clock.armed(2);
      }
      assert.ok(cache.silentMs() > 300_000, 'an absent server is silence');
      assert.ok(cache.stuckMs() <= 60_000, 'but not our standstill');
    });

    test('stops at once, whatever it does', async () => {
      const { fake, start } = await begin();
      const { cache } = await start();
      await cache.stop();
      while (fake.watching() > 0) await fake.kube.list(configmaps);
      fake.inject.fault({ verb: 'list', how: 'hang' });
      const early = watching(fake.kube);
      await early.cache.stop();
      await assert.rejects(early.cache.synced, (error) => error instanceof KubeFault && error.reason === 'Cancelled');
    });
  });
});
