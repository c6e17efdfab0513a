/**
 * What the fake API server knows about the shape of objects: for our own kinds the real schemas, read from the CRDs and the
 * XRD (pruning, defaults, simple validation, list types); for built-in kinds the list types that server-side apply needs.
 */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { parse } from 'yaml';

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type JsonObject = { [key: string]: Json };

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** A deep copy of plain JSON; ten times as fast as `structuredClone`, and a story makes a hundred thousand. */
export const copyJson = <T extends Json>(value: T): T => {
  if (Array.isArray(value)) return value.map(copyJson) as T;
  if (!isObject(value)) return value;
  const copied: JsonObject = {};
  for (const key in value) copied[key] = copyJson(value[key] as Json);
  return copied as T;
};

export type Schema = {
  type?: string;
  properties?: Record<string, Schema>;
  additionalProperties?: Schema | boolean;
  items?: Schema;
  required?: string[];
  default?: Json;
  enum?: Json[];
  pattern?: string;
  minLength?: number;
  maxLength?: number;
  minimum?: number;
  maximum?: number;
  minItems?: number;
  maxItems?: number;
  nullable?: boolean;
  'x-kubernetes-preserve-unknown-fields'?: boolean;
  'x-kubernetes-int-or-string'?: boolean;
  'x-kubernetes-list-type'?: 'map' | 'set' | 'atomic';
  'x-kubernetes-list-map-keys'?: string[];
  'x-kubernetes-map-type'?: 'granular' | 'atomic';
};

type Definition = {
  kind: string;
  spec: {
    group: string;
    names: { plural: string };
    versions: { name: string; schema: { openAPIV3Schema: Schema } }[];
  };
};

const anything: Schema = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true };

/** Crossplane adds these when it makes the CRD of an XRD. */
const withCrossplaneFields = (schema: Schema): Schema => ({
  ...schema,
  properties: {
    ...schema.properties,
    spec: {
      type: 'object',
      ...schema.properties?.spec,
      properties: { ...schema.properties?.spec?.properties, crossplane: anything },
    },
    status: {
      type: 'object',
      ...schema.properties?.status,
      properties: {
        ...schema.properties?.status?.properties,
        crossplane: anything,
        conditions: {
          type: 'array',
          items: anything,
          'x-kubernetes-list-type': 'map',
          'x-kubernetes-list-map-keys': ['type'],
        },
      },
    },
  },
});

/** Schemas of our own kinds by `group/version/plural`. */
export const ownSchemas = (root = path.resolve(import.meta.dirname, '../..')): Map<string, Schema> => {
  const found = new Map<string, Schema>();
  for (const folder of ['runtime/crds', 'xrds']) {
    for (const file of readdirSync(path.join(root, folder))) {
      if (!file.endsWith('.yaml')) continue;
      const { kind, spec } = parse(readFileSync(path.join(root, folder, file), 'utf8')) as Definition;
      for (const version of spec.versions) {
        const schema = version.schema.openAPIV3Schema;
        found.set(
          `${spec.group}/${version.name}/${spec.names.plural}`,
          kind === 'CompositeResourceDefinition' ? withCrossplaneFields(schema) : schema,
        );
      }
    }
  }
  return found;
};

/** Drops what the schema does not know and fills in defaults, in place; `metadata` at the root is not its business. */
export const conform = (schema: Schema, value: Json, root = true): void => {
  if (Array.isArray(value)) {
    if (schema.items !== undefined) for (const item of value) conform(schema.items, item, false);
    return;
  }
  if (!isObject(value)) return;
  for (const [key, property] of Object.entries(schema.properties ?? {})) {
    if (value[key] === undefined && property.default !== undefined) value[key] = structuredClone(property.default);
  }
  for (const key of Object.keys(value)) {
    if (root && ['apiVersion', 'kind', 'metadata'].includes(key)) continue;
    const known = schema.properties?.[key];
    const child = value[key] as Json;
    if (known !== undefined) conform(known, child, false);
    else if (isObject(schema.additionalProperties)) conform(schema.additionalProperties as Schema, child, false);
    else if (schema['x-kubernetes-preserve-unknown-fields'] !== true && schema.additionalProperties !== true) {
      delete value[key];
    }
  }
};

const typeOf = (value: Json): string =>
  value === null
    ? 'null'
    : Array.isArray(value)
      ? 'array'
      : typeof value === 'number' && Number.isInteger(value)
        ? 'integer'
        : typeof value;

/** What is wrong with the value, in the API server's manner; CEL rules are left to the real one. */
export const faultsOf = (schema: Schema, value: Json, at = ''): string[] => {
  const type = typeOf(value);
  if (value === null) return schema.nullable === true ? [] : [`${at}: Invalid value: null`];
  if (schema['x-kubernetes-int-or-string'] === true) {
    return type === 'integer' || type === 'string' ? [] : [`${at}: Invalid value: must be an integer or a string`];
  }
  if (schema.type !== undefined && schema.type !== type && !(schema.type === 'number' && type === 'integer')) {
    return [`${at}: Invalid value: "${type}": must be of type ${schema.type}`];
  }
  const faults: string[] = [];
  const wrong = (why: string): void => void faults.push(`${at}: Invalid value: ${JSON.stringify(value)}: ${why}`);
  if (schema.enum !== undefined && !schema.enum.includes(value)) wrong(`supported values: ${schema.enum.join(', ')}`);
  if (typeof value === 'string') {
    if (schema.pattern !== undefined && !new RegExp(schema.pattern).test(value))
      wrong(`should match ${schema.pattern}`);
    if (schema.minLength !== undefined && value.length < schema.minLength) wrong(`at least ${schema.minLength} chars`);
    if (schema.maxLength !== undefined && value.length > schema.maxLength) wrong(`at most ${schema.maxLength} chars`);
  }
  if (typeof value === 'number') {
    if (schema.minimum !== undefined && value < schema.minimum) wrong(`at least ${schema.minimum}`);
    if (schema.maximum !== undefined && value > schema.maximum) wrong(`at most ${schema.maximum}`);
  }
  if (Array.isArray(value)) {
    if (schema.minItems !== undefined && value.length < schema.minItems) wrong(`at least ${schema.minItems} items`);
    if (schema.maxItems !== undefined && value.length > schema.maxItems) wrong(`at most ${schema.maxItems} items`);
    const { items } = schema;
    if (items !== undefined) value.forEach((item, n) => void faults.push(...faultsOf(items, item, `${at}[${n}]`)));
  }
  if (isObject(value)) {
    for (const key of schema.required ?? []) if (value[key] === undefined) faults.push(`${at}.${key}: Required value`);
    for (const [key, child] of Object.entries(value)) {
      const known =
        schema.properties?.[key] ??
        (isObject(schema.additionalProperties) ? (schema.additionalProperties as Schema) : undefined);
      if (known !== undefined && !(at === '' && key === 'metadata'))
        faults.push(...faultsOf(known, child, `${at}.${key}`));
    }
  }
  return faults;
};

export type ListType = { kind: 'map'; keys: string[] } | { kind: 'set' } | { kind: 'atomic' };

/** Fields of built-in kinds whose lists merge by key, wherever they stand. */
const builtInMaps: Record<string, string[]> = {
  conditions: ['type'],
  containers: ['name'],
  env: ['name'],
  ephemeralContainers: ['name'],
  hostAliases: ['ip'],
  imagePullSecrets: ['name'],
  initContainers: ['name'],
  ownerReferences: ['uid'],
  topologySpreadConstraints: ['topologyKey', 'whenUnsatisfiable'],
  volumeDevices: ['devicePath'],
  volumeMounts: ['mountPath'],
  volumes: ['name'],
};

/** How apply merges the list at this path of field names (items of lists add no name). */
export const listTypeAt = (schema: Schema | undefined, fields: readonly string[]): ListType => {
  const last = fields.at(-1) ?? '';
  if (fields[0] === 'metadata') {
    if (last === 'finalizers') return { kind: 'set' };
    if (last === 'ownerReferences') return { kind: 'map', keys: ['uid'] };
    return { kind: 'atomic' };
  }
  if (schema !== undefined) {
    let at: Schema | undefined = schema;
    for (const field of fields) {
      at = at.type === 'array' ? at.items : at;
      at =
        at?.properties?.[field] ??
        (isObject(at?.additionalProperties) ? (at.additionalProperties as Schema) : undefined);
      if (at === undefined) return { kind: 'atomic' };
    }
    const kind = at['x-kubernetes-list-type'];
    if (kind === 'map') return { kind, keys: at['x-kubernetes-list-map-keys'] ?? [] };
    return { kind: kind ?? 'atomic' };
  }
  if (last === 'ports') {
    return fields.includes('containers') || fields.includes('initContainers')
      ? { kind: 'map', keys: ['containerPort', 'protocol'] }
      : { kind: 'map', keys: ['port', 'protocol'] };
  }
  const keys = builtInMaps[last];
  return keys === undefined ? { kind: 'atomic' } : { kind: 'map', keys };
};
