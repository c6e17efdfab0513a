/** The step `Network`: the Service by which members find each other and the one that clients use. */
import type { Service } from 'kubernetes-types/core/v1.js';
import {
  clientServiceName,
  clusterLabels,
  memberSelector,
  PORTS,
  peerServiceName,
  voterSelector,
} from '../../api/names.ts';
import { metadataWith } from '../composing/additional-metadata.ts';
import { type Claim, claimOf } from '../composing/claim.ts';
import type { Compose, Resource, RunFunctionRequest } from '../composing/exchange.ts';
import { renderable, respond } from '../composing/response.ts';
import { ttlSeconds } from '../composing/settling.ts';
import { isDeleting } from '../composing/slots.ts';
import { renderVersionOf } from '../composing/step-input.ts';

const PEER_KEY = 'peer-service';
const CLIENT_KEY = 'client-service';

export const composeNetwork: Compose = renderable((request) => {
  renderVersionOf(request);
  const claim = claimOf(request);
  return respond(request, {
    resources: {
      [PEER_KEY]: service(request, PEER_KEY, peerService(claim)),
      [CLIENT_KEY]: service(request, CLIENT_KEY, clientService(claim)),
    },
    ttlSeconds: ttlSeconds(request, claim),
  });
});

/** A Service has no state of its own to wait for: it is ready once it exists. */
const service = (request: RunFunctionRequest, key: string, resource: Service): Resource => {
  const observed = request.observed?.resources?.[key]?.resource;
  return { resource, ready: observed !== undefined && !isDeleting(observed) ? 'True' : 'False' };
};

const peerService = (claim: Claim): Service => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: {
    name: peerServiceName(claim.name),
    namespace: claim.namespace,
    ...metadataWith(claim, clusterLabels(claim.name)),
  },
  spec: {
    type: 'ClusterIP',
    clusterIP: 'None',
    // Members need each other's names to become ready in the first place.
    publishNotReadyAddresses: true,
    selector: memberSelector(claim.name),
    ports: [
      { name: 'client', port: PORTS.client, targetPort: PORTS.client, protocol: 'TCP' },
      { name: 'peer', port: PORTS.peer, targetPort: PORTS.peer, protocol: 'TCP' },
    ],
  },
});

const clientService = (claim: Claim): Service => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: {
    name: clientServiceName(claim.name),
    namespace: claim.namespace,
    ...metadataWith(claim, clusterLabels(claim.name)),
  },
  spec: {
    type: 'ClusterIP',
    selector: voterSelector(claim.name),
    ports: [{ name: 'client', port: PORTS.client, targetPort: PORTS.client, protocol: 'TCP' }],
  },
});
