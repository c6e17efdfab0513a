/** Stopping and starting members on data that stays. */
import { blackoutConfig, nextConfig } from '../member-config.ts';
import type { SeenMember, SeenPod } from '../observed.ts';
import type { Placement } from '../steps.ts';
import { named, RETRY_MS, type Rule, wait } from './rule.ts';
import { allPods, isPodless, isRefused, isTerminal, placement, refusedSpec } from './standing.ts';

/** A volume that was deleted stays as long as its Pod is there, even one that has ended. */
const holdsVolume = ({ volumes }: SeenMember, { incarnation }: SeenPod): boolean =>
  volumes.some((volume) => volume.incarnation === incarnation && volume.deleting);

export const pause: Rule = {
  name: 'pause',
  answer: (s) => {
    if (s.latch === undefined || s.quorum?.spec.replicas !== 0) return undefined;
    const [doomed] = s.slots.flatMap(({ member, memory }) =>
      member.pods
        .filter((pod) => !pod.deleting && (!isTerminal(pod) || holdsVolume(member, pod)))
        .filter(({ incarnation }) => !member.volumes.some((kept) => kept.incarnation === incarnation && !kept.deleting))
        .map(({ name }) => ({ name, memory })),
    );
    if (doomed !== undefined) {
      return doomed.memory
        ? { do: 'AskHuman', reason: 'OptionsRefused', message: 'a cluster in memory cannot pause: raise replicas' }
        : {
            do: 'AskHuman',
            reason: 'VolumeLost',
            message: `the volume of ${doomed.name} was deleted, and its data ends with its Pod: raise replicas, then the member is replaced, and pause again`,
          };
    }
    const pods = allPods(s).filter(({ deleting }) => !deleting);
    return pods.length === 0
      ? wait('Paused', 'replicas is 0: identity and volumes are kept, raise replicas to resume')
      : { do: 'DeletePods', reason: 'Paused', why: 'replicas is 0', pods: pods.map(named) };
  },
};

/** Recreates Pods on intact volumes. Needs no quorum: without this there would never be one again after a blackout. */
export const revive: Rule = {
  name: 'revive',
  answer: (s) => {
    if (s.latch === undefined) return undefined;
    const { namespaceTerminating, claim } = s.seen;
    // A member that somebody deleted is not started again, unless the others cannot decide anything without it.
    const lost = s.held.filter(
      (slot) =>
        isPodless(slot) &&
        (!slot.member.deleting || !s.seen.membership.known) &&
        !(slot.entry.known && slot.entry.value === undefined),
    );
    if (lost.length === 0) return undefined;
    const ended = lost.flatMap(({ pod, volume }) =>
      pod !== undefined && !pod.deleting && volume !== undefined && !volume.deleting ? [named(pod)] : [],
    );
    if (ended.length > 0) {
      return { do: 'DeletePods', reason: 'Restarting', why: 'it ended and comes back on its volume', pods: ended };
    }
    const places = lost.flatMap((slot): Placement[] => {
      const { incarnation, pod, volume, memory } = slot;
      if (pod !== undefined || memory || incarnation === undefined || volume === undefined || volume.deleting)
        return [];
      if (isRefused(slot) || refusedSpec([slot]) !== undefined) return [];
      const config = (s.seen.membership.known ? nextConfig : blackoutConfig)(s, slot, incarnation);
      return config === undefined ? [] : [placement(slot, incarnation, config, false)];
    });
    if (places.length === 0) return undefined;
    // A Pod may be missing because everything is being deleted, and its members are not marked yet.
    if (!namespaceTerminating.known) {
      return wait('Restarting', `the namespace cannot be read: ${namespaceTerminating.why}`, RETRY_MS);
    }
    if (!claim.known) return wait('Restarting', `the EtcdCluster cannot be read: ${claim.why}`, RETRY_MS);
    return { do: 'BringUp', why: 'its Pod is gone, its volume is intact', places };
  },
};
