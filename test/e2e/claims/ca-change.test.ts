/** Another CA, under load: what is exchanged at once reaches members in an order in which nobody is refused. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { EtcdCluster } from '../../../api/etcdcluster.gen.ts';
import type { EtcdQuorum } from '../../../api/etcdquorum.gen.ts';
import { inUseName, PORTS } from '../../../api/names.ts';
import type { KubeObject, Resource } from '../../../runtime/ports/kube.ts';
import { claim, claimIn, conditionOf, membersOf, podsOf, quorumIn, ready, said } from '../claim.ts';
import { eventually, notYet } from '../eventually.ts';
import { follow } from '../history.ts';
import { issuedBy } from '../issuers.ts';
import { authority, clientIdentity, peerIdentity, serverIdentity, tlsSecret } from '../own-secrets.ts';
import { inNamespace, type Place, seenKinds } from '../place.ts';
import { secureTraffic, shownAt, wayOf } from '../secure-traffic.ts';

const NAME = 'demo';
const quorums = seenKinds.etcdquorums as Resource<EtcdQuorum>;

/** A client that is refused is refused for minutes; a machine that is busy with other tests answers within this. */
const patienceMs = 30_000;

const drawn = (): string => Math.random().toString(36).slice(2, 8);

type Way = {
  readonly tls: NonNullable<EtcdCluster['spec']['tls']>;
  /** Brings what there is to begin with, and the second time everything of other CAs. */
  readonly bring: (place: Place) => Promise<void>;
  /** The Secret that clients have their own certificate from. */
  readonly client: string;
  /** Most Pods that are made in all: the first three, and three for each round of restarts. */
  readonly pods: number;
};

const own: Way = {
  tls: {
    client: { serverSecretRef: { name: 'own-server' }, operatorClientSecretRef: { name: 'own-client' } },
    peer: { secretRef: { name: 'own-peer' } },
  },
  bring: async (place) => {
    const of = { cluster: NAME, namespace: place.namespace };
    // Of other names, as documentation says: clients that use OpenSSL do not tell namesakes apart.
    const [clients, peers] = [authority(`clients-${drawn()}`), authority(`peers-${drawn()}`)];
    await place.apply(
      tlsSecret('own-server', serverIdentity(clients, of), clients.certificate),
      tlsSecret('own-client', clientIdentity(clients), clients.certificate),
      tlsSecret('own-peer', peerIdentity(peers, of), peers.certificate),
    );
  },
  client: inUseName(NAME, 'operator-client'),
  pods: 9,
};

/** The CA behind the issuers is exchanged, and what they have issued is renewed, as it is sooner or later by itself. */
const issued: Way = {
  tls: issuedBy('clients', 'peers'),
  bring: async (place) => {
    for (const name of ['clients', 'peers']) {
      const ca = authority(`${name}-${drawn()}`);
      await place.apply(tlsSecret(`${name}-ca`, ca, undefined), {
        apiVersion: 'cert-manager.io/v1',
        kind: 'Issuer',
        metadata: { name },
        spec: { ca: { secretName: `${name}-ca` } },
      } as KubeObject);
    }
    const condition = { type: 'Issuing', status: 'True', reason: 'ManuallyTriggered', message: 'the CA was exchanged' };
    const lastTransitionTime = new Date().toISOString().replace(/\.\d+/, '');
    for (const name of (await place.kubectl(['get', 'certificates', '-o', 'name'])).split('\n').filter(Boolean)) {
      const { status } = JSON.parse(await place.kubectl(['get', name, '-o', 'json'])) as {
        status: { conditions: { type: string }[] };
      };
      const conditions = [
        ...status.conditions.filter(({ type }) => type !== 'Issuing'),
        { ...condition, lastTransitionTime },
      ];
      const patch = JSON.stringify({ status: { conditions } });
      await place.kubectl(['patch', name, '--subresource=status', '--type=merge', '-p', patch]);
    }
  },
  client: inUseName(NAME, 'consumer'),
  // cert-manager issues one after the other, and a restart may begin between two of them.
  pods: 12,
};

const identities = async (place: Place): Promise<string[]> =>
  (await membersOf(place, NAME)).map(({ status }) => `${status?.incarnation} ${status?.memberID}`).toSorted();

/** Tried again: a machine that is busy with other tests cuts a handshake short now and then. */
const shown = (place: Place): Promise<string[]> =>
  eventually('every member shows its certificates', () => shownNow(place), { everyMs: 1_000 });

const shownNow = async (place: Place): Promise<string[]> => {
  const pods = await podsOf(place, NAME);
  const all = await Promise.all(
    pods.flatMap(({ status }) => [PORTS.client, PORTS.peer].map((port) => shownAt(status?.podIP ?? '', port))),
  );
  return [...new Set(all)].toSorted();
};

const exchange = ({ tls, bring, client, pods }: Way) =>
  inNamespace('ca-change', async (place) => {
    await bring(place);
    await place.apply(claim(NAME, { tls }));
    await ready(place, NAME, { deadlineMs: 150_000 });
    const before = {
      clusterID: (await quorumIn(place, NAME)).status?.clusterID,
      identities: await identities(place),
      shown: await shown(place),
    };
    const made = new Set<string>();
    const phases: string[] = [];
    await using _pods = await follow(place.kube, seenKinds.pods, place, ({ object }) => {
      if (object.metadata.name.startsWith(`${NAME}-`)) made.add(object.metadata.uid);
    });
    await using _quorums = await follow(place.kube, quorums, place, ({ object }) => {
      const phase = object.status?.caChange?.phase ?? '';
      if (phases.at(-1) !== phase) phases.push(phase);
    });
    const ways = async () => [await wayOf(place, NAME, client)];
    await using writer = await secureTraffic(place, NAME, {
      ways,
      everyMs: 50,
      fresh: false,
      prefix: 'kept',
      patienceMs,
    });
    await using fresh = await secureTraffic(place, NAME, {
      ways,
      everyMs: 1_000,
      fresh: true,
      prefix: 'fresh',
      patienceMs,
    });

    await bring(place);
    await eventually(
      'the change has begun',
      async () => (await quorumIn(place, NAME)).status?.caChange ?? notYet('no phase is told'),
      { deadlineMs: 60_000 },
    );
    await eventually(
      'the change is over',
      async () => {
        const { status } = await quorumIn(place, NAME);
        const now = await claimIn(place, NAME);
        if (status?.caChange !== undefined || conditionOf(now, 'CertificatesValid')?.reason !== 'CertificatesValid') {
          notYet(`${status?.caChange?.phase}: ${said(now, 'CertificatesValid')}`);
        }
      },
      { deadlineMs: 800_000, everyMs: 1_000 },
    );
    await ready(place, NAME);
    const written = { writer: await writer.stop(), fresh: await fresh.stop() };
    console.log(JSON.stringify({ phases, made: made.size, written }));
    for (const { failed, lost, lastError } of Object.values(written)) {
      assert.equal(failed, 0, lastError);
      assert.deepEqual(lost, []);
    }
    assert.ok(made.size >= 9 && made.size <= pods, `${made.size} Pods were made`);
    assert.equal((await quorumIn(place, NAME)).status?.clusterID, before.clusterID);
    assert.deepEqual(await identities(place), before.identities);
    const after = await shown(place);
    assert.deepEqual(
      after.filter((one) => before.shown.includes(one)),
      [],
      'nobody shows a former certificate',
    );
    assert.deepEqual(
      ['TrustingBoth', 'Delivering', 'DroppingOld'].filter((phase) => !phases.includes(phase)),
      [],
    );
  });

describe('another CA, under load', { concurrency: 2 }, () => {
  test(
    'takes two rounds of restarts and refuses nobody, when Secrets are exchanged at once for those of other CAs',
    exchange(own),
  );
  test(
    'takes no more and refuses nobody, when the CAs behind the issuers of cert-manager are exchanged',
    exchange(issued),
  );
});
