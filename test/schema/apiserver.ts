/**
 * A throw-away etcd and kube-apiserver on loopback, for rules that only a real API server can judge. It lets everybody
 * do everything, runs no controller and forgets all on stop.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createWriteStream, rmSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { Agent, request as httpsRequest } from 'node:https';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { builds, ensureBuilds, ensureEtcd, programPath } from '../cluster/builds.ts';
import { run } from '../cluster/command.ts';
import { versions } from '../cluster/versions.ts';
import type { Definition } from './definitions.ts';

const START_DEADLINE_MS = 60_000;
const REQUEST_DEADLINE_MS = 20_000;
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** Any object of the API, or a Status. */
export interface Answer {
  /** HTTP status code. */
  code: number;
  // biome-ignore lint/suspicious/noExplicitAny: answers are looked into by tests, which fail where a field is not there
  body: any;
}

export interface ApiServer extends AsyncDisposable {
  /** Sends one request; an answer of any status code is returned, not thrown. Patches are JSON merge patches. `as` is whom to be. */
  request(method: string, path: string, body?: unknown, as?: string): Promise<Answer>;
  /** Server-side apply of an object by a field manager, taking over what others own where they conflict. */
  apply(path: string, manager: string, object: object): Promise<Answer>;
  /** Runs kubectl against the server and returns its standard output. */
  kubectl(...args: string[]): Promise<string>;
  /** Creates CustomResourceDefinitions and returns once all are Established. Throws with the server's words if one is refused. */
  define(...definitions: Definition[]): Promise<void>;
  /** Returns once the schemas below a path such as `/apis/GROUP/VERSION` are in OpenAPI, which comes a moment after Established. */
  published(path: string): Promise<void>;
}

const freePorts = async (count: number): Promise<number[]> => {
  // All are held before any is let go, so that none is given twice.
  const servers = Array.from({ length: count }, () => createServer().listen(0, '127.0.0.1'));
  const ports: number[] = [];
  for (const server of servers) {
    if (!server.listening) await once(server, 'listening');
    const address = server.address();
    if (address === null || typeof address === 'string') throw new Error('no port for a loopback listener');
    ports.push(address.port);
  }
  for (const server of servers) {
    server.close();
    await once(server, 'close');
  }
  return ports;
};

const start = (folder: string, name: string, program: string, args: string[]): ChildProcess => {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  const log = createWriteStream(join(folder, `${name}.log`));
  child.stdout.pipe(log, { end: false });
  child.stderr.pipe(log, { end: false });
  return child;
};

/** Starts both processes and returns when the API server is ready. Throws with the last lines of the log if one of them ends. */
export const startApiServer = async (): Promise<ApiServer> => {
  const etcdProgram = await ensureEtcd(versions.etcd);
  await ensureBuilds([builds.kubernetes]);
  const folder = await mkdtemp(join(tmpdir(), 'etcd-operator-schema-'));
  const [client = 0, peer = 0, secure = 0] = await freePorts(3);
  const children: ChildProcess[] = [];

  const stop = async (): Promise<void> => {
    for (const child of children) {
      if (child.exitCode !== null || child.signalCode !== null) continue;
      const ended = once(child, 'exit');
      // kube-apiserver takes a minute to end by SIGTERM, and nothing here is worth keeping.
      child.kill('SIGKILL');
      await ended;
    }
    process.off('exit', abandon);
    for (const signal of SIGNALS) process.off(signal, interrupted);
    agent.destroy();
    await rm(folder, { recursive: true, force: true });
  };
  const abandon = (): void => {
    for (const child of children) child.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  };
  // An interrupted run would otherwise leave both processes to the machine.
  const interrupted = (): never => process.exit(1);
  for (const signal of SIGNALS) process.on(signal, interrupted);
  process.on('exit', abandon);
  let agent = new Agent({ keepAlive: true });

  try {
    const certificates = join(folder, 'certificates');
    await mkdir(certificates);
    const key = join(folder, 'service-accounts.pem');
    const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    await writeFile(key, privateKey.export({ type: 'sec1', format: 'pem' }));

    // Beside AlwaysAllow the server takes no anonymous requests.
    const tokens = join(folder, 'tokens.csv');
    const token = randomUUID();
    await writeFile(tokens, `${token},admin,admin,system:masters\n`, { mode: 0o600 });

    children.push(
      start(folder, 'etcd', etcdProgram, [
        `--data-dir=${join(folder, 'etcd')}`,
        '--unsafe-no-fsync',
        `--listen-client-urls=http://127.0.0.1:${client}`,
        `--advertise-client-urls=http://127.0.0.1:${client}`,
        `--listen-peer-urls=http://127.0.0.1:${peer}`,
        `--initial-advertise-peer-urls=http://127.0.0.1:${peer}`,
        `--initial-cluster=default=http://127.0.0.1:${peer}`,
      ]),
      start(folder, 'kube-apiserver', programPath(builds.kubernetes, 'kube-apiserver'), [
        `--etcd-servers=http://127.0.0.1:${client}`,
        '--bind-address=127.0.0.1',
        `--secure-port=${secure}`,
        `--cert-dir=${certificates}`,
        '--authorization-mode=AlwaysAllow',
        `--token-auth-file=${tokens}`,
        '--disable-admission-plugins=ServiceAccount',
        '--service-cluster-ip-range=10.96.0.0/16',
        '--service-account-issuer=https://127.0.0.1',
        `--service-account-key-file=${key}`,
        `--service-account-signing-key-file=${key}`,
      ]),
    );

    const authorization = `Bearer ${token}`;
    const send = (
      method: string,
      path: string,
      body?: unknown,
      patch = 'merge-patch+json',
      as?: string,
    ): Promise<Answer> =>
      new Promise((resolve, reject) => {
        const text = body === undefined ? undefined : JSON.stringify(body);
        const type = method === 'PATCH' ? `application/${patch}` : 'application/json';
        const outgoing = httpsRequest(
          {
            agent,
            host: '127.0.0.1',
            port: secure,
            method,
            path,
            headers: {
              authorization,
              ...(as === undefined ? {} : { 'impersonate-user': as }),
              ...(text === undefined ? {} : { 'content-type': type, 'content-length': Buffer.byteLength(text) }),
            },
            signal: AbortSignal.timeout(REQUEST_DEADLINE_MS),
          },
          (incoming) => {
            const chunks: Buffer[] = [];
            incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
            incoming.on('error', reject);
            incoming.on('end', () => {
              const answer = Buffer.concat(chunks).toString();
              const json = incoming.headers['content-type']?.includes('json') ?? false;
              resolve({ code: incoming.statusCode ?? 0, body: json ? JSON.parse(answer) : answer });
            });
          },
        );
        outgoing.on('error', reject);
        outgoing.end(text);
      });

    const deadline = performance.now() + START_DEADLINE_MS;
    const certificate = join(certificates, 'apiserver.crt');
    for (let ready = false; !ready; ) {
      const late = performance.now() > deadline;
      for (const [index, name] of ['etcd', 'kube-apiserver'].entries()) {
        const child = children[index];
        const ended = child !== undefined && (child.exitCode !== null || child.signalCode !== null);
        if (!ended && !(late && name === 'kube-apiserver')) continue;
        const log = (await readFile(join(folder, `${name}.log`), 'utf8')).trimEnd().split('\n').slice(-8).join('\n');
        throw new Error(`${name} ${ended ? 'ended' : 'was not ready in a minute'}:\n${log}`);
      }
      const ca = await readFile(certificate, 'utf8').catch(() => undefined);
      if (ca !== undefined && ca !== '') {
        agent.destroy();
        agent = new Agent({ keepAlive: true, ca });
        ready = await send('GET', '/readyz').then(
          (answer) => answer.code === 200,
          () => false,
        );
      }
      if (!ready) await pause(50);
    }

    const kubeconfig = join(folder, 'kubeconfig');
    await writeFile(
      kubeconfig,
      JSON.stringify({
        apiVersion: 'v1',
        kind: 'Config',
        clusters: [
          { name: 'schema', cluster: { server: `https://127.0.0.1:${secure}`, 'certificate-authority': certificate } },
        ],
        users: [{ name: 'admin', user: { token } }],
        contexts: [{ name: 'schema', context: { cluster: 'schema', user: 'admin' } }],
        'current-context': 'schema',
      }),
    );

    /** Follows one CustomResourceDefinition until it is Established. */
    const established = async (name: string): Promise<void> => {
      const outgoing = httpsRequest({
        agent,
        host: '127.0.0.1',
        port: secure,
        path: `/apis/apiextensions.k8s.io/v1/customresourcedefinitions?watch=true&fieldSelector=metadata.name%3D${name}`,
        headers: { authorization },
        signal: AbortSignal.timeout(REQUEST_DEADLINE_MS),
      }).end();
      let last = 'no condition yet';
      try {
        const [incoming] = (await once(outgoing, 'response')) as [IncomingMessage];
        let rest = '';
        for await (const chunk of incoming) {
          const lines = (rest + String(chunk)).split('\n');
          rest = lines.pop() ?? '';
          for (const line of lines) {
            const conditions: { type: string; status: string; message: string }[] =
              JSON.parse(line).object?.status?.conditions ?? [];
            if (conditions.some((found) => found.type === 'Established' && found.status === 'True')) return;
            last = conditions.map((found) => `${found.type}=${found.status} ${found.message}`).join('; ') || last;
          }
        }
        throw new Error('the watch ended');
      } catch (error) {
        throw new Error(`${name} is not Established: ${last}`, { cause: error });
      } finally {
        outgoing.destroy();
      }
    };

    return {
      request: (method, path, body, as) => send(method, path, body, undefined, as),
      apply: (path, manager, object) =>
        send('PATCH', `${path}?fieldManager=${manager}&force=true`, object, 'apply-patch+yaml'),
      kubectl: (...args) =>
        run([
          programPath(builds.kubernetes, 'kubectl'),
          `--kubeconfig=${kubeconfig}`,
          `--cache-dir=${folder}/cache`,
          ...args,
        ]),
      define: async (...definitions) => {
        for (const definition of definitions) {
          const answer = await send(
            'POST',
            '/apis/apiextensions.k8s.io/v1/customresourcedefinitions?fieldValidation=Strict',
            definition,
          );
          if (answer.code !== 201)
            throw new Error(`${definition.metadata.name}: ${answer.body?.message ?? answer.body}`);
        }
        await Promise.all(definitions.map((definition) => established(definition.metadata.name)));
      },
      published: async (path) => {
        const until = performance.now() + REQUEST_DEADLINE_MS;
        while ((await send('GET', `/openapi/v3${path}`)).code !== 200) {
          if (performance.now() > until) throw new Error(`${path} is not in OpenAPI`);
          await pause(50);
        }
      },
      [Symbol.asyncDispose]: stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
};
