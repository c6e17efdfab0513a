/** What a member's Pod was made from, as hashes that the Pod carries. */
import { createHash } from 'node:crypto';
import type { EtcdMember } from '../../api/etcdmember.gen.ts';
import { restartPart } from '../core/template-metadata.ts';

/** Equal for equal values whatever the order of their keys: the API server keeps none. */
const contentHash = (value: unknown): string =>
  createHash('sha256').update(canonical(value)).digest('hex').slice(0, 32);
const canonical = (value: unknown): string =>
  Array.isArray(value)
    ? `[${value.map(canonical).join(',')}]`
    : typeof value === 'object' && value !== null
      ? `{${Object.entries(value)
          .filter(([, part]) => part !== undefined)
          .toSorted(([a], [b]) => (a < b ? -1 : 1))
          .map(([key, part]) => `${JSON.stringify(key)}:${canonical(part)}`)
          .join(',')}}`
      : JSON.stringify(value);

/** By the spec itself: a cached object is never changed, only replaced, and this is most of what a settled pass costs. */
const templateHashes = new WeakMap<EtcdMember['spec'], string>();

/**
 * Of everything that needs another Pod, or another start of etcd, to take effect. Frozen: running Pods carry it, and a hash
 * made otherwise would roll every cluster when the runtime is upgraded. What must be added later is added only where it is set.
 */
export const templateHash = (spec: EtcdMember['spec']): string => {
  const { template, options, version, tls } = spec;
  const known = templateHashes.get(spec);
  if (known !== undefined) return known;
  const hash = contentHash({ spec: template.spec, metadata: template.metadata, options, version, tls });
  templateHashes.set(spec, hash);
  return hash;
};

const restartHashes = new WeakMap<EtcdMember['spec'], string>();

/**
 * Of what needs another Pod. May change with the runtime: it is looked at only where the frozen hash differs, and then decides
 * whether the difference can be taken in without a restart.
 */
export const restartHash = (spec: EtcdMember['spec']): string => {
  const known = restartHashes.get(spec);
  if (known !== undefined) return known;
  const hash = contentHash(restartPart(spec));
  restartHashes.set(spec, hash);
  return hash;
};
