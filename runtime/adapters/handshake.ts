import { connect } from 'node:tls';
import type { Handshake } from '../ports/handshake.ts';

/**
 * SHA-256 of the certificate, lower-case hex. Nothing is sent and nothing that comes is trusted, so nobody is verified here.
 * Who wants a certificate of its clients learns only after its own that there is none, and hangs up: TLS 1.3, which etcd
 * speaks, shows it before that.
 */
export const handshake: Handshake = ({ host, port, serverName }, { signal, deadlineMs }) =>
  new Promise((resolve, reject) => {
    const ended = AbortSignal.any([signal, AbortSignal.timeout(deadlineMs)]);
    const socket = connect({ host, port, servername: serverName, rejectUnauthorized: false });
    const fail = (error: unknown): void => {
      ended.removeEventListener('abort', aborted);
      socket.destroy();
      reject(error instanceof Error ? error : new Error(String(error)));
    };
    const aborted = (): void => fail(ended.reason);
    if (ended.aborted) {
      aborted();
      return;
    }
    ended.addEventListener('abort', aborted);
    socket.on('error', fail);
    socket.on('close', () => fail(new Error(`${host}:${port} hung up`)));
    socket.once('secureConnect', () => {
      ended.removeEventListener('abort', aborted);
      const { fingerprint256 } = socket.getPeerCertificate();
      socket.destroy();
      resolve(fingerprint256.replaceAll(':', '').toLowerCase());
    });
  });
