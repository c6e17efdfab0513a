import { readFile } from 'node:fs/promises';
import { request } from 'node:https';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { builds, etcdBuild, programPath } from './builds.ts';
import { kubeconfigOf, pkiFile } from './pki.ts';
import { apiServerPort, daemon, hostAddress, serviceNetwork, stateFolder } from './places.ts';
import { findDaemon, lastWords, startDaemon } from './processes.ts';
import { versions } from './versions.ts';

/** In the order in which they start. */
export const controlPlanePrograms = ['etcd', 'kube-apiserver', 'kube-controller-manager', 'kube-scheduler'] as const;
export type ControlPlaneProgram = (typeof controlPlanePrograms)[number];

const etcdClient = 'http://127.0.0.1:12379';
const etcdPeer = 'http://127.0.0.1:12380';

function command(program: ControlPlaneProgram): string[] {
  switch (program) {
    case 'etcd':
      return [
        programPath(etcdBuild(versions.etcd), 'etcd'),
        `--data-dir=${join(stateFolder, 'etcd')}`,
        `--listen-client-urls=${etcdClient}`,
        `--advertise-client-urls=${etcdClient}`,
        `--listen-peer-urls=${etcdPeer}`,
        `--initial-advertise-peer-urls=${etcdPeer}`,
        `--initial-cluster=default=${etcdPeer}`,
        // Nobody keeps this cluster over a crash of the machine, and its disk is shared with the etcd clusters under test.
        '--unsafe-no-fsync',
      ];
    case 'kube-apiserver':
      return [
        programPath(builds.kubernetes, program),
        `--etcd-servers=${etcdClient}`,
        `--advertise-address=${hostAddress}`,
        `--bind-address=${hostAddress}`,
        `--secure-port=${apiServerPort}`,
        `--client-ca-file=${pkiFile('ca.crt')}`,
        `--tls-cert-file=${pkiFile('apiserver.crt')}`,
        `--tls-private-key-file=${pkiFile('apiserver.key')}`,
        '--service-account-issuer=https://kubernetes.default.svc',
        `--service-account-key-file=${pkiFile('sa.pub')}`,
        `--service-account-signing-key-file=${pkiFile('sa.key')}`,
        `--kubelet-client-certificate=${pkiFile('admin.crt')}`,
        `--kubelet-client-key=${pkiFile('admin.key')}`,
        '--kubelet-preferred-address-types=InternalIP',
        '--authorization-mode=Node,RBAC',
        '--enable-admission-plugins=NodeRestriction',
        `--service-cluster-ip-range=${serviceNetwork}`,
        '--allow-privileged=true',
        // The host has no kube-proxy, so webhooks are called at their Pods' addresses.
        '--enable-aggregator-routing=true',
        `--requestheader-client-ca-file=${pkiFile('ca.crt')}`,
        // One authority signs everything here, so without this any client could name itself as it likes.
        '--requestheader-allowed-names=front-proxy',
        '--requestheader-username-headers=X-Remote-User',
        '--requestheader-group-headers=X-Remote-Group',
        '--requestheader-extra-headers-prefix=X-Remote-Extra-',
        `--proxy-client-cert-file=${pkiFile('front-proxy.crt')}`,
        `--proxy-client-key-file=${pkiFile('front-proxy.key')}`,
      ];
    case 'kube-controller-manager':
      return [
        programPath(builds.kubernetes, program),
        `--kubeconfig=${kubeconfigOf('controller-manager')}`,
        `--service-account-private-key-file=${pkiFile('sa.key')}`,
        `--root-ca-file=${pkiFile('ca.crt')}`,
        '--use-service-account-credentials=true',
        '--leader-elect=false',
        '--secure-port=0',
        '--allocate-node-cidrs=false',
        // Half of the usual time: tests wait for a lost node to be noticed.
        '--node-monitor-grace-period=20s',
        // The usual place is one of the host's folders.
        `--flex-volume-plugin-dir=${join(stateFolder, 'volume-plugins')}`,
        `--cluster-signing-cert-file=${pkiFile('ca.crt')}`,
        `--cluster-signing-key-file=${pkiFile('ca.key')}`,
      ];
    case 'kube-scheduler':
      return [
        programPath(builds.kubernetes, program),
        `--kubeconfig=${kubeconfigOf('scheduler')}`,
        '--leader-elect=false',
        '--secure-port=0',
      ];
  }
}

/** Starts what does not run, and returns when the API server is ready. */
export async function startControlPlane(): Promise<void> {
  for (const program of controlPlanePrograms) {
    const isNew = (await findDaemon(daemon(program))) === undefined;
    if (isNew) await startDaemon(daemon(program), command(program));
    // The others would come up without it, but only after their own pauses between attempts.
    if (program === 'kube-apiserver') await apiServerReady();
  }
}

async function apiServerReady(): Promise<void> {
  const giveUp = performance.now() + 90_000;
  while (performance.now() < giveUp) {
    if (await answersReady()) return;
    for (const program of ['etcd', 'kube-apiserver'] as const) {
      if ((await findDaemon(daemon(program))) === undefined) {
        throw new Error(`${program} ended by itself:\n${await lastWords(daemon(program))}`);
      }
    }
    await pause(100);
  }
  throw new Error(`the API server is not ready after 90 s:\n${await lastWords(daemon('kube-apiserver'))}`);
}

/** Whether the API server says that it is ready; false when it does not answer. */
export async function answersReady(): Promise<boolean> {
  return (await askApiServer('/readyz')).status === 200;
}

/** One GET as the cluster's admin, without the tenth of a second that a kubectl takes. Status 0: no answer within five seconds. */
export async function askApiServer(path: string): Promise<{ status: number; body: string }> {
  const [ca, cert, key] = await Promise.all(
    ['ca.crt', 'admin.crt', 'admin.key'].map((file) => readFile(pkiFile(file))),
  );
  const none = { status: 0, body: '' };
  return new Promise((resolve) => {
    const address = { host: hostAddress, port: apiServerPort, path };
    // A kept connection would keep this process alive.
    const call = request({ ...address, ca, cert, key, agent: false }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('end', () => resolve({ status: response.statusCode ?? 0, body: Buffer.concat(chunks).toString() }));
      response.on('error', () => resolve(none));
    });
    const timer = setTimeout(() => call.destroy(), 5_000);
    call.on('error', () => resolve(none));
    call.on('close', () => {
      clearTimeout(timer);
      resolve(none);
    });
    call.end();
  });
}
