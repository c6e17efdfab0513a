/**
 * The faults themselves, on Pods that know nothing of etcd: a link that was not really cut, or a node that only seems to be off,
 * would make every test built on it pass for nothing.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Node, Pod } from 'kubernetes-types/core/v1.js';
import { type Cluster, CommandFailed, connect, type Faults, type NodeName } from '../../cluster/cluster.ts';
import { eventually } from '../eventually.ts';

const namespace = `faults-${crypto.randomUUID().slice(0, 8)}`;
let cluster: Cluster;
let faults: Faults;

/** One Pod on each node, which answers on port 8080 and has a volume on disk and one in memory. */
const servers = {
  apiVersion: 'apps/v1',
  kind: 'DaemonSet',
  metadata: { name: 'server', namespace },
  spec: {
    selector: { matchLabels: { app: 'server' } },
    template: {
      metadata: { labels: { app: 'server' } },
      spec: {
        terminationGracePeriodSeconds: 0,
        containers: [
          {
            name: 'server',
            image: 'docker.io/library/busybox:stable',
            imagePullPolicy: 'IfNotPresent',
            command: ['nc', '-ll', '-p', '8080', '-e', '/bin/echo', 'here'],
            volumeMounts: [
              { name: 'disk', mountPath: '/disk' },
              { name: 'memory', mountPath: '/memory' },
            ],
          },
        ],
        volumes: [
          { name: 'disk', emptyDir: {} },
          { name: 'memory', emptyDir: { medium: 'Memory' } },
        ],
      },
    },
  },
};

before(async () => {
  cluster = await connect();
  assert.ok(cluster.faults, 'faults are injected into the local cluster only; unset KUBECONFIG');
  faults = cluster.faults;
  await faults.healAll();
  await cluster.kubectl(['create', 'namespace', namespace]);
  await cluster.kubectl(['apply', '-f', '-'], { input: JSON.stringify(servers) });
  await cluster.kubectl(['-n', namespace, 'rollout', 'status', 'daemonset/server', '--timeout=60s']);
});

after(async () => {
  await faults.healAll();
  await cluster.kubectl(['delete', 'namespace', namespace, '--wait=false']);
});

async function podOn(node: NodeName): Promise<Pod> {
  const selected = ['-l', 'app=server', `--field-selector=spec.nodeName=${node}`];
  const listed = await cluster.kubectl(['-n', namespace, 'get', 'pods', ...selected, '-o', 'json']);
  const [pod] = (JSON.parse(listed) as { items: Pod[] }).items;
  assert.ok(pod, `no Pod on ${node}`);
  return pod;
}

function nameOf(pod: Pod): string {
  assert.ok(pod.metadata?.name);
  return pod.metadata.name;
}

async function inPodOn(node: NodeName, ...command: string[]): Promise<string> {
  return cluster.kubectl(['-n', namespace, 'exec', nameOf(await podOn(node)), '--', ...command], { timeoutMs: 20_000 });
}

/** Whether the Pod on one node gets an answer from the Pod on another. */
async function reaches(from: NodeName, to: NodeName): Promise<boolean> {
  const address = (await podOn(to)).status?.podIP;
  assert.ok(address, `the Pod on ${to} has no address`);
  try {
    return (await inPodOn(from, 'nc', '-w', '2', address, '8080')).includes('here');
  } catch (error) {
    if (error instanceof CommandFailed && error.exitCode === 1) return false;
    throw error;
  }
}

async function isReady(node: NodeName): Promise<boolean> {
  const seen = JSON.parse(await cluster.kubectl(['get', 'node', node, '-o', 'json'])) as Node;
  return seen.status?.conditions?.find(({ type }) => type === 'Ready')?.status === 'True';
}

async function startedAt(node: NodeName): Promise<unknown> {
  return (await podOn(node)).status?.containerStatuses?.[0]?.state?.running?.startedAt;
}

test('a link cut between two nodes stops their Pods both ways, and nobody else', async () => {
  assert.equal(await reaches('n1', 'n2'), true);
  await faults.cutLink('n1', 'n2');
  assert.equal(await reaches('n1', 'n2'), false);
  assert.equal(await reaches('n2', 'n1'), false);
  assert.equal(await reaches('n1', 'n3'), true);
  assert.equal(await reaches('n3', 'n2'), true);
  await faults.healLink('n1', 'n2');
  assert.equal(await reaches('n1', 'n2'), true);
  assert.equal(await reaches('n2', 'n1'), true);
});

test('a node that is cut off is reached by nobody and found NotReady, and comes back when it is healed', async () => {
  await faults.cutLink('n3');
  assert.equal(await reaches('n1', 'n3'), false);
  await eventually('n3 is found NotReady', async () => assert.equal(await isReady('n3'), false));
  await faults.healLink('n3');
  await eventually('n3 is Ready again', async () => assert.equal(await isReady('n3'), true));
  await eventually('the Pod on n3 answers again', async () => assert.equal(await reaches('n1', 'n3'), true));
});

test('a node without kubelet and container runtime still runs its Pods, and finds the same ones when they start', async () => {
  const before = await startedAt('n2');
  await faults.stopNode('n2', 'programs');
  assert.equal(await reaches('n1', 'n2'), true);
  await faults.startNode('n2');
  assert.equal(await isReady('n2'), true);
  await eventually('the kubelet of n2 knows its Pod again', () => inPodOn('n2', 'true'));
  assert.equal(await startedAt('n2'), before);
});

test('a node that loses power ends its Pods at once and keeps only what was on its disk', async () => {
  await inPodOn('n2', 'sh', '-c', 'echo kept >/disk/file; echo lost >/memory/file');
  await faults.stopNode('n2', 'power');
  assert.equal(await reaches('n1', 'n2'), false);
  await faults.startNode('n2');
  await eventually('the Pod on n2 runs again', async () => {
    assert.equal((await podOn('n2')).status?.containerStatuses?.[0]?.restartCount, 1);
    assert.equal(await reaches('n1', 'n2'), true);
  });
  assert.equal((await inPodOn('n2', 'cat', '/disk/file')).trim(), 'kept');
  assert.equal((await inPodOn('n2', 'ls', '/memory')).trim(), '');
});

test('an API server that was killed answers nobody until it is started, and has lost nothing', async () => {
  await faults.stopApiServer();
  await assert.rejects(cluster.kubectl(['get', 'namespace', namespace], { timeoutMs: 10_000 }), /refused|did not end/);
  await faults.startApiServer();
  assert.match(await cluster.kubectl(['get', 'namespace', namespace, '-o', 'name']), new RegExp(namespace));
});
