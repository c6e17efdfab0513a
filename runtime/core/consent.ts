/** Whether a person's consent to go on without a quorum holds, from what it goes on, and how to give it. */
import type { EtcdQuorumLoss, EtcdQuorumRecovery } from '../../api/etcdquorum.gen.ts';
import { compareMinors } from '../../api/upgrade-path.ts';
import { lossSentence } from './recovery-record.ts';
import type { Situation, Slot } from './situation.ts';
import type { KnownSnapshot, StoredSource } from './snapshots/known-snapshots.ts';
import { artifactFolder } from './snapshots/manifest.ts';
import { locationName } from './snapshots/store-access.ts';
import { ableSurvivors, lastSeenOf, type Survivor, snapshotsOf, survivorsOf } from './survivors.ts';

/** What to put into the claim, on one line that can be copied. Quoted is what may be read as a number. */
const consentTo = (s: Situation, what: string): string =>
  `recovery: {${what}, clusterID: "${s.latch}", acceptDataLoss: true}`;
const toSurvivor = (s: Situation, { slot }: Survivor): string => consentTo(s, `survivor: ${slot.member.name}`);
const toSnapshot = (s: Situation, { name }: KnownSnapshot): string => consentTo(s, `snapshot: "${name}"`);

const ADD = 'adding this line to spec of the EtcdCluster:';

const listed = ({ slot, revision, source, isLearner }: Survivor): string => {
  const notes = [
    ...(isLearner ? ['learner'] : []),
    ...(source === 'metrics' ? ['restarted, not readable'] : []),
    ...(slot.volatile ? ['in memory: it ends with its Pod'] : []),
  ];
  return `${slot.member.name} at revision ${revision}${notes.length === 0 ? '' : ` (${notes.join(', ')})`}`;
};

const described = ({ name, revision, takenAt }: KnownSnapshot): string =>
  `${name} at revision ${revision}${takenAt === undefined ? '' : `, taken ${takenAt}`}`;

/** What there is to go on from: nothing yet of how. */
export const heldIn = (s: Situation): readonly string[] => {
  const survivors = survivorsOf(s);
  const [snapshot] = snapshotsOf(s);
  return [
    ...(survivors.length === 0 ? [] : [`survivors: ${survivors.map(listed).join(', ')}`]),
    ...(snapshot === undefined ? [] : [`newest snapshot: ${described(snapshot)}`]),
  ];
};

/** The way out, as far as there is one, for whoever reads the condition. */
export const advice = (s: Situation): string | undefined => {
  const survivors = survivorsOf(s);
  const [snapshot] = snapshotsOf(s);
  const [best] = ableSurvivors(s);
  const held = heldIn(s);
  if (held.length === 0) return undefined;
  if (best !== undefined && (snapshot === undefined || best.revision >= snapshot.revision)) {
    const more =
      snapshot === undefined
        ? []
        : [`${best.slot.member.name} goes ${best.revision > snapshot.revision ? 'further' : 'as far'}`];
    return [
      ...held,
      ...more,
      `if the others' data is lost for good, consent to losing what only they had by ${ADD} ${toSurvivor(s, best)}`,
    ].join('; ');
  }
  if (snapshot === undefined) return held.join('; ');
  const [further] = survivors;
  const more =
    best !== undefined
      ? [`the snapshot goes further`]
      : further !== undefined && further.revision > snapshot.revision
        ? [
            `${further.slot.member.name} goes further and cannot be gone on from: save it with "etcdctl snapshot save" against its Pod before anything else`,
          ]
        : [];
  return [
    ...held,
    ...more,
    `if the members' data is lost for good, consent to going back to that snapshot (${lossSentence({ ...snapshot, last: lastSeenOf(s) })}) by ${ADD} ${toSnapshot(s, snapshot)}${best === undefined ? '' : `; or, if it proves to be of no use, ${toSurvivor(s, best)}`}`,
  ].join('; ');
};

const SOME_PLACE = '{s3: {endpoint: URL, bucket: BUCKET, key: KEY, credentialsSecretRef: {name: SECRET}}}';

/** Where a schedule stores, with the part of the key that only the store knows left to be filled in. JSON is YAML, too. */
const placeIn = ({ seen }: Situation): string => {
  const [destination] = seen.backups ?? [];
  if (destination === undefined) return SOME_PLACE;
  const { s3, pvc } = destination;
  const key = `${artifactFolder(s3?.key ?? pvc?.subPath, seen)}SNAPSHOT.db`;
  return JSON.stringify({
    ...destination,
    ...(s3 === undefined ? {} : { s3: { ...s3, key } }),
    ...(pvc === undefined ? {} : { pvc: { ...pvc, subPath: key } }),
  });
};

/** For whoever has lost everything, and knows of no snapshot by an EtcdSnapshot. */
export const adviceOnPlace = (s: Situation): string =>
  `no complete EtcdSnapshot of this cluster is known; if one is stored all the same, name its place by ${ADD} ${consentTo(s, `source: ${placeIn(s)}`)}`;

export type Consent =
  | { readonly is: 'absent' }
  | { readonly is: 'refused'; readonly why: string }
  | { readonly is: 'given'; readonly to: 'survivor'; readonly survivor: Survivor }
  | { readonly is: 'given'; readonly to: 'snapshot'; readonly stored: StoredSource; readonly target: Slot };

const refused = (why: string): Consent => ({ is: 'refused', why });

/**
 * Whether the claim's consent is one to this very loss. One that names another cluster is none: a claim in Git keeps the
 * consent to a loss that is long over.
 */
export const consentOf = (s: Situation): Consent => {
  const consent = s.quorum?.spec.recovery;
  const loss = s.quorum?.status.loss;
  // The loss is recorded first, together with a consent that stood there before.
  if (consent?.acceptDataLoss !== true || consent.clusterID !== s.latch || loss === undefined) return { is: 'absent' };
  if (isSame(loss.priorConsent, consent)) {
    return refused(
      'spec.recovery stood in the claim before quorum was lost, so it is no consent to this loss: take it out of the claim, then put it in again',
    );
  }
  const answer = consent.survivor === undefined ? toStored(s, consent) : toSurvivorNamed(s, consent.survivor);
  if (answer.is === 'given' && s.seen.agentImage === undefined) {
    return refused('this runtime does not know its own image: start it with --agent-image, then it goes on by itself');
  }
  return answer;
};

const toSurvivorNamed = (s: Situation, name: string): Consent => {
  const able = ableSurvivors(s);
  const named = survivorsOf(s).find(({ slot }) => slot.member.name === name);
  const [best] = able;
  if (named === undefined) {
    return refused(
      `spec.recovery.survivor is ${name}, which does not answer${best === undefined ? '' : `; possible is ${toSurvivor(s, best)}`}`,
    );
  }
  const { slot, isLearner, revision } = named;
  if (slot.volatile) {
    return refused(
      `${name} has its data in memory only as long as its Pod: save it with "etcdctl snapshot save" against that Pod, put the file where spec.recovery.source can name it, and go on from there`,
    );
  }
  if (slot.volume?.deleting !== false) {
    return refused(
      `the volume of ${name} is being deleted and ends with its Pod: save its data with "etcdctl snapshot save" against that Pod`,
    );
  }
  if (isLearner) return refused(`${name} is a learner, from which nothing can be recovered`);
  // A snapshot that goes further stands in no survivor's way: it is a promise until it was fetched, the survivor is here.
  if (best !== undefined && revision < best.revision) {
    return refused(
      `${name} has come to revision ${revision}, ${best.slot.member.name} to ${best.revision}, so more would be lost than has to be; possible is ${toSurvivor(s, best)}`,
    );
  }
  return { is: 'given', to: 'survivor', survivor: named };
};

const toStored = (s: Situation, { snapshot: name, source }: EtcdQuorumRecovery): Consent => {
  const target = s.slots.find(({ member }) => !member.deleting);
  if (target === undefined) return { is: 'absent' };
  if (source !== undefined) {
    return { is: 'given', to: 'snapshot', target, stored: { location: source, uri: locationName(source) } };
  }
  const [newest] = snapshotsOf(s);
  const possible = newest === undefined ? '' : `; possible is ${toSnapshot(s, newest)}`;
  const named = s.seen.snapshots?.find((one) => one.name === name);
  if (named === undefined) {
    return refused(
      `spec.recovery.snapshot is ${name}, of which there is no complete EtcdSnapshot of this cluster${possible}`,
    );
  }
  if (!snapshotsOf(s).includes(named)) {
    return refused(
      `${named.name} is of cluster ${named.clusterID ?? '?'}, which this cluster has never been${possible}; to go on from it all the same, name its place in spec.recovery.source`,
    );
  }
  const { version } = target.member.spec;
  if (named.etcdVersion !== undefined && compareMinors(named.etcdVersion, version) > 0) {
    return refused(
      `${named.name} was taken from etcd ${named.etcdVersion}, which ${version} cannot read: set spec.version to ${named.etcdVersion}`,
    );
  }
  const [best] = ableSurvivors(s);
  if (best !== undefined && best.revision > named.revision) {
    return refused(
      `${named.name} has come to revision ${named.revision}, ${best.slot.member.name} to ${best.revision}, so more would be lost than has to be; possible is ${toSurvivor(s, best)}. If its data is of no use, delete its volume and its Pod`,
    );
  }
  const { location, uri, revision, takenAt, sha256 } = named;
  return {
    is: 'given',
    to: 'snapshot',
    target,
    stored: {
      location,
      uri,
      name: named.name,
      revision,
      ...(takenAt === undefined ? {} : { takenAt }),
      ...(sha256 === undefined ? {} : { sha256 }),
    },
  };
};

type Prior = NonNullable<EtcdQuorumLoss['priorConsent']>;

/** What of a consent is remembered: by what it names, whatever it says of the way there. */
export const remembered = ({ survivor, snapshot, source, clusterID }: EtcdQuorumRecovery): Prior => ({
  ...(survivor === undefined ? {} : { survivor }),
  ...(snapshot === undefined ? {} : { snapshot }),
  ...(source === undefined ? {} : { uri: locationName(source) }),
  clusterID,
});

export const isSame = (prior: Prior | undefined, consent: EtcdQuorumRecovery | undefined): boolean => {
  if (prior === undefined || consent === undefined) return false;
  const { survivor, snapshot, uri, clusterID } = remembered(consent);
  return (
    prior.survivor === survivor && prior.snapshot === snapshot && prior.uri === uri && prior.clusterID === clusterID
  );
};
