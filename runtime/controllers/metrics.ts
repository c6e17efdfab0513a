/** The runtime's own metrics. Labels are closed sets: no cluster, member or message ever becomes a label value. */
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';

import type { EtcdQuorum } from '../../api/etcdquorum.gen.ts';
import { recordedChange } from '../core/changes.ts';

export type Metrics = ReturnType<typeof createMetrics>;

export const createMetrics = () => {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const registers = [registry];
  return {
    registry,
    passes: new Counter({
      name: 'etcd_operator_passes_total',
      help: 'Passes over a cluster by how they ended.',
      labelNames: ['outcome'] as const,
      registers,
    }),
    steps: new Counter({
      name: 'etcd_operator_steps_total',
      help: 'Steps by kind, outcome, and the reason that condition and event give.',
      labelNames: ['step', 'outcome', 'reason'] as const,
      registers,
    }),
    changes: new Counter({
      name: 'etcd_operator_changes_total',
      help: 'Changes of a quorum that ended: members added, removed, replaced and restarted, bootstraps, pauses.',
      labelNames: ['kind', 'outcome'] as const,
      registers,
    }),
    restores: new Counter({
      name: 'etcd_operator_restores_total',
      help: 'EtcdRestores that ended, by outcome and the reason that their condition gives.',
      labelNames: ['outcome', 'reason'] as const,
      registers,
    }),
    changeSeconds: new Histogram({
      name: 'etcd_operator_change_seconds',
      help: 'Length of changes of a quorum, from the moment that is recorded, whoever carried them out.',
      labelNames: ['kind'] as const,
      buckets: [1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1_800, 3_600],
      registers,
    }),
    changesInFlight: new Gauge({
      name: 'etcd_operator_changes_in_flight',
      help: 'Recorded changes that have not ended: bootstraps and membership changes.',
      labelNames: ['kind'] as const,
      registers,
    }),
    oldestChange: new Gauge({
      name: 'etcd_operator_oldest_change_seconds',
      help: 'Age of the oldest change in flight; 0 without any.',
      registers,
    }),
    leaderChanges: new Counter({
      name: 'etcd_operator_leader_changes_total',
      help: 'Times that the runtime has found another leader than before, in any cluster.',
      registers,
    }),
    members: new Gauge({
      name: 'etcd_operator_members',
      help: 'Members over all clusters: asked for, serving, and listed by etcd as voter or learner.',
      labelNames: ['are'] as const,
      registers,
    }),
    conditions: new Gauge({
      name: 'etcd_operator_cluster_conditions',
      help: 'Clusters by condition, its status and its reason.',
      labelNames: ['type', 'status', 'reason'] as const,
      registers,
    }),
    vetoes: new Counter({
      name: 'etcd_operator_vetoed_steps_total',
      help: 'Steps stopped by the safety check. Anything above zero is a defect to report.',
      registers,
    }),
    passSeconds: new Histogram({
      name: 'etcd_operator_pass_seconds',
      help: 'Length of a pass.',
      buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
      registers,
    }),
    clusters: new Gauge({
      name: 'etcd_operator_clusters',
      help: 'Clusters by phase.',
      labelNames: ['phase'] as const,
      registers,
    }),
    certificateExpiry: new Gauge({
      name: 'etcd_operator_certificate_expiry_timestamp_seconds',
      help: 'When a certificate in use ends, in seconds since 1970; minus time() it is how long that is yet.',
      labelNames: ['namespace', 'cluster', 'secret'] as const,
      registers,
    }),
    caChanges: new Gauge({
      name: 'etcd_operator_ca_changes',
      help: 'Clusters in which a change of a certificate authority is under way, by how far it has come.',
      labelNames: ['phase'] as const,
      registers,
    }),
    leads: new Gauge({
      name: 'etcd_operator_leads',
      help: '1 while this process holds the lease and acts.',
      registers,
    }),
    queue: new Gauge({
      name: 'etcd_operator_queue_length',
      help: 'Clusters in the work queue by state.',
      labelNames: ['state'] as const,
      registers,
    }),
    queueAge: new Gauge({
      name: 'etcd_operator_queue_oldest_seconds',
      help: 'How long the cluster at the head of the queue has been due.',
      registers,
    }),
    watchAge: new Gauge({
      name: 'etcd_operator_watch_silent_seconds',
      help: 'Time since the last byte of each watch.',
      labelNames: ['resource'] as const,
      registers,
    }),
    watchIncidents: new Counter({
      name: 'etcd_operator_watch_incidents_total',
      help: 'Lists, connects, ends and failures of watches; "missed" means a relist found what the watch had not told.',
      labelNames: ['resource', 'what'] as const,
      registers,
    }),
    requests: new Counter({
      name: 'etcd_operator_kube_requests_total',
      help: 'Requests to the API server; code 0 means no answer.',
      labelNames: ['verb', 'resource', 'code'] as const,
      registers,
    }),
    requestSeconds: new Histogram({
      name: 'etcd_operator_kube_request_seconds',
      help: 'Length of requests to the API server, watches left out.',
      labelNames: ['verb'] as const,
      buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
      registers,
    }),
    eventsDropped: new Counter({
      name: 'etcd_operator_events_dropped_total',
      help: 'Kubernetes Events that were not written.',
      registers,
    }),
  };
};

/** Of all clusters together, from what is recorded: a scrape asks nobody anything. */
export const countClusters = (metrics: Metrics, quorums: readonly EtcdQuorum[], nowMs: number): void => {
  const { clusters, conditions, changesInFlight, members, caChanges } = metrics;
  for (const gauge of [clusters, conditions, changesInFlight, members, caChanges]) gauge.reset();
  let oldest = 0;
  for (const { spec, status } of quorums) {
    clusters.inc({ phase: status?.phase ?? 'Pending' });
    for (const { type, status: value, reason } of status?.conditions ?? []) {
      conditions.inc({ type, status: value, reason });
    }
    members.inc({ are: 'asked' }, spec.replicas);
    members.inc({ are: 'serving' }, status?.readyMembers ?? 0);
    members.inc({ are: 'voters' }, status?.voters?.length ?? 0);
    members.inc({ are: 'learners' }, status?.learners?.length ?? 0);
    if (status?.caChange !== undefined) caChanges.inc({ phase: status.caChange.phase });
    const change = recordedChange(status);
    if (change === undefined) continue;
    changesInFlight.inc({ kind: change.kind });
    oldest = Math.max(oldest, (nowMs - change.since) / 1_000);
  }
  metrics.oldestChange.set(oldest);
};
