/** Where a test runs: the cluster, and a namespace of its own that enforces the restricted Pod security standard. */
import { randomBytes } from 'node:crypto';
import type { TestContext } from 'node:test';
import type { EndpointSlice } from 'kubernetes-types/discovery/v1.js';
import { kubeconfigAccess } from '../../runtime/adapters/kube/kube-access.ts';
import { createKube } from '../../runtime/adapters/kube/kube-client.ts';
import {
  isFault,
  type Kube,
  type KubeObject,
  type Resource,
  resources,
  type Stored,
} from '../../runtime/ports/kube.ts';
import { type Cluster, CommandFailed, connect } from '../cluster/cluster.ts';
import { eventually, notYet } from './eventually.ts';
import { runtimeLog } from './runtime.ts';

/** Kinds that only tests look at. */
export const seenKinds = {
  ...resources,
  endpointslices: {
    group: 'discovery.k8s.io',
    version: 'v1',
    plural: 'endpointslices',
    kind: 'EndpointSlice',
    namespaced: true,
  } satisfies Resource<EndpointSlice> as Resource<EndpointSlice>,
} as const;

export type Place = {
  readonly cluster: Cluster;
  readonly kube: Kube;
  readonly namespace: string;
  /** kubectl in this namespace. */
  kubectl(args: readonly string[], options?: { input?: string; timeoutMs?: number }): Promise<string>;
  apply(...objects: readonly KubeObject[]): Promise<void>;
  list<T extends KubeObject>(resource: Resource<T>, labelSelector?: string): Promise<Stored<T>[]>;
  get<T extends KubeObject>(resource: Resource<T>, name: string): Promise<Stored<T> | undefined>;
};

export type Connection = { readonly cluster: Cluster; readonly kube: Kube };
let connection: Promise<Connection> | undefined;

/** One connection for all tests of a file. */
export const connected = (): Promise<Connection> => {
  connection ??= open();
  return connection;
};

const open = async (): Promise<Connection> => {
  const cluster = await connect({ progress: () => undefined });
  const access = await kubeconfigAccess({ file: cluster.kubeconfigPath });
  const kube = createKube({ access, userAgent: 'etcd-operator-e2e' });
  return { cluster, kube };
};

/** Namespaces of these tests, so that leftovers of a run that was killed can be told from a user's. */
export const MARK = 'etcd-operator-e2e';

/** Another one lets a runtime of its own, started with `--clusters`, look after just these tests. */
const namespacePrefix = process.env.ETCD_OPERATOR_E2E_PREFIX ?? 'e2e-';

const openPlace = async (topic: string): Promise<Place> => {
  const { cluster, kube } = await connected();
  const namespace = `${namespacePrefix}${topic}-${randomBytes(2).toString('hex')}`;
  await kube.create(resources.namespaces, {
    metadata: {
      name: namespace,
      labels: { [MARK]: 'true', 'pod-security.kubernetes.io/enforce': 'restricted' },
    },
  });
  return placeIn({ cluster, kube }, namespace);
};

export const placeIn = ({ cluster, kube }: Connection, namespace: string): Place => {
  const kubectl: Place['kubectl'] = (args, options) => cluster.kubectl(['-n', namespace, ...args], options);
  return {
    cluster,
    kube,
    namespace,
    kubectl,
    // The way users apply, and the server's own words when it refuses.
    apply: async (...objects) => {
      const input = objects.map((object) => JSON.stringify(object)).join('\n');
      await kubectl(['apply', '-f', '-'], { input });
    },
    list: async (resource, labelSelector) =>
      (await kube.list(resource, { namespace, ...(labelSelector === undefined ? {} : { labelSelector }) })).items,
    get: (resource, name) => kube.get({ resource, namespace, name }),
  };
};

/**
 * The body of a test with a namespace of its own. When it fails, what the cluster says is put below the reason, since the
 * namespace is taken away in any case. That it really goes is the last test of a run.
 */
export const inNamespace =
  (topic: string, body: (place: Place, t: TestContext) => Promise<void>) =>
  async (t: TestContext): Promise<void> => {
    const place = await openPlace(topic);
    try {
      await body(place, t);
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      throw new Error(`${why}\n${await whatThereIs(place)}`, { cause: error });
    } finally {
      await place.kube.delete({ resource: resources.namespaces, name: place.namespace });
    }
  };

export const namespaceGone = (place: Place, deadlineMs = 60_000): Promise<void> =>
  eventually(
    `namespace ${place.namespace} is gone`,
    async () => {
      const namespace = await place.kube.get({ resource: resources.namespaces, name: place.namespace });
      if (namespace !== undefined) notYet(JSON.stringify(namespace.status?.conditions?.map(({ message }) => message)));
    },
    { deadlineMs },
  );

const QUESTIONS: readonly (readonly string[])[] = [
  ['get', 'etcdclusters,etcdquorums,etcdmembers,pods,pvc,pdb', '-o', 'wide'],
  ['get', 'etcdclusters', '-o', 'jsonpath={range .items[*]}{.metadata.name} {.status}{"\\n"}{end}'],
  ['get', 'etcdquorums', '-o', 'jsonpath={range .items[*]}{.metadata.name} {.spec.replicas} {.status}{"\\n"}{end}'],
  ['get', 'etcdmembers', '-o', 'jsonpath={range .items[*]}{.metadata.name} {.status.conditions[0]}{"\\n"}{end}'],
  ['get', 'events', '--sort-by=.metadata.creationTimestamp'],
];

const whatThereIs = async (place: Place): Promise<string> => {
  const answers = await Promise.all(
    QUESTIONS.map(async (question) => {
      const answer = await place
        .kubectl(question, { timeoutMs: 15_000 })
        .catch((error: unknown) => (error instanceof CommandFailed ? error.message : String(error)));
      return `$ kubectl ${question.slice(0, 2).join(' ')}\n${answer.trim().split('\n').slice(-40).join('\n')}`;
    }),
  );
  const log = await runtimeLog(place.cluster, place.namespace);
  return [...answers, ...(await lastWordsOfMembers(place)), `# runtime, about ${place.namespace}\n${log}`].join('\n\n');
};

/** What etcd wrote in the Pods that are not ready, in the container before the present one too. */
const lastWordsOfMembers = async (place: Place): Promise<string[]> => {
  const pods = await place.list(seenKinds.pods).catch(() => []);
  const late = pods.filter(({ status }) => status?.conditions?.find(({ type }) => type === 'Ready')?.status !== 'True');
  return Promise.all(
    late.slice(0, 3).flatMap(({ metadata }) =>
      [[], ['--previous']].map(async (which) => {
        const words = await place
          .kubectl(['logs', metadata.name, '--tail=12', ...which], { timeoutMs: 15_000 })
          .catch((error: unknown) => (error instanceof CommandFailed ? error.stderr : String(error)));
        const lines = words.split('\n').map((line) => line.slice(0, 500));
        return `$ kubectl logs ${metadata.name} ${which.join(' ')}\n${lines.join('\n')}`;
      }),
    ),
  );
};

/** Whether a command is refused, and with which words. */
export const refusal = async (command: Promise<unknown>): Promise<string> => {
  try {
    await command;
  } catch (error) {
    if (error instanceof CommandFailed) return error.stderr;
    if (isFault(error)) return error.message;
    throw error;
  }
  throw new Error('the API server took what it should refuse');
};
