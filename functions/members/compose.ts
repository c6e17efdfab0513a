/** The step `Members`: the EtcdQuorum and one EtcdMember per slot. */
import type { EtcdMember, EtcdMemberSpec } from '../../api/etcdmember.gen.ts';
import type { EtcdQuorum, EtcdQuorumSpec } from '../../api/etcdquorum.gen.ts';
import { API_VERSION, clusterLabels, LABELS } from '../../api/names.ts';
import { accepted } from '../composing/accepted.ts';
import { additionalMetadataOf, metadataWith } from '../composing/additional-metadata.ts';
import { type Claim, claimOf, record } from '../composing/claim.ts';
import { isTrue } from '../composing/conditions.ts';
import type { Compose, Ready, Resource, RunFunctionRequest } from '../composing/exchange.ts';
import { renderable, respond } from '../composing/response.ts';
import { hasExisted, QUORUM_KEY, quorumOf, ttlSeconds } from '../composing/settling.ts';
import {
  isDeleting,
  MEMBERS_REQUIRED,
  memberKey,
  membersRequirement,
  type Slot,
  slotName,
  slotsOf,
  wantedOrdinals,
} from '../composing/slots.ts';
import { inputOf, renderVersionOf } from '../composing/step-input.ts';
import { authOf, tlsOf } from '../composing/transport-security.ts';
import { isMemory, memberTemplate, volumeClaimTemplate } from './member-pod.ts';

export const composeMembers: Compose = renderable((request) => {
  renderVersionOf(request);
  const { claim, memberVersion } = accepted(request, claimOf(request));
  const rendered = { ...claim, version: memberVersion };
  const imageRepository = inputOf(request).imageRepository;
  const slots = slotsOf(request, claim);
  const resources: Record<string, Resource> = { [QUORUM_KEY]: quorum(request, claim) };
  for (const ordinal of wantedOrdinals(slots, claim)) {
    resources[memberKey(ordinal)] = {
      resource: member(rendered, ordinal, typeof imageRepository === 'string' ? imageRepository : undefined),
      ready: memberReady(
        request,
        claim,
        slots.find((slot) => slot.ordinal === ordinal),
      ),
    };
  }
  return respond(request, {
    resources,
    requirements: { resources: { [MEMBERS_REQUIRED]: membersRequirement(claim) } },
    ttlSeconds: ttlSeconds(request, claim),
  });
});

const quorum = (request: RunFunctionRequest, claim: Claim): Resource => {
  const additionalMetadata = additionalMetadataOf(claim);
  const observed = quorumOf(request);
  return {
    resource: {
      apiVersion: API_VERSION,
      kind: 'EtcdQuorum',
      metadata: { name: claim.name, namespace: claim.namespace, ...metadataWith(claim, clusterLabels(claim.name)) },
      spec: {
        replicas: claim.replicas,
        version: claim.version,
        medium: isMemory(claim) ? 'Memory' : '',
        ...(claim.spec.progressDeadlineSeconds === undefined
          ? {}
          : { progressDeadlineSeconds: claim.spec.progressDeadlineSeconds }),
        ...tlsAndAuth(claim),
        ...(additionalMetadata === undefined ? {} : { additionalMetadata }),
        ...(claim.spec.bootstrap?.restore === undefined ? {} : { restore: claim.spec.bootstrap.restore }),
        ...(claim.spec.recovery === undefined ? {} : { recovery: claim.spec.recovery }),
      },
    } satisfies EtcdQuorum,
    ready: isTrue(observed, 'Ready') && !isDeleting(observed) ? 'True' : 'False',
  };
};

const tlsAndAuth = (claim: Claim): Pick<EtcdQuorumSpec, 'tls' | 'auth'> => {
  const tls = tlsOf(claim);
  const auth = authOf(claim);
  return { ...(tls === undefined ? {} : { tls }), ...(auth === undefined ? {} : { auth }) };
};

const memberTls = (claim: Claim): Pick<EtcdMemberSpec, 'tls'> => {
  const { client, peer } = tlsOf(claim) ?? {};
  if (client === undefined && peer === undefined) return {};
  return {
    tls: {
      ...(client === undefined
        ? {}
        : {
            client: {
              secretName: client.serverSecretName,
              mutual: client.mutual,
              ...(client.clientCASecretName === undefined ? {} : { clientCASecretName: client.clientCASecretName }),
            },
          }),
      ...(peer === undefined ? {} : { peer: { secretName: peer.secretName } }),
    },
  };
};

const member = (claim: Claim, ordinal: number, imageRepository: string | undefined): EtcdMember => {
  const name = slotName(claim, ordinal);
  const volume = volumeClaimTemplate(claim, name);
  return {
    apiVersion: API_VERSION,
    kind: 'EtcdMember',
    metadata: {
      name,
      namespace: claim.namespace,
      ...metadataWith(claim, { ...clusterLabels(claim.name), [LABELS.member]: name }),
    },
    spec: {
      clusterName: claim.name,
      version: claim.version,
      storage: { medium: isMemory(claim) ? 'Memory' : '', retention: claim.spec.storage?.retention ?? 'Delete' },
      ...(claim.spec.options === undefined ? {} : { options: claim.spec.options }),
      ...memberTls(claim),
      template: memberTemplate(claim, name, imageRepository),
      ...(volume === undefined ? {} : { volumeClaimTemplate: volume }),
    },
  };
};

/**
 * While a cluster forms, its members become ready one by one; counting each would change the claim's Ready message each
 * time, and every such change costs the claim tokens of Crossplane's circuit breaker just when it needs them.
 */
const memberReady = (request: RunFunctionRequest, claim: Claim, slot: Slot | undefined): Ready => {
  const observed = slot?.observed;
  const serves =
    observed !== undefined &&
    hasExisted(quorumOf(request), claim) &&
    isTrue(observed, 'Ready') &&
    record(observed.status).phase === 'Voter' &&
    !isDeleting(observed) &&
    !isDeleting(slot?.required);
  return serves ? 'True' : 'False';
};
