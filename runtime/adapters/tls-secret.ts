/** Reads a TLS Secret into what the rules judge. The key is used to compare and goes no further. */
import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';
import type { Secret } from 'kubernetes-types/core/v1.js';
import type { SeenAuthority, SeenLeaf, SeenSecret } from '../core/certificates.ts';
import { secretBytes } from '../ports/secrets.ts';

const KEYS = ['tls.crt', 'tls.key', 'ca.crt'] as const;
const BLOCK = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;
/** Longer chains exist in attacks only. */
const DEEPEST = 10;

const USAGES: Readonly<Record<string, 'serverAuth' | 'clientAuth'>> = {
  '1.3.6.1.5.5.7.3.1': 'serverAuth',
  '1.3.6.1.5.5.7.3.2': 'clientAuth',
};
const ANY_USAGE = '2.5.29.37.0';

const certificatesIn = (pem: string): X509Certificate[] =>
  [...pem.matchAll(BLOCK)].map(([block]) => new X509Certificate(block));

const fingerprint = ({ fingerprint256 }: X509Certificate): string => fingerprint256.replaceAll(':', '').toLowerCase();

/** `CN=a, O=b` on one line; OpenSSL gives a line to each part, and Node nothing at all for a name without parts. */
const oneLine = (name: string | undefined): string => (name ?? '').trim().split('\n').join(', ') || '(no subject)';

/** Times of X.509 are in GMT and say so. */
const instant = (text: string): number => Date.parse(text);

const dnsNames = ({ subjectAltName }: X509Certificate): string[] =>
  (subjectAltName ?? '').split(', ').flatMap((entry) => (entry.startsWith('DNS:') ? [entry.slice(4)] : []));

const usagesOf = (certificate: X509Certificate): SeenLeaf['usages'] => {
  // Node's name for the extended usages, and undefined without that extension.
  const usages = certificate.keyUsage as readonly string[] | undefined;
  if (usages === undefined || usages.includes(ANY_USAGE)) return undefined;
  return usages.map((oid) => USAGES[oid] ?? 'other');
};

const issued = (issuer: X509Certificate, subject: X509Certificate): boolean =>
  subject.checkIssued(issuer) && subject.verify(issuer.publicKey);

/** From the leaf to an authority, the leaf first; empty where the chain leads to none. */
const chainOf = (
  leaf: X509Certificate,
  between: readonly X509Certificate[],
  authorities: readonly X509Certificate[],
): readonly X509Certificate[] => {
  const chain = [leaf];
  while (chain.length < DEEPEST) {
    const last = chain.at(-1) as X509Certificate;
    const anchor = authorities.find((one) => one.fingerprint256 === last.fingerprint256 || issued(one, last));
    if (anchor !== undefined) return anchor.fingerprint256 === last.fingerprint256 ? chain : [...chain, anchor];
    const next = between.find((one) => !chain.includes(one) && issued(one, last));
    if (next === undefined) return [];
    chain.push(next);
  }
  return [];
};

const seenAuthority = (certificate: X509Certificate): SeenAuthority => ({
  fingerprint: fingerprint(certificate),
  subject: oneLine(certificate.subject),
  notAfter: instant(certificate.validTo),
  pem: certificate.toString(),
});

const cause = (error: unknown): string => (error instanceof Error ? error.message : String(error));

const read = (secret: Secret, from: Secret): SeenSecret => {
  const parts = KEYS.map((key) => [key, secretBytes(key === 'ca.crt' ? from : secret, key)] as const);
  const missing = parts.filter(([, bytes]) => bytes === undefined).map(([key]) => key);
  const type = secret.type ?? 'Opaque';
  const nothing = { type, missing, leaf: undefined, authorities: [] };
  if (missing.length > 0) return { ...nothing, unreadable: undefined };

  const [certificateText, keyText, authorityText] = parts.map(([, bytes]) => bytes?.toString('latin1') ?? '') as [
    string,
    string,
    string,
  ];
  let chain: X509Certificate[];
  let authorities: X509Certificate[];
  let key: KeyObject;
  try {
    chain = certificatesIn(certificateText);
  } catch (error) {
    return { ...nothing, unreadable: `tls.crt: ${cause(error)}` };
  }
  try {
    authorities = certificatesIn(authorityText);
  } catch (error) {
    return { ...nothing, unreadable: `ca.crt: ${cause(error)}` };
  }
  try {
    key = createPrivateKey(keyText);
  } catch {
    // OpenSSL's words for it are about the key, and whatever is about the key stays here.
    return { ...nothing, unreadable: 'tls.key: no private key in PEM without a passphrase' };
  }
  const [leaf, ...between] = chain;
  if (leaf === undefined) return { ...nothing, unreadable: 'tls.crt: no certificate in PEM' };
  if (authorities.length === 0) return { ...nothing, unreadable: 'ca.crt: no certificate in PEM' };

  const path = chainOf(leaf, between, authorities);
  const anchor = path.at(-1);
  return {
    type,
    missing,
    unreadable: undefined,
    leaf: {
      fingerprint: fingerprint(leaf),
      subject: oneLine(leaf.subject),
      issuer: oneLine(leaf.issuer),
      notBefore: instant(leaf.validFrom),
      notAfter: Math.min(...(path.length === 0 ? [leaf] : path).map(({ validTo }) => instant(validTo))),
      names: dnsNames(leaf),
      usages: usagesOf(leaf),
      keyMatches: leaf.checkPrivateKey(key),
      trustedBy: anchor === undefined ? undefined : fingerprint(anchor),
    },
    authorities: authorities.map(seenAuthority),
  };
};

/** By the object: a cached Secret is never changed, only replaced, and every pass of its cluster asks for it. */
const readings = new WeakMap<Secret, { readonly from: Secret; readonly seen: SeenSecret }>();

/** `authorities`: the Secret whose `ca.crt` has to vouch for the certificate, where it is another one. */
export const readTlsSecret = (secret: Secret, authorities: Secret = secret): SeenSecret => {
  const present = readings.get(secret);
  if (present?.from === authorities) return present.seen;
  const seen = read(secret, authorities);
  readings.set(secret, { from: authorities, seen });
  return seen;
};
