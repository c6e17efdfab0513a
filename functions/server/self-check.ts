import { API_VERSION } from '../../api/names.ts';
import type { Compose, RunFunctionRequest } from '../composing/exchange.ts';
import { INPUT_API_VERSION } from '../composing/step-input.ts';
import { type StepName, stepNames } from '../steps.ts';
import { encodeResponse } from './run-function.ts';

const claim = {
  kind: 'EtcdCluster',
  spec: { version: '3.6.1', replicas: 7, tls: { peer: { certManager: { issuerRef: { name: 'self-check' } } } } },
};
const certificateSet = {
  kind: 'EtcdCertificateSet',
  spec: { certificates: [{ name: 'self-check-peer', spec: {} }] },
};

const sample = (step: StepName): RunFunctionRequest => ({
  tag: 'self-check',
  input: { apiVersion: INPUT_API_VERSION, kind: step },
  observed: {
    composite: {
      resource: {
        apiVersion: API_VERSION,
        metadata: { name: 'self-check', namespace: 'default', uid: 'self-check' },
        ...(step === 'Certificates' ? certificateSet : claim),
      },
    },
  },
});

/**
 * Runs every step once before the port opens, and throws when one cannot answer. One revision of the package replaces the
 * other for all claims at once, so a broken one must fail here, where it never becomes ready.
 */
export const selfCheck = (compose: Compose): void => {
  for (const step of stepNames) {
    const response = compose(sample(step));
    const fatal = response.results?.find(({ severity }) => severity === 'Fatal');
    if (fatal !== undefined) throw new Error(`step ${step} cannot answer a plain request: ${fatal.message}`);
    encodeResponse(response);
  }
};
