/** What is left of a member that etcd lists and no slot stands for. */
import { ANNOTATIONS, LABELS, PORTS, peerHost } from '../../api/names.ts';
import { known, type Observed, type SeenStranger, unknownBy } from '../core/observed.ts';
import { classify } from '../core/situation.ts';
import { type ListedIncarnation, listedIncarnation, strangersIn } from '../core/strangers.ts';
import { EtcdFault } from '../ports/etcd.ts';
import { type KubeObject, resources, type Stored } from '../ports/kube.ts';
import { kinds, type World } from './world.ts';

const PROBE_DEADLINE_MS = 1_000;

/** No name resolves to a Pod that is not there, so silence is what is expected; only an answer says something. */
const answers = async (world: World, host: string, signal: AbortSignal): Promise<boolean> => {
  try {
    await world.probe.metrics(`http://${host}:${PORTS.metrics}`, { signal, deadlineMs: PROBE_DEADLINE_MS });
    return true;
  } catch (error) {
    return !(error instanceof EtcdFault && (error.reason === 'Unreachable' || error.reason === 'Timeout'));
  }
};

/**
 * Past every cache, since an answer may end with the member being taken off the list: a Pod, volume or EtcdMember that a
 * watch has yet to tell of must count. The namespace is searched as a whole, because labels can be edited.
 */
const tracesOf = async (
  { kube }: World,
  namespace: string,
  id: string,
  { member, token, name }: ListedIncarnation,
  signal: AbortSignal,
): Promise<SeenStranger['traces']> => {
  const isOwn = ({ metadata: { name: is, labels } }: Stored<KubeObject>): boolean =>
    is === name || (labels?.[LABELS.member] === member && labels[LABELS.incarnation] === token);
  try {
    const [pods, volumes, members] = await Promise.all([
      kube.list(resources.pods, { namespace, signal }),
      kube.list(resources.persistentvolumeclaims, { namespace, signal }),
      kube.list(kinds.members, { namespace, signal }),
    ]);
    return known(
      [
        ...pods.items
          .filter((pod) => isOwn(pod) || pod.spec?.hostname === name)
          .map(({ metadata }) => `Pod ${metadata.name}`),
        ...volumes.items
          .filter((volume) => isOwn(volume) || volume.metadata.annotations?.[ANNOTATIONS.memberID] === id)
          .map(({ metadata }) => `PersistentVolumeClaim ${metadata.name}`),
        ...members.items
          .filter(
            ({ metadata, spec, status }) =>
              status?.memberID === id ||
              // A slot in which nothing is recorded yet may be about to be found to hold it.
              (metadata.name === member && (status?.incarnation ?? token) === token) ||
              spec.resourceRefs?.some((ref) => ref.name === name) === true,
          )
          .map(({ metadata }) => `EtcdMember ${metadata.name}`),
      ].toSorted(),
    );
  } catch (error) {
    return unknownBy(error);
  }
};

export const strangersOf = async (
  world: World,
  seen: Observed,
  signal: AbortSignal,
): Promise<readonly SeenStranger[]> => {
  const { membership, quorum, members, namespace, cluster } = seen;
  const inFlight = quorum?.status.operation;
  if (!membership.known || (inFlight !== undefined && inFlight.kind !== 'RemoveOrphan')) return [];
  // Nearly always everybody is on record, and nothing has to be derived to see that.
  const recorded = new Set(members.map(({ status }) => status.memberID));
  if (membership.value.members.every(({ id }) => recorded.has(id))) return [];
  const found = strangersIn(classify(seen)).flatMap((stranger) => {
    const incarnation = listedIncarnation(seen, stranger);
    return incarnation === undefined ? [] : [{ id: stranger.id, incarnation }];
  });
  return Promise.all(
    found.map(async ({ id, incarnation }) => ({
      id,
      traces: await tracesOf(world, namespace, id, incarnation, signal),
      answers: await answers(world, peerHost(cluster, namespace, incarnation.name), signal),
    })),
  );
};
