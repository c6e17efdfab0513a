/** Retention, carried out in the Job of a scheduled snapshot: it has the store open, and the newest one is known to be good. */
import { artifactFolder, keyOfManifest, ManifestUnreadable, manifestKey } from '../core/snapshots/manifest.ts';
import { type RetentionRules, retained, type StoredSnapshot } from '../core/snapshots/retention.ts';
import type { SnapshotStore, StoreCall } from '../ports/snapshot-store.ts';
import { readManifest } from './take-snapshot.ts';

export type RetentionOrder = {
  readonly schedule: string;
  readonly clusterUID: string;
  readonly namespace: string;
  readonly cluster: string;
  readonly prefix: string | undefined;
  readonly rules: RetentionRules;
};

export type RetentionOutcome = {
  /** Names of the EtcdSnapshots whose data was removed. */
  readonly removed: readonly string[];
  readonly count: number;
  readonly sizeBytes: bigint;
  /** RFC 3339; absent where nothing is kept. */
  readonly oldest?: string;
  /** Why it went no further. What it had removed by then is told all the same: nobody else will ever know. */
  readonly error?: Error;
};

const MOST_AT_A_TIME = 40;
/** Characters of names: the report has 4096 bytes for them, the manifest and two long keys. What is cut off is not understood at all. */
const MOST_TOLD = 1_200;

type Found = StoredSnapshot & { readonly snapshot: string };

/** Reads every manifest of the cluster. One that cannot be read is left alone: it promises nothing, so it decides nothing. */
const storedOf = async (store: SnapshotStore, folder: string, call: StoreCall): Promise<readonly Found[]> => {
  const sizes = new Map<string, bigint>();
  for await (const { key, sizeBytes } of store.list(folder, call)) sizes.set(key, sizeBytes);
  const found: Found[] = [];
  for (const listed of sizes.keys()) {
    const key = keyOfManifest(listed);
    if (key === undefined) continue;
    try {
      const { clusterUID, schedule, takenAt, sizeBytes, snapshot } = await readManifest(store, key, call);
      found.push({
        key,
        snapshot,
        clusterUID,
        schedule,
        takenAt: Date.parse(takenAt),
        sizeBytes: BigInt(sizeBytes),
        whole: sizes.get(key) === BigInt(sizeBytes),
      });
    } catch (error) {
      if (!(error instanceof ManifestUnreadable)) throw error;
    }
  }
  return found;
};

/**
 * The database before its manifest: one that was removed half is then a manifest without a database, which nobody takes for a
 * snapshot and which the next retention removes. The other way round, a database would lie there for ever, unknown to all.
 */
export const applyRetention = async (
  order: RetentionOrder,
  store: SnapshotStore,
  now: number,
  call: StoreCall = {},
): Promise<RetentionOutcome> => {
  const stored = await storedOf(store, artifactFolder(order.prefix, order), call);
  const { keep, remove } = retained(stored, order, order.rules, now);
  // The oldest first, and no more than can be told of; the rest goes after the next snapshot.
  const nameOf = new Map(stored.map(({ key, snapshot }) => [key, snapshot]));
  let told = 0;
  const going = remove
    .toReversed()
    .slice(0, MOST_AT_A_TIME)
    .filter(({ key }) => {
      told += (nameOf.get(key) ?? key).length + 3;
      return told <= MOST_TOLD;
    });
  const removed: string[] = [];
  let error: Error | undefined;
  try {
    for (const { key } of going) {
      await store.remove(key, call);
      removed.push(nameOf.get(key) ?? key);
      await store.remove(manifestKey(key), call);
    }
  } catch (cause) {
    error = cause instanceof Error ? cause : new Error(String(cause));
  }
  const oldest = Math.min(...keep.map(({ takenAt }) => takenAt));
  return {
    removed: removed.toSorted(),
    count: keep.length,
    sizeBytes: keep.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0n),
    ...(keep.length === 0 ? {} : { oldest: new Date(oldest).toISOString() }),
    ...(error === undefined ? {} : { error }),
  };
};
