/** The claim as it can be carried out, and what of it cannot. */
import { minorOf, needsDowngrade, upgradeRefusal } from '../../api/upgrade-path.ts';
import { type Claim, record } from './claim.ts';
import type { RunFunctionRequest } from './exchange.ts';
import { hasExisted, isText, quorumOf } from './settling.ts';

export type Accepted = {
  readonly claim: Claim;
  /**
   * What the members are rendered with. It stays behind the claim's while etcd writes its data back for a lower minor: a member that
   * has to be made again meanwhile could not start with it.
   */
  readonly memberVersion: string;
  /** What is refused, why, and what to set instead; undefined where everything is carried out. */
  readonly refusal: string | undefined;
};

/**
 * A version that cannot follow the one that runs is refused here, before it is rendered: members go on being rendered with the
 * version accepted last, so that one of them that has to be made again comes back as what it was.
 */
export const accepted = (request: RunFunctionRequest, claim: Claim): Accepted => {
  const quorum = quorumOf(request);
  const running = record(quorum?.status).version ?? claim.status.version;
  if (!isText(running) || !hasExisted(quorum, claim)) {
    return { claim, memberVersion: claim.version, refusal: undefined };
  }
  const highest = running.split('-').at(-1) ?? running;
  const refusal = upgradeRefusal(running, claim.version);
  if (refusal === undefined) {
    const prepared = record(quorum?.status).downgradableTo === minorOf(claim.version);
    const waits = needsDowngrade(running, claim.version) && !prepared;
    return { claim, memberVersion: waits ? highest : claim.version, refusal };
  }
  const before = record(quorum?.spec).version;
  const version =
    isText(before) && upgradeRefusal(running, before) === undefined && !needsDowngrade(running, before)
      ? before
      : highest;
  return { claim: { ...claim, version }, memberVersion: version, refusal };
};
