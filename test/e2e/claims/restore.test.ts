/** A claim that begins with a snapshot: all of it is there again, under revisions that nobody has seen before. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { EtcdSnapshot } from '../../../api/etcdsnapshot.gen.ts';
import { API_VERSION } from '../../../api/names.ts';
import { bucketIn } from '../bucket.ts';
import {
  claim,
  claimIn,
  condition,
  membersOf,
  OLDER_VERSION,
  podOf,
  podsOf,
  quorumIn,
  ready,
  volumesOf,
} from '../claim.ts';
import { put, read } from '../client.ts';
import { eventually, notYet } from '../eventually.ts';
import { askMember, oneCluster, reachable } from '../identity.ts';
import { connected, inNamespace, seenKinds } from '../place.ts';

const { cluster } = await connected();

describe('a claim with spec.bootstrap.restore', {
  skip: cluster.s3 === undefined ? 'needs an S3 server' : false,
}, () => {
  test(
    'has every key of the snapshot on every member, and refuses a snapshot in which one bit was changed',
    inNamespace('restore', async (place, t) => {
      const bucket = await bucketIn(cluster, 'e2e-restore');
      const s3 = bucket.location;
      const snapshot: EtcdSnapshot = {
        apiVersion: API_VERSION,
        kind: 'EtcdSnapshot',
        metadata: { name: 'last' },
        spec: { clusterRef: { name: 'source' }, destination: { s3 } },
      };
      // From the older minor version into the newer one.
      await place.apply(bucket.secret('s3'), claim('source', { replicas: 1, version: OLDER_VERSION }));
      await ready(place, 'source');
      const [member] = reachable([await podOf(place, 'source-0')]);
      assert.ok(member !== undefined);
      const keys = Array.from({ length: 25 }, (_, n) => `key-${n}`);
      for (const key of keys) await put(place, member, key, `value of ${key}`);
      await place.apply(snapshot);
      const taken = await eventually('the snapshot is complete', async () => {
        const { status } = (await place.get(seenKinds.etcdsnapshots, 'last')) ?? notYet('it is not there');
        return status?.phase === 'Complete' ? status : notYet(JSON.stringify(status?.conditions));
      });
      const key = bucket.keyOf(taken.artifact?.uri);

      const objects = bucket.open();
      const bytes = Buffer.concat(await Array.fromAsync(objects.read(key)));
      const manifest = Buffer.concat(await Array.fromAsync(objects.read(`${key}.manifest.json`)));
      async function* one(content: Uint8Array): AsyncGenerator<Uint8Array> {
        yield content;
      }
      bytes[9_000] = (bytes[9_000] ?? 0) ^ 1;
      await objects.put('altered.db', one(bytes), { owner: 'e2e' });
      await objects.put('altered.db.manifest.json', one(manifest), { owner: 'e2e' });
      objects.close();

      await place.apply(
        claim('copy', { replicas: 5, bootstrap: { restore: { source: { s3: { ...s3, key } } } } }),
        claim('altered', { bootstrap: { restore: { source: { s3: { ...s3, key: 'altered.db' } } } } }),
      );
      const { message } = await condition(() => claimIn(place, 'altered'), 'Available', {
        status: 'False',
        reason: 'SnapshotDamaged',
      });
      t.diagnostic(message ?? '');
      assert.match(message ?? '', /altered/);

      await ready(place, 'copy', { deadlineMs: 180_000 });
      await oneCluster(place, 'copy', 5);
      const pods = reachable(await podsOf(place, 'copy'));
      for (const pod of pods) {
        for (const name of keys)
          assert.equal(await read(place, pod, name), `value of ${name}`, `${name} on ${pod.name}`);
      }
      const { restored } = (await quorumIn(place, 'copy')).status ?? {};
      assert.equal(restored?.uri, taken.artifact?.uri);
      assert.ok(
        BigInt(restored?.revisionAfter ?? '0') > BigInt(taken.revision ?? '0') + 1_000_000n,
        JSON.stringify(restored),
      );
      const [pod] = pods;
      assert.ok(pod !== undefined);
      await assert.rejects(
        askMember(place, pod, '/v3/kv/range', {
          key: Buffer.from('key-1').toString('base64'),
          revision: taken.revision,
        }),
        /compacted/,
        'whoever asks for a revision from before is told that it is gone',
      );

      assert.equal((await podsOf(place, 'altered')).filter(({ status }) => status?.phase === 'Running').length, 0);
      assert.ok((await volumesOf(place, 'altered')).length <= 1, 'no half cluster');
      assert.ok((await membersOf(place, 'altered')).every(({ status }) => status?.memberID === undefined));
    }),
  );
});
