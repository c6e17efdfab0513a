/**
 * Restores of what is most guarded: a cluster of the older minor version with mutual TLS and passwords, by an encrypted
 * snapshot, into claims of other sizes that ask for passwords too, and into one that does not.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { EtcdClusterSpec } from '../../../api/etcdcluster.gen.ts';
import type { EtcdSnapshot } from '../../../api/etcdsnapshot.gen.ts';
import { API_VERSION } from '../../../api/names.ts';
import { bucketIn } from '../bucket.ts';
import { claim, claimIn, condition, membersOf, OLDER_VERSION, quorumIn, ready } from '../claim.ts';
import { eventually, notYet } from '../eventually.ts';
import { passwords as auth, certificatesOf, guards, keySecret, rootSecret } from '../guarded.ts';
import { issuedBy, issuers } from '../issuers.ts';
import { connected, inNamespace, type Place, seenKinds } from '../place.ts';
import { type Flags, secureEtcdctl } from '../secure-client.ts';

const { cluster } = await connected();
const PATIENCE = { deadlineMs: 300_000 };

const issued = issuedBy('clients', 'peers');

/** With its certificates in place. */
const apply = (place: Place, name: string, spec: Partial<EtcdClusterSpec>): Promise<void> =>
  place.apply(...certificatesOf(place, name), claim(name, { tls: guards(name), ...spec }));

const certificates = (name: string): Flags =>
  name === 'three'
    ? { ca: 'three-server-tls', certificate: 'three-consumer-in-use' }
    : { ca: `${name}-server`, certificate: `${name}-client` };

const asRoot = (place: Place, name: string, ...args: readonly string[]): ReturnType<typeof secureEtcdctl> =>
  secureEtcdctl(place, name, { ...certificates(name), rootSecret: 'root' }, ...args);

const authIsOn = (place: Place, name: string): Promise<unknown> =>
  eventually(
    `${name} asks for passwords`,
    async () => (await quorumIn(place, name)).status?.authEnabled === true || notYet('it does not'),
    PATIENCE,
  );

describe('a claim that begins with a snapshot of a cluster with passwords and mutual TLS', {
  skip: cluster.s3 === undefined ? 'needs an S3 server' : false,
}, () => {
  test(
    'has its keys and users with three members and issued certificates, and with one, or says that passwords are in the data; a wrong key restores nothing',
    inNamespace('restore-secured', async (place, t) => {
      const bucket = await bucketIn(cluster, 'e2e-restore-secured');
      const encryption = { keySecretRef: { name: 'keys' } };
      await place.apply(
        bucket.secret('s3'),
        ...issuers('clients'),
        ...issuers('peers'),
        rootSecret('of-the-source'),
        keySecret('keys'),
        keySecret('other-keys'),
      );
      await apply(place, 'source', { replicas: 1, version: OLDER_VERSION, auth });
      await ready(place, 'source', PATIENCE);
      await authIsOn(place, 'source');
      for (const n of [0, 1]) {
        const put = await asRoot(place, 'source', 'put', `key-${n}`, `value-${n}`);
        assert.ok(put.ok, put.text);
      }
      const user = await asRoot(place, 'source', 'user', 'add', 'app:its-password');
      assert.ok(user.ok, user.text);

      const snapshot: EtcdSnapshot = {
        apiVersion: API_VERSION,
        kind: 'EtcdSnapshot',
        metadata: { name: 'guarded' },
        spec: { clusterRef: { name: 'source' }, destination: { s3: bucket.location, encryption } },
      };
      await place.apply(snapshot);
      const taken = await eventually(
        'the snapshot is complete',
        async () => {
          const { status } = (await place.get(seenKinds.etcdsnapshots, 'guarded')) ?? notYet('it is not there');
          return status?.phase === 'Complete' ? status : notYet(JSON.stringify(status?.conditions));
        },
        PATIENCE,
      );
      const key = bucket.keyOf(taken.artifact?.uri);
      assert.match(taken.artifact?.encryptionKeyID ?? '', /^[0-9a-f]{16}$/);
      const objects = bucket.open();
      const stored = Buffer.concat(await Array.fromAsync(objects.read(key)));
      objects.close();
      assert.equal(stored.indexOf('value-1'), -1, 'nothing of it can be read in the bucket');
      await place.kubectl(['delete', 'etcdcluster/source', '--wait=false']);

      const from = (keys: string): Partial<EtcdClusterSpec> => ({
        bootstrap: {
          restore: { source: { s3: { ...bucket.location, key }, encryption: { keySecretRef: { name: keys } } } },
        },
      });
      // With certificates that are issued while its volume is filled.
      await place.apply(claim('three', { auth, tls: issued, ...from('keys') }));
      await apply(place, 'silent', { replicas: 1, ...from('keys') });
      await apply(place, 'wrong', { replicas: 1, auth, ...from('other-keys') });

      const { message } = await condition(
        () => claimIn(place, 'wrong'),
        'Available',
        { status: 'False', reason: 'SnapshotKeyMissing' },
        PATIENCE,
      );
      t.diagnostic(message ?? '');
      assert.ok((message ?? '').includes(taken.artifact?.encryptionKeyID ?? '?'), message);
      assert.ok((await membersOf(place, 'wrong')).every(({ status }) => status?.memberID === undefined));

      await ready(place, 'three', PATIENCE);
      await authIsOn(place, 'three');
      const all = await asRoot(place, 'three', 'get', '--prefix', 'key-');
      assert.deepEqual(all.text.trim().split('\n'), ['key-0', 'value-0', 'key-1', 'value-1']);
      const users = await asRoot(place, 'three', 'user', 'list');
      assert.deepEqual(users.text.trim().split('\n').toSorted(), ['app', 'root']);
      const bare = await secureEtcdctl(place, 'three', certificates('three'), 'get', 'key-0');
      assert.ok(!bare.ok, 'who has no password reads nothing');
      const old = await asRoot(place, 'three', 'get', 'key-0', '--rev', taken.revision ?? '1');
      assert.match(old.text, /compacted/, 'whoever asks for a revision from before is told that it is gone');
      const { restored } = (await quorumIn(place, 'three')).status ?? {};
      assert.ok(BigInt(restored?.revisionAfter ?? '0') > BigInt(taken.revision ?? '0'), JSON.stringify(restored));

      const found = await condition(
        () => claimIn(place, 'silent'),
        'Available',
        { reason: 'AuthRequiredNotConfigured' },
        PATIENCE,
      );
      t.diagnostic(found.message ?? '');
      await place.kubectl(['patch', 'etcdcluster/silent', '--type=merge', '-p', JSON.stringify({ spec: { auth } })]);
      await authIsOn(place, 'silent');
      await ready(place, 'silent', PATIENCE);
      const there = await asRoot(place, 'silent', 'get', 'key-1', '--print-value-only');
      assert.equal(there.text.trim(), 'value-1');
    }),
  );
});
