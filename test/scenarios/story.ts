/**
 * Reads and plays a scenario file: a command, its input lines if it has any, `----`, and what came of it.
 *
 *     # Three members from nothing.
 *     claim replicas=3
 *     ----
 *     ok
 *
 *     pass
 *     ----
 *     record: Wait Creating: the EtcdQuorum is missing; Crossplane makes it again
 *
 * Each file has one world, in which its commands happen one after the other; `begin` makes it anew. `see` alone does without a world: it shows
 * what the planner answers to a picture that is drawn in its input (see world.ts), and what is reported of it.
 */
import { ordinalOf, peerURL } from '../../api/names.ts';
import { brokenInvariant } from '../../runtime/core/invariants.ts';
import { memberReport, memberStatus } from '../../runtime/core/member-report.ts';
import { type Decision, plan } from '../../runtime/core/plan.ts';
import { quorumStatus, type StepFault } from '../../runtime/core/report.ts';
import { locationName } from '../../runtime/core/snapshots/store-access.ts';
import type { Step } from '../../runtime/core/steps.ts';
import {
  applyClaim,
  deleteClaim,
  diskOf,
  emptyWorld,
  endOnVolume,
  foreignDisk,
  observe,
  pass,
  podOf,
  restartContainer,
  run,
  storeSnapshot,
  turn,
  turnCollector,
  turnCrossplane,
  turnEtcd,
  turnKubelet,
  volumeOf,
  type World,
} from './simulate.ts';
import { CLUSTER, NAMESPACE, observed, type Shape } from './world.ts';

export type Chapter = { readonly before: string; readonly directive: string; readonly expected: string };

/** Comments and blank lines before a directive belong to it, so that a rewritten file keeps them. */
const chaptersOf = (text: string): { readonly chapters: readonly Chapter[]; readonly after: string } => {
  const chapters: Chapter[] = [];
  let before = '';
  let directive: string[] = [];
  let output: string[] | undefined;
  const close = (): void => {
    if (output === undefined) return;
    chapters.push({ before, directive: directive.join('\n'), expected: output.join('\n') });
    before = '';
    directive = [];
    output = undefined;
  };
  for (const line of text.split('\n')) {
    if (output !== undefined) {
      if (line === '') {
        close();
        before = '\n';
      } else output.push(line);
    } else if (directive.length === 0 && (line === '' || line.startsWith('#'))) before += `${line}\n`;
    else if (line === '----') output = [];
    else directive.push(line);
  }
  close();
  return { chapters, after: before.replace(/^\n/, '') };
};

const names = (things: readonly { readonly name: string }[]): string => things.map(({ name }) => name).join(' ');

/** What a step is about, without what only its receiver needs. */
export const told = (step: Step): string => {
  switch (step.do) {
    case 'Wait':
    case 'AskHuman':
      return `${step.do} ${step.reason}: ${step.message}`;
    case 'Settled':
      return 'Settled';
    case 'RecordAttempt':
      return `RecordAttempt ${step.attempt} of ${step.members.join(' ')}`;
    case 'AbandonAttempt':
      return `AbandonAttempt: ${step.why}`;
    case 'BringUp':
      return `BringUp ${step.places.map(({ member, incarnation, initialState, makeVolume }) => `${member.name}-${incarnation}(${initialState}${makeVolume ? ', with a volume' : ''})`).join(' ')}: ${step.why}`;
    case 'Latch':
      return `Latch ${step.clusterID}`;
    case 'ForgetRecord':
      return `ForgetRecord: ${step.why}`;
    case 'Adopt':
      return `Adopt for ${step.clusterUID}`;
    case 'Admit':
      return `Admit ${step.pods.map(({ name, memberID }) => `${name}(${memberID})`).join(' ')}`;
    case 'Configure':
    case 'Dismiss':
      return `${step.do} ${names(step.pods)}: ${step.why}`;
    case 'DeletePods':
      return `DeletePods ${names(step.pods)} (${step.reason}): ${step.why}`;
    case 'StopImpostor':
      return `StopImpostor ${step.pod.name} (${step.reason}): ${step.why}`;
    case 'SetBudget':
      return `SetBudget ${step.minAvailable ?? 'none'}${step.alwaysEvictUnhealthy ? ', the unhealthy may go' : ''}`;
    case 'BeginOperation':
      return `BeginOperation ${step.kind} ${step.target}: ${step.why}`;
    case 'AddLearner':
      return `AddLearner ${step.target} ${step.peerURL}`;
    case 'Promote':
    case 'RemoveMember':
      return `${step.do} ${step.target} (${step.memberID})`;
    case 'Downgrade':
      return `Downgrade ${step.action} ${step.target}`;
    case 'MoveLeader':
      return `MoveLeader ${step.from} to ${step.to}${step.why === undefined ? '' : `: ${step.why}`}`;
    case 'ClearAttempt':
      return `ClearAttempt ${names([...step.pods, ...step.volumes])}`;
    case 'Retire':
      return `Retire ${step.pods
        .map(({ name }) => `Pod ${name}`)
        .concat(step.volumes.map(({ name }) => `volume ${name}`))
        .join(', ')}${step.keep === true ? ' (let go, not deleted)' : ''}`;
    case 'Defragment':
      return `Defragment ${step.target}: ${step.why}`;
    case 'Disarm':
      return `Disarm ${step.alarms.map(({ alarm, memberId }) => `${alarm} of ${memberId}`).join(', ')}: ${step.why}`;
    case 'EndOperation':
      return [
        `EndOperation ${step.kind} ${step.target}: ${step.outcome}`,
        ...step.pods.map(({ name }) => `Pod ${name} goes`),
        ...step.volumes.map(({ name }) => `volume ${name} goes`),
        ...(step.next === undefined ? [] : [told(step.next)]),
      ].join('; ');
    case 'WriteMetadata':
      return `WriteMetadata ${step.pods
        .map(({ name }) => `Pod ${name}`)
        .concat(step.volumes.map(({ name }) => `volume ${name}`))
        .join(', ')}`;
    case 'GrowVolumes':
      return `GrowVolumes ${step.volumes.map(({ name, size }) => `${name} to ${size}`).join(', ')}`;
    case 'BeginRecovery':
      return `BeginRecovery ${step.stored === undefined ? 'from' : 'on'} ${step.target} (${step.source} at ${step.revision}), giving up ${step.clusterID}`;
    case 'Fence':
      return `Fence ${names(step.pods)}: ${step.why}`;
    case 'AdvanceRecovery':
      return `AdvanceRecovery to ${step.to}${step.revision === undefined ? '' : ` with revision ${step.revision}`}`;
    case 'Seed':
      return `Seed ${step.member.name}-${step.incarnation} from ${step.source.from === 'survivor' ? step.source.volume : locationName(step.source.location)}`;
    case 'CompleteRecovery':
      return `CompleteRecovery as ${step.clusterID} at ${step.revision}`;
    case 'AbandonRecovery':
      return `AbandonRecovery ${names([...step.pods, ...step.volumes])}: ${step.why}`;
    case 'BeginRestore':
      return `BeginRestore of ${step.uri} on ${step.target}`;
    case 'SeedFromSnapshot':
      return `SeedFromSnapshot ${step.member.name}-${step.incarnation}`;
    case 'AdvanceRestore':
      return `AdvanceRestore at revision ${step.revision}`;
    case 'CompleteRestore':
      return `CompleteRestore as ${step.clusterID} at ${step.revision}`;
    case 'AbandonRestore':
      return `AbandonRestore ${names([...step.pods, ...step.volumes])}${step.done ? 'nothing is left' : ''}: ${step.why}`;
    case 'BeginRestoreInPlace':
      return `BeginRestoreInPlace of ${step.uri} beside ${step.target}`;
    case 'PrepareRestore':
      return `PrepareRestore ${step.member.name}-${step.incarnation}`;
    case 'PrepareElsewhere':
      return `PrepareElsewhere beside ${step.target}: ${step.why}`;
    case 'RecordVerified':
      return `RecordVerified ${step.verified.keys} keys at revision ${step.verified.revision}`;
    case 'BeginCutOver':
      return `BeginCutOver to ${step.target}-${step.incarnation}`;
    case 'StopReplaced':
      return `StopReplaced ${names(step.pods)}`;
    case 'NoteReached':
      return `NoteReached ${step.revision}`;
    case 'StartRestored':
      return step.do;
    case 'CompleteRestoreInPlace':
      return `CompleteRestoreInPlace as ${step.clusterID} at ${step.revision}`;
    case 'GiveUpRestore':
      return `GiveUpRestore ${names([...step.pods, ...step.volumes])}${step.done ? 'nothing is left' : ''}: ${step.why}`;
    case 'RetireLost':
      return `RetireLost ${names(step.volumes)}`;
    case 'UpdatePeer':
      return `UpdatePeer ${step.target} to ${step.peerURL}`;
    case 'DisableAuth':
    case 'ChangePassword':
      return step.do;
    case 'EnableAuth':
      return `EnableAuth${step.again ? ' again' : ''}`;
    case 'KeepPassword':
      return `KeepPassword ${step.as}`;
    case 'LatchAuth':
      return `LatchAuth ${step.enabled ? 'on' : 'off'}`;
    case 'UseCertificate':
      return `UseCertificate ${step.role}: ${step.what}`;
    case 'FetchCertificates':
      return `FetchCertificates ${names(step.pods)}`;
    case 'LetGo':
      return `LetGo ${names(step.members)}: ${step.why}`;
    case 'Teardown':
      return [
        `Teardown, ${step.why}:`,
        ...step.pods.map(({ name }) => `Pod ${name}`),
        ...step.volumes.map(({ name, retain }) => `volume ${name}${retain ? ' (kept)' : ''}`),
        ...(step.budget === undefined ? [] : ['budget']),
        ...step.release.map(({ name }) => `release ${name}`),
      ].join(' ');
    default:
      return step satisfies never;
  }
};

export const line = (decision: Decision, fault: StepFault | undefined): string =>
  `${decision.rule}: ${told(decision.step)}${fault === undefined ? '' : ` -> ${fault.reason}: ${fault.message}`}`;

const conditionsOf = (conditions: readonly { type: string; status: string; reason: string }[] | undefined): string =>
  (conditions ?? []).map(({ type, status, reason }) => `${type}=${status}(${reason})`).join(' ');

/** The answer to a picture: rule, step, veto if any, and what would be reported. */
const answerTo = (notation: string): string => {
  const decision = plan(observed(notation));
  const { situation } = decision;
  const veto = brokenInvariant(situation, decision.step);
  const quorum = quorumStatus(decision)?.status ?? situation.quorum?.status;
  return [
    decision.sketch,
    line(decision, undefined),
    ...(veto === undefined ? [] : [`veto: ${veto}`]),
    ...(situation.quorum === undefined
      ? []
      : [`quorum ${quorum?.phase} ${quorum?.members} ${conditionsOf(quorum?.conditions)}`]),
    ...situation.slots.map((slot) => {
      const { phase, reason, message } = memberReport(situation, slot);
      return `${slot.member.name} ${phase} ${reason}: ${message}${memberStatus(situation, slot) === undefined ? ' (not worth a write)' : ''}`;
    }),
  ].join('\n');
};

/** The world in a few lines. */
const show = (w: World): string => {
  const quorum = w.quorum?.status;
  return [
    plan(observe(w)).sketch,
    w.quorum === undefined
      ? 'no EtcdQuorum'
      : `quorum ${quorum?.phase ?? 'without status'} ${quorum?.members ?? ''} voters=${quorum?.voters?.join(',') ?? '?'} leader=${quorum?.leader ?? '?'}`,
    ...(quorum?.conditions ?? []).map(
      ({ type, status, reason, message }) => `  ${type}=${status} ${reason}: ${message}`,
    ),
    ...w.members.map(({ name, status, deleting }) => {
      const ready = status.conditions?.find(({ type }) => type === 'Ready');
      return `${name}${deleting ? ' (deleting)' : ''} ${status.phase ?? '-'} ${ready?.status ?? ''} ${ready?.reason ?? ''}: ${ready?.message ?? ''}`;
    }),
    ...w.pods.map((pod) => {
      const disk = diskOf(w, pod);
      return `pod ${pod.name}${pod.deleting ? ' (deleting)' : ''} ${pod.container.running ? 'runs' : 'does not run'}${disk === undefined ? '' : ` as ${disk.clusterID}/${disk.memberID}`}${pod.voterRole ? ', open to clients' : ''}`;
    }),
    ...w.volumes.map(
      (volume) =>
        `volume ${volume.name}${volume.deleting ? ' (deleting)' : ''}${volume.disk === undefined ? ' empty' : ''}`,
    ),
    ...w.retained.map((volume) => `kept volume ${volume.name}`),
    ...(w.budget === undefined ? [] : [`budget ${w.budget.minAvailable}`]),
    ...(quorum?.survivors ?? []).map(
      ({ member, revision, source }) => `survivor ${member} at ${revision} by ${source}`,
    ),
    ...(quorum?.snapshots ?? []).map(({ name, revision }) => `snapshot ${name} at ${revision}`),
    ...(quorum?.furthest === undefined || quorum.snapshots === undefined
      ? []
      : [`furthest ${quorum.furthest.kind} ${quorum.furthest.name}`]),
    ...(quorum?.recovered ?? []).map(
      ({ survivor, etcdSnapshot, lostClusterID, clusterID, revisionBefore, revisionAfter, lost }) =>
        `recovered from ${survivor ?? etcdSnapshot}: ${lostClusterID} at ${revisionBefore} became ${clusterID} at ${revisionAfter}; ${lost?.message.replace(/^[^;]*; /, '')}`,
    ),
  ].join('\n');
};

const shapeOf = (words: ReadonlyMap<string, string>): Partial<Shape> => ({
  ...(words.has('memory') ? { medium: 'Memory' } : {}),
  ...(words.has('retain') ? { retention: 'Retain' } : {}),
  ...(words.has('version') ? { version: words.get('version') ?? '' } : {}),
  ...(words.has('template') ? { template: words.get('template') ?? '' } : {}),
  ...(words.has('label') ? { label: words.get('label') ?? '' } : {}),
  ...(words.has('snapshotCount') ? { options: { snapshotCount: Number(words.get('snapshotCount')) } } : {}),
});

const LONGEST_RUN = 400;

/** Plays one directive in the world and returns what came of it. */
export const play = (w: World, directive: string): string => {
  const [head = '', ...input] = directive.split('\n');
  const parts = head.match(/(?:[^\s"]|"[^"]*")+/g) ?? [];
  const [command, first = '', second = ''] = parts.map((part) => part.replaceAll('"', ''));
  const words = new Map(
    parts.slice(1).map((part): [string, string] => {
      const at = part.indexOf('=');
      return at < 0 ? [part, ''] : [part.slice(0, at), part.slice(at + 1).replaceAll('"', '')];
    }),
  );
  const member = first;
  switch (command) {
    case 'begin':
      Object.assign(w, emptyWorld());
      return 'ok';
    case 'see':
      return answerTo(input.join('\n'));
    case 'claim': {
      const edited = w.claim !== undefined;
      applyClaim(w, Number(words.get('replicas') ?? w.claim?.replicas ?? 3), shapeOf(words));
      // What becomes of an edit is the story; that Crossplane needs a moment for it is not.
      if (edited) turnCrossplane(w);
      return 'ok';
    }
    case 'pass': {
      if (first === 'late') {
        const { decision, fault } = pass(w, undefined, w.view);
        return line(decision, fault);
      }
      const lines: string[] = [];
      for (let i = 0; i < Number(first || 1); i += 1) {
        const { decision, fault } = pass(w);
        lines.push(line(decision, fault));
      }
      return lines.join('\n');
    }
    case 'die': {
      const { decision, died } = pass(w, Number(words.get('after')));
      return `${line(decision, undefined)}${died ? ' (the controller dies)' : ''}`;
    }
    case 'remember':
      w.view = structuredClone(observe(w));
      // From here on a second controller may be at work.
      w.slow = true;
      return 'ok';
    case 'forget':
      w.view = undefined;
      return 'ok';
    case 'run': {
      const lines: string[] = [];
      const last = run(w, {
        passes: LONGEST_RUN,
        until: (step) => step.do === words.get('until'),
        each: ({ rule, step, fault }) => {
          const text = `${rule}: ${told(step)}${fault === undefined ? '' : ` -> ${fault.reason}: ${fault.message}`}`;
          if (text !== lines.at(-1)) lines.push(text);
        },
      });
      return [...lines, last.sketch].join('\n');
    }
    case 'turn': {
      const moves: Record<string, (world: World) => void> = {
        kubelet: turnKubelet,
        collector: turnCollector,
        crossplane: turnCrossplane,
        etcd: turnEtcd,
      };
      const move = moves[first];
      if (move !== undefined) move(w);
      else turn(w, first === '' ? undefined : Number(first));
      return 'ok';
    }
    case 'show':
      return show(w);
    case 'delete':
      return destroy(w, first, second);
    case 'restart':
      restartContainer(w, member);
      return 'ok';
    case 'wipe': {
      const volume = volumeOf(w, member);
      if (volume !== undefined) volume.disk = undefined;
      if (words.has('ended')) endOnVolume(w, member);
      return 'ok';
    }
    case 'foreign':
      if (words.has('ended')) endOnVolume(w, member);
      foreignDisk(w, member);
      return 'ok';
    case 'older': {
      const disk = volumeOf(w, member)?.disk;
      if (disk !== undefined) disk.revision -= BigInt(words.get('by') ?? '1');
      return 'ok';
    }
    case 'fail': {
      const pod = podOf(w, member);
      restartContainer(w, member);
      if (pod !== undefined) pod.phase = 'Failed';
      return 'ok';
    }
    case 'lose': {
      const pod = podOf(w, member);
      if (pod !== undefined) Object.assign(pod, { lost: true, ready: false, deleting: words.has('evicted') });
      return 'ok';
    }
    case 'gone':
      w.pods = w.pods.filter((pod) => pod.member !== member);
      return 'ok';
    case 'cut':
    case 'lag': {
      const pod = podOf(w, member);
      if (pod !== undefined) pod[command === 'cut' ? 'cut' : 'lagging'] = !words.has('off');
      return 'ok';
    }
    case 'recover':
      for (const pod of w.pods) if (pod.member === member) pod.lost = false;
      return 'ok';
    case 'retry': {
      const slot = w.members.find(({ name }) => name === member);
      if (slot !== undefined) slot.retry = true;
      return 'ok';
    }
    case 'etcdctl': {
      const [etcd] = w.etcd;
      if (etcd === undefined) return 'no etcd';
      if (first === 'answers') w.answering = second;
      if (first === 'remove') etcd.members = etcd.members.filter(({ name }) => !name.startsWith(`${second}-`));
      if (first === 'add') {
        etcd.members = [
          ...etcd.members,
          {
            id: 'dead',
            name: words.has('started') ? (second ?? '') : '',
            peerURLs: [
              ordinalOf(CLUSTER, second?.slice(0, -6) ?? '') === undefined
                ? 'http://elsewhere:2380'
                : peerURL(CLUSTER, NAMESPACE, second ?? ''),
            ],
            clientURLs: [],
            isLearner: words.has('learner'),
          },
        ];
      }
      return 'ok';
    }
    case 'trouble': {
      const said = words.has('off') ? undefined : second;
      if (first === 'refused') w.refusing = said;
      else if (first === 'unschedulable') w.unschedulable = said;
      else if (first === 'unprovisioned') w.unprovisioned = said;
      else if (first === 'image') w.imageTrouble = said;
      else throw new Error(`scenario: no such trouble as "${first}"`);
      return 'ok';
    }
    case 'blind':
      w.blind = { claim: words.has('claim'), namespace: words.has('namespace'), etcd: words.has('etcd') };
      return 'ok';
    case 'consent': {
      if (w.claim === undefined) return 'no claim';
      const clusterID = words.get('cluster') ?? w.quorum?.status.clusterID ?? '';
      const named = first === 'snapshot' ? { snapshot: second } : { survivor: first };
      w.claim.recovery = first === 'off' ? undefined : { ...named, clusterID, acceptDataLoss: true };
      turnCrossplane(w);
      return 'ok';
    }
    case 'restore':
      w.restoring = true;
      return 'ok';
    case 'snapshot':
      if (words.has('off')) w.stored = w.stored.filter(({ name }) => name !== first);
      else storeSnapshot(w, first);
      return 'ok';
    case 'seeding':
      w.seedTrouble = words.has('off') ? undefined : first;
      return 'ok';
    case 'crossplane':
      w.composing = first === 'on';
      return 'ok';
    default:
      throw new Error(`scenario: no such command as "${command}"`);
  }
};

const destroy = (w: World, what: string, which: string): string => {
  const mark = (thing: { deleting: boolean } | undefined): string => {
    if (thing === undefined) return `no ${what} ${which}`;
    thing.deleting = true;
    return 'ok';
  };
  switch (what) {
    case 'claim':
      deleteClaim(w, which as 'background' | 'foreground' | 'orphan');
      return 'ok';
    case 'namespace':
      w.namespaceTerminating = true;
      return 'ok';
    case 'quorum':
      w.quorum = undefined;
      return 'ok';
    case 'member': {
      const member = w.members.find(({ name }) => name === which);
      if (member?.finalized === false) w.members = w.members.filter((one) => one !== member);
      return member?.finalized === false ? 'ok' : mark(member);
    }
    case 'pod':
      return mark(podOf(w, which));
    case 'pods':
      for (const pod of w.pods) pod.deleting = true;
      return 'ok';
    case 'volume':
      return mark(volumeOf(w, which));
    default:
      throw new Error(`scenario: nothing like "${what}" can be deleted`);
  }
};

/** Plays a whole file in one world. The text that it would be if every answer were right. */
export const playAll = (
  text: string,
): { readonly actual: string; readonly chapters: readonly (Chapter & { readonly actual: string })[] } => {
  const w = emptyWorld();
  const { chapters, after } = chaptersOf(text);
  const played = chapters.map((chapter) => ({ ...chapter, actual: play(w, chapter.directive) }));
  const actual = played.map((chapter) => `${chapter.before}${chapter.directive}\n----\n${chapter.actual}\n`).join('');
  return { actual: `${actual}${after}`, chapters: played };
};
