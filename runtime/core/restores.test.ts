import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { EtcdSnapshot } from '../../api/etcdsnapshot.gen.ts';
import { sourceOf } from './restores.ts';

describe('the source of an EtcdRestore that names an EtcdSnapshot', () => {
  const stored = (keys?: string): EtcdSnapshot => ({
    apiVersion: 'etcd-operator.cozystack.io/v1alpha2',
    kind: 'EtcdSnapshot',
    metadata: { name: 'last' },
    spec: {
      clusterRef: { name: 'demo' },
      destination: {
        pvc: { claimName: 'backups' },
        ...(keys === undefined ? {} : { encryption: { keySecretRef: { name: keys } } }),
      },
    },
    status: {
      phase: 'Complete',
      revision: '7',
      artifact: { uri: 'pvc://backups/last.db', sizeBytes: 1, checksum: 'sha256:ab' },
    },
  });
  const keysOf = (snapshot: EtcdSnapshot, named?: string): string | undefined => {
    const encryption = named === undefined ? {} : { encryption: { keySecretRef: { name: named } } };
    const source = sourceOf({ source: { snapshotRef: { name: 'last' }, ...encryption } }, snapshot);
    return source.is === 'known' ? source.location.encryption?.keySecretRef.name : source.why;
  };

  it('is read by the keys that it was stored by, or by those that the EtcdRestore names', () => {
    assert.equal(keysOf(stored('then')), 'then');
    assert.equal(keysOf(stored('then'), 'now'), 'now', 'the Secret of that time may be gone');
    assert.equal(keysOf(stored(), 'now'), 'now', 'whether it is encrypted is seen when it is read, and said');
    assert.equal(keysOf(stored()), undefined);
  });
});
