import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { openStage, type Stage } from './stage.ts';

const memory = { storage: { medium: 'Memory', size: '256Mi' } };

const count = (stage: Stage, pattern: RegExp): number => stage.writes.filter((what) => pattern.test(what)).length;

describe('writes are counted, since each costs the claim tokens of its circuit breaker', () => {
  for (const [where, spec] of [
    ['on volumes', {}],
    ['in memory', memory],
  ] as const) {
    test(`nine members ${where} come up within the budget`, async (t) => {
      const stage = openStage();
      stage.apply({ replicas: 9, ...spec });
      await stage.settled();
      const perKind = new Map<string, number>();
      for (const what of stage.writes) {
        const kind = what.split(' ').slice(0, 2).join(' ');
        perKind.set(kind, (perKind.get(kind) ?? 0) + 1);
      }
      for (const [kind, number] of perKind) t.diagnostic(`${kind}: ${number}`);
      t.diagnostic(`tokens of the circuit breaker, none refilled: ${stage.crossplane.tokens} of 100`);
      for (const { metadata } of stage.members) {
        assert.ok(count(stage, new RegExp(`etcdmembers(/status)? ${metadata.name}$`)) <= 2, metadata.name);
      }
      assert.ok(count(stage, /etcdquorums\/status/) <= 4);
      assert.ok(
        stage.crossplane.tokens < 80,
        `${stage.crossplane.tokens} tokens\n${stage.crossplane.events.join('\n')}`,
      );
      stage.close();
    });
  }

  test('a change of size writes once per member, once for the beginning and once for the end', async (t) => {
    const stage = openStage();
    stage.apply({ replicas: 3 });
    await stage.settled();
    const costs = async (replicas: number): Promise<{ writes: number; tokens: number }> => {
      const [writes, tokens] = [count(stage, /etcdquorums\/status/), stage.crossplane.tokens];
      stage.edit({ replicas });
      await stage.settled();
      return { writes: count(stage, /etcdquorums\/status/) - writes, tokens: stage.crossplane.tokens - tokens };
    };
    const grown = await costs(5);
    const shrunk = await costs(3);
    t.diagnostic(`3 → 5: ${JSON.stringify(grown)}; 5 → 3: ${JSON.stringify(shrunk)}`);
    assert.equal(grown.writes, 3);
    assert.equal(shrunk.writes, 3);
    assert.ok(grown.tokens + shrunk.tokens < 75, 'there and back within a budget that is refilled at one a second');
    stage.close();
  });

  test('a settled cluster is written to by nobody, and its claim is not read', async () => {
    const stage = openStage();
    stage.apply({});
    await stage.settled();
    const [writes, calls, passes] = [stage.writes.length, stage.calls, stage.diary.length];
    await stage.pass(3_600_000);
    assert.ok(stage.diary.length - passes >= 59, 'it is looked at every minute');
    assert.equal(stage.writes.length, writes);
    // Each member is asked how it is, and one for the list; the API server is asked nothing.
    assert.equal(stage.calls - calls, 4 * (stage.diary.length - passes));
    stage.close();
  });

  test('a new process that finds a settled cluster writes nothing', async () => {
    const stage = openStage();
    stage.apply({});
    await stage.settled();
    const writes = stage.writes.length;
    stage.die();
    await stage.pass(120_000);
    await stage.settled();
    assert.equal(stage.lives, 2);
    assert.equal(stage.writes.length, writes);
    stage.close();
  });

  test('a cluster that cannot proceed is not written to again and again', async () => {
    const stage = openStage();
    stage.kubelet.refuse(/./);
    stage.apply({});
    await stage.pass(60_000);
    const writes = stage.writes.length;
    await stage.pass(240_000);
    assert.equal(stage.writes.length, writes, stage.writes.slice(writes).join('\n'));
    stage.close();
  });
});
