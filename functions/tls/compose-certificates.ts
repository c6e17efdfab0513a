/** The step `Certificates`: from an EtcdCertificateSet to cert-manager's Certificates. */
import type { EtcdCertificateSetCertificate } from '../../api/etcdcertificateset.gen.ts';
import type { Reason } from '../../api/reasons.ts';
import { record, Unrenderable } from '../composing/claim.ts';
import { conditionOf, isTrue } from '../composing/conditions.ts';
import type { Compose, Condition, Resource, RunFunctionRequest } from '../composing/exchange.ts';
import { renderable, respond } from '../composing/response.ts';
import { isText } from '../composing/settling.ts';
import { isDeleting } from '../composing/slots.ts';
import { renderVersionOf } from '../composing/step-input.ts';
import { CERT_MANAGER_REQUIRED, CERTIFICATE, certManagerRequirement, isCertManagerInstalled } from './cert-manager.ts';
import { CERTIFICATES_READY, notInstalled } from './certificates-ready.ts';

export const composeCertificates: Compose = renderable((request) => {
  renderVersionOf(request);
  const set = record(request.observed?.composite?.resource);
  const wanted = wantedOf(set);
  const installed = isCertManagerInstalled(request);
  const ready = wanted.every(({ name }) => isReady(request, name));
  const isResponsive = conditionOf(set, 'Responsive')?.status !== 'False';
  return respond(request, {
    resources: Object.fromEntries(
      wanted
        // What is there stays until Crossplane has looked: a key that is not returned is deleted.
        .filter(({ name }) => installed ?? observedAt(request, name) !== undefined)
        .map((certificate) => [certificate.name, resourceOf(request, set, certificate)]),
    ),
    composite: { ready: ready && installed === true ? 'True' : 'False' },
    requirements: { resources: { [CERT_MANAGER_REQUIRED]: certManagerRequirement } },
    conditions: [installed === false ? notInstalled : issued(request, wanted)],
    ttlSeconds: ready && installed === true && isResponsive ? 60 : 5,
  });
});

const wantedOf = (set: { readonly [key: string]: unknown }): readonly EtcdCertificateSetCertificate[] => {
  const certificates = record(set.spec).certificates;
  if (Array.isArray(certificates) && certificates.every((each) => isText(record(each).name))) return certificates;
  throw new Unrenderable(
    'the composite resource has no spec.certificates; run this step in a Composition for EtcdCertificateSet',
  );
};

const observedAt = (request: RunFunctionRequest, name: string): object | undefined =>
  request.observed?.resources?.[name]?.resource;

const isReady = (request: RunFunctionRequest, name: string): boolean => {
  const observed = observedAt(request, name);
  return isTrue(observed, 'Ready') && !isDeleting(observed);
};

const resourceOf = (
  request: RunFunctionRequest,
  set: { readonly [key: string]: unknown },
  { name, labels, annotations, spec }: EtcdCertificateSetCertificate,
): Resource => ({
  resource: {
    apiVersion: CERTIFICATE.apiVersion,
    kind: CERTIFICATE.kind,
    metadata: {
      name,
      namespace: record(set.metadata).namespace,
      ...(labels === undefined ? {} : { labels }),
      ...(annotations === undefined ? {} : { annotations }),
    },
    spec,
  },
  ready: isReady(request, name) ? 'True' : 'False',
});

const issued = (request: RunFunctionRequest, wanted: readonly EtcdCertificateSetCertificate[]): Condition => {
  const missing = wanted.find(({ name }) => !isTrue(observedAt(request, name), 'Ready'));
  if (missing === undefined) {
    return { type: CERTIFICATES_READY, status: 'True', reason: 'CertificatesIssued' satisfies Reason };
  }
  return {
    type: CERTIFICATES_READY,
    status: 'False',
    reason: 'CertificateNotIssued' satisfies Reason,
    message: `Certificate ${missing.name}: ${whyNotReady(observedAt(request, missing.name))}`,
  };
};

/** An issue that failed is why; that the Secret is not there yet, which Ready says then, is only what. */
const whyNotReady = (certificate: object | undefined): string => {
  const issuing = conditionOf(certificate, 'Issuing');
  const told = issuing?.status === 'False' && issuing.message !== '' ? issuing : conditionOf(certificate, 'Ready');
  return told === undefined || told.message === '' ? 'Waiting for cert-manager to act.' : told.message;
};
