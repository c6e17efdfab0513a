/** etcd's own authentication: on once the cluster is whole, root's password that of the Secret, off when asked. */
import type { Reason } from '../../../api/reasons.ts';
import { isHealthyVoter } from '../situation.ts';
import { pause } from './restart.ts';
import { RETRY_MS, type Rule, wait } from './rule.ts';

/** Members answer nobody whom they do not know, so nothing else can be decided, and it must not look like a lost quorum. */
export const credentials: Rule = {
  name: 'credentials',
  answer: (s) => {
    const { auth } = s.seen;
    if (auth?.accepted !== 'none' || s.quorum === undefined) return undefined;
    const { enabled, rootCredentialsSecretName: secret } = s.quorum.spec.auth ?? {};
    const asked = enabled === true || secret !== undefined;
    const reason: Reason = asked ? 'AuthCredentialsRejected' : 'AuthRequiredNotConfigured';
    const why = auth.password.known
      ? `etcd does not take root's password from Secret ${secret}`
      : `${auth.password.why}, and etcd asks for root's password`;
    return (
      pause.answer(s) ?? {
        do: 'AskHuman',
        reason,
        message: asked ? why : 'etcd asks for a password, and the claim has no auth.rootCredentialsSecretRef',
      }
    );
  },
};

/** After everything that keeps the cluster whole: a password is never what a member waits for. */
export const authentication: Rule = {
  name: 'authentication',
  answer: (s) => {
    const { auth, membership } = s.seen;
    const { quorum, latch } = s;
    if (auth === undefined || quorum === undefined || latch === undefined || !membership.known) return undefined;
    if (quorum.status.operation !== undefined || s.held.length === 0) return undefined;
    if (!s.held.every((slot) => slot.serving && isHealthyVoter(slot))) return undefined;
    const wanted = quorum.spec.auth?.enabled === true;
    const latched = quorum.status.authEnabled === true;
    if (!auth.enabled.known) {
      return wanted === latched
        ? undefined
        : wait('ConfiguringAuth', `it is not known whether etcd asks for passwords: ${auth.enabled.why}`, RETRY_MS);
    }
    const on = auth.enabled.value;
    if (!wanted) {
      if (on && quorum.spec.auth !== undefined) return { do: 'DisableAuth' };
      if (on) {
        return {
          do: 'AskHuman',
          reason: 'AuthRequiredNotConfigured',
          message:
            'etcd asks for passwords although the claim says nothing of auth: set auth.enabled to true or to false',
        };
      }
      return latched ? { do: 'LatchAuth', enabled: false } : undefined;
    }
    if (!auth.password.known) return { do: 'AskHuman', reason: auth.password.reason, message: auth.password.why };
    if (!on) return { do: 'EnableAuth' };
    if (auth.accepted !== 'password') return { do: 'ChangePassword' };
    return latched ? undefined : { do: 'LatchAuth', enabled: true };
  },
};
