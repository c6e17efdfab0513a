/**
 * What Crossplane does with one claim, with our own composition functions and our own Composition: observe by references,
 * run the pipeline, apply, collect what was dropped, project the status. Order and details follow Crossplane 2.4.
 */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { parse } from 'yaml';
import { GROUP, VERSION } from '../../api/names.ts';
import type { Condition, RunFunctionRequest, State, Struct } from '../../functions/composing/exchange.ts';
import { compose } from '../../functions/steps.ts';
import { type Resource, resources } from '../../runtime/ports/kube.ts';
import { copyJson, type JsonObject } from './fake-kube-schema.ts';
import { type Obj, Refusal, type Store } from './fake-kube-store.ts';

type Step = { readonly step: string; readonly input: JsonObject };

const pipeline = (
  parse(readFileSync(path.resolve(import.meta.dirname, '../../compositions/etcdcluster.yaml'), 'utf8')) as {
    spec: { pipeline: Step[] };
  }
).spec.pipeline;

const KEY = 'crossplane.io/composition-resource-name';
const COMPOSITE = 'crossplane.io/composite';

/** What the functions ask for or render and the runtime never looks at. */
const others: readonly Resource[] = [
  { group: GROUP, version: VERSION, plural: 'etcdcertificatesets', kind: 'EtcdCertificateSet', namespaced: true },
  {
    group: 'apiextensions.k8s.io',
    version: 'v1',
    plural: 'customresourcedefinitions',
    kind: 'CustomResourceDefinition',
    namespaced: false,
  },
];

const resourceOf = ({ kind }: { kind?: unknown }): Resource => {
  const found = [...Object.values(resources), ...others].find((resource) => resource.kind === kind);
  if (found === undefined) throw new TypeError(`the functions render a ${String(kind)}, which the fake does not know`);
  return found;
};

export type FakeCrossplane = {
  /** One reconcile of the claim, if anything has happened since the last one; true when it has changed anything. */
  reconcile(): boolean;
  /** Milliseconds to live of the last answer. */
  ttlMs(): number;
  /** While stopped, nothing happens. */
  stop(): void;
  start(): void;
  /** Tokens of the circuit breaker that events have cost so far: an update 2, a creation or deletion 1. */
  readonly tokens: number;
  /** Those events, as `MODIFIED EtcdMember/demo-0`. */
  readonly events: readonly string[];
};

type Ref = { readonly apiVersion: string; readonly kind: string; readonly name: string };

export const createFakeCrossplane = (
  store: Store,
  claim: { readonly namespace: string; readonly name: string },
  now: () => number,
): FakeCrossplane => {
  const key = { resource: resources.etcdclusters as Resource, ...claim };
  let dirty = true;
  let stopped = false;
  let ttl = 60;
  const applied = new Map<string, string>();
  let tokens = 0;
  const events: string[] = [];

  const mine = (object: Obj): boolean => {
    const { name, namespace } = object.metadata;
    if (object.kind === 'EtcdCluster') return name === claim.name && namespace === claim.namespace;
    const owners = (object.metadata.ownerReferences ?? []) as { kind: string; name: string; uid: string }[];
    return (
      namespace === claim.namespace &&
      // It watches the kinds that it composes; the budget and the Pods are controlled by the claim too, and not watched.
      ['EtcdMember', 'EtcdQuorum', 'Service'].includes(object.kind) &&
      owners.some((owner) => owner.kind === 'EtcdCluster' && owner.name === claim.name)
    );
  };

  store.onChange((change) => {
    if (!mine(change.object)) return;
    dirty = true;
    if (change.object.metadata.deletionTimestamp !== undefined) return;
    tokens += change.type === 'MODIFIED' ? 2 : 1;
    events.push(`${change.type} ${change.object.kind}/${change.object.metadata.name}`);
  });

  const controller = (object: Obj): string | undefined =>
    ((object.metadata.ownerReferences ?? []) as { uid: string; controller?: boolean }[]).find(
      (owner) => owner.controller === true,
    )?.uid;

  const run = (composite: Obj, observed: Map<string, Obj>): { desired: State; conditions: Condition[] } => {
    let desired: State = {};
    let context: Struct = {};
    const conditions: Condition[] = [];
    const ttls: number[] = [];
    for (const { input, step } of pipeline) {
      let request: RunFunctionRequest = {
        observed: {
          composite: { resource: composite },
          resources: Object.fromEntries([...observed].map(([name, resource]) => [name, { resource }])),
        },
        desired,
        context,
        input,
      };
      let response = compose(request);
      if (response.requirements?.resources !== undefined) {
        const requiredResources = Object.fromEntries(
          Object.entries(response.requirements.resources).map(([name, selector]) => [
            name,
            store
              .list(resourceOf(selector), selector.namespace)
              .filter(({ metadata }) =>
                Object.entries(selector.matchLabels ?? {}).every(
                  ([label, value]) => metadata.labels?.[label] === value,
                ),
              )
              .map((resource) => ({ resource })),
          ]),
        );
        request = { ...request, requiredResources };
        response = compose(request);
      }
      const fatal = response.results?.find(({ severity }) => severity === 'Fatal');
      if (fatal !== undefined) throw new Error(`step ${step}: ${fatal.message}`);
      desired = response.desired ?? {};
      context = response.context ?? {};
      conditions.push(...(response.conditions ?? []));
      if (response.ttlSeconds !== undefined) ttls.push(response.ttlSeconds);
    }
    ttl = Math.min(...ttls);
    return { desired, conditions };
  };

  const reconcileClaim = (): void => {
    const composite = store.get(key);
    if (composite === undefined || composite.metadata.deletionTimestamp !== undefined) return;
    const { uid } = composite.metadata;
    const refs = (((composite.spec as JsonObject).crossplane as JsonObject | undefined)?.resourceRefs ??
      []) as unknown as Ref[];
    const observed = new Map<string, Obj>();
    for (const ref of refs) {
      const object = store.get({ resource: resourceOf(ref), namespace: claim.namespace, name: ref.name });
      const owner = object === undefined ? undefined : controller(object);
      if (object === undefined || (owner !== undefined && owner !== uid)) continue;
      const name = (object.metadata.annotations as Record<string, string> | undefined)?.[KEY];
      if (name !== undefined) observed.set(name, object);
    }
    const { desired, conditions } = run(composite, observed);
    const wanted = Object.entries(desired.resources ?? {}).map(([name, one]) => ({
      name,
      object: one.resource as Obj,
      ready: one.ready === 'True',
    }));

    for (const [name, object] of observed) {
      if (wanted.some((one) => one.name === name)) continue;
      const at = { resource: resourceOf(object), namespace: claim.namespace, name: object.metadata.name };
      const manager = 'crossplane';
      store.write(at, { kind: 'merge', manager, body: { metadata: { labels: { [COMPOSITE]: null } } } });
      store.delete(at, { uid: object.metadata.uid, propagationPolicy: 'Foreground' });
    }

    const nextRefs = wanted
      .map(
        ({ object }): Ref => ({
          apiVersion: object.apiVersion,
          kind: object.kind,
          name: object.metadata.name,
        }),
      )
      .toSorted((a, b) => (`${a.kind}/${a.name}` < `${b.kind}/${b.name}` ? -1 : 1));
    store.write(key, {
      kind: 'merge',
      manager: 'apiextensions.crossplane.io/composite',
      body: { spec: { crossplane: { resourceRefs: nextRefs as unknown as JsonObject[] } } },
    });

    let synced = true;
    for (const { name, object } of wanted) {
      const { metadata } = object;
      const at = { resource: resourceOf(object), namespace: claim.namespace, name: metadata.name };
      const present = store.get(at);
      const owner = present === undefined ? undefined : controller(present);
      if (owner !== undefined && owner !== uid) {
        synced = false;
        continue;
      }
      const body = copyJson(object as unknown as JsonObject);
      body.metadata = {
        ...metadata,
        labels: { ...metadata.labels, [COMPOSITE]: claim.name },
        annotations: { ...(metadata.annotations as JsonObject | undefined), [KEY]: name },
        ownerReferences: [
          {
            apiVersion: composite.apiVersion,
            kind: composite.kind,
            name: claim.name,
            uid,
            controller: true,
            blockOwnerDeletion: true,
          },
        ],
      };
      // Applying the same again changes nothing; a run of thousands of stories has no time to prove it each time.
      const text = JSON.stringify([
        body,
        present?.metadata.uid,
        present?.metadata.ownerReferences,
        present?.metadata.labels,
      ]);
      if (applied.get(name) === text) continue;
      try {
        store.write(at, { kind: 'apply', body, manager: `apiextensions.crossplane.io/composed/${uid}`, force: true });
      } catch (error) {
        // Creates are refused while the namespace ends; everything else is a defect of the functions or of this fake.
        if (!(error instanceof Refusal) || error.status !== 403) throw error;
        synced = false;
      }
      const now = store.get(at)?.metadata;
      applied.set(name, JSON.stringify([body, now?.uid, now?.ownerReferences, now?.labels]));
    }

    const live = store.get(key);
    if (live === undefined) return;
    const before = (((composite.status as JsonObject | undefined)?.conditions ?? []) as unknown as Condition[]).map(
      (one) => one as Condition & { lastTransitionTime: string },
    );
    const projected = (desired.composite?.resource as { status?: JsonObject } | undefined)?.status ?? {};
    const ready = desired.composite?.ready === 'True';
    const said: Condition[] = [
      ...conditions,
      { type: 'Synced', status: synced ? 'True' : 'False', reason: synced ? 'ReconcileSuccess' : 'ReconcileError' },
      { type: 'Ready', status: ready ? 'True' : 'False', reason: ready ? 'Available' : 'Creating' },
    ];
    const stamped = said.map((condition) => {
      const old = before.find(({ type, status }) => type === condition.type && status === condition.status);
      return { ...condition, lastTransitionTime: old?.lastTransitionTime ?? new Date(now()).toISOString() };
    });
    // Two writes: the fields with the conditions as this reconcile found them, then the conditions as they are now.
    const write = (status: JsonObject): void => {
      store.write(key, { kind: 'merge', manager: 'crossplane', body: { status } }, 'status');
    };
    if (before.length === 0) write({ ...projected });
    else write({ ...projected, conditions: before as unknown as JsonObject[] });
    write({ conditions: stamped as unknown as JsonObject[] });
  };

  return {
    reconcile: () => {
      if (!dirty || stopped) return false;
      dirty = false;
      const before = store.version;
      reconcileClaim();
      return store.version !== before;
    },
    ttlMs: () => ttl * 1_000,
    stop: () => {
      stopped = true;
    },
    start: () => {
      stopped = false;
      dirty = true;
    },
    get tokens() {
      return tokens;
    },
    events,
  };
};

/** What a person applies. */
export const claimObject = (
  at: { readonly namespace: string; readonly name: string },
  spec: Record<string, unknown>,
): JsonObject => ({ metadata: { ...at }, spec: { version: '3.6.16', replicas: 3, ...spec } }) as unknown as JsonObject;
