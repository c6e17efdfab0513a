/** Stories of clusters that come back from what was stored of them. */
import assert from 'node:assert/strict';
import { API_VERSION, inUseName, memberName } from '../../api/names.ts';
import { resources } from '../../runtime/ports/kube.ts';
import { base64, forget, kept, password, takes, told, wanted } from './auth-stories.ts';
import { CLUSTER, NAMESPACE, type Stage } from './stage.ts';
import type { Story } from './stories.ts';
import { both, bringCertificates } from './tls-secrets.ts';
import { condition } from './tls-stories.ts';

const URI = 'pvc://backups/etcd/nightly.db';

const anyClient = { ca: new Uint8Array(), certificate: new Uint8Array(), key: new Uint8Array() };

/** What an EtcdSnapshot says of a snapshot of member 0 that is taken now, and its data in the store. */
const storeSnapshot = async (stage: Stage): Promise<bigint> => {
  const pod = stage.podOf(0);
  const url = stage.kubelet.clientURL(pod.metadata.name);
  const password = stage.etcd.rootPassword(url);
  const { revision, clusterId } = await stage.etcd.clients
    .dial({
      url,
      ...(password === undefined ? {} : { tls: anyClient, auth: { username: 'root', password } }),
    })
    .status();
  stage.etcd.copyDisk(stage.kubelet.diskOf(pod.metadata.name), URI);
  const taken = new Date(stage.clock.now()).toISOString();
  stage.store.put(resources.etcdsnapshots, {
    apiVersion: API_VERSION,
    kind: 'EtcdSnapshot',
    metadata: { name: 'nightly', namespace: NAMESPACE },
    spec: { clusterRef: { name: CLUSTER }, destination: { pvc: { claimName: 'backups', subPath: 'etcd' } } },
    status: {
      phase: 'Complete',
      artifact: { uri: URI, checksum: `sha256:${'0'.repeat(64)}` },
      revision: String(revision),
      etcdVersion: '3.6.16',
      clusterID: clusterId,
      startTime: taken,
      completionTime: taken,
    },
  });
  return revision;
};

const burnDown = (stage: Stage): void => {
  for (const { metadata } of stage.pods) stage.remove(resources.pods, metadata.name);
  for (const { metadata } of stage.volumes) stage.remove(resources.persistentvolumeclaims, metadata.name);
};

const available = ({ quorum }: Stage): string =>
  quorum?.status?.conditions?.find(({ type }) => type === 'Available')?.message ?? '';

const isBack =
  (lostID: string) =>
  ({ quorum }: Stage): boolean =>
    quorum?.status?.clusterID !== lostID && quorum?.status?.operation === undefined;

const comesBack = (where: string, spec: Record<string, unknown>): Story => ({
  name: `comes back ${where} from the last snapshot by consent when everything is lost, and says what that loses`,
  before: async (stage) => {
    stage.apply({ replicas: 1, ...spec });
    await stage.settled();
    await stage.put('canary', 'alive');
    await storeSnapshot(stage);
    await stage.put('later', 'lost');
    await stage.pass(70_000);
    burnDown(stage);
    await stage.until((one) => available(one).includes('newest snapshot: nightly'), 'the way back is told');
  },
  play: async (stage) => {
    const clusterID = stage.quorum?.status?.clusterID ?? '';
    stage.edit({ recovery: { snapshot: 'nightly', clusterID, acceptDataLoss: true } });
    await stage.until(isBack(clusterID), 'the cluster has another ID');
    await stage.settled();
  },
  ends: async (stage) => {
    assert.equal(await stage.read('canary'), 'alive', 'what was in the snapshot is there');
    assert.equal(await stage.read('later'), undefined, 'what was written after it is not');
    const { recovered = [], clusterID } = stage.quorum?.status ?? {};
    assert.equal(recovered.length, 1);
    const [{ etcdSnapshot, uri, survivor, revisionBefore = '', revisionAfter = '', lost, ...entry }] = recovered as [
      (typeof recovered)[number],
    ];
    assert.deepEqual([etcdSnapshot, uri, survivor, entry.clusterID], ['nightly', URI, undefined, clusterID]);
    assert.equal(lost?.fromRevision, String(BigInt(revisionBefore) + 1n));
    assert.ok(BigInt(lost?.toRevision ?? 0) > BigInt(revisionBefore), 'how far it had come was remembered');
    assert.ok(BigInt(revisionAfter) > BigInt(lost?.toRevision ?? 0) + 999_999_999n, 'no revision is given out twice');
    assert.equal((await stage.membership())?.members.length, 1);
    assert.ok(stage.announced.some(({ message }) => message.includes(`revisions ${lost?.fromRevision} to`)));
  },
});

/** A cluster that asks for passwords, is stored, and is lost when root has another one. */
const lostWithAnotherPassword = async (stage: Stage): Promise<void> => {
  bringCertificates(stage);
  password(stage, 'first');
  stage.apply({ replicas: 1, tls: both, ...wanted });
  await stage.until(({ quorum }) => quorum?.status?.authEnabled === true, 'it asks for passwords');
  await stage.settled();
  await stage.put('canary', 'alive');
  await storeSnapshot(stage);
  password(stage, 'second');
  await stage.until(async (one) => (await takes(one, 'second')).join() === 'true', 'root has another password');
  await stage.settled();
};

const consented = (stage: Stage): void => {
  const clusterID = stage.quorum?.status?.clusterID ?? '';
  stage.edit({ recovery: { snapshot: 'nightly', clusterID, acceptDataLoss: true } });
};

export const recoveryStories: readonly Story[] = [
  {
    name: "comes back from a snapshot of before root's password was changed, and gives it the password of the Secret",
    before: async (stage) => {
      await lostWithAnotherPassword(stage);
      burnDown(stage);
      await stage.until((one) => available(one).includes('newest snapshot: nightly'), 'the way back is told');
    },
    play: async (stage) => {
      const lostID = stage.quorum?.status?.clusterID ?? '';
      consented(stage);
      await stage.until(isBack(lostID), 'the cluster has another ID');
      await stage.settled();
    },
    ends: async (stage) => {
      assert.deepEqual(await takes(stage, 'second', 'first', undefined), [true, false, false]);
      assert.equal(await stage.read('canary'), 'alive');
      assert.deepEqual(kept(stage), { password: base64('second'), former: base64('["first"]') });
    },
  },
  {
    name: 'says whose password it waits for where the data of a snapshot takes none that is known, and goes on with it',
    before: async (stage) => {
      await lostWithAnotherPassword(stage);
      burnDown(stage);
      await stage.until((one) => available(one).includes('newest snapshot: nightly'), 'the way back is told');
      forget(stage, inUseName(CLUSTER, 'root'));
    },
    play: async (stage) => {
      const lostID = stage.quorum?.status?.clusterID ?? '';
      consented(stage);
      await told(stage, 'AuthCredentialsRejected');
      assert.match(condition(stage, 'Stalled')?.message ?? '', /its data comes from pvc:\/\/backups/);
      password(stage, 'first');
      await stage.until(isBack(lostID), 'the cluster has another ID');
      await stage.settled();
      password(stage, 'third');
      await stage.until(async (one) => (await takes(one, 'third')).join() === 'true', 'it is changed as ever');
      await stage.settled();
    },
    ends: async (stage) => assert.equal(await stage.read('canary'), 'alive'),
    immortal: true,
  },
  comesBack('on a volume', {}),
  comesBack('in memory', { storage: { medium: 'Memory', size: '256Mi' } }),
  {
    name: 'touches nothing of a lost cluster for a snapshot that cannot be had, and goes back to waiting for its members',
    before: async (stage) => {
      stage.apply({});
      await stage.settled();
      await stage.put('canary', 'alive');
      await storeSnapshot(stage);
      stage.etcd.wipe(URI);
      for (const ordinal of [0, 1]) stage.kubelet.loseNode(stage.podOf(ordinal).spec?.nodeName ?? '');
      await stage.until((one) => available(one).includes('newest snapshot: nightly'), 'the loss is told');
    },
    play: async (stage) => {
      const survivor = stage.podOf(2).metadata.uid;
      const clusterID = stage.quorum?.status?.clusterID ?? '';
      stage.edit({ recovery: { snapshot: 'nightly', clusterID, acceptDataLoss: true } });
      await stage.until((one) => available(one).includes('-seed'), 'the failure is told');
      assert.equal(stage.podOf(2).metadata.uid, survivor, 'the survivor still runs');
      for (const { metadata } of stage.store.list(resources.nodes)) stage.kubelet.restoreNode(metadata.name ?? '');
      await stage.settled();
    },
    ends: async (stage) => {
      assert.equal(await stage.read('canary'), 'alive');
      assert.equal(stage.quorum?.status?.recovered, undefined);
      assert.deepEqual(
        stage.volumes.map(({ metadata }) => metadata.labels?.['etcd-operator.cozystack.io/member']).toSorted(),
        [0, 1, 2].map((ordinal) => memberName(CLUSTER, ordinal)),
      );
    },
    immortal: true,
  },
];
