/** Causes are finer than reasons: a reason tells what to do, and that is the same for most kinds of damage. */
import type { Reason } from '../../api/reasons.ts';
import { type ClassifiedExit, classifyExit, type ExitCause } from './exit-causes.ts';
import { isLocked } from './member-config.ts';
import type { SeenPod } from './observed.ts';

export const exitReasons: Partial<Record<ExitCause, Reason>> = {
  OutOfMemory: 'OutOfMemory',
  WipedOrWalGone: 'VolumeEmpty',
  WalCorrupt: 'DataCorrupt',
  SnapshotMissing: 'DataCorrupt',
  BackendMissing: 'DataCorrupt',
  BackendCorrupt: 'DataCorrupt',
  RaftLogLost: 'DataCorrupt',
  SigBus: 'DataCorrupt',
  DataDiffers: 'DataDiffers',
  DiskFull: 'VolumeFull',
  WrongConfig: 'OptionsRefused',
  VersionTooOld: 'VersionUnsupported',
};

/** How the Pod's container last ended; undefined where it never did. Only who was told of others can have failed to reach them. */
export const lastExitOf = ({ container, config }: SeenPod, joining?: boolean): ClassifiedExit | undefined => {
  const { lastExit } = container;
  if (lastExit === undefined) return undefined;
  const { code, reason, signal, message } = lastExit;
  return classifyExit({
    exitCode: code,
    reason,
    signal,
    message,
    joining: joining ?? (config === undefined || !isLocked(config)),
  });
};
