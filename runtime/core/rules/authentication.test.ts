import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { observed } from '../../../test/scenarios/world.ts';
import { brokenInvariant } from '../invariants.ts';
import { known, type Observed, type SeenAuth, unknown } from '../observed.ts';
import { plan } from '../plan.ts';
import type { Step } from '../steps.ts';

const WHOLE = [
  'latch c1',
  'want 1',
  'list 0-aaaaa=a1',
  'slot 0 inc=aaaaa id=a1 phase=Voter begun=aaaaa | pod aaaaa running ready voter proven | answers c1/a1@9 leader=a1 | volume aaaaa id=a1',
].join('\n');

type Claim = { readonly enabled: boolean } | undefined;

const inTls = (config: string | undefined): string | undefined => config?.replaceAll('"http:', '"https:');

const seen = (auth: SeenAuth, claim: Claim, latched: boolean, served: 'tls' | 'clear' = 'clear'): Observed => {
  const whole = observed(WHOLE);
  const { quorum } = whole;
  assert.ok(quorum);
  return {
    ...whole,
    members: whole.members.map((member) => ({
      ...member,
      pods: member.pods.map((pod) => ({ ...pod, config: served === 'tls' ? inTls(pod.config) : pod.config })),
    })),
    quorum: {
      ...quorum,
      spec: {
        ...quorum.spec,
        tls: { client: { source: 'Secret', mutual: false, serverSecretName: 'server' } },
        ...(claim === undefined ? {} : { auth: { enabled: claim.enabled, rootCredentialsSecretName: 'root' } }),
      },
      status: { ...quorum.status, ...(latched ? { authEnabled: true } : {}) },
    },
    auth,
  };
};

const unreadable = { known: false, reason: 'SecretIncomplete', why: 'Secret root has no password' } as const;

const PASSWORDS: readonly SeenAuth['password'][] = [{ known: true }, unreadable];
const KEPT: readonly SeenAuth['kept'][] = [known('alone'), known('among'), known('missing'), unknown('not read')];
const ACCEPTED: readonly SeenAuth['accepted'][] = ['password', 'earlier', 'certificate', 'none'];
const ENABLED: readonly SeenAuth['enabled'][] = [known(true), known(false), unknown('no leader')];
const CLAIMS: readonly Claim[] = [undefined, { enabled: true }, { enabled: false }];

describe('authentication', () => {
  it('asks for nothing that the veto refuses, whatever is seen together', () => {
    const steps = new Set<Step['do']>();
    for (const password of PASSWORDS)
      for (const kept of KEPT)
        for (const accepted of ACCEPTED)
          for (const enabled of ENABLED)
            for (const claim of CLAIMS)
              for (const latched of [true, false]) {
                const { step, situation } = plan(seen({ password, kept, accepted, enabled }, claim, latched));
                steps.add(step.do);
                const veto = brokenInvariant(situation, step);
                assert.equal(veto, undefined, JSON.stringify({ step, password, kept, accepted, enabled, claim }));
              }
    const all = ['KeepPassword', 'EnableAuth', 'ChangePassword', 'DisableAuth', 'LatchAuth', 'AskHuman', 'Settled'];
    for (const one of all) assert.ok(steps.has(one as Step['do']), `${one} is reached`);
  });

  it('is stopped by the veto where a rule would tell etcd a password that is written down nowhere', () => {
    const auth: SeenAuth = {
      password: { known: true },
      kept: known('missing'),
      accepted: 'earlier',
      enabled: known(true),
    };
    const { situation } = plan(seen(auth, { enabled: true }, true));
    const veto = (step: Step) => brokenInvariant(situation, step);
    assert.match(veto({ do: 'ChangePassword' }) ?? '', /written down nowhere/);
    assert.match(veto({ do: 'EnableAuth', again: false }) ?? '', /written down nowhere/);
    assert.match(veto({ do: 'KeepPassword', as: 'inForce' }) ?? '', /another one/);
    assert.match(veto({ do: 'LatchAuth', enabled: false }) ?? '', /not found so/);
  });

  it('names what is wrong with the Secret where nothing else lets it in, and that it is not asked for in the clear', () => {
    const asked = (password: SeenAuth['password'], claim: Claim, served: 'tls' | 'clear' = 'tls'): string => {
      const auth: SeenAuth = { password, kept: known('missing'), accepted: 'none', enabled: known(true) };
      const { step } = plan(seen(auth, claim, true, served));
      return step.do === 'AskHuman' ? step.reason : step.do;
    };
    assert.equal(asked({ known: true }, { enabled: true }), 'AuthCredentialsRejected');
    assert.equal(asked(unreadable, { enabled: true }), 'SecretIncomplete');
    assert.equal(asked({ known: true }, undefined), 'AuthRequiredNotConfigured');
    assert.equal(asked({ known: true }, { enabled: true }, 'clear'), 'AuthRequiredNotConfigured');
  });
});

/** Everything that a password can be kept in. `undefined`: nothing. */
type Places = {
  readonly secret: string;
  readonly kept: { readonly password?: string; readonly next?: string };
  readonly etcd: { readonly on: boolean; readonly password?: string };
  readonly latched: boolean;
};

/** What the runtime sees of it, as the dialler finds it out: one login after the other. */
const look = ({ secret, kept, etcd }: Places): SeenAuth => {
  const tried = [
    ['password', secret],
    ['earlier', kept.next],
    ['earlier', kept.password],
  ] as const;
  const taken = tried.find(([, password]) => !etcd.on || password === etcd.password);
  const has = [kept.password, kept.next].includes(secret);
  return {
    password: { known: true },
    kept: known(!has ? 'missing' : kept.next === undefined ? 'alone' : 'among'),
    accepted: taken?.[0] ?? 'none',
    enabled: known(etcd.on),
  };
};

const take = (places: Places, step: Step): Places => {
  const { secret, kept, etcd } = places;
  switch (step.do) {
    case 'KeepPassword': {
      if (step.as === 'inForce') return { ...places, kept: { password: secret } };
      const before = etcd.on && etcd.password === kept.next ? kept.next : kept.password;
      return { ...places, kept: { ...(before === undefined ? {} : { password: before }), next: secret } };
    }
    case 'EnableAuth':
      return { ...places, etcd: { on: true, password: secret }, latched: true };
    case 'ChangePassword':
      return { ...places, etcd: { ...etcd, password: secret } };
    case 'LatchAuth':
      return { ...places, latched: step.enabled };
    default:
      return places;
  }
};

describe('a password on its way from the Secret to etcd', () => {
  it('can be taken up again wherever a runtime ends and however often the Secret is edited meanwhile', () => {
    const begin: Places = { secret: 'a', kept: {}, etcd: { on: false }, latched: false };
    const reached = new Map<string, Places>([[JSON.stringify(begin), begin]]);
    for (const places of reached.values()) {
      const { step } = plan(seen(look(places), { enabled: true }, places.latched));
      assert.notEqual(step.do, 'AskHuman', `shut out: ${JSON.stringify(places)}`);
      const nexts = [take(places, step), ...['a', 'b', 'c'].map((secret) => ({ ...places, secret }))];
      for (const next of nexts) reached.set(JSON.stringify(next), reached.get(JSON.stringify(next)) ?? next);
    }
    assert.ok(reached.size > 50, `${reached.size} states`);
    for (const places of reached.values()) {
      let now = places;
      for (let steps = 0; ; steps += 1) {
        const { step } = plan(seen(look(now), { enabled: true }, now.latched));
        if (step.do === 'Settled') break;
        assert.ok(steps < 6, `no end from ${JSON.stringify(places)}: ${step.do} at ${JSON.stringify(now)}`);
        now = take(now, step);
      }
      assert.deepEqual(now, {
        secret: places.secret,
        kept: { password: places.secret },
        etcd: { on: true, password: places.secret },
        latched: true,
      });
    }
  });
});
