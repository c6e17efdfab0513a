/**
 * The names in the certificates of a cluster. They are fixed by the cluster's name, so that no member that is ever made
 * needs a certificate of its own: a new one is waited for by whoever starts the member, and would be one more thing to
 * expire.
 */
import { clientServiceName, peerServiceName } from '../../api/names.ts';

type Place = {
  readonly cluster: string;
  readonly namespace: string;
  /** That of the Kubernetes cluster's DNS. */
  readonly domain: string;
};

type Extra = { readonly dnsNames?: readonly string[]; readonly ipAddresses?: readonly string[] };

export type CertificateNames = { readonly dnsNames: string[]; readonly ipAddresses?: string[] };

const everyMember = ({ cluster, namespace, domain }: Place): string[] => {
  const name = `*.${peerServiceName(cluster)}.${namespace}.svc`;
  return [name, `${name}.${domain}`];
};

/** By which a Service can be called from any namespace. */
const serviceNames = (service: string, { namespace, domain }: Place): string[] => [
  `${service}.${namespace}.svc`,
  `${service}.${namespace}.svc.${domain}`,
];

export const serverNames = (place: Place, extra: Extra): CertificateNames => {
  const ofService = (service: string): string[] => [
    service,
    `${service}.${place.namespace}`,
    ...serviceNames(service, place),
  ];
  return {
    dnsNames: unique([
      ...everyMember(place),
      ...ofService(clientServiceName(place.cluster)),
      ...ofService(peerServiceName(place.cluster)),
      // Who looks after a member from inside its Pod, or through a forwarded port.
      'localhost',
      ...(extra.dnsNames ?? []),
    ]),
    ipAddresses: unique(['127.0.0.1', '::1', ...(extra.ipAddresses ?? [])]),
  };
};

/**
 * A member that calls is known by its address, which etcd looks for among the names of its certificate: it asks for the
 * address's own name and compares wildcards with the answer, which ends in the cluster's real domain; or it asks for the
 * addresses of each name without a wildcard. The headless Service is such a name: its addresses are those of all members,
 * whatever the domain is called. Without it a wrong domain would show as members that never find each other.
 */
export const peerNames = (place: Place): CertificateNames => ({
  dnsNames: unique([...everyMember(place), ...serviceNames(peerServiceName(place.cluster), place)]),
});

const unique = (values: readonly string[]): string[] => [...new Set(values)];
