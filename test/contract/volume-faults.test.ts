/** What goes wrong with a volume that snapshots are kept on. Each file system here is a small one of its own: it needs root. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { createFileStore } from '../../runtime/adapters/files/file-store.ts';
import { createS3Store } from '../../runtime/adapters/s3/s3-store.ts';
import { fetchSnapshot, Unrestorable } from '../../runtime/agent/fetch-snapshot.ts';
import { StoreFault, type StoreFaultReason, storeFaults } from '../../runtime/ports/snapshot-store.ts';
import { s3Server } from './s3-process.ts';

const run = promisify(execFile);
const MIB = 1024 * 1024;
const folder = await mkdtemp(join(tmpdir(), 'volume-faults-'));
const mounted: string[] = [];
after(async () => {
  for (const path of mounted.toReversed()) await run('umount', [path]);
  await rm(folder, { recursive: true, force: true });
});

const fileSystem = async (name: string, mib: number): Promise<string> => {
  const path = join(folder, name);
  await mkdir(path, { mode: 0o777 });
  await run('mount', ['-t', 'tmpfs', '-o', `size=${mib}m,mode=0777`, 'tmpfs', path]);
  mounted.push(path);
  return path;
};
const database = (bytes: number): Buffer => {
  const content = randomBytes(Math.ceil(bytes / 512) * 512);
  return Buffer.concat([content, createHash('sha256').update(content).digest()]);
};
async function* inChunks(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += MIB) yield bytes.subarray(at, at + MIB);
}
const because = (reason: StoreFaultReason) => (error: unknown) => {
  assert.ok(error instanceof StoreFault, String(error));
  assert.equal(error.reason, reason, error.message);
  assert.ok(error.message.endsWith(storeFaults[reason]), error.message);
  return true;
};

describe('a volume', () => {
  test('that gets full keeps what it had, has nothing of what failed, and takes the next one that fits', async () => {
    const root = await fileSystem('full', 6);
    const store = createFileStore({ root, name: 'backups' });
    await store.put('n/c/first.db', inChunks(database(2 * MIB)), { owner: 'a' });
    const before = await readdir(root, { recursive: true });
    await assert.rejects(store.put('n/c/second.db', inChunks(database(8 * MIB)), { owner: 'b' }), because('Full'));
    assert.deepEqual(await readdir(root, { recursive: true }), before);
    await store.put('n/c/third.db', inChunks(database(2 * MIB)), { owner: 'c' });
  });

  test('that is mounted read-only is told apart from one that is missing', async () => {
    const root = await fileSystem('read-only', 2);
    await run('mount', ['-o', 'remount,ro', root]);
    const one = inChunks(database(MIB));
    const store = createFileStore({ root, name: 'backups' });
    await assert.rejects(store.put('n/c/one.db', one, { owner: 'a' }), because('AccessDenied'));
    const nowhere = createFileStore({ root: join(folder, 'nowhere'), name: 'backups' });
    await assert.rejects(nowhere.put('n/c/one.db', one, { owner: 'a' }), because('BucketMissing'));
  });

  test('on which a killed try has left its half lists nothing of it, and the next try takes its place', async () => {
    const root = join(folder, 'killed');
    await mkdir(join(root, 'n/c'), { recursive: true });
    // Left by a process that was killed while it wrote.
    await writeFile(join(root, 'n/c/one.db.a.part'), randomBytes(1_000));
    const store = createFileStore({ root, name: 'backups' });
    assert.deepEqual(await Array.fromAsync(store.list('n/c/')), []);
    await store.put('n/c/one.db', inChunks(database(MIB)), { owner: 'a' });
    assert.deepEqual((await readdir(join(root, 'n/c'))).sort(), ['one.db', 'one.db.owner']);
  });

  test('of a new member that is too small refuses before a byte is fetched, and says what to raise', async () => {
    const root = join(folder, 'source');
    await mkdir(root);
    const store = createFileStore({ root, name: 'backups' });
    await store.put('one.db', inChunks(database(3 * MIB)), { owner: 'a' });
    const work = await fileSystem('small', 4);
    const order = { source: { pvc: { claimName: 'backups', subPath: 'one.db' } }, version: '3.6.16' };
    await assert.rejects(
      fetchSnapshot(order, store, work),
      (error) => error instanceof Unrestorable && /raise spec.storage.size/.test(error.message),
    );
    assert.deepEqual(await readdir(work), []);
  });
});

test('an S3 server whose disk is full fails in time, and lists neither object nor parts', async () => {
  const directory = await fileSystem('s3', 12);
  await using s3 = await s3Server({ directory });
  const destination = await s3.bucket('small');
  const store = createS3Store(destination, { maxAttempts: 2, silenceMs: 10_000 });
  await assert.rejects(
    store.put('n/c/one.db', inChunks(database(30 * MIB)), { owner: 'a' }),
    (error) => error instanceof StoreFault && ['Full', 'Unavailable'].includes(error.reason),
  );
  assert.deepEqual(await s3.contents('small'), { keys: [], uploads: [] });
  await store.put('n/c/two.db', inChunks(database(2 * MIB)), { owner: 'b' });
  store.close();
});
