/** docs/api.md: every field of the API with type, default, meaning and rules, from the same schemas the API server has. */
import { type Column, type Field, fieldsOf, type Kind, kubernetesType, type Schema } from './schema.ts';

const code = (text: string): string => `\`${text}\``;
/** A table's cell: a bar would end it, even inside code. */
const cell = (text: string): string => text.replaceAll('|', '\\|').replace(/\s+/g, ' ').trim();
const row = (cells: string[]): string => `| ${cells.map(cell).join(' | ')} |`;
const table = (head: string[], rows: string[][]): string =>
  [row(head), row(head.map(() => '---')), ...rows.map(row)].join('\n');

const typeOf = (kind: Kind, { path, schema }: Field): string => {
  const known = kubernetesType(kind, path);
  if (known) return known.array ? `list of ${known.type}` : known.type;
  if (schema['x-kubernetes-int-or-string']) return 'quantity';
  if (schema.format === 'date-time') return 'time';
  if (schema.type === 'array') {
    const item = schema.items?.type ?? 'object';
    return `list of ${item}s`;
  }
  if (schema.type === 'object' && !schema.properties && schema.additionalProperties) return 'map';
  return schema.format ?? schema.type ?? '';
};

const boundsOf = (schema: Schema): string[] => {
  const rules: string[] = [];
  if (schema.enum) rules.push(`one of ${schema.enum.map((value) => code(JSON.stringify(value))).join(', ')}`);
  const { minimum, maximum, maxLength, maxItems, maxProperties } = schema;
  if (minimum !== undefined && maximum !== undefined) rules.push(`${minimum} to ${maximum}`);
  else if (minimum !== undefined) rules.push(`at least ${minimum}`);
  else if (maximum !== undefined) rules.push(`at most ${maximum}`);
  if (maxLength !== undefined) rules.push(`at most ${maxLength} characters`);
  if (maxItems !== undefined) rules.push(`at most ${maxItems} items`);
  if (maxProperties !== undefined) rules.push(`at most ${maxProperties} keys`);
  if (schema.pattern !== undefined) rules.push(`matches ${code(schema.pattern)}`);
  return rules;
};

const rulesOf = (schema: Schema, required: boolean): string => {
  const bounds = [...(required ? ['required'] : []), ...boundsOf(schema)].join('; ');
  const messages = (schema['x-kubernetes-validations'] ?? []).map(({ message }) => `“${message}”`);
  return [bounds, ...messages].filter((part) => part !== '').join('<br>');
};

const fields = (kind: Kind, part: 'spec' | 'status'): string => {
  const schema = kind.schema.properties?.[part];
  if (!schema) throw new Error(`${kind.source}: no ${part}`);
  const all = fieldsOf(schema, part).slice(1);
  const collapsed = all.filter(({ path }) => kubernetesType(kind, path)).map(({ path }) => path);
  const shown = all.filter(({ path, schema: field }) => {
    if (collapsed.some((outer) => path.startsWith(outer) && path !== outer)) return false;
    // Items and values say nothing of their own unless they are bounded.
    return !/(\[\]|\{\})$/.test(path) || boundsOf(field).length > 0;
  });
  const withDefaults = part === 'spec' && shown.some(({ schema: field }) => field.default !== undefined);
  const rows = shown.map((field) => {
    const value = field.schema.default === undefined ? '' : code(JSON.stringify(field.schema.default));
    const known = kubernetesType(kind, field.path);
    const more =
      known && field.schema.properties
        ? ` Fields: ${code(`kubectl explain ${kind.kind.toLowerCase()}.${field.path}`)}.`
        : '';
    return [
      code(field.path),
      typeOf(kind, field),
      ...(withDefaults ? [value] : []),
      (field.schema.description ?? '') + more,
      ...(part === 'spec' ? [rulesOf(field.schema, field.required)] : []),
    ];
  });
  const head = [
    'Field',
    'Type',
    ...(withDefaults ? ['Default'] : []),
    'Meaning',
    ...(part === 'spec' ? ['Rules'] : []),
  ];
  const own = schema['x-kubernetes-validations'] ?? [];
  const whole =
    own.length === 0 ? '' : `\n\nAcross fields:\n\n${own.map(({ message }) => `- “${message}”`).join('\n')}`;
  return `### ${part}\n\n${schema.description ?? ''}\n\n${table(head, rows)}${whole}`;
};

const columns = (all: Column[]): string =>
  table(
    ['Column', 'From', 'Meaning'],
    all.map(({ name, jsonPath, description, priority }) => [
      priority ? `${name} (with \`-o wide\`)` : name,
      code(jsonPath),
      description ?? '',
    ]),
  );

const section = (kind: Kind): string => {
  const name = kind.schema.properties?.metadata?.properties?.name;
  const naming = [
    ...(name?.maxLength === undefined ? [] : [`- ${code('metadata.name')}: at most ${name.maxLength} characters.`]),
    ...(kind.schema['x-kubernetes-validations'] ?? []).map(({ message }) => `- “${message}”`),
  ];
  const names = [kind.plural, ...kind.shortNames].map(code).join(', ');
  return [
    `## ${kind.kind}`,
    kind.schema.description ?? '',
    `For kubectl: ${names}. Source: [${kind.source}](../${kind.source}).`,
    ...(naming.length === 0 ? [] : [naming.join('\n')]),
    fields(kind, 'spec'),
    fields(kind, 'status'),
    ...(kind.composite
      ? [
          'Crossplane adds `spec.crossplane` and `status.conditions`, and the columns SYNCED, READY, COMPOSITION and AGE.',
        ]
      : []),
    columns(kind.columns),
  ].join('\n\n');
};

/** The whole page. */
export const apiReference = (kinds: Kind[]): string => {
  const [first] = kinds;
  if (!first) throw new Error('no kinds to describe');
  const spec = kinds.map((kind) => {
    const anchor = kind.kind.toLowerCase();
    return [
      `[${kind.kind}](#${anchor})`,
      kind.composite ? 'you' : 'the composition functions',
      kind.schema.description?.split('. ')[0] ?? '',
    ];
  });
  return `${[
    '<!-- Generated by npm run generate from xrds/ and runtime/crds/. Change those, not this. -->',
    '# API reference',
    `Group ${code(first.group)}, version ${code(first.version)}; every kind is namespaced, and ${code('kubectl get etcd-operator')} lists all of them. ${code(
      'kubectl explain',
    )} says the same as this page at a terminal. A quotation is what the API server answers where a rule is broken.`,
    table(['Kind', 'Who writes its spec', 'What it is'], spec),
    ...kinds.map(section),
  ].join('\n\n')}\n`;
};
