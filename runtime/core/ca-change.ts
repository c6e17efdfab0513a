/**
 * A certificate's way from the Secret that offers it to the members that show it. Members mount what the runtime holds, so a
 * certificate of an authority that somebody does not trust yet is held back: first all trust both (one restart each), then it
 * is passed on (no restart), and once every member was seen to show it, the authority that nobody needs any more is dropped
 * (one restart each). What the runtime holds says how far the change has come, so anybody can go on with it.
 */
import type { EtcdQuorumStatus } from '../../api/etcdquorum.gen.ts';
import type { InUsePurpose } from '../../api/names.ts';
import {
  anchorOf,
  authoritiesOf,
  type CertificateRole,
  certificateProblem,
  inUseOf,
  type SeenAuthority,
  type SeenCertificate,
  type SeenInUse,
  type SeenLeaf,
  type SeenSecret,
  trustBundle,
} from './certificates.ts';
import { known, type SeenPod } from './observed.ts';
import { trustsOthers } from './rollout.ts';
import type { Situation, Slot } from './situation.ts';
import type { Step } from './steps.ts';

export const PURPOSES = {
  server: 'server',
  peer: 'peer',
  client: 'operator-client',
  consumer: 'consumer',
} as const satisfies Record<CertificateRole, InUsePurpose>;

/** Twice what a kubelet takes to bring a changed ConfigMap to a client that mounts it. */
const CLIENTS_MS = 120_000;
/** Secrets that are exchanged together are written one after the other; each for itself would cost a restart. */
const TOGETHER_MS = 15_000;

/** What of a situation is needed to judge certificates alone. */
type Seen = Pick<Situation, 'seen'>;

type Usable = SeenSecret & { readonly leaf: SeenLeaf };
const usable = (secret: SeenSecret | undefined): Usable | undefined =>
  secret?.leaf === undefined ? undefined : { ...secret, leaf: secret.leaf };

/** What the user's or cert-manager's Secret holds, where it can work. */
const offerOf = ({ seen }: Seen, certificate: SeenCertificate): Usable | undefined =>
  certificate.secret.known && certificateProblem(certificate, seen.cluster, seen.namespace, seen.now) === undefined
    ? usable(certificate.secret.value)
    : undefined;

/** What is in use, where it can work; whether somebody may be shown it is another question. */
const heldOf = ({ seen }: Seen, certificate: SeenCertificate): Usable | undefined => {
  const held = inUseOf(certificate);
  if (held === undefined) return undefined;
  const judged = { ...certificate, secret: known({ ...held, type: 'Opaque' }) };
  return certificateProblem(judged, seen.cluster, seen.namespace, seen.now) === undefined ? usable(held) : undefined;
};

const recordOf = ({ inUse }: SeenCertificate): SeenInUse | undefined => (inUse.known ? inUse.value : undefined);

const without = (all: readonly SeenAuthority[], some: readonly SeenAuthority[]): readonly SeenAuthority[] =>
  all.filter(({ fingerprint }) => !some.some((one) => one.fingerprint === fingerprint));

/** Every Pod that may shake hands with another, also one that is ending. Whom it trusts is fixed for its life. */
const podsOf = ({ slots }: Situation): readonly SeenPod[] =>
  slots.flatMap(({ member }) =>
    member.pods.filter(({ seed, phase }) => seed === undefined && phase !== 'Succeeded' && phase !== 'Failed'),
  );

const distrusting = (s: Situation, role: 'client' | 'peer', { pem }: SeenAuthority): readonly SeenPod[] =>
  podsOf(s).filter(({ trust }) => trust?.[role] !== undefined && !trust[role].includes(pem));

/**
 * Who would refuse a certificate of this authority. What members show to clients is also what their own gateway shows to
 * them, where clients come from the same authority.
 */
const refusedBy = (s: Situation, role: CertificateRole, authority: SeenAuthority): readonly SeenPod[] => {
  if (role !== 'server') return distrusting(s, role === 'peer' ? 'peer' : 'client', authority);
  const client = s.seen.certificates?.find((one) => one.role === 'client');
  const offered = client === undefined ? undefined : offerOf(s, client);
  const ofClients = [...(client === undefined ? [] : authoritiesOf(client)), ...(offered?.authorities ?? [])];
  return ofClients.some(({ fingerprint }) => fingerprint === authority.fingerprint)
    ? distrusting(s, 'client', authority)
    : [];
};

const clientsMs = ({ seen }: Situation): number => seen.patience?.clientsMs ?? CLIENTS_MS;

/** Milliseconds until clients have had the time to learn of the authorities that are trusted since the last change. */
const clientsKnowIn = (s: Situation, certificate: SeenCertificate): number =>
  Math.max(0, (recordOf(certificate)?.changedAt ?? 0) + clientsMs(s) - s.seen.now);

type UseCertificate = Extract<Step, { do: 'UseCertificate' }>;

const use = (
  certificate: SeenCertificate,
  what: UseCertificate['what'],
  leaf: SeenLeaf,
  authorities: readonly SeenAuthority[],
  authority?: SeenAuthority,
): UseCertificate => ({
  do: 'UseCertificate',
  role: certificate.role,
  what,
  from: certificate.secretName,
  fingerprint: leaf.fingerprint,
  authorities: trustBundle(authorities),
  versions: { from: certificate.version, inUse: recordOf(certificate)?.version },
  ...(authority === undefined ? {} : { authority: authority.subject }),
});

/** What may be shown at once: to begin with, of an authority that all trust, or more authorities to be trusted. */
const nextUse = (s: Situation, certificate: SeenCertificate): Step | undefined => {
  const offer = offerOf(s, certificate);
  const anchor = offer === undefined ? undefined : anchorOf(offer);
  if (offer === undefined || anchor === undefined) return undefined;
  const held = heldOf(s, certificate);
  const trusted = inUseOf(certificate)?.authorities ?? [];
  const all = [...trusted, ...offer.authorities];
  const refused = refusedBy(s, certificate.role, anchor).length > 0;
  if (held === undefined) return refused ? undefined : use(certificate, 'begin', offer.leaf, all);
  const added = without(offer.authorities, trusted);
  const another = anchorOf(held)?.fingerprint === anchor.fingerprint ? undefined : anchor;
  if (added.length > 0) return use(certificate, 'widen', held.leaf, all, another ?? added[0]);
  if (held.leaf.fingerprint === offer.leaf.fingerprint || refused) return undefined;
  const late = another !== undefined && certificate.role === 'server' && clientsKnowIn(s, certificate) > 0;
  return late ? undefined : use(certificate, 'pass on', offer.leaf, trusted, another);
};

export const certificateToUse = (s: Situation): Step | undefined => {
  for (const certificate of s.seen.certificates ?? []) {
    const step = nextUse(s, certificate);
    if (step !== undefined) return step;
  }
  return undefined;
};

/** Why nothing may be begun: no certificate is in use, and the one that is offered cannot be taken into use either. */
export const unusable = (s: Situation): Pick<Extract<Step, { do: 'AskHuman' }>, 'reason' | 'message'> | undefined => {
  const { cluster, namespace, now, certificates = [] } = s.seen;
  for (const certificate of certificates) {
    const { inUse, secretName, role } = certificate;
    // What applications show keeps no member from anything.
    if (role === 'consumer') continue;
    if (!inUse.known)
      return { reason: 'SecretUnread', message: `what is in use of Secret ${secretName}: ${inUse.why}` };
    if (inUse.value?.ours === false) {
      return {
        reason: 'SecretTaken',
        message: `Secret ${inUse.value.name} is not the runtime's, which needs that name for what is in use of Secret ${secretName}`,
      };
    }
    if (heldOf(s, certificate) !== undefined) continue;
    const problem = certificateProblem(certificate, cluster, namespace, now);
    if (problem !== undefined) return problem;
    const offer = offerOf(s, certificate);
    const anchor = offer === undefined ? undefined : anchorOf(offer);
    const pods = anchor === undefined ? [] : refusedBy(s, role, anchor);
    if (anchor !== undefined && pods.length > 0) {
      return {
        reason: 'CaChangedAtOnce',
        message: `Secret ${secretName}: the certificate is of ${anchor.subject}, which ${pods.map(({ name }) => name).join(', ')} do not trust, and what they show is lost or has expired`,
      };
    }
  }
  return undefined;
};

// ------------------------------------------------------------------------------------------------- what is under way

/** Of another authority than what is in use, and not in use yet. */
const isHeldBack = (s: Situation, certificate: SeenCertificate): boolean => {
  const [offer, held] = [offerOf(s, certificate), heldOf(s, certificate)];
  return offer !== undefined && held !== undefined && offer.leaf.fingerprint !== held.leaf.fingerprint;
};

/** In use, with authorities that are trusted for the sake of what was in use before. */
const surplusOf = (s: Seen, certificate: SeenCertificate): readonly SeenAuthority[] => {
  const [offer, held] = [offerOf(s, certificate), heldOf(s, certificate)];
  return offer === undefined || held === undefined || offer.leaf.fingerprint !== held.leaf.fingerprint
    ? []
    : without(held.authorities, offer.authorities);
};

/** Members that were not seen to show what is in use. Nobody is asked what the runtime shows. */
const lateMembers = (s: Situation, certificate: SeenCertificate): readonly Slot[] => {
  const { role } = certificate;
  const fingerprint = heldOf(s, certificate)?.leaf.fingerprint;
  if (role === 'client' || role === 'consumer') return [];
  return s.held.filter(({ pod, member }) => {
    if (member.spec.tls?.[role === 'server' ? 'client' : 'peer'] === undefined) return false;
    const shown = pod?.shows?.[role];
    return shown?.known !== true || shown.value !== fingerprint;
  });
};

/** Whether what members show has to be asked of them. */
export const isShowingAsked = (s: Seen): boolean =>
  (s.seen.certificates ?? []).some((certificate) => surplusOf(s, certificate).length > 0);

const isDropReady = (s: Situation, certificate: SeenCertificate): boolean =>
  certificate.role === 'client' || certificate.role === 'consumer'
    ? clientsKnowIn(s, certificate) === 0
    : lateMembers(s, certificate).length === 0;

/** All that is in use, as one short text. */
const inUseNow = (s: Situation): string =>
  (s.seen.certificates ?? [])
    .flatMap((certificate) =>
      certificate.role === 'client' || certificate.role === 'consumer'
        ? []
        : (inUseOf(certificate)?.leaf?.fingerprint.slice(0, 16) ?? []),
    )
    .join('-');

/**
 * Drops what nobody needs any more, all of it together, since each drop restarts every member; before that, has kubelets
 * hurry.
 */
export const authorityToDrop = (s: Situation): Step | undefined => {
  const certificates = s.seen.certificates ?? [];
  const surplus = certificates.filter((certificate) => surplusOf(s, certificate).length > 0);
  const certificatesNow = inUseNow(s);
  const pods = surplus
    .flatMap((certificate) => lateMembers(s, certificate))
    .flatMap(({ pod }) =>
      pod === undefined || pod.deleting || pod.container.state !== 'running' || pod.certificates === certificatesNow
        ? []
        : [{ name: pod.name, uid: pod.uid }],
    );
  if (pods.length > 0) {
    const once = [...new Map(pods.map((pod) => [pod.uid, pod])).values()];
    return { do: 'FetchCertificates', pods: once, certificates: certificatesNow };
  }
  if (certificates.some((certificate) => isHeldBack(s, certificate))) return undefined;
  if (!surplus.every((certificate) => isDropReady(s, certificate))) return undefined;
  const [first] = surplus;
  const [offer, dropped] = first === undefined ? [] : [offerOf(s, first), surplusOf(s, first)[0]];
  return first === undefined || offer === undefined
    ? undefined
    : use(first, 'narrow', offer.leaf, offer.authorities, dropped);
};

/** Milliseconds until the next restart may begin that is for the sake of an authority. */
export const togetherIn = (s: Situation): number =>
  s.held.some((slot) => trustsOthers(s, slot))
    ? Math.max(
        0,
        ...(s.seen.certificates ?? []).map(
          (certificate) => (recordOf(certificate)?.changedAt ?? 0) + TOGETHER_MS - s.seen.now,
        ),
      )
    : 0;

export type CaChange = NonNullable<EtcdQuorumStatus['caChange']>;
type Station = { readonly phase: CaChange['phase']; readonly role: CertificateRole; readonly recheckMs: number };

const ORDER: readonly CaChange['phase'][] = ['TrustingBoth', 'Announcing', 'Delivering', 'DroppingOld'];
const LOOK_MS = 1_000;

const stationOf = (s: Situation, certificate: SeenCertificate): Station | undefined => {
  const { role } = certificate;
  if (isHeldBack(s, certificate)) {
    const offer = offerOf(s, certificate);
    const anchor = offer === undefined ? undefined : anchorOf(offer);
    return anchor === undefined || refusedBy(s, role, anchor).length > 0
      ? { phase: 'TrustingBoth', role, recheckMs: LOOK_MS }
      : { phase: 'Announcing', role, recheckMs: Math.max(LOOK_MS, clientsKnowIn(s, certificate)) };
  }
  if (surplusOf(s, certificate).length > 0) {
    const recheckMs =
      role === 'client' || role === 'consumer' ? Math.max(LOOK_MS, clientsKnowIn(s, certificate)) : LOOK_MS;
    return { phase: 'Delivering', role, recheckMs };
  }
  if (role === 'server' || role === 'consumer') return undefined;
  const wanted = s.trust[role] ?? '';
  const differing = podsOf(s).flatMap(({ trust }) =>
    trust?.[role] === undefined || trust[role] === wanted ? [] : [trust[role]],
  );
  if (differing.length === 0) return undefined;
  const missing = authoritiesOf(certificate).some(({ pem }) => differing.some((trust) => !trust.includes(pem)));
  return { phase: missing ? 'TrustingBoth' : 'DroppingOld', role, recheckMs: LOOK_MS };
};

/** How far the change has come: as far as the certificate that has come least far. */
export const caChangeOf = (s: Situation): (CaChange & { readonly recheckMs: number }) | undefined => {
  if (s.latch === undefined) return undefined;
  const stations = (s.seen.certificates ?? []).flatMap((certificate) => stationOf(s, certificate) ?? []);
  const [first] = stations.toSorted((a, b) => ORDER.indexOf(a.phase) - ORDER.indexOf(b.phase));
  return first === undefined
    ? undefined
    : {
        phase: first.phase,
        certificates: stations.map(({ role }) => role),
        recheckMs: Math.min(...stations.map(({ recheckMs }) => recheckMs)),
      };
};

export const caChangeMessage = ({ phase, certificates }: CaChange): string => {
  const what = `another CA (certificates: ${certificates.join(', ')})`;
  switch (phase) {
    case 'TrustingBoth':
      return `${what}: members restart one by one, so that all trust the former and the new one`;
    case 'Announcing':
      return `${what}: clients are given time to learn of both from the ConfigMap of the cluster`;
    case 'Delivering':
      return `${what}: members are given the new certificate, and each is asked what it shows`;
    case 'DroppingOld':
      return `${what}: members restart one by one, so that none trusts the former one any more`;
    default:
      return phase satisfies never;
  }
};
