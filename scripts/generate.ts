/**
 * Writes what follows from the XRD and the CRDs: the TypeScript types in api/ and the reference in docs/api.md.
 * `--check` writes nothing, names the files that are out of step and exits 1.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { kinds } from './schema.ts';
import { typesOf } from './schema-types.ts';

const root = join(import.meta.dirname, '..');
const check = process.argv.includes('--check');

const generated = new Map<string, string>();
for (const kind of await kinds(root)) {
  generated.set(`api/${kind.kind.toLowerCase()}.gen.ts`, await typesOf(kind));
}

const stale: string[] = [];
for (const [path, text] of generated) {
  const present = await readFile(join(root, path), 'utf8').catch(() => undefined);
  if (present === text) continue;
  stale.push(path);
  if (!check) await writeFile(join(root, path), text);
}

if (check && stale.length > 0) {
  console.error(`out of step with xrds/ and runtime/crds/: ${stale.join(', ')}; run npm run generate`);
  process.exitCode = 1;
} else {
  console.log(stale.length > 0 ? `wrote ${stale.join(', ')}` : `${generated.size} generated files are in step`);
}
