/** The store that a claim or a snapshot names, as it is mounted and configured in an agent's Pod. */
import { access } from 'node:fs/promises';
import { createFileStore } from '../adapters/files/file-store.ts';
import { STORE_CA, STORE_MOUNT, type StoreLocation } from '../core/snapshots/store-access.ts';
import { type SnapshotStore, StoreFault } from '../ports/snapshot-store.ts';

/** @param volume where the volume of a location on one is mounted */
export const openStore = async ({ s3, pvc }: StoreLocation, volume = STORE_MOUNT): Promise<SnapshotStore> => {
  if (pvc !== undefined) return createFileStore({ root: volume, name: pvc.claimName });
  if (s3 === undefined) throw new TypeError('the order names no store');
  const { caBundleSecretRef } = s3;
  if (caBundleSecretRef !== undefined) {
    // Read by Node itself at its start, and not missed by it.
    await access(STORE_CA).catch(() => {
      throw new StoreFault(
        'Unreachable',
        `trust ${s3.endpoint}`,
        `Secret ${caBundleSecretRef.name} with ca.crt is not there`,
      );
    });
  }
  // Most of what the agent loads, and whoever uses a volume needs none of it.
  const { createS3Store } = await import('../adapters/s3/s3-store.ts');
  const { mode, kmsKeyID } = s3.serverSideEncryption ?? {};
  return createS3Store({
    endpoint: s3.endpoint,
    bucket: s3.bucket,
    region: s3.region,
    forcePathStyle: s3.forcePathStyle,
    checksums: s3.checksums,
    ...(mode === undefined ? {} : { encryption: { mode, kmsKeyID } }),
  });
};
