/** Makes the volume of a new incarnation and the Pod that fills it, from whatever source. */
import type { EtcdMemberResourceRef } from '../../api/etcdmember.gen.ts';
import { incarnationRefs, memberVolume } from '../core/member-pod.ts';
import { type SeedSource, seedPod, seedPodName } from '../core/seeding.ts';
import type { ObjectName } from '../core/steps.ts';
import { isFault, resources } from '../ports/kube.ts';
import { rootSecretOf } from './in-use-secrets.ts';
import { templateHash } from './template-hash.ts';
import { claimSlot, createOnce, DONE, type Outcome, REFUSALS, type Scene } from './writes.ts';

export type SeedOf = {
  readonly member: ObjectName;
  readonly incarnation: string;
  readonly clusterToken: string;
  readonly source: SeedSource;
  readonly bump: bigint;
  /** References of what else stands in the slot. */
  readonly beside?: readonly EtcdMemberResourceRef[];
};

/** References, then the volume, then the Pod that fills it. */
export const seed = async (scene: Scene, step: SeedOf): Promise<Outcome> => {
  const { world, seen, decision } = scene;
  const { quorum } = decision.situation;
  const member = seen.members.find(({ uid }) => uid === step.member.uid);
  const { agentImage } = world;
  if (member === undefined) return DONE;
  if (agentImage === undefined) {
    return {
      was: 'refused',
      fault: {
        reason: 'RecoveryRefused',
        message: 'this runtime does not know its own image: start it with --agent-image',
      },
    };
  }
  const { name, spec } = member;
  const clusterUID = quorum?.controllerUID;
  // References mean that something may have existed. Of a member in memory nothing does before its own Pod.
  const refs =
    spec.volumeClaimTemplate === undefined ? [] : incarnationRefs({ member: name, token: step.incarnation, spec });
  const { beside = [] } = step;
  await claimSlot(scene, step.member, [
    ...beside,
    // The Pod of a member is the one that stands there; another one's name would be taken for it.
    ...(beside.length === 0 ? refs : refs.filter(({ kind }) => kind !== 'Pod')),
    { apiVersion: 'v1', kind: 'Pod', name: seedPodName(name, step.incarnation) },
  ]);
  try {
    const volume = memberVolume({
      namespace: seen.namespace,
      member: name,
      spec,
      templateHash: templateHash(spec),
      restartHash: member.restartHash,
      token: step.incarnation,
      config: '',
      clusterUID,
    });
    if (volume !== undefined) {
      await createOnce(scene, resources.persistentvolumeclaims, world.caches.volumes, volume);
    }
    const pod = seedPod({
      namespace: seen.namespace,
      member: name,
      spec,
      token: step.incarnation,
      clusterToken: step.clusterToken,
      source: step.source,
      bump: step.bump,
      credentials:
        quorum === undefined
          ? undefined
          : rootSecretOf(world.secrets, { namespace: seen.namespace, name: seen.cluster }, quorum),
      agentImage,
      clusterUID,
    });
    await createOnce(scene, resources.pods, world.caches.pods, pod);
  } catch (error) {
    if (!isFault(error, ...REFUSALS)) throw error;
    return { was: 'refused', fault: { reason: 'PodRefused', message: error.message } };
  }
  return DONE;
};
