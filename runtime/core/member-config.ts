/** The configuration of one incarnation in each stage of its life. */
import { clientURL, DATA_MOUNT, incarnationName, PORTS, peerURL } from '../../api/names.ts';
import {
  type EtcdConfig,
  type EtcdMinor,
  type EtcdPeer,
  etcdConfigFile,
  etcdMinor,
  everyAddress,
  lockedConfig,
} from './etcd-config.ts';
import type { Situation, Slot } from './situation.ts';

export type MemberConfig = { readonly text: string; readonly initialState: 'new' | 'existing' };

const written = (config: EtcdConfig): MemberConfig => ({
  text: etcdConfigFile(config),
  initialState: config.initialClusterState,
});

const base = (s: Situation, slot: Slot, incarnation: string, minor: EtcdMinor): EtcdConfig => {
  const { namespace, cluster } = s.seen;
  const name = incarnationName(slot.member.name, incarnation);
  return {
    minor,
    name,
    // Named for the incarnation: another member's volume holds no such directory, so its data is never picked up.
    dataDir: `${DATA_MOUNT}/${name}`,
    peerURL: peerURL(cluster, namespace, name),
    clientURL: clientURL(cluster, namespace, name),
    listen: {
      peer: everyAddress(PORTS.peer),
      client: everyAddress(PORTS.client),
      metrics: everyAddress(PORTS.metrics),
    },
    initialCluster: [],
    initialClusterState: 'existing',
    // Only read when a cluster is formed. Afterwards it is the cluster ID, which unlike the attempt's record is never lost.
    initialClusterToken: s.latch ?? s.quorum?.status.bootstrap?.token ?? '',
    ...(slot.member.spec.options === undefined ? {} : { options: slot.member.spec.options }),
  };
};

/** Undefined where nobody knows how to write a file for this version. */
const forMinor = (slot: Slot, make: (minor: EtcdMinor) => EtcdConfig): MemberConfig | undefined => {
  const minor = etcdMinor(slot.member.spec.version);
  return minor === undefined ? undefined : written(make(minor));
};

/** First start, inside the recorded attempt: `new`, with the attempt's fixed list. */
export const formingConfig = (s: Situation, slot: Slot, incarnation: string): MemberConfig | undefined =>
  forMinor(slot, (minor) => ({
    ...base(s, slot, incarnation, minor),
    initialClusterState: 'new',
    initialCluster: (s.quorum?.status.bootstrap?.members ?? []).map((member): EtcdPeer => {
      const name = incarnationName(member.name, member.incarnation);
      return { name, peerURL: peerURL(s.seen.cluster, s.seen.namespace, name) };
    }),
  }));

/** Every start after the first. */
export const settledConfig = (s: Situation, slot: Slot, incarnation: string): MemberConfig | undefined =>
  forMinor(slot, (minor) => lockedConfig(base(s, slot, incarnation, minor)));

/**
 * First start in a cluster that exists: `existing`, with etcd's list as it is now. Undefined also without a confirmed
 * list, and while the list names somebody whose own name is not known yet: etcd refuses to start with either.
 */
export const joiningConfig = (s: Situation, slot: Slot, incarnation: string): MemberConfig | undefined => {
  const { membership, cluster, namespace } = s.seen;
  if (!membership.known) return undefined;
  const own = incarnationName(slot.member.name, incarnation);
  const ownURL = peerURL(cluster, namespace, own);
  const peers: EtcdPeer[] = [];
  for (const { name, peerURLs } of membership.value.members) {
    for (const url of peerURLs) {
      const peer = url === ownURL ? own : name;
      if (peer === '') return undefined;
      peers.push({ name: peer, peerURL: url });
    }
  }
  return forMinor(slot, (minor) => ({ ...base(s, slot, incarnation, minor), initialCluster: peers }));
};
