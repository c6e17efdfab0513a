import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { EtcdClusterSpec } from '../../api/etcdcluster.gen.ts';
import type { EtcdMember } from '../../api/etcdmember.gen.ts';
import type { EtcdQuorum } from '../../api/etcdquorum.gen.ts';
import { API_VERSION } from '../../api/names.ts';
import { INPUT_API_VERSION } from '../composing/step-input.ts';
import { composeMembers } from './compose.ts';

type Security = Pick<EtcdClusterSpec, 'tls' | 'auth'>;

const rendered = (security: Security): { member: EtcdMember['spec']; quorum: EtcdQuorum['spec'] } => {
  const { desired } = composeMembers({
    input: { apiVersion: INPUT_API_VERSION, kind: 'Members' },
    observed: {
      composite: {
        resource: {
          apiVersion: API_VERSION,
          kind: 'EtcdCluster',
          metadata: { name: 'demo', namespace: 'team-a' },
          spec: { version: '3.6.16', ...security },
        },
      },
    },
  });
  const resource = (key: string): unknown => desired?.resources?.[key]?.resource;
  return {
    member: (resource('member-0') as EtcdMember).spec,
    quorum: (resource('quorum') as EtcdQuorum).spec,
  };
};

const volumes = ({ template }: EtcdMember['spec']): Record<string, unknown> =>
  Object.fromEntries(
    (template.spec.volumes ?? []).flatMap(({ name, secret }) =>
      secret === undefined ? [] : [[name, secret.secretName]],
    ),
  );
const mounts = ({ template }: EtcdMember['spec']): Record<string, string> =>
  Object.fromEntries((template.spec.containers[0]?.volumeMounts ?? []).map(({ name, mountPath }) => [name, mountPath]));

const issuer = { name: 'ca' };

describe('certificates of members', () => {
  test('a claim without TLS renders no trace of it, because running Pods must not roll for what nobody asked for', () => {
    const { member, quorum } = rendered({});
    assert.deepEqual(volumes(member), {});
    assert.deepEqual(Object.keys(mounts(member)).sort(), ['config', 'data']);
    assert.equal('tls' in member || 'tls' in quorum || 'auth' in quorum, false);
    assert.deepEqual(rendered({ tls: {} }).member, member);
  });

  test('own Secrets are mounted by their names, and their own CA is the one that clients have to come from', () => {
    const { member, quorum } = rendered({
      tls: {
        client: { serverSecretRef: { name: 'mine' }, operatorClientSecretRef: { name: 'operator' } },
        peer: { secretRef: { name: 'among-us' } },
      },
    });
    assert.deepEqual(volumes(member), { 'client-tls': 'mine', 'peer-tls': 'among-us' });
    assert.equal(mounts(member)['client-tls'], '/etc/etcd/tls/client');
    assert.equal(mounts(member)['peer-tls'], '/etc/etcd/tls/peer');
    assert.deepEqual(member.tls, {
      client: { secretName: 'mine', mutual: true, clientCASecretName: 'mine' },
      peer: { secretName: 'among-us' },
    });
    assert.deepEqual(quorum.tls, {
      client: {
        source: 'Secret',
        serverSecretName: 'mine',
        mutual: true,
        clientCASecretName: 'mine',
        operatorClientSecretName: 'operator',
      },
      peer: { source: 'Secret', secretName: 'among-us' },
    });
  });

  test('what cert-manager issues is mounted by names that no renewal changes, and clients may come from a CA of their own', () => {
    const { member, quorum } = rendered({
      tls: {
        client: { certManager: { serverIssuerRef: issuer, operatorClientIssuerRef: { name: 'clients' } } },
        peer: { certManager: { issuerRef: issuer } },
      },
    });
    assert.deepEqual(volumes(member), { 'client-tls': 'demo-server-tls', 'peer-tls': 'demo-peer-tls' });
    assert.equal(member.tls?.client?.clientCASecretName, 'demo-operator-client-tls');
    assert.equal(quorum.tls?.client?.operatorClientSecretName, 'demo-operator-client-tls');
    assert.equal(quorum.tls?.peer?.source, 'CertManager');
  });

  test('server-only TLS asks clients for nothing, so no CA of clients is there to be mistaken for one', () => {
    const { member } = rendered({ tls: { client: { certManager: { serverIssuerRef: issuer } } } });
    assert.deepEqual(volumes(member), { 'client-tls': 'demo-server-tls' });
    assert.deepEqual(member.tls, { client: { secretName: 'demo-server-tls', mutual: false } });
  });

  test('probes stay plain HTTP on the metrics port, because a kubelet has no certificate', () => {
    const { member } = rendered({
      tls: { client: { certManager: { serverIssuerRef: issuer, operatorClientIssuerRef: issuer } } },
    });
    const container = member.template.spec.containers[0];
    for (const probe of [container?.startupProbe, container?.livenessProbe, container?.readinessProbe]) {
      assert.equal(probe?.httpGet?.scheme, 'HTTP');
      assert.equal(probe?.httpGet?.port, 2381);
    }
  });

  test('auth and its password are for the runtime alone, so no Pod changes with them', () => {
    const tls = { client: { serverSecretRef: { name: 'mine' } } };
    const without = rendered({ tls });
    const { member, quorum } = rendered({ tls, auth: { enabled: true, rootCredentialsSecretRef: { name: 'root' } } });
    assert.deepEqual(quorum.auth, { enabled: true, rootCredentialsSecretName: 'root' });
    assert.deepEqual(member, without.member);
    assert.deepEqual(rendered({ tls, auth: { enabled: false } }).quorum.auth, { enabled: false });
  });
});
