/** `npm run build`: the images and the package as files, for those who publish them. */
import { join } from 'node:path';
import { Command } from 'commander';
import { builds, ensureBuilds, programPath } from '../test/cluster/builds.ts';
import { run } from '../test/cluster/command.ts';
import { buildFunctionPackage, buildRuntime } from './build.ts';
import { root } from './bundle.ts';
import { imagePrefix, release } from './names.ts';

const options = new Command('build')
  .description('Builds the image of the runtime and the package of the functions. No Docker daemon is needed.')
  .option('--prefix <registry/path>', 'where they will be published', imagePrefix)
  .option('--tag <tag>', 'tag of both', release)
  .option('--push', 'also push them there, with the credentials of your Docker configuration')
  .parse()
  .opts<{ prefix: string; tag: string; push?: true }>();

await ensureBuilds([builds.crossplaneCli]);
const crossplane = (args: readonly string[]): Promise<string> =>
  run([programPath(builds.crossplaneCli, 'crossplane'), ...args], { timeoutMs: 600_000 });
// Apart from what installing on a cluster keeps: each keeps only its newest archive.
const out = join(root, 'build/release');
const how = { prefix: options.prefix, tag: options.tag, out, progress: console.error };
for (const image of [await buildRuntime(how), await buildFunctionPackage(crossplane, how)]) {
  console.log(`${image.name}:${image.tag}  ${image.archive}`);
  if (options.push) await crossplane(['xpkg', 'push', '-f', image.archive, `${image.name}:${image.tag}`]);
}
