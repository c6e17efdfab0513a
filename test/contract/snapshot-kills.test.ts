/**
 * The agent of a snapshot, real etcd and a real S3 server, ended at moments that nobody chose. What counts afterwards: every
 * manifest speaks of a database that is there and whole, nothing else is taken for a snapshot, and the next try ends well.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { askProgress } from '../../runtime/adapters/agent-progress.ts';
import { createS3Store } from '../../runtime/adapters/s3/s3-store.ts';
import { applyRetention } from '../../runtime/agent/apply-retention.ts';
import { fetchSnapshot } from '../../runtime/agent/fetch-snapshot.ts';
import { readManifest } from '../../runtime/agent/take-snapshot.ts';
import { HOPELESS } from '../../runtime/core/snapshots/agent-job.ts';
import { artifactKey, keyOfManifest, manifestKey } from '../../runtime/core/snapshots/manifest.ts';
import type { SnapshotAgentOrder } from '../../runtime/core/snapshots/snapshot-job.ts';
import { eventually, notYet } from '../e2e/eventually.ts';
import { freePorts } from './etcd-process.ts';
import { realEtcd } from './etcd-real.ts';
import { type FaultProxy, faultProxy } from './s3-fault-proxy.ts';
import { s3Server } from './s3-process.ts';
import { type AgentEnd, snapshotAgent } from './snapshot-agent.ts';

const MIB = 1024 * 1024;
const VERSION = '3.6.16';
const bucket = 'kills';

const s3 = await s3Server();
const proxy = await faultProxy(s3.url);
const destination = { ...(await s3.bucket(bucket)), endpoint: proxy.url };
const lab = await realEtcd(VERSION).open();
const work = await mkdtemp(join(tmpdir(), 'snapshot-kills-'));
after(async () => {
  await lab[Symbol.asyncDispose]();
  await proxy[Symbol.asyncDispose]();
  await s3[Symbol.asyncDispose]();
  await rm(work, { recursive: true, force: true });
});

const place = await lab.place('m0');
await lab.run(place, { initialCluster: [place], state: 'new', token: 't' });
const client = lab.clients.at({ url: place.clientURL });
const status = await (async () => {
  for (;;) {
    const now = await client.status().catch(() => undefined);
    if (now?.leaderId !== undefined) return now;
    await pause(50);
  }
})();
// More than one part, so that a snapshot has a middle.
for (let key = 0; key < 9; key += 1) await client.put(`key-${key}`, randomBytes(MIB).toString('base64'));

const cluster = { namespace: 'shop', name: 'orders', uid: 'c1', clusterID: status.clusterId };
type Order = Omit<SnapshotAgentOrder, 'destination'>;
const orderOf = (name: string): Order => ({
  snapshot: { name, uid: `${name}-0000-uid` },
  cluster,
  members: [{ member: 'orders-0', url: place.clientURL }],
});
const keyFor = (name: string): string =>
  artifactKey(undefined, { ...cluster, cluster: cluster.name, snapshot: name, snapshotUID: `${name}-0000-uid` });

/** Restores all that counts, and answers with the keys of what does. */
const everythingThatCounts = async (): Promise<string[]> => {
  const store = createS3Store({ ...destination, endpoint: s3.url });
  try {
    const counting: string[] = [];
    for await (const { key: listed } of store.list('')) {
      const key = keyOfManifest(listed);
      if (key === undefined) continue;
      const { sha256, sizeBytes } = await readManifest(store, key);
      const order = { source: { s3: { endpoint: s3.url, bucket, key } }, version: VERSION };
      const fetched = await fetchSnapshot(order, store, join(work, 'restored'));
      assert.deepEqual([fetched.sha256, String(fetched.snapshotBytes)], [sha256, sizeBytes], key);
      counting.push(key);
    }
    return counting;
  } finally {
    store.close();
  }
};
const partsOf = async (key: string): Promise<number> =>
  (await s3.contents(bucket)).uploads.filter((one) => one === key).length;
/** A try in which nothing is in the way. */
const undisturbed = async (name: string, change: Partial<Order> = {}): Promise<AgentEnd> => {
  proxy.rule = () => undefined;
  await proxy.up().catch(() => undefined);
  return (await snapshotAgent({ ...orderOf(name), ...change }, destination)).ended;
};
const whole = (end: AgentEnd): void => assert.ok(end.report?.done === true && end.code === 0, end.output);
/** Resolves when a request of this kind comes, which then stays unanswered for a while. */
const whenAsked = (wanted: Parameters<FaultProxy['rule']>[0]['operation']): Promise<void> =>
  new Promise((resolve) => {
    proxy.rule = ({ operation }) => {
      if (operation === wanted) resolve();
      return operation === wanted ? { bytesPerSecond: MIB } : undefined;
    };
  });

describe('a snapshot whose agent', () => {
  for (const moment of ['CreateUpload', 'UploadPart', 'CompleteUpload', 'PutObject'] as const) {
    test(`is killed at its ${moment} counts for nothing, and the next try stores it and leaves no parts`, async () => {
      const name = `killed-at-${moment.toLowerCase()}`;
      const met = whenAsked(moment);
      const agent = await snapshotAgent(orderOf(name), destination);
      await met;
      agent.kill('SIGKILL');
      const { report, signal } = await agent.ended;
      assert.deepEqual([report, signal], [undefined, 'SIGKILL']);
      // What the server had heard whole may still be done: then it is a snapshot, and a good one.
      const before = await everythingThatCounts();
      assert.ok(moment === 'PutObject' || !before.includes(keyFor(name)), 'half of it is nothing');
      whole(await undisturbed(name));
      assert.ok((await everythingThatCounts()).includes(keyFor(name)));
      assert.equal(await partsOf(keyFor(name)), 0);
    });
  }

  test('is killed again and again at random moments ends well in the end, and harms no other', async (t) => {
    whole(await undisturbed('other'));
    const store = createS3Store({ ...destination, endpoint: s3.url });
    const untouched = await store.find(keyFor('other'));
    proxy.rule = ({ operation }) => (operation === 'UploadPart' ? { bytesPerSecond: 8 * MIB } : undefined);
    for (let round = 0; round < 3; round += 1) {
      const agent = await snapshotAgent(orderOf('often'), destination);
      const after = 200 + Math.random() * 1_500;
      await Promise.race([pause(after), agent.ended]);
      agent.kill('SIGKILL');
      await agent.ended;
      t.diagnostic(`killed after ${Math.round(after)} ms, then there are ${(await everythingThatCounts()).length}`);
    }
    whole(await undisturbed('often'));
    assert.ok((await everythingThatCounts()).includes(keyFor('often')));
    assert.equal(await partsOf(keyFor('often')), 0);
    assert.deepEqual(await store.find(keyFor('other')), untouched);
    store.close();
  });

  test('is asked to end tells so within its grace, and leaves no parts', async () => {
    proxy.rule = ({ operation }) => (operation === 'UploadPart' ? { stallAfter: 0 } : undefined);
    const asked = new Promise<void>((resolve) => {
      const stalling = proxy.rule;
      proxy.rule = (what) => {
        if (what.operation === 'UploadPart') resolve();
        return stalling(what);
      };
    });
    const agent = await snapshotAgent(orderOf('asked'), destination);
    await asked;
    agent.kill('SIGTERM');
    const began = performance.now();
    const { code, report, output } = await agent.ended;
    assert.ok(performance.now() - began < 25_000, 'a Pod has thirty seconds');
    assert.ok(report?.done === false && /its Pod was ended/.test(report.message), output);
    assert.equal(code, 1, 'another try may do it');
    proxy.rule = () => undefined;
    assert.equal(await partsOf(keyFor('asked')), 0);
    assert.ok(!(await everythingThatCounts()).includes(keyFor('asked')));
  });
});

test('retention counts no half of a snapshot as the one that may stay alone', async () => {
  const schedule = { name: 'nightly', retention: { keepLast: 1 } };
  whole(await undisturbed('night-1', { schedule }));
  const met = whenAsked('CompleteUpload');
  const agent = await snapshotAgent({ ...orderOf('night-2'), schedule }, destination);
  await met;
  agent.kill('SIGKILL');
  await agent.ended;
  const store = createS3Store({ ...destination, endpoint: s3.url });
  const order = { schedule: 'nightly', clusterUID: 'c1', namespace: 'shop', cluster: 'orders', prefix: undefined };
  const between = await applyRetention({ ...order, rules: { keepLast: 1 } }, store, Date.now());
  assert.deepEqual([between.removed, between.count], [[], 1]);
  const { report } = await undisturbed('night-3', { schedule });
  assert.ok(report?.done === true);
  assert.deepEqual(report.retention?.removed, ['night-1']);
  const counting = await everythingThatCounts();
  assert.deepEqual(
    ['night-1', 'night-2', 'night-3'].map((name) => counting.includes(keyFor(name))),
    [false, false, true],
  );
  store.close();
});

test('a snapshot that runs tells how far it is and how fast', async () => {
  const [port = 0] = await freePorts(1);
  proxy.rule = ({ operation }) => (operation === 'UploadPart' ? { bytesPerSecond: 2 * MIB } : undefined);
  const agent = await snapshotAgent(orderOf('slow'), destination, port);
  const told = await eventually('it tells', async () => {
    const progress = await askProgress(`http://127.0.0.1:${port}/progress`, AbortSignal.timeout(5_000));
    return progress !== undefined && progress.bytes > 0n ? progress : notYet('no byte');
  });
  assert.ok(told.expected > 8n * BigInt(MIB), `${told.expected}`);
  assert.ok((told.bytesPerSecond ?? 0n) > 0n, `${told.bytesPerSecond}`);
  proxy.rule = () => undefined;
  whole(await agent.ended);
});

describe('a snapshot whose server', () => {
  test('is killed in its middle and comes back goes on, or fails with a reason and ends well in the next try', async () => {
    const met = whenAsked('UploadPart');
    const agent = await snapshotAgent(orderOf('restarted'), destination);
    await met;
    await s3.kill();
    proxy.rule = () => undefined;
    await s3.start();
    const first = await agent.ended;
    if (first.report?.done !== true) {
      assert.ok(
        first.report !== undefined && ['Unreachable', 'Unavailable'].includes(first.report.reason),
        first.output,
      );
      whole(await undisturbed('restarted'));
    }
    assert.ok((await everythingThatCounts()).includes(keyFor('restarted')));
    assert.equal(await partsOf(keyFor('restarted')), 0);
  });

  test('refuses for good is not asked again by the same Job', async () => {
    proxy.rule = ({ operation }) => (operation === 'UploadPart' ? { answer: 403, code: 'AccessDenied' } : undefined);
    const { code, report } = await (await snapshotAgent(orderOf('denied'), destination)).ended;
    assert.equal(code, HOPELESS);
    assert.ok(report?.done === false && report.reason === 'AccessDenied', JSON.stringify(report));
    proxy.rule = () => undefined;
    assert.equal(await partsOf(keyFor('denied')), 0);
  });
});

describe('a stored snapshot', () => {
  const stored = createS3Store({ ...destination, endpoint: s3.url });
  after(() => stored.close());
  const refused = async (name: string, words: RegExp): Promise<void> => {
    const order = { source: { s3: { endpoint: s3.url, bucket, key: keyFor(name) } }, version: VERSION };
    await assert.rejects(fetchSnapshot(order, stored, join(work, 'refused')), words);
  };
  async function* one(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
    yield bytes;
  }
  const bytesOf = async (key: string): Promise<Buffer> => Buffer.concat(await Array.fromAsync(stored.read(key)));

  test('that was altered, cut or whose manifest was altered is refused and kept, and its own next try mends it', async () => {
    const owner = (name: string) => ({ owner: `${name}-0000-uid` });
    for (const name of ['altered', 'cut', 'lied', 'garbled', 'good']) whole(await undisturbed(name));
    const altered = await bytesOf(keyFor('altered'));
    altered[5_000_000] = (altered[5_000_000] ?? 0) ^ 1;
    await stored.put(keyFor('altered'), one(altered), owner('altered'));
    await stored.put(keyFor('cut'), one((await bytesOf(keyFor('cut'))).subarray(0, 9_000_000)), owner('cut'));
    const manifest = await readManifest(stored, keyFor('lied'));
    const lie = JSON.stringify({ ...manifest, sha256: manifest.sha256.replace(/^./, (c) => (c === '0' ? '1' : '0')) });
    await stored.put(manifestKey(keyFor('lied')), one(Buffer.from(lie)), owner('lied'));
    await stored.put(manifestKey(keyFor('garbled')), one(Buffer.from('{"format": 1, ')), owner('garbled'));

    await refused('altered', /damaged/);
    await refused('cut', /altered or cut/);
    await refused('lied', /was altered; take another snapshot/);
    await refused('garbled', /the manifest is not JSON/);

    const again = await undisturbed('garbled');
    whole(again);
    assert.equal(
      (await readManifest(stored, keyFor('garbled'))).snapshot,
      'garbled',
      'its own try mends what is its own',
    );
  });
});
