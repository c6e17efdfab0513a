/** Reads the kinds of our API from the XRD and the CRDs, each with the schema the API server will really serve. */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parse } from 'yaml';

/** The parts of a structural schema that we use. */
export interface Schema {
  type?: string;
  format?: string;
  description?: string;
  default?: unknown;
  enum?: unknown[];
  pattern?: string;
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  minItems?: number;
  maxItems?: number;
  minProperties?: number;
  maxProperties?: number;
  required?: string[];
  properties?: Record<string, Schema>;
  additionalProperties?: Schema | boolean;
  items?: Schema;
  'x-kubernetes-int-or-string'?: boolean;
  'x-kubernetes-preserve-unknown-fields'?: boolean;
  'x-kubernetes-list-type'?: string;
  'x-kubernetes-list-map-keys'?: string[];
  'x-kubernetes-map-type'?: string;
  'x-kubernetes-validations'?: { rule: string; message?: string; messageExpression?: string }[];
}

export interface Column {
  name: string;
  type: string;
  jsonPath: string;
  priority?: number;
  description?: string;
}

export interface Kind {
  kind: string;
  group: string;
  version: string;
  plural: string;
  shortNames: string[];
  /** Whether the file is an XRD, to whose schema Crossplane adds its own fields. */
  composite: boolean;
  /** Path of the file in the repository. */
  source: string;
  schema: Schema;
  columns: Column[];
}

interface Definition {
  kind: string;
  spec: {
    group: string;
    names: { kind: string; plural: string; shortNames?: string[] };
    versions: { name: string; schema: { openAPIV3Schema: Schema }; additionalPrinterColumns?: Column[] }[];
  };
}

/** A type of the package kubernetes-types. */
export interface KubernetesType {
  module: string;
  type: string;
  array?: boolean;
}

/**
 * Parts of our schemas that are Kubernetes' own types. Their schema is spelled out in the YAML so that `kubectl explain`
 * and validation work; in TypeScript they are the types that the Pods we make of them have.
 */
const KUBERNETES: Record<string, KubernetesType> = {
  'EtcdCluster.spec.affinity': { module: 'core/v1', type: 'Affinity' },
  'EtcdCluster.spec.resources': { module: 'core/v1', type: 'ResourceRequirements' },
  'EtcdCluster.spec.tolerations': { module: 'core/v1', type: 'Toleration', array: true },
  'EtcdCluster.spec.topologySpreadConstraints': { module: 'core/v1', type: 'TopologySpreadConstraint', array: true },
  'EtcdCluster.spec.imagePullSecrets': { module: 'core/v1', type: 'LocalObjectReference', array: true },
  'EtcdMember.spec.template.metadata': { module: 'meta/v1', type: 'ObjectMeta' },
  'EtcdMember.spec.template.spec': { module: 'core/v1', type: 'PodSpec' },
  'EtcdMember.spec.volumeClaimTemplate.metadata': { module: 'meta/v1', type: 'ObjectMeta' },
  'EtcdMember.spec.volumeClaimTemplate.spec': { module: 'core/v1', type: 'PersistentVolumeClaimSpec' },
};

/** Kubernetes' own type of the field at this path, such as `spec.affinity`; undefined where the type is ours. */
export const kubernetesType = (kind: Kind, path: string): KubernetesType | undefined =>
  KUBERNETES[`${kind.kind}.${path}`];

/**
 * What Crossplane 2 adds to the CRD it makes of a Namespaced XRD. Types need it, since functions read both; the schema
 * tests compare it with what the real `crossplane xrd convert` prints.
 */
const nameRef: Schema = { type: 'object', required: ['name'], properties: { name: { type: 'string' } } };
const labelSelector: Schema = {
  type: 'object',
  required: ['matchLabels'],
  properties: { matchLabels: { type: 'object', additionalProperties: { type: 'string' } } },
};
export const CROSSPLANE_SPEC: Schema = {
  type: 'object',
  description: 'Configures how Crossplane will reconcile this composite resource',
  properties: {
    compositionRef: nameRef,
    compositionSelector: labelSelector,
    compositionRevisionRef: nameRef,
    compositionRevisionSelector: labelSelector,
    compositionUpdatePolicy: { type: 'string', enum: ['Automatic', 'Manual'] },
    resourceRefs: {
      type: 'array',
      items: {
        type: 'object',
        required: ['apiVersion', 'kind'],
        properties: { apiVersion: { type: 'string' }, name: { type: 'string' }, kind: { type: 'string' } },
      },
    },
  },
};
export const CROSSPLANE_CONDITIONS: Schema = {
  type: 'array',
  description: 'Conditions of the resource.',
  items: {
    type: 'object',
    required: ['lastTransitionTime', 'reason', 'status', 'type'],
    properties: {
      lastTransitionTime: { type: 'string', format: 'date-time' },
      message: { type: 'string' },
      reason: { type: 'string' },
      status: { type: 'string' },
      type: { type: 'string' },
      observedGeneration: { type: 'integer', format: 'int64' },
    },
  },
};

/** Every kind of the API, in order of name. Throws where a file is not a definition with exactly one version. */
export const kinds = async (root: string): Promise<Kind[]> => {
  const found: Kind[] = [];
  for (const folder of ['xrds', 'runtime/crds']) {
    for (const file of (await readdir(join(root, folder))).filter((name) => name.endsWith('.yaml'))) {
      const source = `${folder}/${file}`;
      const definition = parse(await readFile(join(root, source), 'utf8')) as Definition;
      const [version, second] = definition.spec.versions;
      if (!version || second) throw new Error(`${source}: expected exactly one version in spec.versions`);
      found.push({
        kind: definition.spec.names.kind,
        group: definition.spec.group,
        version: version.name,
        plural: definition.spec.names.plural,
        shortNames: definition.spec.names.shortNames ?? [],
        composite: definition.kind === 'CompositeResourceDefinition',
        source,
        schema: version.schema.openAPIV3Schema,
        columns: version.additionalPrinterColumns ?? [],
      });
    }
  }
  return found.sort((a, b) => (a.kind < b.kind ? -1 : 1));
};

export interface Field {
  /** Where it stands: `spec.tolerations[].key` for a field of each item, `spec.nodeSelector{}` for each value of a map. */
  path: string;
  schema: Schema;
  required: boolean;
}

/** Every field below a schema, each before the fields inside it. */
export const fieldsOf = (schema: Schema, path = '', required = false): Field[] => {
  const fields: Field[] = path === '' ? [] : [{ path, schema, required }];
  for (const [name, inner] of Object.entries(schema.properties ?? {})) {
    const below = path === '' ? name : `${path}.${name}`;
    fields.push(...fieldsOf(inner, below, schema.required?.includes(name) ?? false));
  }
  if (schema.items) fields.push(...fieldsOf(schema.items, `${path}[]`));
  if (typeof schema.additionalProperties === 'object')
    fields.push(...fieldsOf(schema.additionalProperties, `${path}{}`));
  return fields;
};
