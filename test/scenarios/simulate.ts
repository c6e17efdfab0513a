/**
 * A small world for the planner to live in: an API server without latency, kubelets, Crossplane with our function, and an
 * etcd that is honest about the few things that matter here: who starts on which data, who is listed, who leads.
 *
 * The planner and the reports are the real ones. What stands in for the acts applies the effects one by one, so that the
 * controller can be killed between any two. After every effect the world is checked for what must never be.
 */
import type { EtcdMember as EtcdMemberObject, EtcdMemberSpec, EtcdMemberStatus } from '../../api/etcdmember.gen.ts';
import type { EtcdQuorumSpec, EtcdQuorumStatus } from '../../api/etcdquorum.gen.ts';
import { ANNOTATIONS, clientURL, incarnationName, memberName, ordinalOf, peerURL } from '../../api/names.ts';
import { accepted } from '../../functions/composing/accepted.ts';
import type { Claim as FunctionClaim } from '../../functions/composing/claim.ts';
import type { RunFunctionRequest } from '../../functions/composing/exchange.ts';
import { QUORUM_KEY } from '../../functions/composing/settling.ts';
import { wantedOrdinals } from '../../functions/composing/slots.ts';
import { needsExactness } from '../../runtime/controllers/observe.ts';
import { afterEnd, emptiedStatus, isEmptied } from '../../runtime/core/ending.ts';
import { brokenInvariant } from '../../runtime/core/invariants.ts';
import { isLocked } from '../../runtime/core/member-config.ts';
import { memberStatus } from '../../runtime/core/member-report.ts';
import type { Fact, Observed, SeenPod, SeenSeed, SeenVolume } from '../../runtime/core/observed.ts';
import { known, unknown } from '../../runtime/core/observed.ts';
import { type Decision, plan } from '../../runtime/core/plan.ts';
import { recoveryBegun, recoveryRecord } from '../../runtime/core/recovery-record.ts';
import { quorumStatus, type StepFault } from '../../runtime/core/report.ts';
import { withRepair } from '../../runtime/core/rules/repair-budget.ts';
import { isStanding } from '../../runtime/core/rules/standing.ts';
import { REVISION_BUMP, seedPodName } from '../../runtime/core/seeding.ts';
import { classify, replacedIncarnation, type Situation } from '../../runtime/core/situation.ts';
import type { KnownSnapshot } from '../../runtime/core/snapshots/known-snapshots.ts';
import { locationName } from '../../runtime/core/snapshots/store-access.ts';
import type { BeginOperation, ObjectName, Placement, Step } from '../../runtime/core/steps.ts';
import { listedIncarnation, strangersIn } from '../../runtime/core/strangers.ts';
import type { EtcdMember, EtcdMembership } from '../../runtime/ports/etcd.ts';
import {
  answer,
  appliedMetadata,
  CLUSTER,
  memberSpec,
  NAMESPACE,
  restartHash,
  SHAPE,
  type Shape,
  START,
  templateHash,
} from './world.ts';

/** etcd's data, in the directory of the incarnation that wrote it. */
export type Disk = { directory: string; clusterID: string; memberID: string; revision: bigint };

type Exit = { code: number; message: string };

export type SimPod = {
  name: string;
  uid: string;
  member: string;
  incarnation: string;
  deleting: boolean;
  phase: SeenPod['phase'];
  createdAt: number;
  controllerUID: string | undefined;
  voterRole: boolean;
  ready: boolean;
  config: string;
  templateHash: string;
  restartHash: string;
  version: string;
  metadata: string;
  verified: string | undefined;
  memory: boolean;
  disk: Disk | undefined;
  container: {
    id: string | undefined;
    running: boolean;
    restarts: number;
    /** Ends in a row, of which the kubelet makes its back-off. */
    failures: number;
    startedAt: number | undefined;
    exit: Exit | undefined;
  };
  /** Its node is gone: it neither ends nor answers. */
  lost: boolean;
  /** Runs, and the runtime cannot reach it. */
  unreachable: boolean;
  /** Runs, and no other member can reach it: a partition with one on its far side. */
  cut?: boolean;
  /** Runs, and what others write does not come through to it. */
  lagging?: boolean;
  /** Of a Pod that fills a volume from another: it is no member. */
  seed: { source: string; to: string; token: string; bump: string; done: boolean } | undefined;
  /** Its container has started anew since it last saw a leader: its client port is silent. */
  mute: boolean;
};

export type SimVolume = {
  name: string;
  uid: string;
  member: string;
  incarnation: string;
  deleting: boolean;
  bound: boolean;
  createdAt: number;
  clusterUID: string | undefined;
  clusterID: string | undefined;
  memberID: string | undefined;
  floor: bigint | undefined;
  metadata: string;
  disk: Disk | undefined;
};

export type SimMember = {
  name: string;
  uid: string;
  generation: number;
  deleting: boolean;
  composed: boolean;
  controllerUID: string | undefined;
  finalized: boolean;
  firstClaim: string | undefined;
  retry: boolean;
  claimedPod: string | undefined;
  shape: Shape;
  status: EtcdMemberStatus;
};

/** One etcd cluster as its own members know it. */
export type SimEtcd = {
  id: string;
  members: EtcdMember[];
  revision: bigint;
  leader: string | undefined;
  foreign: boolean;
  /** The minor that its data is written for. */
  minor: number;
  /** The minor that it is told to go back to. */
  downgradeTo: number | undefined;
  served: boolean;
};

export type SimClaim = {
  uid: string;
  deleting: boolean;
  clusterID: string | undefined;
  replicas: number;
  shape: Shape;
  recovery: EtcdQuorumSpec['recovery'];
};

export type World = {
  now: number;
  draws: number;
  namespaceTerminating: boolean;
  claim: SimClaim | undefined;
  quorum:
    | {
        uid: string;
        /** Of status and spec, as a resource version. */
        version: number;
        generation: number;
        controllerUID: string | undefined;
        spec: EtcdQuorumSpec;
        status: EtcdQuorumStatus;
      }
    | undefined;
  members: SimMember[];
  pods: SimPod[];
  volumes: SimVolume[];
  /** Kept by `Retain`: no longer anybody's. */
  retained: SimVolume[];
  budget:
    | { uid: string; minAvailable: number; controllerUID: string | undefined; alwaysEvictUnhealthy: boolean }
    | undefined;
  etcd: SimEtcd[];
  /** Whether Crossplane runs. */
  composing: boolean;
  /** The API server refuses Pods, in these words. */
  refusing: string | undefined;
  unschedulable: string | undefined;
  unprovisioned: string | undefined;
  imageTrouble: string | undefined;
  /** Not known to the runtime in this moment. */
  blind: { claim: boolean; namespace: boolean; etcd: boolean };
  writes: { member: Record<string, number>; quorum: number; budget: number };
  /** The highest revision that each volume's member was seen at; in the memory of the runtime, so lost when it dies. */
  revisions: Record<string, bigint>;
  /** Views may be old, and so two controllers at work. Then two attempts may meet, but never two clusters serve. */
  slow: boolean;
  /** What slow caches still show, or a second controller that does not know yet that it is none. */
  view?: Observed | undefined;
  /** Clusters that took writes of clients under the present claim. */
  served: string[];
  /** Clusters that a person gave up. */
  givenUp: string[];
  /** Seeding Pods fail, in these words. */
  /** Whether claims say that they begin with a snapshot. */
  restoring: boolean;
  /** Snapshots of clusters of this world, taken as they were. */
  stored: { name: string; clusterID: string; revision: string; takenAt: string }[];
  seedTrouble: string | undefined;
  /** A name without a Pod under which something answers all the same. */
  answering: string | undefined;
};

/** Something happened that must never happen. */
export class Violation extends Error {
  override readonly name = 'Violation';
}

export const emptyWorld = (): World => ({
  now: START,
  draws: 0,
  namespaceTerminating: false,
  claim: undefined,
  quorum: undefined,
  members: [],
  pods: [],
  volumes: [],
  retained: [],
  budget: undefined,
  etcd: [],
  composing: true,
  refusing: undefined,
  unschedulable: undefined,
  unprovisioned: undefined,
  imageTrouble: undefined,
  blind: { claim: false, namespace: false, etcd: false },
  writes: { member: {}, quorum: 0, budget: 0 },
  revisions: {},
  slow: false,
  served: [],
  givenUp: [],
  restoring: false,
  stored: [],
  seedTrouble: undefined,
  answering: undefined,
});

const draw = (w: World, kind: string): string => {
  w.draws += 1;
  return `${kind}-${w.draws}`;
};

/** Five letters, never the same twice. */
const drawToken = (w: World): string => {
  w.draws += 1;
  let rest = w.draws;
  let token = '';
  for (let i = 0; i < 5; i += 1) {
    token = String.fromCharCode(97 + (rest % 26)) + token;
    rest = Math.floor(rest / 26);
  }
  return token;
};

/** A short stand-in for etcd's hashes. */
const hash = (text: string): string => {
  let value = 0x811c9dc5;
  for (const character of text) value = Math.imul(value ^ character.charCodeAt(0), 0x01000193) >>> 0;
  return value.toString(16);
};

// ------------------------------------------------------------------------------------------------------------ etcd

const setting = (config: string, key: string): string => new RegExp(`^${key}: "(.*)"$`, 'm').exec(config)?.[1] ?? '';
const peersOf = (config: string): { name: string; url: string }[] =>
  setting(config, 'initial-cluster')
    .split(',')
    .filter((peer) => peer !== '')
    .map((peer) => {
      const at = peer.indexOf('=');
      return { name: peer.slice(0, at), url: peer.slice(at + 1) };
    });

export const diskOf = (w: World, pod: SimPod): Disk | undefined =>
  pod.memory ? pod.disk : w.volumes.find(({ name }) => name === pod.name)?.disk;

const setDisk = (w: World, pod: SimPod, disk: Disk): void => {
  if (pod.memory) pod.disk = disk;
  const volume = w.volumes.find(({ name }) => name === pod.name);
  if (!pod.memory && volume !== undefined) volume.disk = disk;
};

const runs = (pod: SimPod): boolean => pod.container.running && !pod.lost;

/** Pods that run as members of this cluster. */
export const partakers = (w: World, etcd: SimEtcd): { pod: SimPod; disk: Disk }[] =>
  w.pods.flatMap((pod) => {
    const disk = diskOf(w, pod);
    const partakes = runs(pod) && pod.cut !== true && pod.seed === undefined && disk?.directory === pod.name;
    return partakes && disk.clusterID === etcd.id ? [{ pod, disk }] : [];
  });

const minorNumber = (version: string): number => Number(version.split('.')[1]);

export const votersOf = (etcd: SimEtcd): EtcdMember[] => etcd.members.filter(({ isLearner }) => !isLearner);

export const hasQuorum = (w: World, etcd: SimEtcd): boolean => {
  const alive = new Set(partakers(w, etcd).map(({ disk }) => disk.memberID));
  const voters = votersOf(etcd);
  return voters.length > 0 && voters.filter(({ id }) => alive.has(id)).length > voters.length / 2;
};

/** What etcd does when its container starts; undefined: it runs. */
const startEtcd = (w: World, pod: SimPod): Exit | undefined => {
  const { config } = pod;
  const peers = peersOf(config);
  const disk = diskOf(w, pod);
  if (disk !== undefined && disk.directory === pod.name) {
    const etcd = w.etcd.find(({ id }) => id === disk.clusterID);
    pod.mute = true;
    // Alone, nobody knows better than its disk.
    const [only, second] = etcd === undefined ? [] : votersOf(etcd);
    if (etcd !== undefined && second === undefined && only?.id === disk.memberID) etcd.revision = disk.revision;
    if (etcd !== undefined && minorNumber(pod.version) < etcd.minor) {
      return {
        code: 1,
        message: '{"level":"fatal","msg":"invalid downgrade; server version is lower than determined cluster version"}',
      };
    }
    const removed = etcd !== undefined && hasQuorum(w, etcd) && !etcd.members.some(({ id }) => id === disk.memberID);
    return removed ? { code: 0, message: '' } : undefined;
  }
  const others = peers.filter(({ name }) => name !== pod.name);
  if (setting(config, 'initial-cluster-state') === 'new') {
    const token = setting(config, 'initial-cluster-token');
    const clusterID = hash(`${token}|${peers.map(({ url }) => url).join()}`);
    const memberID = hash(`${token}|${pod.name}`);
    let etcd = w.etcd.find(({ id }) => id === clusterID);
    if (etcd === undefined) {
      const members = peers.map(
        ({ name, url }): EtcdMember => ({
          id: hash(`${token}|${name}`),
          name,
          peerURLs: [url],
          clientURLs: [],
          isLearner: false,
        }),
      );
      etcd = {
        id: clusterID,
        members,
        revision: 1n,
        leader: undefined,
        foreign: false,
        served: false,
        minor: 0,
        downgradeTo: undefined,
      };
      w.etcd.push(etcd);
    } else if (etcd.served && etcd.members.some(({ id, clientURLs }) => id === memberID && clientURLs.length > 0)) {
      throw new Violation(`${pod.name}: a member that has served starts anew on an empty disk`);
    }
    setDisk(w, pod, { directory: pod.name, clusterID, memberID, revision: 1n });
    return undefined;
  }
  const last = {
    code: 1,
    message:
      '{"level":"fatal","msg":"discovery failed","error":"cannot fetch cluster info from peer urls: could not retrieve cluster information from the given URLs"}',
  };
  if (others.length === 0) return last;
  const home = w.etcd.find(
    (etcd) =>
      hasQuorum(w, etcd) && partakers(w, etcd).some(({ pod: peer }) => others.some(({ name }) => name === peer.name)),
  );
  if (home === undefined) return last;
  const own = peerURL(CLUSTER, NAMESPACE, pod.name);
  const entry = home.members.find(({ peerURLs }) => peerURLs.includes(own));
  if (entry === undefined || home.members.length !== peers.length) {
    return {
      code: 1,
      message:
        '{"level":"fatal","msg":"discovery failed","error":"error validating peerURLs: member count is unequal"}',
    };
  }
  if (!entry.isLearner && entry.clientURLs.length > 0) {
    throw new Violation(`${pod.name}: a voter starts on an empty disk and has forgotten what it promised`);
  }
  setDisk(w, pod, { directory: pod.name, clusterID: home.id, memberID: entry.id, revision: 1n });
  return undefined;
};

/** Elections, replication, readiness, and the writes of clients. */
export const turnEtcd = (w: World): void => {
  for (const etcd of w.etcd) {
    const present = partakers(w, etcd);
    for (const { pod, disk } of present) {
      if (!etcd.members.some(({ id }) => id === disk.memberID) && hasQuorum(w, etcd)) {
        pod.container.running = false;
        pod.container.exit = { code: 0, message: '' };
        pod.ready = false;
      }
    }
    const minors = present.map(({ pod }) => minorNumber(pod.version));
    // Decided only while everybody says what they run.
    if (minors.length === etcd.members.length) {
      if (etcd.downgradeTo !== undefined && minors.every((minor) => minor <= (etcd.downgradeTo ?? 0))) {
        etcd.downgradeTo = undefined;
      }
      etcd.minor = Math.min(...minors, etcd.downgradeTo ?? Number.POSITIVE_INFINITY);
    }
    if (!hasQuorum(w, etcd)) {
      etcd.leader = undefined;
      continue;
    }
    const alive = present.filter(({ disk }) => votersOf(etcd).some(({ id }) => id === disk.memberID));
    if (!alive.some(({ disk }) => disk.memberID === etcd.leader)) {
      // Elected is who has all that any of them has; what none of them has is lost, whoever was told that it is kept.
      const [newest = 0n] = alive.map(({ disk }) => disk.revision).toSorted((a, b) => Number(b - a));
      const able = alive.filter(({ disk }) => disk.revision === newest);
      etcd.leader = able.map(({ disk }) => disk.memberID).toSorted()[0];
      if (newest < etcd.revision && !etcd.foreign) etcd.revision = newest;
    }
    etcd.members = etcd.members.map((member) => {
      const runner = present.find(({ disk }) => disk.memberID === member.id)?.pod.name;
      return runner === undefined || member.clientURLs.length > 0
        ? member
        : { ...member, name: runner, clientURLs: [clientURL(CLUSTER, NAMESPACE, runner)] };
    });
    const clients = present.some(({ pod }) => pod.voterRole && pod.ready && !pod.deleting);
    if (clients && !etcd.served && !etcd.foreign) {
      etcd.served = true;
      w.served = [...w.served, etcd.id];
    }
    const taking = alive.filter(({ pod }) => pod.lagging !== true).length;
    if (clients && taking > votersOf(etcd).length / 2) etcd.revision += 1n;
    for (const { pod, disk } of present) {
      if (pod.lagging !== true) disk.revision = etcd.revision;
      pod.mute = false;
    }
  }
  for (const pod of w.pods) {
    const disk = diskOf(w, pod);
    const etcd = w.etcd.find(({ id }) => id === disk?.clusterID);
    const voter = etcd !== undefined && votersOf(etcd).some(({ id }) => id === disk?.memberID);
    pod.ready = runs(pod) && voter && etcd?.leader !== undefined && pod.cut !== true;
  }
};

// ------------------------------------------------------------------------------------------------------ Kubernetes

const stopContainer = (pod: SimPod, exit: Exit | undefined): void => {
  pod.container.running = false;
  pod.container.failures += 1;
  pod.container.exit = exit;
  pod.ready = false;
};

/** A snapshot in a store, and what it holds. */
const STORED = 'pvc://backups/orders.db';
const STORED_DISK = { clusterID: 'of the snapshot', revision: 42n };

export const storeSnapshot = (w: World, name: string): void => {
  const { id: clusterID = '', revision = 0n } = w.etcd.find(({ id }) => id === w.quorum?.status.clusterID) ?? {};
  w.stored = [...w.stored, { name, clusterID, revision: String(revision), takenAt: new Date(w.now).toISOString() }];
};

const seenSnapshot = ({ name, clusterID, revision, takenAt }: World['stored'][number]): KnownSnapshot => ({
  name,
  uri: `pvc://backups/${name}.db`,
  location: { pvc: { claimName: 'backups', subPath: `${name}.db` } },
  revision: BigInt(revision),
  takenAt,
  clusterID,
  etcdVersion: '3.6.16',
  sha256: 'a'.repeat(64),
});

const storedAt = (w: World, uri: string): Source | undefined =>
  uri === STORED ? STORED_DISK : w.stored.map(seenSnapshot).find((one) => one.uri === uri);

type Source = { readonly clusterID: string | undefined; readonly revision: bigint };

/** A cluster of one with this data, under a new identity. */
const restored = (
  w: World,
  pod: SimPod,
  { clusterID: lost, revision: before }: Source,
  { to, token, bump }: { readonly to: string; readonly token: string; readonly bump: string },
): Disk => {
  const id = hash(`${token}|${to}`);
  const memberID = hash(`${token}|member|${to}`);
  const revision = before + BigInt(bump);
  const url = peerURL(CLUSTER, NAMESPACE, to);
  const members: EtcdMember[] = [{ id: memberID, name: to, peerURLs: [url], clientURLs: [], isLearner: false }];
  const minor = w.etcd.find((etcd) => etcd.id === lost)?.minor ?? minorNumber(pod.version);
  w.etcd = [...w.etcd.filter((etcd) => etcd.id !== id)];
  w.etcd.push({
    id,
    members,
    revision,
    leader: undefined,
    foreign: false,
    served: false,
    minor,
    downgradeTo: undefined,
  });
  return { directory: to, clusterID: id, memberID, revision };
};

/** What the seeding Pod's containers do together: a copy, a snapshot of it, and that restored under a new identity. */
const fillVolume = (w: World, pod: SimPod, seed: NonNullable<SimPod['seed']>): void => {
  const source = w.volumes.find(({ name }) => name === seed.source);
  const target = w.volumes.find(({ name }) => name === seed.to);
  if (seed.done || (!pod.memory && target?.bound !== true)) return;
  const stored = storedAt(w, seed.source);
  const from = stored ?? source?.disk;
  if (from === undefined || w.seedTrouble !== undefined) {
    pod.phase = 'Failed';
    return;
  }
  const lost = from.clusterID;
  const busy = w.pods.find((one) => runs(one) && one.seed === undefined && diskOf(w, one)?.clusterID === lost);
  if (busy !== undefined && stored === undefined)
    throw new Violation(`${busy.name} of the lost cluster runs while another is made from it`);
  // In memory it is only tried; the member's own Pod does it again.
  if (target !== undefined) target.disk = restored(w, pod, from, seed);
  pod.phase = 'Succeeded';
  seed.done = true;
};

/** Ends what has to end, starts what can start. */
export const turnKubelet = (w: World): void => {
  w.pods = w.pods.filter((pod) => !pod.deleting || pod.lost);
  for (const volume of w.volumes) if (!volume.deleting && w.unprovisioned === undefined) volume.bound = true;
  w.volumes = w.volumes.filter(({ deleting, name }) => !deleting || w.pods.some((pod) => pod.name === name));
  if (w.unschedulable !== undefined || w.imageTrouble !== undefined) return;
  // All at once, as a static bootstrap needs: first everyone gets a container, then each finds out whether it can live.
  const starting = w.pods.filter((pod) => {
    if (pod.container.running || pod.deleting || pod.lost || pod.phase === 'Failed') return false;
    if (pod.seed !== undefined) {
      fillVolume(w, pod, pod.seed);
      return false;
    }
    const volume = w.volumes.find(({ name }) => name === pod.name);
    // A Pod that has its volume keeps it; a new one does not get one that is being deleted.
    return pod.memory || (volume?.bound === true && (!volume.deleting || pod.container.id !== undefined));
  });
  for (const pod of starting) {
    const exit = startEtcd(w, pod);
    pod.phase = 'Running';
    pod.container.restarts += pod.container.id === undefined ? 0 : 1;
    pod.container.id = draw(w, 'containerd://c');
    pod.container.running = exit === undefined;
    pod.container.startedAt = exit === undefined ? w.now : undefined;
    if (exit !== undefined) stopContainer(pod, exit);
  }
};

const removeMemberObject = (w: World, member: SimMember): void => {
  if (member.finalized) member.deleting = true;
  else w.members = w.members.filter((one) => one !== member);
};

/** Garbage collection, the namespace controller, and the finalizer of a claim deleted in the foreground. */
export const turnCollector = (w: World): void => {
  if (w.namespaceTerminating) {
    const podsLeft = w.pods.some(({ deleting }) => !deleting);
    for (const pod of w.pods) pod.deleting = true;
    // Seen on a real cluster: Pods die more than a second before anything else is marked.
    if (podsLeft) return;
    for (const volume of [...w.volumes, ...w.retained]) volume.deleting = true;
    w.retained = [];
    for (const member of [...w.members]) removeMemberObject(w, member);
    w.quorum = undefined;
    w.budget = undefined;
    w.claim = undefined;
    return;
  }
  const alive = w.claim !== undefined && !w.claim.deleting ? w.claim.uid : undefined;
  const orphaned = (uid: string | undefined): boolean => uid !== undefined && uid !== alive;
  for (const pod of w.pods) if (orphaned(pod.controllerUID)) pod.deleting = true;
  for (const member of [...w.members]) if (orphaned(member.controllerUID)) removeMemberObject(w, member);
  if (orphaned(w.quorum?.controllerUID)) w.quorum = undefined;
  if (orphaned(w.budget?.controllerUID)) w.budget = undefined;
  const dependents =
    w.members.some(({ controllerUID }) => controllerUID === w.claim?.uid) || w.quorum?.controllerUID === w.claim?.uid;
  if (w.claim?.deleting === true && !dependents) w.claim = undefined;
};

/** What the function renders for the quorum and for its members. */
const versionsOf = (w: World, { shape, clusterID }: SimClaim): { version: string; memberVersion: string } => {
  const resource = w.quorum === undefined ? {} : { apiVersion: '', kind: 'EtcdQuorum', ...w.quorum };
  const asked = {
    version: shape.version,
    spec: { version: shape.version },
    status: clusterID === undefined ? {} : { clusterID },
  };
  const { claim, memberVersion } = accepted(
    { observed: { resources: { [QUORUM_KEY]: { resource } } } } as unknown as RunFunctionRequest,
    asked as unknown as FunctionClaim,
  );
  return { version: claim.version, memberVersion };
};

/** Crossplane with the function `members`. */
export const turnCrossplane = (w: World): void => {
  const { claim } = w;
  if (!w.composing || claim === undefined || claim.deleting || w.namespaceTerminating) return;
  const { version, memberVersion } = versionsOf(w, claim);
  const spec: EtcdQuorumSpec = {
    replicas: claim.replicas,
    version,
    medium: claim.shape.medium,
    ...(claim.recovery === undefined ? {} : { recovery: claim.recovery }),
    ...(w.restoring ? { restore: { source: { pvc: { claimName: 'backups', subPath: 'orders.db' } } } } : {}),
  };
  if (w.quorum === undefined) {
    w.quorum = { uid: draw(w, 'quorum'), version: 1, generation: 1, controllerUID: claim.uid, spec, status: {} };
  } else {
    w.quorum.controllerUID = claim.uid;
    // Applied by another manager, so it stays.
    const { resourceRefs } = w.quorum.spec;
    if (resourceRefs !== undefined) spec.resourceRefs = resourceRefs;
    if (JSON.stringify(w.quorum.spec) !== JSON.stringify(spec)) {
      w.quorum.spec = spec;
      w.quorum.generation += 1;
      w.quorum.version += 1;
    }
  }
  const shape = { ...claim.shape, version: memberVersion };
  const slots = w.members.map((member) => {
    const object = {
      metadata: { name: member.name, ...(member.deleting ? { deletionTimestamp: 'now' } : {}) },
      spec: memberSpec(member.shape),
      status: member.status,
    } as unknown as EtcdMemberObject;
    const mine = member.controllerUID === claim.uid && member.composed;
    return { ordinal: ordinalOf(CLUSTER, member.name) ?? -1, observed: mine ? object : undefined, required: object };
  });
  const wanted = wantedOrdinals(
    slots.toSorted((a, b) => a.ordinal - b.ordinal),
    { uid: claim.uid, replicas: claim.replicas } as unknown as FunctionClaim,
  );
  for (const ordinal of wanted) {
    const name = memberName(CLUSTER, ordinal);
    const member = w.members.find((one) => one.name === name);
    if (member === undefined) {
      w.members.push({
        name,
        uid: draw(w, 'member'),
        generation: 1,
        deleting: false,
        composed: true,
        controllerUID: claim.uid,
        finalized: false,
        firstClaim: undefined,
        retry: false,
        claimedPod: undefined,
        shape,
        status: {},
      });
      continue;
    }
    member.controllerUID = claim.uid;
    member.composed = true;
    if (JSON.stringify(member.shape) !== JSON.stringify(shape)) {
      member.shape = shape;
      member.generation += 1;
    }
  }
  w.members.sort((a, b) => (ordinalOf(CLUSTER, a.name) ?? 0) - (ordinalOf(CLUSTER, b.name) ?? 0));
  for (const member of [...w.members]) {
    if (wanted.includes(ordinalOf(CLUSTER, member.name) ?? -1) || member.deleting || !member.composed) continue;
    if (member.controllerUID !== claim.uid) continue;
    member.composed = false;
    removeMemberObject(w, member);
  }
  // Only what was recorded under this very claim: a record that is left from an earlier one of the same name would say
  // that this one has existed, and never be forgotten again.
  const { clusterID, clusterUID } = w.quorum.status;
  if (clusterUID === claim.uid) claim.clusterID = clusterID ?? claim.clusterID;
};

/** Everybody but the runtime does what is theirs to do; `ms` pass. */
export const turn = (w: World, ms = 1_000): void => {
  w.now += ms;
  turnCollector(w);
  turnCrossplane(w);
  turnKubelet(w);
  turnEtcd(w);
  check(w);
};

// ---------------------------------------------------------------------------------------------------- what is seen

const isLearnerOf = (etcd: SimEtcd | undefined, { memberID }: Disk): boolean =>
  etcd?.members.some(({ id, isLearner }) => id === memberID && isLearner) === true;

const seenSeedOf = (w: World, pod: SimPod): SeenSeed => ({
  state: pod.phase === 'Succeeded' ? 'succeeded' : pod.phase === 'Failed' ? 'failed' : 'running',
  report:
    pod.phase !== 'Succeeded'
      ? undefined
      : JSON.stringify({
          revision: String(
            storedAt(w, pod.seed?.source ?? '')?.revision ??
              w.volumes.find(({ name }) => name === pod.seed?.source)?.disk?.revision ??
              0n,
          ),
          sha256: 'a'.repeat(64),
          snapshotBytes: 1,
        }),
  trouble: pod.phase === 'Failed' ? (w.seedTrouble ?? 'copy ended with 1: no database of etcd') : undefined,
});

const seenPod = (w: World, pod: SimPod): SeenPod => {
  const disk = diskOf(w, pod);
  const etcd = w.etcd.find(({ id }) => id === disk?.clusterID);
  const { container } = pod;
  const waiting = w.imageTrouble !== undefined && !container.running;
  return {
    name: pod.name,
    uid: pod.uid,
    incarnation: pod.incarnation,
    deleting: pod.deleting,
    phase: pod.phase,
    node: pod.phase === 'Pending' ? undefined : 'node-1',
    ip: pod.phase === 'Pending' ? undefined : '10.0.0.1',
    ready: pod.ready,
    unschedulable: container.id === undefined ? w.unschedulable : undefined,
    createdAt: pod.createdAt,
    controllerUID: pod.controllerUID,
    voterRole: pod.voterRole,
    config: pod.config,
    templateHash: pod.templateHash,
    restartHash: pod.restartHash,
    metadata: pod.metadata,
    verifiedContainer: pod.verified,
    container: {
      id: container.id,
      state: container.running ? 'running' : container.id === undefined && !waiting ? 'unknown' : 'waiting',
      ready: pod.ready,
      restarts: container.restarts,
      waitingReason: waiting
        ? 'ImagePullBackOff'
        : container.running || container.id === undefined
          ? undefined
          : 'CrashLoopBackOff',
      waitingMessage: waiting
        ? w.imageTrouble
        : container.running || container.failures < 2
          ? undefined
          : `back-off ${10 * 2 ** Math.min(container.failures - 2, 5)}s restarting failed container=etcd pod=${pod.name}`,
      startedAt: container.running ? container.startedAt : undefined,
      lastExit:
        container.exit === undefined
          ? undefined
          : { code: container.exit.code, reason: 'Error', message: container.exit.message, signal: undefined },
    },
    ...(pod.seed === undefined ? {} : { seed: seenSeedOf(w, pod) }),
    ...(pod.mute && runs(pod) && disk !== undefined && etcd?.leader === undefined
      ? { metrics: known({ revision: disk.revision, isLearner: isLearnerOf(etcd, disk) }) }
      : {}),
    etcd:
      !pod.container.running || disk === undefined || etcd === undefined
        ? unknown('etcd is not running')
        : w.blind.etcd || pod.unreachable || pod.lost || (pod.mute && etcd.leader === undefined)
          ? unknown('dial tcp 10.0.0.1:2379: i/o timeout')
          : known(
              answer({
                clusterId: disk.clusterID,
                memberId: disk.memberID,
                leaderId: pod.cut === true ? undefined : etcd.leader,
                revision: disk.revision,
                isLearner: etcd.members.some(({ id, isLearner }) => id === disk.memberID && isLearner),
                version: pod.version,
                ...(minorNumber(pod.version) < 6
                  ? {}
                  : {
                      storageVersion: `3.${etcd.minor}.0`,
                      ...(etcd.downgradeTo === undefined ? {} : { downgradeTarget: `3.${etcd.downgradeTo}.0` }),
                    }),
              }),
            ),
  };
};

const seenVolume = (w: World, volume: SimVolume): SeenVolume => ({
  name: volume.name,
  uid: volume.uid,
  incarnation: volume.incarnation,
  deleting: volume.deleting,
  phase: volume.bound ? 'Bound' : 'Pending',
  createdAt: volume.createdAt,
  clusterUID: volume.clusterUID,
  clusterID: volume.clusterID,
  memberID: volume.memberID,
  revisionFloor: volume.floor,
  metadata: volume.metadata,
  trouble: volume.bound ? undefined : w.unprovisioned,
});

/** As the gatherer asks: whoever says that it leads, else whoever knows a leader. */
const membershipOf = (w: World, pods: readonly SeenPod[]): Fact<EtcdMembership> => {
  const led = pods.flatMap(({ etcd }) =>
    etcd.known && etcd.value.leaderId !== undefined && !etcd.value.isLearner ? [etcd.value] : [],
  );
  const speaker = led.toSorted((a, b) => Number(b.leaderId === b.memberId) - Number(a.leaderId === a.memberId))[0];
  const etcd = w.etcd.find(({ id }) => id === speaker?.clusterId);
  return etcd === undefined
    ? unknown('no member answers that knows of a leader')
    : known({ clusterId: etcd.id, members: etcd.members });
};

/** As the runtime looks for them: everything that there is, and whether something runs under that name. */
const withStrangers = (w: World, seen: Observed): Observed => {
  const operation = seen.quorum?.status.operation;
  if (operation !== undefined && operation.kind !== 'RemoveOrphan') return seen;
  const strangers = strangersIn(classify(seen)).flatMap((stranger) => {
    const own = listedIncarnation(seen, stranger);
    if (own === undefined) return [];
    const things = [...w.pods, ...w.volumes, ...w.retained].filter(({ name }) => name === own.name);
    const records = w.members.filter(
      ({ name, status }) =>
        status.memberID === stranger.id || (name === own.member && (status.incarnation ?? own.token) === own.token),
    );
    const found = [...things, ...records].map(({ name }) => name);
    const traces = w.blind.namespace ? unknown<string[]>('the API server timed out') : known(found);
    return [{ id: stranger.id, traces, answers: w.answering === own.name }];
  });
  return strangers.length === 0 ? seen : { ...seen, strangers };
};

const gathered = (w: World): Observed => {
  const pods = w.pods.map((pod) => ({ member: pod.member, seen: seenPod(w, pod) }));
  return {
    namespace: NAMESPACE,
    cluster: CLUSTER,
    now: w.now,
    namespaceTerminating: w.blind.namespace ? unknown('the API server timed out') : known(w.namespaceTerminating),
    claim: w.blind.claim
      ? unknown('the API server timed out')
      : known(
          w.claim === undefined
            ? { exists: false }
            : { exists: true, uid: w.claim.uid, deleting: w.claim.deleting, clusterID: w.claim.clusterID },
        ),
    quorum: w.quorum === undefined ? undefined : { ...w.quorum, deleting: false },
    members: w.members.map((member) => ({
      name: member.name,
      ordinal: ordinalOf(CLUSTER, member.name) ?? -1,
      uid: member.uid,
      generation: member.generation,
      deleting: member.deleting,
      composed: member.composed,
      controllerUID: member.controllerUID,
      finalized: member.finalized,
      firstClaim: member.firstClaim ?? member.status.clusterUID,
      retry: member.retry,
      claimedPod: member.claimedPod,
      spec: memberSpec(member.shape) satisfies EtcdMemberSpec,
      status: member.status,
      templateHash: templateHash(member.shape),
      restartHash: restartHash(member.shape),
      pods: pods.filter((pod) => pod.member === member.name).map(({ seen }) => seen),
      volumes: w.volumes.filter((volume) => volume.member === member.name).map((volume) => seenVolume(w, volume)),
    })),
    budget: w.budget === undefined ? undefined : { ...w.budget, deleting: false, metadata: undefined },
    membership: membershipOf(
      w,
      pods.map(({ seen }) => seen),
    ),
    agentImage: 'runtime:test',
    snapshots: w.stored.map(seenSnapshot),
    ...lastSeenIn(w),
  };
};

const lastSeenIn = (w: World): Pick<Observed, 'lastSeen'> => {
  const [revision] = Object.values(w.revisions).toSorted((a, b) => (a < b ? 1 : -1));
  const clusterID = w.quorum?.status.clusterID ?? '';
  return revision === undefined ? {} : { lastSeen: { clusterID, revision, at: w.now } };
};

/** As the runtime gathers: what a settled cluster does not need is not asked for, and so is not known. */
export const observe = (w: World): Observed => {
  const seen = withStrangers(w, gathered(w));
  return needsExactness(seen.members, seen.quorum, seen.budget)
    ? seen
    : { ...seen, claim: unknown('not asked in this pass'), namespaceTerminating: unknown('not asked in this pass') };
};

// ------------------------------------------------------------------------------------------------------------ acts

const writeMember = (w: World, uid: string, status: EtcdMemberStatus): void => {
  const member = w.members.find((one) => one.uid === uid);
  if (member === undefined) return;
  member.status = structuredClone(status);
  w.writes.member[member.name] = (w.writes.member[member.name] ?? 0) + 1;
};

/** A pass goes on from its own first write. */
const decisionsWriting = new WeakSet<Decision>();

const writeQuorum = (w: World, decision: Decision, status: EtcdQuorumStatus): void => {
  // A resource version stands in for this: written only on top of what was seen.
  if (w.quorum === undefined || w.quorum.uid !== decision.situation.quorum?.uid) return;
  const { version } = decision.situation.quorum as unknown as { version: number };
  if (w.quorum.version !== version && !decisionsWriting.has(decision)) return;
  decisionsWriting.add(decision);
  w.quorum.version += 1;
  w.quorum.status = structuredClone(
    Object.fromEntries(Object.entries(status).filter(([, value]) => value !== undefined)) as EtcdQuorumStatus,
  );
  w.writes.quorum += 1;
};

const reported = (decision: Decision, s: Situation, change: Partial<EtcdQuorumStatus>): EtcdQuorumStatus => {
  if (s.quorum === undefined) return change;
  const changed = { ...s.quorum.status, ...change };
  const said = quorumStatus({ ...decision, situation: { ...s, quorum: { ...s.quorum, status: changed } } });
  return { ...(said?.status ?? changed), ...change };
};

const changeQuorum = (w: World, decision: Decision, change: Partial<EtcdQuorumStatus>): void =>
  writeQuorum(w, decision, reported(decision, decision.situation, change));

const begun = (w: World, s: Situation, step: BeginOperation): Partial<EtcdQuorumStatus> => ({
  operation: {
    id: draw(w, 'op'),
    kind: step.kind,
    target: step.target,
    step: 'begun',
    since: new Date(w.now).toISOString(),
    ...(step.memberID === undefined ? {} : { memberID: step.memberID }),
    ...(step.cause === undefined ? {} : { cause: step.cause }),
    ...(step.kind === 'AddMember' ? { incarnation: drawToken(w) } : {}),
  },
  ...(step.cause === undefined ? {} : { repairs: withRepair(s, step.target, step.cause) }),
});

/** A floor only rises. */
const raiseFloor = (w: World, name: string): void => {
  const volume = w.volumes.find((one) => one.name === name);
  const highest = w.revisions[name];
  if (volume?.memberID === undefined || highest === undefined) return;
  if (volume.floor === undefined || highest > volume.floor) volume.floor = highest;
};

const deletePod = (w: World, { uid }: ObjectName): void => {
  const pod = w.pods.find((one) => one.uid === uid);
  if (pod === undefined) return;
  const volume = w.volumes.find(({ name }) => name === pod.name);
  // A volume that is being deleted lives as long as its Pod.
  if (volume?.deleting === true || (pod.memory && pod.phase !== 'Failed'))
    guardData(w, volume ?? pod, `Pod ${pod.name}`);
  pod.deleting = true;
};

const deleteVolume = (w: World, { uid }: ObjectName): void => {
  const volume = w.volumes.find((one) => one.uid === uid);
  if (volume === undefined) return;
  guardData(w, volume, `volume ${volume.name}`);
  volume.deleting = true;
};

const letGo = (w: World, { uid }: ObjectName): void => {
  w.retained.push(...w.volumes.filter((one) => one.uid === uid));
  w.volumes = w.volumes.filter((one) => one.uid !== uid);
};

const wasRefused = ({ status }: SimMember): boolean =>
  status.phase === 'Failed' && (status.conditions ?? []).some(({ reason }) => reason === 'ForeignData');

/** What holds data of a voter that is listed goes only with the claim. */
const guardData = (w: World, { disk, member: name }: SimPod | SimVolume, what: string): void => {
  const etcd = w.etcd.find(({ id }) => id === disk?.clusterID);
  if (w.namespaceTerminating || w.claim === undefined || w.claim.deleting) return;
  const keeper = w.members.find((member) => member.name === name);
  // Told as somebody else's, and nobody gave it up.
  if (etcd?.foreign === true && what.startsWith('volume ') && keeper?.deleting === false && wasRefused(keeper)) {
    throw new Violation(`${what} holds data that was refused, and is deleted without a person having asked for it`);
  }
  if (etcd === undefined || !etcd.served || etcd.foreign || !w.served.includes(etcd.id)) return;
  const owner = keeper?.controllerUID;
  const collected = owner !== undefined && owner !== w.claim.uid;
  // Of a cluster that was given up: only when the next one is whole.
  if (w.givenUp.includes(etcd.id)) {
    const present = w.etcd.find(({ id }) => id === w.quorum?.status.clusterID);
    const whole = present !== undefined && partakers(w, present).length >= w.claim.replicas;
    if (!whole || present.id === etcd.id) throw new Violation(`${what} of a lost cluster is deleted too early`);
    return;
  }
  if (!collected && etcd.members.some(({ id }) => id === disk?.memberID)) {
    throw new Violation(`${what} holds data of a listed member and is deleted`);
  }
};

const newVolume = (w: World, { situation }: Decision, member: SimMember, incarnation: string): SimVolume => ({
  name: incarnationName(member.name, incarnation),
  uid: draw(w, 'volume'),
  member: member.name,
  incarnation,
  deleting: false,
  bound: false,
  createdAt: w.now,
  clusterUID: situation.quorum?.controllerUID,
  clusterID: undefined,
  memberID: undefined,
  floor: undefined,
  metadata: appliedMetadata(member.shape),
  disk: undefined,
});

const newPod = (w: World, { situation }: Decision, member: SimMember, incarnation: string, config: string): SimPod => ({
  name: incarnationName(member.name, incarnation),
  uid: draw(w, 'pod'),
  member: member.name,
  incarnation,
  deleting: false,
  phase: 'Pending',
  createdAt: w.now,
  controllerUID: situation.quorum?.controllerUID,
  voterRole: false,
  ready: false,
  config,
  templateHash: templateHash(member.shape),
  restartHash: restartHash(member.shape),
  version: member.shape.version,
  metadata: appliedMetadata(member.shape),
  verified: undefined,
  memory: member.shape.medium === 'Memory',
  disk: undefined,
  container: { id: undefined, running: false, restarts: 0, failures: 0, startedAt: undefined, exit: undefined },
  lost: false,
  unreachable: false,
  seed: undefined,
  mute: false,
});

function* bringUp(w: World, decision: Decision, place: Placement): Generator<void, StepFault | undefined> {
  const member = w.members.find(({ uid }) => uid === place.member.uid);
  if (member === undefined) return undefined;
  const name = incarnationName(member.name, place.incarnation);
  const clusterUID = decision.situation.quorum?.controllerUID;
  if (!member.finalized || member.claimedPod !== name) {
    // A finalizer cannot be added to what is being deleted.
    if (member.deleting && !member.finalized) return undefined;
    member.finalized = true;
    member.claimedPod = name;
    member.firstClaim = clusterUID ?? member.firstClaim;
    yield;
  }
  const memory = member.shape.medium === 'Memory';
  if (w.refusing !== undefined || w.namespaceTerminating) {
    if (place.makeVolume || memory) member.claimedPod = undefined;
    return { reason: 'PodRefused', message: w.refusing ?? 'the namespace is being terminated' };
  }
  if (place.makeVolume && !w.volumes.some((volume) => volume.name === name)) {
    w.volumes.push(newVolume(w, decision, member, place.incarnation));
    yield;
  }
  if (!w.pods.some((pod) => pod.name === name)) {
    const pod = newPod(w, decision, member, place.incarnation, place.config);
    if (place.fill !== undefined) {
      const { location, clusterToken: token, bump } = place.fill;
      const from = storedAt(w, locationName(location));
      if (from !== undefined) pod.disk = restored(w, pod, from, { to: name, token, bump: String(bump) });
    }
    w.pods.push(pod);
    yield;
  }
  member.retry = false;
  return undefined;
}

function* seedVolume(
  w: World,
  decision: Decision,
  step: Pick<Extract<Step, { do: 'Seed' }>, 'member' | 'incarnation' | 'source' | 'clusterToken' | 'bump'>,
): Generator<void, StepFault | undefined> {
  const member = w.members.find(({ uid }) => uid === step.member.uid);
  if (member === undefined) return undefined;
  const name = incarnationName(member.name, step.incarnation);
  const memory = member.shape.medium === 'Memory';
  member.finalized = true;
  member.claimedPod = memory ? undefined : name;
  yield;
  if (w.refusing !== undefined) return { reason: 'PodRefused', message: w.refusing };
  if (!memory && !w.volumes.some((one) => one.name === name)) {
    w.volumes.push(newVolume(w, decision, member, step.incarnation));
    yield;
  }
  const pod = seedPodName(member.name, step.incarnation);
  if (w.pods.some((one) => one.name === pod)) return undefined;
  w.pods.push({
    ...newPod(w, decision, member, '', ''),
    name: pod,
    seed: {
      source: step.source.from === 'survivor' ? step.source.volume : locationName(step.source.location),
      to: name,
      token: step.clusterToken,
      bump: String(step.bump),
      done: false,
    },
  });
  return undefined;
}

/** The cluster that the runtime speaks with. */
const spoken = (w: World, decision: Decision): SimEtcd | undefined =>
  w.etcd.find(({ id }) => id === decision.situation.latch && !w.blind.etcd);

/** etcd's own check before a change: after it, a majority of the voters must be connected. */
const keepsQuorum = (w: World, etcd: SimEtcd, members: readonly EtcdMember[]): boolean => {
  const alive = new Set(partakers(w, etcd).map(({ disk }) => disk.memberID));
  const voters = members.filter(({ isLearner }) => !isLearner);
  return voters.filter(({ id }) => alive.has(id)).length > voters.length / 2;
};

/** One effect after the other; the controller may die at any `yield`. */
function* act(w: World, decision: Decision): Generator<void, StepFault | undefined> {
  const { step, situation } = decision;
  switch (step.do) {
    case 'Wait':
    case 'AskHuman':
    case 'Settled':
      return undefined;
    case 'RecordAttempt':
      changeQuorum(w, decision, {
        phase: 'Bootstrapping',
        bootstrap: {
          attempt: step.attempt,
          token: `${situation.quorum?.controllerUID}-${step.attempt}`,
          startedAt: new Date(w.now).toISOString(),
          members: step.members.map((name) => ({ name, incarnation: drawToken(w) })),
        },
      });
      return undefined;
    case 'AbandonAttempt': {
      const bootstrap = situation.quorum?.status.bootstrap;
      if (bootstrap !== undefined) changeQuorum(w, decision, { bootstrap: { ...bootstrap, abandoned: step.why } });
      return undefined;
    }
    case 'ClearAttempt':
    case 'Retire':
      for (const pod of step.pods) {
        deletePod(w, pod);
        yield;
      }
      for (const volume of step.volumes) {
        if (step.do === 'Retire' && step.keep === true) letGo(w, volume);
        else deleteVolume(w, volume);
        yield;
      }
      return undefined;
    case 'BringUp': {
      let fault: StepFault | undefined;
      for (const place of step.places) fault = (yield* bringUp(w, decision, place)) ?? fault;
      return fault;
    }
    case 'Latch':
      changeQuorum(w, decision, { clusterID: step.clusterID });
      return undefined;
    case 'ForgetRecord':
      writeQuorum(w, decision, {});
      return undefined;
    case 'Adopt':
      for (const pod of w.pods) {
        if (pod.deleting) continue;
        pod.controllerUID = step.clusterUID;
        yield;
      }
      for (const member of w.members) {
        if (member.deleting) continue;
        const slot = situation.slots.find((one) => one.member.uid === member.uid);
        if (!member.finalized) {
          if (slot?.incarnation === undefined || !isStanding(slot)) continue;
          member.claimedPod = incarnationName(member.name, slot.incarnation);
        }
        member.finalized = true;
        member.firstClaim = step.clusterUID;
        yield;
      }
      for (const volume of w.volumes) volume.clusterUID = step.clusterUID;
      if (w.budget !== undefined) w.budget.controllerUID = step.clusterUID;
      yield;
      changeQuorum(w, decision, { clusterUID: step.clusterUID });
      return undefined;
    case 'Configure':
      for (const { uid, config } of step.pods) {
        const pod = w.pods.find((one) => one.uid === uid);
        if (pod !== undefined) pod.config = config;
        yield;
      }
      return undefined;
    case 'Admit':
      for (const { uid, container, clusterID, memberID, revision, volume: name } of step.pods) {
        const volume = w.volumes.find((one) => one.name === name);
        if (volume !== undefined) {
          volume.clusterID = clusterID;
          volume.memberID = memberID;
          volume.floor = volume.floor !== undefined && volume.floor > revision ? volume.floor : revision;
          yield;
        }
        const pod = w.pods.find((one) => one.uid === uid);
        if (pod !== undefined) {
          pod.voterRole = true;
          pod.verified = container;
        }
        yield;
      }
      return undefined;
    case 'Dismiss':
      for (const { uid } of step.pods) {
        const pod = w.pods.find((one) => one.uid === uid);
        if (pod !== undefined) {
          pod.voterRole = false;
          pod.verified = undefined;
          raiseFloor(w, pod.name);
        }
        yield;
      }
      return undefined;
    case 'StopImpostor': {
      const slot = situation.slots.find(({ member }) => member.uid === step.member.uid);
      const status = slot === undefined ? undefined : memberStatus(situation, slot);
      if (status !== undefined) writeMember(w, step.member.uid, status);
      yield;
      deletePod(w, step.pod);
      return undefined;
    }
    case 'DeletePods':
      if (step.repair !== undefined) {
        changeQuorum(w, decision, { repairs: withRepair(situation, step.repair.member, step.repair.cause) });
        yield;
      }
      for (const pod of step.pods) {
        raiseFloor(w, pod.name);
        deletePod(w, pod);
        yield;
      }
      return undefined;
    case 'SetBudget':
      w.writes.budget += 1;
      if (w.quorum !== undefined) {
        const refs =
          step.minAvailable === undefined
            ? []
            : [{ apiVersion: 'policy/v1', kind: 'PodDisruptionBudget', name: CLUSTER }];
        w.quorum.spec = { ...w.quorum.spec, resourceRefs: refs };
        yield;
      }
      w.budget =
        step.minAvailable === undefined
          ? undefined
          : {
              uid: w.budget?.uid ?? draw(w, 'budget'),
              minAvailable: step.minAvailable,
              controllerUID: situation.quorum?.controllerUID,
              alwaysEvictUnhealthy: step.alwaysEvictUnhealthy,
            };
      return undefined;
    case 'BeginOperation':
      changeQuorum(w, decision, begun(w, situation, step));
      return undefined;
    case 'AddLearner': {
      const etcd = spoken(w, decision);
      if (etcd === undefined || etcd.leader === undefined)
        return { reason: 'ClusterUnreachable', message: 'no leader' };
      // PeerURLExists: it has been done before.
      if (etcd.members.some(({ peerURLs }) => peerURLs.includes(step.peerURL))) return undefined;
      if (etcd.members.some(({ isLearner }) => isLearner))
        return { reason: 'ClusterUnreachable', message: 'too many learner members in cluster' };
      const alive = new Set(partakers(w, etcd).map(({ disk }) => disk.memberID));
      if (votersOf(etcd).some(({ id }) => !alive.has(id)))
        return { reason: 'ClusterUnreachable', message: 'unhealthy cluster' };
      const id = hash(`${etcd.id}|${step.peerURL}`);
      etcd.members = [...etcd.members, { id, name: '', peerURLs: [step.peerURL], clientURLs: [], isLearner: true }];
      yield;
      return undefined;
    }
    case 'Promote': {
      const etcd = spoken(w, decision);
      if (etcd === undefined) return { reason: 'ClusterUnreachable', message: 'no leader' };
      const inSync = partakers(w, etcd).some(
        ({ disk }) => disk.memberID === step.memberID && disk.revision === etcd.revision,
      );
      const members = etcd.members.map((member) =>
        member.id === step.memberID ? { ...member, isLearner: false } : member,
      );
      if (etcd.leader === undefined || !inSync || !keepsQuorum(w, etcd, members))
        return { reason: 'ClusterUnreachable', message: 'not ready' };
      etcd.members = members;
      return undefined;
    }
    case 'MoveLeader': {
      const etcd = spoken(w, decision);
      if (etcd !== undefined) etcd.leader = step.to;
      return undefined;
    }
    case 'Downgrade': {
      const etcd = spoken(w, decision);
      if (etcd?.leader === undefined) return { reason: 'ClusterUnreachable', message: 'no leader' };
      const target = minorNumber(step.target);
      if (step.action === 'enable' && etcd.minor !== target + 1)
        return { reason: 'ClusterUnreachable', message: 'invalid downgrade target version' };
      etcd.downgradeTo = step.action === 'enable' ? target : undefined;
      return undefined;
    }
    case 'RemoveMember': {
      const etcd = spoken(w, decision);
      const members = etcd?.members.filter(({ id }) => id !== step.memberID) ?? [];
      if (etcd === undefined || etcd.leader === undefined || !keepsQuorum(w, etcd, members)) {
        return { reason: 'ClusterUnreachable', message: 'unhealthy cluster' };
      }
      etcd.members = members;
      return undefined;
    }
    case 'EndOperation': {
      for (const pod of step.pods) {
        deletePod(w, pod);
        yield;
      }
      for (const volume of step.volumes) {
        deleteVolume(w, volume);
        yield;
      }
      const member = w.members.find(({ name }) => name === step.target);
      if (member !== undefined && isEmptied(step)) {
        writeMember(w, member.uid, emptiedStatus(member, step.outcome, w.now));
        yield;
      }
      const after = classify(afterEnd(situation.seen, step));
      writeQuorum(w, decision, reported(decision, after, step.next === undefined ? {} : begun(w, after, step.next)));
      return undefined;
    }
    case 'WriteMetadata':
      for (const { uid, annotations } of [...step.pods, ...step.volumes]) {
        const thing = [...w.pods, ...w.volumes].find((one) => one.uid === uid);
        const written = (key: string): string => annotations[key] ?? '';
        if (thing !== undefined) thing.metadata = written(ANNOTATIONS.metadata);
        if (thing !== undefined && 'templateHash' in thing) {
          thing.templateHash = written(ANNOTATIONS.template);
          thing.restartHash = written(ANNOTATIONS.restart);
        }
        yield;
      }
      return undefined;
    case 'Defragment':
    case 'Disarm':
      // Nothing in this world raises an alarm: the stories of that are told with the fake etcd, in test/controllers.
      return undefined;
    case 'BeginRecovery':
      w.givenUp = [...w.givenUp, step.clusterID];
      changeQuorum(w, decision, {
        operation: {
          id: draw(w, 'op'),
          kind: 'RecoverQuorum',
          target: step.target,
          step: step.stored === undefined ? 'fencing' : 'filling',
          since: new Date(w.now).toISOString(),
          incarnation: drawToken(w),
          recovery: recoveryBegun(step),
        },
      });
      return undefined;
    case 'Fence':
      for (const { uid } of step.pods) {
        const pod = w.pods.find((one) => one.uid === uid);
        if (pod !== undefined) pod.deleting = true;
        yield;
      }
      return undefined;
    case 'AdvanceRecovery': {
      const operation = situation.quorum?.status.operation;
      if (operation?.recovery === undefined) return undefined;
      const { revision } = step;
      changeQuorum(w, decision, {
        operation: {
          ...operation,
          step: step.to,
          recovery: {
            ...operation.recovery,
            ...(revision === undefined ? {} : { revision: String(revision) }),
            ...(step.to === 'fencing' ? { fencedSince: new Date(w.now).toISOString() } : {}),
          },
        },
      });
      return undefined;
    }
    case 'Seed':
      return yield* seedVolume(w, decision, step);
    case 'CompleteRecovery': {
      const { operation, recovered = [], loss, ...status } = situation.quorum?.status ?? {};
      const { survivors: _, snapshots: __, furthest: ___, ...rest } = status;
      if (operation?.recovery === undefined) return undefined;
      const entry = recoveryRecord(operation, operation.recovery, step, { now: w.now, lostAt: loss?.since });
      writeQuorum(w, decision, { ...rest, clusterID: step.clusterID, recovered: [...recovered, entry] });
      return undefined;
    }
    case 'AbandonRecovery': {
      for (const { uid } of step.pods) {
        const pod = w.pods.find((one) => one.uid === uid);
        if (pod !== undefined) pod.deleting = true;
        yield;
      }
      for (const volume of step.volumes) {
        deleteVolume(w, volume);
        yield;
      }
      const { operation, ...rest } = quorumStatus(decision)?.status ?? situation.quorum?.status ?? {};
      const member = w.members.find(({ name }) => name === operation?.target);
      if (member !== undefined && operation !== undefined) {
        const token = replacedIncarnation(operation);
        member.claimedPod = token === undefined ? undefined : incarnationName(member.name, token);
      }
      yield;
      w.givenUp = w.givenUp.filter((id) => id !== operation?.recovery?.clusterID);
      writeQuorum(w, decision, rest);
      return undefined;
    }
    case 'BeginRestore':
      changeQuorum(w, decision, {
        operation: {
          id: draw(w, 'op'),
          kind: 'Restore',
          target: step.target,
          step: 'filling',
          since: new Date(w.now).toISOString(),
          incarnation: drawToken(w),
          recovery: { source: step.uri, clusterID: '', revision: '0' },
        },
      });
      return undefined;
    case 'SeedFromSnapshot':
      return yield* seedVolume(w, decision, {
        ...step,
        source: { from: 'snapshot', location: step.location },
        bump: REVISION_BUMP,
      });
    case 'AdvanceRestore': {
      const operation = situation.quorum?.status.operation;
      if (operation?.recovery === undefined) return undefined;
      const recovery = { ...operation.recovery, revision: String(step.revision) };
      changeQuorum(w, decision, { operation: { ...operation, step: 'starting', recovery } });
      return undefined;
    }
    case 'CompleteRestore': {
      const { operation, ...rest } = situation.quorum?.status ?? {};
      if (operation?.recovery === undefined) return undefined;
      const { source: uri, revision: revisionBefore } = operation.recovery;
      const at = new Date(w.now).toISOString();
      const restored = { at, uri, revisionBefore, revisionAfter: String(step.revision) };
      writeQuorum(w, decision, { ...rest, clusterID: step.clusterID, restored });
      return undefined;
    }
    case 'AbandonRestore': {
      const operation = situation.quorum?.status.operation;
      if (operation !== undefined && operation.step !== 'abandoned' && !step.done) {
        changeQuorum(w, decision, { operation: { ...operation, step: 'abandoned' } });
        yield;
      }
      for (const { uid } of step.pods) {
        const pod = w.pods.find((one) => one.uid === uid);
        if (pod !== undefined) pod.deleting = true;
        yield;
      }
      for (const volume of step.volumes) {
        deleteVolume(w, volume);
        yield;
      }
      if (!step.done) return undefined;
      const member = w.members.find(({ name }) => name === operation?.target);
      if (member !== undefined) member.claimedPod = undefined;
      yield;
      const { operation: _gone, ...rest } = situation.quorum?.status ?? {};
      writeQuorum(w, decision, rest);
      return undefined;
    }
    case 'RetireLost':
      for (const volume of step.volumes) {
        deleteVolume(w, volume);
        yield;
      }
      return undefined;
    case 'BeginRestoreInPlace':
    case 'PrepareRestore':
    case 'PrepareElsewhere':
    case 'RecordVerified':
    case 'BeginCutOver':
    case 'StopReplaced':
    case 'NoteReached':
    case 'StartRestored':
    case 'CompleteRestoreInPlace':
    case 'GiveUpRestore':
      throw new Violation(`${step.do}: nobody restores in this world; that is told in test/controllers`);
    case 'GrowVolumes':
      return undefined;
    case 'LetGo':
      for (const { uid } of step.members) {
        const member = w.members.find((one) => one.uid === uid);
        if (member === undefined) continue;
        member.finalized = false;
        if (member.deleting) w.members = w.members.filter((one) => one !== member);
        yield;
      }
      return undefined;
    case 'Teardown':
      for (const pod of step.pods) {
        deletePod(w, pod);
        yield;
      }
      for (const { uid, retain } of step.volumes) {
        const volume = w.volumes.find((one) => one.uid === uid);
        if (volume !== undefined && retain) letGo(w, volume);
        else if (volume !== undefined) deleteVolume(w, volume);
        yield;
      }
      if (step.budget !== undefined) w.budget = undefined;
      for (const { uid, behind } of step.release) {
        const member = w.members.find((one) => one.uid === uid);
        const left = [...w.pods, ...w.volumes].filter((thing) => thing.member === member?.name);
        if (member === undefined || !left.every((thing) => thing.deleting && behind.includes(thing.uid))) continue;
        member.finalized = false;
        if (member.deleting) w.members = w.members.filter((one) => one !== member);
        yield;
      }
      return undefined;
    case 'UpdatePeer':
    case 'KeepPassword':
    case 'EnableAuth':
    case 'DisableAuth':
    case 'ChangePassword':
    case 'LatchAuth':
    case 'UseCertificate':
    case 'FetchCertificates':
      throw new Violation(`${step.do}: there is neither TLS nor a password in this world`);
    default:
      return step satisfies never;
  }
}

const GATHER_MS = 5_000;
const isIdle = (step: Step): boolean => step.do === 'Wait' || step.do === 'AskHuman' || step.do === 'Settled';

function* record(w: World, decision: Decision, fault: StepFault | undefined): Generator<void, void> {
  const { situation } = decision;
  for (const slot of situation.slots) {
    const status = memberStatus(situation, slot);
    if (status === undefined) continue;
    writeMember(w, slot.member.uid, status);
    yield;
  }
  const due = quorumStatus(decision, fault);
  if (due === undefined || (!due.urgent && w.now % GATHER_MS !== 0)) return;
  writeQuorum(w, decision, due.status);
}

export type Pass = { readonly decision: Decision; readonly fault: StepFault | undefined; readonly died: boolean };

/** What decides. Only the model takes another one than the real, to see that a wrong one is found out. */
export type Mind = {
  readonly decide: (seen: Observed) => Decision;
  readonly veto: (...of: Parameters<typeof brokenInvariant>) => string | undefined;
};
export const SOUND: Mind = { decide: plan, veto: brokenInvariant };

/** One pass; the controller dies after `life` effects. `seen` may be older than the world: a second one, or slow caches. */
export const pass = (
  w: World,
  life = Number.POSITIVE_INFINITY,
  seen: Observed = observe(w),
  mind: Mind = SOUND,
): Pass => {
  const decision = mind.decide(seen);
  for (const { pod, identity } of decision.situation.held) {
    if (pod?.etcd.known === true && identity.is === 'proven') w.revisions[pod.name] = pod.etcd.value.revision;
  }
  const veto = mind.veto(decision.situation, decision.step);
  if (veto !== undefined) throw new Violation(`veto on ${decision.step.do}: ${veto}`);
  let left = life;
  const drain = <T>(effects: Generator<void, T>): { done: boolean; value: T | undefined } => {
    for (;;) {
      if (left <= 0) return { done: false, value: undefined };
      const { done, value } = effects.next();
      check(w);
      if (done === true) return { done: true, value };
      left -= 1;
    }
  };
  const acted = drain(act(w, decision));
  if (!acted.done) w.revisions = {};
  if (!acted.done) return { decision, fault: undefined, died: true };
  const fault = acted.value;
  if (isIdle(decision.step) || fault !== undefined) {
    if (!drain(record(w, decision, fault)).done) return { decision, fault, died: true };
  }
  if (isIdle(decision.step)) checkServing(w);
  return { decision, fault, died: false };
};

// -------------------------------------------------------------------------------------------------- what must not be

export const check = (w: World): void => {
  const ours = w.etcd.filter(({ foreign }) => !foreign);
  const led = ours.filter((etcd) => hasQuorum(w, etcd));
  if (led.length > 1 && !w.slow)
    throw new Violation(`two clusters have a leader: ${led.map(({ id }) => id).join(', ')}`);
  const serving = new Set(w.served.filter((id) => !w.givenUp.includes(id)));
  if (serving.size > 1) throw new Violation(`two clusters took writes: ${w.served.join(', ')}`);
  for (const id of w.givenUp) {
    const etcd = w.etcd.find((one) => one.id === id);
    if (etcd !== undefined && serving.size > 0 && partakers(w, etcd).length > 0) {
      throw new Violation(`a member of ${id} runs beside the cluster that took its place`);
    }
  }
  for (const etcd of ours) {
    const learners = etcd.members.filter(({ isLearner }) => isLearner).length;
    if (learners > 1) throw new Violation(`${learners} learners`);
  }
  const tokens = new Set(
    w.pods
      .filter(({ config }) => setting(config, 'initial-cluster-state') === 'new')
      .map(({ config }) => setting(config, 'initial-cluster')),
  );
  if (tokens.size > 1 && !w.slow) throw new Violation('Pods of two attempts stand at once');
};

/** Once the runtime has nothing left to do, nobody unproven is open to clients. */
const checkServing = (w: World): void => {
  for (const pod of w.pods) {
    if (!pod.voterRole || !runs(pod) || pod.verified !== pod.container.id) continue;
    const disk = diskOf(w, pod);
    const etcd = w.etcd.find(({ id }) => id === disk?.clusterID);
    if (etcd?.foreign === true) throw new Violation(`${pod.name} serves foreign data`);
    if (!isLocked(pod.config)) throw new Violation(`${pod.name} serves without being locked`);
  }
};

// ---------------------------------------------------------------------------------------------------------- stories

/** Everything but clocks and counters: two worlds that are equal by this go the same way. */
export const fingerprint = (w: World): string =>
  JSON.stringify(
    {
      ...w,
      now: 0,
      writes: 0,
      draws: 0,
      revisions: 0,
      quorum: w.quorum === undefined ? undefined : { ...w.quorum, version: 0 },
      pods: w.pods.map((pod) => ({
        ...pod,
        verified: pod.verified !== undefined && pod.verified === pod.container.id,
        container: { running: pod.container.running, started: pod.container.id !== undefined },
      })),
    },
    (key, value: unknown) =>
      key === 'revision' || key === 'floor' || key === 'decision' || key === 'lastTransitionTime' || key === 'message'
        ? undefined
        : value,
  );

export type Line = { readonly rule: string; readonly step: Step; readonly fault: StepFault | undefined };

/**
 * Runs until nothing moves any more: the runtime at once while it has something to do, the others whenever it has not.
 * Throws a {@link Violation} on a step that changes nothing and is taken again, and if there is no end.
 */
export const run = (
  w: World,
  options: { passes?: number; each?: (line: Line) => void; until?: (step: Step) => boolean } = {},
): Decision => {
  let quiet = 0;
  let stubborn = 0;
  const recent: string[] = [];
  for (let i = 0; i < (options.passes ?? 400); i += 1) {
    const before = fingerprint(w);
    const { decision, fault } = pass(w);
    options.each?.({ rule: decision.rule, step: decision.step, fault });
    if (options.until?.(decision.step) === true) return decision;
    recent.push(`${decision.rule}: ${decision.step.do} ${decision.sketch}`);
    const changed = fingerprint(w) !== before;
    if (!isIdle(decision.step) && fault === undefined) {
      stubborn = changed ? 0 : stubborn + 1;
      if (stubborn > 2) throw new Violation(`livelock: ${recent.slice(-3).join('\n')}`);
      continue;
    }
    turn(w);
    quiet = changed || fingerprint(w) !== before ? 0 : quiet + 1;
    if (quiet >= 6) return decision;
  }
  throw new Violation(`no end:\n${recent.slice(-12).join('\n')}`);
};

// ----------------------------------------------------------------------------------------------------------- events

export const applyClaim = (w: World, replicas = 3, shape: Partial<Shape> = {}): void => {
  if (w.claim !== undefined) {
    w.claim.replicas = replicas;
    w.claim.shape = { ...w.claim.shape, ...shape };
    return;
  }
  w.claim = {
    uid: draw(w, 'claim'),
    deleting: false,
    clusterID: undefined,
    replicas,
    shape: { ...SHAPE, ...shape },
    recovery: undefined,
  };
  // A claim whose objects were left to it goes on; any other begins anew.
  if (!w.members.some(({ deleting, controllerUID }) => !deleting && controllerUID === undefined)) w.served = [];
};

export const deleteClaim = (w: World, how: 'background' | 'foreground' | 'orphan'): void => {
  if (w.claim === undefined) return;
  if (how === 'foreground') w.claim.deleting = true;
  if (how === 'background') w.claim = undefined;
  if (how !== 'orphan') return;
  const { uid } = w.claim ?? { uid: '' };
  for (const thing of [
    ...w.pods,
    ...w.members,
    ...(w.quorum === undefined ? [] : [w.quorum]),
    ...(w.budget === undefined ? [] : [w.budget]),
  ]) {
    if (thing.controllerUID === uid) thing.controllerUID = undefined;
  }
  w.claim = undefined;
};

export const podOf = (w: World, member: string): SimPod | undefined =>
  w.pods.filter((pod) => pod.member === member && !pod.deleting).at(-1);
export const volumeOf = (w: World, member: string): SimVolume | undefined =>
  w.volumes.filter((volume) => volume.member === member && !volume.deleting).at(-1);

/** The container ends and starts again; what happens to its disk meanwhile is the caller's business. */
export const restartContainer = (w: World, member: string): void => endContainer(podOf(w, member));

/** Who has the volume mounted, also in a Pod that was asked to go: data does not change under a running etcd. */
export const endOnVolume = (w: World, member: string): void => {
  const volume = volumeOf(w, member);
  endContainer(volume === undefined ? podOf(w, member) : w.pods.find(({ name }) => name === volume.name));
};

const endContainer = (pod: SimPod | undefined): void => {
  if (pod?.container.running !== true) return;
  // It ran well for long.
  pod.container.failures = 0;
  stopContainer(pod, { code: 137, message: '' });
};

/** Another cluster's data, as if the volume had been exchanged, in the very directory where this member's should be. */
export const foreignDisk = (w: World, member: string): void => {
  const volume = volumeOf(w, member);
  if (volume === undefined) return;
  const id = 'f00d';
  if (!w.etcd.some((etcd) => etcd.id === id)) {
    w.etcd.push({
      id,
      members: [
        {
          id: 'f1',
          name: 'elsewhere',
          peerURLs: ['http://elsewhere:2380'],
          clientURLs: ['http://elsewhere:2379'],
          isLearner: false,
        },
      ],
      revision: 1_000n,
      leader: undefined,
      foreign: true,
      minor: minorNumber(SHAPE.version),
      downgradeTo: undefined,
      served: true,
    });
  }
  volume.disk = { directory: volume.name, clusterID: id, memberID: 'f1', revision: 1_000n };
};
