/**
 * A cluster that begins with the data of a snapshot: one member, whose volume is filled and checked before etcd starts on it.
 * Everybody else joins it as a learner and gets the data from etcd itself. Were each member's volume filled on its own, one
 * that was filled half would be a voter of the same cluster ID with other data, and nothing in etcd would notice.
 */
import { incarnationName } from '../../../api/names.ts';
import { settledConfig } from '../member-config.ts';
import { REVISION_BUMP, seedPodName, seedReport } from '../seeding.ts';
import type { Situation, Slot } from '../situation.ts';
import type { StoreLocation } from '../snapshots/store-access.ts';
import type { Step } from '../steps.ts';
import { clearing, formed } from './bootstrap.ts';
import { named, RETRY_MS, type Rule, STARTING_RECHECK_MS, wait } from './rule.ts';
import { allPods, isTerminal, placement, refusedSpec } from './standing.ts';

/** Long enough to read the failed Pod's logs, short enough for a store that had a bad moment. */
const SEED_AGAIN_MS = 30_000;

type Restore = { readonly slot: Slot; readonly incarnation: string; readonly step: string; readonly revision: bigint };

const inFlight = (s: Situation): Restore | undefined => {
  const { operation } = s.quorum?.status ?? {};
  const slot = s.slots.find(({ member }) => member.name === operation?.target);
  if (operation?.recovery === undefined || operation.incarnation === undefined || slot === undefined) return undefined;
  return {
    slot,
    incarnation: operation.incarnation,
    step: operation.step,
    revision: BigInt(operation.recovery.revision),
  };
};

/** `s3://bucket/key` or `pvc://claim/path`. */
export const locationName = ({ s3, pvc }: StoreLocation): string =>
  s3 === undefined ? `pvc://${pvc?.claimName}/${pvc?.subPath}` : `s3://${s3.bucket}/${s3.key}`;

const begin = (s: Situation, location: StoreLocation): Step => {
  const { claim, namespaceTerminating } = s.seen;
  const exists = formed(s, undefined);
  if (exists !== undefined) return exists;
  if (!claim.known) return wait('Restoring', `the EtcdCluster cannot be read: ${claim.why}`, RETRY_MS);
  if (!namespaceTerminating.known) {
    return wait('Restoring', `the namespace cannot be read: ${namespaceTerminating.why}`, RETRY_MS);
  }
  const served = allPods(s).find(({ verifiedContainer }) => verifiedContainer !== undefined);
  if (served !== undefined) {
    return wait('ClusterUnreachable', `${served.name} has served this cluster and does not answer`, RETRY_MS);
  }
  const clear = clearing(s, 'there is no record of this restore');
  if (clear !== undefined) return clear;
  if (s.quorum?.spec.replicas === 0) return wait('Paused', 'nothing is restored until replicas is raised');
  if (!claim.value.exists) return wait('Creating', 'no EtcdCluster asks for a cluster');
  const slot = s.slots.find(({ member }) => !member.deleting);
  if (slot === undefined) return wait('Creating', 'waiting for Crossplane to make the EtcdMembers', RETRY_MS);
  return refusedSpec([slot]) ?? { do: 'BeginRestore', target: slot.member.name, uri: locationName(location) };
};

/** Pods before volumes, and the record last: it says that all of this is of one restore that was given up. */
const giveUp = ({ slot: { member }, step }: Restore, why: string): Step => {
  const pods = member.pods.filter(({ deleting }) => !deleting).map(named);
  const volumes = member.pods.length > 0 ? [] : member.volumes.filter(({ deleting }) => !deleting).map(named);
  const done = member.pods.length + member.volumes.length === 0;
  return step === 'abandoned' && !done && pods.length + volumes.length === 0
    ? wait('Restoring', `${why}; waiting until Pod and volume of ${member.name} are gone`, RETRY_MS)
    : { do: 'AbandonRestore', why, pods, volumes, done };
};

const filling = (s: Situation, of: Restore, location: StoreLocation): Step => {
  const { slot, incarnation } = of;
  const { member } = slot;
  const seed = member.pods.find(({ name }) => name === seedPodName(member.name, incarnation));
  if (seed === undefined) {
    return (
      refusedSpec([slot]) ?? {
        do: 'SeedFromSnapshot',
        member: named(member),
        incarnation,
        location,
        clusterToken: `${s.quorum?.controllerUID ?? s.quorum?.uid ?? ''}-${incarnation}`,
      }
    );
  }
  if (seed.deleting) return wait('Restoring', `waiting for the end of ${seed.name}`, RETRY_MS);
  const report = seed.seed?.report === undefined ? undefined : seedReport(seed.seed.report);
  if (seed.seed?.state === 'succeeded' && report !== undefined) {
    return { do: 'AdvanceRestore', revision: report.revision, snapshot: report.sha256 };
  }
  const trouble = seed.seed?.trouble ?? seed.unschedulable;
  if (isTerminal(seed)) {
    const why = `Pod ${seed.name}: ${trouble ?? 'it ended without a report'}`;
    return s.seen.now - seed.createdAt < SEED_AGAIN_MS
      ? wait('SeedingFailed', why, RETRY_MS)
      : { do: 'DeletePods', reason: 'SeedingFailed', why, pods: [named(seed)] };
  }
  return trouble === undefined
    ? wait('Restoring', `${locationName(location)} is brought onto the volume of ${member.name}`, RETRY_MS)
    : wait('SeedingFailed', `Pod ${seed.name}: ${trouble}`, RETRY_MS);
};

const starting = (s: Situation, of: Restore): Step => {
  const { slot, incarnation, revision } = of;
  const { member, pod, volume } = slot;
  const seed = member.pods.find(({ name }) => name === seedPodName(member.name, incarnation));
  if (seed !== undefined) {
    return seed.deleting
      ? wait('Restoring', `waiting for the end of ${seed.name}`, RETRY_MS)
      : { do: 'DeletePods', reason: 'Restoring', why: 'its work is done', pods: [named(seed)] };
  }
  if (volume === undefined || volume.deleting) return giveUp(of, `the volume of ${member.name} was lost`);
  if (pod === undefined) {
    const config = settledConfig(s, slot, incarnation);
    const refused = refusedSpec([slot]);
    if (refused !== undefined || config === undefined) {
      return refused ?? wait('VersionUnsupported', `etcd ${member.spec.version} is not supported`, RETRY_MS);
    }
    return {
      do: 'BringUp',
      why: `${member.name} starts on what was restored`,
      places: [placement(slot, incarnation, config, false)],
    };
  }
  if (pod.deleting) return wait('Restoring', `waiting for the end of ${pod.name}`, RETRY_MS);
  if (isTerminal(pod)) {
    return { do: 'DeletePods', reason: 'Restarting', why: 'it ended and comes back on its volume', pods: [named(pod)] };
  }
  const answer = pod.etcd.known ? pod.etcd.value : undefined;
  if (pod.container.state !== 'running' || answer === undefined || answer.leaderId !== answer.memberId) {
    return wait('Restoring', `${member.name} starts on what was restored`, STARTING_RECHECK_MS);
  }
  if (answer.revision < revision + REVISION_BUMP) {
    return {
      do: 'AskHuman',
      reason: 'ForeignData',
      message: `${pod.name} answers at revision ${answer.revision}, the snapshot was at ${revision} and ${REVISION_BUMP} is added: keep Pods and volumes and report this`,
    };
  }
  return { do: 'CompleteRestore', clusterID: answer.clusterId, revision: answer.revision };
};

export const restore: Rule = {
  name: 'restore',
  answer: (s) => {
    const { quorum, latch } = s;
    const location = quorum?.spec.restore?.source;
    if (latch !== undefined || quorum === undefined || location === undefined) return undefined;
    if (quorum.status.operation?.kind !== 'Restore') return begin(s, location);
    const of = inFlight(s);
    if (of === undefined) {
      return wait('Restoring', `waiting for EtcdMember ${quorum.status.operation.target ?? '?'}`, RETRY_MS);
    }
    const own = [incarnationName(of.slot.member.name, of.incarnation)];
    const other = s.slots
      .flatMap(({ member }) => [...member.pods, ...member.volumes])
      .find(({ name }) => !own.includes(name) && name !== seedPodName(of.slot.member.name, of.incarnation));
    if (of.slot.member.deleting) return giveUp(of, `EtcdMember ${of.slot.member.name} was deleted`);
    if (of.step === 'abandoned') return giveUp(of, 'it begins anew');
    if (other !== undefined) return giveUp(of, `${other.name} stands beside it`);
    return of.step === 'filling' ? filling(s, of, location) : starting(s, of);
  },
};
