import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { KeyUnusable, keysIn, keysOf } from './snapshot-keys.ts';

const root = await mkdtemp(join(tmpdir(), 'snapshot-keys-'));
after(() => rm(root, { recursive: true, force: true }));
let numbered = 0;
const folder = async (entries: Readonly<Record<string, string>>): Promise<string> => {
  const path = join(root, String(++numbered));
  // As the kubelet mounts a Secret.
  await mkdir(join(path, '..2026_11_30'), { recursive: true });
  for (const [entry, text] of Object.entries(entries)) await writeFile(join(path, entry), text);
  return path;
};
const fresh = (): string => randomBytes(32).toString('base64');

describe('a Secret with encryption keys', () => {
  test('gives the current key and every older one by its ID, which does not depend on the name of the entry', async () => {
    const [now, before] = [fresh(), fresh()];
    const keys = await keysIn(await folder({ key: `${now}\n`, 'key-2025': before }));
    const [older] = [(await keysIn(await folder({ key: before }))).current];
    assert.deepEqual([...keys.ids], [keys.current.id, older.id].sort());
    assert.deepEqual(keys.find(older.id)?.secret, older.secret);
    assert.equal(keys.find('0000'), undefined);
    assert.match(keys.current.id, /^[0-9a-f]{16}$/);
  });

  test('that holds anything else is refused as a whole, without telling what', async () => {
    const cases: [Readonly<Record<string, string>>, RegExp][] = [
      [{}, /not there/],
      [{ old: fresh() }, /no entry key/],
      [{ key: 'correct horse battery staple' }, /entry key .*openssl rand/],
      [{ key: randomBytes(16).toString('base64') }, /entry key/],
      [{ key: randomBytes(32).toString('hex') }, /entry key/],
      [{ key: fresh(), old: '' }, /entry old/],
    ];
    for (const [entries, words] of cases) {
      await assert.rejects(keysIn(await folder(entries)), (error) => {
        assert.ok(error instanceof KeyUnusable);
        assert.match(error.message, words);
        for (const text of Object.values(entries)) assert.ok(text === '' || !error.message.includes(text));
        return true;
      });
    }
    const source = { pvc: { claimName: 'backups' }, encryption: { keySecretRef: { name: 'backup-keys' } } };
    await assert.rejects(keysOf(source, await folder({})), /Secret backup-keys: it is not there/);
    assert.equal(await keysOf({ pvc: { claimName: 'backups' } }), undefined);
  });
});
