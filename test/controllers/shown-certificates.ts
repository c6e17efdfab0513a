/** Of certificates, what must never be: that a member shows another one that it does not trust. */
import { X509Certificate } from 'node:crypto';
import type { Pod } from 'kubernetes-types/core/v1.js';
import { ANNOTATIONS, PORTS } from '../../api/names.ts';
import type { FakeKubelet } from '../fakes/fake-kubelet.ts';

export const fingerprintOf = (pem: string): string =>
  new X509Certificate(pem).fingerprint256.replaceAll(':', '').toLowerCase();

const BLOCK = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

const isTrusted = (pem: string, authorities: string): boolean => {
  const leaf = new X509Certificate(pem);
  return [...authorities.matchAll(BLOCK)].some(([block]) => leaf.verify(new X509Certificate(block).publicKey));
};

/** Pairs that were judged before: the same certificates are compared at every step of every story. */
const judged = new Map<string, boolean>();
const trusts = (pem: string, authorities: string): boolean => {
  const key = pem + authorities;
  const answer = judged.get(key) ?? isTrusted(pem, authorities);
  judged.set(key, answer);
  return answer;
};

export const distrustAmong = (pods: readonly Pod[], kubelet: Pick<FakeKubelet, 'shown'>): string[] => {
  const peers = pods.flatMap(({ metadata, status }) => {
    const trust = metadata?.annotations?.[ANNOTATIONS.peerCA];
    try {
      return trust === undefined || status?.podIP === undefined
        ? []
        : [{ name: metadata?.name, trust, pem: kubelet.shown(status.podIP, PORTS.peer) }];
    } catch {
      return [];
    }
  });
  return peers.flatMap(({ name, pem }) =>
    peers.flatMap((other) =>
      trusts(pem, other.trust) ? [] : [`${name} shows ${other.name} a certificate that it does not trust`],
    ),
  );
};
