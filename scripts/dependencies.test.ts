import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';

const root = join(import.meta.dirname, '..');
const { dependencies, devDependencies } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as Record<
  'dependencies' | 'devDependencies',
  Readonly<Record<string, string>>
>;
const all = { ...dependencies, ...devDependencies };

test('each dependency is pinned to one version, so that two installations run the same code', () => {
  const loose = Object.entries(all).filter(([, version]) => !/^\d+\.\d+\.\d+$/.test(version));
  assert.deepEqual(loose, []);
});

test('each dependency is named with its reason, and none that is gone still is', async () => {
  const decision = await readFile(join(root, 'docs/decisions/0008-dependencies.md'), 'utf8');
  const named = decision
    .split('\n')
    .filter((line) => line.startsWith('| `'))
    .flatMap((line) => [...(line.split('|')[1] ?? '').matchAll(/`([^`]+)`/g)].map(([, name]) => name));
  assert.deepEqual(named.sort(), Object.keys(all).sort());
});
