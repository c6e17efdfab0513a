import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Writable } from 'node:stream';
import { type TestContext, test } from 'node:test';
import { findDaemon, identify, isRunning, parseStat, startDaemon, stopDaemon } from './processes.ts';

test("a process is read right even when its name looks like the kernel's own separators", () => {
  const fields = Array.from({ length: 48 }, (_, index) => String(index + 4));
  const stat = parseStat(`42 (a) R (b) S ${fields.join(' ')}`);
  assert.deepEqual(stat, { state: 'S', parent: 4, started: '22' });
});

test('a number that another process or another boot has taken over is not the recorded process', async () => {
  const me = await identify(process.pid);
  assert.equal(await isRunning(me), true);
  assert.equal(await isRunning({ ...me, started: '1' }), false);
  assert.equal(await isRunning({ ...me, boot: 'another' }), false);
});

test('a process that ended but was not collected by its parent does not count as running', async () => {
  // The shell becomes a program that knows nothing of the child it inherits; the child ends when its input does.
  const script = 'cat <&3 >/dev/null & echo $!; exec sleep 60 3<&-';
  const parent = spawn('sh', ['-c', script], { stdio: ['ignore', 'pipe', 'ignore', 'pipe'] });
  try {
    assert.ok(parent.stdout);
    const [printed] = (await once(parent.stdout, 'data')) as [Buffer];
    const identity = await identify(Number(printed.toString()));
    await eventually(() => readFileSync(`/proc/${parent.pid}/comm`, 'utf8') === 'sleep\n');
    assert.equal(await isRunning(identity), true);
    (parent.stdio[3] as Writable).end();
    await eventually(async () => !(await isRunning(identity)));
    assert.deepEqual(await identify(identity.pid), identity, 'the kernel still knows it');
  } finally {
    parent.kill('SIGKILL');
  }
});

async function eventually(holds: () => boolean | Promise<boolean>): Promise<void> {
  const giveUp = performance.now() + 10_000;
  while (!(await holds())) {
    if (performance.now() > giveUp) throw new Error('it does not happen');
    await new Promise((resolve) => setImmediate(resolve));
  }
}

function scratch(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'processes-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

test('a daemon is found again by its file, and stopped by it even when it ignores the polite signal', async (t) => {
  const folder = scratch(t);
  const daemon = { name: 'stubborn', pidFile: join(folder, 'pid.json'), logFile: join(folder, 'log') };
  const started = await startDaemon(daemon, ['sh', '-c', 'trap "" TERM; while :; do sleep 1; done']);
  assert.deepEqual(await findDaemon(daemon), started);
  await stopDaemon(daemon, 50);
  assert.equal(await isRunning(started), false);
  assert.equal(await findDaemon(daemon), undefined);
});

test('a program that does not exist is an error when it is started, not a daemon that is missing later', async (t) => {
  const folder = scratch(t);
  const daemon = { name: 'absent', pidFile: join(folder, 'pid.json'), logFile: join(folder, 'log') };
  await assert.rejects(startDaemon(daemon, ['/does/not/exist']), /absent could not be started: .*ENOENT/);
  assert.equal(await findDaemon(daemon), undefined);
});
