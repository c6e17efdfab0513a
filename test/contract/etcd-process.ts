/** Real etcd, as processes on loopback with a directory of their own. */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { access, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { ensureEtcd } from '../cluster/builds.ts';

/** The server's binary: from the directory in ETCD_BIN_DIR (`etcd-3.6.16`), else built once into the cluster's cache. */
export const etcdBinary = async (version: string): Promise<string> => {
  const directory = process.env.ETCD_BIN_DIR;
  if (directory !== undefined) {
    const binary = join(directory, `etcd-${version}`);
    await access(binary);
    return binary;
  }
  return ensureEtcd(version);
};

/** Ports that nobody listened on a moment ago. All are held at once, so no two of them are the same. */
export const freePorts = async (count: number): Promise<readonly number[]> => {
  const servers = Array.from({ length: count }, () => createServer().listen(0, '127.0.0.1'));
  await Promise.all(servers.map((server) => once(server, 'listening')));
  const ports = servers.map((server) => {
    const address = server.address();
    if (address === null || typeof address === 'string') throw new TypeError('a TCP server has a port');
    return address.port;
  });
  await Promise.all(servers.map((server) => new Promise((done) => server.close(done))));
  return ports;
};

export type Ended = {
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | null;
  /** What a Pod's status would show: the last 2048 bytes or 80 lines of output. */
  readonly terminationMessage: string;
};

export type EtcdProcess = {
  readonly pid: number;
  readonly ended: Promise<Ended>;
  /** Everything it printed so far. */
  output(): string;
  /** Resolves with the first line that matches; rejects when the process ends without one. */
  saw(pattern: RegExp, withinMs?: number): Promise<string>;
  /** Stops it where it stands; resolves once none of its threads runs any more. */
  freeze(withinMs?: number): Promise<void>;
  thaw(): void;
  stop(signal?: NodeJS.Signals): Promise<Ended>;
};

const TERMINATION_BYTES = 2048;
const TERMINATION_LINES = 80;

const terminationMessageOf = (output: string): string => {
  const lines = output.split('\n').slice(-TERMINATION_LINES - 1);
  const bytes = Buffer.from(lines.join('\n'));
  return bytes.subarray(Math.max(0, bytes.length - TERMINATION_BYTES)).toString('utf8');
};

/** Whether every thread is stopped, by the state that stands behind the name in parentheses (proc_pid_stat(5)). */
const isFrozen = async (pid: number): Promise<boolean> => {
  const tasks = `/proc/${pid}/task`;
  const stats = await Promise.all((await readdir(tasks)).map((task) => readFile(join(tasks, task, 'stat'), 'utf8')));
  return stats.every((stat) => stat.slice(stat.lastIndexOf(')') + 2).startsWith('T'));
};

/** A directory that goes with the test, and the processes started in it. */
export class EtcdWorkbench implements AsyncDisposable {
  readonly #children = new Set<ChildProcess>();
  readonly directory: string;

  private constructor(directory: string) {
    this.directory = directory;
  }

  static async open(): Promise<EtcdWorkbench> {
    return new EtcdWorkbench(await mkdtemp(join(tmpdir(), 'etcd-contract-')));
  }

  /** Starts etcd with this configuration file and nothing else. */
  async start(version: string, name: string, configFile: string): Promise<EtcdProcess> {
    const binary = await etcdBinary(version);
    const home = join(this.directory, name);
    await mkdir(home, { recursive: true });
    const file = join(home, 'etcd.yaml');
    await writeFile(file, configFile);

    const child = spawn(binary, ['--config-file', file], { cwd: home, env: {}, stdio: ['ignore', 'pipe', 'pipe'] });
    this.#children.add(child);
    await once(child, 'spawn');
    const { pid } = child;
    if (pid === undefined) throw new TypeError('a spawned process has an id');

    let text = '';
    const watchers = new Set<() => void>();
    const onText = (piece: Buffer) => {
      text += piece.toString('utf8');
      for (const look of watchers) look();
    };
    child.stdout.on('data', onText);
    child.stderr.on('data', onText);
    const ended = once(child, 'close').then(([exitCode, signal]: unknown[]): Ended => {
      this.#children.delete(child);
      return {
        exitCode: exitCode as number | null,
        signal: signal as NodeJS.Signals | null,
        terminationMessage: terminationMessageOf(text),
      };
    });

    return {
      pid,
      ended,
      output: () => text,
      saw: (pattern, withinMs = 20_000) =>
        new Promise((resolve, reject) => {
          const finish = (settle: () => void) => {
            watchers.delete(look);
            clearTimeout(timer);
            settle();
          };
          const look = () => {
            const line = text.split('\n').find((candidate) => pattern.test(candidate));
            if (line !== undefined) finish(() => resolve(line));
          };
          const fail = (why: string) =>
            finish(() => reject(new Error(`${name} ${why} without ${pattern}:\n${text.slice(-4000)}`)));
          const timer = setTimeout(() => fail(`ran ${withinMs} ms`), withinMs);
          watchers.add(look);
          void ended.then(() => fail('ended'));
          look();
        }),
      freeze: async (withinMs = 20_000) => {
        child.kill('SIGSTOP');
        // The others run on until the thread that got the signal has had a processor, and may answer meanwhile.
        const deadline = performance.now() + withinMs;
        while (!(await isFrozen(pid))) {
          if (performance.now() > deadline) throw new Error(`${name} still runs ${withinMs} ms after SIGSTOP`);
          await delay(5);
        }
      },
      thaw: () => {
        child.kill('SIGCONT');
      },
      stop: async (signal = 'SIGTERM') => {
        child.kill(signal);
        // A stopped process takes no SIGTERM until it runs again.
        if (signal !== 'SIGKILL') child.kill('SIGCONT');
        return ended;
      },
    };
  }

  /** What a member left on its disk, for tests that break it. */
  path(...parts: string[]): string {
    return join(this.directory, ...parts);
  }

  async write(text: string, ...parts: string[]): Promise<void> {
    const file = this.path(...parts);
    await mkdir(dirname(file), { recursive: true });
    await writeFile(file, text);
  }

  async read(...parts: string[]): Promise<Buffer> {
    return readFile(this.path(...parts));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const left = [...this.#children];
    const gone = left.map((child) =>
      child.exitCode === null && child.signalCode === null ? once(child, 'close') : [],
    );
    for (const child of left) child.kill('SIGKILL');
    await Promise.all(gone);
    await rm(this.directory, { recursive: true, force: true });
  }
}
