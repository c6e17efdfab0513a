import { access, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { run } from './command.ts';
import { adminKubeconfig, apiServerPort, configFolder, hostAddress, nodeNames, pkiFolder } from './places.ts';

type Identity = { readonly file: string; readonly subject: string; readonly names?: readonly string[] };

const identities: readonly Identity[] = [
  {
    file: 'apiserver',
    subject: '/CN=kube-apiserver',
    names: [
      `IP:${hostAddress}`,
      'IP:127.0.0.1',
      'IP:10.96.0.1',
      'DNS:localhost',
      'DNS:kubernetes',
      'DNS:kubernetes.default',
      'DNS:kubernetes.default.svc',
      'DNS:kubernetes.default.svc.cluster.local',
    ],
  },
  { file: 'admin', subject: '/O=system:masters/CN=admin' },
  { file: 'front-proxy', subject: '/CN=front-proxy' },
  { file: 'controller-manager', subject: '/CN=system:kube-controller-manager' },
  { file: 'scheduler', subject: '/CN=system:kube-scheduler' },
  { file: 'proxy', subject: '/CN=system:kube-proxy' },
  ...nodeNames.map((node) => ({ file: node, subject: `/O=system:nodes/CN=system:node:${node}` })),
];

export function pkiFile(name: string): string {
  return join(pkiFolder, name);
}

export function kubeconfigOf(identity: string): string {
  return join(configFolder, `${identity}.kubeconfig`);
}

/** Makes the certificate authority, every identity's certificate and its kubeconfig. They live as long as the cluster. */
export async function makePki(): Promise<void> {
  try {
    await access(adminKubeconfig);
    return;
  } catch {
    // Not made yet, or not to the end: the admin's kubeconfig is written last.
  }
  await mkdir(pkiFolder, { recursive: true, mode: 0o700 });
  await mkdir(configFolder, { recursive: true });
  await Promise.all([
    makeAuthority(),
    makeKey('sa.key').then(() =>
      run(['openssl', 'pkey', '-in', pkiFile('sa.key'), '-pubout', '-out', pkiFile('sa.pub')]),
    ),
  ]);
  await Promise.all(identities.map(makeIdentity));
  const authority = await readFile(pkiFile('ca.crt'));
  for (const { file } of identities.toSorted((a, b) => Number(a.file === 'admin') - Number(b.file === 'admin'))) {
    await writeFile(kubeconfigOf(file), JSON.stringify(await kubeconfig(file, authority), null, 1), { mode: 0o600 });
  }
}

async function makeKey(file: string): Promise<void> {
  await run(['openssl', 'ecparam', '-name', 'prime256v1', '-genkey', '-noout', '-out', pkiFile(file)]);
}

async function makeAuthority(): Promise<void> {
  await makeKey('ca.key');
  const lasting = ['-subj', '/CN=etcd-operator-cluster', '-days', '3650', '-out', pkiFile('ca.crt')];
  await run(['openssl', 'req', '-x509', '-new', '-key', pkiFile('ca.key'), ...lasting]);
}

async function makeIdentity({ file, subject, names }: Identity): Promise<void> {
  await makeKey(`${file}.key`);
  await run([
    'openssl',
    'req',
    '-new',
    '-key',
    pkiFile(`${file}.key`),
    '-subj',
    subject,
    '-out',
    pkiFile(`${file}.csr`),
  ]);
  const alternatives = (names ?? [`DNS:${file}`]).join(',');
  await writeFile(pkiFile(`${file}.ext`), `subjectAltName=${alternatives}\nextendedKeyUsage=serverAuth,clientAuth\n`);
  await run([
    ...[
      'openssl',
      'x509',
      '-req',
      '-in',
      pkiFile(`${file}.csr`),
      '-CA',
      pkiFile('ca.crt'),
      '-CAkey',
      pkiFile('ca.key'),
    ],
    // A random number: the identities are signed at the same time, and the usual serial file would be written by all of them.
    ...['-set_serial', `0x${crypto.randomUUID().replaceAll('-', '')}`, '-days', '3650'],
    ...['-extfile', pkiFile(`${file}.ext`), '-out', pkiFile(`${file}.crt`)],
  ]);
}

async function kubeconfig(identity: string, authority: Buffer): Promise<unknown> {
  const [certificate, key] = await Promise.all([
    readFile(pkiFile(`${identity}.crt`)),
    readFile(pkiFile(`${identity}.key`)),
  ]);
  const name = 'etcd-operator-cluster';
  return {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [
      {
        name,
        cluster: {
          server: `https://${hostAddress}:${apiServerPort}`,
          'certificate-authority-data': authority.toString('base64'),
        },
      },
    ],
    users: [
      {
        name: identity,
        user: {
          'client-certificate-data': certificate.toString('base64'),
          'client-key-data': key.toString('base64'),
        },
      },
    ],
    contexts: [{ name, context: { cluster: name, user: identity } }],
    'current-context': name,
  };
}
