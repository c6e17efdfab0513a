/** Plays a story again and again; each time the runtime's process dies at another of its writes. */
import assert from 'node:assert/strict';
import { assertSound, type Ending, endingOf } from './ending.ts';
import { openStage, type Stage } from './stage.ts';
import type { Story } from './stories.ts';

export type Death = {
  /** Counted from where the story begins, after its prologue. */
  readonly atWrite: number;
  /**
   * `before`: the write does not happen, and a new process starts at once; so this is also the death after the write before
   * it, whose answer got lost. `after`: it happens, and the world goes on for a while before anybody looks at it again.
   */
  readonly how: 'before' | 'after';
};

/** As long as a standby takes to find out that the lease has run out. */
const AWAY_MS = 20_000;

const never = (): Promise<never> => new Promise(() => {});

export type Played = { readonly stage: Stage; readonly ending: Ending; readonly writes: readonly string[] };

/** Rejects where the story does not end as it should, whether or not anybody dies in it. */
export const playStory = async (story: Story, death?: Death): Promise<Played> => {
  const stage = openStage();
  try {
    await story.before?.(stage);
    const first = stage.writes.length;
    let number = 0;
    if (death !== undefined) {
      stage.between(async (call, happen) => {
        if (!call.writes || number++ !== death.atWrite) return happen();
        if (death.how === 'after') {
          await happen().catch(() => {});
          stage.away(AWAY_MS);
        } else {
          stage.die();
        }
        return never();
      });
    }
    await story.play(stage);
    await story.ends?.(stage);
    stage.close();
    assertSound(stage);
    assert.deepEqual(stage.thrown, [], 'no pass fails');
    assert.deepEqual(stage.stubborn, [], 'no step is taken again and again');
    assert.ok(death === undefined || number > death.atWrite, 'the write to die at was reached');
    return { stage, ending: await endingOf(stage), writes: stage.writes.slice(first) };
  } catch (error) {
    stage.close();
    const told = stage.diary.slice(-25).join('\n');
    throw new Error(`${error instanceof Error ? error.message : String(error)}\nThe last passes:\n${told}`, {
      cause: error,
    });
  }
};

/**
 * Every write `before`; `after` every third one, since a world that goes on alone changes little from one write to the next.
 * `DEATHS=all` leaves nothing out.
 */
export const deathsOf = (writes: readonly string[]): Death[] =>
  writes.flatMap((_, atWrite): Death[] => [
    { atWrite, how: 'before' },
    ...(process.env.DEATHS === 'all' || atWrite % 3 === 2 || atWrite === writes.length - 1
      ? [{ atWrite, how: 'after' } as const]
      : []),
  ]);
