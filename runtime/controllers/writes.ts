/**
 * The writes that steps are made of, each safe to repeat and guarded by UID or resource version, and what a step is carried
 * out with. Which step writes what stands in act.ts and beside it.
 */
import type { PersistentVolumeClaim, Pod } from 'kubernetes-types/core/v1.js';
import type { EtcdMember, EtcdMemberResourceRef, EtcdMemberStatus } from '../../api/etcdmember.gen.ts';
import type { EtcdQuorum, EtcdQuorumStatus } from '../../api/etcdquorum.gen.ts';
import { ANNOTATIONS, API_VERSION, LABELS, MEMBER_FINALIZER } from '../../api/names.ts';
import type { Observed } from '../core/observed.ts';
import type { Decision } from '../core/plan.ts';
import { quorumStatus, type StepFault } from '../core/report.ts';
import type { Situation } from '../core/situation.ts';
import type { ObjectName } from '../core/steps.ts';
import { isFault, KubeFault, type KubeObject, type Resource, resources, type Stored } from '../ports/kube.ts';
import { mergeTo } from './status-patch.ts';
import { type Cache, FIELD_MANAGER, kinds, type World } from './world.ts';

export const DONE: Outcome = { was: 'done' };
/** A deletion shows only when the watch tells of it, and that wakes the pass; looking at once would only repeat it. */
export const ASKED_TO_GO: Outcome = { was: 'done', recheckMs: 200 };
const DELETED_REMEMBERED = 2_000;

export type Outcome =
  /** Look again, at once where nothing else is said. */
  | { readonly was: 'done'; readonly recheckMs?: number }
  /** Nothing wrong, nothing done: look again after a moment. */
  | { readonly was: 'early'; readonly recheckMs: number; readonly why: string }
  /** Refused or failed; the pass reports it and backs off. */
  | { readonly was: 'refused'; readonly fault: StepFault };

export type Scene = {
  readonly world: World;
  readonly decision: Decision;
  readonly seen: Observed;
  readonly signal: AbortSignal;
};

/** Answers to our writes go into the cache, so that the next pass sees what this one did. */
export const keep = <T extends KubeObject>(cache: Cache<T>, object: Stored<T>): void => cache.observe(object);

export const patchPod = async (
  { world, seen, signal }: Scene,
  pod: ObjectName,
  metadata: Record<string, unknown>,
): Promise<void> => {
  try {
    keep(
      world.caches.pods,
      await world.kube.mergePatch<Pod>(
        { resource: resources.pods, namespace: seen.namespace, name: pod.name },
        { metadata: { uid: pod.uid, ...metadata } },
        { signal, fieldManager: FIELD_MANAGER },
      ),
    );
  } catch (error) {
    // Gone: the next pass sees that.
    if (!isFault(error, 'NotFound')) throw error;
  }
};

/** False where there is no such volume. A write that did not happen for any other reason is told by a fault. */
export const patchVolume = async (
  { world, seen, signal }: Scene,
  name: string,
  metadata: Record<string, unknown>,
): Promise<boolean> => {
  try {
    keep(
      world.caches.volumes,
      await world.kube.mergePatch<PersistentVolumeClaim>(
        { resource: resources.persistentvolumeclaims, namespace: seen.namespace, name },
        { metadata },
        { signal, fieldManager: FIELD_MANAGER },
      ),
    );
    return true;
  } catch (error) {
    if (!isFault(error, 'NotFound')) throw error;
    return false;
  }
};

/** Notes on the volume how far its member had come, before it stops or starts; a floor only ever rises. */
export const raiseFloor = async (scene: Scene, volume: string): Promise<void> => {
  const highest = scene.world.revisions.get(volume);
  const present = scene.seen.members.flatMap(({ volumes }) => volumes).find(({ name }) => name === volume);
  if (highest === undefined || present === undefined || highest <= (present.revisionFloor ?? -1n)) return;
  if (present.memberID === undefined) return;
  await patchVolume(scene, volume, { uid: present.uid, annotations: { [ANNOTATIONS.revisionFloor]: String(highest) } });
};

export const deleteObject = async (
  { world, seen, signal }: Scene,
  resource: Resource,
  { name, uid }: ObjectName,
): Promise<void> => {
  const done = await world.kube.delete({ resource, namespace: seen.namespace, name }, { uid, signal });
  if (done === 'conflict') return;
  world.deleted.add(uid);
  // In order of insertion: the oldest are those of which every watch has told long ago.
  for (const old of world.deleted) {
    if (world.deleted.size <= DELETED_REMEMBERED) break;
    world.deleted.delete(old);
  }
};

export const deleteAll = async (scene: Scene, resource: Resource, objects: readonly ObjectName[]): Promise<void> => {
  await Promise.all(objects.map((object) => deleteObject(scene, resource, object)));
};

/**
 * Replaces the quorum's status as a whole. The resource version makes it a compare-and-swap: an attempt or an operation
 * is recorded by exactly one process, and on top of what it has seen.
 */
export const writeQuorum = async (
  { world, seen, signal }: Pick<Scene, 'world' | 'seen' | 'signal'>,
  status: EtcdQuorumStatus,
): Promise<void> => {
  const stored = world.caches.quorums.get(seen.namespace, seen.cluster);
  if (stored === undefined) throw new KubeFault('NotFound', `EtcdQuorum ${seen.namespace}/${seen.cluster} is gone`);
  keep(
    world.caches.quorums,
    await world.kube.mergePatch<EtcdQuorum>(
      { resource: kinds.quorums, namespace: seen.namespace, name: seen.cluster },
      {
        // The version that was decided on, not the one that happens to be at hand by now.
        metadata: {
          uid: stored.metadata.uid,
          resourceVersion: seen.quorum?.resourceVersion ?? stored.metadata.resourceVersion,
        },
        status: mergeTo(stored.status ?? {}, status),
      },
      { subresource: 'status', signal, fieldManager: FIELD_MANAGER },
    ),
  );
};

export const writeMember = async (
  { world, seen, signal }: Pick<Scene, 'world' | 'seen' | 'signal'>,
  member: ObjectName,
  status: EtcdMemberStatus,
): Promise<void> => {
  const stored = world.caches.members.get(seen.namespace, member.name);
  if (stored === undefined || stored.metadata.uid !== member.uid) return;
  try {
    keep(
      world.caches.members,
      await world.kube.mergePatch<EtcdMember>(
        { resource: kinds.members, namespace: seen.namespace, name: member.name },
        {
          // The status endpoint of a custom kind does not look at the UID: without the version, the status of a deleted
          // member would land on the one that Crossplane has made again under its name.
          metadata: { uid: member.uid, resourceVersion: stored.metadata.resourceVersion },
          status: mergeTo(stored.status ?? {}, status),
        },
        { subresource: 'status', signal, fieldManager: FIELD_MANAGER },
      ),
    );
  } catch (error) {
    if (!isFault(error, 'NotFound')) throw error;
  }
};

/** Fields to write; undefined takes one away. */
type QuorumChange = { readonly [Field in keyof EtcdQuorumStatus]?: EtcdQuorumStatus[Field] | undefined };

/** What is to be said once the step is taken goes into the same write: said afterwards, it would cost another one. */
export const reportedStatus = (decision: Decision, situation: Situation, change: QuorumChange): EtcdQuorumStatus => {
  const { quorum } = situation;
  const written = (status: QuorumChange): EtcdQuorumStatus =>
    Object.fromEntries(Object.entries(status).filter(([, value]) => value !== undefined));
  if (quorum === undefined) return written(change);
  const changed = written({ ...quorum.status, ...change });
  const said = quorumStatus({ ...decision, situation: { ...situation, quorum: { ...quorum, status: changed } } });
  return written({ ...(said?.status ?? changed), ...change });
};

export const changeQuorum = (scene: Scene, change: QuorumChange): Promise<void> =>
  writeQuorum(scene, reportedStatus(scene.decision, scene.decision.situation, change));

/** Finalizer, references and the claim's UID in one apply, by UID: before anything exists that would need them. */
export const claimSlot = async (
  scene: Scene,
  member: ObjectName,
  refs: readonly EtcdMemberResourceRef[],
): Promise<void> => {
  const { world, seen, signal, decision } = scene;
  const clusterUID =
    decision.situation.quorum?.controllerUID ?? seen.members.find(({ name }) => name === member.name)?.firstClaim;
  keep(
    world.caches.members,
    await world.kube.apply<EtcdMember>(
      kinds.members,
      {
        apiVersion: API_VERSION,
        kind: 'EtcdMember',
        metadata: {
          name: member.name,
          namespace: seen.namespace,
          uid: member.uid,
          finalizers: [MEMBER_FINALIZER],
          ...(clusterUID === undefined ? {} : { annotations: { [ANNOTATIONS.clusterUID]: clusterUID } }),
        },
        spec: { resourceRefs: [...refs] },
      } as unknown as EtcdMember,
      { fieldManager: FIELD_MANAGER, force: true, signal },
    ),
  );
};

export const createOnce = async <T extends KubeObject>(
  { world, signal }: Scene,
  resource: Resource<T>,
  cache: Cache<T>,
  object: T,
): Promise<void> => {
  try {
    keep(cache, await world.kube.create(resource, object, { signal, fieldManager: FIELD_MANAGER }));
  } catch (error) {
    // Names are never reused: what stands there is what an earlier try of this very step made.
    if (!isFault(error, 'AlreadyExists')) throw error;
  }
};

export const REFUSALS = ['Invalid', 'Forbidden', 'BadRequest'] as const;

export const retain = (scene: Scene, { name, uid }: ObjectName): Promise<boolean> =>
  // Without the label nothing of ours will ever touch it again, nor take it for a volume of a later cluster.
  patchVolume(scene, name, {
    uid,
    labels: { [LABELS.cluster]: null, [LABELS.retained]: scene.seen.cluster },
  });

export const deletePods = async (scene: Scene, pods: readonly ObjectName[]): Promise<void> => {
  await Promise.all(
    pods.map(async (pod) => {
      await raiseFloor(scene, pod.name);
      await deleteObject(scene, resources.pods, pod);
    }),
  );
};
