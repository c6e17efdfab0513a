/** Nodes that go, return, or never do: what is repaired because of it, and what must not be. */
import assert from 'node:assert/strict';
import { EtcdFault } from '../../runtime/ports/etcd.ts';
import { resources } from '../../runtime/ports/kube.ts';
import { assertGone } from './ending.ts';
import { CLUSTER, type Stage } from './stage.ts';
import type { Story } from './stories.ts';

const MINUTE = 60_000;

const formed =
  (spec: Record<string, unknown> = {}) =>
  async (stage: Stage): Promise<void> => {
    stage.apply(spec);
    await stage.settled();
    await stage.put('canary', 'alive');
  };
const canaryLives = async (stage: Stage): Promise<void> => {
  assert.equal(await stage.read('canary'), 'alive', 'what was written is still there');
};

/** A member that does not lead, so that the story is about its node and not about an election. */
const follower = (stage: Stage): number => (stage.leader() + 1) % 3;
const nodeOf = (stage: Stage, ordinal: number): string => stage.kubelet.nodeOf(stage.podOf(ordinal).metadata.name);

const ready = (stage: Stage, ordinal: number) =>
  stage.member(ordinal).status?.conditions?.find(({ type }) => type === 'Ready');

/** The slot serves with another member, on another node. */
const replaced =
  (ordinal: number, old: string | undefined, away: string) =>
  async (stage: Stage): Promise<boolean> => {
    const { status } = stage.member(ordinal);
    const pod = stage.pods.find(({ metadata }) => metadata.name === status?.podName);
    return (
      status?.phase === 'Voter' &&
      status.memberID !== undefined &&
      status.memberID !== old &&
      pod?.spec?.nodeName !== away &&
      (await stage.membership())?.members.every(({ id }) => id !== old) === true &&
      stage.quorum?.status?.phase === 'Running' &&
      stage.last?.decision.step.do === 'Settled'
    );
  };

/** Nobody may have been asked to leave; a restart is fine. */
const nobodyReplaced = (stage: Stage): void => {
  assert.equal(stage.steps.get('RemoveMember') ?? 0, 0, 'nobody is removed');
  assert.equal(stage.steps.get('Retire') ?? 0, 0, 'nothing is deleted');
};

export const nodeStories: readonly Story[] = [
  {
    name: 'replaces a member whose node is away for longer than nodes are waited for',
    before: formed(),
    play: async (stage) => {
      const lost = follower(stage);
      const { memberID } = stage.member(lost).status ?? {};
      const away = nodeOf(stage, lost);
      stage.kubelet.loseNode(away);
      await stage.until(() => ready(stage, lost)?.reason === 'NodeLost', 'it is said');
      assert.match(
        ready(stage, lost)?.message ?? '',
        new RegExp(`node ${away} has not been ready since .*replaced from`),
      );
      await stage.pass(9 * MINUTE);
      assert.equal((await stage.membership())?.members.length, 3, 'a node that reboots takes minutes');
      await stage.until(replaced(lost, memberID, away), 'another member took its place');
      // It comes back with what it had: a Pod and a volume that nobody asks for any more.
      stage.kubelet.restoreNode(away);
      await stage.settled();
    },
    ends: async (stage) => {
      assert.equal(stage.pods.length, 3);
      assert.equal(stage.volumes.length, 3);
      await canaryLives(stage);
    },
  },
  {
    name: 'lets a member go on whose node returns in time, also after Kubernetes asked for its Pod',
    before: formed(),
    play: async (stage) => {
      const lost = follower(stage);
      const { memberID } = stage.member(lost).status ?? {};
      const away = nodeOf(stage, lost);
      stage.kubelet.loseNode(away);
      await stage.pass(6 * MINUTE);
      assert.notEqual(stage.podOf(lost).metadata.deletionTimestamp, undefined, 'it is evicted, and never ends');
      stage.kubelet.restoreNode(away);
      await stage.settled();
      assert.equal(stage.member(lost).status?.memberID, memberID, 'the same member came back');
      assert.equal(nodeOf(stage, lost), away);
      nobodyReplaced(stage);
    },
    ends: canaryLives,
    immortal: true,
  },
  {
    name: 'replaces a member at once when its Node is deleted, whether or not its Pod ever ends',
    before: formed(),
    play: async (stage) => {
      const lost = follower(stage);
      const { memberID } = stage.member(lost).status ?? {};
      const away = nodeOf(stage, lost);
      stage.kubelet.loseNode(away);
      await stage.pass(MINUTE);
      stage.kubelet.dropNode(away);
      await stage.until(replaced(lost, memberID, away), 'another member took its place', MINUTE);
    },
    ends: async (stage) => {
      await stage.pass(MINUTE);
      assert.equal(stage.pods.length, 3);
      assert.equal(stage.volumes.length, 3);
      await canaryLives(stage);
    },
  },
  {
    name: 'replaces a member whose Pod Kubernetes gave up with its node, since its volume is only there',
    before: formed(),
    play: async (stage) => {
      const lost = follower(stage);
      const { memberID } = stage.member(lost).status ?? {};
      const away = nodeOf(stage, lost);
      stage.kubelet.loseNode(away);
      stage.kubelet.declareOff(away);
      await stage.until(replaced(lost, memberID, away), 'another member took its place', MINUTE);
    },
    ends: canaryLives,
    immortal: true,
  },
  {
    name: 'replaces a memory member a minute after its node went',
    before: formed({ storage: { medium: 'Memory', size: '256Mi' } }),
    play: async (stage) => {
      const lost = follower(stage);
      const { memberID } = stage.member(lost).status ?? {};
      const away = nodeOf(stage, lost);
      stage.kubelet.loseNode(away);
      await stage.pass(MINUTE / 2);
      assert.equal((await stage.membership())?.members.length, 3, 'it may only be cut off');
      await stage.until(replaced(lost, memberID, away), 'another member took its place', MINUTE);
    },
    ends: canaryLives,
  },
  {
    name: 'redoes a learner whose node went before it could vote',
    before: formed(),
    play: async (stage) => {
      stage.between(async (call, happen) => {
        if (call.what !== 'memberPromote') return happen();
        throw new EtcdFault({
          reason: 'LearnerNotReady',
          operation: call.what,
          url: '',
          detail: 'not in sync',
          mayHaveHappened: false,
        });
      });
      stage.edit({ replicas: 4 });
      const learner = stage.steps.get('Promote') ?? 0;
      await stage.until(({ steps }) => (steps.get('Promote') ?? 0) > learner, 'it is caught up');
      const away = nodeOf(stage, 3);
      const shared = [0, 1, 2].filter((ordinal) => nodeOf(stage, ordinal) === away);
      assert.equal(shared.length, 1, 'a voter is on that node, too');
      stage.between(undefined);
      stage.kubelet.loseNode(away);
      stage.kubelet.dropNode(away);
      await stage.until(async () => (await stage.membership())?.members.length === 4, 'four members', 10 * MINUTE);
      await stage.settled();
      await stage.pass(MINUTE);
      for (const ordinal of [...shared, 3]) assert.notEqual(nodeOf(stage, ordinal), away);
    },
    ends: canaryLives,
    immortal: true,
  },
  {
    name: 'never replaces a member because its node has no room for it',
    before: formed(),
    play: async (stage) => {
      const lost = follower(stage);
      const { memberID } = stage.member(lost).status ?? {};
      stage.kubelet.refuse(new RegExp(`-${lost}-`));
      stage.remove(resources.pods, stage.podOf(lost).metadata.name);
      await stage.pass(60 * MINUTE);
      assert.equal(ready(stage, lost)?.reason, 'Unschedulable');
      nobodyReplaced(stage);
      stage.kubelet.refuse(undefined);
      await stage.settled();
      assert.equal(stage.member(lost).status?.memberID, memberID, 'the same member came back');
    },
    ends: canaryLives,
    immortal: true,
  },
  {
    name: 'replaces nobody when two of three nodes are deleted, and goes on when one comes back',
    before: formed(),
    play: async (stage) => {
      const first = follower(stage);
      const second = stage.leader();
      const nodes = [nodeOf(stage, first), nodeOf(stage, second)] as const;
      for (const away of nodes) {
        stage.kubelet.loseNode(away);
        stage.kubelet.dropNode(away);
      }
      await stage.until(() => stage.quorum?.status?.phase === 'QuorumLost', 'lost');
      await stage.pass(30 * MINUTE);
      nobodyReplaced(stage);
      assert.equal(stage.volumes.length, 3, 'every volume waits');
      for (const away of nodes) stage.kubelet.restoreNode(away);
      await stage.settled();
    },
    ends: canaryLives,
    immortal: true,
  },
  {
    name: 'lets a deleted claim go although the node of a member is away',
    before: formed(),
    play: async (stage) => {
      const away = nodeOf(stage, follower(stage));
      stage.kubelet.loseNode(away);
      await stage.pass(MINUTE);
      stage.remove(resources.etcdclusters, CLUSTER, 'Foreground');
      await stage.until(() => stage.members.length === 1, 'the others are gone');
      await stage.pass(5 * MINUTE);
      assert.equal(stage.members.length, 1, 'the node may still come back and end its Pod');
      await stage.until(() => stage.claim === undefined && stage.members.length === 0, 'gone', 10 * MINUTE);
      stage.kubelet.restoreNode(away);
      await stage.until(() => stage.pods.length + stage.volumes.length === 0, 'nothing is left behind');
    },
    ends: (stage) => assertGone(stage),
  },
];
