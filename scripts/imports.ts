/**
 * The rule that keeps decisions pure: what computes (`runtime/core`, and every function's `compose`) touches nothing of
 * the world, not through what it imports either, so that it gives the same answer for the same input at any time.
 */
import { readdir, readFile } from 'node:fs/promises';
import { dirname, join, normalize } from 'node:path';

/** Where the rule begins; from here it follows imports. */
const isRoot = (path: string): boolean =>
  !path.endsWith('.test.ts') && (/^runtime\/core\/.*\.ts$/.test(path) || /^functions\/.*\bcompose\.ts$/.test(path));

/** Folders whose files may be imported, and then are held to the same rule. Ports are shapes; adapters are the world. */
const mayBeImported = (path: string): boolean =>
  /^(?:api|runtime\/core|runtime\/ports|functions\/(?!server\/).*)\//.test(`${path}/`);

interface Import {
  from: string;
  /** Whether the statement vanishes before the code runs. */
  typeOnly: boolean;
}

const COMMENT_OR_TEXT = /\/\/[^\n]*|\/\*[\s\S]*?\*\/|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|`(?:\\.|[^`\\])*`/g;
const isComment = (token: string): boolean => token.startsWith('//') || token.startsWith('/*');

/** The modules that a source names in import, export-from, dynamic import and require. */
export const importsOf = (source: string): Import[] => {
  const code = source.replace(COMMENT_OR_TEXT, (token) => (isComment(token) ? '' : token));
  const found: Import[] = [];
  for (const [, typed, from = ''] of code.matchAll(
    /^\s*(?:import|export)\s+(type\s)?[^'"`;]*?\bfrom\s*['"]([^'"]+)['"]/gm,
  )) {
    found.push({ from, typeOnly: typed !== undefined });
  }
  for (const [, from = ''] of code.matchAll(/^\s*import\s*['"]([^'"]+)['"]/gm)) found.push({ from, typeOnly: false });
  for (const [, from = ''] of code.matchAll(/\b(?:import|require)\s*\(\s*['"`]([^'"`]+)['"`]/g)) {
    found.push({ from, typeOnly: false });
  }
  return found;
};

/** Names through which code reaches clock, chance, network, environment or output without an import. */
const WORLD =
  /\b(?:process\.|Date\.now|new Date\(\)|Date\(\)|performance\.|Math\.random|crypto\.|fetch\(|console\.|globalThis|set(?:Timeout|Interval|Immediate)\()/;

/**
 * What is wrong in one file, a sentence each.
 * @returns the files of this repository that it imports at run time, to be looked at in turn
 */
export const judge = (path: string, source: string): { wrong: string[]; next: string[] } => {
  const wrong: string[] = [];
  const next: string[] = [];
  for (const { from, typeOnly } of importsOf(source)) {
    if (!from.startsWith('.')) {
      if (typeOnly && from.startsWith('kubernetes-types/')) continue;
      wrong.push(`${path} imports ${from}; pure code takes nothing from packages but types of kubernetes-types`);
      continue;
    }
    const target = normalize(join(dirname(path), from));
    if (!mayBeImported(target)) wrong.push(`${path} imports ${target}, which is of the world`);
    else if (!typeOnly) next.push(target);
  }
  const world = WORLD.exec(source.replace(COMMENT_OR_TEXT, ''))?.[0];
  if (world !== undefined) wrong.push(`${path} uses ${world}; pure code is given time, chance and the world as input`);
  return { wrong, next };
};

/** Everything wrong in the repository, in order of path. */
export const forbiddenImports = async (root: string): Promise<string[]> => {
  const seen = new Set<string>();
  const found: string[] = [];
  const look = async (path: string): Promise<void> => {
    if (seen.has(path)) return;
    seen.add(path);
    const source = await readFile(join(root, path), 'utf8').catch(() => undefined);
    // A file that is not there is the type checker's to report.
    if (source === undefined) return;
    const { wrong, next } = judge(path, source);
    found.push(...wrong);
    await Promise.all(next.map(look));
  };
  for (const folder of ['functions', 'runtime/core']) {
    const names = await readdir(join(root, folder), { recursive: true });
    await Promise.all(
      names
        .map((name) => `${folder}/${name}`)
        .filter(isRoot)
        .map(look),
    );
  }
  if (seen.size === 0) throw new Error(`no pure file found below ${root}; has a folder moved?`);
  return found.sort((a, b) => (a < b ? -1 : 1));
};
