import assert from 'node:assert/strict';
import { glob, readFile, stat } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { test } from 'node:test';

const root = join(import.meta.dirname, '..');
const read = (path: string): Promise<string> => readFile(join(root, path), 'utf8');

const pages: string[] = ['README.md'];
for await (const page of glob('docs/**/*.md', { cwd: root })) pages.push(page);

type Link = { readonly page: string; readonly target: string };

/** Those to other places of the repository, in the text and not in examples. */
const linksOf = (page: string, text: string): Link[] =>
  [...text.replaceAll(/^```[\s\S]*?^```|`[^`\n]*`/gm, '').matchAll(/\]\(([^)\s]+)\)/g)]
    .map(([, target = '']) => ({ page, target }))
    .filter(({ target }) => !/^[a-z]+:/.test(target));

/** As GitHub makes it of a heading. */
const anchorOf = (heading: string): string =>
  heading
    .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
    .trim()
    .replaceAll(/\s/g, '-');

const links = (await Promise.all(pages.map(async (page) => linksOf(page, await read(page))))).flat();

test('every link leads somewhere, to a heading where it names one', async () => {
  const broken: string[] = [];
  for (const { page, target } of links) {
    const [path = '', anchor] = target.split('#');
    const file = path === '' ? page : join(dirname(page), path);
    const found = await stat(join(root, file)).catch(() => undefined);
    const headings =
      anchor === undefined || found?.isFile() !== true
        ? []
        : [...(await read(file)).matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) => anchorOf(heading));
    if (found === undefined || (anchor !== undefined && !headings.includes(anchor))) broken.push(`${page}: ${target}`);
  }
  assert.ok(links.length > 50, `${links.length} links`);
  assert.deepEqual(broken, []);
});

test('every page can be reached from the README, since nobody lists a folder', () => {
  const reached = new Set(['README.md']);
  // A set grows while it is gone through.
  for (const page of reached) {
    for (const link of links) {
      if (link.page === page) reached.add(relative('.', join(dirname(page), link.target.split('#')[0] ?? '')));
    }
  }
  assert.deepEqual(
    pages.filter((page) => !reached.has(page)),
    [],
  );
});

test('every decision stands in the list under its own title, with a number that no other one has', async () => {
  const listed = await read('docs/decisions/README.md');
  const decisions = pages.filter((page) => /decisions\/\d{4}-/.test(page)).sort();
  const rows = await Promise.all(
    decisions.map(async (page) => {
      const [, number, title] = /^# (\d+)\. (.*)$/m.exec(await read(page)) ?? [];
      return `| [${number}](${page.slice('docs/decisions/'.length)}) | ${title} |`;
    }),
  );
  assert.deepEqual(
    listed.split('\n').filter((line) => line.startsWith('| [')),
    rows,
  );
  const numbers = rows.map((row) => /\[(\d+)\]/.exec(row)?.[1]);
  assert.equal(new Set(numbers).size, rows.length, String(numbers));
});
