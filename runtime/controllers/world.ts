/** What a pass works with: the ports, the caches that feed it, and the few things it remembers between passes. */
import type { Node, PersistentVolumeClaim, Pod } from 'kubernetes-types/core/v1.js';
import type { PodDisruptionBudget } from 'kubernetes-types/policy/v1.js';
import type { EtcdMember } from '../../api/etcdmember.gen.ts';
import type { EtcdQuorum } from '../../api/etcdquorum.gen.ts';
import type { EtcdRestore } from '../../api/etcdrestore.gen.ts';
import type { EtcdSnapshot } from '../../api/etcdsnapshot.gen.ts';
import type { EtcdSnapshotSchedule } from '../../api/etcdsnapshotschedule.gen.ts';
import type { Reason } from '../../api/reasons.ts';
import type { Observed, Patience } from '../core/observed.ts';
import type { Clock } from '../ports/clock.ts';
import type { EtcdClients, EtcdHealthProbe } from '../ports/etcd.ts';
import type { Handshake } from '../ports/handshake.ts';
import type { Kube, KubeObject, Resource, Stored } from '../ports/kube.ts';
import { resources } from '../ports/kube.ts';
import type { NamedSecrets } from '../ports/secrets.ts';
import type { Tracing } from '../ports/tracing.ts';
import type { Dialler } from './dialler.ts';

/** A watched collection, indexed by cluster. */
export type Cache<T extends KubeObject> = {
  get(namespace: string, name: string): Stored<T> | undefined;
  /** Everything that carries this cluster's key, see {@link clusterKey}. */
  byIndex(key: string): readonly Stored<T>[];
  /** Takes in the answer to our own write, so that the next pass sees it. */
  observe(object: Stored<T>): void;
};

export type Caches = {
  readonly members: Cache<EtcdMember>;
  readonly quorums: Cache<EtcdQuorum>;
  readonly pods: Cache<Pod>;
  readonly volumes: Cache<PersistentVolumeClaim>;
  readonly budgets: Cache<PodDisruptionBudget>;
  readonly nodes: Pick<Cache<Node>, 'get'>;
  /** By the cluster that they name. */
  readonly restores: Cache<EtcdRestore>;
  readonly snapshots: Cache<EtcdSnapshot>;
  readonly schedules: Pick<Cache<EtcdSnapshotSchedule>, 'byIndex'>;
};

export type About = { readonly kind: string; readonly name: string; readonly namespace: string; readonly uid: string };

/** Kubernetes Events: for the person who has kubectl and no access to our log. */
export type Announce = (
  about: About,
  event: {
    readonly type: 'Normal' | 'Warning';
    readonly reason: Reason;
    readonly message: string;
    readonly action: string;
    /** As in an EventNote: written even while a troubled object's other events are held back. */
    readonly essential?: boolean;
  },
) => void;

export type Log = {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
};

export type World = {
  readonly kube: Kube;
  readonly caches: Caches;
  readonly etcd: EtcdClients;
  readonly probe: EtcdHealthProbe;
  readonly handshake: Handshake;
  /** Image of this runtime, in which the Pods that fill volumes find the agent. */
  readonly agentImage: string | undefined;
  /** What the dialler follows; for steps that carry from one Secret to another, which no decision ever holds. */
  readonly secrets: Pick<NamedSecrets, 'get' | 'keep'>;
  /** Clients of members, with what their cluster's Secrets hold. */
  readonly dialler: Dialler;
  readonly clock: Clock;
  readonly announce: Announce;
  readonly log: Log;
  /** Absent: nobody listens, and nothing is gathered. */
  readonly tracing?: Tracing | undefined;
  /** Where the API server is, for the spans of calls to it. */
  readonly apiServer?: string | undefined;
  /** Five lower-case alphanumerics that were never used before. */
  readonly drawToken: () => string;
  /**
   * Highest revision seen of each incarnation by this process. It becomes a floor on the volume when the member stops,
   * and is not written before: what ticks is never written.
   */
  readonly revisions: Map<string, bigint>;
  /** By {@link clusterKey}: how far each cluster had come when this process last saw it. Told, once, when quorum is lost. */
  readonly lastSeen: Map<string, NonNullable<Observed['lastSeen']>>;
  /**
   * UIDs whose deletion the API server has taken. A cache shows them as they were until the watch tells, and for that moment a
   * rollout would see everybody serving, and take the next member as well.
   */
  readonly deleted: Set<string>;
  /** Absent: the defaults. */
  readonly patience?: Patience | undefined;
};

export type ClusterName = { readonly namespace: string; readonly name: string };

export const clusterKey = ({ namespace, name }: ClusterName): string => `${namespace}/${name}`;
export const clusterOf = (key: string): ClusterName => {
  const [namespace = '', name = ''] = key.split('/');
  return { namespace, name };
};

/** Our kinds with their generated types. */
export const kinds = {
  members: resources.etcdmembers as Resource<EtcdMember>,
  quorums: resources.etcdquorums as Resource<EtcdQuorum>,
} as const;

/** Field manager of everything the runtime applies. */
export const FIELD_MANAGER = 'etcd-operator-runtime';
