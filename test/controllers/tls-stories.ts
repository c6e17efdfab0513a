/** Stories of certificates: from Secrets that come late or are wrong to members that serve. */
import assert from 'node:assert/strict';
import { ANNOTATIONS } from '../../api/names.ts';
import { resources } from '../../runtime/ports/kube.ts';
import { authority, clientIdentity, peerIdentity, serverIdentity } from '../e2e/own-secrets.ts';
import { CLUSTER, NAMESPACE, type Stage } from './stage.ts';
import type { Story } from './stories.ts';
import {
  both,
  bring,
  ca,
  DAY,
  formedWithTls as formed,
  lasting,
  of,
  operator,
  peer,
  peerCA,
  server,
} from './tls-secrets.ts';

export const condition = (stage: Stage, type: string) =>
  stage.quorum?.status?.conditions?.find((one) => one.type === type);

/** Holds once no pass is due any more, so that only what happens next can end the wait. */
const waitsFor = (reason: string) => (stage: Stage) =>
  condition(stage, 'CertificatesValid')?.reason === reason && condition(stage, 'Ready')?.reason === reason;

export const tlsStories: readonly Story[] = [
  {
    name: 'waits without a Pod for Secrets that come late, one by one, and forms as soon as the last is there',
    play: async (stage) => {
      stage.apply({ replicas: 3, tls: both });
      await stage.until(waitsFor('SecretMissing'), 'it says that a Secret is missing');
      assert.equal(stage.pods.length, 0);
      bring(stage, 'server', server);
      bring(stage, 'operator', operator);
      await stage.pass(5_000);
      assert.equal(stage.pods.length, 0);
      bring(stage, 'peer', peer, peerCA.certificate);
      const before = stage.clock.elapsed();
      await stage.until(({ pods }) => pods.length === 3, 'the Pods are made');
      // A runtime that dies on the way is not there to be woken.
      assert.ok(stage.lives > 1 || stage.clock.elapsed() - before < 1_000, 'without waiting for anybody to ask');
      await stage.settled();
    },
    ends: async (stage) => {
      assert.equal(condition(stage, 'CertificatesValid')?.status, 'True');
      assert.match(stage.quorum?.status?.certificatesExpireAt ?? '', /^2034-/);
      assert.match(stage.quorum?.status?.clientCA ?? '', /BEGIN CERTIFICATE/);
      const list = await stage.membership();
      for (const { peerURLs, clientURLs } of list?.members ?? []) {
        assert.match([...peerURLs, ...clientURLs].join(), /^https:.*,https:/);
      }
    },
  },
  {
    name: 'starts no Pod with a certificate for other names, says which, and forms once it is exchanged',
    play: async (stage) => {
      bring(stage, 'server', serverIdentity(ca, { ...of, cluster: 'other' }, lasting));
      bring(stage, 'operator', operator);
      bring(stage, 'peer', peer, peerCA.certificate);
      stage.apply({ replicas: 1, tls: both });
      await stage.until(waitsFor('SanMissing'), 'it says which names are missing');
      assert.match(condition(stage, 'CertificatesValid')?.message ?? '', /Secret server.*\*\.demo\.team-a\.svc/);
      assert.equal(stage.pods.length, 0);
      bring(stage, 'server', server);
      await stage.settled();
    },
  },
  {
    name: 'scales a cluster with TLS and replaces a member of it',
    before: formed,
    play: async (stage) => {
      stage.edit({ replicas: 4 });
      await stage.settled();
      stage.remove(resources.etcdmembers, `${CLUSTER}-1`);
      await stage.settled();
    },
    ends: async (stage) => {
      assert.equal(await stage.read('canary'), 'alive');
      for (const { peerURLs } of (await stage.membership())?.members ?? []) assert.match(peerURLs.join(), /^https:/);
    },
  },
  {
    name: 'tells of a Secret that is gone, and brings members up meanwhile with the certificate that is in use',
    before: formed,
    play: async (stage) => {
      stage.store.delete({ resource: resources.secrets, namespace: NAMESPACE, name: 'peer' });
      const pod = stage.podOf(1).metadata.name;
      await stage.until((s) => condition(s, 'CertificatesValid')?.reason === 'SecretMissing', 'it is told');
      stage.remove(resources.pods, pod);
      await stage.settled();
      assert.equal(condition(stage, 'CertificatesValid')?.reason, 'SecretMissing');
      bring(stage, 'peer', peer, peerCA.certificate);
      await stage.until((s) => condition(s, 'CertificatesValid')?.reason === 'CertificatesValid', 'it is back');
      await stage.settled();
    },
    ends: async (stage) => assert.equal(await stage.read('canary'), 'alive'),
  },
  {
    name: 'does not take an expired certificate for a lost quorum',
    before: async (stage) => {
      await formed(stage);
      const tenMinutesOn = stage.clock.now() + 600_000 - Date.now();
      bring(stage, 'server', serverIdentity(ca, of, { notAfter: tenMinutesOn }));
      await stage.settled();
    },
    play: async (stage) => {
      await stage.pass(660_000);
      for (const { metadata } of stage.pods) {
        stage.etcd.failNext({
          operation: 'status',
          reason: 'TlsRefused',
          url: stage.kubelet.clientURL(metadata.name),
        });
      }
      await stage.until((s) => condition(s, 'CertificatesValid')?.reason === 'CertificateExpired', 'it is told');
      await stage.pass(60_000);
      assert.notEqual(stage.quorum?.status?.phase, 'QuorumLost');
      assert.equal(condition(stage, 'Stalled')?.reason, 'CertificateExpired');
      bring(stage, 'server', server);
      await stage.settled();
    },
    ends: async (stage) => assert.equal(await stage.read('canary'), 'alive'),
  },
  {
    name: 'follows a renewed certificate without restarting anything',
    before: formed,
    play: async (stage) => {
      const uids = stage.pods.map(({ metadata }) => metadata.uid);
      const before = stage.quorum?.status?.certificatesExpireAt;
      bring(stage, 'server', serverIdentity(ca, of, { notAfter: 9 * 365 * DAY }));
      bring(stage, 'operator', clientIdentity(ca, { notAfter: 9 * 365 * DAY }));
      bring(stage, 'peer', peerIdentity(peerCA, of, { notAfter: 9 * 365 * DAY }), peerCA.certificate);
      await stage.until((s) => s.quorum?.status?.certificatesExpireAt !== before, 'the new end is told');
      await stage.settled();
      assert.deepEqual(
        stage.pods.map(({ metadata }) => metadata.uid),
        uids,
      );
    },
    ends: async (stage) => assert.equal(await stage.read('canary'), 'alive'),
  },
  {
    name: 'changes the authority of peers by two rollouts and no other restart: both trusted, new certificate, old one dropped',
    before: formed,
    play: async (stage) => {
      const next = authority('peers-next');
      const uids = (): string[] => stage.pods.map(({ metadata }) => metadata.uid).toSorted();
      const all = async (trust: readonly string[]): Promise<void> =>
        stage.until(
          ({ pods, last }) =>
            last?.decision.step.do === 'Settled' &&
            pods.length === 3 &&
            pods.every(({ metadata }) => {
              const has = metadata.annotations?.[ANNOTATIONS.peerCA] ?? '';
              return [peerCA, next].every(
                ({ certificate, subject }) =>
                  has.includes(certificate.split('\n')[1] ?? '?') === trust.includes(subject),
              );
            }),
          `trusted by all: ${trust.join(', ')}`,
        );
      const first = uids();
      bring(stage, 'peer', peer, peerCA.certificate + next.certificate);
      await all(['peers', 'peers-next']);
      const second = uids();
      assert.ok(first.every((uid) => !second.includes(uid)));
      bring(stage, 'peer', peerIdentity(next, of, lasting), peerCA.certificate + next.certificate);
      await stage.settled();
      await stage.pass(120_000);
      assert.deepEqual(uids(), second, 'a certificate is read again without a restart');
      bring(stage, 'peer', peerIdentity(next, of, lasting), next.certificate);
      await all(['peers-next']);
    },
    ends: async (stage) => assert.equal(await stage.read('canary'), 'alive'),
  },
  {
    name: 'brings a cluster in the clear to TLS, one member at a time, and each stays the member it is',
    before: async (stage) => {
      bring(stage, 'server', server);
      bring(stage, 'operator', operator);
      bring(stage, 'peer', peer, peerCA.certificate);
      stage.apply({ replicas: 3 });
      await stage.settled();
      await stage.put('canary', 'alive');
    },
    play: async (stage) => {
      const ids = (await stage.membership())?.members.map(({ id }) => id);
      stage.edit({ tls: both });
      await stage.until(
        async (s) =>
          s.last?.decision.step.do === 'Settled' &&
          ((await s.membership())?.members ?? []).every(({ peerURLs }) => peerURLs.join().startsWith('https:')),
        'all are listed by https',
      );
      await stage.settled();
      assert.deepEqual(
        (await stage.membership())?.members.map(({ id }) => id),
        ids,
      );
    },
    ends: async (stage) => assert.equal(await stage.read('canary'), 'alive'),
  },
];
