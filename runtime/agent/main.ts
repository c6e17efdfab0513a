/**
 * The steps of a seeding Pod that are ours; the others are etcd's own programs. Each can be done again from its beginning.
 * What it finds out goes to the termination message, where the runtime reads it without access to logs.
 */
import { access, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { Command } from 'commander';
import { createMemberClient } from '../adapters/etcd/member-client.ts';
import { formerPasswords } from '../core/in-use-secret.ts';
import { AGENT_PORT } from '../core/snapshots/snapshot-job.ts';
import { KEYS_MOUNT, STORE_MOUNT } from '../core/snapshots/store-access.ts';
import type { EtcdMemberClient, EtcdMemberStatus } from '../ports/etcd.ts';
import { copyData, sync } from './copied-data.ts';
import { decryptFile } from './decrypted-file.ts';
import { fetchCommand } from './fetch-snapshot.ts';
import { checkCommand } from './opened-data.ts';
import { placeData, wasPlaced } from './placed-data.ts';
import { compareRestored, fetchToProve, reported } from './prove-snapshot.ts';
import { saveSnapshot } from './saved-snapshot.ts';
import { snapshotCommand } from './snapshot-command.ts';

const RESULT = 'saved.json';
const ASK_AGAIN_MS = 500;
/** A large log takes minutes to replay. */
const ANSWER_WITHIN_MS = 600_000;

const say = (what: object): void => {
  process.stdout.write(`${JSON.stringify(what)}\n`);
};

const exists = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  );

const answerOf = async (client: EtcdMemberClient): Promise<EtcdMemberStatus> => {
  const end = performance.now() + ANSWER_WITHIN_MS;
  for (;;) {
    try {
      const status = await client.status();
      if (status.leaderId === status.memberId) return status;
    } catch (error) {
      if (performance.now() > end) throw error;
    }
    if (performance.now() > end) throw new Error('etcd runs on the copy and elects no leader');
    await pause(ASK_AGAIN_MS);
  }
};

const program = new Command('agent').description(
  'What runs in the Pods that the runtime makes beside the members: seeding and snapshots.',
);

program
  .command('copy')
  .description("copy a survivor's data directory; the survivor's volume is only read")
  .requiredOption('--from <directory>', "etcd's data directory of the survivor")
  .requiredOption('--work <directory>', 'where to work, on the new volume')
  .action(async ({ from, work }: { from: string; work: string }) => {
    say({ copied: from, ...(await copyData(from, work)) });
  });

program
  .command('save')
  .description('take a snapshot of the etcd that runs on the copy, and verify it')
  .requiredOption('--endpoint <url>', 'client URL of that etcd')
  .requiredOption('--work <directory>', 'where to work, on the new volume')
  .requiredOption('--cluster-id <hex>', 'the cluster that the data must be of')
  .action(async ({ endpoint, work, clusterId: wanted }: { endpoint: string; work: string; clusterId: string }) => {
    const { ETCD_USERNAME: username, ETCD_PASSWORD: password } = process.env;
    const client = createMemberClient({
      url: endpoint,
      ...(username === undefined || password === undefined ? {} : { auth: { username, password } }),
    });
    try {
      const { revision, version, clusterId } = await answerOf(client);
      if (clusterId !== wanted) {
        throw new Error(
          `the data is of cluster ${clusterId}, not of the lost cluster ${wanted}: nothing is recovered from it`,
        );
      }
      const saved = await saveSnapshot(client, join(work, 'snapshot.db'));
      const result = { revision: String(revision), version, ...saved };
      await writeFile(join(work, RESULT), JSON.stringify(result));
      say({ saved: join(work, 'snapshot.db'), ...result });
    } finally {
      client.close();
    }
  });

program
  .command('fetch')
  .description('bring the stored snapshot that the environment names onto the new volume, and verify it')
  .requiredOption('--work <directory>', 'where to work, on the new volume')
  .action(async ({ work }: { work: string }) => {
    // What it would fetch was used long ago, and the store may be away.
    if (await wasPlaced(work)) say({ fetched: 'before' });
    else say({ fetched: await fetchCommand(work, RESULT) });
  });

program
  .command('place')
  .description('put the restored data into the memory of the member, once')
  .requiredOption('--work <directory>', "where it was restored, on the node's disk")
  .requiredOption('--to <directory>', "etcd's data directory, in memory")
  .action(async ({ work, to }: { work: string; to: string }) => {
    say({ placed: await placeData(work, to) });
  });

program
  .command('check')
  .description('compare the data that etcd has opened with what its manifest promises')
  .requiredOption('--endpoint <url>', 'client URL of that etcd')
  .requiredOption('--work <directory>', 'where to work, on the new volume')
  .action(async ({ endpoint, work }: { endpoint: string; work: string }) => {
    const { ETCD_USERNAME: username, ETCD_PASSWORD: password, ETCD_FORMER_PASSWORDS: former } = process.env;
    const client = createMemberClient({ url: endpoint });
    const roots =
      username === undefined || password === undefined
        ? []
        : [password, ...formerPasswords(former)].map((one) =>
            createMemberClient({ url: endpoint, auth: { username, password: one } }),
          );
    try {
      say({ opened: await checkCommand(work, RESULT, { client, roots }) });
    } finally {
      for (const one of [client, ...roots]) one.close();
    }
  });

program
  .command('report')
  .description('put the restored data in its place and tell what was done')
  .requiredOption('--work <directory>', 'where to work, on the new volume')
  .requiredOption('--to <directory>', "etcd's data directory of the new member")
  .option('--message <file>', 'where the termination message goes', '/dev/termination-log')
  .action(async ({ work, to, message }: { work: string; to: string; message: string }) => {
    const result = await readFile(join(work, RESULT), 'utf8');
    const restored = join(work, 'restored');
    // A Pod that was made anew after this step had been done: the member's data is never put in place a second time.
    if (await exists(to)) await rm(restored, { recursive: true, force: true });
    else await rename(restored, to);
    await sync(to);
    await sync(dirname(to));
    await rm(join(work, 'copy'), { recursive: true, force: true });
    await rm(join(work, 'opened'), { recursive: true, force: true });
    await writeFile(message, result);
    process.stdout.write(`${result}\n`);
  });

program
  .command('snapshot')
  .description('take the snapshot that the environment orders, and store it')
  .option('--volume <directory>', 'where a volume that it is stored on is mounted', STORE_MOUNT)
  .option('--keys <directory>', 'where the keys that it is encrypted with are mounted', KEYS_MOUNT)
  .option('--port <number>', 'where its progress is told', Number, AGENT_PORT)
  .action(async (options: { volume: string; keys: string; port: number }) => {
    process.exitCode = await snapshotCommand(options);
  });

program
  .command('decrypt')
  .description('make a plain snapshot file of an encrypted one, for etcdutl; for people, beside the operator')
  .requiredOption('--keys <directory>', 'a file for each key, as the Secret holds them')
  .requiredOption('--from <file>', 'the stored object')
  .requiredOption('--to <file>', 'where the snapshot goes; it is there only once all of it was found right')
  .action(async ({ keys, from, to }: { keys: string; from: string; to: string }) => {
    say({ decrypted: to, ...(await decryptFile({ keys, from, to })) });
  });

program
  .command('proof-fetch')
  .description(
    'bring the stored snapshot that is to be proven onto the volume of its proof, and compare it with its manifest',
  )
  .requiredOption('--work <directory>', 'where to work')
  .action(async ({ work }: { work: string }) => {
    process.exitCode = await reported(() => fetchToProve(work));
  });

program
  .command('proof-compare')
  .description('compare what an etcd on the restored data serves with the manifest')
  .requiredOption('--work <directory>', 'where proof-fetch has worked')
  .requiredOption('--endpoint <url>', 'client URL of that etcd')
  .action(async ({ work, endpoint }: { work: string; endpoint: string }) => {
    process.exitCode = await reported(() => compareRestored(work, endpoint));
  });

try {
  await program.parseAsync();
} catch (error) {
  // The last line becomes the termination message.
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exit(1);
}
