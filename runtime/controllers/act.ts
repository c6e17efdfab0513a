/**
 * Carries out one step. No decisions here: each effect is safe to repeat, guarded by UID or resource version, and what
 * the API server or etcd refuses comes back as a value.
 */
import { randomUUID } from 'node:crypto';
import type { PersistentVolumeClaim } from 'kubernetes-types/core/v1.js';
import type { PodDisruptionBudget } from 'kubernetes-types/policy/v1.js';
import type { EtcdMember } from '../../api/etcdmember.gen.ts';
import type { EtcdQuorumStatus } from '../../api/etcdquorum.gen.ts';
import { ANNOTATIONS, incarnationName, LABELS, MEMBER_FINALIZER, ROLE_VOTER } from '../../api/names.ts';
import type { Reason } from '../../api/reasons.ts';
import { afterEnd, type EndOperation, emptiedStatus, isEmptied } from '../core/ending.ts';
import { controlledBy, type Incarnation, incarnationRefs, memberPod, memberVolume } from '../core/member-pod.ts';
import { memberStatus } from '../core/member-report.ts';
import type { Decision } from '../core/plan.ts';
import type { StepFault } from '../core/report.ts';
import { withRepair } from '../core/rules/repair-budget.ts';
import { isStanding } from '../core/rules/standing.ts';
import { memoryFill } from '../core/seeding.ts';
import { classify, type Situation } from '../core/situation.ts';
import type { BeginOperation, ObjectName, Placement, Step } from '../core/steps.ts';
import { isFault, type KubeObject, resources, type Stored } from '../ports/kube.ts';
import { authenticate } from './authentication.ts';
import { setBudget } from './disruption-budget.ts';
import { useCertificate } from './in-use-secrets.ts';
import { clientsOf, downgrade, membershipCall, speakers } from './member-calls.ts';
import { recover } from './recover.ts';
import { restore } from './restore.ts';
import { restoreInPlace } from './restore-in-place.ts';
import { restartHash, templateHash } from './template-hash.ts';
import { FIELD_MANAGER, kinds, type World } from './world.ts';
import {
  ASKED_TO_GO,
  changeQuorum,
  claimSlot,
  createOnce,
  DONE,
  deleteAll,
  deleteObject,
  deletePods,
  keep,
  type Outcome,
  patchPod,
  patchVolume,
  REFUSALS,
  raiseFloor,
  reportedStatus,
  retain,
  type Scene,
  writeMember,
  writeQuorum,
} from './writes.ts';

const SECRETS_AGAIN_MS = 200;

const begun = ({ world, seen }: Scene, s: Situation, step: BeginOperation): Partial<EtcdQuorumStatus> => ({
  operation: {
    id: randomUUID(),
    kind: step.kind,
    target: step.target,
    step: 'begun',
    since: new Date(seen.now).toISOString(),
    ...(step.memberID === undefined ? {} : { memberID: step.memberID }),
    ...(step.cause === undefined ? {} : { cause: step.cause }),
    ...(step.kind === 'AddMember' ? { incarnation: world.drawToken() } : {}),
  },
  ...(step.cause === undefined ? {} : { repairs: withRepair(s, step.target, step.cause) }),
});

/** The person's mark has been heeded. */
const forgetRetry = async ({ world, seen, signal }: Scene, member: ObjectName): Promise<void> => {
  try {
    keep(
      world.caches.members,
      await world.kube.mergePatch<EtcdMember>(
        { resource: kinds.members, namespace: seen.namespace, name: member.name },
        { metadata: { uid: member.uid, annotations: { [ANNOTATIONS.retry]: null } } },
        { signal, fieldManager: FIELD_MANAGER },
      ),
    );
  } catch (error) {
    if (!isFault(error, 'NotFound')) throw error;
  }
};

const bringUp = async (scene: Scene, place: Placement): Promise<StepFault | undefined> => {
  const { world, seen, decision } = scene;
  const member = seen.members.find(({ uid }) => uid === place.member.uid);
  if (member === undefined) return undefined;
  const { fill } = place;
  if (fill !== undefined && world.agentImage === undefined) {
    const message = 'this runtime does not know its own image: start it with --agent-image';
    return { reason: 'RecoveryRefused', message };
  }
  const self = { namespace: seen.namespace, member: member.name, spec: member.spec, token: place.incarnation };
  const of: Incarnation = {
    ...self,
    templateHash: templateHash(member.spec),
    restartHash: restartHash(member.spec),
    config: place.config,
    ...(place.trust === undefined ? {} : { trust: place.trust }),
    clusterUID: decision.situation.quorum?.controllerUID,
    ...(fill === undefined ? {} : { fill: memoryFill({ ...self, ...fill, agentImage: world.agentImage ?? '' }) }),
  };
  const name = incarnationName(member.name, place.incarnation);
  await raiseFloor(scene, name);
  if (!member.finalized || member.claimedPod !== name) await claimSlot(scene, place.member, incarnationRefs(of));
  let volumeMade = !place.makeVolume;
  try {
    const volume = memberVolume(of);
    if (place.makeVolume && volume !== undefined) {
      await createOnce(scene, resources.persistentvolumeclaims, world.caches.volumes, volume);
      volumeMade = true;
    }
    await createOnce(scene, resources.pods, world.caches.pods, memberPod(of));
  } catch (error) {
    if (!isFault(error, ...REFUSALS)) throw error;
    // References say "it may have existed", so that a lost volume is never taken for one not made yet. Here it is
    // certain that nothing was made; without this, the attempt would be given up for a volume that never was.
    const nothingMade = place.makeVolume ? !volumeMade : member.spec.storage.medium === 'Memory';
    if (nothingMade) await claimSlot(scene, place.member, []);
    return { reason: 'PodRefused', message: error.message };
  }
  if (member.retry) await forgetRetry(scene, member);
  return undefined;
};

const adopt = async (scene: Scene, clusterUID: string): Promise<void> => {
  const { world, seen, signal } = scene;
  const owner = [controlledBy(seen.cluster, clusterUID)];
  const pods = seen.members
    .flatMap((member) => member.pods)
    .filter((pod) => !pod.deleting && pod.controllerUID !== clusterUID);
  await Promise.all(pods.map((pod) => patchPod(scene, pod, { ownerReferences: owner })));
  for (const slot of scene.decision.situation.slots) {
    const { member, incarnation } = slot;
    if (member.deleting) continue;
    if (member.finalized) await claimSlot(scene, member, member.spec.resourceRefs ?? []);
    else if (incarnation !== undefined && isStanding(slot)) {
      await claimSlot(scene, member, incarnationRefs({ member: member.name, token: incarnation, spec: member.spec }));
    }
  }
  for (const volume of seen.members.flatMap((member) => member.volumes)) {
    if (volume.clusterUID === clusterUID || volume.deleting) continue;
    await patchVolume(scene, volume.name, { uid: volume.uid, annotations: { [ANNOTATIONS.clusterUID]: clusterUID } });
  }
  if (seen.budget !== undefined && seen.budget.controllerUID !== clusterUID) {
    keep(
      world.caches.budgets,
      await world.kube.mergePatch<PodDisruptionBudget>(
        { resource: resources.poddisruptionbudgets, namespace: seen.namespace, name: seen.cluster },
        { metadata: { uid: seen.budget.uid, ownerReferences: owner } },
        { signal, fieldManager: FIELD_MANAGER },
      ),
    );
  }
  await changeQuorum(scene, { clusterUID });
};

const admit = async (scene: Scene, pod: Extract<Step, { do: 'Admit' }>['pods'][number]): Promise<void> => {
  const { decision, seen } = scene;
  const clusterUID = decision.situation.quorum?.controllerUID;
  if (pod.volume !== undefined) {
    const present = seen.members.flatMap(({ volumes }) => volumes).find(({ name }) => name === pod.volume);
    const floor = present?.revisionFloor ?? 0n;
    // A member that serves without its identity on its volume could later be started on an empty one.
    const noted = await patchVolume(scene, pod.volume, {
      annotations: {
        [ANNOTATIONS.clusterID]: pod.clusterID,
        [ANNOTATIONS.memberID]: pod.memberID,
        [ANNOTATIONS.revisionFloor]: String(pod.revision > floor ? pod.revision : floor),
        ...(clusterUID === undefined ? {} : { [ANNOTATIONS.clusterUID]: clusterUID }),
      },
    });
    if (!noted) return;
  }
  await patchPod(scene, pod, {
    labels: { [LABELS.role]: ROLE_VOTER },
    annotations: { [ANNOTATIONS.verifiedContainer]: pod.container },
  });
};

/**
 * The references in the member's spec stay: they name what is gone by then, but the slot is dropped or gets new ones at once,
 * and each write of the member costs the claim two tokens.
 */
const endOperation = async (scene: Scene, step: EndOperation): Promise<void> => {
  const { seen, decision } = scene;
  await deleteAll(scene, resources.pods, step.pods);
  await deleteAll(scene, resources.persistentvolumeclaims, step.volumes);
  const member = seen.members.find(({ name }) => name === step.target);
  if (member !== undefined && isEmptied(step)) {
    await writeMember(scene, member, emptiedStatus(member, step.outcome, seen.now));
  }
  const after = classify(afterEnd(seen, step));
  await writeQuorum(
    scene,
    reportedStatus(decision, after, step.next === undefined ? {} : begun(scene, after, step.next)),
  );
};

/** One more look past every cache: a Pod or volume that nobody holds any more would be left behind for ever. */
const releaseMember = async (
  { world, seen, signal }: Scene,
  member: Extract<Step, { do: 'Teardown' }>['release'][number],
): Promise<void> => {
  const labelSelector = `${LABELS.cluster}=${seen.cluster},${LABELS.member}=${member.name}`;
  const left = await Promise.all([
    world.kube.list(resources.pods, { namespace: seen.namespace, labelSelector, signal }),
    world.kube.list(resources.persistentvolumeclaims, { namespace: seen.namespace, labelSelector, signal }),
  ]);
  const goes = ({ metadata: { uid, deletionTimestamp } }: Stored<KubeObject>): boolean =>
    deletionTimestamp !== undefined && member.behind.includes(uid);
  if (!left.every(({ items }) => items.every(goes))) return;
  await dropFinalizer({ world, seen, signal }, member);
};

const dropFinalizer = async (
  { world, seen, signal }: Pick<Scene, 'world' | 'seen' | 'signal'>,
  member: ObjectName,
): Promise<void> => {
  const ref = { resource: kinds.members, namespace: seen.namespace, name: member.name };
  const stored = await world.kube.get<EtcdMember>(ref, { signal });
  if (stored === undefined || stored.metadata.uid !== member.uid) return;
  const finalizers = (stored.metadata.finalizers ?? []).filter((name) => name !== MEMBER_FINALIZER);
  try {
    keep(
      world.caches.members,
      await world.kube.mergePatch<EtcdMember>(
        ref,
        { metadata: { uid: member.uid, resourceVersion: stored.metadata.resourceVersion, finalizers } },
        { signal, fieldManager: FIELD_MANAGER },
      ),
    );
  } catch (error) {
    if (!isFault(error, 'NotFound')) throw error;
  }
};

const teardown = async (scene: Scene, step: Extract<Step, { do: 'Teardown' }>): Promise<void> => {
  await deleteAll(scene, resources.pods, step.pods);
  await Promise.all(
    step.volumes.map((volume) =>
      volume.retain ? retain(scene, volume) : deleteObject(scene, resources.persistentvolumeclaims, volume),
    ),
  );
  if (step.budget !== undefined) await deleteObject(scene, resources.poddisruptionbudgets, step.budget);
  for (const member of step.release) await releaseMember(scene, member);
};

const growVolumes = async (
  { world, seen, signal }: Scene,
  volumes: Extract<Step, { do: 'GrowVolumes' }>['volumes'],
): Promise<Outcome> => {
  for (const { name, size } of volumes) {
    try {
      keep(
        world.caches.volumes,
        await world.kube.mergePatch<PersistentVolumeClaim>(
          { resource: resources.persistentvolumeclaims, namespace: seen.namespace, name },
          { spec: { resources: { requests: { storage: size } } } },
          { signal, fieldManager: FIELD_MANAGER },
        ),
      );
    } catch (error) {
      if (!isFault(error, ...REFUSALS)) throw error;
      return { was: 'refused', fault: { reason: 'VolumeNotGrown', message: error.message } };
    }
  }
  return DONE;
};

/** Long enough for a slow disk: a defragmentation goes on in etcd when its caller has given up, and nobody is told how it ends. */
const defragmentationMs = (inUse: bigint): number => 60_000 + Number(inUse / 5_000n);

const countRepair = async (
  scene: Scene,
  repair: { readonly member: string; readonly cause: Reason } | undefined,
): Promise<void> => {
  if (repair === undefined) return;
  const member = scene.seen.members.find(({ name }) => name === repair.member);
  await changeQuorum(scene, { repairs: withRepair(scene.decision.situation, repair.member, repair.cause) });
  // A person's word counts for one repair; left there, it would free this member of every budget.
  if (member?.retry === true) await forgetRetry(scene, member);
};

const defragment = async (scene: Scene, step: Extract<Step, { do: 'Defragment' }>): Promise<Outcome> => {
  const pod = scene.seen.members.flatMap(({ pods }) => pods).find(({ uid }) => uid === step.pod.uid);
  const [client] = clientsOf(scene, pod);
  if (client === undefined) return DONE;
  await countRepair(scene, step.repair);
  return membershipCall([client], () =>
    client.defragment({ signal: scene.signal, deadlineMs: defragmentationMs(step.inUse) }),
  );
};

const disarm = async (scene: Scene, step: Extract<Step, { do: 'Disarm' }>): Promise<Outcome> => {
  await countRepair(scene, step.repair);
  for (const alarm of step.alarms) {
    const outcome = await membershipCall(speakers(scene), (client) => client.disarm(alarm, { signal: scene.signal }));
    if (outcome.was !== 'done') return outcome;
  }
  return DONE;
};

const perform = async (scene: Scene, step: Step): Promise<Outcome> => {
  const { world, seen, signal, decision } = scene;
  switch (step.do) {
    case 'Wait':
    case 'AskHuman':
    case 'Settled':
      return DONE;
    case 'RecordAttempt': {
      const members = step.members.map((name) => ({ name, incarnation: world.drawToken() }));
      const uid = decision.situation.quorum?.controllerUID ?? decision.situation.quorum?.uid ?? '';
      const startedAt = new Date(seen.now).toISOString();
      await changeQuorum(scene, {
        phase: 'Bootstrapping',
        bootstrap: { attempt: step.attempt, token: `${uid}-${step.attempt}`, members, startedAt },
      });
      return DONE;
    }
    case 'AbandonAttempt': {
      const bootstrap = decision.situation.quorum?.status.bootstrap;
      if (bootstrap !== undefined) await changeQuorum(scene, { bootstrap: { ...bootstrap, abandoned: step.why } });
      return DONE;
    }
    case 'ClearAttempt':
      await deleteAll(scene, resources.pods, step.pods);
      await deleteAll(scene, resources.persistentvolumeclaims, step.volumes);
      return ASKED_TO_GO;
    case 'BringUp': {
      const faults = await Promise.all(step.places.map((place) => bringUp(scene, place)));
      const fault = faults.find((one) => one !== undefined);
      return fault === undefined ? DONE : { was: 'refused', fault };
    }
    case 'Latch':
      await changeQuorum(scene, { clusterID: step.clusterID });
      return DONE;
    case 'ForgetRecord':
      await writeQuorum(scene, {});
      return DONE;
    case 'Adopt':
      await adopt(scene, step.clusterUID);
      return DONE;
    case 'Configure':
      await Promise.all(
        step.pods.map((pod) => patchPod(scene, pod, { annotations: { [ANNOTATIONS.config]: pod.config } })),
      );
      return DONE;
    case 'Admit':
      await Promise.all(step.pods.map((pod) => admit(scene, pod)));
      return DONE;
    case 'Dismiss':
      await Promise.all(
        step.pods.map((pod) =>
          patchPod(scene, pod, {
            labels: { [LABELS.role]: null },
            annotations: { [ANNOTATIONS.verifiedContainer]: null },
          }),
        ),
      );
      await Promise.all(step.pods.map((pod) => raiseFloor(scene, pod.name)));
      return DONE;
    case 'StopImpostor': {
      // The mark first: without it, the next pass would start a Pod on this volume again.
      const slot = decision.situation.slots.find(({ member }) => member.uid === step.member.uid);
      const status = slot === undefined ? undefined : memberStatus(decision.situation, slot);
      if (status !== undefined) await writeMember(scene, step.member, status);
      await deleteObject(scene, resources.pods, step.pod);
      return ASKED_TO_GO;
    }
    case 'DeletePods':
      await countRepair(scene, step.repair);
      await deletePods(scene, step.pods);
      return ASKED_TO_GO;
    case 'SetBudget':
      await setBudget(scene, step);
      return DONE;
    case 'BeginOperation':
      await changeQuorum(scene, begun(scene, decision.situation, step));
      return DONE;
    case 'AddLearner':
      return membershipCall(
        speakers(scene),
        // Not noted in the operation: the list has it by its URL, and who dies here finds it there.
        (client) => client.memberAddLearner([step.peerURL], { signal }),
        'PeerURLExists',
        'MemberExists',
      );
    case 'Promote':
      return membershipCall(
        speakers(scene, step.memberID),
        (client) => client.memberPromote(step.memberID, { signal }),
        'NotALearner',
      );
    case 'MoveLeader':
      return membershipCall(speakers(scene).slice(0, 1), (client) => client.moveLeader(step.to, { signal }));
    case 'Downgrade':
      return downgrade(scene, step);
    case 'UpdatePeer':
      return membershipCall(speakers(scene), (client) =>
        client.memberUpdate(step.memberID, [step.peerURL], { signal }),
      );
    case 'RemoveMember':
      return membershipCall(
        speakers(scene, step.memberID),
        (client) => client.memberRemove(step.memberID, { signal }),
        'MemberNotFound',
      );
    case 'Retire':
      await deleteAll(scene, resources.pods, step.pods);
      if (step.keep === true) await Promise.all(step.volumes.map((volume) => retain(scene, volume)));
      else await deleteAll(scene, resources.persistentvolumeclaims, step.volumes);
      return ASKED_TO_GO;
    case 'EndOperation':
      await endOperation(scene, step);
      return DONE;
    case 'WriteMetadata':
      await Promise.all([
        ...step.pods.map(({ labels, annotations, ...pod }) => patchPod(scene, pod, { labels, annotations })),
        ...step.volumes.map(({ name, uid, labels, annotations }) =>
          patchVolume(scene, name, { uid, labels, annotations }),
        ),
      ]);
      return DONE;
    case 'Defragment':
      return defragment(scene, step);
    case 'Disarm':
      return disarm(scene, step);
    case 'BeginRecovery':
    case 'Fence':
    case 'AdvanceRecovery':
    case 'Seed':
    case 'CompleteRecovery':
    case 'AbandonRecovery':
    case 'RetireLost':
      return recover(scene, step);
    case 'BeginRestore':
    case 'SeedFromSnapshot':
    case 'AdvanceRestore':
    case 'CompleteRestore':
    case 'AbandonRestore':
      return restore(scene, step);
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
      return restoreInPlace(scene, step);
    case 'KeepPassword':
    case 'EnableAuth':
    case 'ChangePassword':
    case 'DisableAuth':
    case 'LatchAuth':
      return authenticate(scene, step);
    case 'UseCertificate':
      return (await useCertificate(scene, step))
        ? DONE
        : { was: 'early', recheckMs: SECRETS_AGAIN_MS, why: 'the Secrets have changed since they were judged' };
    case 'FetchCertificates':
      await Promise.all(
        step.pods.map((pod) =>
          patchPod(scene, pod, { annotations: { [ANNOTATIONS.certificates]: step.certificates } }),
        ),
      );
      return DONE;
    case 'GrowVolumes':
      return growVolumes(scene, step.volumes);
    case 'LetGo':
      for (const member of step.members) await dropFinalizer(scene, member);
      return DONE;
    case 'Teardown':
      await teardown(scene, step);
      return ASKED_TO_GO;
    default:
      return step satisfies never;
  }
};

export const act = (world: World, decision: Decision, signal: AbortSignal): Promise<Outcome> =>
  perform({ world, decision, seen: decision.situation.seen, signal }, decision.step);
