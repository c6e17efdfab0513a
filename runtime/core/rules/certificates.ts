/** What is not begun with certificates that cannot work. */
import type { Reason } from '../../../api/reasons.ts';
import { firstProblem } from '../certificates.ts';
import type { Situation } from '../situation.ts';
import { admit, configure, impostor } from './identity.ts';
import { pause } from './restart.ts';
import { RETRY_MS, type Rule, wait } from './rule.ts';

/**
 * A certificate of an authority that running members do not trust. They took their authorities from their start, and show the new
 * certificate from its next handshake on: what is connected stays so, and whoever is restarted is shut out by the others.
 */
const changedAtOnce = (s: Situation): { readonly reason: Reason; readonly message: string } | undefined => {
  for (const { role, secretName, secret } of s.seen.certificates ?? []) {
    const seen = secret.known ? secret.value : undefined;
    const anchor = seen?.authorities.find(({ fingerprint }) => fingerprint === seen.leaf?.trustedBy);
    if (role === 'server' || anchor === undefined) continue;
    const distrusting = s.held.filter(({ pod }) => {
      const trust = pod?.container.state === 'running' ? pod.trust?.[role] : undefined;
      return trust !== undefined && !trust.includes(anchor.pem);
    });
    // A single member has nobody to be shut out by, and takes the new authority by being restarted.
    if (distrusting.length === 0 || (s.held.length === 1 && role === 'peer')) continue;
    return {
      reason: 'CaChangedAtOnce',
      message: `Secret ${secretName}: the certificate is of ${anchor.subject}, which ${distrusting.map(({ member }) => member.name).join(', ')} do not trust yet; put the former certificate back with both authorities in ca.crt, then the new one`,
    };
  }
  return undefined;
};

/**
 * Before everything that starts, stops or adds a member, and before a silent cluster is taken for a lost quorum: with an
 * expired certificate members do not answer either. Members that run are left alone, those that started are still let in,
 * and a pause needs no certificate. A changed Secret wakes the next pass.
 */
export const certificates: Rule = {
  name: 'certificates',
  answer: (s) => {
    if (s.quorum === undefined || s.quorum.spec.replicas === 0) return undefined;
    const { certificates: seen, cluster, namespace, now } = s.seen;
    const problem = firstProblem(seen, cluster, namespace, now);
    const trouble = problem ?? changedAtOnce(s);
    if (trouble === undefined) return undefined;
    const { reason, message } = trouble;
    return (
      impostor.answer(s) ??
      pause.answer(s) ??
      configure.answer(s) ??
      admit.answer(s) ??
      (reason === 'SecretMissing' || reason === 'SecretUnread'
        ? wait(reason, message, reason === 'SecretUnread' ? RETRY_MS : undefined)
        : { do: 'AskHuman', reason, message })
    );
  },
};
