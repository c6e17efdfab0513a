/**
 * `npm run demo`: a cluster, the operator on it, a claim, and what a user sees of it. Every command that a user would type is
 * printed before it runs.
 */
import { spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { createInterface } from 'node:readline';
import { Command } from 'commander';
import { parseAllDocuments } from 'yaml';
import { root } from '../../deploy/bundle.ts';
import { type Cluster, connect, namedKubeconfig } from './cluster.ts';
import { installOperator } from './install.ts';
import { type Progress, secondsSince } from './progress.ts';

const namespace = 'etcd-demo';
const example = join(root, 'examples/minimal.yaml');
const readyMs = 300_000;

type Claim = {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly spec: { readonly version: string };
};

const options = new Command('demo')
  .description('Brings up a cluster, installs the operator, applies examples/minimal.yaml and shows the result.')
  .option(
    '--registry <host/path>',
    'with KUBECONFIG: a registry that this machine may push to and that cluster pulls from; also ETCD_OPERATOR_REGISTRY',
  )
  .option('--all', 'apply every manifest of examples/, one after the other')
  .parse()
  .opts<{ registry?: string; all?: true }>();

const say = (text = ''): void => {
  process.stdout.write(`${text}\n`);
};
const title = (text: string): void => say(`\n== ${text}`);
const detail: Progress = (line) => say(`   ${line}`);

const times: { readonly what: string; readonly took: string }[] = [];

async function phase<T>(what: string, work: () => Promise<T>): Promise<T> {
  title(what);
  const started = performance.now();
  const result = await work();
  const took = secondsSince(started);
  times.push({ what, took });
  detail(`done in ${took}`);
  return result;
}

/** Shows a command as a user types it, and what it prints. */
async function show(cluster: Cluster, tool: 'kubectl' | 'crossplane', args: readonly string[]): Promise<string> {
  say(`\n$ ${[tool, ...args].join(' ')}`);
  const printed = await cluster[tool](args);
  say(printed.trimEnd());
  return printed;
}

async function requireCrossplane(cluster: Cluster): Promise<void> {
  const found = await cluster.kubectl([
    'get',
    'crd',
    'functions.pkg.crossplane.io',
    '--ignore-not-found',
    '-o',
    'name',
  ]);
  if (found.trim() !== '') return;
  throw new Error(
    'This cluster has no Crossplane, which composes the claims. Install version 2 first:\n' +
      '  helm repo add crossplane-stable https://charts.crossplane.io/stable\n' +
      '  helm install crossplane crossplane-stable/crossplane -n crossplane-system --create-namespace --wait',
  );
}

/** Prints the claim's row each time that it changes, until it is Ready. */
async function untilReady(cluster: Cluster, claim: string): Promise<void> {
  const watching = spawn('kubectl', ['get', 'etcdcluster', claim, '-n', namespace, '--watch'], {
    env: cluster.env,
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  // Without rows the demo is only quieter; whether kubectl works is told by the command that follows.
  watching.on('error', () => undefined);
  let before = '';
  const started = performance.now();
  createInterface({ input: watching.stdout }).on('line', (line) => {
    // The age alone is no news.
    const row = line.replace(/\s+\S+\s*$/, '');
    if (row !== before) say(`   ${secondsSince(started).padStart(6)}  ${row}`);
    before = row;
  });
  try {
    // Of a claim that was there before, Ready may be said by an older function; Synced says that the present one was asked.
    for (const condition of ['Synced', 'Ready']) {
      await cluster.kubectl(
        [
          ...['wait', `etcdcluster/${claim}`, '-n', namespace],
          ...[`--for=condition=${condition}`, `--timeout=${readyMs / 1000}s`],
        ],
        { timeoutMs: readyMs + 10_000 },
      );
    }
  } catch (error) {
    title(`${claim} is not Ready; this is what the cluster says`);
    for (const args of [
      ['get', 'etcdcluster,etcdquorum,etcdmember,pod,pvc', '-n', namespace],
      [
        'get',
        'etcdcluster',
        claim,
        '-n',
        namespace,
        '-o',
        'jsonpath={range .status.conditions[*]}{.type}={.status} {.reason}: {.message}{"\\n"}{end}',
      ],
      ['get', 'events', '-n', namespace, '--sort-by=.lastTimestamp'],
      ['logs', '-n', 'etcd-operator-system', 'deployment/etcd-operator-runtime', '--tail=30'],
    ]) {
      await show(cluster, 'kubectl', args).catch((failure: unknown) => say(String(failure)));
    }
    throw error;
  } finally {
    watching.kill();
  }
}

/** A key written and read through the client Service from a Pod of its own, as an application would. */
async function useIt(cluster: Cluster, { metadata, spec }: Claim): Promise<void> {
  const image = `quay.io/coreos/etcd:v${spec.version}`;
  const endpoint = `http://${metadata.name}-client:2379`;
  const etcdctl = (name: string, ...args: string[]): object => ({
    name,
    image,
    imagePullPolicy: 'IfNotPresent',
    command: ['etcdctl', `--endpoints=${endpoint}`, ...args],
    securityContext: { allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: { drop: ['ALL'] } },
  });
  const name = 'etcdctl';
  const pod = {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace },
    spec: {
      restartPolicy: 'Never',
      automountServiceAccountToken: false,
      securityContext: { runAsNonRoot: true, runAsUser: 65532, seccompProfile: { type: 'RuntimeDefault' } },
      initContainers: [etcdctl('put', 'put', 'greeting', 'hello from a claim')],
      containers: [etcdctl('get', 'get', 'greeting'), etcdctl('members', 'member', 'list', '-w', 'table')],
    },
  };
  const remove = ['delete', 'pod', name, '-n', namespace, '--ignore-not-found', '--grace-period=1'];
  await cluster.kubectl(remove);
  await cluster.kubectl(['apply', '-f', '-'], { input: JSON.stringify(pod) });
  try {
    await cluster.kubectl([
      'wait',
      `pod/${name}`,
      '-n',
      namespace,
      '--for=jsonpath={.status.phase}=Succeeded',
      '--timeout=90s',
    ]);
  } finally {
    for (const [container, args] of [
      ['put', "put greeting 'hello from a claim'"],
      ['get', 'get greeting'],
      ['members', 'member list -w table'],
    ] as const) {
      const printed = await cluster.kubectl(['logs', name, '-n', namespace, '-c', container]).catch(String);
      say(`\n$ etcdctl --endpoints=${endpoint} ${args}      # in a Pod`);
      say(printed.trimEnd());
    }
  }
  await cluster.kubectl(remove);
}

async function claimOf(file: string): Promise<Claim> {
  const objects = parseAllDocuments(await readFile(file, 'utf8')).map((document) => document.toJS() as Claim);
  const claim = objects.find(({ kind }) => kind === 'EtcdCluster');
  if (claim === undefined) throw new Error(`${file} holds no EtcdCluster`);
  return claim;
}

async function applyAndWait(cluster: Cluster, file: string): Promise<Claim> {
  const path = relative(root, file);
  const claim = await claimOf(file);
  await phase(`${path}: until every member serves`, async () => {
    say(`\n$ kubectl apply -n ${namespace} -f ${path}`);
    say((await cluster.kubectl(['apply', '-n', namespace, '-f', file])).trimEnd());
    await untilReady(cluster, claim.metadata.name);
  });
  return claim;
}

async function demo(): Promise<void> {
  const started = performance.now();
  if (options.registry !== undefined) process.env.ETCD_OPERATOR_REGISTRY = options.registry;

  const kubeconfig = namedKubeconfig(process.env);
  const cluster = await phase(
    kubeconfig === undefined ? 'a three-node Kubernetes with Crossplane' : `the cluster of ${kubeconfig}`,
    () => connect({ progress: detail }),
  );
  await requireCrossplane(cluster);
  await phase('the operator: images, function package, kubectl apply -k deploy', () =>
    installOperator(cluster, { progress: detail }),
  );

  await cluster.kubectl(['apply', '-f', '-'], {
    input: JSON.stringify({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } }),
  });
  const claim = await applyAndWait(cluster, example);
  if (options.all) {
    for (const other of ['memory', 'full', 'from-the-go-operator']) {
      await applyAndWait(cluster, join(root, `examples/${other}.yaml`));
    }
  }

  const { name } = claim.metadata;
  title('what a user sees');
  await show(cluster, 'kubectl', ['get', 'etcdcluster', '-n', namespace]);
  await show(cluster, 'crossplane', ['resource', 'trace', `etcdcluster/${name}`, '-n', namespace]);
  await phase('a key through the client Service', () => useIt(cluster, claim));

  title('times');
  const width = Math.max(...times.map(({ what }) => what.length));
  for (const { what, took } of times) say(`   ${what.padEnd(width)}  ${took.padStart(7)}`);
  say(`   ${'all of it'.padEnd(width)}  ${secondsSince(started).padStart(7)}`);

  title('go on');
  if (cluster.local)
    say(
      '   eval "$(npm run --silent cluster -- env)"               # kubectl, crossplane and etcdctl for this cluster',
    );
  say(`   kubectl scale etcdcluster ${name} -n ${namespace} --replicas=5`);
  say(`   kubectl get etcdcluster ${name} -n ${namespace} --watch`);
  say(`   kubectl describe etcdcluster ${name} -n ${namespace}`);
  say(`   kubectl delete etcdcluster ${name} -n ${namespace}                # its volumes too`);
  if (cluster.local) say('   npm run cluster -- down                                  # the whole cluster');
}

try {
  await demo();
} catch (error) {
  say(`\n${error instanceof Error ? error.message : String(error)}`);
  process.exitCode = 1;
}
