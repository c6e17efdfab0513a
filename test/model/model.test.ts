import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { emptyWorld } from '../scenarios/simulate.ts';
import { play, playAll } from '../scenarios/story.ts';
import { breaks, brokenMind, soundMind } from './breaks.ts';
import { explore, type Sweep, storyOf } from './explorer.ts';
import { fingerprintOf, pack, unpack } from './state.ts';
import { sweeps } from './sweeps.ts';

/** Of all sweeps together; `npm run model` takes as long as it is given. */
const SECONDS = 12;

describe('the model', () => {
  it('finds nothing wrong with the rules in the time that a test has', (t) => {
    const deadline = performance.now() + SECONDS * 1_000;
    let states = 0;
    for (const [i, sweep] of sweeps.entries()) {
      const seconds = Math.max(0.2, (deadline - performance.now()) / 1_000 / (sweeps.length - i));
      const { violation, states: seen } = explore(sweep, soundMind, { seconds, states: 400 });
      states += seen;
      assert.equal(violation, undefined, `${sweep.name}: ${violation?.why}\n${violation?.story}`);
    }
    assert.ok(states > sweeps.length * 3, `it went on from where it began: ${states} states`);
    t.diagnostic(`${states} states`);
  });

  for (const [name, broken] of Object.entries(breaks)) {
    it(`finds out when ${broken.what}`, (t) => {
      const { violation } = explore({ name, ...broken.sweep }, brokenMind(broken), { states: 5_000, seconds: 60 });
      assert.ok(violation, 'it is found');
      t.diagnostic(`after ${violation.moves} moves: ${violation.why}`);
      assert.doesNotMatch(violation.why, /\.ts:\d+/, 'it is the world that objects, not a program that fails');
      assert.ok(violation.story.includes(broken.sweep.prelude[0] ?? ''), violation.story);
    });
  }

  it('tells the way to what it found as a scenario, which can be played', () => {
    const sweep: Sweep = { name: 'x', prelude: ['claim replicas=1', 'run'], edits: [], faults: [], budget: {} };
    const moves = [
      'claim replicas=2',
      'pass',
      'die after=1',
      'turn kubelet',
      'restart demo-0',
      'remember',
      'pass late',
    ];
    const story = storyOf(
      sweep,
      moves.map((line) => ({ line })),
      soundMind,
      'an example',
      true,
    );
    const { actual, chapters } = playAll(story);
    assert.equal(actual, story, 'it says what playing it says');
    assert.ok(chapters.length > moves.length + sweep.prelude.length, 'the fair run is in it');
  });

  it('goes through everything that a small budget allows, and says so', () => {
    const [sweep] = sweeps;
    assert.ok(sweep);
    const seen = explore({ ...sweep, budget: { deaths: 1 } }, soundMind, { seconds: 60 });
    assert.equal(seen.complete, true);
    assert.equal(seen.violation, undefined);
    assert.deepEqual([...seen.ends.keys()], ['Settled']);
  });
});

describe('a state', () => {
  const grown = (...directives: readonly string[]) => {
    const w = emptyWorld();
    for (const directive of directives) play(w, directive);
    return w;
  };

  it('is the same whatever its members happen to be called, and another where anything else differs', () => {
    const one = grown('claim replicas=1', 'run');
    const renamed = grown(
      'claim replicas=3',
      'turn crossplane',
      'claim replicas=1',
      'turn crossplane',
      'turn collector',
      'run',
    );
    assert.notDeepEqual(one.pods[0]?.name, renamed.pods[0]?.name);
    // It remembers the newest revision that it has seen.
    play(one, 'pass');
    play(renamed, 'pass');
    const print = fingerprintOf(one);
    assert.equal(fingerprintOf(renamed), print);
    assert.equal(fingerprintOf(unpack(pack(one))), print);
    play(one, 'pass');
    assert.equal(fingerprintOf(one), print, 'a pass that changes nothing leads nowhere else');
    play(one, 'lag demo-0');
    assert.notEqual(fingerprintOf(one), print);
  });
});
