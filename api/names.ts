/**
 * Names, labels and annotations: the contract between the functions (which render objects), the runtime (which makes
 * Pods and volumes) and people with kubectl. A change here strands the objects of running clusters.
 */

export const GROUP = 'etcd-operator.cozystack.io';
export const VERSION = 'v1alpha2';
export const API_VERSION = `${GROUP}/${VERSION}`;

export const LABELS = {
  /** Name of the EtcdCluster, on everything that belongs to one. */
  cluster: `${GROUP}/cluster`,
  /** Name of the EtcdMember (the slot), on its Pod and its volume. */
  member: `${GROUP}/member`,
  /** Token of the incarnation, on its Pod and its volume. */
  incarnation: `${GROUP}/incarnation`,
  /** `voter` once the runtime has proven the member's identity; the client Service selects it. Absent before. */
  role: `${GROUP}/role`,
  /** What a certificate is for, on its Secret: see {@link CertificatePurpose}. */
  certificate: `${GROUP}/certificate`,
  /** On a volume that outlived its cluster: the name of that cluster, in place of {@link LABELS.cluster}. */
  retained: `${GROUP}/retained-from`,
} as const;

export const ROLE_VOTER = 'voter';
/** In place of a member's role: a Pod that fills a new member's volume before it starts, and serves nobody. */
export const SEED_ROLE = 'seed';

export const ANNOTATIONS = {
  /** On a Pod: etcd's configuration file, projected into the container by the downward API. */
  config: `${GROUP}/config`,
  /**
   * On a Pod: the authorities (PEM) that its etcd trusts as signers of clients' and of peers' certificates, projected
   * beside the configuration. etcd reads them when it starts and never again, so they never change under a Pod.
   */
  clientCA: `${GROUP}/client-ca`,
  peerCA: `${GROUP}/peer-ca`,
  /** On a Pod: the certificates that its kubelet is to bring to it. A change of the Pod makes it look at once. */
  certificates: `${GROUP}/certificates`,
  /** On a Secret of type {@link IN_USE_TYPE}: when its authorities last became more, or its certificate that of another. */
  changedAt: `${GROUP}/changed-at`,
  /** On a Pod: SHA-256 of the rendered template it was made from; rollouts compare this, never the live Pod. */
  template: `${GROUP}/template-hash`,
  /** On a Pod: SHA-256 of that part of the template which only another Pod can take in; all else changes in place. */
  restart: `${GROUP}/restart-hash`,
  /** On a Pod, a volume and the budget: the labels and annotations of the claim that were last written to it. */
  metadata: `${GROUP}/applied-metadata`,
  /** On a Pod: ID of the container whose cluster ID, member ID and revision were last proven. */
  verifiedContainer: `${GROUP}/verified-container`,
  /** On an EtcdMember and on a volume: UID of the EtcdCluster it was made for. */
  clusterUID: `${GROUP}/cluster-uid`,
  /** On a volume: etcd's cluster ID, hex. One of the four places of the latch "this cluster has existed". */
  clusterID: `${GROUP}/cluster-id`,
  /** On a volume: etcd's member ID, hex. */
  memberID: `${GROUP}/member-id`,
  /** On an EtcdMember, by a person: start it again although its data was refused. The runtime takes it away. */
  retry: `${GROUP}/retry`,
  /** On an EtcdSnapshot: asks for a proof that it can be restored. Any value that it has not had asks for another one. */
  prove: `${GROUP}/prove`,
  /** On a Secret that cert-manager filled for a cluster, by a person: it stays when the cluster is deleted. */
  keep: `${GROUP}/keep`,
  /** On a volume: the revision (decimal) below which its member may never start again. */
  revisionFloor: `${GROUP}/revision-floor`,
} as const;

/** Held on each EtcdMember by the runtime from before its Pod and volume exist until after both are gone. */
export const MEMBER_FINALIZER = `${GROUP}/member`;

export const PORTS = { client: 2379, peer: 2380, metrics: 2381 } as const;

export const CONTAINER = 'etcd';
export const DATA_VOLUME = 'data';
export const DATA_MOUNT = '/var/lib/etcd';
export const CONFIG_VOLUME = 'config';
export const CONFIG_MOUNT = '/etc/etcd';
export const CONFIG_FILE = 'etcd.yaml';
/** Beside the configuration: the authorities that the member trusts, see {@link ANNOTATIONS.clientCA}. */
export const CLIENT_CA_FILE = 'client-ca.crt';
export const PEER_CA_FILE = 'peer-ca.crt';
/** Where a member's template mounts its Secrets, each with `tls.crt`, `tls.key` and `ca.crt`. */
export const CLIENT_TLS_VOLUME = 'client-tls';
export const CLIENT_TLS_MOUNT = '/etc/etcd/tls/client';
export const PEER_TLS_VOLUME = 'peer-tls';
export const PEER_TLS_MOUNT = '/etc/etcd/tls/peer';

/** Keys of a Secret with a certificate. */
export const TLS_FILES = { cert: 'tls.crt', key: 'tls.key', ca: 'ca.crt' } as const;

/** What cert-manager issues for a cluster: each a Certificate `<cluster>-<purpose>` with the Secret of {@link certificateSecretName}. */
export type CertificatePurpose = 'server' | 'peer' | 'operator-client' | 'consumer';

export const certificateName = (cluster: string, purpose: CertificatePurpose): string => `${cluster}-${purpose}`;

export const certificateSecretName = (cluster: string, purpose: CertificatePurpose): string =>
  `${certificateName(cluster, purpose)}-tls`;

/** What the runtime itself holds for a cluster, each in a Secret of {@link inUseName}. */
export type InUsePurpose = 'server' | 'peer' | 'operator-client' | 'consumer' | 'root';

/** Type of those Secrets. A Secret's type cannot be changed, so nobody's own Secret ever becomes one of them. */
export const IN_USE_TYPE = `${GROUP}/in-use`;

/** What is in use of what the claim's Secret offers: a new certificate or password comes there only when it is safe. */
export const inUseName = (cluster: string, purpose: InUsePurpose): string => `${cluster}-${purpose}-in-use`;

/** ConfigMap with what a client needs to know of the cluster. */
export const connectionName = (cluster: string): string => `${cluster}-connection`;

/** `<cluster>-<ordinal>`: the EtcdMember that holds one incarnation after another. */
export const memberName = (cluster: string, ordinal: number): string => `${cluster}-${ordinal}`;

/** The ordinal of a slot of this cluster, or undefined where the name is not one. */
export const ordinalOf = (cluster: string, member: string): number | undefined => {
  const digits = member.startsWith(`${cluster}-`) ? member.slice(cluster.length + 1) : '';
  return /^(0|[1-9]\d*)$/.test(digits) ? Number(digits) : undefined;
};

/** `<cluster>-<ordinal>-<token>`: the Pod, the volume, the hostname and the etcd name of one incarnation. */
export const incarnationName = (member: string, token: string): string => `${member}-${token}`;

/** Headless; every member Pod, learners and starting ones too. */
export const peerServiceName = (cluster: string): string => cluster;

/** The voters that serve. */
export const clientServiceName = (cluster: string): string => `${cluster}-client`;

/**
 * The name under which members know each other. It stops at `.svc`: every Pod's search list completes it, so nothing
 * here needs to know the cluster's DNS domain, which operators otherwise guess wrongly.
 */
export const peerHost = (cluster: string, namespace: string, incarnation: string): string =>
  `${incarnation}.${peerServiceName(cluster)}.${namespace}.svc`;

export type Scheme = 'http' | 'https';

/** Of a Pod by its address, of whatever family. */
export const addressURL = (scheme: Scheme, ip: string, port: number): string =>
  `${scheme}://${ip.includes(':') ? `[${ip}]` : ip}:${port}`;

export const peerURL = (cluster: string, namespace: string, incarnation: string, scheme: Scheme = 'http'): string =>
  `${scheme}://${peerHost(cluster, namespace, incarnation)}:${PORTS.peer}`;

export const clientURL = (cluster: string, namespace: string, incarnation: string, scheme: Scheme = 'http'): string =>
  `${scheme}://${peerHost(cluster, namespace, incarnation)}:${PORTS.client}`;

/**
 * Whether one of these peer URLs is that of the incarnation, encrypted or not: a member that is brought to TLS stays
 * the same member, and taking it for another would end in a second one or in a deleted volume.
 */
export const hasPeerURL = (
  peerURLs: readonly string[],
  cluster: string,
  namespace: string,
  incarnation: string,
): boolean =>
  peerURLs.includes(peerURL(cluster, namespace, incarnation)) ||
  peerURLs.includes(peerURL(cluster, namespace, incarnation, 'https'));

/** Selects every member Pod: `/scale`'s selector, the headless Service. */
export const memberSelector = (cluster: string): Record<string, string> => ({
  'app.kubernetes.io/name': 'etcd',
  [LABELS.cluster]: cluster,
});

/** Selects the members that may serve: the client Service and the PodDisruptionBudget. */
export const voterSelector = (cluster: string): Record<string, string> => ({
  ...memberSelector(cluster),
  [LABELS.role]: ROLE_VOTER,
});

/** Labels of every object that belongs to a cluster. */
export const clusterLabels = (cluster: string): Record<string, string> => ({
  ...memberSelector(cluster),
  'app.kubernetes.io/instance': cluster,
  'app.kubernetes.io/managed-by': 'etcd-operator',
});

export const DEFAULT_IMAGE_REPOSITORY = 'quay.io/coreos/etcd';
