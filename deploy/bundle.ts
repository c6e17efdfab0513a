/** From TypeScript to what an image holds: one folder per program, with nothing left to resolve from node_modules. */
import { createHash } from 'node:crypto';
import { cp, mkdir, readdir, readFile, rename, rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join, relative } from 'node:path';
import { build } from 'esbuild';

export const root = join(import.meta.dirname, '..');

/** A program of the project. `entry` is relative to the repository, `data` copies folders that are read at run time. */
export type Program = {
  readonly name: string;
  readonly entry: string;
  /** Further entries in the same folder, by the name of their file: they share what is bundled. */
  readonly others?: Readonly<Record<string, string>>;
  readonly data: readonly { readonly from: string; readonly to: string }[];
  /** What Node is started with in the image; measure with these. */
  readonly flags: readonly string[];
};

/**
 * V8 sizes its heap by the machine it sees. Here it is the container's memory limit that counts, and the rest of it is for
 * buffers and code; without this a full heap ends in an OOM kill, with it in a collection.
 */
const heapByLimit = '--max-old-space-size-percentage=65';

const packageFolder = (name: string): string =>
  dirname(createRequire(import.meta.url).resolve(`${name}/package.json`, { paths: [root] }));

export const programs = {
  runtime: {
    name: 'runtime',
    entry: 'runtime/main.ts',
    // core/seeding.ts names its path in the image.
    others: { agent: 'runtime/agent/main.ts' },
    // etcd3 parses its .proto files when it is loaded, from "../proto" beside its code: the bundle lies in lib/ for that.
    data: [{ from: join(packageFolder('etcd3'), 'proto'), to: 'proto' }],
    flags: [heapByLimit],
  },
  function: { name: 'function', entry: 'functions/server/main.ts', data: [], flags: [heapByLimit] },
} as const satisfies Record<string, Program>;

/** Path of a program's entry below its folder. */
export const bundleEntry = 'lib/main.mjs';

// Packages that are CommonJS ask for these three; an ES module has none of them.
const banner = [
  "import { createRequire as bundleRequire } from 'node:module';",
  'const require = bundleRequire(import.meta.url);',
  'const __filename = import.meta.filename;',
  'const __dirname = import.meta.dirname;',
].join('\n');

/**
 * Bundles a program into `<out>/<name>`, replacing what is there.
 *
 * Code keeps its names and lines, since a stack in somebody's bug report is often all there is; source maps would be read
 * into memory at each start. What is imported only on demand (the kubeconfig reader with its HTTP client, which no Pod
 * needs) becomes a file of its own and is not loaded until then.
 * @returns the folder
 * @throws when the sources do not bundle
 */
export async function bundle(program: Program, out = join(root, 'build')): Promise<string> {
  const folder = join(out, program.name);
  const scratch = `${folder}.${process.pid}.part`;
  await mkdir(join(scratch, 'lib'), { recursive: true });
  try {
    await build({
      absWorkingDir: root,
      entryPoints: Object.entries({ main: program.entry, ...program.others }).map(([out, entry]) => ({
        in: entry,
        out,
      })),
      outdir: join(scratch, 'lib'),
      bundle: true,
      splitting: true,
      platform: 'node',
      target: 'node24',
      format: 'esm',
      outExtension: { '.js': '.mjs' },
      chunkNames: '[name]-[hash]',
      banner: { js: banner },
      legalComments: 'eof',
      logLevel: 'warning',
    });
    for (const { from, to } of program.data) await cp(from, join(scratch, to), { recursive: true });
    await rm(folder, { recursive: true, force: true });
    await rename(scratch, folder);
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
  return folder;
}

/** Hex digest of names and contents of everything below a folder. */
export async function folderDigest(folder: string): Promise<string> {
  const hash = createHash('sha256');
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  for (const file of files.sort()) {
    const content = await readFile(file);
    hash.update(`${relative(folder, file)}\n${content.length}\n`).update(content);
  }
  return hash.digest('hex');
}
