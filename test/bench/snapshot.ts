/**
 * A snapshot of a large database, taken by the agent as its Job runs it, beside what people do by hand in the same minutes:
 * `etcdctl snapshot save` to a file, and an upload of that file. Real etcd, real S3 server, each program a process of its own.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { loadavg, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import { bundle, programs } from '../../deploy/bundle.ts';
import { createEtcdClients } from '../../runtime/adapters/etcd/clients.ts';
import { createS3Store } from '../../runtime/adapters/s3/s3-store.ts';
import { etcdConfigFile } from '../../runtime/core/etcd-config.ts';
import { AGENT } from '../../runtime/core/seeding.ts';
import type { SnapshotManifest } from '../../runtime/core/snapshots/manifest.ts';
import { ORDER_VARIABLE, type SnapshotAgentOrder } from '../../runtime/core/snapshots/snapshot-job.ts';
import { connect } from '../cluster/cluster.ts';
import { EtcdWorkbench, etcdBinary, freePorts } from '../contract/etcd-process.ts';
import { configOf } from '../contract/etcd-real.ts';
import { bucketIn } from '../e2e/bucket.ts';
import { VERSION } from '../e2e/claim.ts';
import { median } from './cluster.ts';
import type { Measurement } from './function.ts';

const MIB = 1024 * 1024;
const DATABASE_MIB = Number(process.env.ETCD_OPERATOR_BENCH_DATABASE_MIB ?? 2_048);
const RUNS = Number(process.env.ETCD_OPERATOR_BENCH_RUNS ?? 3);
const SAMPLE_MS = 200;
const AT_A_TIME = 4;
const BUDGET = 0.9;

const say = (line: string): void => {
  process.stdout.write(`${line}\n`);
};

type Ran = {
  readonly seconds: number;
  /** Of a processor, by this process: the figure that tells least of who else uses the machine. */
  readonly processorSeconds: number;
  readonly memoryMiB: readonly number[];
  readonly peakMiB: number;
};

/** `utime` and `stime` of proc(5), in clock ticks, of which Linux counts 100 a second for everybody. */
const processorSecondsOf = async (pid: number): Promise<number | undefined> => {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
  // After the program's name, which may hold anything.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return fields.length < 13 ? undefined : (Number(fields[11]) + Number(fields[12])) / 100;
};

const memoryOf = async (pid: number): Promise<{ readonly now: number; readonly peak: number } | undefined> => {
  const text = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
  const read = (name: string): number => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(text)?.[1]) / 1024;
  return text.includes('VmRSS') ? { now: read('VmRSS'), peak: read('VmHWM') } : undefined;
};

/** From its start to its end, with its resident memory and processor time on the way. Rejects where it fails, with what it printed. */
const ran = async (command: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<Ran> => {
  const started = performance.now();
  const child: ChildProcess = spawn(command, args, {
    env: { PATH: process.env.PATH, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  child.stdout?.on('data', (piece: Buffer) => (output += piece.toString()));
  child.stderr?.on('data', (piece: Buffer) => (output += piece.toString()));
  let ended: number | undefined;
  const over = once(child, 'close').then(([code]) => {
    ended = performance.now();
    return code as number | null;
  });
  const memoryMiB: number[] = [];
  let peakMiB = 0;
  let processorSeconds = 0;
  while (ended === undefined) {
    const memory = await memoryOf(child.pid ?? 0);
    if (memory !== undefined) {
      memoryMiB.push(memory.now);
      peakMiB = Math.max(peakMiB, memory.peak);
    }
    processorSeconds = (await processorSecondsOf(child.pid ?? 0)) ?? processorSeconds;
    await Promise.race([over, pause(SAMPLE_MS)]);
  }
  const code = await over;
  if (code !== 0) throw new Error(`${command} ${args[0]} ended with ${code}: ${output.slice(-2_000)}`);
  return { seconds: (ended - started) / 1_000, processorSeconds, memoryMiB, peakMiB };
};

const seconds = (ran: Ran): number => ran.seconds;
const processorSeconds = (ran: Ran): number => ran.processorSeconds;
const loadNow = (): string => (loadavg()[0] ?? 0).toFixed(1);

type Etcd = { readonly url: string; readonly clusterID: string; readonly databaseMiB: number; readonly tools: string };

/** One member with so many keys of 1 MiB. Without fsync: filling it is no part of what is measured, and reading it syncs nothing. */
const filledEtcd = async (bench: EtcdWorkbench): Promise<Etcd> => {
  const [peer, client, metrics] = await freePorts(3);
  const [url, peerURL] = [`http://127.0.0.1:${client}`, `http://127.0.0.1:${peer}`];
  const place = { name: 'm0', peerURL, clientURL: url, metricsURL: `http://127.0.0.1:${metrics}` };
  const config = configOf(VERSION, place, bench.path('m0', 'data'), {
    initialCluster: [place],
    state: 'new',
    token: 'bench',
  });
  const file = `${etcdConfigFile(config)}\nquota-backend-bytes: ${8 * 1024 * MIB}\nunsafe-no-fsync: true\n`;
  await bench.start(VERSION, 'm0', file);
  const clients = createEtcdClients();
  try {
    const etcd = clients.at({ url });
    while ((await etcd.status().catch(() => undefined))?.leaderId === undefined) await pause(100);
    let next = 0;
    const fill = async (): Promise<void> => {
      while (next < DATABASE_MIB) {
        const key = `key-${String(next++).padStart(6, '0')}`;
        await etcd.put(key, randomBytes(MIB), { deadlineMs: 60_000 });
      }
    };
    await Promise.all(Array.from({ length: AT_A_TIME }, fill));
    const { clusterId, dbSize } = await etcd.status();
    const tools = dirname(await etcdBinary(VERSION));
    return { url, clusterID: clusterId, databaseMiB: Number(dbSize / BigInt(MIB)), tools };
  } finally {
    clients.close();
  }
};

/** Ten of them, evenly over the time: what a person looks at to see whether it grows. */
const tenOf = (values: readonly number[]): string =>
  Array.from({ length: 10 }, (_, n) => values[Math.floor(((n + 0.5) * values.length) / 10)] ?? 0)
    .map((value) => value.toFixed(0))
    .join(' ');

/** From the second fifth of the time, when the connections and buffers are there, to the last: nothing, where memory is flat. */
const growthOf = ({ memoryMiB }: Ran): number => {
  const fifth = (n: number): number =>
    median(memoryMiB.slice(Math.floor((n * memoryMiB.length) / 5), Math.ceil(((n + 1) * memoryMiB.length) / 5)));
  return fifth(4) - fifth(1);
};

type Way = {
  readonly what: string;
  /** By hand, what it is measured against. */
  readonly against?: string;
  /** The part of that which does the same. */
  readonly alone?: string;
  /** @param run a name that no other run has */
  take(run: string): Promise<Ran>;
  /** Whatever it stored. */
  clear(run: string): Promise<void>;
};

export const benchSnapshot = async (): Promise<Measurement[]> => {
  const cluster = await connect({ addons: ['s3'], progress: () => undefined });
  const { s3 } = cluster;
  if (s3 === undefined) throw new Error('this cluster has no S3 server');
  const bucket = await bucketIn(cluster, 'bench-snapshot');
  const scratch = await mkdtemp(join(tmpdir(), 'bench-snapshot-'));
  await using workbench = await EtcdWorkbench.open();
  const store = createS3Store({
    endpoint: s3.hostEndpoint,
    bucket: bucket.name,
    region: s3.region,
    credentials: { accessKeyId: s3.accessKey, secretAccessKey: s3.secretKey },
  });
  try {
    const agent = join(await bundle(programs.runtime, join(scratch, 'build')), 'lib/agent.mjs');
    // As the Job starts it.
    const flags = AGENT.slice(1, -1);
    const etcd = await filledEtcd(workbench);
    say(
      `database of ${etcd.databaseMiB} MiB, etcd ${VERSION}; ${RUNS} rounds of all ways, one after the other; load ${loadNow()}`,
    );
    const [volume, keys, byHand] = ['volume', 'keys', 'by-hand'].map((name) => join(scratch, name)) as [
      string,
      string,
      string,
    ];
    for (const folder of [volume, keys, byHand]) await mkdir(folder);
    await promisify(execFile)('sh', ['-c', `head -c 32 /dev/urandom | base64 > ${keys}/key`]);
    const credentials = { AWS_ACCESS_KEY_ID: s3.accessKey, AWS_SECRET_ACCESS_KEY: s3.secretKey };
    const inBucket = { s3: { endpoint: s3.hostEndpoint, bucket: bucket.name, region: s3.region } };
    const onVolume = { pvc: { claimName: 'backups' } };
    const encryption = { keySecretRef: { name: 'keys' } };

    const byAgent = (what: string, destination: SnapshotAgentOrder['destination'], alone?: string): Way => ({
      what,
      against: uploaded,
      ...(alone === undefined ? {} : { alone }),
      take: async (run) => {
        const order: SnapshotAgentOrder = {
          snapshot: { name: run, uid: run },
          cluster: { namespace: 'bench', name: 'bench', uid: 'bench', clusterID: etcd.clusterID },
          members: [{ member: 'bench-0', url: etcd.url }],
          destination,
        };
        return ran(process.execPath, [...flags, agent, 'snapshot', '--volume', volume, '--keys', keys, '--port', '0'], {
          ...credentials,
          [ORDER_VARIABLE]: JSON.stringify(order),
          ETCD_OPERATOR_TERMINATION_LOG: join(scratch, 'report'),
        });
      },
      clear: async () => {
        await rm(join(volume, 'bench'), { recursive: true, force: true });
        for await (const { key } of store.list('bench/')) await store.remove(key);
      },
    });
    const save = (file: string): Promise<Ran> =>
      ran(join(etcd.tools, 'etcdctl'), ['--endpoints', etcd.url, '--command-timeout', '10m', 'snapshot', 'save', file]);
    const upload = (file: string, key: string): Promise<Ran> =>
      ran(
        process.execPath,
        [join(import.meta.dirname, 'upload-file.ts'), file, s3.hostEndpoint, bucket.name, key],
        credentials,
      );
    const [saved, uploaded] = ['by hand: save to a file', 'by hand: save, then upload of the file'];
    const ways: readonly Way[] = [
      byAgent('agent: to the bucket', inBucket),
      {
        what: uploaded,
        take: async (run) => {
          const [first, then] = [await save(join(byHand, run)), await upload(join(byHand, run), `by-hand/${run}`)];
          say(`  of that the file ${first.seconds.toFixed(1)} s, the upload ${then.seconds.toFixed(1)} s`);
          const processorSeconds = first.processorSeconds + then.processorSeconds;
          return { ...then, processorSeconds, seconds: first.seconds + then.seconds };
        },
        clear: async (run) => {
          await rm(join(byHand, run));
          await store.remove(`by-hand/${run}`);
        },
      },
      byAgent('agent: to a volume', onVolume, saved),
      { what: saved, take: (run) => save(join(byHand, run)), clear: (run) => rm(join(byHand, run)) },
      byAgent('agent: to the bucket, encrypted', { ...inBucket, encryption }),
    ];

    const rounds: ReadonlyMap<string, Ran>[] = [];
    for (let round = 0; round < RUNS; round += 1) {
      const results = new Map<string, Ran>();
      // Each round begins with another way, so that none always comes after the same, or while the machine is coldest.
      for (const n of ways.keys()) {
        const way = ways[(n + round) % ways.length] as Way;
        const name = `run-${round}-${n}`;
        const before = loadNow();
        const result = await way.take(name);
        results.set(way.what, result);
        say(
          `${way.what}: ${result.seconds.toFixed(1)} s, processor ${result.processorSeconds.toFixed(1)} s (load ${before} to ${loadNow()})`,
        );
        if (way.against !== undefined)
          say(`  resident MiB ${tenOf(result.memoryMiB)}, peak ${result.peakMiB.toFixed(0)}`);
        // As a person would, by etcd's own tool.
        if (round === RUNS - 1 && way === ways[0]) await restorable(store, name, etcd, scratch);
        await way.clear(name);
      }
      rounds.push(results);
    }

    const ofAll = (what: string, figure: (ran: Ran) => number): number[] =>
      rounds.flatMap((results) => results.get(what) ?? []).map(figure);
    /** Round by round, since two rounds have the machine to themselves in different measure. */
    const ratio = (figure: (ran: Ran) => number, what: string, against: string): number =>
      median(rounds.map((results) => figure(results.get(against) as Ran) / figure(results.get(what) as Ran)));
    return ways.flatMap(({ what, against, alone }): Measurement[] => [
      { what: `${what}, median of ${RUNS}`, value: etcd.databaseMiB / median(ofAll(what, seconds)), unit: 'MiB/s' },
      { what: '  of a processor', value: median(ofAll(what, processorSeconds)), unit: 's' },
      ...(against === undefined
        ? []
        : [
            { what: '  against by hand', value: ratio(seconds, what, against), unit: '×', atLeast: BUDGET },
            { what: '  the same by processor time', value: ratio(processorSeconds, what, against), unit: '×' },
            ...(alone === undefined
              ? []
              : [
                  { what: '  against the file alone', value: ratio(seconds, what, alone), unit: '×' },
                  { what: '  the same by processor time', value: ratio(processorSeconds, what, alone), unit: '×' },
                ]),
            { what: '  most resident memory', value: Math.max(...ofAll(what, ({ peakMiB }) => peakMiB)), unit: 'MiB' },
            {
              what: '  its growth from the second fifth to the last',
              value: Math.max(...ofAll(what, growthOf)),
              unit: 'MiB',
            },
          ]),
    ]);
  } finally {
    for await (const { key } of store.list('')) await store.remove(key);
    store.close();
    await rm(scratch, { recursive: true, force: true });
  }
};

/** The stored object, restored by etcd's own tool and nothing else. */
const restorable = async (
  store: ReturnType<typeof createS3Store>,
  run: string,
  { tools }: Etcd,
  scratch: string,
): Promise<void> => {
  const key = `bench/bench/${run}-${run.slice(0, 8)}.db`;
  const file = join(scratch, 'restorable.db');
  const manifest = JSON.parse(
    Buffer.concat(await Array.fromAsync(store.read(`${key}.manifest.json`))).toString(),
  ) as SnapshotManifest;
  await pipeline(store.read(key), createWriteStream(file));
  const etcdutl = join(tools, 'etcdutl');
  const { stdout } = await promisify(execFile)(etcdutl, ['snapshot', 'status', file, '-w', 'json']);
  const { revision, totalKey } = JSON.parse(stdout) as { revision: number; totalKey: number };
  await promisify(execFile)(etcdutl, ['snapshot', 'restore', file, '--data-dir', join(scratch, 'restored')]);
  const [member] = await readdir(join(scratch, 'restored'));
  say(
    `restored by etcdutl into ${member}: revision ${revision}, ${totalKey} keys; the manifest says revision ${manifest.revision}`,
  );
  await rm(join(scratch, 'restored'), { recursive: true });
  await rm(file);
};
