/** The Kubernetes port over HTTP/1.1, a keep-alive agent and plain JSON. */
import { type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import type { Status } from 'kubernetes-types/meta/v1.js';
import {
  apiVersionOf,
  type CallOptions,
  isFault,
  type Kube,
  KubeFault,
  type KubeFaultReason,
  type KubeObject,
  type ListOptions,
  type PatchOptions,
  type Ref,
  type Resource,
  type Stored,
  type WatchEvent,
  type WatchOptions,
} from '../../ports/kube.ts';
import type { KubeAccess, KubeCredentials } from './kube-access.ts';

export type KubeVerb = 'get' | 'list' | 'watch' | 'create' | 'apply' | 'patch' | 'delete';

export type KubeRequestSeen = {
  verb: KubeVerb;
  /** Plural, with the subresource where there is one: `pods`, `etcdquorums/status`. */
  resource: string;
  /** HTTP status; 0 when no answer came. */
  status: number;
  /** Until the body was read; for a watch, until the server answered. */
  ms: number;
};

export type KubeClientConfig = {
  access: KubeAccess;
  /** For `User-Agent`, which audit logs show. */
  userAgent?: string;
  onRequest?: (seen: KubeRequestSeen) => void;
  /** What the server says in `Warning` headers: deprecated versions, unknown fields it dropped. */
  onWarning?: (warning: string) => void;
};

const DEADLINE_MS = 10_000;
const PAGE = 500;
/** A watch is answered at once or not at all; the idle timer, which is longer, guards what comes after. */
const WATCH_ANSWER_MS = 30_000;
/** No single object or page comes near it; a body without end is an error, not an out-of-memory kill. */
const LARGEST_BODY = 256 * 1024 * 1024;

type Call = {
  verb: KubeVerb;
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  resource: Resource;
  namespace?: string | undefined;
  name?: string | undefined;
  subresource?: string | undefined;
  query?: Record<string, string | number | boolean | undefined>;
  contentType?: string;
  body?: unknown;
};

const SSA = 'application/apply-patch+yaml';
const MERGE_PATCH = 'application/merge-patch+json';
const JSON_PATCH = 'application/json-patch+json';

const pathOf = ({ resource, namespace, name, subresource, query }: Call): string => {
  const root = resource.group === '' ? `/api/${resource.version}` : `/apis/${resource.group}/${resource.version}`;
  const within = resource.namespaced && namespace !== undefined ? `/namespaces/${encodeURIComponent(namespace)}` : '';
  const object = name === undefined ? '' : `/${encodeURIComponent(name)}`;
  const part = subresource === undefined ? '' : `/${subresource}`;
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(query ?? {})) if (value !== undefined) search.set(key, String(value));
  const asked = search.size === 0 ? '' : `?${search}`;
  return `${root}${within}/${resource.plural}${object}${part}${asked}`;
};

/** `apply etcdmembers/status default/a-0`: what every message begins with. */
const nameOf = ({ verb, resource, namespace, name, subresource }: Call): string => {
  const kind = subresource === undefined ? resource.plural : `${resource.plural}/${subresource}`;
  const where = [namespace, name].filter((part) => part !== undefined).join('/');
  return where === '' ? `${verb} ${kind}` : `${verb} ${kind} ${where}`;
};

const reasonByStatus: Record<number, KubeFaultReason> = {
  400: 'BadRequest',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'NotFound',
  405: 'BadRequest',
  406: 'BadRequest',
  408: 'Timeout',
  409: 'Conflict',
  410: 'Gone',
  413: 'BadRequest',
  415: 'BadRequest',
  422: 'Invalid',
  429: 'TooManyRequests',
  504: 'Timeout',
};

const faultOfStatus = (call: Call, status: number, body: unknown, retryAfterMs: number | undefined): KubeFault => {
  const said = (typeof body === 'object' && body !== null ? body : {}) as Status;
  const causes = new Set(said.details?.causes?.map((cause) => cause.reason));
  const reason: KubeFaultReason =
    status === 409 && said.reason === 'AlreadyExists'
      ? 'AlreadyExists'
      : status === 409 && causes.has('FieldManagerConflict')
        ? 'FieldConflict'
        : status === 403 && causes.has('NamespaceTerminating')
          ? 'NamespaceTerminating'
          : status === 404 && (said.details?.name ?? '') === ''
            ? 'NotServed'
            : // Where another object has the name, the server calls the uid immutable; where none has, a conflict.
              status === 422 && said.details?.causes?.some((cause) => cause.field === 'metadata.uid')
              ? 'Conflict'
              : (reasonByStatus[status] ?? (status >= 500 ? 'Unavailable' : 'Unknown'));
  // A refusal quotes the refused value, and in a Secret the values are what must not be quoted.
  const words = call.resource.plural === 'secrets' ? '' : (said.message ?? '').replaceAll(/\s+/g, ' ').slice(0, 500);
  const wish = said.details?.retryAfterSeconds;
  return new KubeFault(reason, `${nameOf(call)}: ${reason} (${status})${words === '' ? '' : `: ${words}`}`, {
    status,
    retryAfterMs: retryAfterMs ?? (wish === undefined ? undefined : wish * 1000),
  });
};

const parse = (call: Call, text: string, status: number): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    // The parser's own message quotes what it read, which may be a Secret.
    throw new KubeFault('Malformed', `${nameOf(call)}: Malformed: ${text.length} characters that are not JSON`, {
      status,
    });
  }
};

const retryAfterOf = (answer: IncomingMessage): number | undefined => {
  const seconds = Number(answer.headers['retry-after'] ?? Number.NaN);
  return Number.isFinite(seconds) && seconds >= 0 ? seconds * 1000 : undefined;
};

const cancelled = (call: Call): KubeFault => new KubeFault('Cancelled', `${nameOf(call)}: Cancelled by the caller`);

const isStored = (value: unknown): value is Stored<KubeObject> => {
  const meta = (value as KubeObject | null)?.metadata;
  return typeof meta?.name === 'string' && typeof meta.uid === 'string' && typeof meta.resourceVersion === 'string';
};

export const createKube = (config: KubeClientConfig): Kube => {
  const { access } = config;
  const begin = access.server.protocol === 'https:' ? httpsRequest : httpRequest;
  const userAgent = config.userAgent ?? 'etcd-operator';
  // A server behind a path, as some management planes offer it.
  const prefix = access.server.pathname.replace(/\/$/, '');

  const open = (call: Call, credentials: KubeCredentials, payload: string | undefined): ClientRequest =>
    begin({
      protocol: access.server.protocol,
      hostname: access.server.hostname.replace(/^\[|\]$/g, ''),
      port: access.server.port,
      method: call.method,
      path: prefix + pathOf(call),
      agent: credentials.agent,
      headers: {
        ...credentials.headers,
        accept: 'application/json',
        'user-agent': userAgent,
        ...(payload === undefined
          ? {}
          : { 'content-type': call.contentType ?? 'application/json', 'content-length': Buffer.byteLength(payload) }),
      },
    });

  const warn = (answer: IncomingMessage): void => {
    const warnings = answer.headers.warning;
    if (warnings !== undefined) config.onWarning?.(warnings);
  };

  /** One exchange: whole body in, whole body out. */
  const exchange = (
    call: Call,
    credentials: KubeCredentials,
    options: CallOptions,
  ): Promise<{ status: number; text: string; retryAfterMs: number | undefined }> =>
    new Promise((resolve, reject) => {
      const started = performance.now();
      const deadlineMs = options.deadlineMs ?? DEADLINE_MS;
      const payload = call.body === undefined ? undefined : JSON.stringify(call.body);
      const request = open(call, credentials, payload);
      let status = 0;

      // Destroying a request makes Node report a reset as well, before or after our own reason: ours counts, once.
      let why: KubeFault | undefined;
      let finished = false;
      const finish = (settle: () => void): void => {
        if (finished) return;
        finished = true;
        clearTimeout(deadline);
        options.signal?.removeEventListener('abort', abort);
        const kind =
          call.subresource === undefined ? call.resource.plural : `${call.resource.plural}/${call.subresource}`;
        config.onRequest?.({ verb: call.verb, resource: kind, status, ms: performance.now() - started });
        settle();
      };
      const fail = (error: Error): void => finish(() => reject(why ?? error));
      const end = (fault: KubeFault): void => {
        why ??= fault;
        request.destroy(fault);
      };
      const abort = (): void => end(cancelled(call));
      const deadline = setTimeout(() => {
        end(new KubeFault('Timeout', `${nameOf(call)}: Timeout: no answer in ${deadlineMs} ms`));
      }, deadlineMs);
      options.signal?.addEventListener('abort', abort, { once: true });

      request.on('error', fail);
      request.on('response', (answer) => {
        const chunks: Buffer[] = [];
        let size = 0;
        answer.on('data', (chunk: Buffer) => {
          size += chunk.length;
          if (size > LARGEST_BODY) {
            end(new KubeFault('Malformed', `${nameOf(call)}: Malformed: more than ${LARGEST_BODY} bytes`));
          } else {
            chunks.push(chunk);
          }
        });
        answer.on('error', fail);
        answer.on('end', () => {
          status = answer.statusCode ?? 0;
          warn(answer);
          const text = (chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks)).toString('utf8');
          finish(() => resolve({ status, text, retryAfterMs: retryAfterOf(answer) }));
        });
      });
      request.end(payload);
      // It may have been aborted while the credentials were read, and an abort is told only once.
      if (options.signal?.aborted) abort();
    });

  /** The parsed answer; every failure a fault. */
  const send = async (call: Call, options: CallOptions = {}): Promise<unknown> => {
    if (call.resource.namespaced && call.name !== undefined && call.namespace === undefined) {
      throw new KubeFault('BadRequest', `${nameOf(call)}: BadRequest: ${call.resource.plural} need a namespace`);
    }
    let refused = false;
    let reset = false;
    for (;;) {
      if (options.signal?.aborted) throw cancelled(call);
      try {
        const credentials = await access.credentials();
        const { status, text, retryAfterMs } = await exchange(call, credentials, options);
        if (status >= 200 && status < 300) return parse(call, text, status);
        if (status === 401 && !refused) {
          // A refused request was not carried out, so any verb may be sent again once the token has been read anew.
          refused = true;
          access.expire();
          continue;
        }
        let body: unknown;
        try {
          body = JSON.parse(text);
        } catch {
          // Proxies and load balancers answer in HTML; the status says enough.
        }
        throw faultOfStatus(call, status, body, retryAfterMs);
      } catch (error) {
        const code = error instanceof Error && 'code' in error ? error.code : undefined;
        // A kept connection that the server closed while we wrote. Reads may be repeated; for a write only the caller
        // knows how to find out whether it happened.
        if (code === 'ECONNRESET' && call.method === 'GET' && !reset) {
          reset = true;
          continue;
        }
        throw KubeFault.from(error, nameOf(call));
      }
    }
  };

  const stored = <T extends KubeObject>(call: Call, value: unknown): Stored<T> => {
    if (isStored(value)) return value as Stored<T>;
    throw new KubeFault('Malformed', `${nameOf(call)}: Malformed: an object without name, uid or resourceVersion`);
  };

  const sendForObject = async <T extends KubeObject>(call: Call, options: CallOptions = {}): Promise<Stored<T>> => {
    const object = stored<T>(call, await send(call, options));
    const meant = call.method === 'PATCH' ? (call.body as KubeObject).metadata?.uid : undefined;
    // Status endpoints of custom kinds ignore the uid: this write went to a namesake. It cannot be undone, but it is told.
    if (meant !== undefined && meant !== object.metadata.uid) {
      throw new KubeFault(
        'Conflict',
        `${nameOf(call)}: Conflict: meant uid ${meant}, written to ${object.metadata.uid}`,
      );
    }
    return object;
  };

  const typed = <O extends KubeObject>(of: Resource, object: O): O => ({
    apiVersion: apiVersionOf(of),
    kind: of.kind,
    ...object,
  });

  const list = async <T extends KubeObject>(of: Resource<T>, options: ListOptions = {}) => {
    const apiVersion = apiVersionOf(of);
    let restarted = false;
    let items: Stored<T>[] = [];
    let next: string | undefined;
    for (;;) {
      const call: Call = {
        verb: 'list',
        method: 'GET',
        resource: of,
        namespace: options.namespace,
        query: {
          labelSelector: options.labelSelector,
          fieldSelector: options.fieldSelector,
          limit: options.limit ?? PAGE,
          continue: next,
          // The token of a later page carries the version already.
          resourceVersion: next === undefined ? options.resourceVersion : undefined,
        },
      };
      let page: unknown;
      try {
        page = await send(call, options);
      } catch (error) {
        if (next === undefined || restarted || !isFault(error, 'Gone')) throw error;
        // The version that the pages came from was compacted between two of them.
        restarted = true;
        items = [];
        next = undefined;
        continue;
      }
      const { metadata, items: found } = (page ?? {}) as { metadata?: Record<string, string>; items?: unknown[] };
      if (metadata?.resourceVersion === undefined || !(Array.isArray(found) || found === null)) {
        throw new KubeFault('Malformed', `${nameOf(call)}: Malformed: a list without items or resourceVersion`);
      }
      for (const item of found ?? []) items.push(Object.assign(stored<T>(call, item), { apiVersion, kind: of.kind }));
      next = metadata.continue === '' ? undefined : metadata.continue;
      if (next === undefined) return { items, resourceVersion: metadata.resourceVersion };
    }
  };

  const eventOf = <T extends KubeObject>(call: Call, line: string): WatchEvent<T> => {
    const { type, object } = (parse(call, line, 200) ?? {}) as { type?: string; object?: unknown };
    switch (type) {
      case 'ADDED':
      case 'MODIFIED':
      case 'DELETED':
        return { type, object: stored<T>(call, object) };
      case 'BOOKMARK': {
        const version = (object as KubeObject | undefined)?.metadata?.resourceVersion;
        if (version !== undefined) return { type, resourceVersion: version };
        break;
      }
      case 'ERROR':
        throw faultOfStatus(call, (object as Status | undefined)?.code ?? 500, object, undefined);
    }
    throw new KubeFault('Malformed', `${nameOf(call)}: Malformed: a watch event that is none`);
  };

  async function* watch<T extends KubeObject>(of: Resource<T>, options: WatchOptions): AsyncGenerator<WatchEvent<T>> {
    const { signal, onBytes } = options;
    const call: Call = {
      verb: 'watch',
      method: 'GET',
      resource: of,
      namespace: options.namespace,
      query: {
        watch: true,
        allowWatchBookmarks: true,
        labelSelector: options.labelSelector,
        fieldSelector: options.fieldSelector,
        resourceVersion: options.resourceVersion,
        timeoutSeconds: options.timeoutSeconds,
      },
    };
    if (signal.aborted) throw cancelled(call);
    const started = performance.now();
    let status = 0;
    let request: ClientRequest | undefined;
    let timer: NodeJS.Timeout | undefined;
    // As in exchange: Node turns a destroyed stream into "aborted", so the reason is kept beside it.
    let why: KubeFault | undefined;
    const end = (fault: KubeFault): void => {
      why ??= fault;
      request?.destroy(fault);
    };
    const abort = (): void => end(cancelled(call));
    signal.addEventListener('abort', abort, { once: true });
    try {
      const credentials = await access.credentials();
      const asked = open(call, credentials, undefined);
      request = asked;
      const answer = await new Promise<IncomingMessage>((resolve, reject) => {
        timer = setTimeout(
          () => end(new KubeFault('Timeout', `${nameOf(call)}: Timeout: no answer in ${WATCH_ANSWER_MS} ms`)),
          Math.min(WATCH_ANSWER_MS, options.idleTimeoutMs),
        );
        asked.on('error', reject);
        asked.on('response', resolve);
        asked.end();
        if (signal.aborted) abort();
      });
      status = answer.statusCode ?? 0;
      config.onRequest?.({ verb: 'watch', resource: of.plural, status, ms: performance.now() - started });
      clearTimeout(timer);
      timer = setTimeout(() => {
        end(new KubeFault('Timeout', `${nameOf(call)}: Timeout: silent for ${options.idleTimeoutMs} ms`));
      }, options.idleTimeoutMs);

      const alive = (): void => {
        timer?.refresh();
        onBytes?.();
      };
      if (status !== 200) {
        let text = '';
        for await (const chunk of answer) text = (text + chunk).slice(0, 65_536);
        if (status === 401) access.expire();
        let body: unknown;
        try {
          body = JSON.parse(text);
        } catch {
          // Not ours to understand; the status says enough.
        }
        throw faultOfStatus(call, status, body, retryAfterOf(answer));
      }
      warn(answer);
      onBytes?.();

      // Lines are cut as bytes: a chunk may end inside a character, and most chunks hold whole lines.
      let rest: Buffer[] = [];
      for await (const chunk of answer as AsyncIterable<Buffer>) {
        alive();
        let from = 0;
        for (let to = chunk.indexOf(10); to !== -1; to = chunk.indexOf(10, from)) {
          const piece = chunk.subarray(from, to);
          const line = rest.length === 0 ? piece : Buffer.concat([...rest, piece]);
          rest = [];
          from = to + 1;
          if (line.length > 0) yield eventOf<T>(call, line.toString('utf8'));
        }
        if (from < chunk.length) rest.push(chunk.subarray(from));
      }
      if (rest.length > 0) throw new KubeFault('Malformed', `${nameOf(call)}: Malformed: the stream ended in a line`);
    } catch (error) {
      if (status === 0) {
        config.onRequest?.({ verb: 'watch', resource: of.plural, status, ms: performance.now() - started });
      }
      throw why ?? KubeFault.from(error, nameOf(call));
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', abort);
      request?.destroy();
    }
  }

  const patched = async <T extends KubeObject>(
    ref: Ref<T>,
    contentType: string,
    body: unknown,
    options: PatchOptions,
  ): Promise<Stored<T>> =>
    await sendForObject<T>(
      {
        ...ref,
        verb: 'patch',
        method: 'PATCH',
        subresource: options.subresource,
        query: { fieldManager: options.fieldManager },
        contentType,
        body,
      },
      options,
    );

  return {
    get: async <T extends KubeObject>(ref: Ref<T>, options: CallOptions = {}) => {
      try {
        return await sendForObject<T>({ ...ref, verb: 'get', method: 'GET' }, options);
      } catch (error) {
        if (isFault(error, 'NotFound')) return undefined;
        throw error;
      }
    },

    list,

    create: async (of, object, options = {}) =>
      await sendForObject(
        {
          verb: 'create',
          method: 'POST',
          resource: of,
          namespace: object.metadata?.namespace,
          query: { fieldManager: options.fieldManager },
          body: typed(of, object),
        },
        options,
      ),

    apply: async (of, object, options) =>
      await sendForObject(
        {
          verb: 'apply',
          method: 'PATCH',
          resource: of,
          namespace: object.metadata?.namespace,
          name: object.metadata?.name ?? '',
          subresource: options.subresource,
          query: { fieldManager: options.fieldManager, force: options.force },
          contentType: SSA,
          body: typed(of, object),
        },
        options,
      ),

    mergePatch: async (ref, patch, options = {}) => await patched(ref, MERGE_PATCH, patch, options),

    jsonPatch: async (ref, operations, options = {}) => await patched(ref, JSON_PATCH, operations, options),

    delete: async (ref, options = {}) => {
      const { uid, resourceVersion, gracePeriodSeconds, propagationPolicy } = options;
      try {
        await send(
          {
            ...ref,
            verb: 'delete',
            method: 'DELETE',
            body: {
              apiVersion: 'v1',
              kind: 'DeleteOptions',
              gracePeriodSeconds,
              propagationPolicy,
              preconditions: uid === undefined && resourceVersion === undefined ? undefined : { uid, resourceVersion },
            },
          },
          options,
        );
        return 'deleted';
      } catch (error) {
        if (isFault(error, 'NotFound')) return 'absent';
        if (isFault(error, 'Conflict')) return 'conflict';
        throw error;
      }
    },

    watch,
  };
};
