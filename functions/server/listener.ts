import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { createServer, type TLSSocket } from 'node:tls';
import { Server, ServerCredentials } from '@grpc/grpc-js';
import type { Logger } from 'pino';
import { type Refusal, refusalOf } from './client-certificates.ts';
import type { Metrics } from './metrics.ts';
import { type Address, format } from './options.ts';
import { runFunctionService } from './run-function.ts';
import type { Run } from './runner.ts';
import { type Certificates, loadCertificates, watchCertificates } from './server-certificates.ts';

export type Listener = {
  /** The port in use; another than asked for when 0 was asked for. */
  readonly port: number;
  /** Why calls cannot be answered now, or undefined when they can. */
  unready(): string | undefined;
  /** From now on not ready, and otherwise as before. */
  retire(): void;
  /** Takes no new connection, lets running calls end for `graceMs`, then breaks what is left. */
  drain(graceMs: number): Promise<'drained' | 'broken'>;
};

type Serving = {
  readonly address: Address;
  readonly run: Run;
  readonly maxReceiveBytes: number;
  readonly log: Logger;
  readonly metrics: Metrics;
};

const grpcServer = ({ run, maxReceiveBytes }: Serving): Server => {
  const server = new Server({ 'grpc.max_receive_message_length': maxReceiveBytes, 'grpc.max_send_message_length': -1 });
  for (const version of ['v1', 'v1beta1'] as const) {
    server.addService(runFunctionService(version), {
      RunFunction: (call: { request: Parameters<Run>[0] }, answer: (error: null, bytes: Buffer) => void) => {
        answer(null, run(call.request));
      },
    });
  }
  return server;
};

/** For offline renders: no TLS. Rejects when the address cannot be had. */
export const listenInsecurely = async (serving: Serving): Promise<Listener> => {
  const server = grpcServer(serving);
  const { host = '::', port } = serving.address;
  const bound = await new Promise<number>((resolve, reject) => {
    server.bindAsync(format({ host, port }), ServerCredentials.createInsecure(), (error, actual) => {
      if (error === null) resolve(actual);
      else reject(error);
    });
  });
  let retired = false;
  return {
    port: bound,
    unready: () => (retired ? 'stopping' : undefined),
    retire: () => {
      retired = true;
    },
    drain: (graceMs) => {
      retired = true;
      return shutDown(server, graceMs);
    },
  };
};

const shutDown = (server: Server, graceMs: number): Promise<'drained' | 'broken'> =>
  new Promise((resolve) => {
    const late = setTimeout(() => {
      server.forceShutdown();
      resolve('broken');
    }, graceMs);
    server.tryShutdown((error) => {
      clearTimeout(late);
      resolve(error === undefined ? 'drained' : 'broken');
    });
  });

/**
 * mTLS. grpc-js cannot be told to require client certificates that Crossplane has (see `refusalOf`), so TLS ends in a
 * server of our own, which hands a connection to grpc-js only after it has looked at the certificate. Rejects when the
 * certificates cannot be read or the address cannot be had.
 */
export const listen = async (
  serving: Serving & { readonly directory: string; readonly pollMs?: number },
): Promise<Listener> => {
  const { log, metrics, directory } = serving;
  let certificates = await loadCertificates(directory);
  metrics.certificateEnds(certificates.notAfter);
  const grpc = grpcServer(serving);
  const injector = grpc.createConnectionInjector(ServerCredentials.createInsecure());
  const admitted = new Set<TLSSocket>();
  let retired = false;

  const refusal = (socket: TLSSocket): Refusal | undefined =>
    refusalOf(socket.getPeerX509Certificate(), certificates.authorities, Date.now()) ??
    (socket.alpnProtocol === 'h2' ? undefined : 'NoHttp2');

  const refuse = (socket: TLSSocket, reason: Refusal, what: string): void => {
    metrics.refused(reason);
    const certificate = socket.getPeerX509Certificate();
    log.warn({ reason, peer: socket.remoteAddress, subject: certificate?.subject, ends: certificate?.validTo }, what);
    socket.destroy();
  };

  const server = createServer(
    {
      cert: certificates.certificate,
      key: certificates.key,
      requestCert: true,
      // Not a weakness: every socket is judged in `secureConnection` below, before a byte of it is read as gRPC.
      rejectUnauthorized: false,
      ALPNProtocols: ['h2'],
      minVersion: 'TLSv1.2',
      handshakeTimeout: 10_000,
    },
    (socket) => {
      socket.on('error', (error) => log.debug({ err: error, peer: socket.remoteAddress }, 'the connection broke'));
      const reason = refusal(socket);
      if (reason !== undefined) {
        refuse(socket, reason, 'refused a client for its certificate');
        return;
      }
      admitted.add(socket);
      socket.once('close', () => admitted.delete(socket));
      injector.injectConnection(socket);
    },
  );
  server.on('tlsClientError', (error, socket) => {
    // Port scanners and TCP probes end here all the time; the counter is enough.
    metrics.refused('Handshake');
    log.debug({ err: error, peer: socket.remoteAddress }, 'the TLS handshake failed');
  });

  const { host, port } = serving.address;
  server.listen({ port, ...(host === undefined ? {} : { host }) });
  await once(server, 'listening');
  let broken: Error | undefined;
  server.on('error', (error) => {
    broken = error;
    log.error({ err: error }, 'the listener failed');
  });

  const stop = new AbortController();
  let loading: Promise<void> | undefined;
  const reload = async (): Promise<void> => {
    let next: Certificates;
    try {
      next = await loadCertificates(directory);
    } catch (error) {
      metrics.reloaded('failed');
      log.error({ err: error, directory }, 'cannot read the changed certificates; the old ones stay in use');
      return;
    }
    if (!isSame(next, certificates)) {
      certificates = next;
      server.setSecureContext({ cert: next.certificate, key: next.key, minVersion: 'TLSv1.2' });
      metrics.certificateEnds(next.notAfter);
      metrics.reloaded('ok');
      log.info({ ends: new Date(next.notAfter).toISOString() }, 'the certificates were replaced');
    }
    // Also without a change: a certificate that ended since its connection was made may not be used for ever.
    for (const socket of admitted) {
      const reason = refusal(socket);
      if (reason !== undefined) refuse(socket, reason, 'dropped a client whose certificate is no longer good');
    }
  };
  watchCertificates(
    directory,
    () => {
      loading = (loading ?? Promise.resolve()).then(reload);
    },
    { signal: stop.signal, ...(serving.pollMs === undefined ? {} : { pollMs: serving.pollMs }) },
  );

  return {
    port: (server.address() as AddressInfo).port,
    unready: () => {
      if (retired) return 'stopping';
      if (broken !== undefined) return `the listener failed: ${broken.message}`;
      if (!server.listening) return 'not listening';
      if (Date.now() > certificates.notAfter) {
        return `the server certificate ended at ${new Date(certificates.notAfter).toISOString()}`;
      }
      return undefined;
    },
    retire: () => {
      retired = true;
    },
    drain: async (graceMs) => {
      retired = true;
      stop.abort();
      server.close();
      injector.drain(graceMs);
      const outcome = await shutDown(grpc, graceMs);
      for (const socket of admitted) socket.destroy();
      return outcome;
    },
  };
};

const isSame = (a: Certificates, b: Certificates): boolean =>
  a.certificate === b.certificate &&
  a.key === b.key &&
  a.authorities.map(({ fingerprint256 }) => fingerprint256).join() ===
    b.authorities.map(({ fingerprint256 }) => fingerprint256).join();
