/** TLS Secrets as a user would bring them, right ones and wrong ones. */
import type { Secret } from 'kubernetes-types/core/v1.js';
import { clientServiceName, peerServiceName } from '../../api/names.ts';
import {
  type Authority,
  CLIENT_AUTH,
  type Identity,
  issue,
  SERVER_AUTH,
} from '../../functions/server/certificates.fixture.ts';

const DAY = 24 * 3_600_000;

export const authority = (subject: string): Authority => issue({ subject, authority: true, notAfter: 3650 * DAY });

export type Names = { readonly cluster: string; readonly namespace: string };

export const serverNames = ({ cluster, namespace }: Names): string[] => [
  `*.${peerServiceName(cluster)}.${namespace}.svc`,
  `${clientServiceName(cluster)}.${namespace}.svc`,
];

export const peerNames = ({ cluster, namespace }: Names): string[] => [
  `*.${peerServiceName(cluster)}.${namespace}.svc`,
  `${peerServiceName(cluster)}.${namespace}.svc`,
];

export type Change = {
  readonly dnsNames?: string[];
  readonly usages?: string[];
  readonly commonName?: string;
  readonly notBefore?: number;
  readonly notAfter?: number;
};

export const serverIdentity = (issuer: Authority, of: Names, change: Change = {}): Identity =>
  issue({
    subject: 'server',
    issuer,
    usages: [SERVER_AUTH, CLIENT_AUTH],
    dnsNames: serverNames(of),
    notAfter: 365 * DAY,
    ...change,
  });

export const peerIdentity = (issuer: Authority, of: Names, change: Change = {}): Identity =>
  issue({
    subject: 'peer',
    issuer,
    usages: [SERVER_AUTH, CLIENT_AUTH],
    dnsNames: peerNames(of),
    notAfter: 365 * DAY,
    ...change,
  });

export const clientIdentity = (issuer: Authority, change: Change = {}): Identity =>
  issue({ subject: 'operator', issuer, usages: [CLIENT_AUTH], notAfter: 365 * DAY, ...change });

const base64 = (text: string): string => Buffer.from(text).toString('base64');

export const tlsSecret = (
  name: string,
  { certificate, key }: Identity,
  ca: string | undefined,
  type = 'kubernetes.io/tls',
): Secret => ({
  apiVersion: 'v1',
  kind: 'Secret',
  metadata: { name },
  type,
  data: {
    'tls.crt': base64(certificate),
    'tls.key': base64(key),
    ...(ca === undefined ? {} : { 'ca.crt': base64(ca) }),
  },
});
