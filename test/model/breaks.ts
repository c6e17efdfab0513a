/**
 * Rules broken on purpose. Each is found by the model with the safety check switched off, so that it is the world that tells,
 * not the opinion of another rule.
 */
import { peerURL } from '../../api/names.ts';
import { brokenInvariant } from '../../runtime/core/invariants.ts';
import { formingConfig, joiningConfig } from '../../runtime/core/member-config.ts';
import { plan } from '../../runtime/core/plan.ts';
import type { Situation } from '../../runtime/core/situation.ts';
import type { Step } from '../../runtime/core/steps.ts';
import { type Mind, SOUND } from '../scenarios/simulate.ts';
import type { Sweep } from './explorer.ts';

export type Break = {
  readonly what: string;
  /** What is done instead of what was decided, if anything. */
  readonly instead: (s: Situation, decided: Step) => Step | undefined;
  /** Where it comes to light soonest. */
  readonly sweep: Pick<Sweep, 'prelude' | 'edits' | 'faults' | 'budget'>;
};

const settled = (replicas: number): readonly string[] => [`claim replicas=${replicas}`, 'run'];
const named = ({ name, uid }: { readonly name: string; readonly uid: string }) => ({ name, uid });
/** The number of the attempt that should not be. */
const AGAIN = 99;
const learnerOf = (s: Situation) =>
  s.seen.membership.known ? s.seen.membership.value.members.find(({ isLearner }) => isLearner) : undefined;

export const breaks: Readonly<Record<string, Break>> = {
  'promote-before-lock': {
    what: 'a learner gets its vote before its configuration is locked',
    instead: (s, decided) => {
      const { operation } = s.quorum?.status ?? {};
      const learner = learnerOf(s);
      return operation?.kind === 'AddMember' &&
        operation.target !== undefined &&
        learner?.name &&
        decided.do === 'Configure'
        ? { do: 'Promote', target: operation.target, memberID: learner.id }
        : undefined;
    },
    sweep: {
      // Of two voters, one that was wiped would find no quorum to join.
      prelude: settled(2),
      edits: ['claim replicas=3'],
      faults: ['wipe demo-2 ended'],
      budget: { edits: 1, faults: 1 },
    },
  },
  'roll-everybody': {
    what: 'a rollout takes the next member without waiting for the last one to serve again',
    instead: (s, decided) => {
      const outdated = s.held.filter(
        ({ pod, member }) => pod !== undefined && !pod.deleting && pod.templateHash !== member.templateHash,
      );
      const pods = outdated.flatMap(({ pod }) => (pod === undefined ? [] : [named(pod)])).slice(0, 1);
      return decided.do !== 'DeletePods' && pods.length > 0
        ? { do: 'DeletePods', reason: 'RollingOut', why: 'the claim changed', pods }
        : undefined;
    },
    sweep: { prelude: settled(3), edits: ['claim template=2'], faults: [], budget: { edits: 1 } },
  },
  'born-again': {
    what: 'a cluster whose EtcdQuorum was deleted is bootstrapped again',
    instead: (s) => {
      const attempt = s.quorum?.status.bootstrap;
      if (s.quorum === undefined || s.slots.length === 0) return undefined;
      return attempt === undefined
        ? { do: 'RecordAttempt', attempt: AGAIN, members: s.slots.map(({ member }) => member.name) }
        : attempt.attempt === AGAIN
          ? bringUpAttempt(s)
          : undefined;
    },
    sweep: { prelude: settled(1), edits: [], faults: ['delete quorum'], budget: { faults: 1 } },
  },
  'two-learners': {
    what: 'the next learner is added before the last one was promoted or dropped',
    instead: (s, decided) => {
      const { operation } = s.quorum?.status ?? {};
      if (operation?.kind !== 'AddMember' || operation.target === undefined || learnerOf(s) === undefined)
        return undefined;
      const next = peerURL(s.seen.cluster, s.seen.namespace, `${s.seen.cluster}-9-zzzzz`);
      return decided.do === 'Wait' ? { do: 'AddLearner', target: operation.target, peerURL: next } : undefined;
    },
    sweep: { prelude: settled(1), edits: ['claim replicas=3'], faults: [], budget: { edits: 1 } },
  },
  'admit-unproven': {
    what: 'a Pod that runs is opened to clients without its identity being compared',
    instead: (s) => {
      const pods = s.held.flatMap(({ pod, memberID, volume }) =>
        pod?.etcd.known === true && !pod.voterRole && pod.container.id !== undefined
          ? [
              {
                ...named(pod),
                container: pod.container.id,
                clusterID: s.latch ?? '',
                memberID: memberID ?? '',
                revision: pod.etcd.value.revision,
                volume: volume?.name,
              },
            ]
          : [],
      );
      return s.latch !== undefined && pods.length > 0 ? { do: 'Admit', pods } : undefined;
    },
    sweep: { prelude: settled(3), edits: [], faults: ['foreign % ended'], budget: { faults: 1 } },
  },
  'retire-listed': {
    what: 'a member that does not run loses its volume while etcd lists it',
    instead: (s) => {
      const slot = s.held.find(({ pod, volume }) => pod?.container.state === 'waiting' && volume?.deleting === false);
      return s.latch !== undefined && slot?.volume !== undefined
        ? { do: 'Retire', target: slot.member.name, pods: [], volumes: [named(slot.volume)] }
        : undefined;
    },
    sweep: { prelude: settled(3), edits: [], faults: ['restart %'], budget: { faults: 1 } },
  },
  'volume-made-again': {
    what: 'a member whose volume was lost gets an empty one and the full list to join by',
    instead: (s, decided) => {
      const slot = s.held.find(({ pod, volume }) => pod === undefined && volume === undefined);
      if (s.latch === undefined || slot?.incarnation === undefined) {
        const living = s.held.find(({ volume, pod }) => volume?.deleting === true && pod?.deleting === false);
        return living?.pod === undefined
          ? undefined
          : { do: 'DeletePods', reason: 'Restarting', why: 'its volume is gone', pods: [named(living.pod)] };
      }
      const config = joiningConfig(s, slot, slot.incarnation);
      return config === undefined || decided.do === 'BringUp'
        ? undefined
        : {
            do: 'BringUp',
            why: 'its volume is gone',
            places: [
              {
                member: named(slot.member),
                incarnation: slot.incarnation,
                config: config.text,
                initialState: 'existing',
                makeVolume: true,
              },
            ],
          };
    },
    sweep: { prelude: settled(3), edits: [], faults: ['delete volume %'], budget: { faults: 1 } },
  },
  'never-ends': {
    what: 'an operation whose target is gone is waited for and never ended',
    instead: (_, decided) =>
      decided.do === 'EndOperation' && decided.outcome === 'abandoned'
        ? { do: 'Wait', reason: 'Adding', message: 'for what does not come' }
        : undefined,
    sweep: {
      prelude: settled(1),
      edits: ['claim replicas=2', 'claim replicas=1'],
      faults: [],
      budget: { edits: 2 },
    },
  },
};

function bringUpAttempt(s: Situation): Step | undefined {
  const places = (s.quorum?.status.bootstrap?.members ?? []).flatMap(({ name, incarnation }) => {
    const slot = s.slots.find(({ member }) => member.name === name);
    if (slot === undefined || slot.member.pods.some((pod) => pod.incarnation === incarnation)) return [];
    const config = formingConfig(s, slot, incarnation);
    return config === undefined
      ? []
      : [
          {
            member: named(slot.member),
            incarnation,
            config: config.text,
            initialState: 'new' as const,
            makeVolume: true,
          },
        ];
  });
  return places.length === 0 ? undefined : { do: 'BringUp', why: 'a new attempt', places };
}

/** The real rules with one of them broken, and nothing to stop what it asks for. */
export const brokenMind = ({ instead }: Break): Mind => ({
  decide: (seen) => {
    const decision = plan(seen);
    const step = instead(decision.situation, decision.step);
    return step === undefined ? decision : { ...decision, rule: `broken ${decision.rule}`, step };
  },
  veto: () => undefined,
});

export const soundMind: Mind = { ...SOUND, veto: brokenInvariant };
