/** TLS as users have it: every mode that can be asked for, Secrets that are wrong, certificates that are renewed. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { KubeObject } from '../../../runtime/ports/kube.ts';
import { claim, claimIn, condition, conditionOf, membersOf, podsOf, quorumIn, ready, said } from '../claim.ts';
import { eventually, notYet } from '../eventually.ts';
import { issuers } from '../issuers.ts';
import { authority, clientIdentity, peerIdentity, serverIdentity, tlsSecret } from '../own-secrets.ts';
import { inNamespace, type Place } from '../place.ts';
import { type Flags, secureEtcdctl } from '../secure-client.ts';
import { secureTraffic, type Way } from '../secure-traffic.ts';

/** A new member preallocates 64 MiB for its log. */
const roomy = { medium: 'Memory', size: '256Mi' } as const;

const MODES = ['off', 'own', 'cm'] as const;
type Mode = (typeof MODES)[number];

const clients = authority('clients');
const peers = authority('peers');

const bring = async (place: Place, cluster: string): Promise<void> => {
  const of = { cluster, namespace: place.namespace };
  await place.apply(
    tlsSecret(`${cluster}-own-server`, serverIdentity(clients, of), clients.certificate),
    tlsSecret(`${cluster}-own-client`, clientIdentity(clients), clients.certificate),
    tlsSecret(`${cluster}-own-peer`, peerIdentity(peers, of), peers.certificate),
  );
};

const clientTls = (mode: Mode, cluster: string, mutual: boolean): object | undefined => {
  if (mode === 'off') return undefined;
  return mode === 'own'
    ? {
        serverSecretRef: { name: `${cluster}-own-server` },
        ...(mutual ? { operatorClientSecretRef: { name: `${cluster}-own-client` } } : {}),
      }
    : {
        certManager: {
          serverIssuerRef: { name: 'clients' },
          ...(mutual ? { operatorClientIssuerRef: { name: 'clients' } } : {}),
        },
      };
};
const peerTls = (mode: Mode, cluster: string): object | undefined => {
  if (mode === 'off') return undefined;
  return mode === 'own'
    ? { secretRef: { name: `${cluster}-own-peer` } }
    : { certManager: { issuerRef: { name: 'peers' } } };
};

const flagsOf = (mode: Mode, cluster: string, mutual: boolean): Flags => {
  if (mode === 'off') return {};
  const [ca, certificate] =
    mode === 'own'
      ? [`${cluster}-own-server`, `${cluster}-own-client`]
      : [`${cluster}-server-tls`, `${cluster}-operator-client-tls`];
  return mutual ? { ca, certificate } : { ca };
};

describe('TLS', () => {
  test(
    'each of nine combinations of client and peer TLS forms a quorum that serves etcdctl with the right flags, and mutual TLS refuses who shows nothing',
    inNamespace('tls', async (place) => {
      await place.apply(...issuers('clients'), ...issuers('peers'));
      const combinations = MODES.flatMap((client) => MODES.map((peer) => ({ client, peer })));
      await Promise.all(
        combinations.map(async ({ client, peer }) => {
          const name = `c-${client}-p-${peer}`;
          // Three members where the links between them are what is new; mutual where both sides have certificates.
          const replicas = client === peer && client !== 'off' ? 3 : 1;
          const mutual = replicas === 3;
          await bring(place, name);
          await place.apply(
            claim(name, {
              replicas,
              storage: roomy,
              tls: { client: clientTls(client, name, mutual), peer: peerTls(peer, name) } as never,
            }),
          );
          await ready(place, name, { deadlineMs: 150_000 });
          const flags = flagsOf(client, name, mutual);
          const put = await secureEtcdctl(place, name, flags, 'put', 'greeting', 'hello');
          assert.ok(put.ok, `${name}: ${put.text}`);
          const list = await secureEtcdctl(place, name, flags, 'member', 'list');
          assert.equal(list.text.trim().split('\n').length, replicas, list.text);
          assert.match(list.text, peer === 'off' ? /http:\/\/[^,]+:2380/ : /https:\/\/[^,]+:2380/, name);
          if (mutual) {
            const bare = await secureEtcdctl(place, name, { ca: flags.ca }, 'get', 'greeting');
            assert.ok(!bare.ok, `${name} serves a client without a certificate: ${bare.text}`);
          }
        }),
      );
    }),
  );

  test(
    'each wrong Secret is told by a reason of its own while no Pod is started, and the right one starts the cluster by itself',
    inNamespace('tls-wrong', async (place) => {
      const of = { cluster: 'demo', namespace: place.namespace };
      const good = serverIdentity(clients, of);
      const other = serverIdentity(clients, of);
      const DAY = 24 * 3_600_000;
      await place.apply(
        claim('demo', { replicas: 1, storage: roomy, tls: { client: clientTls('own', 'demo', false) } as never }),
      );
      const cases: readonly [reason: string, secret: KubeObject | undefined][] = [
        ['SecretMissing', undefined],
        [
          'SecretWrongType',
          { ...tlsSecret('demo-own-server', good, clients.certificate), type: 'example.com/mine' } as KubeObject,
        ],
        ['SecretIncomplete', tlsSecret('demo-own-server', good, undefined) as KubeObject],
        ['KeyMismatch', tlsSecret('demo-own-server', { ...good, key: other.key }, clients.certificate) as KubeObject],
        ['CaMismatch', tlsSecret('demo-own-server', good, peers.certificate) as KubeObject],
        [
          'SanMissing',
          tlsSecret(
            'demo-own-server',
            serverIdentity(clients, of, { dnsNames: ['demo'] }),
            clients.certificate,
          ) as KubeObject,
        ],
        [
          'CertificateExpired',
          tlsSecret(
            'demo-own-server',
            serverIdentity(clients, of, { notBefore: -2 * DAY, notAfter: -DAY }),
            clients.certificate,
          ) as KubeObject,
        ],
      ];
      for (const [reason, secret] of cases) {
        // The type of a Secret cannot be changed.
        await place.kubectl(['delete', 'secret', 'demo-own-server', '--ignore-not-found']);
        if (secret !== undefined) await place.apply(secret);
        await condition(
          () => claimIn(place, 'demo'),
          'CertificatesValid',
          { status: 'False', reason: reason as never },
          { deadlineMs: 20_000 },
        );
        assert.deepEqual(await podsOf(place, 'demo'), [], reason);
      }
      await place.kubectl(['delete', 'secret', 'demo-own-server']);
      await place.apply(tlsSecret('demo-own-server', good, clients.certificate));
      await eventually('a Pod is made', async () => (await podsOf(place, 'demo')).length > 0 || notYet('no Pod'), {
        deadlineMs: 5_000,
      });
      await ready(place, 'demo', { deadlineMs: 240_000 });
    }),
  );

  test(
    'a renewed certificate is shown by the members and followed by the runtime, and nothing restarts',
    inNamespace('tls-renew', async (place) => {
      await bring(place, 'demo');
      await place.apply(
        claim('demo', {
          storage: roomy,
          tls: { client: clientTls('own', 'demo', true), peer: peerTls('own', 'demo') } as never,
        }),
      );
      await ready(place, 'demo', { deadlineMs: 240_000 });
      const before = (await podsOf(place, 'demo')).map(({ metadata, status }) => [
        metadata.uid,
        status?.containerStatuses?.[0]?.restartCount,
      ]);
      const expiry = (await quorumIn(place, 'demo')).status?.certificatesExpireAt;
      const of = { cluster: 'demo', namespace: place.namespace };
      const longer = { notAfter: 500 * 24 * 3_600_000 };
      await place.apply(
        tlsSecret('demo-own-server', serverIdentity(clients, of, longer), clients.certificate),
        tlsSecret('demo-own-client', clientIdentity(clients, longer), clients.certificate),
        tlsSecret('demo-own-peer', peerIdentity(peers, of, longer), peers.certificate),
      );
      await eventually('the new end is told', async () => {
        const now = (await quorumIn(place, 'demo')).status?.certificatesExpireAt;
        if (now === expiry) notYet(String(now));
      });
      await place.kubectl(['scale', 'etcdcluster/demo', '--replicas=4']);
      const found = await ready(place, 'demo', { deadlineMs: 120_000 });
      assert.equal(conditionOf(found, 'CertificatesValid')?.status, 'True', said(found, 'CertificatesValid'));
      const after = await podsOf(place, 'demo');
      for (const [uid, restarts] of before) {
        const pod = after.find(({ metadata }) => metadata.uid === uid);
        assert.equal(
          pod?.status?.containerStatuses?.[0]?.restartCount,
          restarts,
          'no Pod was made anew, no container restarted',
        );
      }
    }),
  );

  test(
    'a cluster in the clear is brought to TLS by one edit under load: members stay the same, and a client that tries both ways misses nothing',
    inNamespace('tls-on', async (place) => {
      await bring(place, 'demo');
      await place.apply(claim('demo', {}));
      await ready(place, 'demo', { deadlineMs: 240_000 });
      const ids = async (): Promise<(string | undefined)[]> =>
        (await membersOf(place, 'demo')).map(({ status }) => status?.memberID).toSorted();
      const before = await ids();
      const trust = { ca: Buffer.from(clients.certificate), serverName: `demo-client.${place.namespace}.svc` };
      const ways = (): Promise<Way[]> => Promise.resolve([trust, undefined]);
      await using writer = await secureTraffic(place, 'demo', { ways, everyMs: 50, fresh: false, prefix: 'kept' });
      await using fresh = await secureTraffic(place, 'demo', { ways, everyMs: 1_000, fresh: true, prefix: 'fresh' });
      await place.kubectl([
        ...['patch', 'etcdcluster', 'demo', '--type=merge', '-p'],
        JSON.stringify({ spec: { tls: { client: clientTls('own', 'demo', false), peer: peerTls('own', 'demo') } } }),
      ]);
      await eventually(
        'every member is listed by https',
        async () => {
          const list = await secureEtcdctl(place, 'demo', { ca: 'demo-own-server' }, 'member', 'list');
          if (!list.ok || (list.text.match(/https:\/\/[^,]+:2380/g) ?? []).length < 3) notYet(list.text);
        },
        { deadlineMs: 150_000, everyMs: 3_000 },
      );
      await ready(place, 'demo', { deadlineMs: 240_000 });
      for (const traffic of [writer, fresh]) {
        const { failed, lost, served, lastError } = await traffic.stop();
        assert.deepEqual({ failed, lost }, { failed: 0, lost: [] }, lastError);
        assert.ok(served.http > 0 && served.https > 0, JSON.stringify(served));
      }
      assert.deepEqual(await ids(), before);
    }),
  );
});
