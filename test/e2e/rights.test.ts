/** The rights that deploy/ gives, as the API server understands them. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { runtimeName, systemNamespace } from '../../deploy/names.ts';
import { type Cluster, CommandFailed } from '../cluster/cluster.ts';
import { connected, inNamespace, refusal } from './place.ts';

const account = `system:serviceaccount:${systemNamespace}:${runtimeName}`;

const REFUSED = /denied request: the runtime writes Secrets .* and no others/;

type Where = { readonly namespace: string; readonly name?: string };

const may = async (
  cluster: Cluster,
  verb: string,
  resource: string,
  { namespace, name }: Where = { namespace: 'default' },
): Promise<boolean> => {
  const [plural = '', subresource] = resource.split('/');
  try {
    await cluster.kubectl([
      ...['auth', 'can-i', verb, name === undefined ? plural : `${plural}/${name}`],
      ...[`--as=${account}`, '-n', namespace],
      ...(subresource === undefined ? [] : [`--subresource=${subresource}`]),
    ]);
    return true;
  } catch (error) {
    // "no" is said by exit code 1 and nothing else.
    if (error instanceof CommandFailed && error.exitCode === 1 && !/error/i.test(error.stderr)) return false;
    throw error;
  }
};

/** Every `verb resource` that the running runtimes have asked for since they started, from their metrics. */
const asked = async (cluster: Cluster): Promise<string[]> => {
  const pods = await cluster.kubectl([
    ...['-n', systemNamespace, 'get', 'pods', '-l', `app.kubernetes.io/name=${runtimeName}`],
    ...['--field-selector=status.phase=Running', '-o', 'jsonpath={.items[*].metadata.name}'],
  ]);
  const seen = new Set<string>();
  for (const pod of pods.trim().split(/\s+/)) {
    const path = `/api/v1/namespaces/${systemNamespace}/pods/${pod}:8080/proxy/metrics`;
    const metrics = await cluster.kubectl(['get', '--raw', path]);
    const requests = metrics.matchAll(/^etcd_operator_kube_requests_total\{verb="([^"]+)",resource="([^"]+)"/gm);
    for (const [, verb, resource] of requests) seen.add(`${verb === 'apply' ? 'patch' : verb} ${resource}`);
  }
  return [...seen].sort();
};

describe('the account of the runtime', () => {
  test('may do all that the runtime has asked for, or something would fail quietly in production', async () => {
    const { cluster } = await connected();
    const all = await asked(cluster);
    assert.ok(all.includes('watch pods'), `the runtime is at work: ${all.join(', ')}`);
    for (const one of all) {
      const [verb = '', resource = ''] = one.split(' ');
      // The lease is granted in one namespace, and by its name where it has one already.
      const lease = { namespace: systemNamespace, ...(verb === 'create' ? {} : { name: runtimeName }) };
      assert.ok(await may(cluster, verb, resource, resource === 'leases' ? lease : undefined), `may ${one}`);
    }
  });

  test('may not do what would turn a hole in the runtime into one in the cluster', async () => {
    const { cluster } = await connected();
    for (const [verb, resource] of [
      ['get', 'secrets'],
      ['update', 'secrets'],
      ['delete', 'secrets'],
      ['create', 'pods/exec'],
      ['patch', 'etcdclusters.etcd-operator.cozystack.io'],
      ['create', 'etcdmembers.etcd-operator.cozystack.io'],
      ['delete', 'namespaces'],
      ['patch', 'nodes'],
      ['delete', 'nodes'],
      ['patch', 'persistentvolumes'],
      ['patch', 'jobs.batch'],
      ['get', 'leases.coordination.k8s.io'],
    ] as const) {
      assert.equal(await may(cluster, verb, resource), false, `${verb} ${resource}`);
    }
  });

  // What it may write of Secrets is said by a policy, which `can-i` does not know.
  test(
    'may not make a Secret that is not of its own type',
    inNamespace('secrets', async (place) => {
      const create = ['create', 'secret', 'generic', 'somebodys', `--as=${account}`];
      assert.match(await refusal(place.kubectl(create)), REFUSED);
    }),
  );
});
