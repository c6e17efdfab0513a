import { homedir } from 'node:os';
import { isAbsolute, join, resolve } from 'node:path';

/**
 * The one folder for everything that is expensive to make and cheap to keep: programs, by version, and images. Deleting it costs only time.
 * `ETCD_OPERATOR_CACHE` or else `XDG_CACHE_HOME` choose where it stands.
 */
export function cacheFolder(env: NodeJS.ProcessEnv = process.env): string {
  const chosen = env.ETCD_OPERATOR_CACHE;
  if (chosen !== undefined && chosen !== '') return join(resolve(chosen), 'etcd-operator');
  // The XDG specification says that a relative path is invalid and to be ignored.
  const xdg = env.XDG_CACHE_HOME;
  const base = xdg !== undefined && isAbsolute(xdg) ? xdg : join(homedir(), '.cache');
  return join(base, 'etcd-operator');
}
