/** How a change of the claim reaches members that run: one at a time, and no further while anyone is unwell. */

import { ANNOTATIONS } from '../../api/names.ts';
import { isEqual } from '../../api/quantity.ts';
import { compareMinors, compareVersions, upgradeRefusal } from '../../api/upgrade-path.ts';
import { trustOf } from './member-config.ts';
import { isLeader, type Situation, type Slot } from './situation.ts';
import type { Step } from './steps.ts';
import { type Metadata, metadataPatch, metadataRecord } from './template-metadata.ts';

/**
 * Its Pod was made from another template, options or version than the claim asks for now, and only another Pod can have them.
 * An older runtime's Pod does not say which part of its template that is; then any difference counts.
 */
export const isOutdated = ({ pod, member }: Slot): boolean =>
  pod !== undefined &&
  !pod.deleting &&
  pod.templateHash !== member.templateHash &&
  pod.restartHash !== member.restartHash;

/**
 * Its etcd trusts other authorities than its Secrets have now. etcd reads them at its start alone, so a change of CA is a
 * rollout to both, then new certificates, which need none, then a rollout to the new one.
 */
export const trustsOthers = (s: Situation, slot: Slot): boolean => {
  const { pod } = slot;
  if (pod === undefined || pod.deleting || isOutdated(slot) || s.seen.certificates === undefined) return false;
  const wanted = trustOf(s, slot);
  const differs = (has: string | undefined, needs: string | undefined): boolean => needs !== undefined && has !== needs;
  return differs(pod.trust?.client, wanted?.client) || differs(pod.trust?.peer, wanted?.peer);
};

/** Metadata that Pods and volumes can take in as they are. Also what an older runtime did not note on a Pod that is as asked. */
export const metadataToWrite = (s: Situation): Step | undefined => {
  const changes = (record: string | undefined, wanted: Metadata): boolean => record !== metadataRecord(wanted);
  const pods = s.held.flatMap((slot) => {
    const { pod, member } = slot;
    const { metadata } = member.spec.template;
    if (pod === undefined || pod.deleting || isOutdated(slot)) return [];
    const noted = pod.templateHash === member.templateHash && pod.restartHash === member.restartHash;
    if (noted && !changes(pod.metadata, metadata)) return [];
    const { labels, annotations } = metadataPatch(pod.metadata, metadata);
    const hashes = { [ANNOTATIONS.template]: member.templateHash, [ANNOTATIONS.restart]: member.restartHash };
    return [{ name: pod.name, uid: pod.uid, labels, annotations: { ...annotations, ...hashes } }];
  });
  const volumes = s.held.flatMap(({ volume, member }) => {
    const wanted = member.spec.volumeClaimTemplate?.metadata;
    return volume === undefined || volume.deleting || wanted === undefined || !changes(volume.metadata, wanted)
      ? []
      : [{ name: volume.name, uid: volume.uid, ...metadataPatch(volume.metadata, wanted) }];
  });
  return pods.length + volumes.length === 0 ? undefined : { do: 'WriteMetadata', pods, volumes };
};

/** The lowest and the highest version that members say they run, as in the status. */
export const runningVersions = (s: Situation): string | undefined => {
  const versions = s.held
    .flatMap(({ pod }) => (pod?.etcd.known === true ? [pod.etcd.value.version] : []))
    .toSorted(compareVersions);
  const [lowest] = versions;
  const highest = versions.at(-1);
  return lowest === highest ? lowest : `${lowest}-${highest}`;
};

/** Why the change may not be carried out, whoever let it through. The functions refuse it earlier, with better words. */
export const rolloutRefusal = (s: Situation): string | undefined => {
  const running = runningVersions(s);
  for (const { member } of s.held) {
    const why = upgradeRefusal(running ?? member.status.version, member.spec.version);
    if (why !== undefined) return `${member.name}: ${why}`;
  }
  return s.quorum === undefined ? undefined : upgradeRefusal(running, s.quorum.spec.version);
};

/** What the members of a cluster that is being taken back say it goes to. Those that run the lower version do not say. */
export const downgradeUnderWay = (s: Situation): string | undefined =>
  s.held.flatMap(({ pod }) => (pod?.etcd.known === true ? (pod.etcd.value.downgradeTarget ?? []) : []))[0];

/**
 * Whether everybody could start with the minor of `version` on the data as it is now: who runs a higher one has said that its
 * data is written as the lower one reads it, and that it will not be written otherwise again, either because a downgrade is enabled
 * or because somebody runs the lower one.
 */
export const isPreparedFor = (s: Situation, version: string): boolean => {
  const answers = s.held.flatMap(({ pod }) => (pod?.etcd.known === true ? [pod.etcd.value] : []));
  if (answers.length < s.held.length) return false;
  const runsIt = answers.some((answer) => compareMinors(answer.version, version) <= 0);
  return answers.every(
    ({ version: runs, storageVersion, downgradeTarget }) =>
      compareMinors(runs, version) <= 0 ||
      (storageVersion !== undefined &&
        compareMinors(storageVersion, version) <= 0 &&
        (runsIt || (downgradeTarget !== undefined && compareMinors(downgradeTarget, version) === 0))),
  );
};

/** Whether etcd has yet to write its data as the running minor does; before that, the next minor must not be entered. */
export const isMigrating = (s: Situation, version: string): boolean =>
  s.held.some(
    ({ pod }) =>
      pod?.etcd.known === true &&
      pod.etcd.value.storageVersion !== undefined &&
      compareMinors(pod.etcd.value.version, version) < 0 &&
      compareMinors(pod.etcd.value.storageVersion, pod.etcd.value.version) < 0,
  );

/**
 * A Pod that runs nothing and is outdated is made anew at once: a broken image or option that stopped a rollout is mended
 * by the edit that takes it back. Only one whose container does not run; a member that is merely silent may be a voter
 * that the others count on.
 */
export const outdatedIdle = (s: Situation): Step | undefined => {
  const pods = s.held.flatMap((slot) =>
    isOutdated(slot) &&
    !slot.volatile &&
    slot.pod !== undefined &&
    slot.pod.container.state !== 'running' &&
    slot.volume?.deleting !== true
      ? [{ name: slot.pod.name, uid: slot.pod.uid }]
      : [],
  );
  return pods.length === 0
    ? undefined
    : { do: 'DeletePods', reason: 'Restarting', why: 'the claim changed and it does not run', pods };
};

/**
 * The next member of a rollout, when everybody serves: followers first, from the highest ordinal down, the leader last. A
 * terminating etcd hands its leadership over by itself, faster than a call of ours could.
 *
 * Crossplane brings a change to one EtcdMember after another. The leader waits until its own template is everybody's: the
 * first to change must not be the first to go.
 */
export const nextToRoll = (s: Situation): Slot | undefined => {
  const outdated = s.held.filter((slot) => isOutdated(slot) || trustsOthers(s, slot));
  const followers = outdated.filter((slot) => !isLeader(s, slot));
  const [follower] = followers.toSorted((a, b) => b.member.ordinal - a.member.ordinal);
  if (follower !== undefined) return follower;
  const [leader] = outdated;
  return leader !== undefined && s.held.every((slot) => isAlike(slot, leader)) ? leader : undefined;
};

/** Members of one rendering differ by name alone, and the name is nowhere in a Pod's spec. */
const isAlike = (a: Slot, b: Slot): boolean =>
  a.member.spec.version === b.member.spec.version &&
  JSON.stringify(a.member.spec.options) === JSON.stringify(b.member.spec.options) &&
  JSON.stringify(a.member.spec.template.spec) === JSON.stringify(b.member.spec.template.spec);

/** Volumes that ask for another size than the claim. The XRD lets a size only grow, so another is a larger one. */
export const volumesToGrow = (s: Situation): Step | undefined => {
  const volumes = s.held.flatMap(({ volume, member }) => {
    const size = member.spec.volumeClaimTemplate?.spec.resources?.requests?.storage;
    return volume === undefined ||
      volume.deleting ||
      size === undefined ||
      volume.requested === undefined ||
      isEqual(volume.requested, size)
      ? []
      : [{ name: volume.name, uid: volume.uid, size }];
  });
  return volumes.length === 0 ? undefined : { do: 'GrowVolumes', volumes };
};
