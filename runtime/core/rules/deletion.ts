/** Members and clusters that go, and what must not go with them. */

import type { SeenMember } from '../observed.ts';
import type { Situation, Slot } from '../situation.ts';
import type { ObjectName, Step } from '../steps.ts';
import { isAbandoned } from './lost-nodes.ts';
import { named, RETRY_MS, type Rule, wait } from './rule.ts';
import { allPods } from './standing.ts';

/**
 * What of a member nobody waits for: it was asked to end, and the node that would have to do it is away. Pods first, as a
 * volume is only as good as gone if whoever holds it is.
 */
const abandoned = (s: Situation, { pods, volumes }: SeenMember): readonly ObjectName[] => {
  const lost = pods.filter((pod) => isAbandoned(s, pod));
  return [...lost, ...volumes.filter(({ deleting, name }) => deleting && lost.some((pod) => pod.name === name))];
};

const isOver = (s: Situation, { member, lostVolumes, prepared }: Slot): boolean =>
  abandoned(s, member).length === member.pods.length + member.volumes.length &&
  lostVolumes.length + prepared.pods.length + prepared.volumes.length === 0;

const released = (s: Situation, member: SeenMember): ObjectName & { readonly behind: readonly string[] } => ({
  ...named(member),
  behind: abandoned(s, member).map(({ uid }) => uid),
});

/** Those of a lost cluster too: they stay until a recovered one is whole, and this one will not be any more. */
const volumesOf = ({ member, lostVolumes, prepared }: Slot) => [...member.volumes, ...lostVolumes, ...prepared.volumes];

const podsOf = ({ member, prepared }: Slot) => [...member.pods, ...prepared.pods];

const teardown = (s: Situation, slots: readonly Slot[], why: string): Step => {
  const { budget } = s.seen;
  const step = {
    pods: slots.flatMap((slot) =>
      podsOf(slot)
        .filter((pod) => !pod.deleting)
        .map(named),
    ),
    // A volume goes only when no Pod of its slot is left that could still write to it.
    volumes: slots
      .filter((slot) => podsOf(slot).every((pod) => isAbandoned(s, pod)))
      .flatMap((slot) =>
        volumesOf(slot)
          .filter((volume) => !volume.deleting)
          .map((volume) => ({ ...named(volume), retain: slot.member.spec.storage.retention === 'Retain' })),
      ),
    release: slots.filter((slot) => slot.member.finalized && isOver(s, slot)).map(({ member }) => released(s, member)),
    budget: budget !== undefined && !budget.deleting ? { name: s.seen.cluster, uid: budget.uid } : undefined,
  };
  const idle = step.pods.length + step.volumes.length + step.release.length === 0 && step.budget === undefined;
  return idle
    ? wait('Deleting', `${why}; waiting for Pods and volumes to end`, RETRY_MS)
    : { do: 'Teardown', why, ...step };
};

/**
 * An orphaned cluster's members can be swept away after all: a reconcile of Crossplane that began before the orphaning puts the
 * old owner back on what it composes, and the garbage collector then takes that for children of a claim that is gone. It never
 * puts it back on Pods, which Crossplane does not compose. So a live Pod without a controller means: its claim was orphaned,
 * somebody wants this data. In a background or foreground deletion Pods keep their reference and are deleted by it.
 */
const wasOrphaned = (s: Situation): boolean =>
  allPods(s).some(({ deleting, controllerUID }) => !deleting && controllerUID === undefined);

const letGo = (slots: readonly Slot[]): Step => {
  const members = slots.filter(({ member }) => member.finalized).map(({ member }) => named(member));
  const why = 'the EtcdCluster was orphaned: Pods and volumes stay, for a claim that is applied again';
  return members.length > 0 ? { do: 'LetGo', why, members } : wait('Deleting', why, RETRY_MS);
};

/**
 * Why a member has a deletion timestamp is decided in this order, from facts read past every cache. The namespace first:
 * its Pods die before its members are marked. Then the claim: a claim applied again while members terminate adopts them
 * silently, so what counts is the claim they were made for.
 */
export const deletion: Rule = {
  name: 'deletion',
  answer: (s) => {
    const { namespaceTerminating, claim } = s.seen;
    const marked = s.slots.filter(({ member }) => member.deleting);
    if (namespaceTerminating.known && namespaceTerminating.value) {
      const why = 'the namespace is being deleted';
      return marked.length > 0 ? teardown(s, marked, why) : wait('Deleting', `${why}; nothing is repaired`, RETRY_MS);
    }
    if (claim.known && claim.value.exists && claim.value.deleting && marked.length === 0) {
      return wait('Deleting', 'the EtcdCluster is being deleted; nothing is repaired', RETRY_MS);
    }
    if (claim.known && !claim.value.exists && s.quorum?.controllerUID !== undefined && marked.length === 0) {
      return wait('Deleting', 'the EtcdCluster is gone and its objects follow; nothing is repaired', RETRY_MS);
    }
    if (marked.length === 0) return undefined;
    if (!namespaceTerminating.known) {
      return wait('Deleting', `the namespace cannot be read: ${namespaceTerminating.why}`, RETRY_MS);
    }
    if (!claim.known) return wait('Deleting', `the EtcdCluster cannot be read: ${claim.why}`, RETRY_MS);
    const now = claim.value;
    // Where unmarked members live on, under the claim that was applied again or orphaned under none, this is their
    // cluster still: then a marked one is replaced like any other. Taking it down could cost the rest their quorum.
    const owner = now.exists ? now.uid : undefined;
    // Collected for a claim that is gone, while its Pod tells that the cluster was orphaned: only the object goes.
    const swept = marked.filter(
      ({ member, pod }) =>
        member.controllerUID !== undefined &&
        member.controllerUID !== owner &&
        pod?.deleting === false &&
        pod.controllerUID === undefined,
    );
    if (swept.length > 0) return letGo(swept);
    const lives = ({ member }: Slot): boolean =>
      !member.deleting && (member.controllerUID === undefined || member.controllerUID === owner);
    if (!(now.exists && now.deleting) && s.held.some(lives)) return undefined;
    if (!now.exists || now.deleting) {
      return wasOrphaned(s) ? letGo(marked) : teardown(s, marked, 'the EtcdCluster was deleted');
    }
    const old = marked.filter(({ member }) => member.firstClaim !== undefined && member.firstClaim !== now.uid);
    if (old.length > 0 && wasOrphaned(s)) return letGo(old);
    return old.length > 0 ? teardown(s, old, 'they belong to an EtcdCluster of this name that was deleted') : undefined;
  },
};

/** A member that somebody deleted and that nothing is left of. */
export const release: Rule = {
  name: 'release',
  answer: (s) => {
    const gone = s.slots.filter(
      (slot) =>
        slot.member.deleting &&
        slot.member.finalized &&
        isOver(s, slot) &&
        (s.latch === undefined || (slot.entry.known && slot.entry.value === undefined)),
    );
    return gone.length === 0
      ? undefined
      : {
          do: 'Teardown',
          why: 'nothing is left of the member',
          pods: [],
          volumes: [],
          release: gone.map(({ member }) => released(s, member)),
          budget: undefined,
        };
  },
};
