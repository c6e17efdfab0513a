/**
 * What the runtime may see of a cluster, in a notation that reads like a note on paper. One fact a line; what is not said is
 * as in a quiet world: the namespace stays, the claim is there, nothing is in flight.
 *
 *     latch c1
 *     want 3
 *     list 0-aaaaa=a1 1-bbbbb=b1 2-ccccc=c2/learner
 *     slot 0 inc=aaaaa id=a1 phase=Voter | pod aaaaa running ready voter proven locked | volume aaaaa id=a1 floor=7 | answers c1/a1@9 leader=a1
 *
 * `space 15/3/16` after an answer is a file of 15 MiB with 3 in use and a quota of 16, `hash 7/9/1` hash 7 at revision 9, compacted at 1.
 * A slot's line has its own facts first, then its Pods and volumes; `answers` belongs to the Pod before it.
 */
import type { EtcdMemberSpec, EtcdMemberStatus } from '../../api/etcdmember.gen.ts';
import type { EtcdQuorumStatus } from '../../api/etcdquorum.gen.ts';
import { clientURL, incarnationName, memberName, peerURL } from '../../api/names.ts';
import { formingConfig, joiningConfig, settledConfig } from '../../runtime/core/member-config.ts';
import type { Observed, SeenMember, SeenNode, SeenPod, SeenVolume } from '../../runtime/core/observed.ts';
import { known, unknown } from '../../runtime/core/observed.ts';
import { classify } from '../../runtime/core/situation.ts';
import { metadataRecord } from '../../runtime/core/template-metadata.ts';
import type { EtcdMemberStatus as EtcdAnswer, EtcdMember } from '../../runtime/ports/etcd.ts';

export const CLUSTER = 'demo';
export const NAMESPACE = 'team-a';
const CLAIM_UID = 'claim-1';
/** Midnight of a day on which nothing else happened. */
export const START = Date.UTC(2026, 0, 1);

export type Shape = {
  readonly version: string;
  readonly medium: '' | 'Memory';
  readonly retention: 'Delete' | 'Retain';
  readonly options: EtcdMemberSpec['options'];
  /** Stands for everything in the Pod's template. */
  readonly template: string;
  /** A label that the claim puts on everything. */
  readonly label: string | undefined;
};

export const SHAPE: Shape = {
  version: '3.6.16',
  medium: '',
  retention: 'Delete',
  options: undefined,
  template: '1',
  label: undefined,
};

const metadataOf = ({ label }: Shape): { labels?: Record<string, string> } =>
  label === undefined ? {} : { labels: { label } };

export const memberSpec = (shape: Shape): EtcdMemberSpec => ({
  clusterName: CLUSTER,
  version: shape.version,
  storage: { medium: shape.medium, retention: shape.retention },
  ...(shape.options === undefined ? {} : { options: shape.options }),
  template: {
    metadata: metadataOf(shape),
    spec: { containers: [{ name: 'etcd', image: shape.template }] },
  },
  ...(shape.medium === 'Memory'
    ? {}
    : { volumeClaimTemplate: { metadata: metadataOf(shape), spec: { accessModes: ['ReadWriteOnce'] } } }),
});

/** Equal for equal templates; the real ones are SHA-256. */
export const restartHash = ({ version, template, options }: Shape): string =>
  `${version}/${template}/${JSON.stringify(options ?? {})}`;
export const templateHash = (shape: Shape): string => `${restartHash(shape)}/${shape.label ?? ''}`;
export const appliedMetadata = (shape: Shape): string => metadataRecord(metadataOf(shape));

export const listed = (member: string, token: string, id: string, isLearner = false, started = true): EtcdMember => {
  const name = incarnationName(member, token);
  return {
    id,
    name: started ? name : '',
    peerURLs: [peerURL(CLUSTER, NAMESPACE, name)],
    clientURLs: started ? [clientURL(CLUSTER, NAMESPACE, name)] : [],
    isLearner,
  };
};

export const answer = (of: {
  clusterId: string;
  memberId: string;
  leaderId?: string | undefined;
  revision: bigint;
  isLearner?: boolean;
  version?: string;
  storageVersion?: string;
  downgradeTarget?: string;
}): EtcdAnswer => ({
  clusterId: of.clusterId,
  memberId: of.memberId,
  leaderId: of.leaderId,
  version: of.version ?? SHAPE.version,
  storageVersion: of.storageVersion,
  downgradeTarget: of.downgradeTarget,
  dbSize: 0n,
  dbSizeInUse: 0n,
  dbSizeQuota: undefined,
  raftIndex: of.revision,
  raftAppliedIndex: of.revision,
  raftTerm: 1n,
  isLearner: of.isLearner ?? false,
  revision: of.revision,
  errors: [],
});

/** Stands in a Pod's configuration until the whole is known that the file is written from. */
const PENDING = { locked: '<locked>', new: '<new>', joining: '<joining>', strange: '<strange>' } as const;

/** What the core would have written; that these files are right is proven beside the code that writes them. */
const withConfigs = (seen: Observed): Observed => {
  const situation = classify(seen);
  const written = (member: SeenMember, pod: SeenPod): string | undefined => {
    const slot = situation.slots.find((one) => one.member.name === member.name);
    if (slot === undefined || pod.config === undefined) return undefined;
    switch (pod.config) {
      case PENDING.locked:
        return settledConfig(situation, slot, pod.incarnation)?.text;
      case PENDING.new:
        return formingConfig(situation, slot, pod.incarnation)?.text;
      case PENDING.joining:
        return joiningConfig(situation, slot, pod.incarnation)?.text;
      default:
        return `name: "${pod.name}"\ninitial-cluster: "${pod.name}=http://elsewhere,other=http://other"\ninitial-cluster-state: "existing"\n`;
    }
  };
  return {
    ...seen,
    members: seen.members.map((member) => ({
      ...member,
      pods: member.pods.map((pod) => ({ ...pod, config: written(member, pod) })),
    })),
  };
};

type Words = Map<string, string>;

/** `a b=c` as flags and values. */
const wordsOf = (text: string): Words =>
  new Map(
    (text.match(/(?:[^\s"]|"[^"]*")+/g) ?? []).map((word): [string, string] => {
      const at = word.indexOf('=');
      return at < 0 ? [word, ''] : [word.slice(0, at), word.slice(at + 1).replaceAll('"', '')];
    }),
  );

const refuse = (line: string, why: string): never => {
  throw new Error(`scenario: ${why} in line "${line}"`);
};

/** `ready`, `gone`, `off`, or the seconds since which it is away. */
const nodeState = (word: string): SeenNode =>
  word === 'ready' || word === 'gone'
    ? { is: word }
    : word === 'cordoned'
      ? { is: 'ready', cordoned: true }
      : word === 'off'
        ? { is: 'outOfService' }
        : { is: 'notReady', since: START - Number(word) * 1_000 };

const seenPod = (member: string, text: string, shape: Shape): SeenPod => {
  const words = wordsOf(text);
  const [, token = ''] = [...words.keys()];
  const name = incarnationName(member, token);
  const has = (flag: string): boolean => words.has(flag);
  const started = has('running') || has('crashed');
  const container = `containerd://${words.get('container') ?? `${name}-1`}`;
  return {
    name,
    uid: `pod-${name}`,
    incarnation: token,
    deleting: has('deleting'),
    phase: has('failed') ? 'Failed' : has('succeeded') ? 'Succeeded' : has('running') ? 'Running' : 'Pending',
    node: started || has('host') ? 'node-1' : undefined,
    host: has('host') ? nodeState(words.get('host') ?? '') : undefined,
    ip: started ? '10.0.0.1' : undefined,
    ready: has('ready'),
    unschedulable: words.get('unschedulable'),
    createdAt: START - Number(words.get('age') ?? 60) * 1_000,
    controllerUID: words.get('owner') ?? CLAIM_UID,
    voterRole: has('voter'),
    config: has('unconfigured')
      ? undefined
      : has('new')
        ? PENDING.new
        : has('joining')
          ? PENDING.joining
          : has('strange')
            ? PENDING.strange
            : PENDING.locked,
    templateHash: has('outdated') ? 'older' : templateHash(shape),
    restartHash: has('outdated') ? 'older' : restartHash(shape),
    metadata: appliedMetadata(shape),
    verifiedContainer: has('proven') ? container : has('proven-before') ? 'containerd://before' : undefined,
    container: {
      id: started ? container : undefined,
      state: has('running') ? 'running' : has('crashed') || words.has('waiting') ? 'waiting' : 'unknown',
      ready: has('ready'),
      restarts: Number(words.get('restarts') ?? 0),
      waitingReason: words.get('waiting') ?? (has('crashed') ? 'CrashLoopBackOff' : undefined),
      waitingMessage: words.get('message'),
      startedAt: has('running') ? START - Number(words.get('runs') ?? 30) * 1_000 : undefined,
      lastExit:
        has('crashed') || words.has('exit')
          ? {
              code: Number(words.get('exit') ?? 1),
              reason: words.get('ended') ?? 'Error',
              message: words.get('said') ?? '',
              signal: undefined,
            }
          : undefined,
    },
    etcd: unknown('etcd is not running'),
  };
};

const seenVolume = (member: string, text: string, shape: Shape): SeenVolume => {
  const words = wordsOf(text);
  const [, token = ''] = [...words.keys()];
  const name = incarnationName(member, token);
  const floor = words.get('floor');
  return {
    name,
    uid: `volume-${name}`,
    incarnation: token,
    deleting: words.has('deleting'),
    phase: words.has('pending') ? 'Pending' : 'Bound',
    createdAt: START - 60_000,
    clusterUID: CLAIM_UID,
    clusterID: words.get('cluster'),
    memberID: words.get('id'),
    revisionFloor: floor === undefined ? undefined : BigInt(floor),
    metadata: appliedMetadata(shape),
    trouble: words.get('trouble'),
    home: words.has('home') ? known({ name: 'node n1', node: nodeState(words.get('home') ?? '') }) : undefined,
  };
};

const MIB = 1n << 20n;

/** Every member that answers tells of the alarms that are armed. */
const withAlarms = (members: readonly SeenMember[], errors: readonly string[]): SeenMember[] =>
  members.map((member) => ({
    ...member,
    pods: member.pods.map((pod) => ({
      ...pod,
      etcd: pod.etcd.known ? known({ ...pod.etcd.value, errors }) : pod.etcd,
    })),
  }));

const ANSWER = /^answers (\w+)\/(\w+)@(\d+)(?: leader=(\w+))?( learner)?$/;

const seenSlot = (line: string, shape: Shape): SeenMember => {
  const [head = '', ...parts] = line.split('|').map((part) => part.trim());
  const words = wordsOf(head);
  const ordinal = Number([...words.keys()][1]);
  const name = memberName(CLUSTER, ordinal);
  const pods: SeenPod[] = [];
  const volumes: SeenVolume[] = [];
  for (const part of parts) {
    if (part.startsWith('pod ')) pods.push(seenPod(name, part, shape));
    else if (part.startsWith('volume ')) volumes.push(seenVolume(name, part, shape));
    else if (part.startsWith('space ') || part.startsWith('hash ')) {
      const pod = pods.pop() ?? refuse(line, 'an answer without a Pod');
      const [a = '', b = '', c = ''] = (part.split(' ')[1] ?? '').split('/');
      pods.push(
        part.startsWith('hash ')
          ? {
              ...pod,
              hash:
                a === 'unknown'
                  ? unknown('it does not answer')
                  : known({ hash: Number(a), hashRevision: BigInt(b), compactRevision: BigInt(c) }),
            }
          : pod.etcd.known
            ? {
                ...pod,
                etcd: known({
                  ...pod.etcd.value,
                  dbSize: BigInt(a) * MIB,
                  dbSizeInUse: BigInt(b) * MIB,
                  dbSizeQuota: BigInt(c) * MIB,
                }),
              }
            : refuse(line, 'space of a member that does not answer'),
      );
    } else {
      const said = ANSWER.exec(part) ?? refuse(line, `"${part}" is no Pod, volume or answer`);
      const pod = pods.pop() ?? refuse(line, 'an answer without a Pod');
      pods.push({
        ...pod,
        etcd: known(
          answer({
            clusterId: said[1] ?? '',
            memberId: said[2] ?? '',
            revision: BigInt(said[3] ?? '0'),
            leaderId: said[4],
            isLearner: said[5] !== undefined,
          }),
        ),
      });
    }
  }
  const incarnation = words.get('inc');
  const reason = words.get('reason');
  const status: EtcdMemberStatus = {
    ...(words.has('phase') ? { phase: words.get('phase') as NonNullable<EtcdMemberStatus['phase']> } : {}),
    ...(incarnation === undefined ? {} : { incarnation }),
    ...(words.has('id') ? { memberID: words.get('id') ?? '' } : {}),
    ...(words.has('cluster') ? { clusterID: words.get('cluster') ?? '' } : {}),
    ...(reason === undefined
      ? {}
      : {
          conditions: [
            {
              type: 'Ready',
              status: 'False' as const,
              reason,
              message: reason,
              lastTransitionTime: new Date(START - Number(words.get('since') ?? 0) * 1_000).toISOString(),
            },
          ],
        }),
  };
  return {
    name,
    ordinal,
    uid: `member-${ordinal}`,
    generation: 1,
    deleting: words.has('deleting'),
    composed: !words.has('dropped'),
    controllerUID: CLAIM_UID,
    finalized: !words.has('unfinalized'),
    firstClaim: words.get('claim') ?? (words.has('unfinalized') ? undefined : CLAIM_UID),
    retry: words.has('retry'),
    claimedPod: words.has('begun') ? incarnationName(name, words.get('begun') ?? '') : undefined,
    spec: memberSpec(shape),
    status,
    templateHash: templateHash(shape),
    restartHash: restartHash(shape),
    pods,
    volumes,
  };
};

/** `0-aaaaa=a1/learner/unstarted` → a line of etcd's list. */
const seenEntry = (word: string): EtcdMember => {
  const [left = '', right = ''] = word.split('=');
  const [id = '', ...flags] = right.split('/');
  const [ordinal = '', token = ''] = left.split('-');
  return listed(
    memberName(CLUSTER, Number(ordinal)),
    token,
    id,
    flags.includes('learner'),
    !flags.includes('unstarted'),
  );
};

/** From the notation above to the value that the planner gets. */
export const observed = (notation: string): Observed => {
  let shape = SHAPE;
  let replicas = 3;
  let status: EtcdQuorumStatus = {};
  let quorumExists = true;
  let quorumOwner: string | undefined = CLAIM_UID;
  let world: Observed = {
    namespace: NAMESPACE,
    cluster: CLUSTER,
    now: START,
    namespaceTerminating: known(false),
    claim: known({ exists: true, uid: CLAIM_UID, deleting: false, clusterID: undefined }),
    quorum: undefined,
    members: [],
    budget: undefined,
    membership: unknown('no member answers that knows of a leader'),
  };
  const slots: string[] = [];
  const alarms: string[] = [];
  for (const raw of notation.split('\n')) {
    const line = raw.trim();
    const words = wordsOf(line);
    const rest = line.split(/\s+/).slice(1);
    switch (rest.length === 0 && line === '' ? '' : line.split(/\s+/)[0]) {
      case '':
        break;
      case 'latch':
        status = { ...status, clusterID: rest[0] ?? '', clusterUID: CLAIM_UID };
        break;
      case 'want':
        replicas = Number(rest[0]);
        break;
      case 'shape':
        shape = {
          ...shape,
          ...(words.has('memory') ? { medium: 'Memory' as const } : {}),
          ...(words.has('retain') ? { retention: 'Retain' as const } : {}),
          ...(words.has('version') ? { version: words.get('version') ?? '' } : {}),
          ...(words.has('template') ? { template: words.get('template') ?? '' } : {}),
          ...(words.has('retention') ? { options: { autoCompactionRetention: words.get('retention') ?? '' } } : {}),
        };
        break;
      case 'attempt':
        status = {
          ...status,
          bootstrap: {
            attempt: Number(rest[0]),
            token: `${CLAIM_UID}-${rest[0]}`,
            startedAt: new Date(START).toISOString(),
            members: rest
              .slice(1)
              .filter((word) => /^\d+-[a-z0-9]{5}$/.test(word))
              .map((word) => {
                const [ordinal = '', incarnation = ''] = word.split('-');
                return { name: memberName(CLUSTER, Number(ordinal)), incarnation };
              }),
            ...(words.has('abandoned') ? { abandoned: words.get('abandoned') ?? '' } : {}),
          },
        };
        break;
      case 'voters':
        status = { ...status, voters: rest };
        break;
      case 'operation':
        status = {
          ...status,
          operation: {
            id: 'op-1',
            kind: rest[0] ?? '',
            target: rest[1] ?? '',
            step: 'begun',
            since: new Date(START).toISOString(),
            ...(words.has('id') ? { memberID: words.get('id') ?? '' } : {}),
            ...(words.has('inc') ? { incarnation: words.get('inc') ?? '' } : {}),
            ...(words.has('cause') ? { cause: words.get('cause') ?? '' } : {}),
          },
        };
        break;
      case 'alarm':
        alarms.push(`memberID:${BigInt(`0x${rest[1]}`)} alarm:${rest[0]} `);
        break;
      case 'repaired':
        status = {
          ...status,
          repairs: [
            ...(status.repairs ?? []),
            {
              member: rest[0] ?? '',
              cause: rest[1] ?? '',
              count: Number(words.get('count') ?? 1),
              lastTime: new Date(START - Number(words.get('ago') ?? 0) * 1_000).toISOString(),
            },
          ],
        };
        break;
      case 'record':
        if (words.has('missing')) quorumExists = false;
        if (words.has('of')) status = { ...status, clusterUID: words.get('of') ?? '' };
        if (words.has('orphaned')) quorumOwner = undefined;
        if (words.has('owner')) quorumOwner = words.get('owner');
        break;
      case 'namespace':
        world = {
          ...world,
          namespaceTerminating: words.has('unknown')
            ? unknown('the API server timed out')
            : known(words.has('terminating')),
        };
        break;
      case 'claim':
        world = {
          ...world,
          claim: words.has('unknown')
            ? unknown('the API server timed out')
            : words.has('gone')
              ? known({ exists: false })
              : known({
                  exists: true,
                  uid: words.get('uid') ?? CLAIM_UID,
                  deleting: words.has('deleting'),
                  clusterID: words.get('cluster'),
                }),
        };
        break;
      case 'list':
        world = {
          ...world,
          membership: words.has('unknown')
            ? unknown('no quorum')
            : known({
                clusterId: words.get('of') ?? status.clusterID ?? '',
                members: rest.filter((word) => /^\d+-/.test(word)).map(seenEntry),
              }),
        };
        break;
      case 'budget':
        world = {
          ...world,
          budget: {
            uid: 'budget-1',
            deleting: words.has('deleting'),
            controllerUID: words.get('owner') ?? CLAIM_UID,
            minAvailable: Number(rest[0]),
            alwaysEvictUnhealthy: shape.medium === '',
            metadata: undefined,
          },
        };
        break;
      case 'slot':
        slots.push(line);
        break;
      default:
        refuse(line, 'unknown word');
    }
  }
  return withConfigs({
    ...world,
    quorum: quorumExists
      ? {
          uid: 'quorum-1',
          generation: 1,
          deleting: false,
          controllerUID: quorumOwner,
          spec: {
            replicas,
            version: shape.version,
            medium: shape.medium,
            ...(world.budget === undefined
              ? {}
              : { resourceRefs: [{ apiVersion: 'policy/v1', kind: 'PodDisruptionBudget', name: CLUSTER }] }),
          },
          status,
        }
      : undefined,
    members: withAlarms(
      slots.map((line) => seenSlot(line, shape)),
      alarms,
    ),
  });
};
