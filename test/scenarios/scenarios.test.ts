/**
 * The story book. To take what the planner answers now into the files: UPDATE_SCENARIOS=1 node --test test/scenarios.
 * Read the diff then, and commit it only if you understand every line of it.
 */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { playAll } from './story.ts';

const folder = import.meta.dirname;
const rewriting = process.env.UPDATE_SCENARIOS === '1';

describe('scenarios', () => {
  const files = readdirSync(folder).filter((name) => name.endsWith('.txt'));
  assert.ok(files.length > 0, `${folder} holds no stories`);
  for (const file of files) {
    it(`goes as told in ${file}`, () => {
      const path = join(folder, file);
      const text = readFileSync(path, 'utf8');
      const { actual, chapters } = playAll(text);
      assert.ok(chapters.length > 0, `${file} tells nothing`);
      if (rewriting) {
        writeFileSync(path, actual);
        return;
      }
      for (const { directive, actual: answer, expected } of chapters)
        assert.equal(answer, expected, `after: ${directive}`);
      assert.equal(actual, text, `${file} is not written as the rewriting would write it`);
    });
  }
});
