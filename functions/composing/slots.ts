import type { EtcdMember } from '../../api/etcdmember.gen.ts';
import { API_VERSION, LABELS, memberName, ordinalOf } from '../../api/names.ts';
import { type Claim, record } from './claim.ts';
import type { ResourceSelector, RunFunctionRequest } from './exchange.ts';

/** Name of the requirement under which Crossplane hands over every EtcdMember labelled with the cluster's name. */
export const MEMBERS_REQUIRED = 'members';

/**
 * Observed state lists only what this very claim composed so far. After a claim was orphaned and applied again it is
 * empty, and slots that exist would be forgotten; a label finds them in any case.
 */
export const membersRequirement = (claim: Claim): ResourceSelector => ({
  apiVersion: API_VERSION,
  kind: 'EtcdMember',
  ...(claim.namespace === '' ? {} : { namespace: claim.namespace }),
  matchLabels: { [LABELS.cluster]: claim.name },
});

export const memberKey = (ordinal: number): string => `member-${ordinal}`;

const ordinalOfKey = (key: string): number | undefined => {
  const digits = /^member-(0|[1-9]\d{0,8})$/.exec(key)?.[1];
  return digits === undefined ? undefined : Number(digits);
};

/** A slot that exists: every copy of its EtcdMember that this request holds, which may be of different age. */
export type Slot = {
  readonly ordinal: number;
  /** Composed by this claim already. */
  readonly observed: EtcdMember | undefined;
  readonly required: EtcdMember | undefined;
};

/** Ascending by ordinal. */
export const slotsOf = (request: RunFunctionRequest, claim: Claim): Slot[] => {
  const observed = new Map<number, EtcdMember>();
  for (const [key, { resource }] of Object.entries(request.observed?.resources ?? {})) {
    const ordinal = ordinalOfKey(key);
    if (ordinal !== undefined && resource !== undefined) observed.set(ordinal, resource as EtcdMember);
  }
  const required = new Map<number, EtcdMember>();
  for (const { resource } of request.requiredResources?.[MEMBERS_REQUIRED] ?? []) {
    const name = record(record(resource).metadata).name;
    const ordinal = typeof name === 'string' ? ordinalOf(claim.name, name) : undefined;
    // The label selector already says so; this guards a render whose required objects were handed over by a person.
    if (record(record(resource).spec).clusterName !== claim.name) continue;
    if (ordinal !== undefined && ordinal < 1e9) required.set(ordinal, resource as EtcdMember);
  }
  const ordinals = [...new Set([...observed.keys(), ...required.keys()])].sort((a, b) => a - b);
  return ordinals.map((ordinal) => ({
    ordinal,
    observed: observed.get(ordinal),
    required: required.get(ordinal),
  }));
};

const copies = ({ observed, required }: Slot): EtcdMember[] =>
  [observed, required].filter((member) => member !== undefined);

/** Says the runtime, in every copy: one that says otherwise may be the newer one. */
const isRemoved = (slot: Slot): boolean =>
  copies(slot).every((member) => record(record(member).status).phase === 'Removed');

export const isDeleting = (object: object | undefined): boolean =>
  record(record(object).metadata).deletionTimestamp !== undefined;

/**
 * Left over from an earlier claim of the same name and on its way out whatever we do: the runtime takes down everything
 * that was made under another UID. Counting it as a member of the new cluster would make that one too small or, as the
 * leftovers vanish one by one, scatter its ordinals.
 */
const isLeftover = (slot: Slot, claim: Claim): boolean => {
  if (slot.observed !== undefined || claim.uid === '') return false;
  const clusterUID = record(record(slot.required).status).clusterUID;
  return isDeleting(slot.required) && typeof clusterUID === 'string' && clusterUID !== claim.uid;
};

/**
 * Ordinals of the slots whose keys are returned, ascending.
 *
 * Every slot that is not `Removed` stays, also beyond `replicas`: the runtime chooses which members go, says `Removed`,
 * and only then the key may disappear, since a key that disappears is deleted at once. Where fewer than `replicas` are
 * left, the gap is filled: with Removed slots first, in which the runtime starts a new incarnation, then with new
 * ordinals. Counting, and not "0 to replicas - 1", is deliberate: the runtime may have removed slot 1 of 5 because it was
 * broken, and asking for it back would make the cluster grow and shrink again to end where it began.
 */
export const wantedOrdinals = (slots: readonly Slot[], claim: Claim): number[] => {
  const existing = slots.filter((slot) => !isLeftover(slot, claim));
  const wanted = existing.filter((slot) => !isRemoved(slot)).map(({ ordinal }) => ordinal);
  for (const slot of existing) {
    if (wanted.length >= claim.replicas) break;
    if (isRemoved(slot)) wanted.push(slot.ordinal);
  }
  const taken = new Set(wanted);
  for (let ordinal = 0; wanted.length < claim.replicas; ordinal++) {
    if (!taken.has(ordinal)) wanted.push(ordinal);
  }
  return wanted.sort((a, b) => a - b);
};

export const slotName = (claim: Claim, ordinal: number): string => memberName(claim.name, ordinal);
