/**
 * Bad days by seed: a mixed-up order of the world, a failing API server and etcd, stale watches, dying processes, people
 * who change their minds. Afterwards the sky clears, and everything has to be as if nothing had happened.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { EtcdFault, type EtcdFaultReason } from '../../runtime/ports/etcd.ts';
import { KubeFault, type KubeFaultReason, resources } from '../../runtime/ports/kube.ts';
import { assertSound, endingOf } from './ending.ts';
import { type Between, openStage, type Stage } from './stage.ts';

/** Mulberry32: small, and the same numbers for the same seed everywhere. */
const randomFrom = (seed: number): (() => number) => {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
};

const kubeFaults: readonly KubeFaultReason[] = ['Unavailable', 'Timeout', 'TooManyRequests', 'Conflict', 'Malformed'];
const etcdFaults: readonly EtcdFaultReason[] = ['Timeout', 'ServerTimeout', 'LeaderChanged', 'Unavailable'];

/** One call in `share` fails; half of those take effect all the same. */
const failing =
  (random: () => number, share: number): Between =>
  async (call, happen) => {
    if (random() > share) return happen();
    const lost = random() < 0.5;
    if (lost) await happen();
    const one = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)] as T;
    const what = `${call.what}: as the test asked${lost ? ', after it took effect' : ''}`;
    if (call.what.includes(' ')) throw new KubeFault(lost ? 'Timeout' : one(kubeFaults), what);
    throw new EtcdFault({
      reason: lost ? 'Timeout' : one(etcdFaults),
      operation: call.what,
      url: '',
      detail: what,
      mayHaveHappened: lost,
    });
  };

const oneOf = <T>(random: () => number, from: readonly T[]): T | undefined => from[Math.floor(random() * from.length)];

/** What befalls a cluster; nothing here takes data from more members than it can spare. */
const misfortune = (stage: Stage, random: () => number, sizes: readonly number[], onVolumes: boolean): void => {
  const choice = random();
  if (choice < 0.25) stage.die();
  else if (choice < 0.3) stage.away(20_000);
  else if (choice < 0.45) stage.server.expireWatches();
  else if (choice < 0.55) stage.edit({ replicas: oneOf(random, sizes) ?? 3 });
  else {
    const pod = oneOf(random, stage.pods);
    const running = pod?.spec?.nodeName !== undefined && pod.metadata.deletionTimestamp === undefined;
    if (!running || !onVolumes) return;
    if (choice < 0.7) stage.remove(resources.pods, pod.metadata.name);
    else if (choice < 0.8 && pod.status?.phase === 'Running') stage.kubelet.evict(pod.metadata.name);
    else stage.kubelet.kill(pod.metadata.name);
  }
};

const badDay = async (seed: number, spec: Record<string, unknown>, onVolumes: boolean): Promise<Stage> => {
  const random = randomFrom(seed);
  const stage = openStage();
  stage.apply(spec);
  stage.between(failing(random, 0.1));
  let written = false;
  for (let thing = 0; thing < 600; thing += 1) {
    await stage.oneThing(random);
    if (random() < 0.01) stage.server.hold();
    if (random() < 0.05) stage.server.release();
    const formed = stage.quorum?.status?.clusterID !== undefined && stage.quorum.status.phase === 'Running';
    if (formed && !written) {
      await stage.put('canary', String(seed)).then(
        () => {
          written = true;
        },
        () => {},
      );
    }
    if (written && random() < 0.04) misfortune(stage, random, [1, 2, 3, 4, 5], onVolumes);
  }
  stage.server.release();
  stage.between(undefined);
  stage.edit({ replicas: 3 });
  await stage.settled();
  if (written) assert.equal(await stage.read('canary'), String(seed), 'an acknowledged write is lost');
  stage.close();
  assertSound(stage);
  return stage;
};

/** What a quiet day ends with. */
const quiet = async (spec: Record<string, unknown>): Promise<unknown> => {
  const stage = openStage();
  stage.apply(spec);
  await stage.settled();
  stage.close();
  return endingOf(stage);
};

const SEEDS = Number(process.env.FAULT_SEEDS ?? 15);
const FIRST = Number(process.env.FAULT_FIRST_SEED ?? 1);

describe('after a bad day everything is as after a quiet one', () => {
  for (const [where, spec, onVolumes] of [
    ['on volumes', {}, true],
    ['in memory', { storage: { medium: 'Memory', size: '64Mi' } }, false],
  ] as const) {
    test(`a cluster ${where}`, async () => {
      const ending = await quiet(spec);
      for (let seed = FIRST; seed < FIRST + SEEDS; seed += 1) {
        try {
          assert.deepEqual(await endingOf(await badDay(seed, spec, onVolumes)), ending);
        } catch (error) {
          throw new Error(`FAULT_FIRST_SEED=${seed} FAULT_SEEDS=1: ${error instanceof Error ? error.message : error}`, {
            cause: error,
          });
        }
      }
    });
  }
});
