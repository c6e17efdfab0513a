/** What a claim's `tls` and `auth` come to: which Secrets are used, whoever makes them. */
import type {
  EtcdQuorumAuth,
  EtcdQuorumTls,
  EtcdQuorumTlsClient,
  EtcdQuorumTlsPeer,
} from '../../api/etcdquorum.gen.ts';
import { certificateSecretName } from '../../api/names.ts';
import type { Claim } from './claim.ts';

/** Undefined where everything is in the clear. */
export const tlsOf = (claim: Claim): EtcdQuorumTls | undefined => {
  const client = clientTls(claim);
  const peer = peerTls(claim);
  if (client === undefined && peer === undefined) return undefined;
  return { ...(client === undefined ? {} : { client }), ...(peer === undefined ? {} : { peer }) };
};

const clientTls = (claim: Claim): EtcdQuorumTlsClient | undefined => {
  const { certManager, serverSecretRef, operatorClientSecretRef } = claim.spec.tls?.client ?? {};
  if (certManager !== undefined) {
    const mutual = certManager.operatorClientIssuerRef !== undefined;
    const operatorClient = certificateSecretName(claim.name, 'operator-client');
    return {
      source: 'CertManager',
      serverSecretName: certificateSecretName(claim.name, 'server'),
      mutual,
      // The two issuers may have different CAs, and members have to know that of the clients.
      ...(mutual ? { clientCASecretName: operatorClient, operatorClientSecretName: operatorClient } : {}),
      ...(mutual && certManager.consumer !== undefined
        ? { consumerSecretName: certificateSecretName(claim.name, 'consumer') }
        : {}),
    };
  }
  if (serverSecretRef === undefined) return undefined;
  return {
    source: 'Secret',
    serverSecretName: serverSecretRef.name,
    mutual: operatorClientSecretRef !== undefined,
    ...(operatorClientSecretRef === undefined
      ? {}
      : { clientCASecretName: serverSecretRef.name, operatorClientSecretName: operatorClientSecretRef.name }),
  };
};

const peerTls = (claim: Claim): EtcdQuorumTlsPeer | undefined => {
  const { certManager, secretRef } = claim.spec.tls?.peer ?? {};
  if (certManager !== undefined)
    return { source: 'CertManager', secretName: certificateSecretName(claim.name, 'peer') };
  return secretRef === undefined ? undefined : { source: 'Secret', secretName: secretRef.name };
};

/** Undefined where the claim says nothing of it. */
export const authOf = (claim: Claim): EtcdQuorumAuth | undefined => {
  const { enabled, rootCredentialsSecretRef } = claim.spec.auth ?? {};
  if (enabled === undefined && rootCredentialsSecretRef === undefined) return undefined;
  return {
    enabled: enabled === true,
    ...(rootCredentialsSecretRef === undefined ? {} : { rootCredentialsSecretName: rootCredentialsSecretRef.name }),
  };
};
