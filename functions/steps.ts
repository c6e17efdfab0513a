import { composeBackup } from './backup/compose.ts';
import { quoted } from './composing/claim.ts';
import type { Compose, RunFunctionRequest } from './composing/exchange.ts';
import { respond } from './composing/response.ts';
import { INPUT_API_VERSION, inputOf } from './composing/step-input.ts';
import { composeMembers } from './members/compose.ts';
import { composeNetwork } from './network/compose.ts';
import { composeStatus } from './status/compose.ts';
import { composeTls } from './tls/compose.ts';
import { composeCertificates } from './tls/compose-certificates.ts';

/** Every step of the package by the kind of its input. policy and overrides take their places here. */
const steps = {
  Members: composeMembers,
  Network: composeNetwork,
  Tls: composeTls,
  Certificates: composeCertificates,
  Backup: composeBackup,
  Status: composeStatus,
} as const satisfies { readonly [kind: string]: Compose };

export type StepName = keyof typeof steps;

export const stepNames = Object.keys(steps) as readonly StepName[];

/** The step that a request is for, or undefined where its input names none. */
export const stepOf = (request: RunFunctionRequest): StepName | undefined => {
  const { apiVersion, kind } = inputOf(request);
  return apiVersion === INPUT_API_VERSION && typeof kind === 'string' && Object.hasOwn(steps, kind)
    ? (kind as StepName)
    : undefined;
};

export const compose: Compose = (request) => {
  const step = stepOf(request);
  if (step !== undefined) return steps[step](request);
  const { apiVersion, kind } = inputOf(request);
  return respond(request, {
    results: [
      {
        severity: 'Fatal',
        reason: 'Unrenderable',
        message:
          `the pipeline step's input is apiVersion ${quoted(apiVersion)}, kind ${quoted(kind)}; give it ` +
          `apiVersion ${INPUT_API_VERSION} and one of the kinds ${stepNames.join(', ')}`,
      },
    ],
  });
};
