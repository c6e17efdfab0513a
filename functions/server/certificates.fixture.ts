/**
 * X.509 certificates for tests, made here because Node cannot make them and a test must be able to make wrong ones:
 * expired, for another usage, or, like Crossplane's, with the subject of their own issuer and no key identifiers.
 */
import { generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto';

const tlv = (tag: number, ...content: Uint8Array[]): Buffer => {
  const body = Buffer.concat(content);
  if (body.length < 128) return Buffer.concat([Buffer.from([tag, body.length]), body]);
  const length = body.length < 256 ? [0x81, body.length] : [0x82, body.length >> 8, body.length & 255];
  return Buffer.concat([Buffer.from([tag, ...length]), body]);
};
const sequence = (...content: Uint8Array[]): Buffer => tlv(0x30, ...content);
const oid = (dotted: string): Buffer => {
  const [first = 0, second = 0, ...rest] = dotted.split('.').map(Number);
  const bytes = [first * 40 + second];
  for (const part of rest) {
    const groups = [part & 127];
    for (let more = part >>> 7; more > 0; more >>>= 7) groups.unshift((more & 127) | 128);
    bytes.push(...groups);
  }
  return tlv(0x06, Buffer.from(bytes));
};
const time = (at: number): Buffer =>
  tlv(0x18, Buffer.from(`${new Date(at).toISOString().replaceAll(/[-:T]/g, '').slice(0, 14)}Z`));
/** Without parts for an empty organization, as cert-manager names what has only alternative names. */
const name = (organization: string, commonName?: string): Buffer =>
  sequence(
    ...(organization === '' ? [] : [tlv(0x31, sequence(oid('2.5.4.10'), tlv(0x0c, Buffer.from(organization))))]),
    ...(commonName === undefined ? [] : [tlv(0x31, sequence(oid('2.5.4.3'), tlv(0x0c, Buffer.from(commonName))))]),
  );
const extension = (id: string, critical: boolean, value: Buffer): Buffer =>
  sequence(oid(id), ...(critical ? [tlv(0x01, Buffer.from([255]))] : []), tlv(0x04, value));

const ECDSA_SHA256 = sequence(oid('1.2.840.10045.4.3.2'));

export const CLIENT_AUTH = '1.3.6.1.5.5.7.3.2';
export const SERVER_AUTH = '1.3.6.1.5.5.7.3.1';

export type Identity = { readonly certificate: string; readonly key: string };
export type Authority = Identity & { readonly subject: string; readonly privateKey: KeyObject };

const HOUR = 3_600_000;

export type Wish = {
  subject: string;
  /** Where etcd asks for passwords, the user that the bearer is. */
  commonName?: string;
  issuer?: Authority;
  /** Extended key usages; absent: the extension is left out. */
  usages?: string[];
  dnsNames?: string[];
  /** Milliseconds relative to now. */
  notBefore?: number;
  notAfter?: number;
  authority?: boolean;
};

export const issue = (wish: Wish): Authority => {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const extensions = [
    ...(wish.authority === true ? [extension('2.5.29.19', true, sequence(tlv(0x01, Buffer.from([255]))))] : []),
    ...(wish.usages === undefined ? [] : [extension('2.5.29.37', false, sequence(...wish.usages.map(oid)))]),
    ...(wish.dnsNames === undefined
      ? []
      : [extension('2.5.29.17', false, sequence(...wish.dnsNames.map((dns) => tlv(0x82, Buffer.from(dns)))))]),
  ];
  const now = Date.now();
  const unsigned = sequence(
    tlv(0xa0, tlv(0x02, Buffer.from([2]))),
    tlv(0x02, Buffer.concat([Buffer.from([1]), randomBytes(8)])),
    ECDSA_SHA256,
    name(wish.issuer?.subject ?? wish.subject),
    sequence(time(now + (wish.notBefore ?? -HOUR)), time(now + (wish.notAfter ?? HOUR))),
    name(wish.subject, wish.commonName),
    publicKey.export({ type: 'spki', format: 'der' }),
    ...(extensions.length > 0 ? [tlv(0xa3, sequence(...extensions))] : []),
  );
  const signature = sign('sha256', unsigned, wish.issuer?.privateKey ?? privateKey);
  // No line may be empty, also where the last one is full: what is before an empty line counts as a header of the PEM.
  const lines = (der: Buffer): string => (der.toString('base64').match(/.{1,64}/g) ?? []).join('\n');
  const der = sequence(unsigned, ECDSA_SHA256, tlv(0x03, Buffer.from([0]), signature));
  return {
    subject: wish.subject,
    privateKey,
    certificate: `-----BEGIN CERTIFICATE-----\n${lines(der)}\n-----END CERTIFICATE-----\n`,
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
  };
};

/** Organization of everything that Crossplane's own certificates name: its CA, its servers, its client. */
export const CROSSPLANE = 'Crossplane';

export const crossplaneAuthority = (): Authority => issue({ subject: CROSSPLANE, authority: true });

/** As Crossplane makes it: the subject of its CA, and nothing that tells the two apart but the keys. */
export const crossplaneClient = (issuer: Authority, more: Partial<Wish> = {}): Identity =>
  issue({ subject: CROSSPLANE, issuer, usages: [CLIENT_AUTH], ...more });

export const functionServer = (issuer: Authority, more: Partial<Wish> = {}): Identity =>
  issue({ subject: 'function-etcd', issuer, usages: [SERVER_AUTH], dnsNames: ['localhost'], ...more });
