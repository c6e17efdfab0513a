/**
 * The Certificates of a cluster, for those of its planes that cert-manager looks after, in an EtcdCertificateSet. Composed
 * by the EtcdCluster itself they would take it along: when cert-manager is taken away, Crossplane fails at looking for
 * them before it does anything else, and each of them that is issued costs thirteen tokens of the circuit breaker.
 */

import type { EtcdCertificateSet, EtcdCertificateSetCertificate } from '../../api/etcdcertificateset.gen.ts';
import type { EtcdClusterTlsClientCertManager, EtcdClusterTlsPeerCertManager } from '../../api/etcdcluster.gen.ts';
import {
  API_VERSION,
  type CertificatePurpose,
  certificateName,
  certificateSecretName,
  clusterLabels,
  LABELS,
} from '../../api/names.ts';
import { metadataWith } from '../composing/additional-metadata.ts';
import type { Claim } from '../composing/claim.ts';
import { CERTIFICATE, type CertificateSpec } from './cert-manager.ts';
import { peerNames, serverNames } from './certificate-names.ts';

/** Undefined where cert-manager has nothing to issue. Equal claims give equal sets, and a renewal changes none. */
export const certificateSetOf = (claim: Claim, domain: string): EtcdCertificateSet | undefined => {
  const certificates = certificatesOf(claim, domain);
  if (certificates.length === 0) return undefined;
  return {
    apiVersion: API_VERSION,
    kind: 'EtcdCertificateSet',
    metadata: { name: claim.name, namespace: claim.namespace, ...metadataWith(claim, clusterLabels(claim.name)) },
    spec: { certificates },
  };
};

const certificatesOf = (claim: Claim, domain: string): EtcdCertificateSetCertificate[] => {
  const certificates: EtcdCertificateSetCertificate[] = [];
  const add = (purpose: CertificatePurpose, spec: Wanted): void => {
    certificates.push({
      name: certificateName(claim.name, purpose),
      ...metadataWith(claim, clusterLabels(claim.name)),
      spec: certificateSpec(claim, purpose, spec),
    });
  };
  const place = { cluster: claim.name, namespace: claim.namespace, domain };
  const client = claim.spec.tls?.client?.certManager;
  if (client !== undefined) {
    // No common name: with auth on, etcd takes a client's for a user, and its own gateway calls with this certificate.
    add('server', { life: client, issuer: client.serverIssuerRef, usages: BOTH_SIDES, ...serverNames(place, client) });
    const issuer = client.operatorClientIssuerRef;
    if (issuer !== undefined) {
      // With auth on the runtime is root by this name, so that no mistake with a password ever shuts it out.
      add('operator-client', { life: client, issuer, usages: CLIENT, commonName: 'root' });
      if (client.consumer !== undefined) {
        add('consumer', { life: client, issuer, usages: CLIENT, commonName: client.consumer.commonName ?? claim.name });
      }
    }
  }
  const peer = claim.spec.tls?.peer?.certManager;
  if (peer !== undefined) add('peer', { life: peer, issuer: peer.issuerRef, usages: BOTH_SIDES, ...peerNames(place) });
  return certificates;
};

const CLIENT = ['digital signature', 'key encipherment', 'client auth'];

/** A member calls with what it serves with: other members, and as the gateway itself. */
const BOTH_SIDES = ['digital signature', 'key encipherment', 'server auth', 'client auth'];

type Life = Pick<
  EtcdClusterTlsClientCertManager | EtcdClusterTlsPeerCertManager,
  'duration' | 'renewBefore' | 'privateKey'
>;

type Wanted = {
  readonly life: Life;
  readonly issuer: { readonly name: string; readonly kind?: string };
  readonly usages: readonly string[];
  readonly commonName?: string;
  readonly dnsNames?: readonly string[];
  readonly ipAddresses?: readonly string[];
};

const certificateSpec = (
  claim: Claim,
  purpose: CertificatePurpose,
  { life, issuer, ...spec }: Wanted,
): CertificateSpec => {
  const algorithm = life.privateKey?.algorithm ?? 'ECDSA';
  return {
    secretName: certificateSecretName(claim.name, purpose),
    secretTemplate: secretTemplate(claim, purpose),
    issuerRef: { group: CERTIFICATE.group, kind: issuer.kind ?? 'Issuer', name: issuer.name },
    ...spec,
    privateKey: {
      algorithm,
      size: life.privateKey?.size ?? (algorithm === 'RSA' ? 2048 : 256),
      // The one encoding that clients in every language read.
      encoding: 'PKCS8',
      rotationPolicy: 'Always',
    },
    ...(life.duration === undefined ? {} : { duration: life.duration }),
    ...(life.renewBefore === undefined ? {} : { renewBefore: life.renewBefore }),
    revisionHistoryLimit: 1,
  };
};

/** cert-manager leaves the Secret behind when its Certificate goes; by these labels it is found. */
const secretTemplate = (claim: Claim, purpose: CertificatePurpose): CertificateSpec['secretTemplate'] => {
  const { labels, annotations = {} } = metadataWith(claim, {
    ...clusterLabels(claim.name),
    [LABELS.certificate]: purpose,
  });
  // cert-manager refuses a whole Certificate for an annotation under its own prefix.
  const allowed = Object.entries(annotations).filter(([key]) => !key.includes(`${CERTIFICATE.group}/`));
  return { labels, ...(allowed.length > 0 ? { annotations: Object.fromEntries(allowed) } : {}) };
};
