/** A node that a test may take away without taking the system's own Pods with it. */
import type { Node } from 'kubernetes-types/core/v1.js';
import { systemNamespace } from '../../deploy/names.ts';
import { resources } from '../../runtime/ports/kube.ts';
import type { NodeName } from '../cluster/cluster.ts';
import { eventually, notYet } from './eventually.ts';
import type { Connection } from './place.ts';

const SYSTEM = ['kube-system', 'local-path-storage', 'crossplane-system', systemNamespace];

/**
 * A node that nothing else is on which the rest would wait for: DNS, the provisioner, the runtime, Crossplane and the function. A
 * function that goes with its node leaves Crossplane with a connection that hangs, and two minutes for each call on it.
 */
export const quietNode = async ({ cluster, kube }: Connection): Promise<NodeName> => {
  const nodes = async () => (await kube.list(resources.nodes)).items;
  const system = async () =>
    (await kube.list(resources.pods)).items.filter(({ metadata }) => SYSTEM.includes(metadata.namespace ?? ''));
  const counts = new Map((await nodes()).map(({ metadata }) => [metadata.name, 0]));
  for (const { spec } of await system()) counts.set(spec?.nodeName ?? '', (counts.get(spec?.nodeName ?? '') ?? 0) + 1);
  const [[node] = ['']] = [...counts].sort(([, few], [, many]) => few - many);
  await cluster.kubectl(['cordon', node]);
  try {
    for (const { metadata, spec } of await system()) {
      if (spec?.nodeName !== node) continue;
      await kube.delete({ resource: resources.pods, namespace: metadata.namespace ?? '', name: metadata.name });
    }
    await eventually(
      `the system runs without ${node}`,
      async () => {
        const late = (await system()).filter(
          ({ spec, status }) =>
            spec?.nodeName === node || status?.conditions?.find(({ type }) => type === 'Ready')?.status !== 'True',
        );
        if (late.length > 0) notYet(late.map(({ metadata }) => metadata.name).join(', '));
      },
      { deadlineMs: 120_000 },
    );
  } finally {
    await cluster.kubectl(['uncordon', node]);
  }
  return node as NodeName;
};

export const nodeIsBack = ({ kube }: Connection, name: string): Promise<void> =>
  eventually(
    `node ${name} is back`,
    async () => {
      const node: Node | undefined = await kube.get({ resource: resources.nodes, name });
      const ready = node?.status?.conditions?.find(({ type }) => type === 'Ready')?.status;
      if (ready !== 'True') notYet(`Ready is ${ready}`);
    },
    { deadlineMs: 120_000 },
  );
