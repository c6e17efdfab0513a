/** Snapshots as files of a mounted volume. A file is written beside its place, brought to the disk, and renamed. */
import type { Stats } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import { mkdir, open, readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import {
  type SnapshotStore,
  type StoreCall,
  type StoredObject,
  StoreFault,
  type StoreFaultReason,
} from '../../ports/snapshot-store.ts';
import { inPieces } from '../in-pieces.ts';

const READ_BYTES = 1024 * 1024;
/** Written at a time: etcd sends 32 KiB, and each write is a way to another thread and back. */
const WRITE_BYTES = 1024 * 1024;
/** Whose a file is: its own object's UID, in a file beside it. Renamed into place before the file itself. */
const OWNER = '.owner';
const PART = '.part';

const reasons: Record<string, StoreFaultReason> = {
  ENOENT: 'NotFound',
  EACCES: 'AccessDenied',
  EPERM: 'AccessDenied',
  EROFS: 'AccessDenied',
  ENOSPC: 'Full',
  EDQUOT: 'Full',
  EIO: 'Unavailable',
  ESTALE: 'Unavailable',
  ETIMEDOUT: 'Unavailable',
};

const faultOf = (error: unknown, doing: string): unknown => {
  if (error instanceof StoreFault) return error;
  const code = error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
  if (code === undefined) return error;
  return new StoreFault(reasons[code] ?? 'Refused', doing, (error as Error).message, error);
};

const inTime = async <T>(doing: string, work: () => Promise<T>): Promise<T> => {
  try {
    return await work();
  } catch (error) {
    throw faultOf(error, doing);
  }
};

const writeAll = async (file: FileHandle, bytes: Uint8Array): Promise<void> => {
  // A full volume takes a part first; the next write then says why it takes no more.
  for (let from = 0; from < bytes.length; ) from += (await file.write(bytes, from)).bytesWritten;
};

/** @param root where the volume is mounted; @param name how people name the volume, in URIs */
export const createFileStore = ({ root, name }: { readonly root: string; readonly name: string }): SnapshotStore => {
  const place = (key: string): string => {
    const path = join(root, key);
    if (relative(root, path).startsWith('..'))
      throw new StoreFault('Refused', `use ${key}`, 'it lies outside the volume');
    return path;
  };

  const ownerOf = async (path: string): Promise<string | undefined> => {
    try {
      return (await readFile(`${path}${OWNER}`, 'utf8')).trim();
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
      throw error;
    }
  };

  const infoOf = (path: string): Promise<Stats | undefined> =>
    stat(path).catch((error: NodeJS.ErrnoException) => {
      // The latter where what should be a folder is a file.
      if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return undefined;
      throw error;
    });

  /** As in a bucket, a folder is no object: it can be opened, and says only when it is read that it has no bytes. */
  const fileAt = async (path: string): Promise<Stats | undefined> => {
    const info = await infoOf(path);
    return info?.isDirectory() === true ? undefined : info;
  };

  /** One by one: asked for all at once, Node says of a read-only volume that there is no such folder. */
  const makeFolder = async (path: string): Promise<void> => {
    if (relative(root, path) === '') return;
    await makeFolder(dirname(path));
    await mkdir(path, { mode: 0o770 }).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error;
    });
  };

  /** A rename is on the disk only once its folder is. */
  const syncFolder = async (path: string): Promise<void> => {
    const folder = await open(path, 'r');
    await folder.sync().finally(() => folder.close());
  };

  const write = async (
    path: string,
    body: AsyncIterable<Uint8Array>,
    signal: AbortSignal | undefined,
  ): Promise<void> => {
    let file: FileHandle | undefined;
    let writing: Promise<void> | undefined;
    try {
      file = await open(path, 'w', 0o640);
      for await (const { bytes } of inPieces(body, WRITE_BYTES, 2)) {
        signal?.throwIfAborted();
        // The next bytes come while these are written; one write at a time, in their order.
        await writing;
        writing = writeAll(file, bytes);
        // Awaited above or below, also where the body fails first.
        writing.catch(() => undefined);
      }
      await writing;
      await file.sync();
    } finally {
      await writing?.catch(() => undefined);
      await file?.close();
    }
  };

  async function* one(text: string): AsyncGenerator<Uint8Array, void, undefined> {
    yield Buffer.from(text);
  }

  async function* read(key: string, call?: StoreCall): AsyncGenerator<Uint8Array, void, undefined> {
    const doing = `read ${key}`;
    const path = place(key);
    if ((await inTime(doing, () => fileAt(path))) === undefined) {
      throw new StoreFault('NotFound', doing, 'there is no such file');
    }
    const file = await inTime(doing, () => open(path, 'r'));
    try {
      for (;;) {
        call?.signal?.throwIfAborted();
        const buffer = Buffer.allocUnsafe(READ_BYTES);
        const { bytesRead } = await inTime(doing, () => file.read(buffer, 0, READ_BYTES, null));
        if (bytesRead === 0) return;
        yield buffer.subarray(0, bytesRead);
      }
    } finally {
      await file.close();
    }
  }

  const find: SnapshotStore['find'] = (key) =>
    inTime(`look for ${key}`, async () => {
      const path = place(key);
      const info = await fileAt(path);
      if (info === undefined) return undefined;
      return { key, sizeBytes: BigInt(info.size), modified: info.mtimeMs, owner: await ownerOf(path) };
    });

  return {
    uri: (key) => `pvc://${name}/${key}`,
    find,
    put: (key, body, { owner }, call) =>
      inTime(`store ${key}`, async () => {
        const path = place(key);
        const folder = dirname(path);
        if ((await infoOf(root)) === undefined)
          throw new StoreFault('BucketMissing', `store ${key}`, `${root} is not mounted`);
        await makeFolder(folder);
        const present = await find(key);
        if (present !== undefined && present.owner !== owner) {
          throw new StoreFault('TakenByOther', `store ${key}`, `it belongs to ${present.owner ?? 'nobody we know'}`);
        }
        const part = `${path}.${owner}${PART}`;
        try {
          await write(part, body, call?.signal);
          await write(`${part}${OWNER}`, one(owner), call?.signal);
          await rename(`${part}${OWNER}`, `${path}${OWNER}`);
          await rename(part, path);
          await syncFolder(folder);
        } catch (error) {
          await rm(part, { force: true });
          await rm(`${part}${OWNER}`, { force: true });
          throw error;
        }
      }),
    read,
    async *list(prefix, call) {
      const folder = prefix.endsWith('/') || prefix === '' ? prefix : dirname(prefix);
      let entries: string[];
      try {
        entries = await readdir(place(folder), { recursive: true });
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'ENOENT') return;
        throw faultOf(error, `list ${prefix}`);
      }
      for (const entry of entries.sort()) {
        call?.signal?.throwIfAborted();
        if (entry.endsWith(OWNER) || entry.endsWith(PART)) continue;
        const key = join(folder, entry);
        if (!key.startsWith(prefix)) continue;
        const info = await inTime(`look at ${key}`, () => stat(place(key)));
        if (info.isFile()) {
          yield { key, sizeBytes: BigInt(info.size), modified: info.mtimeMs } satisfies StoredObject;
        }
      }
    },
    remove: (key) =>
      inTime(`delete ${key}`, async () => {
        const path = place(key);
        await rm(path, { force: true });
        await rm(`${path}${OWNER}`, { force: true });
      }),
    close: () => undefined,
  };
};
