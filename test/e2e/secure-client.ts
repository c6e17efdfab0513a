/** etcdctl as an application with certificates runs it: in a Pod, by the name of the client Service, with files from Secrets. */
import type { Pod, Volume, VolumeMount } from 'kubernetes-types/core/v1.js';
import { clientServiceName, PORTS } from '../../api/names.ts';
import { VERSION } from './claim.ts';
import { eventually, notYet } from './eventually.ts';
import { type Place, seenKinds } from './place.ts';

export type Flags = {
  /** Secret whose `ca.crt` the members are known by; absent: in the clear. */
  readonly ca?: string | undefined;
  /** Secret with the client's own certificate. */
  readonly certificate?: string | undefined;
  /** Of a Secret with `password`, by its name: the password goes by a file of the environment, not by an argument. */
  readonly rootSecret?: string | undefined;
};

/** What it printed, both streams; `ok` tells whether it went well. */
export const secureEtcdctl = async (
  place: Place,
  cluster: string,
  flags: Flags,
  ...args: readonly string[]
): Promise<{ readonly ok: boolean; readonly text: string }> => {
  const name = `etcdctl-${Math.random().toString(36).slice(2, 8)}`;
  const mounts = [
    ...(flags.ca === undefined ? [] : [['ca', flags.ca] as const]),
    ...(flags.certificate === undefined ? [] : [['own', flags.certificate] as const]),
  ];
  const volumes = mounts.map(([volume, secretName]): Volume => ({ name: volume, secret: { secretName } }));
  const volumeMounts = mounts.map(([volume]): VolumeMount => ({ name: volume, mountPath: `/tls/${volume}` }));
  const scheme = flags.ca === undefined ? 'http' : 'https';
  const pod: Pod = {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name },
    spec: {
      restartPolicy: 'Never',
      automountServiceAccountToken: false,
      securityContext: {
        runAsNonRoot: true,
        runAsUser: 1000,
        fsGroup: 1000,
        seccompProfile: { type: 'RuntimeDefault' },
      },
      volumes,
      containers: [
        {
          name: 'etcdctl',
          image: `quay.io/coreos/etcd:v${VERSION}`,
          imagePullPolicy: 'IfNotPresent',
          env: [
            {
              name: 'ETCDCTL_ENDPOINTS',
              value: `${scheme}://${clientServiceName(cluster)}.${place.namespace}.svc:${PORTS.client}`,
            },
            ...(flags.ca === undefined ? [] : [{ name: 'ETCDCTL_CACERT', value: '/tls/ca/ca.crt' }]),
            ...(flags.certificate === undefined
              ? []
              : [
                  { name: 'ETCDCTL_CERT', value: '/tls/own/tls.crt' },
                  { name: 'ETCDCTL_KEY', value: '/tls/own/tls.key' },
                ]),
            ...(flags.rootSecret === undefined
              ? []
              : [
                  { name: 'ETCDCTL_USER', value: 'root' },
                  {
                    name: 'ETCDCTL_PASSWORD',
                    valueFrom: { secretKeyRef: { name: flags.rootSecret, key: 'password' } },
                  },
                ]),
          ],
          command: ['etcdctl', '--command-timeout=8s', ...args],
          volumeMounts,
          securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
        },
      ],
    },
  };
  await place.apply(pod);
  const phase = await eventually(
    `etcdctl ${args.join(' ')} ends`,
    async () => {
      const now = (await place.get(seenKinds.pods, name))?.status?.phase;
      return now === 'Succeeded' || now === 'Failed' ? now : notYet(`its Pod is ${now}`);
    },
    { deadlineMs: 60_000 },
  );
  return { ok: phase === 'Succeeded', text: await place.kubectl(['logs', name]) };
};
