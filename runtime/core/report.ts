/**
 * What is written down after a pass: the status of the EtcdQuorum and of each EtcdMember. Pure, and thrifty: each write
 * to a composed object costs the claim two of its hundred circuit-breaker tokens, four where the claim's own status
 * follows, so a state that only leads to the next one within seconds is not written.
 */
import type { EtcdMemberStatus } from '../../api/etcdmember.gen.ts';
import type { EtcdQuorumStatus } from '../../api/etcdquorum.gen.ts';
import { CONTAINER, incarnationName } from '../../api/names.ts';
import type { Reason } from '../../api/reasons.ts';
import { compareMinors, minorOf } from '../../api/upgrade-path.ts';
import { agreementOf, alarmsIn, bytes, hasRoom, isNearQuota, spaceOf } from './alarms.ts';
import { caChangeMessage, caChangeOf, unusable } from './ca-change.ts';
import { authoritiesOf, endingSoon, firstProblem, firstToEnd, trustBundle } from './certificates.ts';
import { conditions, type Said, truth } from './conditions.ts';
import { advice, isSame, remembered } from './consent.ts';
import { equalJson } from './equal-json.ts';
import { exitReasons, lastExitOf } from './exit-reasons.ts';
import type { SeenPod } from './observed.ts';
import type { Decision } from './plan.ts';
import { isOutdated, isPreparedFor, runningVersions } from './rollout.ts';
import { fillingLoss, nodeLoss } from './rules/lost-nodes.ts';
import { isProvenStart, isSpare } from './rules/standing.ts';
import { isLeader, majority, type Situation, type Slot } from './situation.ts';
import { lastSeenOf, snapshotsOf, survivorsOf } from './survivors.ts';

/** Trouble that the API server or the kubelet made for the step that was taken. */
export type StepFault = { readonly reason: Reason; readonly message: string };

/** The scheduler and the provisioner need a moment; before that, "not yet" is no trouble. */
const PATIENCE_MS = 4_000;
// ------------------------------------------------------------------------------------------------------- a member

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

const hasEnded = ({ phase }: SeenPod): boolean => phase === 'Failed' || phase === 'Succeeded';

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
  const refused = member.status.conditions?.find(
    ({ type, reason }) =>
      type === 'Ready' && (reason === 'ForeignData' || reason === 'ForeignIdentity' || reason === 'RevisionTooLow'),
  );
  if (operation?.kind === 'RestoreInPlace' && pod?.voterRole !== true) {
    return report('Restarting', 'Restoring', 'the data of the cluster is being replaced by that of a snapshot');
  }
  if (identity.is === 'foreign') return report('Failed', identity.reason, `${identity.why}; its volume is kept`, true);
  if (refused !== undefined && member.status.phase === 'Failed' && !member.retry && pod?.deleting !== false) {
    return report('Failed', refused.reason as Reason, refused.message ?? '', true);
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
  if (s.latch !== undefined && begun && memory && (pod === undefined || hasEnded(pod))) {
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

const REFUSALS = new Set<string>(['ForeignData', 'ForeignIdentity', 'RevisionTooLow'] satisfies Reason[]);

/** That members are away is what a lost quorum consists of, and no cause of it that one could mend. */
const AWAY = new Set<string>(['NodeLost', 'NotAnswering'] satisfies Reason[]);

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

// ------------------------------------------------------------------------------------------------------ the quorum

/**
 * The lower minor that the data of every member is written for. It stays while one that runs it is being made again, and goes
 * when all run it, or the claim no longer asks for it.
 */
const preparedMinor = (s: Situation, before: string | undefined): string | undefined => {
  const wanted = s.quorum?.spec.version;
  if (wanted === undefined) return undefined;
  const minor = minorOf(wanted);
  const answers = s.held.flatMap(({ pod }) => (pod?.etcd.known === true ? [pod.etcd.value.version] : []));
  if (answers.length === s.held.length) {
    const ahead = answers.some((version) => compareMinors(version, wanted) > 0);
    return ahead && isPreparedFor(s, wanted) ? minor : undefined;
  }
  return before === minor ? before : undefined;
};

/**
 * The loss as long as there is no quorum, whatever else is answered meanwhile: a consent is one to this loss, or none.
 * Survivors as they were last seen, since a recovery stops them.
 */
const lossOf = (
  s: Situation,
  rule: string,
): Pick<EtcdQuorumStatus, 'loss' | 'survivors' | 'snapshots' | 'furthest'> => {
  const { status, spec } = s.quorum ?? {};
  const isLost = rule === 'quorum lost' || rule === 'data lost';
  // While a snapshot is fetched the lost cluster's members run on, and one may come back.
  const isUntouched = isLost || (rule === 'recovery' && status?.operation?.step === 'filling');
  if (s.seen.membership.known || (status?.loss === undefined && !isLost)) return {};
  const consent = spec?.recovery?.clusterID === s.latch ? spec?.recovery : undefined;
  const prior =
    status?.loss !== undefined ? status.loss.priorConsent : consent === undefined ? undefined : remembered(consent);
  const last = lastSeenOf(s);
  const loss = {
    since: status?.loss?.since ?? new Date(s.seen.now).toISOString(),
    ...(last === undefined ? {} : { lastRevision: String(last.revision) }),
    ...(last?.at === undefined ? {} : { lastSeenAt: last.at }),
    ...(prior === undefined || !isSame(prior, consent) ? {} : { priorConsent: prior }),
  };
  const snapshots = snapshotsOf(s)
    .slice(0, SNAPSHOTS_SHOWN)
    .map(({ name, revision, takenAt, uri }) => ({
      name,
      revision: String(revision),
      ...(takenAt === undefined ? {} : { takenAt }),
      uri,
    }));
  const survivors = isUntouched
    ? survivorsOf(s).map(({ slot, revision, source, isLearner }) => ({
        member: slot.member.name,
        revision: String(revision),
        source,
        readable: source === 'status',
        learner: isLearner,
      }))
    : status?.survivors;
  const furthest = furthestOf(survivors, snapshots);
  return {
    loss,
    ...(survivors === undefined || survivors.length === 0 ? {} : { survivors }),
    ...(snapshots.length === 0 ? {} : { snapshots }),
    ...(furthest === undefined ? {} : { furthest }),
  };
};

const SNAPSHOTS_SHOWN = 3;

/** Both lists have most data first. Among equals the member: it is here. */
const furthestOf = (
  [survivor]: EtcdQuorumStatus['survivors'] & object = [],
  [snapshot]: EtcdQuorumStatus['snapshots'] & object = [],
): EtcdQuorumStatus['furthest'] => {
  if (survivor !== undefined && (snapshot === undefined || BigInt(survivor.revision) >= BigInt(snapshot.revision))) {
    return { kind: 'Survivor', name: survivor.member, revision: survivor.revision };
  }
  return snapshot === undefined ? undefined : { kind: 'Snapshot', name: snapshot.name, revision: snapshot.revision };
};

/** `progressing` since longer than the claim allows. */
const late = (s: Situation): boolean => {
  const progressing = s.quorum?.status.conditions?.find(({ type }) => type === 'Progressing');
  if (progressing === undefined || (progressing.status !== 'True' && progressing.reason !== 'DeadlineExceeded'))
    return false;
  const seconds = s.quorum?.spec.progressDeadlineSeconds ?? 600;
  return (
    progressing.reason === 'DeadlineExceeded' ||
    s.seen.now - Date.parse(progressing.lastTransitionTime) > seconds * 1_000
  );
};

type Picture = {
  readonly s: Situation;
  readonly decision: Decision;
  readonly fault: StepFault | undefined;
  readonly replicas: number;
  readonly serving: number;
  readonly voters: number;
  readonly troubles: readonly { readonly name: string; readonly said: MemberReport }[];
};

const phaseOf = ({ s, decision, replicas, serving }: Picture): NonNullable<EtcdQuorumStatus['phase']> => {
  const { step, rule } = decision;
  if (s.latch === undefined) {
    if (step.do === 'AskHuman') return 'Failed';
    if (rule === 'restore' && s.quorum?.status.operation !== undefined) return 'Bootstrapping';
    return s.quorum?.status.bootstrap === undefined ? (replicas === 0 ? 'Paused' : 'Pending') : 'Bootstrapping';
  }
  if (replicas === 0) return 'Paused';
  if (rule === 'quorum lost' || rule === 'recovery' || (rule === 'data lost' && step.do !== 'Wait'))
    return 'QuorumLost';
  if (step.do === 'AskHuman' && serving === 0) return 'Failed';
  // Formed, but not everyone has served yet for the first time.
  if (s.quorum?.status.phase === 'Bootstrapping' && serving < replicas && serving < s.held.length)
    return 'Bootstrapping';
  const joining = s.quorum?.status.operation?.kind === 'AddMember' ? s.quorum.status.operation.target : undefined;
  return s.held.length > 0 &&
    s.held.every((slot) => slot.serving || slot.member.name === joining || isNewcomer(s, slot))
    ? 'Running'
    : 'Degraded';
};

/** It votes since a moment, and its kubelet has yet to find it ready for the first time while the next one is added. */
const isNewcomer = (s: Situation, { member, identity, pod }: Slot): boolean =>
  s.quorum?.status.operation?.kind === 'AddMember' &&
  identity.is === 'proven' &&
  pod?.deleting === false &&
  (member.status.phase === undefined ||
    ['Pending', 'Removed', 'Provisioning', 'Learner'].includes(member.status.phase));

const sentence = ({ troubles }: Picture): string =>
  troubles.map(({ name, said }) => `${name}: ${said.message}`).join('; ');

const saidOf = (picture: Picture, phase: EtcdQuorumStatus['phase']): Record<string, Said> => {
  const { s, decision, fault, replicas, serving, voters, troubles } = picture;
  const { step } = decision;
  const [trouble] = troubles;
  const asks = step.do === 'AskHuman' ? { reason: step.reason, message: step.message } : undefined;
  // What cannot come back is replaced without anybody's help, as long as there is a quorum to do it by.
  const stuck = troubles.find(
    ({ said }) => REFUSALS.has(said.reason) || (phase === 'QuorumLost' && said.phase === 'Failed'),
  );
  // Crossplane brings a change to the quorum and the members one after the other, and a lower minor to the members only later.
  const behind = s.held.filter(
    (slot) => isOutdated(slot) || (s.quorum !== undefined && slot.member.spec.version !== s.quorum.spec.version),
  ).length;
  const whole =
    phase === 'Running' &&
    serving === replicas &&
    s.quorum?.status.operation === undefined &&
    behind === 0 &&
    alarmsIn(s).length === 0;
  // The same words from the first step of the first member to the last step of the last: which one it is, and how many are
  // there, stands elsewhere in the status. Each change of a condition costs the claim four tokens of its circuit breaker and
  // now and then a dozen: Crossplane writes status and conditions one after the other, and a reconcile that has yet to see
  // the second write takes it back, which is a change that makes it reconcile again.
  const inFlight = s.quorum?.status.operation;
  const missing = replicas - s.held.length;
  const underway: { reason: Reason; message: string } | undefined =
    inFlight?.kind === 'RemoveOrphan'
      ? {
          reason: 'MemberListOrphan',
          message: `${inFlight.target}, of which nothing is left, is taken off etcd's list`,
        }
      : inFlight?.kind === 'ReplaceMember'
        ? { reason: 'Replacing', message: `${inFlight.target} is being replaced` }
        : inFlight?.kind === 'AddMember' || (missing > 0 && s.latch !== undefined && phase === 'Running')
          ? { reason: 'Adding', message: `members are added until there are ${replicas}` }
          : inFlight?.kind === 'RemoveMember' || (missing < 0 && s.latch !== undefined && phase === 'Running')
            ? { reason: 'Removing', message: `members are removed until ${replicas} are left` }
            : undefined;
  // As long as somebody survives there is a way out, and it is a person's to choose; every other trouble comes after it.
  const wayOut = decision.rule === 'recovery' || advice(s) !== undefined;
  const quorumLost = phase === 'QuorumLost' && step.do === 'Wait' && wayOut ? step : undefined;
  // One sentence from the first to the last step of it, as of every change; where it hangs, that is said.
  const replacing: { reason: Reason; message: string } | undefined =
    inFlight?.kind !== 'RestoreInPlace'
      ? undefined
      : step.do === 'Wait' && step.reason !== 'Restoring'
        ? { reason: step.reason, message: step.message }
        : {
            reason: 'Restoring',
            message: `EtcdRestore ${s.quorum?.status.restoring?.restore ?? '?'} puts the data of a snapshot in the place of this cluster's; deleting it brings back the cluster's own`,
          };
  const waiting: { reason: Reason; message: string } =
    asks ??
    fault ??
    replacing ??
    quorumLost ??
    (decision.rule === 'certificates' && step.do === 'Wait' && !whole
      ? { reason: step.reason, message: step.message }
      : undefined) ??
    (decision.rule === 'restore' && step.do === 'Wait' && step.reason === 'NodeLost'
      ? { reason: step.reason, message: step.message }
      : undefined) ??
    (trouble !== undefined && !(phase === 'QuorumLost' && AWAY.has(trouble.said.reason))
      ? { reason: trouble.said.reason, message: sentence(picture) }
      : step.do === 'Wait' && step.reason === 'Downgrading'
        ? { reason: step.reason, message: step.message }
        : behind > 0 && phase !== 'QuorumLost'
          ? {
              reason: 'RollingOut',
              message: `${s.held.length - behind} of ${s.held.length} members run what the claim asks for`,
            }
          : decision.rule === 'restore' && step.do === 'Wait'
            ? { reason: step.reason, message: step.message }
            : phase === 'Pending' || phase === 'Bootstrapping'
              ? // The same words from the first Pod to the last: each change of them would cost the claim tokens.
                { reason: 'Bootstrapping', message: `${replicas} members are starting for the first time` }
              : underway !== undefined && phase !== 'QuorumLost'
                ? underway
                : // An election, or a call that ran into its deadline: what is said of the members says more.
                  step.do === 'Wait' && (decision.rule !== 'unknowns' || serving === 0)
                  ? { reason: step.reason, message: step.message }
                  : { reason: 'Starting', message: `${serving} of ${replicas} members serve` });

  // All of them, in one pass: one call that ran into its deadline is nothing to tell anybody.
  const cutOff =
    s.latch !== undefined &&
    decision.rule === 'unknowns' &&
    s.held.length > 0 &&
    s.held.every(({ pod }) => pod === undefined || !pod.etcd.known);

  const available: Said =
    phase === 'Paused'
      ? { status: 'False', reason: 'Paused', message: 'replicas is 0: identity and volumes are kept' }
      : phase === 'QuorumLost'
        ? {
            status: 'False',
            reason: asks?.reason === 'AllDataLost' ? 'AllDataLost' : 'QuorumLost',
            message:
              'message' in step
                ? step.message
                : decision.rule === 'recovery'
                  ? 'quorum is being recovered; how far that is stands in status.operation of the EtcdQuorum'
                  : 'no quorum',
          }
        : s.latch !== undefined && serving > 0 && serving >= majority(voters)
          ? {
              status: 'True',
              reason: serving >= replicas ? 'QuorumHealthy' : 'QuorumAvailable',
              message:
                underway !== undefined && !whole && phase !== 'Degraded'
                  ? 'a quorum serves while the size changes'
                  : `${serving} of ${replicas} members serve`,
            }
          : { status: 'False', ...waiting };

  const changingCa = caChangeOf(s);
  const progressing: Said =
    asks !== undefined
      ? { status: 'False', ...asks }
      : whole && changingCa !== undefined
        ? { status: 'True', reason: 'CaChanging', message: caChangeMessage(changingCa) }
        : whole || phase === 'Paused'
          ? { status: 'False', reason: phase === 'Paused' ? 'Paused' : 'Settled', message: 'the cluster is as asked' }
          : late(s)
            ? {
                status: 'False',
                reason: 'DeadlineExceeded',
                message: `it takes longer than progressDeadlineSeconds: ${waiting.message}`,
              }
            : { status: 'True', ...waiting };

  const degraded: Said =
    trouble !== undefined
      ? { status: 'True', reason: trouble.said.reason, message: sentence(picture) }
      : fault !== undefined
        ? { status: 'True', ...fault }
        : phase === 'QuorumLost' || phase === 'Degraded'
          ? { status: 'True', ...waiting }
          : { status: 'False', reason: phase === 'Paused' ? 'Paused' : 'Settled', message: 'no member is in trouble' };

  const stalled: Said =
    asks !== undefined
      ? { status: 'True', ...asks }
      : stuck !== undefined
        ? {
            status: 'True',
            reason: stuck.said.reason,
            message: `${stuck.name}: ${stuck.said.message}`,
          }
        : { status: 'False', reason: 'Settled', message: 'nobody has to decide anything' };

  return {
    Available: available,
    Progressing: progressing,
    Degraded: degraded,
    Stalled: stalled,
    Ready: whole
      ? { status: 'True', reason: 'QuorumHealthy', message: `${serving} of ${replicas} members serve` }
      : { status: 'False', ...(phase === 'Paused' ? { reason: 'Paused', message: 'replicas is 0' } : waiting) },
    Synced:
      fault !== undefined
        ? { status: 'False', ...fault }
        : cutOff
          ? { status: 'False', reason: 'ClusterUnreachable', message: step.do === 'Wait' ? step.message : '' }
          : { status: 'True', reason: 'Settled', message: 'the runtime follows this cluster' },
  };
};

/** Whether the certificates can be used, and for how long yet. Undefined without TLS. */
export const certificatesSaid = (s: Situation): Said | undefined => {
  const { certificates, cluster, namespace, now } = s.seen;
  if (certificates === undefined) return undefined;
  const problem = firstProblem(certificates, cluster, namespace, now);
  if (problem !== undefined) return { status: 'False', reason: problem.reason, message: problem.message };
  const stuck = unusable(s);
  if (stuck !== undefined) return { status: 'False', ...stuck };
  const change = caChangeOf(s);
  if (change !== undefined) return { status: 'True', reason: 'CaChanging', message: caChangeMessage(change) };
  const soon = endingSoon(certificates, now);
  return soon === undefined
    ? {
        status: 'True',
        reason: 'CertificatesValid',
        message: 'every certificate is valid and covers what it is used for',
      }
    : { status: 'True', ...soon };
};

const certificateStatus = (s: Situation): Pick<EtcdQuorumStatus, 'caChange' | 'certificatesExpireAt' | 'clientCA'> => {
  const { certificates } = s.seen;
  const first = firstToEnd(certificates);
  const clientCA = trustBundle(
    (certificates ?? []).flatMap((one) => (one.role === 'server' ? authoritiesOf(one) : [])),
  );
  const change = caChangeOf(s);
  return {
    ...(change === undefined
      ? {}
      : {
          caChange: {
            phase: change.phase,
            certificates: change.certificates,
            since: s.quorum?.status.caChange?.since ?? new Date(s.seen.now).toISOString(),
          },
        }),
    ...(first === undefined ? {} : { certificatesExpireAt: new Date(first.notAfter).toISOString() }),
    ...(clientCA === '' ? {} : { clientCA }),
  };
};

/**
 * The status to write, or undefined. Counters and messages alone are no reason to write while the cluster forms, when
 * they change with each member; `urgent` tells a change that somebody waits for from one that may be gathered.
 */
export const quorumStatus = (
  decision: Decision,
  fault?: StepFault,
): { readonly status: EtcdQuorumStatus; readonly urgent: boolean } | undefined => {
  const { situation: s, step, rule, sketch } = decision;
  const { quorum } = s;
  if (quorum === undefined || quorum.deleting) return undefined;
  const before = quorum.status;
  const replicas = quorum.spec.replicas;
  const serving = s.held.filter(({ serving: serves }) => serves).length;
  const { membership } = s.seen;
  const names = (learner: boolean): string[] | undefined =>
    membership.known
      ? s.held.flatMap(({ entry, member }) => (entry.known && entry.value?.isLearner === learner ? [member.name] : []))
      : undefined;
  const voters = names(false) ?? before.voters;
  const learners = names(true) ?? before.learners;
  const troubles = s.slots.flatMap((slot) => {
    const said = memberReport(s, slot);
    return said.trouble ? [{ name: slot.member.name, said }] : [];
  });
  const voterCount = membership.known
    ? membership.value.members.filter(({ isLearner }) => !isLearner).length
    : (before.voters?.length ?? replicas);
  const picture: Picture = { s, decision, fault, replicas, serving, voters: voterCount, troubles };
  const phase = phaseOf(picture);
  const leader = s.held.find((slot) => isLeader(s, slot))?.member.name;
  const version = runningVersions(s) ?? before.version;
  const downgradableTo = preparedMinor(s, before.downgradableTo);
  const certificates = certificatesSaid(s);
  const next: EtcdQuorumStatus = {
    ...(s.latch === undefined ? {} : { clusterID: s.latch }),
    ...(quorum.controllerUID === undefined
      ? before.clusterUID === undefined
        ? {}
        : { clusterUID: before.clusterUID }
      : { clusterUID: before.clusterUID ?? quorum.controllerUID }),
    phase,
    members: `${serving}/${replicas}`,
    readyMembers: serving,
    ...(version === undefined ? {} : { version }),
    ...(downgradableTo === undefined ? {} : { downgradableTo }),
    ...(leader === undefined || phase === 'Paused' ? {} : { leader }),
    ...(voters === undefined ? {} : { voters }),
    ...(learners === undefined ? {} : { learners }),
    ...(before.bootstrap === undefined ? {} : { bootstrap: before.bootstrap }),
    ...(before.restored === undefined ? {} : { restored: before.restored }),
    ...(before.restoring === undefined ? {} : { restoring: before.restoring }),
    ...(before.pastRestores === undefined ? {} : { pastRestores: before.pastRestores }),
    ...(before.operation === undefined ? {} : { operation: before.operation }),
    ...lossOf(s, rule),
    ...(before.recovered === undefined ? {} : { recovered: before.recovered }),
    ...(before.repairs === undefined ? {} : { repairs: before.repairs }),
    decision: { rule, seen: sketch, next: 'message' in step ? `${step.do}: ${step.message}` : step.do },
    ...certificateStatus(s),
    ...(before.authEnabled === undefined ? {} : { authEnabled: before.authEnabled }),
    observedGeneration: quorum.generation,
    conditions: conditions(before.conditions, s.seen.now, quorum.generation, {
      ...saidOf(picture, phase),
      ...(certificates === undefined ? {} : { CertificatesValid: certificates }),
    }),
  };
  const essence = (status: EtcdQuorumStatus) => ({
    phase: status.phase,
    clusterID: status.clusterID,
    clusterUID: status.clusterUID,
    downgradableTo: status.downgradableTo,
    generation: status.observedGeneration,
    caChange: status.caChange === undefined ? undefined : [status.caChange.phase, status.caChange.certificates],
    loss: status.loss,
    survivors: status.survivors,
    snapshots: status.snapshots,
    conditions: (status.conditions ?? []).map(({ type, status: value, reason }) => [type, value, reason] as const),
  });
  const detail = (status: EtcdQuorumStatus): unknown => ({
    members: status.members,
    version: status.version,
    leader: status.leader,
    voters: status.voters,
    learners: status.learners,
    certificatesExpireAt: status.certificatesExpireAt,
    clientCA: status.clientCA,
    messages: (status.conditions ?? []).map(({ message }) => message),
  });
  // Nobody waits for these: that a forming cluster has a quorum before it is whole, and that our own reference to the
  // budget made another generation of the EtcdQuorum.
  const forming = phase === 'Bootstrapping' && before.phase === 'Bootstrapping';
  const waitedFor = ({ generation: _, conditions: all, ...rest }: ReturnType<typeof essence>): unknown => ({
    ...rest,
    conditions: forming ? all.filter(([type]) => type !== 'Available') : all,
  });
  if (!equalJson(essence(next), essence(before))) {
    return { status: next, urgent: !equalJson(waitedFor(essence(next)), waitedFor(essence(before))) };
  }
  if (equalJson(detail(next), detail(before))) return undefined;
  if (phase === 'Bootstrapping') return undefined;
  return { status: next, urgent: false };
};
