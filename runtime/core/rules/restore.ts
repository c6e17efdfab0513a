/**
 * A cluster that begins with the data of a snapshot: one member, whose volume is filled and checked before etcd starts on it.
 * Everybody else joins it as a learner and gets the data from etcd itself. Were each member's volume filled on its own, one
 * that was filled half would be a voter of the same cluster ID with other data, and nothing in etcd would notice.
 */
import { incarnationName } from '../../../api/names.ts';
import type { SeenPod } from '../observed.ts';
import { REVISION_BUMP, seedOf, seedPodName } from '../seeding.ts';
import type { Situation, Slot } from '../situation.ts';
import { locationName, type StoreLocation } from '../snapshots/store-access.ts';
import type { Step } from '../steps.ts';
import { clearing, formed } from './bootstrap.ts';
import { isLeftBehind } from './lost-nodes.ts';
import { named, RETRY_MS, type Rule, wait } from './rule.ts';
import { anew, filled, type SeedWords, started, takingAway } from './seeded.ts';
import { allPods, allVolumes, refusedSpec } from './standing.ts';

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

const fills = ({ name }: SeenPod, volume: string): boolean => name === volume || name === seedOf(volume);

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
  // What an earlier try left on a node that is away has no client and no peer, and is in the way of nothing.
  const behind = allPods(s).filter(isLeftBehind);
  const clear = clearing(
    s,
    'there is no record of this restore',
    allPods(s).filter((pod) => !behind.includes(pod)),
    allVolumes(s).filter(({ name, deleting }) => !deleting || !behind.some((pod) => fills(pod, name))),
  );
  if (clear !== undefined) return clear;
  if (s.quorum?.spec.replicas === 0) return wait('Paused', 'nothing is restored until replicas is raised');
  if (!claim.value.exists) return wait('Creating', 'no EtcdCluster asks for a cluster');
  const slot = s.slots.find(({ member }) => !member.deleting);
  if (slot === undefined) return wait('Creating', 'waiting for Crossplane to make the EtcdMembers', RETRY_MS);
  return refusedSpec([slot]) ?? { do: 'BeginRestore', target: slot.member.name, uri: locationName(location) };
};

/** Pods before volumes, and the record last: it says that all of this is of one restore that was given up. */
const giveUp = ({ slot: { member }, step }: Restore, why: string): Step => {
  const { pods, volumes, done } = takingAway(member.pods, member.volumes);
  return step === 'abandoned' && !done && pods.length + volumes.length === 0
    ? wait('Restoring', `${why}; waiting until Pod and volume of ${member.name} are gone`, RETRY_MS)
    : { do: 'AbandonRestore', why, pods, volumes, done };
};

const wordsOf = ({ slot: { member } }: Restore, location: StoreLocation): SeedWords => ({
  reason: 'Restoring',
  filling: `${locationName(location)} is brought onto the volume of ${member.name}`,
  starting: `${member.name} starts on what was restored`,
  failing:
    'should the source itself be wrong, delete the EtcdCluster and apply it with another one: spec.bootstrap cannot change, and the cluster has not begun yet',
});

const onLoss = (s: Situation, of: Restore) => anew(s, (why) => giveUp(of, why));

const filling = (s: Situation, of: Restore, location: StoreLocation): Step => {
  const { slot, incarnation } = of;
  const clusterToken = `${s.quorum?.controllerUID ?? s.quorum?.uid ?? ''}-${incarnation}`;
  const make: Step = { do: 'SeedFromSnapshot', member: named(slot.member), incarnation, location, clusterToken };
  const next = filled(s, of, wordsOf(of, location), make, onLoss(s, of));
  return 'do' in next ? next : { do: 'AdvanceRestore', revision: next.revision, snapshot: next.sha256 };
};

const starting = (s: Situation, of: Restore, location: StoreLocation): Step => {
  const { slot, revision } = of;
  const lost = giveUp(of, `the volume of ${slot.member.name} was lost`);
  const next = started(s, of, wordsOf(of, location), lost, onLoss(s, of));
  if ('do' in next) return next;
  if (next.revision < revision + REVISION_BUMP) {
    return {
      do: 'AskHuman',
      reason: 'ForeignData',
      message: `${slot.pod?.name} answers at revision ${next.revision}, the snapshot was at ${revision} and ${REVISION_BUMP} is added: keep Pods and volumes and report this`,
    };
  }
  return { do: 'CompleteRestore', clusterID: next.clusterId, revision: next.revision };
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
      .find(
        ({ name, deleting }) =>
          !deleting && !own.includes(name) && name !== seedPodName(of.slot.member.name, of.incarnation),
      );
    if (of.slot.member.deleting) return giveUp(of, `EtcdMember ${of.slot.member.name} was deleted`);
    if (of.step === 'abandoned') return giveUp(of, 'it begins anew');
    if (other !== undefined) return giveUp(of, `${other.name} stands beside it`);
    return of.step === 'filling' ? filling(s, of, location) : starting(s, of, location);
  },
};
