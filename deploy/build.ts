/**
 * Images of runtime and function, and the function's package, without a Docker daemon. What is there already and made from
 * the same content is kept, so calling this again costs a second.
 */
import { createHash } from 'node:crypto';
import { access, mkdir, readdir, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { bundle, bundleEntry, folderDigest, type Program, programs, root } from './bundle.ts';
import {
  folderContent,
  type ImageContent,
  type ImageFile,
  nodeRuntimeFiles,
  writeImageArchive,
} from './image-archive.ts';
import { functionName, imagePrefix, release, runtimeName } from './names.ts';

/** An image as a docker-archive tar, named inside as `name:tag`. */
export type BuiltImage = { readonly name: string; readonly tag: string; readonly archive: string };

export type BuildOptions = {
  /** Registry and path before the image's own name; {@link imagePrefix} when absent. */
  readonly prefix?: string;
  /** Tag of all images; the release and a digest of the content when absent, so that equal tags mean equal images. */
  readonly tag?: string;
  readonly out?: string;
  readonly progress?: (line: string) => void;
};

/** Runs the Crossplane CLI with these arguments. */
export type RunCrossplane = (args: readonly string[]) => Promise<unknown>;

const user = '65532:65532';

const folderInImage = '/opt/etcd-operator';

export const buildRuntime = (options: BuildOptions = {}): Promise<BuiltImage> =>
  buildImage(programs.runtime, runtimeName, options);

/** The image that is embedded into the function's package. */
const buildFunctionImage = (options: BuildOptions = {}): Promise<BuiltImage> =>
  buildImage(programs.function, functionName, options);

async function buildImage(program: Program, imageName: string, options: BuildOptions): Promise<BuiltImage> {
  const out = options.out ?? join(root, 'build');
  const folder = await bundle(program, out);
  const below = await nodeRuntimeFiles(process.execPath);
  const content = {
    below: [{ files: below }],
    ...(await folderContent(folderInImage, folder)),
    entrypoint: ['/usr/local/bin/node', ...program.flags, `${folderInImage}/${bundleEntry}`],
    user,
    workdir: folderInImage,
    env: { NODE_ENV: 'production' },
  } satisfies Omit<ImageContent, 'names'>;
  const { entrypoint, env } = content;
  const parts = [await folderDigest(folder), await systemDigest(below), process.arch, entrypoint, env, user];
  const digest = digestOf(parts);
  const name = `${options.prefix ?? imagePrefix}/${imageName}`;
  const tag = options.tag ?? `${release}-${digest}`;
  const archive = join(out, 'images', `${imageName}-${digestOf([name, tag, digest])}.tar`);
  if (!(await exists(archive))) {
    const started = performance.now();
    await writeImageArchive(archive, { ...content, names: [`${name}:${tag}`] });
    await removeOthers(archive, `${imageName}-`, '.tar');
    options.progress?.(`made image ${name}:${tag} in ${secondsSince(started)}`);
  }
  return { name, tag, archive };
}

/**
 * The function's package: its image with Crossplane's metadata in one more layer.
 * @param crossplane runs the Crossplane CLI, which knows the format
 */
export async function buildFunctionPackage(crossplane: RunCrossplane, options: BuildOptions = {}): Promise<BuiltImage> {
  const image = await buildFunctionImage(options);
  const metadata = join(root, 'functions/package');
  const digest = digestOf([image.tag, image.archive, await folderDigest(metadata)]);
  const tag = options.tag ?? `${release}-${digest}`;
  const archive = join(options.out ?? join(root, 'build'), 'packages', `${functionName}-${digest}.xpkg`);
  if (!(await exists(archive))) {
    const started = performance.now();
    const scratch = `${archive}.${process.pid}.part`;
    await mkdir(join(archive, '..'), { recursive: true });
    try {
      await crossplane([
        ...['xpkg', 'build', '--package-root', metadata, '--embed-runtime-image-tarball', image.archive],
        // Its default is ./examples, wherever that may be: ours are claims and need the operator as a whole.
        ...['--examples-root', join(metadata, 'examples'), '--package-file', scratch],
      ]);
      await rename(scratch, archive);
    } finally {
      await rm(scratch, { force: true });
    }
    await removeOthers(archive, `${functionName}-`, '.xpkg');
    options.progress?.(`made package ${image.name}:${tag} in ${secondsSince(started)}`);
  }
  return { name: image.name, tag, archive };
}

/** A hundred megabytes each: only the newest is kept. */
async function removeOthers(path: string, prefix: string, suffix: string): Promise<void> {
  const folder = join(path, '..');
  for (const name of await readdir(folder)) {
    const other = join(folder, name);
    if (other !== path && name.startsWith(prefix) && name.endsWith(suffix)) await rm(other, { force: true });
  }
}

/** Of what an image has from this machine. Node itself is known by its version: reading its 120 MB each time is slow. */
async function systemDigest(files: readonly ImageFile[]): Promise<string> {
  const hash = createHash('sha256').update(process.version);
  for (const file of files) {
    hash.update(`${file.path}\n`);
    if ('content' in file) hash.update(file.content);
    else if (!file.path.endsWith('/node')) hash.update(await readFile(file.from));
  }
  return hash.digest('hex');
}

function digestOf(parts: unknown): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 12);
}

function secondsSince(started: number): string {
  return `${((performance.now() - started) / 1000).toFixed(1)} s`;
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
