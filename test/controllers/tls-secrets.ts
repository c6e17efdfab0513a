/** The TLS Secrets of stories, and a cluster that has formed with them. */
import type { Authority, Identity } from '../../functions/server/certificates.fixture.ts';
import { type KubeObject, resources } from '../../runtime/ports/kube.ts';
import { authority, clientIdentity, peerIdentity, serverIdentity, tlsSecret } from '../e2e/own-secrets.ts';
import { CLUSTER, NAMESPACE, type Stage } from './stage.ts';

export const of = { cluster: CLUSTER, namespace: NAMESPACE };
export const DAY = 24 * 3_600_000;
/** The stage's clock stands in 2030. */
export const lasting = { notAfter: 8 * 365 * DAY };

export const ca = authority('clients');
export const peerCA = authority('peers');
export const server = serverIdentity(ca, of, lasting);
export const peer = peerIdentity(peerCA, of, lasting);
export const operator = clientIdentity(ca, lasting);

export const bring = (stage: Stage, name: string, identity: Identity, by = ca.certificate): void => {
  const secret = tlsSecret(name, identity, by) as KubeObject & { metadata: { name: string } };
  stage.store.put(resources.secrets, { ...secret, metadata: { name, namespace: NAMESPACE } } as never);
};

export const both = {
  client: { serverSecretRef: { name: 'server' }, operatorClientSecretRef: { name: 'operator' } },
  peer: { secretRef: { name: 'peer' } },
};

export const bringCertificates = (stage: Stage): void => {
  bring(stage, 'server', server);
  bring(stage, 'operator', operator);
  bring(stage, 'peer', peer, peerCA.certificate);
};

export const formedWithTls = async (stage: Stage): Promise<void> => {
  bringCertificates(stage);
  stage.apply({ replicas: 3, tls: both });
  await stage.settled();
  await stage.put('canary', 'alive');
};

/** Every certificate anew, as a tool that exchanges authorities writes them: one Secret after the other. */
export const bringAll = (stage: Stage, clients: Authority, peers: Authority): void => {
  bring(stage, 'server', serverIdentity(clients, of, lasting), clients.certificate);
  bring(stage, 'operator', clientIdentity(clients, lasting), clients.certificate);
  bring(stage, 'peer', peerIdentity(peers, of, lasting), peers.certificate);
};
