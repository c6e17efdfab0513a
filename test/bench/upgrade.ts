/** What clients feel of a rolling upgrade and of the way back: the longest time without one successful write. */
import { claim, claimIn, OLDER_VERSION, ready, VERSION } from '../e2e/claim.ts';
import { writer } from '../e2e/client.ts';
import { eventually, notYet } from '../e2e/eventually.ts';
import { oneCluster } from '../e2e/identity.ts';
import type { Place } from '../e2e/place.ts';
import { inPlace } from './cluster.ts';
import type { Measurement } from './function.ts';

const EVERY_MS = 10;
/**
 * A write that is in flight when leadership changes may be dropped by etcd without a word, and then waits for its client to lose
 * patience. So nobody's longest wait is shorter than that.
 */
const PATIENCE_MS = 500;

const change = async (place: Place, from: string, to: string): Promise<Measurement[]> => {
  await using writes = await writer(place, 'bench', EVERY_MS, PATIENCE_MS);
  const began = performance.now();
  await place.apply(claim('bench', { version: to }));
  await eventually(
    `all run ${to}`,
    async () => {
      const { status } = await claimIn(place, 'bench');
      if (status?.version !== to) notYet(`they run ${status?.version}`);
    },
    { deadlineMs: 300_000 },
  );
  await ready(place, 'bench', { deadlineMs: 120_000 });
  const seconds = (performance.now() - began) / 1000;
  const { longestGapMs, acknowledged, failed, lost } = await writes.stop();
  const what = `${from} → ${to}, 3 members`;
  process.stdout.write(`${what}: ${acknowledged} writes acknowledged, ${failed} tries failed, ${lost.length} lost\n`);
  return [
    { what: `${what}, longest time without a write`, value: longestGapMs / 1000, unit: 's', budget: 1 },
    { what: `${what}, acknowledged writes lost`, value: lost.length, unit: '', budget: 0 },
    { what: `${what}, until the claim is Ready`, value: seconds, unit: 's' },
  ];
};

export const benchUpgrade = (): Promise<Measurement[]> =>
  inPlace(async (place) => {
    await place.apply(claim('bench', { version: OLDER_VERSION }));
    await ready(place, 'bench');
    await oneCluster(place, 'bench', 3);
    return [...(await change(place, OLDER_VERSION, VERSION)), ...(await change(place, VERSION, OLDER_VERSION))];
  });
