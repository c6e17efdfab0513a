/** What a claim costs while it comes up and once it is settled. Alone, since it measures what all clusters share. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { runtimeName, systemNamespace } from '../../../deploy/names.ts';
import { claim, inMemory, ready } from '../claim.ts';
import { oneCluster } from '../identity.ts';
import { connected, inNamespace } from '../place.ts';
import { BREAKER_TOKENS, versionsIn, watchBreaker } from '../traffic.ts';

const { cluster } = await connected();

/** The full five minutes of our promise where there is time: ETCD_OPERATOR_SETTLED_SECONDS=300. */
const SETTLED_SECONDS = Number(process.env.ETCD_OPERATOR_SETTLED_SECONDS ?? 60);
/** Part of one processor for all clusters together, while none of them wants anything. */
const CPU = 0.01;
/** Neighbours on the machine only ever add to it: it is looked at again before it counts as spent. */
const SPELLS = 3;

/** Seconds of processor time of each runtime Pod so far, by its own metrics. */
const processorSeconds = async (): Promise<Map<string, number>> => {
  const names = await cluster.kubectl([
    ...['-n', systemNamespace, 'get', 'pods', '-l', `app.kubernetes.io/name=${runtimeName}`],
    ...['-o', 'jsonpath={range .items[*]}{.metadata.name}{" "}{end}'],
  ]);
  const read = async (pod: string): Promise<[string, number]> => {
    const text = await cluster.kubectl([
      ...['get', '--raw', `/api/v1/namespaces/${systemNamespace}/pods/${pod}:8080/proxy/metrics`],
    ]);
    const seconds = /^process_cpu_seconds_total (\S+)/m.exec(text)?.[1];
    assert.notEqual(seconds, undefined, `${pod} tells its processor time`);
    return [pod, Number(seconds)];
  };
  return new Map(await Promise.all(names.trim().split(' ').map(read)));
};

type Share = { readonly pod: string; readonly share: number };

const sharesOver = async (seconds: number): Promise<readonly Share[]> => {
  const before = await processorSeconds();
  const began = performance.now();
  await pause(seconds * 1000);
  const after = await processorSeconds();
  const passed = (performance.now() - began) / 1000;
  return [...after].map(([pod, used]) => ({ pod, share: (used - (before.get(pod) ?? used)) / passed }));
};

describe('thrift', () => {
  test(
    "nine members come up within Crossplane's default circuit breaker",
    inNamespace('nine', async (place, t) => {
      await using breaker = await watchBreaker(place);
      await place.apply(claim('demo', { replicas: 9, storage: inMemory }));
      await ready(place, 'demo', { deadlineMs: 180_000 });
      await oneCluster(place, 'demo', 9);
      t.diagnostic(`${breaker.tokens()} tokens taken, never fewer than ${breaker.least()} of ${BREAKER_TOKENS} left`);
      assert.equal(breaker.opened(), false, 'Responsive was not True at some moment');
      assert.ok(breaker.least() > 0, 'by our count it should have opened');
    }),
  );

  test(
    `settled clusters are left alone for ${SETTLED_SECONDS} s: no write, and next to no processor time`,
    inNamespace('settled', async (place, t) => {
      await place.apply(claim('disk'), claim('ram', { storage: inMemory }));
      await ready(place, 'disk');
      await ready(place, 'ram');
      // Crossplane asks again every few seconds until all is settled, and gathered events come a little later.
      await pause(20_000);
      const before = await versionsIn(place);
      let shares: readonly Share[] = [];
      for (let spell = 0; spell < SPELLS && (spell === 0 || shares.some(({ share }) => share >= CPU)); spell += 1) {
        shares = await sharesOver(SETTLED_SECONDS);
        for (const { pod, share } of shares) t.diagnostic(`${pod}: ${(share * 100).toFixed(2)} % of a processor`);
      }
      const after = await versionsIn(place);
      const changed = [...new Set([...before.keys(), ...after.keys()])].filter(
        (name) => before.get(name) !== after.get(name),
      );
      assert.deepEqual(changed, [], 'objects were written meanwhile');
      for (const { pod, share } of shares) {
        assert.ok(share < CPU, `${pod} takes ${(share * 100).toFixed(2)} % of a processor`);
      }
    }),
  );
});
