import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { pictures } from '../../test/scenarios/pictures.ts';
import { observed } from '../../test/scenarios/world.ts';
import { brokenInvariant } from './invariants.ts';
import { memberReport, memberStatus } from './member-report.ts';
import type { Observed, SeenPod } from './observed.ts';
import { unknown } from './observed.ts';
import { plan } from './plan.ts';
import { quorumStatus } from './report.ts';
import type { Step } from './steps.ts';

/** More by `PROPERTY_RUNS=20000`. */
const numRuns = Number(process.env.PROPERTY_RUNS ?? 1_500);

const text = (value: unknown): string =>
  JSON.stringify(value, (_, part: unknown) => (typeof part === 'bigint' ? String(part) : part));

/** Everything that a pass would do and write. */
const consequences = (seen: Observed): string => {
  const decision = plan(seen);
  const { situation } = decision;
  return text({
    rule: decision.rule,
    step: decision.step,
    sketch: decision.sketch,
    veto: brokenInvariant(situation, decision.step),
    quorum: quorumStatus(decision),
    members: situation.slots.map((slot) => [memberReport(situation, slot), memberStatus(situation, slot)]),
  });
};

const reversed = (seen: Observed): Observed => ({
  ...seen,
  members: seen.members
    .map((member) => ({ ...member, pods: member.pods.toReversed(), volumes: member.volumes.toReversed() }))
    .toReversed(),
  membership: seen.membership.known
    ? {
        known: true,
        value: { ...seen.membership.value, members: seen.membership.value.members.toReversed() },
      }
    : seen.membership,
});

/** Steps that take something away. Stopping an impostor is none: it follows from what it answers, never from silence. */
const isHarmful = (step: Step): boolean => {
  switch (step.do) {
    case 'DeletePods':
      // What has ended, or does not run, takes nothing with it.
      return step.reason !== 'Restarting';
    case 'ClearAttempt':
    case 'RemoveMember':
    case 'Retire':
    case 'ForgetRecord':
    case 'Teardown':
    case 'LetGo':
      return true;
    case 'BeginOperation':
      return step.kind !== 'AddMember';
    default:
      return false;
  }
};

const isIdle = ({ do: what }: Step): boolean => what === 'Wait' || what === 'AskHuman' || what === 'Settled';

/**
 * Whether what runs there is not, by its own word, a member that is listed under another name. Names are never used twice,
 * so only its own word can tell, and without it nothing does.
 */
const isHonest =
  ({ membership }: Observed) =>
  ({ name, etcd }: SeenPod): boolean =>
    !etcd.known ||
    !membership.known ||
    !membership.value.members.some((listed) => listed.id === etcd.value.memberId && listed.name !== name);

/** A person deleted it and its kubelet finds it unready: two witnesses, to whom etcd's silence adds nothing. */
const wasGivenUp = ({ members }: Observed, target: string): boolean =>
  members.some(({ name, deleting, pods }) => name === target && deleting && pods.every(({ ready }) => !ready));

/** The same picture with one fact less. */
const forgetting = (seen: Observed): { readonly what: string; readonly seen: Observed }[] => [
  { what: 'the claim', seen: { ...seen, claim: unknown('timeout') } },
  { what: 'the namespace', seen: { ...seen, namespaceTerminating: unknown('timeout') } },
  { what: 'the member list', seen: { ...seen, membership: unknown('timeout') } },
  ...seen.members.flatMap((member, i) =>
    member.pods.filter(isHonest(seen)).map((pod) => ({
      what: `the answer of ${pod.name}`,
      seen: {
        ...seen,
        members: seen.members.with(i, {
          ...member,
          pods: member.pods.map((one) => (one === pod ? { ...pod, etcd: unknown('timeout') } : one)),
        }),
      },
    })),
  ),
];

describe('plan, for any picture', () => {
  const holds = (property: (seen: Observed, picture: string) => void): void => {
    fc.assert(
      fc.property(pictures, (picture) => property(observed(picture), picture)),
      { numRuns, seed: Number(process.env.PROPERTY_SEED ?? 20_260_101) },
    );
  };

  it('answers without throwing, and never with what the veto refuses', () => {
    holds((seen) => {
      const { situation, step } = plan(seen);
      assert.equal(brokenInvariant(situation, step), undefined, text(step));
    });
  });

  it('reports every slot and the whole in the words of the API, whatever it sees', () => {
    holds((seen) => {
      const decision = plan(seen);
      for (const slot of decision.situation.slots) {
        const status = memberStatus(decision.situation, slot);
        for (const { message, lastTransitionTime } of status?.conditions ?? []) {
          assert.equal(typeof message, 'string');
          assert.ok(!Number.isNaN(Date.parse(lastTransitionTime)));
        }
      }
      const types = quorumStatus(decision)?.status.conditions?.map(({ type }) => type);
      if (types !== undefined) {
        assert.deepEqual(types.toSorted(), ['Available', 'Degraded', 'Progressing', 'Ready', 'Stalled', 'Synced']);
      }
    });
  });

  it('answers the same to the same picture, in whatever order it was gathered', () => {
    holds((seen) => {
      assert.equal(consequences(seen), consequences(structuredClone(seen)));
      assert.equal(consequences(reversed(seen)), consequences(seen));
    });
  });

  it('takes nothing away for not knowing what, known, would have made it wait', () => {
    holds((seen) => {
      const knowing = plan(seen);
      if (!isIdle(knowing.step)) return;
      // What is on its way out anyway is not worth an act, so nothing is spared by waiting; and who does not see that
      // records contradict each other cannot ask about it.
      if (knowing.step.do === 'Wait' && knowing.step.reason === 'Deleting') return;
      if (knowing.rule === 'impostor') return;
      for (const { what, seen: less } of forgetting(seen)) {
        const { step, rule } = plan(less);
        if (step.do === 'BeginOperation' && wasGivenUp(less, step.target)) continue;
        assert.ok(!isHarmful(step), `without ${what}: ${rule} ${text(step)} instead of ${text(knowing.step)}`);
      }
    });
  });

  it('has nothing to do once nothing is left to do: a healthy cluster as asked is settled', () => {
    const settled = observed(
      [
        'latch c1',
        'want 3',
        'budget 2',
        'list 0-aaaaa=a1 1-bbbbb=b1 2-ccccc=c1',
        ...['a', 'b', 'c'].map(
          (x, i) =>
            `slot ${i} inc=${x.repeat(5)} id=${x}1 phase=Voter begun=${x.repeat(5)} | pod ${x.repeat(5)} running ready voter proven | answers c1/${x}1@9 leader=a1 | volume ${x.repeat(5)} id=${x}1`,
        ),
      ].join('\n'),
    );
    assert.equal(plan(settled).step.do, 'Settled');
    for (const { what, seen } of forgetting(settled)) {
      assert.ok(isIdle(plan(seen).step), `without ${what}: ${text(plan(seen).step)}`);
    }
  });
});
