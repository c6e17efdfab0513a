/** The claim as it can be carried out, and what of it cannot. */
import type { Reason } from '../../api/reasons.ts';
import { minorOf, needsDowngrade, upgradeRefusal } from '../../api/upgrade-path.ts';
import { type Claim, record } from './claim.ts';
import type { RunFunctionRequest } from './exchange.ts';
import { keptTls } from './kept-tls.ts';
import { hasExisted, isText, quorumOf } from './settling.ts';

export type Refusal = {
  readonly reason: Reason;
  /** What is refused, why, and what to do instead. */
  readonly message: string;
};

export type Accepted = {
  readonly claim: Claim;
  /**
   * What the members are rendered with. It stays behind the claim's while etcd writes its data back for a lower minor: a member that
   * has to be made again meanwhile could not start with it.
   */
  readonly memberVersion: string;
  /** Undefined where everything is carried out. */
  readonly refusal: Refusal | undefined;
};

/**
 * What cannot follow what runs is refused here, before it is rendered: members go on being rendered as they were accepted last,
 * so that one of them that has to be made again comes back as what it was.
 */
export const accepted = (request: RunFunctionRequest, claim: Claim): Accepted => {
  if (!hasExisted(quorumOf(request), claim)) return { claim, memberVersion: claim.version, refusal: undefined };
  const kept = keptTls(request, claim);
  const encrypted = kept === undefined ? claim : { ...claim, spec: { ...claim.spec, tls: kept.tls } };
  const version = acceptedVersion(request, encrypted);
  return version.refusal !== undefined || kept === undefined
    ? version
    : { ...version, refusal: { reason: 'TlsRemovalRefused', message: kept.refusal } };
};

const acceptedVersion = (request: RunFunctionRequest, claim: Claim): Accepted => {
  const quorum = quorumOf(request);
  const running = record(quorum?.status).version ?? claim.status.version;
  if (!isText(running)) return { claim, memberVersion: claim.version, refusal: undefined };
  const highest = running.split('-').at(-1) ?? running;
  const message = upgradeRefusal(running, claim.version);
  if (message === undefined) {
    const prepared = record(quorum?.status).downgradableTo === minorOf(claim.version);
    const waits = needsDowngrade(running, claim.version) && !prepared;
    return { claim, memberVersion: waits ? highest : claim.version, refusal: undefined };
  }
  const before = record(quorum?.spec).version;
  const version =
    isText(before) && upgradeRefusal(running, before) === undefined && !needsDowngrade(running, before)
      ? before
      : highest;
  return { claim: { ...claim, version }, memberVersion: version, refusal: { reason: 'UpgradeRefused', message } };
};
