/** cert-manager away: stopped, then uninstalled with its kinds and all that was of them, and installed again. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { certificateSecretName, LABELS } from '../../../api/names.ts';
import { addonWorkloads, adminKubectl, applyAddon, waitForWorkloads } from '../../cluster/addons.ts';
import { claim, claimIn, condition, membersOf, podsOf, ready, uidsOf } from '../claim.ts';
import { eventually, notYet } from '../eventually.ts';
import { issuedBy, issuers } from '../issuers.ts';
import { connected, inNamespace, type Place, seenKinds } from '../place.ts';
import { heldIn, secureTraffic, wayOf } from '../secure-traffic.ts';

const { cluster } = await connected();
const CERT_MANAGER = 'cert-manager';
const KINDS = ['clusterissuers', 'issuers', 'certificates'].map((plural) => `${plural}.cert-manager.io`).join(',');
const roomy = { medium: 'Memory', size: '256Mi' } as const;

const tls = issuedBy('clients', 'members');

const scaled = async (replicas: 0 | 1): Promise<void> => {
  await adminKubectl(['-n', CERT_MANAGER, 'scale', 'deployment/cert-manager', `--replicas=${replicas}`]);
  if (replicas === 0) {
    await adminKubectl(['-n', CERT_MANAGER, 'wait', 'pods', '--all', '--for=delete', '--timeout=120s']);
  } else await waitForWorkloads([addonWorkloads['cert-manager']]);
};

type Stored = {
  metadata: { namespace?: string; name: string; labels?: object; annotations?: object; ownerReferences?: unknown };
};

/** What people made of cert-manager's kinds in the whole cluster; what we compose comes back by itself. */
const madeByPeople = async (): Promise<string> => {
  const { items } = JSON.parse(await adminKubectl(['get', KINDS, '-A', '-o', 'json'])) as { items: Stored[] };
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'List',
    items: items
      .filter(({ metadata }) => metadata.ownerReferences === undefined)
      .map(({ metadata: { namespace, name, labels, annotations }, ...rest }) => ({
        ...rest,
        status: undefined,
        metadata: { namespace, name, labels, annotations },
      })),
  });
};

const uninstalled = async (): Promise<void> => {
  await scaled(0);
  const definitions = (await adminKubectl(['get', 'customresourcedefinitions', '-o', 'name']))
    .split('\n')
    .filter((name) => name.endsWith('cert-manager.io'));
  await adminKubectl(['delete', ...definitions, '--timeout=120s']);
};

const installed = async (made: string): Promise<void> => {
  await applyAddon('cert-manager');
  await scaled(1);
  // Namespaces of other tests may have gone meanwhile, and kubectl goes on with the rest.
  await adminKubectl(['apply', '-f', '-'], made).catch((error: unknown) => {
    if (!/NotFound|not found|being terminated/.test(String(error))) throw error;
  });
};

const certificatesIn = async (place: Place): Promise<string[]> => {
  const secrets = await place.list(seenKinds.secrets, `${LABELS.cluster}=runs,${LABELS.certificate}`);
  return secrets.map((secret) => `${secret.metadata.name} ${heldIn(secret)}`).toSorted();
};

const identity = async (place: Place): Promise<object> => ({
  members: (await membersOf(place, 'runs')).map(({ status }) => status?.memberID).toSorted(),
  pods: uidsOf(await podsOf(place, 'runs')),
});

const waits = async (place: Place, name: string, reason: 'CertificateNotIssued' | 'CertManagerNotInstalled') => {
  const wanted = { status: 'False', reason, words: /cert-manager/ } as const;
  // Crossplane asks for two minutes at a time for a kind that is gone, if it was just asking as it went.
  await condition(() => claimIn(place, name), 'CertificatesValid', wanted, { deadlineMs: 300_000 });
  assert.deepEqual(await podsOf(place, name), [], `no Pod of ${name} starts without certificates`);
};

describe('without cert-manager', { skip: !cluster.local && "the cluster is somebody else's" }, () => {
  test(
    'what runs serves and grows, what is new waits and says for what, and all goes on by itself when it is back',
    inNamespace('no-cm', async (place, t) => {
      await place.apply(...issuers('clients'), ...issuers('members'));
      await place.apply(claim('runs', { tls }));
      await ready(place, 'runs', { deadlineMs: 300_000 });
      const [before, issued] = [await identity(place), await certificatesIn(place)];
      assert.equal(issued.length, 4);
      const consumer = certificateSecretName('runs', 'consumer');
      const ways = async () => [await wayOf(place, 'runs', consumer)];
      await using fresh = await secureTraffic(place, 'runs', { ways, everyMs: 500, fresh: true, prefix: 'fresh' });
      const made = await madeByPeople();
      const one = { replicas: 1, storage: roomy, tls };
      try {
        await scaled(0);
        await place.apply(claim('stopped', one));
        await waits(place, 'stopped', 'CertificateNotIssued');
        await scaled(1);
        await ready(place, 'stopped', { deadlineMs: 300_000 });

        await uninstalled();
        await place.apply(claim('uninstalled', one));
        await Promise.all([
          waits(place, 'uninstalled', 'CertManagerNotInstalled'),
          condition(
            () => claimIn(place, 'runs'),
            'CertificatesValid',
            { status: 'False', reason: 'CertManagerNotInstalled' },
            { deadlineMs: 300_000 },
          ),
        ]);
        assert.deepEqual(await certificatesIn(place), issued, 'the Secrets stay');
        assert.deepEqual(await identity(place), before, 'nothing restarts');
        await place.kubectl(['scale', 'etcdcluster/runs', '--replicas=4']);
        await eventually(
          'a member is added with the certificates that there are',
          async () => {
            const { status } = await claimIn(place, 'runs');
            if (status?.voters !== 4) notYet(`there are ${status?.voters} voters`);
          },
          { deadlineMs: 300_000 },
        );
      } finally {
        await installed(made);
      }
      const began = performance.now();
      await ready(place, 'uninstalled', { deadlineMs: 300_000 });
      await ready(place, 'runs', { deadlineMs: 300_000 });
      t.diagnostic(`ready ${Math.round((performance.now() - began) / 1_000)} s after cert-manager was back`);
      await condition(() => claimIn(place, 'runs'), 'CertificatesValid', { status: 'True' }, { deadlineMs: 60_000 });
      assert.deepEqual(await certificatesIn(place), issued, 'nothing is issued again that was there');
      const { failed, lost, acknowledged, lastError } = await fresh.stop();
      t.diagnostic(`${acknowledged} requests, each by a handshake of its own`);
      assert.deepEqual({ failed, lost }, { failed: 0, lost: [] }, lastError);
    }),
  );
});
