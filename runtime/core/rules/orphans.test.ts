import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { observed } from '../../../test/scenarios/world.ts';
import { brokenInvariant } from '../invariants.ts';
import { known, type SeenStranger, unknown } from '../observed.ts';
import { plan } from '../plan.ts';
import { classify, type Situation } from '../situation.ts';

const VOTERS = [0, 1, 2].map((n) => {
  const [token, id] = [`${'abc'[n]}`.repeat(5), `${'abc'[n]}1`];
  return `slot ${n} inc=${token} id=${id} phase=Voter begun=${token} | pod ${token} running ready voter proven | answers c1/${id}@9 leader=a1 | volume ${token} id=${id}`;
});

const picture = (look: Partial<SeenStranger> | undefined, flags = ''): Situation => {
  const list = `list 0-aaaaa=a1 1-bbbbb=b1 2-ccccc=c1 5-qwert=f1${flags}`;
  const seen = observed(
    ['latch c1', 'want 3', list, 'operation RemoveOrphan demo-5-qwert id=f1', ...VOTERS].join('\n'),
  );
  return classify(
    look === undefined ? seen : { ...seen, strangers: [{ id: 'f1', traces: known([]), answers: false, ...look }] },
  );
};

const removal = { do: 'RemoveMember', target: 'demo-5-qwert', memberID: 'f1' } as const;

describe('an orphan is not removed, whichever rule asks for it,', () => {
  for (const [what, look, why] of [
    ['where nobody has looked', undefined, /not known/],
    ['where nobody could look', { traces: unknown('a timeout') }, /not known/],
    ['where something is left', { traces: known(['Pod demo-5-qwert']) }, /Pod demo-5-qwert is there/],
    ['where it answers', { answers: true }, /answers/],
  ] as [string, Partial<SeenStranger> | undefined, RegExp][]) {
    test(what, () => {
      assert.match(brokenInvariant(picture(look, '/learner'), removal) ?? 'nothing is broken', why);
      assert.notEqual(plan(picture(look, '/learner').seen).step.do, 'RemoveMember');
    });
  }

  test('where it is the member of a slot', () => {
    const step = { ...removal, memberID: 'a1' };
    assert.match(brokenInvariant(picture({}, '/learner'), step) ?? 'nothing is broken', /demo-0|remaining voters/);
  });
});

test('an orphan is removed where it is a learner of which nothing is left', () => {
  const s = picture({}, '/learner');
  assert.equal(brokenInvariant(s, removal), undefined);
  assert.deepEqual(plan(s.seen).step, removal);
});
