import { execFile } from 'node:child_process';
import { createHash, type Hash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { type FileHandle, mkdir, open, readdir, readlink, realpath, rename, rm, stat } from 'node:fs/promises';
import { dirname, join, posix } from 'node:path';
import { promisify } from 'node:util';

/** One regular file of an image: its absolute path there, and its bytes, from a file of this machine or given directly. */
export type ImageFile = {
  readonly path: string;
  /** Permission bits; 0o755 for a source file that is executable here and 0o644 for all else when absent. */
  readonly mode?: number;
} & ({ readonly from: string } | { readonly content: string | Uint8Array });

/** A symbolic link of an image. */
export type ImageLink = { readonly path: string; readonly target: string };

/** An empty folder of an image. Folders on the way to a file need not be named: they are made with mode 0o755. */
export type ImageFolder = { readonly path: string; readonly mode?: number };

export type ImageLayer = {
  readonly files?: readonly ImageFile[];
  readonly links?: readonly ImageLink[];
  readonly folders?: readonly ImageFolder[];
};

export type ImageContent = ImageLayer & {
  /** Full names with tag, such as `quay.io/coreos/etcd:v3.6.16`. */
  readonly names: readonly string[];
  /**
   * Layers beneath the one that `files`, `links` and `folders` make. What changes seldom belongs here: whoever has
   * the layer already does not store it again.
   */
  readonly below?: readonly ImageLayer[];
  readonly entrypoint?: readonly string[];
  readonly cmd?: readonly string[];
  /** Environment; `PATH` has the usual value when absent. */
  readonly env?: Readonly<Record<string, string>>;
  /** `uid` or `uid:gid`; root when absent. */
  readonly user?: string;
  readonly workdir?: string;
  readonly labels?: Readonly<Record<string, string>>;
};

const blockSize = 512;

/**
 * Writes an image as a docker-archive tar, which `docker load`, `ctr images import`, `kind load image-archive` and
 * `crossplane xpkg build --embed-runtime-image-tarball` read. No daemon is needed.
 *
 * The same content gives the same bytes on every machine and at any time: entries are sorted, owners are root, times are
 * zero. A file that appears at `outPath` is complete.
 * @throws when two entries claim one path, a path is not absolute, or a source file is missing or changes while it is read
 */
export async function writeImageArchive(outPath: string, image: ImageContent): Promise<void> {
  if (image.names.length === 0) throw new Error(`image ${outPath} needs at least one name`);
  await mkdir(dirname(outPath), { recursive: true });
  const scratch = `${outPath}.${process.pid}.part`;
  const contents = [...(image.below ?? []), image];
  const layerPaths = contents.map((_, index) => `${scratch}.layer${index}`);
  try {
    const layers: { readonly path: string; readonly digest: string; readonly size: number }[] = [];
    for (const [index, path] of layerPaths.entries()) {
      layers.push({ path, ...(await writeLayer(path, contents[index] ?? {})) });
    }
    const config = Buffer.from(JSON.stringify(imageConfig(image, layers)));
    const configName = `${sha256(config)}.json`;
    // Two layers with the same content are one file in the archive, named twice in the manifest.
    const distinct = [...new Map(layers.map((layer) => [layer.digest, layer])).values()];
    const manifest = [
      {
        Config: configName,
        RepoTags: image.names,
        Layers: layers.map((layer) => `${layer.digest}/layer.tar`),
      },
    ];
    const archive = await TarWriter.create(scratch);
    try {
      await archive.file(configName, 0o644, config);
      for (const layer of distinct) await archive.fileFrom(`${layer.digest}/layer.tar`, 0o644, layer.path, layer.size);
      await archive.file('manifest.json', 0o644, Buffer.from(JSON.stringify(manifest)));
      await archive.end();
    } finally {
      await archive.close();
    }
    await rename(scratch, outPath);
  } finally {
    await Promise.all([scratch, ...layerPaths].map((path) => rm(path, { force: true })));
  }
}

function imageConfig(image: ImageContent, layers: readonly { readonly digest: string }[]): unknown {
  const env = { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', ...image.env };
  const epoch = '1970-01-01T00:00:00Z';
  return {
    architecture: goArchitecture(),
    os: 'linux',
    created: epoch,
    config: {
      Entrypoint: image.entrypoint ?? [],
      Cmd: image.cmd ?? [],
      Env: Object.entries(env)
        .map(([name, value]) => `${name}=${value}`)
        .sort(),
      User: image.user ?? '',
      WorkingDir: image.workdir ?? '/',
      ...(image.labels === undefined ? {} : { Labels: Object.fromEntries(Object.entries(image.labels).sort()) }),
    },
    rootfs: { type: 'layers', diff_ids: layers.map((layer) => `sha256:${layer.digest}`) },
    history: layers.map(() => ({ created: epoch })),
  };
}

/** Images hold programs of this machine, so they are for its processor. */
function goArchitecture(): string {
  return process.arch === 'x64' ? 'amd64' : process.arch;
}

type Entry =
  | { readonly kind: 'folder'; readonly mode: number }
  | { readonly kind: 'link'; readonly target: string }
  | { readonly kind: 'file'; readonly file: ImageFile };

/** Every entry of a layer by path without the leading slash, folders on the way included. */
function layerEntries(layer: ImageLayer): Map<string, Entry> {
  // World-writable like everywhere: programs of any user expect it.
  const entries = new Map<string, Entry>([['tmp', { kind: 'folder', mode: 0o1777 }]]);
  const add = (path: string, entry: Entry): void => {
    const name = archiveName(path);
    const before = entries.get(name);
    if (before !== undefined && !(before.kind === 'folder' && entry.kind === 'folder')) {
      throw new Error(`two entries of the image claim ${path}`);
    }
    entries.set(name, entry);
  };
  for (const folder of layer.folders ?? []) add(folder.path, { kind: 'folder', mode: folder.mode ?? 0o755 });
  for (const link of layer.links ?? []) add(link.path, { kind: 'link', target: link.target });
  for (const file of layer.files ?? []) add(file.path, { kind: 'file', file });
  for (const name of [...entries.keys()]) {
    for (let above = posix.dirname(name); above !== '.'; above = posix.dirname(above)) {
      const there = entries.get(above);
      if (there === undefined) entries.set(above, { kind: 'folder', mode: 0o755 });
      else if (there.kind !== 'folder') throw new Error(`/${name} lies below /${above}, which is not a folder`);
    }
  }
  return entries;
}

function archiveName(path: string): string {
  const normal = posix.normalize(path);
  if (!posix.isAbsolute(path) || normal === '/') throw new Error(`image path "${path}" must be absolute`);
  return normal.slice(1).replace(/\/$/, '');
}

async function writeLayer(path: string, layer: ImageLayer): Promise<{ digest: string; size: number }> {
  const entries = layerEntries(layer);
  const tar = await TarWriter.create(path);
  try {
    // Sorted by code units, so that a folder comes before what it holds and the order is the same in every locale.
    for (const name of [...entries.keys()].sort((a, b) => (a < b ? -1 : 1))) {
      const entry = entries.get(name);
      if (entry === undefined) continue;
      if (entry.kind === 'folder') await tar.folder(name, entry.mode);
      else if (entry.kind === 'link') await tar.link(name, entry.target);
      else await writeFileEntry(tar, name, entry.file);
    }
    return await tar.end();
  } finally {
    await tar.close();
  }
}

async function writeFileEntry(tar: TarWriter, name: string, file: ImageFile): Promise<void> {
  if ('content' in file) {
    await tar.file(name, file.mode ?? 0o644, Buffer.from(file.content));
    return;
  }
  const info = await stat(file.from);
  // Only "may it be executed" is taken from the source: its other bits depend on the umask of whoever made it.
  await tar.fileFrom(name, file.mode ?? ((info.mode & 0o111) === 0 ? 0o644 : 0o755), file.from, info.size);
}

type Header = {
  readonly name: string;
  readonly mode: number;
  readonly size: number;
  readonly type: '0' | '2' | '5' | 'x';
  readonly target?: string;
};

/** Writes a POSIX tar and hashes it on the way. */
class TarWriter {
  private readonly handle: FileHandle;
  private readonly hash: Hash = createHash('sha256');
  private written = 0;

  private constructor(handle: FileHandle) {
    this.handle = handle;
  }

  static async create(path: string): Promise<TarWriter> {
    return new TarWriter(await open(path, 'w'));
  }

  folder(name: string, mode: number): Promise<void> {
    return this.header({ name: `${name}/`, mode, size: 0, type: '5' });
  }

  link(name: string, target: string): Promise<void> {
    return this.header({ name, mode: 0o777, size: 0, type: '2', target });
  }

  async file(name: string, mode: number, content: Buffer): Promise<void> {
    await this.header({ name, mode, size: content.length, type: '0' });
    await this.write(content);
    await this.pad(content.length);
  }

  async fileFrom(name: string, mode: number, source: string, size: number): Promise<void> {
    await this.header({ name, mode, size, type: '0' });
    let copied = 0;
    for await (const chunk of createReadStream(source, { highWaterMark: 1 << 20 })) {
      copied += (chunk as Buffer).length;
      await this.write(chunk as Buffer);
    }
    if (copied !== size) throw new Error(`${source} changed while it was read: ${size} bytes before, ${copied} now`);
    await this.pad(size);
  }

  /** Writes the end mark. */
  async end(): Promise<{ digest: string; size: number }> {
    await this.write(Buffer.alloc(2 * blockSize));
    return { digest: this.hash.digest('hex'), size: this.written };
  }

  close(): Promise<void> {
    return this.handle.close();
  }

  private async header(header: Header): Promise<void> {
    const long: Record<string, string> = {};
    if (splitName(header.name) === undefined) long.path = header.name;
    if (Buffer.byteLength(header.target ?? '') > 100) long.linkpath = header.target ?? '';
    if (Object.keys(long).length > 0) {
      const records = Buffer.from(Object.entries(long).map(paxRecord).join(''));
      await this.write(headerBlock({ name: 'long-name', mode: 0o644, size: records.length, type: 'x' }));
      await this.write(records);
      await this.pad(records.length);
    }
    await this.write(headerBlock(header));
  }

  private async pad(size: number): Promise<void> {
    const rest = size % blockSize;
    if (rest !== 0) await this.write(Buffer.alloc(blockSize - rest));
  }

  private async write(data: Buffer): Promise<void> {
    this.hash.update(data);
    await this.handle.writeFile(data);
    this.written += data.length;
  }
}

/** ustar keeps 100 bytes of name and 155 of the folders before it; undefined when a name does not fit. */
function splitName(name: string): { prefix: string; rest: string } | undefined {
  if (Buffer.byteLength(name) <= 100) return { prefix: '', rest: name };
  for (let at = name.indexOf('/'); at !== -1 && at < name.length - 1; at = name.indexOf('/', at + 1)) {
    const prefix = name.slice(0, at);
    const rest = name.slice(at + 1);
    if (Buffer.byteLength(prefix) <= 155 && Buffer.byteLength(rest) <= 100) return { prefix, rest };
  }
  return undefined;
}

/** A record says its own length, digits included. */
function paxRecord([key, value]: readonly [string, string]): string {
  const body = ` ${key}=${value}\n`;
  let length = Buffer.byteLength(body);
  for (let before = 0; before !== length; ) {
    before = length;
    length = Buffer.byteLength(body) + String(length).length;
  }
  return `${length}${body}`;
}

function headerBlock(header: Header): Buffer {
  const block = Buffer.alloc(blockSize);
  // With a long name the record before this block counts; what is cut off here is for programs that do not know records.
  const { prefix, rest } = splitName(header.name) ?? { prefix: '', rest: header.name };
  block.write(rest, 0, 100);
  block.write(octal(header.mode, 7), 100);
  block.write(octal(0, 7), 108);
  block.write(octal(0, 7), 116);
  block.write(octal(header.size, 11), 124);
  block.write(octal(0, 11), 136);
  block.fill(' ', 148, 156);
  block.write(header.type, 156);
  block.write(header.target ?? '', 157, 100);
  block.write('ustar\u000000', 257, 'latin1');
  block.write(prefix, 345, 155);
  let sum = 0;
  for (const byte of block) sum += byte;
  block.write(`${octal(sum, 6)}\u0000 `, 148, 'latin1');
  return block;
}

function octal(value: number, digits: number): string {
  const text = value.toString(8).padStart(digits, '0');
  if (text.length > digits) throw new Error(`${value} is too large for a tar header`);
  return text;
}

function sha256(data: Buffer): string {
  return createHash('sha256').update(data).digest('hex');
}

/** All files and links below a folder of this machine, to stand below `path` in an image. */
export async function folderContent(path: string, from: string): Promise<{ files: ImageFile[]; links: ImageLink[] }> {
  const files: ImageFile[] = [];
  const links: ImageLink[] = [];
  for (const entry of await readdir(from, { recursive: true, withFileTypes: true })) {
    const source = join(entry.parentPath, entry.name);
    const target = posix.join(path, source.slice(from.length).replaceAll('\\', '/'));
    if (entry.isSymbolicLink()) links.push({ path: target, target: await readlink(source) });
    else if (entry.isFile()) files.push({ path: target, from: source });
  }
  return { files, links };
}

/**
 * What a Node program needs in an otherwise empty image: the `node` binary as /usr/local/bin/node, the shared libraries that
 * it loads, at the paths where its loader looks for them, a CA bundle where OpenSSL programs look for it, and a user database.
 * @param nodeBinary such as `process.execPath`
 */
export async function nodeRuntimeFiles(nodeBinary: string): Promise<ImageFile[]> {
  const listed = await promisify(execFile)('ldd', [nodeBinary], { timeout: 10_000 });
  const libraries = sharedLibraries(listed.stdout);
  if (libraries.length === 0) throw new Error(`ldd lists no shared library of ${nodeBinary}; is it a Node binary?`);
  return [
    { path: '/usr/local/bin/node', from: await realpath(nodeBinary), mode: 0o755 },
    ...(await Promise.all(
      libraries.map(async (path) => ({ path, from: await realpath(path), mode: 0o755 }) satisfies ImageFile),
    )),
    { path: '/etc/ssl/certs/ca-certificates.crt', from: '/etc/ssl/certs/ca-certificates.crt', mode: 0o644 },
    // os.userInfo() throws for a user without an entry.
    {
      path: '/etc/passwd',
      content: 'root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n',
    },
    { path: '/etc/group', content: 'root:x:0:\nnonroot:x:65532:\n' },
  ];
}

/** The paths in what `ldd` prints; the kernel's own library has none. */
export function sharedLibraries(lddOutput: string): string[] {
  const paths: string[] = [];
  for (const line of lddOutput.split('\n')) {
    const [, path] = /(?:=>\s+|^\s*)(\/\S+)\s+\(0x[0-9a-f]+\)/.exec(line) ?? [];
    if (path !== undefined) paths.push(path);
    else if (line.includes('not found')) throw new Error(`a shared library is missing on this machine: ${line.trim()}`);
  }
  return [...new Set(paths)].sort();
}
