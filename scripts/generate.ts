/**
 * Writes what follows from the XRD and the CRDs: the TypeScript types in api/ and the reference in docs/api.md.
 * `--check` writes nothing, names the files that are out of step and exits 1. A folder may be given in place of this
 * repository.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { generated, outOfStep } from './generated.ts';

const { values, positionals } = parseArgs({ options: { check: { type: 'boolean' } }, allowPositionals: true });
const root = positionals[0] ?? join(import.meta.dirname, '..');

const files = await generated(root);
const stale = await outOfStep(root, files);
if (values.check) {
  if (stale.length > 0) {
    console.error(`out of step with xrds/ and runtime/crds/: ${stale.join(', ')}; run npm run generate`);
    process.exitCode = 1;
  }
} else {
  for (const path of stale) {
    await mkdir(dirname(join(root, path)), { recursive: true });
    await writeFile(join(root, path), files.get(path) ?? '');
  }
  if (stale.length > 0) console.log(`wrote ${stale.join(', ')}`);
}
