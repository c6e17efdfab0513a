/** The times of cron schedules. Only ever asked; nothing here keeps a timer. */
import { Cron } from 'croner';
import type { Instant } from '../core/observed.ts';
import type { Times } from '../core/snapshots/schedule-plan.ts';

const isTimeZone = (name: string): boolean => {
  try {
    new Intl.DateTimeFormat('en', { timeZone: name });
    return true;
  } catch {
    return false;
  }
};

export const timesOf = (schedule: string, timeZone: string | undefined, now: Instant): Times => {
  if (timeZone !== undefined && !isTimeZone(timeZone)) {
    return {
      invalid: `timeZone ${JSON.stringify(timeZone)} is not known: write one like Europe/Berlin, or leave it out for UTC`,
    };
  }
  const written = `schedule ${JSON.stringify(schedule)}`;
  try {
    const cron = new Cron(schedule, { timezone: timeZone ?? 'Etc/UTC', paused: true, mode: '5-part' });
    // "Previous" excludes the moment itself, as "next" does. A timer that is on time asks at the very moment.
    const [last, before] = cron.previousRuns(2, new Date(now + 1));
    const next = cron.nextRun(new Date(now));
    // Such as the 31st of February: whoever wrote it does not know that there will be no backups.
    if (next === null) return { invalid: `${written} names no time that will ever come` };
    return { last: last?.getTime(), before: before?.getTime(), next: next.getTime() };
  } catch (error) {
    const why = error instanceof Error ? error.message.replace(/^Cron\w+: /, '') : String(error);
    return {
      invalid: `${written} is not understood (${why}): write five fields, such as "30 2 * * *" for half past two every night`,
    };
  }
};
