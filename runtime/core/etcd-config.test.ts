import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { parse } from 'yaml';
import {
  type EtcdConfig,
  type EtcdMinor,
  etcdConfigFile,
  etcdMinor,
  everyAddress,
  lockedConfig,
  optionProblems,
} from './etcd-config.ts';

const three = ['a', 'b', 'c'].map((token, i) => ({
  name: `blue-${i}-${token}`,
  peerURL: `http://blue-${i}-${token}.blue.shop.svc:2380`,
}));

const config = (more: Partial<EtcdConfig> = {}): EtcdConfig => ({
  minor: '3.6',
  name: 'blue-0-a',
  dataDir: '/var/lib/etcd/blue-0-a',
  peerURL: 'http://blue-0-a.blue.shop.svc:2380',
  clientURL: 'http://blue-0-a.blue.shop.svc:2379',
  listen: { peer: everyAddress(2380), client: everyAddress(2379), metrics: everyAddress(2381) },
  initialCluster: three,
  initialClusterState: 'new',
  initialClusterToken: 'uid-1',
  ...more,
});

const read = (more: Partial<EtcdConfig> = {}): Record<string, unknown> =>
  parse(etcdConfigFile(config(more))) as Record<string, unknown>;

describe('the configuration file', () => {
  test('is YAML with one key a line, so that a person can read it in the Pod annotation', () => {
    const text = etcdConfigFile(config());
    assert.equal(text.split('\n').length - 1, Object.keys(read()).length);
    assert.match(text, /^name: "blue-0-a"\n/);
  });

  test('is the same text for the same members in another order, so that nothing restarts over it', () => {
    assert.equal(
      etcdConfigFile(config({ initialCluster: three })),
      etcdConfigFile(config({ initialCluster: three.toReversed() })),
    );
  });

  test('names every member of the first cluster', () => {
    assert.equal(
      read()['initial-cluster'],
      'blue-0-a=http://blue-0-a.blue.shop.svc:2380,blue-1-b=http://blue-1-b.blue.shop.svc:2380,blue-2-c=http://blue-2-c.blue.shop.svc:2380',
    );
    assert.equal(read()['initial-cluster-state'], 'new');
  });

  test('leaves options that nobody set to etcd', () => {
    for (const key of ['quota-backend-bytes', 'auto-compaction-mode', 'auto-compaction-retention', 'snapshot-count']) {
      assert.equal(key in read(), false, key);
    }
  });

  test('writes numbers and booleans unquoted and the retention as a string, as etcd insists', () => {
    const text = etcdConfigFile(
      config({
        options: {
          quotaBackendBytes: 8_589_934_592,
          autoCompactionMode: 'revision',
          autoCompactionRetention: '1000',
          snapshotCount: 10_000,
        },
      }),
    );
    assert.match(text, /^quota-backend-bytes: 8589934592$/m);
    assert.match(text, /^snapshot-count: 10000$/m);
    assert.match(text, /^auto-compaction-retention: "1000"$/m);
    assert.match(text, /^strict-reconfig-check: true$/m);
  });

  const corruptCheck: [EtcdMinor, string, unknown][] = [
    ['3.5', 'experimental-initial-corrupt-check', true],
    ['3.6', 'feature-gates', 'InitialCorruptCheck=true'],
    ['3.7', 'feature-gates', 'InitialCorruptCheck=true'],
  ];
  for (const [minor, key, value] of corruptCheck) {
    test(`asks ${minor} for the initial corruption check by the name that ${minor} knows`, () => {
      assert.equal(read({ minor })[key], value);
    });
  }

  test('leaves the initial corruption check out only where the caller says so', () => {
    assert.equal('feature-gates' in read({ initialCorruptCheck: false }), false);
    assert.equal('experimental-initial-corrupt-check' in read({ minor: '3.5', initialCorruptCheck: false }), false);
    assert.equal('feature-gates' in read({ initialCorruptCheck: true }), true);
  });

  test('forces a new cluster only when told so in so many words', () => {
    assert.equal('force-new-cluster' in read(), false);
    assert.equal('force-new-cluster' in read({ forceNewCluster: false }), false);
    assert.equal(read({ forceNewCluster: true })['force-new-cluster'], true);
  });

  test('puts TLS files into the sections that etcd reads them from', () => {
    const files = { certFile: '/c/tls.crt', keyFile: '/c/tls.key', trustedCAFile: '/c/ca.crt', clientCertAuth: true };
    const seen = read({ clientTls: files, peerTls: { ...files, trustedCAFile: undefined, clientCertAuth: false } });
    assert.deepEqual(seen['client-transport-security'], {
      'cert-file': '/c/tls.crt',
      'key-file': '/c/tls.key',
      'trusted-ca-file': '/c/ca.crt',
      'client-cert-auth': true,
    });
    assert.deepEqual(seen['peer-transport-security'], {
      'cert-file': '/c/tls.crt',
      'key-file': '/c/tls.key',
      'client-cert-auth': false,
    });
  });
});

describe('the locked configuration', () => {
  test('names only the member itself and no other change, so that a wiped volume finds nobody to join', () => {
    const open = read();
    const locked = parse(etcdConfigFile(lockedConfig(config()))) as Record<string, unknown>;
    assert.equal(locked['initial-cluster'], 'blue-0-a=http://blue-0-a.blue.shop.svc:2380');
    assert.equal(locked['initial-cluster-state'], 'existing');
    assert.deepEqual(
      { ...locked, 'initial-cluster': undefined, 'initial-cluster-state': undefined },
      { ...open, 'initial-cluster': undefined, 'initial-cluster-state': undefined },
    );
  });

  test('of a locked configuration is the same', () => {
    assert.equal(etcdConfigFile(lockedConfig(lockedConfig(config()))), etcdConfigFile(lockedConfig(config())));
  });
});

describe('option problems', () => {
  const fine = [
    {},
    { quotaBackendBytes: 0 },
    { autoCompactionRetention: '0' },
    { autoCompactionMode: 'periodic', autoCompactionRetention: '1h30m' },
    { autoCompactionMode: 'periodic', autoCompactionRetention: '8' },
    { autoCompactionMode: 'revision', autoCompactionRetention: '1000' },
    { autoCompactionMode: 'periodic', autoCompactionRetention: '0.5h' },
    { snapshotCount: 1 },
  ] as const;
  for (const options of fine) {
    test(`has nothing against ${JSON.stringify(options)}`, () => {
      assert.deepEqual(optionProblems(options), []);
    });
  }

  const bad = [
    [{ quotaBackendBytes: -1 }, /quotaBackendBytes is -1: give a whole number of bytes/],
    [{ quotaBackendBytes: 1.5 }, /quotaBackendBytes is 1\.5/],
    [{ quotaBackendBytes: 1e300 }, /quotaBackendBytes is 1e\+300/],
    [{ snapshotCount: 0 }, /snapshotCount is 0: .* at least 1/],
    [{ autoCompactionRetention: 'soon' }, /autoCompactionRetention is "soon": give a duration such as 30m/],
    [{ autoCompactionRetention: '-1h' }, /autoCompactionRetention is "-1h"/],
    [{ autoCompactionRetention: '' }, /autoCompactionRetention is ""/],
    [{ autoCompactionMode: 'revision', autoCompactionRetention: '5m' }, /give a whole number of revisions/],
    [{ autoCompactionRetention: '3000000' }, /more hours than etcd can count/],
    [{ autoCompactionMode: 'revision', autoCompactionRetention: '99999999999999999999' }, /more revisions than/],
    [{ autoCompactionMode: 'weekly' as 'periodic' }, /autoCompactionMode is "weekly": give periodic or revision/],
  ] as const;
  for (const [options, sentence] of bad) {
    test(`says what is wrong with ${JSON.stringify(options)} and what to give instead`, () => {
      const problems = optionProblems(options);
      assert.equal(problems.length, 1);
      assert.match(problems[0] ?? '', sentence);
    });
  }
});

describe('the minor of a version', () => {
  const known: [string, EtcdMinor | undefined][] = [
    ['3.5.35', '3.5'],
    ['v3.6.16', '3.6'],
    ['3.7.0-rc.1', '3.7'],
    ['3.4.23', undefined],
    ['3.8.0', undefined],
    ['3.60.1', undefined],
    ['3.6', undefined],
    ['latest', undefined],
  ];
  for (const [version, minor] of known) {
    test(`of ${version} is ${minor ?? 'not one we can write a file for'}`, () => {
      assert.equal(etcdMinor(version), minor);
    });
  }
});
