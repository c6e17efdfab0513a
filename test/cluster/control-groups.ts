import { access, mkdir, readdir, readFile, rmdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { controlGroup } from './places.ts';

const mountPoint = '/sys/fs/cgroup';

/** The roots of all hierarchies: one with version 2, one for each controller with version 1. */
async function hierarchies(): Promise<string[]> {
  if (await isVersion2()) return [mountPoint];
  const entries = await readdir(mountPoint, { withFileTypes: true });
  return entries.filter((entry) => entry.isDirectory()).map((entry) => join(mountPoint, entry.name));
}

async function isVersion2(): Promise<boolean> {
  try {
    await access(join(mountPoint, 'cgroup.controllers'));
    return true;
  } catch {
    return false;
  }
}

/** Makes the group that a node's kubelet puts its Pods under, in every hierarchy. Kubelet itself only makes groups beneath it. */
export async function makeNodeGroup(node: string): Promise<void> {
  for (const root of await hierarchies()) {
    let above = root;
    for (const part of [controlGroup, node]) {
      const folder = join(above, part);
      if (await isVersion2()) await enableControllers(above);
      await mkdir(folder, { recursive: true });
      // With version 1 a new group has no processors, and no process can enter it.
      for (const file of ['cpuset.cpus', 'cpuset.mems']) await copyIfEmpty(join(above, file), join(folder, file));
      above = folder;
    }
  }
}

async function enableControllers(folder: string): Promise<void> {
  const available = (await readFile(join(folder, 'cgroup.controllers'), 'utf8')).trim().split(' ').filter(Boolean);
  await writeFile(join(folder, 'cgroup.subtree_control'), available.map((name) => `+${name}`).join(' '));
}

async function copyIfEmpty(from: string, to: string): Promise<void> {
  try {
    if ((await readFile(to, 'utf8')).trim() === '') await writeFile(to, await readFile(from, 'utf8'));
  } catch (error) {
    // The hierarchy of another controller, or version 2, where an empty file means "as above".
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
}

/** Removes our groups from every hierarchy. Their processes must have been ended before. */
export async function removeGroups(): Promise<void> {
  for (const root of await hierarchies()) await removeTree(join(root, controlGroup));
}

async function removeTree(folder: string): Promise<void> {
  let entries: string[];
  try {
    entries = (await readdir(folder, { withFileTypes: true })).filter((e) => e.isDirectory()).map((e) => e.name);
  } catch {
    return;
  }
  for (const name of entries) await removeTree(join(folder, name));
  // A group stays busy for a moment after its last process has ended.
  for (let attempt = 0; ; attempt++) {
    try {
      await rmdir(folder);
      return;
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === 'ENOENT') return;
      if (code !== 'EBUSY' || attempt > 200) throw error;
      await pause(25);
    }
  }
}

/** Host numbers of all processes in our groups. */
export async function processesInGroups(): Promise<number[]> {
  const found = new Set<number>();
  for (const root of await hierarchies()) {
    const top = join(root, controlGroup);
    let folders: string[];
    try {
      const below = await readdir(top, { recursive: true, withFileTypes: true });
      folders = [top, ...below.filter((e) => e.isDirectory()).map((e) => join(e.parentPath, e.name))];
    } catch {
      continue;
    }
    for (const folder of folders) {
      try {
        const listed = await readFile(join(folder, 'cgroup.procs'), 'utf8');
        for (const line of listed.split('\n')) if (Number(line) > 0) found.add(Number(line));
      } catch {
        // The group was removed while we looked.
      }
    }
  }
  return [...found];
}
