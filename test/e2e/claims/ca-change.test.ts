/** Another CA, under load: what is exchanged at once reaches members in an order in which nobody is refused. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { EtcdQuorum } from '../../../api/etcdquorum.gen.ts';
import { inUseName, PORTS } from '../../../api/names.ts';
import type { Resource } from '../../../runtime/ports/kube.ts';
import { claim, claimIn, conditionOf, membersOf, podsOf, quorumIn, ready, said } from '../claim.ts';
import { eventually, notYet } from '../eventually.ts';
import { follow } from '../history.ts';
import { authority, clientIdentity, peerIdentity, serverIdentity, tlsSecret } from '../own-secrets.ts';
import { inNamespace, type Place, seenKinds } from '../place.ts';
import { secureTraffic, shownAt, wayOf } from '../secure-traffic.ts';

const NAME = 'demo';
const quorums = seenKinds.etcdquorums as Resource<EtcdQuorum>;

/** A client that is refused is refused for minutes; a machine that is busy with other tests answers within this. */
const patienceMs = 30_000;

const bring = async (place: Place, clients = authority('clients'), peers = authority('peers')): Promise<void> => {
  const of = { cluster: NAME, namespace: place.namespace };
  await place.apply(
    tlsSecret('own-server', serverIdentity(clients, of), clients.certificate),
    tlsSecret('own-client', clientIdentity(clients), clients.certificate),
    tlsSecret('own-peer', peerIdentity(peers, of), peers.certificate),
  );
};

const identities = async (place: Place): Promise<string[]> =>
  (await membersOf(place, NAME)).map(({ status }) => `${status?.incarnation} ${status?.memberID}`).toSorted();

const shown = async (place: Place): Promise<string[]> => {
  const pods = await podsOf(place, NAME);
  const all = await Promise.all(
    pods.flatMap(({ status }) => [PORTS.client, PORTS.peer].map((port) => shownAt(status?.podIP ?? '', port))),
  );
  return [...new Set(all)].toSorted();
};

test(
  'every certificate exchanged at once for those of other CAs: two rounds of restarts and no failed request, without a human',
  inNamespace('ca-change', async (place) => {
    await bring(place);
    await place.apply(
      claim(NAME, {
        tls: {
          client: {
            serverSecretRef: { name: 'own-server' },
            operatorClientSecretRef: { name: 'own-client' },
          },
          peer: { secretRef: { name: 'own-peer' } },
        },
      }),
    );
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
    const ways = async () => [await wayOf(place, NAME, inUseName(NAME, 'operator-client'))];
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

    await bring(place, authority('clients-next'), authority('peers-next'));
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
      { deadlineMs: 480_000, everyMs: 1_000 },
    );
    await ready(place, NAME);
    const written = { writer: await writer.stop(), fresh: await fresh.stop() };
    console.log(JSON.stringify({ phases, made: made.size, written }));
    for (const { failed, lost, lastError } of Object.values(written)) {
      assert.equal(failed, 0, lastError);
      assert.deepEqual(lost, []);
    }
    assert.equal(made.size, 9, 'three members were restarted twice');
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
  }),
);
