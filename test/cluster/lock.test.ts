import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { withLock } from './lock.ts';
import { identify } from './processes.ts';

function lockFile(): string {
  return join(mkdtempSync(join(tmpdir(), 'lock-')), 'lock');
}

test('two holders of one lock never work at the same time', async () => {
  const file = lockFile();
  let working = 0;
  let most = 0;
  const work = () =>
    withLock(
      file,
      () => undefined,
      async () => {
        most = Math.max(most, ++working);
        await new Promise((resolve) => setImmediate(resolve));
        working--;
      },
    );
  await Promise.all([work(), work(), work()]);
  assert.equal(most, 1);
});

test('the lock of a process that no longer runs is taken over, because a killed build must not block the next', async () => {
  const file = lockFile();
  writeFileSync(file, JSON.stringify({ ...(await identify(process.pid)), started: '1' }));
  assert.equal(
    await withLock(
      file,
      () => undefined,
      async () => 'done',
    ),
    'done',
  );
});

test('whoever waits too long for a living holder is told which process it is', async () => {
  const file = lockFile();
  writeFileSync(file, JSON.stringify(await identify(process.pid)));
  const told: string[] = [];
  await assert.rejects(
    withLock(
      file,
      (line) => told.push(line),
      async () => 'never',
      1,
    ),
    new RegExp(`Process ${process.pid} still holds`),
  );
  assert.equal(told.length, 1);
});

test('a failing holder gives the lock back', async () => {
  const file = lockFile();
  await assert.rejects(
    withLock(
      file,
      () => undefined,
      () => Promise.reject(new Error('broken')),
    ),
    /broken/,
  );
  assert.deepEqual(readdirSync(join(file, '..')), []);
});
