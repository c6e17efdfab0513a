/** Carries out the steps of a cluster that begins with the data of a snapshot. */
import { randomUUID } from 'node:crypto';
import { incarnationRefs } from '../core/member-pod.ts';
import { REVISION_BUMP } from '../core/seeding.ts';
import type { Step } from '../core/steps.ts';
import { resources } from '../ports/kube.ts';
import { seed } from './seed.ts';
import { ASKED_TO_GO, changeQuorum, claimSlot, DONE, deleteAll, type Outcome, type Scene } from './writes.ts';

export type RestoreStep = Extract<
  Step,
  { do: 'BeginRestore' | 'SeedFromSnapshot' | 'AdvanceRestore' | 'CompleteRestore' | 'AbandonRestore' }
>;

const complete = async (scene: Scene, step: Extract<Step, { do: 'CompleteRestore' }>): Promise<void> => {
  const { seen, decision } = scene;
  const { operation } = decision.situation.quorum?.status ?? {};
  if (operation?.recovery === undefined) return;
  const { target = '', incarnation = '' } = operation;
  const member = seen.members.find(({ name }) => name === target);
  // Without the Pod that filled the volume, which is gone.
  if (member !== undefined) {
    await claimSlot(scene, member, incarnationRefs({ member: target, token: incarnation, spec: member.spec }));
  }
  const { source, revision, snapshot } = operation.recovery;
  await changeQuorum(scene, {
    clusterID: step.clusterID,
    operation: undefined,
    restored: {
      at: new Date(seen.now).toISOString(),
      uri: source,
      revisionBefore: revision,
      revisionAfter: String(step.revision),
      ...(snapshot === undefined ? {} : { sha256: snapshot }),
    },
  });
};

export const restore = async (scene: Scene, step: RestoreStep): Promise<Outcome> => {
  const { world, seen, decision } = scene;
  const operation = decision.situation.quorum?.status.operation;
  switch (step.do) {
    case 'BeginRestore':
      await changeQuorum(scene, {
        operation: {
          id: randomUUID(),
          kind: 'Restore',
          target: step.target,
          step: 'filling',
          since: new Date(seen.now).toISOString(),
          incarnation: world.drawToken(),
          recovery: { source: step.uri, clusterID: '', revision: '0' },
        },
      });
      return DONE;
    case 'SeedFromSnapshot':
      return seed(scene, { ...step, source: { from: 'snapshot', location: step.location }, bump: REVISION_BUMP });
    case 'AdvanceRestore':
      if (operation?.recovery === undefined) return DONE;
      await changeQuorum(scene, {
        operation: {
          ...operation,
          step: 'starting',
          recovery: { ...operation.recovery, revision: String(step.revision), snapshot: step.snapshot },
        },
      });
      return DONE;
    case 'CompleteRestore':
      await complete(scene, step);
      return DONE;
    case 'AbandonRestore': {
      // Recorded before anything is taken away: what is half gone must not be gone on with.
      if (operation !== undefined && operation.step !== 'abandoned' && !step.done) {
        await changeQuorum(scene, { operation: { ...operation, step: 'abandoned' } });
      }
      await deleteAll(scene, resources.pods, step.pods);
      await deleteAll(scene, resources.persistentvolumeclaims, step.volumes);
      if (!step.done) return ASKED_TO_GO;
      const member = seen.members.find(({ name }) => name === operation?.target);
      if (member !== undefined) await claimSlot(scene, member, []);
      await changeQuorum(scene, { operation: undefined });
      return DONE;
    }
    default:
      return step satisfies never;
  }
};
