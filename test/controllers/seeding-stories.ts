/** Nodes and Pods that go while a new volume is filled from what was stored, or from a survivor. */
import assert from 'node:assert/strict';
import type { Pod } from 'kubernetes-types/core/v1.js';
import { incarnationName } from '../../api/names.ts';
import { isSeedPod, seedPodName } from '../../runtime/core/seeding.ts';
import { resources, type Stored } from '../../runtime/ports/kube.ts';
import { CLUSTER, type Stage } from './stage.ts';
import type { Story } from './stories.ts';

const KEY = 'backups/last.db';
const URI = `pvc://backups/${KEY}`;
const MINUTE = 60_000;
const SEEDS = /-seed$/;
const MEMBERS = /^demo-\d-[a-z0-9]{5}$/;

const said = ({ quorum }: Stage): string =>
  (quorum?.status?.conditions ?? []).map(({ reason, message }) => `${reason}: ${message}`).join('\n');
const restoreSays = (stage: Stage): string =>
  stage.restores[0]?.status?.conditions?.map(({ reason, message }) => `${reason}: ${message}`).join('\n') ?? '';

const seedsOf = ({ pods }: Stage): readonly Stored<Pod>[] => pods.filter(({ metadata }) => isSeedPod(metadata));
/** The seeding Pod that was not asked to end. */
const seed = (stage: Stage): Stored<Pod> | undefined =>
  seedsOf(stage).find(({ metadata, spec }) => metadata.deletionTimestamp === undefined && spec?.nodeName !== undefined);
const begun = (stage: Stage): Promise<void> =>
  stage.until((now) => seed(now) !== undefined, 'a volume is being filled');
const loseSeed = (stage: Stage): string => {
  const away = seed(stage)?.spec?.nodeName ?? '';
  stage.kubelet.loseNode(away);
  return away;
};
const clean = (stage: Stage, volumes: number): void => {
  assert.deepEqual(seedsOf(stage), [], 'no Pod that filled a volume is left');
  assert.equal(stage.volumes.length, volumes, 'nor any volume that was given up');
};

const stored = async (stage: Stage, spec: Record<string, unknown> = {}): Promise<void> => {
  stage.apply(spec);
  await stage.settled();
  await stage.put('before', 'the snapshot');
  stage.etcd.copyDisk(stage.kubelet.diskOf(stage.podOf(0).metadata.name), URI);
  await stage.put('after', 'the snapshot');
};

/** Another cluster has left a snapshot, and the claim is to begin with it. */
const toBegin =
  (replicas: number) =>
  async (stage: Stage): Promise<void> => {
    await stored(stage, { replicas: 1 });
    stage.remove(resources.etcdclusters, CLUSTER);
    await stage.until(
      ({ claim, pods, volumes }) => claim === undefined && pods.length + volumes.length === 0,
      'it is gone',
    );
    stage.kubelet.hold(SEEDS);
    stage.apply({ replicas, bootstrap: { restore: { source: { pvc: { claimName: 'backups', subPath: KEY } } } } });
  };
const hasBegun =
  (replicas: number) =>
  async (stage: Stage): Promise<void> => {
    assert.equal(await stage.read('before'), 'the snapshot');
    assert.equal(await stage.read('after'), undefined);
    assert.equal((await stage.membership())?.members.length, replicas);
    clean(stage, replicas);
  };

const inPlace =
  (replicas: number) =>
  async (stage: Stage): Promise<void> => {
    await stored(stage, { replicas });
    stage.kubelet.hold(SEEDS);
  };
const verified = ({ quorum }: Stage): boolean => quorum?.status?.restoring?.verified !== undefined;
const restorePhase =
  (phase: string) =>
  (stage: Stage): boolean =>
    stage.restores[0]?.status?.phase === phase;
const replaced = async (stage: Stage): Promise<void> => {
  assert.equal(await stage.read('before'), 'the snapshot');
  assert.equal(await stage.read('after'), undefined);
  assert.deepEqual(seedsOf(stage), []);
};
const ownData = async (stage: Stage): Promise<void> => {
  assert.equal(await stage.read('after'), 'the snapshot', 'the cluster has its own data');
  clean(stage, 3);
};

const recover = (stage: Stage, from: Record<string, unknown>): void => {
  const clusterID = stage.quorum?.status?.clusterID ?? '';
  stage.edit({ recovery: { ...from, clusterID, acceptDataLoss: true } });
};
const fromStore = { source: { pvc: { claimName: 'backups', subPath: KEY } } };
const recovered = async (stage: Stage, lostID: string | undefined): Promise<void> => {
  await stage.until(({ quorum }) => {
    const { clusterID, operation } = quorum?.status ?? {};
    return clusterID !== lostID && operation === undefined;
  }, 'the cluster has another ID');
};
const burnDown = (stage: Stage): void => {
  for (const { metadata } of stage.pods) stage.remove(resources.pods, metadata.name);
  for (const { metadata } of stage.volumes) stage.remove(resources.persistentvolumeclaims, metadata.name);
};

export const seedingStories: readonly Story[] = [
  {
    name: 'begins a restore anew elsewhere when the node goes on which the volume of the first member is being filled',
    before: toBegin(1),
    play: async (stage) => {
      await begun(stage);
      const [first] = stage.volumes;
      const away = loseSeed(stage);
      await stage.until((now) => said(now).includes(`NodeLost: node ${away} has not been ready since`), 'it is told');
      assert.match(said(stage), /begun anew elsewhere from .*Z on, unless the node returns/);
      stage.kubelet.hold(undefined);
      await stage.settled();
      assert.notEqual(
        stage.volumes.find(({ metadata }) => metadata.name === first?.metadata.name),
        undefined,
      );
      stage.kubelet.restoreNode(away);
      await stage.until(({ volumes }) => volumes.length === 1, 'what was given up is gone with the return of its node');
      await stage.settled();
    },
    ends: hasBegun(1),
  },
  {
    name: 'goes on with a restore on the same volume when its node returns within a minute',
    before: toBegin(3),
    play: async (stage) => {
      await begun(stage);
      const [first] = stage.volumes;
      const away = loseSeed(stage);
      await stage.pass(MINUTE / 2);
      stage.kubelet.restoreNode(away);
      stage.kubelet.hold(undefined);
      await stage.settled();
      assert.ok(stage.volumes.some(({ metadata }) => metadata.uid === first?.metadata.uid));
    },
    ends: hasBegun(3),
    immortal: true,
  },
  {
    name: 'begins a restore anew at once when the Node is deleted that has the new volume',
    before: toBegin(3),
    play: async (stage) => {
      await begun(stage);
      const away = loseSeed(stage);
      stage.kubelet.dropNode(away);
      stage.kubelet.hold(undefined);
      await stage.until(({ quorum }) => quorum?.status?.restored !== undefined, 'it is restored', MINUTE);
      await stage.settled();
      await stage.until(({ volumes }) => volumes.length === 3, 'the volume that was given up is gone');
    },
    ends: hasBegun(3),
    immortal: true,
  },
  {
    name: 'begins a restore anew when the node goes that has the filled volume, before its member has started there',
    before: toBegin(3),
    play: async (stage) => {
      await begun(stage);
      stage.kubelet.refuse(MEMBERS);
      const away = seed(stage)?.spec?.nodeName ?? '';
      stage.kubelet.hold(undefined);
      await stage.until(({ quorum }) => quorum?.status?.operation?.step === 'starting', 'it is filled');
      await stage.until((now) => seedsOf(now).length === 0, 'the Pod that filled it is gone');
      stage.kubelet.loseNode(away);
      stage.kubelet.refuse(undefined);
      await stage.until(
        (now) => said(now).includes(`NodeLost: node ${away}, on which the new volume is,`),
        'it is told',
      );
      await stage.settled();
      stage.kubelet.restoreNode(away);
      await stage.until(({ volumes }) => volumes.length === 3, 'the volume that was given up is gone');
    },
    ends: hasBegun(3),
    immortal: true,
  },
  {
    name: 'fills the volume again when the Pod that fills it is deleted by hand, or evicted',
    before: toBegin(3),
    play: async (stage) => {
      await begun(stage);
      const { uid, name } = seed(stage)?.metadata ?? {};
      stage.remove(resources.pods, name ?? '');
      await stage.until((now) => seed(now) !== undefined && seed(now)?.metadata.uid !== uid, 'another one fills it');
      stage.kubelet.evict(seed(stage)?.metadata.name ?? '');
      await stage.until((now) => said(now).includes('SeedingFailed'), 'it is told');
      stage.kubelet.hold(undefined);
      await stage.settled();
    },
    ends: hasBegun(3),
    immortal: true,
  },
  {
    name: 'verifies a snapshot anew elsewhere when its node goes, and takes over from a member on another one',
    before: inPlace(1),
    play: async (stage) => {
      stage.restore('back', KEY);
      await begun(stage);
      assert.notEqual(
        seed(stage)?.spec?.nodeName,
        stage.pods.find(({ metadata }) => MEMBERS.test(metadata.name))?.spec?.nodeName,
      );
      const away = loseSeed(stage);
      await stage.until((now) => restoreSays(now).includes(`NodeLost: node ${away}`), 'the restore tells it');
      stage.kubelet.hold(undefined);
      await stage.until(restorePhase('Complete'), 'the restore is complete');
      stage.kubelet.restoreNode(away);
      await stage.settled();
      await stage.until((now) => seedsOf(now).length === 0, 'the Pod that was given up is gone');
    },
    ends: replaced,
  },
  {
    name: 'verifies a snapshot anew elsewhere when its node goes, and stops no member while one could not be proven gone',
    before: inPlace(3),
    play: async (stage) => {
      stage.restore('back', KEY);
      await begun(stage);
      const away = loseSeed(stage);
      await stage.until((now) => restoreSays(now).includes(`NodeLost: node ${away}`), 'the restore tells it');
      stage.kubelet.hold(undefined);
      await stage.until(verified, 'it was verified elsewhere');
      await stage.until(
        (now) => restoreSays(now).includes('could not be proven to have ended'),
        'it says why it waits',
      );
      assert.equal(await stage.read('after'), 'the snapshot', 'the cluster serves meanwhile');
      assert.equal(stage.steps.get('Dismiss'), undefined, 'nobody is shut out');
      stage.kubelet.restoreNode(away);
      await stage.until(restorePhase('Complete'), 'the restore is complete');
      await stage.settled();
      await stage.until((now) => seedsOf(now).length === 0, 'the Pod that was given up is gone');
    },
    ends: replaced,
    immortal: true,
  },
  {
    name: 'goes back to its own data by itself when the node goes on which the restored member starts',
    before: inPlace(3),
    play: async (stage) => {
      stage.kubelet.refuse(MEMBERS);
      stage.restore('back', KEY);
      await begun(stage);
      const away = seed(stage)?.spec?.nodeName ?? '';
      stage.kubelet.hold(undefined);
      await stage.until(({ quorum }) => quorum?.status?.operation?.step === 'starting', 'the restored member starts');
      stage.kubelet.loseNode(away);
      stage.kubelet.refuse(undefined);
      await stage.until(restorePhase('Failed'), 'the restore has failed', 3 * MINUTE);
      assert.match(restoreSays(stage), new RegExp(`^NodeLost: node ${away}.*the cluster has its own data`));
      await stage.until(({ quorum }) => (quorum?.status?.readyMembers ?? 0) >= 2, 'the others serve', MINUTE);
      stage.kubelet.restoreNode(away);
      await stage.settled();
      await stage.until(({ volumes }) => volumes.length === 3, 'what the restore made is gone');
    },
    ends: ownData,
  },
  {
    name: 'goes back to its own data by itself when a node goes whose member was just being stopped',
    before: inPlace(3),
    play: async (stage) => {
      stage.restore('back', KEY);
      await begun(stage);
      const lost = (stage.leader() + 1) % 3;
      const away = stage.podOf(lost).spec?.nodeName ?? '';
      stage.between(async (call, happen) => {
        if (call.what.startsWith('delete pods') && stage.quorum?.status?.operation?.kind === 'RestoreInPlace') {
          stage.between(undefined);
          stage.kubelet.loseNode(away);
        }
        return happen();
      });
      stage.kubelet.hold(undefined);
      await stage.until(restorePhase('Failed'), 'the restore has failed', 3 * MINUTE);
      assert.match(restoreSays(stage), /NodeLost: .* cannot be proven gone/);
      await stage.until(({ quorum }) => (quorum?.status?.readyMembers ?? 0) >= 2, 'the others serve', MINUTE);
      stage.kubelet.restoreNode(away);
      await stage.settled();
      await stage.until(({ volumes }) => volumes.length === 3, 'what the restore made is gone');
    },
    ends: ownData,
    immortal: true,
  },
  {
    name: 'fetches a snapshot anew elsewhere when the node goes on which a lost cluster is being restored',
    before: async (stage) => {
      await stored(stage, { replicas: 1 });
      burnDown(stage);
      await stage.until((now) => said(now).includes('AllDataLost'), 'the loss is told');
      stage.kubelet.hold(SEEDS);
    },
    play: async (stage) => {
      const lostID = stage.quorum?.status?.clusterID;
      recover(stage, fromStore);
      await begun(stage);
      const away = loseSeed(stage);
      await stage.until((now) => said(now).includes(`NodeLost: node ${away}`), 'it is told');
      stage.kubelet.hold(undefined);
      await recovered(stage, lostID);
      await stage.settled();
      stage.kubelet.restoreNode(away);
      await stage.until(({ volumes }) => volumes.length === 1, 'what was given up is gone');
      await stage.settled();
    },
    ends: hasBegun(1),
  },
  {
    name: 'says what to do when the node goes on which the recovered member starts, and begins anew once that is proven off',
    before: async (stage) => {
      await stored(stage);
      burnDown(stage);
      await stage.until((now) => said(now).includes('AllDataLost'), 'the loss is told');
      stage.kubelet.refuse(MEMBERS);
      stage.kubelet.hold(SEEDS);
    },
    play: async (stage) => {
      const lostID = stage.quorum?.status?.clusterID;
      recover(stage, fromStore);
      await begun(stage);
      const away = seed(stage)?.spec?.nodeName ?? '';
      stage.kubelet.hold(undefined);
      await stage.until(({ quorum }) => quorum?.status?.operation?.step === 'starting', 'it is filled');
      stage.kubelet.loseNode(away);
      stage.kubelet.refuse(undefined);
      await stage.until((now) => said(now).includes('RecoveryBlocked'), 'it is told');
      assert.match(said(stage), new RegExp(`node ${away}, .*kubectl taint nodes NODE`));
      await stage.pass(10 * MINUTE);
      stage.kubelet.declareOff(away);
      await recovered(stage, lostID);
      await stage.settled();
    },
    ends: hasBegun(3),
    immortal: true,
  },
  {
    name: 'waits for the only node with the data of a survivor that is being copied, and says so',
    before: async (stage) => {
      await stored(stage);
      for (const ordinal of [0, 1]) stage.kubelet.loseNode(stage.podOf(ordinal).spec?.nodeName ?? '');
      await stage.until((now) => said(now).includes('QuorumLost'), 'the loss is told');
      for (const ordinal of [0, 1]) stage.kubelet.declareOff(stage.podOf(ordinal).spec?.nodeName ?? '');
      stage.kubelet.hold(SEEDS);
    },
    play: async (stage) => {
      const lostID = stage.quorum?.status?.clusterID;
      const survivor = `${CLUSTER}-2`;
      const { incarnation = '' } = stage.member(2).status ?? {};
      const source = incarnationName(survivor, incarnation);
      recover(stage, { survivor });
      await begun(stage);
      const { target = '', incarnation: own = '' } = stage.quorum?.status?.operation ?? {};
      assert.equal(seed(stage)?.metadata.name, seedPodName(target, own));
      const away = loseSeed(stage);
      await stage.until((now) => said(now).includes('RecoveryBlocked'), 'it is told');
      assert.match(said(stage), new RegExp(`node ${away} has not been ready.*${source}`));
      await stage.pass(10 * MINUTE);
      assert.ok(
        stage.volumes.some(({ metadata }) => metadata.name === source && metadata.deletionTimestamp === undefined),
        'the volume of the survivor stays',
      );
      stage.kubelet.restoreNode(away);
      stage.kubelet.hold(undefined);
      await recovered(stage, lostID);
      assert.equal(await stage.read('after'), 'the snapshot', 'all of the survivor is there');
    },
    immortal: true,
  },
];
