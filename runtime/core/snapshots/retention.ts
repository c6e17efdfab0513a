/**
 * Which stored snapshots of a schedule go. Decided from what the manifests say, never from names or from the store's clock,
 * and only among those that this schedule made of this very cluster.
 */

export type StoredSnapshot = {
  /** Key of the database. */
  readonly key: string;
  readonly clusterUID: string;
  /** Name of the schedule that made it; absent where a person did. */
  readonly schedule: string | undefined;
  /** Milliseconds since the epoch, from the manifest. */
  readonly takenAt: number;
  readonly sizeBytes: bigint;
  /** False where the database that the manifest tells of is not there, or not of its size. */
  readonly whole: boolean;
};

export type RetentionRules = {
  /** The newest that are kept. */
  readonly keepLast?: number | undefined;
  /** Of how many days (UTC) that have one the newest is kept. */
  readonly keepDaily?: number | undefined;
  /** Of how many ISO weeks (UTC) that have one the newest is kept. */
  readonly keepWeekly?: number | undefined;
  /** Milliseconds; older ones go, whatever keeps them. */
  readonly maxAgeMs?: number | undefined;
  /** Of all that are kept together; the oldest go first. */
  readonly maxTotalBytes?: bigint | undefined;
};

export type Retained = { readonly keep: readonly StoredSnapshot[]; readonly remove: readonly StoredSnapshot[] };

const DAY_MS = 86_400_000;

const dayOf = ({ takenAt }: StoredSnapshot): number => Math.floor(takenAt / DAY_MS);
/** ISO weeks begin on Monday; the epoch was a Thursday. */
const weekOf = (one: StoredSnapshot): number => Math.floor((dayOf(one) + 3) / 7);

/** The newest of each of the `count` latest groups that have any. */
const newestOfEach = (
  newestFirst: readonly StoredSnapshot[],
  groupOf: (one: StoredSnapshot) => number,
  count: number | undefined,
): readonly StoredSnapshot[] => {
  const groups = new Map<number, StoredSnapshot>();
  for (const one of newestFirst) {
    const group = groupOf(one);
    if (!groups.has(group)) groups.set(group, one);
  }
  return [...groups.values()].slice(0, count ?? 0);
};

const newerFirst = (a: StoredSnapshot, b: StoredSnapshot): number => b.takenAt - a.takenAt || (a.key < b.key ? 1 : -1);

/**
 * What matches nothing here is in neither list: it is somebody else's, and that is all that is said of it. The newest whole
 * snapshot is always kept, for what rule would be worth having none. A manifest without its database is no snapshot and goes.
 */
export const retained = (
  stored: readonly StoredSnapshot[],
  of: { readonly schedule: string; readonly clusterUID: string },
  rules: RetentionRules,
  now: number,
): Retained => {
  const own = stored
    .filter(({ schedule, clusterUID }) => schedule === of.schedule && clusterUID === of.clusterUID)
    .toSorted(newerFirst);
  const whole = own.filter((one) => one.whole);
  const [newest, ...others] = whole;
  if (newest === undefined) return { keep: [], remove: [] };

  const { keepLast, keepDaily, keepWeekly, maxAgeMs, maxTotalBytes } = rules;
  const selective = keepLast !== undefined || keepDaily !== undefined || keepWeekly !== undefined;
  const wanted = new Set(
    selective
      ? [
          ...whole.slice(0, keepLast ?? 0),
          ...newestOfEach(whole, dayOf, keepDaily),
          ...newestOfEach(whole, weekOf, keepWeekly),
        ]
      : whole,
  );
  const keep = [newest];
  let total = newest.sizeBytes;
  let full = false;
  for (const one of others) {
    if (!wanted.has(one)) continue;
    // A clock that was set back makes ages negative; that is no reason to call anything old.
    if (maxAgeMs !== undefined && now - one.takenAt > maxAgeMs) continue;
    // Once one does not fit, no older one is kept for being small: what is kept is a line without gaps of its own.
    full ||= maxTotalBytes !== undefined && total + one.sizeBytes > maxTotalBytes;
    if (full) continue;
    total += one.sizeBytes;
    keep.push(one);
  }
  const kept = new Set(keep);
  return { keep, remove: own.filter((one) => !kept.has(one)) };
};
