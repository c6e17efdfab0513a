import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { EtcdMemberSpec } from '../../api/etcdmember.gen.ts';
import { templateHash } from './observe.ts';

const spec = (more: Partial<EtcdMemberSpec> = {}): EtcdMemberSpec => ({
  clusterName: 'demo',
  version: '3.6.16',
  storage: { medium: '', retention: 'Delete' },
  options: { snapshotCount: 10_000 },
  template: {
    metadata: { labels: { a: 'b' } },
    spec: { containers: [{ name: 'etcd', image: 'quay.io/coreos/etcd:v3.6.16' }] },
  },
  ...more,
});

describe('the hash of a member template', () => {
  test('never changes for the same template, since running Pods carry it and a new one would roll every cluster', () => {
    assert.equal(templateHash(spec()), 'ddfbe37b63eaa63565359ea03d309287');
  });

  test('does not depend on the order of keys, which the API server does not keep', () => {
    const { template, options, version } = spec();
    const turned: EtcdMemberSpec = {
      ...spec(),
      version,
      ...(options === undefined ? {} : { options }),
      template: { spec: template.spec, metadata: template.metadata },
    };
    assert.equal(templateHash(turned), templateHash(spec()));
  });

  test('changes with the version, the options and the Pod, and with nothing else', () => {
    assert.notEqual(templateHash(spec({ version: '3.6.17' })), templateHash(spec()));
    assert.notEqual(templateHash(spec({ options: { snapshotCount: 5_000 } })), templateHash(spec()));
    assert.equal(templateHash(spec({ storage: { medium: '', retention: 'Retain' } })), templateHash(spec()));
    assert.equal(
      templateHash(spec({ resourceRefs: [{ apiVersion: 'v1', kind: 'Pod', name: 'x' }] })),
      templateHash(spec()),
    );
  });
});
