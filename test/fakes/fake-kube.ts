/**
 * An API server in this process, over real HTTP, for tests of the Kubernetes adapter and of everything above it.
 *
 * It keeps to what a real one does where the runtime depends on it (the contract suite runs on both), and it can be told to
 * do what a real one does only on a bad day: `inject`.
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { plainAccess } from '../../runtime/adapters/kube/kube-access.ts';
import { createKube, type KubeVerb } from '../../runtime/adapters/kube/kube-client.ts';
import { labelSelector } from '../../runtime/adapters/kube/label-selector.ts';
import {
  type JsonPatchOperation,
  type Kube,
  type KubeObject,
  type Resource,
  resources,
  type Stored,
} from '../../runtime/ports/kube.ts';
import { isObject, type Json, type JsonObject } from './fake-kube-schema.ts';
import { type Change, fakeKubeStore, idOf, type Key, type Obj, Refusal, type StoreOptions } from './fake-kube-store.ts';

export type SeenRequest = {
  verb: KubeVerb | 'update';
  plural: string;
  namespace: string | undefined;
  name: string | undefined;
  subresource: string | undefined;
  query: URLSearchParams;
  body: Json | undefined;
};

/** Which requests a fault meets; an absent field meets all. */
export type FaultMatch = {
  verb?: KubeVerb | 'update';
  plural?: string;
  namespace?: string;
  name?: string;
  subresource?: string;
};

export type Fault = FaultMatch & {
  /** How many requests it meets before it is used up; 1 when absent. */
  times?: number;
  /**
   * `refuse`: nothing happens, the answer is `status`. `lose`: it happens and the connection breaks before the answer.
   * `reset`: nothing happens and the connection breaks. `hang`: nothing happens and no answer ever comes.
   */
  how?: 'refuse' | 'lose' | 'reset' | 'hang';
  status?: number;
  reason?: string;
  message?: string;
  retryAfterSeconds?: number;
};

type Watcher = {
  resource: Resource;
  namespace: string | undefined;
  matches: (object: Obj) => boolean;
  bookmarks: boolean;
  response: ServerResponse;
  /** Everything up to this version was sent. */
  sent: bigint;
  frozen: boolean;
};

export type FakeKubeOptions = StoreOptions & {
  /** Bookmarks to every watch that asked for them; none by themselves when absent. */
  bookmarkEveryMs?: number;
  userAgent?: string;
};

type NamedIn = { namespace?: string | undefined; name: string };

export type FakeKube = {
  url: string;
  /** A real client of this server. */
  kube: Kube;
  /** Direct access, past HTTP and past every check. */
  state: {
    readonly version: bigint;
    get<T extends KubeObject>(resource: Resource<T>, at: NamedIn): Stored<T> | undefined;
    list<T extends KubeObject>(resource: Resource<T>, namespace?: string): Stored<T>[];
    /** Creates or replaces the whole object, status included, as somebody else would. */
    put<T extends KubeObject>(resource: Resource<T>, object: KubeObject & Record<string, unknown>): Stored<T>;
    /** Changes what is there by a function over a copy of it. */
    change<T extends KubeObject>(resource: Resource<T>, at: NamedIn, change: (object: Stored<T>) => void): Stored<T>;
    /** A user's `kubectl delete`: finalizers and grace hold. */
    delete(resource: Resource, at: NamedIn, propagationPolicy?: 'Background' | 'Foreground' | 'Orphan'): void;
    /** The kubelet has stopped the Pod: one that is being deleted goes away. */
    podStopped(at: NamedIn): void;
    /** Gone now, whatever finalizers say. */
    vanish(resource: Resource, at: NamedIn): void;
    namespace(name: string): void;
    /** Field paths owned by each `manager/Apply` or `manager/Update`, as JSON. */
    ownersOf(resource: Resource, at: NamedIn): Map<string, Set<string>> | undefined;
  };
  /** Every request so far, watches too, refused ones too. */
  requests: SeenRequest[];
  /** Requests that are no reads. */
  writes(): SeenRequest[];
  inject: {
    /** Returns how often it has met a request so far, and a way to take it back. */
    fault(fault: Fault): { met: () => number; remove: () => void };
    /** Old resource versions are forgotten: watches that resume and pages that continue get 410. */
    compact(): void;
    /** What is running is told ERROR 410 in the stream. */
    expireWatches(): void;
    /** Every watch ends cleanly, as at its time-out. */
    endWatches(): void;
    /** Every watch's connection breaks. */
    resetWatches(): void;
    /** Running watches stay open and fall silent for ever; new ones work. */
    freezeWatches(): void;
    /** A line that is not JSON, to every watch. */
    garble(line?: string): void;
    bookmark(): void;
    /** Watches deliver nothing until `release`: the client's caches are stale while reads are fresh. */
    hold(): void;
    release(): void;
  };
  /** Watches open now, by plural. */
  watching(plural?: string): number;
  /** Resolves when at least `count` watches of this plural are open. */
  watched(plural: string, count?: number): Promise<void>;
  close(): Promise<void>;
};

const known = new Map<string, Resource>(Object.values(resources).map((resource) => [idOf(resource), resource]));

const parsePath = (
  pathname: string,
): { resource: Resource; namespace?: string; name?: string; subresource?: string } | undefined => {
  const parts = pathname.split('/').slice(1).map(decodeURIComponent);
  const group = parts[0] === 'api' ? '' : parts[1];
  const version = parts[0] === 'api' ? parts[1] : parts[2];
  const rest = parts.slice(parts[0] === 'api' ? 2 : 3);
  const inNamespace = rest[0] === 'namespaces' && rest.length > 2;
  const namespace = inNamespace ? rest[1] : undefined;
  const [plural, name, subresource] = inNamespace ? rest.slice(2) : rest;
  const resource = known.get(`${group}/${version}/${plural}`);
  if (resource === undefined) return undefined;
  return {
    resource,
    ...(namespace === undefined ? {} : { namespace }),
    ...(name === undefined ? {} : { name }),
    ...(subresource === undefined ? {} : { subresource }),
  };
};

const fieldSelector = (selector: string | null): ((object: Obj) => boolean) => {
  const terms = (selector ?? '').split(',').filter((term) => term !== '');
  return (object) =>
    terms.every((term) => {
      const [path = '', value = ''] = term.split(/==|=/);
      let at: Json | undefined = object;
      for (const step of path.split('.')) at = isObject(at ?? null) ? (at as JsonObject)[step] : undefined;
      return String(at ?? '') === value;
    });
};

type Reply = { status: number; body: unknown };

const reply = (status: number, body: unknown): Reply => ({ status, body });

const read = async (request: IncomingMessage): Promise<string> => {
  let text = '';
  for await (const chunk of request) text += chunk;
  return text;
};

export const startFakeKube = async (options: FakeKubeOptions = {}): Promise<FakeKube> => {
  const store = fakeKubeStore(options);
  const watchers = new Set<Watcher>();
  const requests: SeenRequest[] = [];
  const faults: (Fault & { left: number; met: number })[] = [];
  const waiting = new Set<() => void>();
  let held = false;
  let pagesExpired = 0n;

  const answer = (
    response: ServerResponse,
    status: number,
    body: unknown,
    headers: Record<string, string> = {},
  ): void => {
    const text = JSON.stringify(body);
    response.writeHead(status, { 'content-type': 'application/json', ...headers });
    response.end(text);
  };

  const statusBody = (refusal: Refusal, retryAfterSeconds?: number) => ({
    kind: 'Status',
    apiVersion: 'v1',
    metadata: {},
    status: 'Failure',
    message: refusal.message,
    reason: refusal.reason,
    // A name stands here when it is the object that was not found; without one, the whole path was not.
    details: { name: /"([^"]+)" not found$/.exec(refusal.message)?.[1], causes: refusal.causes, retryAfterSeconds },
    code: refusal.status,
  });

  const refuse = (response: ServerResponse, refusal: Refusal, retryAfterSeconds?: number): void =>
    answer(
      response,
      refusal.status,
      statusBody(refusal, retryAfterSeconds),
      retryAfterSeconds === undefined ? {} : { 'retry-after': String(retryAfterSeconds) },
    );

  const tooOld = (): Refusal => new Refusal(410, 'Expired', 'too old resource version');

  const line = (watcher: Watcher, event: unknown): void => {
    if (!watcher.frozen) watcher.response.write(`${JSON.stringify(event)}\n`);
  };

  const deliver = (watcher: Watcher, change: Change): void => {
    if (change.version <= watcher.sent) return;
    watcher.sent = change.version;
    if (idOf(change.resource) !== idOf(watcher.resource)) return;
    if (watcher.namespace !== undefined && change.object.metadata.namespace !== watcher.namespace) return;
    const was = change.before !== undefined && watcher.matches(change.before);
    const is = change.type !== 'DELETED' && watcher.matches(change.object);
    if (!was && !is) return;
    // An object that stops matching leaves the watch as if deleted, in its newest form.
    line(watcher, { type: is ? (was ? 'MODIFIED' : 'ADDED') : 'DELETED', object: change.object });
  };

  const catchUp = (watcher: Watcher): void => {
    const missed = store.since(watcher.sent);
    if (missed === undefined) {
      line(watcher, { type: 'ERROR', object: statusBody(tooOld()) });
      watcher.response.end();
      return;
    }
    for (const change of missed) deliver(watcher, change);
  };

  store.onChange((change) => {
    if (!held) for (const watcher of watchers) deliver(watcher, change);
  });

  const bookmark = (): void => {
    if (held) return;
    for (const watcher of watchers) {
      if (!watcher.bookmarks) continue;
      const { kind } = watcher.resource;
      line(watcher, { type: 'BOOKMARK', object: { kind, metadata: { resourceVersion: String(store.version) } } });
      if (!watcher.frozen) watcher.sent = store.version;
    }
  };
  const ticking = options.bookmarkEveryMs === undefined ? undefined : setInterval(bookmark, options.bookmarkEveryMs);
  ticking?.unref();

  const selecting = (query: URLSearchParams): ((object: Obj) => boolean) => {
    const byLabel = labelSelector(query.get('labelSelector') ?? undefined);
    const byField = fieldSelector(query.get('fieldSelector'));
    return (object) => byLabel(object.metadata.labels) && byField(object);
  };

  const startWatch = (
    resource: Resource,
    namespace: string | undefined,
    query: URLSearchParams,
    response: ServerResponse,
  ): void => {
    const from = query.get('resourceVersion') ?? '0';
    const watcher: Watcher = {
      resource,
      namespace,
      matches: selecting(query),
      bookmarks: query.get('allowWatchBookmarks') === 'true',
      response,
      sent: from === '0' || from === '' ? store.version : BigInt(from),
      frozen: false,
    };
    response.writeHead(200, { 'content-type': 'application/json' });
    response.flushHeaders();
    if (from === '0' || from === '') {
      for (const object of store.list(resource, namespace)) {
        if (watcher.matches(object)) line(watcher, { type: 'ADDED', object });
      }
    }
    watchers.add(watcher);
    const timeoutSeconds = Number(query.get('timeoutSeconds') ?? 0);
    const timer = timeoutSeconds > 0 ? setTimeout(() => response.end(), timeoutSeconds * 1000) : undefined;
    timer?.unref();
    response.on('close', () => {
      clearTimeout(timer);
      watchers.delete(watcher);
    });
    if (!held) catchUp(watcher);
    for (const look of waiting) look();
  };

  const answerList = (resource: Resource, namespace: string | undefined, query: URLSearchParams): Reply => {
    const matches = selecting(query);
    const token = query.get('continue');
    const [at = String(store.version), after = ''] = token === null ? [] : (JSON.parse(token) as string[]);
    if (token !== null && BigInt(at) < pagesExpired) throw tooOld();
    const all = store.list(resource, namespace).filter(matches);
    const key = (object: Obj): string => `${object.metadata.namespace ?? ''}/${object.metadata.name}`;
    const rest = all.filter((object) => key(object) > after);
    // A list from the watch cache ignores the limit.
    const limit = query.get('resourceVersion') === '0' ? 0 : Number(query.get('limit') ?? 0);
    const page = limit > 0 ? rest.slice(0, limit) : rest;
    const last = page.at(-1);
    const more = page.length < rest.length && last !== undefined;
    return reply(200, {
      kind: `${resource.kind}List`,
      apiVersion: resource.version,
      metadata: { resourceVersion: at, ...(more ? { continue: JSON.stringify([at, key(last)]) } : {}) },
      items: page.map(({ apiVersion: _a, kind: _k, ...object }) => object),
    });
  };

  const verbOf = (
    method: string,
    name: string | undefined,
    query: URLSearchParams,
    contentType: string,
  ): SeenRequest['verb'] => {
    if (method === 'GET') return query.get('watch') === 'true' ? 'watch' : name === undefined ? 'list' : 'get';
    if (method === 'POST') return 'create';
    if (method === 'DELETE') return 'delete';
    if (method === 'PUT') return 'update';
    return contentType.startsWith('application/apply-patch') ? 'apply' : 'patch';
  };

  const carryOut = (
    seen: SeenRequest,
    target: { resource: Resource; namespace?: string; name?: string; subresource?: string },
    contentType: string,
    response: ServerResponse,
  ): Reply | undefined => {
    const { resource, namespace, name, subresource } = target;
    const { query, body } = seen;
    const manager = query.get('fieldManager') ?? 'unknown';
    if (name === undefined) {
      if (seen.verb === 'list') return answerList(resource, namespace, query);
      if (seen.verb === 'watch') {
        startWatch(resource, namespace, query, response);
        return undefined;
      }
      if (seen.verb === 'create') {
        if (!isObject(body ?? null)) throw new Refusal(400, 'BadRequest', 'the body is no object');
        const object = structuredClone(body as JsonObject);
        object.metadata = { ...(object.metadata as JsonObject), ...(namespace === undefined ? {} : { namespace }) };
        return reply(201, store.create(resource, object, manager));
      }
      throw new Refusal(405, 'MethodNotAllowed', 'the server does not allow this method on the requested resource');
    }
    const key: Key = { resource, namespace, name };
    switch (seen.verb) {
      case 'get': {
        const object = store.get(key);
        if (object === undefined) throw new Refusal(404, 'NotFound', `${resource.plural} "${name}" not found`);
        return reply(200, object);
      }
      case 'delete': {
        const sent = (isObject(body ?? null) ? body : {}) as JsonObject;
        const preconditions = (isObject(sent.preconditions ?? null) ? sent.preconditions : {}) as JsonObject;
        const text = (value: Json | undefined): string | undefined => (typeof value === 'string' ? value : undefined);
        return reply(
          200,
          store.delete(key, {
            uid: text(preconditions.uid),
            resourceVersion: text(preconditions.resourceVersion),
            propagationPolicy: text(sent.propagationPolicy),
            gracePeriodSeconds: typeof sent.gracePeriodSeconds === 'number' ? sent.gracePeriodSeconds : undefined,
          }),
        );
      }
      case 'apply': {
        if (query.get('fieldManager') === null) {
          throw new Refusal(400, 'BadRequest', 'fieldManager is required for apply patch');
        }
        const force = query.get('force') === 'true';
        const done = store.write(key, { kind: 'apply', body: body as JsonObject, manager, force }, subresource);
        return reply(done.created ? 201 : 200, done.object);
      }
      case 'patch': {
        const done = contentType.startsWith('application/json-patch')
          ? store.write(key, { kind: 'json', body: body as unknown as JsonPatchOperation[], manager }, subresource)
          : store.write(key, { kind: 'merge', body: body as JsonObject, manager }, subresource);
        return reply(200, done.object);
      }
      case 'update':
        return reply(200, store.write(key, { kind: 'replace', body: body as JsonObject, manager }, subresource).object);
      default:
        throw new Refusal(405, 'MethodNotAllowed', 'the server does not allow this method on the requested resource');
    }
  };

  const meets = (fault: Fault, seen: SeenRequest): boolean =>
    (['verb', 'plural', 'namespace', 'name', 'subresource'] as const).every(
      (field) => fault[field] === undefined || fault[field] === seen[field],
    );

  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const url = new URL(request.url ?? '/', 'http://fake');
    const text = await read(request);
    const target = parsePath(url.pathname);
    if (target === undefined) {
      refuse(response, new Refusal(404, 'NotFound', 'the server could not find the requested resource'));
      return;
    }
    const contentType = request.headers['content-type'] ?? '';
    const seen: SeenRequest = {
      verb: verbOf(request.method ?? 'GET', target.name, url.searchParams, contentType),
      plural: target.resource.plural,
      namespace: target.namespace,
      name: target.name,
      subresource: target.subresource,
      query: url.searchParams,
      body: text === '' ? undefined : (JSON.parse(text) as Json),
    };
    requests.push(seen);
    const fault = faults.find((candidate) => candidate.left > 0 && meets(candidate, seen));
    if (fault !== undefined) {
      fault.left -= 1;
      fault.met += 1;
      switch (fault.how ?? 'refuse') {
        case 'refuse': {
          const status = fault.status ?? 500;
          const refusal = new Refusal(status, fault.reason ?? '', fault.message ?? `injected ${status}`);
          refuse(response, refusal, fault.retryAfterSeconds);
          return;
        }
        case 'hang':
          return;
        case 'reset':
          request.socket.resetAndDestroy();
          return;
        case 'lose': {
          // The write happens; its answer goes nowhere.
          try {
            carryOut(seen, target, contentType, response);
          } finally {
            request.socket.resetAndDestroy();
          }
          return;
        }
      }
    }
    try {
      const done = carryOut(seen, target, contentType, response);
      if (done !== undefined) answer(response, done.status, done.body);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      refuse(response, error);
    }
  };

  const server = createServer((request, response) => {
    handle(request, response).catch((error: unknown) => {
      const message = error instanceof Error ? (error.stack ?? error.message) : String(error);
      if (!response.headersSent) refuse(response, new Refusal(500, 'InternalError', message));
      else response.destroy();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const access = plainAccess(url);
  const kube = createKube({ access, userAgent: options.userAgent ?? 'fake-kube' });

  const copy = <T extends KubeObject>(object: Obj): Stored<T> => structuredClone(object) as unknown as Stored<T>;
  const count = (plural?: string): number =>
    [...watchers].filter((watcher) => plural === undefined || watcher.resource.plural === plural).length;

  return {
    url,
    kube,
    state: {
      get version() {
        return store.version;
      },
      get: <T extends KubeObject>(resource: Resource<T>, at: NamedIn) => {
        const object = store.get({ resource, ...at });
        return object === undefined ? undefined : copy<T>(object);
      },
      list: (resource, namespace) => store.list(resource, namespace).map((object) => copy(object)),
      put: (resource, object) => copy(store.put(resource, object as unknown as JsonObject)),
      change: <T extends KubeObject>(resource: Resource<T>, at: NamedIn, change: (object: Stored<T>) => void) => {
        const object = store.get({ resource, ...at });
        if (object === undefined) throw new Error(`no ${resource.plural} ${at.namespace ?? ''}/${at.name} to change`);
        const next = copy<T>(object);
        change(next);
        return copy<T>(store.put(resource, next as unknown as JsonObject));
      },
      delete: (resource, at, propagationPolicy) => void store.delete({ resource, ...at }, { propagationPolicy }),
      podStopped: (at) => void store.delete({ resource: resources.pods, ...at }, { gracePeriodSeconds: 0 }),
      vanish: (resource, at) => store.vanish({ resource, ...at }),
      namespace: (name) => void store.put(resources.namespaces, { metadata: { name }, status: { phase: 'Active' } }),
      ownersOf: (resource, at) => store.ownersOf({ resource, ...at }),
    },
    requests,
    writes: () => requests.filter(({ verb }) => verb !== 'get' && verb !== 'list' && verb !== 'watch'),
    inject: {
      fault: (fault) => {
        const entry = { ...fault, left: fault.times ?? 1, met: 0 };
        faults.push(entry);
        return { met: () => entry.met, remove: () => void faults.splice(faults.indexOf(entry), 1) };
      },
      compact: () => {
        store.compact();
        pagesExpired = store.version;
      },
      expireWatches: () => {
        for (const watcher of watchers) {
          line(watcher, { type: 'ERROR', object: statusBody(tooOld()) });
          watcher.response.end();
        }
      },
      endWatches: () => {
        for (const watcher of watchers) watcher.response.end();
      },
      resetWatches: () => {
        for (const watcher of watchers) watcher.response.socket?.resetAndDestroy();
      },
      freezeWatches: () => {
        for (const watcher of watchers) watcher.frozen = true;
      },
      garble: (text = '{"type":"ADDED","object":{"meta') => {
        for (const watcher of watchers) watcher.response.write(`${text}\n`);
      },
      bookmark,
      hold: () => {
        held = true;
      },
      release: () => {
        held = false;
        for (const watcher of watchers) catchUp(watcher);
      },
    },
    watching: count,
    watched: (plural, wanted = 1) =>
      new Promise((resolve) => {
        const look = (): void => {
          if (count(plural) < wanted) return;
          waiting.delete(look);
          resolve();
        };
        waiting.add(look);
        look();
      }),
    close: async () => {
      clearInterval(ticking);
      access.close();
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
};
