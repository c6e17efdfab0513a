/**
 * The Kubernetes port: what the runtime asks of an API server, as plain JSON objects.
 *
 * Everything here is a type, a table or an error; nothing in it touches the network, so controllers, the fake server's
 * tests and the real adapter meet in this file and nowhere else.
 */
import type { Job } from 'kubernetes-types/batch/v1.js';
import type { Lease } from 'kubernetes-types/coordination/v1.js';
import type {
  ConfigMap,
  Event,
  Namespace,
  Node,
  PersistentVolume,
  PersistentVolumeClaim,
  Pod,
  Secret,
  Service,
} from 'kubernetes-types/core/v1.js';
import type { ObjectMeta } from 'kubernetes-types/meta/v1.js';
import type { PodDisruptionBudget } from 'kubernetes-types/policy/v1.js';
import type { StorageClass } from 'kubernetes-types/storage/v1.js';
import type { EtcdCertificateSet } from '../../api/etcdcertificateset.gen.ts';
import type { EtcdCluster } from '../../api/etcdcluster.gen.ts';
import type { EtcdMember } from '../../api/etcdmember.gen.ts';
import type { EtcdQuorum } from '../../api/etcdquorum.gen.ts';
import type { EtcdRestore } from '../../api/etcdrestore.gen.ts';
import type { EtcdSnapshot } from '../../api/etcdsnapshot.gen.ts';
import type { EtcdSnapshotSchedule } from '../../api/etcdsnapshotschedule.gen.ts';
import { GROUP, VERSION } from '../../api/names.ts';

/** The least that any Kubernetes object is. */
export type KubeObject = { apiVersion?: string; kind?: string; metadata?: ObjectMeta };

/** An object that came from an API server: its identity and version are there. */
export type Stored<T extends KubeObject> = T & {
  metadata: ObjectMeta & { name: string; uid: string; resourceVersion: string };
};

/** The fields one manager applies: any part of the object, lists whole or by their keys. `undefined` is not sent. */
export type Applied<T> = T extends readonly unknown[]
  ? T
  : T extends object
    ? { [K in keyof T]?: Applied<T[K]> | undefined }
    : T;

/** One kind of object and the path under which the API server serves it. `T` exists for the checker only. */
export type Resource<T extends KubeObject = KubeObject> = {
  /** Empty for the core group. */
  readonly group: string;
  readonly version: string;
  readonly plural: string;
  readonly kind: string;
  readonly namespaced: boolean;
  readonly shape?: T;
};

const resource = <T extends KubeObject>(
  group: string,
  version: string,
  plural: string,
  kind: string,
  scope: 'Namespaced' | 'Cluster' = 'Namespaced',
): Resource<T> => ({ group, version, plural, kind, namespaced: scope === 'Namespaced' });

/** Every kind the runtime touches, and ConfigMaps, on which the contract suite tries things out. */
export const resources = {
  configmaps: resource<ConfigMap>('', 'v1', 'configmaps', 'ConfigMap'),
  etcdcertificatesets: resource<EtcdCertificateSet>(GROUP, VERSION, 'etcdcertificatesets', 'EtcdCertificateSet'),
  etcdclusters: resource<EtcdCluster>(GROUP, VERSION, 'etcdclusters', 'EtcdCluster'),
  etcdmembers: resource<EtcdMember>(GROUP, VERSION, 'etcdmembers', 'EtcdMember'),
  etcdquorums: resource<EtcdQuorum>(GROUP, VERSION, 'etcdquorums', 'EtcdQuorum'),
  etcdrestores: resource<EtcdRestore>(GROUP, VERSION, 'etcdrestores', 'EtcdRestore'),
  etcdsnapshots: resource<EtcdSnapshot>(GROUP, VERSION, 'etcdsnapshots', 'EtcdSnapshot'),
  etcdsnapshotschedules: resource<EtcdSnapshotSchedule>(
    GROUP,
    VERSION,
    'etcdsnapshotschedules',
    'EtcdSnapshotSchedule',
  ),
  events: resource<Event>('', 'v1', 'events', 'Event'),
  jobs: resource<Job>('batch', 'v1', 'jobs', 'Job'),
  leases: resource<Lease>('coordination.k8s.io', 'v1', 'leases', 'Lease'),
  namespaces: resource<Namespace>('', 'v1', 'namespaces', 'Namespace', 'Cluster'),
  nodes: resource<Node>('', 'v1', 'nodes', 'Node', 'Cluster'),
  persistentvolumeclaims: resource<PersistentVolumeClaim>('', 'v1', 'persistentvolumeclaims', 'PersistentVolumeClaim'),
  persistentvolumes: resource<PersistentVolume>('', 'v1', 'persistentvolumes', 'PersistentVolume', 'Cluster'),
  poddisruptionbudgets: resource<PodDisruptionBudget>('policy', 'v1', 'poddisruptionbudgets', 'PodDisruptionBudget'),
  pods: resource<Pod>('', 'v1', 'pods', 'Pod'),
  secrets: resource<Secret>('', 'v1', 'secrets', 'Secret'),
  services: resource<Service>('', 'v1', 'services', 'Service'),
  storageclasses: resource<StorageClass>('storage.k8s.io', 'v1', 'storageclasses', 'StorageClass', 'Cluster'),
} as const;

/** `v1` for the core group, `group/version` otherwise. */
export const apiVersionOf = (of: Resource): string => (of.group === '' ? of.version : `${of.group}/${of.version}`);

/** One object by name. `namespace` is required for a namespaced resource and ignored for others. */
export type Ref<T extends KubeObject = KubeObject> = {
  readonly resource: Resource<T>;
  readonly namespace?: string;
  readonly name: string;
};

export type CallOptions = {
  /** Aborting it ends the call with a fault of reason `Cancelled`. */
  signal?: AbortSignal | undefined;
  /** The whole call, body included; 10 000 when absent. A call without an end does not exist. */
  deadlineMs?: number | undefined;
};

export type ListOptions = CallOptions & {
  /** Absent: every namespace. */
  namespace?: string | undefined;
  labelSelector?: string | undefined;
  fieldSelector?: string | undefined;
  /** `0`: any state the server has at hand, which may be old. Absent: the newest state. */
  resourceVersion?: string | undefined;
  /** Objects per page, 500 when absent. All pages are read in any case. The deadline holds for each page. */
  limit?: number | undefined;
};

export type WatchOptions = {
  namespace?: string | undefined;
  labelSelector?: string | undefined;
  fieldSelector?: string | undefined;
  /** Where to begin, from a list or an earlier event. */
  resourceVersion: string;
  /** The server ends the stream cleanly after this many seconds. */
  timeoutSeconds: number;
  /** No byte for this long: the stream fails with reason `Timeout`, because the link is dead and nobody says so. */
  idleTimeoutMs: number;
  signal: AbortSignal;
  /** Called once when the server has begun the stream, and for every chunk of it. */
  onBytes?: (() => void) | undefined;
};

/** `Bookmark` carries a resource version only: everything up to it has been sent. */
export type WatchEvent<T extends KubeObject> =
  | { type: 'ADDED' | 'MODIFIED' | 'DELETED'; object: Stored<T> }
  | { type: 'BOOKMARK'; resourceVersion: string };

export type ApplyOptions = CallOptions & {
  /** Who owns the fields; a field owned and no longer sent is removed by the server. */
  fieldManager: string;
  /** Take fields that another manager owns instead of failing with reason `FieldConflict`. */
  force?: boolean | undefined;
  /** `status`, `scale`…: applies to that part only. */
  subresource?: string | undefined;
};

export type PatchOptions = CallOptions & { subresource?: string | undefined; fieldManager?: string | undefined };

export type CreateOptions = CallOptions & { fieldManager?: string | undefined };

export type DeleteOptions = CallOptions & {
  /** Refuse (`conflict`) when the object under this name is another one. */
  uid?: string | undefined;
  /** Refuse (`conflict`) when the object has changed since. */
  resourceVersion?: string | undefined;
  gracePeriodSeconds?: number | undefined;
  propagationPolicy?: 'Background' | 'Foreground' | 'Orphan' | undefined;
};

/** One operation of RFC 6902. `test` on `/metadata/resourceVersion` or any other path guards the rest. */
export type JsonPatchOperation =
  | { op: 'add' | 'replace' | 'test'; path: string; value: unknown }
  | { op: 'remove'; path: string }
  | { op: 'move' | 'copy'; from: string; path: string };

/** Every method throws {@link KubeFault} and nothing else. */
export type Kube = {
  /** `undefined` when no such object exists. Reads the newest state, never a cache. */
  get<T extends KubeObject>(ref: Ref<T>, options?: CallOptions): Promise<Stored<T> | undefined>;

  /** All objects that match, all pages; items carry their apiVersion and kind, which the server leaves out of lists. */
  list<T extends KubeObject>(
    resource: Resource<T>,
    options?: ListOptions,
  ): Promise<{ items: Stored<T>[]; resourceVersion: string }>;

  /** `AlreadyExists` when the name is taken; `NamespaceTerminating` when the namespace is being deleted. */
  create<T extends KubeObject>(resource: Resource<T>, object: NoInfer<T>, options?: CreateOptions): Promise<Stored<T>>;

  /**
   * Server-side apply of exactly the fields in `object`, which must name itself (`metadata.name`, `metadata.namespace`).
   *
   * Put `metadata.uid` in whenever the object must exist already: without it, applying to an object that was deleted a
   * moment ago creates a ghost of it; with it the server answers `Conflict`. `metadata.resourceVersion`, if present, must
   * match too.
   *
   * Through the status endpoint of a custom kind the server ignores the uid and writes to whatever has the name now; only
   * the resource version guards there. The fault `Conflict` comes all the same, but after the harm.
   */
  apply<T extends KubeObject>(
    resource: Resource<T>,
    object: Applied<NoInfer<T>> & KubeObject,
    options: ApplyOptions,
  ): Promise<Stored<T>>;

  /** JSON merge patch (RFC 7396): null removes, arrays are replaced. With `metadata.uid` or `metadata.resourceVersion` in it, `Conflict` when they do not match; of the two only the resource version guards the status of a custom kind, see {@link Kube.apply}. */
  mergePatch<T extends KubeObject>(
    ref: Ref<T>,
    patch: Record<string, unknown>,
    options?: PatchOptions,
  ): Promise<Stored<T>>;

  /** JSON patch (RFC 6902), all operations or none. A failed `test` is reason `Invalid`. */
  jsonPatch<T extends KubeObject>(
    ref: Ref<T>,
    operations: readonly JsonPatchOperation[],
    options?: PatchOptions,
  ): Promise<Stored<T>>;

  /**
   * `deleted`: the server has taken the request; finalizers and grace may hold the object for a while yet.
   * `absent`: there is no object of that name. `conflict`: a precondition of the options did not hold, nothing was done.
   */
  delete(ref: Ref, options?: DeleteOptions): Promise<'deleted' | 'absent' | 'conflict'>;

  /**
   * Changes after `resourceVersion`, bookmarks included. Ends when the server ends the stream cleanly; throws otherwise:
   * `Gone` (list again), `Malformed` (a line was not understood, so something is lost: list again), `Timeout` (silence),
   * `Unavailable` (broken connection), `Cancelled`.
   */
  watch<T extends KubeObject>(resource: Resource<T>, options: WatchOptions): AsyncIterable<WatchEvent<T>>;
};

/** `soon`: read again and try at once. `backoff`: wait, longer each time. `never`: the same call fails the same way. */
export type KubeRetry = 'soon' | 'backoff' | 'never';

/** What is told to users who have no access to our log. */
export type EventNote = {
  type: 'Normal' | 'Warning';
  /** One UpperCamelCase word; the same in condition, log and metric. */
  reason: string;
  /** What is so and what to do. Cut at 1024 characters. Never a Secret. */
  message: string;
  /** What was done or not done, one word. */
  action?: string | undefined;
  /** Written however much was said of the object before: for what happens once and for good. */
  essential?: boolean | undefined;
};

export type KubeEvents = {
  /** Never throws and never waits: an Event that cannot be written is dropped. `about` needs kind, name and uid. */
  record(about: KubeObject, note: EventNote): void;
};

/** Every reason a {@link KubeFault} can have, with when to try again. */
export const kubeFaultRetry = {
  /** The object or its namespace does not exist. */
  NotFound: 'soon',
  /**
   * The API server does not know the kind: its CRD is not there, or not yet, as for seconds after the server started. That
   * says nothing about objects; read as "absent" it would look as if every claim had been deleted.
   */
  NotServed: 'backoff',
  /** Create: the name is taken. */
  AlreadyExists: 'soon',
  /** A resource version or uid did not match: read again and decide again. */
  Conflict: 'soon',
  /** Apply without `force`: another manager owns a field. */
  FieldConflict: 'never',
  /** The server understood the object and refuses it: schema, CEL, immutable field, failed JSON-patch test. */
  Invalid: 'never',
  /** The request itself is wrong. */
  BadRequest: 'never',
  /** RBAC, quota or an admission webhook says no. Somebody may grant the permission or raise the quota while we wait. */
  Forbidden: 'backoff',
  /** Create in a namespace that is being deleted. */
  NamespaceTerminating: 'never',
  /** The credentials are read again before the next call. */
  Unauthorized: 'backoff',
  TooManyRequests: 'backoff',
  /** The resource version is too old to watch or to page from. */
  Gone: 'soon',
  /** The deadline passed or the stream fell silent. A write may have happened. */
  Timeout: 'backoff',
  /** No connection, a broken one, or a 5xx answer. A write may have happened. */
  Unavailable: 'backoff',
  /** The answer was not what the protocol promises. A write may have happened. */
  Malformed: 'backoff',
  /** The caller's signal was aborted. A write may have happened. */
  Cancelled: 'never',
  /** A bug, or a status this table does not know. */
  Unknown: 'backoff',
} as const satisfies Record<string, KubeRetry>;

export type KubeFaultReason = keyof typeof kubeFaultRetry;

export type KubeFaultDetail = {
  /** HTTP status, when there was an answer. */
  status?: number | undefined;
  /** The server's wish (Retry-After), in milliseconds. */
  retryAfterMs?: number | undefined;
  cause?: unknown;
};

/** The one error of this port. Its message is one line: verb, kind, namespace/name, reason, and the server's words. */
export class KubeFault extends Error {
  override readonly name = 'KubeFault';
  readonly reason: KubeFaultReason;
  readonly retry: KubeRetry;
  readonly status: number | undefined;
  readonly retryAfterMs: number | undefined;

  constructor(reason: KubeFaultReason, message: string, detail: KubeFaultDetail = {}) {
    super(message, detail.cause === undefined ? undefined : { cause: detail.cause });
    this.reason = reason;
    this.retry = kubeFaultRetry[reason];
    this.status = detail.status;
    this.retryAfterMs = detail.retryAfterMs;
  }

  /**
   * - a `KubeFault` stays itself
   * - an `AbortError` becomes `Cancelled`, a `TimeoutError` becomes `Timeout`
   * - an error with a system code (ECONNRESET…) or a TLS code becomes `Unavailable`
   * - a `SyntaxError` becomes `Malformed`, without its words
   * - anything else becomes `Unknown`
   *
   * `doing` leads the message: it says which call failed.
   */
  static from(error: unknown, doing = 'Kubernetes call'): KubeFault {
    if (error instanceof KubeFault) return error;
    if (!(error instanceof Error)) return new KubeFault('Unknown', `${doing}: ${String(error)}`, { cause: error });
    const reason: KubeFaultReason =
      error.name === 'AbortError'
        ? 'Cancelled'
        : error.name === 'TimeoutError'
          ? 'Timeout'
          : error instanceof SyntaxError
            ? 'Malformed'
            : 'code' in error && typeof error.code === 'string'
              ? 'Unavailable'
              : 'Unknown';
    // A parser quotes what it read, and what it read may be a Secret: neither its message nor the error itself may go on.
    if (reason === 'Malformed') return new KubeFault(reason, `${doing}: ${reason}: not JSON`);
    const words = error.message.replaceAll(/\s+/g, ' ').slice(0, 500);
    return new KubeFault(reason, `${doing}: ${reason}: ${words}`, { cause: error });
  }
}

/** True when `error` is a fault of one of these reasons. */
export const isFault = (error: unknown, ...reasons: KubeFaultReason[]): error is KubeFault =>
  error instanceof KubeFault && (reasons.length === 0 || reasons.includes(error.reason));
