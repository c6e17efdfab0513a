/** Members whose line in etcd's list is older than what they listen by. */
import { hasPeerURL } from '../../../api/names.ts';
import { advertisedPeerURL } from '../member-config.ts';
import type { Rule } from './rule.ts';

/**
 * How a running cluster is brought to encrypted peers, one member at a time. One that has restarted with TLS is not reached by
 * those that still dial it in the clear, but it dials them, and etcd's streams carry both directions of what counts: it votes
 * and is sent the log. Then its line is corrected here, for those that restart after it.
 */
export const peerAddress: Rule = {
  name: 'peer address',
  answer: (s) => {
    const { membership, cluster, namespace } = s.seen;
    if (s.latch === undefined || !membership.known || s.quorum?.status.operation !== undefined) return undefined;
    for (const { member, pod, entry, serving, memberID } of s.held) {
      if (!serving || pod?.config === undefined || memberID === undefined) continue;
      const listed = entry.known ? entry.value : undefined;
      const url = advertisedPeerURL(pod.config);
      if (listed === undefined || url === undefined || listed.peerURLs.includes(url)) continue;
      // Only between the two forms of its own name: whatever else stands there was written by a person.
      if (!hasPeerURL(listed.peerURLs, cluster, namespace, pod.name)) continue;
      return { do: 'UpdatePeer', target: member.name, memberID, peerURL: url };
    }
    return undefined;
  },
};
