/** Backups that prove themselves: from the claim of examples/ to a bit that flips where the snapshot lies. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import type { Pod } from 'kubernetes-types/core/v1.js';
import { parseAllDocuments } from 'yaml';
import type { EtcdCluster } from '../../../api/etcdcluster.gen.ts';
import type { EtcdSnapshot } from '../../../api/etcdsnapshot.gen.ts';
import { ANNOTATIONS, clientServiceName } from '../../../api/names.ts';
import { SNAPSHOT_LABEL } from '../../../runtime/core/snapshots/agent-job.ts';
import { proofJobName } from '../../../runtime/core/snapshots/proof-job.ts';
import { SCHEDULE_LABEL } from '../../../runtime/core/snapshots/snapshot-job.ts';
import type { Stored } from '../../../runtime/ports/kube.ts';
import { type Bucket, bucketIn } from '../bucket.ts';
import { conditionOf, podOf, ready } from '../claim.ts';
import { put } from '../client.ts';
import { eventually, notYet } from '../eventually.ts';
import { reachable } from '../identity.ts';
import { connected, inNamespace, type Place, seenKinds } from '../place.ts';

const { cluster } = await connected();
const example = join(import.meta.dirname, '../../../examples/backup.yaml');
const NAME = 'backed-up';
/** For what Kubernetes, the store and etcd do on a machine that has other things to do. */
const THEIRS = { deadlineMs: 300_000 };

const proofOf = (place: Place, name: string, request: string) =>
  eventually(
    `the proof of ${name} that ${request} asked for has ended`,
    async () => {
      const { status } = (await place.get(seenKinds.etcdsnapshots, name)) ?? notYet('the snapshot is not there');
      const proven = status?.conditions?.find(({ type }) => type === 'Proven');
      if (status?.proof?.request !== request) notYet(`${proven?.reason}: ${proven?.message}`);
      return status?.proof ?? notYet('no proof');
    },
    THEIRS,
  );

/** As its owner sees it. */
const health = (place: Place, status: string, reason: string): Promise<string> =>
  eventually(
    `the claim's BackupHealthy is ${status} for ${reason}`,
    async () => {
      const claim = await place.get(seenKinds.etcdclusters, NAME);
      const condition = claim?.status?.conditions?.find(({ type }) => type === 'BackupHealthy');
      if (condition?.status !== status || condition.reason !== reason) notYet(JSON.stringify(condition));
      return condition?.message ?? '';
    },
    THEIRS,
  );

/** One bit of the stored object, where it lies; the manifest stays as it was. */
const flipBit = async (bucket: Bucket, snapshot: Stored<EtcdSnapshot>): Promise<void> => {
  const store = bucket.open();
  const key = bucket.keyOf(snapshot.status?.artifact?.uri);
  const bytes = Buffer.concat(await Array.fromAsync(store.read(key)));
  const at = Math.floor(bytes.length / 3);
  bytes[at] = (bytes[at] ?? 0) ^ 16;
  async function* altered(): AsyncGenerator<Uint8Array> {
    yield bytes;
  }
  await store.put(key, altered(), { owner: snapshot.metadata.uid });
  store.close();
};

/** The claim of the example, with the test's store in place of the one that the reader has to fill in. */
const exampleIn = async (bucket: Bucket): Promise<EtcdCluster> => {
  const documents = parseAllDocuments(await readFile(example, 'utf8')).map(
    (document) => document.toJS() as EtcdCluster,
  );
  const claim = documents.find(({ kind }) => kind === 'EtcdCluster');
  assert.ok(claim?.spec.backup?.proof !== undefined, 'the example asks for proofs');
  return { ...claim, spec: { ...claim.spec, backup: { ...claim.spec.backup, destination: { s3: bucket.location } } } };
};

const snapshotsOf = (place: Place): Promise<Stored<EtcdSnapshot>[]> =>
  place.list(seenKinds.etcdsnapshots, `${SCHEDULE_LABEL}=${NAME}`);

const traces = async (place: Place, snapshot: string): Promise<string[]> => {
  const [jobs, pods, volumes] = await Promise.all([
    place.list(seenKinds.jobs),
    place.list(seenKinds.pods, `${SNAPSHOT_LABEL}=${snapshot}`),
    place.list(seenKinds.persistentvolumeclaims),
  ]);
  const job = proofJobName(snapshot);
  return [...jobs, ...pods, ...volumes].map(({ metadata }) => metadata.name).filter((name) => name.startsWith(job));
};

describe('backups of a claim', { skip: cluster.s3 === undefined ? 'needs an S3 server' : false }, () => {
  test(
    'begin within a minute, are proven by restoring them, and say when one bit has changed',
    inNamespace('proof', async (place, t) => {
      const bucket = await bucketIn(cluster, 'e2e-proofs');
      await place.apply(bucket.secret('s3'), await exampleIn(bucket));
      const claim = await ready(place, NAME, THEIRS);
      const served = Date.parse(conditionOf(claim, 'Available')?.lastTransitionTime ?? '');

      const first = await eventually(
        'the first snapshot is complete',
        async () => {
          const [made] = await snapshotsOf(place);
          if (made?.status?.phase !== 'Complete') notYet(JSON.stringify(made?.status));
          return made ?? notYet('there is none');
        },
        THEIRS,
      );
      const after = Date.parse(first.status?.completionTime ?? '') - served;
      t.diagnostic(`the first verified snapshot is there ${after} ms after the cluster serves`);
      assert.ok(after < 60_000, `${after} ms`);

      // While it runs it is nobody's endpoint, and asks nothing of Kubernetes.
      const name = first.metadata.name;
      const pod = await eventually(
        'the Pod of the proof has begun',
        async () => {
          const pods = await place.list(seenKinds.pods, `${SNAPSHOT_LABEL}=${name}`);
          const found: Stored<Pod> | undefined = pods.find(({ metadata }) =>
            metadata.name.startsWith(proofJobName(name)),
          );
          return found ?? notYet('it is not there');
        },
        THEIRS,
      );
      assert.equal(pod.spec?.automountServiceAccountToken, false);
      const slices = await place.list(
        seenKinds.endpointslices,
        `kubernetes.io/service-name in (${NAME},${clientServiceName(NAME)})`,
      );
      const targets = slices.flatMap(({ endpoints }) => (endpoints ?? []).map(({ targetRef }) => targetRef?.name));
      assert.ok(targets.length >= 6 && !targets.includes(pod.metadata.name), targets.join(', '));

      const passed = await proofOf(place, name, 'schedule');
      assert.deepEqual([passed.result, passed.reason], ['Passed', 'ProofPassed'], passed.message);
      assert.deepEqual(passed.compared, ['sha256', 'revision', 'keys', 'hashKv']);
      t.diagnostic(`proven in ${Date.parse(passed.time) - Date.parse(passed.startTime ?? '')} ms`);
      await health(place, 'True', 'BackupFresh');
      await eventually(
        'nothing is left of the proof',
        async () => {
          const left = await traces(place, name);
          if (left.length > 0) notYet(left.join(', '));
        },
        THEIRS,
      );

      await flipBit(bucket, first);
      await place.kubectl(['annotate', 'etcdsnapshot', name, `${ANNOTATIONS.prove}=by hand`, '--overwrite']);
      const failed = await proofOf(place, name, 'by hand');
      assert.deepEqual([failed.result, failed.reason], ['Failed', 'SnapshotDamaged'], failed.message);
      assert.match(
        await health(place, 'False', 'ProofFailed'),
        new RegExp(`^${name}: SnapshotDamaged: s3://e2e-proofs/`),
      );
      const events = await place.kubectl(['get', 'events', '-o', 'jsonpath={.items[*].reason}']);
      for (const reason of ['ProofPassed', 'SnapshotDamaged', 'ProofFailed'])
        assert.ok(events.includes(reason), events);
      const backups = (await place.get(seenKinds.etcdclusters, NAME))?.status?.backups;
      assert.equal(backups?.lastProofResult, 'Failed', JSON.stringify(backups));
      assert.equal(backups?.lastProvenTime, passed.time, 'when there was a good one for the last time stays');

      // A good one after it. With keys in it, since the first may have none.
      const [member] = reachable([await podOf(place, `${NAME}-0`)]);
      assert.ok(member !== undefined);
      for (let key = 0; key < 5; key += 1) await put(place, member, `key-${key}`, 'value');
      const { metadata: _, status: __, ...like } = first;
      await place.apply({
        ...like,
        metadata: {
          name: `${NAME}-good`,
          labels: first.metadata.labels ?? {},
          annotations: { [ANNOTATIONS.prove]: 'at once' },
        },
      });
      const good = await proofOf(place, `${NAME}-good`, 'at once');
      assert.deepEqual([good.result, good.keys], ['Passed', '5'], good.message);
      assert.match(await health(place, 'True', 'BackupFresh'), new RegExp(`${NAME}-good was proven at`));
    }),
  );
});
