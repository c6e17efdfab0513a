import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { parentOf, parseTraceparent } from './traceparent.ts';

const traceId = '4bf92f3577b34da6a3ce929d0e0e4736';
const spanId = '00f067aa0ba902b7';

describe('a traceparent', () => {
  it('names trace, span and whether they are sampled', () => {
    assert.deepEqual(parseTraceparent(`00-${traceId}-${spanId}-01`), { traceId, spanId, sampled: true });
    assert.deepEqual(parseTraceparent(`00-${traceId}-${spanId}-00`), { traceId, spanId, sampled: false });
  });

  it('of a later version is read as far as this one goes, as the recommendation asks', () => {
    assert.deepEqual(parseTraceparent(`01-${traceId}-${spanId}-03-more`), { traceId, spanId, sampled: true });
  });

  for (const [why, text] of [
    ['is empty', ''],
    ['has the version that is forbidden', `ff-${traceId}-${spanId}-01`],
    ['has more than version 00 allows', `00-${traceId}-${spanId}-01-more`],
    ['has a trace of zeros', `00-${'0'.repeat(32)}-${spanId}-01`],
    ['has a span of zeros', `00-${traceId}-${'0'.repeat(16)}-01`],
    ['has upper-case digits', `00-${traceId.toUpperCase()}-${spanId}-01`],
    ['is cut short', `00-${traceId}-${spanId}`],
    ['is followed by another line', `00-${traceId}-${spanId}-01\nx`],
  ] as const) {
    it(`counts for nothing when it ${why}`, () => assert.equal(parseTraceparent(text), undefined));
  }
});

describe('the parent of a change', () => {
  const plain = `00-${traceId}-${spanId}-01`;
  const own = `00-${traceId}-1111111111111111-01`;

  it('comes from our annotation before the plain one, which a tool may put on everything', () => {
    const parent = parentOf({ traceparent: plain, 'etcd-operator.cozystack.io/traceparent': own });
    assert.deepEqual(parent, { context: { traceId, spanId: '1111111111111111', sampled: true } });
  });

  it('comes from the plain annotation where there is no other', () => {
    assert.deepEqual(parentOf({ traceparent: plain }), { context: { traceId, spanId, sampled: true } });
  });

  it('is told to be invalid rather than absent, so that somebody learns of it', () => {
    const parent = parentOf({ traceparent: plain, 'etcd-operator.cozystack.io/traceparent': 'yes' });
    assert.deepEqual(parent, { invalid: { annotation: 'etcd-operator.cozystack.io/traceparent', value: 'yes' } });
  });

  it('is none without annotations', () => assert.equal(parentOf({}), undefined));
});
