/** The step `Tls`: cert-manager's Certificates, what applications mount, and how the certificates fare. */
import { certificateSecretName, connectionName } from '../../api/names.ts';
import type { Reason } from '../../api/reasons.ts';
import { type Claim, claimOf, quoted, record, Unrenderable } from '../composing/claim.ts';
import { conditionOf, isTrue } from '../composing/conditions.ts';
import type { Compose, Condition, Resource, RunFunctionRequest } from '../composing/exchange.ts';
import { renderable, respond } from '../composing/response.ts';
import { quorumOf, ttlSeconds } from '../composing/settling.ts';
import { isDeleting } from '../composing/slots.ts';
import { inputOf, renderVersionOf } from '../composing/step-input.ts';
import {
  CERT_MANAGER_REQUIRED,
  type Certificate,
  certManagerRequirement,
  isCertManagerInstalled,
} from './cert-manager.ts';
import { certificateKey, certificatesOf } from './certificates.ts';
import { CONNECTION_KEY, connection } from './connection.ts';

type Certificates = { readonly [key: string]: Certificate };

export const composeTls: Compose = renderable((request) => {
  renderVersionOf(request);
  const claim = claimOf(request);
  const wanted = certificatesOf(claim, clusterDomain(request));
  const isWanted = Object.keys(wanted).length > 0;
  const condition = certificatesReady(request, claim, wanted);
  const before = record(request.desired?.composite?.resource);
  return respond(request, {
    composite: {
      resource: {
        ...before,
        status: {
          ...record(before.status),
          connection: {
            configMapName: connectionName(claim.name),
            ...(certificateKey('consumer') in wanted
              ? { secretName: certificateSecretName(claim.name, 'consumer') }
              : {}),
          },
        },
      },
    },
    resources: { ...certificates(request, wanted), [CONNECTION_KEY]: connection(request, claim) },
    ...(isWanted ? { requirements: { resources: { [CERT_MANAGER_REQUIRED]: certManagerRequirement } } } : {}),
    ...(condition === undefined ? {} : { conditions: [condition] }),
    ttlSeconds: ttlSeconds(request, claim),
  });
});

/** Most clusters are called so; the certificates work where one is not, see {@link peerNames}. */
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

const observedAt = (request: RunFunctionRequest, key: string): object | undefined =>
  request.observed?.resources?.[key]?.resource;

/**
 * Nothing where the kind is not served, and what is there already while that is not known. A Certificate that Crossplane
 * deletes for the lack of a key leaves its Secret, so members keep what they have in any case.
 */
const certificates = (request: RunFunctionRequest, wanted: Certificates): Record<string, Resource> => {
  const installed = isCertManagerInstalled(request);
  return Object.fromEntries(
    Object.entries(wanted).flatMap(([key, resource]) => {
      const observed = observedAt(request, key);
      if (installed === false || (installed === undefined && observed === undefined)) return [];
      return [[key, { resource, ready: isTrue(observed, 'Ready') && !isDeleting(observed) ? 'True' : 'False' }]];
    }),
  );
};

const CERTIFICATES_READY = 'CertificatesReady';

/** Undefined where the claim asks for no TLS: then there is nothing to be ready. */
const certificatesReady = (request: RunFunctionRequest, claim: Claim, wanted: Certificates): Condition | undefined => {
  if (claim.spec.tls?.client === undefined && claim.spec.tls?.peer === undefined) return undefined;
  const no = (reason: Reason, message: string): Condition => ({
    type: CERTIFICATES_READY,
    status: 'False',
    reason,
    message,
  });
  if (Object.keys(wanted).length > 0 && isCertManagerInstalled(request) === false) {
    return no(
      'CertManagerNotInstalled',
      'The claim asks for certificates of cert-manager, which is not installed here. Members that run keep what they ' +
        'have. Waiting for cert-manager to be installed.',
    );
  }
  for (const [key, { metadata }] of Object.entries(wanted)) {
    const observed = observedAt(request, key);
    if (isTrue(observed, 'Ready')) continue;
    return no('CertificateNotIssued', `Certificate ${metadata.name}: ${whyNotReady(observed)}`);
  }
  const reported = conditionOf(quorumOf(request), CERTIFICATES_READY);
  if (reported !== undefined) return reported;
  return Object.keys(wanted).length > 0
    ? { type: CERTIFICATES_READY, status: 'True', reason: 'CertificatesIssued' satisfies Reason }
    : {
        type: CERTIFICATES_READY,
        status: 'Unknown',
        reason: 'NotReported' satisfies Reason,
        message: 'Waiting for the runtime to check the Secrets.',
      };
};

/** An issue that failed is why; that the Secret is not there yet, which Ready says then, is only what. */
const whyNotReady = (certificate: object | undefined): string => {
  const issuing = conditionOf(certificate, 'Issuing');
  const told = issuing?.status === 'False' && issuing.message !== '' ? issuing : conditionOf(certificate, 'Ready');
  return told === undefined || told.message === '' ? 'Waiting for cert-manager to act.' : told.message;
};
