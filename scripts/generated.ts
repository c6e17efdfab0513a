/** What is generated from the XRD and the CRDs, and what of it is out of step. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { apiReference } from './api-reference.ts';
import { kinds } from './schema.ts';
import { typesOf } from './schema-types.ts';

/** Path in the repository to content, of every generated file. */
export const generated = async (root: string): Promise<Map<string, string>> => {
  const all = await kinds(root);
  const files = new Map<string, string>();
  for (const kind of all) files.set(`api/${kind.kind.toLowerCase()}.gen.ts`, await typesOf(kind));
  return files.set('docs/api.md', apiReference(all));
};

/** Those of the files whose content in the repository is another or that are absent there. */
export const outOfStep = async (root: string, files: Map<string, string>): Promise<string[]> => {
  const stale: string[] = [];
  for (const [path, text] of files) {
    const present = await readFile(join(root, path), 'utf8').catch(() => undefined);
    if (present !== text) stale.push(path);
  }
  return stale;
};
