/**
 * What is written down of the whole cluster after a pass: the status of the EtcdQuorum; member-report.ts has that of each
 * EtcdMember. Pure, and thrifty: each write to a composed object costs the claim two of its hundred circuit-breaker tokens,
 * four where the claim's own status follows, so a state that only leads to the next one within seconds is not written.
 */
import type { EtcdQuorumStatus } from '../../api/etcdquorum.gen.ts';
import type { Reason } from '../../api/reasons.ts';
import { compareMinors, minorOf } from '../../api/upgrade-path.ts';
import { alarmsIn } from './alarms.ts';
import { caChangeMessage, caChangeOf, unusable } from './ca-change.ts';
import { authoritiesOf, endingSoon, firstProblem, firstToEnd, trustBundle } from './certificates.ts';
import { conditions, type Said } from './conditions.ts';
import { advice, isSame, remembered } from './consent.ts';
import { equalJson } from './equal-json.ts';
import { type MemberReport, memberReport } from './member-report.ts';
import type { Decision } from './plan.ts';
import { isOutdated, isPreparedFor, runningVersions } from './rollout.ts';
import { REFUSALS } from './rules/standing.ts';
import { isLeader, majority, type Situation, type Slot } from './situation.ts';
import { lastSeenOf, snapshotsOf, survivorsOf } from './survivors.ts';

/** Trouble that the API server or the kubelet made for the step that was taken. */
export type StepFault = { readonly reason: Reason; readonly message: string };

/** That members are away is what a lost quorum consists of, and no cause of it that one could mend. */
const AWAY = new Set<string>(['NodeLost', 'NotAnswering'] satisfies Reason[]);

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

type Cause = { readonly reason: Reason; readonly message: string };

/**
 * The same words from the first step of the first member to the last step of the last: which one it is, and how many are
 * there, stands elsewhere in the status. Each change of a condition costs the claim four tokens of its circuit breaker and
 * now and then a dozen: Crossplane writes status and conditions one after the other, and a reconcile that has yet to see
 * the second write takes it back, which is a change that makes it reconcile again.
 */
const underwayOf = ({ s, replicas }: Picture, phase: EtcdQuorumStatus['phase']): Cause | undefined => {
  const { kind, target } = s.quorum?.status.operation ?? {};
  const missing = s.latch !== undefined && phase === 'Running' ? replicas - s.held.length : 0;
  if (kind === 'RemoveOrphan') {
    return { reason: 'MemberListOrphan', message: `${target}, of which nothing is left, is taken off etcd's list` };
  }
  if (kind === 'ReplaceMember') return { reason: 'Replacing', message: `${target} is being replaced` };
  if (kind === 'AddMember' || missing > 0) {
    return { reason: 'Adding', message: `members are added until there are ${replicas}` };
  }
  if (kind === 'RemoveMember' || missing < 0) {
    return { reason: 'Removing', message: `members are removed until ${replicas} are left` };
  }
  return undefined;
};

/** One sentence from the first to the last step of it, as of every change; where it hangs, that is said. */
const restoringInPlace = ({ s, decision: { step } }: Picture): Cause | undefined => {
  const { operation, restoring } = s.quorum?.status ?? {};
  if (operation?.kind !== 'RestoreInPlace') return undefined;
  if (step.do === 'Wait' && step.reason !== 'Restoring') return { reason: step.reason, message: step.message };
  return {
    reason: 'Restoring',
    message: `EtcdRestore ${restoring?.restore ?? '?'} puts the data of a snapshot in the place of this cluster's; deleting it brings back the cluster's own`,
  };
};

type Progress = { readonly behind: number; readonly whole: boolean; readonly underway: Cause | undefined };

/** Why the cluster is not as asked, in one sentence: what comes first here outweighs what comes after it. */
const waitingFor = (
  picture: Picture,
  phase: EtcdQuorumStatus['phase'],
  { behind, whole, underway }: Progress,
): Cause => {
  const { s, decision, fault, replicas, serving, troubles } = picture;
  const { step, rule } = decision;
  const [trouble] = troubles;
  if (step.do === 'AskHuman') return { reason: step.reason, message: step.message };
  if (fault !== undefined) return fault;
  const replacing = restoringInPlace(picture);
  if (replacing !== undefined) return replacing;
  const wait = step.do === 'Wait' ? { reason: step.reason, message: step.message } : undefined;
  // As long as somebody survives there is a way out, and it is a person's to choose; every other trouble comes after it.
  const wayOut = rule === 'recovery' || advice(s) !== undefined;
  if (wait !== undefined && phase === 'QuorumLost' && wayOut) return wait;
  if (wait !== undefined && rule === 'certificates' && !whole) return wait;
  if (wait?.reason === 'NodeLost' && rule === 'restore') return wait;
  if (trouble !== undefined && !(phase === 'QuorumLost' && AWAY.has(trouble.said.reason))) {
    return { reason: trouble.said.reason, message: sentence(picture) };
  }
  if (wait?.reason === 'Downgrading') return wait;
  if (behind > 0 && phase !== 'QuorumLost') {
    return {
      reason: 'RollingOut',
      message: `${s.held.length - behind} of ${s.held.length} members run what the claim asks for`,
    };
  }
  if (wait !== undefined && rule === 'restore') return wait;
  if (phase === 'Pending' || phase === 'Bootstrapping') {
    // The same words from the first Pod to the last: each change of them would cost the claim tokens.
    return { reason: 'Bootstrapping', message: `${replicas} members are starting for the first time` };
  }
  if (underway !== undefined && phase !== 'QuorumLost') return underway;
  // An election, or a call that ran into its deadline: what is said of the members says more.
  if (wait !== undefined && (rule !== 'unknowns' || serving === 0)) return wait;
  return { reason: 'Starting', message: `${serving} of ${replicas} members serve` };
};

/**
 * What the runtime itself waits for, where another sentence stands for the whole change. Told once it is late: before that every
 * station of every change would be a write. A list that cannot be read for a moment, and members that start, are told elsewhere.
 */
const heldUpBy = ({ rule, step }: Decision, said: Cause): string =>
  step.do !== 'Wait' ||
  rule === 'unknowns' ||
  rule === 'starting' ||
  REFUSALS.includes(step.reason) ||
  said.message.includes(step.message)
    ? ''
    : `; now: ${step.message}`;

/** A wish that only another wish makes possible: nothing is amiss, so no other condition would tell. */
const wishHeld = ({ s, decision: { rule, step } }: Picture): Cause | undefined =>
  rule === 'held' && step.do === 'Wait' && s.held.length === 1
    ? { reason: step.reason, message: step.message }
    : undefined;

const saidOf = (picture: Picture, phase: EtcdQuorumStatus['phase']): Record<string, Said> => {
  const { s, decision, fault, replicas, serving, voters, troubles } = picture;
  const { step } = decision;
  const [trouble] = troubles;
  const asks = step.do === 'AskHuman' ? { reason: step.reason, message: step.message } : undefined;
  // What cannot come back is replaced without anybody's help, as long as there is a quorum to do it by.
  const stuck = troubles.find(
    ({ said }) => REFUSALS.includes(said.reason) || (phase === 'QuorumLost' && said.phase === 'Failed'),
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
  const underway = underwayOf(picture, phase);
  const waiting = waitingFor(picture, phase, { behind, whole, underway });

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
                message: `it takes longer than progressDeadlineSeconds: ${waiting.message}${heldUpBy(decision, waiting)}`,
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

  const wish = wishHeld(picture);
  const stalled: Said =
    asks !== undefined
      ? { status: 'True', ...asks }
      : stuck !== undefined
        ? {
            status: 'True',
            reason: stuck.said.reason,
            message: `${stuck.name}: ${stuck.said.message}`,
          }
        : wish !== undefined
          ? { status: 'True', ...wish }
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
