/** Secrets by name. Nothing here can list them: a cluster names its own, and those are followed, each by itself. */
import type { Secret } from 'kubernetes-types/core/v1.js';
import type { Stored } from './kube.ts';

/** The bytes under a key, as the kubelet would put them into a file; undefined where there are none. */
export const secretBytes = (secret: Secret, key: string): Buffer | undefined => {
  const bytes = Buffer.from(secret.data?.[key] ?? '', 'base64');
  return bytes.length === 0 ? undefined : bytes;
};

export type SecretView =
  | { readonly is: 'there'; readonly secret: Stored<Secret> }
  | { readonly is: 'absent' }
  /** Not read yet, or not to be read; `why` in one line. */
  | { readonly is: 'unread'; readonly why: string };

export type NamedSecrets = {
  /**
   * The Secrets that `cluster` (`namespace/name`) names from now on, in place of those it named before; what nobody names
   * any more is let go. Waits for the first reading of each, for about a second.
   */
  follow(cluster: string, namespace: string, names: readonly string[]): Promise<ReadonlyMap<string, SecretView>>;
  /** One that somebody follows, as it was last seen; `unread` where nobody does. */
  get(namespace: string, name: string): SecretView;
  /** Takes in the answer to our own write, so that the next pass sees it. */
  keep(secret: Stored<Secret>): void;
  forget(cluster: string): void;
  /** Called with each cluster that names a Secret which has changed. */
  onChange(listener: (cluster: string) => void): void;
  stop(): Promise<void>;
};
