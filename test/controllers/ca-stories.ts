/** Stories of another CA: exchanged at once, step by step, back again, and with the runtime dying on the way. */
import assert from 'node:assert/strict';
import { ANNOTATIONS, certificateSecretName, inUseName, PORTS } from '../../api/names.ts';
import type { Authority } from '../../functions/server/certificates.fixture.ts';
import { resources } from '../../runtime/ports/kube.ts';
import { authority, clientIdentity, serverIdentity } from '../e2e/own-secrets.ts';
import { fingerprintOf } from './shown-certificates.ts';
import { CLUSTER, NAMESPACE, type Stage } from './stage.ts';
import type { Story } from './stories.ts';
import { both, bring, bringAll, ca, formedWithTls, lasting, of, peerCA } from './tls-secrets.ts';

const nextClients = authority('clients-next');
const nextPeers = authority('peers-next');

/** As cert-manager leaves them. */
const issueAll = (stage: Stage, clients: Authority): void => {
  const by = clients.certificate;
  bring(stage, certificateSecretName(CLUSTER, 'server'), serverIdentity(clients, of, lasting), by);
  bring(stage, certificateSecretName(CLUSTER, 'operator-client'), clientIdentity(clients, lasting), by);
  bring(stage, certificateSecretName(CLUSTER, 'consumer'), clientIdentity(clients, lasting), by);
};
const issued = {
  client: {
    certManager: { serverIssuerRef: { name: 'ca' }, operatorClientIssuerRef: { name: 'ca' }, consumer: {} },
  },
};

const uids = (stage: Stage): string[] => stage.pods.map(({ metadata }) => metadata.uid).toSorted();

const trusted = (stage: Stage, annotation: string): string[] =>
  stage.pods.map(({ metadata }) => metadata.annotations?.[annotation] ?? '');
const names = (of: readonly Authority[], text: string): string[] =>
  of.flatMap(({ certificate, subject }) => (text.includes(certificate.split('\n')[1] ?? '?') ? [subject] : []));

/** Whether all members trust exactly these as signers of peers. */
const allTrust = (stage: Stage, ...subjects: readonly string[]): boolean =>
  trusted(stage, ANNOTATIONS.peerCA).every((text) => names([peerCA, nextPeers], text).join() === [...subjects].join());

const shown = (stage: Stage, port: number): Set<string> =>
  new Set(stage.pods.map(({ status }) => fingerprintOf(stage.kubelet.shown(status?.podIP ?? '', port))));

const phase = (stage: Stage) => stage.quorum?.status?.caChange?.phase;
const isOver = (stage: Stage): boolean =>
  phase(stage) === undefined && stage.last?.decision.step.do === 'Settled' && stage.pods.length === 3;

/** Counts the Pods that a change has taken. */
const following = (stage: Stage): Set<string> => {
  const seen = new Set(uids(stage));
  stage.store.onChange(({ object }) => {
    if (object.kind === 'Pod') seen.add(object.metadata.uid);
  });
  return seen;
};

export const caStories: readonly Story[] = [
  {
    name: 'exchanges every certificate at once for those of other authorities: two rounds of restarts, nobody is shown what it does not trust',
    before: formedWithTls,
    play: async (stage) => {
      const pods = following(stage);
      const phases = new Set<string>();
      stage.store.onChange(() => phases.add(phase(stage) ?? ''));
      bringAll(stage, nextClients, nextPeers);
      await stage.until((s) => phase(s) === 'TrustingBoth', 'it has begun');
      await stage.until(isOver, 'it is over');
      assert.equal(pods.size, 9, 'three members were restarted twice');
      assert.deepEqual([...phases].filter((one) => one !== '').toSorted(), [
        'Announcing',
        'Delivering',
        'DroppingOld',
        'TrustingBoth',
      ]);
    },
    immortal: true,
    ends: async (stage) => {
      assert.equal(await stage.read('canary'), 'alive');
      assert.ok(allTrust(stage, 'peers-next'));
      const { data } = stage.get(resources.secrets, inUseName(CLUSTER, 'peer')) ?? {};
      const leaf = Buffer.from(data?.['tls.crt'] ?? '', 'base64').toString();
      assert.deepEqual(shown(stage, PORTS.peer), new Set([fingerprintOf(leaf)]));
      assert.deepEqual(names([ca, nextClients], stage.quorum?.status?.clientCA ?? ''), ['clients-next']);
    },
  },
  {
    name: 'exchanges the authority of peers at once',
    before: formedWithTls,
    play: async (stage) => {
      bringAll(stage, ca, nextPeers);
      await stage.until((s) => isOver(s) && allTrust(s, 'peers-next'), 'it is over');
    },
    ends: async (stage) => assert.equal(await stage.read('canary'), 'alive'),
  },
  {
    name: 'tells clients of both authorities before a member shows the new certificate, and until none shows the former',
    before: formedWithTls,
    play: async (stage) => {
      const before = shown(stage, PORTS.client);
      bringAll(stage, nextClients, nextPeers);
      await stage.until(
        ({ quorum }) => names([ca, nextClients], quorum?.status?.clientCA ?? '').length === 2,
        'both are told',
      );
      const told = stage.clock.elapsed();
      assert.deepEqual(shown(stage, PORTS.client), before);
      await stage.until(
        (s) => shown(s, PORTS.client).size > 1 || !before.has([...shown(s, PORTS.client)][0] ?? ''),
        'one shows the new certificate',
      );
      assert.ok(stage.clock.elapsed() - told >= 100_000, 'clients had time to learn of it');
      assert.equal(names([ca, nextClients], stage.quorum?.status?.clientCA ?? '').length, 2);
      await stage.until(isOver, 'it is over');
    },
    immortal: true,
  },
  {
    name: 'gives applications the certificate of another CA once every member trusts it, whichever certificate is issued first',
    before: async (stage) => {
      issueAll(stage, ca);
      stage.apply({ replicas: 3, tls: issued });
      await stage.settled();
      await stage.put('canary', 'alive');
    },
    play: async (stage) => {
      const given = (): string => stage.get(resources.secrets, inUseName(CLUSTER, 'consumer'))?.data?.['tls.crt'] ?? '';
      const before = given();
      const pods = following(stage);
      const trustNext = (): boolean =>
        trusted(stage, ANNOTATIONS.clientCA).every((text) => names([nextClients], text).length === 1);
      stage.store.onChange(() => {
        if (given() !== before && !trustNext()) stage.wrongs.push('applications have what a member does not trust');
      });
      bring(
        stage,
        certificateSecretName(CLUSTER, 'consumer'),
        clientIdentity(nextClients, lasting),
        nextClients.certificate,
      );
      await stage.until((s) => phase(s) === 'TrustingBoth', 'it has begun');
      assert.equal(given(), before);
      issueAll(stage, nextClients);
      await stage.until(isOver, 'it is over');
      assert.notEqual(given(), before);
      assert.equal(pods.size, 9, 'three members were restarted twice');
    },
    ends: async (stage) => assert.equal(await stage.read('canary'), 'alive'),
    immortal: true,
  },
  {
    name: 'takes a change back that was edited away before anybody showed the new certificate',
    before: formedWithTls,
    play: async (stage) => {
      const before = shown(stage, PORTS.peer);
      bringAll(stage, ca, nextPeers);
      await stage.until((s) => phase(s) === 'TrustingBoth', 'it has begun');
      bringAll(stage, ca, peerCA);
      await stage.until(isOver, 'it is over');
      assert.ok(allTrust(stage, 'peers'));
      assert.equal(before.size, 1);
    },
    immortal: true,
  },
  {
    name: 'goes on with a change while the Secret that began it is gone, and finishes it when it is back',
    before: formedWithTls,
    play: async (stage) => {
      bringAll(stage, ca, nextPeers);
      await stage.until((s) => phase(s) === 'TrustingBoth', 'it has begun');
      stage.store.delete({ resource: resources.secrets, namespace: NAMESPACE, name: 'peer' });
      await stage.until(
        (s) => allTrust(s, 'peers', 'peers-next') && s.pods.every((pod) => pod.status?.phase === 'Running'),
        'all trust both',
      );
      await stage.pass(60_000);
      assert.ok(allTrust(stage, 'peers', 'peers-next'), 'nobody is restarted on doubt');
      bringAll(stage, ca, nextPeers);
      await stage.until(isOver, 'it is over');
      assert.ok(allTrust(stage, 'peers-next'));
    },
    immortal: true,
  },
  {
    name: 'asks when what members show is lost in the middle of a change, and goes on by itself with the former certificate back',
    before: formedWithTls,
    play: async (stage) => {
      const former = stage.get(resources.secrets, inUseName(CLUSTER, 'peer'))?.data;
      bringAll(stage, ca, nextPeers);
      stage.store.delete({ resource: resources.secrets, namespace: NAMESPACE, name: inUseName(CLUSTER, 'peer') });
      await stage.until(
        (s) => s.quorum?.status?.conditions?.find(({ type }) => type === 'Stalled')?.reason === 'CaChangedAtOnce',
        'it is told',
      );
      const before = uids(stage);
      await stage.pass(60_000);
      assert.deepEqual(uids(stage), before);
      stage.store.put(resources.secrets, {
        metadata: { name: 'peer', namespace: NAMESPACE },
        type: 'kubernetes.io/tls',
        data: {
          ...former,
          'ca.crt': Buffer.from(peerCA.certificate + nextPeers.certificate).toString('base64'),
        },
      } as never);
      await stage.until((s) => allTrust(s, 'peers', 'peers-next') && isOver(s), 'all trust both');
    },
    immortal: true,
  },
  {
    name: 'leaves a Secret alone that has the name of one of its own and is not',
    before: async (stage) => {
      stage.store.put(resources.secrets, {
        metadata: { name: inUseName(CLUSTER, 'peer'), namespace: NAMESPACE },
        type: 'Opaque',
        data: { mine: 'YQ==' },
      } as never);
      bringAll(stage, ca, peerCA);
    },
    play: async (stage) => {
      stage.apply({ replicas: 3, tls: both });
      await stage.until(
        (s) => s.quorum?.status?.conditions?.find(({ type }) => type === 'Stalled')?.reason === 'SecretTaken',
        'it is told',
      );
      assert.deepEqual(stage.get(resources.secrets, inUseName(CLUSTER, 'peer'))?.data, { mine: 'YQ==' });
      assert.equal(stage.pods.length, 0);
      stage.store.delete({ resource: resources.secrets, namespace: NAMESPACE, name: inUseName(CLUSTER, 'peer') });
      await stage.settled();
    },
    immortal: true,
  },
];
