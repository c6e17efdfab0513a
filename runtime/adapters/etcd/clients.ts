import { createHash } from 'node:crypto';
import type { EtcdClients, EtcdEndpoint, EtcdMemberClient } from '../../ports/etcd.ts';
import { createMemberClient, type MemberClientOptions } from './member-client.ts';

/**
 * Clients by endpoint and identity. A client is a closure of a few hundred bytes while it has no connection, so those of
 * 1500 settled members cost next to nothing; `forget` drops the ones of members that are gone.
 */
export const createEtcdClients = (options: MemberClientOptions = {}): EtcdClients => {
  const shared = new Map<string, EtcdMemberClient>();
  return {
    at: (endpoint) => {
      const key = identityOf(endpoint);
      const known = shared.get(key);
      if (known !== undefined) return known;
      const client = createMemberClient(endpoint, options);
      shared.set(key, client);
      return client;
    },
    dial: (endpoint) => createMemberClient(endpoint, options),
    forget: (url) => {
      for (const [key, client] of shared) {
        if (client.url !== url) continue;
        shared.delete(key);
        client.close();
      }
    },
    close: () => {
      for (const client of shared.values()) client.close();
      shared.clear();
    },
  };
};

/** A digest, so that a heap dump of the map's keys tells no password; each part is preceded by its length. */
const identityOf = ({ url, tls, auth, token }: EtcdEndpoint): string => {
  const hash = createHash('sha256');
  // Where it logs in is no part of who it is.
  const parts = [url, tls?.ca, tls?.certificate, tls?.key, tls?.serverName, auth?.username, auth?.password, token];
  for (const part of parts) {
    const bytes = part === undefined ? undefined : Buffer.from(part);
    hash.update(bytes === undefined ? '-;' : `${bytes.length};`);
    if (bytes !== undefined) hash.update(bytes);
  }
  return hash.digest('base64');
};
