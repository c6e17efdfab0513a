/** Writes the PodDisruptionBudget of a cluster. How many voters it keeps, the plan says. */
import type { PodDisruptionBudget } from 'kubernetes-types/policy/v1.js';
import type { EtcdQuorum } from '../../api/etcdquorum.gen.ts';
import { ANNOTATIONS, API_VERSION, clusterLabels, GROUP, voterSelector } from '../../api/names.ts';
import { controlledBy } from '../core/member-pod.ts';
import type { Step } from '../core/steps.ts';
import { metadataRecord } from '../core/template-metadata.ts';
import { resources } from '../ports/kube.ts';
import { FIELD_MANAGER, kinds } from './world.ts';
import { deleteObject, keep, type Scene } from './writes.ts';

/** What `crossplane resource trace` shows under the quorum. */
const referBudget = async (scene: Scene, present: boolean): Promise<void> => {
  const { world, seen, signal, decision } = scene;
  const { quorum } = decision.situation;
  if (quorum === undefined || (quorum.spec.resourceRefs ?? []).length > 0 === present) return;
  keep(
    world.caches.quorums,
    await world.kube.apply<EtcdQuorum>(
      kinds.quorums,
      {
        apiVersion: API_VERSION,
        kind: 'EtcdQuorum',
        metadata: { name: seen.cluster, namespace: seen.namespace, uid: quorum.uid },
        spec: {
          resourceRefs: present ? [{ apiVersion: 'policy/v1', kind: 'PodDisruptionBudget', name: seen.cluster }] : [],
        },
      } as unknown as EtcdQuorum,
      { fieldManager: FIELD_MANAGER, force: true, signal },
    ),
  );
};

/** The reference first, both ways: whether the step is done shows in the budget, so the budget must be what comes last. */
export const setBudget = async (scene: Scene, step: Extract<Step, { do: 'SetBudget' }>): Promise<void> => {
  const { world, seen, signal, decision } = scene;
  const { quorum } = decision.situation;
  const name = seen.cluster;
  await referBudget(scene, step.minAvailable !== undefined);
  if (step.minAvailable === undefined) {
    if (seen.budget !== undefined)
      await deleteObject(scene, resources.poddisruptionbudgets, { name, uid: seen.budget.uid });
    return;
  }
  const extra = quorum?.spec.additionalMetadata;
  const applied = extra === undefined ? {} : { [ANNOTATIONS.metadata]: metadataRecord(extra) };
  const own = ([key]: [string, string]): boolean => !key.startsWith(`${GROUP}/`);
  keep(
    world.caches.budgets,
    await world.kube.apply<PodDisruptionBudget>(
      resources.poddisruptionbudgets,
      {
        apiVersion: 'policy/v1',
        kind: 'PodDisruptionBudget',
        metadata: {
          name,
          namespace: seen.namespace,
          labels: { ...Object.fromEntries(Object.entries(extra?.labels ?? {}).filter(own)), ...clusterLabels(name) },
          annotations: { ...Object.fromEntries(Object.entries(extra?.annotations ?? {}).filter(own)), ...applied },
          ...(quorum?.controllerUID === undefined
            ? {}
            : { ownerReferences: [controlledBy(name, quorum.controllerUID)] }),
        },
        spec: {
          // An integer: a percentage or maxUnavailable needs a controller with /scale that counts only voters.
          minAvailable: step.minAvailable,
          selector: { matchLabels: voterSelector(name) },
          unhealthyPodEvictionPolicy: step.alwaysEvictUnhealthy ? 'AlwaysAllow' : 'IfHealthyBudget',
        },
      },
      { fieldManager: FIELD_MANAGER, force: true, signal },
    ),
  );
};
