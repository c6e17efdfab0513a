import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { copyFile, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { createFileStore } from '../adapters/files/file-store.ts';
import { manifestKey, manifestText, type SnapshotManifest } from '../core/snapshots/manifest.ts';
import { fetchSnapshot } from './fetch-snapshot.ts';
import { sealed } from './sealed-database.ts';
import { type SnapshotKey, type SnapshotKeys, snapshotKey } from './snapshot-keys.ts';

const folder = await mkdtemp(join(tmpdir(), 'fetch-snapshot-'));
after(() => rm(folder, { recursive: true, force: true }));
const store = createFileStore({ root: folder, name: 'backups' });
let numbered = 0;

const database = (pages: number): Buffer => {
  const content = randomBytes(pages * 512);
  return Buffer.concat([content, createHash('sha256').update(content).digest()]);
};
const digest = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

const stored = async (bytes: Buffer, change?: Partial<SnapshotManifest> | 'none'): Promise<string> => {
  numbered += 1;
  const key = `${numbered}.db`;
  await writeFile(join(folder, key), bytes);
  if (change === 'none') return key;
  const manifest: SnapshotManifest = {
    format: 1,
    snapshotUID: 'u',
    snapshot: 's',
    namespace: 'n',
    cluster: 'c',
    clusterUID: 'cu',
    clusterID: 'cdf8',
    member: 'c-0',
    memberID: '8e9e',
    etcdVersion: '3.6.16',
    revision: '77',
    sizeBytes: String(bytes.length),
    sha256: digest(bytes),
    takenAt: '2026-11-30T12:00:00Z',
    ...change,
  };
  await writeFile(join(folder, manifestKey(key)), manifestText(manifest));
  return key;
};

const fetched = async (key: string, version = '3.6.16', known: { sha256?: string; keys?: SnapshotKeys } = {}) => {
  const work = join(folder, `work-${key}`);
  const { keys, ...promised } = known;
  const order = { source: { pvc: { claimName: 'backups', subPath: key } }, version, ...promised };
  try {
    return { result: await fetchSnapshot(order, store, work, keys), left: await readdir(work), work };
  } catch (error) {
    return { error: String(error), left: await readdir(work).catch(() => []), work };
  }
};

type Change = {
  readonly alter?: (whole: Buffer) => Buffer;
  readonly manifest?: Partial<SnapshotManifest> | 'none';
};

describe('a snapshot that is fetched to be restored', () => {
  test('is there whole, with what its manifest promises', async () => {
    const bytes = database(40);
    const { result, work } = await fetched(await stored(bytes));
    assert.deepEqual(result, {
      revision: '77',
      version: '3.6.16',
      clusterID: 'cdf8',
      takenAt: '2026-11-30T12:00:00Z',
      sha256: digest(bytes),
      snapshotBytes: bytes.length,
    });
    assert.ok(bytes.equals(await readFile(join(work, 'snapshot.db'))));
  });

  test('needs no manifest where it is of somebody who writes none: its own digest speaks for it', async () => {
    const { result } = await fetched(await stored(database(3), 'none'));
    assert.deepEqual([result?.revision, result?.version], ['0', undefined]);
  });

  test('that is not what its manifest says leaves nothing that could be restored', async () => {
    const bytes = database(10);
    const flipped = Buffer.from(bytes);
    flipped[700] = (flipped[700] ?? 0) ^ 1;
    const swapped = database(10);
    const cases: [string, string, RegExp][] = [
      [
        'one bit',
        await stored(flipped, { sha256: digest(bytes) }),
        /^Unrestorable: SnapshotDamaged: .*its own digest says/,
      ],
      [
        'another database',
        await stored(swapped, { sha256: digest(bytes) }),
        /SnapshotDamaged: .*its manifest says .* altered/,
      ],
      [
        'cut short',
        await stored(bytes.subarray(0, 2_000), { sizeBytes: String(bytes.length) }),
        /SnapshotDamaged: .*altered or cut/,
      ],
      ['nothing there', 'absent.db', /NotFound: restore pvc:\/\/backups\/absent.db/],
    ];
    for (const [what, key, words] of cases) {
      const { error, left } = await fetched(key);
      assert.match(error ?? 'no error', words, what);
      assert.deepEqual(left, [], what);
    }
  });

  test('is found only by its exact key: what is beside or above it is named as such', async () => {
    const key = await stored(database(3));
    const found = async (subPath: string): Promise<string> => (await fetched(subPath)).error ?? 'no error';
    await mkdir(join(folder, 'team-a'));
    for (const wrong of ['team-a', 'team-a/', `${key}/x`, `pvc://backups/${key}`]) {
      assert.match(await found(wrong), /NotFound: .*its exact key or path, as status.artifact.uri/, wrong);
    }
    assert.match(await found(manifestKey(key)), /NotFound: .* is a manifest; name the snapshot itself, \d+\.db/);
    assert.match(await found('../x.db'), /Refused: .*outside the volume/);
  });

  test('is refused where it is another one than its EtcdSnapshot recorded, though manifest and data agree', async () => {
    const key = await stored(database(4));
    const { error, left } = await fetched(key, '3.6.16', { sha256: 'b'.repeat(64) });
    assert.match(error ?? 'no error', /SnapshotDamaged: .*its EtcdSnapshot says bbbb/);
    assert.deepEqual(left, []);
  });

  test('with a manifest that cannot be read is refused', async () => {
    const key = await stored(database(4));
    await writeFile(join(folder, manifestKey(key)), '{');
    assert.match((await fetched(key)).error ?? 'no error', /SnapshotDamaged: .*not JSON/);
  });

  test('of a newer minor version is not given to an older etcd, and says which version reads it', async () => {
    const key = await stored(database(2), { etcdVersion: '3.6.16' });
    assert.match((await fetched(key, '3.5.35')).error ?? '', /set spec.version to 3.6.16/);
    assert.equal((await fetched(await stored(database(2), { etcdVersion: '3.5.35' }), '3.6.16')).error, undefined);
  });

  describe('and is encrypted', () => {
    const newKey = (): SnapshotKey => snapshotKey('key', randomBytes(32).toString('base64'));
    const ring = (...keys: readonly SnapshotKey[]): SnapshotKeys => ({
      current: keys[0] as SnapshotKey,
      ids: keys.map(({ id }) => id),
      find: (id) => keys.find((key) => key.id === id),
    });
    const storedEncrypted = async (
      bytes: Buffer,
      key: SnapshotKey,
      { alter = (whole: Buffer) => whole, manifest }: Change = {},
    ): Promise<string> => {
      async function* one(): AsyncGenerator<Uint8Array> {
        yield bytes;
      }
      const name = `${numbered + 1}.db`;
      const whole = alter(Buffer.concat(await Array.fromAsync(sealed(one(), { key, name }))));
      return stored(whole, manifest ?? { encryption: { keyID: key.id } });
    };

    test('is there whole, plain, by the key that its manifest names', async () => {
      const [old, current] = [newKey(), newKey()];
      const bytes = database(40);
      const { result, work } = await fetched(await storedEncrypted(bytes, old), '3.6.16', { keys: ring(current, old) });
      assert.equal(result?.sha256, digest(bytes), 'of the file that etcd reads');
      assert.ok(bytes.equals(await readFile(join(work, 'snapshot.db'))));
    });

    test('is restored without its manifest, too', async () => {
      const key = newKey();
      const bytes = database(5);
      const { result } = await fetched(await storedEncrypted(bytes, key, { manifest: 'none' }), '3.6.16', {
        keys: ring(key),
      });
      assert.equal(result?.sha256, digest(bytes));
    });

    test('leaves nothing that could be restored when the key is another, or it is not what was stored', async () => {
      const key = newKey();
      const flip = (whole: Buffer): Buffer => {
        whole[whole.length - 40] = (whole[whole.length - 40] ?? 0) ^ 1;
        return whole;
      };
      const other = await storedEncrypted(database(3), key);
      const exchanged = `${++numbered}.db`;
      await copyFile(join(folder, other), join(folder, exchanged));
      await copyFile(join(folder, manifestKey(other)), join(folder, manifestKey(exchanged)));
      // Whoever may write to the bucket may write manifests, too: all of these fit theirs.
      const cases: [string, string, SnapshotKeys | undefined, RegExp][] = [
        ['no key', other, undefined, /SnapshotKeyMissing: .*encrypted with key [0-9a-f]{16}: name the Secret/],
        ['another key', other, ring(newKey()), /SnapshotKeyMissing: .*encrypted with key [0-9a-f]{16}, and/],
        ['one bit', await storedEncrypted(database(20), key, { alter: flip }), ring(key), /altered, cut or exchanged/],
        [
          'cut short',
          await storedEncrypted(database(20), key, { alter: (whole) => whole.subarray(0, 600) }),
          ring(key),
          /altered, cut or exchanged/,
        ],
        [
          'not encrypted',
          await stored(database(20)),
          ring(key),
          /SnapshotNotEncrypted: .*take encryption out of the source/,
        ],
        [
          'not encrypted any more',
          await stored(database(20), { encryption: { keyID: key.id } }),
          ring(key),
          /SnapshotDamaged: .*its manifest says that it is, .* exchanged/,
        ],
        ['another snapshot with its manifest', exchanged, ring(key), /exchanged or renamed/],
      ];
      for (const [what, name, keys, words] of cases) {
        const { error, left } = await fetched(name, '3.6.16', keys === undefined ? {} : { keys });
        assert.match(error ?? 'no error', words, what);
        assert.match(error ?? '', /^Unrestorable/, what);
        assert.deepEqual(left, [], what);
      }
    });
  });
});
