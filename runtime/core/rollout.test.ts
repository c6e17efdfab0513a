import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { isOutdated, nextToRoll } from './rollout.ts';
import type { Situation, Slot } from './situation.ts';

const OLD = 'quay.io/coreos/etcd:v3.6.16';
const NEW = 'quay.io/coreos/etcd:v3.6.17';

/** `runs` is what the Pod was made from, `asked` what its EtcdMember says now. */
const slot = (ordinal: number, runs: string, asked: string, deleting = false): Slot =>
  ({
    memberID: `${ordinal}`,
    member: {
      name: `demo-${ordinal}`,
      ordinal,
      templateHash: asked,
      restartHash: asked,
      spec: { version: asked, template: { metadata: {}, spec: { containers: [{ name: 'etcd', image: asked }] } } },
    },
    pod: { name: `demo-${ordinal}-aaaaa`, templateHash: runs, restartHash: runs, deleting },
  }) as unknown as Slot;

const situation = (leader: number, ...held: readonly Slot[]): Situation =>
  ({ seen: {}, held, leaderID: `${leader}` }) as unknown as Situation;

const next = (s: Situation): string | undefined => nextToRoll(s)?.member.name;

describe('the next member of a rollout', () => {
  test('is a follower, from the highest ordinal down', () => {
    assert.equal(next(situation(2, slot(0, OLD, NEW), slot(1, OLD, NEW), slot(2, OLD, NEW))), 'demo-1');
    assert.equal(next(situation(2, slot(0, OLD, NEW), slot(1, NEW, NEW), slot(2, OLD, NEW))), 'demo-0');
  });

  test('is the leader when everybody else runs what is asked for', () => {
    assert.equal(next(situation(2, slot(0, NEW, NEW), slot(1, NEW, NEW), slot(2, OLD, NEW))), 'demo-2');
  });

  test('is not the leader while Crossplane has brought the change to it and not to the others', () => {
    assert.equal(next(situation(0, slot(0, OLD, NEW), slot(1, OLD, OLD), slot(2, OLD, OLD))), undefined);
  });

  test('is nobody whose Pod is going already, and nobody where all is as asked', () => {
    assert.equal(next(situation(0, slot(0, NEW, NEW), slot(1, OLD, NEW, true), slot(2, NEW, NEW))), undefined);
    assert.equal(next(situation(0, slot(0, NEW, NEW), slot(1, NEW, NEW), slot(2, NEW, NEW))), undefined);
  });
});

describe('a Pod is outdated', () => {
  const hashes = (pod: object, member: object): Slot => ({ pod, member }) as unknown as Slot;
  const member = { templateHash: 'new', restartHash: 'new' };

  test('when what needs another Pod differs', () => {
    assert.equal(isOutdated(hashes({ templateHash: 'old', restartHash: 'old', deleting: false }, member)), true);
  });

  test('not when only what can change in place differs', () => {
    assert.equal(isOutdated(hashes({ templateHash: 'old', restartHash: 'new', deleting: false }, member)), false);
  });

  test('not when a newer runtime tells the parts apart in another way, since the frozen hash still says the same', () => {
    assert.equal(isOutdated(hashes({ templateHash: 'new', restartHash: 'other', deleting: false }, member)), false);
  });

  test('when an older runtime made it and did not say which part of it is which', () => {
    assert.equal(isOutdated(hashes({ templateHash: 'old', restartHash: undefined, deleting: false }, member)), true);
    assert.equal(isOutdated(hashes({ templateHash: 'new', restartHash: undefined, deleting: false }, member)), false);
  });
});
