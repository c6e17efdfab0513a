import { X509Certificate } from 'node:crypto';

const CLIENT_AUTH = '1.3.6.1.5.5.7.3.2';

/** Why a client is refused, as one word for the metric. */
export type Refusal =
  | 'NoCertificate'
  | 'ForeignIssuer'
  | 'NotYetValid'
  | 'Expired'
  | 'AuthorityExpired'
  | 'NotForClients'
  | 'NoHttp2';

/** Every certificate of a PEM file. Throws when there is none that may issue others, or one that cannot be read. */
export const authoritiesOf = (pem: string): X509Certificate[] => {
  const blocks = pem.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
  const authorities = blocks.map((block) => new X509Certificate(block)).filter(({ ca }) => ca);
  if (authorities.length === 0) throw new Error('there is no CA certificate in it');
  return authorities;
};

/**
 * Checks a client's certificate against our authorities; undefined when it may call.
 *
 * This stands in for the check that TLS itself makes, because that one cannot be used: Crossplane signs its client
 * certificate with the same subject as its CA and without key identifiers, so OpenSSL takes it for a self-signed one and
 * refuses it. Chains of intermediate authorities are refused; Crossplane has none.
 */
export const refusalOf = (
  certificate: X509Certificate | undefined,
  authorities: readonly X509Certificate[],
  now: number,
): Refusal | undefined => {
  if (certificate === undefined) return 'NoCertificate';
  const issuers = authorities.filter((ca) => certificate.checkIssued(ca) && certificate.verify(ca.publicKey));
  if (issuers.length === 0) return 'ForeignIssuer';
  if (!issuers.some((ca) => isWithin(ca, now))) return 'AuthorityExpired';
  if (now < Date.parse(certificate.validFrom)) return 'NotYetValid';
  if (now > Date.parse(certificate.validTo)) return 'Expired';
  // Node names the extended usages `keyUsage`. Absent means any usage by the standard; here it must be said.
  if (!(certificate.keyUsage as string[] | undefined)?.includes(CLIENT_AUTH)) return 'NotForClients';
  return undefined;
};

const isWithin = (certificate: X509Certificate, now: number): boolean =>
  now >= Date.parse(certificate.validFrom) && now <= Date.parse(certificate.validTo);
