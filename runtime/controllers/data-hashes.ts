/**
 * The hashes of the members' data, asked for only where an alarm or a refused start says that they differ: each makes its member
 * read its whole database.
 */
import { tellsOfCorruption } from '../core/alarms.ts';
import { lastExitOf } from '../core/exit-reasons.ts';
import { type Fact, known, type SeenPod, unknown, unknownBy } from '../core/observed.ts';
import type { EtcdHashKv } from '../ports/etcd.ts';
import { AGAIN_MS, type DeeperLook, REMEMBERED_MS } from './deeper-look.ts';

const HASH_DEADLINE_MS = 30_000;

type Remembered = { readonly until: number; readonly hashes: ReadonlyMap<string, Fact<EtcdHashKv>> };

/** By what runs: another start may have other data. */
const runOf = ({ uid, container }: SeenPod): string => `${uid}/${container.id}`;

const isDoubted = (pods: readonly SeenPod[]): boolean =>
  pods.some((pod) => tellsOfCorruption(pod) || lastExitOf(pod)?.reason === 'DataDiffers');

export const createDataHashes = (elapsed: () => number): DeeperLook => {
  const memory = new Map<string, Remembered>();
  return async (cluster, pods, clientOf, signal) => {
    if (!isDoubted(pods)) {
      memory.delete(cluster);
      return pods;
    }
    const able = pods.flatMap((pod) => {
      const client = clientOf(pod);
      return pod.etcd.known && !pod.etcd.value.isLearner && client !== undefined
        ? [{ pod, client, revision: pod.etcd.value.revision }]
        : [];
    });
    const [lowest] = able.map(({ revision }) => revision).toSorted((a, b) => (a < b ? -1 : a > b ? 1 : 0));
    if (lowest === undefined) return pods;
    let remembered = memory.get(cluster);
    if (
      remembered === undefined ||
      elapsed() >= remembered.until ||
      able.some(({ pod }) => remembered?.hashes.has(runOf(pod)) !== true)
    ) {
      // All at the revision that the slowest of them has: hashes of different revisions say nothing about each other.
      const hashes = await Promise.all(
        able.map(
          async ({ pod, client }): Promise<[string, Fact<EtcdHashKv>]> => [
            runOf(pod),
            await client.hashKv(lowest, { signal, deadlineMs: HASH_DEADLINE_MS }).then(known, unknownBy),
          ],
        ),
      );
      const complete = hashes.every(([, fact]) => fact.known);
      remembered = { until: elapsed() + (complete ? REMEMBERED_MS : AGAIN_MS), hashes: new Map(hashes) };
      memory.set(cluster, remembered);
    }
    const { hashes } = remembered;
    return pods.map((pod) => ({ ...pod, hash: hashes.get(runOf(pod)) ?? unknown('it does not answer') }));
  };
};
