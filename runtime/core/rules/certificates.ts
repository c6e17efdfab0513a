/** What is not begun with certificates that cannot work. */
import { firstProblem } from '../certificates.ts';
import { admit, configure, impostor } from './identity.ts';
import { pause } from './restart.ts';
import { RETRY_MS, type Rule, wait } from './rule.ts';

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
    if (problem === undefined) return undefined;
    const { reason, message } = problem;
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
