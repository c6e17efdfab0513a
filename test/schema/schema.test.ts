import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { incarnationName, memberName } from '../../api/names.ts';
import { CROSSPLANE_CONDITIONS, CROSSPLANE_SPEC, fieldsOf, kinds, type Schema } from '../../scripts/schema.ts';
import { convertXrd } from './definitions.ts';

const root = join(import.meta.dirname, '../..');
const all = await kinds(root);

const known = new Set([
  'type',
  'format',
  'description',
  'default',
  'enum',
  'pattern',
  'minimum',
  'maximum',
  'minLength',
  'maxLength',
  'minItems',
  'maxItems',
  'minProperties',
  'maxProperties',
  'required',
  'properties',
  'additionalProperties',
  'items',
  'x-kubernetes-int-or-string',
  'x-kubernetes-preserve-unknown-fields',
  'x-kubernetes-list-type',
  'x-kubernetes-list-map-keys',
  'x-kubernetes-map-type',
  'x-kubernetes-validations',
]);

for (const kind of all) {
  describe(kind.kind, () => {
    const fields = fieldsOf(kind.schema).filter(({ path }) => !/^(apiVersion|kind|metadata(\..*)?)$/.test(path));

    it('describes every field, since kubectl explain and the reference show nothing else', () => {
      assert.ok(fields.length > 5);
      assert.deepEqual(
        fields.filter(({ path, schema }) => !schema.description && !/(\[\]|\{\})$/.test(path)).map(({ path }) => path),
        [],
      );
    });

    it('ends every description with a full stop, since one cut at a comma or a colon of YAML does not', () => {
      assert.deepEqual(
        fields.filter(({ schema }) => schema.description && !/[.)]$/.test(schema.description)).map(({ path }) => path),
        [],
      );
    });

    it('holds no key that a structural schema does not have, since YAML turns a stray comma into one', () => {
      const stray = fields.flatMap(({ path, schema }) =>
        Object.keys(schema)
          .filter((key) => !known.has(key))
          .map((key) => `${path}: ${key}`),
      );
      assert.deepEqual(stray, []);
    });

    it('has no rule under status, since a status that breaks one freezes every condition', () => {
      const rules = fields.filter(
        ({ path, schema }) => path.startsWith('status') && schema['x-kubernetes-validations'],
      );
      assert.deepEqual(rules, []);
    });

    // Nobody but its author ever writes the spec of a snapshot or a restore, and that only once.
    it('is never immutable as a whole, since Crossplane and the runtime write into spec', () => {
      if (kind.kind === 'EtcdSnapshot' || kind.kind === 'EtcdRestore') return;
      const rules = fields.find(({ path }) => path === 'spec')?.schema['x-kubernetes-validations'] ?? [];
      assert.deepEqual(
        rules.filter(({ rule }) => rule.replace(/\s/g, '') === 'self==oldSelf'),
        [],
      );
    });

    it('takes its columns from fields that exist, since a wrong path shows an empty column for ever', () => {
      const paths = new Set(fieldsOf(kind.schema).map(({ path }) => path));
      for (const { name, jsonPath } of kind.columns) {
        const path = jsonPath.replace(/^\./, '').replace(/\[\?\(.*\)\]/, '[]');
        // Crossplane adds the conditions of a composite.
        const added = kind.composite && path.startsWith('status.conditions[]');
        assert.ok(
          paths.has(path) || added || path === 'metadata.creationTimestamp',
          `column ${name} reads ${jsonPath}`,
        );
      }
    });
  });
}

describe('the XRD', () => {
  const claim = all.find(({ kind }) => kind === 'EtcdCluster');
  assert.ok(claim);

  it('holds exactly the status that functions project and Crossplane answers with, nothing that nobody writes', () => {
    assert.deepEqual(Object.keys(claim.schema.properties?.status?.properties ?? {}).sort(), [
      'authEnabled',
      'backups',
      'caChange',
      'certificatesExpireAt',
      'clusterID',
      'connection',
      'lastHandledReconcileAt',
      'lastRecovery',
      'leader',
      'learners',
      'members',
      'observedGeneration',
      'phase',
      'readyMembers',
      'selector',
      'version',
      'voters',
    ]);
  });

  it('bounds nothing under status, since the API server refuses a whole status for one value', () => {
    for (const { path, schema } of fieldsOf(claim.schema.properties?.status ?? {}, 'status')) {
      const allowed = ['type', 'format', 'description', 'properties'];
      assert.deepEqual(
        Object.keys(schema).filter((key) => !allowed.includes(key)),
        [],
        path,
      );
    }
  });

  it('begins every message with the place and says what to do, since kubectl shows nothing else', () => {
    for (const { path, schema } of fieldsOf(claim.schema)) {
      for (const { message } of schema['x-kubernetes-validations'] ?? []) {
        assert.match(message ?? '', /^(spec\.|replicas=0 with spec\.).*; /s, path);
      }
    }
  });

  it('adds no column that Crossplane has, since both would be shown', () => {
    const added = ['SYNCED', 'READY', 'COMPOSITION', 'COMPOSITIONREVISION', 'AGE'];
    assert.deepEqual(
      claim.columns.filter(({ name }) => added.includes(name.toUpperCase())),
      [],
    );
  });

  it('limits names so that the longest one derived, a Job of an incarnation, is still a label value', () => {
    const limit = claim.schema.properties?.metadata?.properties?.name?.maxLength ?? 0;
    const pod = incarnationName(memberName('e'.repeat(limit), 8), 'abcde');
    assert.ok(limit >= 40);
    assert.ok(`${pod}-`.length + 9 <= 63, `${pod} and a suffix of ten characters are longer than 63`);
  });
});

describe('the CRD that Crossplane makes of the XRD', async () => {
  const claim = all.find(({ kind }) => kind === 'EtcdCluster');
  const definition = await convertXrd(join(root, 'xrds/etcdcluster.yaml'));
  const served = definition.spec.versions[0]?.schema.openAPIV3Schema;
  assert.ok(claim && served);
  const parts = (schema: Schema): [Schema, Schema] => [schema.properties?.spec ?? {}, schema.properties?.status ?? {}];
  const [spec, status] = parts(served);

  it('holds all we wrote, since Crossplane drops what it does not know without a word', () => {
    const [writtenSpec, writtenStatus] = parts(claim.schema);
    const { crossplane: _, ...ownSpec } = spec.properties ?? {};
    const { conditions: __, ...ownStatus } = status.properties ?? {};
    assert.deepEqual({ ...spec, properties: ownSpec }, writtenSpec);
    assert.deepEqual({ ...status, properties: ownStatus }, writtenStatus);
    assert.deepEqual(served['x-kubernetes-validations'], claim.schema['x-kubernetes-validations']);
    assert.equal(served.properties?.metadata?.properties?.name?.maxLength, 45);
  });

  it('adds the fields that our types say it adds, since functions read them by those types', () => {
    const shapes = (schema: Schema): string[] =>
      fieldsOf(schema, 'added').map(({ path, required, schema: { type, format, enum: values } }) =>
        JSON.stringify({ path, required, type, format, values }),
      );
    assert.deepEqual(shapes(spec.properties?.crossplane ?? {}).sort(), shapes(CROSSPLANE_SPEC).sort());
    assert.deepEqual(shapes(status.properties?.conditions ?? {}).sort(), shapes(CROSSPLANE_CONDITIONS).sort());
  });
});
