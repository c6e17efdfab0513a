/**
 * The fake API server without HTTP: objects, versions, history, finalizers, graceful deletion, garbage collection,
 * namespaces. Refusals are thrown as `Refusal` with the status and reason a real server answers.
 */
import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { apiVersionOf, type JsonPatchOperation, type Resource, resources } from '../../runtime/ports/kube.ts';
import { applyFields, conflictsOf, type ListTypes, type Owners, takeFields } from './fake-kube-apply.ts';
import {
  conform,
  copyJson,
  faultsOf,
  isObject,
  type Json,
  type JsonObject,
  listTypeAt,
  ownSchemas,
  type Schema,
} from './fake-kube-schema.ts';

export type Meta = JsonObject & {
  name: string;
  namespace?: string;
  uid: string;
  resourceVersion: string;
  generation?: number;
  creationTimestamp: string;
  deletionTimestamp?: string;
  finalizers?: string[];
  labels?: Record<string, string>;
};
export type Obj = JsonObject & { apiVersion: string; kind: string; metadata: Meta };

export class Refusal extends Error {
  readonly status: number;
  readonly reason: string;
  readonly causes: { reason: string; message: string; field?: string }[];
  constructor(status: number, reason: string, message: string, causes: Refusal['causes'] = []) {
    super(message);
    this.status = status;
    this.reason = reason;
    this.causes = causes;
  }
}

export type Change = {
  version: bigint;
  resource: Resource;
  type: 'ADDED' | 'MODIFIED' | 'DELETED';
  object: Obj;
  /** What stood there before; absent for a new object. */
  before: Obj | undefined;
};

export type Key = { resource: Resource; namespace?: string | undefined; name: string };

export type DeleteRequest = {
  uid?: string | undefined;
  resourceVersion?: string | undefined;
  gracePeriodSeconds?: number | undefined;
  propagationPolicy?: string | undefined;
};

export type StoreOptions = {
  /** Where timestamps come from; the system's clock when absent. */
  now?: () => number;
  /** False: owners, namespaces and volume protection are the test's own business. */
  garbageCollection?: boolean;
  /** Where uids come from, so that a run can be repeated; random when absent. */
  drawUid?: () => string;
  /** False: ordinary writes own no fields, and only appliers are told from each other. Three times as fast. */
  ownedUpdates?: boolean;
};

type Entry = { resource: Resource; object: Obj; owners: Owners };

/** Kinds whose status is written through its own endpoint only. */
const withStatus = new Set([
  'etcdclusters',
  'etcdmembers',
  'etcdquorums',
  'etcdsnapshots',
  'etcdsnapshotschedules',
  'jobs',
  'namespaces',
  'nodes',
  'persistentvolumeclaims',
  'persistentvolumes',
  'poddisruptionbudgets',
  'pods',
  'services',
]);

const PVC_PROTECTION = 'kubernetes.io/pvc-protection';

export const idOf = (resource: Resource): string => `${resource.group}/${resource.version}/${resource.plural}`;

const groupResource = (resource: Resource): string =>
  resource.group === '' ? resource.plural : `${resource.plural}.${resource.group}`;

/** RFC 6902 and its pointers, on plain JSON. */
const patchJson = (object: JsonObject, operations: readonly JsonPatchOperation[]): JsonObject => {
  const root: { document: Json } = { document: copyJson(object) };
  const failed = (why: string): never => {
    throw new Refusal(422, 'Invalid', `the server rejected our request due to an error in our request: ${why}`);
  };
  const parentOf = (pointer: string): { parent: Json; last: string } => {
    const steps = pointer.split('/').map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'));
    let parent: Json = root;
    let last = 'document';
    for (const step of steps.slice(1)) {
      const next: Json | undefined = Array.isArray(parent)
        ? parent[Number(last)]
        : isObject(parent)
          ? parent[last]
          : undefined;
      if (next === undefined) return failed(`no such path ${pointer}`);
      parent = next;
      last = step;
    }
    return { parent, last };
  };
  const read = (pointer: string): Json | undefined => {
    const { parent, last } = parentOf(pointer);
    return Array.isArray(parent) ? parent[Number(last)] : isObject(parent) ? parent[last] : undefined;
  };
  const remove = (pointer: string): void => {
    if (read(pointer) === undefined) failed(`no such path ${pointer}`);
    const { parent, last } = parentOf(pointer);
    if (Array.isArray(parent)) parent.splice(Number(last), 1);
    else if (isObject(parent)) delete parent[last];
  };
  const add = (pointer: string, value: Json): void => {
    const { parent, last } = parentOf(pointer);
    if (Array.isArray(parent)) parent.splice(last === '-' ? parent.length : Number(last), 0, value);
    else if (isObject(parent)) parent[last] = value;
    else failed(`no such path ${pointer}`);
  };
  for (const operation of operations) {
    switch (operation.op) {
      case 'add':
        add(operation.path, operation.value as Json);
        break;
      case 'remove':
        remove(operation.path);
        break;
      case 'replace':
        remove(operation.path);
        add(operation.path, operation.value as Json);
        break;
      case 'test':
        if (!isDeepStrictEqual(read(operation.path), operation.value)) failed(`testing ${operation.path} failed`);
        break;
      case 'move':
      case 'copy': {
        const found = read(operation.from);
        if (found === undefined) return failed(`no such path ${operation.from}`);
        const value = copyJson(found);
        if (operation.op === 'move') remove(operation.from);
        add(operation.path, value);
        break;
      }
    }
  }
  return root.document as JsonObject;
};

/** RFC 7396. */
const mergePatch = (target: Json | undefined, patch: Json): Json => {
  if (!isObject(patch)) return copyJson(patch);
  const result: JsonObject = isObject(target) ? { ...target } : {};
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete result[name];
    else result[name] = mergePatch(result[name], value);
  }
  return result;
};

export type Write =
  | { kind: 'apply'; body: JsonObject; manager: string; force: boolean }
  | { kind: 'merge'; body: JsonObject; manager: string }
  | { kind: 'json'; body: readonly JsonPatchOperation[]; manager: string }
  | { kind: 'replace'; body: JsonObject; manager: string };

export type Store = {
  /** The version of the newest write. */
  readonly version: bigint;
  get(key: Key): Obj | undefined;
  list(resource: Resource, namespace?: string): Obj[];
  create(resource: Resource, body: JsonObject, manager: string): Obj;
  write(key: Key, write: Write, subresource?: string): { object: Obj; created: boolean };
  delete(key: Key, request?: DeleteRequest): Obj;
  /** As somebody with every right does it: no checks, status included, created when absent. */
  put(resource: Resource, body: JsonObject): Obj;
  /** Gone now, whatever finalizers say. */
  vanish(key: Key): void;
  /** Changes after `version`; undefined when they were compacted away. */
  since(version: bigint): Change[] | undefined;
  /** Forgets all history: watches from before get 410. */
  compact(): void;
  onChange(listen: (change: Change) => void): () => void;
  ownersOf(key: Key): Owners | undefined;
};

/** Read once: a test process may open thousands of stores, and nobody changes a schema. */
let schemasOnce: Map<string, Schema> | undefined;

export const fakeKubeStore = (options: StoreOptions = {}): Store => {
  const now = options.now ?? Date.now;
  const drawUid = options.drawUid ?? randomUUID;
  schemasOnce ??= ownSchemas();
  const schemas = schemasOnce;
  const take: typeof takeFields = (...given) => {
    if (options.ownedUpdates !== false) takeFields(...given);
  };
  const entries = new Map<string, Entry>();
  const dead = new Set<string>();
  const listeners = new Set<(change: Change) => void>();
  let history: Change[] = [];
  let compactedAt = 0n;
  let version = 100n;

  const stamp = (): string => new Date(Math.floor(now() / 1000) * 1000).toISOString().replace('.000Z', 'Z');
  const place = (key: Key): string =>
    `${idOf(key.resource)}|${key.resource.namespaced ? (key.namespace ?? '') : ''}|${key.name}`;
  const schemaOf = (resource: Resource): Schema | undefined => schemas.get(idOf(resource));
  const typesOf =
    (resource: Resource): ListTypes =>
    (fields) =>
      listTypeAt(schemaOf(resource), fields);
  const keyOf = ({ resource, object }: Entry): Key => ({
    resource,
    namespace: object.metadata.namespace,
    name: object.metadata.name,
  });

  const publish = (change: Change): void => {
    history.push(change);
    for (const listen of listeners) listen(change);
  };

  const remove = (entry: Entry): void => {
    const key = keyOf(entry);
    entries.delete(place(key));
    dead.add(entry.object.metadata.uid);
    version += 1n;
    const object = copyJson(entry.object);
    object.metadata.resourceVersion = String(version);
    publish({ version, resource: entry.resource, type: 'DELETED', object, before: entry.object });
  };

  /** Stores `next` unless it equals what is there: a write without a change has no version and no event. */
  const commit = (entry: Entry | undefined, resource: Resource, next: Obj, owners: Owners): Obj => {
    const before = entry?.object;
    for (const field of ['labels', 'annotations', 'finalizers', 'ownerReferences'] as const) {
      const value = next.metadata[field];
      if (value !== undefined && Object.keys(value as JsonObject).length === 0) delete next.metadata[field];
    }
    if (before !== undefined && isDeepStrictEqual(before, next)) {
      if (entry !== undefined) entry.owners = owners;
      return before;
    }
    if (before !== undefined) {
      const { metadata: _m, status: _s, ...spec } = before;
      const { metadata: _n, status: _t, ...nextSpec } = next;
      if (before.metadata.generation !== undefined && !isDeepStrictEqual(spec, nextSpec)) {
        next.metadata.generation = before.metadata.generation + 1;
      }
    }
    version += 1n;
    next.metadata.resourceVersion = String(version);
    entries.set(place({ resource, namespace: next.metadata.namespace, name: next.metadata.name }), {
      resource,
      object: next,
      owners,
    });
    publish({ version, resource, type: before === undefined ? 'ADDED' : 'MODIFIED', object: next, before });
    const entryNow = entries.get(place({ resource, namespace: next.metadata.namespace, name: next.metadata.name }));
    if (next.metadata.deletionTimestamp !== undefined && entryNow !== undefined && releasable(entryNow))
      remove(entryNow);
    return next;
  };

  /** Marked for deletion and held by nothing. A Pod on a node is also held by its kubelet. */
  const releasable = ({ resource, object }: Entry): boolean => {
    if ((object.metadata.finalizers ?? []).length > 0) return false;
    if (resource.plural === 'namespaces') return false;
    const bound = resource.plural === 'pods' && isObject(object.spec ?? null) && (object.spec as JsonObject).nodeName;
    return !bound || object.metadata.deletionGracePeriodSeconds === 0;
  };

  const validate = (resource: Resource, object: Obj): void => {
    const schema = schemaOf(resource);
    if (schema === undefined) return;
    const faults = faultsOf(schema, object);
    if (faults.length > 0) {
      throw new Refusal(
        422,
        'Invalid',
        `${object.kind}.${resource.group} "${object.metadata.name}" is invalid: ${faults.join(', ')}`,
        faults.map((message) => ({ reason: 'FieldValueInvalid', message })),
      );
    }
  };

  const admitNamespace = (resource: Resource, namespace: string | undefined, name: string): void => {
    if (!resource.namespaced) return;
    const home = entries.get(place({ resource: resources.namespaces, name: namespace ?? '' }));
    if (home === undefined) throw new Refusal(404, 'NotFound', `namespaces "${namespace}" not found`);
    if (home.object.metadata.deletionTimestamp !== undefined) {
      throw new Refusal(
        403,
        'Forbidden',
        `${groupResource(resource)} "${name}" is forbidden: unable to create new content in namespace ${namespace} because it is being terminated`,
        [
          {
            reason: 'NamespaceTerminating',
            message: `namespace ${namespace} is being terminated`,
            field: 'metadata.namespace',
          },
        ],
      );
    }
  };

  const make = (resource: Resource, body: JsonObject, trusted: boolean): Obj => {
    const sent = copyJson(body);
    const meta = (isObject(sent.metadata ?? null) ? sent.metadata : {}) as JsonObject;
    const name =
      typeof meta.name === 'string' ? meta.name : `${String(meta.generateName ?? '')}${randomUUID().slice(0, 5)}`;
    const object = {
      ...sent,
      apiVersion: apiVersionOf(resource),
      kind: resource.kind,
      metadata: {
        ...meta,
        name,
        uid: drawUid(),
        resourceVersion: '',
        creationTimestamp: stamp(),
      },
    } as Obj;
    if (!resource.namespaced) delete object.metadata.namespace;
    delete object.metadata.managedFields;
    if (!trusted) {
      delete object.metadata.deletionTimestamp;
      if (withStatus.has(resource.plural)) delete object.status;
      if (resource.plural === 'pods' || resource.plural === 'persistentvolumeclaims')
        object.status = { phase: 'Pending' };
      if (resource.plural === 'namespaces') object.status = { phase: 'Active' };
    }
    if (schemaOf(resource) !== undefined || isObject(object.spec ?? null)) object.metadata.generation = 1;
    if (resource.plural === 'persistentvolumeclaims' && options.garbageCollection !== false) {
      object.metadata.finalizers = [...new Set([...(object.metadata.finalizers ?? []), PVC_PROTECTION])];
    }
    return object;
  };

  const admit = (resource: Resource, object: Obj): void => {
    const schema = schemaOf(resource);
    if (schema !== undefined) conform(schema, object);
    validate(resource, object);
  };

  const guard = (key: Key, live: Obj, sent: JsonObject, subresource: string | undefined): void => {
    const meta = (isObject(sent.metadata ?? null) ? sent.metadata : {}) as JsonObject;
    if (meta.resourceVersion !== undefined && meta.resourceVersion !== live.metadata.resourceVersion) {
      throw new Refusal(
        409,
        'Conflict',
        `Operation cannot be fulfilled on ${groupResource(key.resource)} "${key.name}": the object has been modified; please apply your changes to the latest version and try again`,
      );
    }
    // Status endpoints of custom kinds take the old metadata over before anything compares it (seen with 1.35.4).
    if (subresource !== undefined && schemaOf(key.resource) !== undefined) return;
    if (meta.uid !== undefined && meta.uid !== live.metadata.uid) {
      const why = `Invalid value: "${String(meta.uid)}": field is immutable`;
      throw new Refusal(422, 'Invalid', `${live.kind} "${key.name}" is invalid: metadata.uid: ${why}`, [
        { reason: 'FieldValueInvalid', message: why, field: 'metadata.uid' },
      ]);
    }
  };

  const notFound = (key: Key): Refusal =>
    new Refusal(404, 'NotFound', `${groupResource(key.resource)} "${key.name}" not found`);

  /** What a write through this endpoint may change, and nothing else. */
  const restrict = (resource: Resource, live: Obj, next: Obj, subresource: string | undefined): Obj => {
    const { uid, name, creationTimestamp, resourceVersion } = live.metadata;
    if (subresource === 'status') return { ...live, ...(next.status === undefined ? {} : { status: next.status }) };
    const result: Obj = {
      ...next,
      apiVersion: live.apiVersion,
      kind: live.kind,
      metadata: { ...next.metadata, name, uid, creationTimestamp, resourceVersion },
    };
    delete result.metadata.managedFields;
    const metadata: JsonObject = result.metadata;
    for (const field of ['namespace', 'generation', 'deletionTimestamp', 'deletionGracePeriodSeconds']) {
      const value = live.metadata[field];
      if (value === undefined) delete metadata[field];
      else metadata[field] = value;
    }
    if (withStatus.has(resource.plural)) {
      if (live.status === undefined) delete result.status;
      else result.status = live.status;
    }
    const added = (result.metadata.finalizers ?? []).filter((f) => !(live.metadata.finalizers ?? []).includes(f));
    if (live.metadata.deletionTimestamp !== undefined && added.length > 0) {
      throw new Refusal(
        422,
        'Invalid',
        `metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers ${JSON.stringify(added)}`,
      );
    }
    return result;
  };

  const cloneOwners = (owners: Owners): Owners => new Map([...owners].map(([who, fields]) => [who, new Set(fields)]));

  const relevant = (resource: Resource, body: JsonObject, subresource: string | undefined): JsonObject => {
    if (subresource === 'status') return body.status === undefined ? {} : { status: body.status };
    if (!withStatus.has(resource.plural)) return body;
    const { status: _, ...rest } = body;
    return rest;
  };

  const write: Store['write'] = (key, request, subresource) => {
    const { resource } = key;
    const types = typesOf(resource);
    const who = `${request.manager}/${request.kind === 'apply' ? 'Apply' : 'Update'}${subresource === undefined ? '' : `/${subresource}`}`;
    const entry = entries.get(place(key));
    if (entry === undefined) {
      if (request.kind !== 'apply' || subresource !== undefined) throw notFound(key);
      const uid = isObject(request.body.metadata ?? null) ? (request.body.metadata as JsonObject).uid : undefined;
      if (uid !== undefined) {
        throw new Refusal(
          409,
          'Conflict',
          `Operation cannot be fulfilled on ${groupResource(resource)} "${key.name}": uid mismatch: the provided object specified uid ${String(uid)}, and no existing object was found`,
        );
      }
      admitNamespace(resource, key.namespace, key.name);
      const object = make(resource, request.body, false);
      if (key.namespace !== undefined && resource.namespaced) object.metadata.namespace = key.namespace;
      admit(resource, object);
      const owners: Owners = new Map();
      applyFields({}, relevant(resource, copyJson(request.body), undefined), owners, who, types);
      const created = commit(undefined, resource, object, owners);
      sweep();
      return { object: created, created: true };
    }
    const live = entry.object;
    const owners = cloneOwners(entry.owners);
    let next: Obj;
    if (request.kind === 'apply') {
      guard(key, live, request.body, subresource);
      const sent = relevant(resource, copyJson(request.body), subresource);
      const conflicts = conflictsOf(live, sent, owners, who, types);
      if (conflicts.length > 0 && !request.force) {
        throw new Refusal(
          409,
          'Conflict',
          `Apply failed with ${conflicts.length} conflict${conflicts.length === 1 ? '' : 's'}: ${conflicts.map((c) => `conflict with "${c.manager}": ${c.field}`).join(', ')}`,
          conflicts.map(({ manager, field }) => ({
            reason: 'FieldManagerConflict',
            message: `conflict with "${manager}"`,
            field,
          })),
        );
      }
      const merged = copyJson(live);
      applyFields(merged, sent, owners, who, types);
      next = restrict(resource, live, merged, subresource);
    } else {
      const changed =
        request.kind === 'json'
          ? patchJson(live, request.body)
          : request.kind === 'merge'
            ? (mergePatch(live, request.body) as JsonObject)
            : copyJson(request.body);
      guard(key, live, changed, subresource);
      next = copyJson(restrict(resource, live, changed as Obj, subresource));
      take(live, next, owners, who, types);
    }
    admit(resource, next);
    const object = commit(entry, resource, next, owners);
    sweep();
    return { object, created: false };
  };

  const markDeleted = (entry: Entry, request: DeleteRequest): Obj => {
    const { resource, object } = entry;
    const next = copyJson(object);
    const finalizers = new Set(next.metadata.finalizers ?? []);
    if (request.propagationPolicy === 'Foreground') finalizers.add('foregroundDeletion');
    if (request.propagationPolicy === 'Orphan') finalizers.add('orphan');
    if (finalizers.size > 0) next.metadata.finalizers = [...finalizers];
    next.metadata.deletionTimestamp ??= stamp();
    const isPod = resource.plural === 'pods';
    const grace = request.gracePeriodSeconds ?? next.metadata.deletionGracePeriodSeconds ?? (isPod ? 30 : 0);
    next.metadata.deletionGracePeriodSeconds = grace as number;
    if (resource.plural === 'namespaces') next.status = { phase: 'Terminating' };
    // An object that nothing holds goes in one step: nobody sees it marked.
    if (releasable({ ...entry, object: next })) {
      remove(entry);
      return next;
    }
    return commit(entry, resource, next, entry.owners);
  };

  /** What Kubernetes' controllers do after a change, until nothing is left to do. */
  const sweep = (): void => {
    if (options.garbageCollection === false) return;
    for (let changed = true; changed; ) {
      changed = false;
      const before = version;
      for (const entry of [...entries.values()]) {
        if (entries.get(place(keyOf(entry))) !== entry) continue;
        const { resource, object } = entry;
        const { metadata } = object;
        const ownerUids = ((metadata.ownerReferences ?? []) as { uid: string }[]).map((owner) => owner.uid);
        const deleting = metadata.deletionTimestamp !== undefined;
        if (ownerUids.length > 0 && ownerUids.every((uid) => dead.has(uid)) && !deleting) markDeleted(entry, {});
        if (!deleting) continue;
        const finalizers = metadata.finalizers ?? [];
        const dependents = [...entries.values()].filter((other) =>
          ((other.object.metadata.ownerReferences ?? []) as { uid: string }[]).some(({ uid }) => uid === metadata.uid),
        );
        const release = (finalizer: string): void => {
          const next = copyJson(object);
          next.metadata.finalizers = finalizers.filter((name) => name !== finalizer);
          commit(entry, resource, next, entry.owners);
        };
        if (resource.plural === 'namespaces') {
          const inside = [...entries.values()].filter((other) => other.object.metadata.namespace === metadata.name);
          for (const other of inside) if (other.object.metadata.deletionTimestamp === undefined) markDeleted(other, {});
          if (inside.length === 0 && finalizers.length === 0) remove(entry);
        } else if (finalizers.includes('foregroundDeletion')) {
          for (const other of dependents) {
            if (other.object.metadata.deletionTimestamp === undefined) {
              markDeleted(other, { propagationPolicy: 'Foreground' });
            }
          }
          const blocking = dependents.filter((other) =>
            ((other.object.metadata.ownerReferences ?? []) as { uid: string; blockOwnerDeletion?: boolean }[]).some(
              (owner) => owner.uid === metadata.uid && owner.blockOwnerDeletion === true,
            ),
          );
          if (blocking.every((other) => !entries.has(place(keyOf(other))))) release('foregroundDeletion');
        } else if (finalizers.includes('orphan')) {
          for (const other of dependents) {
            const next = copyJson(other.object);
            next.metadata.ownerReferences = ((next.metadata.ownerReferences ?? []) as JsonObject[]).filter(
              ({ uid }) => uid !== metadata.uid,
            );
            commit(other, other.resource, next, other.owners);
          }
          release('orphan');
        } else if (resource.plural === 'persistentvolumeclaims' && finalizers.includes(PVC_PROTECTION)) {
          const used = [...entries.values()].some((other) => {
            if (other.resource.plural !== 'pods' || other.object.metadata.namespace !== metadata.namespace)
              return false;
            const phase = isObject(other.object.status ?? null) ? (other.object.status as JsonObject).phase : undefined;
            if (phase === 'Succeeded' || phase === 'Failed') return false;
            const volumes = ((other.object.spec as JsonObject | undefined)?.volumes ?? []) as JsonObject[];
            return volumes.some(
              ({ persistentVolumeClaim: claim }) =>
                isObject(claim ?? null) && (claim as JsonObject).claimName === metadata.name,
            );
          });
          if (!used) release(PVC_PROTECTION);
        }
      }
      changed = version !== before;
    }
  };

  const store: Store = {
    get version() {
      return version;
    },

    get: (key) => entries.get(place(key))?.object,

    list: (resource, namespace) => {
      const id = idOf(resource);
      return [...entries.values()]
        .filter((entry) => idOf(entry.resource) === id)
        .map((entry) => entry.object)
        .filter((object) => namespace === undefined || object.metadata.namespace === namespace)
        .sort((a, b) => {
          const left = `${a.metadata.namespace ?? ''}/${a.metadata.name}`;
          const right = `${b.metadata.namespace ?? ''}/${b.metadata.name}`;
          return left < right ? -1 : left > right ? 1 : 0;
        });
    },

    create: (resource, body, manager) => {
      const object = make(resource, body, false);
      const { name, namespace } = object.metadata;
      admitNamespace(resource, namespace, name);
      const key = { resource, namespace, name };
      if (entries.has(place(key))) {
        throw new Refusal(409, 'AlreadyExists', `${groupResource(resource)} "${name}" already exists`);
      }
      admit(resource, object);
      const owners: Owners = new Map();
      take({}, object, owners, `${manager}/Update`, typesOf(resource));
      const created = commit(undefined, resource, object, owners);
      sweep();
      return created;
    },

    write,

    delete: (key, request = {}) => {
      const entry = entries.get(place(key));
      if (entry === undefined) throw notFound(key);
      const { metadata } = entry.object;
      for (const [what, wanted, found] of [
        ['UID', request.uid, metadata.uid],
        ['ResourceVersion', request.resourceVersion, metadata.resourceVersion],
      ] as const) {
        if (wanted !== undefined && wanted !== found) {
          throw new Refusal(
            409,
            'Conflict',
            `Operation cannot be fulfilled on ${groupResource(key.resource)} "${key.name}": the ${what} in the precondition (${wanted}) does not match the ${what} in record (${found}). The object might have been deleted and then recreated`,
          );
        }
      }
      const object = markDeleted(entry, request);
      sweep();
      return object;
    },

    put: (resource, body) => {
      const object = make(resource, body, true);
      const key = { resource, namespace: object.metadata.namespace, name: object.metadata.name };
      const entry = entries.get(place(key));
      if (entry !== undefined) {
        const { uid, creationTimestamp, resourceVersion, generation } = entry.object.metadata;
        Object.assign(object.metadata, { uid, creationTimestamp, resourceVersion });
        if (generation !== undefined) object.metadata.generation = generation;
      }
      const owners = entry === undefined ? new Map() : cloneOwners(entry.owners);
      take(entry?.object ?? {}, object, owners, 'test/Update', typesOf(resource));
      const stored = commit(entry, resource, object, owners);
      sweep();
      return stored;
    },

    vanish: (key) => {
      const entry = entries.get(place(key));
      if (entry !== undefined) remove(entry);
      sweep();
    },

    since: (from) => (from < compactedAt ? undefined : history.filter((change) => change.version > from)),

    compact: () => {
      // As in etcd, the compacted version itself is gone as a place to start from.
      version += 1n;
      compactedAt = version;
      history = [];
    },

    onChange: (listen) => {
      listeners.add(listen);
      return () => listeners.delete(listen);
    },

    ownersOf: (key) => entries.get(place(key))?.owners,
  };
  for (const name of ['default', 'kube-system'])
    store.put(resources.namespaces, { metadata: { name }, status: { phase: 'Active' } });
  return store;
};
