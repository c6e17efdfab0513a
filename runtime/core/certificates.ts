/**
 * Whether the TLS Secrets of a cluster can work, told before any Pod starts with them. What is in a Secret is read by an
 * adapter into an honest observation; what must be in it is decided here.
 */
import { clientServiceName, peerServiceName } from '../../api/names.ts';
import type { Reason } from '../../api/reasons.ts';
import type { Fact, Instant } from './observed.ts';

/** What a certificate is shown to, or by. */
export type CertificateRole =
  /** By etcd to its clients. */
  | 'server'
  /** By etcd to its peers, whichever of them dialled. */
  | 'peer'
  /** By the runtime to etcd. */
  | 'client'
  /** By applications to etcd, where cert-manager issues it for them. */
  | 'consumer';

export type SeenAuthority = {
  /** SHA-256 of the certificate, lower-case hex. */
  readonly fingerprint: string;
  readonly subject: string;
  readonly notAfter: Instant;
  /** The certificate alone; public, and so free to be shown and projected. */
  readonly pem: string;
};

export type SeenLeaf = {
  /** SHA-256 of the certificate, lower-case hex. */
  readonly fingerprint: string;
  readonly subject: string;
  readonly issuer: string;
  readonly notBefore: Instant;
  /** Of the leaf, or of the first certificate to end among those that vouch for it. */
  readonly notAfter: Instant;
  /** DNS names as written, `*.demo.team-a.svc`. */
  readonly names: readonly string[];
  /** Extended usages; undefined where the certificate does not restrict them. */
  readonly usages: readonly ('serverAuth' | 'clientAuth' | 'other')[] | undefined;
  readonly keyMatches: boolean;
  /** Fingerprint of the authority in `ca.crt` that the chain ends at; undefined: at none of them. */
  readonly trustedBy: string | undefined;
};

/** A Secret as it was read, without its key. */
export type SeenSecret = {
  readonly type: string;
  /** Of `tls.crt`, `tls.key`, `ca.crt`. */
  readonly missing: readonly string[];
  /** Why what is there is no certificate or key: `tls.key: not a PEM private key`. */
  readonly unreadable: string | undefined;
  readonly leaf: SeenLeaf | undefined;
  readonly authorities: readonly SeenAuthority[];
};

/** What the runtime holds of a certificate: the one that members show, and in `ca.crt` whom all have to trust. */
export type SeenInUse = {
  readonly name: string;
  readonly version: string;
  /** False: somebody else's Secret has the name. */
  readonly ours: boolean;
  /** When its authorities last became more, or its certificate that of another authority. */
  readonly changedAt: Instant | undefined;
  readonly secret: SeenSecret;
};

/** One Secret that the cluster names; `undefined` inside a fact: there is none of that name. */
export type SeenCertificate = {
  readonly role: CertificateRole;
  readonly secretName: string;
  readonly secret: Fact<SeenSecret | undefined>;
  /** Of the Secret as it was read. */
  readonly version?: string | undefined;
  readonly inUse: Fact<SeenInUse | undefined>;
};

export type CertificateProblem = {
  readonly reason: Reason;
  readonly message: string;
  readonly role: CertificateRole;
};

const TYPES: readonly string[] = ['kubernetes.io/tls', 'Opaque'];

/**
 * Names that the certificate must carry. Members are dialled by names that are drawn at random, so only a wildcard covers
 * them. Peers look up who dialled them, too: the address must be one that a name in the certificate resolves to, and of a
 * wildcard etcd only asks the reverse zone, whose names end in a cluster domain that nobody here knows. The headless
 * Service's own name resolves to every member and needs no domain.
 */
export const namesNeeded = (role: CertificateRole, cluster: string, namespace: string): readonly string[] => {
  const peers = `${peerServiceName(cluster)}.${namespace}.svc`;
  switch (role) {
    case 'server':
      return [`*.${peers}`, `${clientServiceName(cluster)}.${namespace}.svc`];
    case 'peer':
      return [`*.${peers}`, peers];
    case 'client':
    case 'consumer':
      return [];
    default:
      return role satisfies never;
  }
};

/** As TLS matches: a wildcard stands for exactly one label, and itself. */
export const covers = (pattern: string, name: string): boolean => {
  const [a, b] = [pattern.toLowerCase(), name.toLowerCase()];
  if (a === b) return true;
  if (!a.startsWith('*.')) return false;
  const dot = b.indexOf('.');
  return dot > 0 && b.slice(dot) === a.slice(1) && !b.startsWith('*');
};

const USAGES = {
  server: ['serverAuth'],
  peer: ['serverAuth', 'clientAuth'],
  client: ['clientAuth'],
  consumer: ['clientAuth'],
} as const satisfies Record<CertificateRole, readonly string[]>;

const WORDS = {
  server: 'etcd shows to clients',
  peer: 'members show to each other',
  client: 'the runtime shows to etcd',
  consumer: 'applications show to etcd',
} as const satisfies Record<CertificateRole, string>;

const day = (at: Instant): string => new Date(at).toISOString().replace('.000Z', 'Z');

/** The first thing that is wrong, in the order in which a person would look; undefined when it can work. */
export const certificateProblem = (
  { role, secretName, secret }: Pick<SeenCertificate, 'role' | 'secretName' | 'secret'>,
  cluster: string,
  namespace: string,
  now: Instant,
): CertificateProblem | undefined => {
  const problem = (reason: Reason, what: string): CertificateProblem => ({
    reason,
    role,
    message: `Secret ${secretName}, which holds the certificate that ${WORDS[role]}: ${what}`,
  });
  if (!secret.known) return problem('SecretUnread', secret.why);
  if (secret.value === undefined) return problem('SecretMissing', 'there is none in this namespace');
  const { type, missing, unreadable, leaf } = secret.value;
  if (!TYPES.includes(type)) return problem('SecretWrongType', `its type is ${type}, not ${TYPES.join(' or ')}`);
  if (missing.length > 0) return problem('SecretIncomplete', `it has no ${missing.join(', ')}`);
  if (unreadable !== undefined || leaf === undefined) {
    return problem('CertificateUnreadable', unreadable ?? 'tls.crt holds no certificate');
  }
  if (!leaf.keyMatches) return problem('KeyMismatch', 'tls.key is not the key of tls.crt');
  if (now >= leaf.notAfter) return problem('CertificateExpired', `tls.crt expired at ${day(leaf.notAfter)}`);
  if (now < leaf.notBefore) return problem('CertificateNotYetValid', `tls.crt is valid from ${day(leaf.notBefore)}`);
  if (leaf.trustedBy === undefined) {
    return problem('CaMismatch', `no authority in its ca.crt has signed tls.crt, whose issuer is ${leaf.issuer}`);
  }
  const uncovered = namesNeeded(role, cluster, namespace).filter(
    (name) => !leaf.names.some((pattern) => covers(pattern, name)),
  );
  if (uncovered.length > 0) {
    return problem(
      'SanMissing',
      `tls.crt does not carry ${uncovered.join(', ')}; it carries ${leaf.names.join(', ') || 'no DNS name'}`,
    );
  }
  const unusable = leaf.usages === undefined ? [] : USAGES[role].filter((usage) => !leaf.usages?.includes(usage));
  if (unusable.length > 0) return problem('UsageMissing', `tls.crt is not for ${unusable.join(' and ')}`);
  return undefined;
};

/** The first problem of several, in their order. */
export const firstProblem = (
  certificates: readonly SeenCertificate[] | undefined,
  cluster: string,
  namespace: string,
  now: Instant,
): CertificateProblem | undefined => {
  for (const certificate of certificates ?? []) {
    const found = certificateProblem(certificate, cluster, namespace, now);
    if (found !== undefined) return found;
  }
  return undefined;
};

const MOST_NOTICE_MS = 30 * 24 * 3_600_000;

/**
 * From when on an end is near enough to be told: a sixth of the certificate's life, thirty days at most. What is renewed
 * in time never comes near it: cert-manager renews with a third left.
 */
export const expiringFrom = ({ notBefore, notAfter }: Pick<SeenLeaf, 'notBefore' | 'notAfter'>): Instant =>
  notAfter - Math.min(MOST_NOTICE_MS, (notAfter - notBefore) / 6);

/** What the runtime holds of it, where that is its own. */
export const inUseOf = ({ inUse }: SeenCertificate): SeenSecret | undefined =>
  inUse.known && inUse.value?.ours === true ? inUse.value.secret : undefined;

/** The authority that its certificate is known by. */
export const anchorOf = ({ leaf, authorities }: SeenSecret): SeenAuthority | undefined =>
  authorities.find(({ fingerprint }) => fingerprint === leaf?.trustedBy);

/** Whom everybody has to trust who may be shown this certificate. Before anything is in use: whom its Secret names. */
export const authoritiesOf = (certificate: SeenCertificate): readonly SeenAuthority[] =>
  (inUseOf(certificate) ?? (certificate.secret.known ? certificate.secret.value : undefined))?.authorities ?? [];

type Ending = { readonly secretName: string; readonly notBefore: Instant; readonly notAfter: Instant };

/** The certificate that ends first. */
export const firstToEnd = (certificates: readonly SeenCertificate[] | undefined): Ending | undefined =>
  (certificates ?? [])
    .flatMap((certificate) => {
      const { secretName, secret } = certificate;
      const leaf = inUseOf(certificate)?.leaf ?? (secret.known ? secret.value?.leaf : undefined);
      return leaf === undefined ? [] : [{ secretName, notBefore: leaf.notBefore, notAfter: leaf.notAfter }];
    })
    .toSorted((a, b) => a.notAfter - b.notAfter || (a.secretName < b.secretName ? -1 : 1))[0];

/** One sentence on a certificate that ends soon; undefined while there is time. */
export const endingSoon = (
  certificates: readonly SeenCertificate[] | undefined,
  now: Instant,
): { readonly reason: Reason; readonly message: string } | undefined => {
  const first = firstToEnd(certificates);
  return first === undefined || now < expiringFrom(first)
    ? undefined
    : {
        reason: 'CertificateExpiring',
        message: `Secret ${first.secretName}: tls.crt ends at ${day(first.notAfter)} and was not renewed`,
      };
};

/** What a member trusts, each as PEM. */
export type Trust = {
  /** As signers of clients' certificates; only where clients have to show one. */
  readonly client?: string | undefined;
  /** As signers of peers' certificates. */
  readonly peer?: string | undefined;
};

/** The authorities of several Secrets as one list, each once, in the order of their fingerprints: equal sets are equal texts. */
export const trustBundle = (authorities: readonly SeenAuthority[]): string =>
  [...new Map(authorities.map((authority) => [authority.fingerprint, authority])).values()]
    .toSorted((a, b) => (a.fingerprint < b.fingerprint ? -1 : 1))
    .map(({ pem }) => pem)
    .join('');

/**
 * The same authorities in lists of which none holds two of one name. OpenSSL looks an issuer up by its name, and where
 * neither says more of itself, takes the first for the only one: a CA that was exchanged for another of the same name would
 * make a stranger of every member that shows a certificate of the other.
 */
export const withoutNamesakes = (authorities: readonly SeenAuthority[]): readonly (readonly SeenAuthority[])[] => {
  const lists: SeenAuthority[][] = [];
  for (const authority of authorities) {
    const list = lists.find((one) => !one.some(({ subject }) => subject === authority.subject));
    if (list === undefined) lists.push([authority]);
    else list.push(authority);
  }
  return lists;
};
