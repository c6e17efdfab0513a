import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import { fakeClock } from '../../../test/fakes/fake-clock.ts';
import { startFakeKube } from '../../../test/fakes/fake-kube.ts';
import { KubeFault, resources } from '../../ports/kube.ts';
import { createEventRecorder } from './events.ts';

const about = {
  apiVersion: 'etcd-operator.cozystack.io/v1alpha2',
  kind: 'EtcdQuorum',
  metadata: { name: 'prod', namespace: 'default', uid: 'u1', resourceVersion: '7' },
};
const note = { type: 'Normal', reason: 'Bootstrapped', message: 'three voters', action: 'Bootstrap' } as const;

describe('the event recorder', () => {
  const open: (() => Promise<void>)[] = [];
  afterEach(async () => {
    for (const close of open.splice(0).reverse()) await close();
  });

  const begin = async () => {
    const fake = await startFakeKube();
    open.push(() => fake.close());
    const clock = fakeClock();
    const dropped: string[] = [];
    const events = createEventRecorder({
      kube: fake.kube,
      component: 'etcd-operator',
      instance: 'runtime-0',
      clock,
      onDropped: (why) => dropped.push(why instanceof KubeFault ? why.reason : why),
    });
    return { fake, clock, events, dropped, list: () => fake.state.list(resources.events) };
  };

  test('writes what kubectl describe shows', async () => {
    const { events, list } = await begin();
    events.record(about, note);
    await events.flush();
    const [event] = list();
    assert.match(event?.metadata.name ?? '', /^prod\.[0-9a-f]{16}$/);
    assert.deepEqual(event?.involvedObject, {
      apiVersion: about.apiVersion,
      kind: 'EtcdQuorum',
      namespace: 'default',
      name: 'prod',
      resourceVersion: '7',
      uid: 'u1',
    });
    assert.equal(event.reason, 'Bootstrapped');
    assert.equal(event.action, 'Bootstrap');
    assert.deepEqual(event.source, { component: 'etcd-operator' });
    assert.equal(event.count, 1);
    assert.equal(event.firstTimestamp, '2030-01-01T00:00:00Z');
  });

  test('counts repeats in one object, with at most one write a minute', async () => {
    const { fake, clock, events, list } = await begin();
    for (let n = 0; n < 10; n++) {
      events.record(about, note);
      await clock.advance(5000);
    }
    await events.flush();
    assert.equal(fake.writes().length, 2);
    assert.equal(list().length, 1);
    assert.equal(list()[0]?.count, 10);
    await clock.advance(60_000);
    events.record(about, note);
    await events.flush();
    assert.equal(list()[0]?.count, 11);
    assert.equal(list()[0]?.lastTimestamp, '2030-01-01T00:01:50Z');
  });

  test('keeps different notes apart, and starts anew when the server has forgotten the old one', async () => {
    const { clock, events, list } = await begin();
    events.record(about, note);
    events.record(about, { ...note, message: 'five voters' });
    await clock.advance(3_600_000);
    events.record(about, note);
    await events.flush();
    assert.equal(list().length, 3);
  });

  test('lets one object say only so much at once, and others still speak', async () => {
    const { clock, events, dropped, list } = await begin();
    for (let n = 0; n < 40; n++) events.record(about, { ...note, message: `number ${n}` });
    events.record({ ...about, metadata: { ...about.metadata, name: 'other', uid: 'u2' } }, note);
    await events.flush();
    assert.equal(list().length, 26);
    assert.deepEqual(new Set(dropped), new Set(['limited']));
    await clock.advance(30_000);
    events.record(about, { ...note, message: 'later' });
    await events.flush();
    assert.equal(list().length, 27);
  });

  test('writes what happens once and for good, however much was said before', async () => {
    const { events, dropped, list } = await begin();
    for (let n = 0; n < 40; n++) events.record(about, { ...note, message: `number ${n}` });
    const before = dropped.length;
    events.record(about, { ...note, message: 'revisions 7 to 9 are lost', essential: true });
    await events.flush();
    assert.equal(dropped.length, before);
    assert.ok(list().some(({ message }) => message === 'revisions 7 to 9 are lost'));
  });

  test('never throws, whatever the server says, and writes the next one', async () => {
    const { fake, events, dropped, list } = await begin();
    fake.inject.fault({ plural: 'events', status: 403, reason: 'Forbidden' });
    events.record(about, note);
    await events.flush();
    assert.deepEqual(dropped, ['Forbidden']);
    events.record(about, note);
    await events.flush();
    assert.equal(list().length, 1, 'the repeat is written as a first, since there is nothing to count up');
  });

  test('drops rather than queue without end', async () => {
    const { fake, events, dropped } = await begin();
    fake.inject.fault({ plural: 'events', how: 'hang' });
    for (let n = 0; n < 250; n++) {
      events.record({ ...about, metadata: { ...about.metadata, uid: `u${n}` } }, note);
    }
    assert.deepEqual([...new Set(dropped)], ['full']);
    assert.equal(dropped.length, 50);
  });

  test('cuts a message that the server would refuse', async () => {
    const { events, list } = await begin();
    events.record(about, { ...note, message: 'x'.repeat(5000) });
    await events.flush();
    assert.equal(list()[0]?.message?.length, 1024);
  });
});
