/** How a story ended, without what differs from run to run: tokens, times, who leads and which slots are left. */
import assert from 'node:assert/strict';
import { ANNOTATIONS, LABELS } from '../../api/names.ts';
import { resources } from '../../runtime/ports/kube.ts';
import { CLUSTER, NAMESPACE, type Stage } from './stage.ts';

export type Ending = {
  readonly claim: unknown;
  readonly quorum: unknown;
  readonly members: unknown;
  readonly pods: unknown;
  readonly volumes: unknown;
  readonly budget: unknown;
  readonly etcd: unknown;
};

const said = (conditions: readonly { type: string; status: string; reason: string }[] | undefined): string[] =>
  (conditions ?? []).map(({ type, status, reason }) => `${type}=${status} ${reason}`).toSorted();

export const endingOf = async (stage: Stage): Promise<Ending> => {
  const { claim, quorum, members, pods, volumes, budget } = stage;
  const membership = await stage.membership();
  const latch = quorum?.status?.clusterID;
  const names = [...members].map(({ metadata }) => metadata.name).toSorted();
  const nth = (name: string): string => (names.includes(name) ? `member ${names.indexOf(name)}` : name);
  const slot = ({ metadata }: { metadata: { labels?: Record<string, string> } }): string =>
    nth(metadata.labels?.[LABELS.member] ?? '');
  return {
    claim:
      claim === undefined
        ? undefined
        : {
            deleting: claim.metadata.deletionTimestamp !== undefined,
            conditions: said(claim.status?.conditions as Parameters<typeof said>[0]),
            sameID: claim.status?.clusterID === latch,
            members: claim.status?.members,
          },
    quorum:
      quorum === undefined
        ? undefined
        : {
            phase: quorum.status?.phase,
            latched: latch !== undefined,
            members: quorum.status?.members,
            voters: quorum.status?.voters?.map(nth),
            learners: quorum.status?.learners?.map(nth),
            operation: quorum.status?.operation,
            claim: quorum.status?.clusterUID === claim?.metadata.uid,
            conditions: said(quorum.status?.conditions),
            refs: (quorum.spec.resourceRefs ?? []).map(({ kind, name }) => `${kind}/${name}`),
          },
    members: members.map(({ metadata, spec, status }) => ({
      name: nth(metadata.name),
      deleting: metadata.deletionTimestamp !== undefined,
      finalizers: metadata.finalizers,
      phase: status?.phase,
      sameID: status?.clusterID === latch,
      voter: status?.isVoter,
      claim: status?.clusterUID === claim?.metadata.uid,
      // The record names what really stands there.
      pod: pods.some((pod) => pod.metadata.uid === status?.podUID && pod.metadata.name === status?.podName),
      volume: volumes.some((volume) => volume.metadata.name === status?.pvcName),
      refs: (spec.resourceRefs ?? []).map(({ kind, name }) => `${kind} ${name === status?.podName ? 'own' : name}`),
      listed: membership?.members.some(({ id }) => id === status?.memberID),
      conditions: said(status?.conditions),
    })),
    pods: pods
      .map((pod) => ({
        slot: slot(pod),
        role: pod.metadata.labels?.[LABELS.role],
        owner: pod.metadata.ownerReferences?.map(({ kind, uid }) => `${kind} ${uid === claim?.metadata.uid}`),
        proven:
          pod.metadata.annotations?.[ANNOTATIONS.verifiedContainer] === pod.status?.containerStatuses?.[0]?.containerID,
        phase: pod.status?.phase,
      }))
      .toSorted((a, b) => (a.slot < b.slot ? -1 : 1)),
    volumes: volumes
      .map((volume) => ({
        slot: slot(volume),
        deleting: volume.metadata.deletionTimestamp !== undefined,
        sameID: volume.metadata.annotations?.[ANNOTATIONS.clusterID] === latch,
        claim: volume.metadata.annotations?.[ANNOTATIONS.clusterUID] === claim?.metadata.uid,
        kept: volume.metadata.labels?.[LABELS.retained],
      }))
      .toSorted((a, b) => (`${a.slot} ${a.sameID}` < `${b.slot} ${b.sameID}` ? -1 : 1)),
    budget:
      budget === undefined
        ? undefined
        : {
            minAvailable: budget.spec?.minAvailable,
            policy: budget.spec?.unhealthyPodEvictionPolicy,
            owner: budget.metadata.ownerReferences?.map(({ uid }) => uid === claim?.metadata.uid),
          },
    etcd:
      membership === undefined
        ? undefined
        : {
            voters: membership.members.filter(({ isLearner }) => !isLearner).length,
            learners: membership.members.filter(({ isLearner }) => isLearner).length,
          },
  };
};

/** What holds at the end of every story, whatever happened in it. */
export const assertSound = (stage: Stage): void => {
  assert.deepEqual(stage.wrongs, []);
  const bound = stage.pods.flatMap(({ spec }) =>
    spec?.volumes?.flatMap((v) => v.persistentVolumeClaim?.claimName ?? []),
  );
  for (const { metadata } of stage.volumes) {
    if (metadata.labels?.[LABELS.retained] !== undefined) continue;
    const replaced = metadata.annotations?.[ANNOTATIONS.clusterID];
    if (replaced !== undefined && stage.restores.some(({ spec }) => spec.clusterID === replaced)) continue;
    const paused = stage.quorum?.spec.replicas === 0;
    const failed = stage.members.some(({ status }) => status?.phase === 'Failed' && status.pvcName === metadata.name);
    assert.ok(paused || failed || bound.includes(metadata.name), `the volume ${metadata.name} belongs to a Pod`);
  }
};

/** Nothing is left of the cluster but, where asked for, its volumes. */
export const assertGone = (stage: Stage, volumes = 0): void => {
  for (const resource of [
    resources.etcdclusters,
    resources.etcdquorums,
    resources.etcdmembers,
    resources.pods,
    resources.poddisruptionbudgets,
    resources.services,
  ]) {
    const left = stage.store.list(resource, NAMESPACE).map(({ metadata }) => metadata.name);
    assert.deepEqual(left, [], `no ${resource.plural} of ${CLUSTER} is left`);
  }
  assert.equal(stage.volumes.length, volumes, 'volumes that are left');
};
