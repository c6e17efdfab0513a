/** Issuers as users of cert-manager have them. */
import type { EtcdClusterSpec } from '../../api/etcdcluster.gen.ts';
import type { KubeObject } from '../../runtime/ports/kube.ts';

/** A CA of its own in this namespace with the issuer that issues from it, as cert-manager's documentation has it. */
export const issuers = (name: string): KubeObject[] =>
  [
    { apiVersion: 'cert-manager.io/v1', kind: 'Issuer', metadata: { name: `${name}-self` }, spec: { selfSigned: {} } },
    {
      apiVersion: 'cert-manager.io/v1',
      kind: 'Certificate',
      metadata: { name: `${name}-ca` },
      spec: {
        isCA: true,
        commonName: name,
        secretName: `${name}-ca`,
        privateKey: { algorithm: 'ECDSA', size: 256 },
        issuerRef: { name: `${name}-self` },
      },
    },
    {
      apiVersion: 'cert-manager.io/v1',
      kind: 'Issuer',
      metadata: { name },
      spec: { ca: { secretName: `${name}-ca` } },
    },
  ] as unknown as KubeObject[];

/** Client and peer TLS of a claim whose certificates these issuers sign, with one for an application. */
export const issuedBy = (clients: string, peers: string): NonNullable<EtcdClusterSpec['tls']> => ({
  client: {
    certManager: {
      serverIssuerRef: { name: clients },
      operatorClientIssuerRef: { name: clients },
      consumer: { commonName: 'app' },
    },
  },
  peer: { certManager: { issuerRef: { name: peers } } },
});
