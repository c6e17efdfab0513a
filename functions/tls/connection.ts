/** The ConfigMap that says how to be a client of the cluster. */
import type { ConfigMap } from 'kubernetes-types/core/v1.js';
import { clientServiceName, clusterLabels, connectionName, PORTS, TLS_FILES } from '../../api/names.ts';
import { metadataWith } from '../composing/additional-metadata.ts';
import { type Claim, record } from '../composing/claim.ts';
import type { Resource, RunFunctionRequest } from '../composing/exchange.ts';
import { hasExisted, isText, quorumOf } from '../composing/settling.ts';
import { isDeleting } from '../composing/slots.ts';

export const CONNECTION_KEY = 'connection';

/**
 * Applications mount this, and never the Secret of the server, which holds its key. The CA is what the runtime read there
 * last; while the runtime says nothing, the one that stands here already stays.
 */
export const connection = (request: RunFunctionRequest, claim: Claim): Resource => {
  const observed = request.observed?.resources?.[CONNECTION_KEY]?.resource;
  const before = record(record(observed).data);
  const host = `${clientServiceName(claim.name)}.${claim.namespace}.svc:${PORTS.client}`;
  const asked = claim.spec.tls?.client !== undefined;
  const reported = quorumOf(request)?.status?.clientCA;
  const known = isText(reported) ? reported : before[TLS_FILES.ca];
  const ca = asked && isText(known) ? known : undefined;
  // A running cluster that is brought to TLS serves both until the runtime knows every member to serve it.
  const encrypted = asked && (ca !== undefined || !hasExisted(quorumOf(request), claim));
  return {
    resource: {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: {
        name: connectionName(claim.name),
        namespace: claim.namespace,
        ...metadataWith(claim, clusterLabels(claim.name)),
      },
      data: {
        endpoints: `${encrypted ? 'https' : 'http'}://${host}`,
        ...(ca === undefined ? {} : { [TLS_FILES.ca]: ca }),
      },
    } satisfies ConfigMap,
    ready: observed !== undefined && !isDeleting(observed) && (!asked || ca !== undefined) ? 'True' : 'False',
  };
};
