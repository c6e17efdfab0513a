/** The times of cron schedules. Only ever asked; nothing here keeps a timer. */
import { Cron } from 'croner';
import type { Instant } from '../core/observed.ts';
import type { Times } from '../core/snapshots/schedule-plan.ts';

export const timesOf = (schedule: string, timeZone: string | undefined, now: Instant): Times => {
  try {
    const cron = new Cron(schedule, { timezone: timeZone ?? 'Etc/UTC', paused: true, mode: '5-part' });
    const moment = new Date(now);
    return { last: cron.previousRuns(1, moment)[0]?.getTime(), next: cron.nextRun(moment)?.getTime() };
  } catch (error) {
    return { invalid: error instanceof Error ? error.message : String(error) };
  }
};
