/**
 * The Secrets that cert-manager fills for a cluster go with it. cert-manager leaves them behind, and they hold private keys.
 *
 * Two objects own each: the EtcdCluster, so that nothing is lost while the cluster lives, whatever becomes of its Certificates;
 * and the EtcdCertificateSet, whose end takes the Certificates along. Without it, cert-manager would find a Certificate
 * whose Secret has just been collected, and issue it once more.
 */

import type { Secret } from 'kubernetes-types/core/v1.js';
import type { OwnerReference } from 'kubernetes-types/meta/v1.js';
import type { EtcdCertificateSet } from '../../api/etcdcertificateset.gen.ts';
import type { EtcdQuorumTls } from '../../api/etcdquorum.gen.ts';
import { ANNOTATIONS, API_VERSION, type CertificatePurpose, certificateSecretName, LABELS } from '../../api/names.ts';
import type { Observed } from '../core/observed.ts';
import { isFault, type Resource, resources, type Stored } from '../ports/kube.ts';
import { type ClusterName, clusterKey, FIELD_MANAGER, type World } from './world.ts';

/** A right that is lacking does not come by asking each second. */
const AGAIN_MS = 60_000;

/** Names of the Secrets that cert-manager fills for a cluster with this spec, there or not. */
export const issuedSecretNames = (cluster: string, tls: EtcdQuorumTls | undefined): readonly string[] => {
  const { client, peer } = tls ?? {};
  const purposes: readonly CertificatePurpose[] = [
    ...(client?.source === 'CertManager' ? (['server'] as const) : []),
    ...(client?.source === 'CertManager' && client.mutual ? (['operator-client', 'consumer'] as const) : []),
    ...(peer?.source === 'CertManager' ? (['peer'] as const) : []),
  ];
  return purposes.map((purpose) => certificateSecretName(cluster, purpose));
};

/** A name alone proves nothing: a person may have made a Secret of this name for something else. */
const isIssued = ({ metadata: { labels, annotations } }: Stored<Secret>, cluster: string): boolean =>
  labels?.[LABELS.cluster] === cluster &&
  labels[LABELS.certificate] !== undefined &&
  annotations?.['cert-manager.io/certificate-name'] !== undefined;

const OWNERS = ['EtcdCluster', 'EtcdCertificateSet'] as const;

const ownersOf = ({ metadata }: Stored<Secret>): Partial<Record<string, string>> =>
  Object.fromEntries(
    (metadata.ownerReferences ?? [])
      .filter(({ apiVersion }) => apiVersion === API_VERSION)
      .map(({ kind, uid }) => [kind, uid]),
  );

const isKept = ({ metadata }: Stored<Secret>): boolean => metadata.annotations?.[ANNOTATIONS.keep] !== undefined;

const isRight = (secret: Stored<Secret>, claimUID: string): boolean => {
  const owners = ownersOf(secret);
  return isKept(secret)
    ? OWNERS.every((kind) => owners[kind] === undefined)
    : owners.EtcdCluster === claimUID && owners.EtcdCertificateSet !== undefined;
};

export type SecretOwnership = {
  /** Never rejects: that a Secret may be left behind one day is no reason to look after members any later. */
  ensure(seen: Observed, signal: AbortSignal): Promise<void>;
  forget(cluster: ClusterName): void;
};

export const createSecretOwnership = ({ kube, secrets, clock, log }: World): SecretOwnership => {
  const notBefore = new Map<string, number>();

  const owners = async (cluster: ClusterName, claimUID: string, signal: AbortSignal): Promise<OwnerReference[]> => {
    const [claim, set] = await Promise.all([
      kube.get({ resource: resources.etcdclusters, ...cluster }, { signal }),
      kube.get({ resource: resources.etcdcertificatesets as Resource<EtcdCertificateSet>, ...cluster }, { signal }),
    ]);
    // Read past every cache: while a claim is orphaned, a reference to it that comes too late would have the Secret of a
    // running cluster collected.
    const alive = [claim, set].every((owner) => owner !== undefined && owner.metadata.deletionTimestamp === undefined);
    if (!alive || claim?.metadata.uid !== claimUID || set === undefined) return [];
    return [
      { kind: 'EtcdCluster', uid: claimUID },
      { kind: 'EtcdCertificateSet', uid: set.metadata.uid },
    ].map((owner) => ({ apiVersion: API_VERSION, name: cluster.name, blockOwnerDeletion: false, ...owner }));
  };

  const ensure = async (cluster: ClusterName, quorum: NonNullable<Observed['quorum']>, signal: AbortSignal) => {
    const { controllerUID: claimUID } = quorum;
    if (quorum.deleting || claimUID === undefined) return;
    const wrong = issuedSecretNames(cluster.name, quorum.spec.tls).flatMap((name) => {
      const view = secrets.get(cluster.namespace, name);
      return view.is === 'there' && isIssued(view.secret, cluster.name) && !isRight(view.secret, claimUID)
        ? [view.secret]
        : [];
    });
    if (wrong.length === 0) return;
    const references = await owners(cluster, claimUID, signal);
    if (references.length === 0) return;
    for (const secret of wrong) {
      const { name, uid } = secret.metadata;
      const metadata = { name, namespace: cluster.namespace, uid };
      const ownerReferences = isKept(secret) ? [] : references;
      secrets.keep(
        await kube.apply<Secret>(
          resources.secrets,
          { apiVersion: 'v1', kind: 'Secret', metadata: { ...metadata, ownerReferences } },
          { fieldManager: FIELD_MANAGER, force: true, signal },
        ),
      );
    }
  };

  return {
    ensure: async ({ cluster: name, namespace, quorum }, signal) => {
      const key = clusterKey({ name, namespace });
      if (quorum === undefined || clock.elapsed() < (notBefore.get(key) ?? 0)) return;
      try {
        await ensure({ name, namespace }, quorum, signal);
      } catch (error) {
        // Somebody was faster; whoever it was wakes the next pass.
        if (isFault(error, 'Conflict', 'NotFound', 'AlreadyExists', 'Cancelled')) return;
        if (!isFault(error)) throw error;
        notBefore.set(key, clock.elapsed() + AGAIN_MS);
        log.warn(
          { cluster: key, message: error.message },
          'issued Secrets have no owner, and would outlive their cluster',
        );
      }
    },
    forget: (cluster) => {
      notBefore.delete(clusterKey(cluster));
    },
  };
};
