/**
 * What a full database really holds. etcd counts pages as free one commit after the one that freed them, and while it refuses
 * writes it commits nothing more: after a compaction that nobody waited for, as are all of etcd's own, its status would say for
 * ever that the database is full of data. A snapshot commits before it begins to read. So one is begun, and left at its first piece.
 */
import { mayHideFreePages } from '../core/alarms.ts';
import { known, type SeenPod } from '../core/observed.ts';
import type { EtcdMemberClient } from '../ports/etcd.ts';
import { AGAIN_MS, type DeeperLook, REMEMBERED_MS } from './deeper-look.ts';

/** Of silence; the first piece of a database comes at once. */
const FIRST_PIECE_MS = 5_000;

/** Twice: a reader of the database as it was may still be leaving at the first commit, and it keeps the freed pages. */
const COMMITS = 2;

const commit = async (client: EtcdMemberClient, signal: AbortSignal): Promise<void> => {
  for (let done = 0; done < COMMITS; done += 1) {
    for await (const _ of client.snapshot({ signal, deadlineMs: FIRST_PIECE_MS })) break;
  }
};

/** The same members, with the figures that they have after a commit where that was worth asking for. */
export const createFreePages = (elapsed: () => number): DeeperLook => {
  const nextLook = new Map<string, number>();
  return async (cluster, pods, clientOf, signal) => {
    if (!pods.some(mayHideFreePages)) {
      nextLook.delete(cluster);
      return pods;
    }
    if (elapsed() < (nextLook.get(cluster) ?? 0)) return pods;
    let complete = true;
    const seen = await Promise.all(
      pods.map(async (pod): Promise<SeenPod> => {
        const client = mayHideFreePages(pod) ? clientOf(pod) : undefined;
        if (client === undefined) return pod;
        try {
          await commit(client, signal);
          return { ...pod, etcd: known(await client.status({ signal })) };
        } catch {
          // It has answered a moment ago. What it said then stands, and it is asked again soon.
          complete = false;
          return pod;
        }
      }),
    );
    nextLook.set(cluster, elapsed() + (complete ? REMEMBERED_MS : AGAIN_MS));
    return seen;
  };
};
