/**
 * The Kubernetes port straight on the fake API server's store, without HTTP: for tests that play a story thousands of
 * times. Held to the same contract suite as the fake over HTTP and the real one.
 */
import { labelSelector } from '../../runtime/adapters/kube/label-selector.ts';
import {
  apiVersionOf,
  type CallOptions,
  type Kube,
  KubeFault,
  type KubeFaultReason,
  type KubeObject,
  type Ref,
  type Resource,
  type Stored,
  type WatchEvent,
} from '../../runtime/ports/kube.ts';
import { copyJson, type Json, type JsonObject } from './fake-kube-schema.ts';
import { type Change, idOf, type Obj, Refusal, type Store, type Write } from './fake-kube-store.ts';

export type InProcessKube = {
  kube: Kube;
  /** Watches deliver nothing until `release`: caches are stale while reads are fresh. */
  hold(): void;
  release(): void;
  /** Running watches are told 410 and end. */
  expireWatches(): void;
};

const reasons: Readonly<Record<number, KubeFaultReason>> = {
  400: 'BadRequest',
  403: 'Forbidden',
  404: 'NotFound',
  405: 'BadRequest',
  409: 'Conflict',
  410: 'Gone',
  422: 'Invalid',
};

/** The reason that the HTTP adapter makes of the same answer. */
const faultOf = (error: unknown, doing: string): KubeFault => {
  if (!(error instanceof Refusal)) return KubeFault.from(error, doing);
  const { status, causes, message } = error;
  const reason: KubeFaultReason =
    status === 409 && error.reason === 'AlreadyExists'
      ? 'AlreadyExists'
      : status === 409 && causes.some((cause) => cause.reason === 'FieldManagerConflict')
        ? 'FieldConflict'
        : status === 403 && causes.some((cause) => cause.reason === 'NamespaceTerminating')
          ? 'NamespaceTerminating'
          : status === 422 && causes.some(({ field }) => field === 'metadata.uid')
            ? 'Conflict'
            : (reasons[status] ?? 'Unavailable');
  return new KubeFault(reason, `${doing}: ${reason} (${status}): ${message}`, { status });
};

const selects = (selector: string | undefined): ((object: Obj) => boolean) => {
  const terms = (selector ?? '').split(',').filter((term) => term !== '');
  return (object) =>
    terms.every((term) => {
      const [path = '', value = ''] = term.split(/==|=/);
      let at: Json | undefined = object;
      for (const step of path.split('.')) {
        at = typeof at === 'object' && at !== null && !Array.isArray(at) ? at[step] : undefined;
      }
      return String(at ?? '') === value;
    });
};

type Feed = { readonly pending: Change[]; look(): void; end(how: KubeFault | 'cleanly'): void };

export const kubeInProcess = (store: Store): InProcessKube => {
  const feeds = new Set<Feed>();
  let held = false;

  const copy = <T extends KubeObject>(object: Obj): Stored<T> => copyJson(object) as unknown as Stored<T>;
  const plain = (value: unknown): JsonObject => JSON.parse(JSON.stringify(value)) as JsonObject;

  /** One call: nothing happens before the caller has given up the thread, as with any network. */
  const call = async <T>(doing: string, options: CallOptions | undefined, work: () => T): Promise<T> => {
    await Promise.resolve();
    if (options?.signal?.aborted) throw new KubeFault('Cancelled', `${doing}: Cancelled by the caller`);
    try {
      return work();
    } catch (error) {
      throw faultOf(error, doing);
    }
  };

  const write = <T extends KubeObject>(
    ref: Ref<T>,
    request: Write,
    subresource: string | undefined,
    doing: string,
  ): Stored<T> => {
    if (ref.resource.namespaced && ref.namespace === undefined) {
      throw new KubeFault('BadRequest', `${doing}: BadRequest: ${ref.resource.plural} need a namespace`);
    }
    const { object } = store.write(ref, request, subresource);
    const sent = request.kind === 'merge' || request.kind === 'apply' ? request.body.metadata : undefined;
    const meant = (sent as JsonObject | undefined)?.uid;
    if (meant !== undefined && meant !== object.metadata.uid) {
      throw new KubeFault(
        'Conflict',
        `${doing}: Conflict: meant uid ${String(meant)}, written to ${object.metadata.uid}`,
      );
    }
    return copy<T>(object);
  };

  const typed = (of: Resource, object: KubeObject): JsonObject =>
    plain({ apiVersion: apiVersionOf(of), kind: of.kind, ...object });

  const nameOf = (verb: string, { resource, namespace, name }: Ref, subresource?: string): string =>
    `${verb} ${resource.plural}${subresource === undefined ? '' : `/${subresource}`} ${[namespace, name].filter((part) => part !== undefined).join('/')}`;

  const kube: Kube = {
    get: <T extends KubeObject>(ref: Ref<T>, options?: CallOptions) =>
      call(nameOf('get', ref), options, () => {
        const object = store.get(ref);
        return object === undefined ? undefined : copy<T>(object);
      }),

    list: (resource, options = {}) =>
      call(`list ${resource.plural}`, options, () => {
        const byLabel = labelSelector(options.labelSelector);
        const byField = selects(options.fieldSelector);
        return {
          items: store
            .list(resource, options.namespace)
            .filter((object) => byLabel(object.metadata.labels) && byField(object))
            .map((object) => copy(object)),
          resourceVersion: String(store.version),
        };
      }),

    create: (resource, object, options) => {
      const { name = '', namespace } = object.metadata ?? {};
      const ref = { resource, name, ...(namespace === undefined ? {} : { namespace }) };
      return call(nameOf('create', ref), options, () =>
        copy(store.create(resource, typed(resource, object), options?.fieldManager ?? 'unknown')),
      );
    },

    apply: (resource, object, options) => {
      const { name = '', namespace } = object.metadata ?? {};
      const ref = { resource, name, ...(namespace === undefined ? {} : { namespace }) };
      const doing = nameOf('apply', ref, options.subresource);
      const request: Write = {
        kind: 'apply',
        body: typed(resource, object),
        manager: options.fieldManager,
        force: options.force ?? false,
      };
      return call(doing, options, () => write(ref, request, options.subresource, doing));
    },

    mergePatch: (ref, patch, options = {}) => {
      const doing = nameOf('patch', ref, options.subresource);
      const request: Write = { kind: 'merge', body: plain(patch), manager: options.fieldManager ?? 'unknown' };
      return call(doing, options, () => write(ref, request, options.subresource, doing));
    },

    jsonPatch: (ref, operations, options = {}) => {
      const doing = nameOf('patch', ref, options.subresource);
      const request: Write = { kind: 'json', body: operations, manager: options.fieldManager ?? 'unknown' };
      return call(doing, options, () => write(ref, request, options.subresource, doing));
    },

    delete: async (ref, options = {}) => {
      try {
        await call(nameOf('delete', ref), options, () => store.delete(ref, options));
        return 'deleted';
      } catch (error) {
        const { reason } = error as KubeFault;
        if (reason === 'NotFound') return 'absent';
        if (reason === 'Conflict') return 'conflict';
        throw error;
      }
    },

    watch: async function* <T extends KubeObject>(
      resource: Resource<T>,
      options: Parameters<Kube['watch']>[1],
    ): AsyncGenerator<WatchEvent<T>> {
      const doing = `watch ${resource.plural}`;
      const { signal } = options;
      if (signal.aborted) throw new KubeFault('Cancelled', `${doing}: Cancelled by the caller`);
      const byLabel = labelSelector(options.labelSelector);
      const byField = selects(options.fieldSelector);
      const matches = (object: Obj): boolean => byLabel(object.metadata.labels) && byField(object);
      const missed = store.since(BigInt(options.resourceVersion));
      if (missed === undefined) throw new KubeFault('Gone', `${doing}: Gone (410): too old resource version`);
      let wake = Promise.withResolvers<void>();
      let ending: KubeFault | 'cleanly' | undefined;
      const feed: Feed = {
        pending: [...missed],
        look: () => wake.resolve(),
        end: (how) => {
          ending ??= how;
          wake.resolve();
        },
      };
      const abort = (): void => feed.end(new KubeFault('Cancelled', `${doing}: Cancelled by the caller`));
      signal.addEventListener('abort', abort, { once: true });
      const timer = setTimeout(() => feed.end('cleanly'), options.timeoutSeconds * 1_000);
      timer.unref();
      feeds.add(feed);
      try {
        options.onBytes?.();
        for (;;) {
          if (ending === 'cleanly') return;
          if (ending !== undefined) throw ending;
          const change = held ? undefined : feed.pending.shift();
          if (change === undefined) {
            await wake.promise;
            wake = Promise.withResolvers<void>();
            continue;
          }
          if (idOf(change.resource) !== idOf(resource)) continue;
          if (options.namespace !== undefined && change.object.metadata.namespace !== options.namespace) continue;
          const was = change.before !== undefined && matches(change.before);
          const is = change.type !== 'DELETED' && matches(change.object);
          if (!was && !is) continue;
          options.onBytes?.();
          // An object that stops matching leaves the watch as if deleted, in its newest form.
          yield { type: is ? (was ? 'MODIFIED' : 'ADDED') : 'DELETED', object: copy<T>(change.object) };
        }
      } finally {
        clearTimeout(timer);
        feeds.delete(feed);
        signal.removeEventListener('abort', abort);
      }
    },
  };

  store.onChange((change) => {
    for (const feed of feeds) {
      feed.pending.push(change);
      if (!held) feed.look();
    }
  });

  return {
    kube,
    hold: () => {
      held = true;
    },
    release: () => {
      held = false;
      for (const feed of feeds) feed.look();
    },
    expireWatches: () => {
      for (const feed of [...feeds]) feed.end(new KubeFault('Gone', 'watch: Gone (410): too old resource version'));
    },
  };
};
