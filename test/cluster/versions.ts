/** Every version the local cluster is made of. A changed version is a new folder in the cache; old ones stay until someone deletes them. */
export const versions = {
  kubernetes: '1.35.4',
  etcd: '3.6.16',
  crossplane: '2.4.0',
  crossplaneCli: '2.5.0',
  /** The one that the Crossplane CLI contains anyway. */
  helm: '3.20.2',
  coredns: '1.14.7',
  localPathProvisioner: '0.0.30',
  certManager: '1.21.2',
  versitygw: '1.8.0',
} as const;

/** The etcd versions whose images every cluster holds: the newest patch of each minor that members are upgraded between. */
export const memberEtcdVersions = ['3.5.35', '3.6.16'] as const;
