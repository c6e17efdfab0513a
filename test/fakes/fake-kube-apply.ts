/**
 * Server-side apply with ownership of single fields, simplified: a field is a path of names and list keys; several managers
 * may own one; what a manager owned and sends no more is removed unless somebody else owns it.
 */
import { isDeepStrictEqual } from 'node:util';
import { copyJson, isObject, type Json, type JsonObject, type ListType } from './fake-kube-schema.ts';

/** One step of a path: a field's name, a list item's keys, or a value of a set. */
type Step = string | { key: JsonObject } | { value: Json };
type Path = Step[];

export type ListTypes = (fields: readonly string[]) => ListType;
/** Paths, as JSON, owned by each manager. */
export type Owners = Map<string, Set<string>>;

const names = (path: Path): string[] => path.filter((step) => typeof step === 'string');

const keyOf = (item: JsonObject, keys: readonly string[]): JsonObject => {
  const key: JsonObject = {};
  // Protocol is a key that everybody leaves out.
  for (const name of keys) key[name] = item[name] ?? (name === 'protocol' ? 'TCP' : null);
  return key;
};

const itemAt = (list: Json[], key: JsonObject): number =>
  list.findIndex((item) => isObject(item) && isDeepStrictEqual(keyOf(item, Object.keys(key)), key));

/** Every leaf of the value; an item of a map list is a leaf too, so that an item without fields still has an owner. */
const leaves = (value: Json, types: ListTypes, path: Path = []): Path[] => {
  if (isObject(value)) {
    const fields = Object.entries(value);
    if (fields.length === 0) return path.length === 0 ? [] : [path];
    return fields.flatMap(([name, child]) => leaves(child, types, [...path, name]));
  }
  if (Array.isArray(value)) {
    const type = types(names(path));
    if (type.kind === 'set') return value.map((item) => [...path, { value: item }]);
    if (type.kind === 'map' && value.every(isObject)) {
      return value.flatMap((item) => {
        const at: Path = [...path, { key: keyOf(item, type.keys) }];
        return [at, ...leaves(item, types, at)];
      });
    }
  }
  return [path];
};

/** Name, uid and the like say which object is meant; nobody owns them. */
const unowned = new Set(
  ['name', 'namespace', 'uid', 'resourceVersion', 'generation', 'creationTimestamp', 'deletionTimestamp'].concat(
    'deletionGracePeriodSeconds',
    'managedFields',
  ),
);

export const fieldsOf = (object: JsonObject, types: ListTypes): Set<string> => {
  const found = new Set<string>();
  for (const path of leaves(object, types)) {
    if (path[0] === 'apiVersion' || path[0] === 'kind') continue;
    if (path[0] === 'metadata' && (path.length === 1 || unowned.has(path[1] as string))) continue;
    found.add(JSON.stringify(path));
  }
  return found;
};

const valueAt = (object: Json, path: Path): Json | undefined => {
  let at: Json | undefined = object;
  for (const step of path) {
    if (typeof step === 'string') at = isObject(at) ? at[step] : undefined;
    else if (!Array.isArray(at)) return undefined;
    else if ('key' in step) at = at[itemAt(at, step.key)];
    else at = at.find((item) => isDeepStrictEqual(item, step.value));
    if (at === undefined) return undefined;
  }
  return at;
};

const removeAt = (object: Json, path: Path): void => {
  const parent = valueAt(object, path.slice(0, -1));
  const last = path.at(-1);
  if (typeof last === 'string') {
    if (isObject(parent)) delete parent[last];
  } else if (last !== undefined && Array.isArray(parent)) {
    const index =
      'key' in last ? itemAt(parent, last.key) : parent.findIndex((item) => isDeepStrictEqual(item, last.value));
    if (index >= 0) parent.splice(index, 1);
  }
};

/** A structure goes with the last field in it, unless somebody sends it empty. */
const removeEmptied = (live: JsonObject, path: Path, everybody: readonly Path[]): void => {
  const value = path.length > 0 && typeof path.at(-1) === 'string' ? valueAt(live, path) : undefined;
  if (!isObject(value) || Object.keys(value).length > 0) return;
  if (everybody.some((owned) => startsWith(owned, path))) return;
  removeAt(live, path);
  removeEmptied(live, path.slice(0, -1), everybody);
};

const merge = (live: Json | undefined, sent: Json, types: ListTypes, path: Path): Json => {
  if (isObject(sent)) {
    const into: JsonObject = isObject(live) ? live : {};
    for (const [name, child] of Object.entries(sent)) into[name] = merge(into[name], child, types, [...path, name]);
    return into;
  }
  if (Array.isArray(sent) && Array.isArray(live)) {
    const type = types(names(path));
    if (type.kind === 'set') {
      for (const item of sent) if (!live.some((there) => isDeepStrictEqual(there, item))) live.push(item);
      return live;
    }
    if (type.kind === 'map' && sent.every(isObject)) {
      for (const item of sent) {
        const key = keyOf(item, type.keys);
        const index = itemAt(live, key);
        if (index >= 0) live[index] = merge(live[index], item, types, [...path, { key }]);
        else live.push(copyJson(item));
      }
      return live;
    }
  }
  return copyJson(sent);
};

const startsWith = (path: Path, prefix: Path): boolean =>
  path.length >= prefix.length && prefix.every((step, n) => isDeepStrictEqual(step, path[n]));

/** The fields of `sent` that hold another value now and belong to somebody else: `manager: .path`. */
export const conflictsOf = (
  live: JsonObject,
  sent: JsonObject,
  owners: Owners,
  manager: string,
  types: ListTypes,
): { manager: string; field: string }[] =>
  [...fieldsOf(sent, types)].flatMap((field) => {
    const path = JSON.parse(field) as Path;
    if (typeof path.at(-1) !== 'string') return [];
    if (isDeepStrictEqual(valueAt(live, path), valueAt(sent, path))) return [];
    return [...owners]
      .filter(([other, fields]) => other !== manager && fields.has(field))
      .map(([other]) => ({ manager: other, field: `.${names(path).join('.')}` }));
  });

/** Merges `sent` into `live` in place and moves ownership; conflicts are taken. */
export const applyFields = (
  live: JsonObject,
  sent: JsonObject,
  owners: Owners,
  manager: string,
  types: ListTypes,
): void => {
  const fields = fieldsOf(sent, types);
  const before = owners.get(manager) ?? new Set<string>();
  for (const { manager: other } of conflictsOf(live, sent, owners, manager, types)) {
    const theirs = owners.get(other);
    for (const field of fields) {
      const path = JSON.parse(field) as Path;
      if (!isDeepStrictEqual(valueAt(live, path), valueAt(sent, path))) theirs?.delete(field);
    }
  }
  merge(live, sent, types, []);
  owners.set(manager, fields);
  const everybody = [...owners.values()].flatMap((theirs) => [...theirs].map((field) => JSON.parse(field) as Path));
  const dropped = [...before].filter((field) => !fields.has(field)).map((field) => JSON.parse(field) as Path);
  // Whole items before their fields, since an item is found by its fields; one that stays keeps those that name it.
  for (const path of dropped.sort((a, b) => a.length - b.length)) {
    const [item, last] = path.slice(-2);
    if (typeof item === 'object' && 'key' in item && typeof last === 'string' && last in item.key) continue;
    if (everybody.some((owned) => startsWith(owned, path))) continue;
    removeAt(live, path);
    removeEmptied(live, path.slice(0, -1), everybody);
  }
};

/** An ordinary write: its manager takes what it changed from everybody, and what it removed is nobody's. */
export const takeFields = (
  before: JsonObject,
  after: JsonObject,
  owners: Owners,
  manager: string,
  types: ListTypes,
): void => {
  const old = fieldsOf(before, types);
  const now = fieldsOf(after, types);
  const mine = owners.get(manager) ?? new Set<string>();
  for (const field of now) {
    const path = JSON.parse(field) as Path;
    if (old.has(field) && isDeepStrictEqual(valueAt(before, path), valueAt(after, path))) continue;
    for (const theirs of owners.values()) theirs.delete(field);
    mine.add(field);
  }
  owners.set(manager, mine);
  for (const theirs of owners.values()) for (const field of theirs) if (!now.has(field)) theirs.delete(field);
};
