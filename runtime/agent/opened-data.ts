/** `agent check`: whether the data that etcd has opened is what the snapshot's manifest promises. */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { EtcdFault, type EtcdMemberClient } from '../ports/etcd.ts';
import { type Comparison, compareData } from './compared-data.ts';
import { type Fetched, Unrestorable } from './fetch-snapshot.ts';

export type Opened = {
  /** Decimal, as etcd says; the manifest's may be lower, since what was written while it was taken may be in it. */
  readonly revision: string;
  readonly keys: string;
  /** etcd's, where it was compared with the manifest's. */
  readonly hash?: string;
};

const ASK_AGAIN_MS = 500;
/** A restored database has no log to replay; one of some gibibytes is read once. */
const ANSWER_WITHIN_MS = 300_000;

export type CheckWith = {
  /** As nobody; then, where that is refused, as root, by each password that the runtime would log in with afterwards. */
  readonly client: EtcdMemberClient;
  readonly roots: readonly EtcdMemberClient[];
  readonly withinMs?: number;
};

const asRoot = async ({ roots }: CheckWith): Promise<EtcdMemberClient> => {
  if (roots.length === 0) {
    throw new Unrestorable(
      'AuthRequiredNotConfigured',
      'the data asks for passwords: set spec.auth of the EtcdCluster, with the password that root had when the snapshot was taken',
    );
  }
  for (const root of roots) {
    try {
      await root.get('/');
      return root;
    } catch (error) {
      const refused =
        error instanceof EtcdFault && (error.reason === 'InvalidAuth' || error.reason === 'PermissionDenied');
      if (!refused) throw error;
    }
  }
  throw new Unrestorable(
    'AuthCredentialsRejected',
    "when the snapshot was taken, root had a password that is neither the one in the cluster's Secret nor one of the last before it, so that nobody could log in after a restore: put that one into the Secret, wait until the cluster has taken it, then restore",
  );
};

/** The one of both that is let in, once etcd answers: it reads as soon as it leads itself. */
const letIn = async (by: CheckWith): Promise<EtcdMemberClient> => {
  const end = performance.now() + (by.withinMs ?? ANSWER_WITHIN_MS);
  for (;;) {
    try {
      await by.client.get('/');
      return by.client;
    } catch (error) {
      if (!(error instanceof EtcdFault)) throw error;
      if (error.reason === 'AuthRequired') return asRoot(by);
      if (performance.now() > end) {
        throw new Unrestorable('SnapshotNotOpened', `etcd was started on the data of the snapshot: ${error.message}`);
      }
    }
    await pause(ASK_AGAIN_MS);
  }
};

type Difference = NonNullable<Comparison['difference']>;

const words: Record<Difference['what'], (of: Difference, promised: Fetched) => string> = {
  revision: ({ found, promised }) => `etcd finds the data at revision ${found}, its manifest promises ${promised}`,
  keys: ({ found, promised }, { revision }) =>
    `etcd finds ${found} keys at revision ${revision}, its manifest promises ${promised}`,
  hash: ({ found, promised }, { revision }) =>
    `etcd finds hash ${found} at revision ${revision}, its manifest promises ${promised}: take another snapshot, and look at the member that this one came from`,
};

/** Throws {@link Unrestorable} where it is not what was promised. */
export const checkOpened = async (promised: Fetched, by: CheckWith): Promise<Opened> => {
  const client = await letIn(by);
  const status = await client.status();
  const { difference, hash, equal } = await compareData(
    {
      revision: BigInt(promised.revision),
      keys: promised.promisedKeys,
      hashKv: promised.hashKv,
      etcdVersion: promised.version,
    },
    status,
    client,
  );
  if (difference !== undefined) throw new Unrestorable('SnapshotDamaged', words[difference.what](difference, promised));
  return {
    revision: String(status.revision),
    keys: String(await client.countKeys(status.revision)),
    ...(equal.includes('hashKv') ? { hash: `${hash} at revision ${promised.revision}` } : {}),
  };
};

export const checkCommand = async (work: string, result: string, by: CheckWith): Promise<Opened> => {
  const path = join(work, result);
  const promised = JSON.parse(await readFile(path, 'utf8')) as Fetched;
  const opened = await checkOpened(promised, by);
  await writeFile(path, JSON.stringify({ ...promised, ...opened }));
  return opened;
};
