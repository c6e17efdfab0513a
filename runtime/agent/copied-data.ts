/** The survivor's data directory, copied before anything is done to it. */
import { constants, copyFile, mkdir, open, readdir, rm, stat, statfs } from 'node:fs/promises';
import { join } from 'node:path';

/** On disk before it returns, names included: what a crash leaves behind must not look like a finished copy. */
export const sync = async (path: string): Promise<void> => {
  const file = await open(path, 'r');
  try {
    await file.sync();
  } finally {
    await file.close();
  }
};

type Entry = { readonly path: string; readonly folder: boolean; readonly bytes: number };

/** Folders before what is in them. */
const entriesOf = async (from: string, below = ''): Promise<Entry[]> => {
  const found: Entry[] = [{ path: below, folder: true, bytes: 0 }];
  for (const entry of await readdir(join(from, below), { withFileTypes: true })) {
    const path = join(below, entry.name);
    if (entry.isDirectory()) found.push(...(await entriesOf(from, path)));
    else if (entry.isFile()) found.push({ path, folder: false, bytes: (await stat(join(from, path))).size });
  }
  return found;
};

const mebibytes = (bytes: number): string => `${Math.ceil(bytes / 1024 / 1024)} MiB`;

/**
 * Copies etcd's data directory `from` to `<work>/copy`, replacing what an earlier try left there.
 * @throws where there is no data of etcd, or no room for the copy, the snapshot and the restored data
 */
export const copyData = async (from: string, work: string): Promise<{ readonly bytes: number }> => {
  await rm(join(work, 'restored'), { recursive: true, force: true });
  await rm(join(work, 'copy'), { recursive: true, force: true });
  await mkdir(work, { recursive: true, mode: 0o700 });
  const database = await stat(join(from, 'member/snap/db')).catch(() => undefined);
  if (database === undefined) {
    throw new Error(`${from} holds no database of etcd (member/snap/db): nothing can be recovered from this volume`);
  }
  const entries = await entriesOf(from);
  const bytes = entries.reduce((sum, entry) => sum + entry.bytes, 0);
  const { bavail, bsize } = await statfs(work);
  const needed = bytes + 2 * database.size;
  if (bavail * bsize < needed) {
    throw new Error(
      `the new volume has ${mebibytes(bavail * bsize)} free, ${mebibytes(needed)} are needed for the copy, the snapshot and the restored data: raise spec.storage.size, then delete the new volume`,
    );
  }
  const to = join(work, 'copy');
  for (const { path, folder } of entries) {
    if (folder) await mkdir(join(to, path), { recursive: true, mode: 0o700 });
    else await copyFile(join(from, path), join(to, path), constants.COPYFILE_FICLONE);
  }
  for (const { path } of entries.toReversed()) await sync(join(to, path));
  await sync(work);
  return { bytes };
};
