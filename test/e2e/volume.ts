/** The data of a member as it lies on its node's disk, for faults that Kubernetes has no word for. Local cluster only. */
import { cp, mkdir, open, readFile, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { processesInGroups } from '../cluster/control-groups.ts';
import { diskInNode, isNodeName, nodeDisk } from '../cluster/places.ts';
import { podOf } from './claim.ts';
import { notYet } from './eventually.ts';
import { type Place, seenKinds } from './place.ts';

export type Volume = {
  /** `<cluster>-<ordinal>-<token>`: also the name of the data directory in it. */
  readonly incarnation: string;
  /** The volume's root as this machine sees it. */
  readonly path: string;
  /** etcd's data directory in it. */
  readonly data: string;
};

export const volumeOf = async (place: Place, member: string): Promise<Volume> => {
  const pod = await podOf(place, member);
  const incarnation = pod.metadata.name;
  const node = pod.spec?.nodeName ?? '';
  if (!isNodeName(node)) throw new Error(`Pod ${incarnation} is on node ${node}, which is not one of this machine's`);
  const volumeName = (await place.get(seenKinds.persistentvolumeclaims, incarnation))?.spec?.volumeName;
  if (volumeName === undefined) return notYet(`volume ${incarnation} is not bound`);
  const volume = await place.kube.get({ resource: seenKinds.persistentvolumes, name: volumeName });
  const inNode = volume?.spec?.hostPath?.path ?? volume?.spec?.local?.path;
  if (inNode === undefined || !inNode.startsWith(`${diskInNode}/`)) {
    throw new Error(`volume ${volumeName} lies at ${inNode}, which is not on a node's disk`);
  }
  const path = join(nodeDisk(node), inNode.slice(diskInNode.length));
  return { incarnation, path, data: join(path, incarnation) };
};

/** Moves the data out of the volume, while or after it was used; {@link putBack} undoes it. */
export const takeAway = async ({ path, data }: Volume): Promise<string> => {
  const aside = `${path}.aside`;
  await rename(data, aside);
  return aside;
};

/** Copies foreign data in under the name that this member's etcd looks for, with the owner that it runs as. */
export const putIn = async (volume: Volume, from: string): Promise<void> => {
  await cp(from, volume.data, { recursive: true, preserveTimestamps: true });
  const { uid, gid } = await stat(from);
  await chownTree(volume.data, uid, gid);
};

export const putBack = async (volume: Volume, aside: string): Promise<void> => {
  await rm(volume.data, { recursive: true, force: true });
  await rename(aside, volume.data);
};

/** A copy of the data of a member that does not run. */
export const copyOf = async ({ data }: Volume, to: string): Promise<void> => {
  await mkdir(to, { recursive: true });
  await cp(data, to, { recursive: true, preserveTimestamps: true });
  const { uid, gid } = await stat(data);
  await chownTree(to, uid, gid);
};

const chownTree = async (path: string, uid: number, gid: number): Promise<void> => {
  const { readdir, chown } = await import('node:fs/promises');
  await chown(path, uid, gid);
  for (const name of await readdir(path, { recursive: true })) await chown(join(path, name), uid, gid);
};

/** SIGKILL for the etcd of a Pod: its container starts again on whatever then lies on the volume. */
export const killEtcd = (pod: { readonly name: string }): Promise<void> => signalEtcd(pod, 'SIGKILL');

export const signalEtcd = async (pod: { readonly name: string }, signal: NodeJS.Signals): Promise<void> => {
  for (const pid of await processesInGroups()) {
    const words = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
    if (!words.startsWith('/usr/local/bin/etcd\0')) continue;
    // The process namespace of the container names its host after the Pod.
    const host = await readFile(`/proc/${pid}/root/etc/hostname`, 'utf8').catch(() => '');
    if (host.trim() !== pod.name) continue;
    process.kill(pid, signal);
    return;
  }
  throw new Error(`no etcd process of Pod ${pod.name} was found`);
};

/** Overwrites both meta pages of a database that nobody uses, without which it cannot be opened. */
export const breakDatabase = async (data: string): Promise<void> => {
  const file = await open(join(data, 'member', 'snap', 'db'), 'r+');
  try {
    await file.write(Buffer.alloc(2 * META_PAGE, 0xa5), 0, 2 * META_PAGE, 0);
  } finally {
    await file.close();
  }
};

/** Changes a value wherever it stands in a database that nobody uses. */
export const falsify = async (data: string, value: string): Promise<void> => {
  const path = join(data, 'member', 'snap', 'db');
  const file = await open(path, 'r+');
  try {
    const content = await file.readFile();
    let found = 0;
    for (let at = content.indexOf(value); at >= 0; at = content.indexOf(value, at + 1)) {
      await file.write(Buffer.from('?'), 0, 1, at);
      found += 1;
    }
    if (found === 0) throw new Error(`"${value}" is not in ${path}`);
  } finally {
    await file.close();
  }
};
const META_PAGE = 4_096;
