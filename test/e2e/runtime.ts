/** The runtime under test: the Deployment in the cluster, or for a while a process here that can be killed at any moment. */
import { type ChildProcess, spawn } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parse, stringify } from 'yaml';
import { runtimeName, systemNamespace } from '../../deploy/names.ts';
import type { Cluster } from '../cluster/cluster.ts';
import { run } from '../cluster/command.ts';

const LOG_LINES = 40;

/** Where a runtime that was started by hand writes its log. */
const ownLog = (): string | undefined => process.env.ETCD_OPERATOR_E2E_RUNTIME_LOG;
/** The program that starts and ends it, with its first arguments; called with `start` or `stop`. */
const ownControl = (): string | undefined => process.env.ETCD_OPERATOR_E2E_RUNTIME_CONTROL;

/** The last lines of the runtime's log that are about a namespace. */
export const runtimeLog = async (cluster: Cluster, namespace: string): Promise<string> => {
  const file = hostRuntimeLog ?? ownLog();
  try {
    const text =
      file === undefined
        ? await cluster.kubectl(
            ['-n', systemNamespace, 'logs', '-l', `app.kubernetes.io/name=${runtimeName}`, '--tail=2000'],
            { timeoutMs: 15_000 },
          )
        : await readFile(file, 'utf8');
    const lines = text.split('\n').filter((line) => line.includes(namespace) || line.includes('"level":5'));
    return lines
      .slice(-LOG_LINES)
      .map((line) => line.slice(0, 600))
      .join('\n');
  } catch (error) {
    return String(error);
  }
};

let hostRuntimeLog: string | undefined;

const scaleRuntime = async (cluster: Cluster, replicas: number): Promise<void> => {
  await cluster.kubectl(['-n', systemNamespace, 'scale', `deployment/${runtimeName}`, `--replicas=${replicas}`]);
  const selector = ['-l', `app.kubernetes.io/name=${runtimeName}`];
  if (replicas === 0) {
    await cluster.kubectl(['-n', systemNamespace, 'wait', 'pods', ...selector, '--for=delete', '--timeout=60s']);
  } else {
    await cluster.kubectl([
      ...['-n', systemNamespace, 'rollout', 'status', `deployment/${runtimeName}`, '--timeout=60s'],
    ]);
  }
};

/** Everything that the runtimes of this moment have written, whoever it is about. */
export const wholeRuntimeLog = async (cluster: Cluster): Promise<string> => {
  const file = hostRuntimeLog ?? ownLog();
  return file === undefined
    ? cluster.kubectl(
        ['-n', systemNamespace, 'logs', '-l', `app.kubernetes.io/name=${runtimeName}`, '--tail=-1', '--prefix'],
        { timeoutMs: 60_000 },
      )
    : readFile(file, 'utf8');
};

/** Runs `body` while no runtime runs anywhere. */
export const withoutRuntime = async (cluster: Cluster, body: () => Promise<void>): Promise<void> => {
  const [program, ...first] = ownControl()?.split(' ') ?? [];
  if (program !== undefined) {
    await run([program, ...first, 'stop'], { timeoutMs: 60_000 });
    try {
      await body();
    } finally {
      await run([program, ...first, 'start'], { timeoutMs: 120_000 });
    }
    return;
  }
  const before = await cluster.kubectl([
    ...['-n', systemNamespace, 'get', `deployment/${runtimeName}`, '-o', 'jsonpath={.spec.replicas}'],
  ]);
  await scaleRuntime(cluster, 0);
  try {
    await body();
  } finally {
    await scaleRuntime(cluster, Number(before));
  }
};

/** The admin's kubeconfig with the rights of the runtime's own account in place of the admin's. */
export const runtimeKubeconfig = async (cluster: Cluster, folder: string): Promise<string> => {
  const token = await cluster.kubectl(['-n', systemNamespace, 'create', 'token', runtimeName, '--duration=1h']);
  const config = parse(await readFile(cluster.kubeconfigPath, 'utf8')) as { users: { name: string; user: unknown }[] };
  for (const entry of config.users) entry.user = { token: token.trim() };
  const file = join(folder, 'kubeconfig');
  await writeFile(file, stringify(config), { mode: 0o600 });
  return file;
};

/** What its Jobs and seeding Pods run from; it has no Pod of its own here to find that out by. */
export const agentImage = async (cluster: Cluster): Promise<string> => {
  const own = process.env.ETCD_OPERATOR_E2E_AGENT_IMAGE;
  if (own !== undefined) return own;
  const path = 'jsonpath={.spec.template.spec.containers[0].image}';
  return (await cluster.kubectl(['-n', systemNamespace, 'get', `deployment/${runtimeName}`, '-o', path])).trim();
};

export type HostRuntime = {
  /** SIGKILL, in the middle of whatever it does; a new process starts at once. */
  kill(): Promise<void>;
  /** How often it was started. */
  starts(): number;
  stop(): Promise<void>;
};

/**
 * A runtime as a process of this machine, with the rights of the one in the cluster. Call it only within
 * {@link withoutRuntime}: two would act on the same clusters, each with a lease of its own.
 */
export const hostRuntime = async (
  cluster: Cluster,
  options: {
    readonly logFile: string;
    readonly kubeconfig: string;
    /** `namespace/name` of the clusters it looks after; absent: all. */
    readonly clusters?: string;
    readonly agentImage?: string;
    readonly env?: Readonly<Record<string, string>>;
  },
): Promise<HostRuntime> => {
  const { openSync } = await import('node:fs');
  const log = openSync(options.logFile, 'a');
  hostRuntimeLog = options.logFile;
  let child: ChildProcess | undefined;
  let starts = 0;
  const start = (): void => {
    starts += 1;
    child = spawn(
      process.execPath,
      [
        join(import.meta.dirname, '../../runtime/main.ts'),
        ...[
          '--lease-namespace',
          systemNamespace,
          '--health-address',
          '127.0.0.1:0',
          '--metrics-address',
          '127.0.0.1:0',
          ...(options.clusters === undefined ? [] : ['--clusters', options.clusters]),
          ...(options.agentImage === undefined ? [] : ['--agent-image', options.agentImage]),
        ],
      ],
      // The same name each time, as a container has that starts again in its Pod.
      {
        env: { ...cluster.env, KUBECONFIG: options.kubeconfig, POD_NAME: 'e2e-host', ...options.env },
        stdio: ['ignore', log, log],
      },
    );
  };
  const end = async (signal: 'SIGKILL' | 'SIGTERM'): Promise<void> => {
    const process_ = child;
    if (process_ === undefined || process_.exitCode !== null || process_.signalCode !== null) return;
    const ended = new Promise((resolve) => process_.once('exit', resolve));
    process_.kill(signal);
    await ended;
  };
  start();
  return {
    kill: async () => {
      await end('SIGKILL');
      start();
    },
    starts: () => starts,
    stop: async () => {
      await end('SIGTERM');
      hostRuntimeLog = undefined;
    },
  };
};
