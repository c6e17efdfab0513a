/** Carries out the steps of a recovery from lost quorum. */
import { randomUUID } from 'node:crypto';
import { incarnationName, LABELS } from '../../api/names.ts';
import { incarnationRefs } from '../core/member-pod.ts';
import { recoveryBegun, recoveryRecord } from '../core/recovery-record.ts';
import { isLeftBehind } from '../core/rules/lost-nodes.ts';
import { isSeedPod, seedPodName } from '../core/seeding.ts';
import { replacedIncarnation } from '../core/situation.ts';
import type { ObjectName, Step } from '../core/steps.ts';
import { EtcdFault } from '../ports/etcd.ts';
import { resources } from '../ports/kube.ts';
import { seed } from './seed.ts';
import {
  ASKED_TO_GO,
  changeQuorum,
  claimSlot,
  DONE,
  deleteAll,
  deletePods,
  type Outcome,
  retain,
  type Scene,
} from './writes.ts';

export type RecoveryStep = Extract<
  Step,
  {
    do: 'BeginRecovery' | 'Fence' | 'AdvanceRecovery' | 'Seed' | 'CompleteRecovery' | 'AbandonRecovery' | 'RetireLost';
  }
>;

const EARLY_MS = 1_000;
/** As many as anybody will look back at, and as the record has room for. */
const REMEMBERED = 8;

/**
 * Pods of the cluster that the caches may not know of yet: one that is missed here could take writes of its own. One that only
 * fills a volume cannot, and on a node that is away it would be there for as long as that.
 */
export const unseenPods = async (
  { world, seen, signal }: Scene,
  own: readonly string[],
): Promise<readonly string[]> => {
  const idle = seen.members
    .flatMap(({ pods }) => pods)
    .filter((pod) => isSeedPod(pod) && isLeftBehind(pod))
    .map(({ uid }) => uid);
  const labelSelector = `${LABELS.cluster}=${seen.cluster},${LABELS.member}`;
  const { items } = await world.kube.list(resources.pods, { namespace: seen.namespace, labelSelector, signal });
  return items
    .filter(({ metadata }) => !own.includes(metadata.name) && !idle.includes(metadata.uid))
    .map(({ metadata }) => metadata.name);
};

const advance = async (scene: Scene, step: Extract<Step, { do: 'AdvanceRecovery' }>): Promise<Outcome> => {
  const operation = scene.decision.situation.quorum?.status.operation;
  if (operation?.recovery === undefined) return DONE;
  const { target = '', incarnation = '' } = operation;
  const own = [incarnationName(target, incarnation), seedPodName(target, incarnation)];
  const left = step.to === 'fencing' ? [] : await unseenPods(scene, own);
  if (left.length > 0) return { was: 'early', recheckMs: EARLY_MS, why: `${left.join(', ')} still exist` };
  const { revision, snapshot, takenAt } = step;
  await changeQuorum(scene, {
    operation: {
      ...operation,
      step: step.to,
      recovery: {
        ...operation.recovery,
        ...(revision === undefined ? {} : { revision: String(revision) }),
        ...(snapshot === undefined || operation.recovery.snapshot !== undefined ? {} : { snapshot }),
        ...(takenAt === undefined || operation.recovery.takenAt !== undefined ? {} : { takenAt }),
        ...(step.to === 'fencing' ? { fencedSince: new Date(scene.seen.now).toISOString() } : {}),
      },
    },
  });
  return DONE;
};

const complete = async (scene: Scene, step: Extract<Step, { do: 'CompleteRecovery' }>): Promise<void> => {
  const { seen, decision } = scene;
  const { operation, recovered = [] } = decision.situation.quorum?.status ?? {};
  if (operation?.recovery === undefined) return;
  const { target = '', incarnation = '' } = operation;
  const member = seen.members.find(({ name }) => name === target);
  // Without the Pod that filled the volume, which is gone.
  if (member !== undefined) {
    await claimSlot(scene, member, incarnationRefs({ member: target, token: incarnation, spec: member.spec }));
  }
  const entry = recoveryRecord(operation, operation.recovery, step, {
    now: seen.now,
    lostAt: decision.situation.quorum?.status.loss?.since,
  });
  await changeQuorum(scene, {
    clusterID: step.clusterID,
    operation: undefined,
    loss: undefined,
    survivors: undefined,
    snapshots: undefined,
    furthest: undefined,
    recovered: [...recovered, entry].slice(-REMEMBERED),
  });
};

/** Every member's hash at a revision that all of them have; undefined where they could not be compared just now. */
const comparedData = async ({ world, seen, decision, signal }: Scene) => {
  const cluster = { namespace: seen.namespace, name: seen.cluster };
  const members = decision.situation.held.flatMap(({ member, pod }) =>
    pod?.ip !== undefined && pod.etcd.known
      ? [
          {
            name: member.name,
            client: world.dialler.client(cluster, { name: pod.name, ip: pod.ip, config: pod.config }),
            revision: pod.etcd.value.revision,
          },
        ]
      : [],
  );
  if (members.length < decision.situation.held.length) return undefined;
  const [revision = 0n] = members.map((one) => one.revision).toSorted((a, b) => (a < b ? -1 : 1));
  const hashes = await Promise.all(
    members.map(async ({ name, client }) => ({ name, ...(await client.hashKv(revision, { signal })) })),
  );
  const [first] = hashes;
  // A compaction in this very moment: the hashes are over different histories and say nothing of each other.
  if (first === undefined || hashes.some(({ compactRevision }) => compactRevision !== first.compactRevision))
    return undefined;
  return { revision, hash: first.hash, differing: hashes.filter(({ hash }) => hash !== first.hash) };
};

/** An EtcdRestore that still refers to one of these volumes, looked for past every cache. */
const referring = async (
  { world, seen, signal }: Scene,
  volumes: readonly ObjectName[],
): Promise<string | undefined> => {
  const { items } = await world.kube.list(resources.etcdrestores, { namespace: seen.namespace, signal });
  const given = seen.members
    .flatMap((member) => member.volumes)
    .filter(({ uid }) => volumes.some((volume) => volume.uid === uid))
    .map(({ clusterID }) => clusterID);
  return items.find(({ spec, status }) => status?.phase !== 'Failed' && given.includes(spec.clusterID))?.metadata.name;
};

const retireLost = async (scene: Scene, step: Extract<Step, { do: 'RetireLost' }>): Promise<Outcome> => {
  const restore = await referring(scene, step.volumes);
  if (restore !== undefined) {
    return { was: 'early', recheckMs: EARLY_MS, why: `EtcdRestore ${restore} refers to what it replaced` };
  }
  let compared: Awaited<ReturnType<typeof comparedData>>;
  try {
    compared = await comparedData(scene);
  } catch (error) {
    if (!(error instanceof EtcdFault)) throw error;
    return { was: 'early', recheckMs: EARLY_MS, why: error.message };
  }
  if (compared === undefined) return { was: 'early', recheckMs: EARLY_MS, why: 'the members could not be compared' };
  if (compared.differing.length > 0) {
    return {
      was: 'refused',
      fault: {
        reason: 'DataCorrupt',
        message: `${compared.differing.map(({ name }) => name).join(', ')} differ from the others at revision ${compared.revision}: the lost cluster's volumes stay`,
      },
    };
  }
  const recovered = scene.decision.situation.quorum?.status.recovered ?? [];
  const last = recovered.at(-1);
  if (last !== undefined && last.verifiedAt === undefined) {
    await changeQuorum(scene, {
      recovered: [
        ...recovered.slice(0, -1),
        {
          ...last,
          verifiedAt: new Date(scene.seen.now).toISOString(),
          verifiedHash: `${compared.hash} at revision ${compared.revision}`,
        },
      ],
    });
  }
  await Promise.all(step.volumes.filter((volume) => volume.retain).map((volume) => retain(scene, volume)));
  await deleteAll(
    scene,
    resources.persistentvolumeclaims,
    step.volumes.filter((volume) => !volume.retain),
  );
  return ASKED_TO_GO;
};

export const recover = async (scene: Scene, step: RecoveryStep): Promise<Outcome> => {
  const { world, seen, decision } = scene;
  switch (step.do) {
    case 'BeginRecovery':
      await changeQuorum(scene, {
        operation: {
          id: randomUUID(),
          kind: 'RecoverQuorum',
          target: step.target,
          step: step.stored === undefined ? 'fencing' : 'filling',
          since: new Date(seen.now).toISOString(),
          incarnation: world.drawToken(),
          recovery: recoveryBegun(step),
        },
      });
      return DONE;
    case 'Fence':
      await deletePods(scene, step.pods);
      return ASKED_TO_GO;
    case 'AdvanceRecovery':
      return advance(scene, step);
    case 'Seed':
      return seed(scene, step);
    case 'CompleteRecovery':
      await complete(scene, step);
      return DONE;
    case 'AbandonRecovery': {
      const { operation } = decision.situation.quorum?.status ?? {};
      const member = seen.members.find(({ name }) => name === operation?.target);
      await deleteAll(scene, resources.pods, step.pods);
      await deleteAll(scene, resources.persistentvolumeclaims, step.volumes);
      // The references name what stands in the slot, and that is the lost cluster's own again.
      if (member !== undefined && operation?.recovery !== undefined) {
        const token = replacedIncarnation(operation);
        const refs = token === undefined ? [] : incarnationRefs({ member: member.name, token, spec: member.spec });
        await claimSlot(scene, member, refs);
      }
      await changeQuorum(scene, { operation: undefined });
      return ASKED_TO_GO;
    }
    case 'RetireLost':
      return retireLost(scene, step);
    default:
      return step satisfies never;
  }
};
