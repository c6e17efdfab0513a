/** What people copy has to work with TLS, too: manifests of examples/ and what docs/ show beside them, as they are. */
import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { describe, test } from 'node:test';
import { PORTS } from '../../../api/names.ts';
import type { KubeObject } from '../../../runtime/ports/kube.ts';
import { builds, ensureEtcd, programPath } from '../../cluster/builds.ts';
import { run } from '../../cluster/command.ts';
import { claimIn, conditionOf, nothingLeft, podsOf, ready, VERSION } from '../claim.ts';
import { eventually, notYet } from '../eventually.ts';
import { inNamespace, type Place, seenKinds } from '../place.ts';
import { secureEtcdctl } from '../secure-client.ts';

const root = join(import.meta.dirname, '../../..');

/** The first block of that language after that heading. */
const shown = async (file: string, after: string, language: string): Promise<string> => {
  const text = await readFile(join(root, 'docs', file), 'utf8');
  const [, rest = ''] = text.split(after);
  const [, block] = new RegExp(`\`\`\`${language}\n(.*?)\`\`\``, 's').exec(rest) ?? [];
  assert.ok(block, `docs/${file} shows ${language} after "${after}"`);
  return block;
};

const ended = (place: Place, pod: string): Promise<string> =>
  eventually(
    `Pod ${pod} ends`,
    async () => {
      const phase = (await place.get(seenKinds.pods, pod))?.status?.phase;
      return phase === 'Succeeded' || phase === 'Failed' ? phase : notYet(`it is ${phase}`);
    },
    { deadlineMs: 120_000 },
  );

/** The Pod of docs/clients.md; without its certificate where `anonymous`. */
const clientOf = async (anonymous: boolean): Promise<string> => {
  const pod = await shown('clients.md', '# Being a client', 'yaml');
  if (!anonymous) return pod;
  return pod
    .replace('name: etcdctl', 'name: anonymous')
    .replace(/.*ETCDCTL_(CERT|KEY),.*\n/g, '')
    .replace('[etcdctl, put', '[etcdctl, --command-timeout=3s, put');
};

const asksForPasswords = (place: Place, name: string): Promise<void> =>
  eventually(
    `${name} asks for passwords`,
    async () => {
      const { authEnabled } = (await claimIn(place, name)).status ?? {};
      if (authEnabled !== true) notYet(`authEnabled is ${authEnabled}`);
    },
    { deadlineMs: 180_000 },
  );

/** Runs a script of the docs on this machine, which reaches Pods by addresses that no certificate names. */
const asRoot = async (place: Place, name: string, script: string): Promise<void> => {
  const [pod] = await podsOf(place, name);
  const scratch = await mkdtemp(join(tmpdir(), 'as-root-'));
  const { secretName = '' } = (await claimIn(place, name)).status?.connection ?? {};
  const { data } = (await place.get(seenKinds.secrets, secretName)) ?? {};
  for (const file of ['tls.crt', 'tls.key']) {
    await writeFile(join(scratch, file), Buffer.from(data?.[file] ?? '', 'base64'), { mode: 0o600 });
  }
  const programs = [programPath(builds.kubernetes, 'kubectl'), await ensureEtcd(VERSION)].map(dirname);
  await run(['sh', '-ec', script.replace('get secret', `-n ${place.namespace} get secret`)], {
    cwd: scratch,
    env: {
      ...process.env,
      PATH: [...programs, process.env.PATH ?? ''].join(delimiter),
      KUBECONFIG: place.cluster.kubeconfigPath,
      ETCDCTL_ENDPOINTS: `https://${pod?.status?.podIP}:${PORTS.client}`,
      ETCDCTL_CERT: 'tls.crt',
      ETCDCTL_KEY: 'tls.key',
      ETCDCTL_INSECURE_SKIP_TLS_VERIFY: 'true',
    },
  });
  await rm(scratch, { recursive: true });
};

const rootSecret = (name: string, password: string): KubeObject =>
  ({
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name },
    type: 'kubernetes.io/basic-auth',
    stringData: { password },
  }) as KubeObject;

describe('examples/ with TLS', () => {
  test(
    'tls-cert-manager.yaml: an application connects by what status.connection names, nobody without a certificate does, and no private key outlives the cluster',
    inNamespace('tls-issued', async (place) => {
      await place.kubectl(['apply', '-f', join(root, 'examples/tls-cert-manager.yaml')]);
      await ready(place, 'secured', { deadlineMs: 240_000 });
      const claim = await claimIn(place, 'secured');
      assert.equal(conditionOf(claim, 'CertificatesValid')?.status, 'True');
      assert.deepEqual(claim.status?.connection, {
        configMapName: 'secured-connection',
        secretName: 'secured-consumer-in-use',
      });
      for (const anonymous of [false, true]) {
        await place.kubectl(['apply', '-f', '-'], { input: await clientOf(anonymous) });
      }
      const [phase, refused] = await Promise.all([ended(place, 'etcdctl'), ended(place, 'anonymous')]);
      assert.equal(phase, 'Succeeded', await place.kubectl(['logs', 'etcdctl']));
      assert.equal(refused, 'Failed', await place.kubectl(['logs', 'anonymous']));

      // The same Pod where etcd asks for passwords: nobody, until its user is made as docs/clients.md has it.
      await place.apply(rootSecret('demo-root', 'sesame'));
      const auth = { enabled: true, rootCredentialsSecretRef: { name: 'demo-root' } };
      await place.kubectl([
        ...['patch', 'etcdcluster', 'secured', '--type=merge', '-p'],
        JSON.stringify({ spec: { auth } }),
      ]);
      await asksForPasswords(place, 'secured');
      const again = async (name: string): Promise<string> => {
        const pod = (await clientOf(false)).replace('name: etcdctl', `name: ${name}`);
        await place.kubectl(['apply', '-f', '-'], { input: pod });
        return ended(place, name);
      };
      assert.equal(await again('unknown'), 'Failed');
      assert.match(await place.kubectl(['logs', 'unknown']), /permission denied|user name not found/);
      if (place.cluster.local) {
        await asRoot(place, 'secured', await shown('clients.md', '## With passwords', 'sh'));
        const phaseOfKnown = await again('known');
        assert.equal(phaseOfKnown, 'Succeeded', await place.kubectl(['logs', 'known']));
      }

      // The private keys too, which cert-manager would leave behind.
      await place.kubectl(['delete', 'etcdcluster', 'secured', '--wait=false']);
      await nothingLeft(place, 'secured');
    }),
  );

  test(
    "tls-auth.yaml: etcd asks for root's password, which is that of the Secret",
    inNamespace('tls-auth', async (place) => {
      await place.kubectl(['apply', '-f', join(root, 'examples/tls-auth.yaml')]);
      await ready(place, 'guests');
      await asksForPasswords(place, 'guests');
      const flags = { ca: 'guests-server-tls' };
      const [asRootItself, asNobody] = await Promise.all([
        secureEtcdctl(place, 'guests', { ...flags, rootSecret: 'guests-root' }, 'put', 'a', 'b'),
        secureEtcdctl(place, 'guests', flags, 'get', 'a'),
      ]);
      assert.ok(asRootItself.ok, asRootItself.text);
      assert.ok(!asNobody.ok, asNobody.text);
    }),
  );

  test(
    'tls-own-secrets.yaml: the Secrets that docs/tls.md makes are good, also when they come after the claim',
    inNamespace('tls-own', async (place) => {
      await place.kubectl(['apply', '-f', join(root, 'examples/tls-own-secrets.yaml')]);
      const waiting = await eventually('the claim says what it waits for', async () => {
        const condition = conditionOf(await claimIn(place, 'own'), 'CertificatesValid');
        return condition?.status === 'False' ? condition : notYet(`CertificatesValid is ${condition?.status}`);
      });
      assert.equal(waiting.reason, 'SecretMissing');
      assert.deepEqual(await podsOf(place, 'own'), []);

      const script = (await shown('tls.md', 'With nothing but openssl', 'sh')).replace(
        'namespace=default',
        `namespace=${place.namespace}`,
      );
      const scratch = await mkdtemp(join(tmpdir(), 'own-secrets-'));
      const kubectl = dirname(programPath(builds.kubernetes, 'kubectl'));
      await run(['sh', '-ec', script], {
        cwd: scratch,
        env: {
          ...process.env,
          PATH: [kubectl, process.env.PATH ?? ''].join(delimiter),
          KUBECONFIG: place.cluster.kubeconfigPath,
        },
      });
      await rm(scratch, { recursive: true });
      await ready(place, 'own');
    }),
  );
});
