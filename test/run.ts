/**
 * `npm test`: everything, in the order in which a mistake shows soonest, with the real cluster built meanwhile. Ends with
 * one line, `N passed, N failed`, and with 1 where anything failed.
 *
 *   npm test                      all parts
 *   npm test -- unit golden       some of them
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { glob } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { createInterface } from 'node:readline';
import { run } from 'node:test';
import { builds, ensureBuilds, ensureEtcd } from './cluster/builds.ts';
import { connect, namedKubeconfig } from './cluster/cluster.ts';
import { installOperator } from './cluster/install.ts';
import { type Progress, secondsSince } from './cluster/progress.ts';
import { memberEtcdVersions } from './cluster/versions.ts';

const root = join(import.meta.dirname, '..');

type Counts = { passed: number; failed: number };

/** What a part found; `again` names the files that passed only at their second run. */
type Found = Counts & { readonly again?: readonly string[] };

/** A line for each failure, said once more at the end: what a test says when it fails can be long, and a log is read from its end. */
const failures: string[] = [];

type Result = { readonly name: string; readonly counts: Found; readonly took: string };

/** Programs: etcd, kube-apiserver and Crossplane are built. Operator: it runs on a cluster. */
type Need = 'nothing' | 'programs' | 'operator';
type Ready = { readonly [need in Need]: () => Promise<void> };

type Part = {
  readonly name: string;
  readonly what: string;
  readonly needs: Need;
  /** Runs along with the part after it: one that mostly waits leaves it the processors. */
  readonly besideNext?: true;
  run(): Promise<Found>;
};

const say = (line: string): void => {
  process.stdout.write(`${line}\n`);
};
const indented =
  (prefix: string): Progress =>
  (line) =>
    say(`${prefix}${line}`);

/** Runs a script of ours, gives each line it prints to `onLine`, and answers with its exit code. */
async function script(args: readonly string[], onLine: Progress): Promise<number | null> {
  const child = spawn(process.execPath, args, { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] });
  for (const stream of [child.stdout, child.stderr]) createInterface({ input: stream }).on('line', onLine);
  const [code] = (await once(child, 'close')) as [number | null];
  return code;
}

async function checks(): Promise<Counts> {
  const counts = { passed: 0, failed: 0 };
  const code = await script([join(root, 'scripts/check.ts')], (line) => {
    say(`   ${line}`);
    if (line.startsWith('passed ')) counts.passed += 1;
    if (line.startsWith('FAILED ')) counts.failed += 1;
  });
  if (code !== 0 && counts.failed === 0) counts.failed = 1;
  return counts;
}

async function testFiles(patterns: readonly string[], exclude: readonly string[] = []): Promise<string[]> {
  const found: string[] = [];
  for await (const file of glob([...patterns], { cwd: root, exclude: ['node_modules/**', 'build/**', ...exclude] })) {
    found.push(join(root, file));
  }
  return found.sort();
}

/** A line per file, and every failure with where and why. */
async function tests(
  files: readonly string[],
  concurrency: number,
  timeoutMs: number,
): Promise<Counts & { readonly failedFiles: ReadonlyMap<string, Counts> }> {
  const counts = { passed: 0, failed: 0 };
  const failedFiles = new Map<string, Counts>();
  if (files.length === 0) throw new Error('no test file was found for this part');
  const stream = run({ files: [...files], concurrency, timeout: timeoutMs, cwd: root });
  const complaints = new Map<string, string>();
  stream.on('test:stderr', ({ file, message }) => {
    complaints.set(file, ((complaints.get(file) ?? '') + message).slice(-4_000));
  });
  stream.on('test:fail', ({ name, file, line, details }) => {
    const { error } = details;
    // A suite fails because of what is in it, which has been told by then.
    if ('failureType' in error && error.failureType === 'subtestsFailed') return;
    const where = file === undefined ? '' : `  (${relative(root, file)}${line === undefined ? '' : `:${line}`})`;
    say(`   ✖ ${name}${where}`);
    const [why = ''] = (error.cause instanceof Error ? error.cause.message : String(error.cause)).split('\n');
    failures.push(`${name}${where}: ${why}`);
    const cause = error.cause instanceof Error ? (error.cause.stack ?? error.cause.message) : String(error.cause);
    // A file that could not even be loaded has only its process to speak for it.
    const complaint = name === file ? (complaints.get(file) ?? '') : '';
    for (const text of `${cause}\n${complaint}`.trimEnd().split('\n')) say(`       ${text}`);
  });
  stream.on('test:summary', ({ file, counts: seen, duration_ms }) => {
    if (file === undefined) {
      // Skipped is not passed: a check that did not run says nothing.
      const notRun = seen.skipped + seen.todo;
      if (notRun > 0) say(`   ✖ ${notRun} skipped or to do, counted as failed`);
      counts.passed = seen.passed;
      counts.failed = seen.tests - seen.passed;
      return;
    }
    const bad = seen.tests - seen.passed;
    if (bad > 0) failedFiles.set(file, { passed: seen.passed, failed: bad });
    const mark = bad === 0 ? '✔' : '✖';
    const failures = bad === 0 ? '' : `, ${bad} failed`;
    say(`   ${mark} ${relative(root, file)}  ${seen.passed} passed${failures}  ${(duration_ms / 1000).toFixed(1)} s`);
  });
  // Without a reader of the stream the tests would wait for one.
  for await (const _ of stream);
  if (counts.passed + counts.failed === 0) throw new Error('no test ran');
  return { ...counts, failedFiles };
}

/** More files than this that fail at once are no accident, and are not run again. */
const ACCIDENTS = 3;

/**
 * As {@link tests}, for those of the real things: a file that fails runs once more, alone. Kubelets, Crossplane and cert-manager
 * pause for up to minutes of their own after a fault, on two processors longer, and one such pause would hide what the other
 * tests say. Nothing is kept quiet: the first failure has been printed whole, and the end of the run counts these files apart.
 */
async function testsOfRealThings(files: readonly string[], concurrency: number, timeoutMs: number): Promise<Found> {
  const first = await tests(files, concurrency, timeoutMs);
  const failing = [...first.failedFiles.keys()];
  if (failing.length === 0 || failing.length > ACCIDENTS) return first;
  say(`   once more, alone: ${failing.map((file) => relative(root, file)).join(', ')}`);
  const second = await tests(failing, 1, timeoutMs);
  const sum = (what: keyof Counts): number =>
    [...first.failedFiles.values()].reduce((total, counts) => total + counts[what], 0);
  return {
    passed: first.passed - sum('passed') + second.passed,
    failed: first.failed - sum('failed') + second.failed,
    again: failing.filter((file) => !second.failedFiles.has(file)).map((file) => relative(root, file)),
  };
}

/** They have parts of their own, since they need programs whose build may take longer than any test may. */
const apart = ['runtime/adapters/etcd/**', 'test/contract/**', 'test/schema/**', 'test/golden/**', 'test/e2e/**'];

/** Contracts that speak to the cluster's own servers, and so must be over before the faults begin. */
const contractsOnCluster = ['test/contract/{kube,retention,snapshot-store}.test.ts'];

const parts: readonly Part[] = [
  { name: 'check', what: 'types, lint, generated files, imports', needs: 'nothing', run: checks },
  {
    name: 'unit',
    what: 'units, properties, scenarios',
    needs: 'nothing',
    run: async () => tests(await testFiles(['**/*.test.ts'], apart), 2, 300_000),
  },
  {
    name: 'schema',
    what: 'the definitions at a real API server',
    needs: 'programs',
    run: async () => tests(await testFiles(['test/schema/**/*.test.ts']), 2, 300_000),
  },
  {
    name: 'golden',
    what: 'compositions through the real render engine',
    needs: 'programs',
    run: async () => tests(await testFiles(['test/golden/**/*.test.ts']), 2, 300_000),
  },
  {
    name: 'e2e',
    what: 'claims and repairs on the real cluster, and what its own servers promise',
    needs: 'operator',
    run: async () =>
      testsOfRealThings(
        await testFiles([...contractsOnCluster, 'test/e2e/**/*.test.ts'], ['test/e2e/faults/**']),
        3,
        900_000,
      ),
  },
  {
    name: 'contract',
    what: 'ports: the fakes, real etcd, real S3',
    needs: 'programs',
    // The faults spend two thirds of their time waiting for the cluster.
    besideNext: true,
    run: async () =>
      testsOfRealThings(
        await testFiles(['test/contract/**/*.test.ts', 'runtime/adapters/etcd/**/*.test.ts'], contractsOnCluster),
        1,
        300_000,
      ),
  },
  {
    name: 'faults',
    what: 'nodes, links and processes that fail',
    needs: 'operator',
    run: async () => testsOfRealThings(await testFiles(['test/e2e/faults/**/*.test.ts']), 1, 900_000),
  },
];

function chosenParts(names: readonly string[]): readonly Part[] {
  const unknown = names.filter((name) => !parts.some((part) => part.name === name));
  if (unknown.length > 0) {
    throw new Error(`no part is called ${unknown.join(', ')}; there are ${parts.map(({ name }) => name).join(', ')}`);
  }
  return names.length === 0 ? parts : parts.filter(({ name }) => names.includes(name));
}

/**
 * Starts what takes longest on a new machine, the Go builds of the cluster, and lets it run beside the tests that do not need
 * it. In a process of its own, so that its work does not hold up the tests' timers.
 */
function prepare(needs: readonly Need[]): Ready {
  const progress = indented('   [cluster] ');
  const started = performance.now();
  const local = namedKubeconfig(process.env) === undefined;
  const begun =
    local && needs.some((need) => need !== 'nothing')
      ? script([join(root, 'test/cluster/cli.ts'), 'up', '--with', 'cert-manager,s3'], progress)
      : Promise.resolve(0);
  let operator: Promise<void> | undefined;
  const install = async (): Promise<void> => {
    if ((await begun) !== 0) throw new Error('there is no cluster to test on; the lines marked [cluster] say why');
    const cluster = await connect({ progress });
    process.env.KUBECONFIG = cluster.kubeconfigPath;
    await installOperator(cluster, { progress });
    progress(`ready, ${secondsSince(started)} after the start`);
  };
  return {
    nothing: async () => undefined,
    // Also where no cluster can be: a machine that builds can still judge definitions and compositions.
    programs: async () => {
      await begun;
      await ensureBuilds([builds.kubernetes, builds.crossplane, builds.crossplaneCli], progress);
      for (const version of memberEtcdVersions) await ensureEtcd(version, progress);
    },
    operator: () => {
      operator ??= install();
      return operator;
    },
  };
}

async function main(): Promise<Found> {
  const chosen = chosenParts(process.argv.slice(2));
  const ready = prepare(chosen.map(({ needs }) => needs));
  const runOne = async ({ name, what, needs, run: runPart }: Part): Promise<Result> => {
    say(`\n== ${name}: ${what}`);
    const started = performance.now();
    let counts: Found;
    try {
      await ready[needs]();
      counts = await runPart();
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      say(`   ✖ ${why}`);
      failures.push(`${name}: ${why}`);
      counts = { passed: 0, failed: 1 };
    }
    return { name, counts, took: secondsSince(started) };
  };
  const results: Result[] = [];
  let together: Promise<Result>[] = [];
  for (const part of chosen) {
    together.push(runOne(part));
    if (part.besideNext === true) continue;
    results.push(...(await Promise.all(together)));
    together = [];
  }
  results.push(...(await Promise.all(together)));
  say('');
  for (const { name, counts, took } of results) {
    say(`${name.padEnd(10)}${took.padStart(8)}  ${counts.passed} passed, ${counts.failed} failed`);
  }
  return {
    passed: results.reduce((sum, { counts }) => sum + counts.passed, 0),
    failed: results.reduce((sum, { counts }) => sum + counts.failed, 0),
    again: results.flatMap(({ counts }) => counts.again ?? []),
  };
}

const started = performance.now();
try {
  const { passed, failed, again = [] } = await main();
  say(`all of it took ${secondsSince(started)}`);
  for (const line of failures) say(`✖ ${line}`);
  if (again.length > 0) say(`passed only when run again: ${again.join(', ')}`);
  say(`${passed} passed, ${failed} failed`);
  process.exitCode = failed === 0 ? 0 : 1;
} catch (error) {
  say(error instanceof Error ? error.message : String(error));
  process.exitCode = 1;
}
