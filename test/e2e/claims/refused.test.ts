/**
 * Bad input. What can be told from the claim alone is refused at admission; the rest shows as a condition with a reason
 * and a remedy, and correcting the claim is all that is needed to go on.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { EtcdCluster } from '../../../api/etcdcluster.gen.ts';
import type { Reason } from '../../../api/reasons.ts';
import { claim, claimIn, condition, inMemory, ready, said, uidsOf, VERSION, volumesOf } from '../claim.ts';
import { oneCluster } from '../identity.ts';
import { inNamespace, type Place, refusal, seenKinds } from '../place.ts';

/** A claim that must be refused, and the words that say what to do. */
const REFUSED: readonly (readonly [string, EtcdCluster, RegExp])[] = [
  ['a name of 46 characters', claim('a'.repeat(46)), /metadata\.name.*45/s],
  ['a name that begins with a digit', claim('3etcd'), /must begin with a letter/],
  ['replicas below zero', claim('demo', { replicas: -1 }), /spec\.replicas/],
  ['a hundred replicas', claim('demo', { replicas: 100 }), /spec\.replicas/],
  ['memory with zero replicas', claim('demo', { replicas: 0, storage: inMemory }), /spec\.replicas.*Memory/s],
  ['a version with a v', claim('demo', { version: 'v3.6.16' }), /spec\.version/],
  ['a version of two numbers', claim('demo', { version: '3.6' }), /spec\.version/],
  ['a medium that does not exist', claim('demo', { storage: { medium: 'Disk' as 'Memory' } }), /medium/],
  ['a size of zero', claim('demo', { storage: { size: '0' } }), /spec\.storage\.size.*> 0/s],
];

describe('the API server refuses', () => {
  test(
    'a claim that cannot be, with the words to correct it',
    inNamespace('refused', async (place) => {
      for (const [what, wrong, words] of REFUSED) {
        assert.match(await refusal(place.apply(wrong)), words, what);
      }
      assert.deepEqual(await place.list(seenKinds.etcdclusters), [], 'nothing came into being');
    }),
  );

  test(
    'a change that would cost data, and the cluster runs on as it was',
    inNamespace('immutable', async (place) => {
      const right = claim('demo', { replicas: 1, storage: { size: '2Gi' } });
      await place.apply(right);
      await ready(place, 'demo');
      const before = await oneCluster(place, 'demo', 1);
      const volumes = uidsOf(await volumesOf(place, 'demo'));
      const changed = (storage: EtcdCluster['spec']['storage']): Promise<string> =>
        refusal(place.apply(claim('demo', { replicas: 1, ...(storage === undefined ? {} : { storage }) })));
      assert.match(await changed({ size: '1Gi' }), /spec\.storage\.size/);
      assert.match(await changed({ size: '2Gi', medium: 'Memory' }), /medium/);
      assert.match(await changed({ size: '2Gi', storageClassName: 'other' }), /storageClassName/);
      await ready(place, 'demo');
      assert.deepEqual(await oneCluster(place, 'demo', 1), before);
      assert.deepEqual(uidsOf(await volumesOf(place, 'demo')), volumes);
    }),
  );
});

/** Applies what cannot come up, waits for the reason in member and claim, corrects it, and waits for the cluster. */
const recovers = async (
  place: Place,
  wrong: EtcdCluster,
  right: EtcdCluster,
  wanted: { readonly reason: Reason | readonly Reason[]; readonly words: RegExp; readonly remedy?: RegExp },
  tell: (line: string) => void,
): Promise<void> => {
  await place.apply(wrong);
  const { type, reason, message } = await condition(() => claimIn(place, 'demo'), 'Available', {
    status: 'False',
    reason: wanted.reason,
    words: wanted.words,
  });
  tell(`${type}=False ${reason}: ${message}`);
  if (wanted.remedy !== undefined) assert.match(message ?? '', wanted.remedy);
  await place.apply(right);
  const { metadata } = await ready(place, 'demo', { deadlineMs: 120_000 });
  assert.equal(metadata.deletionTimestamp, undefined);
  await oneCluster(place, 'demo', right.spec.replicas ?? 3);
};

describe('a condition tells, and the corrected claim comes up without another action, when', () => {
  test(
    'no image exists for the version',
    inNamespace('image', (place, t) =>
      recovers(
        place,
        claim('demo', { version: '3.6.99' }),
        claim('demo'),
        { reason: 'ImagePullFailed', words: /3\.6\.99/ },
        (line) => t.diagnostic(line),
      ),
    ),
  );

  test(
    'no node takes the members',
    inNamespace('unsched', (place, t) =>
      recovers(
        place,
        claim('demo', { nodeSelector: { 'example.com/disk': 'none-such' } }),
        claim('demo'),
        { reason: 'Unschedulable', words: /node/ },
        (line) => t.diagnostic(line),
      ),
    ),
  );

  test(
    'etcd does not take the options, in its own last words',
    inNamespace('options', (place, t) =>
      recovers(
        place,
        // Each alone is a duration that the schema lets through; etcd knows better than any schema of ours what it takes.
        claim('demo', { options: { autoCompactionMode: 'periodic', autoCompactionRetention: '9999999999999h' } }),
        claim('demo', { options: { autoCompactionMode: 'periodic', autoCompactionRetention: '1h' } }),
        { reason: 'OptionsRefused', words: /CompactionRetention.*9999999999999h/ },
        (line) => t.diagnostic(line),
      ),
    ),
  );

  test(
    'the version is one that the runtime has no configuration for',
    inNamespace('version', (place, t) =>
      recovers(
        place,
        claim('demo', { version: '2.3.8' }),
        claim('demo', { version: VERSION }),
        { reason: 'VersionUnsupported', words: /2\.3\.8/ },
        (line) => t.diagnostic(line),
      ),
    ),
  );

  test(
    'the volumes cannot be made: the class cannot change, so the claim is made anew',
    inNamespace('class', async (place, t) => {
      await place.apply(claim('demo', { storage: { size: '1Gi', storageClassName: 'none-such' } }));
      const { reason, message } = await condition(() => claimIn(place, 'demo'), 'Available', {
        status: 'False',
        reason: 'VolumeNotProvisioned',
        words: /none-such/,
      });
      t.diagnostic(`Available=False ${reason}: ${message}`);
      await place.kubectl(['delete', 'etcdcluster', 'demo', '--timeout=60s'], { timeoutMs: 70_000 });
      await place.apply(claim('demo'));
      await ready(place, 'demo', { deadlineMs: 120_000 });
    }),
  );

  test(
    'a quota of the namespace is in the way: lifting it is enough',
    inNamespace('quota', async (place, t) => {
      await place.kubectl(['create', 'quota', 'narrow', '--hard=pods=1']);
      await place.apply(claim('demo'));
      const { reason, message } = await condition(() => claimIn(place, 'demo'), 'Available', {
        status: 'False',
        reason: 'PodRefused',
        words: /quota/,
      });
      t.diagnostic(`Available=False ${reason}: ${message}`);
      assert.match(said(await claimIn(place, 'demo'), 'Degraded'), /^Degraded=True PodRefused/);
      await place.kubectl(['delete', 'quota', 'narrow']);
      await ready(place, 'demo', { deadlineMs: 120_000 });
      await oneCluster(place, 'demo', 3);
    }),
  );
});
