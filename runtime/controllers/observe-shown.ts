/** What members show at this moment: the Secret that a Pod mounts says what its kubelet is to bring, not what it has brought. */
import { PORTS, peerHost } from '../../api/names.ts';
import {
  type Fact,
  known,
  type Observed,
  type SeenMember,
  type SeenPod,
  unknown,
  unknownBy,
} from '../core/observed.ts';
import type { World } from './world.ts';

const DEADLINE_MS = 1_000;

const shown = async (
  world: World,
  { cluster, namespace }: Observed,
  pod: SeenPod,
  port: number,
  signal: AbortSignal,
): Promise<Fact<string>> => {
  if (pod.ip === undefined || pod.deleting || pod.container.state !== 'running') return unknown('etcd is not running');
  const address = { host: pod.ip, port, serverName: peerHost(cluster, namespace, pod.name) };
  try {
    return known(await world.handshake(address, { signal, deadlineMs: DEADLINE_MS }));
  } catch (error) {
    return unknownBy(error);
  }
};

export const withShown = async (world: World, seen: Observed, signal: AbortSignal): Promise<Observed> => {
  const ofMember = async (member: SeenMember): Promise<SeenMember> => {
    const { client, peer } = member.spec.tls ?? {};
    const pods = member.pods.map(async (pod): Promise<SeenPod> => {
      const [server, peers] = await Promise.all([
        client === undefined ? undefined : shown(world, seen, pod, PORTS.client, signal),
        peer === undefined ? undefined : shown(world, seen, pod, PORTS.peer, signal),
      ]);
      return {
        ...pod,
        shows: { ...(server === undefined ? {} : { server }), ...(peers === undefined ? {} : { peer: peers }) },
      };
    });
    return { ...member, pods: await Promise.all(pods) };
  };
  return { ...seen, members: await Promise.all(seen.members.map(ofMember)) };
};
