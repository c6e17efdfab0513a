/** cert-manager as this package knows it: the kind Certificate, and whether there is such a kind at all. */

import { record } from '../composing/claim.ts';
import { conditionOf } from '../composing/conditions.ts';
import type { ResourceSelector, RunFunctionRequest } from '../composing/exchange.ts';
import { isDeleting } from '../composing/slots.ts';

const GROUP = 'cert-manager.io';
const VERSION = 'v1';

export type CertificateSpec = {
  readonly secretName: string;
  readonly secretTemplate: { readonly labels: Record<string, string>; readonly annotations?: Record<string, string> };
  readonly issuerRef: { readonly group: typeof GROUP; readonly kind: string; readonly name: string };
  readonly commonName?: string;
  readonly dnsNames?: readonly string[];
  readonly ipAddresses?: readonly string[];
  readonly usages: readonly string[];
  readonly privateKey: {
    readonly algorithm: string;
    readonly size: number;
    readonly encoding: 'PKCS8';
    readonly rotationPolicy: 'Always';
  };
  readonly duration?: string;
  readonly renewBefore?: string;
  readonly revisionHistoryLimit: number;
};

export const CERTIFICATE = { apiVersion: `${GROUP}/${VERSION}`, kind: 'Certificate', group: GROUP } as const;

/** Name of the requirement under which Crossplane hands over the definition of Certificate. */
export const CERT_MANAGER_REQUIRED = 'cert-manager';

export const certManagerRequirement: ResourceSelector = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  matchName: `certificates.${GROUP}`,
};

/**
 * One object of a kind that the API server does not serve ends Crossplane's pass with an error in place of a condition, so
 * the kind is looked for before it is used. Undefined: not asked yet.
 */
export const isCertManagerInstalled = (request: RunFunctionRequest): boolean | undefined => {
  const found = request.requiredResources?.[CERT_MANAGER_REQUIRED];
  if (found === undefined) return undefined;
  return found.some(({ resource }) => {
    const versions = record(record(resource).spec).versions;
    return (
      !isDeleting(resource) &&
      conditionOf(resource, 'Established')?.status === 'True' &&
      Array.isArray(versions) &&
      versions.some((version) => record(version).name === VERSION && record(version).served === true)
    );
  });
};
