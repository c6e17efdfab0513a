import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { parse } from 'yaml';
import { fieldsOf, kinds } from '../../scripts/schema.ts';
import { buildFolder, builds, ensureBuilds } from '../cluster/builds.ts';
import { type ApiServer, startApiServer } from './apiserver.ts';
import { type Definition, definitions } from './definitions.ts';

const root = join(import.meta.dirname, '../..');
const all = await kinds(root);
let server: ApiServer;

before(async () => {
  server = await startApiServer();
  await server.define(...(await definitions(root)));
  await server.published('/apis/etcd-operator.cozystack.io/v1alpha2');
});

after(async () => {
  await server[Symbol.asyncDispose]();
});

/** kubectl breaks lines, at hyphens too. */
const unbroken = (text: string): string => text.replace(/\s+/g, '');

describe('kubectl explain', () => {
  for (const kind of all) {
    it(`says of each field of ${kind.kind} what it means, at every depth, since it is the manual people have at hand`, async () => {
      const parents = new Map<string, [string, string][]>();
      for (const { path, schema } of fieldsOf(kind.schema)) {
        // kubectl names items and map values by the field that holds them.
        const steps = path.replaceAll(/\[\]|\{\}/g, '').split('.');
        const last = steps.pop();
        if (
          last === undefined ||
          path.endsWith('[]') ||
          path.endsWith('{}') ||
          steps.length === 0 ||
          steps[0] === 'metadata'
        )
          continue;
        const parent = [kind.kind.toLowerCase(), ...steps].join('.');
        parents.set(parent, [...(parents.get(parent) ?? []), [last, schema.description ?? 'no description at all']]);
      }
      assert.ok(parents.size > 1);
      const queue = [...parents];
      const explain = async (): Promise<void> => {
        for (let next = queue.pop(); next !== undefined; next = queue.pop()) {
          const [parent, fields] = next;
          const said = unbroken(await server.kubectl('explain', parent));
          for (const [name, description] of fields) {
            assert.ok(
              said.includes(unbroken(description)),
              `kubectl explain ${parent} does not say of ${name}: ${description}`,
            );
          }
        }
      };
      await Promise.all([explain(), explain(), explain()]);
    });
  }
});

describe("Crossplane's own definitions", () => {
  it('accept the XRD with no field unknown, since an unknown one is dropped without a word', async () => {
    await ensureBuilds([builds.crossplane]);
    const folder = join(buildFolder(builds.crossplane), 'crds');
    const name = 'apiextensions.crossplane.io_compositeresourcedefinitions.yaml';
    await server.define(parse(await readFile(join(folder, name), 'utf8')) as Definition);
    for (const file of (await readdir(join(root, 'xrds'))).filter((found) => found.endsWith('.yaml'))) {
      const xrd = parse(await readFile(join(root, 'xrds', file), 'utf8'));
      const path = '/apis/apiextensions.crossplane.io/v2/compositeresourcedefinitions?fieldValidation=Strict';
      const answer = await server.request('POST', path, xrd);
      assert.equal(answer.code, 201, `${file}: ${answer.body.message}`);
    }
  });
});
