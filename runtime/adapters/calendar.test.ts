import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { timesOf } from './calendar.ts';

const around = (schedule: string, timeZone: string | undefined, now: string): (string | undefined)[] => {
  const times = timesOf(schedule, timeZone, Date.parse(now));
  assert.ok(!('invalid' in times), JSON.stringify(times));
  return [times.before, times.last, times.next].map((one) => (one === undefined ? one : new Date(one).toISOString()));
};

describe('the times of a schedule', () => {
  test('are those around now, in UTC where no zone is given', () => {
    assert.deepEqual(around('0 3 * * *', undefined, '2026-11-30T12:00:00Z'), [
      '2026-11-29T03:00:00.000Z',
      '2026-11-30T03:00:00.000Z',
      '2026-12-01T03:00:00.000Z',
    ]);
  });

  test('count a moment that is one of them as passed: a timer on time would sleep through it otherwise', () => {
    assert.deepEqual(around('0 * * * *', undefined, '2026-11-30T12:00:00.000Z'), [
      '2026-11-30T11:00:00.000Z',
      '2026-11-30T12:00:00.000Z',
      '2026-11-30T13:00:00.000Z',
    ]);
  });

  test('are those of the time zone, on the days too on which its clocks are changed', () => {
    // Winter time begins: half past two comes twice, the backup once.
    assert.deepEqual(around('30 2 * * *', 'Europe/Berlin', '2026-10-25T12:00:00Z'), [
      '2026-10-24T00:30:00.000Z',
      '2026-10-25T00:30:00.000Z',
      '2026-10-26T01:30:00.000Z',
    ]);
    // Summer time begins: half past two does not come, the backup does.
    const [before, last, next] = around('30 2 * * *', 'Europe/Berlin', '2026-03-29T12:00:00Z');
    assert.deepEqual([before, next], ['2026-03-28T01:30:00.000Z', '2026-03-30T00:30:00.000Z']);
    assert.match(last ?? '', /^2026-03-29T01:/);
    assert.deepEqual(around('0 3 * * *', 'Asia/Kolkata', '2026-11-30T12:00:00Z').slice(1), [
      '2026-11-29T21:30:00.000Z',
      '2026-11-30T21:30:00.000Z',
    ]);
  });

  test('that never come, or are not understood, are told with what to write', () => {
    for (const [schedule, zone, words] of [
      [
        '61 * * * *',
        undefined,
        /^schedule "61 \* \* \* \*" is not understood \(Invalid value for minute: 61\): write five/,
      ],
      ['* * * *', undefined, /^schedule .* is not understood .*: write five fields/],
      ['* * * * * *', undefined, /^schedule .* is not understood .*: write five fields/],
      ['0 3 * * *', 'Europe/Nowhere', /^timeZone "Europe\/Nowhere" is not known: write one like Europe\/Berlin/],
      ['0 0 31 2 *', undefined, /^schedule "0 0 31 2 \*" names no time that will ever come/],
      ['2026-01-01T00:00:00', undefined, /names no time that will ever come/],
    ] as const) {
      const times = timesOf(schedule, zone, Date.parse('2026-11-30T12:00:00Z'));
      assert.match('invalid' in times ? times.invalid : 'valid', words, `${schedule} ${zone}`);
    }
    assert.ok('next' in timesOf('0 0 29 2 *', undefined, Date.parse('2026-11-30T12:00:00Z')), 'in 2028');
  });
});
