/** What a Pod needs to reach a store: the Secrets as environment and files, the volume as a mount. */
import type { EnvVar, Volume, VolumeMount } from 'kubernetes-types/core/v1.js';
import type { EtcdSnapshotSpec } from '../../../api/etcdsnapshot.gen.ts';

/** Where a snapshot goes or comes from; the two differ only in whether the key or path is a prefix or exact. */
export type StoreLocation = EtcdSnapshotSpec['destination'];

export const STORE_MOUNT = '/snapshots';
const STORE_CA_MOUNT = '/etc/etcd-operator/store-ca';
/** The authorities that a store's certificate is checked by, beside the well-known ones. */
export const STORE_CA = `${STORE_CA_MOUNT}/ca.crt`;
/** Every entry of the Secret with the keys, a file each. */
export const KEYS_MOUNT = '/etc/etcd-operator/snapshot-keys';
/** The entry with which new snapshots are encrypted. */
export const CURRENT_KEY = 'key';

export type StoreAccess = {
  readonly env: readonly EnvVar[];
  readonly mounts: readonly VolumeMount[];
  readonly volumes: readonly Volume[];
};

export const storeAccess = ({ s3, pvc, encryption }: StoreLocation, readOnly: boolean): StoreAccess => {
  const secret = s3?.credentialsSecretRef?.name;
  const ca = s3?.caBundleSecretRef?.name;
  const keys = encryption?.keySecretRef.name;
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
      ...(ca === undefined ? [] : [{ name: 'NODE_EXTRA_CA_CERTS', value: STORE_CA }]),
    ],
    mounts: [
      // The whole volume: the agent makes the folders of a key itself, and a subPath that is a file cannot be read below.
      ...(pvc === undefined
        ? []
        : [{ name: 'store', mountPath: STORE_MOUNT, ...(readOnly ? { readOnly: true } : {}) }]),
      ...(ca === undefined ? [] : [{ name: 'store-ca', mountPath: STORE_CA_MOUNT, readOnly: true }]),
      ...(keys === undefined ? [] : [{ name: 'snapshot-keys', mountPath: KEYS_MOUNT, readOnly: true }]),
    ],
    // Optional: a Pod that waits for a volume's Secret says so in an event only, and the agent can say which one is missing.
    volumes: [
      ...(pvc === undefined ? [] : [{ name: 'store', persistentVolumeClaim: { claimName: pvc.claimName } }]),
      ...(ca === undefined
        ? []
        : [
            {
              name: 'store-ca',
              secret: { secretName: ca, optional: true, items: [{ key: 'ca.crt', path: 'ca.crt' }] },
            },
          ]),
      ...(keys === undefined ? [] : [{ name: 'snapshot-keys', secret: { secretName: keys, optional: true } }]),
    ],
  };
};

/** `s3://bucket/key` or `pvc://claim/path`. */
export const locationName = ({ s3, pvc }: StoreLocation): string =>
  s3 === undefined ? `pvc://${pvc?.claimName}/${pvc?.subPath}` : `s3://${s3.bucket}/${s3.key}`;

/** The prefix below which snapshots are put, or the exact key of one. */
export const keyIn = ({ s3, pvc }: StoreLocation): string | undefined => s3?.key ?? pvc?.subPath;
