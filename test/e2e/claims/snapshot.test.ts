/** EtcdSnapshots as users make them: to a bucket and to a volume, and each way in which one can fail. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { PersistentVolumeClaim } from 'kubernetes-types/core/v1.js';
import type { EtcdSnapshot, EtcdSnapshotSpec } from '../../../api/etcdsnapshot.gen.ts';
import type { EtcdSnapshotSchedule } from '../../../api/etcdsnapshotschedule.gen.ts';
import { API_VERSION, clientServiceName } from '../../../api/names.ts';
import { readManifest } from '../../../runtime/agent/take-snapshot.ts';
import { SCHEDULE_LABEL } from '../../../runtime/core/snapshots/snapshot-job.ts';
import { bucketIn } from '../bucket.ts';
import { claim, podOf, ready } from '../claim.ts';
import { put } from '../client.ts';
import { eventually, notYet } from '../eventually.ts';
import { leaderAndFollower, reachable } from '../identity.ts';
import { connected, inNamespace, type Place, refusal, seenKinds } from '../place.ts';

const { cluster } = await connected();

const snapshot = (name: string, destination: EtcdSnapshotSpec['destination'], of = 'demo'): EtcdSnapshot => ({
  apiVersion: API_VERSION,
  kind: 'EtcdSnapshot',
  metadata: { name },
  spec: { clusterRef: { name: of }, destination },
});

const ended = (place: Place, name: string): Promise<NonNullable<EtcdSnapshot['status']>> =>
  eventually(
    `snapshot ${name} has come to an end`,
    async () => {
      const { status } = (await place.get(seenKinds.etcdsnapshots, name)) ?? notYet('it is not there');
      const ready = status?.conditions?.find(({ type }) => type === 'Ready');
      if (status?.phase !== 'Complete' && status?.phase !== 'Failed') {
        notYet(`${status?.phase}: ${ready?.reason} ${ready?.message}`);
      }
      return status ?? notYet('no status');
    },
    { deadlineMs: 90_000 },
  );

const waits = (place: Place, name: string, reason: string): Promise<void> =>
  eventually(`snapshot ${name} waits for ${reason}`, async () => {
    const { status } = (await place.get(seenKinds.etcdsnapshots, name)) ?? notYet('it is not there');
    const ready = status?.conditions?.find(({ type }) => type === 'Ready');
    if (status?.phase !== 'Pending' || ready?.reason !== reason) notYet(`${status?.phase} ${ready?.reason}`);
  });

/** Names of the snapshots that the schedule has made. */
const scheduled = (place: Place, count: number): Promise<string[]> =>
  eventually(`the schedule has made ${count}`, async () => {
    const made = await place.list(seenKinds.etcdsnapshots, `${SCHEDULE_LABEL}=nightly`);
    if (made.length < count) notYet(`${made.length}`);
    return made.map(({ metadata }) => metadata.name);
  });

describe('an EtcdSnapshot', { skip: cluster.s3 === undefined ? 'needs an S3 server' : false }, () => {
  test(
    'is stored with its manifest in a bucket and on a volume, from a follower, and fails or waits with a reason else',
    inNamespace('snapshot', async (place, t) => {
      const bucket = await bucketIn(cluster, 'e2e-snapshots');
      const to = (change: object = {}): EtcdSnapshotSpec['destination'] => ({
        s3: { ...bucket.location, key: 'backups', ...change },
      });
      const volume: PersistentVolumeClaim = {
        apiVersion: 'v1',
        kind: 'PersistentVolumeClaim',
        metadata: { name: 'backups' },
        spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } },
      };
      await place.apply(bucket.secret('s3'), bucket.secret('wrong', 'not-the-key'), volume);
      // Before the cluster is there: a snapshot waits for it.
      await place.apply(snapshot('to-s3', to()));
      await waits(place, 'to-s3', 'ClusterNotFound');
      await place.apply(claim('demo'));
      await ready(place, 'demo');
      const { leader, follower } = await leaderAndFollower(place, 'demo');
      const [pod] = reachable([await podOf(place, follower)]);
      assert.ok(pod !== undefined);
      for (let key = 0; key < 20; key += 1) await put(place, pod, `key-${key}`, 'value'.repeat(1_000));

      await place.apply(
        snapshot('to-volume', { pvc: { claimName: 'backups', subPath: 'etcd' } }),
        snapshot('again', to()),
        snapshot('wrong-key', to({ credentialsSecretRef: { name: 'wrong' } })),
        snapshot('no-bucket', to({ bucket: 'no-such-bucket' })),
        snapshot('no-secret', to({ credentialsSecretRef: { name: 'absent' } })),
        snapshot('nobody', to(), 'nobody'),
      );
      const again = await ended(place, 'again');
      assert.equal(again.phase, 'Complete', JSON.stringify(again.conditions));
      assert.notEqual(again.member, leader, 'the leader has enough to do');
      assert.ok(BigInt(again.revision ?? '0') >= 21n, `revision ${again.revision}`);
      const key = bucket.keyOf(again.artifact?.uri);
      const objects = bucket.open();
      const manifest = await readManifest(objects, key);
      objects.close();
      assert.equal(`sha256:${manifest.sha256}`, again.artifact?.checksum);
      assert.equal(manifest.sizeBytes, String(again.artifact?.sizeBytes));
      t.diagnostic(`${again.artifact?.uri}, ${again.artifact?.sizeBytes} bytes, ${again.duration}`);

      assert.equal((await ended(place, 'to-s3')).phase, 'Complete');
      const onVolume = await ended(place, 'to-volume');
      assert.equal(onVolume.phase, 'Complete', JSON.stringify(onVolume.conditions));
      assert.match(onVolume.artifact?.uri ?? '', /^pvc:\/\/backups\/etcd\/.*\.db$/);

      for (const [name, reason] of [
        ['wrong-key', 'StoreAccessDenied'],
        ['no-bucket', 'StoreMissing'],
      ] as const) {
        const { phase, conditions } = await ended(place, name);
        assert.deepEqual([phase, conditions?.[0]?.reason], ['Failed', reason], name);
        assert.ok(!JSON.stringify(conditions).includes('not-the-key'), 'no secret is told');
      }
      await waits(place, 'nobody', 'ClusterNotFound');
      await eventually('a Secret that is missing is named', async () => {
        const { status } = (await place.get(seenKinds.etcdsnapshots, 'no-secret')) ?? notYet('it is not there');
        const { reason, message } = status?.conditions?.[0] ?? notYet('no condition');
        if (reason !== 'SnapshotJobWaiting' || !message?.includes('absent')) notYet(`${reason}: ${message}`);
      });

      const refused = await refusal(
        place.kubectl(['patch', 'etcdsnapshot/again', '--type=merge', '-p', '{"spec":{"clusterRef":{"name":"x"}}}']),
      );
      assert.match(refused, /the spec of a snapshot cannot change/);

      // By schedule: the first at once. Then one as the schedule makes them, and retention lets the first go.
      const schedule: EtcdSnapshotSchedule = {
        apiVersion: API_VERSION,
        kind: 'EtcdSnapshotSchedule',
        metadata: { name: 'nightly' },
        spec: {
          clusterRef: { name: 'demo' },
          schedule: '0 3 * * *',
          timeZone: 'Europe/Berlin',
          destination: to(),
          retention: { keepLast: 1 },
        },
      };
      await place.apply(schedule);
      const [first] = await scheduled(place, 1);
      assert.ok(first !== undefined);
      const { artifact } = await ended(place, first);
      await eventually('the schedule knows that there is a good backup', async () => {
        const { status } = (await place.get(seenKinds.etcdsnapshotschedules, 'nightly')) ?? notYet('it is not there');
        const healthy = status?.conditions?.find(({ type }) => type === 'BackupHealthy');
        if (healthy?.status !== 'True') notYet(JSON.stringify(status));
      });
      const second = snapshot('nightly-2', to());
      await place.apply({ ...second, metadata: { name: 'nightly-2', labels: { [SCHEDULE_LABEL]: 'nightly' } } });
      const { retention } = await ended(place, 'nightly-2');
      assert.deepEqual(retention?.removed, [first]);
      assert.equal(retention?.count, 1);
      await eventually('the record of what was removed is gone', async () => {
        if ((await place.get(seenKinds.etcdsnapshots, first)) !== undefined) notYet('it is still there');
      });
      const left = bucket.open();
      assert.equal(await left.find(bucket.keyOf(artifact?.uri)), undefined);
      assert.ok((await left.find(key)) !== undefined, 'what a person asked for stays');
      left.close();

      const slices = await place.list(
        seenKinds.endpointslices,
        `kubernetes.io/service-name in (demo,${clientServiceName('demo')})`,
      );
      const targets = slices.flatMap(({ endpoints }) =>
        (endpoints ?? []).map(({ targetRef }) => targetRef?.name ?? ''),
      );
      assert.ok(targets.length >= 6 && targets.every((name) => name.startsWith('demo-')), targets.join(', '));
    }),
  );
});
