import { spawn } from 'node:child_process';
import { mkdir, open, readdir, readFile, readlink, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

/**
 * One process, distinguishable from a later one with the same number: kernels reuse numbers, and a reboot starts them again.
 * `started` is the kernel's start time of the process, `boot` the identity of the boot it belongs to.
 */
export type ProcessIdentity = { readonly pid: number; readonly started: string; readonly boot: string };

/** The fields of /proc/<pid>/stat that are needed here; undefined when there is no such process. */
async function readStat(pid: number): Promise<{ parent: number; started: string; state: string } | undefined> {
  try {
    const text = await readFile(`/proc/${pid}/stat`, 'latin1');
    return parseStat(text);
  } catch {
    return undefined;
  }
}

/** The name in the second field may hold blanks and parentheses, so fields are counted from its last parenthesis. */
export function parseStat(text: string): { parent: number; started: string; state: string } | undefined {
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const [state, parent] = fields;
  const started = fields[19];
  if (state === undefined || parent === undefined || started === undefined) return undefined;
  return { state, parent: Number(parent), started };
}

async function bootId(): Promise<string> {
  return (await readFile('/proc/sys/kernel/random/boot_id', 'utf8')).trim();
}

/** @throws when no process has that number */
export async function identify(pid: number): Promise<ProcessIdentity> {
  const stat = await readStat(pid);
  if (stat === undefined) throw new Error(`process ${pid} ended before it could be recorded`);
  return { pid, started: stat.started, boot: await bootId() };
}

export async function isRunning(identity: ProcessIdentity): Promise<boolean> {
  const stat = await readStat(identity.pid);
  return (
    stat !== undefined && stat.state !== 'Z' && stat.started === identity.started && identity.boot === (await bootId())
  );
}

/** A long-running process that outlives this one; its identity is kept in a file so that a later run stops it and nothing else. */
export type Daemon = { readonly name: string; readonly pidFile: string; readonly logFile: string };

export async function startDaemon(
  daemon: Daemon,
  argv: readonly string[],
  env: NodeJS.ProcessEnv = process.env,
): Promise<ProcessIdentity> {
  const [file, ...rest] = argv;
  if (file === undefined) throw new Error(`${daemon.name} has no command`);
  await mkdir(dirname(daemon.pidFile), { recursive: true });
  await mkdir(dirname(daemon.logFile), { recursive: true });
  const log = await open(daemon.logFile, 'a');
  try {
    const child = spawn(file, rest, { detached: true, stdio: ['ignore', log.fd, log.fd], env, cwd: '/' });
    await new Promise<void>((resolve, reject) => {
      child.once('spawn', resolve);
      child.once('error', (error) => reject(new Error(`${daemon.name} could not be started: ${error.message}`)));
    });
    child.unref();
    if (child.pid === undefined) throw new Error(`${daemon.name} has no process number`);
    const identity = await identify(child.pid);
    await writeFile(daemon.pidFile, JSON.stringify(identity));
    return identity;
  } finally {
    await log.close();
  }
}

/** The recorded process of a daemon if it runs. */
export async function findDaemon(daemon: Daemon): Promise<ProcessIdentity | undefined> {
  try {
    const identity = JSON.parse(await readFile(daemon.pidFile, 'utf8')) as ProcessIdentity;
    return (await isRunning(identity)) ? identity : undefined;
  } catch {
    return undefined;
  }
}

/** The last lines of a daemon's log, to say why it ended. */
export async function lastWords(daemon: Daemon, lines = 8): Promise<string> {
  try {
    return (await readFile(daemon.logFile, 'utf8')).trimEnd().split('\n').slice(-lines).join('\n');
  } catch {
    return '(no log)';
  }
}

export async function stopDaemon(daemon: Daemon, graceMs: number): Promise<void> {
  const identity = await findDaemon(daemon);
  if (identity !== undefined) await stopProcesses([identity], graceMs);
  await rm(daemon.pidFile, { force: true });
}

/** Asks the processes to end, and kills those that still run after `graceMs` (0: kill at once). Returns when all are gone. */
export async function stopProcesses(identities: readonly ProcessIdentity[], graceMs: number): Promise<void> {
  if (graceMs > 0) {
    for (const identity of identities) await signal(identity, 'SIGTERM');
    if (await allGone(identities, graceMs)) return;
  }
  for (const identity of identities) await signal(identity, 'SIGKILL');
  if (!(await allGone(identities, 20_000))) {
    throw new Error(`processes ${identities.map((identity) => identity.pid).join(', ')} do not end, even by SIGKILL`);
  }
}

async function signal(identity: ProcessIdentity, name: 'SIGTERM' | 'SIGKILL'): Promise<void> {
  if (!(await isRunning(identity))) return;
  try {
    process.kill(identity.pid, name);
  } catch {
    // It ended between the look and the signal.
  }
}

async function allGone(identities: readonly ProcessIdentity[], timeoutMs: number): Promise<boolean> {
  const giveUp = performance.now() + timeoutMs;
  for (;;) {
    const running = await Promise.all(identities.map(isRunning));
    if (!running.includes(true)) return true;
    if (performance.now() > giveUp) return false;
    await pause(20);
  }
}

async function allPids(): Promise<number[]> {
  return (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(Number);
}

/** The children of a process. */
export async function childrenOf(parent: number): Promise<number[]> {
  const found: number[] = [];
  for (const pid of await allPids()) {
    if ((await readStat(pid))?.parent === parent) found.push(pid);
  }
  return found;
}

/** The processes that live directly in the same process namespace as `member` (a number in this namespace) and run the program `name`. */
export async function findInNamespaceOf(member: number, name: string): Promise<ProcessIdentity[]> {
  const namespace = await pidNamespace(member);
  if (namespace === undefined) return [];
  const found: ProcessIdentity[] = [];
  for (const pid of await allPids()) {
    if ((await pidNamespace(pid)) !== namespace || (await programName(pid)) !== name) continue;
    const stat = await readStat(pid);
    if (stat !== undefined && stat.state !== 'Z') found.push({ pid, started: stat.started, boot: await bootId() });
  }
  return found;
}

async function pidNamespace(pid: number): Promise<string | undefined> {
  try {
    return await readlink(join('/proc', String(pid), 'ns', 'pid'));
  } catch {
    return undefined;
  }
}

/** The kernel keeps 15 characters of a program's name. */
async function programName(pid: number): Promise<string | undefined> {
  try {
    return (await readFile(`/proc/${pid}/comm`, 'utf8')).trimEnd();
  } catch {
    return undefined;
  }
}
