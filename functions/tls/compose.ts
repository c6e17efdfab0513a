/** The step `Tls`: what cert-manager is to issue, what applications mount, and how the certificates fare. */

import type { EtcdCertificateSet } from '../../api/etcdcertificateset.gen.ts';
import { certificateName, connectionName, inUseName } from '../../api/names.ts';
import { accepted } from '../composing/accepted.ts';
import { claimOf, quoted, record, Unrenderable } from '../composing/claim.ts';
import { isTrue } from '../composing/conditions.ts';
import type { Compose, Resource, RunFunctionRequest } from '../composing/exchange.ts';
import { renderable, respond } from '../composing/response.ts';
import { CERTIFICATES_KEY, ttlSeconds } from '../composing/settling.ts';
import { isDeleting } from '../composing/slots.ts';
import { inputOf, renderVersionOf } from '../composing/step-input.ts';
import { CERT_MANAGER_REQUIRED, certManagerRequirement } from './cert-manager.ts';
import { certificateSetOf } from './certificates.ts';
import { certificatesValid } from './certificates-ready.ts';
import { CONNECTION_KEY, connection } from './connection.ts';

export const composeTls: Compose = renderable((request) => {
  renderVersionOf(request);
  const { claim } = accepted(request, claimOf(request));
  const set = certificateSetOf(claim, clusterDomain(request));
  const consumer = certificateName(claim.name, 'consumer');
  const hasConsumer = set?.spec.certificates.some(({ name }) => name === consumer) === true;
  const condition = certificatesValid(request, claim, { issues: set !== undefined });
  const before = record(request.desired?.composite?.resource);
  return respond(request, {
    composite: {
      resource: {
        ...before,
        status: {
          ...record(before.status),
          connection: {
            configMapName: connectionName(claim.name),
            ...(hasConsumer ? { secretName: inUseName(claim.name, 'consumer') } : {}),
          },
        },
      },
    },
    resources: {
      ...(set === undefined ? {} : { [CERTIFICATES_KEY]: certificateSet(request, set) }),
      [CONNECTION_KEY]: connection(request, claim),
    },
    ...(set === undefined ? {} : { requirements: { resources: { [CERT_MANAGER_REQUIRED]: certManagerRequirement } } }),
    ...(condition === undefined ? {} : { conditions: [condition] }),
    ttlSeconds: ttlSeconds(request, claim),
  });
});

const certificateSet = (request: RunFunctionRequest, resource: EtcdCertificateSet): Resource => {
  const observed = request.observed?.resources?.[CERTIFICATES_KEY]?.resource;
  return { resource, ready: isTrue(observed, 'Ready') && !isDeleting(observed) ? 'True' : 'False' };
};

/** Most clusters are called so; the certificates work where one is not, see `peerNames`. */
const DEFAULT_CLUSTER_DOMAIN = 'cluster.local';

const clusterDomain = (request: RunFunctionRequest): string => {
  const domain = inputOf(request).clusterDomain ?? DEFAULT_CLUSTER_DOMAIN;
  if (
    typeof domain === 'string' &&
    /^([a-z0-9]([-a-z0-9]*[a-z0-9])?)(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/.test(domain)
  ) {
    return domain;
  }
  throw new Unrenderable(
    `the step's input.clusterDomain is ${quoted(domain)}; set it to the DNS domain of the Kubernetes cluster, such as ` +
      DEFAULT_CLUSTER_DOMAIN,
  );
};
