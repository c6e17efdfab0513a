import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { parseAllDocuments } from 'yaml';
import type { Kube } from '../ports/kube.ts';
import { ownImage } from './own-image.ts';

const kubeWith = (pod: unknown): Pick<Kube, 'get'> => ({ get: async () => pod as never });

test('the image is that of the container as deploy/ names it, whatever was injected beside it', async () => {
  const manifest = await readFile(join(import.meta.dirname, '../../deploy/runtime/deployment.yaml'), 'utf8');
  const [deployment] = parseAllDocuments(manifest).map((document) => document.toJS());
  const { containers } = deployment.spec.template.spec;
  const pod = { spec: { containers: [{ name: 'proxy', image: 'mesh:1' }, ...containers] } };
  assert.equal(await ownImage(kubeWith(pod), { namespace: 'n', pod: 'p' }), containers[0].image);
});

test('outside a cluster there is none', async () => {
  assert.equal(await ownImage(kubeWith(undefined), { namespace: 'n', pod: 'gone' }), undefined);
  assert.equal(await ownImage(kubeWith({}), { namespace: undefined, pod: 'p' }), undefined);
});
