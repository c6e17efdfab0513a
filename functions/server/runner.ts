import type { Logger } from 'pino';
import { record } from '../composing/claim.ts';
import type { Compose, RunFunctionRequest, RunFunctionResponse } from '../composing/exchange.ts';
import { refuse } from '../composing/response.ts';
import { stepOf } from '../steps.ts';
import type { Metrics } from './metrics.ts';
import { encodeResponse } from './run-function.ts';

/** Answers one call: always with a response, never with an exception. */
export type Run = (request: RunFunctionRequest) => Buffer;

export const createRunner = (compose: Compose, log: Logger, metrics: Metrics): Run => {
  return (request) => {
    const started = performance.now();
    const step = stepOf(request) ?? 'none';
    let response: RunFunctionResponse;
    let bytes: Buffer;
    let defect = false;
    try {
      response = compose(request);
      bytes = encodeResponse(response);
    } catch (error) {
      // FATAL, so that Crossplane keeps everything as it is and tells the claim; a gRPC error would tell it less.
      defect = true;
      const message = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
      log.error({ err: error, step, ...claimIn(request) }, 'the step failed by a defect of the function');
      response = refuse(
        request,
        'FunctionDefect',
        `Step ${step} failed by a defect of function-etcd, nothing was changed; its log has the stack. ${message.slice(0, 500)}`,
      );
      bytes = encodeResponse(response);
    }
    const fatal = response.results?.some(({ severity }) => severity === 'Fatal') ?? false;
    const seconds = (performance.now() - started) / 1000;
    metrics.ran(step, defect ? 'defect' : fatal ? 'fatal' : 'ok', seconds);
    for (const { severity, message, reason } of response.results ?? []) {
      metrics.result(step, severity);
      if (!defect) log.warn({ step, severity, reason, ...claimIn(request) }, message);
    }
    log.debug({ step, tag: request.tag, ms: seconds * 1000, bytes: bytes.length, ...claimIn(request) }, 'answered');
    return bytes;
  };
};

const claimIn = (request: RunFunctionRequest): { namespace: unknown; name: unknown } => {
  const { namespace, name } = record(record(request.observed?.composite?.resource).metadata);
  return { namespace, name };
};
