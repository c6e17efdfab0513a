import { quoted, record, Unrenderable } from './claim.ts';
import type { RunFunctionRequest, Struct } from './exchange.ts';

export const INPUT_API_VERSION = 'functions.etcd-operator.cozystack.io/v1alpha1';

/** The rendering a step gives an unchanged claim. Raised by one whenever that rendering changes. */
const NEWEST_RENDER_VERSION = 1;

/**
 * One revision of this package serves every claim at once, so a release that renders an old claim differently would roll
 * every cluster the moment it is installed. Instead the Composition names the rendering, and its own revisions carry
 * claims over. A rendering that this package does not know is refused: to render another one would be that same surprise.
 */
export const renderVersionOf = (request: RunFunctionRequest): number => {
  const version = inputOf(request).renderVersion ?? 1;
  if (typeof version === 'number' && Number.isInteger(version) && version >= 1 && version <= NEWEST_RENDER_VERSION) {
    return version;
  }
  throw new Unrenderable(
    `the step's input.renderVersion is ${quoted(version)}, and this function knows 1 to ${NEWEST_RENDER_VERSION}; ` +
      'install the function package that belongs to this Composition',
  );
};

export const inputOf = (request: RunFunctionRequest): Struct => record(request.input);
