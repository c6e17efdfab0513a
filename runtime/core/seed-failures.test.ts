import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { seedFailure } from './seed-failures.ts';

describe('why a volume could not be filled', () => {
  test('is told in the word that the agent began with, so that each cause has its own answer', () => {
    for (const [words, reason] of [
      ['fetch ended with 1: NotFound: restore s3://b/k: there is no such object', 'SnapshotMissing'],
      ['fetch ended with 1: BucketMissing: restore s3://b/k: The bucket is not there', 'StoreMissing'],
      ['fetch ended with 1: AccessDenied: find s3://b/k: no', 'StoreAccessDenied'],
      ['fetch ended with 1: Unavailable: find s3://b/k: SlowDown', 'StoreUnreachable'],
      ['fetch ended with 1: SnapshotDamaged: s3://b/k has SHA-256 …', 'SnapshotDamaged'],
      ['fetch ended with 1: SnapshotTooNew: s3://b/k was taken from etcd 3.7.1', 'SnapshotTooNew'],
      ['fetch ended with 1: SnapshotKeyMissing: s3://b/k is encrypted with key 1f', 'SnapshotKeyMissing'],
      ['fetch ended with 1: SnapshotNotEncrypted: s3://b/k: it is not encrypted', 'SnapshotNotEncrypted'],
      ['fetch ended with 1: ENOSPC: no space left on device, write', 'VolumeFull'],
      ['fetch ended with 1: SnapshotKeyUnusable: the Secret keys holds none', 'SnapshotKeyUnusable'],
      ['fetch ended with 1: VolumeTooSmall: the new volume has 1 bytes free', 'VolumeFull'],
      ['restore ended with 137: OOMKilled: it needed more memory than 256Mi', 'OutOfMemory'],
      ['fetch: CreateContainerConfigError: secret "keys" not found', 'SecretMissing'],
      [
        "fetch: CreateContainerConfigError: couldn't find key AWS_SECRET_ACCESS_KEY in Secret team-a/keys",
        'SecretMissing',
      ],
      ['0/3 nodes are available: persistentvolumeclaim "backups" not found.', 'StoreMissing'],
    ] as const) {
      assert.equal(seedFailure(words), reason, words);
    }
  });

  test('is told in general where nobody gave it a name, whatever stands in the message', () => {
    for (const words of [
      undefined,
      'copy ended with 1: no database of etcd',
      'restore ended with 1: NotFound',
      'fetch ended with 137: OOMKilled: it needed more memory than 512Mi',
      'broken',
    ]) {
      assert.equal(seedFailure(words), 'SeedingFailed', words);
    }
  });
});
