import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { promisify } from 'node:util';
import { bundle, bundleEntry, folderDigest, programs } from './bundle.ts';

// Outside of the repository: what is missing in a bundle must not be found in its node_modules.
const out = await mkdtemp(join(tmpdir(), 'etcd-operator-bundle-'));
after(() => rm(out, { recursive: true, force: true }));

for (const program of Object.values(programs)) {
  test(`the bundle of ${program.name} starts without node_modules, as it has to in its image`, async () => {
    const folder = await bundle(program, out);
    const { stdout } = await promisify(execFile)(process.execPath, [join(folder, bundleEntry), '--help'], {
      cwd: out,
      env: {},
      timeout: 20_000,
    });
    assert.match(stdout, /--metrics-address/);
  });
}

test('the same sources make the same bundle, since tags are made from its content', async () => {
  const first = await folderDigest(await bundle(programs.function, join(out, 'first')));
  const second = await folderDigest(await bundle(programs.function, join(out, 'second')));
  assert.equal(first, second);
});
