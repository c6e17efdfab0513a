/** Looks that cost a member more than an answer, and are taken only where an alarm gives a reason to. */
import type { SeenPod } from '../core/observed.ts';
import type { EtcdMemberClient } from '../ports/etcd.ts';

/** Nothing changes every few seconds while a person thinks about an alarm. */
export const REMEMBERED_MS = 60_000;
/** Where somebody did not answer. */
export const AGAIN_MS = 10_000;

/** The same members, with what was found. */
export type DeeperLook = (
  cluster: string,
  pods: readonly SeenPod[],
  clientOf: (pod: SeenPod) => EtcdMemberClient | undefined,
  signal: AbortSignal,
) => Promise<readonly SeenPod[]>;
