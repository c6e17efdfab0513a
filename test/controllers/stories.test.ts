import { describe, test } from 'node:test';
import { playStory } from './deaths.ts';
import { stories } from './stories.ts';

describe('the runtime, from its watches to its writes', () => {
  for (const story of stories) test(story.name, async () => void (await playStory(story)));
});
