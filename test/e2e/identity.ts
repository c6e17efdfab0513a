/** What members say of themselves, each asked alone: one cluster is one only if every one of them says the same. */
import assert from 'node:assert/strict';
import { request } from 'node:https';
import { setTimeout as pause } from 'node:timers/promises';
import type { Pod } from 'kubernetes-types/core/v1.js';
import { PORTS } from '../../api/names.ts';
import { kubeconfigAccess } from '../../runtime/adapters/kube/kube-access.ts';
import type { Stored } from '../../runtime/ports/kube.ts';
import { claimIn, podsOf, quorumIn } from './claim.ts';
import { eventually, notYet, type Patience } from './eventually.ts';
import type { Place } from './place.ts';

const DEADLINE_MS = 3_000;

/** One call of etcd's JSON gateway. Pods of another cluster may not be reachable from here, so there it goes by the API server. */
export const askMember = async <T>(
  place: Place,
  pod: { readonly name: string; readonly ip: string },
  path: string,
  body: unknown,
  deadlineMs = DEADLINE_MS,
): Promise<T> => {
  if (!place.cluster.local) return askThroughApiServer<T>(place, pod.name, path, body, deadlineMs);
  const answer = await fetch(`http://${pod.ip}:${PORTS.client}${path}`, {
    method: 'POST',
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(deadlineMs),
  });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${pod.name} ${path}: ${answer.status} ${text.slice(0, 300)}`);
  return JSON.parse(text) as T;
};

const askThroughApiServer = async <T>(
  { cluster, namespace }: Place,
  pod: string,
  path: string,
  body: unknown,
  deadlineMs: number,
): Promise<T> => {
  const access = await kubeconfigAccess({ file: cluster.kubeconfigPath });
  const { headers, agent } = await access.credentials();
  const url = new URL(`/api/v1/namespaces/${namespace}/pods/${pod}:${PORTS.client}/proxy${path}`, access.server);
  try {
    return await new Promise<T>((resolve, reject) => {
      const call = request(
        url,
        { method: 'POST', headers: { ...headers }, agent, signal: AbortSignal.timeout(deadlineMs) },
        (response) => {
          const chunks: Buffer[] = [];
          response.on('data', (chunk: Buffer) => chunks.push(chunk));
          response.on('error', reject);
          response.on('end', () => {
            const text = Buffer.concat(chunks).toString();
            if (response.statusCode === 200) resolve(JSON.parse(text) as T);
            else reject(new Error(`${pod} ${path}: ${response.statusCode} ${text.slice(0, 300)}`));
          });
        },
      );
      call.on('error', reject);
      call.end(JSON.stringify(body));
    });
  } finally {
    access.close();
  }
};

/** The gateway writes 64-bit numbers as decimal text; people and our API write them as hex. */
const hex = (decimal: string | undefined): string => BigInt(decimal ?? '0').toString(16);

export type Self = {
  readonly pod: string;
  readonly clusterID: string;
  readonly memberID: string;
  /** `0` while it knows of none. */
  readonly leaderID: string;
  readonly revision: bigint;
  readonly version: string;
};

export type Listed = { readonly id: string; readonly name: string; readonly isLearner: boolean };

export const selfOf = async (
  place: Place,
  pod: { name: string; ip: string },
  deadlineMs = DEADLINE_MS,
): Promise<Self> => {
  const { header, leader, version } = await askMember<{
    header: { cluster_id: string; member_id: string; revision?: string };
    leader?: string;
    version: string;
  }>(place, pod, '/v3/maintenance/status', {}, deadlineMs);
  return {
    pod: pod.name,
    clusterID: hex(header.cluster_id),
    memberID: hex(header.member_id),
    leaderID: hex(leader),
    revision: BigInt(header.revision ?? '0'),
    version,
  };
};

/** The member's own list, confirmed by a quorum. */
export const listOf = async (
  place: Place,
  pod: { name: string; ip: string },
  deadlineMs = DEADLINE_MS,
): Promise<readonly Listed[]> => {
  const { members } = await askMember<{ members: { ID: string; name?: string; isLearner?: boolean }[] }>(
    place,
    pod,
    '/v3/cluster/member/list',
    { linearizable: true },
    deadlineMs,
  );
  return members
    .map(({ ID, name, isLearner }) => ({ id: hex(ID), name: name ?? '', isLearner: isLearner ?? false }))
    .toSorted((a, b) => (a.id < b.id ? -1 : 1));
};

export const reachable = (pods: readonly Stored<Pod>[]): { name: string; ip: string }[] =>
  pods.flatMap(({ metadata, status }) =>
    status?.podIP === undefined || status.podIP === '' ? [] : [{ name: metadata.name, ip: status.podIP }],
  );

export type Identity = { readonly clusterID: string; readonly members: ReadonlyMap<string, string> };

/**
 * Asks every Pod of the cluster, and holds that they are one: `size` voters, one cluster ID, the same list from each, and
 * the records in claim and quorum say the same.
 * @returns the cluster ID and the member ID of each Pod by name
 */
export const oneCluster = (place: Place, name: string, size: number, patience: Patience = {}): Promise<Identity> =>
  // A member that has just become ready may lag behind the list for a moment; a second cluster never passes.
  eventually(
    `${name} is one cluster of ${size}`,
    async () => {
      const pods = reachable(await podsOf(place, name));
      assert.equal(pods.length, size, 'Pods with an address');
      const selves = await Promise.all(pods.map((pod) => selfOf(place, pod)));
      const lists = await Promise.all(pods.map((pod) => listOf(place, pod)));
      const clusterIDs = [...new Set(selves.map(({ clusterID }) => clusterID))];
      assert.equal(clusterIDs.length, 1, `one cluster ID, found ${clusterIDs.join(', ')}`);
      const [clusterID = ''] = clusterIDs;
      for (const list of lists) assert.deepEqual(list, lists[0], 'every member has the same list');
      assert.deepEqual(
        lists[0]?.map(({ id }) => id),
        selves.map(({ memberID }) => memberID).toSorted(),
        'the list holds the members that run and nobody else',
      );
      assert.equal(lists[0]?.filter(({ isLearner }) => isLearner).length, 0, 'learners');
      assert.ok(
        selves.every(({ leaderID }) => leaderID !== '0' && leaderID === selves[0]?.leaderID),
        'one leader for all',
      );
      assert.equal((await claimIn(place, name)).status?.clusterID, clusterID, 'cluster ID in the claim');
      assert.equal((await quorumIn(place, name)).status?.clusterID, clusterID, 'cluster ID in the quorum');
      return { clusterID, members: new Map(selves.map(({ pod, memberID }) => [pod, memberID])) };
    },
    { deadlineMs: 20_000, everyMs: 300, ...patience },
  );

export type MembershipSeen = AsyncDisposable & {
  /** Answers of members looked at, so that a test can show that it did look. */
  looks(): number;
  mostLearners(): number;
  /** Every cluster ID that any member ever answered with. */
  clusterIDs(): readonly string[];
};

/** Asks every Pod of the cluster who it is and whom it lists, all the time. */
export const watchMembership = (place: Place, name: string): MembershipSeen => {
  const clusterIDs = new Set<string>();
  let looks = 0;
  let mostLearners = 0;
  let stopped = false;
  const look = async (pod: { name: string; ip: string }): Promise<void> => {
    clusterIDs.add((await selfOf(place, pod, 500)).clusterID);
    const learners = (await listOf(place, pod, 500)).filter(({ isLearner }) => isLearner).length;
    mostLearners = Math.max(mostLearners, learners);
    looks += 1;
  };
  const run = async (): Promise<void> => {
    while (!stopped) {
      const pods = reachable(await podsOf(place, name).catch(() => []));
      // One that starts, ends or is still learning does not answer; the others do.
      await Promise.all(pods.map((pod) => look(pod).catch(() => undefined)));
      await pause(150);
    }
  };
  const running = run();
  return {
    looks: () => looks,
    mostLearners: () => mostLearners,
    clusterIDs: () => [...clusterIDs],
    [Symbol.asyncDispose]: async () => {
      stopped = true;
      await running;
    },
  };
};

/** The EtcdMember's name of the Pod that leads, and of one that does not. */
export const leaderAndFollower = async (place: Place, name: string): Promise<{ leader: string; follower: string }> => {
  const pods = await podsOf(place, name);
  const selves = await Promise.all(reachable(pods).map((pod) => selfOf(place, pod)));
  const slot = (pod: string | undefined): string | undefined => pod?.slice(0, pod.lastIndexOf('-'));
  const leader = slot(selves.find(({ memberID, leaderID }) => memberID === leaderID)?.pod);
  const follower = slot(selves.find(({ memberID, leaderID }) => memberID !== leaderID)?.pod);
  return {
    leader: leader ?? notYet('nobody says that it leads'),
    follower: follower ?? notYet('nobody says that it follows'),
  };
};
