/** Names under which the project is published. Manifests repeat them, since they must be readable alone; a test compares. */
import manifest from '../package.json' with { type: 'json' };

/** Where released images and packages are. Another registry is named by kustomize's `images:` or the build's `--prefix`. */
export const imagePrefix = 'ghcr.io/etcd-operator';

/** Tag of this release. Builds that are not a release add what they were made from: `v0.1.0-3f2a91c04b7d`. */
export const release = `v${manifest.version}`;

export const runtimeName = 'etcd-operator-runtime';
export const functionName = 'function-etcd';

/** Without tag. */
export const runtimeImage = `${imagePrefix}/${runtimeName}`;
/** Without tag. At once the package that Crossplane reads and the image that its Pods run. */
export const functionPackage = `${imagePrefix}/${functionName}`;

export const systemNamespace = 'etcd-operator-system';
