/** What a Pod needs to reach a store: the Secrets as environment and files, the volume as a mount. */
import type { EnvVar, Volume, VolumeMount } from 'kubernetes-types/core/v1.js';
import type { EtcdSnapshotSpec } from '../../../api/etcdsnapshot.gen.ts';

/** Where a snapshot goes or comes from; the two differ only in whether the key or path is a prefix or exact. */
export type StoreLocation = EtcdSnapshotSpec['destination'];

export const STORE_MOUNT = '/snapshots';
const CA_MOUNT = '/etc/etcd-operator/store-ca';

export type StoreAccess = {
  readonly env: readonly EnvVar[];
  readonly mounts: readonly VolumeMount[];
  readonly volumes: readonly Volume[];
};

export const storeAccess = ({ s3, pvc }: StoreLocation, readOnly: boolean): StoreAccess => {
  const secret = s3?.credentialsSecretRef?.name;
  const ca = s3?.caBundleSecretRef?.name;
  return {
    env: [
      ...(secret === undefined
        ? []
        : ['AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY', 'AWS_SESSION_TOKEN'].map((key) => ({
            name: key,
            valueFrom: {
              secretKeyRef: { name: secret, key, ...(key === 'AWS_SESSION_TOKEN' ? { optional: true } : {}) },
            },
          }))),
      ...(ca === undefined ? [] : [{ name: 'NODE_EXTRA_CA_CERTS', value: `${CA_MOUNT}/ca.crt` }]),
    ],
    mounts: [
      // The whole volume: the agent makes the folders of a key itself, and a subPath that is a file cannot be read below.
      ...(pvc === undefined
        ? []
        : [{ name: 'store', mountPath: STORE_MOUNT, ...(readOnly ? { readOnly: true } : {}) }]),
      ...(ca === undefined ? [] : [{ name: 'store-ca', mountPath: CA_MOUNT, readOnly: true }]),
    ],
    volumes: [
      ...(pvc === undefined ? [] : [{ name: 'store', persistentVolumeClaim: { claimName: pvc.claimName } }]),
      ...(ca === undefined
        ? []
        : [{ name: 'store-ca', secret: { secretName: ca, items: [{ key: 'ca.crt', path: 'ca.crt' }] } }]),
    ],
  };
};

/** The prefix below which snapshots are put, or the exact key of one. */
export const keyIn = ({ s3, pvc }: StoreLocation): string | undefined => s3?.key ?? pvc?.subPath;
