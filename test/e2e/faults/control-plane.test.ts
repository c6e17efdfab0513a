/** Crossplane, the function and the API server away for a while: what runs goes on, and what heals does not need them. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { functionName } from '../../../deploy/names.ts';
import { claim, claimIn, conditionOf, openPods, podOf, quorumIn, ready } from '../claim.ts';
import { writer } from '../client.ts';
import { eventually, notYet } from '../eventually.ts';
import { leaderAndFollower, oneCluster } from '../identity.ts';
import { connected, inNamespace } from '../place.ts';

const { cluster } = await connected();
const SYSTEM = 'crossplane-system';
const system = (...args: string[]): Promise<string> => cluster.kubectl(['-n', SYSTEM, ...args], { timeoutMs: 130_000 });

describe('without Crossplane', () => {
  test(
    'a cluster serves, and a deleted Pod comes back with the same identity',
    inNamespace('no-xp', async (place, t) => {
      await place.apply(claim('demo'));
      await ready(place, 'demo');
      const before = await oneCluster(place, 'demo', 3);
      await using writes = await writer(place, 'demo');
      await system('scale', 'deployment/crossplane', '--replicas=0');
      try {
        await system('wait', 'pods', '-l', 'app=crossplane', '--for=delete', '--timeout=90s');
        const { follower } = await leaderAndFollower(place, 'demo');
        const old = await podOf(place, follower);
        await place.kubectl(['delete', 'pod', old.metadata.name, '--wait=false']);
        await eventually('another Pod of the same name is open to clients', async () => {
          const now = await podOf(place, follower);
          if (now.metadata.uid === old.metadata.uid) notYet('it is the old one');
          const open = await openPods(place, 'demo');
          if (open.length !== 3) notYet(`open are ${open.join(', ')}`);
        });
        assert.deepEqual(await oneCluster(place, 'demo', 3, { deadlineMs: 60_000 }), before);
      } finally {
        await system('scale', 'deployment/crossplane', '--replicas=1');
        await system('rollout', 'status', 'deployment/crossplane', '--timeout=120s');
      }
      const written = await writes.stop();
      t.diagnostic(`writes: ${JSON.stringify(written)}`);
      assert.deepEqual(written.lost, []);
      assert.ok(written.longestGapMs < 5_000, `clients waited ${written.longestGapMs} ms`);
      await place.kubectl([
        'patch',
        'etcdcluster/demo',
        '--type=merge',
        '-p',
        '{"spec":{"progressDeadlineSeconds":700}}',
      ]);
      await eventually('the claim is followed again', async () => {
        const quorum = await quorumIn(place, 'demo');
        if (quorum.spec.progressDeadlineSeconds !== 700) notYet('the EtcdQuorum has the old deadline');
      });
    }),
  );
});

describe('without the function', () => {
  test(
    'a cluster serves and heals, and a change of the claim is carried out once the function is back',
    inNamespace('no-fn', async (place) => {
      await place.apply(claim('demo'));
      await ready(place, 'demo');
      const before = await oneCluster(place, 'demo', 3);
      const revision = (
        await cluster.kubectl([
          ...['get', 'functionrevisions', '-l', `pkg.crossplane.io/package=${functionName}`],
          ...['-o', 'jsonpath={range .items[?(@.spec.desiredState=="Active")]}{.metadata.name}{end}'],
        ])
      ).trim();
      assert.notEqual(revision, '', 'the active revision of the function');
      // Else the package manager scales it up again.
      await cluster.kubectl(['annotate', 'functionrevision', revision, 'crossplane.io/paused=true', '--overwrite']);
      const replicas = await system('get', `deployment/${revision}`, '-o', 'jsonpath={.spec.replicas}');
      try {
        await system('scale', `deployment/${revision}`, '--replicas=0');
        await system('wait', 'pods', '-l', `pkg.crossplane.io/revision=${revision}`, '--for=delete', '--timeout=60s');
        await place.kubectl(['scale', 'etcdcluster/demo', '--replicas=5']);
        const { follower } = await leaderAndFollower(place, 'demo');
        const old = await podOf(place, follower);
        await place.kubectl(['delete', 'pod', old.metadata.name, '--wait=false']);
        await eventually('the deleted Pod is there again', async () => {
          if ((await podOf(place, follower)).metadata.uid === old.metadata.uid) notYet('it is the old one');
        });
        assert.deepEqual(await oneCluster(place, 'demo', 3, { deadlineMs: 60_000 }), before);
      } finally {
        await system('scale', `deployment/${revision}`, `--replicas=${replicas}`);
        await system('rollout', 'status', `deployment/${revision}`, '--timeout=120s');
        await cluster.kubectl(['annotate', 'functionrevision', revision, 'crossplane.io/paused-']);
      }
      await ready(place, 'demo', { deadlineMs: 180_000 });
      assert.equal((await oneCluster(place, 'demo', 5)).clusterID, before.clusterID);
    }),
  );
});

describe('the API server away', { skip: cluster.faults === undefined ? 'needs the local cluster' : false }, () => {
  test(
    'for ten seconds costs no client anything, and afterwards the runtime acts again',
    inNamespace('no-api', async (place, t) => {
      await place.apply(claim('demo'));
      await ready(place, 'demo');
      const before = await oneCluster(place, 'demo', 3);
      await using writes = await writer(place, 'demo');
      await cluster.faults?.stopApiServer();
      try {
        const { acknowledged } = writes.sofar();
        await eventually('ten seconds of writes went through', () => {
          if (writes.sofar().acknowledged < acknowledged + 100) notYet(`${writes.sofar().acknowledged} so far`);
        });
      } finally {
        await cluster.faults?.startApiServer();
      }
      const { follower } = await leaderAndFollower(place, 'demo');
      const old = await podOf(place, follower);
      await place.kubectl(['delete', 'pod', old.metadata.name, '--wait=false']);
      await eventually('another Pod of the same name', async () => {
        if ((await podOf(place, follower)).metadata.uid === old.metadata.uid) notYet('it is the old one');
      });
      await ready(place, 'demo', { deadlineMs: 120_000 });
      // Kubelets pause for up to a minute before they watch again.
      assert.deepEqual(await oneCluster(place, 'demo', 3, { deadlineMs: 240_000 }), before);
      const written = await writes.stop();
      t.diagnostic(`writes: ${JSON.stringify(written)}`);
      assert.deepEqual(written.lost, []);
      assert.ok(written.longestGapMs < 5_000, `clients waited ${written.longestGapMs} ms`);
      assert.notEqual(conditionOf(await claimIn(place, 'demo'), 'Available')?.status, 'False');
    }),
  );
});
