/** A member that ends because its volume is full, and a claim that by now asks for a larger one. */
import { lastExitOf } from '../exit-reasons.ts';
import { volumesToGrow } from '../rollout.ts';
import type { Rule } from './rule.ts';

/**
 * Growing waits until everybody serves, and this member will not before its volume grows. Still after everything but the
 * waiting for members to start: a StorageClass that refuses must keep nothing else from being done.
 */
export const relieve: Rule = {
  name: 'relieve',
  answer: (s) =>
    s.latch !== undefined &&
    s.held.some(
      ({ pod }) => pod !== undefined && pod.container.state !== 'running' && lastExitOf(pod)?.reason === 'DiskFull',
    )
      ? volumesToGrow(s)
      : undefined,
};
