import type { Registry as RegistryType } from 'prom-client';
import Counter from 'prom-client/lib/counter.js';
import Gauge from 'prom-client/lib/gauge.js';
import Histogram from 'prom-client/lib/histogram.js';
import registerMemory from 'prom-client/lib/metrics/osMemoryHeap.js';
import registerCpu from 'prom-client/lib/metrics/processCpuTotal.js';
import registerStartTime from 'prom-client/lib/metrics/processStartTime.js';
import Registry from 'prom-client/lib/registry.js';
import type { Severity } from '../composing/exchange.ts';
import type { StepName } from '../steps.ts';
import type { Refusal } from './client-certificates.ts';

/** How a call ended: `ok`, with a FATAL result that the step chose, or by a defect. */
export type Outcome = 'ok' | 'fatal' | 'defect';

export type Metrics = {
  readonly registry: RegistryType;
  ran(step: StepName | 'none', outcome: Outcome, seconds: number): void;
  result(step: StepName | 'none', severity: Severity): void;
  refused(reason: Refusal | 'Handshake'): void;
  reloaded(outcome: 'ok' | 'failed'): void;
  /** Milliseconds since the epoch. */
  certificateEnds(at: number): void;
};

export const createMetrics = (): Metrics => {
  const registry = new Registry();
  const registers = [registry];
  for (const register of [registerCpu, registerMemory, registerStartTime]) register(registry);
  const run = new Histogram({
    name: 'function_run_seconds',
    help: 'Time to answer one RunFunction call, decoding of the request excluded.',
    labelNames: ['step', 'outcome'],
    buckets: [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 1],
    registers,
  });
  const results = new Counter({
    name: 'function_results_total',
    help: 'Results returned to Crossplane by severity.',
    labelNames: ['step', 'severity'],
    registers,
  });
  const refusals = new Counter({
    name: 'function_connections_refused_total',
    help: 'Connections refused for their client certificate, by reason.',
    labelNames: ['reason'],
    registers,
  });
  const reloads = new Counter({
    name: 'function_certificate_reloads_total',
    help: 'Reloads of the server certificate after its files changed.',
    labelNames: ['outcome'],
    registers,
  });
  const expiry = new Gauge({
    name: 'function_certificate_expiry_timestamp_seconds',
    help: 'When the server certificate ends, in seconds since the epoch.',
    registers,
  });
  return {
    registry,
    ran: (step, outcome, seconds) => run.observe({ step, outcome }, seconds),
    result: (step, severity) => results.inc({ step, severity }),
    refused: (reason) => refusals.inc({ reason }),
    reloaded: (outcome) => reloads.inc({ outcome }),
    certificateEnds: (at) => expiry.set(at / 1000),
  };
};
