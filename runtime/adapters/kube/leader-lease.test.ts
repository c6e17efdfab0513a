import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import { type FakeClock, fakeClock } from '../../../test/fakes/fake-clock.ts';
import { type FakeKube, startFakeKube } from '../../../test/fakes/fake-kube.ts';
import { type Kube, KubeFault, resources } from '../../ports/kube.ts';
import { contendForLease, type LeaderLease, type LeaseIncident } from './leader-lease.ts';

const { leases } = resources;
const at = { namespace: 'default', name: 'runtime' };

describe('the leader lease', () => {
  const open: (() => Promise<void>)[] = [];
  afterEach(async () => {
    for (const close of open.splice(0).reverse()) await close();
  });

  const server = async (): Promise<FakeKube> => {
    const fake = await startFakeKube();
    open.push(() => fake.close());
    return fake;
  };

  /** A candidate whose incidents can be awaited. */
  const contend = (fake: FakeKube, clock: FakeClock, identity: string) => {
    const incidents: LeaseIncident[] = [];
    const waiting = new Set<() => void>();
    const lease = contendForLease({
      kube: fake.kube,
      ...at,
      identity,
      clock,
      random: () => 0.5,
      onIncident: (incident) => {
        incidents.push(incident);
        for (const look of waiting) look();
      },
    });
    open.push(() => lease.release());
    const told = (what: LeaseIncident['what'], count = 1): Promise<void> =>
      new Promise((resolve) => {
        const look = (): void => {
          if (incidents.filter((incident) => incident.what === what).length < count) return;
          waiting.delete(look);
          resolve();
        };
        waiting.add(look);
        look();
      });
    return { lease, incidents, told };
  };

  /** Moves the clock to the next timer, and waits until the requests that follow from it were answered. */
  const tick = async (clock: FakeClock, timers: number): Promise<void> => {
    await clock.armed(timers);
    await clock.advance(clock.nextIn() ?? 0);
    await clock.armed(timers);
  };
  /** A candidate waits for its next try; a leader for the end of its lease as well. */
  const CANDIDATE = 1;
  const LEADER = 2;

  const holder = (fake: FakeKube): string | undefined => fake.state.get(leases, at)?.spec?.holderIdentity;

  test('goes to the first of two, and to the second only when the first has been silent for its whole duration', async () => {
    const fake = await server();
    const [clockA, clockB] = [fakeClock(), fakeClock()];
    const a = contend(fake, clockA, 'a');
    await a.lease.acquired;
    const b = contend(fake, clockB, 'b');
    await b.told('waiting');
    assert.equal(a.lease.leads(), true);
    assert.equal(b.lease.leads(), false);
    assert.deepEqual(b.incidents, [{ what: 'waiting', holder: 'a' }]);
    // The process of a is frozen: its clock stands still, that of b goes on.
    while (clockB.elapsed() < 14_000) await tick(clockB, CANDIDATE);
    assert.equal(b.lease.leads(), false, '14 s of silence are not 15');
    await tick(clockB, CANDIDATE);
    await b.lease.acquired;
    assert.equal(holder(fake), 'b');
    assert.equal(fake.state.get(leases, at)?.spec?.leaseTransitions, 1);
    // It thaws and believes that no time has passed; the lease itself tells it.
    await clockA.advance(2000);
    await a.told('lost');
    assert.equal(a.lease.signal.aborted, true);
    assert.equal(a.lease.leads(), false);
  });

  test('stays with a holder that renews it', async () => {
    const fake = await server();
    const clock = fakeClock();
    const a = contend(fake, clock, 'a');
    await a.lease.acquired;
    const b = contend(fake, clock, 'b');
    await b.told('waiting');
    while (clock.elapsed() < 60_000) await tick(clock, LEADER + CANDIDATE);
    assert.equal(a.lease.leads(), true);
    assert.equal(a.lease.signal.aborted, false);
    assert.equal(b.lease.leads(), false);
  });

  test('is lost ten seconds after the last renewal that worked, before anybody else may take it', async () => {
    const fake = await server();
    const clock = fakeClock();
    const a = contend(fake, clock, 'a');
    await a.lease.acquired;
    fake.inject.fault({ plural: 'leases', status: 503, times: 1000 });
    while (clock.elapsed() < 8000) await tick(clock, LEADER);
    assert.equal(a.lease.leads(), true);
    await clock.advance(10_000 - clock.elapsed());
    assert.equal(a.lease.leads(), false);
    assert.equal(a.lease.signal.aborted, true);
    assert.ok(a.lease.signal.reason instanceof KubeFault);
    assert.deepEqual(a.incidents.at(-1), { what: 'lost', why: 'not renewed for 10000 ms' });
  });

  test('is not believed by a process whose timers come late', async () => {
    const fake = await server();
    const clock = fakeClock();
    let jump = 0;
    const late = { ...clock, elapsed: () => clock.elapsed() + jump };
    const lease: LeaderLease = contendForLease({ kube: fake.kube, ...at, identity: 'a', clock: late });
    open.push(() => lease.release());
    await lease.acquired;
    jump = 11_000;
    assert.equal(lease.signal.aborted, false, 'no timer has run yet');
    assert.equal(lease.leads(), false);
  });

  test('released, goes to the next candidate at its next look', async () => {
    const fake = await server();
    const clock = fakeClock();
    const a = contend(fake, clock, 'a');
    await a.lease.acquired;
    const b = contend(fake, clock, 'b');
    await b.told('waiting');
    const released = a.lease.release();
    assert.equal(a.lease.signal.aborted, true, 'it acts no more from the moment it is told');
    await released;
    assert.equal(holder(fake), '');
    await clock.advance(2000);
    await b.lease.acquired;
    assert.equal(holder(fake), 'b');
  });

  test('released while a renewal is under way stays released', async () => {
    const fake = await server();
    const clock = fakeClock();
    const begun = Promise.withResolvers<void>();
    const goOn = Promise.withResolvers<void>();
    let patches = 0;
    const kube: Kube = {
      ...fake.kube,
      mergePatch: async (...call) => {
        patches += 1;
        const first = patches === 1;
        const answer = await fake.kube.mergePatch(...call);
        if (!first) return answer;
        // Renewed on the server; we do not know it yet.
        begun.resolve();
        await goOn.promise;
        return answer;
      },
    };
    const lease = contendForLease({ kube, ...at, identity: 'a', clock });
    await lease.acquired;
    await clock.advance(3000);
    await begun.promise;
    const released = lease.release();
    setImmediate(() => goOn.resolve());
    await released;
    assert.equal(holder(fake), '');
  });

  test('is taken up at once by the same identity, whose earlier process is dead', async () => {
    const fake = await server();
    const renewTime = '2030-01-01T00:00:00.000000Z';
    fake.state.put(leases, {
      metadata: { ...at },
      spec: { holderIdentity: 'a', leaseDurationSeconds: 15, renewTime, leaseTransitions: 4 },
    });
    const a = contend(fake, fakeClock(), 'a');
    await a.lease.acquired;
    assert.equal(fake.state.get(leases, at)?.spec?.leaseTransitions, 4);
  });

  test('taken by force is given up at the next renewal', async () => {
    const fake = await server();
    const clock = fakeClock();
    const a = contend(fake, clock, 'a');
    await a.lease.acquired;
    fake.state.change(leases, at, (lease) => {
      lease.spec = { ...lease.spec, holderIdentity: 'thief' };
    });
    await clock.advance(2000);
    await a.told('lost');
    assert.equal(holder(fake), 'thief');
  });

  test('deleted by hand is made anew by its holder, which goes on', async () => {
    const fake = await server();
    const clock = fakeClock();
    const a = contend(fake, clock, 'a');
    await a.lease.acquired;
    fake.state.vanish(leases, at);
    await clock.advance(2000);
    await a.told('failed');
    while (holder(fake) === undefined) await fake.kube.get({ resource: leases, ...at });
    assert.equal(holder(fake), 'a');
    assert.equal(a.lease.signal.aborted, false);
  });

  test('of two that find it free at the same moment goes to one', async () => {
    const fake = await server();
    const clock = fakeClock();
    const candidates = ['a', 'b', 'c'].map((identity) => contend(fake, clock, identity));
    await Promise.race(candidates.map(({ lease }) => lease.acquired));
    for (let n = 0; n < 6; n++) await tick(clock, LEADER + 2 * CANDIDATE);
    assert.equal(candidates.filter(({ lease }) => lease.leads()).length, 1);
  });

  test('survives a renewal whose answer was lost, by looking at what it had written', async () => {
    const fake = await server();
    const clock = fakeClock();
    const a = contend(fake, clock, 'a');
    await a.lease.acquired;
    // The write happens and the answer is lost; the version it made is found and used.
    fake.inject.fault({ plural: 'leases', verb: 'patch', how: 'lose' });
    await tick(clock, LEADER);
    await tick(clock, LEADER);
    assert.deepEqual(
      a.incidents.map(({ what }) => what),
      ['acquired', 'failed', 'failed'],
      'the lost answer, then the conflict with what it had written',
    );
    while (clock.elapsed() < 20_000) await tick(clock, LEADER);
    assert.equal(a.lease.leads(), true);
  });

  test('released before it was acquired ends the candidacy', async () => {
    const fake = await server();
    const clock = fakeClock();
    const a = contend(fake, clock, 'a');
    await a.lease.acquired;
    const b = contend(fake, clock, 'b');
    await b.told('waiting');
    await b.lease.release();
    await assert.rejects(b.lease.acquired, (error) => error instanceof KubeFault && error.reason === 'Cancelled');
    assert.equal(holder(fake), 'a');
  });
});
