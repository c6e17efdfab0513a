/**
 * Every folder beside this file is one case: a claim, what Crossplane observed of it, what it found by requirement, and
 * what Crossplane's own engine makes of our answers. `UPDATE_GOLDEN=1` writes what is expected anew; read the diff.
 */
import assert from 'node:assert/strict';
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { parse, parseAllDocuments, stringify } from 'yaml';
import { type Renderer, readText, startRenderer } from './render.ts';

const here = import.meta.dirname;
const entries = await readdir(here, { withFileTypes: true });
const cases = entries.flatMap((entry) => (entry.isDirectory() ? [entry.name] : [])).sort();

type Document = {
  kind?: string;
  metadata?: { name: string; annotations?: Record<string, string> };
  spec?: unknown;
  status?: { conditions?: { lastTransitionTime: string }[] };
  message?: unknown;
};

/**
 * Members of one cluster differ by name alone; written out each time, the one difference that matters would drown. And
 * where a case is about what exists already, only keys matter: how objects are rendered is for the others to say.
 */
const abbreviated = (documents: readonly Document[], keysOnly: boolean): object[] => {
  const specs = new Map<string, string>();
  return documents.map((document) => {
    const { kind, metadata, spec } = document;
    if (kind === 'EtcdCluster') return { kind, status: timeless(document.status) };
    const name = metadata?.name ?? '';
    if (keysOnly) {
      const key = metadata?.annotations?.['crossplane.io/composition-resource-name'];
      return {
        kind,
        key,
        name,
        ...(['EtcdQuorum', 'EtcdCertificateSet', 'Certificate'].includes(kind ?? '') ? { spec } : {}),
      };
    }
    if (spec === undefined) return document;
    const general = JSON.stringify(spec).replaceAll(`"${name}"`, '"(name)"');
    const same = specs.get(general);
    if (same !== undefined) return { ...document, spec: `(as ${same}, but for the name)` };
    if (kind === 'EtcdMember') specs.set(general, name);
    return document;
  });
};

const timeless = (status: Document['status']): object => ({
  ...status,
  conditions: status?.conditions?.map(({ lastTransitionTime: _, ...condition }) => condition),
});

/** Crossplane names every key that is not ready in a result of its own. */
const summary = (printed: string, keysOnly: boolean): string => {
  const documents = parseAllDocuments(printed).map((document) => document.toJS() as Document);
  const [asked = {}, ...rest] = documents;
  const unready = /^Composed resource "(.*)" is not yet ready$/;
  const messages = rest.filter(({ kind }) => kind === 'Result').map((result) => String(result.message));
  const head = {
    ...asked,
    notReady: messages.flatMap((message) => unready.exec(message)?.[1] ?? []).sort(),
    results: messages.filter((message) => !unready.test(message)),
  };
  return [
    head,
    ...abbreviated(
      rest.filter(({ kind }) => kind !== 'Result'),
      keysOnly,
    ),
  ]
    .map((document) => stringify(document, { lineWidth: 0, version: '1.1', aliasDuplicateObjects: false }))
    .join('---\n');
};

const requiredBy = (folder: string): Promise<string> => readText(join(folder, 'required.yaml')).catch(() => '');

describe('compositions as Crossplane renders them', () => {
  let renderer: Renderer;
  before(async () => {
    renderer = await startRenderer();
  });
  after(() => renderer.stop());

  for (const name of cases) {
    const folder = join(here, name);
    test(name, async () => {
      const files = await readdir(folder);
      const claim = join(folder, 'claim.yaml');
      const kind = parse(await readText(claim)).kind.toLowerCase();
      const printed = await renderer.render({
        claim,
        xrd: join(here, `../../xrds/${kind}.yaml`),
        composition: join(here, `../../compositions/${kind}.yaml`),
        ...(files.includes('observed.yaml') ? { observed: join(folder, 'observed.yaml') } : {}),
        ...(files.includes('required.yaml') ? { required: join(folder, 'required.yaml') } : {}),
      });
      const exists = files.includes('observed.yaml') || /^kind: EtcdMember$/m.test(await requiredBy(folder));
      const rendered = summary(printed, exists);
      const expected = join(folder, 'expected.yaml');
      if (process.env.UPDATE_GOLDEN === '1') await writeFile(expected, rendered);
      assert.equal(rendered, await readText(expected));
    });
  }

  test('every combination of client and peer TLS, each off, own or issued, is among the cases', async () => {
    const how = (plane: object | undefined): string =>
      plane === undefined ? 'off' : 'certManager' in plane ? 'issued' : 'own';
    const seen = new Set<string>();
    for (const name of cases) {
      const { tls } = parse(await readText(join(here, name, 'claim.yaml'))).spec;
      seen.add(`${how(tls?.client)}/${how(tls?.peer)}`);
    }
    const modes = ['off', 'own', 'issued'];
    const all = modes.flatMap((client) => modes.map((peer) => `${client}/${peer}`));
    assert.deepEqual([...seen].sort(), all.sort());
  });

  test('a rendering that the function does not know stops the pipeline, and Crossplane applies nothing', async () => {
    const scratch = await mkdtemp(join(tmpdir(), 'golden-'));
    const composition = join(scratch, 'composition.yaml');
    const text = await readText(join(here, '../../compositions/etcdcluster.yaml'));
    await writeFile(composition, text.replaceAll('renderVersion: 1', 'renderVersion: 99'));
    await assert.rejects(
      renderer.render({ claim: join(here, 'fresh/claim.yaml'), composition }),
      /pipeline step "members" returned a fatal result:.*renderVersion is 99/s,
    );
    await rm(scratch, { recursive: true });
  });
});
