/** Labels and annotations that the claim gives to Pods, volumes and the budget. They change in place: nothing restarts. */

import type { EtcdMemberSpec } from '../../api/etcdmember.gen.ts';
import { ANNOTATIONS, GROUP, LABELS } from '../../api/names.ts';
import { oneSpelling } from '../../api/quantity.ts';

type Text = Readonly<Record<string, string>>;
export type Metadata = { readonly labels?: Text | undefined; readonly annotations?: Text | undefined };

const sorted = (map: Text | undefined): Text =>
  Object.fromEntries(Object.entries(map ?? {}).toSorted(([a], [b]) => (a < b ? -1 : 1)));

/** What no template decides: only a proof opens a Pod to clients. */
const isOwn = (key: string): boolean => key === LABELS.role || key === ANNOTATIONS.verifiedContainer;
const without = (map: Text | undefined): Text =>
  Object.fromEntries(Object.entries(sorted(map)).filter(([key]) => !isOwn(key)));

/** The record that goes on the object; equal for equal metadata. Without it nobody could tell a label of the claim's that was taken back from a label of somebody else's. */
export const metadataRecord = ({ labels, annotations }: Metadata): string =>
  JSON.stringify({ labels: without(labels), annotations: without(annotations) });

const keysOf = (
  record: string | undefined,
): { readonly labels: readonly string[]; readonly annotations: readonly string[] } => {
  try {
    const { labels, annotations } = JSON.parse(record ?? '{}') as { labels?: object; annotations?: object };
    return { labels: Object.keys(labels ?? {}), annotations: Object.keys(annotations ?? {}) };
  } catch {
    // Somebody wrote into it: then nothing is known of what was ours, and nothing is taken away.
    return { labels: [], annotations: [] };
  }
};

type Patch = Readonly<Record<string, string | null>>;

/** Takes back what an earlier template gave and this one does not; ours stay whatever the record says. */
const difference = (before: readonly string[], now: Text): Patch => ({
  ...Object.fromEntries(
    before.filter((key) => !(key in now) && !key.startsWith(`${GROUP}/`)).map((key): [string, null] => [key, null]),
  ),
  ...now,
});

/** The merge patch that brings an object from the metadata in `record` to this. */
export const metadataPatch = (
  record: string | undefined,
  wanted: Metadata,
): { readonly labels: Patch; readonly annotations: Patch } => {
  const before = keysOf(record);
  return {
    labels: difference(before.labels, without(wanted.labels)),
    annotations: {
      ...difference(before.annotations, without(wanted.annotations)),
      [ANNOTATIONS.metadata]: metadataRecord(wanted),
    },
  };
};

const amounts = (map: Readonly<Record<string, unknown>> | undefined): unknown =>
  map === undefined
    ? undefined
    : Object.fromEntries(
        Object.entries(map).map(([key, value]) => [
          key,
          typeof value === 'string' || typeof value === 'number' ? oneSpelling(value) : value,
        ]),
      );

/**
 * What of a template makes another Pod necessary, in one spelling: `1Gi` and `1024Mi` are one amount, and an option that says
 * etcd's own default says nothing.
 */
export const restartPart = ({ template, options, version }: EtcdMemberSpec): unknown => {
  const { quotaBackendBytes, autoCompactionMode, autoCompactionRetention, ...rest } = options ?? {};
  return {
    version,
    options: {
      ...rest,
      ...(quotaBackendBytes === undefined || quotaBackendBytes === 0 ? {} : { quotaBackendBytes }),
      ...(autoCompactionRetention === undefined || autoCompactionRetention === '0'
        ? {}
        : {
            autoCompactionRetention,
            ...(autoCompactionMode === undefined || autoCompactionMode === 'periodic' ? {} : { autoCompactionMode }),
          }),
    },
    spec: {
      ...template.spec,
      containers: template.spec.containers.map((container) => ({
        ...container,
        resources:
          container.resources === undefined
            ? undefined
            : {
                ...container.resources,
                requests: amounts(container.resources.requests),
                limits: amounts(container.resources.limits),
              },
      })),
      volumes: template.spec.volumes?.map((volume) =>
        volume.emptyDir?.sizeLimit === undefined
          ? volume
          : { ...volume, emptyDir: { ...volume.emptyDir, sizeLimit: oneSpelling(volume.emptyDir.sizeLimit) } },
      ),
    },
  };
};
