/**
 * All that can be said of the sources without running them, in seconds: types, lint and format, generated files, and
 * which files may import what. Every step runs to its end, side by side; any failure fails the whole.
 */
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { forbiddenImports } from './imports.ts';

const root = join(import.meta.dirname, '..');
const DEADLINE_MS = 120_000;

interface Outcome {
  ok: boolean;
  output: string;
}

const command =
  (file: string, ...args: string[]) =>
  (): Promise<Outcome> =>
    new Promise((resolve) => {
      const child = spawn(file, args, { cwd: root, stdio: ['ignore', 'pipe', 'pipe'], timeout: DEADLINE_MS });
      const chunks: Buffer[] = [];
      child.stdout.on('data', (chunk: Buffer) => chunks.push(chunk));
      child.stderr.on('data', (chunk: Buffer) => chunks.push(chunk));
      child.on('error', (error) => resolve({ ok: false, output: error.message }));
      child.on('close', (code, signal) => {
        const output = Buffer.concat(chunks).toString();
        resolve({ ok: code === 0, output: signal ? `${output}\nended by ${signal}` : output });
      });
    });

const program = (name: string): string => join(root, 'node_modules/.bin', name);

const steps: Record<string, () => Promise<Outcome>> = {
  types: command(program('tsc'), '-p', root),
  // Warnings count: one that may stay is written down beside the code it is about.
  lint: command(program('biome'), 'check', '--error-on-warnings', root),
  generated: command(process.execPath, join(root, 'scripts/generate.ts'), '--check'),
  imports: async () => {
    const found = await forbiddenImports(root);
    return { ok: found.length === 0, output: found.join('\n') };
  },
};

const started = performance.now();
const seconds = (since: number): string => `${((performance.now() - since) / 1000).toFixed(1)} s`;
const outcomes = await Promise.all(
  Object.entries(steps).map(async ([name, step]) => {
    const outcome = await step();
    console.log(`${outcome.ok ? 'passed' : 'FAILED'}  ${name.padEnd(10)}${seconds(started)}`);
    return { name, ...outcome };
  }),
);

const failed = outcomes.filter(({ ok }) => !ok);
for (const { name, output } of failed) console.error(`\n${name}:\n${output.trim()}`);
if (failed.length > 0) {
  console.error(`\ncheck failed: ${failed.map(({ name }) => name).join(', ')}`);
  process.exitCode = 1;
} else {
  console.log(`check passed in ${seconds(started)}`);
}
