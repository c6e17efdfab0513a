import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { EtcdMemberStatus } from '../../ports/etcd.ts';
import { known, unknown } from '../observed.ts';
import { type Candidate, chooseSource } from './source.ts';

const status = (memberId: string, change: Partial<EtcdMemberStatus> = {}): EtcdMemberStatus => ({
  clusterId: 'c',
  memberId,
  leaderId: '1',
  version: '3.6.16',
  storageVersion: '3.6.0',
  dbSize: 100n,
  dbSizeInUse: 100n,
  dbSizeQuota: undefined,
  raftIndex: 10n,
  raftAppliedIndex: 10n,
  raftTerm: 2n,
  isLearner: false,
  revision: 5n,
  errors: [],
  ...change,
});
const chosen = (candidates: readonly Candidate[]): string => {
  const choice = chooseSource(candidates, 'c');
  return 'none' in choice ? `none: ${choice.none}` : choice.member;
};

describe('the member that a snapshot is taken from', () => {
  test('is a follower, the one that has applied most, and the leader only where nobody else is fit', () => {
    const leader = { member: 'a', status: known(status('1', { raftAppliedIndex: 12n })) };
    const follower = { member: 'b', status: known(status('2')) };
    const further = { member: 'c', status: known(status('3', { raftAppliedIndex: 11n })) };
    assert.equal(chosen([leader, follower, further]), 'c');
    assert.equal(chosen([leader, follower]), 'b');
    assert.equal(chosen([leader, { member: 'b', status: unknown('gone') }]), 'a');
  });

  test('never lags, never is in doubt, never belongs to another cluster; and each refusal is told', () => {
    const unfit: Candidate[] = [
      { member: 'a', status: known(status('1', { isLearner: true })) },
      { member: 'b', status: known(status('2', { leaderId: undefined })) },
      { member: 'c', status: known(status('3', { errors: ['memberID:3 alarm:CORRUPT'] })) },
      { member: 'd', status: known(status('4', { clusterId: 'x' })) },
      { member: 'e', status: unknown('Unreachable: no route') },
    ];
    const said = chosen(unfit);
    for (const words of ['a: it is a learner', 'b: it knows of no leader', 'CORRUPT', 'not c', 'no route']) {
      assert.ok(said.includes(words), `${words} in: ${said}`);
    }
    assert.equal(chosen([]), 'none: no member is known');
  });

  test('may report that its space is full: reading it needs none', () => {
    assert.equal(chosen([{ member: 'a', status: known(status('2', { errors: ['memberID:2 alarm:NOSPACE'] })) }]), 'a');
  });
});
