import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { deathsOf, playStory } from './deaths.ts';
import { stories } from './stories.ts';

/** A nine-member cluster is formed by the same lines as one of three, only more often. */
const mortal = stories.filter(({ immortal }) => immortal !== true);

/**
 * Every `of`th story from the `nth` on. A file of tests has one process and so one processor, and all of them in one take
 * longer than everything else that needs no cluster.
 */
export const diesAnywhere = (nth: number, of: number): void => {
  describe('wherever the runtime dies, another process brings the story to the same end', () => {
    for (const story of mortal.filter((_, index) => index % of === nth)) {
      test(story.name, async () => {
        const { ending, writes } = await playStory(story);
        assert.ok(writes.length > 0, 'there is something to die in');
        for (const death of deathsOf(writes)) {
          const where = `died ${death.how} write ${death.atWrite}, ${writes[death.atWrite]}`;
          const played = await playStory(story, death).catch((error: unknown) => {
            throw new Error(`${where}: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
          });
          assert.deepEqual(played.ending, ending, where);
        }
      });
    }
  });
};
