/** `agent snapshot`: what runs in the Job of an EtcdSnapshot. */
import { readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import type { EtcdSnapshotStatus } from '../../api/etcdsnapshot.gen.ts';
import { createEtcdClients } from '../adapters/etcd/clients.ts';
import { HOPELESS } from '../core/snapshots/agent-job.ts';
import { retentionRules } from '../core/snapshots/schedule-plan.ts';
import {
  MEMBER_TLS_MOUNT,
  ORDER_VARIABLE,
  ROOT_PASSWORD_VARIABLE,
  type SnapshotAgentOrder,
} from '../core/snapshots/snapshot-job.ts';
import type { AgentReport } from '../core/snapshots/snapshot-plan.ts';
import { keyIn } from '../core/snapshots/store-access.ts';
import type { EtcdEndpoint } from '../ports/etcd.ts';
import { type SnapshotStore, StoreFault, type StoreFaultReason } from '../ports/snapshot-store.ts';
import { applyRetention, type RetentionOrder } from './apply-retention.ts';
import { openStore } from './open-store.ts';
import { keysOf } from './snapshot-keys.ts';
import { type Progress, takeSnapshot } from './take-snapshot.ts';

const TERMINATION_LOG = '/dev/termination-log';

/** Another try in this Job would meet the same. */
const hopeless: ReadonlySet<StoreFaultReason> = new Set(['AccessDenied', 'BucketMissing', 'TakenByOther', 'ClockSkew']);

const report = async (value: AgentReport, file: string): Promise<void> => {
  const text = JSON.stringify(value);
  process.stdout.write(`${text}\n`);
  await writeFile(file, text);
};

/** What is mounted, is used: an absent file means that the cluster has no such thing. */
const mounted = async (file: string): Promise<Uint8Array | undefined> =>
  readFile(join(MEMBER_TLS_MOUNT, file)).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  });

const memberEndpoint = async (): Promise<(url: string) => EtcdEndpoint> => {
  const [ca, certificate, key] = await Promise.all(['server/ca.crt', 'client/tls.crt', 'client/tls.key'].map(mounted));
  const password = process.env[ROOT_PASSWORD_VARIABLE];
  return (url) => ({
    url,
    ...(ca === undefined ? {} : { tls: { ca, certificate, key } }),
    ...(password === undefined ? {} : { auth: { username: 'root', password } }),
  });
};

/** The snapshot is stored by now, and stays a good one whatever becomes of the old ones. */
const retentionOf = async (of: {
  readonly store: SnapshotStore;
  readonly order: RetentionOrder;
  readonly signal: AbortSignal;
}): Promise<NonNullable<EtcdSnapshotStatus['retention']>> => {
  try {
    const { removed, count, sizeBytes, oldest, error } = await applyRetention(of.order, of.store, Date.now(), {
      signal: of.signal,
    });
    return {
      removed: [...removed],
      count,
      sizeBytes: Number(sizeBytes),
      ...(oldest === undefined ? {} : { oldest }),
      ...(error === undefined ? {} : { error: error.message.slice(0, 500) }),
    };
  } catch (error) {
    return { error: (error instanceof Error ? error.message : String(error)).slice(0, 500) };
  }
};

export const snapshotCommand = async ({
  volume,
  keys: keysFolder,
  port,
}: {
  readonly volume: string;
  readonly keys: string;
  readonly port: number;
}): Promise<number> => {
  const order = JSON.parse(process.env[ORDER_VARIABLE] ?? 'null') as SnapshotAgentOrder | null;
  if (order === null)
    throw new Error(`${ORDER_VARIABLE} holds no order: this command is for the Job of an EtcdSnapshot`);
  let progress: Progress = { bytes: 0n, expected: 0n };
  let streaming: number | undefined;
  const server = createServer((_, response) => {
    response.setHeader('content-type', 'application/json');
    const seconds = Math.max(1, (performance.now() - (streaming ?? performance.now())) / 1_000);
    response.end(
      JSON.stringify({
        bytes: String(progress.bytes),
        expected: String(progress.expected),
        bytesPerSecond: String(Math.round(Number(progress.bytes) / seconds)),
      }),
    );
  }).listen(port);
  // Progress is for people who look. No snapshot fails because nobody could.
  server.on('error', () => undefined);
  const ending = new AbortController();
  process.once('SIGTERM', () => ending.abort(new Error('the Pod is ending')));
  const etcd = createEtcdClients();
  const termination = process.env.ETCD_OPERATOR_TERMINATION_LOG ?? TERMINATION_LOG;
  try {
    const endpoint = await memberEndpoint();
    const keys = await keysOf(order.destination, keysFolder);
    const store = await openStore(order.destination, volume);
    const prefix = keyIn(order.destination);
    try {
      const { uri, key, manifest } = await takeSnapshot(
        { ...order, prefix, schedule: order.schedule?.name },
        {
          store,
          etcd,
          endpoint,
          now: () => new Date(),
          key: keys?.current,
          onProgress: (now) => {
            streaming ??= performance.now();
            progress = now;
          },
          signal: ending.signal,
        },
      );
      const { schedule, cluster } = order;
      const retention =
        schedule === undefined
          ? undefined
          : await retentionOf({
              store,
              order: {
                schedule: schedule.name,
                clusterUID: cluster.uid,
                namespace: cluster.namespace,
                cluster: cluster.name,
                prefix,
                rules: retentionRules(schedule.retention),
              },
              signal: ending.signal,
            });
      await report({ done: true, uri, key, manifest, ...(retention === undefined ? {} : { retention }) }, termination);
      return 0;
    } finally {
      store.close();
    }
  } catch (error) {
    const name = error instanceof StoreFault ? error.reason : error instanceof Error ? error.name : 'Unknown';
    const words = error instanceof Error ? error.message : String(error);
    const message = ending.signal.aborted ? 'its Pod was ended before the snapshot was whole' : words;
    await report({ done: false, reason: name, message: message.slice(0, 1_500) }, termination);
    return error instanceof StoreFault && hopeless.has(error.reason) ? HOPELESS : 1;
  } finally {
    server.close();
    etcd.close();
  }
};
