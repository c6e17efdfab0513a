/** The calls of steps to etcd: whom they go to, and what its refusals mean. */
import type { SeenPod } from '../core/observed.ts';
import type { Step } from '../core/steps.ts';
import { EtcdFault, type EtcdMemberClient } from '../ports/etcd.ts';
import { KubeFault } from '../ports/kube.ts';
import { DONE, type Outcome, type Scene } from './writes.ts';

const LEARNER_AGAIN_MS = 200;
const UNHEALTHY_AGAIN_MS = 1_000;

export const clientsOf = ({ world, seen }: Scene, pod: SeenPod | undefined): readonly EtcdMemberClient[] =>
  pod?.ip === undefined
    ? []
    : [
        world.dialler.client(
          { namespace: seen.namespace, name: seen.cluster },
          { name: pod.name, ip: pod.ip, config: pod.config },
        ),
      ];

/**
 * Members that can carry out a membership call, the leader first, the one that it is about last. Each judges by its own
 * connections whether the cluster is healthy enough for the change, and one whose stream to a restarted peer hangs refuses for
 * as long as that lasts; any other one's yes is as good.
 */
export const speakers = (scene: Scene, about?: string): readonly EtcdMemberClient[] => {
  const { held, leaderID } = scene.decision.situation;
  const last = (id: string | undefined): number => (id === about ? 2 : id === leaderID ? 0 : 1);
  const able = held
    .filter(({ pod, identity }) => pod?.ip !== undefined && !pod.deleting && identity.is === 'proven')
    .toSorted((a, b) => last(a.memberID) - last(b.memberID));
  const clients = able.flatMap(({ pod }) => clientsOf(scene, pod));
  if (clients.length === 0) throw new KubeFault('Unavailable', 'no member with a proven identity answers');
  return clients;
};

const early = (fault: EtcdFault): Outcome | undefined =>
  fault.reason === 'LearnerNotReady'
    ? { was: 'early', recheckMs: LEARNER_AGAIN_MS, why: fault.message }
    : fault.reason === 'UnhealthyCluster' || fault.reason === 'NotEnoughStarted' || fault.retry === 'soon'
      ? { was: 'early', recheckMs: UNHEALTHY_AGAIN_MS, why: fault.message }
      : undefined;

/** `settledBy` are the refusals that mean: it has been done before. */
export const membershipCall = async (
  clients: readonly EtcdMemberClient[],
  call: (client: EtcdMemberClient) => Promise<unknown>,
  ...settledBy: readonly EtcdFault['reason'][]
): Promise<Outcome> => {
  let last: EtcdFault | undefined;
  for (const client of clients) {
    try {
      await call(client);
      return DONE;
    } catch (error) {
      if (!(error instanceof EtcdFault)) throw error;
      if (settledBy.includes(error.reason)) return DONE;
      last = error;
      // Only a refusal that certainly changed nothing is taken to another member.
      if (error.reason !== 'UnhealthyCluster') break;
    }
  }
  if (last === undefined) return DONE;
  return early(last) ?? { was: 'refused', fault: { reason: 'ClusterUnreachable', message: last.message } };
};

/** etcd takes a moment until it calls its own version what its members run, and refuses meanwhile. */
const DOWNGRADE_RETRY_MS = 1_000;

export const downgrade = async (
  scene: Scene,
  { action, target }: Extract<Step, { do: 'Downgrade' }>,
): Promise<Outcome> => {
  const { signal } = scene;
  const [client] = speakers(scene);
  if (client === undefined) return DONE;
  try {
    if (action === 'enable') await client.downgrade('validate', target, { signal });
    await client.downgrade(action, target, { signal });
    return DONE;
  } catch (error) {
    if (!(error instanceof EtcdFault)) throw error;
    // A cancellation that timed out has taken effect all the same: looking again tells.
    return { was: 'early', recheckMs: DOWNGRADE_RETRY_MS, why: error.message };
  }
};
