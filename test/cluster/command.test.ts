import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CommandFailed, run, succeeds } from './command.ts';

test('a command gets its input and gives back what it printed', async () => {
  assert.equal(await run(['cat'], { input: 'text' }), 'text');
});

test('a failed command says its line, its code and its last words', async () => {
  await assert.rejects(run(['sh', '-c', 'echo because >&2; exit 3']), (error: unknown) => {
    assert.ok(error instanceof CommandFailed);
    assert.equal(error.exitCode, 3);
    assert.match(error.message, /ended with 3:\nbecause$/);
    return true;
  });
});

test('a command that does not end is killed at its deadline, so that no test hangs on it', async () => {
  await assert.rejects(run(['sleep', '60'], { timeoutMs: 50 }), /did not end within 0\.05 s/);
});

test('a command that ends without reading its input fails by its code and not by a broken pipe', async () => {
  await assert.rejects(run(['sh', '-c', 'exec 0<&-; exit 4'], { input: 'x'.repeat(1 << 20) }), /ended with 4/);
});

test('a missing program counts as a failure, not as a crash of the caller', async () => {
  assert.equal(await succeeds(['/does/not/exist']), false);
  assert.equal(await succeeds(['true']), true);
});
