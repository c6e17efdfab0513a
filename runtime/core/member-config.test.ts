import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { observed } from '../../test/scenarios/world.ts';
import {
  blackoutConfig,
  formingConfig,
  isLocked,
  joiningConfig,
  type MemberConfig,
  nextConfig,
  relocked,
  settledConfig,
} from './member-config.ts';
import { classify, type Situation, type Slot } from './situation.ts';

const scene = (notation: string, ordinal = 0): { s: Situation; slot: Slot; token: string } => {
  const s = classify(observed(notation));
  const slot = s.slots.find(({ member }) => member.ordinal === ordinal);
  assert.ok(slot?.incarnation !== undefined, 'the slot holds an incarnation');
  return { s, slot, token: slot.incarnation };
};

const setting = (config: MemberConfig | undefined, key: string): unknown => {
  const line = new RegExp(`^${key}: (.*)$`, 'm').exec(config?.text ?? '')?.[1];
  return line === undefined ? undefined : JSON.parse(line);
};

const url = (name: string): string => `${name}=http://${name}.demo.team-a.svc:2380`;

const attempt = `
want 3
attempt 2 0-aaaaa 1-bbbbb 2-ccccc
slot 0
slot 1
slot 2`;

const running = `
latch c1
want 3
attempt 2 0-aaaaa 1-bbbbb 2-ccccc
list 0-aaaaa=a1 1-bbbbb=b1 2-ccccc=c1/unstarted
slot 0 inc=aaaaa id=a1 phase=Voter begun=aaaaa | pod aaaaa running ready voter proven | answers c1/a1@9 leader=a1 | volume aaaaa id=a1
slot 1 inc=bbbbb begun=bbbbb | pod bbbbb crashed | volume bbbbb
slot 2 inc=ccccc begun=ccccc | volume ccccc`;

describe('the configuration of a first start in an attempt', () => {
  const { s, slot, token } = scene(attempt);
  const config = formingConfig(s, slot, token);

  it('names all members of the attempt, and its token, in a state that is allowed only there', () => {
    assert.equal(config?.initialState, 'new');
    assert.equal(setting(config, 'initial-cluster-state'), 'new');
    assert.equal(
      setting(config, 'initial-cluster'),
      [url('demo-0-aaaaa'), url('demo-1-bbbbb'), url('demo-2-ccccc')].join(','),
    );
    assert.equal(setting(config, 'initial-cluster-token'), 'claim-1-2');
    assert.ok(config !== undefined && !isLocked(config.text));
  });

  it('keeps data in a directory of the incarnation, so that no other member finds it', () => {
    assert.equal(setting(config, 'name'), 'demo-0-aaaaa');
    assert.equal(setting(config, 'data-dir'), '/var/lib/etcd/demo-0-aaaaa');
  });

  it('is not written for a version whose file nobody knows', () => {
    const unknown = scene(`shape version=9.9.9\n${attempt}`);
    assert.equal(formingConfig(unknown.s, unknown.slot, unknown.token), undefined);
  });
});

describe('the configuration of a later start', () => {
  it('names only the member itself, so that a wiped volume finds nobody to join', () => {
    const { s, slot, token } = scene(running);
    const config = settledConfig(s, slot, token);
    assert.equal(config?.initialState, 'existing');
    assert.equal(setting(config, 'initial-cluster'), url('demo-0-aaaaa'));
    assert.ok(config !== undefined && isLocked(config.text));
  });

  it('does not change when the record of the attempt is lost', () => {
    const { s, slot, token } = scene(running);
    const without = scene(running.replace(/attempt.*\n/, ''));
    assert.equal(settledConfig(without.s, without.slot, without.token)?.text, settledConfig(s, slot, token)?.text);
  });

  it('leaves out the corruption check when there is no quorum to compare with', () => {
    const { s, slot, token } = scene(running);
    assert.equal(setting(settledConfig(s, slot, token), 'feature-gates'), 'InitialCorruptCheck=true');
    assert.equal(setting(blackoutConfig(s, slot, token), 'feature-gates'), undefined);
    assert.ok(isLocked(blackoutConfig(s, slot, token)?.text ?? ''));
  });
});

describe('the configuration of a newcomer', () => {
  it('names whom etcd lists now', () => {
    const { s, slot, token } = scene(running.replace('2-ccccc=c1/unstarted', '2-ccccc=c1'), 2);
    assert.equal(
      setting(joiningConfig(s, slot, token), 'initial-cluster'),
      [url('demo-0-aaaaa'), url('demo-1-bbbbb'), url('demo-2-ccccc')].join(','),
    );
  });

  it('knows its own name although etcd lists it without one until its first start', () => {
    const { s, slot, token } = scene(running, 2);
    assert.match(String(setting(joiningConfig(s, slot, token), 'initial-cluster')), /demo-2-ccccc=/);
  });

  it('waits while the list names somebody else who has not started: etcd would refuse the count', () => {
    const { s, slot, token } = scene(running.replace('1-bbbbb=b1', '1-bbbbb=b1/unstarted'), 2);
    assert.equal(joiningConfig(s, slot, token), undefined);
  });

  it('waits without a list that a quorum confirms', () => {
    const { s, slot, token } = scene(running.replace(/list .*/, 'list unknown'), 2);
    assert.equal(joiningConfig(s, slot, token), undefined);
  });
});

describe('the next configuration of a member', () => {
  const kinds: readonly [string, string, number, 'locked' | 'joining'][] = [
    ['that runs', running, 0, 'locked'],
    ['that etcd has seen start, though its identity was never recorded', running, 1, 'locked'],
    ['that never started', running, 2, 'joining'],
    [
      'that never started as far as etcd knows, but whose volume says it joined',
      running.replace('volume ccccc', 'volume ccccc id=c1'),
      2,
      'locked',
    ],
    ['of which nobody knows, without a quorum', running.replace(/list .*/, 'list unknown'), 2, 'locked'],
  ];
  for (const [what, notation, ordinal, kind] of kinds) {
    it(`is ${kind} for one ${what}`, () => {
      const { s, slot, token } = scene(notation, ordinal);
      assert.equal(isLocked(nextConfig(s, slot, token)?.text ?? ''), kind === 'locked');
    });
  }
});

describe('relocked', () => {
  it('closes the lock and leaves every other line as the running binary knows it', () => {
    const forming = scene(attempt);
    const text = `${formingConfig(forming.s, forming.slot, forming.token)?.text ?? ''}some-setting: "of an older minor"\n`;
    const { s } = scene(running);
    const closed = relocked(s, text, 'demo-0-aaaaa');
    assert.ok(!isLocked(text));
    assert.ok(isLocked(closed));
    const rest = (of: string): string[] => of.split('\n').filter((line) => !line.startsWith('initial-cluster'));
    assert.deepEqual(rest(closed), rest(text));
    assert.equal(relocked(s, closed, 'demo-0-aaaaa'), closed);
  });
});

describe('isLocked', () => {
  const file = (name: string, list: string, state: string): string =>
    `name: "${name}"\ninitial-cluster: "${list}"\ninitial-cluster-state: "${state}"\n`;
  for (const [text, locked, why] of [
    [file('a', 'a=http://a:2380', 'existing'), true, 'it names itself alone'],
    [file('a', 'a=http://a:2380', 'new'), false, 'it would form a cluster of its own'],
    [file('a', 'a=http://a:2380,b=http://b:2380', 'existing'), false, 'an empty disk could join b'],
    [file('a', 'b=http://b:2380', 'existing'), false, 'it names somebody else'],
    [file('a', '', 'existing'), false, 'it names nobody'],
    ['', false, 'there is nothing'],
  ] as const) {
    it(`says ${locked} since ${why}`, () => assert.equal(isLocked(text), locked));
  }
});
