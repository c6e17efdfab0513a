/** A node that is being drained: leadership is elsewhere before the leader's Pod is asked to go. */
import { isOutdated } from '../rollout.ts';
import { isHealthyVoter, isLeader, type Situation, type Slot } from '../situation.ts';
import type { Rule } from './rule.ts';

const isCordoned = ({ pod }: Slot): boolean => pod?.host?.is === 'ready' && pod.host.cordoned === true;

/** Who would lead longest: on a node that stays, and not about to be restarted by a rollout. */
const successor = (s: Situation): Slot | undefined => {
  const able = s.held.filter(
    (slot) =>
      !isLeader(s, slot) &&
      slot.serving &&
      isHealthyVoter(slot) &&
      slot.pod?.host?.is === 'ready' &&
      !isCordoned(slot) &&
      !slot.member.deleting &&
      slot.volume?.deleting !== true,
  );
  return able.find((slot) => !isOutdated(slot)) ?? able[0];
};

/**
 * The eviction may come first: then the terminating etcd hands over by itself, and there is nothing to do here. With nobody else to
 * lead, the leader stays where it is.
 */
export const vacate: Rule = {
  name: 'vacate',
  answer: (s) => {
    if (s.latch === undefined || !s.seen.membership.known) return undefined;
    const leader = s.held.find((slot) => isLeader(s, slot));
    if (leader?.memberID === undefined || leader.pod === undefined || leader.pod.deleting) return undefined;
    if (!isCordoned(leader)) return undefined;
    const next = successor(s);
    return next?.memberID === undefined
      ? undefined
      : {
          do: 'MoveLeader',
          from: leader.memberID,
          to: next.memberID,
          why: `node ${leader.pod.node} is cordoned: ${next.member.name} leads instead of ${leader.member.name}`,
        };
  },
};
