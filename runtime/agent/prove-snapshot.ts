/**
 * The steps of a proof that are ours; `etcdutl` and `etcd` do the others. What they find out goes to the termination message
 * as a {@link ProofReport}. None of them writes to the store.
 */
import { createHmac, randomBytes } from 'node:crypto';
import { mkdir, readFile, statfs, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { createMemberClient } from '../adapters/etcd/member-client.ts';
import { HOPELESS } from '../core/snapshots/agent-job.ts';
import { ManifestUnreadable, manifestKey, parseManifest, type SnapshotManifest } from '../core/snapshots/manifest.ts';
import { PROOF_ORDER, type ProofOrder, TOKEN_KEY } from '../core/snapshots/proof-job.ts';
import type { ProofReport } from '../core/snapshots/proof-plan.ts';
import { keyIn } from '../core/snapshots/store-access.ts';
import type { EtcdMemberClient, EtcdMemberStatus } from '../ports/etcd.ts';
import { type SnapshotStore, StoreFault } from '../ports/snapshot-store.ts';
import { compareData } from './compared-data.ts';
import { fetchSnapshot, Unrestorable } from './fetch-snapshot.ts';
import { openStore } from './open-store.ts';
import { readManifest } from './take-snapshot.ts';

const TERMINATION_LOG = '/dev/termination-log';
const MANIFEST = 'manifest.json';

/** No other try would find anything else. The name is the reason in the report. */
class Final extends Error {
  constructor(reason: string, message: string) {
    super(message);
    this.name = reason;
  }
}

/** Another try would find the same. */
const isFinal = (error: unknown): boolean =>
  error instanceof Final ||
  (error instanceof StoreFault && ['NotFound', 'AccessDenied', 'BucketMissing', 'ClockSkew'].includes(error.reason));

const reasonOf = (error: unknown): string =>
  error instanceof StoreFault ? error.reason : error instanceof Error ? error.name : 'Unknown';

/** Runs one step of a proof and leaves its report, or why there is none, where the runtime reads it. */
export const reported = async (step: () => Promise<ProofReport | undefined>): Promise<number> => {
  const file = process.env.ETCD_OPERATOR_TERMINATION_LOG ?? TERMINATION_LOG;
  const say = async (report: ProofReport): Promise<void> => {
    const text = JSON.stringify(report);
    process.stdout.write(`${text}\n`);
    await writeFile(file, text);
  };
  try {
    const report = await step();
    if (report !== undefined) await say(report);
    return 0;
  } catch (error) {
    const message = (error instanceof Error ? error.message : String(error)).slice(0, 1_500);
    await say({ done: false, reason: reasonOf(error), message });
    return isFinal(error) ? HOPELESS : 1;
  }
};

/** The manifest, found to be the one that was written when the snapshot was taken. */
const manifestOf = async (order: ProofOrder, store: SnapshotStore, key: string): Promise<SnapshotManifest> => {
  const manifest = await readManifest(store, key).catch((error: unknown) => {
    if (error instanceof StoreFault && error.reason === 'NotFound') {
      throw new Final('NotFound', `${store.uri(key)} has no manifest any more: nobody would take it for a snapshot`);
    }
    if (!(error instanceof ManifestUnreadable)) throw error;
    throw new Final('SnapshotDamaged', `${store.uri(manifestKey(key))}: ${error.message}`);
  });
  if (manifest.snapshotUID !== order.snapshotUID || manifest.sha256 !== order.sha256) {
    throw new Final(
      'SnapshotDamaged',
      `the manifest of ${store.uri(key)} is not the one that was written: it tells of a database with SHA-256 ${manifest.sha256}, and ${order.sha256} was taken`,
    );
  }
  return manifest;
};

/** Leaves `snapshot.db`, the manifest and the key of tokens in `work`. */
export const fetchProof = async (order: ProofOrder, store: SnapshotStore, work: string): Promise<void> => {
  const key = keyIn(order.source) ?? '';
  const manifest = await manifestOf(order, store, key);
  await mkdir(work, { recursive: true, mode: 0o700 });
  const { bavail, bsize } = await statfs(work);
  const needed = 2 * Number(manifest.sizeBytes);
  if (bavail * bsize < needed) {
    throw new Final('NoRoom', `the volume of the proof has ${bavail * bsize} bytes free, and ${needed} are needed`);
  }
  try {
    await fetchSnapshot({ source: order.source, version: manifest.etcdVersion, sha256: order.sha256 }, store, work);
  } catch (error) {
    // It says why in one word, see there.
    if (error instanceof Unrestorable) {
      const [reason = '', ...words] = error.message.split(': ');
      throw new Final(reason, words.join(': '));
    }
    throw error;
  }
  await writeFile(join(work, MANIFEST), JSON.stringify(manifest));
  await writeFile(join(work, TOKEN_KEY), randomBytes(32).toString('hex'), { mode: 0o600 });
};

export const fetchToProve = async (work: string): Promise<undefined> => {
  const order = JSON.parse(process.env[PROOF_ORDER] ?? 'null') as ProofOrder | null;
  if (order === null) throw new Error(`${PROOF_ORDER} holds no order: this step belongs to the Job of a proof`);
  const store = await openStore(order.source);
  try {
    await fetchProof(order, store, work);
  } finally {
    store.close();
  }
};

const HOUR_S = 3_600;
const base64url = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');

/** A token that makes its bearer root, as etcd itself would sign it after so many changes of its users. */
const rootToken = (key: string, revision: number): string => {
  const exp = Math.floor(Date.now() / 1_000) + HOUR_S;
  const claims = { username: 'root', revision, exp };
  const signed = `${base64url({ alg: 'HS256', typ: 'JWT' })}.${base64url(claims)}`;
  return `${signed}.${createHmac('sha256', key).update(signed).digest('base64url')}`;
};

const ASK_AGAIN_MS = 300;
/** The index of a large database takes minutes to build. An etcd that ends meanwhile is seen by the runtime. */
const ANSWER_WITHIN_MS = 900_000;

const served = async (client: EtcdMemberClient): Promise<EtcdMemberStatus> => {
  const end = performance.now() + ANSWER_WITHIN_MS;
  for (;;) {
    try {
      const status = await client.status();
      if (status.leaderId !== undefined) return status;
    } catch (error) {
      if (performance.now() > end) throw error;
    }
    if (performance.now() > end) throw new Error('etcd runs on the restored data and elects no leader');
    await pause(ASK_AGAIN_MS);
  }
};

/**
 * Throws where anything that the manifest promises is otherwise. A compaction between the hash and the stream leaves the hash
 * without its like; that is remarked, and no fault.
 */
const comparedWith = async (manifest: SnapshotManifest, client: EtcdMemberClient): Promise<ProofReport> => {
  const status = await served(client);
  const { revision, keys, hashKv, etcdVersion } = manifest;
  const promised = { revision: BigInt(revision), keys, hashKv, etcdVersion };
  const { difference, equal, ...found } = await compareData(promised, status, client);
  if (difference !== undefined) {
    throw new Final(
      'Different',
      difference.what === 'revision'
        ? `the restored data ends at revision ${difference.found}, its manifest says ${difference.promised}`
        : `at revision ${revision} the restored data has ${difference.what === 'keys' ? 'a number of keys of' : 'the hash'} ${difference.found}, its manifest says ${difference.promised}`,
    );
  }
  return {
    done: true,
    etcdVersion: status.version,
    revision: String(status.revision),
    ...found,
    compared: ['sha256', ...equal],
  };
};

export const compareRestored = async (work: string, url: string): Promise<ProofReport> => {
  const manifest = parseManifest(await readFile(join(work, MANIFEST), 'utf8'));
  const key = await readFile(join(work, TOKEN_KEY), 'utf8');
  // Reads want the number of the last change, and asking for that number does not.
  const asking = createMemberClient({ url, token: rootToken(key, Number.MAX_SAFE_INTEGER) });
  try {
    await served(asking);
    const client = createMemberClient({ url, token: rootToken(key, Number(await asking.authRevision())) });
    try {
      return await comparedWith(manifest, client);
    } finally {
      client.close();
    }
  } finally {
    asking.close();
  }
};
