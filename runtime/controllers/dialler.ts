/**
 * How the runtime reaches the members of each cluster: in the clear or by TLS, with what the cluster's Secrets hold at this
 * moment. Certificates and passwords are here and in the clients that are made of them, and nowhere else.
 */

import type { Secret } from 'kubernetes-types/core/v1.js';
import type { EtcdQuorumSpec, EtcdQuorumStatus } from '../../api/etcdquorum.gen.ts';
import { ANNOTATIONS, addressURL, IN_USE_TYPE, inUseName, PORTS, peerHost, type Scheme } from '../../api/names.ts';
import { PURPOSES } from '../core/ca-change.ts';
import {
  authoritiesOf,
  type CertificateRole,
  inUseOf,
  type SeenCertificate,
  type SeenSecret,
  trustBundle,
  withoutNamesakes,
} from '../core/certificates.ts';
import { formerPasswords, type RootPasswords, rootData } from '../core/in-use-secret.ts';
import { known, type SeenAuth, unknown } from '../core/observed.ts';
import {
  type EtcdClients,
  type EtcdEndpoint,
  EtcdFault,
  type EtcdLoginPlace,
  type EtcdMemberClient,
  type EtcdTls,
} from '../ports/etcd.ts';
import { type NamedSecrets, type SecretView, secretBytes } from '../ports/secrets.ts';
import { issuedSecretNames } from './issued-secrets.ts';
import { type ClusterName, clusterKey } from './world.ts';

/** What is needed to be known of a Pod to dial the member in it. */
export type Dialled = { readonly name: string; readonly ip: string; readonly config: string | undefined };

type Prepared = { readonly spec: EtcdQuorumSpec; readonly status: EtcdQuorumStatus };

export type Dialler = {
  /** Takes in what the cluster's Secrets hold now; at the begin of each pass. */
  prepare(cluster: ClusterName, quorum: Prepared | undefined): Promise<readonly SeenCertificate[]>;
  /**
   * Members refused what the present client logs in by, which was given out with this mark: whether there is something
   * else to try.
   */
  turnDown(cluster: ClusterName, mark: number): boolean;
  mark(cluster: ClusterName): number;
  /** How the members let the runtime in. */
  login(cluster: ClusterName): Pick<SeenAuth, 'password' | 'kept' | 'accepted'>;
  /** Root's password as the Secret has it. */
  password(cluster: ClusterName): string | undefined;
  /** What the runtime's own Secret is to hold, before and after etcd is given the password of the claim's Secret. */
  toKeep(cluster: ClusterName, as: 'next' | 'inForce'): Readonly<Record<string, string>>;
  /**
   * The certificate that this member shows was refused, and `tried` times already: whether there are other authorities to know
   * it by, which are used from now on.
   */
  knowOtherwise(cluster: ClusterName, pod: Dialled, tried: number): boolean;
  /** Rejects with `TlsRefused` where the Secrets do not give what it takes. */
  client(cluster: ClusterName, pod: Dialled): EtcdMemberClient;
  /** Where learners have tokens from: the members that serve clients. */
  loginAt(cluster: ClusterName, pods: readonly Dialled[]): void;
  forget(cluster: ClusterName): void;
  /** When each certificate in use ends. */
  expiries(): readonly { readonly cluster: ClusterName; readonly secret: string; readonly notAfter: number }[];
};

type Kept = RootPasswords & { readonly unread?: string };

/** In the order in which they are tried. */
type Login = { readonly by: 'password' | 'earlier' | 'certificate'; readonly password?: string };

type Access = {
  readonly logins: readonly Login[];
  readonly password: { readonly value: string | undefined; readonly seen: SeenAuth['password'] };
  readonly kept: Kept;
  readonly tls: Omit<EtcdTls, 'serverName'> | undefined;
  /** Why there is none although the cluster wants TLS. */
  readonly lacking: string | undefined;
};

const url = (scheme: Scheme, ip: string): string => addressURL(scheme, ip, PORTS.client);

/** A Pod's configuration never changes its scheme: that takes another template, and so another Pod. */
const servesTls = ({ config }: Dialled): boolean => /^advertise-client-urls: "https:/m.test(config ?? '');

/** Also what operators of Secrets make, which know no other type. */
const PASSWORD_TYPES = ['kubernetes.io/basic-auth', 'Opaque'];

const bytes = (view: SecretView | undefined, key: string): Buffer | undefined =>
  view?.is === 'there' ? secretBytes(view.secret, key) : undefined;

const text = (view: SecretView | undefined, key: string): string | undefined => bytes(view, key)?.toString('utf8');

const passwordIn = (name: string | undefined, view: SecretView | undefined): Access['password'] => {
  const lacking = (
    reason: Extract<SeenAuth['password'], { known: false }>['reason'],
    why: string,
  ): Access['password'] => ({ value: undefined, seen: { known: false, reason, why } });
  if (name === undefined) return lacking('SecretMissing', 'the claim names no Secret with the password of root');
  if (view === undefined || view.is === 'unread') {
    return lacking('SecretUnread', `Secret ${name}, which holds root's password: ${view?.why ?? 'it was not read'}`);
  }
  if (view.is === 'absent') return lacking('SecretMissing', `there is no Secret ${name}, which holds root's password`);
  const { type = 'Opaque' } = view.secret;
  if (!PASSWORD_TYPES.includes(type)) {
    return lacking('SecretWrongType', `Secret ${name} is of type ${type} and not ${PASSWORD_TYPES.join(' or ')}`);
  }
  const value = text(view, 'password');
  if (value === undefined) {
    return lacking('SecretIncomplete', `Secret ${name} has no root's password under the key password, or an empty one`);
  }
  return { value, seen: { known: true } };
};

const keptIn = (view: SecretView | undefined): Kept => {
  if (view === undefined || view.is === 'absent') return {};
  if (view.is === 'unread') return { unread: view.why };
  if (view.secret.type !== IN_USE_TYPE)
    return { unread: `it is of type ${view.secret.type}, so it is somebody else's` };
  const [password, next] = [text(view, 'password'), text(view, 'next')];
  return {
    ...(password === undefined ? {} : { password }),
    ...(next === undefined ? {} : { next }),
    former: formerPasswords(text(view, 'former')),
  };
};

const keptSeen = (wanted: string | undefined, { password, next, unread }: Kept): SeenAuth['kept'] => {
  if (unread !== undefined) return unknown(unread);
  if (wanted === undefined || (password !== wanted && next !== wanted)) return known('missing');
  return known(password === wanted && next === undefined ? 'alone' : 'among');
};

/** The claim's Secret's, those of which one was in force when it was edited, and at last what the certificate says of us. */
const loginsOf = (wanted: string | undefined, { password, next, former = [] }: Kept): readonly Login[] => [
  ...(wanted === undefined ? [] : [{ by: 'password' as const, password: wanted }]),
  ...[...new Set([next, password, ...former])].flatMap((earlier) =>
    earlier === undefined || earlier === wanted ? [] : [{ by: 'earlier' as const, password: earlier }],
  ),
  { by: 'certificate' },
];

/** What is in use of a certificate; before anything is, the Secret that offers it. */
const inUseView = (
  cluster: string,
  role: CertificateRole,
  secretName: string,
  views: ReadonlyMap<string, SecretView>,
): SecretView | undefined => {
  const view = views.get(inUseName(cluster, PURPOSES[role]));
  return view?.is === 'there' && view.secret.type === IN_USE_TYPE ? view : views.get(secretName);
};

const transportOf = (
  cluster: string,
  client: NonNullable<EtcdQuorumSpec['tls']>['client'],
  views: ReadonlyMap<string, SecretView>,
): Pick<Access, 'tls' | 'lacking'> => {
  if (client === undefined) return { tls: undefined, lacking: undefined };
  const ca = bytes(inUseView(cluster, 'server', client.serverSecretName, views), 'ca.crt');
  if (ca === undefined) return { tls: undefined, lacking: `there is no ca.crt in Secret ${client.serverSecretName}` };
  const own = client.operatorClientSecretName;
  if (own === undefined) return { tls: { ca }, lacking: undefined };
  const shown = inUseView(cluster, 'client', own, views);
  const certificate = bytes(shown, 'tls.crt');
  const key = bytes(shown, 'tls.key');
  return certificate === undefined || key === undefined
    ? { tls: undefined, lacking: `there is no client certificate in Secret ${own}` }
    : { tls: { ca, certificate, key }, lacking: undefined };
};

const seenInUse = (view: SecretView | undefined, read: DiallerOptions['read']): SeenCertificate['inUse'] => {
  if (view === undefined || view.is === 'unread') return unknown(view?.why ?? 'it was not read');
  if (view.is === 'absent') return known(undefined);
  const { metadata, type } = view.secret;
  const changedAt = Date.parse(metadata.annotations?.[ANNOTATIONS.changedAt] ?? '');
  return known({
    name: metadata.name,
    version: metadata.resourceVersion,
    ours: type === IN_USE_TYPE,
    changedAt: Number.isNaN(changedAt) ? undefined : changedAt,
    secret: read(view.secret, view.secret),
  });
};

const seenCertificates = (
  cluster: string,
  tls: EtcdQuorumSpec['tls'],
  views: ReadonlyMap<string, SecretView>,
  read: DiallerOptions['read'],
): readonly SeenCertificate[] => {
  const seen = (role: SeenCertificate['role'], secretName: string, authorities = secretName): SeenCertificate => {
    const [view, from] = [views.get(secretName), views.get(authorities)];
    const unread = view?.is === 'unread' ? view : from?.is === 'unread' ? from : undefined;
    const secret: SeenCertificate['secret'] =
      view === undefined || unread !== undefined
        ? unknown(unread?.why ?? 'it was not read')
        : known(view.is === 'there' ? read(view.secret, from?.is === 'there' ? from.secret : view.secret) : undefined);
    const inUse = seenInUse(views.get(inUseName(cluster, PURPOSES[role])), read);
    // Its authorities may stand in another Secret: both have to be the ones that were judged.
    const version = [view, from].map((one) => (one?.is === 'there' ? one.secret.metadata.resourceVersion : '')).join();
    return { role, secretName, secret, version, inUse };
  };
  const { client, peer } = tls ?? {};
  return [
    ...(client === undefined ? [] : [seen('server', client.serverSecretName)]),
    ...(client?.operatorClientSecretName === undefined
      ? []
      : [seen('client', client.operatorClientSecretName, client.clientCASecretName)]),
    ...(peer === undefined ? [] : [seen('peer', peer.secretName)]),
    ...(client?.consumerSecretName === undefined ? [] : [seen('consumer', client.consumerSecretName)]),
  ];
};

/** Also where the claim says nothing of it any more, but etcd was last known to ask for a password. */
const keepsPassword = ({ spec, status }: Prepared): boolean =>
  spec.auth?.rootCredentialsSecretName !== undefined || status.authEnabled === true;

const namesOf = (cluster: ClusterName, quorum: Prepared): readonly string[] => {
  const { tls, auth } = quorum.spec;
  const { client, peer } = tls ?? {};
  const names = [
    ...issuedSecretNames(cluster.name, tls),
    client?.serverSecretName,
    client?.operatorClientSecretName,
    client?.clientCASecretName,
    peer?.secretName,
    auth?.rootCredentialsSecretName,
    keepsPassword(quorum) ? inUseName(cluster.name, 'root') : undefined,
    ...(client === undefined ? [] : [inUseName(cluster.name, 'server')]),
    ...(client?.operatorClientSecretName === undefined ? [] : [inUseName(cluster.name, 'operator-client')]),
    ...(peer === undefined ? [] : [inUseName(cluster.name, 'peer')]),
    ...(client?.consumerSecretName === undefined
      ? []
      : [client.consumerSecretName, inUseName(cluster.name, 'consumer')]),
  ];
  return [...new Set(names.flatMap((name) => name ?? []))];
};

const digest = ({ tls }: Access): string =>
  [tls?.ca, tls?.certificate].map((part) => (part === undefined ? '' : Buffer.from(part).toString('base64'))).join();

export type DiallerOptions = {
  readonly secrets: NamedSecrets;
  readonly etcd: EtcdClients;
  /** Reads a TLS Secret, whose certificate the `ca.crt` of `authorities` has to vouch for. */
  readonly read: (secret: Secret, authorities: Secret) => SeenSecret;
};

export const createDialler = ({ secrets, etcd, read }: DiallerOptions): Dialler => {
  const accesses = new Map<string, Access>();
  /** Which login of a cluster is in use; as many as there are: none was taken. */
  const turns = new Map<string, number>();
  const voters = new Map<string, readonly Dialled[]>();
  /** URLs that clients of a cluster's present certificates were made for. */
  const dialled = new Map<string, Set<string>>();
  /** By whom members are known, where authorities of one name cannot stand in one list; and which list each is known by. */
  const bundles = new Map<string, readonly Uint8Array[]>();
  const knownBy = new Map<string, number>();
  const authoritiesAt = (key: string, address: string): { readonly ca?: Uint8Array } => {
    const lists = bundles.get(key) ?? [];
    const ca = lists.length > 1 ? lists[(knownBy.get(address) ?? 0) % lists.length] : undefined;
    return ca === undefined ? {} : { ca };
  };
  const seen = new Map<string, { readonly cluster: ClusterName; readonly certificates: readonly SeenCertificate[] }>();

  return {
    prepare: async (cluster, quorum) => {
      const key = clusterKey(cluster);
      const spec = quorum?.spec;
      const names = quorum === undefined ? [] : namesOf(cluster, quorum);
      const views =
        names.length === 0 ? new Map<string, SecretView>() : await secrets.follow(key, cluster.namespace, names);
      if (names.length === 0) secrets.forget(key);
      const secret = spec?.auth?.rootCredentialsSecretName;
      const password = passwordIn(secret, secret === undefined ? undefined : views.get(secret));
      const kept = keptIn(views.get(inUseName(cluster.name, 'root')));
      const next: Access = {
        ...transportOf(cluster.name, spec?.tls?.client, views),
        password,
        kept,
        logins: loginsOf(password.value, kept),
      };
      turns.set(key, 0);
      const before = accesses.get(key);
      if (before !== undefined && digest(before) !== digest(next)) {
        // A client of the old certificate would never be asked again, and its connection stay until it idles.
        for (const one of dialled.get(key) ?? []) etcd.forget(one);
        dialled.delete(key);
      }
      accesses.set(key, next);
      const certificates = seenCertificates(cluster.name, spec?.tls, views, read);
      const server = certificates.find(({ role }) => role === 'server');
      const lists = server === undefined ? [] : withoutNamesakes(authoritiesOf(server));
      bundles.set(
        key,
        lists.map((list) => Buffer.from(trustBundle(list))),
      );
      if (certificates.length > 0) seen.set(key, { cluster, certificates });
      else seen.delete(key);
      return certificates;
    },
    client: (cluster, pod) => {
      const key = clusterKey(cluster);
      const access = accesses.get(key);
      const login = access?.logins[turns.get(key) ?? 0]?.password;
      // A password is not sent in the clear, whatever the claim says.
      if (!servesTls(pod)) return etcd.at({ url: url('http', pod.ip) });
      const address = url('https', pod.ip);
      if (access?.tls === undefined) {
        throw new EtcdFault({
          reason: 'TlsRefused',
          operation: 'dial',
          url: address,
          detail: access?.lacking ?? 'the claim names no Secret to reach it with',
          mayHaveHappened: false,
        });
      }
      const urls = dialled.get(key) ?? new Set();
      dialled.set(key, urls.add(address));
      // With what the Secrets hold when it is asked for, and not when the client was made.
      const loginAt = (): EtcdLoginPlace[] => {
        const tls = accesses.get(key)?.tls;
        return tls === undefined
          ? []
          : (voters.get(key) ?? [])
              .filter(({ ip }) => ip !== pod.ip)
              .map(({ ip, name }) => ({
                url: url('https', ip),
                tls: {
                  ...tls,
                  ...authoritiesAt(key, url('https', ip)),
                  serverName: peerHost(cluster.name, cluster.namespace, name),
                },
              }));
      };
      const endpoint: EtcdEndpoint = {
        url: address,
        ...(login === undefined ? {} : { auth: { username: 'root', password: login, loginAt } }),
        // Dialled by address, because names lag behind Pods; what the certificate must carry is the name all the same.
        tls: {
          ...access.tls,
          ...authoritiesAt(key, address),
          serverName: peerHost(cluster.name, cluster.namespace, pod.name),
        },
      };
      return etcd.at(endpoint);
    },
    loginAt: (cluster, pods) => {
      voters.set(clusterKey(cluster), pods);
    },
    knowOtherwise: (cluster, pod, tried) => {
      const lists = bundles.get(clusterKey(cluster))?.length ?? 0;
      if (tried >= lists - 1) return false;
      const address = url('https', pod.ip);
      knownBy.set(address, ((knownBy.get(address) ?? 0) + 1) % lists);
      return true;
    },
    mark: (cluster) => turns.get(clusterKey(cluster)) ?? 0,
    turnDown: (cluster, mark) => {
      const key = clusterKey(cluster);
      const turn = turns.get(key) ?? 0;
      const all = accesses.get(key)?.logins.length ?? 1;
      // Another call was refused before this one and has moved on already.
      if (turn === mark) turns.set(key, turn + 1);
      return (turns.get(key) ?? 0) < all;
    },
    login: (cluster) => {
      const key = clusterKey(cluster);
      const access = accesses.get(key);
      return {
        password: access?.password.seen ?? {
          known: false,
          reason: 'SecretMissing',
          why: 'nothing is known of the cluster',
        },
        kept:
          access === undefined
            ? unknown('nothing is known of the cluster')
            : keptSeen(access.password.value, access.kept),
        accepted: access?.logins[turns.get(key) ?? 0]?.by ?? 'none',
      };
    },
    password: (cluster) => accesses.get(clusterKey(cluster))?.password.value,
    toKeep: (cluster, as) => {
      const key = clusterKey(cluster);
      const { password: own, kept, logins } = accesses.get(key) ?? {};
      const wanted = own?.value;
      if (wanted === undefined) return {};
      const login = logins?.[turns.get(key) ?? 0];
      const before = login?.by === 'earlier' ? login.password : kept?.password;
      const stay = as === 'inForce' ? { password: wanted } : { password: before, next: wanted };
      return Object.fromEntries(
        Object.entries(rootData(kept ?? {}, stay)).map(([name, value]) => [
          name,
          Buffer.from(value).toString('base64'),
        ]),
      );
    },
    forget: (cluster) => {
      const key = clusterKey(cluster);
      turns.delete(key);
      voters.delete(key);
      secrets.forget(key);
      for (const one of dialled.get(key) ?? []) {
        etcd.forget(one);
        knownBy.delete(one);
      }
      dialled.delete(key);
      bundles.delete(key);
      accesses.delete(key);
      seen.delete(key);
    },
    expiries: () =>
      [...seen.values()].flatMap(({ cluster, certificates }) =>
        certificates.flatMap((certificate) => {
          const { secretName, secret } = certificate;
          const leaf = inUseOf(certificate)?.leaf ?? (secret.known ? secret.value?.leaf : undefined);
          return leaf === undefined ? [] : [{ cluster, secret: secretName, notAfter: leaf.notAfter }];
        }),
      ),
  };
};
