/**
 * What a real API server accepts, fills in and refuses, with the CRD that Crossplane really makes of the XRD. Rules that
 * are only read in the YAML prove nothing: Crossplane drops parts of a schema, and the API server counts the cost of rules.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { type Answer, type ApiServer, startApiServer } from './apiserver.ts';
import { definitions } from './definitions.ts';
import { tlsAcceptances, tlsChanges, tlsFrozen, tlsRefusals } from './tls-claims.ts';

const root = join(import.meta.dirname, '../..');
const API = '/apis/etcd-operator.cozystack.io/v1alpha2/namespaces/default';
const clusters = `${API}/etcdclusters`;

type Spec = Record<string, unknown>;

let server: ApiServer;
let numbered = 0;

const cluster = (spec: Spec, name = `c${++numbered}`): { metadata: { name: string }; spec: Spec } & Spec => ({
  apiVersion: 'etcd-operator.cozystack.io/v1alpha2',
  kind: 'EtcdCluster',
  metadata: { name },
  spec: { version: '3.6.16', ...spec },
});

const create = (spec: Spec, name?: string): Promise<Answer> =>
  server.request('POST', `${clusters}?fieldValidation=Strict`, cluster(spec, name));

/** Creates an object, then replaces its spec the way `kubectl apply` and Argo CD do, keeping nothing of the old one. */
const change = async (from: Spec, to: Spec): Promise<Answer> => {
  const created = await create(from);
  assert.equal(created.code, 201, created.body.message);
  const wanted = cluster(to, created.body.metadata.name);
  return server.request('PUT', `${clusters}/${wanted.metadata.name}`, {
    ...wanted,
    metadata: { ...wanted.metadata, resourceVersion: created.body.metadata.resourceVersion },
  });
};

const refused = (answer: Answer, field: string, words: string): void => {
  assert.equal(answer.code, 422, `expected a refusal, got ${answer.code} ${answer.body.message ?? ''}`);
  const causes: { field: string; message: string }[] = answer.body.details.causes;
  const found = causes.some((cause) => cause.field === field && cause.message.includes(words));
  assert.ok(found, `no cause on ${field} says "${words}":\n${JSON.stringify(causes, null, 2)}`);
};

const accepted = (answer: Answer): void => assert.ok(answer.code === 200 || answer.code === 201, answer.body.message);

before(async () => {
  server = await startApiServer();
  await server.define(...(await definitions(root)));
});

after(async () => {
  await server[Symbol.asyncDispose]();
});

describe('defaults', () => {
  it('makes three members on volumes of 1Gi from a version alone, since the smallest claim is what most people write', async () => {
    const answer = await create({});
    accepted(answer);
    assert.deepEqual(answer.body.spec, {
      version: '3.6.16',
      replicas: 3,
      storage: { size: '1Gi', medium: '', retention: 'Delete' },
      progressDeadlineSeconds: 600,
    });
  });

  const storages: [Spec, Spec][] = [
    [{}, { size: '1Gi', medium: '', retention: 'Delete' }],
    [{ size: '5Gi' }, { size: '5Gi', medium: '', retention: 'Delete' }],
    [{ medium: 'Memory' }, { size: '1Gi', medium: 'Memory', retention: 'Delete' }],
    [{ retention: 'Retain' }, { size: '1Gi', medium: '', retention: 'Retain' }],
    [{ storageClassName: '' }, { size: '1Gi', medium: '', retention: 'Delete', storageClassName: '' }],
  ];
  for (const [written, stored] of storages) {
    it(`fills in storage ${JSON.stringify(written)} field by field, since a part of it may be given alone`, async () => {
      const answer = await create({ storage: written });
      accepted(answer);
      assert.deepEqual(answer.body.spec.storage, stored);
    });
  }

  it('keeps an explicit null out of defaulted fields, since templates render absent values so', async () => {
    const answer = await create({ replicas: null, storage: null, progressDeadlineSeconds: null });
    accepted(answer);
    assert.equal(answer.body.spec.replicas, 3);
    assert.equal(answer.body.spec.storage.size, '1Gi');
    assert.equal(answer.body.spec.progressDeadlineSeconds, 600);
  });
});

describe('names', () => {
  const names: [string, string, string, string][] = [
    ['begins with a digit', '3-etcd', 'metadata.name', 'must begin with a letter'],
    ['holds a dot', 'etcd.prod', 'metadata.name', 'must begin with a letter'],
    ['is longer than 45 characters', 'e'.repeat(46), 'metadata.name', 'may not be more than 45'],
  ];
  for (const [what, name, field, words] of names) {
    it(`refuses a name that ${what}, since Services, Pods and labels are named after it`, async () => {
      const answer = await create({}, name);
      assert.equal(answer.code, 422);
      assert.ok(answer.body.message.includes(words), answer.body.message);
      assert.ok(
        answer.body.details.causes.some((cause: { field: string }) => ['<nil>', field].includes(cause.field)),
        JSON.stringify(answer.body.details.causes),
      );
    });
  }
  for (const name of ['e', 'e'.repeat(45), 'kamaji-etcd-0']) {
    it(`accepts the name ${name}, whose derived names are all valid labels`, async () =>
      accepted(await create({}, name)));
  }
});

/** One cause each: the sentence, the spec, the field that is named, words of the message. */
const consent = { survivor: 'demo-2', clusterID: '9b42538', acceptDataLoss: true };
const refusals: [string, Spec, string, string][] = [
  [
    'a recovery without consent to the loss',
    { recovery: { ...consent, acceptDataLoss: false } },
    'spec.recovery.acceptDataLoss',
    'must be true, since the last acknowledged writes may be lost',
  ],
  [
    'a recovery that does not say which cluster is given up',
    { recovery: { survivor: 'demo-2', acceptDataLoss: true } },
    'spec.recovery.clusterID',
    'Required value',
  ],
  [
    'a recovery from a Pod instead of a member',
    { recovery: { ...consent, survivor: 'demo-2-xk2p9' } },
    'spec.recovery.survivor',
    'must be the name of an EtcdMember',
  ],
  [
    'a recovery that does not say from what',
    { recovery: { clusterID: '9b42538', acceptDataLoss: true } },
    'spec.recovery',
    'exactly one of survivor, snapshot and source',
  ],
  [
    'a recovery from a member and from a snapshot',
    { recovery: { ...consent, snapshot: 'nightly' } },
    'spec.recovery',
    'exactly one of survivor, snapshot and source',
  ],
  [
    'a recovery from a place that is none',
    { recovery: { source: {}, clusterID: '9b42538', acceptDataLoss: true } },
    'spec.recovery.source',
    'exactly one of s3 and pvc',
  ],
  [
    'a cluster ID that is no hexadecimal number',
    { recovery: { ...consent, clusterID: '0x9B42' } },
    'spec.recovery.clusterID',
    'lower-case hex',
  ],
  ['fewer members than none', { replicas: -1 }, 'spec.replicas', 'must be 0 to 9'],
  ['more members than writes can wait for', { replicas: 10 }, 'spec.replicas', 'use 3, 5 or 7'],
  ['members in words', { replicas: 'three' }, 'spec.replicas', 'must be of type integer'],
  ['a version with a v', { version: 'v3.6.16' }, 'spec.version', 'without a leading v'],
  ['a version of two numbers', { version: '3.6' }, 'spec.version', 'three numbers such as 3.6.16'],
  ['a pre-release', { version: '3.6.0-rc.1' }, 'spec.version', 'without a suffix'],
  ['no version', { version: null }, 'spec.version', 'Required value'],
  [
    'a paused cluster in memory, whose data is gone',
    { replicas: 0, storage: { medium: 'Memory' } },
    'spec.replicas',
    'replicas=0 with spec.storage.medium=Memory',
  ],
  [
    'memory of size "0"',
    { storage: { medium: 'Memory', size: '0' } },
    'spec.storage.size',
    'spec.storage.size must be > 0',
  ],
  [
    'memory of size 0 as a number',
    { storage: { medium: 'Memory', size: 0 } },
    'spec.storage.size',
    'spec.storage.size must be > 0',
  ],
  [
    'memory of size 0 in another form',
    { storage: { medium: 'Memory', size: '0Mi' } },
    'spec.storage.size',
    'spec.storage.size must be > 0',
  ],
  [
    'a volume of size 0, which no provisioner makes',
    { storage: { size: 0 } },
    'spec.storage.size',
    'spec.storage.size must be > 0',
  ],
  ['a negative size', { storage: { size: -5 } }, 'spec.storage.size', 'spec.storage.size must be > 0'],
  ['a size that is no quantity', { storage: { size: '1 GB' } }, 'spec.storage.size', 'should match'],
  [
    'a medium that does not exist',
    { storage: { medium: 'Disk' } },
    'spec.storage.medium',
    'supported values: "", "Memory"',
  ],
  [
    'a retention that does not exist',
    { storage: { retention: 'Keep' } },
    'spec.storage.retention',
    'supported values: "Delete", "Retain"',
  ],
  ['a deadline of 0', { progressDeadlineSeconds: 0 }, 'spec.progressDeadlineSeconds', 'greater than or equal to 1'],
  [
    'a request above its limit',
    { resources: { requests: { memory: '2Gi' }, limits: { memory: '1Gi' } } },
    'spec.resources',
    'lower the request or raise the limit',
  ],
  [
    'a request above its limit, as numbers',
    { resources: { requests: { cpu: 2 }, limits: { cpu: '500m' } } },
    'spec.resources',
    'lower the request or raise the limit',
  ],
  [
    'a resource that is no quantity',
    { resources: { limits: { memory: 'much' } } },
    'spec.resources.limits.memory',
    'should match',
  ],
  [
    'a negative resource',
    { resources: { limits: { cpu: -1 } } },
    'spec.resources.limits.cpu',
    'greater than or equal to 0',
  ],
  [
    'a negative quota',
    { options: { quotaBackendBytes: -1 } },
    'spec.options.quotaBackendBytes',
    'greater than or equal to 0',
  ],
  [
    'a compaction mode that does not exist',
    { options: { autoCompactionMode: 'daily' } },
    'spec.options.autoCompactionMode',
    'supported values: "periodic", "revision"',
  ],
  [
    'a retention in words',
    { options: { autoCompactionRetention: 'one hour' } },
    'spec.options.autoCompactionRetention',
    'write 30m or 1h30m',
  ],
  [
    'a retention in days, which Go does not know',
    { options: { autoCompactionRetention: '1d' } },
    'spec.options.autoCompactionRetention',
    'write 30m or 1h30m',
  ],
  [
    'an empty retention',
    { options: { autoCompactionRetention: '' } },
    'spec.options.autoCompactionRetention',
    'write 30m or 1h30m',
  ],
  [
    'a duration where revisions are counted',
    { options: { autoCompactionMode: 'revision', autoCompactionRetention: '1h' } },
    'spec.options.autoCompactionRetention',
    'bare number of revisions',
  ],
  [
    'a snapshot count of 0',
    { options: { snapshotCount: 0 } },
    'spec.options.snapshotCount',
    'greater than or equal to 1',
  ],
  [
    'an image with a tag',
    { image: { repository: 'quay.io/coreos/etcd:v3.6.16' } },
    'spec.image.repository',
    'without tag or digest',
  ],
  [
    'an image with a digest',
    { image: { repository: `quay.io/coreos/etcd@sha256:${'0'.repeat(64)}` } },
    'spec.image.repository',
    'without tag or digest',
  ],
  ['an empty image', { image: { repository: '' } }, 'spec.image.repository', 'without tag or digest'],
  ['a pull secret without a name', { imagePullSecrets: [{}] }, 'spec.imagePullSecrets[0].name', 'Required value'],
  [
    'a label value with a blank',
    { additionalMetadata: { labels: { team: 'data base' } } },
    'spec.additionalMetadata.labels.team',
    'should match',
  ],
  [
    'a label key with a blank',
    { additionalMetadata: { labels: { 'my team': 'db' } } },
    'spec.additionalMetadata.labels',
    'not a label name',
  ],
  [
    'an annotation key with a blank',
    { additionalMetadata: { annotations: { 'my note': 'x' } } },
    'spec.additionalMetadata.annotations',
    'not an annotation name',
  ],
  ['a node label that cannot be', { nodeSelector: { 'disk type': 'ssd' } }, 'spec.nodeSelector', 'not a label name'],
  [
    'a spread without a key',
    { topologySpreadConstraints: [{ maxSkew: 1, whenUnsatisfiable: 'DoNotSchedule' }] },
    'spec.topologySpreadConstraints[0].topologyKey',
    'Required value',
  ],
  [
    'a spread that may not differ at all',
    { topologySpreadConstraints: [{ maxSkew: 0, topologyKey: 'zone', whenUnsatisfiable: 'DoNotSchedule' }] },
    'spec.topologySpreadConstraints[0].maxSkew',
    'greater than or equal to 1',
  ],
  [
    'a toleration of an effect that does not exist',
    { tolerations: [{ key: 'a', effect: 'NoRun' }] },
    'spec.tolerations[0].effect',
    'supported values',
  ],
  [
    'a weight above 100',
    {
      affinity: {
        nodeAffinity: { preferredDuringSchedulingIgnoredDuringExecution: [{ weight: 101, preference: {} }] },
      },
    },
    'spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight',
    'less than or equal to 100',
  ],
  [
    'an operator that does not exist',
    {
      affinity: {
        podAntiAffinity: {
          requiredDuringSchedulingIgnoredDuringExecution: [
            { topologyKey: 'z', labelSelector: { matchExpressions: [{ key: 'a', operator: 'Is' }] } },
          ],
        },
      },
    },
    'spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector.matchExpressions[0].operator',
    'supported values',
  ],
];

describe('refusals at creation', () => {
  for (const size of ['', ' 1Gi', '1gi', '1KB', '-1Gi', '1e', '1e100', '0x10', 'NaN', '1.2.3', '.', 'i']) {
    it(`refuses the size ${JSON.stringify(size)} by its form, since no later reader would make sense of it`, async () =>
      refused(await create({ storage: { size } }), 'spec.storage.size', 'should match'));
  }

  for (const [what, spec, field, words] of [...refusals, ...tlsRefusals]) {
    it(`refuses ${what}, naming the field and the remedy`, async () => refused(await create(spec), field, words));
  }

  for (const spec of [
    { tls: { client: { serverSecretRef: { name: 'a', namespace: 'b' } } } },
    { bootstrap: { clone: {} } },
    { podTemplate: {} },
    { storage: { sizes: '1Gi' } },
  ]) {
    it(`refuses ${JSON.stringify(spec)}, since a field that does nothing yet must not be taken silently`, async () => {
      const answer = await create(spec);
      assert.equal(answer.code, 400, answer.body.message);
      assert.match(answer.body.message, /unknown field "spec\./);
    });
  }
});

const term = { topologyKey: 'kubernetes.io/hostname', labelSelector: { matchLabels: { app: 'etcd' } } };
const acceptances: [string, Spec][] = [
  ['a paused cluster on volumes', { replicas: 0 }],
  ['nine members', { replicas: 9 }],
  ['an even number of members', { replicas: 4 }],
  ['a size as a plain number of bytes', { storage: { size: 1073741824 } }],
  ['a size in exponent form', { storage: { size: '1e9' } }],
  ['a size with a plus sign', { storage: { size: '+1Gi' } }],
  ['a size without leading zero', { storage: { size: '.5Gi' } }],
  ['the largest of units', { storage: { size: '1E' } }],
  ['a fraction of a size', { storage: { size: '1.5Gi' } }],
  ['durations in every unit of Go', { options: { autoCompactionRetention: '1h2m3.5s4ms5us6µs7ns' } }],
  ['a retention in bare hours', { options: { autoCompactionMode: 'periodic', autoCompactionRetention: '8' } }],
  ['a retention in revisions', { options: { autoCompactionMode: 'revision', autoCompactionRetention: '1000' } }],
  [
    'every option at once',
    {
      options: {
        quotaBackendBytes: 8589934592,
        autoCompactionMode: 'periodic',
        autoCompactionRetention: '30m',
        snapshotCount: 10000,
      },
    },
  ],
  ['a registry with a port', { image: { repository: '10.0.0.1:5000/mirror/etcd' } }],
  ['a plain repository', { image: { repository: 'etcd' } }],
  ['the usual repository', { image: { repository: 'quay.io/coreos/etcd' } }],
  [
    'a request equal to its limit in another form',
    { resources: { requests: { memory: '1024Mi', cpu: '1' }, limits: { memory: '1Gi', cpu: 1 } } },
  ],
  [
    'a request for something without a limit',
    { resources: { requests: { 'ephemeral-storage': '1Gi' }, limits: { cpu: 1 } } },
  ],
  [
    'placement in every form',
    {
      nodeSelector: { 'kubernetes.io/os': 'linux', disk: '' },
      priorityClassName: 'system-cluster-critical',
      tolerations: [
        { operator: 'Exists' },
        { key: 'a', operator: 'Equal', value: 'b', effect: 'NoExecute', tolerationSeconds: 60 },
      ],
      topologySpreadConstraints: [
        {
          maxSkew: 1,
          topologyKey: 'topology.kubernetes.io/zone',
          whenUnsatisfiable: 'ScheduleAnyway',
          nodeAffinityPolicy: 'Honor',
          nodeTaintsPolicy: 'Ignore',
          matchLabelKeys: ['a'],
          labelSelector: { matchLabels: { a: 'b' } },
        },
      ],
      affinity: {
        nodeAffinity: {
          requiredDuringSchedulingIgnoredDuringExecution: {
            nodeSelectorTerms: [
              {
                matchExpressions: [{ key: 'cpu', operator: 'Gt', values: ['4'] }],
                matchFields: [{ key: 'metadata.name', operator: 'NotIn', values: ['a'] }],
              },
            ],
          },
          preferredDuringSchedulingIgnoredDuringExecution: [
            { weight: 100, preference: { matchExpressions: [{ key: 'ssd', operator: 'Exists' }] } },
          ],
        },
        podAffinity: {
          preferredDuringSchedulingIgnoredDuringExecution: [
            {
              weight: 1,
              podAffinityTerm: { ...term, namespaces: ['a'], namespaceSelector: {}, mismatchLabelKeys: ['b'] },
            },
          ],
        },
        podAntiAffinity: { requiredDuringSchedulingIgnoredDuringExecution: [{ ...term, matchLabelKeys: ['a'] }] },
      },
    },
  ],
  [
    'labels, annotations and pull secrets',
    {
      additionalMetadata: { labels: { 'example.org/team': 'db', tier: '' }, annotations: { note: 'any text: {}' } },
      imagePullSecrets: [{ name: 'regcred' }],
    },
  ],
];

describe('what is accepted', () => {
  for (const [what, spec] of [...acceptances, ...tlsAcceptances]) {
    it(`accepts and keeps ${what}`, async () => {
      const answer = await create(spec);
      accepted(answer);
      // Defaults are added beside what was written; nothing of that may be dropped or changed.
      assert.partialDeepStrictEqual(answer.body.spec, spec);
    });
  }
});

/** The sentence, the spec before, the spec after, the field that is named, words of the message. */
const frozen: [string, Spec, Spec, string, string][] = [
  [
    'a smaller size',
    { storage: { size: '2Gi' } },
    { storage: { size: '1Gi' } },
    'spec.storage.size',
    'cannot be shrunk',
  ],
  [
    'a smaller size in another form',
    { storage: { size: '1Gi' } },
    { storage: { size: '1G' } },
    'spec.storage.size',
    'cannot be shrunk',
  ],
  [
    'a smaller size as a number',
    { storage: { size: '1Gi' } },
    { storage: { size: 1000 } },
    'spec.storage.size',
    'cannot be shrunk',
  ],
  [
    'a smaller string after a number',
    { storage: { size: 2147483648 } },
    { storage: { size: '1Gi' } },
    'spec.storage.size',
    'cannot be shrunk',
  ],
  ['the size left out, which is 1Gi again', { storage: { size: '2Gi' } }, {}, 'spec.storage.size', 'cannot be shrunk'],
  [
    'volumes to memory',
    {},
    { storage: { medium: 'Memory' } },
    'spec.storage.medium',
    'spec.storage.medium is immutable',
  ],
  [
    'memory to volumes',
    { storage: { medium: 'Memory' } },
    { storage: { medium: '' } },
    'spec.storage.medium',
    'spec.storage.medium is immutable',
  ],
  ['memory left out', { storage: { medium: 'Memory' } }, {}, 'spec.storage.medium', 'spec.storage.medium is immutable'],
  [
    'a class added',
    {},
    { storage: { storageClassName: 'fast' } },
    'spec.storage.storageClassName',
    'cannot be added or removed',
  ],
  [
    'an empty class added',
    {},
    { storage: { storageClassName: '' } },
    'spec.storage.storageClassName',
    'cannot be added or removed',
  ],
  [
    'a class removed',
    { storage: { storageClassName: 'fast' } },
    {},
    'spec.storage.storageClassName',
    'cannot be added or removed',
  ],
  [
    'a class changed',
    { storage: { storageClassName: 'fast' } },
    { storage: { storageClassName: 'slow' } },
    'spec.storage.storageClassName',
    'spec.storage.storageClassName is immutable',
  ],
  [
    'memory members to none',
    { storage: { medium: 'Memory' } },
    { storage: { medium: 'Memory' }, replicas: 0 },
    'spec.replicas',
    'replicas=0 with spec.storage.medium=Memory',
  ],
];

const changes: [string, Spec, Spec][] = [
  ['a larger size', { storage: { size: '1Gi' } }, { storage: { size: '2Gi' } }],
  ['the same size in another form', { storage: { size: '1Gi' } }, { storage: { size: 1073741824 } }],
  ['volumes to a pause and back', { replicas: 0 }, { replicas: 5 }],
  ['another version, in any direction', { version: '3.6.16' }, { version: '3.5.35' }],
  ['another retention', {}, { storage: { retention: 'Retain' } }],
  ['the default written out', {}, { replicas: 3, storage: { size: '1Gi', medium: '' }, progressDeadlineSeconds: 600 }],
  [
    'everything that describes a Pod',
    { resources: { limits: { cpu: 1 } }, nodeSelector: { a: 'b' }, options: { snapshotCount: 1 } },
    {
      affinity: {},
      tolerations: [{ operator: 'Exists' }],
      priorityClassName: 'high',
      image: { repository: 'mirror/etcd' },
    },
  ],
];

describe('changes', () => {
  for (const [what, from, to, field, words] of [...frozen, ...tlsFrozen]) {
    it(`refuses ${what}, since members cannot follow without losing data`, async () =>
      refused(await change(from, to), field, words));
  }
  for (const [what, from, to] of [...changes, ...tlsChanges]) {
    it(`accepts ${what}`, async () => accepted(await change(from, to)));
  }

  it("accepts Crossplane's own writes into spec, which immutability of the whole would refuse", async () => {
    const created = await create({ storage: { storageClassName: 'fast' } });
    const path = `${clusters}/${created.body.metadata.name}`;
    accepted(
      await server.request('PATCH', path, { spec: { crossplane: { compositionRef: { name: 'etcd-operator' } } } }),
    );
    const bound = await server.request('PATCH', path, {
      spec: { crossplane: { resourceRefs: [{ apiVersion: 'v1', kind: 'Service', name: 'etcd' }] } },
    });
    accepted(bound);
    assert.equal(bound.body.spec.crossplane.resourceRefs[0].name, 'etcd');
  });
});

describe('status', () => {
  /** Every field that the functions and Crossplane write. */
  const written = {
    observedGeneration: 2,
    phase: 'Running',
    members: '3/3',
    readyMembers: 3,
    selector: 'app.kubernetes.io/name=etcd,etcd-operator.cozystack.io/cluster=etcd',
    clusterID: 'cdf818194e3a8c32',
    version: '3.6.16',
    leader: 'etcd-0',
    voters: 3,
    learners: 0,
    connection: { configMapName: 'etcd-client', secretName: 'etcd-client-tls' },
    certificatesExpireAt: '2026-03-01T00:00:00Z',
    authEnabled: true,
    lastHandledReconcileAt: 'token',
    conditions: [
      {
        type: 'Ready',
        status: 'True',
        reason: 'Available',
        lastTransitionTime: '2026-01-01T00:00:00Z',
        observedGeneration: 2,
      },
    ],
  };

  it('keeps every field that is written, since a field the schema lacks freezes all conditions', async () => {
    const created = await create({});
    const answer = await server.request(
      'PATCH',
      `${clusters}/${created.body.metadata.name}/status?fieldValidation=Strict`,
      { status: written },
    );
    accepted(answer);
    assert.deepEqual(answer.body.status, written);
  });

  it('takes any status whatever the spec says, since no rule may stand under status', async () => {
    const created = await create({ replicas: 0 });
    const odd = {
      phase: 'SomethingNew',
      members: '-1/0',
      voters: 40,
      clusterID: '',
      version: 'unknown',
    };
    const path = `${clusters}/${created.body.metadata.name}/status`;
    accepted(await server.request('PATCH', path, { status: written }));
    accepted(await server.request('PATCH', path, { status: odd }));
  });

  it('lists every kind of a cluster by the category, and only claims by the short name', async () => {
    const named = (await server.kubectl('get', 'etcd', '--output=name')).trim().split('\n');
    assert.ok(
      named.every((line) => line.startsWith('etcdcluster.')),
      named.join(),
    );
    await server.kubectl('get', 'etcd-operator');
    const kinds = await server.kubectl('api-resources', '--categories=etcd-operator', '--output=name');
    assert.deepEqual(
      kinds.trim().split('\n').sort(),
      [
        ...[
          'etcdcertificatesets',
          'etcdclusters',
          'etcdmembers',
          'etcdquorums',
          'etcdrestores',
          'etcdsnapshots',
          'etcdsnapshotschedules',
        ],
      ].map((kind) => `${kind}.etcd-operator.cozystack.io`),
    );
  });

  it('shows members, version, leader and phase beside the columns of Crossplane', async () => {
    const created = await create({}, 'shown');
    accepted(await server.request('PATCH', `${clusters}/shown/status`, { status: written }));
    const [head = '', row = ''] = (await server.kubectl('get', 'etcd', created.body.metadata.name)).trim().split('\n');
    assert.deepEqual(head.trim().split(/\s{2,}/), [
      'NAME',
      'MEMBERS',
      'VERSION',
      'LEADER',
      'PHASE',
      'SYNCED',
      'READY',
      'COMPOSITION',
      'AGE',
    ]);
    assert.match(row, /^shown\s+3\/3\s+3\.6\.16\s+etcd-0\s+Running\s+True/);
  });
});

describe('scale', () => {
  it('serves replicas, ready members and selector to kubectl scale and autoscalers', async () => {
    const created = await create({});
    const path = `${clusters}/${created.body.metadata.name}`;
    accepted(await server.request('PATCH', `${path}/status`, { status: { readyMembers: 2, selector: 'a=b' } }));
    const scale = await server.request('GET', `${path}/scale`);
    assert.deepEqual(scale.body.spec, { replicas: 3 });
    assert.deepEqual(scale.body.status, { replicas: 2, selector: 'a=b' });
  });

  it('lets kubectl scale change the number of members and holds it to the same rules', async () => {
    await create({}, 'scaled');
    await server.kubectl('scale', 'etcdcluster/scaled', '--replicas=5');
    assert.equal((await server.request('GET', `${clusters}/scaled`)).body.spec.replicas, 5);
    await assert.rejects(server.kubectl('scale', 'etcd/scaled', '--replicas=11'), /use 3, 5 or 7/);
  });

  it('refuses to scale memory members to none', async () => {
    await create({ storage: { medium: 'Memory' } }, 'in-memory');
    await assert.rejects(
      server.kubectl('scale', 'etcd/in-memory', '--replicas=0'),
      /replicas=0 with spec\.storage\.medium=Memory/,
    );
  });
});

describe('members and quorums', () => {
  const member = (spec: Spec): Spec & { metadata: { name: string } } => ({
    apiVersion: 'etcd-operator.cozystack.io/v1alpha2',
    kind: 'EtcdMember',
    metadata: { name: `m${++numbered}` },
    spec: {
      clusterName: 'etcd',
      version: '3.6.16',
      storage: { medium: '', retention: 'Delete' },
      template: { metadata: { labels: { a: 'b' } }, spec: { containers: [{ name: 'etcd', image: 'etcd' }] } },
      ...spec,
    },
  });
  const createMember = (spec: Spec): Promise<Answer> =>
    server.request('POST', `${API}/etcdmembers?fieldValidation=Strict`, member(spec));

  it("keeps a member's template whole, since the runtime makes the Pod of it", async () => {
    const template = {
      metadata: { labels: { a: 'b' }, annotations: { c: 'd' } },
      spec: { containers: [{ name: 'etcd', image: 'etcd', futureField: { deep: [1] } }], volumes: [] },
    };
    const answer = await createMember({ template });
    accepted(answer);
    assert.deepEqual(answer.body.spec.template, template);
  });

  it('refuses another cluster or medium for a member that exists, since its data cannot move', async () => {
    const created = await createMember({});
    const path = `${API}/etcdmembers/${created.body.metadata.name}`;
    refused(
      await server.request('PATCH', path, { spec: { clusterName: 'other' } }),
      'spec',
      'clusterName cannot change',
    );
    refused(
      await server.request('PATCH', path, { spec: { storage: { medium: 'Memory' } } }),
      'spec',
      'storage.medium cannot change',
    );
  });

  it('merges resourceRefs by kind and name, since the runtime writes them beside what Crossplane applies', async () => {
    const { spec, ...head } = member({ resourceRefs: [] });
    const path = `${API}/etcdmembers/${head.metadata.name}`;
    accepted(await server.apply(path, 'crossplane', { ...head, spec }));
    const refs = ['Pod', 'PersistentVolumeClaim'].map((kind) => ({ apiVersion: 'v1', kind, name: 'a' }));
    accepted(await server.apply(path, 'runtime', { ...head, spec: { resourceRefs: refs } }));
    const again = await server.apply(path, 'crossplane', { ...head, spec });
    accepted(again);
    assert.deepEqual(again.body.spec.resourceRefs, refs);

    const twice = { apiVersion: 'v1', kind: 'Pod', name: 'b' };
    refused(await createMember({ resourceRefs: [twice, twice] }), 'spec.resourceRefs[1]', 'Duplicate value');
  });

  it('refuses a quorum above nine members or of no version, whoever writes it', async () => {
    const quorum = (spec: Spec): Promise<Answer> =>
      server.request('POST', `${API}/etcdquorums?fieldValidation=Strict`, {
        apiVersion: 'etcd-operator.cozystack.io/v1alpha2',
        kind: 'EtcdQuorum',
        metadata: { name: `q${++numbered}` },
        spec: { replicas: 3, version: '3.6.16', medium: '', ...spec },
      });
    accepted(await quorum({}));
    refused(await quorum({ replicas: 10 }), 'spec.replicas', 'less than or equal to 9');
    refused(await quorum({ version: null }), 'spec.version', 'Required value');
  });
});
