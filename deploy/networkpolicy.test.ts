/**
 * Whom examples/networkpolicy.yaml lets through, judged by the labels and ports of the Pods that we really make. Network plug-ins
 * that enforce it are not at hand here: that they do what the API says is theirs to prove.
 */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Deployment } from 'kubernetes-types/apps/v1.js';
import type { NetworkPolicy, NetworkPolicyPeer } from 'kubernetes-types/networking/v1.js';
import { parseAllDocuments } from 'yaml';
import type { EtcdMember } from '../api/etcdmember.gen.ts';
import { CONTAINER, LABELS, PORTS } from '../api/names.ts';
import { INPUT_API_VERSION } from '../functions/composing/step-input.ts';
import { composeMembers } from '../functions/members/compose.ts';
import { snapshotJob } from '../runtime/core/snapshots/snapshot-job.ts';
import { root } from './bundle.ts';

const documents = async (path: string): Promise<{ kind: string }[]> =>
  parseAllDocuments(await readFile(join(root, path), 'utf8')).map((document) => document.toJS());

const [policy, claim] = (await documents('examples/networkpolicy.yaml')) as unknown as [
  NetworkPolicy,
  { kind: string },
];
const runtime = (await documents('deploy/runtime/deployment.yaml'))[0] as unknown as Deployment;
const [namespace] = (await documents('deploy/runtime/namespace.yaml')) as unknown as [{ metadata: { name: string } }];

type Labels = Readonly<Record<string, string>>;
/** A Pod, and the name of its namespace, which Kubernetes makes a label of. */
type Caller = { readonly labels: Labels; readonly namespace: string };

const HERE = 'default';

const member = (name: string): EtcdMember['spec']['template'] => {
  const resource = { ...claim, metadata: { name, namespace: HERE } };
  const { desired } = composeMembers({
    input: { apiVersion: INPUT_API_VERSION, kind: 'Members' },
    observed: { composite: { resource } },
  });
  const rendered = desired?.resources?.['member-0']?.resource as EtcdMember | undefined;
  assert.ok(rendered, 'the function renders a member');
  return rendered.spec.template;
};

const snapshotOf = (name: string): Labels =>
  snapshotJob({
    namespace: HERE,
    name: 'nightly',
    uid: 'u',
    spec: { clusterRef: { name }, destination: { pvc: { claimName: 'backups' } } },
    sources: [],
    clusterID: 'c',
    clusterUID: 'u',
    access: {},
    agentImage: 'runtime',
  }).spec?.template.metadata?.labels ?? {};

const matches = (selector: { matchLabels?: Labels } | undefined, labels: Labels): boolean =>
  Object.entries(selector?.matchLabels ?? {}).every(([key, value]) => labels[key] === value);

const comesFrom = ({ podSelector, namespaceSelector }: NetworkPolicyPeer, from: Caller): boolean =>
  (namespaceSelector === undefined
    ? from.namespace === HERE
    : matches(namespaceSelector, { 'kubernetes.io/metadata.name': from.namespace })) &&
  (podSelector === undefined || matches(podSelector, from.labels));

/** As the API has it: any rule that names both the caller and the port lets it through. */
const reaches = (from: Caller, port: number): boolean =>
  (policy.spec?.ingress ?? []).some(
    (rule) =>
      (rule.from ?? []).some((peer) => comesFrom(peer, from)) &&
      (rule.ports ?? []).some((each) => each.port === port && each.protocol === 'TCP'),
  );

const labelsOf = (name: string): Labels => member(name).metadata?.labels ?? {};
const inside = (labels: Labels): Caller => ({ labels, namespace: HERE });

test('it guards the members of its cluster, learners and starting ones too, and nobody else', () => {
  const guards = (labels: Labels): boolean => matches(policy.spec?.podSelector, labels);
  assert.ok(guards(labelsOf('guarded')));
  assert.equal(LABELS.role in labelsOf('guarded'), false, 'a member has no role before it votes');
  assert.ok(!guards(labelsOf('other')));
  assert.ok(!guards(snapshotOf('guarded')));
  assert.deepEqual(policy.spec?.policyTypes, ['Ingress']);
});

const cases: readonly (readonly [who: string, Caller, readonly number[]])[] = [
  ['another member', inside(labelsOf('guarded')), [PORTS.client, PORTS.peer]],
  ['a member of another cluster', inside(labelsOf('other')), []],
  ['a member of another namespace', { labels: labelsOf('guarded'), namespace: 'elsewhere' }, []],
  [
    'the operator',
    { labels: runtime.spec?.template.metadata?.labels ?? {}, namespace: namespace.metadata.name },
    [PORTS.client, PORTS.metrics],
  ],
  ['a snapshot of the cluster', inside(snapshotOf('guarded')), [PORTS.client]],
  ['a snapshot of another cluster', inside(snapshotOf('other')), []],
  ['an application that says so', inside({ 'example.com/uses-etcd': 'guarded' }), [PORTS.client]],
  ['an application that does not', inside({ app: 'web' }), []],
  ['Prometheus', { labels: {}, namespace: 'monitoring' }, [PORTS.metrics]],
];
for (const [who, caller, ports] of cases) {
  test(`${who} reaches ${ports.length === 0 ? 'no port of a member' : `the ports ${ports.join(', ')}, which is all it needs`}`, () => {
    const open = Object.values(PORTS).filter((port) => reaches(caller, port));
    assert.deepEqual(open.toSorted(), [...ports].toSorted());
  });
}

test('every port that it opens is one that members listen at', () => {
  const listening = member('guarded')
    .spec.containers.find(({ name }) => name === CONTAINER)
    ?.ports?.map(({ containerPort }) => containerPort);
  const opened = (policy.spec?.ingress ?? []).flatMap(({ ports }) => (ports ?? []).map(({ port }) => port));
  assert.deepEqual([...new Set(opened)].toSorted(), listening?.toSorted());
});
