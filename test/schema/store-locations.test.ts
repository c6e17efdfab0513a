/** Where a store lies is described in the XRD and in four CRDs: what one of them lacks, it drops or refuses without the others. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { fieldsOf, kinds, type Schema } from '../../scripts/schema.ts';

const all = await kinds(join(import.meta.dirname, '../..'));

type Place = readonly [path: string, schema: Schema];

/** Each field of a spec that may be a bucket or a volume. */
const places: readonly Place[] = all.flatMap(({ kind, schema: whole }) =>
  fieldsOf(whole)
    .filter(({ path, schema: { properties } }) => path.startsWith('spec.') && properties?.s3 && properties.pvc)
    .map(({ path, schema }) => [`${kind} ${path}`, schema]),
);
const endingIn = (field: string): readonly Place[] => places.filter(([path]) => path.endsWith(`.${field}`));

/** Each field in it with all that is said of that field alone; the places of messages differ, and so do descriptions of the whole. */
const rowsOf = (schema: Schema): Record<string, unknown> => {
  const text = JSON.stringify(schema).replaceAll(/spec\.[\w.]*?(destination|source)\b/g, 'it');
  return Object.fromEntries(
    fieldsOf(JSON.parse(text) as Schema).map(({ path, required, schema: { properties: _, required: __, ...own } }) => [
      path,
      { required, ...own },
    ]),
  );
};
const without = (rows: Record<string, unknown>, ...paths: readonly string[]): Record<string, unknown> =>
  Object.fromEntries(Object.entries(rows).filter(([path]) => !paths.some((one) => path.startsWith(one))));

describe('where a snapshot lies', () => {
  it('is described wherever snapshots are written or read', () => {
    assert.deepEqual(places.map(([path]) => path).sort(), [
      'EtcdCluster spec.backup.destination',
      'EtcdCluster spec.bootstrap.restore.source',
      'EtcdCluster spec.recovery.source',
      'EtcdQuorum spec.recovery.source',
      'EtcdQuorum spec.restore.source',
      'EtcdRestore spec.source',
      'EtcdSnapshot spec.destination',
      'EtcdSnapshotSchedule spec.destination',
    ]);
  });

  const [destination] = endingIn('destination');
  const source = places.find(([path]) => path === 'EtcdRestore spec.source');
  assert.ok(destination !== undefined && source !== undefined);

  for (const [path, schema] of endingIn('destination')) {
    it(`is the same in ${path} as in every destination, since one is copied into the next`, () => {
      assert.deepEqual(rowsOf(schema), rowsOf(destination[1]));
    });
  }

  for (const [path, schema] of endingIn('source')) {
    it(`is the same in ${path} as in every source, since one is copied into the next`, () => {
      assert.deepEqual(without(rowsOf(schema), 'snapshotRef'), without(rowsOf(source[1]), 'snapshotRef'));
    });
  }

  it('is reached in the same way for reading as for writing', () => {
    // The exact object as against a prefix, and how it is to be encrypted as against what it is read by.
    const own = ['s3.key', 's3.serverSideEncryption', 'pvc.subPath', 'snapshotRef', 'encryption'];
    assert.deepEqual(without(rowsOf(source[1]), ...own), without(rowsOf(destination[1]), ...own));
  });
});
