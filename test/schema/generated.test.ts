import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { generated, outOfStep } from '../../scripts/generated.ts';

const root = join(import.meta.dirname, '../..');

/** Exit code and standard error of `generate.ts` with these arguments. */
const generate = (...args: string[]): Promise<{ code: number; stderr: string }> =>
  new Promise((resolve) => {
    execFile(
      process.execPath,
      [join(root, 'scripts/generate.ts'), ...args],
      { timeout: 60_000 },
      (error, _, stderr) => {
        resolve({ code: error === null ? 0 : Number(error.code), stderr });
      },
    );
  });

describe('generated files', async () => {
  const copy = await mkdtemp(join(tmpdir(), 'etcd-operator-generated-'));
  after(() => rm(copy, { recursive: true, force: true }));
  for (const part of ['xrds', 'runtime/crds', 'api', 'docs'])
    await cp(join(root, part), join(copy, part), { recursive: true });

  it('are in step with the XRD and the CRDs, since people and code read them in their place', async () => {
    const files = await generated(root);
    assert.deepEqual(
      [...files.keys()],
      [
        ...['certificateset', 'cluster', 'member', 'quorum', 'restore', 'snapshot', 'snapshotschedule'].map(
          (kind) => `api/etcd${kind}.gen.ts`,
        ),
        'docs/api.md',
      ],
    );
    assert.deepEqual(await outOfStep(root, files), []);
  });

  it('are named by --check when the schema changed, and written only without it', async () => {
    const xrd = join(copy, 'xrds/etcdcluster.yaml');
    const text = await readFile(xrd, 'utf8');
    await writeFile(xrd, text.replace('Where members keep their data.', 'Where the data is.'));
    const types = join(copy, 'api/etcdcluster.gen.ts');
    const before = await readFile(types, 'utf8');

    const checked = await generate('--check', copy);
    assert.equal(checked.code, 1);
    assert.match(checked.stderr, /api\/etcdcluster\.gen\.ts, docs\/api\.md; run npm run generate/);
    assert.doesNotMatch(checked.stderr, /etcdmember/);
    assert.equal(await readFile(types, 'utf8'), before);

    assert.equal((await generate(copy)).code, 0);
    assert.match(await readFile(types, 'utf8'), /Where the data is\./);
    assert.equal((await generate('--check', copy)).code, 0);
  });

  it('are missed by --check when one is deleted', async () => {
    await rm(join(copy, 'docs/api.md'));
    const checked = await generate('--check', copy);
    assert.equal(checked.code, 1);
    assert.match(checked.stderr, /docs\/api\.md/);
  });
});
