/** Writes of the runtime's own Secrets. What they hold comes from another Secret or from memory, never from a decision. */
import type { Secret } from 'kubernetes-types/core/v1.js';
import type { EtcdQuorumSpec, EtcdQuorumStatus } from '../../api/etcdquorum.gen.ts';
import { ANNOTATIONS, IN_USE_TYPE, inUseName } from '../../api/names.ts';
import { PURPOSES } from '../core/ca-change.ts';
import { type InUse, inUseSecret } from '../core/in-use-secret.ts';
import type { Observed } from '../core/observed.ts';
import type { Step } from '../core/steps.ts';
import { KubeFault, resources } from '../ports/kube.ts';
import { type NamedSecrets, secretBytes } from '../ports/secrets.ts';
import { type ClusterName, FIELD_MANAGER, type World } from './world.ts';

/**
 * The Secret from which a Pod of ours takes root's password: the one in force, because the claim's may have been edited
 * since, or hold none. The claim's only before etcd was first given it.
 */
export const rootSecretOf = (
  secrets: Pick<NamedSecrets, 'get'>,
  { namespace, name }: ClusterName,
  quorum: { readonly spec: EtcdQuorumSpec; readonly status?: EtcdQuorumStatus },
): string | undefined => {
  if (quorum.status?.authEnabled !== true) return undefined;
  const own = inUseName(name, 'root');
  const view = secrets.get(namespace, own);
  const kept = view.is === 'there' && secretBytes(view.secret, 'password') !== undefined;
  return kept ? own : quorum.spec.auth?.rootCredentialsSecretName;
};

/**
 * Creates it, or makes it hold exactly this. On the version that was last seen: a write on top of another one is refused
 * with `Conflict` or `AlreadyExists`, and the next pass decides on what is there then. The Secret has to be followed.
 */
export const writeInUse = async (
  { world, seen, signal }: { readonly world: World; readonly seen: Observed; readonly signal: AbortSignal },
  of: Pick<InUse, 'purpose' | 'data' | 'annotations'>,
): Promise<void> => {
  const { namespace, cluster, quorum } = seen;
  if (quorum === undefined) return;
  const wanted = inUseSecret({ namespace, cluster, quorum, ...of });
  const { name } = wanted.metadata;
  const view = world.secrets.get(namespace, name);
  if (view.is === 'unread') throw new KubeFault('Unavailable', `Secret ${namespace}/${name}: ${view.why}`);
  const options = { signal, fieldManager: FIELD_MANAGER };
  if (view.is === 'absent') {
    world.secrets.keep(await world.kube.create(resources.secrets, wanted, options));
    return;
  }
  const { metadata, type, data } = view.secret;
  // The API server would refuse it as well, where the policy is installed.
  if (type !== IN_USE_TYPE) {
    throw new KubeFault('Forbidden', `Secret ${namespace}/${name} is of type ${type}, so it is somebody else's`);
  }
  const gone = Object.fromEntries(Object.keys(data ?? {}).map((key) => [key, null]));
  const { labels, ownerReferences } = wanted.metadata;
  world.secrets.keep(
    await world.kube.mergePatch<Secret>(
      { resource: resources.secrets, namespace, name },
      {
        metadata: {
          uid: metadata.uid,
          resourceVersion: metadata.resourceVersion,
          labels,
          ownerReferences,
          ...(of.annotations === undefined ? {} : { annotations: of.annotations }),
        },
        data: { ...gone, ...wanted.data },
      },
      options,
    ),
  );
};

type Scene = Parameters<typeof writeInUse>[0];

/** Puts a certificate into use, or changes whom everybody has to trust for the sake of it. False: other Secrets are there by now. */
export const useCertificate = async (
  scene: Scene,
  { role, what, from, authorities, versions, authority }: Extract<Step, { do: 'UseCertificate' }>,
): Promise<boolean> => {
  const { world, seen } = scene;
  const purpose = PURPOSES[role];
  const held = world.secrets.get(seen.namespace, inUseName(seen.cluster, purpose));
  const offered = world.secrets.get(seen.namespace, from);
  if (versions.inUse !== (held.is === 'there' ? held.secret.metadata.resourceVersion : undefined)) return false;
  const source = what === 'widen' ? held : offered;
  if (source.is !== 'there') return false;
  if (what !== 'widen' && versions.from?.split(',')[0] !== source.secret.metadata.resourceVersion) return false;
  const { 'tls.crt': certificate = '', 'tls.key': key = '' } = source.secret.data ?? {};
  const changes = what === 'widen' || (what === 'pass on' && authority !== undefined);
  await writeInUse(scene, {
    purpose,
    data: { 'tls.crt': certificate, 'tls.key': key, 'ca.crt': Buffer.from(authorities).toString('base64') },
    ...(changes ? { annotations: { [ANNOTATIONS.changedAt]: new Date(seen.now).toISOString() } } : {}),
  });
  return true;
};
