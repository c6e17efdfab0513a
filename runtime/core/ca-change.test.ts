import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { authorityToDrop, caChangeOf, certificateToUse, unusable } from './ca-change.ts';
import type { CertificateRole, SeenAuthority, SeenCertificate, SeenSecret } from './certificates.ts';
import { brokenInvariant } from './invariants.ts';
import { type Fact, known, unknown } from './observed.ts';
import type { Situation } from './situation.ts';
import type { Step } from './steps.ts';

const NOW = Date.UTC(2030, 0, 1);
const DAY = 24 * 3_600_000;

type Ca = 'old' | 'new';
const authority = (ca: Ca): SeenAuthority => ({
  fingerprint: `ca-${ca}`,
  subject: `CN=${ca}`,
  notAfter: NOW + DAY,
  pem: `<${ca}>\n`,
});

/** A certificate `leaf` of `by`, beside these authorities. */
const secret = (leaf: string, by: Ca, authorities: readonly Ca[], notAfter = NOW + DAY): SeenSecret => ({
  type: 'Opaque',
  missing: [],
  unreadable: undefined,
  leaf: {
    fingerprint: leaf,
    subject: 'CN=leaf',
    issuer: `CN=${by}`,
    notBefore: NOW - DAY,
    notAfter,
    names: ['*.demo.ns.svc', 'demo.ns.svc', 'demo-client.ns.svc'],
    usages: undefined,
    keyMatches: true,
    trustedBy: `ca-${by}`,
  },
  authorities: authorities.map(authority),
});

const certificate = (
  role: CertificateRole,
  offered: SeenSecret | undefined,
  held: SeenSecret | undefined,
  changedAt?: number,
): SeenCertificate => ({
  role,
  secretName: 'mine',
  version: '1,1',
  secret: known(offered),
  inUse: known(
    held === undefined ? undefined : { name: 'demo-x-in-use', version: '2', ours: true, changedAt, secret: held },
  ),
});

type Member = { readonly trust: readonly Ca[]; readonly shows?: Fact<string> };

/** One role, and members that trust and show this as what that role is about. */
const situation = (seen: SeenCertificate, ...members: readonly Member[]): Situation => {
  const side = seen.role === 'peer' ? 'peer' : 'client';
  const wanted = (seen.inUse.known ? seen.inUse.value?.secret.authorities : undefined) ?? [];
  const slots = members.map(({ trust, shows }, ordinal) => ({
    member: {
      name: `demo-${ordinal}`,
      templateHash: 'a',
      restartHash: 'a',
      spec: { tls: { [side]: { mutual: true } } },
    },
    pod: undefined as unknown,
    shows,
    trust,
    ordinal,
    lostVolumes: [],
    strayPods: [],
    strayVolumes: [],
  }));
  for (const slot of slots) {
    const pod = {
      name: `demo-${slot.ordinal}-aaaaa`,
      uid: `u${slot.ordinal}`,
      phase: 'Running',
      deleting: false,
      templateHash: 'a',
      restartHash: 'a',
      config: `${side}-transport-security:`,
      container: { state: 'running' },
      trust: { [side]: slot.trust.map((ca) => authority(ca).pem).join('') },
      shows: slot.shows === undefined ? undefined : { [seen.role]: slot.shows },
    };
    slot.pod = pod;
    Object.assign(slot.member, { pods: [pod], volumes: [] });
  }
  return {
    seen: {
      cluster: 'demo',
      namespace: 'ns',
      now: NOW,
      certificates: [seen],
      membership: unknown('not asked'),
      claim: unknown('not asked'),
      members: [],
    },
    latch: 'f00d',
    quorum: { spec: { replicas: 3 }, status: {} },
    slots,
    held: slots,
    trust: { [side]: wanted.map(({ pem }) => pem).join('') },
  } as unknown as Situation;
};

const did = (step: Step | undefined): string | undefined =>
  step?.do === 'UseCertificate'
    ? `${step.what} ${step.fingerprint} ${step.authorities.replaceAll('\n', '')}`
    : step?.do;

const OLD: Member = { trust: ['old'] };
const BOTH: Member = { trust: ['new', 'old'] };
const held = secret('a', 'old', ['old']);
const heldWithBoth = secret('a', 'old', ['new', 'old']);
const offered = secret('b', 'new', ['new']);

describe('what comes into use', () => {
  test('first is what is offered, since nobody was shown anything else', () => {
    assert.equal(did(certificateToUse(situation(certificate('peer', held, undefined)))), 'begin a <old>');
  });

  test('of the same authority at once, with nobody restarted', () => {
    const renewed = secret('a2', 'old', ['old']);
    assert.equal(did(certificateToUse(situation(certificate('peer', renewed, held), OLD, OLD))), 'pass on a2 <old>');
  });

  test('of another authority is that authority alone, until every Pod was made to trust it', () => {
    const before = certificate('peer', offered, held);
    assert.equal(did(certificateToUse(situation(before, OLD, OLD))), 'widen a <new><old>');
    const widened = certificate('peer', offered, heldWithBoth);
    assert.equal(certificateToUse(situation(widened, BOTH, OLD)), undefined);
    assert.equal(caChangeOf(situation(widened, BOTH, OLD))?.phase, 'TrustingBoth');
    assert.equal(did(certificateToUse(situation(widened, BOTH, BOTH))), 'pass on b <new><old>');
  });

  test('for clients waits until they can know of both, since nobody can be asked whether they do', () => {
    const just = certificate('server', offered, heldWithBoth, NOW - 119_000);
    assert.equal(certificateToUse(situation(just, BOTH)), undefined);
    assert.equal(caChangeOf(situation(just, BOTH))?.phase, 'Announcing');
    const longAgo = certificate('server', offered, heldWithBoth, NOW - 120_000);
    assert.equal(did(certificateToUse(situation(longAgo, BOTH))), 'pass on b <new><old>');
  });

  test('is nothing that cannot work, and what is in use goes on', () => {
    for (const broken of [undefined, secret('b', 'new', ['new'], NOW - 1)]) {
      const s = situation(certificate('peer', broken, held), OLD, OLD);
      assert.equal(certificateToUse(s), undefined);
      assert.equal(unusable(s), undefined);
    }
  });

  test('is nothing that members do not trust where what they show has expired or is lost: a person is asked', () => {
    for (const gone of [undefined, secret('a', 'old', ['old'], NOW - 1)]) {
      const s = situation(certificate('peer', offered, gone), OLD, OLD);
      assert.equal(certificateToUse(s), undefined);
      assert.equal(unusable(s)?.reason, 'CaChangedAtOnce');
      assert.match(unusable(s)?.message ?? '', /demo-0-aaaaa, demo-1-aaaaa/);
    }
  });

  test('is what members do not trust where there are none: all start with it', () => {
    assert.equal(did(certificateToUse(situation(certificate('peer', offered, undefined)))), 'begin b <new>');
  });
});

describe('what is dropped', () => {
  const delivering = certificate('peer', offered, secret('b', 'new', ['new', 'old']));
  const showing = (fingerprint: string): Member => ({ ...BOTH, shows: known(fingerprint) });

  test('is nothing before every member was seen to show the new certificate; their kubelets are asked to hurry', () => {
    const s = situation(delivering, showing('b'), showing('a'), { ...BOTH, shows: unknown('timeout') });
    const step = authorityToDrop(s);
    assert.deepEqual(step?.do === 'FetchCertificates' && step.pods.map(({ name }) => name), [
      'demo-1-aaaaa',
      'demo-2-aaaaa',
    ]);
    assert.equal(caChangeOf(s)?.phase, 'Delivering');
  });

  test('is the former authority once all show the new certificate', () => {
    assert.equal(did(authorityToDrop(situation(delivering, showing('b'), showing('b')))), 'narrow b <new>');
  });

  test('is nothing that the offered Secret still asks to be trusted', () => {
    const both = certificate('peer', secret('b', 'new', ['new', 'old']), secret('b', 'new', ['new', 'old']));
    assert.equal(authorityToDrop(situation(both, BOTH, BOTH)), undefined);
    assert.equal(caChangeOf(situation(both, BOTH, BOTH)), undefined);
  });

  test('shows as dropped only when no Pod trusts it any more', () => {
    const narrowed = certificate('peer', offered, offered);
    assert.equal(caChangeOf(situation(narrowed, BOTH, { trust: ['new'] }))?.phase, 'DroppingOld');
    assert.equal(caChangeOf(situation(narrowed, { trust: ['new'] }))?.phase, undefined);
  });
});

describe('the veto', () => {
  const use = (what: 'pass on' | 'narrow', fingerprint: string, authorities: readonly Ca[]): Step => ({
    do: 'UseCertificate',
    role: 'peer',
    what,
    from: 'mine',
    fingerprint,
    authorities: authorities.map((ca) => authority(ca).pem).join(''),
    versions: { from: '1,1', inUse: '2' },
  });
  const about = (s: Situation, step: Step): string => brokenInvariant(s, step) ?? 'allowed';

  test('keeps a certificate from members as long as one does not trust it', () => {
    const seen = certificate('peer', offered, heldWithBoth);
    const step = use('pass on', 'b', ['new', 'old']);
    assert.match(about(situation(seen, BOTH, OLD), step), /demo-1-aaaaa does not trust CN=new/);
    assert.equal(about(situation(seen, BOTH, BOTH), step), 'allowed');
  });

  test('keeps an authority as long as a member was not seen to do without it', () => {
    const seen = certificate('peer', offered, secret('b', 'new', ['new', 'old']));
    const step = use('narrow', 'b', ['new']);
    assert.match(about(situation(seen, { ...BOTH, shows: known('a') }), step), /demo-0-aaaaa was not seen/);
    assert.match(about(situation(seen, { ...BOTH, shows: unknown('timeout') }), step), /demo-0-aaaaa was not seen/);
    assert.equal(about(situation(seen, { ...BOTH, shows: known('b') }), step), 'allowed');
  });

  test('keeps the authority of what is shown itself', () => {
    const seen = certificate('peer', offered, heldWithBoth);
    assert.match(about(situation(seen, BOTH), use('narrow', 'a', ['new'])), /CN=old would not be trusted/);
  });
});
