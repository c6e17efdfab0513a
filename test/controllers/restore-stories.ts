/** A snapshot that takes the place of a running cluster's data, and all the ways in which it does not. */
import assert from 'node:assert/strict';
import type { EtcdRestoreStatus } from '../../api/etcdrestore.gen.ts';
import { ANNOTATIONS, incarnationName } from '../../api/names.ts';
import { REVISION_BUMP } from '../../runtime/core/seeding.ts';
import { resources } from '../../runtime/ports/kube.ts';
import { password, takes, wanted } from './auth-stories.ts';
import type { Stage } from './stage.ts';
import type { Story } from './stories.ts';
import { both, bringCertificates } from './tls-secrets.ts';

const KEY = 'backups/last.db';

/** A cluster that has gone on since its snapshot: what was written before is in it, what was written after is not. */
const gone =
  (spec: Record<string, unknown> = {}) =>
  async (stage: Stage): Promise<void> => {
    stage.apply(spec);
    await stage.settled();
    await stage.put('before', 'the snapshot');
    stage.etcd.copyDisk(stage.kubelet.diskOf(stage.podOf(0).metadata.name), `pvc://backups/${KEY}`);
    await stage.put('after', 'the snapshot');
    await stage.put('before', 'overwritten');
  };

const statusOf = (stage: Stage, name = 'back'): EtcdRestoreStatus =>
  stage.restores.find(({ metadata }) => metadata.name === name)?.status ?? {};
const reasonOf = (stage: Stage, name?: string): string | undefined =>
  statusOf(stage, name).conditions?.find(({ type }) => type === 'Ready')?.reason;
const reached =
  (phase: EtcdRestoreStatus['phase'], name?: string) =>
  (stage: Stage): boolean =>
    statusOf(stage, name).phase === phase;

const restored = async (stage: Stage): Promise<void> => {
  assert.equal(await stage.read('before'), 'the snapshot');
  assert.equal(await stage.read('after'), undefined);
};
const ownData = async (stage: Stage): Promise<void> => {
  assert.equal(await stage.read('before'), 'overwritten');
  assert.equal(await stage.read('after'), 'the snapshot');
  const made = stage.volumes.filter(({ metadata }) => metadata.annotations?.[ANNOTATIONS.clusterID] === undefined);
  assert.deepEqual(made, [], 'nothing that the restore made is left');
};
const volumesOf = (stage: Stage, clusterID: string | undefined): string[] =>
  stage.volumes
    .filter(({ metadata }) => metadata.annotations?.[ANNOTATIONS.clusterID] === clusterID)
    .map(({ metadata }) => metadata.name)
    .toSorted();

/** A restore whose member finds no node once it is to serve. */
const doomed = async (stage: Stage): Promise<void> => {
  stage.kubelet.refuse(/-seed$/);
  stage.restore('back', KEY);
  await stage.until(({ quorum }) => quorum?.status?.restoring?.incarnation !== undefined, 'it has begun');
  const { target = '', incarnation = '' } = stage.quorum?.status?.restoring ?? {};
  stage.kubelet.refuse(new RegExp(`^${incarnationName(target, incarnation)}$`));
};

const completes = (replicas: number): Story => ({
  name: `puts a snapshot in the place of the data of ${replicas === 1 ? 'a single member' : `${replicas} members`}, and keeps what it replaced until the restore is deleted`,
  before: gone({ replicas }),
  play: async (stage) => {
    const clusterID = stage.quorum?.status?.clusterID;
    const old = volumesOf(stage, clusterID);
    stage.restore('back', KEY);
    await stage.until(reached('Complete'), 'the restore is complete');
    await stage.settled();
    const { before, after, verified, lost } = statusOf(stage);
    assert.equal(before?.clusterID, clusterID);
    assert.deepEqual(before?.volumes, old);
    assert.equal(after?.clusterID, stage.quorum?.status?.clusterID);
    assert.notEqual(after?.clusterID, clusterID);
    assert.equal(verified?.keys, '1');
    assert.ok(BigInt(before?.revision ?? '0') > BigInt(verified?.revision ?? '0'), JSON.stringify(before));
    assert.ok(BigInt(after?.revision ?? '0') > BigInt(before?.revision ?? '0') + REVISION_BUMP - 1n);
    assert.match(lost ?? '', /everything that cluster|revisions \d+ to \d+/);
    stage.remove(resources.etcdrestores, 'back');
    await stage.until((now) => volumesOf(now, clusterID).length === 0, 'what was replaced is gone');
    await stage.settled();
  },
  ends: async (stage) => {
    await restored(stage);
    assert.equal(stage.volumes.length, replicas);
    assert.equal((await stage.membership())?.members.length, replicas);
  },
});

export const restoreStories: readonly Story[] = [
  completes(3),
  completes(1),
  {
    name: "takes data of before root's password was changed, and gives it the password of the Secret",
    before: async (stage) => {
      bringCertificates(stage);
      password(stage, 'first');
      await gone({ tls: both, ...wanted })(stage);
      await stage.until(({ quorum }) => quorum?.status?.authEnabled === true, 'it asks for passwords');
      password(stage, 'second');
      await stage.until(async (one) => (await takes(one, 'second')).join() === 'true', 'root has another password');
      await stage.settled();
    },
    play: async (stage) => {
      stage.restore('back', KEY);
      await stage.until(reached('Complete'), 'the restore is complete');
      await stage.settled();
    },
    ends: async (stage) => {
      await restored(stage);
      assert.deepEqual(await takes(stage, 'second', 'first', undefined), [true, false, false]);
    },
    immortal: true,
  },
  {
    name: 'keeps serving its own data where the snapshot that it is to have is damaged',
    before: gone(),
    play: async (stage) => {
      stage.kubelet.spoil(`pvc://backups/${KEY}`, 'SnapshotDamaged: it has SHA-256 00, its manifest says 01');
      const pods = stage.pods.map(({ metadata }) => metadata.uid);
      stage.restore('back', KEY);
      await stage.until(reached('Failed'), 'the restore has failed');
      await stage.settled();
      assert.equal(reasonOf(stage), 'SnapshotDamaged');
      assert.deepEqual(
        stage.pods.map(({ metadata }) => metadata.uid),
        pods,
        'no Pod was touched',
      );
      assert.equal(stage.steps.get('Dismiss'), undefined, 'nobody was shut out');
    },
    ends: ownData,
  },
  {
    name: 'goes back to its own data by itself where the restored member never serves',
    before: gone(),
    play: async (stage) => {
      await doomed(stage);
      await stage.until(reached('Failed'), 'the restore has failed');
      await stage.settled();
      assert.equal(reasonOf(stage), 'RestoreFailed');
    },
    ends: ownData,
    // Five minutes in small steps, with no write that the next story does not make, too.
    immortal: true,
  },
  {
    name: 'goes back to its own data when the restore is deleted while the restored member starts',
    before: gone(),
    play: async (stage) => {
      await doomed(stage);
      await stage.until(({ quorum }) => quorum?.status?.operation?.step === 'starting', 'the restored member starts');
      stage.remove(resources.etcdrestores, 'back');
      await stage.settled();
      assert.equal(stage.quorum?.status?.pastRestores?.at(-1)?.reason, 'RestoreGivenUp');
    },
    ends: ownData,
  },
  {
    name: 'takes away what it made when the restore is deleted while the snapshot is being verified',
    before: gone(),
    play: async (stage) => {
      stage.kubelet.refuse(/-seed$/);
      stage.restore('back', KEY);
      await stage.until(reached('Verifying'), 'the snapshot is being verified');
      await stage.until(({ pods }) => pods.length === 4, 'a Pod is to fill the new volume');
      await stage.until(
        (now) => statusOf(now).conditions?.[0]?.message?.includes('nodes are available') === true,
        'it is told that the Pod finds no node',
      );
      stage.remove(resources.etcdrestores, 'back');
      await stage.settled();
      await stage.until(({ volumes }) => volumes.length === 3, 'the new volume is gone');
      assert.equal(stage.steps.get('Dismiss'), undefined, 'nobody was shut out');
    },
    ends: ownData,
  },
  {
    name: 'replaces a member that lost its volume while a snapshot is being verified, and restores then',
    before: gone(),
    play: async (stage) => {
      stage.kubelet.refuse(/-seed$/);
      stage.restore('back', KEY);
      await stage.until(({ pods }) => pods.length === 4, 'a Pod is to fill the new volume');
      const lost = stage.podOf(2).metadata.name;
      stage.remove(resources.pods, lost);
      stage.remove(resources.persistentvolumeclaims, lost);
      await stage.until(async () => {
        const found = await stage.membership();
        return found?.members.length === 3 && found.members.every(({ name }) => name !== lost && name !== '');
      }, 'it was replaced, with the verification still under way');
      assert.equal(statusOf(stage).phase, 'Verifying');
      stage.kubelet.refuse(undefined);
      await stage.until(reached('Complete'), 'the restore is complete');
      await stage.settled();
    },
    ends: restored,
    immortal: true,
  },
  {
    name: 'restores nothing a second time from an object that is applied again',
    before: gone(),
    play: async (stage) => {
      const clusterID = stage.quorum?.status?.clusterID ?? '';
      stage.restore('back', KEY);
      await stage.until(reached('Complete'), 'the restore is complete');
      await stage.put('since', 'the restore');
      stage.remove(resources.etcdrestores, 'back');
      await stage.settled();
      stage.restore('back', KEY, clusterID);
      await stage.until(reached('Failed'), 'the other one is refused');
      assert.equal(reasonOf(stage), 'RestoreRefused');
      await stage.settled();
      assert.equal(await stage.read('since'), 'the restore');
    },
    ends: restored,
    immortal: true,
  },
  {
    name: 'restores one snapshot at a time, none while it is paused, and refuses the one that comes too late',
    before: gone(),
    play: async (stage) => {
      stage.edit({ replicas: 0 });
      await stage.until(({ pods }) => pods.length === 0, 'it is paused');
      stage.restore('back', KEY);
      await stage.until((now) => reasonOf(now) === 'ClusterPaused', 'the restore says that it waits');
      stage.kubelet.refuse(/-seed$/);
      stage.edit({ replicas: 3 });
      await stage.until(reached('Verifying'), 'it goes on');
      await stage.pass(1_000);
      stage.restore('other', KEY);
      await stage.until((now) => reasonOf(now, 'other') === 'RestoreWaiting', 'the other one waits');
      stage.kubelet.refuse(undefined);
      await stage.until(reached('Complete'), 'the first is complete');
      await stage.until(reached('Failed', 'other'), 'the other one consented to giving up what is gone');
      assert.equal(reasonOf(stage, 'other'), 'RestoreRefused');
      await stage.settled();
    },
    ends: restored,
    immortal: true,
  },
];
