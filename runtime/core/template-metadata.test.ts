import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { EtcdMemberSpec } from '../../api/etcdmember.gen.ts';
import { ANNOTATIONS, LABELS } from '../../api/names.ts';
import { metadataPatch, metadataRecord, restartPart } from './template-metadata.ts';

describe('metadata that changes in place', () => {
  const before = metadataRecord({ labels: { team: 'a', kept: 'x' }, annotations: { note: 'n' } });

  test('takes back what it gave before and gives no longer', () => {
    const { labels, annotations } = metadataPatch(before, { labels: { kept: 'y' } });
    assert.deepEqual(labels, { team: null, kept: 'y' });
    assert.equal(annotations.note, null);
    assert.equal(annotations[ANNOTATIONS.metadata], metadataRecord({ labels: { kept: 'y' } }));
  });

  test('leaves alone what somebody else put there: without a record nothing is known to be ours', () => {
    for (const record of [undefined, 'not json']) {
      assert.deepEqual(metadataPatch(record, { labels: { a: 'b' } }).labels, { a: 'b' });
    }
  });

  test('never opens a Pod to clients and never takes a label that the runtime lives by', () => {
    const open = metadataPatch(undefined, { labels: { [LABELS.role]: 'voter' } });
    assert.deepEqual(open.labels, {});
    const closed = metadataPatch(metadataRecord({ labels: { [LABELS.member]: 'demo-0' } }), {});
    assert.deepEqual(closed.labels, {});
  });

  test('is recorded alike for equal metadata in any order', () => {
    assert.equal(metadataRecord({ labels: { a: '1', b: '2' } }), metadataRecord({ labels: { b: '2', a: '1' } }));
  });
});

describe('what needs another Pod', () => {
  const spec = (more: { memory?: string; options?: EtcdMemberSpec['options']; labels?: Record<string, string> }) =>
    restartPart({
      clusterName: 'demo',
      version: '3.6.16',
      storage: { medium: '', retention: 'Delete' },
      ...(more.options === undefined ? {} : { options: more.options }),
      template: {
        metadata: { labels: more.labels ?? {} },
        spec: { containers: [{ name: 'etcd', resources: { limits: { memory: more.memory ?? '1Gi' } } }] },
      },
    });

  test('is the same amount in another spelling no more than the same spelling', () => {
    assert.deepEqual(spec({ memory: '1024Mi' }), spec({ memory: '1Gi' }));
    assert.notDeepEqual(spec({ memory: '1025Mi' }), spec({ memory: '1Gi' }));
  });

  test('is not a default that is made explicit', () => {
    const explicit = { quotaBackendBytes: 0, autoCompactionMode: 'periodic', autoCompactionRetention: '0' } as const;
    assert.deepEqual(spec({ options: explicit }), spec({}));
  });

  test('is every option that says something else than the default', () => {
    const options: readonly NonNullable<EtcdMemberSpec['options']>[] = [
      { quotaBackendBytes: 1 },
      { snapshotCount: 5 },
      { autoCompactionRetention: '5' },
      { autoCompactionRetention: '5', autoCompactionMode: 'revision' },
    ];
    const parts = [{}, ...options].map((one) => JSON.stringify(spec({ options: one })));
    assert.equal(new Set(parts).size, parts.length);
  });

  test('is not metadata', () => assert.deepEqual(spec({ labels: { a: 'b' } }), spec({})));
});
