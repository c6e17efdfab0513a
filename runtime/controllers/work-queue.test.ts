import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { fakeClock } from '../../test/fakes/fake-clock.ts';
import { createWorkQueue, type WorkOutcome } from './work-queue.ts';

/** Passes that end when the test says so. */
const begin = (options: { workers?: number; backOffMs?: (failures: number) => number } = {}) => {
  const clock = fakeClock();
  const started: string[] = [];
  const outcomes: WorkOutcome[] = [];
  const open = new Map<string, PromiseWithResolvers<number | undefined>[]>();
  const queue = createWorkQueue({
    workers: options.workers ?? 2,
    clock,
    random: () => 0.5,
    backOffMs: options.backOffMs,
    work: (key) => {
      started.push(`${key}@${clock.elapsed()}`);
      const pass = Promise.withResolvers<number | undefined>();
      open.set(key, [...(open.get(key) ?? []), pass]);
      return pass.promise;
    },
    onOutcome: (outcome) => outcomes.push(outcome),
  });
  const settle = () => clock.advance(0);
  const running = (key: string): PromiseWithResolvers<number | undefined> => {
    const pass = open.get(key)?.shift();
    assert.ok(pass, `no pass over ${key} runs`);
    return pass;
  };
  return {
    clock,
    queue,
    started,
    outcomes,
    settle,
    finish: async (key: string, againMs?: number) => {
      running(key).resolve(againMs);
      await settle();
    },
    fail: async (key: string) => {
      running(key).reject(new Error('no'));
      await settle();
    },
  };
};

describe('the work queue', () => {
  test('makes one pass of many wishes for the same key', async () => {
    const { queue, started, settle } = begin();
    for (let n = 0; n < 5; n++) queue.enqueue('a');
    await settle();
    assert.deepEqual(started, ['a@0']);
  });

  test('makes exactly one more pass for all that happened during one', async () => {
    const { queue, started, settle, finish } = begin();
    queue.enqueue('a');
    await settle();
    queue.enqueue('a');
    queue.enqueue('a');
    await settle();
    assert.deepEqual(started, ['a@0'], 'one key is never worked on twice at once');
    await finish('a');
    assert.deepEqual(started, ['a@0', 'a@0']);
    await finish('a');
    assert.equal(started.length, 2);
  });

  test('works on as many keys at a time as it has workers', async () => {
    const { queue, started, settle, finish } = begin({ workers: 2 });
    for (const key of ['a', 'b', 'c', 'd']) queue.enqueue(key);
    await settle();
    assert.deepEqual(started, ['a@0', 'b@0']);
    assert.equal(queue.stats().running, 2);
    assert.equal(queue.stats().ready, 2);
    await finish('b');
    assert.deepEqual(started, ['a@0', 'b@0', 'c@0']);
  });

  test('is fair: a key that always wants more waits behind the others', async () => {
    const { queue, started, settle, finish } = begin({ workers: 1 });
    for (const key of ['greedy', 'b', 'c']) queue.enqueue(key);
    await settle();
    await finish('greedy', 0);
    await finish('b');
    await finish('c');
    assert.deepEqual(started, ['greedy@0', 'b@0', 'c@0', 'greedy@0']);
  });

  test('keeps the earliest of the times asked for', async () => {
    const { clock, queue, started } = begin();
    queue.enqueue('a', 5000);
    queue.enqueue('a', 1000);
    queue.enqueue('a', 9000);
    await clock.advance(999);
    assert.deepEqual(started, []);
    await clock.advance(1);
    assert.deepEqual(started, ['a@1000']);
    assert.equal(clock.pending(), 0, 'the later wishes are met by the earlier pass');
  });

  test('runs again when the pass asked for it, unless something happens before', async () => {
    const { clock, queue, started, settle, finish } = begin();
    queue.enqueue('a');
    await settle();
    await finish('a', 30_000);
    await clock.advance(10_000);
    queue.enqueue('a');
    await settle();
    assert.deepEqual(started, ['a@0', 'a@10000']);
    await finish('a');
    await clock.advance(60_000);
    assert.equal(started.length, 2);
  });

  test('rests longer after each failure, at most a minute, and forgets them after a success', async () => {
    const { clock, queue, started, outcomes, settle, fail, finish } = begin();
    queue.enqueue('a');
    await settle();
    const rests: number[] = [];
    for (let n = 0; n < 9; n++) {
      const at = clock.elapsed();
      await fail('a');
      while (started.length < n + 2) await clock.advance(clock.nextIn() ?? assert.fail('nothing is planned'));
      rests.push(clock.elapsed() - at);
    }
    assert.deepEqual(rests, [450, 900, 1800, 3600, 7200, 14_400, 28_800, 54_000, 54_000]);
    assert.equal(outcomes.at(-1)?.failures, 9);
    await finish('a');
    queue.enqueue('a');
    await settle();
    const at = clock.elapsed();
    await fail('a');
    await clock.advance(450);
    assert.equal(started.at(-1), `a@${at + 450}`);
  });

  test('lets news shorten the rest of a failed key to a second, but not to nothing', async () => {
    const { clock, queue, started, settle, fail } = begin({ backOffMs: () => 60_000 });
    queue.enqueue('a');
    await settle();
    queue.enqueue('a');
    await fail('a');
    queue.enqueue('a');
    await clock.advance(999);
    assert.deepEqual(started, ['a@0']);
    await clock.advance(1);
    assert.deepEqual(started, ['a@0', 'a@1000']);
  });

  test('forgets a key that is gone, waiting or running, and takes it again when it is back', async () => {
    const { clock, queue, started, settle, fail } = begin();
    queue.enqueue('waiting', 1000);
    queue.enqueue('running');
    await settle();
    queue.enqueue('running');
    queue.forget('waiting');
    queue.forget('running');
    await clock.advance(5000);
    assert.deepEqual(started, ['running@0']);
    queue.enqueue('running');
    await settle();
    assert.equal(started.length, 1, 'not beside the pass that still runs');
    queue.forget('running');
    await fail('running');
    await clock.advance(120_000);
    assert.equal(started.length, 1);
    assert.deepEqual(queue.stats(), { ready: 0, delayed: 0, running: 0, oldestReadyMs: 0, longestRunningMs: 0 });
    queue.enqueue('running');
    await settle();
    assert.equal(started.length, 2);
  });

  test('tells how long keys wait and run', async () => {
    const { clock, queue, outcomes, settle, finish } = begin({ workers: 1 });
    queue.enqueue('a');
    queue.enqueue('b');
    queue.enqueue('c', 60_000);
    await settle();
    await clock.advance(700);
    assert.deepEqual(queue.stats(), { ready: 1, delayed: 1, running: 1, oldestReadyMs: 700, longestRunningMs: 700 });
    await finish('a');
    await clock.advance(50);
    await finish('b');
    assert.deepEqual(
      outcomes.map(({ key, waitedMs, ranMs }) => ({ key, waitedMs, ranMs })),
      [
        { key: 'a', waitedMs: 0, ranMs: 700 },
        { key: 'b', waitedMs: 700, ranMs: 50 },
      ],
    );
  });

  test('stops by telling the running passes and waiting for them', async () => {
    const clock = fakeClock();
    const told: string[] = [];
    const queue = createWorkQueue({
      workers: 1,
      clock,
      work: (key, signal) =>
        new Promise((resolve) => {
          signal.addEventListener('abort', () => {
            told.push(key);
            resolve(0);
          });
        }),
    });
    queue.enqueue('a');
    queue.enqueue('b');
    queue.enqueue('c', 10);
    await clock.advance(0);
    await queue.stop();
    assert.deepEqual(told, ['a']);
    queue.enqueue('d');
    await clock.advance(1000);
    assert.deepEqual(told, ['a'], 'nothing starts after the stop');
  });

  test('holds a thousand keys without losing one or working on one twice at once', async () => {
    const clock = fakeClock();
    const busy = new Set<string>();
    const passes = new Map<string, number>();
    const queue = createWorkQueue({
      workers: 7,
      clock,
      work: async (key) => {
        assert.ok(!busy.has(key));
        busy.add(key);
        await Promise.resolve();
        busy.delete(key);
        const count = (passes.get(key) ?? 0) + 1;
        passes.set(key, count);
        return count < 3 ? 10 : undefined;
      },
    });
    for (let n = 0; n < 1000; n++) queue.enqueue(`k${n}`);
    await clock.advance(1000);
    assert.equal(passes.size, 1000);
    assert.ok([...passes.values()].every((count) => count === 3));
  });
});
