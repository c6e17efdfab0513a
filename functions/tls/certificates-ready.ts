/** How the certificates fare: CertificatesReady on an EtcdCertificateSet, and CertificatesValid on the claim. */
import type { Reason } from '../../api/reasons.ts';
import type { Claim } from '../composing/claim.ts';
import { conditionOf } from '../composing/conditions.ts';
import type { Condition, RunFunctionRequest } from '../composing/exchange.ts';
import { CERTIFICATES_KEY, quorumOf } from '../composing/settling.ts';
import { isCertManagerInstalled } from './cert-manager.ts';

/** Whether cert-manager has issued all of them. */
export const CERTIFICATES_READY = 'CertificatesReady';

/** Whether those in use can be used. The runtime's word, but for what keeps it from having any to judge. */
const CERTIFICATES_VALID = 'CertificatesValid';

export const notInstalled: Condition = {
  type: CERTIFICATES_READY,
  status: 'False',
  reason: 'CertManagerNotInstalled' satisfies Reason,
  message:
    'The claim asks for certificates of cert-manager, which is not installed here. Members that run keep what they ' +
    'have. Waiting for cert-manager to be installed.',
};

/** Undefined where the claim asks for no TLS: then there is nothing to be valid. */
export const certificatesValid = (
  request: RunFunctionRequest,
  claim: Claim,
  { issues }: { readonly issues: boolean },
): Condition | undefined => {
  if (claim.spec.tls?.client === undefined && claim.spec.tls?.peer === undefined) return undefined;
  // Said from here too: an EtcdCertificateSet that loses cert-manager says nothing any more.
  if (issues && isCertManagerInstalled(request) === false) return { ...notInstalled, type: CERTIFICATES_VALID };
  const found = conditionOf(quorumOf(request), CERTIFICATES_VALID);
  const issued = issues ? issuedBy(request) : undefined;
  if (issued?.status === 'False') return { ...issued, type: CERTIFICATES_VALID };
  // A set that says nothing, as while the function is exchanged, takes no certificate away from the members that have it.
  if (issued?.status === 'Unknown' && found?.status !== 'True') {
    return { ...issued, type: CERTIFICATES_VALID, status: 'False' };
  }
  return (
    found ?? {
      type: CERTIFICATES_VALID,
      status: 'Unknown',
      reason: 'NotReported' satisfies Reason,
      message: 'Waiting for the runtime to check the Secrets.',
    }
  );
};

const issuedBy = (request: RunFunctionRequest): Condition => {
  const set = request.observed?.resources?.[CERTIFICATES_KEY]?.resource;
  const condition = conditionOf(set, CERTIFICATES_READY);
  if (condition !== undefined && condition.status !== 'Unknown') return condition;
  // Crossplane could not compose the set: why stands in its own condition.
  const synced = conditionOf(set, 'Synced');
  const why = synced?.status === 'False' && synced.message !== '' ? synced.message : 'Waiting for Crossplane to act.';
  return {
    type: CERTIFICATES_READY,
    status: 'Unknown',
    reason: 'CertificateNotIssued' satisfies Reason,
    message: `EtcdCertificateSet: ${why}`,
  };
};
