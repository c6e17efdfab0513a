/** etcd's own authentication: on once the cluster is whole, root's password that of the Secret, off when asked. */
import type { EtcdQuorumStatus } from '../../../api/etcdquorum.gen.ts';
import type { Reason } from '../../../api/reasons.ts';
import type { SeenAuth } from '../observed.ts';
import { isHealthyVoter, type Situation } from '../situation.ts';
import { pause } from './restart.ts';
import { RETRY_MS, type Rule, wait } from './rule.ts';

/** Passwords are not sent there. */
const inTheClear = (s: Situation): boolean =>
  s.held.some(({ pod }) => /^advertise-client-urls: "http:/m.test(pod?.config ?? ''));

/** Where the data of a cluster comes from that has not been whole since: root's password in it is that of its time. */
const restoredFrom = ({ operation, recovered = [], restored, authEnabled }: EtcdQuorumStatus): string | undefined => {
  const { kind, recovery } = operation ?? {};
  if (recovery?.location !== undefined || kind === 'Restore') return recovery?.source;
  const last = recovered.at(-1);
  if (last !== undefined && last.verifiedAt === undefined) return last.uri;
  return authEnabled === true ? undefined : restored?.uri;
};

const lockedOut = (s: Situation, auth: SeenAuth): { readonly reason: Reason; readonly message: string } => {
  const { enabled, rootCredentialsSecretName: secret } = s.quorum?.spec.auth ?? {};
  const from = restoredFrom(s.quorum?.status ?? {});
  if (inTheClear(s)) {
    return {
      reason: 'AuthRequiredNotConfigured',
      message:
        'etcd asks for a password, and members serve in the clear, where none is sent: run etcdctl auth disable as root, then set tls.client and auth',
    };
  }
  if (enabled !== true && secret === undefined) {
    return {
      reason: 'AuthRequiredNotConfigured',
      message: 'etcd asks for a password, and the claim has no auth.rootCredentialsSecretRef',
    };
  }
  return auth.password.known
    ? {
        reason: 'AuthCredentialsRejected',
        message: `etcd does not take root's password from Secret ${secret}, and no other that is known${
          from === undefined
            ? ''
            : `; its data comes from ${from}: put the password that root had then into the Secret, and edit it again when the cluster serves`
        }`,
      }
    : { reason: auth.password.reason, message: `${auth.password.why}, and etcd asks for root's password` };
};

/** Members answer nobody whom they do not know, so nothing else can be decided, and it must not look like a lost quorum. */
export const credentials: Rule = {
  name: 'credentials',
  answer: (s) => {
    const { auth } = s.seen;
    if (auth?.accepted !== 'none' || s.quorum === undefined) return undefined;
    return pause.answer(s) ?? { do: 'AskHuman', ...lockedOut(s, auth) };
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
    const inForce = on && auth.accepted === 'password';
    if (!auth.kept.known) {
      return inForce && latched
        ? undefined
        : wait('ConfiguringAuth', `where passwords are kept is not known: ${auth.kept.why}`, RETRY_MS);
    }
    // Whoever is killed between the two leaves a password that somebody can read, whatever becomes of the claim's Secret.
    if (!inForce && auth.kept.value === 'missing') return { do: 'KeepPassword', as: 'next' };
    if (!on) return { do: 'EnableAuth', again: latched };
    if (!inForce) return { do: 'ChangePassword' };
    if (auth.kept.value !== 'alone') return { do: 'KeepPassword', as: 'inForce' };
    return latched ? undefined : { do: 'LatchAuth', enabled: true };
  },
};
