import { type Kube, resources } from '../ports/kube.ts';

/**
 * The image this process runs from, as its own Pod names it: what the runtime makes beside members runs from the same one, and
 * nobody has to write it down twice. Undefined outside a cluster.
 */
export const ownImage = async (
  kube: Pick<Kube, 'get'>,
  of: { readonly namespace: string | undefined; readonly pod: string | undefined },
): Promise<string | undefined> => {
  if (of.namespace === undefined || of.pod === undefined) return undefined;
  const pod = await kube.get({ resource: resources.pods, namespace: of.namespace, name: of.pod });
  return pod?.spec?.containers.find(({ name }) => name === 'runtime')?.image;
};
