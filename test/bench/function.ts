/**
 * What the function costs, measured as Crossplane meets it: the bundle that goes into the image, started as a process of
 * its own, called over mTLS with the requests of a settled cluster of seven members.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client, credentials, Metadata } from '@grpc/grpc-js';
import protobuf from 'protobufjs';
import { parse } from 'yaml';
import { API_VERSION } from '../../api/names.ts';
import { bundle, bundleEntry, programs, root } from '../../deploy/bundle.ts';
import { INPUT_API_VERSION } from '../../functions/composing/step-input.ts';
import { crossplaneAuthority, crossplaneClient, functionServer } from '../../functions/server/certificates.fixture.ts';
import { compose, type StepName, stepNames } from '../../functions/steps.ts';

export type Measurement = {
  readonly what: string;
  readonly value: number;
  readonly unit: string;
  /** At most this. */
  readonly budget?: number;
  readonly atLeast?: number;
};

const MEMBERS = 7;
const CALLS = 2_000;
const STARTS = 5;

/** Takes about ten seconds. Rejects when the server does not start or refuses a call. */
export const benchFunction = async (): Promise<Measurement[]> => {
  const scratch = await mkdtemp(join(tmpdir(), 'bench-function-'));
  try {
    const entry = join(await bundle(programs.function, scratch), bundleEntry);
    const authority = crossplaneAuthority();
    const server = functionServer(authority);
    const files = { 'ca.crt': authority.certificate, 'tls.crt': server.certificate, 'tls.key': server.key };
    for (const [name, text] of Object.entries(files)) await writeFile(join(scratch, name), text);

    const starts: number[] = [];
    for (let start = 0; start < STARTS; start++) {
      await using process = await startServer(entry, scratch);
      starts.push(process.startMs);
    }

    await using process = await startServer(entry, scratch);
    const client = new Client(
      `localhost:${process.port}`,
      credentials.createSsl(
        Buffer.from(authority.certificate),
        ...(({ key, certificate }) => [Buffer.from(key), Buffer.from(certificate)] as const)(
          crossplaneClient(authority),
        ),
      ),
      { 'grpc.max_receive_message_length': -1 },
    );
    const idle = await memoryOf(process.pid);
    const requests = await settledRequests();
    const sizes = Object.fromEntries([...requests].map(([step, bytes]) => [step, bytes.length]));
    const times = new Map<StepName, number[]>(stepNames.map((step) => [step, []]));
    let processorBefore = 0;
    // The first calls of a process are compiled while they run, and a function serves for weeks.
    for (let call = -200; call < CALLS; call++) {
      if (call === 0) processorBefore = await processorMs(process.pid);
      for (const step of stepNames) {
        const started = performance.now();
        await callOnce(client, requests.get(step) ?? Buffer.alloc(0));
        if (call >= 0) times.get(step)?.push(performance.now() - started);
      }
    }
    const processor = (await processorMs(process.pid)) - processorBefore;
    // The same bytes to a method that is not there: what transport and the other work of the machine take by themselves.
    const control: number[] = [];
    for (let call = 0; call < CALLS; call++) {
      const started = performance.now();
      await callOnce(client, requests.get('Members') ?? Buffer.alloc(0), 'Nothing').catch(() => {});
      control.push(performance.now() - started);
    }
    client.close();
    const after = await memoryOf(process.pid);
    return [
      ...stepNames.flatMap((step): Measurement[] => [
        {
          what: `RunFunction ${step}, ${MEMBERS} members, ${kib(sizes[step])}, p50`,
          value: quantile(times.get(step), 0.5),
          unit: 'ms',
        },
        {
          what: `RunFunction ${step}, ${MEMBERS} members, p99`,
          value: quantile(times.get(step), 0.99),
          unit: 'ms',
          budget: 5,
        },
      ]),
      { what: 'the same request to a method that is not there, p50', value: quantile(control, 0.5), unit: 'ms' },
      { what: 'the same request to a method that is not there, p99', value: quantile(control, 0.99), unit: 'ms' },
      // Unlike the times above, not moved by whatever else the machine does.
      { what: 'processor time per call, server side', value: processor / (CALLS * stepNames.length), unit: 'ms' },
      { what: 'resident memory once started', value: idle.resident, unit: 'MB', budget: 80 },
      {
        what: `resident memory after ${CALLS * stepNames.length} calls without a pause`,
        value: after.resident,
        unit: 'MB',
        budget: 80,
      },
      { what: 'of that its own, the rest being pages of the node program', value: after.own, unit: 'MB' },
      { what: `start to serving, median of ${STARTS}`, value: quantile(starts, 0.5), unit: 'ms', budget: 300 },
    ];
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
};

/** Megabytes; not a number where there is no /proc. */
const memoryOf = async (pid: number): Promise<{ resident: number; own: number }> => {
  const text = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
  const read = (name: string): number =>
    Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(text)?.[1] ?? Number.NaN) / 1024;
  return { resident: read('VmRSS'), own: read('RssAnon') };
};

/** Milliseconds of processor time that the process has used; Linux counts them in hundredths of a second. */
const processorMs = async (pid: number): Promise<number> => {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) * 10;
};

const kib = (bytes = 0): string => `${Math.round(bytes / 1024)} KiB`;

const quantile = (values: readonly number[] = [], at: number): number =>
  values.toSorted((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * at))] ?? Number.NaN;

const startServer = async (entry: string, certificates: string) => {
  const started = performance.now();
  const anywhere = ['--address=127.0.0.1:0', '--health-address=127.0.0.1:0', '--metrics-address=127.0.0.1:0'];
  const config = parse(await readFile(join(root, 'deploy/crossplane/runtime-config.yaml'), 'utf8'));
  const environment: { name: string; value: string }[] =
    config.spec.deploymentTemplate.spec.template.spec.containers[0].env;
  const child = spawn(
    process.execPath,
    [...programs.function.flags, entry, ...anywhere, '--tls-certs-dir', certificates],
    {
      stdio: ['ignore', 'pipe', 'inherit'],
      // As Crossplane runs it.
      env: { ...process.env, ...Object.fromEntries(environment.map(({ name, value }) => [name, value])) },
    },
  );
  let port: number | undefined;
  for await (const chunk of child.stdout.iterator({ destroyOnReturn: false })) {
    port = Number(/"port":(\d+),.*"serving functions"/.exec(String(chunk))?.[1]);
    if (port > 0) break;
  }
  if (port === undefined || child.pid === undefined) throw new Error('the function server ended before it served');
  const startMs = performance.now() - started;
  child.stdout.resume();
  return {
    port,
    pid: child.pid,
    startMs,
    [Symbol.asyncDispose]: async () => {
      const ended = once(child, 'close', { signal: AbortSignal.timeout(15_000) });
      child.kill('SIGTERM');
      await ended;
    },
  };
};

const callOnce = (client: Client, request: Buffer, method = 'RunFunction'): Promise<Buffer> =>
  new Promise((resolve, reject) => {
    client.makeUnaryRequest(
      `/apiextensions.fn.proto.v1.FunctionRunnerService/${method}`,
      (bytes: Buffer) => bytes,
      (bytes: Buffer) => bytes,
      request,
      new Metadata(),
      { deadline: Date.now() + 10_000 },
      (error, answer) => (error === null ? resolve(answer ?? Buffer.alloc(0)) : reject(error)),
    );
  });

type Json = { [key: string]: unknown };

/** As an API server returns an object: with who owns each field, which is half of its size. */
const asStored = (object: Json, key: string, ordinal: number): Json => {
  const { metadata, spec } = object as { metadata: Json; spec: unknown };
  const fields = (value: unknown): Json =>
    typeof value === 'object' && value !== null && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).map(([name, each]) => [`f:${name}`, fields(each)]))
      : {};
  return {
    ...object,
    metadata: {
      ...metadata,
      uid: `00000000-0000-4000-8000-00000000000${ordinal}`,
      resourceVersion: '123456',
      generation: 2,
      creationTimestamp: '2026-01-01T00:00:00Z',
      finalizers: ['etcd-operator.cozystack.io/member'],
      annotations: { 'crossplane.io/composition-resource-name': key },
      managedFields: [
        {
          manager: 'apiextensions.crossplane.io/composed/4f4d2b1a',
          operation: 'Apply',
          apiVersion: API_VERSION,
          fieldsType: 'FieldsV1',
          fieldsV1: { 'f:metadata': fields(metadata), 'f:spec': fields(spec) },
        },
      ],
    },
    status: {
      phase: 'Voter',
      memberID: '8e9e05c52164694d',
      clusterID: 'ef37ad9dc622a7c4',
      clusterUID: 'u',
      podName: `demo-${ordinal}-x7k2q`,
      conditions: ['Ready', 'Synced'].map((type) => ({ type, status: 'True', reason: 'Serving', message: '' })),
    },
  };
};

/** One request per step, as bytes: what Crossplane sends each time for a settled cluster. */
const settledRequests = async (): Promise<Map<StepName, Buffer>> => {
  const description = await protobuf.load(join(import.meta.dirname, '../../functions/server/run_function.proto'));
  const type = description.lookupType('apiextensions.fn.proto.v1.RunFunctionRequest');
  const toValue = (json: unknown): Json =>
    json === null
      ? { nullValue: 0 }
      : typeof json === 'number'
        ? { numberValue: json }
        : typeof json === 'string'
          ? { stringValue: json }
          : typeof json === 'boolean'
            ? { boolValue: json }
            : Array.isArray(json)
              ? { listValue: { values: json.map(toValue) } }
              : { structValue: toStruct(json as object) };
  const toStruct = (json: object): Json => ({
    fields: Object.fromEntries(Object.entries(json).map(([key, value]) => [key, toValue(value)])),
  });

  const claim = {
    apiVersion: API_VERSION,
    kind: 'EtcdCluster',
    metadata: { name: 'demo', namespace: 'team-a', uid: 'u', generation: 3 },
    spec: { version: '3.6.16', replicas: MEMBERS },
  };
  const input = (kind: StepName): Json => ({ apiVersion: INPUT_API_VERSION, kind });
  let desired = {};
  for (const kind of stepNames) {
    const response = compose({ input: input(kind), observed: { composite: { resource: claim } }, desired });
    desired = response.desired ?? {};
  }
  const rendered = Object.entries((desired as { resources: Record<string, { resource: Json }> }).resources);
  const stored = rendered.map(([key, { resource }], index): [string, Json] => [key, asStored(resource, key, index)]);
  const wire = (resources: [string, Json][]): Json =>
    Object.fromEntries(resources.map(([key, resource]) => [key, { resource: toStruct(resource) }]));

  return new Map(
    stepNames.map((kind) => [
      kind,
      Buffer.from(
        type
          .encode(
            type.fromObject({
              meta: { tag: 'a'.repeat(64) },
              input: toStruct(input(kind)),
              observed: { composite: { resource: toStruct(claim) }, resources: wire(stored) },
              desired:
                kind === 'Members' ? {} : { resources: wire(rendered.map(([key, { resource }]) => [key, resource])) },
              requiredResources:
                kind === 'Members'
                  ? {
                      members: {
                        items: stored
                          .filter(([key]) => key.startsWith('member-'))
                          .map(([, resource]) => ({ resource: toStruct(resource) })),
                      },
                    }
                  : {},
            }),
          )
          .finish(),
      ),
    ]),
  );
};

if (import.meta.main) {
  for (const { what, value, unit, budget } of await benchFunction()) {
    console.log(
      `${value.toFixed(2).padStart(9)} ${unit.padEnd(2)}  ${what}${budget === undefined ? '' : ` (budget ${budget} ${unit})`}`,
    );
  }
}
