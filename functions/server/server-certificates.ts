import { X509Certificate } from 'node:crypto';
import { type FSWatcher, watch } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createSecureContext, type SecureContext } from 'node:tls';
import { authoritiesOf } from './client-certificates.ts';

/** One consistent set of the files in a certificate directory. */
export type Certificates = {
  readonly certificate: string;
  readonly key: string;
  /** Who may sign clients. */
  readonly authorities: readonly X509Certificate[];
  /** When the server's own certificate ends, milliseconds since the epoch. */
  readonly notAfter: number;
  readonly context: SecureContext;
};

/** Throws with the path and what is wrong: a file that is missing, unreadable, or a key that is not the certificate's. */
export const loadCertificates = async (directory: string): Promise<Certificates> => {
  const [ca, certificate, key] = (await Promise.all(
    ['ca.crt', 'tls.crt', 'tls.key'].map((name) => readFile(join(directory, name), 'utf8')),
  )) as [string, string, string];
  const authorities = within(join(directory, 'ca.crt'), () => authoritiesOf(ca));
  const leaf = within(join(directory, 'tls.crt'), () => new X509Certificate(certificate));
  const context = within(`${join(directory, 'tls.key')} with tls.crt`, () =>
    createSecureContext({ cert: certificate, key, minVersion: 'TLSv1.2' }),
  );
  return { certificate, key, authorities, notAfter: Date.parse(leaf.validTo), context };
};

const within = <T>(path: string, read: () => T): T => {
  try {
    return read();
  } catch (error) {
    throw new Error(`${path}: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
  }
};

/**
 * Calls `changed` after something in the directory may have changed, until the signal is aborted. A Secret volume changes
 * by the exchange of one symbolic link, which a watch on the directory sees and a watch on the files would not; the timer
 * is for file systems that tell nothing.
 */
export const watchCertificates = (
  directory: string,
  changed: () => void,
  { signal, pollMs = 60_000 }: { signal: AbortSignal; pollMs?: number },
): void => {
  let pending: NodeJS.Timeout | undefined;
  const soon = (): void => {
    // The three files are replaced together; reading between two of them would find a key of another certificate.
    clearTimeout(pending);
    pending = setTimeout(changed, 100);
    pending.unref();
  };
  let watcher: FSWatcher | undefined;
  try {
    watcher = watch(directory, { persistent: false }, soon);
    watcher.on('error', () => watcher?.close());
  } catch {
    // No inotify left on the node: the timer does it.
  }
  const timer = setInterval(changed, pollMs);
  timer.unref();
  signal.addEventListener(
    'abort',
    () => {
      clearTimeout(pending);
      clearInterval(timer);
      watcher?.close();
    },
    { once: true },
  );
};
