/** What is not begun with certificates that cannot work, and how a certificate comes into use. */
import { authorityToDrop, caChangeMessage, caChangeOf, certificateToUse, togetherIn, unusable } from '../ca-change.ts';
import { admit, configure, impostor } from './identity.ts';
import { pause } from './restart.ts';
import { RETRY_MS, type Rule, wait } from './rule.ts';

/**
 * Before everything that starts, stops or adds a member, and before a silent cluster is taken for a lost quorum: with an
 * expired certificate members do not answer either. Members that run are left alone, those that started are still let in,
 * and a pause needs no certificate. A changed Secret wakes the next pass. With a certificate in use, one that is offered and
 * cannot work is only told: nobody is shown it.
 */
export const certificates: Rule = {
  name: 'certificates',
  answer: (s) => {
    if (s.quorum === undefined || s.quorum.spec.replicas === 0) return undefined;
    const trouble = unusable(s);
    if (trouble === undefined) return certificateToUse(s);
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

/** Before anybody restarts for the sake of an authority: whatever is to be trusted or not any more, it takes one restart. */
export const authorities: Rule = {
  name: 'authorities',
  answer: (s) => {
    if (s.latch === undefined || s.quorum?.spec.replicas === 0) return undefined;
    const dropped = authorityToDrop(s);
    if (dropped !== undefined) return dropped;
    const ms = togetherIn(s);
    const change = ms === 0 ? undefined : caChangeOf(s);
    return change === undefined ? undefined : wait('CaChanging', caChangeMessage(change), ms);
  },
};

/** Last: nothing else waits for kubelets and clients. */
export const handover: Rule = {
  name: 'handover',
  answer: (s) => {
    const change = s.quorum?.spec.replicas === 0 ? undefined : caChangeOf(s);
    return change === undefined ? undefined : wait('CaChanging', caChangeMessage(change), change.recheckMs);
  },
};
