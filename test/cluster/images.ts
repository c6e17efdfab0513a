import { createHash } from 'node:crypto';
import { access, readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { folderContent, type ImageContent, writeImageArchive } from '../../deploy/image-archive.ts';
import { buildFolder, builds, etcdBuild, type GoBuild, programPath } from './builds.ts';
import { cacheFolder } from './cache.ts';
import { run } from './command.ts';
import { withLock } from './lock.ts';
import { type Progress, secondsSince } from './progress.ts';
import { memberEtcdVersions, versions } from './versions.ts';

/** An image of the local cluster, made from programs of the cache. Its name is the one under which users know it. */
export type ClusterImage = {
  readonly name: string;
  readonly builds: readonly GoBuild[];
  content(): Promise<ImageContent>;
};

export const pauseImage = 'localhost/etcd-operator/pause:1';
export const corednsImage = `registry.k8s.io/coredns/coredns:v${versions.coredns}`;
const provisionerImage = `docker.io/rancher/local-path-provisioner:v${versions.localPathProvisioner}`;
export const crossplaneImage = {
  repository: 'xpkg.crossplane.io/crossplane/crossplane',
  tag: `v${versions.crossplane}`,
} as const;
export const certManagerImage = `quay.io/jetstack/cert-manager-controller:v${versions.certManager}`;
export const s3Image = `docker.io/versity/versitygw:v${versions.versitygw}`;

const authorities = {
  path: '/etc/ssl/certs/ca-certificates.crt',
  from: '/etc/ssl/certs/ca-certificates.crt',
} as const;

export function etcdImage(version: string): ClusterImage {
  const build = etcdBuild(version);
  const names = [`quay.io/coreos/etcd:v${version}`];
  return {
    name: `etcd-${version}`,
    builds: [build],
    content: async () => ({
      names,
      files: ['etcd', 'etcdctl', 'etcdutl'].map((program) => ({
        path: `/usr/local/bin/${program}`,
        from: programPath(build, program),
      })),
      cmd: ['/usr/local/bin/etcd'],
    }),
  };
}

function ofOneProgram(name: string, image: string, build: GoBuild, path: string, user?: string): ClusterImage {
  const program = path.slice(path.lastIndexOf('/') + 1);
  return {
    name,
    builds: [build],
    content: async () => ({
      names: [image],
      files: [{ path, from: programPath(build, program) }, authorities],
      entrypoint: [path],
      ...(user === undefined ? {} : { user }),
    }),
  };
}

const busybox: ClusterImage = {
  name: 'busybox',
  builds: [],
  content: async () => {
    const applets = (await run(['/bin/busybox', '--list']))
      .split('\n')
      .filter((name) => name !== '' && name !== 'busybox');
    return {
      names: ['docker.io/library/busybox:latest', 'docker.io/library/busybox:stable'],
      files: [{ path: '/bin/busybox', from: '/bin/busybox' }],
      links: applets.map((name) => ({ path: `/bin/${name}`, target: '/bin/busybox' })),
      cmd: ['/bin/sh'],
    };
  },
};

const crossplane: ClusterImage = {
  name: `crossplane-${versions.crossplane}`,
  builds: [builds.crossplane],
  content: async () => {
    const folder = buildFolder(builds.crossplane);
    const crds = await folderContent('/crds', join(folder, 'crds'));
    const webhooks = await folderContent('/webhookconfigurations', join(folder, 'webhookconfigurations'));
    return {
      names: [`${crossplaneImage.repository}:${crossplaneImage.tag}`],
      files: [
        { path: '/usr/local/bin/crossplane', from: programPath(builds.crossplane, 'crossplane-core') },
        authorities,
        ...crds.files,
        ...webhooks.files,
      ],
      links: [...crds.links, ...webhooks.links],
      user: '65532',
      entrypoint: ['crossplane'],
    };
  },
};

/** Images of the cluster itself, the ones that its start waits for first. */
export const systemImages: readonly ClusterImage[] = [
  ofOneProgram('pause', pauseImage, builds.pause, '/pause'),
  ofOneProgram(`coredns-${versions.coredns}`, corednsImage, builds.coredns, '/coredns'),
  ofOneProgram(
    `local-path-provisioner-${versions.localPathProvisioner}`,
    provisionerImage,
    builds.localPathProvisioner,
    '/usr/bin/local-path-provisioner',
  ),
  crossplane,
  busybox,
];

/** Images of etcd members. */
export const memberImages: readonly ClusterImage[] = memberEtcdVersions.map(etcdImage);

export const certManager: ClusterImage = ofOneProgram(
  `cert-manager-${versions.certManager}`,
  certManagerImage,
  builds.certManager,
  '/app/cert-manager-controller',
  '1000',
);

export const s3Server: ClusterImage = ofOneProgram(
  `versitygw-${versions.versitygw}`,
  s3Image,
  builds.versitygw,
  '/usr/local/bin/versitygw',
  '1000',
);

/**
 * Writes the archives that are missing in the cache; the programs in them must have been built.
 * @returns the archives' paths, in the order of `images`
 */
export async function ensureImages(images: readonly ClusterImage[], progress: Progress): Promise<string[]> {
  const paths: string[] = [];
  for (const image of images) paths.push(await ensureImage(image, progress));
  return paths;
}

async function ensureImage(image: ClusterImage, progress: Progress): Promise<string> {
  const content = await image.content();
  const folder = join(cacheFolder(), 'images');
  const file = `${image.name}-${await fingerprint(content)}.tar`;
  const path = join(folder, file);
  if (await exists(path)) return path;
  await withLock(join(cacheFolder(), 'images.lock'), progress, async () => {
    if (await exists(path)) return;
    const started = performance.now();
    await writeImageArchive(path, content);
    for (const other of await readdir(folder)) {
      if (isOtherArchive(other, image.name, file)) await rm(join(folder, other), { force: true });
    }
    progress(`made image ${content.names[0]} in ${secondsSince(started)}`);
  });
  return path;
}

/** Changes when an image would: with its settings, and with the size or time of a file that it is made from. */
async function fingerprint(content: ImageContent): Promise<string> {
  const hash = createHash('sha256').update(JSON.stringify(content));
  for (const file of content.files ?? []) {
    if (!('from' in file)) continue;
    const { size, mtimeMs } = await stat(file.from);
    hash.update(`${file.from} ${size} ${mtimeMs}\n`);
  }
  return hash.digest('hex').slice(0, 12);
}

/** Whether a file of the image folder is an archive of the same image with other content. */
export function isOtherArchive(file: string, name: string, current: string): boolean {
  return file !== current && file.startsWith(`${name}-`) && /^[0-9a-f]{12}\.tar$/.test(file.slice(name.length + 1));
}

async function exists(path: string): Promise<boolean> {
  try {
    await access(path);
    return true;
  } catch {
    return false;
  }
}
