/**
 * Clusters with all that guards one: mutual TLS and TLS among members from Secrets of their own, and passwords. Who asks them
 * is root, with a certificate of another name, and from here: the test must reach the Pods.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import type { EtcdClusterSpec } from '../../api/etcdcluster.gen.ts';
import { PORTS, peerHost } from '../../api/names.ts';
import { createMemberClient } from '../../runtime/adapters/etcd/member-client.ts';
import { EtcdFault, type EtcdMemberClient } from '../../runtime/ports/etcd.ts';
import type { KubeObject } from '../../runtime/ports/kube.ts';
import { podsOf, quorumIn, ready } from './claim.ts';
import { eventually, notYet, type Patience } from './eventually.ts';
import { reachable } from './identity.ts';
import { authority, clientIdentity, peerIdentity, serverIdentity, tlsSecret } from './own-secrets.ts';
import type { Place } from './place.ts';

const clients = authority('clients');
const peers = authority('peers');
const bearer = clientIdentity(clients);

/** The Secret `root`, which all of them name. */
export const rootSecret = (password: string): KubeObject =>
  ({
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: 'root' },
    type: 'kubernetes.io/basic-auth',
    stringData: { username: 'root', password },
  }) as KubeObject;

/** With a key for snapshots that nobody has had before. */
export const keySecret = (name: string): KubeObject =>
  ({
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name },
    stringData: { key: randomBytes(32).toString('base64') },
  }) as KubeObject;

export const passwords: NonNullable<EtcdClusterSpec['auth']> = {
  enabled: true,
  rootCredentialsSecretRef: { name: 'root' },
};

export const guards = (name: string): NonNullable<EtcdClusterSpec['tls']> => ({
  client: {
    serverSecretRef: { name: `${name}-server` },
    operatorClientSecretRef: { name: `${name}-client` },
  },
  peer: { secretRef: { name: `${name}-peer` } },
});

/** The Secrets that {@link guards} names. */
export const certificatesOf = ({ namespace }: Place, name: string): KubeObject[] => {
  const of = { cluster: name, namespace };
  return [
    tlsSecret(`${name}-server`, serverIdentity(clients, of), clients.certificate) as KubeObject,
    tlsSecret(`${name}-client`, clientIdentity(clients), clients.certificate) as KubeObject,
    tlsSecret(`${name}-peer`, peerIdentity(peers, of), peers.certificate) as KubeObject,
  ];
};

/** What a key holds, as text. */
export const heldBy = async (client: EtcdMemberClient, key: string): Promise<string | undefined> => {
  const found = await client.get(key);
  return found === undefined ? undefined : Buffer.from(found.value).toString();
};

type PodAt = { readonly name: string; readonly ip: string };

export type Guarded = {
  /** One client of one member, by default of one that is open to clients. */
  asRoot<T>(password: string, call: (client: EtcdMemberClient) => Promise<T>, pod?: PodAt): Promise<T>;
  /** Every member says the same of itself, of the others and of the data; in {@link oneCluster} the same in the clear. */
  one(
    password: string,
    size: number,
    patience?: Patience,
  ): Promise<{ readonly clusterID: string; readonly members: readonly string[]; readonly revision: bigint }>;
  /** All members serve, and want root's password. */
  asks(): Promise<void>;
  /** The password is in force, and the others are not. */
  takes(password: string, ...others: readonly string[]): Promise<void>;
};

export const guarded = (place: Place, name: string, patience: Patience): Guarded => {
  const openPod = async (): Promise<PodAt> => {
    const ready = (await podsOf(place, name)).filter(
      ({ metadata, status }) =>
        metadata.deletionTimestamp === undefined &&
        status?.conditions?.some(({ type, status: value }) => type === 'Ready' && value === 'True'),
    );
    return reachable(ready)[0] ?? notYet(`no Pod of ${name} is ready`);
  };

  const asRoot: Guarded['asRoot'] = async (password, call, given) => {
    const pod = given ?? (await openPod());
    const client = createMemberClient({
      url: `https://${pod.ip}:${PORTS.client}`,
      tls: {
        ca: Buffer.from(clients.certificate),
        certificate: Buffer.from(bearer.certificate),
        key: Buffer.from(bearer.key),
        serverName: peerHost(name, place.namespace, pod.name),
      },
      auth: { username: 'root', password },
    });
    try {
      return await call(client);
    } finally {
      client.close();
    }
  };

  return {
    asRoot,
    one: (password, size, own = patience) =>
      eventually(
        `${name} is one cluster of ${size}`,
        async () => {
          const pods = reachable(await podsOf(place, name));
          assert.equal(pods.length, size, 'Pods with an address');
          const selves = await Promise.all(
            pods.map((pod) =>
              asRoot(
                password,
                async (client) => ({
                  status: await client.status(),
                  list: await client.memberList({ linearizable: true }),
                }),
                pod,
              ),
            ),
          );
          const [{ status: first, list }] = selves as [(typeof selves)[number]];
          for (const { status, list: other } of selves) {
            assert.equal(status.clusterId, first.clusterId, 'one cluster ID');
            assert.equal(status.leaderId, first.leaderId, 'one leader');
            assert.deepEqual(other, list, 'one list');
          }
          const members = selves.map(({ status }) => status.memberId).toSorted();
          assert.deepEqual(list.members.map(({ id }) => id).toSorted(), members, 'nobody else is listed');
          assert.equal((await quorumIn(place, name)).status?.clusterID, first.clusterId, 'cluster ID in the quorum');
          // Nobody writes meanwhile, so that who has less is about to have as much.
          for (const { status } of selves) assert.equal(status.revision, first.revision, 'one revision');
          return { clusterID: first.clusterId, members, revision: first.revision };
        },
        own,
      ),
    asks: async () => {
      await ready(place, name, patience);
      await eventually(
        `${name} asks for passwords`,
        async () => {
          const { authEnabled } = (await quorumIn(place, name)).status ?? {};
          if (authEnabled !== true) notYet(`authEnabled is ${authEnabled}`);
        },
        patience,
      );
    },
    takes: (password, ...others) =>
      eventually(
        "root's password is the right one",
        async () => {
          await asRoot(password, (client) => client.get('a'));
          for (const other of others) {
            const answer = await asRoot(other, (client) => client.get('a')).then(
              () => 'let in',
              (error: unknown) => (error instanceof EtcdFault ? error.reason : String(error)),
            );
            if (answer !== 'InvalidAuth') notYet(`another one: ${answer}`);
          }
        },
        patience,
      ),
  };
};
