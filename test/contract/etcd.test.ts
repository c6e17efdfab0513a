/** The promises of the etcd port, kept by real etcd through the adapter and by the fake that the planner's tests trust. */

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { classifyExit } from '../../runtime/core/exit-causes.ts';
import {
  EtcdFault,
  type EtcdFaultReason,
  type EtcdMember,
  type EtcdMemberClient,
  type EtcdMemberStatus,
} from '../../runtime/ports/etcd.ts';
import { memberEtcdVersions } from '../cluster/versions.ts';
import { fakeEtcd } from './etcd-fake.ts';
import type { EtcdLab, EtcdUnderTest, Place, Start } from './etcd-lab.ts';
import { realEtcd } from './etcd-real.ts';
import { eventually } from './patience.ts';

const implementations: readonly EtcdUnderTest[] = [
  ...memberEtcdVersions.map(fakeEtcd),
  ...memberEtcdVersions.map(realEtcd),
];

const faultOf = async (call: Promise<unknown>): Promise<EtcdFault> => {
  const failure = await call.then(
    () => assert.fail('the call went well'),
    (cause: unknown) => cause,
  );
  if (!(failure instanceof EtcdFault)) throw failure;
  return failure;
};

const refuses = async (call: Promise<unknown>, ...reasons: EtcdFaultReason[]): Promise<EtcdFault> => {
  const fault = await faultOf(call);
  assert.ok(reasons.includes(fault.reason), `${fault.message} is none of ${reasons.join(', ')}`);
  assert.equal(fault.message.includes('\n'), false);
  return fault;
};

const collect = async (client: EtcdMemberClient) => {
  const pieces: Uint8Array[] = [];
  const remaining: bigint[] = [];
  for await (const { blob, remainingBytes } of client.snapshot()) {
    pieces.push(blob);
    remaining.push(remainingBytes);
  }
  return { bytes: Buffer.concat(pieces), remaining };
};

/** A cluster of this many voters from one static list. */
class Cluster implements AsyncDisposable {
  readonly lab: EtcdLab;
  readonly places: Place[] = [];
  readonly token = 'contract';

  private constructor(lab: EtcdLab) {
    this.lab = lab;
  }

  static async bootstrap(implementation: EtcdUnderTest, size: number): Promise<Cluster> {
    const cluster = new Cluster(await implementation.open());
    for (let ordinal = 0; ordinal < size; ordinal += 1) cluster.places.push(await cluster.lab.place(`m${ordinal}`));
    await Promise.all(cluster.places.map((place) => cluster.lab.run(place, cluster.start('new'))));
    await cluster.settled();
    return cluster;
  }

  start(state: Start['state'], places: readonly Place[] = this.places): Start {
    return { state, token: this.token, initialCluster: places.map(({ name, peerURL }) => ({ name, peerURL })) };
  }

  /** Names only the member itself. */
  locked(place: Place): Start {
    return this.start('existing', [place]);
  }

  at(index: number): Place {
    const place = this.places[index];
    assert.ok(place !== undefined);
    return place;
  }

  client(place: Place): EtcdMemberClient {
    return this.lab.clients.at({ url: place.clientURL });
  }

  /** Every running member of the list names the same leader and has told the others where it serves. */
  async settled(places: readonly Place[] = this.places): Promise<readonly EtcdMemberStatus[]> {
    return eventually(async () => {
      const all = await Promise.all(places.map((place) => this.client(place).status()));
      const leaders = new Set(all.map(({ leaderId }) => leaderId));
      assert.ok(leaders.size === 1 && !leaders.has(undefined));
      const [first] = places;
      assert.ok(first !== undefined);
      const { members } = await this.client(first).memberList({ linearizable: true });
      assert.ok(members.every(({ isLearner, clientURLs }) => isLearner || clientURLs.length > 0));
      return all;
    });
  }

  async leader(): Promise<{ place: Place; id: string }> {
    const all = await this.settled();
    const index = all.findIndex(({ memberId, leaderId }) => memberId === leaderId);
    return { place: this.at(index), id: all[index]?.memberId ?? '' };
  }

  async followers(): Promise<readonly { place: Place; id: string }[]> {
    const all = await this.settled();
    return all.flatMap(({ memberId, leaderId }, index) =>
      memberId === leaderId ? [] : [{ place: this.at(index), id: memberId }],
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.lab[Symbol.asyncDispose]();
  }
}

for (const implementation of implementations) {
  describe(`the etcd port on ${implementation.title}`, { concurrency: 1 }, () => {
    describe('with three voters', () => {
      let cluster: Cluster;
      before(async () => {
        cluster = await Cluster.bootstrap(implementation, 3);
      });
      after(() => cluster[Symbol.asyncDispose]());

      test('refuses a learner while the connections are young, and says that nothing happened', async () => {
        const fault = await refuses(
          cluster.client(cluster.at(0)).memberAddLearner(['http://127.0.0.1:9']),
          'UnhealthyCluster',
        );
        assert.equal(fault.retry, 'soon');
        assert.equal(fault.mayHaveHappened, false);
        const { members } = await cluster.client(cluster.at(0)).memberList({ linearizable: true });
        assert.equal(members.length, 3);
      });

      test('forms one cluster whose members tell their own identities', async () => {
        const all = await cluster.settled();
        assert.equal(new Set(all.map(({ clusterId }) => clusterId)).size, 1);
        assert.equal(new Set(all.map(({ memberId }) => memberId)).size, 3);
        const lists = await Promise.all(
          cluster.places.map((place) => cluster.client(place).memberList({ linearizable: true })),
        );
        for (const list of lists) assert.deepEqual(list, lists[0]);
        const [list] = lists;
        assert.ok(list !== undefined);
        assert.equal(list.clusterId, all[0]?.clusterId);
        assert.deepEqual(list.members.map(({ id }) => id).toSorted(), all.map(({ memberId }) => memberId).toSorted());
        for (const [index, { memberId }] of all.entries()) {
          const place = cluster.at(index);
          const expected: EtcdMember = {
            id: memberId,
            name: place.name,
            peerURLs: [place.peerURL],
            clientURLs: [place.clientURL],
            isLearner: false,
          };
          assert.deepEqual(
            list.members.find(({ id }) => id === memberId),
            expected,
          );
        }
      });

      test('writes identities as etcdctl does: lower-case hexadecimal without leading zeros', async () => {
        for (const { memberId, clusterId, leaderId } of await cluster.settled()) {
          for (const id of [memberId, clusterId, leaderId ?? '']) assert.match(id, /^[1-9a-f][0-9a-f]{0,15}$/);
        }
      });

      test('tells version, sizes and indexes of a voter', async () => {
        for (const status of await cluster.settled()) {
          assert.equal(status.version, implementation.version);
          assert.equal(status.isLearner, false);
          assert.deepEqual(status.errors, []);
          for (const fact of [
            'dbSize',
            'dbSizeInUse',
            'raftIndex',
            'raftAppliedIndex',
            'raftTerm',
            'revision',
          ] as const) {
            assert.equal(typeof status[fact], 'bigint');
            assert.ok(status[fact] > 0n, fact);
          }
        }
      });

      test('tells quota and storage version from 3.6 on, which the protocol files of the client do not know', async () => {
        const older = implementation.version.startsWith('3.5.');
        for (const place of cluster.places) {
          await eventually(async () => {
            const { dbSizeQuota, storageVersion } = await cluster.client(place).status();
            assert.equal(dbSizeQuota, older ? undefined : 2_147_483_648n);
            assert.equal(storageVersion, older ? undefined : '3.6.0');
          });
        }
      });

      test('moves the revision with each write and reads it back', async () => {
        const client = cluster.client(cluster.at(0));
        const first = await client.put('greeting', 'hello');
        const second = await client.put('greeting', Buffer.from([0, 255]));
        assert.equal(second, first + 1n);
        for (const place of cluster.places) {
          const found = await cluster.client(place).get('greeting');
          assert.deepEqual([...(found?.value ?? [])], [0, 255]);
          assert.equal(found?.modRevision, second);
        }
        assert.equal((await client.status()).revision, second);
        assert.equal(await client.delete('greeting'), 1);
        assert.equal(await client.delete('greeting'), 0);
        assert.equal(await client.get('greeting'), undefined);
      });

      test('hashes to the same value on every member at one revision', async () => {
        const client = cluster.client(cluster.at(0));
        const revision = await client.put('hashed', '1');
        await client.put('hashed', '2');
        await Promise.all(cluster.places.map((place) => cluster.client(place).get('hashed')));
        const hashes = await Promise.all(cluster.places.map((place) => cluster.client(place).hashKv(revision)));
        assert.equal(hashes[0]?.hashRevision, revision);
        assert.equal(new Set(hashes.map(({ hash }) => hash)).size, 1);
        const later = await client.hashKv(0n);
        assert.notEqual(later.hash, hashes[0]?.hash);
        assert.ok(later.hashRevision > revision);
      });

      test('tells a compacted and a future revision apart from one that can be hashed', async () => {
        const client = cluster.client(cluster.at(0));
        const old = await client.put('compacted', '1');
        const present = await client.put('compacted', '2');
        await client.compact(present);
        assert.equal((await client.hashKv(0n)).compactRevision, present);
        await refuses(client.hashKv(old - 1n), 'Compacted');
        await refuses(client.hashKv(present + 1_000n), 'FutureRevision');
        await refuses(client.compact(old), 'Compacted');
      });

      test('counts the keys of a revision, deleted and later ones aside', async () => {
        const client = cluster.client(cluster.at(0));
        const before = await client.countKeys(await client.put('counted-0', '1'));
        await client.put('counted-1', '1');
        const present = await client.put('counted-1', '2');
        assert.equal(await client.countKeys(present), before + 1n);
        await client.delete('counted-0');
        const { revision } = await client.status();
        assert.equal(await client.countKeys(revision), before);
        assert.equal(await client.countKeys(present), before + 1n);
        await refuses(client.countKeys(revision + 1_000n), 'FutureRevision');
        await client.compact(revision);
        await refuses(client.countKeys(present), 'Compacted');
      });

      test('defragments one member and still answers', async () => {
        const client = cluster.client(cluster.at(1));
        await client.defragment();
        assert.ok((await client.status()).dbSize > 0n);
      });

      test('streams the database followed by its SHA-256, and counts what is left', async () => {
        const client = cluster.client(cluster.at(2));
        for (let i = 0; i < 8; i += 1) await client.put(`filler-${i}`, Buffer.alloc(64 * 1024, i));
        const { bytes, remaining } = await collect(client);
        const database = bytes.subarray(0, -32);
        assert.deepEqual(createHash('sha256').update(database).digest(), bytes.subarray(-32));
        assert.equal(database.length % 512, 0);
        assert.equal(remaining.at(-1), 0n);
        assert.deepEqual(
          remaining,
          remaining.toSorted((a, b) => (a < b ? 1 : -1)),
        );
      });

      test('lets a reader leave a snapshot early and goes on serving', async () => {
        const client = cluster.client(cluster.at(2));
        for await (const { blob } of client.snapshot()) {
          assert.ok(blob.length > 0);
          break;
        }
        await client.status();
      });

      test('lists alarms of the member that has them, refuses writes, and disarms by member and kind', async () => {
        const client = cluster.client(cluster.at(0));
        assert.deepEqual(await client.alarms(), []);
        const { memberId } = await cluster.client(cluster.at(1)).status();

        await cluster.lab.arm(cluster.at(0), memberId, 'NOSPACE');
        assert.deepEqual(await client.alarms(), [{ memberId, alarm: 'NOSPACE' }]);
        await eventually(() => refuses(client.put('full', '1'), 'NoSpace'));
        assert.ok((await client.status()).errors.some((error) => error.includes('NOSPACE')));
        await client.disarm({ memberId, alarm: 'NOSPACE' });
        assert.deepEqual(await client.alarms(), []);
        await eventually(() => client.put('full', '1'));

        await cluster.lab.arm(cluster.at(0), memberId, 'CORRUPT');
        assert.deepEqual(await client.alarms(), [{ memberId, alarm: 'CORRUPT' }]);
        await eventually(() => refuses(client.put('corrupt', '1'), 'Corrupt'));
        await eventually(async () => {
          for (const place of cluster.places)
            assert.equal((await cluster.lab.probe.readyz(place.metricsURL)).ok, false);
        });
        await client.disarm({ memberId, alarm: 'NOSPACE' });
        assert.deepEqual(await client.alarms(), [{ memberId, alarm: 'CORRUPT' }]);
        await client.disarm({ memberId, alarm: 'CORRUPT' });
        await client.disarm({ memberId, alarm: 'CORRUPT' });
        await eventually(() => client.put('corrupt', '1'));
      });

      test('moves the leader only when the leader is asked, and only to a voter', async () => {
        const leader = await cluster.leader();
        const [target, other] = await cluster.followers();
        assert.ok(target !== undefined && other !== undefined);
        await refuses(cluster.client(other.place).moveLeader(target.id), 'NotLeader');
        await refuses(cluster.client(leader.place).moveLeader('abc'), 'BadLeaderTarget');
        await cluster.client(leader.place).moveLeader(target.id);
        await eventually(async () => {
          for (const { leaderId } of await cluster.settled()) assert.equal(leaderId, target.id);
        });
      });

      test('refuses an identity that is none before anything is sent', async () => {
        const client = cluster.client(cluster.at(0));
        for (const id of ['', '0x1', 'XYZ', '8E9E', '11112222333344445']) {
          const fault = await refuses(client.memberRemove(id), 'InvalidRequest');
          assert.equal(fault.mayHaveHappened, false);
        }
      });

      test('is alive and ready, and tells version, leader and revision on the metrics port', async () => {
        for (const [index, status] of (await cluster.settled()).entries()) {
          const { metricsURL } = cluster.at(index);
          assert.deepEqual(await cluster.lab.probe.livez(metricsURL), { ok: true });
          await eventually(async () => assert.deepEqual(await cluster.lab.probe.readyz(metricsURL), { ok: true }));
          const metrics = await cluster.lab.probe.metrics(metricsURL);
          assert.equal(metrics.version, implementation.version);
          assert.equal(metrics.hasLeader, true);
          assert.equal(metrics.isLeader, status.memberId === status.leaderId);
          assert.equal(metrics.isLearner, false);
          assert.equal(metrics.clusterVersion, implementation.version.split('.').slice(0, 2).join('.'));
          const present = await cluster.client(cluster.at(index)).status();
          assert.equal(metrics.currentRevision, present.revision);
        }
      });

      test('ends a call when the caller gives up, before and during it', async () => {
        const place = cluster.at(0);
        const given = AbortSignal.abort();
        await refuses(cluster.client(place).status({ signal: given }), 'Cancelled');
        await cluster.lab.hang(place);
        try {
          const caller = new AbortController();
          const call = cluster.client(place).status({ signal: caller.signal, deadlineMs: 60_000 });
          setImmediate(() => caller.abort());
          await refuses(call, 'Cancelled');
        } finally {
          await cluster.lab.resume(place);
        }
        await cluster.settled();
      });

      test('answers nothing through a client that was closed', async () => {
        const own = cluster.lab.clients.dial({ url: cluster.at(0).clientURL });
        await own.status();
        own.close();
        own.close();
        const fault = await refuses(own.memberRemove('abc'), 'Closed');
        assert.equal(fault.mayHaveHappened, false);
        await cluster.client(cluster.at(0)).status();
      });

      test('calls a hung member a timeout, in time, and talks to it again once it runs', async () => {
        const [{ place } = assert.fail('no follower')] = await cluster.followers();
        await cluster.lab.hang(place);
        const began = performance.now();
        try {
          const faults = await Promise.all([
            refuses(cluster.client(place).status({ deadlineMs: 300 }), 'Timeout'),
            refuses(cluster.lab.probe.livez(place.metricsURL, { deadlineMs: 300 }), 'Timeout'),
            refuses(cluster.client(place).put('late', '1', { deadlineMs: 300 }), 'Timeout'),
          ]);
          assert.ok(performance.now() - began < 2_000);
          assert.deepEqual(
            faults.map(({ mayHaveHappened }) => mayHaveHappened),
            [false, false, true],
          );
        } finally {
          await cluster.lab.resume(place);
        }
        await eventually(() => cluster.client(place).status());
      });

      test('calls a dead member unreachable, and finds it again as soon as it is back', async () => {
        const [{ place } = assert.fail('no follower')] = await cluster.followers();
        await cluster.lab.kill(place);
        for (let i = 0; i < 5; i += 1) await refuses(cluster.client(place).status(), 'Unreachable');
        const fault = await refuses(cluster.client(place).memberRemove('abc'), 'Unreachable');
        assert.equal(fault.mayHaveHappened, false);
        await refuses(cluster.lab.probe.livez(place.metricsURL), 'Unreachable');
        await cluster.lab.run(place, cluster.locked(place));
        await cluster.settled();
      });
    });

    test('takes a learner, promotes it once it has caught up, and lets a voter go', async () => {
      await using cluster = await Cluster.bootstrap(implementation, 3);
      const { lab } = cluster;
      await cluster.client(cluster.at(0)).put('before', 'the learner');
      await lab.matureConnections();

      const newcomer = await lab.place('m3');
      const { memberId, membership } = await eventually(() =>
        cluster.client(cluster.at(0)).memberAddLearner([newcomer.peerURL]),
      );
      const unnamed = { id: memberId, name: '', peerURLs: [newcomer.peerURL], clientURLs: [], isLearner: true };
      assert.deepEqual(
        membership.members.find(({ id }) => id === memberId),
        unnamed,
      );
      assert.deepEqual(await cluster.client(cluster.at(1)).memberList({ linearizable: true }), membership);

      const early = await refuses(cluster.client(cluster.at(0)).memberPromote(memberId), 'LearnerNotReady');
      assert.equal(early.mayHaveHappened, false);
      // etcd makes the identity of the URL and the present second, and looks for that first.
      await refuses(
        cluster.client(cluster.at(0)).memberAddLearner([newcomer.peerURL]),
        'MemberExists',
        'PeerURLExists',
      );
      await refuses(cluster.client(cluster.at(0)).memberAddLearner(['http://127.0.0.1:9']), 'TooManyLearners');

      await lab.run(newcomer, cluster.start('existing', [...cluster.places, newcomer]));
      const learner = cluster.client(newcomer);
      const status = await eventually(async () => {
        const seen = await learner.status();
        assert.notEqual(seen.leaderId, undefined);
        return seen;
      });
      assert.equal(status.memberId, memberId);
      assert.equal(status.isLearner, true);
      await refuses(learner.get('before'), 'NotServedByLearner');
      await refuses(learner.put('by', 'learner'), 'NotServedByLearner');
      await eventually(async () => {
        const found = await learner.get('before', { serializable: true });
        assert.equal(Buffer.from(found?.value ?? []).toString(), 'the learner');
      });
      assert.equal((await lab.probe.metrics(newcomer.metricsURL)).isLearner, true);
      const leader = await cluster.leader();
      await refuses(cluster.client(leader.place).moveLeader(memberId), 'BadLeaderTarget');

      const promoted = await eventually(() => cluster.client(cluster.at(0)).memberPromote(memberId));
      assert.equal(promoted.members.find(({ id }) => id === memberId)?.isLearner, false);
      await refuses(cluster.client(cluster.at(0)).memberPromote(memberId), 'NotALearner');
      cluster.places.push(newcomer);
      await eventually(async () => assert.equal((await learner.status()).isLearner, false));
      await cluster.settled();

      const [{ place: leaving, id } = assert.fail('no follower')] = await cluster.followers();
      await lab.matureConnections();
      const staying = cluster.places.filter((place) => place !== leaving);
      const witness = staying[0] ?? assert.fail('nobody stays');
      const after = await cluster.client(witness).memberRemove(id);
      assert.equal(after.members.length, 3);
      assert.equal(
        after.members.some((member) => member.id === id),
        false,
      );
      await refuses(cluster.client(witness).memberRemove(id), 'MemberNotFound');
      await refuses(cluster.client(witness).memberPromote(id), 'MemberNotFound');
      await lab.ended(leaving);
      await cluster.settled(staying);
    });

    test('confirms a member list only with a quorum behind it', async () => {
      await using cluster = await Cluster.bootstrap(implementation, 3);
      const [survivor, ...others] = cluster.places;
      assert.ok(survivor !== undefined);
      const client = cluster.client(survivor);
      await client.put('last', 'acknowledged');
      const list = await client.memberList({ linearizable: true });
      await Promise.all(others.map((place) => cluster.lab.kill(place)));
      await eventually(async () => assert.equal((await client.status()).leaderId, undefined));

      await refuses(
        client.memberList({ linearizable: true }, { deadlineMs: 500 }),
        'Timeout',
        'ServerTimeout',
        'NoLeader',
      );
      await refuses(client.get('last', { deadlineMs: 500 }), 'Timeout', 'ServerTimeout', 'NoLeader');
      const fault = await refuses(
        client.put('never', '1', { deadlineMs: 500 }),
        'Timeout',
        'ServerTimeout',
        'NoLeader',
      );
      assert.ok(fault.reason === 'NoLeader' || fault.mayHaveHappened);

      assert.deepEqual(await client.memberList({ linearizable: false }), list);
      assert.equal((await client.get('last', { serializable: true }))?.value.length, 12);
      assert.ok((await client.status()).errors.some((error) => error.includes('no leader')));
      assert.ok((await client.hashKv(0n)).hash > 0);
      assert.ok((await collect(client)).bytes.length > 32);
      assert.equal((await cluster.lab.probe.metrics(survivor.metricsURL)).hasLeader, false);
      assert.deepEqual(await cluster.lab.probe.livez(survivor.metricsURL), { ok: true });
    });

    test('removes a dead voter, and takes no learner before that', async () => {
      await using cluster = await Cluster.bootstrap(implementation, 3);
      const [{ place: dead, id } = assert.fail('no follower')] = await cluster.followers();
      await cluster.lab.kill(dead);
      const living = cluster.places.filter((place) => place !== dead);
      await cluster.lab.matureConnections();
      const client = cluster.client(living[0] ?? assert.fail('nobody lives'));
      await refuses(client.memberAddLearner(['http://127.0.0.1:9']), 'UnhealthyCluster');
      assert.equal((await client.memberRemove(id)).members.length, 2);
      await eventually(() => client.memberAddLearner(['http://127.0.0.1:9']));
    });

    test('takes a member of the first list that starts late, and no second time', async () => {
      const lab = await implementation.open();
      await using _ = lab;
      const places = [await lab.place('m0'), await lab.place('m1'), await lab.place('m2')];
      const initialCluster = places.map(({ name, peerURL }) => ({ name, peerURL }));
      const start = { initialCluster, state: 'new', token: 'late' } as const;
      const [first, second, late] = places;
      assert.ok(first !== undefined && second !== undefined && late !== undefined);
      const client = (place: Place) => lab.clients.at({ url: place.clientURL });

      await lab.run(first, start);
      await refuses(client(first).status({ deadlineMs: 500 }), 'Unreachable', 'Timeout');
      await lab.run(second, start);
      await eventually(async () => assert.ok((await client(first).status()).leaderId));
      await eventually(() => client(first).put('before', 'the third'));
      await lab.run(late, start);
      await eventually(async () => assert.ok((await client(late).get('before')) !== undefined));
      assert.equal((await client(late).status()).clusterId, (await client(first).status()).clusterId);

      await lab.terminate(late);
      await lab.wipe(late);
      await lab.run(late, start);
      const { exitCode, terminationMessage } = await lab.ended(late);
      assert.equal(exitCode, 1);
      assert.equal(classifyExit({ exitCode: 1, message: terminationMessage }).reason, 'AlreadyBootstrapped');
    });

    test('refuses the start of a stranger and of a newcomer with a stale list', async () => {
      await using cluster = await Cluster.bootstrap(implementation, 3);
      const { lab } = cluster;
      const last = async (place: Place) => {
        const { exitCode, terminationMessage } = await lab.ended(place);
        return classifyExit({ exitCode: exitCode ?? 0, message: terminationMessage, joining: true }).reason;
      };

      const stranger = await lab.place('stranger');
      await lab.run(stranger, cluster.start('existing', [...cluster.places, stranger]));
      assert.equal(await last(stranger), 'MemberCountUnequal');

      const newcomer = await lab.place('m3');
      await lab.matureConnections();
      await eventually(() => cluster.client(cluster.at(0)).memberAddLearner([newcomer.peerURL]));
      const elsewhere = { ...cluster.at(2), peerURL: stranger.peerURL };
      await lab.run(newcomer, cluster.start('existing', [cluster.at(0), cluster.at(1), elsewhere, newcomer]));
      assert.equal(await last(newcomer), 'PeerURLsDiffer');
      await lab.wipe(newcomer);

      const alone = await lab.place('alone');
      const nobody = { name: 'nobody', peerURL: 'http://127.0.0.1:9' };
      const start: Start = { token: cluster.token, state: 'existing', initialCluster: [alone, nobody] };
      await lab.run(alone, start);
      assert.equal(await last(alone), 'PeersNotReached');
    });

    test('answers no client after a restart without quorum, and tells its revision on the metrics port', async () => {
      await using cluster = await Cluster.bootstrap(implementation, 3);
      const { lab } = cluster;
      const [survivor, ...others] = cluster.places;
      assert.ok(survivor !== undefined);
      const client = cluster.client(survivor);
      const revision = await client.put('last', 'write');
      for (const place of others) await lab.kill(place);
      await lab.terminate(survivor);
      await lab.run(survivor, cluster.locked(survivor));
      await eventually(async () => {
        const metrics = await lab.probe.metrics(survivor.metricsURL);
        assert.equal(metrics.currentRevision, revision);
        assert.equal(metrics.hasLeader, false);
      });
      await refuses(client.status({ deadlineMs: 500 }), 'Timeout');

      for (const place of others) await lab.run(place, cluster.locked(place));
      await cluster.settled();
      assert.ok((await client.get('last')) !== undefined);
    });

    test('ends a removed member that comes back', async () => {
      await using cluster = await Cluster.bootstrap(implementation, 3);
      const { lab } = cluster;
      const [{ place, id } = assert.fail('no follower')] = await cluster.followers();
      await lab.kill(place);
      const witness = cluster.places.find((other) => other !== place) ?? assert.fail('nobody is left');
      await eventually(() => cluster.client(witness).memberRemove(id));
      await lab.run(place, cluster.locked(place));
      const { exitCode, terminationMessage } = await lab.ended(place);
      const { reason } = classifyExit({ exitCode: exitCode ?? 0, message: terminationMessage });
      assert.ok(reason === 'Stopped' || reason === 'RemovedMember', `${exitCode} ${terminationMessage}`);
    });

    test('starts a locked member on its own data and not on a wiped disk', async () => {
      await using cluster = await Cluster.bootstrap(implementation, 3);
      const { lab } = cluster;
      const [{ place, id } = assert.fail('no follower')] = await cluster.followers();
      await lab.terminate(place);
      await lab.run(place, cluster.locked(place));
      await cluster.settled();
      assert.equal((await cluster.client(place).status()).memberId, id);

      await lab.terminate(place);
      await lab.wipe(place);
      await lab.run(place, cluster.locked(place));
      const { exitCode, terminationMessage } = await lab.ended(place);
      assert.equal(exitCode, 1);
      assert.equal(classifyExit({ exitCode: 1, message: terminationMessage }).reason, 'WipedOrWalGone');
    });

    test('asks for a user once authentication is on, and serves everything to root', async () => {
      await using cluster = await Cluster.bootstrap(implementation, 1);
      const { lab } = cluster;
      const place = cluster.at(0);
      const url = place.clientURL;
      const as = (username: string, password = 'correct') => lab.clients.at({ url, auth: { username, password } });

      // Credentials are configured before the cluster asks for them.
      await as('root').put('early', '1');
      await lab.enableAuth(place, 'correct');

      const anonymous = cluster.client(place);
      for (const call of [
        () => anonymous.status(),
        () => anonymous.get('early'),
        () => anonymous.memberRemove('abc'),
        () => anonymous.hashKv(0n),
        () => collect(anonymous),
      ]) {
        const fault = await refuses(call(), 'AuthRequired');
        assert.equal(fault.mayHaveHappened, false);
      }

      const root = as('root');
      assert.equal(root, as('root'));
      await root.status();
      await root.put('late', '2');
      assert.equal((await root.memberList({ linearizable: true })).members.length, 1);
      assert.ok((await root.hashKv(0n)).hash > 0);
      const { bytes } = await collect(root);
      assert.deepEqual(createHash('sha256').update(bytes.subarray(0, -32)).digest(), bytes.subarray(-32));
      assert.deepEqual(await root.alarms(), []);
      await root.defragment();

      for (const call of [() => as('root', 'wrong').status(), () => as('stranger').put('a', 'b')]) {
        const fault = await refuses(call(), 'InvalidAuth');
        assert.equal(fault.message.includes('wrong') || fault.message.includes('correct'), false);
      }
      await refuses(as('nobody').put('late', '3'), 'PermissionDenied');
      await refuses(as('nobody').hashKv(0n), 'PermissionDenied');
      await refuses(collect(as('nobody')), 'PermissionDenied');

      assert.equal(await root.authStatus(), 'onForRoot');
      assert.equal(await as('nobody').authStatus(), 'onForOthers');
      assert.equal(await anonymous.authStatus(), 'onForOthers');
      // A restart forgets every token; the client asks for a new one by itself.
      await lab.terminate(place);
      await lab.run(place, cluster.locked(place));
      await eventually(() => root.put('after', 'restart'));
      await collect(root);

      await lab.disableAuth(place, 'correct');
      await anonymous.put('open', '1');
      await root.put('open', '2');
    });

    test('turns authentication on and off by its calls, and a changed password counts at once', async () => {
      await using cluster = await Cluster.bootstrap(implementation, 1);
      const url = cluster.at(0).clientURL;
      const anonymous = cluster.client(cluster.at(0));
      const root = (password: string) => cluster.lab.clients.at({ url, auth: { username: 'root', password } });
      assert.equal(await anonymous.authStatus(), 'off');
      await refuses(anonymous.authEnable(), 'RootMissing');
      await anonymous.userAdd('root', 'first');
      await refuses(anonymous.userAdd('root', 'first'), 'UserExists');
      await anonymous.roleAdd('root');
      await refuses(anonymous.roleAdd('root'), 'RoleExists');
      await anonymous.userGrantRole('root', 'root');
      await anonymous.userGrantRole('root', 'root');
      await anonymous.userChangePassword('root', 'second');
      await anonymous.authEnable();
      await refuses(anonymous.put('a', 'b'), 'AuthRequired');
      await refuses(root('first').put('a', 'b'), 'InvalidAuth');
      await root('second').put('a', 'b');
      await root('second').authEnable();
      await root('second').userChangePassword('root', 'third');
      await root('third').put('a', 'c');
      await refuses(anonymous.authRevision(), 'AuthRequired');
      const before = await root('third').authRevision();
      await root('third').userAdd('somebody', 'else');
      assert.ok((await root('third').authRevision()) > before, 'a token of before is told by its number');
      await refuses(
        cluster.lab.clients.dial({ url, auth: { username: 'root', password: 'second' } }).status(),
        'InvalidAuth',
      );
      await root('third').authDisable();
      assert.equal(await anonymous.authStatus(), 'off');
      await anonymous.put('open', '1');
    });

    test('takes the token of a voter at a learner, which gives out none', async () => {
      await using cluster = await Cluster.bootstrap(implementation, 1);
      const { lab } = cluster;
      const voter = cluster.at(0);
      const newcomer = await lab.place('late');
      await eventually(() => cluster.client(voter).memberAddLearner([newcomer.peerURL]));
      await lab.run(newcomer, cluster.start('existing', [...cluster.places, newcomer]));
      await eventually(() => cluster.client(newcomer).status());
      await lab.enableAuth(voter, 'correct');
      const nowhere = { url: (await lab.place('nowhere')).clientURL };
      let places = [nowhere];
      const as = (password: string) => ({ username: 'root', password, loginAt: () => places });
      const learner = lab.clients.at({ url: newcomer.clientURL, auth: as('correct') });
      await refuses(learner.status(), 'Unreachable');
      // The client was made before any voter was known to serve, and finds the one that does now.
      places = [nowhere, { url: voter.clientURL }];
      const { isLearner } = await eventually(() => learner.status());
      assert.equal(isLearner, true);
      await refuses(lab.clients.at({ url: newcomer.clientURL, auth: as('wrong') }).status(), 'InvalidAuth');
      // A restart forgets every token.
      await lab.terminate(newcomer);
      await lab.run(newcomer, cluster.locked(newcomer));
      await eventually(() => learner.status());
    });

    test('gives a member other peer URLs, and it stays the member it is', async () => {
      await using cluster = await Cluster.bootstrap(implementation, 1);
      const client = cluster.client(cluster.at(0));
      const [member] = (await client.memberList({ linearizable: true })).members;
      assert.ok(member);
      const url = (member.peerURLs[0] ?? '').replace('http:', 'https:');
      const { members } = await client.memberUpdate(member.id, [url]);
      assert.deepEqual(members, [{ ...member, peerURLs: [url] }]);
      await refuses(client.memberUpdate('abc', [url]), 'MemberNotFound');
    });
  });
}
