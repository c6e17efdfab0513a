import { Unrenderable } from './claim.ts';
import type { Compose, Resource, RunFunctionRequest, RunFunctionResponse } from './exchange.ts';

/** The parts of a response that are a step's own. */
export type Contribution = Omit<RunFunctionResponse, 'tag' | 'desired' | 'context'> & {
  readonly composite?: Resource;
  readonly resources?: { readonly [key: string]: Resource };
};

/**
 * The request's desired state and context with a step's contribution laid over: other steps' keys stay as they came, and
 * of the composite only the fields that this step names are replaced.
 */
export const respond = (
  request: RunFunctionRequest,
  { composite, resources, ...rest }: Contribution,
): RunFunctionResponse => {
  const before = request.desired;
  return {
    ...(request.tag === undefined ? {} : { tag: request.tag }),
    desired: {
      ...(before?.composite === undefined && composite === undefined
        ? {}
        : { composite: { ...before?.composite, ...composite } }),
      resources: { ...before?.resources, ...resources },
    },
    ...(request.context === undefined ? {} : { context: request.context }),
    ...rest,
  };
};

/**
 * A FATAL result ends the pipeline: Crossplane applies nothing, deletes nothing, and freezes Ready and all status. So it
 * is only for a request from which nothing can be rendered.
 */
export const refuse = (request: RunFunctionRequest, reason: string, message: string): RunFunctionResponse =>
  respond(request, { results: [{ severity: 'Fatal', message, reason }] });

/** Turns {@link Unrenderable} into a FATAL result. Everything else that is thrown is a bug and goes on to the caller. */
export const renderable =
  (compose: Compose): Compose =>
  (request) => {
    try {
      return compose(request);
    } catch (error) {
      if (error instanceof Unrenderable) return refuse(request, 'Unrenderable', error.message);
      throw error;
    }
  };
