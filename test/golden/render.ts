/** `crossplane composition render`: Crossplane's own reconciler on objects from files, calling a function of ours. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import type { Compose, Requirements } from '../../functions/composing/exchange.ts';
import { listenInsecurely } from '../../functions/server/listener.ts';
import { createMetrics } from '../../functions/server/metrics.ts';
import { createRunner } from '../../functions/server/runner.ts';
import { compose } from '../../functions/steps.ts';
import { builds, ensureBuilds, programPath } from '../cluster/builds.ts';
import { run } from '../cluster/command.ts';

const root = join(import.meta.dirname, '../..');

export type Renderer = {
  /**
   * The YAML that the CLI prints (claim, composed objects, results), with one document before it that holds what the CLI
   * does not print: the shortest TTL of the steps and the objects they asked for. Rejects on a FATAL result.
   */
  render(files: {
    claim: string;
    xrd?: string;
    observed?: string;
    required?: string;
    composition?: string;
  }): Promise<string>;
  stop(): Promise<void>;
};

/** Starts a function server of this process; builds the two Crossplane programs when they are missing. */
export const startRenderer = async (): Promise<Renderer> => {
  await ensureBuilds([builds.crossplane, builds.crossplaneCli]);
  let ttls: number[] = [];
  let requirements: Requirements = {};
  const listening: Compose = (request) => {
    const response = compose(request);
    if (response.ttlSeconds !== undefined) ttls.push(response.ttlSeconds);
    const resources = { ...requirements.resources, ...response.requirements?.resources };
    if (response.requirements !== undefined) requirements = { resources };
    return response;
  };
  const log = pino({ level: 'silent' });
  const metrics = createMetrics();
  const listener = await listenInsecurely({
    address: { host: '127.0.0.1', port: 0 },
    run: createRunner(listening, log, metrics),
    maxReceiveBytes: 16 * 1024 * 1024,
    log,
    metrics,
  });
  const scratch = await mkdtemp(join(tmpdir(), 'golden-'));
  const functions = join(scratch, 'functions.yaml');
  await writeFile(
    functions,
    `apiVersion: pkg.crossplane.io/v1
kind: Function
metadata:
  name: function-etcd
  annotations:
    render.crossplane.io/runtime: Development
    render.crossplane.io/runtime-development-target: 127.0.0.1:${listener.port}
spec:
  package: example.org/function-etcd:none
`,
  );
  return {
    render: async ({ claim, xrd, observed, required, composition }) => {
      ttls = [];
      requirements = {};
      const printed = await run(
        [
          programPath(builds.crossplaneCli, 'crossplane'),
          ...['composition', 'render', claim, composition ?? join(root, 'compositions/etcdcluster.yaml'), functions],
          ...['--crossplane-binary', programPath(builds.crossplane, 'crossplane-core')],
          ...['--xrd', xrd ?? join(root, 'xrds/etcdcluster.yaml'), '--include-function-results', '--timeout', '60s'],
          ...(observed === undefined ? [] : ['--observed-resources', observed]),
          ...(required === undefined ? [] : ['--required-resources', required]),
        ],
        { timeoutMs: 90_000 },
      );
      return `ttlSeconds: ${Math.min(...ttls)}\nrequirements: ${JSON.stringify(requirements)}\n${printed}`;
    },
    stop: async () => {
      await listener.drain(1_000);
      await rm(scratch, { recursive: true });
    },
  };
};

export const readText = (path: string): Promise<string> => readFile(path, 'utf8');
