// Generated from xrds/etcdcertificateset.yaml by npm run generate. Change that file, not this one.

import type { ObjectMeta } from 'kubernetes-types/meta/v1.js';

export type EtcdCertificateSetCrossplaneCompositionUpdatePolicy = 'Automatic' | 'Manual';

/**
 * EtcdCertificateSet holds the Certificates that cert-manager issues for one etcd cluster. It is written by the composition functions and stands between the EtcdCluster and its Certificates, so that neither the absence of cert-manager nor its many status updates stop or slow the EtcdCluster.
 */
export interface EtcdCertificateSet {
  apiVersion: 'etcd-operator.cozystack.io/v1alpha2';
  kind: 'EtcdCertificateSet';
  metadata: ObjectMeta;
  /**
   * What cert-manager should issue.
   */
  spec: EtcdCertificateSetSpec;
  /**
   * How the certificates fare. Crossplane adds conditions.
   */
  status?: EtcdCertificateSetStatus;
}
/**
 * One Certificate.
 */
export interface EtcdCertificateSetCertificate {
  /**
   * Its name.
   */
  name: string;
  /**
   * Its labels.
   */
  labels?: {
    /**
     * Value of the label.
     */
    [k: string]: string;
  };
  /**
   * Its annotations.
   */
  annotations?: {
    /**
     * Value of the annotation.
     */
    [k: string]: string;
  };
  /**
   * The spec of a Certificate of cert-manager.io/v1.
   */
  spec: object;
}
export interface EtcdCertificateSetCrossplaneCompositionRef {
  name: string;
}
export interface EtcdCertificateSetCrossplaneCompositionSelector {
  matchLabels: {
    [k: string]: string;
  };
}
export interface EtcdCertificateSetCrossplaneCompositionRevisionRef {
  name: string;
}
export interface EtcdCertificateSetCrossplaneCompositionRevisionSelector {
  matchLabels: {
    [k: string]: string;
  };
}
export interface EtcdCertificateSetCrossplaneResourceRef {
  apiVersion: string;
  name?: string;
  kind: string;
}
/**
 * Configures how Crossplane will reconcile this composite resource
 */
export interface EtcdCertificateSetCrossplane {
  compositionRef?: EtcdCertificateSetCrossplaneCompositionRef;
  compositionSelector?: EtcdCertificateSetCrossplaneCompositionSelector;
  compositionRevisionRef?: EtcdCertificateSetCrossplaneCompositionRevisionRef;
  compositionRevisionSelector?: EtcdCertificateSetCrossplaneCompositionRevisionSelector;
  compositionUpdatePolicy?: EtcdCertificateSetCrossplaneCompositionUpdatePolicy;
  resourceRefs?: EtcdCertificateSetCrossplaneResourceRef[];
}
/**
 * What cert-manager should issue.
 */
export interface EtcdCertificateSetSpec {
  /**
   * The Certificates, rendered whole.
   *
   * Items: One Certificate.
   */
  certificates: EtcdCertificateSetCertificate[];
  /**
   * Configures how Crossplane will reconcile this composite resource
   */
  crossplane?: EtcdCertificateSetCrossplane;
}
export interface EtcdCertificateSetCondition {
  lastTransitionTime: string;
  message?: string;
  reason: string;
  status: string;
  type: string;
  observedGeneration?: number;
}
/**
 * How the certificates fare. Crossplane adds conditions.
 */
export interface EtcdCertificateSetStatus {
  /**
   * Conditions of the resource.
   */
  conditions?: EtcdCertificateSetCondition[];
}
