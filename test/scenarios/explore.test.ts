import { describe, it } from 'node:test';
import { explore } from './explore.ts';

/** More by `EXPLORE=5000`; a failure names its seed, and `EXPLORE_SEED=…` takes that one alone. */
const SEEDS = Number(process.env.EXPLORE ?? 120);
const ONLY = process.env.EXPLORE_SEED;

const seeds = ONLY === undefined ? Array.from({ length: SEEDS }, (_, i) => i + 1) : [Number(ONLY)];

describe('bad weather', () => {
  for (const [what, weather] of [
    ['clusters on volumes', { memory: false, mortal: false }],
    ['clusters in memory', { memory: true, mortal: false }],
    ['claims on volumes that come and go', { memory: false, mortal: true }],
    ['claims in memory that come and go', { memory: true, mortal: true }],
    ['clusters on volumes that it sees late', { memory: false, mortal: true, slow: true }],
    ['clusters in memory that it sees late', { memory: true, mortal: true, slow: true }],
  ] as const) {
    it(`breaks no ${what}, whatever happens and wherever the controller dies`, () => {
      for (const seed of seeds) explore(seed, weather);
    });
  }
});
