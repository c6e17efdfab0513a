/** The configuration of one incarnation in each stage of its life. */
import {
  CLIENT_CA_FILE,
  CLIENT_TLS_MOUNT,
  CONFIG_MOUNT,
  clientURL,
  DATA_MOUNT,
  hasPeerURL,
  incarnationName,
  PEER_CA_FILE,
  PEER_TLS_MOUNT,
  PORTS,
  peerURL,
  type Scheme,
} from '../../api/names.ts';
import type { Trust } from './certificates.ts';
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

export type MemberConfig = {
  readonly text: string;
  readonly initialState: 'new' | 'existing';
  /** The authorities whose files the text names. */
  readonly trust: Trust | undefined;
};

/** How a slot's template has it talk to clients and to peers. */
const clientScheme = ({ member }: Slot): Scheme => (member.spec.tls?.client === undefined ? 'http' : 'https');
export const peerScheme = ({ member }: Slot): Scheme => (member.spec.tls?.peer === undefined ? 'http' : 'https');

/** What a member that is started now has to trust. */
export const trustOf = (s: Situation, { member }: Slot): Trust | undefined => {
  const { client, peer } = member.spec.tls ?? {};
  const trust = {
    ...(client?.mutual === true ? { client: s.trust.client } : {}),
    ...(peer === undefined ? {} : { peer: s.trust.peer }),
  };
  return Object.keys(trust).length === 0 ? undefined : trust;
};

const transport = (mount: string, authorities: string | undefined): NonNullable<EtcdConfig['clientTls']> => ({
  certFile: `${mount}/tls.crt`,
  keyFile: `${mount}/tls.key`,
  ...(authorities === undefined ? {} : { trustedCAFile: `${CONFIG_MOUNT}/${authorities}` }),
  clientCertAuth: authorities !== undefined,
});

const base = (s: Situation, slot: Slot, incarnation: string, minor: EtcdMinor): EtcdConfig => {
  const { namespace, cluster } = s.seen;
  const name = incarnationName(slot.member.name, incarnation);
  const { tls } = slot.member.spec;
  return {
    minor,
    name,
    // Named for the incarnation: another member's volume holds no such directory, so its data is never picked up.
    dataDir: `${DATA_MOUNT}/${name}`,
    peerURL: peerURL(cluster, namespace, name, peerScheme(slot)),
    clientURL: clientURL(cluster, namespace, name, clientScheme(slot)),
    listen: {
      peer: everyAddress(PORTS.peer, peerScheme(slot)),
      client: everyAddress(PORTS.client, clientScheme(slot)),
      metrics: everyAddress(PORTS.metrics),
    },
    initialCluster: [],
    initialClusterState: 'existing',
    // Only read when a cluster is formed. Afterwards it is the cluster ID, which unlike the attempt's record is never lost.
    initialClusterToken: s.latch ?? s.quorum?.status.bootstrap?.token ?? '',
    ...(tls?.client === undefined
      ? {}
      : { clientTls: transport(CLIENT_TLS_MOUNT, tls.client.mutual ? CLIENT_CA_FILE : undefined) }),
    ...(tls?.peer === undefined ? {} : { peerTls: transport(PEER_TLS_MOUNT, PEER_CA_FILE) }),
    ...(slot.member.spec.options === undefined ? {} : { options: slot.member.spec.options }),
  };
};

/** Undefined where nobody knows how to write a file for this version. */
const forMinor = (s: Situation, slot: Slot, make: (minor: EtcdMinor) => EtcdConfig): MemberConfig | undefined => {
  const minor = etcdMinor(slot.member.spec.version);
  if (minor === undefined) return undefined;
  const config = make(minor);
  return { text: etcdConfigFile(config), initialState: config.initialClusterState, trust: trustOf(s, slot) };
};

/** First start, inside the recorded attempt: `new`, with the attempt's fixed list. */
export const formingConfig = (s: Situation, slot: Slot, incarnation: string): MemberConfig | undefined =>
  forMinor(s, slot, (minor) => ({
    ...base(s, slot, incarnation, minor),
    initialClusterState: 'new',
    initialCluster: (s.quorum?.status.bootstrap?.members ?? []).map((member): EtcdPeer => {
      const name = incarnationName(member.name, member.incarnation);
      const peer = s.slots.find((other) => other.member.name === member.name) ?? slot;
      return { name, peerURL: peerURL(s.seen.cluster, s.seen.namespace, name, peerScheme(peer)) };
    }),
  }));

/** Every start after the first. */
export const settledConfig = (s: Situation, slot: Slot, incarnation: string): MemberConfig | undefined =>
  forMinor(s, slot, (minor) => lockedConfig(base(s, slot, incarnation, minor)));

/**
 * The same for a start after a blackout, when there is no quorum to compare with: without the initial corruption check,
 * which would only make members that start together wait for each other. Later starts get the check again.
 */
export const blackoutConfig = (s: Situation, slot: Slot, incarnation: string): MemberConfig | undefined =>
  forMinor(s, slot, (minor) => ({ ...lockedConfig(base(s, slot, incarnation, minor)), initialCorruptCheck: false }));

/**
 * First start in a cluster that exists: `existing`, with etcd's list as it is now. Undefined also without a confirmed
 * list, and while the list names somebody whose own name is not known yet: etcd refuses to start with either.
 */
export const joiningConfig = (s: Situation, slot: Slot, incarnation: string): MemberConfig | undefined => {
  const { membership, cluster, namespace } = s.seen;
  if (!membership.known) return undefined;
  const own = incarnationName(slot.member.name, incarnation);
  const peers: EtcdPeer[] = [];
  for (const { name, peerURLs } of membership.value.members) {
    for (const url of peerURLs) {
      const peer = hasPeerURL([url], cluster, namespace, own) ? own : name;
      if (peer === '') return undefined;
      peers.push({ name: peer, peerURL: url });
    }
  }
  return forMinor(s, slot, (minor) => ({ ...base(s, slot, incarnation, minor), initialCluster: peers }));
};

/**
 * The configuration of the next start of a member that exists. One that has never started joins the live list: locked, it
 * would find nobody to learn the cluster from. Told from what a first start leaves behind: etcd publishes client URLs,
 * and the identity is recorded when it is proven.
 */
export const nextConfig = (s: Situation, slot: Slot, incarnation: string): MemberConfig | undefined => {
  const { volume, pod, entry, member } = slot;
  const started =
    volume?.memberID !== undefined ||
    (member.status.incarnation === incarnation && member.status.memberID !== undefined) ||
    pod?.container.state === 'running';
  if (!started && entry.known && entry.value !== undefined && entry.value.clientURLs.length === 0) {
    return joiningConfig(s, slot, incarnation);
  }
  return settledConfig(s, slot, incarnation);
};

const line = (key: string): RegExp => new RegExp(`^${key}: .*$`, 'm');

/** Where the member that reads this file tells its peers to find it. */
export const advertisedPeerURL = (text: string): string | undefined =>
  /^initial-advertise-peer-urls: "(.*)"$/m.exec(text)?.[1];

/**
 * The same file with only the lock closed. For a Pod whose claim has moved on: its binary may be of another minor than
 * the claim asks for, and options that etcd refuses must not keep a member from being locked.
 */
export const relocked = (s: Situation, text: string, name: string): string => {
  const list = `${name}=${advertisedPeerURL(text) ?? peerURL(s.seen.cluster, s.seen.namespace, name)}`;
  return text
    .replace(line('initial-cluster'), () => `initial-cluster: ${JSON.stringify(list)}`)
    .replace(line('initial-cluster-state'), () => 'initial-cluster-state: "existing"');
};

/** Whether a start with this file can only continue the data of the member itself. */
export const isLocked = (text: string): boolean => {
  const value = (key: string): string | undefined => new RegExp(`^${key}: "(.*)"$`, 'm').exec(text)?.[1];
  const list = value('initial-cluster');
  return (
    value('initial-cluster-state') === 'existing' &&
    list !== undefined &&
    list !== '' &&
    list.split('=')[0] === value('name') &&
    !list.includes(',')
  );
};
