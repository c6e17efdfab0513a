import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { type RetentionRules, retained, type StoredSnapshot } from './retention.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
/** A Monday. */
const now = Date.parse('2026-11-30T12:00:00Z');
const of = { schedule: 'nightly', clusterUID: 'c1' };

const one = (ageHours: number, change: Partial<StoredSnapshot> = {}): StoredSnapshot => ({
  key: `k-${String(1_000_000 - ageHours).padStart(9, '0')}.db`,
  ...of,
  takenAt: now - ageHours * HOUR,
  sizeBytes: 100n,
  whole: true,
  ...change,
});
const ages = (list: readonly StoredSnapshot[]): number[] => list.map(({ takenAt }) => (now - takenAt) / HOUR);
const kept = (stored: readonly StoredSnapshot[], rules: RetentionRules): number[] =>
  ages(retained(stored, of, rules, now).keep).toSorted((a, b) => a - b);

describe('retention', () => {
  const hourly = Array.from({ length: 24 * 30 }, (_, hour) => one(hour));

  const table: [string, readonly StoredSnapshot[], RetentionRules, number[]][] = [
    ['keeps everything where no rule is given', [one(1), one(2)], {}, [1, 2]],
    ['keeps the last few', hourly, { keepLast: 3 }, [0, 1, 2]],
    ['keeps the newest of each of the last days', hourly, { keepDaily: 3 }, [0, 13, 37]],
    ['keeps the newest of each of the last ISO weeks', hourly, { keepWeekly: 3 }, [0, 13, 13 + 7 * 24]],
    ['keeps what any of them keeps', hourly, { keepLast: 2, keepDaily: 2 }, [0, 1, 13]],
    ['counts days that have a snapshot, so that a pause costs none', [one(0), one(24 * 9)], { keepDaily: 2 }, [0, 216]],
    ['drops what is too old, whatever keeps it', hourly, { keepLast: 5, maxAgeMs: 2 * HOUR }, [0, 1, 2]],
    ['drops the oldest beyond a total size', hourly, { keepLast: 5, maxTotalBytes: 300n }, [0, 1, 2]],
    ['keeps the newest however old it is', [one(900)], { maxAgeMs: HOUR }, [900]],
    ['keeps the newest however large it is', [one(1, { sizeBytes: 10n ** 12n })], { maxTotalBytes: 1n }, [1]],
    ['keeps the newest even where nothing is to be kept', [one(1), one(2)], { keepLast: 0 }, [1]],
    ['counts no snapshot whose database is gone', [one(0, { whole: false }), one(1)], { keepLast: 1 }, [1]],
    ['calls nothing old because a clock was set back', [one(-48), one(-30)], { maxAgeMs: HOUR }, [-48, -30]],
  ];
  for (const [what, stored, rules, expected] of table) {
    test(what, () => {
      assert.deepEqual(kept(stored, rules), expected);
    });
  }

  test('removes a manifest whose database is gone, but nothing as long as none is whole', () => {
    const broken = one(5, { whole: false });
    assert.deepEqual(ages(retained([broken, one(1)], of, { keepLast: 9 }, now).remove), [5]);
    assert.deepEqual(retained([broken], of, { keepLast: 9 }, now), { keep: [], remove: [] });
  });

  const snapshots = fc.array(
    fc.record({
      key: fc.uuid(),
      clusterUID: fc.constantFrom('c1', 'c1', 'c1', 'c2'),
      schedule: fc.constantFrom('nightly', 'nightly', 'nightly', 'other', undefined),
      takenAt: fc.integer({ min: now - 90 * DAY, max: now + 2 * DAY }),
      sizeBytes: fc.bigInt({ min: 1n, max: 1_000n }),
      whole: fc.boolean(),
    }),
    { maxLength: 40 },
  );
  const optional = <T>(arbitrary: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> =>
    fc.option(arbitrary, { nil: undefined });
  const rules = fc.record({
    keepLast: optional(fc.nat({ max: 6 })),
    keepDaily: optional(fc.nat({ max: 6 })),
    keepWeekly: optional(fc.nat({ max: 6 })),
    maxAgeMs: optional(fc.integer({ min: 0, max: 60 * DAY })),
    maxTotalBytes: optional(fc.bigInt({ min: 0n, max: 5_000n })),
  });

  test('never touches what another schedule, another cluster or a person made', () => {
    fc.assert(
      fc.property(snapshots, rules, (stored, by) => {
        for (const { schedule, clusterUID } of retained(stored, of, by, now).remove) {
          assert.deepEqual([schedule, clusterUID], ['nightly', 'c1']);
        }
      }),
    );
  });

  test('never removes the newest whole snapshot, nor anything while there is none', () => {
    fc.assert(
      fc.property(snapshots, rules, (stored, by) => {
        const own = stored.filter((s) => s.schedule === of.schedule && s.clusterUID === of.clusterUID && s.whole);
        const { remove, keep } = retained(stored, of, by, now);
        if (own.length === 0) return assert.deepEqual(remove, []);
        const newest = Math.max(...own.map(({ takenAt }) => takenAt));
        assert.ok(keep.some(({ takenAt }) => takenAt === newest));
      }),
    );
  });

  test('gives the same answer whatever the order, and nothing more to do when it is asked again', () => {
    fc.assert(
      fc.property(snapshots, rules, (stored, by) => {
        const { keep, remove } = retained(stored, of, by, now);
        assert.deepEqual(retained(stored.toReversed(), of, by, now), { keep, remove });
        const left = stored.filter((s) => !remove.includes(s));
        assert.deepEqual(retained(left, of, by, now).remove, []);
      }),
    );
  });

  const ownWhole = (stored: readonly StoredSnapshot[]): StoredSnapshot[] =>
    stored
      .filter(({ schedule, clusterUID, whole }) => schedule === of.schedule && clusterUID === of.clusterUID && whole)
      .toSorted((a, b) => b.takenAt - a.takenAt || (a.key < b.key ? 1 : -1));
  /** By text, as people count days and weeks, not by the arithmetic that is tested. */
  const dayName = ({ takenAt }: StoredSnapshot): string => new Date(takenAt).toISOString().slice(0, 10);
  const weekName = ({ takenAt }: StoredSnapshot): string => {
    const monday = new Date(takenAt);
    while (monday.getUTCDay() !== 1) monday.setTime(monday.getTime() - DAY);
    return monday.toISOString().slice(0, 10);
  };
  const firstOfEach = (newestFirst: readonly StoredSnapshot[], name: (one: StoredSnapshot) => string, count: number) =>
    newestFirst.filter((one, at) => newestFirst.findIndex((other) => name(other) === name(one)) === at).slice(0, count);

  test('keeps what each keep rule promises and nothing that none of them wants', () => {
    fc.assert(
      fc.property(snapshots, rules, (stored, { maxAgeMs: _, maxTotalBytes: __, ...by }) => {
        const newestFirst = ownWhole(stored);
        const { keepLast, keepDaily, keepWeekly } = by;
        const none = keepLast === undefined && keepDaily === undefined && keepWeekly === undefined;
        const promised = new Set([
          ...newestFirst.slice(0, none ? undefined : Math.max(1, keepLast ?? 0)),
          ...firstOfEach(newestFirst, dayName, keepDaily ?? 0),
          ...firstOfEach(newestFirst, weekName, keepWeekly ?? 0),
        ]);
        const { keep } = retained(stored, of, by, now);
        assert.deepEqual(
          keep,
          newestFirst.filter((one) => promised.has(one)),
        );
      }),
    );
  });

  test('exceeds neither age nor total size but for the newest, and bounds remove no more than that takes', () => {
    fc.assert(
      fc.property(snapshots, rules, (stored, by) => {
        const { keep } = retained(stored, of, by, now);
        const [newest, ...others] = keep;
        if (newest === undefined) return;
        const { maxAgeMs = Number.POSITIVE_INFINITY, maxTotalBytes, ...keepers } = by;
        for (const { takenAt } of others) assert.ok(now - takenAt <= maxAgeMs);
        const total = keep.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0n);
        if (maxTotalBytes !== undefined && others.length > 0) assert.ok(total <= maxTotalBytes);
        const young = retained(stored, of, keepers, now).keep.filter(
          (one) => one === newest || now - one.takenAt <= maxAgeMs,
        );
        assert.deepEqual(keep, young.slice(0, keep.length), 'the newest stay, the oldest go');
        const next = young[keep.length];
        if (next !== undefined) assert.ok(maxTotalBytes !== undefined && total + next.sizeBytes > maxTotalBytes);
      }),
    );
  });

  test('a clock that jumps removes what is too old by it, and never the newest', () => {
    fc.assert(
      fc.property(
        snapshots,
        fc.integer({ min: 0, max: 60 * DAY }),
        fc.integer({ min: -400 * DAY, max: 400 * DAY }),
        (stored, maxAgeMs, jump) => {
          const { keep } = retained(stored, of, { maxAgeMs }, now + jump);
          const [newest, ...others] = ownWhole(stored);
          if (newest === undefined) return assert.deepEqual(keep, []);
          assert.deepEqual(keep, [newest, ...others.filter(({ takenAt }) => now + jump - takenAt <= maxAgeMs)]);
        },
      ),
    );
  });

  test('no jump of a clock matters where no age limits what stays', () => {
    fc.assert(
      fc.property(snapshots, rules, fc.integer({ min: -400 * DAY, max: 400 * DAY }), (stored, by, jump) => {
        const before = retained(stored, of, { ...by, maxAgeMs: undefined }, now);
        const after = retained(stored, of, { ...by, maxAgeMs: undefined }, now + jump);
        assert.deepEqual(after, before);
      }),
    );
  });
});
