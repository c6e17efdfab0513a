/** The runtime's own metrics. Labels are closed sets: no cluster, member or message ever becomes a label value. */
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';

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
      help: 'Steps taken by kind and outcome.',
      labelNames: ['step', 'outcome'] as const,
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
