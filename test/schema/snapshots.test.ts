/** EtcdSnapshots, schedules and restores at a real API server. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { type Answer, type ApiServer, startApiServer } from './apiserver.ts';
import { definitions } from './definitions.ts';

const API = '/apis/etcd-operator.cozystack.io/v1alpha2/namespaces/default';
let server: ApiServer;
let numbered = 0;

before(async () => {
  server = await startApiServer();
  await server.define(...(await definitions(join(import.meta.dirname, '../..'))));
});
after(async () => {
  await server[Symbol.asyncDispose]();
});

type Kind = 'EtcdRestore' | 'EtcdSnapshot' | 'EtcdSnapshotSchedule' | 'EtcdCluster';
const plural = (kind: Kind): string => `${kind.toLowerCase()}s`;

const create = (kind: Kind, spec: object, name = `o${++numbered}`): Promise<Answer> =>
  server.request('POST', `${API}/${plural(kind)}?fieldValidation=Strict`, {
    apiVersion: 'etcd-operator.cozystack.io/v1alpha2',
    kind,
    metadata: { name },
    spec,
  });

const change = async (kind: Kind, from: object, to: object): Promise<Answer> => {
  const created = await create(kind, from);
  assert.equal(created.code, 201, created.body.message);
  return server.request('PUT', `${API}/${plural(kind)}/${created.body.metadata.name}`, {
    ...created.body,
    spec: { ...created.body.spec, ...to },
  });
};

const says = (answer: Answer, words: RegExp): void => {
  assert.equal(answer.code, 422, `${answer.code} ${answer.body.message}`);
  assert.match(answer.body.message, words);
};
const taken = (answer: Answer): void => assert.ok(answer.code === 200 || answer.code === 201, answer.body.message);

const s3 = { endpoint: 'https://s3.example.org', bucket: 'b', credentialsSecretRef: { name: 's3' } };
const pvc = { claimName: 'backups' };

describe('EtcdSnapshot', () => {
  const spec = { clusterRef: { name: 'demo' }, destination: { s3 } };

  it('takes a bucket or a volume, written as for the Go operator', async () => {
    taken(await create('EtcdSnapshot', spec));
    taken(await create('EtcdSnapshot', { ...spec, destination: { pvc } }));
    taken(
      await create('EtcdSnapshot', {
        ...spec,
        destination: { s3: { ...s3, key: 'prefix/', region: 'eu', forcePathStyle: true } },
      }),
    );
  });

  it('takes exactly one destination', async () => {
    says(await create('EtcdSnapshot', { ...spec, destination: {} }), /exactly one of s3 and pvc/);
    says(await create('EtcdSnapshot', { ...spec, destination: { s3, pvc } }), /exactly one of s3 and pvc/);
  });

  it('names a cluster and a store that can be', async () => {
    says(await create('EtcdSnapshot', { ...spec, clusterRef: { name: '' } }), /clusterRef.name/);
    says(
      await create('EtcdSnapshot', { ...spec, destination: { s3: { ...s3, endpoint: 's3.example.org' } } }),
      /must be a URL/,
    );
    says(
      await create('EtcdSnapshot', {
        ...spec,
        destination: { s3: { ...s3, endpoint: 'https://me:word@s3.example.org' } },
      }),
      /endpoint must not name a user or a password; .* credentialsSecretRef/,
    );
    says(await create('EtcdSnapshot', spec, 'x'.repeat(59)), /at most 58 characters/);
  });

  it('takes encryption by us and by the store, and a key of the key service only with it', async () => {
    const encryption = { keySecretRef: { name: 'backup-keys' } };
    const by = (serverSideEncryption: object): object => ({ s3: { ...s3, serverSideEncryption } });
    taken(await create('EtcdSnapshot', { ...spec, destination: { s3, encryption } }));
    taken(await create('EtcdSnapshot', { ...spec, destination: { pvc, encryption } }));
    says(await create('EtcdSnapshot', { ...spec, destination: { s3, encryption: {} } }), /encryption.keySecretRef/);
    taken(await create('EtcdSnapshot', { ...spec, destination: by({ mode: 'aws:kms', kmsKeyID: 'alias/etcd' }) }));
    says(
      await create('EtcdSnapshot', { ...spec, destination: by({ mode: 'AES256', kmsKeyID: 'alias/etcd' }) }),
      /kmsKeyID names a key of the key service/,
    );
  });

  it('never changes, since another snapshot is another object', async () => {
    says(await change('EtcdSnapshot', spec, { destination: { pvc } }), /the spec of a snapshot cannot change/);
  });
});

describe('EtcdRestore', () => {
  const consent = { clusterID: '2f2d20ae9ae2fdb6', acceptDataLoss: true };
  const spec = { clusterRef: { name: 'demo' }, source: { snapshotRef: { name: 'last' } }, ...consent };

  it('takes an EtcdSnapshot by name, or what lies in a bucket or on a volume', async () => {
    taken(await create('EtcdRestore', spec));
    taken(await create('EtcdRestore', { ...spec, source: { s3: { ...s3, key: 'demo/last.db' } } }));
    taken(await create('EtcdRestore', { ...spec, source: { pvc: { ...pvc, subPath: 'last.db' } } }));
  });

  it('takes exactly one source, and the exact object in a store', async () => {
    says(await create('EtcdRestore', { ...spec, source: {} }), /exactly one of snapshotRef, s3 and pvc/);
    says(
      await create('EtcdRestore', { ...spec, source: { ...spec.source, pvc: { ...pvc, subPath: 'x' } } }),
      /exactly one of snapshotRef, s3 and pvc/,
    );
    says(await create('EtcdRestore', { ...spec, source: { s3 } }), /key/);
    says(await create('EtcdRestore', { ...spec, source: { s3: { ...s3, endpoint: 'x', key: 'k' } } }), /must be a URL/);
  });

  it('needs consent, and the ID of the cluster that it is given to', async () => {
    says(await create('EtcdRestore', { ...spec, acceptDataLoss: false }), /acceptDataLoss must be true/);
    says(await create('EtcdRestore', { ...spec, acceptDataLoss: undefined }), /acceptDataLoss/);
    says(await create('EtcdRestore', { ...spec, clusterID: undefined }), /clusterID/);
    says(await create('EtcdRestore', { ...spec, clusterID: 'demo' }), /must be the ID of the running cluster/);
  });

  it('never changes, since another restore is another object', async () => {
    says(await change('EtcdRestore', spec, { clusterRef: { name: 'other' } }), /the spec of a restore cannot change/);
  });
});

describe('EtcdSnapshotSchedule', () => {
  const spec = { clusterRef: { name: 'demo' }, schedule: '*/30 * * * *', destination: { s3 } };

  it('takes the old operator’s "every 30 minutes, keep three"', async () => {
    taken(await create('EtcdSnapshotSchedule', { ...spec, retention: { keepLast: 3 } }));
  });

  it('may change in everything but its cluster', async () => {
    taken(
      await change('EtcdSnapshotSchedule', spec, { schedule: '0 3 * * *', timeZone: 'Europe/Berlin', suspend: true }),
    );
    says(
      await change('EtcdSnapshotSchedule', spec, { clusterRef: { name: 'other' } }),
      /cluster of a schedule cannot change/,
    );
  });

  it('reads ages and sizes only where they are clear', async () => {
    taken(await create('EtcdSnapshotSchedule', { ...spec, retention: { maxAge: '90d', maxTotalSize: '100Gi' } }));
    says(await create('EtcdSnapshotSchedule', { ...spec, retention: { maxAge: '90' } }), /retention.maxAge/);
    says(
      await create('EtcdSnapshotSchedule', { ...spec, retention: { maxTotalSize: '-1' } }),
      /retention.maxTotalSize/,
    );
  });
});

describe('a claim that is restored or backed up', () => {
  const version = { version: '3.6.16' };
  const source = { s3: { ...s3, key: 'demo/last.db' } };

  it('names the exact object', async () => {
    taken(await create('EtcdCluster', { ...version, bootstrap: { restore: { source } } }));
    says(await create('EtcdCluster', { ...version, bootstrap: { restore: { source: { s3 } } } }), /key/);
    says(await create('EtcdCluster', { ...version, bootstrap: { restore: { source: { pvc } } } }), /subPath/);
    const encryption = { keySecretRef: { name: 'backup-keys' } };
    taken(
      await create('EtcdCluster', {
        ...version,
        bootstrap: { restore: { source: { ...source, encryption } } },
        backup: { schedule: '0 3 * * *', destination: { s3, encryption } },
      }),
    );
  });

  it('cannot be restored once it exists, since that is read only when it forms', async () => {
    const begun = { ...version, bootstrap: { restore: { source } } };
    says(await change('EtcdCluster', version, begun), /spec.bootstrap cannot be added or taken away/);
    says(
      await change('EtcdCluster', begun, { bootstrap: { restore: { source: { s3: { ...s3, key: 'x' } } } } }),
      /spec.bootstrap cannot change/,
    );
  });

  it('has a volume to be restored onto', async () => {
    says(
      await create('EtcdCluster', {
        ...version,
        storage: { medium: 'Memory', size: '64Mi' },
        bootstrap: { restore: { source } },
      }),
      /needs a volume to restore onto/,
    );
  });

  it('may be given backups and freed of them at any time', async () => {
    taken(await change('EtcdCluster', version, { backup: { schedule: '0 3 * * *', destination: { s3 } } }));
  });
});
