/** The CustomResourceDefinitions of this project as a cluster has them. */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parse, parseAllDocuments } from 'yaml';
import type { Schema } from '../../scripts/schema.ts';
import { builds, ensureBuilds, programPath } from '../cluster/builds.ts';
import { run } from '../cluster/command.ts';

/** A CustomResourceDefinition, as far as tests look into it. */
export interface Definition {
  metadata: { name: string; ownerReferences?: unknown[] };
  spec: { names: { kind: string }; versions: { schema: { openAPIV3Schema: Schema } }[] };
}

/** The CRD that Crossplane makes of an XRD, by the real `crossplane xrd convert`. */
export const convertXrd = async (path: string): Promise<Definition> => {
  await ensureBuilds([builds.crossplaneCli]);
  const printed = await run([programPath(builds.crossplaneCli, 'crossplane'), 'xrd', 'convert', path]);
  const documents = parseAllDocuments(printed).map((document) => document.toJS() as Definition | null);
  const [definition, second] = documents.filter((document) => document !== null);
  if (definition === undefined || second !== undefined)
    throw new Error(`${path} does not convert into exactly one CRD`);
  // Crossplane names the XRD as the owner, which does not exist here and has no UID in what the command prints.
  delete definition.metadata.ownerReferences;
  return definition;
};

/** All of them: what Crossplane makes of the XRDs, and our CRDs as they are. */
export const definitions = async (root: string): Promise<Definition[]> => {
  const files = async (folder: string): Promise<string[]> =>
    (await readdir(join(root, folder)))
      .filter((name) => name.endsWith('.yaml'))
      .map((name) => join(root, folder, name));
  const [xrds, crds] = await Promise.all([files('xrds'), files('runtime/crds')]);
  return Promise.all([
    ...xrds.map(convertXrd),
    ...crds.map(async (path) => parse(await readFile(path, 'utf8')) as Definition),
  ]);
};
