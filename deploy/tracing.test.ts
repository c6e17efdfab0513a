import assert from 'node:assert/strict';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { parse, parseAllDocuments } from 'yaml';
import { bundle, bundleEntry, programs, root } from './bundle.ts';

test('a runtime that nobody asked for traces loads no line of the SDK, since it would pay for it in memory and start', async () => {
  const out = await mkdtemp(join(tmpdir(), 'etcd-operator-bundle-'));
  try {
    const folder = join(await bundle(programs.runtime, out), bundleEntry, '..');
    const read = (file: string): Promise<string> => readFile(join(folder, file), 'utf8');
    const loaded = new Set(['main.mjs']);
    // A set that grows is walked to its new end.
    for (const file of loaded) {
      for (const [, name = ''] of (await read(file)).matchAll(/^(?:import|export)\b[^;]*?from "\.\/([^"]+)"/gm))
        loaded.add(name);
      for (const [, name = ''] of (await read(file)).matchAll(/^import "\.\/([^"]+)"/gm)) loaded.add(name);
    }
    const holders = [];
    for (const file of await readdir(folder)) if ((await read(file)).includes('BatchSpanProcessor')) holders.push(file);
    assert.ok(holders.length > 0, 'it is in the bundle');
    assert.deepEqual(
      holders.filter((file) => loaded.has(file)),
      [],
    );
  } finally {
    await rm(out, { recursive: true, force: true });
  }
});

test('the patch in docs/tracing.md fits the Deployment', async () => {
  const text = await readFile(join(root, 'docs/tracing.md'), 'utf8');
  const [, yaml = ''] = /```yaml\n(patches:[\s\S]*?)```/.exec(text) ?? [];
  const [patch] = (parse(yaml) as { patches: { target: { kind: string; name: string }; patch: string }[] }).patches;
  assert.ok(patch);
  const [{ op, path, value }] = parse(patch.patch) as [
    { op: string; path: string; value: { name: string; value: string } },
  ];
  const documents = parseAllDocuments(await readFile(join(root, 'deploy/runtime/deployment.yaml'), 'utf8'));
  const target = documents
    .map((document) => document.toJS() as { kind: string; metadata: { name: string } })
    .find(({ kind, metadata }) => kind === patch.target.kind && metadata.name === patch.target.name);
  assert.equal(op, 'add');
  const steps = path.split('/').slice(1);
  assert.equal(steps.pop(), '-');
  const list = steps.reduce<unknown>((part, step) => (part as Record<string, unknown>)[step], target);
  assert.ok(Array.isArray(list), `${path} names a list of the Deployment`);
  assert.equal(value.name, 'OTEL_EXPORTER_OTLP_ENDPOINT');
});
