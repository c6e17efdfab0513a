import type { EtcdCluster, EtcdClusterSpec } from '../../api/etcdcluster.gen.ts';
import { GROUP } from '../../api/names.ts';
import type { RunFunctionRequest } from './exchange.ts';

/**
 * Pipeline context key under which a policy step leaves the effective claim (`{spec}`): the user's spec after the
 * platform team's defaults, limits and patches. Later steps render from it; without it, from the claim itself.
 */
export const EFFECTIVE_CLAIM = `${GROUP}/effective-claim`;

/** What every step needs to know of the claim. Identity is always the claim's own; only the spec can be replaced. */
export type Claim = {
  readonly name: string;
  readonly namespace: string;
  /** Empty in an offline render. */
  readonly uid: string;
  readonly generation: number | undefined;
  /** The token by which somebody asks for one more pass, whatever it is. */
  readonly reconcileRequest: string | undefined;
  readonly version: string;
  readonly replicas: number;
  readonly spec: EtcdClusterSpec;
  readonly status: NonNullable<EtcdCluster['status']>;
};

/** Nothing can be rendered from this request. The message says what is wrong, where, and what to do. */
export class Unrenderable extends Error {
  override readonly name = 'Unrenderable';
}

const DEFAULT_REPLICAS = 3;

/** Throws {@link Unrenderable}. */
export const claimOf = (request: RunFunctionRequest): Claim => {
  const claim = record(request.observed?.composite?.resource);
  const metadata = record(claim.metadata);
  const name = metadata.name;
  if (typeof name !== 'string' || name === '') {
    throw new Unrenderable(
      'the composite resource has no metadata.name; run this step in a Composition for EtcdCluster',
    );
  }
  const effective = record(request.context?.[EFFECTIVE_CLAIM]).spec;
  const spec = shaped(
    record(effective ?? claim.spec),
    effective === undefined ? 'spec' : 'spec of the effective claim',
  );
  const version: unknown = spec.version;
  if (typeof version !== 'string' || !/^\d+\.\d+\.\d+$/.test(version)) {
    throw new Unrenderable(`spec.version is ${quoted(version)}; set it to an etcd version such as 3.6.1`);
  }
  const replicas: unknown = spec.replicas ?? DEFAULT_REPLICAS;
  if (typeof replicas !== 'number' || !Number.isInteger(replicas) || replicas < 0 || replicas > MAX_REPLICAS) {
    throw new Unrenderable(`spec.replicas is ${quoted(replicas)}; set it to a whole number from 0 to ${MAX_REPLICAS}`);
  }
  const namespace = metadata.namespace;
  const uid = metadata.uid;
  const generation = metadata.generation;
  const asked = record(metadata.annotations)['crossplane.io/reconcile-requested-at'];
  return {
    name,
    namespace: typeof namespace === 'string' ? namespace : '',
    uid: typeof uid === 'string' ? uid : '',
    generation: typeof generation === 'number' ? generation : undefined,
    reconcileRequest: typeof asked === 'string' ? asked : undefined,
    version,
    replicas,
    spec,
    status: record(claim.status) as Claim['status'],
  };
};

type Shape = 'an object' | 'a list of objects' | 'a list of texts' | 'text' | 'a quantity' | 'a whole number';

/** What the rendering relies on; more is for the schema to say. */
const SHAPES: { readonly [path: string]: Shape } = {
  storage: 'an object',
  'storage.size': 'a quantity',
  'storage.medium': 'text',
  'storage.storageClassName': 'text',
  'storage.retention': 'text',
  resources: 'an object',
  'resources.requests': 'an object',
  'resources.requests.memory': 'a quantity',
  'resources.limits': 'an object',
  'resources.limits.memory': 'a quantity',
  affinity: 'an object',
  topologySpreadConstraints: 'a list of objects',
  tolerations: 'a list of objects',
  nodeSelector: 'an object',
  priorityClassName: 'text',
  additionalMetadata: 'an object',
  options: 'an object',
  imagePullSecrets: 'a list of objects',
  tls: 'an object',
  'tls.client': 'an object',
  'tls.client.serverSecretRef': 'an object',
  'tls.client.serverSecretRef.name': 'text',
  'tls.client.operatorClientSecretRef': 'an object',
  'tls.client.operatorClientSecretRef.name': 'text',
  'tls.client.certManager': 'an object',
  'tls.client.certManager.serverIssuerRef': 'an object',
  'tls.client.certManager.serverIssuerRef.name': 'text',
  'tls.client.certManager.operatorClientIssuerRef': 'an object',
  'tls.client.certManager.operatorClientIssuerRef.name': 'text',
  'tls.client.certManager.dnsNames': 'a list of texts',
  'tls.client.certManager.ipAddresses': 'a list of texts',
  'tls.client.certManager.privateKey': 'an object',
  'tls.client.certManager.consumer': 'an object',
  'tls.peer': 'an object',
  'tls.peer.secretRef': 'an object',
  'tls.peer.secretRef.name': 'text',
  'tls.peer.certManager': 'an object',
  'tls.peer.certManager.issuerRef': 'an object',
  'tls.peer.certManager.issuerRef.name': 'text',
  'tls.peer.certManager.privateKey': 'an object',
  auth: 'an object',
  'auth.rootCredentialsSecretRef': 'an object',
  'auth.rootCredentialsSecretRef.name': 'text',
  bootstrap: 'an object',
  'bootstrap.restore': 'an object',
  'bootstrap.restore.source': 'an object',
  backup: 'an object',
  'backup.destination': 'an object',
  image: 'an object',
  'image.repository': 'text',
  progressDeadlineSeconds: 'a whole number',
  recovery: 'an object',
  'recovery.survivor': 'text',
  'recovery.snapshot': 'text',
  'recovery.source': 'an object',
  'recovery.clusterID': 'text',
};

const isObject = (value: unknown): boolean => typeof value === 'object' && value !== null && !Array.isArray(value);

const has: Record<Shape, (value: unknown) => boolean> = {
  'an object': isObject,
  'a list of objects': (value) => Array.isArray(value) && value.every(isObject),
  'a list of texts': (value) => Array.isArray(value) && value.every((each) => typeof each === 'string'),
  text: (value) => typeof value === 'string',
  'a quantity': (value) => typeof value === 'string' || typeof value === 'number',
  'a whole number': (value) => Number.isInteger(value),
};

/** The API server holds a claim to its schema; what a policy step makes of it, nobody. */
const shaped = (spec: { readonly [key: string]: unknown }, what: string): EtcdClusterSpec => {
  for (const [path, shape] of Object.entries(SHAPES)) {
    const value = path.split('.').reduce((at: unknown, key) => record(at)[key], spec);
    if (value === undefined ? !isMissing(spec, path) : has[shape](value)) continue;
    const [head, ...tail] = what.split(' ');
    throw new Unrenderable(`${[`${head}.${path}`, ...tail].join(' ')} is ${quoted(value)}; it has to be ${shape}`);
  }
  return spec as unknown as EtcdClusterSpec;
};

/** A reference says nothing without a name, nor cert-manager without an issuer. */
const isMissing = (spec: { readonly [key: string]: unknown }, path: string): boolean => {
  const keys = path.split('.');
  const parent = keys.slice(0, -1).reduce((at: unknown, key) => record(at)[key], spec);
  return parent !== undefined && /Ref\.name$|certManager\.(serverIssuerRef|issuerRef)$/.test(path);
};

/** As in the XRD. Rendering a claim that got past it with more would make a cluster that etcd cannot run well. */
const MAX_REPLICAS = 9;

/** The value if it is an object, else an empty one: whatever reached the API server must not crash a step. */
export const record = (value: unknown): { readonly [key: string]: unknown } =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as { readonly [key: string]: unknown })
    : {};

/** A value of unknown kind as it may stand in a message: JSON, cut short. */
export const quoted = (value: unknown): string => {
  const text = value === undefined ? 'absent' : JSON.stringify(value);
  return text.length > 80 ? `${text.slice(0, 80)}…` : text;
};
