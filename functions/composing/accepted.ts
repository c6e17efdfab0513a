/** The claim as it can be carried out, and what of it cannot. */
import { upgradeRefusal } from '../../api/upgrade-path.ts';
import { type Claim, record } from './claim.ts';
import type { RunFunctionRequest } from './exchange.ts';
import { hasExisted, isText, quorumOf } from './settling.ts';

export type Accepted = {
  readonly claim: Claim;
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
  if (!isText(running) || !hasExisted(quorum, claim)) return { claim, refusal: undefined };
  const refusal = upgradeRefusal(running, claim.version);
  if (refusal === undefined) return { claim, refusal };
  const before = record(quorum?.spec).version;
  const highest = running.split('-').at(-1) ?? running;
  const version = isText(before) && upgradeRefusal(running, before) === undefined ? before : highest;
  return { claim: { ...claim, version }, refusal };
};
