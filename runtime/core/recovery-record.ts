/**
 * What is written down of a recovery: what it goes on from, and what it does not bring back, as far as anybody knows. Unknown is
 * said to be unknown: it is never nothing.
 */
import type {
  EtcdQuorumOperation,
  EtcdQuorumOperationRecovery,
  EtcdQuorumRecovered,
} from '../../api/etcdquorum.gen.ts';
import type { Step } from './steps.ts';
import type { LastSeen } from './survivors.ts';

export type LossOf = {
  /** Up to which what is gone on from is whole. */
  readonly revision: bigint;
  /** Of a stored snapshot. */
  readonly takenAt?: string | undefined;
  readonly last: LastSeen | undefined;
};

export const lossSentence = ({ revision, takenAt, last }: LossOf): string => {
  const since = takenAt === undefined ? '' : `, written since ${takenAt},`;
  if (last === undefined) return `what came after revision ${revision}${since} is lost; how much that is, is not known`;
  return last.revision > revision
    ? `revisions ${revision + 1n} to ${last.revision}${since} are lost, and whatever came after them`
    : `it holds the last revision that is known of; what came after revision ${revision}${since} is lost`;
};

type Recovered = Pick<EtcdQuorumRecovered, 'survivor' | 'etcdSnapshot' | 'uri'>;

const origin = ({ survivor, etcdSnapshot, uri }: Recovered): string =>
  survivor === undefined ? `snapshot ${etcdSnapshot ?? uri}` : `member ${survivor}`;

const lossRecord = (
  from: Recovered,
  { at, until, ...of }: LossOf & { readonly at: string; readonly until: string | undefined },
): NonNullable<EtcdQuorumRecovered['lost']> => ({
  message: `${at}: went on from ${origin(from)} at revision ${of.revision}; ${lossSentence(of)}`,
  fromRevision: String(of.revision + 1n),
  ...(of.last === undefined || of.last.revision <= of.revision ? {} : { toRevision: String(of.last.revision) }),
  ...(of.takenAt === undefined ? {} : { since: of.takenAt }),
  ...(until === undefined ? {} : { until }),
});

export const recoveryBegun = (step: Extract<Step, { do: 'BeginRecovery' }>): EtcdQuorumOperationRecovery => {
  const { source, clusterID, revision, stored, replaces, lastRevision } = step;
  return {
    source,
    clusterID,
    revision: String(revision),
    ...(replaces === undefined ? {} : { replaces }),
    ...(lastRevision === undefined ? {} : { lastRevision: String(lastRevision) }),
    ...(stored === undefined
      ? {}
      : {
          location: stored.location,
          ...(stored.name === undefined ? {} : { etcdSnapshot: stored.name }),
          ...(stored.takenAt === undefined ? {} : { takenAt: stored.takenAt }),
          ...(stored.sha256 === undefined ? {} : { snapshot: stored.sha256 }),
        }),
  };
};

export const recoveryRecord = (
  { id, target = '' }: EtcdQuorumOperation,
  recovery: EtcdQuorumOperationRecovery,
  step: Extract<Step, { do: 'CompleteRecovery' }>,
  { now, lostAt }: { readonly now: number; readonly lostAt: string | undefined },
): EtcdQuorumRecovered => {
  const {
    clusterID: lostClusterID,
    revision,
    snapshot,
    location,
    etcdSnapshot,
    source,
    takenAt,
    lastRevision,
  } = recovery;
  const at = new Date(now).toISOString();
  const from: Recovered =
    location === undefined
      ? { survivor: target }
      : { ...(etcdSnapshot === undefined ? {} : { etcdSnapshot }), uri: source };
  const last = lastRevision === undefined ? undefined : { revision: BigInt(lastRevision) };
  return {
    id,
    at,
    ...from,
    lostClusterID,
    clusterID: step.clusterID,
    revisionBefore: revision,
    revisionAfter: String(step.revision),
    ...(snapshot === undefined ? {} : { snapshot }),
    lost: lossRecord(from, { at, until: lostAt, revision: BigInt(revision), takenAt, last }),
  };
};
