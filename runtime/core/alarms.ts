/** etcd's alarms, and what its members say of the space and the data that the alarms are about. */
import type { EtcdAlarm, EtcdMemberStatus } from '../ports/etcd.ts';
import type { SeenPod } from './observed.ts';
import type { Situation, Slot } from './situation.ts';

/** Alarms stand in every answer to Status, in decimal, whichever way that version of etcd spaces them. */
const ALARM = /^memberID:(\d+)\s+alarm:(NOSPACE|CORRUPT)\s*$/;

const alarmsOf = ({ errors }: EtcdMemberStatus): EtcdAlarm[] =>
  errors.flatMap((error) => {
    const [, id, alarm] = ALARM.exec(error) ?? [];
    return id === undefined || alarm === undefined
      ? []
      : [{ memberId: BigInt(id).toString(16), alarm: alarm as EtcdAlarm['alarm'] }];
  });

export const tellsOfCorruption = ({ etcd }: SeenPod): boolean =>
  etcd.known && alarmsOf(etcd.value).some(({ alarm }) => alarm === 'CORRUPT');

/** A voter at its quota that claims to hold little less than its file is large: it may not have counted yet what was freed. */
export const mayHideFreePages = ({ etcd }: SeenPod): boolean =>
  etcd.known &&
  !etcd.value.isLearner &&
  etcd.value.dbSizeInUse * 4n > etcd.value.dbSize * 3n &&
  alarmsOf(etcd.value).some(({ alarm }) => alarm === 'NOSPACE');

/** As the member knows them that has applied most: alarms come and go through the log like keys. */
export const alarmsIn = ({ held, latch }: Situation): readonly EtcdAlarm[] => {
  const answers = held.flatMap(({ pod }) =>
    pod?.etcd.known === true && pod.etcd.value.clusterId === latch ? [pod.etcd.value] : [],
  );
  const [latest] = answers.toSorted((a, b) =>
    a.raftAppliedIndex === b.raftAppliedIndex
      ? a.memberId < b.memberId
        ? -1
        : 1
      : a.raftAppliedIndex > b.raftAppliedIndex
        ? -1
        : 1,
  );
  return latest === undefined ? [] : alarmsOf(latest);
};

// ------------------------------------------------------------------------------------------------------------ space

/** etcd's own, where none or 0 is set. */
const DEFAULT_QUOTA = 2_147_483_648n;

export type Space = {
  /** Of the file, free pages included: this is what etcd compares with the quota. */
  readonly size: bigint;
  readonly inUse: bigint;
  readonly quota: bigint;
};

/** Undefined while the member does not answer. */
export const spaceOf = ({ pod, member }: Slot): Space | undefined => {
  if (pod?.etcd.known !== true) return undefined;
  const { dbSize, dbSizeInUse, dbSizeQuota } = pod.etcd.value;
  const asked = BigInt(member.spec.options?.quotaBackendBytes ?? 0);
  // Before 3.6 only its configuration tells, which in the middle of a rollout is not yet the running one.
  const quota = dbSizeQuota ?? (asked > 0n ? asked : DEFAULT_QUOTA);
  return { size: dbSize, inUse: dbSizeInUse, quota: quota > 0n ? quota : DEFAULT_QUOTA };
};

/** Little enough that it does not fill up again with the next few writes. */
export const hasRoom = ({ size, quota }: Space): boolean => size * 10n <= quota * 9n;

/** What is in use leaves room: a defragmentation gives the rest of the file back. */
export const isFragmented = ({ inUse, quota }: Space): boolean => inUse * 4n <= quota * 3n;

/** Worth a warning, since at the quota etcd refuses every write. */
export const isNearQuota = ({ size, quota }: Space): boolean => size * 5n >= quota * 4n;

/** `2 GiB`, `16 MiB`. */
export const bytes = (count: bigint): string => {
  for (const [unit, size] of [
    ['GiB', 1n << 30n],
    ['MiB', 1n << 20n],
    ['KiB', 1n << 10n],
  ] as const) {
    if (count >= size) return `${Number((count * 10n) / size) / 10} ${unit}`;
  }
  return `${count} B`;
};

// ------------------------------------------------------------------------------------------------------- equal data

/** What one voter says of the data it has. */
export type Testimony = { readonly slot: Slot; readonly said: string };

export type Agreement = {
  /** How many voters etcd lists. */
  readonly voters: number;
  /** More than half of all voters, with equal data; empty if there are none such. */
  readonly majority: readonly Slot[];
  /** Voters whose data is known to differ from the majority's. */
  readonly differing: readonly Slot[];
  /** Voters that said nothing, or nothing that can be compared. */
  readonly silent: readonly string[];
  readonly said: readonly Testimony[];
};

/**
 * Hashes are comparable at the same revision with the same history below it. Undefined where the list of voters is not
 * known: then nobody knows what a majority is.
 */
export const agreementOf = (s: Situation): Agreement | undefined => {
  if (!s.seen.membership.known) return undefined;
  const voters = s.seen.membership.value.members.filter(({ isLearner }) => !isLearner);
  const groups = new Map<string, Slot[]>();
  const said: Testimony[] = [];
  const silent: string[] = [];
  const historyOf = new Map<Slot, string>();
  for (const { id, name } of voters) {
    const slot = s.held.find(({ memberID }) => memberID === id);
    const hash = slot?.pod?.hash;
    if (slot === undefined || slot.identity.is !== 'proven' || hash?.known !== true) {
      silent.push(slot?.member.name ?? (name === '' ? id : name));
      continue;
    }
    const { hash: value, hashRevision, compactRevision } = hash.value;
    const history = `${hashRevision}/${compactRevision}`;
    historyOf.set(slot, history);
    const key = `${history}/${value}`;
    groups.set(key, [...(groups.get(key) ?? []), slot]);
    said.push({
      slot,
      said: `${slot.member.name} ${value.toString(16)} at revision ${hashRevision}, compacted at ${compactRevision}`,
    });
  }
  const agreed = [...groups.values()].find(({ length }) => length * 2 > voters.length) ?? [];
  const [one] = agreed;
  const others = said.filter(({ slot }) => one !== undefined && !agreed.includes(slot)).map(({ slot }) => slot);
  const comparable = (slot: Slot): boolean => one !== undefined && historyOf.get(slot) === historyOf.get(one);
  return {
    voters: voters.length,
    majority: agreed,
    differing: others.filter(comparable),
    silent: [...silent, ...others.filter((slot) => !comparable(slot)).map(({ member }) => member.name)],
    said,
  };
};
