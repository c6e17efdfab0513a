import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { test } from 'node:test';
import { withLock } from './lock.ts';

const silent = () => undefined;

function name(): string {
  return join('/lock-test', crypto.randomUUID());
}

/** Another process that holds the lock until it is killed. */
async function foreignHolder(lock: string) {
  const script = `
    import { withLock } from ${JSON.stringify(join(import.meta.dirname, 'lock.ts'))};
    await withLock(${JSON.stringify(lock)}, () => {}, () => { console.log('held'); return new Promise(() => setInterval(() => {}, 1000)); });`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  await once(child.stdout, 'data');
  return child;
}

test('of many that want one lock, one works at a time and all get their turn', async () => {
  const lock = name();
  let working = 0;
  let most = 0;
  let done = 0;
  const work = async () => {
    most = Math.max(most, ++working);
    await new Promise((resolve) => setImmediate(resolve));
    working--;
    done++;
  };
  await Promise.all(Array.from({ length: 8 }, () => withLock(lock, silent, work)));
  assert.deepEqual({ most, done }, { most: 1, done: 8 });
});

test('the lock of a process that was killed is free at once, because a killed build must not block the next', async () => {
  const lock = name();
  const holder = await foreignHolder(lock);
  const told: string[] = [];
  const waiting = withLock(
    lock,
    (line) => {
      told.push(line);
      holder.kill('SIGKILL');
    },
    () => Promise.resolve('mine'),
  );
  assert.equal(await waiting, 'mine');
  assert.deepEqual(told, [`waiting for process ${holder.pid}, which holds ${lock}`]);
});

test('whoever waits too long gives up and says for what', async () => {
  const lock = name();
  const holder = await foreignHolder(lock);
  try {
    await assert.rejects(
      withLock(lock, silent, () => Promise.resolve(), 50),
      /Another process still holds \/lock-test\//,
    );
  } finally {
    holder.kill('SIGKILL');
  }
});

test('a failing holder gives the lock back', async () => {
  const lock = name();
  await assert.rejects(
    withLock(lock, silent, () => Promise.reject(new Error('broken'))),
    /broken/,
  );
  assert.equal(await withLock(lock, silent, () => Promise.resolve('mine'), 100), 'mine');
});
