/** Notes the calls that change something, for the spans of a trace. What they carry is never noted, only where they went. */
import { EtcdFault, type EtcdMemberClient } from '../ports/etcd.ts';
import { apiVersionOf, type Kube, KubeFault, type Ref, type Resource } from '../ports/kube.ts';
import type { FinishedSpan, SpanAttributes } from '../ports/tracing.ts';
import type { World } from './world.ts';

/** Names of the calls as they are on the wire. Reads are left out: they are many, and a pass does them all the time. */
const RPC: Readonly<Partial<Record<keyof EtcdMemberClient, string>>> = {
  memberAddLearner: 'etcdserverpb.Cluster/MemberAdd',
  memberPromote: 'etcdserverpb.Cluster/MemberPromote',
  memberRemove: 'etcdserverpb.Cluster/MemberRemove',
  moveLeader: 'etcdserverpb.Maintenance/MoveLeader',
  disarm: 'etcdserverpb.Maintenance/Alarm',
  defragment: 'etcdserverpb.Maintenance/Defragment',
  downgrade: 'etcdserverpb.Maintenance/Downgrade',
  compact: 'etcdserverpb.KV/Compact',
};

/** Calls whose first argument is the member they are about. */
const ABOUT_MEMBER = new Set<string>(['memberPromote', 'memberRemove', 'moveLeader']);

/** One word for what went wrong; messages are for logs. */
export const errorType = (error: unknown): string =>
  error instanceof KubeFault || error instanceof EtcdFault
    ? error.reason
    : error instanceof Error
      ? error.name
      : 'Unknown';

const pathOf = ({ resource, name }: Ref, subresource: string | undefined, collection: boolean): string =>
  [
    resource.group === '' ? '/api' : '/apis',
    apiVersionOf(resource),
    ...(resource.namespaced ? ['namespaces/{namespace}'] : []),
    resource.plural,
    ...(collection || name === '' ? [] : ['{name}']),
    ...(subresource === undefined ? [] : [subresource]),
  ].join('/');

const addressOf = (url: string): SpanAttributes => {
  const { hostname, port } = new URL(url);
  return {
    'server.address': hostname.replaceAll(/[[\]]/g, ''),
    ...(port === '' ? {} : { 'server.port': Number(port) }),
  };
};

/** The same world; `calls` fills with a finished span for every write. `now` is in milliseconds since the epoch. */
export const recordingCalls = (world: World, calls: FinishedSpan[], now: () => number): World => {
  const { kube } = world;
  const noted = async <T>(name: string, attributes: SpanAttributes, call: () => Promise<T>): Promise<T> => {
    const startMs = now();
    const note = (error?: unknown): void => {
      const status = error instanceof KubeFault ? error.status : undefined;
      calls.push({
        name,
        kind: 'client',
        startMs,
        endMs: now(),
        attributes: { ...attributes, ...(status === undefined ? {} : { 'http.response.status_code': status }) },
        ...(error === undefined ? {} : { error: errorType(error) }),
      });
    };
    try {
      const answer = await call();
      note();
      return answer;
    } catch (error) {
      note(error);
      throw error;
    }
  };
  const write = <T>(
    method: string,
    ref: { resource: Resource; name?: string | undefined; namespace?: string | undefined },
    subresource: string | undefined,
    call: () => Promise<T>,
  ): Promise<T> => {
    const { resource, name = '', namespace } = ref;
    const path = pathOf({ resource, name }, subresource, method === 'POST');
    return noted(
      `${method} ${path}`,
      {
        'http.request.method': method,
        'url.template': path,
        ...(world.apiServer === undefined ? {} : addressOf(world.apiServer)),
        ...(namespace === undefined ? {} : { 'k8s.namespace.name': namespace }),
        ...(resource.plural === 'pods' ? { 'k8s.pod.name': name } : {}),
        'etcd_operator.object.kind': resource.kind,
        'etcd_operator.object.name': name,
      },
      call,
    );
  };
  const recordingKube: Kube = {
    get: (ref, o) => kube.get(ref, o),
    list: (resource, o) => kube.list(resource, o),
    watch: (resource, o) => kube.watch(resource, o),
    create: (resource, object, o) =>
      write('POST', { resource, ...object.metadata }, undefined, () => kube.create(resource, object, o)),
    apply: (resource, object, o) =>
      write('PATCH', { resource, ...object.metadata }, o.subresource, () => kube.apply(resource, object, o)),
    mergePatch: (ref, patch, o) => write('PATCH', ref, o?.subresource, () => kube.mergePatch(ref, patch, o)),
    jsonPatch: (ref, operations, o) => write('PATCH', ref, o?.subresource, () => kube.jsonPatch(ref, operations, o)),
    delete: (ref, o) => write('DELETE', ref, undefined, () => kube.delete(ref, o)),
  };
  const client = (inner: EtcdMemberClient): EtcdMemberClient =>
    new Proxy(inner, {
      get: (target, method: keyof EtcdMemberClient) => {
        const own = target[method];
        const rpc = RPC[method];
        if (rpc === undefined || typeof own !== 'function') return own;
        return (...given: unknown[]) =>
          noted(
            rpc,
            {
              'rpc.system.name': 'grpc',
              'rpc.method': rpc,
              ...addressOf(inner.url),
              ...(ABOUT_MEMBER.has(method) ? { 'etcd_operator.member.id': String(given[0]) } : {}),
            },
            () => (own as (...given: unknown[]) => Promise<unknown>).apply(target, given),
          );
      },
    });
  return {
    ...world,
    kube: recordingKube,
    etcd: {
      at: (endpoint) => client(world.etcd.at(endpoint)),
      dial: (endpoint) => client(world.etcd.dial(endpoint)),
      forget: (url) => world.etcd.forget(url),
      close: () => world.etcd.close(),
    },
    dialler: { ...world.dialler, client: (cluster, pod) => client(world.dialler.client(cluster, pod)) },
  };
};
