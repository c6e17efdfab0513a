import { GROUP } from '../../api/names.ts';
import { type Claim, record } from './claim.ts';

type Metadata = { labels: Record<string, string>; annotations?: Record<string, string> };

/** The user's keys under our own prefix would take the place of what the runtime and the selectors rely on. */
const isReserved = (key: string): boolean => {
  const prefix = key.slice(0, key.indexOf('/') + 1);
  return prefix === `${GROUP}/` || prefix.endsWith(`.${GROUP}/`);
};

const allowed = (map: unknown): Record<string, string> =>
  Object.fromEntries(
    Object.entries(record(map))
      .filter((entry): entry is [string, string] => typeof entry[1] === 'string' && !isReserved(entry[0]))
      .sort(([a], [b]) => (a < b ? -1 : 1)),
  );

/**
 * Labels and annotations of a rendered object: the claim's `additionalMetadata`, then `labels`, which win. Never the
 * claim's own metadata: a GitOps tool that finds its tracking label on our objects deletes them.
 */
export const metadataWith = (claim: Claim, labels: Record<string, string>): Metadata => {
  const annotations = allowed(claim.spec.additionalMetadata?.annotations);
  return {
    labels: { ...allowed(claim.spec.additionalMetadata?.labels), ...labels },
    ...(Object.keys(annotations).length > 0 ? { annotations } : {}),
  };
};

/** The claim's `additionalMetadata` without reserved keys, or undefined when nothing of it is left. */
export const additionalMetadataOf = (claim: Claim): Partial<Metadata> | undefined => {
  const labels = allowed(claim.spec.additionalMetadata?.labels);
  const annotations = allowed(claim.spec.additionalMetadata?.annotations);
  const some = {
    ...(Object.keys(labels).length > 0 ? { labels } : {}),
    ...(Object.keys(annotations).length > 0 ? { annotations } : {}),
  };
  return Object.keys(some).length > 0 ? some : undefined;
};
