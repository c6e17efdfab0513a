import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { parse } from 'yaml';
import type { EtcdClusterSpec } from '../api/etcdcluster.gen.ts';
import type { EtcdMember } from '../api/etcdmember.gen.ts';
import { API_VERSION, memberName } from '../api/names.ts';
import { EFFECTIVE_CLAIM, record } from './composing/claim.ts';
import type { Resource, RunFunctionRequest, RunFunctionResponse } from './composing/exchange.ts';
import { INPUT_API_VERSION } from './composing/step-input.ts';
import { encodeResponse } from './server/run-function.ts';
import { compose, type StepName, stepNames } from './steps.ts';

const UID = '7d2f1c52-0001-4000-8000-000000000001';
const root = join(import.meta.dirname, '..');

type World = {
  spec?: object;
  status?: object;
  metadata?: object;
  observed?: Record<string, object>;
  required?: object[];
  context?: Record<string, unknown>;
  desired?: RunFunctionRequest['desired'];
  input?: object;
};

const request = (step: StepName, world: World = {}): RunFunctionRequest => ({
  tag: 'opaque',
  input: { apiVersion: INPUT_API_VERSION, kind: step, ...world.input },
  observed: {
    composite: {
      resource: {
        apiVersion: API_VERSION,
        kind: 'EtcdCluster',
        metadata: { name: 'demo', namespace: 'team-a', uid: UID, generation: 4, ...world.metadata },
        spec: { version: '3.6.16', ...world.spec },
        ...(world.status === undefined ? {} : { status: world.status }),
      },
    },
    resources: Object.fromEntries(Object.entries(world.observed ?? {}).map(([key, resource]) => [key, { resource }])),
  },
  ...(world.required === undefined
    ? {}
    : { requiredResources: { members: world.required.map((resource) => ({ resource })) } }),
  ...(world.context === undefined ? {} : { context: world.context }),
  ...(world.desired === undefined ? {} : { desired: world.desired }),
});

const existing = (ordinal: number, phase?: string, more: { metadata?: object; status?: object } = {}): object => ({
  apiVersion: API_VERSION,
  kind: 'EtcdMember',
  metadata: { name: memberName('demo', ordinal), namespace: 'team-a', ...more.metadata },
  spec: { clusterName: 'demo' },
  ...(phase === undefined
    ? {}
    : { status: { phase, clusterUID: UID, conditions: [ready(phase === 'Voter')], ...more.status } }),
});
const ready = (is: boolean) => ({ type: 'Ready', status: is ? 'True' : 'False', reason: 'Serving', message: '' });

const quorumWith = (
  conditions: Record<string, string>,
  more: { spec?: object; status?: object; generation?: number } = {},
) => ({
  apiVersion: API_VERSION,
  kind: 'EtcdQuorum',
  metadata: { name: 'demo', generation: more.generation ?? 1 },
  spec: { replicas: 3, version: '3.6.16', medium: '', ...more.spec },
  status: {
    phase: 'Running',
    clusterID: 'ef37ad9dc622a7c4',
    version: '3.6.16',
    observedGeneration: 1,
    conditions: Object.entries(conditions).map(([type, status]) => ({ type, status, reason: 'Settled', message: 'x' })),
    ...more.status,
  },
});
const SETTLED = { Ready: 'True', Available: 'True', Progressing: 'False', Degraded: 'False', Stalled: 'False' };

const settled: World = {
  observed: {
    quorum: quorumWith(SETTLED),
    'member-0': existing(0, 'Voter'),
    'member-1': existing(1, 'Voter'),
    'member-2': existing(2, 'Voter'),
  },
};

const keys = (response: RunFunctionResponse): string[] => Object.keys(response.desired?.resources ?? {}).sort();
const memberKeys = (response: RunFunctionResponse): string[] =>
  keys(response).filter((key) => key.startsWith('member-'));
const resource = <T = Record<string, never>>(response: RunFunctionResponse, key: string): T =>
  response.desired?.resources?.[key]?.resource as T;
const pod = (response: RunFunctionResponse, key = 'member-0'): EtcdMember['spec']['template']['spec'] =>
  resource<EtcdMember>(response, key).spec.template.spec;
const statusOf = (response: RunFunctionResponse): { readonly [key: string]: unknown } =>
  record(record(response.desired?.composite?.resource).status);
const conditionOf = (response: RunFunctionResponse, type: string) =>
  response.conditions?.find((condition) => condition.type === type);
const fatal = (response: RunFunctionResponse): string | undefined =>
  response.results?.find(({ severity }) => severity === 'Fatal')?.message;

/** The others render what one of these made. */
const claimSteps = stepNames.filter((step) => step !== 'Certificates');

describe('every step', () => {
  for (const step of claimSteps) {
    test(`${step} echoes the tag and passes through what other steps want`, () => {
      const foreign: Resource = {
        resource: { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'theirs' } },
        ready: 'True',
        connectionDetails: { secret: new Uint8Array([1, 2, 3]) },
      };
      const response = compose(
        request(step, {
          context: { theirs: { a: 1 } },
          desired: { composite: { resource: { status: { theirs: 'kept' } } }, resources: { theirs: foreign } },
        }),
      );
      assert.equal(response.tag, 'opaque');
      assert.deepEqual(response.desired?.resources?.theirs, foreign);
      assert.deepEqual(response.context, { theirs: { a: 1 } });
      assert.equal(statusOf(response).theirs, 'kept');
    });

    test(`${step} refuses a claim that it cannot render, and says what to correct`, () => {
      assert.match(
        fatal(compose(request(step, { spec: { version: 'v3.6' } }))) ?? '',
        /spec\.version is "v3\.6"; set it to/,
      );
      assert.match(fatal(compose(request(step, { metadata: { name: undefined } }))) ?? '', /no metadata\.name/);
      assert.match(fatal(compose(request(step, { spec: { replicas: 2.5 } }))) ?? '', /spec\.replicas is 2\.5/);
      assert.match(fatal(compose({})) ?? '', /input is apiVersion absent, kind absent; give it/);
    });

    test(`${step} refuses a spec of the wrong shape, which only a policy step can bring about`, () => {
      const context = { [EFFECTIVE_CLAIM]: { spec: { version: '3.6.16', topologySpreadConstraints: {} } } };
      assert.match(
        fatal(compose(request(step, { context }))) ?? '',
        /spec\.topologySpreadConstraints of the effective claim is \{\}; it has to be a list of objects/,
      );
    });

    test(`${step} refuses a rendering it does not know, because another one would roll every cluster`, () => {
      assert.match(
        fatal(compose(request(step, { input: { renderVersion: 2 } }))) ?? '',
        /renderVersion is 2.*knows 1 to 1/,
      );
      assert.equal(fatal(compose(request(step, { input: { renderVersion: 1 } }))), undefined);
    });

    test(`${step} asks again soon while anything is unsettled, and in a minute when nothing is`, () => {
      assert.equal(compose(request(step)).ttlSeconds, 5);
      assert.equal(compose(request(step, settled)).ttlSeconds, 60);
      const unsettled: [why: string, change: World][] = [
        [
          'the runtime is at work',
          { observed: { ...settled.observed, quorum: quorumWith({ ...SETTLED, Progressing: 'True' }) } },
        ],
        ['it is not ready', { observed: { ...settled.observed, quorum: quorumWith({ ...SETTLED, Ready: 'False' }) } }],
        [
          'the runtime has not seen the newest spec',
          { observed: { ...settled.observed, quorum: quorumWith(SETTLED, { generation: 2 }) } },
        ],
        ['the claim asks for another size', { spec: { replicas: 5 } }],
        ['the claim asks for another version', { spec: { version: '3.6.17' } }],
        ['a member is missing', { observed: { ...settled.observed, 'member-3': existing(3, 'Voter') } }],
        [
          'a member is being deleted',
          {
            observed: {
              ...settled.observed,
              'member-1': existing(1, 'Voter', { metadata: { deletionTimestamp: 'now' } }),
            },
          },
        ],
        [
          'Crossplane dropped events',
          { status: { conditions: [{ type: 'Responsive', status: 'False', reason: 'WatchCircuitOpen' }] } },
        ],
      ];
      for (const [why, change] of unsettled) {
        assert.equal(compose(request(step, { ...settled, ...change })).ttlSeconds, 5, why);
      }
    });
  }

  test('later steps render from the effective claim that a policy step left, and from its identity as it is', () => {
    const context = { [EFFECTIVE_CLAIM]: { spec: { version: '3.6.17', replicas: 1 } } };
    const response = compose(request('Members', { spec: { replicas: 5 }, context }));
    assert.deepEqual(memberKeys(response), ['member-0']);
    assert.equal(pod(response).containers[0]?.image, 'quay.io/coreos/etcd:v3.6.17');
  });
});

describe('members', () => {
  test('a member beyond replicas stays until the runtime says Removed, because a key that disappears is deleted at once', () => {
    const observed = { ...settled.observed, 'member-3': existing(3, 'Voter'), 'member-4': existing(4, 'Leaving') };
    assert.deepEqual(
      memberKeys(compose(request('Members', { observed }))),
      [0, 1, 2, 3, 4].map((i) => `member-${i}`),
    );
    const removed = { ...observed, 'member-4': existing(4, 'Removed') };
    assert.deepEqual(
      memberKeys(compose(request('Members', { observed: removed }))),
      [0, 1, 2, 3].map((i) => `member-${i}`),
    );
  });

  test('Removed counts only when every copy says so, because one of them may be old', () => {
    const observed = { ...settled.observed, 'member-3': existing(3, 'Removed') };
    const stays = compose(request('Members', { observed, required: [existing(3, 'Provisioning')] }));
    assert.ok(memberKeys(stays).includes('member-3'));
    const goes = compose(request('Members', { observed, required: [existing(3, 'Removed')] }));
    assert.ok(!memberKeys(goes).includes('member-3'));
  });

  test('a Removed slot that is wanted again keeps its key, so that the runtime starts a new incarnation in it', () => {
    const observed = { ...settled.observed, 'member-1': existing(1, 'Removed') };
    assert.deepEqual(memberKeys(compose(request('Members', { observed }))), ['member-0', 'member-1', 'member-2']);
  });

  test('members that nobody composed yet are found by their label, so that an orphaned cluster is adopted whole', () => {
    const response = compose(
      request('Members', { required: [existing(0, 'Voter'), existing(2, 'Voter'), existing(4, 'Voter')] }),
    );
    assert.deepEqual(memberKeys(response), ['member-0', 'member-2', 'member-4']);
    assert.deepEqual(response.requirements?.resources, {
      members: {
        apiVersion: API_VERSION,
        kind: 'EtcdMember',
        namespace: 'team-a',
        matchLabels: { 'etcd-operator.cozystack.io/cluster': 'demo' },
      },
    });
  });

  test('an EtcdMember of another cluster or of no slot is left alone', () => {
    const required = [
      { ...existing(7, 'Voter'), spec: { clusterName: 'demo-7' } },
      { ...existing(0), metadata: { name: 'demo-x' } },
      { ...existing(0), metadata: { name: 'demo-01' } },
      {},
    ];
    assert.deepEqual(memberKeys(compose(request('Members', { required }))), ['member-0', 'member-1', 'member-2']);
  });

  test('a member is ready only as a voter that serves and is not going, in a cluster that has formed', () => {
    const readyOf = (world: World): string | undefined =>
      compose(request('Members', world)).desired?.resources?.['member-1']?.ready;
    const with1 = (member: object): World => ({ observed: { ...settled.observed, 'member-1': member } });
    assert.equal(readyOf(settled), 'True');
    assert.equal(readyOf(with1(existing(1, 'Learner', { status: { conditions: [ready(true)] } }))), 'False');
    assert.equal(readyOf(with1(existing(1, 'Voter', { status: { conditions: [ready(false)] } }))), 'False');
    assert.equal(readyOf(with1(existing(1, 'Voter', { metadata: { deletionTimestamp: 'now' } }))), 'False');
    const forming = quorumWith(
      { ...SETTLED, Ready: 'False' },
      { status: { phase: 'Bootstrapping', clusterID: undefined } },
    );
    assert.equal(readyOf({ observed: { ...settled.observed, quorum: forming } }), 'False');
  });

  test('the quorum is ready as its own condition says', () => {
    const readyOf = (world: World): string | undefined =>
      compose(request('Members', world)).desired?.resources?.quorum?.ready;
    assert.equal(readyOf(settled), 'True');
    assert.equal(readyOf({ observed: { quorum: quorumWith({ ...SETTLED, Ready: 'Unknown' }) } }), 'False');
    assert.equal(readyOf({}), 'False');
  });

  test("the image is the claim's, else the Composition's, else upstream's", () => {
    const image = (world: World): string | undefined => pod(compose(request('Members', world))).containers[0]?.image;
    const input = { imageRepository: 'mirror.example/etcd' };
    assert.equal(image({}), 'quay.io/coreos/etcd:v3.6.16');
    assert.equal(image({ input }), 'mirror.example/etcd:v3.6.16');
    assert.equal(image({ input, spec: { image: { repository: 'own.example/etcd' } } }), 'own.example/etcd:v3.6.16');
  });

  test('probes ask /livez and /readyz where etcd has them, and below 3.5.11 a health check that alarms do not fail', () => {
    const paths = (version: string): (string | undefined)[] => {
      const container = pod(compose(request('Members', { spec: { version } }))).containers[0];
      return [container?.startupProbe, container?.livenessProbe, container?.readinessProbe].map(
        (each) => each?.httpGet?.path,
      );
    };
    for (const version of ['3.5.11', '3.6.0', '3.10.0', '4.0.0']) {
      assert.deepEqual(paths(version), ['/livez', '/livez', '/readyz'], version);
    }
    const old = '/health?serializable=true&exclude=NOSPACE&exclude=CORRUPT';
    for (const version of ['3.5.10', '3.4.30']) assert.deepEqual(paths(version), [old, old, old], version);
  });

  test('a memory volume is counted into the memory limit, and Guaranteed stays Guaranteed', () => {
    const storage = { medium: 'Memory', size: '512Mi' };
    const resources = (asked: object | undefined) =>
      pod(compose(request('Members', { spec: { storage, ...(asked === undefined ? {} : { resources: asked }) } })))
        .containers[0]?.resources;
    assert.deepEqual(resources(undefined), { requests: { cpu: '100m', memory: '128Mi' } });
    assert.deepEqual(resources({ limits: { memory: '1Gi' } }), { limits: { memory: '1536Mi' } });
    assert.deepEqual(resources({ limits: { memory: '1Gi' }, requests: { memory: '256Mi' } }), {
      limits: { memory: '1536Mi' },
      requests: { memory: '256Mi' },
    });
    assert.deepEqual(resources({ limits: { memory: '1Gi' }, requests: { memory: '1024Mi' } }), {
      limits: { memory: '1536Mi' },
      requests: { memory: '1536Mi' },
    });
    assert.deepEqual(resources({ limits: { memory: 'plenty' } }), { limits: { memory: 'plenty' } });
  });

  test('spreading is by default and soft, and gives way to whatever the user says of the same kind', () => {
    const affinity = { nodeAffinity: {} };
    const one = pod(compose(request('Members', { spec: { affinity } })));
    assert.deepEqual(one.affinity, affinity);
    assert.equal(one.topologySpreadConstraints?.[0]?.whenUnsatisfiable, 'ScheduleAnyway');
    const other = pod(compose(request('Members', { spec: { topologySpreadConstraints: [] } })));
    assert.deepEqual(other.topologySpreadConstraints, []);
    assert.ok(other.affinity?.podAntiAffinity?.preferredDuringSchedulingIgnoredDuringExecution);
    assert.equal(other.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution, undefined);
  });

  test('what the user adds to metadata never takes the place of what the operator relies on', () => {
    const additionalMetadata = {
      labels: {
        'app.kubernetes.io/name': 'other',
        'etcd-operator.cozystack.io/role': 'voter',
        'x.etcd-operator.cozystack.io/y': '1',
        ok: '1',
      },
      annotations: { 'etcd-operator.cozystack.io/config': 'evil', note: 'x' },
    };
    const member = resource<EtcdMember>(compose(request('Members', { spec: { additionalMetadata } })), 'member-0');
    for (const metadata of [
      member.metadata,
      member.spec.template.metadata,
      member.spec.volumeClaimTemplate?.metadata,
    ]) {
      assert.deepEqual(metadata?.labels, {
        ok: '1',
        'app.kubernetes.io/name': 'etcd',
        'app.kubernetes.io/instance': 'demo',
        'app.kubernetes.io/managed-by': 'etcd-operator',
        'etcd-operator.cozystack.io/cluster': 'demo',
        'etcd-operator.cozystack.io/member': 'demo-0',
      });
      assert.deepEqual(metadata.annotations, { note: 'x' });
    }
  });

  test("nothing of the claim's own metadata is copied, because a GitOps tool would prune what carries its mark", () => {
    const metadata = {
      labels: { 'argocd.argoproj.io/instance': 'mark' },
      annotations: { 'argocd.argoproj.io/tracking-id': 'mark' },
    };
    for (const step of stepNames) {
      assert.doesNotMatch(JSON.stringify(compose(request(step, { metadata }))), /argocd/);
    }
  });

  test('slots render alike but for their names, because a rollout compares rendered templates', () => {
    const response = compose(request('Members', { spec: { replicas: 9 } }));
    const specs = memberKeys(response).map((key) => {
      const member = resource<EtcdMember>(response, key);
      return JSON.stringify(member.spec).replaceAll(`"${member.metadata.name}"`, '""');
    });
    assert.equal(specs.length, 9);
    assert.equal(new Set(specs).size, 1);
  });
});

describe('status', () => {
  const CONDITIONS = ['Available', 'Progressing', 'Degraded', 'Stalled'];

  test('every own condition is returned on every call, since one that is not stays as it was', () => {
    for (const world of [{}, settled, { observed: { quorum: quorumWith({}) } }, { observed: { quorum: {} } }]) {
      const response = compose(request('Status', world));
      assert.deepEqual(
        response.conditions?.map(({ type }) => type),
        ['Accepted', ...CONDITIONS],
      );
    }
  });

  test('before the runtime has spoken the claim says whom to look at, and is not ready', () => {
    const response = compose(request('Status'));
    assert.equal(response.desired?.composite?.ready, 'False');
    assert.deepEqual(
      CONDITIONS.map((type) => conditionOf(response, type)?.status),
      ['False', 'True', 'False', 'False'],
    );
    assert.match(conditionOf(response, 'Available')?.message?.slice(-64) ?? '', /runtime Deployment/);
  });

  test("the runtime's words reach the claim unchanged", () => {
    const quorum = quorumWith({
      Ready: 'False',
      Available: 'False',
      Progressing: 'True',
      Degraded: 'True',
      Stalled: 'True',
    });
    const response = compose(request('Status', { observed: { quorum } }));
    assert.deepEqual(response.conditions, [
      { type: 'Accepted', status: 'True', reason: 'Accepted' },
      { type: 'Available', status: 'False', reason: 'Settled', message: 'x' },
      { type: 'Progressing', status: 'True', reason: 'Settled', message: 'x' },
      { type: 'Degraded', status: 'True', reason: 'Settled', message: 'x' },
      { type: 'Stalled', status: 'True', reason: 'Settled', message: 'x' },
    ]);
  });

  test('a consent that fits no loss is refused in words, and one that was carried out may stay in Git for ever', () => {
    const acceptedWith = (clusterID: string, status: object): string => {
      const world = {
        observed: { ...settled.observed, quorum: quorumWith(SETTLED, { status }) },
        spec: { recovery: { survivor: 'demo-2', clusterID, acceptDataLoss: true } },
      };
      const { status: value, message } = conditionOf(compose(request('Status', world)), 'Accepted') ?? {};
      return `${value} ${message ?? ''}`;
    };
    const running = { phase: 'Running', clusterID: 'c2' };
    assert.match(acceptedWith('c2', running), /^False .*it has its quorum: nothing is done; remove spec.recovery/);
    assert.match(acceptedWith('c9', running), /^False .*names cluster c9, which this is not and has not been/);
    const recovered = [{ lostClusterID: 'c1', clusterID: 'c2' }];
    assert.equal(acceptedWith('c1', { ...running, recovered }), 'True ');
    assert.equal(acceptedWith('c2', { phase: 'QuorumLost', clusterID: 'c2' }), 'True ', 'there the runtime answers');
    const members = compose(
      request('Members', {
        ...settled,
        spec: { recovery: { survivor: 'demo-2', clusterID: 'c2', acceptDataLoss: true } },
      }),
    );
    assert.deepEqual(record(record(members.desired?.resources?.quorum?.resource).spec).recovery, {
      survivor: 'demo-2',
      clusterID: 'c2',
      acceptDataLoss: true,
    });
  });

  test('the claim tells what the last recovery went on from and what it lost, since events are gone in an hour', () => {
    const recovered = [
      { lostClusterID: 'c0', clusterID: 'c1', lost: { message: 'the first' } },
      { lostClusterID: 'c1', clusterID: 'c2', lost: { message: 'the last' } },
    ];
    const status = { phase: 'Running', clusterID: 'c2', recovered };
    const world = { observed: { ...settled.observed, quorum: quorumWith(SETTLED, { status }) } };
    assert.equal(statusOf(compose(request('Status', world))).lastRecovery, 'the last');
  });

  test('a version that cannot follow the one that runs is refused: members stay as accepted last, and the claim says what to set', () => {
    const world = { ...settled, spec: { version: '3.8.0' } };
    const members = compose(request('Members', world)).desired?.resources ?? {};
    const versions = Object.entries(members).map(([, { resource }]) => record(record(resource).spec).version);
    assert.deepEqual([...new Set(versions)], ['3.6.16']);
    const response = compose(request('Status', world));
    assert.equal(conditionOf(response, 'Accepted')?.status, 'False');
    assert.equal(conditionOf(response, 'Accepted')?.reason, 'UpgradeRefused');
    assert.match(conditionOf(response, 'Accepted')?.message ?? '', /one at a time; set version to 3\.7\.x first/);
    assert.equal(conditionOf(response, 'Stalled')?.status, 'True');
  });

  test('members are rendered for a lower minor only once etcd has written their data back for it', () => {
    const rendered = (status: object): string => {
      const world = {
        observed: { ...settled.observed, quorum: quorumWith(SETTLED, { status }) },
        spec: { version: '3.5.35' },
      };
      const resources = compose(request('Members', world)).desired?.resources ?? {};
      return Object.entries(resources)
        .map(([key, { resource }]) => `${key} ${String(record(record(resource).spec).version)}`)
        .filter((line) => line.startsWith('quorum') || line.startsWith('member-0'))
        .toSorted()
        .join(', ');
    };
    assert.equal(rendered({}), 'member-0 3.6.16, quorum 3.5.35');
    assert.equal(rendered({ downgradableTo: '3.5' }), 'member-0 3.5.35, quorum 3.5.35');
    assert.equal(rendered({ downgradableTo: '3.4' }), 'member-0 3.6.16, quorum 3.5.35');
    // Half-way up or down: one that runs it could start with it.
    assert.equal(rendered({ version: '3.5.35-3.6.16' }), 'member-0 3.5.35, quorum 3.5.35');
  });

  test('a change of the claim shows as progressing in the very call that carries it out, so that nobody who waits is told too soon', () => {
    const response = compose(
      request('Status', { ...settled, spec: { replicas: 5 }, status: { observedGeneration: 3 } }),
    );
    assert.equal(conditionOf(response, 'Progressing')?.status, 'True');
    assert.equal(statusOf(response).observedGeneration, 3);
    assert.equal(statusOf(compose(request('Status', settled))).observedGeneration, 4);
  });

  test('conditions follow one call after the fields, since Crossplane takes back what a stale reconcile writes', () => {
    const observed = { quorum: quorumWith(SETTLED, { status: { readyMembers: 3, members: '3/3' } }) };
    const present = [
      { type: 'Available', status: 'True', reason: 'QuorumAvailable', message: 'old' },
      { type: 'Ready', status: 'False', reason: 'Creating', message: '' },
    ];
    const before = { conditions: present, readyMembers: 2 };
    const first = compose(request('Status', { observed, status: before }));
    assert.equal(statusOf(first).readyMembers, 3);
    assert.equal(first.conditions?.find(({ type }) => type === 'Available')?.message, 'old');
    assert.equal(first.desired?.composite?.ready, 'False');
    assert.equal(first.ttlSeconds, 5, 'the event of the write may be dropped');

    const second = compose(request('Status', { observed, status: { ...before, ...statusOf(first) } }));
    assert.deepEqual(statusOf(second), statusOf(first));
    assert.equal(second.conditions?.find(({ type }) => type === 'Available')?.message, 'x');
    assert.equal(second.desired?.composite?.ready, 'True');
  });

  test('a cluster is not ready in the call that changes it', () => {
    const observed = { quorum: quorumWith(SETTLED) };
    const { desired } = compose(request('Status', { observed, spec: { replicas: 5 } }));
    assert.equal(desired?.composite?.ready, 'False');
  });

  test('who asks for a pass by annotation reads in the status that it was made', () => {
    const asking = (token: string): World => ({
      metadata: { annotations: { 'crossplane.io/reconcile-requested-at': token } },
    });
    assert.equal(statusOf(compose(request('Status', asking('a')))).lastHandledReconcileAt, 'a');
    assert.equal(statusOf(compose(request('Status', { ...asking('b'), ...settled }))).lastHandledReconcileAt, 'b');
    assert.equal('lastHandledReconcileAt' in statusOf(compose(request('Status'))), false);
  });

  test('the cluster ID once known is never forgotten, because the claim is one of its four places', () => {
    const status = { clusterID: 'ef37ad9dc622a7c4', readyMembers: 3, members: '3/3', phase: 'Running' };
    const empty = { apiVersion: API_VERSION, kind: 'EtcdQuorum', metadata: { name: 'demo' }, spec: {} };
    for (const observed of [
      {},
      { quorum: empty },
      { quorum: quorumWith(SETTLED, { status: { clusterID: undefined } }) },
    ]) {
      const response = compose(request('Status', { status, observed }));
      assert.equal(statusOf(response).clusterID, 'ef37ad9dc622a7c4');
    }
    const lost = compose(request('Status', { status, observed: { quorum: empty } }));
    assert.equal(statusOf(lost).readyMembers, 3);
    assert.equal(conditionOf(lost, 'Available')?.status, 'Unknown');
    const recovered = quorumWith(SETTLED, { status: { clusterID: '1234567890abcdef' } });
    assert.equal(
      statusOf(compose(request('Status', { status, observed: { quorum: recovered } }))).clusterID,
      '1234567890abcdef',
    );
  });
});

describe('for any input', () => {
  const phases = [
    undefined,
    'Pending',
    'Provisioning',
    'Learner',
    'Voter',
    'Leaving',
    'Removed',
    'Failed',
    'Paused',
  ] as const;
  const slot = fc.record({
    ordinal: fc.nat(12),
    phase: fc.constantFrom(...phases),
    observed: fc.boolean(),
    deleting: fc.boolean(),
  });
  const world = fc.record({
    replicas: fc.nat(9),
    slots: fc.uniqueArray(slot, { selector: ({ ordinal }) => ordinal, maxLength: 9 }),
    settled: fc.boolean(),
  });

  test('no member key disappears unless that member is Removed, and there are never fewer than replicas', () => {
    fc.assert(
      fc.property(world, ({ replicas, slots, settled: isSettled }) => {
        const objects = slots.map(({ ordinal, phase, deleting }) =>
          existing(ordinal, phase, deleting ? { metadata: { deletionTimestamp: 'now' } } : {}),
        );
        const observed: Record<string, object> = isSettled ? { quorum: quorumWith(SETTLED) } : {};
        for (const [index, { ordinal, observed: seen }] of slots.entries()) {
          if (seen) observed[`member-${ordinal}`] = objects[index] ?? {};
        }
        const response = compose(request('Members', { spec: { replicas }, observed, required: objects }));
        const wanted = memberKeys(response);
        for (const { ordinal, phase } of slots) {
          if (phase !== 'Removed') assert.ok(wanted.includes(`member-${ordinal}`), `member-${ordinal} was ${phase}`);
        }
        const kept = slots.filter(({ phase }) => phase !== 'Removed').length;
        assert.equal(wanted.length, Math.max(replicas, kept));
        for (const key of wanted) {
          const of = slots.find(({ ordinal }) => key === `member-${ordinal}`);
          const isReady = response.desired?.resources?.[key]?.ready === 'True';
          if (isReady) assert.ok(of?.phase === 'Voter' && !of.deleting && of.observed);
        }
      }),
      { numRuns: 1000 },
    );
  });

  const shuffled = (value: unknown, seed: number): unknown => {
    if (Array.isArray(value)) return value.map((each) => shuffled(each, seed));
    if (typeof value !== 'object' || value === null || value instanceof Uint8Array) return value;
    const entries = Object.entries(value).map(([key, each], index): [number, string, unknown] => [
      (Math.imul(index + 1, seed | 1) >>> 0) % 97,
      key,
      shuffled(each, seed),
    ]);
    return Object.fromEntries(entries.sort(([a], [b]) => a - b).map(([, key, each]) => [key, each]));
  };

  test('the same request gives the same bytes, in whatever order its maps and lists of objects arrive', () => {
    const required = [existing(3, 'Voter'), existing(1, 'Voter'), existing(4, 'Removed')];
    const full: World = {
      ...settled,
      required,
      spec: { additionalMetadata: { labels: { b: '1', a: '2' } }, nodeSelector: { z: '1', y: '2' }, replicas: 4 },
      desired: { resources: { b: { resource: { x: 1, a: 2 } }, a: {} } },
    };
    for (const step of stepNames) {
      const bytes = encodeResponse(compose(request(step, full)));
      fc.assert(
        fc.property(fc.integer(), fc.shuffledSubarray(required, { minLength: 3 }), (seed, order) => {
          const other = shuffled(request(step, { ...full, required: order }), seed) as RunFunctionRequest;
          assert.deepEqual(encodeResponse(compose(other)), bytes);
        }),
      );
    }
  });

  test('hostile values are rendered or refused, never thrown at the server', () => {
    const junk = fc.oneof(
      fc.anything({ maxDepth: 3 }),
      fc.string({ minLength: 300, maxLength: 5000 }),
      fc.constant('__proto__'),
    );
    const spec = fc.record(
      Object.fromEntries(
        [
          'replicas',
          'storage',
          'resources',
          'affinity',
          'topologySpreadConstraints',
          'additionalMetadata',
          'options',
          'image',
          'tls',
          'auth',
        ].map((field) => [field, junk]),
      ),
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(
        fc.constantFrom(...stepNames),
        spec,
        fc.dictionary(fc.string(), junk),
        junk,
        (step, claim, labels, other) => {
          const hostile = request(step, {
            spec: { ...claim, ...(typeof other === 'string' ? { additionalMetadata: { labels } } : {}) },
            metadata: { name: typeof other === 'string' ? other : 'demo' },
            status: { conditions: other },
            observed: { quorum: { status: other, metadata: other }, 'member-0': { status: other, spec: other } },
            required: [
              { metadata: other },
              { metadata: { name: 'demo-5' }, spec: { clusterName: 'demo' }, status: other },
            ],
          });
          const response = compose(hostile);
          encodeResponse(response);
        },
      ),
      { numRuns: 2000 },
    );
  });
});

describe('the contract with the API', async () => {
  type Schema = {
    properties?: Record<string, Schema>;
    items?: Schema;
    additionalProperties?: Schema;
    'x-kubernetes-preserve-unknown-fields'?: boolean;
  };
  const schemaOf = async (file: string): Promise<Schema> => {
    const object = parse(await readFile(join(root, file), 'utf8')) as {
      spec: { versions: { schema: { openAPIV3Schema: Schema } }[] };
    };
    return object.spec.versions[0]?.schema.openAPIV3Schema ?? {};
  };
  const undeclared = (value: unknown, schema: Schema | undefined, path: string): string[] => {
    if (schema?.['x-kubernetes-preserve-unknown-fields'] === true) return [];
    if (Array.isArray(value)) return value.flatMap((each) => undeclared(each, schema?.items, `${path}[]`));
    if (typeof value !== 'object' || value === null) return [];
    return Object.entries(value).flatMap(([key, each]) => {
      const declared = schema?.properties?.[key] ?? schema?.additionalProperties;
      return declared === undefined ? [`${path}.${key}`] : undeclared(each, declared, `${path}.${key}`);
    });
  };
  const xrd = await schemaOf('xrds/etcdcluster.yaml');
  const quorumCrd = await schemaOf('runtime/crds/etcdquorum.yaml');
  const memberCrd = await schemaOf('runtime/crds/etcdmember.yaml');

  test('the status has no field that the XRD lacks, because one such field freezes every condition', () => {
    const full = quorumWith(SETTLED, {
      status: {
        ...Object.fromEntries(
          Object.keys(quorumCrd.properties?.status?.properties ?? {}).map((field) => [field, field]),
        ),
        voters: ['demo-0'],
        learners: ['demo-1'],
        conditions: [],
      },
    });
    const earlier = Object.fromEntries(
      Object.keys(xrd.properties?.status?.properties ?? {}).map((field) => [field, field]),
    );
    for (const world of [{}, settled, { observed: { quorum: full } }, { status: { ...earlier, clusterID: 'x' } }]) {
      const status = statusOf(compose(request('Status', world)));
      assert.deepEqual(undeclared(status, xrd.properties?.status, 'status'), []);
    }
  });

  test('what is rendered has no field that its CRD lacks, because the API server would prune it and nothing would match', () => {
    const spec = {
      additionalMetadata: { labels: { a: '1' }, annotations: { b: '2' } },
      progressDeadlineSeconds: 60,
      options: {
        quotaBackendBytes: 1,
        autoCompactionMode: 'periodic',
        autoCompactionRetention: '1h',
        snapshotCount: 1,
      },
      storage: { size: '1Gi', storageClassName: '', retention: 'Retain' },
    } satisfies Partial<EtcdClusterSpec>;
    const response = compose(request('Members', { spec }));
    const { spec: member } = resource<EtcdMember>(response, 'member-0');
    assert.deepEqual(undeclared(member, memberCrd.properties?.spec, 'spec'), []);
    const quorum = resource<{ spec: object }>(response, 'quorum');
    assert.deepEqual(undeclared(quorum.spec, quorumCrd.properties?.spec, 'spec'), []);
  });

  test('the Composition names the steps of this package and is the one that the XRD chooses by default', async () => {
    const composition = parse(await readFile(join(root, 'compositions/etcdcluster.yaml'), 'utf8'));
    const definition = parse(await readFile(join(root, 'xrds/etcdcluster.yaml'), 'utf8'));
    assert.equal(composition.metadata.name, definition.spec.defaultCompositionRef.name);
    for (const { input, functionRef } of composition.spec.pipeline) {
      assert.equal(functionRef.name, 'function-etcd');
      assert.equal(input.apiVersion, INPUT_API_VERSION);
      assert.ok(stepNames.includes(input.kind), input.kind);
    }
  });
});

test('steps import nothing of the world: no module of Node, no package, nothing of the server', async () => {
  const seen = new Set<string>();
  const visit = async (file: string): Promise<void> => {
    if (seen.has(file)) return;
    seen.add(file);
    const where = relative(root, file);
    assert.match(where, /^(api|functions\/(?!server\/))/, `${where} is not for steps`);
    const text = await readFile(file, 'utf8');
    for (const [, type, from = ''] of text.matchAll(/^import (type )?[^;]*?from '([^']+)';$/gms)) {
      if (from.startsWith('.')) await visit(join(dirname(file), from));
      else assert.ok(type !== undefined, `${where} imports ${from}`);
    }
    for (const word of ['Date.now', 'new Date', 'Math.random', 'process.', 'console.', 'performance.', 'crypto.']) {
      assert.ok(!text.includes(word), `${where} uses ${word}`);
    }
  };
  await visit(join(root, 'functions/steps.ts'));
  assert.ok(seen.size > 10, `only ${seen.size} files were read`);
});
