/**
 * What clients feel of certificates that are renewed every minute: nothing, for as long as it takes. cert-manager issues for
 * an hour at least and renews when asked to, here 59 minutes before the end.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { EtcdCluster } from '../../api/etcdcluster.gen.ts';
import { certificateSecretName, LABELS, PORTS } from '../../api/names.ts';
import type { Resource } from '../../runtime/ports/kube.ts';
import { claim, conditionOf, podsOf, ready } from '../e2e/claim.ts';
import { follow } from '../e2e/history.ts';
import { reachable } from '../e2e/identity.ts';
import { issuers } from '../e2e/issuers.ts';
import { type Place, seenKinds } from '../e2e/place.ts';
import {
  heldIn,
  type SecurelyWritten,
  type SecureOptions,
  secureTraffic,
  shownAt,
  wayOf,
} from '../e2e/secure-traffic.ts';
import { inPlace } from './cluster.ts';
import type { Measurement } from './function.ts';

const MINUTES = Number(process.env.ETCD_OPERATOR_BENCH_MINUTES ?? 10);
const WRITE_EVERY_MS = 50;
const FRESH_EVERY_MS = 1_000;
/** The peers' port is only asked what it shows: who is no member is turned away there, and written to etcd's log. */
const LOOK_AT_PEERS_EVERY_MS = 10_000;

const EVERY_MINUTE = { duration: '1h', renewBefore: '59m' } as const;

type Plan = { readonly name: string; readonly words: string; readonly mutual: boolean; readonly renewed: boolean };

/** The last tells what of the rest is the machine's: the same at the same time, and nothing is renewed. */
const PLANS: readonly Plan[] = [
  { name: 'server', words: 'TLS for clients and members', mutual: false, renewed: true },
  { name: 'mutual', words: 'mutual TLS for clients, TLS for members', mutual: true, renewed: true },
  { name: 'control', words: 'mutual TLS for clients, TLS for members, never renewed', mutual: true, renewed: false },
];

/** A request fails that is refused, not one that a busy machine keeps waiting. */
const PATIENCE_MS = 30_000;

const tls = ({ mutual, renewed }: Plan): NonNullable<EtcdCluster['spec']['tls']> => ({
  client: {
    certManager: {
      serverIssuerRef: { name: 'clients' },
      ...(renewed ? EVERY_MINUTE : {}),
      ...(mutual ? { operatorClientIssuerRef: { name: 'clients' }, consumer: { commonName: 'app' } } : {}),
    },
  },
  peer: { certManager: { issuerRef: { name: 'members' }, ...(renewed ? EVERY_MINUTE : {}) } },
});

/** The certificates that each member showed, by port. */
const watchShown = async (
  place: Place,
  name: string,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, ReadonlySet<string>>> => {
  const shown = new Map<string, Set<string>>();
  while (!signal.aborted) {
    for (const { name: pod, ip } of reachable(await podsOf(place, name))) {
      for (const port of [PORTS.client, PORTS.peer]) {
        const key = `${pod}:${port}`;
        const seen = shown.get(key) ?? new Set();
        // A handshake that fails is the clients' to count.
        const certificate = await shownAt(ip, port).catch(() => undefined);
        if (certificate !== undefined) shown.set(key, seen.add(certificate));
      }
    }
    await pause(LOOK_AT_PEERS_EVERY_MS, undefined, { signal }).catch(() => undefined);
  }
  return shown;
};

const refused = ({ triesFailed }: SecurelyWritten): number => triesFailed.TlsRefused ?? 0;

const soak = async (place: Place, plan: Plan): Promise<Measurement[]> => {
  const { name } = plan;
  const restarts = async (): Promise<string> =>
    JSON.stringify(
      (await podsOf(place, name))
        .map(({ metadata, status }) => [metadata.uid, status?.containerStatuses?.[0]?.restartCount ?? 0])
        .toSorted(),
    );
  const before = await restarts();
  const held = new Map<string, Set<string>>();
  await using _secrets = await follow(
    place.kube,
    seenKinds.secrets,
    { ...place, labelSelector: `${LABELS.cluster}=${name},${LABELS.certificate}` },
    ({ object }) => {
      const certificate = heldIn(object);
      const seen = held.get(object.metadata.name) ?? new Set();
      if (certificate !== undefined) held.set(object.metadata.name, seen.add(certificate));
    },
  );
  const unwell = new Set<string>();
  await using claims = await follow<EtcdCluster>(
    place.kube,
    seenKinds.etcdclusters as Resource<EtcdCluster>,
    place,
    ({ object }) => {
      if (object.metadata.name !== name) return;
      for (const [type, status] of Object.entries(WELL)) {
        const condition = conditionOf(object, type);
        if (condition !== undefined && condition.status !== status) {
          unwell.add(`${type}=${condition.status} ${condition.reason}: ${condition.message ?? ''}`);
        }
      }
    },
  );
  const client = plan.mutual ? certificateSecretName(name, 'consumer') : undefined;
  const ways: SecureOptions['ways'] = async () => [await wayOf(place, name, client)];
  const kept = await ways();
  // The writer keeps its connections and the certificate that it began with, as an application that never looks again.
  await using writer = await secureTraffic(place, name, {
    ways: () => Promise.resolve(kept),
    everyMs: WRITE_EVERY_MS,
    fresh: false,
    prefix: 'kept',
    patienceMs: PATIENCE_MS,
  });
  await using fresh = await secureTraffic(place, name, {
    ways,
    everyMs: FRESH_EVERY_MS,
    fresh: true,
    prefix: 'fresh',
    patienceMs: PATIENCE_MS,
  });
  const over = new AbortController();
  const looking = watchShown(place, name, over.signal);
  const writesBefore = claims.happenings.length;
  await pause(MINUTES * 60_000);
  over.abort();
  const shown = await looking;
  const [ofWriter, ofFresh] = [await writer.stop(), await fresh.stop()];
  const after = await restarts();
  const conditions = [...unwell];
  const written = claims.happenings.length - writesBefore;
  // Who joins now shakes hands with every member, each calling the other, by the newest certificates.
  await place.kubectl(['scale', `etcdcluster/${name}`, '--replicas=4']);
  await ready(place, name, { deadlineMs: 600_000 });

  const renewals = [...held].map(([secret, certificates]) => [secret, certificates.size - 1] as const);
  const least = (port: number): number =>
    Math.min(...[...shown].flatMap(([key, seen]) => (key.endsWith(`:${port}`) ? [seen.size] : [])));
  const say = (line: string): void => {
    process.stdout.write(`${plan.words}: ${line}\n`);
  };
  say(`renewed ${renewals.map(([secret, times]) => `${secret} ${times} ×`).join(', ')}`);
  say(`fewest certificates that a member showed: ${least(PORTS.client)} to clients, ${least(PORTS.peer)} to members`);
  say(`${written} writes of the claim; conditions: ${conditions.join('; ') || 'as they should be, all the time'}`);
  for (const [who, { acknowledged, triesFailed, longestRequestMs, lastError }] of [
    ['writer', ofWriter],
    ['fresh clients', ofFresh],
  ] as const) {
    say(
      `${who}: ${acknowledged} requests, tries that failed: ${JSON.stringify(triesFailed)}, longest ${longestRequestMs} ms ${lastError ?? ''}`,
    );
  }
  return [
    { what: `${name}: minutes`, value: MINUTES, unit: 'min' },
    { what: `${name}: fewest renewals of a Secret`, value: Math.min(...renewals.map(([, times]) => times)), unit: '' },
    { what: `${name}: requests of the writer failed`, value: ofWriter.failed, unit: '', budget: 0 },
    { what: `${name}: requests of fresh clients failed`, value: ofFresh.failed, unit: '', budget: 0 },
    { what: `${name}: handshakes refused`, value: refused(ofWriter) + refused(ofFresh), unit: '', budget: 0 },
    {
      what: `${name}: acknowledged writes lost`,
      value: ofWriter.lost.length + ofFresh.lost.length,
      unit: '',
      budget: 0,
    },
    { what: `${name}: longest time without a write`, value: ofWriter.longestGapMs / 1000, unit: 's', budget: 1 },
    { what: `${name}: Pods or containers started anew`, value: after === before ? 0 : 1, unit: '', budget: 0 },
    { what: `${name}: wrong conditions seen`, value: conditions.length, unit: '', budget: 0 },
  ];
};

const WELL = {
  Available: 'True',
  CertificatesValid: 'True',
  Ready: 'True',
  Degraded: 'False',
  Stalled: 'False',
} as const;

export const benchRenewal = (): Promise<Measurement[]> =>
  inPlace(async (place) => {
    await place.apply(...issuers('clients'), ...issuers('members'));
    for (const plan of PLANS) await place.apply(claim(plan.name, { tls: tls(plan) }));
    for (const { name } of PLANS) await ready(place, name, { deadlineMs: 600_000 });
    return (await Promise.all(PLANS.map((plan) => soak(place, plan)))).flat();
  });
