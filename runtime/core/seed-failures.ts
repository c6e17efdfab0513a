/** Why a volume could not be filled, in one word, from the last words of the Pod that was to fill it. */
import type { Reason } from '../../api/reasons.ts';

/** What the agent puts before its message. The first are those of a store. */
const SAID: Readonly<Record<string, Reason>> = {
  NotFound: 'SnapshotMissing',
  BucketMissing: 'StoreMissing',
  AccessDenied: 'StoreAccessDenied',
  ClockSkew: 'StoreClockSkew',
  Unreachable: 'StoreUnreachable',
  Unavailable: 'StoreUnreachable',
  Refused: 'StoreRefused',
  SnapshotDamaged: 'SnapshotDamaged',
  SnapshotTooNew: 'SnapshotTooNew',
  SnapshotKeyMissing: 'SnapshotKeyMissing',
  SnapshotNotEncrypted: 'SnapshotNotEncrypted',
  SnapshotKeyUnusable: 'SnapshotKeyUnusable',
  SnapshotNotOpened: 'SnapshotNotOpened',
  AuthCredentialsRejected: 'AuthCredentialsRejected',
  AuthRequiredNotConfigured: 'AuthRequiredNotConfigured',
  VolumeTooSmall: 'VolumeFull',
  // Of the new volume, on which it works: a store is only read.
  ENOSPC: 'VolumeFull',
};

/** `step ended with 1: Word: …`, as it is read off the Pod. */
const word = (trouble: string): string | undefined => /^\S+ ended with \d+: ([A-Za-z]+): /.exec(trouble)?.[1];

export const seedFailure = (trouble: string | undefined): Reason => {
  if (trouble === undefined) return 'SeedingFailed';
  const said = SAID[word(trouble) ?? ''];
  if (said !== undefined) return said;
  // Steps that run etcd's own programs have the limit that the claim gives etcd; the agent's is nobody's to raise.
  if (/^(unpack|opened|survivor|restore) ended with \d+: OOMKilled: /.test(trouble)) return 'OutOfMemory';
  // The kubelet's and the scheduler's words where what the Pod needs is not there.
  if (/secret "[^"]+" not found|couldn't find key .* in Secret/.test(trouble)) return 'SecretMissing';
  return /persistentvolumeclaim "[^"]+" not found/.test(trouble) ? 'StoreMissing' : 'SeedingFailed';
};
