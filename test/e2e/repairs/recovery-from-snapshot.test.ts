/**
 * A member survives that is older than the newest snapshot; then every volume is lost. Each time the cluster goes back to a
 * snapshot by the line that its condition prints: what was in it is there, at revisions that nobody has seen, an old watch is
 * told that it missed something, and the status says what is lost.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { parse } from 'yaml';
import type { EtcdSnapshot, EtcdSnapshotStatus } from '../../../api/etcdsnapshot.gen.ts';
import { API_VERSION, LABELS } from '../../../api/names.ts';
import { type Bucket, bucketIn } from '../bucket.ts';
import { claim, claimIn, condition, inMemory, podOf, podsOf, quorumIn, ready, volumesOf } from '../claim.ts';
import { put, read, watchFrom } from '../client.ts';
import { eventually, notYet } from '../eventually.ts';
import { certificatesOf, guarded, guards, heldBy, keySecret, passwords, rootSecret } from '../guarded.ts';
import { oneCluster, reachable, selfOf } from '../identity.ts';
import { connected, inNamespace, type Place, seenKinds } from '../place.ts';
import { killEtcd, signalEtcd } from '../volume.ts';

const { cluster } = await connected();

const keys = (from: number, to: number): string[] =>
  Array.from({ length: to - from }, (_, n) => `written/${String(from + n).padStart(4, '0')}`);

const oneOf = async (place: Place): Promise<{ name: string; ip: string }> =>
  reachable(await podsOf(place, 'demo'))[0] ?? notYet('no Pod has an address');

const write = async (place: Place, from: number, to: number): Promise<bigint> => {
  const pod = await oneOf(place);
  for (const key of keys(from, to)) await put(place, pod, key, `value of ${key}`);
  return (await selfOf(place, pod)).revision;
};

const snapshotsIn =
  (bucket: Bucket, place: Place) =>
  (name: string): EtcdSnapshot => ({
    apiVersion: API_VERSION,
    kind: 'EtcdSnapshot',
    metadata: { name },
    spec: { clusterRef: { name: 'demo' }, destination: { s3: { ...bucket.location, key: place.namespace } } },
  });

const stored = (place: Place, name: string): Promise<EtcdSnapshotStatus> =>
  eventually(
    `snapshot ${name} is stored`,
    async () => {
      const { status } = (await place.get(seenKinds.etcdsnapshots, name)) ?? notYet('it is not there');
      return status?.phase === 'Complete' ? status : notYet(JSON.stringify(status?.conditions));
    },
    { deadlineMs: 120_000 },
  );

const consent = (place: Place, spec: unknown): Promise<string> =>
  place.kubectl([
    'patch',
    'etcdclusters.etcd-operator.cozystack.io',
    'demo',
    '--type=merge',
    '-p',
    JSON.stringify({ spec }),
  ]);

const destroy = async (place: Place, members: readonly string[]): Promise<void> => {
  const names = (await Promise.all(members.map((member) => podOf(place, member)))).map(({ metadata }) => metadata.name);
  await place.kubectl(['delete', 'pvc', ...names, '--wait=false']);
  await place.kubectl(['delete', 'pod', ...names, '--grace-period=0', '--force']);
};

/** Another cluster than the one that was lost. */
const serving = (place: Place, lostID: string): Promise<void> =>
  eventually(
    'a recovered cluster serves',
    async () => {
      const { status } = await claimIn(place, 'demo');
      if (status?.clusterID === lostID || (status?.readyMembers ?? 0) === 0) notYet(JSON.stringify(status));
    },
    { deadlineMs: 240_000 },
  );

/** The line as it stands in the condition, to be put into the claim as it is. */
const lineIn = (message: string): unknown =>
  parse(/recovery: \{[^}]*\}/.exec(message)?.[0] ?? assert.fail(`no line to copy in: ${message}`));

const skip = !cluster.local
  ? 'needs the nodes of the local cluster'
  : cluster.s3 === undefined
    ? 'needs an S3 server'
    : false;

describe('a cluster that is lost', { skip }, () => {
  test(
    'goes back to a snapshot that goes further than the survivor, and when everything is lost to the last one, and says what that lost',
    inNamespace('from-snapshot', async (place, t) => {
      const bucket = await bucketIn(cluster, 'e2e-recovery');
      const snapshot = snapshotsIn(bucket, place);
      await place.apply(bucket.secret('s3'), claim('demo'));
      await ready(place, 'demo', { deadlineMs: 180_000 });
      const before = await oneCluster(place, 'demo', 3);
      await write(place, 0, 30);

      // A member hangs while the others go on: it survives, and the snapshot goes further than its data.
      let first: EtcdSnapshotStatus | undefined;
      const { leader } = (await claimIn(place, 'demo')).status ?? {};
      // Not the leader: the others would stand without one for a while, and refuse to be written to.
      const [survivor = '', ...fallen] = ['demo-2', 'demo-1', 'demo-0'].sort(
        (a, b) => Number(a === leader) - Number(b === leader),
      );
      const older = await podOf(place, survivor);
      const startsOf = async (): Promise<number | undefined> =>
        (await podOf(place, survivor)).status?.containerStatuses?.[0]?.restartCount;
      for (let attempt = 1; first === undefined && attempt <= 3; attempt += 1) {
        const starts = await startsOf();
        await signalEtcd(older.metadata, 'SIGSTOP');
        const [writable] = reachable(await Promise.all(fallen.map((member) => podOf(place, member))));
        await put(place, writable ?? assert.fail('no other member has an address'), 'last', 'written');
        await place.apply(snapshot(`first-${attempt}`));
        const taken = await stored(place, `first-${attempt}`);
        // The kubelet has started it anew meanwhile, and it has caught up.
        if ((await startsOf()) !== starts) continue;
        first = taken;
        const others = await Promise.all(fallen.map((member) => podOf(place, member)));
        await destroy(place, fallen);
        // Their Pods are gone at once, etcd in them only later, and while it ends it still speaks to its peers: the survivor would catch up.
        const ended = ({ metadata }: (typeof others)[number]): Promise<boolean> =>
          killEtcd(metadata).then(
            () => false,
            () => true,
          );
        await eventually('the others have ended', async () => {
          if (!(await Promise.all(others.map(ended))).every(Boolean)) notYet('one had to be killed');
        });
      }
      assert.ok(first !== undefined, `a snapshot that goes further than ${survivor}`);
      // Not let go on: what the others had sent lies in its sockets and would be read.
      await killEtcd(older.metadata);
      const further = await condition(
        () => claimIn(place, 'demo'),
        'Available',
        {
          status: 'False',
          reason: 'QuorumLost',
          words: new RegExp(`survivors: ${survivor} .*the snapshot goes further`),
        },
        { deadlineMs: 120_000 },
      );
      t.diagnostic(`Available: ${further.message}`);
      assert.equal((await quorumIn(place, 'demo')).status?.furthest?.kind, 'Snapshot');
      // Smaller in the same edit: what follows is quicker with one member.
      const line = lineIn(further.message ?? '') as object;
      const edited = performance.now();
      await consent(place, { ...line, replicas: 1 });
      await serving(place, before.clusterID);
      t.diagnostic(`serving again ${Math.round(performance.now() - edited)} ms after the edit`);
      await ready(place, 'demo', { deadlineMs: 240_000 });
      const between = await oneCluster(place, 'demo', 1);
      assert.equal(await read(place, await oneOf(place), 'last'), 'written', 'only the snapshot had it');
      await eventually(
        'the volumes of the lost cluster are gone',
        async () => assert.equal((await volumesOf(place, 'demo')).length, 1),
        { deadlineMs: 120_000 },
      );

      await write(place, 30, 40);
      await place.apply(snapshot('second'));
      const second = await stored(place, 'second');
      const seen = await write(place, 40, 50);
      await destroy(place, [(await podsOf(place, 'demo'))[0]?.metadata.labels?.[LABELS.member] ?? '']);
      const lost = await condition(
        () => claimIn(place, 'demo'),
        'Available',
        { status: 'False', reason: 'AllDataLost', words: /newest snapshot: second at revision/ },
        { deadlineMs: 120_000 },
      );
      t.diagnostic(`Available: ${lost.message}`);
      const told = (await quorumIn(place, 'demo')).status;
      assert.deepEqual(told?.furthest, { kind: 'Snapshot', name: 'second', revision: second.revision });

      // One bit: refused before anything was made of it, and in words of its own.
      const objects = bucket.open();
      const key = bucket.keyOf(second.artifact?.uri);
      const bytes = Buffer.concat(await Array.fromAsync(objects.read(key)));
      const owner = (await objects.find(key))?.owner ?? '';
      async function* one(content: Uint8Array): AsyncGenerator<Uint8Array> {
        yield content;
      }
      const flipped = Buffer.from(bytes);
      flipped[9_000] = (flipped[9_000] ?? 0) ^ 1;
      await objects.put(key, one(flipped), { owner });
      await consent(place, lineIn(lost.message ?? ''));
      const refused = await condition(
        () => claimIn(place, 'demo'),
        'Progressing',
        { reason: 'SnapshotDamaged' },
        { deadlineMs: 120_000 },
      );
      t.diagnostic(`Progressing: ${refused.message}`);
      assert.equal((await quorumIn(place, 'demo')).status?.clusterID, between.clusterID, 'nothing was given up');
      await objects.put(key, one(bytes), { owner });
      objects.close();
      // What was found to be damaged is not read again soon by itself.
      const [seed] = (await podsOf(place, 'demo')).filter(({ metadata }) => metadata.name.endsWith('-seed'));
      await place.kubectl(['delete', 'pod', seed?.metadata.name ?? assert.fail('no seeding Pod'), '--wait=false']);

      await serving(place, between.clusterID);
      const pod = await oneOf(place);
      for (const name of keys(0, 40)) assert.equal(await read(place, pod, name), `value of ${name}`, name);
      assert.equal(await read(place, pod, 'written/0045'), undefined, 'what came after the snapshot is lost');
      assert.ok((await selfOf(place, pod)).revision > seen + 999_999_999n, 'no revision is given out twice');
      assert.match(await watchFrom(pod, seen), /"compact_revision":"\d{10}"/, 'an old watch is told');
      const { recovered = [] } = (await quorumIn(place, 'demo')).status ?? {};
      assert.deepEqual(
        recovered.map(({ etcdSnapshot, uri }) => [etcdSnapshot?.replace(/-.*/, ''), uri]),
        [
          ['first', first.artifact?.uri],
          ['second', second.artifact?.uri],
        ],
      );
      const { lost: gone } = recovered[1] ?? {};
      assert.equal(gone?.fromRevision, String(BigInt(second.revision ?? '0') + 1n));
      assert.ok(gone?.since !== undefined && gone.until !== undefined, JSON.stringify(gone));
      await eventually('the claim tells what was lost', async () => {
        const { lastRecovery = '' } = (await claimIn(place, 'demo')).status ?? {};
        assert.match(lastRecovery, /went on from snapshot second at revision .* lost/);
        t.diagnostic(`lastRecovery: ${lastRecovery}`);
      });
      await eventually('an event tells what was lost', async () => {
        const events = await place.list(seenKinds.events);
        const said = events.filter(({ message = '' }) => message.startsWith('the recovered cluster is'));
        if (said.length < 2) notYet(`${said.length} of ${events.length} events`);
        assert.ok(said.every(({ message = '' }) => message.includes('lost')));
      });
    }),
  );

  test(
    "with mutual TLS and passwords comes back in memory from an encrypted snapshot, and root's password is that of the Secret",
    inNamespace('memory-from-snapshot', async (place, t) => {
      const bucket = await bucketIn(cluster, 'e2e-recovery');
      const snapshot = snapshotsIn(bucket, place)('first');
      snapshot.spec.destination.encryption = { keySecretRef: { name: 'keys' } };
      const spec = { replicas: 1, storage: inMemory, tls: guards('demo'), auth: passwords };
      await place.apply(
        bucket.secret('s3'),
        keySecret('keys'),
        rootSecret('of then'),
        ...certificatesOf(place, 'demo'),
      );
      await place.apply(claim('demo', spec));
      const demo = guarded(place, 'demo', { deadlineMs: 240_000 });
      await demo.asks();
      const before = await demo.one('of then', 1);
      await demo.asRoot('of then', async (root) => {
        for (const key of keys(0, 10)) await root.put(key, `value of ${key}`);
      });
      await place.apply(snapshot);
      await stored(place, 'first');
      // What is stored has the password of then.
      await place.apply(rootSecret('of now'));
      await demo.takes('of now', 'of then');
      const { revision } = await demo.one('of now', 1);
      await place.kubectl(['delete', 'pod', (await podOf(place, 'demo-0')).metadata.name, '--wait=false']);
      const { message = '' } = await condition(
        () => claimIn(place, 'demo'),
        'Available',
        {
          status: 'False',
          reason: ['AllDataLost', 'QuorumLost'],
          words: /newest snapshot: first at revision .*recovery: \{/,
        },
        { deadlineMs: 120_000 },
      );
      const edited = performance.now();
      await consent(place, lineIn(message));
      await serving(place, before.clusterID);
      t.diagnostic(`serving again ${Math.round(performance.now() - edited)} ms after the edit`);
      await demo.takes('of now', 'of then');
      await demo.asRoot('of now', async (root) => {
        for (const name of keys(0, 10)) assert.equal(await heldBy(root, name), `value of ${name}`, name);
      });
      const after = await demo.one('of now', 1);
      assert.ok(after.revision > revision + 999_999_999n, 'no revision is given out twice');
    }),
  );
});
