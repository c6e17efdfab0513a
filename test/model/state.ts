/** Worlds as values: equal by this text, they go the same way, whatever their members are called. */
import { createHash } from 'node:crypto';
import { deserialize, serialize } from 'node:v8';
import type { World } from '../scenarios/simulate.ts';

/** Counters, clocks, and words for people. The rules that look at ages are the reason for the move `turn 130000`. */
const LEFT_OUT = new Set([
  'now',
  'draws',
  'writes',
  'version#',
  'createdAt',
  'startedAt',
  'since',
  'lastTime',
  'lastTransitionTime',
  'message',
  'decision',
  'observedGeneration',
  'generation',
]);

/** Tokens, uids and etcd's IDs as the simulated world draws them. */
const NAMES = /\baa[a-z]{3}\b|\b[0-9a-f]{6,8}\b|\b(?:pod|volume|member|quorum|claim|op|budget|c)-\d+\b|"r-?\d+"/g;

const short = new Map<string, string>();
/** Of a configuration file what differs between two starts: who is to be joined, and the rest by its length. */
const shortened = (config: string): string => {
  const known = short.get(config);
  if (known !== undefined) return known;
  const fields = [...config.matchAll(/^(initial-cluster(?:-state)?): "(.*)"$/gm)].map(([, , value]) => value);
  const rest = config.replaceAll(NAMES, '').replaceAll(/^initial-cluster.*$/gm, '');
  const result = `${fields.join(' ')} ${createHash('sha1').update(rest).digest('base64').slice(0, 6)}`;
  if (short.size > 10_000) short.clear();
  short.set(config, result);
  return result;
};

const text = (w: World): string => {
  const revisions = new Set<bigint>();
  const plain = JSON.stringify(
    {
      ...w,
      view: w.view === undefined ? undefined : { ...w.view, quorum: { ...w.view.quorum, version: 0 } },
      quorum: w.quorum === undefined ? undefined : { ...w.quorum, version: 0 },
      pods: w.pods.map((pod) => ({
        ...pod,
        config: shortened(pod.config),
        verified: pod.verified !== undefined && pod.verified === pod.container.id,
        container: {
          running: pod.container.running,
          started: pod.container.id !== undefined,
          // More than a few make no difference to any rule.
          restarts: Math.min(pod.container.restarts, 3),
          failures: Math.min(pod.container.failures, 3),
          code: pod.container.exit?.code,
        },
      })),
    },
    (key, value: unknown) => {
      if (LEFT_OUT.has(key)) return undefined;
      if (typeof value !== 'bigint') return value;
      revisions.add(value);
      return `r${value}`;
    },
  );
  const rank = new Map(
    [...revisions].toSorted((a, b) => (a < b ? -1 : 1)).map((value, i) => [`"r${value}"`, `"r#${i}"`]),
  );
  const canonical = new Map<string, string>();
  return plain.replace(NAMES, (name) => {
    const order = rank.get(name);
    if (order !== undefined) return order;
    const known = canonical.get(name) ?? `#${canonical.size}`;
    canonical.set(name, known);
    return known;
  });
};

export const fingerprintOf = (w: World, more = ''): string =>
  createHash('sha1').update(text(w)).update(more).digest('base64').slice(0, 20);

export const pack = (w: World): Buffer => serialize(w);
export const unpack = (packed: Buffer): World => deserialize(packed) as World;
