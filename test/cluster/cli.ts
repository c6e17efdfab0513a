import { spawn } from 'node:child_process';
import { resolve } from 'node:path';
import { Command, InvalidArgumentError } from 'commander';
import { isOptionalAddon, type OptionalAddon, optionalAddons } from './addons.ts';
import { builds, programPath } from './builds.ts';
import { clusterEnvironment, connect, localCluster, namedKubeconfig, toolFolders } from './cluster.ts';
import { cutPairs, localFaults } from './faults.ts';
import { installOperator } from './install.ts';
import { down, requireCapableMachine, status, up } from './lifecycle.ts';
import { adminKubeconfig, isNodeName, type NodeName, nodeNames, registryAddress } from './places.ts';
import { secondsSince } from './progress.ts';

const program = new Command('cluster').description(
  'A real three-node Kubernetes with Crossplane on this machine, for tests.',
);

function parseAddons(list: string): OptionalAddon[] {
  return list.split(',').map((name) => {
    if (!isOptionalAddon(name)) throw new InvalidArgumentError(`Add-ons are ${optionalAddons.join(' and ')}.`);
    return name;
  });
}

function parseNode(name: string): NodeName {
  if (!isNodeName(name)) throw new InvalidArgumentError(`Nodes are ${nodeNames.join(', ')}.`);
  return name;
}

function refuseOtherCluster(): void {
  const named = namedKubeconfig(process.env);
  if (named === undefined) return;
  throw new Error(
    `KUBECONFIG names another cluster (${named}), which is used as it is; unset it to work with the local one.`,
  );
}

program
  .command('up')
  .description('build what is missing and bring the cluster up; repairs one that is half up')
  .option('--with <addons>', `also install, comma-separated: ${optionalAddons.join(', ')}`, parseAddons, [])
  .action(async (options: { with: OptionalAddon[] }) => {
    refuseOtherCluster();
    await up({ addons: options.with });
  });

program
  .command('down')
  .description('stop it and remove everything it made, except the cache')
  .action(() => down());

program
  .command('status')
  .description('what runs; ends with 1 unless all is well')
  .action(async () => {
    const now = await status();
    if (now === undefined) {
      console.log('no cluster; "npm run cluster -- up" starts one');
      process.exitCode = 1;
      return;
    }
    for (const { program: name, pid } of now.controlPlane) console.log(`${name.padEnd(26)}${pid ?? 'stopped'}`);
    for (const node of now.nodes) {
      const state = !node.powered
        ? 'off'
        : `${node.plugged ? '' : 'cut off, '}${node.programs.join(', ') || 'nothing'}`;
      console.log(`${node.node.padEnd(26)}${state}`);
    }
    for (const [a, b] of await cutPairs()) console.log(`${`${a} - ${b}`.padEnd(26)}cut`);
    console.log(`${'registry address'.padEnd(26)}${registryAddress}`);
    console.log(`${'add-ons'.padEnd(26)}${now.addons.join(', ') || 'none'}`);
    console.log(`${'kubeconfig'.padEnd(26)}${adminKubeconfig}`);
    console.log(now.ready ? 'ready' : 'not ready; "npm run cluster -- up" repairs it');
    process.exitCode = now.ready ? 0 : 1;
  });

program
  .command('install')
  .description('build the operator and install it, as a user would; quick when nothing changed')
  .action(async () => {
    const started = performance.now();
    const installed = await installOperator(await connect());
    console.log(`${installed.runtimeImage}\n${installed.functionPackage}`);
    console.error(`installed in ${secondsSince(started)}`);
  });

program
  .command('load <archive...>')
  .description('load docker-archive tars into every node')
  .action(async (archives: string[]) => {
    const started = performance.now();
    await (await localCluster()).loadImage(...archives.map((path) => resolve(path)));
    console.error(`loaded into ${nodeNames.length} nodes in ${secondsSince(started)}`);
  });

program
  .command('kubectl')
  .description('run kubectl of the cluster: cluster kubectl get pods -A')
  .argument('[arguments...]')
  .allowUnknownOption()
  .helpOption(false)
  .action((args: string[]) => {
    const child = spawn(programPath(builds.kubernetes, 'kubectl'), args, {
      stdio: 'inherit',
      env: clusterEnvironment(adminKubeconfig),
    });
    child.on('error', (error) => {
      console.error(`kubectl could not be started (${error.message}); "npm run cluster -- up" builds it`);
      process.exitCode = 1;
    });
    child.on('close', (code) => {
      process.exitCode = code ?? 1;
    });
  });

program
  .command('env')
  .description('print what to evaluate in a shell: eval "$(npm run --silent cluster -- env)"')
  .action(() => {
    console.log(`export KUBECONFIG='${adminKubeconfig}'`);
    console.log(`export PATH='${toolFolders().join(':')}':"$PATH"`);
  });

const node = program.command('node').description('faults of a node');
node
  .command('stop')
  .argument('<node>', 'which one', parseNode)
  .option('--power', 'end everything on it, its Pods too; without, only kubelet and container runtime end')
  .action((name: NodeName, options: { power?: true }) =>
    localFaults.stopNode(name, options.power === true ? 'power' : 'programs'),
  );
node
  .command('start')
  .argument('<node>', 'which one', parseNode)
  .action((name: NodeName) => localFaults.startNode(name));

const link = program.command('link').description('faults of the network');
for (const [verb, change] of [
  ['cut', localFaults.cutLink],
  ['heal', localFaults.healLink],
] as const) {
  link
    .command(verb)
    .argument('<node>', 'from everything', parseNode)
    .argument('[other]', 'only from this node', parseNode)
    .action((name: NodeName, other?: NodeName) => change(name, other));
}

const apiServer = program.command('api-server').description('faults of the API server');
apiServer.command('stop').action(() => localFaults.stopApiServer());
apiServer.command('start').action(() => localFaults.startApiServer());

program
  .command('heal')
  .description('undo all faults')
  .action(() => localFaults.healAll());

// Everything else looks into the cluster's namespaces or its private files.
const forEveryone = ['env', 'help'];
program.hook('preAction', (_, command) => {
  if (!forEveryone.includes(command.name())) requireCapableMachine();
});

try {
  await program.parseAsync();
} catch (error) {
  console.error(error instanceof Error ? error.message : String(error));
  process.exitCode = 1;
}
