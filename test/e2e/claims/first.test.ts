/** The main job: a claim becomes a quorum that serves, and everything a person looks at shows it. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { parse } from 'yaml';
import { clientServiceName, LABELS, PORTS } from '../../../api/names.ts';
import { claim, claimIn, inMemory, openPods, podsOf, ready, volumesOf } from '../claim.ts';
import { etcdctl } from '../client.ts';
import { oneCluster } from '../identity.ts';
import { connected, inNamespace, seenKinds } from '../place.ts';

describe('a claim', () => {
  test(
    'becomes a quorum of three in a namespace that enforces the restricted standard, and serves by its Service',
    inNamespace('first', async (place) => {
      await place.apply(claim('demo'));
      const found = await ready(place, 'demo');
      const { clusterID } = await oneCluster(place, 'demo', 3);

      assert.match(await etcdctl(place, 'demo', 'put', 'greeting', 'hello'), /^OK/);
      assert.deepEqual((await etcdctl(place, 'demo', 'get', 'greeting')).trim().split('\n'), ['greeting', 'hello']);

      const pods = await podsOf(place, 'demo');
      assert.deepEqual(
        await openPods(place, 'demo'),
        pods.map(({ metadata }) => metadata.name).toSorted(),
        'behind the client Service stand the voters',
      );
      for (const { metadata, spec } of pods) {
        assert.equal(metadata.labels?.[LABELS.role], 'voter');
        assert.equal(metadata.ownerReferences?.find(({ controller }) => controller)?.uid, found.metadata.uid);
        assert.equal(spec?.automountServiceAccountToken, false);
        assert.equal(spec?.containers[0]?.securityContext?.readOnlyRootFilesystem, true);
      }
      assert.equal(new Set(pods.map(({ spec }) => spec?.nodeName)).size, 3, 'each on a node of its own');
      for (const { metadata, spec } of await volumesOf(place, 'demo')) {
        assert.equal(metadata.ownerReferences, undefined, 'nothing but the runtime may take a volume away');
        assert.equal(spec?.resources?.requests?.storage, '1Gi');
      }

      const budget = await place.get(seenKinds.poddisruptionbudgets, 'demo');
      assert.equal(budget?.spec?.minAvailable, 2);
      assert.equal(budget?.spec?.unhealthyPodEvictionPolicy, 'AlwaysAllow');
      assert.equal(budget?.spec?.selector?.matchLabels?.[LABELS.role], 'voter');

      const service = await place.get(seenKinds.services, clientServiceName('demo'));
      assert.deepEqual(
        service?.spec?.ports?.map(({ port }) => port),
        [PORTS.client],
      );
      assert.equal((await claimIn(place, 'demo')).status?.clusterID, clusterID);
    }),
  );

  test(
    'in memory needs no volume, and its budget keeps unhealthy members, whose data no disk holds',
    inNamespace('memory', async (place) => {
      await place.apply(claim('quick', { storage: inMemory }));
      await ready(place, 'quick');
      await oneCluster(place, 'quick', 3);
      assert.deepEqual(await volumesOf(place, 'quick'), []);
      const budget = await place.get(seenKinds.poddisruptionbudgets, 'quick');
      assert.equal(budget?.spec?.minAvailable, 2);
      assert.equal(budget?.spec?.unhealthyPodEvictionPolicy, 'IfHealthyBudget');
    }),
  );
});

describe('what a person looks at', () => {
  test(
    'trace shows claim, quorum and members with READY and SYNCED, and below each member its Pod and volume',
    inNamespace('trace', async (place) => {
      await place.apply(claim('demo'));
      await ready(place, 'demo');
      const pods = (await podsOf(place, 'demo')).map(({ metadata }) => metadata.name).toSorted();

      const tree = await place.cluster.crossplane(['resource', 'trace', '-n', place.namespace, 'etcdcluster/demo']);
      const rows = tree.split('\n').map((row) => row.replace(/^[\s│├└─]*/, ''));
      const row = (start: string): string =>
        rows.find((line) => line.startsWith(start)) ?? assert.fail(`no line ${start} in\n${tree}`);
      assert.match(row('NAME'), /SYNCED\s+READY/);
      for (const name of ['EtcdCluster/demo', 'EtcdQuorum/demo', 'EtcdMember/demo-0', 'EtcdMember/demo-2']) {
        assert.match(row(name), /True\s+True/, tree);
      }
      for (const pod of pods) {
        const member = pod.slice(0, pod.lastIndexOf('-'));
        const at = rows.findIndex((line) => line.startsWith(`EtcdMember/${member}`));
        const below = rows.slice(at + 1, at + 3).map((line) => line.split(/\s+/)[0]);
        assert.deepEqual(below.toSorted(), [`PersistentVolumeClaim/${pod}`, `Pod/${pod}`], tree);
      }
      assert.ok(
        rows.some((line) => line.startsWith('PodDisruptionBudget/demo')),
        tree,
      );
      assert.ok(
        rows.some((line) => line.startsWith('Service/demo-client')),
        tree,
      );

      const [head = '', line = ''] = (await place.kubectl(['get', 'etcdcluster'])).split('\n');
      assert.deepEqual(head.trim().split(/\s+/), [
        ...['NAME', 'MEMBERS', 'VERSION', 'LEADER', 'PHASE', 'SYNCED', 'READY', 'COMPOSITION', 'AGE'],
      ]);
      assert.match(line, /^demo\s+3\/3\s+3\.6\.16\s+demo-[012]\s+Running\s+True\s+True\s/);
      assert.match(await place.kubectl(['get', 'etcd', 'demo', '--no-headers']), /^demo\s/, 'by its short name');

      await place.kubectl(['scale', 'etcdcluster/demo', '--replicas=3']);
      const scale = JSON.parse(
        await place.kubectl([
          ...[
            'get',
            '--raw',
            `/apis/etcd-operator.cozystack.io/v1alpha2/namespaces/${place.namespace}/etcdclusters/demo/scale`,
          ],
        ]),
      ) as { status: { replicas: number; selector: string } };
      assert.equal(scale.status.replicas, 3);
      const selected = await place.list(seenKinds.pods, scale.status.selector);
      assert.deepEqual(selected.map(({ metadata }) => metadata.name).toSorted(), pods);
    }),
  );

  test('kubectl explain has words for every field of our own', async () => {
    const { cluster } = await connected();
    const definition = parse(await readFile(join(import.meta.dirname, '../../../xrds/etcdcluster.yaml'), 'utf8')) as {
      spec: { versions: { schema: { openAPIV3Schema: Schema } }[] };
    };
    const root = definition.spec.versions[0]?.schema.openAPIV3Schema ?? assert.fail('the XRD has a version');
    const paths = ['spec', 'status'].flatMap((part) => fieldsOf(root.properties?.[part], part));
    assert.ok(paths.length > 30, `${paths.length} fields`);
    for (const path of paths) {
      const words = await cluster.kubectl(['explain', `etcdcluster.${path}`]);
      assert.match(words, /DESCRIPTION:\s+(?!<empty>)\S/, path);
    }
  });
});

type Schema = { readonly properties?: Readonly<Record<string, Schema>> };

/** The parts of a Pod that the claim takes over whole are Kubernetes' own, and explained by their field. */
const BORROWED = new Set(['affinity', 'resources', 'tolerations', 'topologySpreadConstraints']);

const fieldsOf = (schema: Schema | undefined, path: string): string[] =>
  Object.entries(schema?.properties ?? {}).flatMap(([name, field]) => [
    `${path}.${name}`,
    ...(BORROWED.has(name) ? [] : fieldsOf(field, `${path}.${name}`)),
  ]);
