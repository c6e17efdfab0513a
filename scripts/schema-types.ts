/** TypeScript types of one kind, with a name for each part that code passes around. */
import { compile, type JSONSchema } from 'json-schema-to-typescript';
import { CROSSPLANE_CONDITIONS, CROSSPLANE_SPEC, type Kind, kubernetesType, type Schema } from './schema.ts';

const capital = (word: string): string => word.charAt(0).toUpperCase() + word.slice(1);
const singular = (word: string): string => word.replace(/ies$/, 'y').replace(/s$/, '');

/** Source of the module for one kind. Throws where two parts would get the same name. */
export const typesOf = async (kind: Kind): Promise<string> => {
  const definitions: Record<string, JSONSchema> = {};
  const imports = new Map<string, Set<string>>([['meta/v1', new Set(['ObjectMeta'])]]);

  const define = (name: string, schema: JSONSchema): JSONSchema => {
    if (definitions[name]) throw new Error(`${kind.source}: two parts would both be named ${name}`);
    definitions[name] = schema;
    // Not a $ref: beside one, the description of the property would be lost or the type inlined without its name.
    return { tsType: name };
  };

  const convert = (schema: Schema, path: string[]): JSONSchema => {
    const described = schema.description === undefined ? {} : { description: schema.description };
    const known = kubernetesType(kind, path.join('.'));
    if (known) {
      const names = imports.get(known.module) ?? new Set();
      imports.set(known.module, names.add(known.type));
      return { ...described, tsType: known.array ? `${known.type}[]` : known.type };
    }
    // The name leaves out `spec` and `status` below the top, as in EtcdQuorumOperation: no kind has a part of the
    // same name in both, and define() refuses it should one come.
    const inner = path.length > 1 ? path.slice(1) : path;
    const name = kind.kind + inner.map(capital).join('');
    if (schema['x-kubernetes-int-or-string']) return { ...described, tsType: 'number | string' };
    if (schema.enum) {
      return { ...described, ...define(name, { ...described, enum: schema.enum as string[] }) };
    }
    if (schema.type === 'array') {
      const parts = [...path.slice(0, -1), singular(path.at(-1) ?? '')];
      return { ...described, type: 'array', items: convert(schema.items ?? {}, parts) };
    }
    if (schema.type === 'object' && schema.properties) {
      const properties: Record<string, JSONSchema> = {};
      for (const [key, value] of Object.entries(schema.properties)) properties[key] = convert(value, [...path, key]);
      const body: JSONSchema = {
        ...described,
        type: 'object',
        properties,
        required: schema.required ?? [],
        additionalProperties: false,
      };
      return { ...described, ...define(name, body) };
    }
    if (schema.type === 'object' && schema['x-kubernetes-preserve-unknown-fields']) {
      return { ...described, tsType: 'object' };
    }
    if (schema.type === 'object') {
      const values = typeof schema.additionalProperties === 'object' ? schema.additionalProperties : {};
      return { ...described, type: 'object', additionalProperties: convert(values, path) };
    }
    return { ...described, type: schema.type as 'string' };
  };

  const spec = kind.schema.properties?.spec ?? {};
  const status = kind.schema.properties?.status ?? {};
  const whole = (part: Schema, added: Record<string, Schema>): Schema =>
    kind.composite ? { ...part, properties: { ...part.properties, ...added } } : part;

  const schema: JSONSchema = {
    ...(kind.schema.description === undefined ? {} : { description: kind.schema.description }),
    type: 'object',
    additionalProperties: false,
    required: ['apiVersion', 'kind', 'metadata', 'spec'],
    properties: {
      apiVersion: { type: 'string', enum: [`${kind.group}/${kind.version}`] },
      kind: { type: 'string', enum: [kind.kind] },
      metadata: { tsType: 'ObjectMeta' },
      spec: convert(whole(spec, { crossplane: CROSSPLANE_SPEC }), ['spec']),
      status: convert(whole(status, { conditions: CROSSPLANE_CONDITIONS }), ['status']),
    },
    definitions,
  };

  const compiled = await compile(schema, kind.kind, {
    bannerComment: '',
    ignoreMinAndMaxItems: true,
    unreachableDefinitions: true,
    unknownAny: true,
    style: { singleQuote: true, printWidth: 120, trailingComma: 'all' },
  });
  // A remark of the compiler about definitions that it saw no $ref to.
  const body = compiled
    .replace(
      /( \*\n)? \* This interface was referenced by `\w+`'s JSON-Schema\n \* via the `definition` "\w+"\.\n/g,
      '',
    )
    .replace(/\/\*\*\n \*\/\n/g, '');
  const byText = (a: string, b: string): number => (a < b ? -1 : 1);
  const lines = [...imports]
    .map(
      ([module, names]) =>
        `import type { ${[...names].sort(byText).join(', ')} } from 'kubernetes-types/${module}.js';`,
    )
    .sort(byText);
  return `// Generated from ${kind.source} by npm run generate. Change that file, not this one.\n\n${lines.join('\n')}\n\n${body}`;
};
