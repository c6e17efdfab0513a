/**
 * Which change of the quorum a pass is part of. A change has an ID that every process derives alike, so that its trace and
 * its length are one, however many passes and processes it takes.
 *
 * Bootstrap and membership changes are recorded in EtcdQuorum.status before they begin. A restart is not: it is known by the
 * Pod that goes, whose UID stands in the member's status until its successor serves.
 */
import type { EtcdQuorumStatus } from '../../api/etcdquorum.gen.ts';
import type { Instant } from './observed.ts';
import type { Decision } from './plan.ts';
import type { Situation, Slot } from './situation.ts';
import type { ObjectName } from './steps.ts';

export type ChangeTarget = { readonly member: string; readonly incarnation: string | undefined };

export type Change = {
  readonly id: string;
  /** The kind of the recorded operation, or `Bootstrap`, `Restart`, `Rollout`, `Upgrade`, `Pause`, `Resume`, `Deletion`. */
  readonly kind: string;
  readonly since: Instant;
  readonly targets: readonly ChangeTarget[];
  /** What runs and what is asked for, where these differ. */
  readonly versions?: { readonly from: string; readonly to: string };
};

/** The change that the quorum's status records. */
export const recordedChange = (status: EtcdQuorumStatus | undefined): Change | undefined => {
  const { operation, bootstrap, clusterID, phase } = status ?? {};
  if (operation !== undefined) {
    const { id, kind, target, incarnation, since } = operation;
    return {
      id,
      kind,
      since: Date.parse(since),
      targets: target === undefined ? [] : [{ member: target, incarnation }],
    };
  }
  if (status?.caChange?.since !== undefined) {
    const { since } = status.caChange;
    return { id: `ca/${status.clusterUID ?? ''}/${since}`, kind: 'CaChange', since: Date.parse(since), targets: [] };
  }
  // Formed is not served: the latch is an early station of a bootstrap, the phase tells its end.
  if (bootstrap === undefined || (clusterID !== undefined && phase !== 'Bootstrapping')) return undefined;
  return {
    id: bootstrap.token,
    kind: 'Bootstrap',
    since: Date.parse(bootstrap.startedAt),
    targets: bootstrap.members.map(({ name, incarnation }) => ({ member: name, incarnation })),
  };
};

const readySince = ({ member }: Slot): string | undefined => {
  const ready = (member.status.conditions ?? []).find(({ type }) => type === 'Ready');
  return ready?.status === 'False' ? ready.lastTransitionTime : undefined;
};

/** The Pod whose end is the beginning; where its UID is not known any more, the moment from which the member was away. */
const seedOf = (slot: Slot): string =>
  slot.member.status.podUID ?? `${slot.member.uid}/${slot.incarnation ?? ''}/${readySince(slot) ?? ''}`;

const versionsOf = ({ member }: Slot): Change['versions'] => {
  const { version } = member.status;
  return version === undefined || version === member.spec.version
    ? undefined
    : { from: version, to: member.spec.version };
};

const restart = (s: Situation, slots: readonly Slot[], kind: string, sameContainer: boolean): Change | undefined => {
  const [first] = slots;
  if (first === undefined) return undefined;
  const versions = versionsOf(first);
  const away = readySince(first);
  const container = sameContainer ? `/${first.pod?.container.restarts}` : '';
  return {
    id: `pod/${seedOf(first)}${container}`,
    kind: kind === 'Restart' && versions !== undefined ? 'Upgrade' : kind,
    since: kind === 'Pause' || away === undefined ? s.seen.now : Math.min(s.seen.now, Date.parse(away)),
    targets: slots.map(({ member, incarnation }) => ({ member: member.name, incarnation })),
    ...(versions === undefined ? {} : { versions }),
  };
};

/** The change that this step begins, or is found in the middle of, when none is recorded. */
export const changeBegunBy = ({ situation: s, step, rule }: Decision): Change | undefined => {
  const withPods = (pods: readonly ObjectName[]): readonly Slot[] =>
    s.held.filter(({ pod }) => pods.some(({ uid }) => uid === pod?.uid));
  if (step.do === 'Teardown' && rule === 'deletion') {
    const [first] = s.slots;
    const claim = first?.member.firstClaim ?? s.quorum?.controllerUID;
    return claim === undefined
      ? undefined
      : { id: `deletion/${claim}`, kind: 'Deletion', since: s.seen.now, targets: [] };
  }
  if (s.latch === undefined) return undefined;
  switch (step.do) {
    case 'DeletePods': {
      const slots = withPods(step.pods);
      if (step.reason === 'Paused') return restart(s, slots, 'Pause', false);
      const upgrade = slots.some((slot) => versionsOf(slot) !== undefined);
      const kind = step.reason === 'RollingOut' ? (upgrade ? 'Upgrade' : 'Rollout') : 'Restart';
      return restart(s, slots, kind, false);
    }
    case 'BringUp': {
      const slots = s.held.filter(({ member }) => step.places.some((place) => place.member.uid === member.uid));
      return restart(s, slots, s.quorum?.status.phase === 'Paused' ? 'Resume' : 'Restart', false);
    }
    case 'Dismiss':
    case 'Admit': {
      const slots = withPods(step.pods).filter(({ member }) => member.status.memberID !== undefined);
      return restart(s, slots, 'Restart', slots[0]?.pod?.uid === slots[0]?.member.status.podUID);
    }
    default:
      return undefined;
  }
};

export type ChangeOutcome =
  | 'joined'
  | 'removed'
  | 'emptied'
  | 'abandoned'
  | 'formed'
  | 'serving'
  | 'recovered'
  | 'restored'
  | 'exchanged'
  | 'stopped'
  | 'deleted';

/** Whether a change that no record tells the end of has ended. */
export const outcomeSeen = ({ kind, targets }: Change, s: Situation): ChangeOutcome | undefined => {
  if (kind === 'Deletion') return undefined;
  const asked = s.quorum?.spec.replicas;
  if (kind === 'Pause') {
    if (asked !== 0) return 'abandoned';
    return s.slots.every(({ member }) => member.pods.length === 0) ? 'stopped' : undefined;
  }
  if (asked === 0) return 'abandoned';
  const present = targets.flatMap(({ member, incarnation }) => {
    const slot = s.held.find((one) => one.member.name === member && one.incarnation === incarnation);
    return slot === undefined || s.quorum?.status.operation?.target === member ? [] : [slot];
  });
  if (present.length === 0) return 'abandoned';
  return present.every(({ serving }) => serving) ? 'serving' : undefined;
};

/** How the recorded change `was` ended, given the step that was taken and the status after it. */
export const outcomeRecorded = (
  was: Change,
  { step }: Decision,
  after: EtcdQuorumStatus | undefined,
): ChangeOutcome => {
  if (step.do === 'EndOperation') return step.outcome;
  if (step.do === 'CompleteRecovery') return 'recovered';
  if (step.do === 'CompleteRestoreInPlace') return 'restored';
  if (was.kind === 'CaChange' && after?.caChange === undefined) return 'exchanged';
  return was.kind === 'Bootstrap' && after?.clusterID !== undefined ? 'formed' : 'abandoned';
};
