/** The times of cron schedules. Only ever asked; nothing here keeps a timer. */
import { Cron } from 'croner';
import type { Instant } from '../core/observed.ts';
import type { Times } from '../core/snapshots/schedule-plan.ts';

export const timesOf = (schedule: string, timeZone: string | undefined, now: Instant): Times => {
  try {
    const cron = new Cron(schedule, { timezone: timeZone ?? 'Etc/UTC', paused: true, mode: '5-part' });
    // "Previous" excludes the moment itself, as "next" does. A timer that is on time asks at the very moment.
    const [last, before] = cron.previousRuns(2, new Date(now + 1));
    return { last: last?.getTime(), before: before?.getTime(), next: cron.nextRun(new Date(now))?.getTime() };
  } catch (error) {
    return { invalid: error instanceof Error ? error.message : String(error) };
  }
};
