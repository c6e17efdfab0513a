/**
 * Schedules, snapshots and proofs as passes make them, day after day, on a clock of their own: what is taken when, what is
 * proven, what the claim hears of it. And the same with a runtime that dies at each of its writes.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Job } from 'kubernetes-types/batch/v1.js';
import type { EtcdSnapshot } from '../../api/etcdsnapshot.gen.ts';
import type { EtcdSnapshotSchedule, EtcdSnapshotScheduleSpec } from '../../api/etcdsnapshotschedule.gen.ts';
import { ANNOTATIONS, API_VERSION, LABELS, ROLE_VOTER } from '../../api/names.ts';
import { timesOf } from '../../runtime/adapters/calendar.ts';
import { passOverSchedule, type ScheduleWorld, scheduleKind } from '../../runtime/controllers/schedules.ts';
import { snapshotKind } from '../../runtime/controllers/snapshot-jobs.ts';
import { passOverSnapshot } from '../../runtime/controllers/snapshots.ts';
import { type Cache, clusterKey } from '../../runtime/controllers/world.ts';
import { SNAPSHOT_OF_LABEL } from '../../runtime/core/snapshots/agent-job.ts';
import type { SnapshotManifest } from '../../runtime/core/snapshots/manifest.ts';
import type { ProofReport } from '../../runtime/core/snapshots/proof-plan.ts';
import type { AgentReport } from '../../runtime/core/snapshots/snapshot-plan.ts';
import { type Kube, type KubeObject, type Resource, resources, type Stored } from '../../runtime/ports/kube.ts';
import { kubeInProcess } from '../fakes/fake-kube-in-process.ts';
import { fakeKubeStore } from '../fakes/fake-kube-store.ts';

const NAMESPACE = 'team-a';
const CLUSTER = 'demo';
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

class Died extends Error {}

type Stage = ReturnType<typeof openStage>;

const openStage = (start: string) => {
  let now = Date.parse(start);
  let uids = 0;
  const store = fakeKubeStore({
    now: () => now,
    ownedUpdates: false,
    drawUid: () => `${String(++uids).padStart(8, '0')}-0000-4000-8000-000000000000`,
  });
  store.put(resources.namespaces, { metadata: { name: NAMESPACE }, status: { phase: 'Active' } });
  const list = <T extends KubeObject>(resource: Resource<T>): Stored<T>[] =>
    store.list(resource, NAMESPACE) as unknown as Stored<T>[];
  const cache = <T extends KubeObject>(
    resource: Resource<T>,
    index: (object: Stored<T>) => string | undefined,
  ): Cache<T> => ({
    get: (namespace, name) => store.get({ resource, namespace, name }) as unknown as Stored<T> | undefined,
    byIndex: (key) =>
      list(resource).filter((object) => clusterKey({ namespace: NAMESPACE, name: index(object) ?? '' }) === key),
    observe: () => undefined,
  });

  const writes: string[] = [];
  const events: string[] = [];
  let death: { readonly at: number; readonly how: 'before' | 'after' } | undefined;
  const { kube: direct } = kubeInProcess(store);
  const dying = async <T>(what: string, write: () => Promise<T>): Promise<T> => {
    const dies = writes.push(what) - 1 === death?.at;
    if (dies && death?.how === 'before') throw new Died();
    const answer = await write();
    if (dies) throw new Died();
    return answer;
  };
  const kube: Kube = {
    ...direct,
    create: (resource, object, options) =>
      dying(`create ${resource.plural} ${object.metadata?.name}`, () => direct.create(resource, object, options)),
    mergePatch: (ref, patch, options) =>
      dying(`patch ${ref.resource.plural} ${ref.name}`, () => direct.mergePatch(ref, patch, options)),
    delete: (ref, options) => dying(`delete ${ref.resource.plural} ${ref.name}`, () => direct.delete(ref, options)),
  };

  const byLabel = ({ metadata }: Stored<KubeObject>) => metadata.labels?.[LABELS.cluster];
  const referred = ({ spec }: Stored<EtcdSnapshot> | Stored<EtcdSnapshotSchedule>) => spec.clusterRef.name;
  const world: ScheduleWorld = {
    kube,
    secrets: { get: () => ({ is: 'absent' }), keep: () => undefined },
    clock: { now: () => now } as ScheduleWorld['clock'],
    log: { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} },
    announce: ({ kind, name }, { reason }) => {
      events.push(`${kind} ${name} ${reason}`);
    },
    caches: {
      quorums: cache(resources.etcdquorums as never, byLabel) as ScheduleWorld['caches']['quorums'],
      members: cache(resources.etcdmembers as never, byLabel) as ScheduleWorld['caches']['members'],
      pods: cache(resources.pods, byLabel),
      jobs: cache(resources.jobs, ({ metadata }) => metadata.labels?.[SNAPSHOT_OF_LABEL]),
      snapshots: cache(snapshotKind, referred),
      schedules: cache(scheduleKind, referred),
    },
    agentImage: 'agent:1',
    askProgress: async () => undefined,
    timesOf,
  };

  store.put(resources.etcdquorums, {
    apiVersion: API_VERSION,
    kind: 'EtcdQuorum',
    metadata: { name: CLUSTER, namespace: NAMESPACE, uid: 'quorum' },
    spec: { replicas: 1, version: '3.6.16' },
    status: { clusterID: 'cdf8' },
  });
  const serves = (yes: boolean): void => {
    store.put(resources.pods, {
      metadata: {
        name: 'demo-0-abcde',
        namespace: NAMESPACE,
        labels: { [LABELS.cluster]: CLUSTER, [LABELS.member]: 'demo-0', [LABELS.role]: ROLE_VOTER },
      },
      status: { phase: 'Running', conditions: [{ type: 'Ready', status: yes ? 'True' : 'False' }] },
    });
  };
  serves(true);

  /** What the Jobs of the next snapshots and proofs find out. */
  const outcome: { snapshot: 'stored' | 'refused' | 'hangs'; proof: ProofReport | 'hangs' } = {
    snapshot: 'stored',
    proof: { done: true, etcdVersion: '3.6.16', revision: '7', keys: '3', hash: 1, compared: ['sha256'] },
  };
  /** How much later a Job comes to its end. */
  const LASTS = 8_000;
  const finish = (job: Stored<Job>): void => {
    const { name, ownerReferences = [] } = job.metadata;
    const owner = ownerReferences[0]?.name ?? '';
    const proof = job.metadata.annotations?.[ANNOTATIONS.prove] !== undefined;
    if ((proof ? outcome.proof : outcome.snapshot) === 'hangs') return;
    const manifest: SnapshotManifest = {
      format: 1,
      snapshotUID: ownerReferences[0]?.uid ?? '',
      snapshot: owner,
      namespace: NAMESPACE,
      cluster: CLUSTER,
      clusterUID: 'quorum',
      clusterID: 'cdf8',
      member: 'demo-0',
      memberID: '8e9e',
      etcdVersion: '3.6.16',
      revision: '7',
      sizeBytes: '20512',
      sha256: 'a'.repeat(64),
      takenAt: new Date(now).toISOString(),
    };
    const report: AgentReport | ProofReport =
      proof && outcome.proof !== 'hangs'
        ? outcome.proof
        : outcome.snapshot === 'refused'
          ? { done: false, reason: 'AccessDenied', message: 'no' }
          : { done: true, uri: `s3://b/${owner}.db`, key: `${owner}.db`, manifest };
    const container = proof ? 'compare' : 'snapshot';
    const exitCode = report.done ? 0 : 3;
    store.put(resources.pods, {
      metadata: {
        name: `${name}-x`,
        namespace: NAMESPACE,
        labels: { 'batch.kubernetes.io/controller-uid': job.metadata.uid },
      },
      status: {
        phase: report.done ? 'Succeeded' : 'Failed',
        containerStatuses: [{ name: container, state: { terminated: { exitCode, message: JSON.stringify(report) } } }],
      },
    } as never);
    const type = report.done ? 'Complete' : 'Failed';
    store.put(resources.jobs, { ...job, status: { conditions: [{ type, status: 'True' }] } } as never);
  };

  const kinds = [
    [scheduleKind, passOverSchedule],
    [snapshotKind, passOverSnapshot],
  ] as const;
  const due = new Map<string, number>();
  /** Passes over everything that has changed or is due, until nothing is; like the queues, which know only keys. */
  const settle = async (): Promise<void> => {
    for (let round = 0; round < 200; round += 1) {
      const before = store.version;
      let worked = false;
      for (const [kind, pass] of kinds) {
        for (const { metadata } of list(kind as Resource<KubeObject>)) {
          const key = `${kind.plural} ${metadata.name}`;
          if ((due.get(key) ?? Number.POSITIVE_INFINITY) > now) continue;
          due.delete(key);
          worked = true;
          try {
            const again = await pass(world, NAMESPACE, metadata.name, AbortSignal.timeout(10_000));
            if (again !== undefined) due.set(key, now + Math.max(1, again));
          } catch (error) {
            if (!(error instanceof Died)) throw error;
            due.clear();
            wake();
          }
        }
      }
      if (store.version !== before) wake();
      else if (!worked) return;
    }
    throw new Error(`passes find no rest: ${writes.slice(-10).join('; ')}`);
  };
  const wake = (): void => {
    for (const [kind] of kinds)
      for (const { metadata } of list(kind as Resource<KubeObject>)) due.set(`${kind.plural} ${metadata.name}`, now);
  };

  return {
    writes,
    events,
    outcome,
    world,
    serves,
    kill: (at: number, how: 'before' | 'after') => {
      death = { at, how };
    },
    apply: (spec: Partial<EtcdSnapshotScheduleSpec>) => {
      const present = store.get({ resource: scheduleKind, namespace: NAMESPACE, name: 'backup' });
      store.put(scheduleKind, {
        apiVersion: API_VERSION,
        kind: 'EtcdSnapshotSchedule',
        ...present,
        metadata: { name: 'backup', namespace: NAMESPACE, ...present?.metadata },
        spec: {
          clusterRef: { name: CLUSTER },
          schedule: '0 * * * *',
          destination: { s3: { endpoint: 'https://s3', bucket: 'b' } },
          ...spec,
        },
      } as never);
      wake();
    },
    annotate: (name: string, request: string) => {
      const snapshot = store.get({ resource: snapshotKind, namespace: NAMESPACE, name });
      assert.ok(snapshot !== undefined, name);
      store.put(snapshotKind, {
        ...snapshot,
        metadata: { ...snapshot.metadata, annotations: { [ANNOTATIONS.prove]: request } },
      });
      wake();
    },
    /** Lets so much time pass. A timer is on time to the millisecond: that is when it is hardest to be right. */
    pass: async (ms: number): Promise<void> => {
      const end = now + ms;
      for (;;) {
        await settle();
        const open = list(resources.jobs).filter(({ status }) => status?.conditions === undefined);
        const ends = open
          .map(({ metadata }) => Date.parse(metadata.creationTimestamp ?? '') + LASTS)
          .filter((at) => at > now);
        const next = Math.min(...due.values(), ...ends);
        if (next > end) break;
        now = Math.max(now, next);
        for (const job of open) {
          if (Date.parse(job.metadata.creationTimestamp ?? '') + LASTS > now) continue;
          const version = store.version;
          finish(job);
          if (store.version !== version) wake();
        }
      }
      now = end;
      await settle();
    },
    /** Nobody is there for so long. */
    away: (ms: number) => {
      now += ms;
      wake();
    },
    get schedule() {
      return store.get({ resource: scheduleKind, namespace: NAMESPACE, name: 'backup' }) as unknown as
        | Stored<EtcdSnapshotSchedule>
        | undefined;
    },
    get snapshots() {
      return list(snapshotKind).toSorted((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1));
    },
    get jobs() {
      return list(resources.jobs);
    },
  };
};

const healthOf = ({ schedule }: Stage): string | undefined =>
  schedule?.status?.conditions?.find(({ type }) => type === 'BackupHealthy')?.reason;
/** When each was made, within its day. */
const times = ({ snapshots }: Stage): string[] =>
  snapshots.map(({ metadata }) => (metadata.creationTimestamp ?? '').slice(11, 16));
const asked = ({ snapshots }: Stage): boolean[] =>
  snapshots.map(({ metadata }) => metadata.annotations?.[ANNOTATIONS.prove] !== undefined);

describe('a schedule of snapshots', () => {
  test('takes the first one at once and then one at each of its times, each once', async () => {
    const stage = openStage('2026-11-30T08:10:00Z');
    stage.apply({});
    await stage.pass(4 * HOUR);
    assert.deepEqual(times(stage), ['08:10', '09:00', '10:00', '11:00', '12:00']);
    assert.equal(healthOf(stage), 'BackupFresh');
    assert.equal(stage.schedule?.status?.lastScheduleTime, '2026-11-30T12:00:00.000Z');
    const { length } = stage.writes;
    await stage.pass(30 * MINUTE);
    assert.equal(stage.writes.length, length, 'nothing is written while nothing happens');
  });

  test('goes by the clocks of its time zone, and rests while it is suspended', async () => {
    const stage = openStage('2026-11-30T20:00:00Z');
    stage.apply({ schedule: '0 3 * * *', timeZone: 'Asia/Tokyo' });
    await stage.pass(24 * HOUR);
    assert.deepEqual(times(stage), ['20:00', '18:00']);
    stage.apply({ schedule: '0 3 * * *', timeZone: 'Asia/Tokyo', suspend: true });
    await stage.pass(72 * HOUR);
    assert.equal(stage.snapshots.length, 2);
    assert.equal(healthOf(stage), 'BackupFresh', 'nobody misses what was called off');
  });

  test('makes up for the last time that was missed, while that is not too long ago', async () => {
    const stage = openStage('2026-11-30T08:10:00Z');
    stage.apply({});
    await stage.pass(MINUTE);
    stage.away(4 * HOUR);
    await stage.pass(MINUTE);
    assert.deepEqual(times(stage), ['08:10', '12:11'], 'one for four');
    stage.apply({ startingDeadlineSeconds: 300 });
    stage.away(HOUR);
    await stage.pass(MINUTE);
    assert.equal(stage.snapshots.length, 2);
    await stage.pass(HOUR);
    assert.deepEqual(times(stage).at(-1), '14:00');
  });

  test('waits for a cluster that does not serve at its time, and says so when the next one is missed as well', async () => {
    const stage = openStage('2026-11-30T08:10:00Z');
    stage.apply({});
    await stage.pass(MINUTE);
    stage.serves(false);
    await stage.pass(55 * MINUTE);
    assert.equal(stage.snapshots.length, 1);
    assert.equal(healthOf(stage), 'BackupFresh');
    await stage.pass(HOUR);
    assert.equal(healthOf(stage), 'BackupOverdue');
    stage.serves(true);
    await stage.pass(MINUTE);
    assert.deepEqual(times(stage), ['08:10', '10:06']);
    assert.equal(healthOf(stage), 'BackupFresh');
  });

  test('begins none while one runs, unless it may', async () => {
    const stage = openStage('2026-11-30T08:10:00Z');
    stage.outcome.snapshot = 'hangs';
    stage.apply({});
    await stage.pass(2 * HOUR);
    assert.equal(stage.snapshots.length, 1);
    assert.equal(healthOf(stage), 'BackupPending');
    stage.apply({ concurrencyPolicy: 'Allow' });
    await stage.pass(MINUTE);
    assert.equal(stage.snapshots.length, 2);
  });

  test('is unhealthy from a snapshot that fails to the next good one', async () => {
    const stage = openStage('2026-11-30T08:10:00Z');
    stage.apply({});
    await stage.pass(MINUTE);
    stage.outcome.snapshot = 'refused';
    await stage.pass(HOUR);
    assert.equal(healthOf(stage), 'BackupFailed');
    stage.outcome.snapshot = 'stored';
    await stage.pass(HOUR);
    assert.equal(healthOf(stage), 'BackupFresh');
  });
});

describe('the proofs of snapshots', () => {
  const damaged: ProofReport = { done: false, reason: 'SnapshotDamaged', message: 's3://b/k has another SHA-256' };

  test('are made for one of n, and leave nothing behind but what they found', async () => {
    const stage = openStage('2026-11-30T08:10:00Z');
    stage.apply({ proof: { every: 3 } });
    await stage.pass(6 * HOUR + 30 * MINUTE);
    assert.deepEqual(asked(stage), [true, false, false, true, false, false, true]);
    assert.deepEqual(
      stage.snapshots.map(({ status }) => status?.proof?.result),
      ['Passed', undefined, undefined, 'Passed', undefined, undefined, 'Passed'],
    );
    assert.ok(
      stage.jobs.every(({ metadata }) => !metadata.name.endsWith('-test')),
      'their Jobs are gone',
    );
    assert.equal(healthOf(stage), 'BackupFresh');
  });

  test('turn the backups unhealthy when one fails, whoever asked for it; then every one is proven until one passes', async () => {
    const stage = openStage('2026-11-30T08:10:00Z');
    stage.apply({ proof: { every: 10 } });
    await stage.pass(90 * MINUTE);
    const [, second] = stage.snapshots;
    assert.ok(second !== undefined);
    const { outcome } = stage;
    const good = outcome.proof;
    outcome.proof = damaged;
    stage.annotate(second.metadata.name, 'by hand');
    await stage.pass(MINUTE);
    assert.equal(healthOf(stage), 'ProofFailed');
    assert.ok(stage.events.includes(`EtcdSnapshot ${second.metadata.name} SnapshotDamaged`));
    assert.ok(stage.events.includes('EtcdSnapshotSchedule backup ProofFailed'));
    outcome.proof = { done: false, reason: 'Unavailable', message: '503' };
    await stage.pass(HOUR);
    assert.equal(healthOf(stage), 'ProofBlocked');
    outcome.proof = good;
    await stage.pass(HOUR);
    assert.equal(healthOf(stage), 'BackupFresh');
    assert.deepEqual(asked(stage), [true, true, true, true]);
    await stage.pass(HOUR);
    assert.deepEqual(asked(stage).at(-1), false, 'it is as it was');
  });

  test('of one cluster run one after the other', async () => {
    const stage = openStage('2026-11-30T08:10:00Z');
    stage.apply({});
    await stage.pass(2 * HOUR);
    stage.outcome.proof = 'hangs';
    for (const { metadata } of stage.snapshots) stage.annotate(metadata.name, 'all of them');
    await stage.pass(MINUTE);
    assert.equal(stage.jobs.filter(({ metadata }) => metadata.name.endsWith('-test')).length, 1);
    stage.outcome.proof = damaged;
    await stage.pass(5 * MINUTE);
    assert.deepEqual(
      stage.snapshots.map(({ status }) => status?.proof?.result),
      ['Failed', 'Failed', 'Failed'],
    );
  });

  test('that never end are missed', async () => {
    const stage = openStage('2026-11-30T08:10:00Z');
    stage.outcome.proof = 'hangs';
    stage.apply({ proof: { every: 1 } });
    await stage.pass(90 * MINUTE);
    assert.equal(healthOf(stage), 'BackupFresh');
    await stage.pass(HOUR);
    assert.equal(healthOf(stage), 'ProofOverdue');
  });
});

describe('a runtime that dies at any of its writes', () => {
  const play = async (death?: { at: number; how: 'before' | 'after' }): Promise<Stage> => {
    const stage = openStage('2026-11-30T08:10:00Z');
    if (death !== undefined) stage.kill(death.at, death.how);
    stage.apply({ proof: { every: 2 }, retention: { keepLast: 9 } });
    await stage.pass(2 * HOUR + 10 * MINUTE);
    return stage;
  };
  const ending = (stage: Stage): unknown => ({
    times: times(stage),
    asked: asked(stage),
    results: stage.snapshots.map(({ status }) => [status?.phase, status?.proof?.result]),
    health: healthOf(stage),
    since: stage.schedule?.status?.snapshotsSinceProof,
    proofs: stage.jobs.filter(({ metadata }) => metadata.name.endsWith('-test')).length,
  });

  test('leaves the same snapshots and the same proofs behind', async () => {
    const undisturbed = await play();
    const wanted = ending(undisturbed);
    assert.deepEqual(times(undisturbed), ['08:10', '09:00', '10:00']);
    for (let at = 0; at < undisturbed.writes.length; at += 1) {
      for (const how of ['before', 'after'] as const) {
        assert.deepEqual(ending(await play({ at, how })), wanted, `${how} ${undisturbed.writes[at]}`);
      }
    }
  });
});
