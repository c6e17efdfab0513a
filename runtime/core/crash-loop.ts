/** Whether a container fails again and again, as its kubelet counts it. */
import type { SeenContainer, SeenPod } from './observed.ts';

/**
 * The kubelet doubles its back-off with each quick end, from ten seconds, and forgets it after ten good minutes: 40 s stand
 * for three starts in a row at least. The number of restarts counts those of long ago, too.
 */
const CERTAIN_BACK_OFF_S = 40;
/** Where a kubelet words its back-off otherwise. */
const CERTAIN_RESTARTS = 5;

const backOffSeconds = (message: string): number | undefined => {
  const said = /^back-off (?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)? restarting/.exec(message);
  return said === null ? undefined : Number(said[1] ?? 0) * 3_600 + Number(said[2] ?? 0) * 60 + Number(said[3] ?? 0);
};

const isFailing = ({ state, waitingReason, waitingMessage, restarts, lastExit }: SeenContainer): boolean => {
  if (state !== 'waiting' || waitingReason !== 'CrashLoopBackOff' || lastExit === undefined) return false;
  const seconds = backOffSeconds(waitingMessage ?? '');
  return seconds === undefined ? restarts >= CERTAIN_RESTARTS : seconds >= CERTAIN_BACK_OFF_S;
};

/** Several starts in a row ended soon, and it does not run now. One bad start may be a disk that came late. */
export const isCrashLooping = (pod: SeenPod): boolean => !pod.deleting && isFailing(pod.container);
