/**
 * Leadership by a Lease object: at most one process acts, as long as clocks run at about the same speed.
 *
 * A holder stops acting `renewDeadlineMs` after it last renewed; others take over `durationMs` after they last saw it renew.
 * The difference is the margin for calls in flight. No two machines' clocks are ever compared.
 */
import type { Lease } from 'kubernetes-types/coordination/v1.js';
import { type Clock, pause } from '../../ports/clock.ts';
import { isFault, type Kube, KubeFault, resources, type Stored } from '../../ports/kube.ts';
import { systemClock } from '../system-clock.ts';

export type LeaseIncident =
  | { what: 'waiting'; holder: string }
  | { what: 'acquired' }
  | { what: 'failed'; fault: KubeFault }
  | { what: 'lost'; why: string }
  | { what: 'released' };

export type LeaderLeaseOptions = {
  kube: Kube;
  namespace: string;
  name: string;
  /**
   * Unique among processes that run at the same time. A Pod's name is: when its container starts again, the process before
   * it is dead for certain, and the new one need not wait for its lease to run out.
   */
  identity: string;
  durationMs?: number;
  renewDeadlineMs?: number;
  retryMs?: number;
  onIncident?: (incident: LeaseIncident) => void;
  clock?: Clock;
  random?: () => number;
};

/** One candidacy: waits, leads once, ends. A process that lost its lease ends too, since what it had begun may still be under way. */
export type LeaderLease = {
  /** Resolves when this process leads; rejects with `Cancelled` if it was released before. */
  readonly acquired: Promise<void>;
  /** Aborted the moment leadership is lost or released, before anybody else can have it. */
  readonly signal: AbortSignal;
  /** Asks the clock, not a flag: right also when the process was stopped for a minute and its timers come late. */
  leads(): boolean;
  /** Gives the lease up so that the next one need not wait for it. Call it last, when nothing acts any more. */
  release(): Promise<void>;
};

/** Microseconds: the API server refuses any other number of digits. */
const microTime = (ms: number): string => new Date(ms).toISOString().replace('Z', '000Z');

export const contendForLease = (options: LeaderLeaseOptions): LeaderLease => {
  const { kube, namespace, name, identity } = options;
  const clock = options.clock ?? systemClock;
  const random = options.random ?? Math.random;
  const durationMs = options.durationMs ?? 15_000;
  const renewDeadlineMs = options.renewDeadlineMs ?? 10_000;
  const retryMs = options.retryMs ?? 2000;
  const tell = (incident: LeaseIncident): void => options.onIncident?.(incident);
  const ref = { resource: resources.leases, namespace, name };

  const lead = new AbortController();
  const stopping = new AbortController();
  const acquired = Promise.withResolvers<void>();
  acquired.promise.catch(() => {});

  /** The lease as last seen, and since when it has looked like this. */
  let seen: Stored<Lease> | undefined;
  let seenAt = 0;
  let seenRenewal: string | undefined;
  /** When the last successful renewal was sent, not when it was answered. */
  let renewedAt: number | undefined;
  let cancelDeadline = (): void => {};
  let waitingFor: string | undefined;

  const look = (lease: Stored<Lease>): void => {
    const renewal = `${lease.metadata.uid} ${lease.spec?.holderIdentity} ${lease.spec?.renewTime}`;
    if (renewal !== seenRenewal) seenAt = clock.elapsed();
    seenRenewal = renewal;
    seen = lease;
  };

  const lose = (why: string): void => {
    if (lead.signal.aborted) return;
    cancelDeadline();
    renewedAt = undefined;
    lead.abort(new KubeFault('Cancelled', `lease ${namespace}/${name}: Cancelled: ${why}`));
    tell({ what: 'lost', why });
    stopping.abort();
  };

  const held = (sentAt: number, lease: Stored<Lease>): void => {
    look(lease);
    if (stopping.signal.aborted) return;
    const before = renewedAt;
    renewedAt = sentAt;
    cancelDeadline();
    cancelDeadline = clock.after(sentAt + renewDeadlineMs - clock.elapsed(), () =>
      lose(`not renewed for ${renewDeadlineMs} ms`),
    );
    if (before === undefined) {
      tell({ what: 'acquired' });
      acquired.resolve();
    }
  };

  const specOf = (lease: Stored<Lease> | undefined): NonNullable<Lease['spec']> => {
    const now = microTime(clock.now());
    const mine = lease?.spec?.holderIdentity === identity;
    return {
      holderIdentity: identity,
      leaseDurationSeconds: Math.ceil(durationMs / 1000),
      renewTime: now,
      ...(mine ? {} : { acquireTime: now, leaseTransitions: (lease?.spec?.leaseTransitions ?? -1) + 1 }),
    };
  };

  /** One try to get or keep the lease. */
  const attempt = async (): Promise<void> => {
    const sentAt = clock.elapsed();
    // Room for a second try before the deadline, whatever becomes of this one.
    const call = { deadlineMs: Math.max(1000, renewDeadlineMs / 2) };
    const leading = renewedAt !== undefined;
    // A holder renews from the version it wrote; everybody else looks first.
    if (!leading || seen === undefined) {
      const found = await kube.get(ref, call);
      if (found === undefined) {
        held(
          sentAt,
          await kube.create(resources.leases, { metadata: { name, namespace }, spec: specOf(undefined) }, call),
        );
        return;
      }
      look(found);
    }
    const current = seen as Stored<Lease>;
    const holder = current.spec?.holderIdentity ?? '';
    const fresh = clock.elapsed() - seenAt < (current.spec?.leaseDurationSeconds ?? 0) * 1000;
    if (holder !== identity && holder !== '') {
      if (leading) return lose(`held by ${holder}`);
      if (fresh) {
        if (holder !== waitingFor) tell({ what: 'waiting', holder });
        waitingFor = holder;
        return;
      }
    }
    const { resourceVersion, uid } = current.metadata;
    const patch = { metadata: { resourceVersion, uid }, spec: specOf(current) };
    held(sentAt, await kube.mergePatch(ref, patch, call));
  };

  const run = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      try {
        await attempt();
      } catch (error) {
        const fault = KubeFault.from(error, `lease ${namespace}/${name}`);
        tell({ what: 'failed', fault });
        // Somebody else wrote it or took it away. A holder looks at once who that was: they may be leading already.
        if (isFault(fault, 'Conflict', 'NotFound', 'Invalid', 'AlreadyExists') && seen !== undefined) {
          seen = undefined;
          continue;
        }
      }
      await pause(clock, retryMs * (0.9 + 0.2 * random()), stopping.signal);
    }
    acquired.reject(new KubeFault('Cancelled', `lease ${namespace}/${name}: Cancelled: candidacy ended`));
  };
  const running = run();

  return {
    acquired: acquired.promise,
    signal: lead.signal,
    leads: () => renewedAt !== undefined && clock.elapsed() - renewedAt < renewDeadlineMs,
    release: async () => {
      cancelDeadline();
      renewedAt = undefined;
      lead.abort(new KubeFault('Cancelled', `lease ${namespace}/${name}: Cancelled: released`));
      stopping.abort();
      // A renewal that is under way is waited for: given up half-way, it could land after the release and undo it.
      await running;
      if (seen?.spec?.holderIdentity !== identity) return;
      const { resourceVersion, uid } = seen.metadata;
      const spec = { holderIdentity: '', leaseDurationSeconds: 1, renewTime: microTime(clock.now()) };
      try {
        await kube.mergePatch(ref, { metadata: { resourceVersion, uid }, spec }, { deadlineMs: 2000 });
        tell({ what: 'released' });
      } catch (error) {
        // It runs out by itself.
        tell({ what: 'failed', fault: KubeFault.from(error, `lease ${namespace}/${name}`) });
      }
    },
  };
};
