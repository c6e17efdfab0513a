/**
 * TLS that a running cluster has and its claim has no more. The API refuses that edit of a claim, but a policy that gave a
 * cluster its TLS can be withdrawn, and no edit is made then that anything could refuse.
 */
import type {
  EtcdClusterTls,
  EtcdClusterTlsClient,
  EtcdClusterTlsClientCertManager,
  EtcdClusterTlsPeer,
} from '../../api/etcdcluster.gen.ts';
import type { EtcdQuorumTlsClient, EtcdQuorumTlsPeer } from '../../api/etcdquorum.gen.ts';
import { type CertificatePurpose, certificateName } from '../../api/names.ts';
import { type Claim, record } from './claim.ts';
import type { RunFunctionRequest } from './exchange.ts';
import { CERTIFICATES_KEY, isText, quorumOf } from './settling.ts';

export type KeptTls = { readonly tls: EtcdClusterTls; readonly refusal: string };

/** Undefined where the claim asks for all the TLS that there is. */
export const keptTls = (request: RunFunctionRequest, claim: Claim): KeptTls | undefined => {
  const had = record(record(quorumOf(request)?.spec).tls);
  const asked = claim.spec.tls ?? {};
  const client = asked.client === undefined ? recordedClient(request, claim, had.client) : undefined;
  const peer = asked.peer === undefined ? recordedPeer(request, claim, had.peer) : undefined;
  if (client === undefined && peer === undefined) return undefined;
  const taken = [client === undefined ? [] : ['spec.tls.client'], peer === undefined ? [] : ['spec.tls.peer']].flat();
  return {
    tls: {
      ...asked,
      ...(client === undefined ? {} : { client }),
      ...(peer === undefined ? {} : { peer }),
    },
    refusal:
      `${taken.join(' and ')} cannot be taken away from a running cluster, since whoever insists on TLS would be shut out and ` +
      'data sent in the clear: members keep the certificates that they have; put it back, in the claim or in the policy ' +
      'that gave it, or move the data to a new EtcdCluster by a snapshot',
  };
};

/** What the claim would have to say for what is there to be rendered as it is. */
const recordedClient = (
  request: RunFunctionRequest,
  claim: Claim,
  recorded: unknown,
): EtcdClusterTlsClient | undefined => {
  const { source, serverSecretName, operatorClientSecretName } = record(recorded) as Partial<EtcdQuorumTlsClient>;
  if (!isText(serverSecretName)) return undefined;
  const server = source === 'CertManager' ? issued(request, claim, 'server') : undefined;
  if (server === undefined) {
    return {
      serverSecretRef: { name: serverSecretName },
      ...(isText(operatorClientSecretName) ? { operatorClientSecretRef: { name: operatorClientSecretName } } : {}),
    };
  }
  const operator = issued(request, claim, 'operator-client');
  const consumer = issued(request, claim, 'consumer');
  const commonName = consumer?.spec.commonName;
  return {
    certManager: {
      serverIssuerRef: issuerOf(server),
      ...lifeOf(server),
      // With the names that are always there; those are taken once.
      ...(Array.isArray(server.spec.dnsNames) ? { dnsNames: server.spec.dnsNames } : {}),
      ...(Array.isArray(server.spec.ipAddresses) ? { ipAddresses: server.spec.ipAddresses } : {}),
      ...(operator === undefined ? {} : { operatorClientIssuerRef: issuerOf(operator) }),
      ...(consumer === undefined ? {} : { consumer: isText(commonName) ? { commonName } : {} }),
    },
  };
};

const recordedPeer = (request: RunFunctionRequest, claim: Claim, recorded: unknown): EtcdClusterTlsPeer | undefined => {
  const { source, secretName } = record(recorded) as Partial<EtcdQuorumTlsPeer>;
  if (!isText(secretName)) return undefined;
  const peer = source === 'CertManager' ? issued(request, claim, 'peer') : undefined;
  return peer === undefined
    ? { secretRef: { name: secretName } }
    : { certManager: { issuerRef: issuerOf(peer), ...lifeOf(peer) } };
};

type Issued = { readonly name: string; readonly spec: { readonly [key: string]: unknown } };

const issued = (request: RunFunctionRequest, claim: Claim, purpose: CertificatePurpose): Issued | undefined => {
  const set = record(request.observed?.resources?.[CERTIFICATES_KEY]?.resource);
  const certificates = record(set.spec).certificates;
  const name = certificateName(claim.name, purpose);
  const found: unknown = Array.isArray(certificates)
    ? certificates.find((each) => record(each).name === name)
    : undefined;
  return found === undefined ? undefined : { name, spec: record(record(found).spec) };
};

const issuerOf = ({ spec }: Issued): EtcdClusterTlsClientCertManager['serverIssuerRef'] => {
  const { name, kind } = record(spec.issuerRef);
  return { name: String(name), kind: kind === 'ClusterIssuer' ? 'ClusterIssuer' : 'Issuer' };
};

const lifeOf = ({ spec }: Issued): Pick<EtcdClusterTlsClientCertManager, 'duration' | 'renewBefore' | 'privateKey'> => {
  const { algorithm, size } = record(spec.privateKey);
  return {
    ...(isText(spec.duration) ? { duration: spec.duration } : {}),
    ...(isText(spec.renewBefore) ? { renewBefore: spec.renewBefore } : {}),
    privateKey: {
      algorithm: algorithm === 'RSA' ? 'RSA' : 'ECDSA',
      ...(typeof size === 'number' ? { size } : {}),
    },
  };
};
