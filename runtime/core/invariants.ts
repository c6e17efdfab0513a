/**
 * The veto: what no step may do, whichever rule asked for it. It knows nothing of the rules, so that a wrong rule is
 * stopped by something that was thought through separately.
 */

import type { EtcdQuorumRecovery } from '../../api/etcdquorum.gen.ts';
import { hasPeerURL, incarnationName } from '../../api/names.ts';
import { isLocked } from './member-config.ts';
import type { SeenPod } from './observed.ts';
import { isSeedPod, seedOf } from './seeding.ts';
import { isHealthyVoter, majority, type Situation } from './situation.ts';
import type { StoredSource } from './snapshots/known-snapshots.ts';
import { locationName } from './snapshots/store-access.ts';
import type { Step } from './steps.ts';

type Invariant = { readonly name: string; readonly broken: (s: Situation, step: Step) => string | undefined };

const voterIDs = (s: Situation): readonly string[] | undefined =>
  s.seen.membership.known
    ? s.seen.membership.value.members.filter(({ isLearner }) => !isLearner).map(({ id }) => id)
    : undefined;

const healthyAmong = (s: Situation, ids: readonly string[]): number =>
  ids.filter((id) => s.held.some((slot) => slot.memberID === id && isHealthyVoter(slot))).length;

const quorumKept: Invariant = {
  name: 'no step takes a healthy voter away if fewer than a majority of the resulting voters stay healthy',
  broken: (s, step) => {
    const voters = voterIDs(s);
    if (step.do === 'RemoveMember') {
      if (voters === undefined) return 'the member list is not known';
      if (!voters.includes(step.memberID)) return undefined;
      const staying = voters.filter((id) => id !== step.memberID);
      return healthyAmong(s, staying) < majority(staying.length) || staying.length === 0
        ? `${healthyAmong(s, staying)} of ${staying.length} remaining voters are healthy`
        : undefined;
    }
    if (step.do === 'DeletePods') {
      const memory = s.held.find(
        ({ volatile, pod, entry, volume }) =>
          (volatile || volume?.deleting === true) &&
          step.pods.some(({ uid }) => uid === pod?.uid) &&
          pod?.phase !== 'Failed' &&
          pod?.phase !== 'Succeeded' &&
          !(entry.known && entry.value === undefined),
      );
      if (s.latch !== undefined && memory !== undefined)
        return `${memory.member.name} has its data only as long as that Pod`;
      if (s.quorum?.spec.replicas === 0) return undefined;
      const taken = s.held.filter(
        ({ pod }) => step.pods.some(({ uid }) => uid === pod?.uid) && pod?.phase === 'Running',
      );
      const healthy = taken.filter(isHealthyVoter);
      if (healthy.length === 0 || voters === undefined) return undefined;
      if (voters.length <= 2) return undefined;
      const staying = healthyAmong(s, voters) - healthy.length;
      return staying < majority(voters.length) ? `${staying} of ${voters.length} voters would stay healthy` : undefined;
    }
    return undefined;
  },
};

const oneChange: Invariant = {
  name: 'one membership change at a time, recorded before it is made, following a confirmed member list',
  broken: (s, step) => {
    if (step.do === 'BeginOperation') {
      const running = s.quorum?.status.operation;
      return running === undefined ? undefined : `${running.kind} of ${running.target} is in flight`;
    }
    if (step.do === 'EndOperation' && step.outcome !== 'abandoned') {
      if (!s.seen.membership.known) return 'the member list is not known';
      const listed = s.seen.membership.value.members;
      const running = s.quorum?.status.operation;
      if (running?.target !== step.target) return `no operation on ${step.target} is recorded`;
      const left = listed.find(({ id }) => id === running.memberID);
      if (step.outcome !== 'joined' && left !== undefined) return `${step.target} is listed as ${left.id}`;
      const learner = listed.find(({ isLearner }) => isLearner);
      return step.next?.kind === 'AddMember' && learner !== undefined ? `${learner.id} is a learner` : undefined;
    }
    if (step.do !== 'AddLearner' && step.do !== 'Promote' && step.do !== 'RemoveMember') return undefined;
    if (!s.seen.membership.known) return 'the member list is not known';
    if (s.quorum?.status.operation?.target !== step.target) return `no operation on ${step.target} is recorded`;
    if (step.do !== 'AddLearner') return undefined;
    const learner = s.seen.membership.value.members.find(({ isLearner }) => isLearner);
    return learner === undefined ? undefined : `${learner.id} is a learner already`;
  },
};

const bornOnce: Invariant = {
  name: 'a cluster that has existed is never bootstrapped again',
  broken: (s, step) => {
    if (step.do === 'RecordAttempt') {
      if (s.latch !== undefined) return `it has existed as ${s.latch}`;
      const things = s.slots.flatMap(({ member }) => [...member.pods, ...member.volumes]);
      return things.length === 0 ? undefined : `${things.map(({ name }) => name).join(', ')} still exist`;
    }
    if (step.do === 'ClearAttempt') {
      if (s.latch !== undefined) return `it exists as ${s.latch}`;
      if (!s.seen.claim.known) return 'the EtcdCluster, which may say that it exists, cannot be read';
      const served = s.slots.flatMap(({ member }) => member.pods).find((pod) => pod.verifiedContainer !== undefined);
      return served === undefined ? undefined : `${served.name} has served clients`;
    }
    if (step.do === 'BringUp') {
      const remade = step.places.find(
        ({ makeVolume, member, incarnation }) =>
          makeVolume && s.slots.some((slot) => slot.member.claimedPod === incarnationName(member.name, incarnation)),
      );
      if (remade !== undefined) return `the volume of ${remade.member.name} may have existed`;
      const joined = step.places.find(
        ({ config, incarnation, member }) =>
          !isLocked(config) &&
          s.slots.some(
            (slot) =>
              slot.member.name === member.name &&
              slot.member.volumes.some((volume) => volume.incarnation === incarnation && volume.memberID !== undefined),
          ),
      );
      if (joined !== undefined) return `${joined.member.name} has joined before and would start on an empty disk`;
      const fresh = step.places.find(({ initialState }) => initialState === 'new');
      if (fresh === undefined) return undefined;
      if (s.latch !== undefined) return `it has existed as ${s.latch}`;
      const attempt = s.quorum?.status.bootstrap;
      const listed = step.places.every(({ member, incarnation }) =>
        attempt?.members.some((one) => one.name === member.name && one.incarnation === incarnation),
      );
      return listed && attempt?.abandoned === undefined ? undefined : 'it is not part of the recorded attempt';
    }
    if (step.do === 'Latch' && s.latch !== undefined && s.latch !== step.clusterID) return `it exists as ${s.latch}`;
    if (step.do === 'ForgetRecord') {
      const things = s.slots.flatMap(({ member }) => [...member.pods, ...member.volumes]);
      return things.length === 0 ? undefined : `${things.map(({ name }) => name).join(', ')} still exist`;
    }
    return undefined;
  },
};

const provenBeforeServing: Invariant = {
  name: 'votes and clients come only after the configuration is locked and the identity proven in this container start',
  broken: (s, step) => {
    if (step.do === 'Promote') {
      const slot = s.held.find(({ member }) => member.name === step.target);
      if (slot?.identity.is !== 'proven' || slot.memberID !== step.memberID) return `${step.target} is not proven`;
      return slot.pod?.config !== undefined && isLocked(slot.pod.config) ? undefined : `${step.target} is not locked`;
    }
    if (step.do === 'StopImpostor') {
      const pod = s.held.find((slot) => slot.pod?.uid === step.pod.uid)?.pod;
      return pod?.container.id !== undefined && pod.container.id === pod.verifiedContainer
        ? `${step.pod.name} was proven in this very start`
        : undefined;
    }
    if (step.do !== 'Admit') return undefined;
    for (const { uid, name, container } of step.pods) {
      const slot = s.held.find(({ pod }) => pod?.uid === uid);
      if (slot?.identity.is !== 'proven') return `${name} is not proven`;
      if (slot.pod?.container.id !== container) return `${name} has restarted since`;
      if (slot.pod.config === undefined || !isLocked(slot.pod.config)) return `${name} is not locked`;
    }
    return undefined;
  },
};

const volumesKept: Invariant = {
  name: 'a volume goes only once its member is out of the member list, with the attempt that made it, or with its claim',
  broken: (s, step) => {
    if (step.do === 'Retire' || (step.do === 'EndOperation' && step.pods.length + step.volumes.length > 0)) {
      if (!s.seen.membership.known) return 'the member list is not known';
      const { members, clusterId } = s.seen.membership.value;
      for (const { uid, name } of [...step.pods, ...step.volumes]) {
        const owner = s.slots.find(({ member }) => [...member.pods, ...member.volumes].some((one) => one.uid === uid));
        const ids = [
          ...(owner?.member.volumes ?? []).filter((one) => one.name === name).map(({ memberID }) => memberID),
          ...(owner?.member.pods ?? [])
            .filter((one) => one.name === name)
            .map(({ etcd }) => (etcd.known && etcd.value.clusterId === clusterId ? etcd.value.memberId : undefined)),
        ];
        const line = members.find(
          (member) =>
            member.name === name ||
            hasPeerURL(member.peerURLs, s.seen.cluster, s.seen.namespace, name) ||
            ids.includes(member.id),
        );
        if (line !== undefined) return `${name} is listed as ${line.id}`;
      }
    }
    if (step.do === 'Teardown' && step.pods.length + step.volumes.length > 0) {
      const { namespaceTerminating: leaving, claim } = s.seen;
      if (leaving.known && leaving.value) return undefined;
      if (!claim.known) return 'the EtcdCluster cannot be read';
      if (!claim.value.exists || claim.value.deleting) return undefined;
      const { uid } = claim.value;
      const touched = [...step.pods, ...step.volumes];
      const mine = s.slots.find(
        ({ member }) =>
          (member.firstClaim === uid || member.firstClaim === undefined || !member.deleting) &&
          [...member.pods, ...member.volumes].some((thing) => touched.some((one) => one.uid === thing.uid)),
      );
      return mine === undefined ? undefined : `${mine.member.name} may belong to the present EtcdCluster`;
    }
    return undefined;
  },
};

const nothingForgotten: Invariant = {
  name: 'a member is released only once all that it had is gone or was asked to go',
  broken: (s, step) => {
    if (step.do !== 'Teardown') return undefined;
    const left = s.slots
      .filter(({ member }) => step.release.some(({ uid }) => uid === member.uid))
      .flatMap(({ member }) => [...member.pods, ...member.volumes])
      .find(({ deleting }) => !deleting);
    return left === undefined ? undefined : `${left.name} stays`;
  },
};

const orphansOnly: Invariant = {
  name: 'a member without a slot is removed only where it is dead and Kubernetes has nothing of it',
  broken: (s, step) => {
    if (step.do !== 'RemoveMember' || s.quorum?.status.operation?.kind !== 'RemoveOrphan') return undefined;
    const owner = s.slots.find(
      ({ entry, memberID }) => memberID === step.memberID || (entry.known && entry.value?.id === step.memberID),
    );
    if (owner !== undefined) return `${step.memberID} is ${owner.member.name}`;
    const look = s.seen.strangers?.find(({ id }) => id === step.memberID);
    if (look?.traces.known !== true) return `it is not known whether anything is left of ${step.target}`;
    if (look.answers) return `${step.target} answers`;
    return look.traces.value.length === 0 ? undefined : `${look.traces.value.join(', ')} is there`;
  },
};

const dataBeforeWrites: Invariant = {
  name: 'writes are allowed again only once every listed member has room and the same data; one member is defragmented at a time',
  broken: (s, step) => {
    if (step.do !== 'Disarm' && step.do !== 'Defragment') return undefined;
    if (!s.seen.membership.known) return 'the member list is not known';
    const voters = s.seen.membership.value.members.filter(({ isLearner }) => !isLearner);
    const slots = voters.map(({ id }) => s.held.find(({ memberID }) => memberID === id));
    if (step.do === 'Defragment') {
      const target = slots.find((slot) => slot?.pod?.uid === step.pod.uid);
      if (target === undefined) return `${step.target} is no voter`;
      const ill = slots.filter((slot) => slot === undefined || !isHealthyVoter(slot)).length;
      if (ill > 0) return `${ill} of ${voters.length} voters are not healthy`;
      return voters.length > 1 && target.memberID === s.leaderID ? `${step.target} leads` : undefined;
    }
    for (const { alarm } of step.alarms) {
      const said = slots.map((slot) => {
        const { etcd, hash } = slot?.pod ?? {};
        if (alarm === 'NOSPACE') {
          const quota = etcd?.known === true ? etcd.value.dbSizeQuota : undefined;
          return etcd?.known === true && (quota === undefined || etcd.value.dbSize < quota) ? 'room' : undefined;
        }
        return hash?.known === true
          ? `${hash.value.hash}/${hash.value.hashRevision}/${hash.value.compactRevision}`
          : undefined;
      });
      if (said.includes(undefined)) return `not every voter is known to be fit to take writes (${alarm})`;
      if (new Set(said).size > 1) return 'the data of the voters differs';
    }
    return undefined;
  },
};

const minorNumber = (version: string | undefined): number | undefined => {
  const found = /^\d+\.(\d+)(\.|$)/.exec(version ?? '')?.[1];
  return found === undefined ? undefined : Number(found);
};

const dataReadable: Invariant = {
  name: 'a member that runs is stopped only for a version that reads its data as it is',
  broken: (s, step) => {
    if (step.do !== 'DeletePods') return undefined;
    for (const { member, pod } of s.held) {
      if (pod?.etcd.known !== true || !step.pods.some(({ uid }) => uid === pod.uid)) continue;
      const { version, storageVersion } = pod.etcd.value;
      const next = minorNumber(member.spec.version);
      // 3.5 does not say how its data is written, and nothing below it is supported.
      const written = minorNumber(storageVersion ?? version);
      if (next !== undefined && written !== undefined && next < written) {
        return `${member.name} would come back as ${member.spec.version} on data of 3.${written}`;
      }
    }
    return undefined;
  },
};

/** What a step writes into a Pod's configuration file. */
const configsOf = (step: Step): readonly string[] =>
  step.do === 'BringUp'
    ? step.places.map(({ config }) => config)
    : step.do === 'Configure'
      ? step.pods.map(({ config }) => config)
      : [];

/** Deletes or gives away volumes, for whatever reason. */
const volumesTakenBy = (step: Step): readonly string[] =>
  step.do === 'Retire' || step.do === 'ClearAttempt' || step.do === 'AbandonRecovery' || step.do === 'RetireLost'
    ? step.volumes.map(({ uid }) => uid)
    : [];

type Thing = { readonly name: string; readonly deleting: boolean };

/** Asked to go, and held up by a node that is away. Names never come again, so it is in the way of nothing that is made anew. */
const heldByNode =
  (pods: readonly SeenPod[]) =>
  (thing: Thing): boolean =>
    thing.deleting &&
    pods.some(
      ({ name, deleting, host }) =>
        deleting && host !== undefined && host.is !== 'ready' && (name === thing.name || name === seedOf(thing.name)),
    );

const WHILE_RECOVERING: readonly Step['do'][] = [
  ...(['Wait', 'AskHuman', 'Teardown', 'LetGo', 'Dismiss', 'Adopt', 'Latch', 'DeletePods', 'BringUp'] as const),
  ...(['Fence', 'AdvanceRecovery', 'Seed', 'CompleteRecovery', 'AbandonRecovery', 'GiveUpRestore'] as const),
];

const consentedSnapshot = (consent: EtcdQuorumRecovery | undefined, { name, uri }: StoredSource): boolean =>
  name === undefined
    ? consent?.source !== undefined && locationName(consent.source) === uri
    : consent?.snapshot === name;

const recoveredWithConsent: Invariant = {
  name: 'a cluster is given up only with consent, with nothing of it running, and its volumes stay until the next one is whole',
  broken: (s, step) => {
    const operation = s.quorum?.status.operation;
    const recovering = operation?.kind === 'RecoverQuorum' ? operation : undefined;
    if (configsOf(step).some((config) => /^force-new-cluster: true/m.test(config))) {
      return 'a member that may serve would throw out every other one';
    }
    const pods = s.slots.flatMap(({ member }) => member.pods);
    const volumes = s.slots.flatMap(({ member, lostVolumes }) => [...member.volumes, ...lostVolumes]);
    if (step.do === 'BeginRecovery') {
      const consent = s.quorum?.spec.recovery;
      if (s.seen.membership.known) return 'there is a quorum';
      const from =
        step.stored === undefined ? consent?.survivor === step.target : consentedSnapshot(consent, step.stored);
      return consent?.acceptDataLoss === true && from && consent.clusterID === s.latch
        ? undefined
        : `nobody consented to giving up ${s.latch} for ${step.stored === undefined ? step.target : step.source}`;
    }
    if (step.do === 'Latch' && s.latch !== undefined && step.clusterID !== s.latch) return `it exists as ${s.latch}`;
    if (step.do === 'RetireLost') {
      if (!s.seen.membership.known || s.held.some(({ serving }) => !serving)) return 'not everybody serves';
      if (s.held.length < (s.quorum?.spec.replicas ?? 0)) return 'it has not its full size yet';
      const own = volumes.find(({ uid, clusterID }) => volumesTakenBy(step).includes(uid) && clusterID === s.latch);
      return own === undefined ? undefined : `${own.name} is of the present cluster`;
    }
    const strange = volumes.find(
      ({ uid, clusterID }) =>
        volumesTakenBy(step).includes(uid) && clusterID !== undefined && s.latch !== undefined && clusterID !== s.latch,
    );
    if (strange !== undefined) return `${strange.name} is of cluster ${strange.clusterID}`;
    if (recovering === undefined) {
      const orphan = ['Fence', 'AdvanceRecovery', 'Seed', 'CompleteRecovery', 'AbandonRecovery'].includes(step.do);
      return orphan ? 'no recovery is recorded' : undefined;
    }
    if (!WHILE_RECOVERING.includes(step.do)) return `${step.do} while quorum is being recovered`;
    const own = incarnationName(recovering.target ?? '', recovering.incarnation ?? '');
    const ofRecovery = ({ name }: { readonly name: string }): boolean => name === own || name === seedOf(own);
    const fromStore = recovering.recovery?.location !== undefined;
    const old = pods.find((pod) => !ofRecovery(pod) && !(fromStore && isSeedPod(pod) && heldByNode(pods)(pod)));
    const unverified = fromStore && recovering.step === 'filling';
    switch (step.do) {
      case 'Fence':
        return unverified ? 'the snapshot that is to take its place has not been verified' : undefined;
      case 'AdvanceRecovery':
      case 'Seed':
      case 'CompleteRecovery':
        // A stored snapshot is brought in and verified while the lost cluster stands as it is.
        if (unverified && (step.do === 'Seed' || (step.do === 'AdvanceRecovery' && step.to === 'fencing'))) {
          return undefined;
        }
        if (old !== undefined) return `${old.name} of the lost cluster is still there`;
        if (step.do !== 'CompleteRecovery') return undefined;
        return recovering.step === 'starting' && step.clusterID !== recovering.recovery?.clusterID
          ? undefined
          : `it goes on as ${step.clusterID} in step ${recovering.step}`;
      case 'DeletePods': {
        const other = step.pods.find((pod) => !ofRecovery(pod));
        return other === undefined ? undefined : `${other.name} is ended by something else than the fencing`;
      }
      case 'BringUp': {
        const other = step.places.find((place) => incarnationName(place.member.name, place.incarnation) !== own);
        if (other !== undefined) return `${other.member.name} is started beside it`;
        return recovering.step === 'starting' && old === undefined ? undefined : 'its data is not there yet';
      }
      case 'AbandonRecovery': {
        const kept = volumes.find((volume) => volumesTakenBy(step).includes(volume.uid) && volume.name !== own);
        return kept === undefined ? undefined : `${kept.name} was not made by this recovery`;
      }
      default:
        return undefined;
    }
  },
};

const restoredOnce: Invariant = {
  name: 'a snapshot is restored only into a cluster that has never existed, and onto one volume that holds nothing else',
  broken: (s, step) => {
    const restoring = ['BeginRestore', 'SeedFromSnapshot', 'AdvanceRestore', 'CompleteRestore', 'AbandonRestore'];
    if (!restoring.includes(step.do)) return undefined;
    if (s.latch !== undefined) return `it has existed as ${s.latch}`;
    const operation = s.quorum?.status.operation;
    const pods = s.slots.flatMap(({ member }) => member.pods);
    const things = [...pods, ...s.slots.flatMap(({ member }) => member.volumes)].filter(
      (thing) => !heldByNode(pods.filter(({ verifiedContainer }) => verifiedContainer === undefined))(thing),
    );
    if (step.do === 'BeginRestore') {
      if (operation !== undefined) return `${operation.kind} is in flight`;
      return things.length === 0 ? undefined : `${things.map(({ name }) => name).join(', ')} still exist`;
    }
    if (operation?.kind !== 'Restore') return 'no restore is recorded';
    const served = s.slots.flatMap(({ member }) => member.pods).find((pod) => pod.verifiedContainer !== undefined);
    if (step.do === 'AbandonRestore') return served === undefined ? undefined : `${served.name} has served clients`;
    const own = incarnationName(operation.target ?? '', operation.incarnation ?? '');
    const other = things.find(({ name, deleting }) => !deleting && name !== own && name !== seedOf(own));
    if (other !== undefined) return `${other.name} stands beside it`;
    return step.do === 'CompleteRestore' && operation.step !== 'starting' ? 'nothing was restored yet' : undefined;
  },
};

const passwordsKept: Invariant = {
  name: 'etcd learns a password only once it is written down, and asks for one only where root can give it to every member',
  broken: (s, step) => {
    if (step.do === 'LatchAuth') {
      const { enabled } = s.seen.auth ?? {};
      return enabled?.known === true && enabled.value === step.enabled ? undefined : 'etcd was not found so';
    }
    if (step.do === 'KeepPassword') {
      const { accepted } = s.seen.auth ?? {};
      return step.as === 'next' || accepted === 'password' ? undefined : `etcd took another one (${accepted})`;
    }
    if (step.do !== 'EnableAuth' && step.do !== 'ChangePassword') return undefined;
    const { password, kept, accepted } = s.seen.auth ?? {};
    if (password?.known !== true) return 'the Secret holds no password';
    if (kept?.known !== true || kept.value === 'missing') return 'the password is written down nowhere';
    if (accepted === 'none') return 'nothing is let in';
    if (step.do === 'ChangePassword') return undefined;
    if (s.quorum?.spec.tls?.client === undefined) return 'passwords would travel in the clear';
    const ill = s.held.find((slot) => !isHealthyVoter(slot));
    return ill === undefined ? undefined : `${ill.member.name} is no healthy voter`;
  },
};

/** Pods that may shake hands with others, as they were made: whom they trust never changes. */
const shakingHands = (s: Situation) =>
  s.slots.flatMap(({ member }) =>
    member.pods.filter(({ phase, seed }) => seed === undefined && (phase === 'Running' || phase === 'Pending')),
  );

const shownToFriends: Invariant = {
  name: 'no member is shown a certificate that it does not trust, and no authority is dropped that somebody still shows one of',
  broken: (s, step) => {
    if (step.do === 'BringUp') {
      const known = (s.seen.certificates ?? []).filter(({ role, inUse }) => role === 'peer' && inUse.known);
      for (const { inUse } of known) {
        const needed = inUse.known ? (inUse.value?.secret.authorities ?? []) : [];
        const place = step.places.find(
          ({ trust }) => trust?.peer !== undefined && needed.some(({ pem }) => trust.peer?.includes(pem) !== true),
        );
        if (place !== undefined) return `${place.member.name} would not trust all that its peers may show`;
      }
      return undefined;
    }
    if (step.do !== 'UseCertificate') return undefined;
    const seen = s.seen.certificates?.find(({ role }) => role === step.role);
    const offered = seen?.secret.known === true ? seen.secret.value : undefined;
    const held = seen?.inUse.known === true ? seen.inUse.value?.secret : undefined;
    const shows = [offered, held].find((one) => one?.leaf?.fingerprint === step.fingerprint);
    const anchor = shows?.authorities.find(({ fingerprint }) => fingerprint === shows.leaf?.trustedBy);
    if (anchor === undefined) return `nobody vouches for the certificate ${step.fingerprint.slice(0, 16)}`;
    if (!step.authorities.includes(anchor.pem)) return `${anchor.subject} would not be trusted`;
    const { role } = step;
    if (role !== 'server') {
      const as = role === 'peer' ? 'peer' : 'client';
      const other = shakingHands(s).find(({ trust }) => trust?.[as]?.includes(anchor.pem) === false);
      if (other !== undefined) return `${other.name} does not trust ${anchor.subject}`;
    }
    const fewer = (held?.authorities ?? []).find(({ pem }) => !step.authorities.includes(pem));
    if (fewer === undefined || role === 'client' || role === 'consumer') return undefined;
    const late = shakingHands(s).find(
      ({ shows: seenThere, config }) =>
        config?.includes(role === 'peer' ? 'peer-transport-security' : 'client-transport-security') === true &&
        (seenThere?.[role]?.known !== true || seenThere[role].value !== step.fingerprint),
    );
    return late === undefined ? undefined : `${late.name} was not seen to show anything else than of ${fewer.subject}`;
  },
};

const WHILE_REPLACING: readonly Step['do'][] = [
  ...(['Wait', 'AskHuman', 'Teardown', 'LetGo', 'Dismiss', 'Adopt', 'Latch', 'DeletePods', 'BringUp'] as const),
  ...(['StopReplaced', 'NoteReached', 'StartRestored', 'CompleteRestoreInPlace', 'GiveUpRestore'] as const),
];

const replacedWithConsent: Invariant = {
  name: 'data that is served is replaced only by verified data and with consent, and stays where it is for the way back',
  broken: (s, step) => {
    const { restoring, operation } = s.quorum?.status ?? {};
    const replacing = operation?.kind === 'RestoreInPlace';
    const pods = s.seen.members.flatMap((member) => member.pods);
    const volumes = s.seen.members.flatMap((member) => member.volumes);
    const own = incarnationName(restoring?.target ?? '', restoring?.incarnation ?? '');
    const isOwn = ({ name }: { readonly name: string }): boolean =>
      restoring !== undefined && (name === own || name === seedOf(own));
    const consent = (uid: string | undefined): boolean =>
      s.seen.restores?.some((one) => one.uid === uid && !one.deleting && one.clusterID === s.latch) === true;
    if (step.do === 'BeginRestoreInPlace') {
      if (restoring !== undefined) return `EtcdRestore ${restoring.restore} is being carried out`;
      return consent(step.restore.uid) ? undefined : `nobody consented to replacing the data of ${s.latch}`;
    }
    if (step.do === 'RetireLost') {
      const wanted = s.seen.restores?.find(
        ({ clusterID, phase }) =>
          phase !== 'Failed' &&
          volumes.some(
            (volume) => step.volumes.some(({ uid }) => uid === volume.uid) && volume.clusterID === clusterID,
          ),
      );
      return wanted === undefined ? undefined : `EtcdRestore ${wanted.name} still refers to what it replaced`;
    }
    if (step.do === 'GiveUpRestore') {
      const kept = volumes.find((volume) => step.volumes.some(({ uid }) => uid === volume.uid) && !isOwn(volume));
      if (kept !== undefined) return `${kept.name} was not made by this restore`;
      const left = [...pods, ...volumes].find((thing) => isOwn(thing) && !heldByNode(pods)(thing));
      return step.done && left !== undefined ? `${left.name} is still there` : undefined;
    }
    const taken = volumes.find((volume) => volumesTakenBy(step).includes(volume.uid) && isOwn(volume));
    if (taken !== undefined && step.do !== 'ClearAttempt') return `${taken.name} is made ready by a restore`;
    if (step.do === 'PrepareElsewhere') {
      if (restoring === undefined || restoring.failed !== undefined) return 'nothing is being made ready';
      return replacing ? 'what was made ready takes over already' : undefined;
    }
    if (step.do === 'BeginCutOver') {
      const unreachable = pods.find(
        ({ name, deleting, host }) => host !== undefined && host.is !== 'ready' && !(deleting && isSeedPod({ name })),
      );
      if (unreachable !== undefined) return `${unreachable.name} could not be proven to have ended`;
      if (operation !== undefined) return `${operation.kind} is in flight`;
      if (restoring?.verified === undefined || restoring.failed !== undefined) return 'nothing was verified';
      if (restoring.clusterID !== s.latch || !consent(restoring.restoreUID)) {
        return `nobody consented to replacing the data of ${s.latch}`;
      }
      return volumes.some((volume) => isOwn(volume) && !volume.deleting) ? undefined : 'there is no restored data';
    }
    if (!replacing) {
      return ['StopReplaced', 'NoteReached', 'StartRestored', 'CompleteRestoreInPlace'].includes(step.do)
        ? 'nothing is being replaced'
        : undefined;
    }
    if (!WHILE_REPLACING.includes(step.do)) return `${step.do} while the data is being replaced`;
    const old = pods.find((pod) => !isOwn(pod) && !(isSeedPod(pod) && heldByNode(pods)(pod)));
    switch (step.do) {
      case 'StopReplaced': {
        const restored = step.pods.find(isOwn);
        return restored === undefined ? undefined : `${restored.name} is the restored member`;
      }
      case 'DeletePods': {
        const other = step.pods.find((pod) => !isOwn(pod));
        return other === undefined ? undefined : `${other.name} is not of the restore`;
      }
      case 'BringUp': {
        const other = step.places.find((place) => incarnationName(place.member.name, place.incarnation) !== own);
        if (other !== undefined) return `${other.member.name} is started beside it`;
        return operation.step === 'starting' && old === undefined ? undefined : 'the replaced members are not gone';
      }
      case 'StartRestored':
        return old === undefined ? undefined : `${old.name} is still there`;
      case 'CompleteRestoreInPlace': {
        if (operation.step !== 'starting' || old !== undefined) return 'the replaced members are not gone';
        if (step.clusterID === s.latch) return `it would go on as ${s.latch}`;
        const answers = pods.some(({ etcd }) => etcd.known && etcd.value.clusterId === step.clusterID);
        if (!answers) return `nobody answers as ${step.clusterID}`;
        const higher = volumes.find(
          ({ clusterID, revisionFloor }) => clusterID === s.latch && (revisionFloor ?? 0n) >= step.revision,
        );
        return higher === undefined ? undefined : `${higher.name} has come to revision ${higher.revisionFloor}`;
      }
      default:
        return undefined;
    }
  },
};

export const INVARIANTS: readonly Invariant[] = [
  dataBeforeWrites,
  quorumKept,
  oneChange,
  orphansOnly,
  bornOnce,
  provenBeforeServing,
  volumesKept,
  nothingForgotten,
  restoredOnce,
  shownToFriends,
  dataReadable,
  recoveredWithConsent,
  passwordsKept,
  replacedWithConsent,
];

/** The first invariant that the step would break, with the particulars; undefined if it may be taken. */
export const brokenInvariant = (s: Situation, step: Step): string | undefined => {
  for (const { name, broken } of INVARIANTS) {
    const why = broken(s, step);
    if (why !== undefined) return `${name}: ${why}`;
  }
  return undefined;
};
