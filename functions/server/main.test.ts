import assert from 'node:assert/strict';
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { crossplaneAuthority, functionServer } from './certificates.fixture.ts';

const main = join(import.meta.dirname, 'main.ts');
const ANYWHERE = ['--address=127.0.0.1:0', '--health-address=127.0.0.1:0', '--metrics-address=127.0.0.1:0'];

const run = (args: string[], environment: NodeJS.ProcessEnv = {}): ChildProcessWithoutNullStreams => {
  const { TLS_SERVER_CERTS_DIR: _, ...inherited } = process.env;
  return spawn(process.execPath, [main, ...args], { env: { ...inherited, ...environment }, stdio: 'pipe' });
};

const ended = async (
  child: ChildProcessWithoutNullStreams,
): Promise<{ code: number | null; out: string; err: string }> => {
  const [out, err] = [text(child.stdout), text(child.stderr)];
  const [code] = (await once(child, 'close', { signal: AbortSignal.timeout(20_000) })) as [number | null];
  return { code, out: await out, err: await err };
};

type Line = { msg: string; healthPort: number; metricsPort: number; port: number; clientCertificates: string };

/** The line in which it says where it listens. */
const started = async (child: ChildProcessWithoutNullStreams): Promise<Line> => {
  let written = '';
  for await (const chunk of child.stdout.iterator({ destroyOnReturn: false })) {
    written += String(chunk);
    const line = written.split('\n').find((each) => each.includes('"serving functions'));
    if (line !== undefined && written.endsWith('\n')) return JSON.parse(line) as Line;
  }
  throw new Error(`it ended before it served: ${written}`);
};

const certificateDirectory = async (): Promise<string> => {
  const directory = await mkdtemp(join(tmpdir(), 'function-main-'));
  const ca = crossplaneAuthority();
  const server = functionServer(ca);
  await writeFile(join(directory, 'ca.crt'), ca.certificate);
  await writeFile(join(directory, 'tls.crt'), server.certificate);
  await writeFile(join(directory, 'tls.key'), server.key);
  return directory;
};

test('without a certificate directory it refuses to start and says how to give one, never silently insecure', async () => {
  const { code, err } = await ended(run(ANYWHERE));
  assert.equal(code, 2);
  assert.match(err, /no certificates: give --tls-certs-dir or TLS_SERVER_CERTS_DIR/);
});

test('with a directory that is not there it ends with 1 and names the file', async () => {
  const { code, out } = await ended(run([...ANYWHERE, '--tls-certs-dir=/does/not/exist']));
  assert.equal(code, 1);
  assert.match(out, /cannot serve functions on 127\.0\.0\.1:0: .*\/does\/not\/exist\/ca\.crt/);
});

for (const flag of ['--address', '--health-address', '--metrics-address']) {
  test(`when the address of ${flag} is taken it ends with 1 and a line that says so`, async () => {
    const taken = createServer().listen(0, '127.0.0.1');
    await once(taken, 'listening');
    const { port } = taken.address() as AddressInfo;
    const { code, out } = await ended(run(['--insecure', ...ANYWHERE, `${flag}=127.0.0.1:${port}`]));
    taken.close();
    assert.equal(code, 1);
    assert.match(out, new RegExp(`cannot serve [a-z]+ on 127\\.0\\.0\\.1:${port}`));
  });
}

for (const [how, args, environment] of [
  ['--tls-certs-dir', (directory: string) => ['--tls-certs-dir', directory], () => ({})],
  ['--tls-server-certs-dir', (directory: string) => [`--tls-server-certs-dir=${directory}`], () => ({})],
  ['TLS_SERVER_CERTS_DIR', () => [], (directory: string) => ({ TLS_SERVER_CERTS_DIR: directory })],
] as const) {
  test(`certificates named by ${how} are used, client certificates are required, and SIGTERM ends it with 0`, async () => {
    const directory = await certificateDirectory();
    const child = run([...ANYWHERE, ...args(directory)], environment(directory));
    const line = await started(child);
    assert.equal(line.clientCertificates, 'required');
    const ready = await fetch(`http://127.0.0.1:${line.healthPort}/readyz`);
    assert.equal(ready.status, 200);
    assert.equal((await fetch(`http://127.0.0.1:${line.healthPort}/healthz`)).status, 200);
    assert.match(await (await fetch(`http://127.0.0.1:${line.metricsPort}/metrics`)).text(), /function_run_seconds/);
    const end = ended(child);
    child.kill('SIGTERM');
    assert.equal((await end).code, 0);
    await rm(directory, { recursive: true });
  });
}

test('lingering, it is not ready and still answers, because others take its place only later; a second signal cuts it short', async () => {
  const child = run(['--insecure', ...ANYWHERE, '--linger-seconds=600']);
  const line = await started(child);
  const end = ended(child);
  child.kill('SIGTERM');
  const health = `http://127.0.0.1:${line.healthPort}/readyz`;
  for (;;) {
    const answer = await fetch(health, { signal: AbortSignal.timeout(5_000) });
    if (answer.status === 503) {
      assert.equal(await answer.text(), 'stopping\n');
      break;
    }
  }
  const session = connect(`http://127.0.0.1:${line.port}`);
  await once(session, 'remoteSettings', { signal: AbortSignal.timeout(5_000) });
  session.close();
  child.kill('SIGTERM');
  assert.equal((await end).code, 0);
});

test('a wrong flag or value ends it with 2 and the usage', async () => {
  for (const [args, message] of [
    [['--insecure', '--adress=:1'], /--adress/],
    [['--insecure', '--address=9443'], /--address is "9443"; write it as host:port/],
    [['--insecure', '--max-recv-message-size=0'], /--max-recv-message-size is "0"/],
  ] as const) {
    const { code, err } = await ended(run([...args]));
    assert.equal(code, 2);
    assert.match(err, message);
    assert.match(err, /--tls-certs-dir/);
  }
});
