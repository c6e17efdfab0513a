/** Carries out the steps by which a snapshot takes the place of a running cluster's data. */
import { randomUUID } from 'node:crypto';
import type { EtcdQuorumPastRestore, EtcdQuorumRestoring } from '../../api/etcdquorum.gen.ts';
import type { EtcdRestore } from '../../api/etcdrestore.gen.ts';
import { incarnationName } from '../../api/names.ts';
import { incarnationRefs } from '../core/member-pod.ts';
import { highest } from '../core/rules/restore-in-place.ts';
import { seedPodName } from '../core/seeding.ts';
import type { Step } from '../core/steps.ts';
import { resources } from '../ports/kube.ts';
import { unseenPods } from './recover.ts';
import { seed } from './seed.ts';
import {
  ASKED_TO_GO,
  changeQuorum,
  claimSlot,
  DONE,
  deleteAll,
  deletePods,
  type Outcome,
  type Scene,
} from './writes.ts';

export type RestoreInPlaceStep = Extract<
  Step,
  {
    do:
      | 'BeginRestoreInPlace'
      | 'PrepareRestore'
      | 'PrepareElsewhere'
      | 'RecordVerified'
      | 'BeginCutOver'
      | 'StopReplaced'
      | 'NoteReached'
      | 'StartRestored'
      | 'CompleteRestoreInPlace'
      | 'GiveUpRestore';
  }
>;

const EARLY_MS = 1_000;
/** As many as anybody will look back at, and as the record has room for. */
const REMEMBERED = 8;

const isThere = async ({ world, seen, signal }: Scene, restore: { name: string; uid: string }): Promise<boolean> => {
  const ref = { resource: resources.etcdrestores, namespace: seen.namespace, name: restore.name };
  const stored = await world.kube.get<EtcdRestore>(ref, { signal });
  return stored?.metadata.uid === restore.uid && stored.metadata.deletionTimestamp === undefined;
};

const instant = ({ seen }: Scene): string => new Date(seen.now).toISOString();

/** What is remembered of it when it has ended. */
const ended = (
  scene: Scene,
  of: EtcdQuorumRestoring,
  end: Pick<EtcdQuorumPastRestore, 'outcome' | 'reason' | 'message' | 'clusterID' | 'revisionAfter' | 'revisionBefore'>,
): EtcdQuorumPastRestore[] => {
  const { id, restore, restoreUID, uri, clusterID, since, stoppedAt, revisionBefore, verified } = of;
  const past = scene.decision.situation.quorum?.status.pastRestores ?? [];
  return [
    ...past,
    {
      id,
      restore,
      restoreUID,
      uri,
      since,
      at: instant(scene),
      lostClusterID: clusterID,
      ...(stoppedAt === undefined ? {} : { stoppedAt }),
      ...(revisionBefore === undefined ? {} : { revisionBefore }),
      ...(verified === undefined ? {} : { verified }),
      ...end,
    },
  ].slice(-REMEMBERED);
};

const giveUp = async (
  scene: Scene,
  of: EtcdQuorumRestoring,
  step: Extract<Step, { do: 'GiveUpRestore' }>,
): Promise<Outcome> => {
  const { seen, decision } = scene;
  const { restoring, operation } = decision.situation.quorum?.status ?? {};
  if (step.unwanted && of.failed === undefined && (await isThere(scene, { name: of.restore, uid: of.restoreUID }))) {
    return { was: 'early', recheckMs: EARLY_MS, why: `EtcdRestore ${of.restore} is there` };
  }
  // Recorded before anything is taken away: what is half gone must not be gone on with.
  if (restoring !== undefined && of.failed === undefined && !step.done) {
    await changeQuorum(scene, { restoring: { ...restoring, failed: step.why, failedReason: step.reason } });
  }
  await deleteAll(scene, resources.pods, step.pods);
  await deleteAll(scene, resources.persistentvolumeclaims, step.volumes);
  if (!step.done) return ASKED_TO_GO;
  const slot = decision.situation.slots.find(({ member }) => member.name === of.target);
  const starting = operation?.kind === 'RestoreInPlace' && operation.step === 'starting';
  // The references name what stands in the slot, and that is the member's own again.
  const own = starting
    ? seen.members
        .find(({ name }) => name === of.target)
        ?.volumes.find(({ clusterID, deleting }) => clusterID === of.clusterID && !deleting)?.incarnation
    : slot?.incarnation;
  if (slot !== undefined && own !== undefined) {
    await claimSlot(scene, slot.member, incarnationRefs({ member: of.target, token: own, spec: slot.member.spec }));
  }
  await changeQuorum(scene, {
    ...(operation?.kind === 'RestoreInPlace' ? { operation: undefined } : {}),
    restoring: undefined,
    pastRestores: ended(scene, of, { outcome: 'Failed', reason: step.reason, message: step.why }),
  });
  return DONE;
};

const complete = async (
  scene: Scene,
  of: EtcdQuorumRestoring,
  step: Extract<Step, { do: 'CompleteRestoreInPlace' }>,
): Promise<void> => {
  const { seen } = scene;
  const member = seen.members.find(({ name }) => name === of.target);
  if (member !== undefined) {
    await claimSlot(scene, member, incarnationRefs({ member: of.target, token: of.incarnation, spec: member.spec }));
  }
  // A single member can be written to until its Pod ends, and its floor was noted then.
  const floors = seen.members
    .flatMap(({ volumes }) => volumes)
    .flatMap(({ clusterID, revisionFloor }) => (clusterID === of.clusterID ? [revisionFloor ?? 0n] : []));
  const last = highest([...floors, BigInt(of.revisionBefore ?? '0')]);
  await changeQuorum(scene, {
    clusterID: step.clusterID,
    operation: undefined,
    restoring: undefined,
    pastRestores: ended(scene, of, {
      outcome: 'Complete',
      clusterID: step.clusterID,
      revisionBefore: String(last),
      revisionAfter: String(step.revision),
    }),
  });
};

const prepare = async (scene: Scene, step: Extract<Step, { do: 'PrepareRestore' }>): Promise<Outcome> => {
  const { member, incarnation, clusterToken, bump, location, sha256, present } = step;
  const { spec } = scene.seen.members.find(({ uid }) => uid === member.uid) ?? {};
  if (spec === undefined) return DONE;
  const outcome = await seed(scene, {
    member,
    incarnation,
    clusterToken,
    bump,
    // The member that runs comes first: what it is told by its references stays so.
    beside: present === undefined ? [] : incarnationRefs({ member: member.name, token: present, spec }),
    source: { from: 'snapshot', location, opened: true, sha256 },
  });
  const { restoring } = scene.decision.situation.quorum?.status ?? {};
  if (outcome.was !== 'refused' || restoring === undefined) return outcome;
  // A quota or a policy: until it is mended nothing can be made ready, and the cluster must not wait for that.
  await changeQuorum(scene, {
    restoring: { ...restoring, failed: outcome.fault.message, failedReason: outcome.fault.reason },
  });
  return DONE;
};

export const restoreInPlace = async (scene: Scene, step: RestoreInPlaceStep): Promise<Outcome> => {
  const { world, decision } = scene;
  const { operation, restoring } = decision.situation.quorum?.status ?? {};
  if (step.do === 'BeginRestoreInPlace') {
    if (!(await isThere(scene, step.restore))) {
      return { was: 'early', recheckMs: EARLY_MS, why: `EtcdRestore ${step.restore.name} is gone` };
    }
    await changeQuorum(scene, {
      restoring: {
        id: randomUUID(),
        restore: step.restore.name,
        restoreUID: step.restore.uid,
        uri: step.uri,
        clusterID: step.clusterID,
        target: step.target,
        incarnation: world.drawToken(),
        bump: String(step.bump),
        since: instant(scene),
      },
    });
    return DONE;
  }
  if (restoring === undefined) return DONE;
  switch (step.do) {
    case 'PrepareRestore':
      return prepare(scene, step);
    case 'PrepareElsewhere': {
      const { verified: _, ...begun } = restoring;
      const { target } = step;
      await changeQuorum(scene, {
        restoring: { ...begun, target, incarnation: world.drawToken(), bump: String(step.bump) },
      });
      return DONE;
    }
    case 'RecordVerified': {
      const { revision, keys, sha256, sizeBytes, etcdVersion, clusterID, hash } = step.verified;
      await changeQuorum(scene, {
        restoring: {
          ...restoring,
          verified: {
            at: instant(scene),
            revision: String(revision),
            keys: String(keys),
            sha256,
            sizeBytes,
            ...(etcdVersion === undefined ? {} : { etcdVersion }),
            ...(clusterID === undefined ? {} : { clusterID }),
            ...(hash === undefined ? {} : { hash }),
          },
        },
      });
      return DONE;
    }
    case 'BeginCutOver':
      if (!(await isThere(scene, { name: restoring.restore, uid: restoring.restoreUID }))) {
        return { was: 'early', recheckMs: EARLY_MS, why: `EtcdRestore ${restoring.restore} is gone` };
      }
      await changeQuorum(scene, {
        operation: {
          id: restoring.id,
          kind: 'RestoreInPlace',
          target: step.target,
          step: 'stopping',
          since: instant(scene),
          incarnation: step.incarnation,
        },
      });
      return DONE;
    case 'StopReplaced':
      await deletePods(scene, step.pods);
      return ASKED_TO_GO;
    case 'NoteReached':
      await changeQuorum(scene, { restoring: { ...restoring, revisionBefore: String(step.revision) } });
      return DONE;
    case 'StartRestored': {
      const left = await unseenPods(scene, [
        incarnationName(restoring.target, restoring.incarnation),
        seedPodName(restoring.target, restoring.incarnation),
      ]);
      if (left.length > 0) return { was: 'early', recheckMs: EARLY_MS, why: `${left.join(', ')} still exist` };
      if (operation === undefined) return DONE;
      await changeQuorum(scene, {
        operation: { ...operation, step: 'starting' },
        restoring: { ...restoring, stoppedAt: instant(scene) },
      });
      return DONE;
    }
    case 'CompleteRestoreInPlace':
      await complete(scene, restoring, step);
      return DONE;
    case 'GiveUpRestore':
      return giveUp(scene, restoring, step);
    default:
      return step satisfies never;
  }
};
