/** Where the API server is and who we are to it. */
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { Agent as HttpAgent } from 'node:http';
import { type AgentOptions, Agent as HttpsAgent } from 'node:https';
import { isIPv6 } from 'node:net';
import path from 'node:path';
import type { Clock } from '../../ports/clock.ts';
import { KubeFault } from '../../ports/kube.ts';
import { systemClock } from '../system-clock.ts';

export type KubeCredentials = {
  /** Authorization, impersonation. */
  readonly headers: Readonly<Record<string, string>>;
  /** The same object for as long as the certificates stay the same. */
  readonly agent: HttpAgent;
};

export type KubeAccess = {
  readonly server: URL;
  /** The namespace we run in, or the one the kubeconfig's context names. */
  readonly namespace: string | undefined;
  credentials(): Promise<KubeCredentials>;
  /** The server refused the credentials: read them anew before the next call. */
  expire(): void;
  /** Closes idle connections; those in use end with their request. */
  close(): void;
};

/** What TLS and authentication need, read afresh. */
type Identity = {
  headers: Record<string, string>;
  tls: Pick<AgentOptions, 'ca' | 'cert' | 'key' | 'pfx' | 'passphrase' | 'rejectUnauthorized' | 'servername'>;
  /** Set when a proxy stands between: the agent that knows the way. */
  agent?: HttpAgent | undefined;
};

/** Tokens of Pods are renewed by the kubelet at 80 % of an hour; a minute old is fresh, and is what client-go does. */
const IDENTITY_TTL_MS = 60_000;
const IDENTITY_DEADLINE_MS = 10_000;

/**
 * kube-apiserver closes idle HTTP/1 connections after 90 s. We close them before it does: a request sent on a
 * connection that the server is just closing fails with ECONNRESET, and nobody can tell whether a write happened.
 */
const IDLE_SOCKET_MS = 60_000;

const KEEP_ALIVE: AgentOptions = {
  keepAlive: true,
  // TCP probes: half of the 60 s after which common load balancers forget a silent connection.
  keepAliveMsecs: 30_000,
  timeout: IDLE_SOCKET_MS,
  // The most recently used connection first, so that those a burst has opened age and go away.
  scheduling: 'lifo',
};

const closeIdle = (agent: HttpAgent | undefined): void => {
  // Not agent.destroy(): that cuts the watches that still run on it.
  for (const sockets of Object.values(agent?.freeSockets ?? {})) for (const socket of sockets ?? []) socket.destroy();
};

const fingerprint = (tls: Identity['tls']): string => {
  const hash = createHash('sha256');
  for (const part of [tls.ca, tls.cert, tls.key, tls.pfx]) {
    hash.update(part === undefined ? '-' : `${String(part).length}:${String(part)}`);
  }
  return hash.update(`${tls.rejectUnauthorized}:${tls.servername}`).digest('hex');
};

/** One agent per set of certificates; a new CA or client certificate makes a new one, a new token does not need to. */
const renewing = (
  server: URL,
  namespace: string | undefined,
  read: () => Promise<Identity>,
  clock: Clock,
): KubeAccess => {
  let current: Promise<KubeCredentials> | undefined;
  let readAt = 0;
  let agent: HttpAgent | undefined;
  let certificates = '';

  const renew = async (): Promise<KubeCredentials> => {
    const identity = await read();
    if (identity.agent !== undefined) return { headers: identity.headers, agent: identity.agent };
    const seen = fingerprint(identity.tls);
    if (agent === undefined || seen !== certificates) {
      closeIdle(agent);
      certificates = seen;
      agent =
        server.protocol === 'https:'
          ? new HttpsAgent({ ...KEEP_ALIVE, ...identity.tls })
          : new HttpAgent({ ...KEEP_ALIVE });
    }
    return { headers: identity.headers, agent };
  };

  /** A login plugin or an identity provider may never answer; the call that waits for it has promised an end. */
  const bounded = (work: Promise<KubeCredentials>): Promise<KubeCredentials> =>
    new Promise((resolve, reject) => {
      const cancel = clock.after(IDENTITY_DEADLINE_MS, () =>
        reject(new KubeFault('Timeout', `credentials: Timeout: not read in ${IDENTITY_DEADLINE_MS} ms`)),
      );
      work.then(resolve, reject).finally(cancel);
    });

  return {
    server,
    namespace,
    credentials: () => {
      if (current === undefined || clock.elapsed() - readAt > IDENTITY_TTL_MS) {
        readAt = clock.elapsed();
        const attempt = bounded(renew());
        current = attempt;
        attempt.catch(() => {
          if (current === attempt) current = undefined;
        });
      }
      return current;
    },
    expire: () => {
      current = undefined;
    },
    close: () => closeIdle(agent),
  };
};

/** Plain HTTP, no identity: `kubectl proxy`, a fake. */
export const plainAccess = (server: string, clock: Clock = systemClock): KubeAccess =>
  renewing(new URL(server), undefined, async () => ({ headers: {}, tls: {} }), clock);

const SERVICE_ACCOUNT = '/var/run/secrets/kubernetes.io/serviceaccount';

/**
 * A Pod's own service account. Written out here, although client-node knows it too, because this is how the runtime
 * runs in production and it spares the process client-node altogether.
 */
export const podAccess = async (
  env: NodeJS.ProcessEnv = process.env,
  folder = SERVICE_ACCOUNT,
  clock: Clock = systemClock,
): Promise<KubeAccess> => {
  const host = env.KUBERNETES_SERVICE_HOST ?? '';
  const port = env.KUBERNETES_SERVICE_PORT ?? '443';
  const server = new URL(`https://${isIPv6(host) ? `[${host}]` : host}:${port}`);
  const namespace = (await readFile(path.join(folder, 'namespace'), 'utf8')).trim();
  const read = async (): Promise<Identity> => {
    const [token, ca] = await Promise.all([
      readFile(path.join(folder, 'token'), 'utf8'),
      readFile(path.join(folder, 'ca.crt'), 'utf8'),
    ]);
    return { headers: { authorization: `Bearer ${token.trim()}` }, tls: { ca } };
  };
  return renewing(server, namespace, read, clock);
};

/** A kubeconfig, in every form kubectl understands: certificates, tokens, exec plugins, OIDC, proxies. */
export const kubeconfigAccess = async (
  options: { file?: string | undefined; context?: string | undefined } = {},
  clock: Clock = systemClock,
): Promise<KubeAccess> => {
  // Imported only here, and only its part about kubeconfigs: the package's index loads every model of every API.
  const { KubeConfig } = await import('@kubernetes/client-node/dist/config.js');
  const config = new KubeConfig();
  if (options.file === undefined) config.loadFromDefault();
  else config.loadFromFile(options.file);
  if (options.context !== undefined) config.setCurrentContext(options.context);
  const cluster = config.getCurrentCluster();
  if (cluster === null) {
    const where = options.file ?? process.env.KUBECONFIG ?? '~/.kube/config';
    throw new Error(
      `kubeconfig ${where}: context "${config.getCurrentContext()}" names no cluster; choose one with kubectl config use-context`,
    );
  }
  const read = async (): Promise<Identity> => {
    const found: Parameters<typeof config.applyToHTTPSOptions>[0] = {};
    await config.applyToHTTPSOptions(found);
    const headers: Record<string, string> = {};
    for (const [name, value] of Object.entries(found.headers ?? {})) headers[name.toLowerCase()] = String(value);
    if (typeof found.auth === 'string') {
      headers.authorization = `Basic ${Buffer.from(found.auth).toString('base64')}`;
    }
    const tls: Identity['tls'] = {};
    for (const key of ['ca', 'cert', 'key', 'pfx', 'passphrase', 'rejectUnauthorized', 'servername'] as const) {
      if (found[key] !== undefined) Object.assign(tls, { [key]: found[key] });
    }
    // client-node's own agent is worth keeping only where it knows a proxy: it keeps no connection alive.
    const agent = cluster.proxyUrl !== undefined && found.agent instanceof HttpAgent ? found.agent : undefined;
    return { headers, tls, agent };
  };
  return renewing(new URL(cluster.server), config.getContextObject(config.getCurrentContext())?.namespace, read, clock);
};

/** `KUBECONFIG` if set, else the Pod's service account, else kubectl's default file. */
export const kubeAccess = async (env: NodeJS.ProcessEnv = process.env): Promise<KubeAccess> =>
  (env.KUBECONFIG ?? '') === '' && (env.KUBERNETES_SERVICE_HOST ?? '') !== ''
    ? await podAccess(env)
    : await kubeconfigAccess();
