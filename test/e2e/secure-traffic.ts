/** Clients that speak gRPC to members, encrypted or not: what applications do while certificates are renewed and TLS is turned on. */
import { createHash, X509Certificate } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { connect as tlsConnect } from 'node:tls';
import type { Secret } from 'kubernetes-types/core/v1.js';
import { clientServiceName, connectionName, PORTS, TLS_FILES } from '../../api/names.ts';
import { createMemberClient } from '../../runtime/adapters/etcd/member-client.ts';
import { EtcdFault, type EtcdMemberClient, type EtcdTls } from '../../runtime/ports/etcd.ts';
import { secretBytes } from '../../runtime/ports/secrets.ts';
import { membersBehind, type Written } from './client.ts';
import { eventually, notYet } from './eventually.ts';
import { type Place, seenKinds } from './place.ts';

/** By what a client knows members and is known by them; `undefined`: in the clear. */
export type Way = EtcdTls | undefined;

export type SecureTraffic = AsyncDisposable & {
  sofar(): SecurelyWritten;
  /** Ends it, and reads every acknowledged write back, with a quorum. */
  stop(): Promise<SecurelyWritten & { readonly lost: readonly string[] }>;
};

export type SecurelyWritten = Written & {
  /** Tries within requests, by reason: a member that went away is left for the next one, as clients of etcd do. */
  readonly triesFailed: Readonly<Record<string, number>>;
  readonly longestRequestMs: number;
  /** Requests that were served, by how: `http` or `https`. */
  readonly served: { readonly http: number; readonly https: number };
};

export type SecureOptions = {
  /** In the order in which they are tried; asked before each request that dials. */
  readonly ways: () => Promise<readonly Way[]>;
  readonly everyMs: number;
  /** A client of its own for each request: another handshake, with the certificates of this moment. */
  readonly fresh: boolean;
  /** Keys begin so; two writers of one cluster need two. */
  readonly prefix: string;
  /** Most that a request may take, all tries together; one that takes longer has failed. */
  readonly patienceMs?: number;
};

const TRY_MS = 2_000;
const READ_BACK_MS = 20_000;
/** Keys that are read back at a time. */
const AT_ONCE = 32;

/** The name by which applications call the members, and which a certificate of theirs has to carry. */
const calledAs = (place: Place, cluster: string): string => `${clientServiceName(cluster)}.${place.namespace}.svc`;

/**
 * Writes, and reads what it wrote. A request goes to one member behind the client Service, by the way that last went well
 * there; when that fails, to the same by the other ways and to the others, until its patience is over.
 */
export const secureTraffic = async (
  place: Place,
  cluster: string,
  { ways, everyMs, fresh, prefix, patienceMs = 5_000 }: SecureOptions,
): Promise<SecureTraffic> => {
  const open = await membersBehind(place, cluster);
  const kept = new Map<string, EtcdMemberClient>();
  const good = new Map<string, 'http' | 'https'>();
  const acknowledged: string[] = [];
  const served = { http: 0, https: 0 };
  let failed = 0;
  const triesFailed: Record<string, number> = {};
  let lastError: string | undefined;
  let longestGapMs = 0;
  let longestRequestMs = 0;
  let lastSuccess = performance.now();
  let stopped = false;

  const schemeOf = (way: Way): 'http' | 'https' => (way === undefined ? 'http' : 'https');
  const dial = (ip: string, way: Way): EtcdMemberClient => {
    const url = `${schemeOf(way)}://${ip.includes(':') ? `[${ip}]` : ip}:${PORTS.client}`;
    return createMemberClient({ url, ...(way === undefined ? {} : { tls: way }) });
  };

  /** One member, one way. A client that failed is thrown away: gRPC would wait before it dials again. */
  const attempt = async (ip: string, way: Way, key: string): Promise<void> => {
    const name = `${schemeOf(way)} ${ip}`;
    const client = (fresh ? undefined : kept.get(name)) ?? dial(ip, way);
    if (!fresh) kept.set(name, client);
    try {
      await client.put(key, key, { deadlineMs: TRY_MS });
      const back = await client.get(key, { deadlineMs: TRY_MS });
      if (back === undefined || Buffer.from(back.value).toString() !== key) throw new Error(`${key} was not read back`);
      good.set(ip, schemeOf(way));
    } catch (error) {
      kept.delete(name);
      client.close();
      throw error;
    } finally {
      if (fresh) client.close();
    }
  };

  const request = async (n: number, key: string): Promise<void> => {
    const giveUp = performance.now() + patienceMs;
    for (let round = 0; ; round++) {
      const members = open.members();
      const member = members[(n + round) % Math.max(1, members.length)];
      const now = await ways();
      const known = member === undefined ? undefined : good.get(member.ip);
      const order = now.toSorted((a, b) => Number(schemeOf(b) === known) - Number(schemeOf(a) === known));
      for (const way of member === undefined ? [] : order) {
        try {
          await attempt(member?.ip ?? '', way, key);
          served[schemeOf(way)] += 1;
          return;
        } catch (error) {
          const reason = error instanceof EtcdFault ? error.reason : 'Error';
          triesFailed[reason] = (triesFailed[reason] ?? 0) + 1;
          lastError = `${member?.name} by ${schemeOf(way)}: ${error instanceof Error ? error.message : String(error)}`;
        }
      }
      if (performance.now() > giveUp) throw new Error(lastError ?? 'nobody is behind the client Service');
      await pause(20);
    }
  };

  const gap = (): void => {
    longestGapMs = Math.max(longestGapMs, performance.now() - lastSuccess);
  };
  const run = async (): Promise<void> => {
    for (let n = 0; !stopped; n++) {
      const key = `${prefix}/${n}`;
      const began = performance.now();
      try {
        await request(n, key);
        acknowledged.push(key);
        gap();
        lastSuccess = performance.now();
      } catch {
        failed += 1;
      }
      longestRequestMs = Math.max(longestRequestMs, performance.now() - began);
      await pause(Math.max(0, began + everyMs - performance.now()));
    }
  };
  const running = run();

  /** What is read back is no request that is measured: it may take its time. */
  const isThere = (key: string, now: readonly Way[]): Promise<boolean> =>
    eventually(`${key} is looked for`, async () => {
      const [member] = open.members();
      if (member === undefined) return notYet('nobody is behind the client Service');
      const way =
        now[
          Math.max(
            0,
            now.findIndex((each) => schemeOf(each) === good.get(member.ip)),
          )
        ];
      const name = `${schemeOf(way)} ${member.ip}`;
      const client = kept.get(name) ?? dial(member.ip, way);
      kept.set(name, client);
      return (await client.get(key, { deadlineMs: READ_BACK_MS })) !== undefined;
    });

  const sofar = (): SecurelyWritten => {
    gap();
    return {
      acknowledged: acknowledged.length,
      failed,
      triesFailed: { ...triesFailed },
      longestGapMs: Math.round(longestGapMs),
      longestRequestMs: Math.round(longestRequestMs),
      served: { ...served },
      lastError,
    };
  };
  const end = async (): Promise<void> => {
    stopped = true;
    await running;
    for (const client of kept.values()) client.close();
    kept.clear();
    await open[Symbol.asyncDispose]();
  };
  return {
    sofar,
    [Symbol.asyncDispose]: end,
    stop: async () => {
      stopped = true;
      await running;
      const result = sofar();
      const now = await ways();
      const lost: string[] = [];
      for (let from = 0; from < acknowledged.length; from += AT_ONCE) {
        await Promise.all(
          acknowledged.slice(from, from + AT_ONCE).map(async (key) => {
            if (!(await isThere(key, now))) lost.push(key);
          }),
        );
      }
      await end();
      return { ...result, lost };
    },
  };
};

const secretOf = async (place: Place, name: string): Promise<Secret> =>
  (await place.get(seenKinds.secrets, name)) ?? notYet(`there is no Secret ${name}`);

/** As docs/clients.md tells applications: the CA from the ConfigMap, the certificate, where one is asked for, from its Secret. */
export const wayOf = async (place: Place, cluster: string, certificate?: string): Promise<EtcdTls> => {
  const connection = await place.get(seenKinds.configmaps, connectionName(cluster));
  const ca = connection?.data?.[TLS_FILES.ca] ?? notYet(`${connectionName(cluster)} has no ${TLS_FILES.ca}`);
  const own = certificate === undefined ? undefined : await secretOf(place, certificate);
  return {
    ca: Buffer.from(ca),
    serverName: calledAs(place, cluster),
    ...(own === undefined
      ? {}
      : { certificate: secretBytes(own, TLS_FILES.cert), key: secretBytes(own, TLS_FILES.key) }),
  };
};

/** SHA-256 of the certificate that whoever listens there shows at this moment; verified by nobody. */
export const shownAt = (ip: string, port: number): Promise<string> =>
  new Promise((resolve, reject) => {
    const socket = tlsConnect({ host: ip, port, rejectUnauthorized: false, timeout: 5_000 });
    socket.once('secureConnect', () => {
      const { raw } = socket.getPeerCertificate();
      socket.destroy();
      resolve(createHash('sha256').update(raw).digest('hex'));
    });
    socket.once('timeout', () => socket.destroy(new Error(`${ip}:${port} did not shake hands within 5 s`)));
    socket.once('error', reject);
  });

/** The same of what is in a Secret. */
export const heldIn = (secret: Secret): string | undefined => {
  const bytes = secretBytes(secret, TLS_FILES.cert);
  return bytes === undefined ? undefined : createHash('sha256').update(new X509Certificate(bytes).raw).digest('hex');
};
