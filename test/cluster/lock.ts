import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { identify, isRunning, type ProcessIdentity } from './processes.ts';
import type { Progress } from './progress.ts';

/**
 * Runs `work` while holding a lock file. A lock whose owner no longer runs is taken over.
 * @throws when another process keeps the lock longer than `timeoutMs`
 */
export async function withLock<T>(
  file: string,
  progress: Progress,
  work: () => Promise<T>,
  timeoutMs = 3_600_000,
): Promise<T> {
  await mkdir(dirname(file), { recursive: true });
  const mine = JSON.stringify(await identify(process.pid));
  const giveUp = performance.now() + timeoutMs;
  let told = false;
  for (;;) {
    try {
      await writeFile(file, mine, { flag: 'wx' });
      break;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
    const owner = await readOwner(file);
    if (owner === undefined || !(await isRunning(owner))) {
      await rm(file, { force: true });
      continue;
    }
    if (!told) {
      progress(`waiting for process ${owner.pid}, which holds ${file}`);
      told = true;
    }
    if (performance.now() > giveUp) {
      throw new Error(`Process ${owner.pid} still holds ${file}; wait for it to end, or end it, and try again.`);
    }
    await pause(200);
  }
  try {
    return await work();
  } finally {
    await rm(file, { force: true });
  }
}

async function readOwner(file: string): Promise<ProcessIdentity | undefined> {
  try {
    return JSON.parse(await readFile(file, 'utf8')) as ProcessIdentity;
  } catch {
    // Gone in the meantime, or its owner died between creating and filling it. The second look tells which.
    await pause(100);
    try {
      return JSON.parse(await readFile(file, 'utf8')) as ProcessIdentity;
    } catch {
      return undefined;
    }
  }
}
