/** A claim can be deleted in many ways. In each, nothing is left that should not be, and nothing hangs. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { LABELS } from '../../../api/names.ts';
import {
  claim,
  claimIn,
  clusterSelector,
  membersOf,
  nothingLeft,
  podsOf,
  quorumIn,
  ready,
  uidsOf,
  volumesOf,
} from '../claim.ts';
import { eventually, notYet, throughout } from '../eventually.ts';
import { oneCluster } from '../identity.ts';
import { inNamespace, namespaceGone, type Place, seenKinds } from '../place.ts';

const remove = (place: Place, name: string, cascade: 'background' | 'foreground' | 'orphan'): Promise<string> =>
  place.kubectl(['delete', 'etcdcluster', name, `--cascade=${cascade}`, '--wait=false']);

/** Crossplane has nothing more to say of the claim. */
const quiet = async (place: Place, name: string): Promise<void> => {
  let last = '';
  let since = 0;
  await eventually(`EtcdCluster ${name} has not changed for 4 s`, async () => {
    const { resourceVersion } = (await claimIn(place, name)).metadata;
    if (resourceVersion !== last) since = performance.now();
    last = resourceVersion;
    if (performance.now() - since < 4_000) notYet('it changes');
  });
};

/** Far enough that Pods and volumes exist, not so far that it has formed. */
const halfway = (place: Place, name: string): Promise<void> =>
  eventually(
    `${name} has its first Pods`,
    async () => {
      if ((await podsOf(place, name)).length === 0) notYet('there is no Pod');
    },
    { everyMs: 30 },
  );

describe('a claim deleted', () => {
  for (const cascade of ['background', 'foreground'] as const) {
    test(
      `in the ${cascade} takes members, Pods, volumes, budget and Services along`,
      inNamespace(`del-${cascade.slice(0, 4)}`, async (place) => {
        await place.apply(claim('demo'));
        await ready(place, 'demo');
        await remove(place, 'demo', cascade);
        await nothingLeft(place, 'demo');
      }),
    );

    test(
      `in the ${cascade} in the middle of its bootstrap leaves nothing either`,
      inNamespace(`half-${cascade.slice(0, 4)}`, async (place) => {
        await place.apply(claim('demo'));
        await halfway(place, 'demo');
        await remove(place, 'demo', cascade);
        await nothingLeft(place, 'demo');
      }),
    );
  }

  test(
    'with its namespace does not hold the namespace up',
    inNamespace('del-ns', async (place) => {
      await place.apply(claim('demo'));
      await ready(place, 'demo');
      await place.cluster.kubectl(['delete', 'namespace', place.namespace, '--wait=false']);
      await namespaceGone(place);
    }),
  );

  test(
    'with its namespace in the middle of its bootstrap does not hold the namespace up',
    inNamespace('half-ns', async (place) => {
      await place.apply(claim('demo'));
      await halfway(place, 'demo');
      await place.cluster.kubectl(['delete', 'namespace', place.namespace, '--wait=false']);
      await namespaceGone(place);
    }),
  );

  test(
    'and applied again at once becomes a new cluster, which takes nothing of the old one',
    inNamespace('again', async (place) => {
      await place.apply(claim('demo'));
      await ready(place, 'demo');
      const before = await oneCluster(place, 'demo', 3);
      const old = uidsOf([...(await podsOf(place, 'demo')), ...(await volumesOf(place, 'demo'))]);
      await remove(place, 'demo', 'background');
      // The name is free once the claim itself is gone, while its members may still be ending.
      await eventually('the claim is gone', async () => {
        if ((await place.get(seenKinds.etcdclusters, 'demo')) !== undefined) notYet('it is still there');
      });
      await place.apply(claim('demo'));
      await ready(place, 'demo', { deadlineMs: 120_000 });
      const after = await oneCluster(place, 'demo', 3);
      assert.notEqual(after.clusterID, before.clusterID);
      const now = uidsOf([...(await podsOf(place, 'demo')), ...(await volumesOf(place, 'demo'))]);
      assert.deepEqual(
        now.filter((uid) => old.includes(uid)),
        [],
        'Pods and volumes of the old cluster in the new one',
      );
    }),
  );

  test(
    'with retention Retain leaves its volumes, without our label, and a new claim of the name forms beside them',
    inNamespace('retain', async (place) => {
      const keeping = claim('demo', { storage: { size: '1Gi', retention: 'Retain' } });
      await place.apply(keeping);
      await ready(place, 'demo');
      const before = await oneCluster(place, 'demo', 3);
      const kept = uidsOf(await volumesOf(place, 'demo'));
      await remove(place, 'demo', 'background');
      await nothingLeft(place, 'demo');

      const retained = await place.list(seenKinds.persistentvolumeclaims, `${LABELS.retained}=demo`);
      assert.deepEqual(uidsOf(retained), kept);
      assert.ok(retained.every(({ metadata }) => metadata.labels?.[LABELS.cluster] === undefined));

      await place.apply(keeping);
      await ready(place, 'demo');
      const after = await oneCluster(place, 'demo', 3);
      assert.notEqual(after.clusterID, before.clusterID);
      const present = await place.list(seenKinds.persistentvolumeclaims, `${LABELS.retained}=demo`);
      assert.deepEqual(uidsOf(present), kept, 'the kept volumes are untouched');
      assert.equal((await volumesOf(place, 'demo')).length, 3);
    }),
  );
});

describe('a claim orphaned', () => {
  test(
    'and applied again is the same cluster: same ID, same members, same Pods, under the new claim',
    inNamespace('orphan', async (place) => {
      await place.apply(claim('demo'));
      const first = await ready(place, 'demo');
      const before = await oneCluster(place, 'demo', 3);
      const pods = uidsOf(await podsOf(place, 'demo'));

      // A reconcile of Crossplane that is under way puts the owner references back that the garbage collector has just
      // taken off, and then the claim's end is the end of its children.
      await quiet(place, 'demo');
      await remove(place, 'demo', 'orphan');
      await eventually('the claim is gone', async () => {
        if ((await place.get(seenKinds.etcdclusters, 'demo')) !== undefined) notYet('it is still there');
      });
      await eventually('nothing is owned by the old claim any more', async () => {
        const owned = (await podsOf(place, 'demo')).filter(({ metadata }) => metadata.ownerReferences !== undefined);
        if (owned.length > 0) notYet(`${owned.map(({ metadata }) => metadata.name).join(', ')} are`);
      });
      assert.deepEqual(uidsOf(await podsOf(place, 'demo')), pods, 'the orphaned cluster runs on');

      await place.apply(claim('demo'));
      const second = await ready(place, 'demo');
      assert.notEqual(second.metadata.uid, first.metadata.uid);
      assert.deepEqual(await oneCluster(place, 'demo', 3), before);
      assert.deepEqual(uidsOf(await podsOf(place, 'demo')), pods);
      await eventually('the new claim controls Pods, budget, members and quorum', async () => {
        const budget = await place.list(seenKinds.poddisruptionbudgets, clusterSelector('demo'));
        const objects = [
          ...(await podsOf(place, 'demo')),
          ...budget,
          ...(await membersOf(place, 'demo')),
          await quorumIn(place, 'demo'),
        ];
        for (const { kind, metadata } of objects) {
          const controller = metadata.ownerReferences?.find((reference) => reference.controller === true);
          if (controller?.uid !== second.metadata.uid)
            notYet(`${kind} ${metadata.name} is controlled by ${controller?.uid}`);
        }
      });

      await remove(place, 'demo', 'background');
      await nothingLeft(place, 'demo');
    }),
  );

  test(
    'while Crossplane works on it loses no data, and applied again is the same cluster',
    inNamespace('orphan-busy', async (place) => {
      await place.apply(claim('demo'));
      await ready(place, 'demo');
      const before = await oneCluster(place, 'demo', 3);
      const volumes = uidsOf(await volumesOf(place, 'demo'));
      // A reconcile that is under way puts back the owner references that the garbage collector takes off, and then the
      // members go with the claim, although somebody asked for them to stay.
      await place.kube.mergePatch(
        { resource: seenKinds.etcdclusters, namespace: place.namespace, name: 'demo' },
        { spec: { progressDeadlineSeconds: 601 } },
      );
      await place.kube.delete(
        { resource: seenKinds.etcdclusters, namespace: place.namespace, name: 'demo' },
        { propagationPolicy: 'Orphan' },
      );
      await eventually('the claim is gone', async () => {
        if ((await place.get(seenKinds.etcdclusters, 'demo')) !== undefined) notYet('it is still there');
      });
      // Time for everything that the garbage collector may still take.
      await throughout(8_000, async () => {
        const kept = uidsOf(await volumesOf(place, 'demo'));
        assert.deepEqual(kept, volumes, 'volumes');
        assert.equal((await volumesOf(place, 'demo')).filter(({ metadata }) => metadata.deletionTimestamp).length, 0);
      });
      await place.apply(claim('demo'));
      await ready(place, 'demo', { deadlineMs: 120_000 });
      assert.deepEqual(await oneCluster(place, 'demo', 3), before);
      assert.deepEqual(uidsOf(await volumesOf(place, 'demo')), volumes);
    }),
  );

  test(
    'in the middle of its bootstrap and applied again becomes one cluster',
    inNamespace('half-orph', async (place) => {
      await place.apply(claim('demo'));
      await halfway(place, 'demo');
      await remove(place, 'demo', 'orphan');
      await eventually('the claim is gone', async () => {
        if ((await place.get(seenKinds.etcdclusters, 'demo')) !== undefined) notYet('it is still there');
      });
      await place.apply(claim('demo'));
      await ready(place, 'demo');
      await oneCluster(place, 'demo', 3);
      await remove(place, 'demo', 'foreground');
      await nothingLeft(place, 'demo');
    }),
  );
});

describe('an EtcdQuorum deleted by hand', () => {
  test(
    'comes back with what it knew, and nothing is formed again',
    inNamespace('quorum', async (place) => {
      await place.apply(claim('demo'));
      await ready(place, 'demo');
      const before = await oneCluster(place, 'demo', 3);
      const pods = uidsOf(await podsOf(place, 'demo'));
      const { metadata: gone } = await quorumIn(place, 'demo');
      await place.kubectl(['delete', 'etcdquorum', 'demo', '--wait=false']);
      await eventually('another EtcdQuorum says the same', async () => {
        const { metadata, status } = await quorumIn(place, 'demo');
        if (metadata.uid === gone.uid) notYet('it is still the old one');
        if (status?.clusterID !== before.clusterID) notYet(`it knows cluster ID ${status?.clusterID}`);
        if (status?.phase !== 'Running') notYet(`it is ${status?.phase}`);
      });
      await ready(place, 'demo');
      assert.deepEqual(await oneCluster(place, 'demo', 3), before);
      assert.deepEqual(uidsOf(await podsOf(place, 'demo')), pods);
      assert.equal((await claimIn(place, 'demo')).status?.clusterID, before.clusterID);
    }),
  );

  test(
    'before the cluster has formed comes back, and one cluster forms',
    inNamespace('quorum-half', async (place) => {
      await place.apply(claim('demo'));
      await halfway(place, 'demo');
      await place.kubectl(['delete', 'etcdquorum', 'demo', '--wait=false']);
      await ready(place, 'demo', { deadlineMs: 120_000 });
      await oneCluster(place, 'demo', 3);
      await eventually('three Pods and three volumes are there', async () => {
        const there = [(await podsOf(place, 'demo')).length, (await volumesOf(place, 'demo')).length];
        if (there.join() !== '3,3') notYet(`there are ${there.join(' and ')}`);
      });
    }),
  );
});
