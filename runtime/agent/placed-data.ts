/** Restored data on its way into the memory of its member: once, and never again under the same identity. */
import { access, cp, open, rename, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { sync } from './copied-data.ts';

/** Beside the restored data, on a disk that a restart of the node does not empty. */
const MARK = 'placed';

const exists = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  );

export const wasPlaced = (work: string): Promise<boolean> => exists(join(work, MARK));

/**
 * Copies `<work>/restored` to `to`, unless that was done before and the data is still there.
 * @throws where it was done before and the data is gone: a member that has voted would come back with old data
 */
export const placeData = async (work: string, to: string): Promise<'now' | 'before'> => {
  const restored = join(work, 'restored');
  const placed = await wasPlaced(work);
  if (placed && !(await exists(to))) {
    throw new Error(
      `the data of ${basename(to)} was in memory and ended with it; it is not restored a second time under the same identity`,
    );
  }
  if (!placed) {
    const part = `${to}.part`;
    await rm(part, { recursive: true, force: true });
    await rm(to, { recursive: true, force: true });
    await cp(restored, part, { recursive: true });
    await rename(part, to);
    await (await open(join(work, MARK), 'w')).close();
    await sync(join(work, MARK));
    await sync(dirname(join(work, MARK)));
  }
  // Whoever comes here again restores once more before, and etcdutl wants a place that is empty.
  await rm(restored, { recursive: true, force: true });
  return placed ? 'before' : 'now';
};
