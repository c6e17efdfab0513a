import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { conditions, type Said } from './conditions.ts';

const at = (time: string): number => Date.parse(time);
const said: Said = { status: 'False', reason: 'Starting', message: 'its Pod is starting' };
const first = conditions(undefined, at('2026-01-01T00:00:00Z'), 1, { Ready: said });

describe('a condition', () => {
  it('tells since when its status is what it is, whatever reason and message have become meanwhile', () => {
    const next = { ...said, reason: 'Restarting', message: 'its Pod is ending' } as const;
    assert.deepEqual(conditions(first, at('2026-01-01T01:00:00Z'), 2, { Ready: next }), [
      { type: 'Ready', ...next, lastTransitionTime: '2026-01-01T00:00:00.000Z', observedGeneration: 2 },
    ]);
  });

  it('has another time once its status is another', () => {
    const [turned] = conditions(first, at('2026-01-01T01:00:00Z'), 1, { Ready: { ...said, status: 'True' } });
    assert.equal(turned?.lastTransitionTime, '2026-01-01T01:00:00.000Z');
  });

  it('takes its time from none of another type', () => {
    const [other] = conditions(first, at('2026-01-01T01:00:00Z'), 1, { Synced: said });
    assert.equal(other?.lastTransitionTime, '2026-01-01T01:00:00.000Z');
  });

  it('has a message that the definitions take, however long the words of others are', () => {
    const [long] = conditions(undefined, 0, 1, { Ready: { ...said, message: 'x'.repeat(5_000) } });
    assert.equal(long?.message?.length, 1_000);
    assert.match(long?.message ?? '', /…$/);
  });
});
