/** What is said of one member, and the status of its EtcdMember. As thrifty as what is said of the whole, see report.ts. */
import type { EtcdMemberStatus } from '../../api/etcdmember.gen.ts';
import { CONTAINER, incarnationName } from '../../api/names.ts';
import type { Reason } from '../../api/reasons.ts';
import { agreementOf, alarmsIn, bytes, hasRoom, isNearQuota, spaceOf } from './alarms.ts';
import { conditions, truth } from './conditions.ts';
import { equalJson } from './equal-json.ts';
import { exitReasons, lastExitOf } from './exit-reasons.ts';
import type { SeenPod } from './observed.ts';
import { fillingLoss, nodeLoss } from './rules/lost-nodes.ts';
import { isPodless, isProvenStart, isSpare, refusalOf, refusalRemedy } from './rules/standing.ts';
import { isLeader, type Situation, type Slot } from './situation.ts';

/** The scheduler and the provisioner need a moment; before that, "not yet" is no trouble. */
const PATIENCE_MS = 4_000;

export type MemberReport = {
  readonly phase: NonNullable<EtcdMemberStatus['phase']>;
  readonly reason: Reason;
  readonly message: string;
  /** Something that a person may have to mend, as against a state that passes. */
  readonly trouble: boolean;
};

const report = (phase: MemberReport['phase'], reason: Reason, message: string, trouble = false): MemberReport => ({
  phase,
  reason,
  message,
  trouble,
});

const IMAGE_REASONS = new Set([
  'ErrImagePull',
  'ImagePullBackOff',
  'InvalidImageName',
  'ErrImageNeverPull',
  'ErrImageInspect',
]);
const CREATE_REASONS = new Set(['CreateContainerConfigError', 'CreateContainerError', 'RunContainerError']);

const limitOf = ({ member }: Slot): string => {
  const limit = member.spec.template.spec.containers.find(({ name }) => name === CONTAINER)?.resources?.limits?.memory;
  return limit === undefined ? '; it has no limit of its own, so its node ran out' : `; it is ${limit} now`;
};

const exitReport = (slot: Slot, phase: MemberReport['phase'], pod: SeenPod, how: string): MemberReport | undefined => {
  const cause = lastExitOf(pod, phase === 'Provisioning');
  if (cause === undefined) return undefined;
  return report(
    phase,
    exitReasons[cause.reason] ?? 'CrashLooping',
    `etcd in Pod ${pod.name} ${how}: ${cause.message}${cause.reason === 'OutOfMemory' ? limitOf(slot) : ''}`,
    true,
  );
};

/** The first of these starts again at once, the second after ten seconds; no name takes longer to be known. */
const EARLY_RESTARTS = 2;

/**
 * With TLS among members, who is asked looks up by name who asks, and name servers know a Pod a moment after its etcd has begun.
 * So a member that joins is often turned away once; told as a fault, every change of size would be one.
 */
const isTooEarly = (pod: SeenPod): boolean =>
  pod.container.restarts < EARLY_RESTARTS && lastExitOf(pod, true)?.reason === 'PeersNotReached';

const RESTORING = new Set<string>(['Restore', 'RestoreInPlace', 'RecoverQuorum']);

/** What is being restored is no member yet that would be waited for or replaced: what becomes of it, the operation says. */
const awayOf = (s: Situation, slot: Slot): string | undefined => {
  const { kind = '', target, incarnation } = s.quorum?.status.operation ?? {};
  return RESTORING.has(kind) && target === slot.member.name && incarnation === slot.incarnation
    ? fillingLoss(s, slot.pod, slot.volume)?.why
    : nodeLoss(s, slot)?.says;
};

const startingReport = (s: Situation, slot: Slot, restarting: boolean): MemberReport => {
  const { pod, volume } = slot;
  const phase = restarting ? 'Restarting' : 'Provisioning';
  if (pod === undefined) return report(phase, restarting ? 'Restarting' : 'Starting', 'its Pod is being made');
  const away = awayOf(s, slot);
  if (away !== undefined) return report(phase, 'NodeLost', away, true);
  if (pod.deleting) return report(phase, 'Restarting', `Pod ${pod.name} is ending`);
  const patient = s.seen.now - pod.createdAt < PATIENCE_MS;
  if (volume?.trouble !== undefined && !patient) {
    return report(phase, 'VolumeNotProvisioned', `volume ${volume.name}: ${volume.trouble}`, true);
  }
  if (pod.unschedulable !== undefined && !patient) {
    return report(phase, 'Unschedulable', `Pod ${pod.name}: ${pod.unschedulable}`, true);
  }
  const { container } = pod;
  if (container.waitingReason !== undefined && IMAGE_REASONS.has(container.waitingReason)) {
    return report(
      phase,
      'ImagePullFailed',
      `Pod ${pod.name}: ${container.waitingMessage ?? container.waitingReason}`,
      true,
    );
  }
  if (container.waitingReason !== undefined && CREATE_REASONS.has(container.waitingReason)) {
    return report(
      phase,
      'ContainerNotCreated',
      `Pod ${pod.name}: ${container.waitingMessage ?? container.waitingReason}`,
      true,
    );
  }
  // It was proven in this very start, so it is not starting: its process hangs, or its disk does.
  if (isProvenStart(pod) && !pod.etcd.known && !pod.ready) {
    return report(phase, 'NotAnswering', `etcd runs in Pod ${pod.name} and does not answer`, true);
  }
  if (phase === 'Provisioning' && container.state !== 'running' && isTooEarly(pod)) {
    return report(
      phase,
      'Starting',
      `Pod ${pod.name} starts again: the members that it asked did not know it by name yet`,
    );
  }
  const ended =
    container.state !== 'running'
      ? exitReport(slot, phase, pod, `ended with exit code ${container.lastExit?.code}`)
      : container.restarts > 2 && !pod.ready
        ? exitReport(slot, phase, pod, `has restarted ${container.restarts} times`)
        : undefined;
  if (ended !== undefined) return ended;
  return report(
    phase,
    restarting ? 'Restarting' : 'Starting',
    container.state === 'running' ? `etcd runs in Pod ${pod.name}, not ready yet` : `Pod ${pod.name} is starting`,
  );
};

/** What etcd's alarms mean for this member. The words hold still while the numbers move. */
const alarmReport = (s: Situation, slot: Slot): MemberReport | undefined => {
  const { entry, pod, memberID } = slot;
  if (!entry.known || entry.value?.isLearner !== false || pod?.container.state !== 'running') return undefined;
  const alarms = alarmsIn(s);
  if (alarms.some(({ alarm }) => alarm === 'CORRUPT')) {
    const said = agreementOf(s)?.said.find((one) => one.slot === slot)?.said;
    const differs = agreementOf(s)?.differing.includes(slot) === true ? ', which the majority contradicts' : '';
    return report(
      'Voter',
      'CorruptAlarm',
      `etcd refuses every write, since it found data to differ${said === undefined ? '' : `; hash of ${said}${differs}`}`,
      true,
    );
  }
  const space = spaceOf(slot);
  if (space === undefined) return undefined;
  const quota = bytes(space.quota);
  const full = alarms.filter(({ alarm }) => alarm === 'NOSPACE');
  if (full.some(({ memberId }) => memberId === memberID) || (full.length > 0 && !hasRoom(space))) {
    return report(
      'Voter',
      'SpaceExhausted',
      `etcd refuses every write until all databases have room below their quota, which is ${quota} for this one`,
      true,
    );
  }
  return slot.serving && full.length === 0 && isNearQuota(space)
    ? report('Voter', 'SpaceLow', `its database takes more than four fifths of its quota of ${quota}`, true)
    : undefined;
};

/** What is to be said of one slot. */
export const memberReport = (s: Situation, slot: Slot): MemberReport => {
  const { member, incarnation, pod, volume, memory, identity, entry } = slot;
  const operation = s.quorum?.status.operation;
  const leaving =
    operation?.target === member.name && (operation.kind === 'RemoveMember' || operation.kind === 'ReplaceMember');
  if (incarnation === undefined) {
    return member.status.phase === 'Removed' || isSpare(s, slot)
      ? report('Removed', 'Removed', 'it has left the cluster and its volume is gone')
      : report('Pending', 'Creating', 'nothing has been started in this slot yet');
  }
  if (operation?.kind === 'RestoreInPlace' && pod?.voterRole !== true) {
    return report('Restarting', 'Restoring', 'the data of the cluster is being replaced by that of a snapshot');
  }
  if (identity.is === 'foreign') {
    const then = memory ? 'its Pod is stopped' : `its volume is kept: ${refusalRemedy(member.name)}`;
    return report('Failed', identity.reason, `${identity.why}; ${then}`, true);
  }
  const refusal = refusalOf(slot);
  if (refusal !== undefined && !member.retry && pod?.deleting !== false) {
    const said = member.status.conditions?.find(({ type }) => type === 'Ready')?.message;
    return report('Failed', refusal, said ?? '', true);
  }
  if (leaving)
    return report('Leaving', operation.kind === 'ReplaceMember' ? 'Replacing' : 'Leaving', `${operation.kind}`);
  if (s.quorum?.spec.replicas === 0 && s.latch !== undefined) {
    return report('Paused', 'Paused', 'replicas is 0: identity and volume are kept');
  }
  const begun = member.claimedPod === incarnationName(member.name, incarnation);
  if (slot.serving && !memory && (volume === undefined || volume.deleting)) {
    return report('Voter', 'VolumeLost', 'its volume was deleted: its data ends with its Pod', true);
  }
  if (s.latch !== undefined && begun && memory && isPodless(slot)) {
    return report('Failed', 'MemoryLost', 'its Pod is gone and with it its data', true);
  }
  if (s.latch !== undefined && begun && !memory && (volume === undefined || volume.deleting)) {
    return report('Failed', 'VolumeLost', `volume ${incarnationName(member.name, incarnation)} is gone`, true);
  }
  const alarmed = alarmReport(s, slot);
  if (alarmed !== undefined) return alarmed;
  if (slot.serving) return report('Voter', 'Serving', 'it serves clients');
  const joined =
    member.status.phase === 'Voter' || member.status.phase === 'Restarting' || slot.volume?.memberID !== undefined;
  if (entry.known && entry.value?.isLearner === true && pod?.container.state === 'running') {
    return report('Learner', 'Learner', 'it is catching up');
  }
  return startingReport(s, slot, s.latch !== undefined && joined);
};

const TROUBLE = new Set<string>([
  'Unschedulable',
  'VolumeNotProvisioned',
  'ImagePullFailed',
  'ContainerNotCreated',
  'NodeLost',
  'NotAnswering',
  'OptionsRefused',
  'OutOfMemory',
  'VolumeEmpty',
  'DataCorrupt',
  'DataDiffers',
  'VolumeFull',
  'SpaceLow',
  'SpaceExhausted',
  'CorruptAlarm',
  'CrashLooping',
  'VersionUnsupported',
  'ForeignData',
  'ForeignIdentity',
  'RevisionTooLow',
  'MemoryLost',
  'VolumeLost',
] satisfies Reason[]);

/** The status to write, or undefined where what stands there is good enough. */
export const memberStatus = (s: Situation, slot: Slot): EtcdMemberStatus | undefined => {
  const { member, pod, incarnation } = slot;
  const before = member.status;
  const said = memberReport(s, slot);
  const ready = slot.serving;
  const old = before.conditions?.find(({ type }) => type === 'Ready');
  if (incarnation === undefined && before.phase === undefined && said.phase !== 'Removed') return undefined;
  // On the way up, and between the stations of a restart, only trouble is worth a write.
  const passing =
    !ready &&
    !said.trouble &&
    (said.phase === 'Provisioning' || said.phase === 'Restarting' || said.phase === 'Learner');
  if (passing && before.phase === undefined) return undefined;
  const wasTrouble = old !== undefined && old.status === 'False' && TROUBLE.has(old.reason);
  if (passing && old?.status === 'False' && !wasTrouble && before.phase !== 'Paused' && before.phase !== 'Pending')
    return undefined;

  const claimUID = s.quorum?.controllerUID ?? before.clusterUID ?? member.firstClaim;
  const name = incarnation === undefined ? undefined : incarnationName(member.name, incarnation);
  const answer = pod?.etcd.known === true ? pod.etcd.value : undefined;
  const isVoter = slot.entry.known ? slot.entry.value?.isLearner === false : (before.isVoter ?? false);
  const version = answer?.version ?? (incarnation === before.incarnation ? before.version : undefined);
  // The identity is recorded when it was proven, never from what merely answers.
  const memberID =
    slot.identity.is === 'proven' || slot.volume?.memberID !== undefined || before.memberID !== undefined
      ? slot.memberID
      : undefined;
  const clusterID = s.latch !== undefined && slot.identity.is === 'proven' ? s.latch : before.clusterID;
  const next: EtcdMemberStatus = {
    phase: said.phase,
    ...(incarnation === undefined ? {} : { incarnation }),
    ...(memberID === undefined || incarnation === undefined ? {} : { memberID }),
    ...(clusterID === undefined ? {} : { clusterID }),
    ...(claimUID === undefined ? {} : { clusterUID: claimUID }),
    ...(name === undefined ? {} : { podName: name }),
    ...(pod === undefined ? {} : { podUID: pod.uid }),
    ...(name === undefined || slot.memory ? {} : { pvcName: name }),
    ...(incarnation === undefined ? {} : { isVoter, isLeader: isLeader(s, slot) }),
    ...(version === undefined || incarnation === undefined ? {} : { version }),
    observedGeneration: member.generation,
    conditions: conditions(before.conditions, s.seen.now, member.generation, {
      Ready: { status: truth(ready), reason: said.reason, message: said.message },
      Synced: { status: 'True', reason: 'Settled', message: 'the runtime follows this member' },
    }),
  };
  return equalJson(next, before) ? undefined : next;
};
