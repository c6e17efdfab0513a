import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, test } from 'node:test';
import { EtcdFault, type EtcdFaultReason } from '../../ports/etcd.ts';
import { createEtcdHealthProbe, readEtcdMetrics } from './health-probe.ts';

const serving = async (listener: RequestListener, host = '127.0.0.1') => {
  const server = createServer(listener);
  server.listen(0, host);
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${port}`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise((done) => server.close(done));
    },
  };
};

const refuses = async (call: Promise<unknown>, reason: EtcdFaultReason): Promise<void> => {
  await assert.rejects(call, (fault) => {
    assert.ok(fault instanceof EtcdFault);
    assert.equal(fault.reason, reason, fault.message);
    assert.equal(fault.mayHaveHappened, false);
    return true;
  });
};

const exposition = `# HELP etcd_server_has_leader Whether or not a leader exists. 1 is existence, 0 is not.
# TYPE etcd_server_has_leader gauge
etcd_server_has_leader 1
etcd_server_is_leader 0
etcd_server_is_learner 0
etcd_cluster_version{cluster_version="3.5"} 0
etcd_cluster_version{cluster_version="3.6"} 1
etcd_server_version{server_version="3.6.16"} 1
etcd_debugging_mvcc_current_revision 1.234567e+06
etcd_server_quota_backend_bytes 8.589934592e+09
etcd_server_quota_backend_bytes_other 7
`;

describe('the metrics of a member', () => {
  test('are read by their whole names, large numbers too, and a label counts only beside a one', () => {
    assert.deepEqual(readEtcdMetrics(exposition), {
      hasLeader: true,
      isLeader: false,
      isLearner: false,
      version: '3.6.16',
      clusterVersion: '3.6',
      currentRevision: 1_234_567n,
      quotaBackendBytes: 8_589_934_592n,
    });
  });

  test('that are not there are unknown, neither zero nor false', () => {
    for (const value of Object.values(readEtcdMetrics('# nothing\n'))) assert.equal(value, undefined);
    assert.equal(readEtcdMetrics('etcd_debugging_mvcc_current_revision NaN\n').currentRevision, undefined);
  });
});

describe('the health probe', () => {
  const probe = createEtcdHealthProbe();

  test('tells ok, or the checks that failed', async () => {
    await using server = await serving((request, response) => {
      if (request.url === '/livez') response.end('ok\n');
      else {
        response.statusCode = 503;
        response.end('[+]data_corruption ok\n[-]linearizable_read failed: etcdserver: request timed out\n');
      }
    });
    assert.deepEqual(await probe.livez(server.url), { ok: true });
    assert.deepEqual(await probe.readyz(server.url), {
      ok: false,
      why: '503 [-]linearizable_read failed: etcdserver: request timed out',
    });
  });

  test('speaks to an IPv6 address', async () => {
    await using server = await serving((_, response) => response.end('ok'), '::1');
    assert.deepEqual(await probe.livez(server.url), { ok: true });
  });

  test('calls silence a timeout, before and within an answer, and ends when the caller gives up', async () => {
    await using silent = await serving(() => undefined);
    await refuses(probe.livez(silent.url, { deadlineMs: 50 }), 'Timeout');
    await using stuck = await serving((_, response) => {
      response.write('etcd_server_has_leader');
    });
    await refuses(probe.metrics(stuck.url, { deadlineMs: 50 }), 'Timeout');
    const caller = new AbortController();
    const call = probe.readyz(silent.url, { signal: caller.signal, deadlineMs: 60_000 });
    setTimeout(() => caller.abort(), 20);
    await refuses(call, 'Cancelled');
  });

  test('calls a shut port unreachable and a broken connection too', async () => {
    const shut = await serving(() => undefined);
    await shut[Symbol.asyncDispose]();
    await refuses(probe.livez(shut.url), 'Unreachable');
    await using broken = await serving((request) => request.socket.destroy());
    await refuses(probe.livez(broken.url), 'Unreachable');
  });

  test('takes no endless answer and no page of somebody else for metrics', async () => {
    await using endless = await serving((_, response) => {
      const more = () => {
        while (response.write(Buffer.alloc(256 * 1024, 'x')));
        response.once('drain', more);
      };
      more();
    });
    await refuses(probe.metrics(endless.url, { deadlineMs: 20_000 }), 'BrokenAnswer');
    await using other = await serving((_, response) => {
      response.statusCode = 404;
      response.end('not here');
    });
    await refuses(probe.metrics(other.url), 'BrokenAnswer');
  });
});
