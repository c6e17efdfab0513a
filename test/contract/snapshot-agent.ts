/** The agent of a snapshot's Job, as a process: with the order and the credentials that its Pod would have. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { S3Destination } from '../../runtime/adapters/s3/s3-store.ts';
import { parseReport } from '../../runtime/controllers/snapshots.ts';
import { ORDER_VARIABLE, type SnapshotAgentOrder } from '../../runtime/core/snapshots/snapshot-job.ts';
import type { AgentReport } from '../../runtime/core/snapshots/snapshot-plan.ts';

const main = join(import.meta.dirname, '../../runtime/agent/main.ts');

export type AgentEnd = {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  /** As the runtime reads it from the Pod; undefined where the agent wrote none. */
  readonly report: AgentReport | undefined;
  readonly output: string;
};

export type RunningAgent = {
  readonly ended: Promise<AgentEnd>;
  kill(signal: NodeJS.Signals): void;
};

/** @param store of the bucket, its endpoint and its credentials; @param port where it tells of its progress, any by default */
export const snapshotAgent = async (
  order: Omit<SnapshotAgentOrder, 'destination'>,
  store: S3Destination,
  port = 0,
): Promise<RunningAgent> => {
  const folder = await mkdtemp(join(tmpdir(), 'snapshot-agent-'));
  const message = join(folder, 'termination-log');
  const { endpoint, bucket, region = 'us-east-1', credentials } = store;
  const whole: SnapshotAgentOrder = { ...order, destination: { s3: { endpoint, bucket, region } } };
  const child = spawn(process.execPath, [main, 'snapshot', '--port', String(port)], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      [ORDER_VARIABLE]: JSON.stringify(whole),
      ETCD_OPERATOR_TERMINATION_LOG: message,
      AWS_ACCESS_KEY_ID: credentials?.accessKeyId ?? '',
      AWS_SECRET_ACCESS_KEY: credentials?.secretAccessKey ?? '',
    },
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (piece: Buffer) => (output += piece.toString()));
  const ended = once(child, 'close').then(async ([code, signal]): Promise<AgentEnd> => {
    const words = await readFile(message, 'utf8').catch(() => undefined);
    await rm(folder, { recursive: true, force: true });
    return {
      code: code as number | null,
      signal: signal as NodeJS.Signals | null,
      report: words === undefined ? undefined : parseReport(words),
      output,
    };
  });
  await once(child, 'spawn');
  return { ended, kill: (signal) => void child.kill(signal) };
};
