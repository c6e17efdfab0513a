/** Gathers one honest value about one cluster: from caches what watches keep fresh, from the servers what must be exact. */
import type { ContainerState, ContainerStatus, PersistentVolumeClaim, Pod } from 'kubernetes-types/core/v1.js';
import type { EtcdMember } from '../../api/etcdmember.gen.ts';
import type { EtcdQuorum } from '../../api/etcdquorum.gen.ts';
import {
  ANNOTATIONS,
  addressURL,
  CONTAINER,
  incarnationName,
  LABELS,
  MEMBER_FINALIZER,
  ordinalOf,
  PORTS,
  ROLE_VOTER,
  SEED_ROLE,
} from '../../api/names.ts';
import { isShowingAsked } from '../core/ca-change.ts';
import {
  type Fact,
  known,
  type Observed,
  type SeenAuth,
  type SeenBudget,
  type SeenClaim,
  type SeenContainer,
  type SeenMember,
  type SeenPod,
  type SeenQuorum,
  type SeenSeed,
  type SeenVolume,
  unknown,
  unknownBy,
} from '../core/observed.ts';
import { type SeenRestore, sourceOf } from '../core/restores.ts';
import { isSeedPod, PLACE_STEP, seedOf } from '../core/seeding.ts';
import { knownSnapshot } from '../core/snapshots/known-snapshots.ts';
import { EtcdFault, type EtcdMemberClient, type EtcdMembership } from '../ports/etcd.ts';
import { resources, type Stored } from '../ports/kube.ts';
import { createDataHashes } from './data-hashes.ts';
import type { DeeperLook } from './deeper-look.ts';
import type { Dialled } from './dialler.ts';
import { createFreePages } from './free-pages.ts';
import { homeOf, hostOf } from './observe-nodes.ts';
import { withShown } from './observe-shown.ts';
import { strangersOf } from './observe-strangers.ts';
import { restartHash, templateHash } from './template-hash.ts';
import { type ClusterName, clusterKey, type World } from './world.ts';

const STATUS_DEADLINE_MS = 1_000;
/** Of a Pod that is ending, maybe on a node that is away: most probably it is silent, and each pass would wait for it. */
const ENDING_DEADLINE_MS = 150;
const LIST_DEADLINE_MS = 2_000;
/** Before this age a pending volume is asked for no reasons: provisioning takes its moment. */
const VOLUME_PATIENCE_MS = 4_000;

const milliseconds = (time: string | undefined): number | undefined =>
  time === undefined ? undefined : Date.parse(time);

const controllerUID = (object: { metadata?: Pod['metadata'] }): string | undefined =>
  object.metadata?.ownerReferences?.find(({ controller, kind }) => controller === true && kind === 'EtcdCluster')?.uid;

const exitOf = (state: ContainerState | undefined): SeenContainer['lastExit'] =>
  state?.terminated === undefined
    ? undefined
    : {
        code: state.terminated.exitCode,
        reason: state.terminated.reason ?? '',
        message: state.terminated.message ?? '',
        signal: state.terminated.signal,
      };

const seenContainer = (status: ContainerStatus | undefined): SeenContainer => {
  const { state, lastState, containerID, ready, restartCount } = status ?? {};
  return {
    id: containerID === undefined || containerID === '' ? undefined : containerID,
    state:
      state?.running !== undefined
        ? 'running'
        : state?.terminated !== undefined
          ? 'terminated'
          : state?.waiting !== undefined
            ? 'waiting'
            : 'unknown',
    ready: ready ?? false,
    restarts: restartCount ?? 0,
    waitingReason: state?.waiting?.reason,
    waitingMessage: state?.waiting?.message,
    startedAt: milliseconds(state?.running?.startedAt),
    lastExit: exitOf(state) ?? exitOf(lastState),
  };
};

const trustIn = (annotations: Readonly<Record<string, string>> = {}): SeenPod['trust'] => {
  const { [ANNOTATIONS.clientCA]: client, [ANNOTATIONS.peerCA]: peer } = annotations;
  return client === undefined && peer === undefined ? undefined : { client, peer };
};

const askStatus = async (
  world: World,
  cluster: ClusterName,
  pod: Dialled,
  signal: AbortSignal,
  deleting: boolean,
): Promise<SeenPod['etcd']> => {
  const deadlineMs = deleting ? ENDING_DEADLINE_MS : STATUS_DEADLINE_MS;
  for (let distrusted = 0; ; ) {
    const mark = world.dialler.mark(cluster);
    try {
      return known(await world.dialler.client(cluster, pod).status({ signal, deadlineMs }));
    } catch (error) {
      // A token that this member does not know yet, as a learner may not, says nothing of the password.
      const refused =
        error instanceof EtcdFault &&
        (error.reason === 'AuthRequired' ||
          (error.reason === 'InvalidAuth' && error.message.includes('authentication failed')));
      if (refused && world.dialler.turnDown(cluster, mark)) continue;
      const stranger = error instanceof EtcdFault && error.reason === 'TlsRefused';
      if (stranger && world.dialler.knowOtherwise(cluster, pod, distrusted++)) continue;
      return unknownBy(error);
    }
  }
};

const AUTH_STATUS_AGAIN_MS = 300_000;
const authAsked = new WeakMap<World, Map<string, { readonly at: number; readonly enabled: boolean }>>();

/**
 * Whether etcd asks for passwords. The question goes through raft's log, so it is put only where the answer may change what
 * is done, and now and then, because somebody may have turned it on or off by hand.
 */
const seenAuth = async (
  world: World,
  cluster: ClusterName,
  quorum: SeenQuorum | undefined,
  pods: readonly SeenPod[],
  signal: AbortSignal,
): Promise<SeenAuth | undefined> => {
  const { auth, tls } = quorum?.spec ?? {};
  const latched = quorum?.status.authEnabled === true;
  const seen = (enabled: Fact<boolean>): SeenAuth => ({ ...world.dialler.login(cluster), enabled });
  const { accepted } = world.dialler.login(cluster);
  if (accepted === 'none') return seen(known(true));
  // Without mutual TLS a member that asks for a password answers nobody who has none, so it shows by itself.
  const silent = tls?.client?.operatorClientSecretName !== undefined;
  if (auth === undefined && !latched && !silent) return undefined;
  const memory = authAsked.get(world) ?? new Map<string, { readonly at: number; readonly enabled: boolean }>();
  authAsked.set(world, memory);
  const key = clusterKey(cluster);
  const before = memory.get(key);
  const now = world.clock.elapsed();
  const fresh = before !== undefined && now - before.at < AUTH_STATUS_AGAIN_MS;
  const agreed = (auth?.enabled ?? false) === latched && before?.enabled === latched;
  if (fresh && agreed && (!latched || accepted === 'password')) return seen(known(before.enabled));
  const asked = pods.find((pod) => leads(pod) && pod.ip !== undefined);
  if (asked?.ip === undefined) return seen(unknown('no leader answers'));
  try {
    for (;;) {
      const mark = world.dialler.mark(cluster);
      const client = world.dialler.client(cluster, { name: asked.name, ip: asked.ip, config: asked.config });
      const status = await client.authStatus({ signal, deadlineMs: LIST_DEADLINE_MS });
      // Answered by its certificate, which is not root's: it would see everything and be refused every change.
      if (status === 'onForOthers' && world.dialler.turnDown(cluster, mark)) continue;
      const enabled = status !== 'off';
      memory.set(key, { at: now, enabled });
      return seen(known(enabled));
    }
  } catch (error) {
    return seen(unknownBy(error));
  }
};

const limitOf = (step: string, spec: Pod['spec']): string =>
  [...(spec?.initContainers ?? []), ...(spec?.containers ?? [])].find(({ name }) => name === step)?.resources?.limits
    ?.memory ?? 'its node has';

/** A step that failed, waits for an image, or keeps restarting beside the others; its words are the only ones there are. */
export const seenSeed = ({ metadata, spec, status }: Stored<Pod>): SeenSeed | undefined => {
  const isSeed = metadata.labels?.[LABELS.role] === SEED_ROLE;
  // A member in memory that was made from a snapshot has the same steps in its own Pod.
  if (!isSeed && spec?.initContainers?.some(({ name }) => name === PLACE_STEP) !== true) return undefined;
  const steps = [...(status?.initContainerStatuses ?? []), ...(status?.containerStatuses ?? [])];
  const troubles = steps.flatMap(({ name, image, state, lastState }) => {
    const ended = state?.terminated ?? (state?.running === undefined ? lastState?.terminated : undefined);
    if (ended !== undefined && ended.exitCode !== 0) {
      // Whoever is killed for lack of memory says nothing of it: the last words are of something else.
      const killed = ended.reason === 'OOMKilled' ? `OOMKilled: it needed more memory than ${limitOf(name, spec)}` : '';
      const words = killed || (ended.message ?? ended.reason ?? '').trim().split('\n').at(-1);
      return [`${name} ended with ${ended.exitCode}: ${words}`];
    }
    const { reason, message } = state?.waiting ?? {};
    // The kubelet's words change with every try, and a status that repeats them would never rest.
    if (reason?.includes('Image') === true)
      return [`${name}: the image ${image} cannot be pulled (${reason.replace('ErrImagePull', 'ImagePullBackOff')})`];
    return message === undefined || reason === 'PodInitializing' ? [] : [`${name}: ${reason}: ${message}`];
  });
  return {
    state: status?.phase === 'Succeeded' ? 'succeeded' : status?.phase === 'Failed' ? 'failed' : 'running',
    report: status?.containerStatuses?.[0]?.state?.terminated?.message,
    trouble: troubles[0] ?? status?.message,
  };
};

/** The scheduler's words where it finds no node. */
export const unschedulable = ({ status }: Stored<Pod>): string | undefined => {
  const scheduled = status?.conditions?.find(({ type }) => type === 'PodScheduled');
  return scheduled?.status === 'False' ? (scheduled.message ?? scheduled.reason) : undefined;
};

const seenPod = async (world: World, cluster: ClusterName, pod: Stored<Pod>, signal: AbortSignal): Promise<SeenPod> => {
  const { metadata, status } = pod;
  const container = seenContainer(status?.containerStatuses?.find(({ name }) => name === CONTAINER));
  const ip = status?.podIP;
  const config = metadata.annotations?.[ANNOTATIONS.config];
  const condition = (type: string) => status?.conditions?.find((one) => one.type === type);
  const node = pod.spec?.nodeName;
  const host = node === undefined ? undefined : await hostOf(world, node, signal);
  const deleting = metadata.deletionTimestamp !== undefined || world.deleted.has(metadata.uid);
  const etcd: SeenPod['etcd'] =
    container.state !== 'running' || ip === undefined
      ? unknown('etcd is not running')
      : await askStatus(world, cluster, { name: metadata.name, ip, config }, signal, deleting);
  return {
    name: metadata.name,
    uid: metadata.uid,
    incarnation: metadata.labels?.[LABELS.incarnation] ?? '',
    deleting,
    phase: (status?.phase ?? 'Unknown') as SeenPod['phase'],
    node,
    host,
    ip,
    ready: condition('Ready')?.status === 'True',
    unschedulable: unschedulable(pod),
    createdAt: milliseconds(metadata.creationTimestamp) ?? world.clock.now(),
    controllerUID: controllerUID(pod),
    voterRole: metadata.labels?.[LABELS.role] === ROLE_VOTER,
    config,
    trust: trustIn(metadata.annotations),
    certificates: metadata.annotations?.[ANNOTATIONS.certificates],
    templateHash: metadata.annotations?.[ANNOTATIONS.template],
    restartHash: metadata.annotations?.[ANNOTATIONS.restart],
    metadata: metadata.annotations?.[ANNOTATIONS.metadata],
    verifiedContainer: metadata.annotations?.[ANNOTATIONS.verifiedContainer],
    container,
    seed: seenSeed(pod),
    etcd,
  };
};

/** The health port is in the clear in every cluster; it tells nothing that is secret. */
const metricsURL = (ip: string): string => addressURL('http', ip, PORTS.metrics);

/** Without quorum a member that has restarted serves no clients, and its metrics port is the only one to tell of its data. */
const withMetrics = async (world: World, pod: SeenPod, signal: AbortSignal): Promise<SeenPod> => {
  if (pod.etcd.known || pod.ip === undefined || pod.container.state !== 'running') return pod;
  const metrics = await world.probe
    .metrics(metricsURL(pod.ip), { signal, deadlineMs: STATUS_DEADLINE_MS })
    .then(
      ({ currentRevision: revision, isLearner }) =>
        revision === undefined ? unknown('its metrics tell no revision') : known({ revision, isLearner }),
      unknownBy,
    );
  return { ...pod, metrics };
};

/** The provisioner's last complaint. Only events tell it, and only the API server has them. */
const volumeTrouble = async (
  world: World,
  volume: Stored<PersistentVolumeClaim>,
  signal: AbortSignal,
): Promise<string | undefined> => {
  const age = world.clock.now() - (milliseconds(volume.metadata.creationTimestamp) ?? 0);
  if (volume.status?.phase === 'Bound' || age < VOLUME_PATIENCE_MS) return undefined;
  const { namespace } = volume.metadata;
  const { items } = await world.kube
    .list(resources.events, { namespace, fieldSelector: `involvedObject.uid=${volume.metadata.uid}`, signal })
    .catch(() => ({ items: [] }));
  const complaints = items
    .filter(({ type }) => type === 'Warning')
    .toSorted((a, b) => (a.lastTimestamp ?? '').localeCompare(b.lastTimestamp ?? ''));
  return complaints.at(-1)?.message;
};

/** Only where the answer matters: its Pod finds no node, or the node that it has will not come back. */
const asksForHome = ({ node, host, unschedulable, createdAt }: SeenPod, now: number): boolean =>
  node === undefined
    ? // While it waits for its volume to be made, the scheduler says nothing.
      unschedulable !== undefined || now - createdAt >= VOLUME_PATIENCE_MS
    : host?.is === 'gone' || host?.is === 'outOfService';

const seenVolume = async (
  world: World,
  volume: Stored<PersistentVolumeClaim>,
  asksHome: boolean,
  signal: AbortSignal,
): Promise<SeenVolume> => {
  const { metadata, status } = volume;
  const note = (key: string): string | undefined => metadata.annotations?.[key];
  const floor = note(ANNOTATIONS.revisionFloor);
  return {
    name: metadata.name,
    uid: metadata.uid,
    incarnation: metadata.labels?.[LABELS.incarnation] ?? '',
    deleting: metadata.deletionTimestamp !== undefined || world.deleted.has(metadata.uid),
    phase: (status?.phase ?? 'Pending') as SeenVolume['phase'],
    createdAt: milliseconds(metadata.creationTimestamp) ?? world.clock.now(),
    clusterUID: note(ANNOTATIONS.clusterUID),
    clusterID: note(ANNOTATIONS.clusterID),
    memberID: note(ANNOTATIONS.memberID),
    revisionFloor: floor !== undefined && /^\d+$/.test(floor) ? BigInt(floor) : undefined,
    requested: volume.spec?.resources?.requests?.storage,
    metadata: note(ANNOTATIONS.metadata),
    trouble: await volumeTrouble(world, volume, signal),
    home: asksHome ? await homeOf(world, volume, signal) : undefined,
  };
};

const seenMember = (
  member: Stored<EtcdMember>,
  ordinal: number,
  pods: readonly SeenPod[],
  volumes: readonly SeenVolume[],
): SeenMember => {
  const { metadata, spec, status } = member;
  return {
    name: metadata.name,
    ordinal,
    uid: metadata.uid,
    generation: metadata.generation ?? 0,
    createdAt: milliseconds(metadata.creationTimestamp),
    deleting: metadata.deletionTimestamp !== undefined,
    composed: metadata.labels?.['crossplane.io/composite'] !== undefined,
    controllerUID: controllerUID(member),
    finalized: metadata.finalizers?.includes(MEMBER_FINALIZER) ?? false,
    firstClaim: metadata.annotations?.[ANNOTATIONS.clusterUID] ?? status?.clusterUID,
    retry: metadata.annotations?.[ANNOTATIONS.retry] !== undefined,
    claimedPod: spec.resourceRefs?.find(({ kind, name }) => kind === 'Pod' && !isSeedPod({ name }))?.name,
    spec,
    status: status ?? {},
    templateHash: templateHash(spec),
    restartHash: restartHash(spec),
    pods,
    volumes,
  };
};

const seenQuorum = (quorum: Stored<EtcdQuorum>): SeenQuorum => ({
  uid: quorum.metadata.uid,
  resourceVersion: quorum.metadata.resourceVersion,
  generation: quorum.metadata.generation ?? 0,
  deleting: quorum.metadata.deletionTimestamp !== undefined,
  controllerUID: controllerUID(quorum),
  spec: quorum.spec,
  status: quorum.status ?? {},
});

/** The leader answers best: a follower only passes the question on. */
const memberList = async (
  world: World,
  cluster: ClusterName,
  pods: readonly SeenPod[],
  signal: AbortSignal,
): Promise<Fact<EtcdMembership>> => {
  const led = pods.filter(({ etcd }) => etcd.known && etcd.value.leaderId !== undefined && !etcd.value.isLearner);
  const first = led.toSorted((a, b) => Number(leads(b)) - Number(leads(a)));
  if (first.length === 0) return unknown('no member answers that knows of a leader');
  let why = '';
  for (const { ip, name, config } of first.slice(0, 2)) {
    if (ip === undefined) continue;
    try {
      const client = world.dialler.client(cluster, { name, ip, config });
      return known(await client.memberList({ linearizable: true }, { signal, deadlineMs: LIST_DEADLINE_MS }));
    } catch (error) {
      why = `${name}: ${error instanceof Error ? error.message : String(error)}`;
    }
  }
  return unknown(why);
};
const leads = ({ etcd }: SeenPod): boolean => etcd.known && etcd.value.leaderId === etcd.value.memberId;

const readClaim = async (world: World, cluster: ClusterName, signal: AbortSignal): Promise<Fact<SeenClaim>> => {
  try {
    const claim = await world.kube.get({ resource: resources.etcdclusters, ...cluster }, { signal });
    if (claim === undefined) return known({ exists: false });
    const clusterID = claim.status?.clusterID;
    return known({
      exists: true,
      uid: claim.metadata.uid,
      deleting: claim.metadata.deletionTimestamp !== undefined,
      clusterID: typeof clusterID === 'string' ? clusterID : undefined,
    });
  } catch (error) {
    return unknownBy(error);
  }
};

const readNamespace = async (world: World, name: string, signal: AbortSignal): Promise<Fact<boolean>> => {
  try {
    const namespace = await world.kube.get({ resource: resources.namespaces, name }, { signal });
    return known(namespace === undefined || namespace.metadata.deletionTimestamp !== undefined);
  } catch (error) {
    return unknownBy(error);
  }
};

/**
 * Whether this pass may come to a decision that needs the claim and the namespace as they are at this moment: deleting,
 * repairing, forming, adopting. A settled cluster needs neither, and then they are not read.
 */
export const needsExactness = (
  members: readonly SeenMember[],
  quorum: SeenQuorum | undefined,
  budget: SeenBudget | undefined,
): boolean => {
  const uid = quorum?.controllerUID;
  return (
    quorum === undefined ||
    (quorum.status.bootstrap === undefined && quorum.status.clusterID === undefined) ||
    quorum.status.bootstrap?.abandoned !== undefined ||
    (quorum.status.clusterUID !== undefined && quorum.status.clusterUID !== uid) ||
    (budget !== undefined && budget.controllerUID !== uid) ||
    members.some(
      ({ deleting, pods, volumes, spec, status, firstClaim }) =>
        deleting ||
        (spec.storage.medium !== 'Memory' &&
          pods.some(({ name }) => !volumes.some((volume) => volume.name === name && !volume.deleting))) ||
        (status.incarnation !== undefined && !pods.some((pod) => !pod.deleting)) ||
        (firstClaim !== undefined && firstClaim !== uid) ||
        pods.some((pod) => pod.controllerUID !== uid || pod.phase === 'Failed' || pod.phase === 'Succeeded'),
    ) ||
    // Every slot of an attempt has a Pod soon; one without may be without because everything is being deleted.
    members.some(({ pods }) => pods.length === 0)
  );
};

const isDue = ({ phase }: SeenRestore): boolean => phase !== 'Complete' && phase !== 'Failed';

const seenRestores = ({ caches, clock }: World, cluster: ClusterName): readonly SeenRestore[] =>
  caches.restores
    .byIndex(clusterKey(cluster))
    .map(({ metadata, spec, status }) => ({
      name: metadata.name,
      uid: metadata.uid,
      createdAt: milliseconds(metadata.creationTimestamp) ?? clock.now(),
      deleting: metadata.deletionTimestamp !== undefined,
      phase: status?.phase,
      clusterID: spec.clusterID,
      source: sourceOf(spec, caches.snapshots.get(cluster.namespace, spec.source.snapshotRef?.name ?? '')),
    }))
    .toSorted((a, b) => (a.name < b.name ? -1 : 1));

type DeeperLooks = { readonly freePages: DeeperLook; readonly dataHashes: DeeperLook };
const deeperLooksOf = new WeakMap<World, DeeperLooks>();

const lookDeeper = async <T extends { readonly seen: SeenPod }>(
  world: World,
  cluster: ClusterName,
  pods: readonly T[],
  signal: AbortSignal,
): Promise<readonly T[]> => {
  const elapsed = (): number => world.clock.elapsed();
  const looks = deeperLooksOf.get(world) ?? {
    freePages: createFreePages(elapsed),
    dataHashes: createDataHashes(elapsed),
  };
  deeperLooksOf.set(world, looks);
  const clientOf = ({ name, ip, config, etcd }: SeenPod): EtcdMemberClient | undefined =>
    ip === undefined || !etcd.known ? undefined : world.dialler.client(cluster, { name, ip, config });
  const key = clusterKey(cluster);
  const measured = await looks.freePages(
    key,
    pods.map((pod) => pod.seen),
    clientOf,
    signal,
  );
  const seen = await looks.dataHashes(key, measured, clientOf, signal);
  return pods.map((pod, i) => ({ ...pod, seen: seen[i] ?? pod.seen }));
};

export const observe = async (world: World, cluster: ClusterName, signal: AbortSignal): Promise<Observed> => {
  const { caches } = world;
  const key = clusterKey(cluster);
  const stored = caches.quorums.get(cluster.namespace, cluster.name);
  const quorum = stored === undefined ? undefined : seenQuorum(stored);
  const certificates = await world.dialler.prepare(cluster, quorum);
  world.dialler.loginAt(
    cluster,
    caches.pods.byIndex(key).flatMap(({ metadata, status }) => {
      const serves =
        metadata.labels?.[LABELS.role] === ROLE_VOTER &&
        metadata.deletionTimestamp === undefined &&
        status?.conditions?.some(({ type, status: value }) => type === 'Ready' && value === 'True') === true;
      return !serves || status?.podIP === undefined
        ? []
        : [{ name: metadata.name, ip: status.podIP, config: metadata.annotations?.[ANNOTATIONS.config] }];
    }),
  );
  const answered = await Promise.all(
    caches.pods.byIndex(key).map(async (pod) => ({ pod, seen: await seenPod(world, cluster, pod, signal) })),
  );
  const { restoring } = quorum?.status ?? {};
  const volumes = await Promise.all(
    caches.volumes.byIndex(key).map(async (volume) => {
      const { name } = volume.metadata;
      const users = answered.filter(({ seen }) => seen.name === name || seen.name === seedOf(name));
      // What was made ready for a restore waits for its member without a Pod.
      const asks =
        users.length === 0
          ? name === incarnationName(restoring?.target ?? '', restoring?.incarnation ?? '')
          : users.some(({ seen }) => asksForHome(seen, world.clock.now()));
      return { volume, seen: await seenVolume(world, volume, asks, signal) };
    }),
  );
  const pods = await lookDeeper(world, cluster, answered, signal);
  const byName = (a: { name: string }, b: { name: string }): number => (a.name < b.name ? -1 : 1);
  const members = caches.members
    .byIndex(key)
    .flatMap((member) => {
      const { name } = member.metadata;
      const ordinal = ordinalOf(cluster.name, name);
      if (ordinal === undefined) return [];
      const mine = ({ metadata }: { metadata: { labels?: Record<string, string> } }): boolean =>
        metadata.labels?.[LABELS.member] === name;
      return [
        seenMember(
          member,
          ordinal,
          pods
            .filter(({ pod }) => mine(pod))
            .map(({ seen }) => seen)
            .toSorted(byName),
          volumes
            .filter(({ volume }) => mine(volume))
            .map(({ seen }) => seen)
            .toSorted(byName),
        ),
      ];
    })
    .toSorted((a, b) => a.ordinal - b.ordinal);

  const pdb = caches.budgets.get(cluster.namespace, cluster.name);
  const budget: SeenBudget | undefined =
    pdb === undefined
      ? undefined
      : {
          uid: pdb.metadata.uid,
          deleting: pdb.metadata.deletionTimestamp !== undefined || world.deleted.has(pdb.metadata.uid),
          controllerUID: controllerUID(pdb),
          minAvailable: typeof pdb.spec?.minAvailable === 'number' ? pdb.spec.minAvailable : undefined,
          alwaysEvictUnhealthy: pdb.spec?.unhealthyPodEvictionPolicy === 'AlwaysAllow',
          metadata: pdb.metadata.annotations?.[ANNOTATIONS.metadata],
        };

  const auth = await seenAuth(
    world,
    cluster,
    quorum,
    pods.map(({ seen }) => seen),
    signal,
  );
  const restores = seenRestores(world, cluster);
  const exact =
    needsExactness(members, quorum, budget) || quorum?.status.restoring !== undefined || restores.some(isDue);
  const [membership, claim, namespaceTerminating] = await Promise.all([
    memberList(
      world,
      cluster,
      pods.map(({ seen }) => seen),
      signal,
    ),
    exact ? readClaim(world, cluster, signal) : unknown('not asked in this pass'),
    exact ? readNamespace(world, cluster.namespace, signal) : unknown('not asked in this pass'),
  ]);
  const seen: Observed = {
    namespace: cluster.namespace,
    cluster: cluster.name,
    now: world.clock.now(),
    namespaceTerminating,
    claim,
    quorum,
    members:
      membership.known || quorum?.status.clusterID === undefined
        ? members
        : await Promise.all(
            members.map(async (member) => ({
              ...member,
              pods: await Promise.all(member.pods.map((pod) => withMetrics(world, pod, signal))),
            })),
          ),
    budget,
    ...(certificates.length === 0 ? {} : { certificates }),
    ...(auth === undefined ? {} : { auth }),
    membership,
    ...(membership.known
      ? {}
      : {
          snapshots: caches.snapshots.byIndex(key).flatMap((snapshot) => knownSnapshot(snapshot) ?? []),
          backups: caches.schedules.byIndex(key).map(({ spec }) => spec.destination),
          lastSeen: world.lastSeen.get(key),
        }),
    patience: world.patience,
    agentImage: world.agentImage,
    ...(restores.length === 0 ? {} : { restores }),
  };
  const asked = isShowingAsked({ seen }) ? await withShown(world, seen, signal) : seen;
  const strangers = await strangersOf(world, asked, signal);
  return strangers.length === 0 ? asked : { ...asked, strangers };
};
