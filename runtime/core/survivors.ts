/** Who is left when quorum is lost, and whether a person's consent to go on from one of them holds. */
import type { EtcdQuorumRecovery } from '../../api/etcdquorum.gen.ts';
import type { Situation, Slot } from './situation.ts';

export type Survivor = {
  readonly slot: Slot;
  readonly revision: bigint;
  /** `metrics`: it has restarted since and serves no clients, but its metrics port tells how far its data goes. */
  readonly source: 'status' | 'metrics';
  readonly isLearner: boolean;
};

/** Most data first. Whoever runs on another cluster's data is none, and neither is a Pod that is ending. */
export const survivorsOf = (s: Situation): readonly Survivor[] =>
  s.held
    .flatMap((slot): Survivor[] => {
      const { pod, member } = slot;
      if (pod === undefined || pod.deleting || pod.container.state !== 'running') return [];
      if (pod.etcd.known) {
        const { clusterId, revision, isLearner } = pod.etcd.value;
        return clusterId === s.latch ? [{ slot, revision, source: 'status', isLearner }] : [];
      }
      if (pod.metrics?.known !== true) return [];
      const { revision, isLearner = member.status.isVoter === false } = pod.metrics.value;
      return [{ slot, revision, source: 'metrics', isLearner }];
    })
    .toSorted((a, b) =>
      a.revision === b.revision ? a.slot.member.ordinal - b.slot.member.ordinal : a.revision > b.revision ? -1 : 1,
    );

/** Nothing is recovered from a learner: alone, it has no vote to go on with. */
const ableSurvivors = (s: Situation): readonly Survivor[] =>
  survivorsOf(s).filter(({ isLearner, slot }) => !isLearner && !slot.volatile && slot.volume?.deleting === false);

/** What to put into the claim, on one line that can be copied. The ID is quoted: some would be read as numbers. */
const consentFor = (s: Situation, { slot }: Survivor): string =>
  `recovery: {survivor: ${slot.member.name}, clusterID: "${s.latch}", acceptDataLoss: true}`;

/** The way out, as far as there is one, for whoever reads the condition. */
export const advice = (s: Situation): string | undefined => {
  const survivors = survivorsOf(s);
  if (survivors.length === 0) return undefined;
  const list = survivors
    .map(({ slot, revision, source, isLearner }) => {
      const notes = [...(isLearner ? ['learner'] : []), ...(source === 'metrics' ? ['restarted, not readable'] : [])];
      return `${slot.member.name} at revision ${revision}${notes.length === 0 ? '' : ` (${notes.join(', ')})`}`;
    })
    .join(', ');
  const [best] = ableSurvivors(s);
  if (best === undefined) return `survivors: ${list}`;
  return `survivors: ${list}; if the others' data is lost for good, consent to losing what only they had by adding this line to spec of the EtcdCluster: ${consentFor(s, best)}`;
};

export type Consent =
  | { readonly is: 'absent' }
  | { readonly is: 'refused'; readonly why: string }
  | { readonly is: 'given'; readonly survivor: Survivor };

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
  const able = ableSurvivors(s);
  const named = survivorsOf(s).find(({ slot }) => slot.member.name === consent.survivor);
  const [best] = able;
  if (named === undefined) {
    return refused(
      `spec.recovery.survivor is ${consent.survivor}, which does not answer${best === undefined ? '' : `; possible is ${consentFor(s, best)}`}`,
    );
  }
  const { slot, isLearner, revision } = named;
  if (slot.volatile) {
    return refused(
      `${consent.survivor} has its data in memory only as long as its Pod: save it with "etcdctl snapshot save" against that Pod, and restore it into a new claim`,
    );
  }
  if (slot.volume?.deleting !== false) {
    return refused(
      `the volume of ${consent.survivor} is being deleted and ends with its Pod: save its data with "etcdctl snapshot save" against that Pod`,
    );
  }
  if (isLearner) return refused(`${consent.survivor} is a learner, from which nothing can be recovered`);
  if (best !== undefined && revision < best.revision) {
    return refused(
      `${consent.survivor} has come to revision ${revision}, ${best.slot.member.name} to ${best.revision}, so more would be lost than has to be; possible is ${consentFor(s, best)}`,
    );
  }
  if (s.seen.agentImage === undefined) {
    return refused('this runtime does not know its own image: start it with --agent-image, then it goes on by itself');
  }
  return { is: 'given', survivor: named };
};

type Named = Pick<EtcdQuorumRecovery, 'survivor' | 'clusterID'>;

export const isSame = (a: Named | undefined, b: Named | undefined): boolean =>
  a !== undefined && b !== undefined && a.survivor === b.survivor && a.clusterID === b.clusterID;
