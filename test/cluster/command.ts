import { spawn } from 'node:child_process';

export type CommandOptions = {
  /** Text for the command's standard input; nothing when absent. */
  readonly input?: string;
  readonly cwd?: string;
  readonly env?: NodeJS.ProcessEnv;
  /** Milliseconds after which the command is killed; two minutes when absent. */
  readonly timeoutMs?: number;
};

/** A command that could not be started, ended with another code than 0, or took too long. `stderr` is all it printed there. */
export class CommandFailed extends Error {
  readonly exitCode: number | undefined;
  readonly stderr: string;

  constructor(argv: readonly string[], why: string, exitCode: number | undefined, stderr: string) {
    const said = stderr.trim().split('\n').slice(-12).join('\n');
    super(`${shown(argv)} ${why}${said === '' ? '' : `:\n${said}`}`);
    this.name = 'CommandFailed';
    this.exitCode = exitCode;
    this.stderr = stderr;
  }
}

function shown(argv: readonly string[]): string {
  const line = argv.join(' ');
  return line.length > 300 ? `${line.slice(0, 300)}…` : line;
}

/**
 * Runs one command to its end.
 * @returns what it printed on standard output
 * @throws CommandFailed
 */
export function run(argv: readonly string[], options: CommandOptions = {}): Promise<string> {
  const [file, ...rest] = argv;
  if (file === undefined) throw new Error('run() needs a command');
  const timeoutMs = options.timeoutMs ?? 120_000;
  return new Promise((resolve, reject) => {
    const child = spawn(file, rest, {
      stdio: [options.input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
      ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
      ...(options.env === undefined ? {} : { env: options.env }),
    });
    const stdout: Buffer[] = [];
    const stderr: Buffer[] = [];
    let late = false;
    const timer = setTimeout(() => {
      late = true;
      child.kill('SIGKILL');
    }, timeoutMs);
    child.stdout?.on('data', (chunk: Buffer) => stdout.push(chunk));
    child.stderr?.on('data', (chunk: Buffer) => stderr.push(chunk));
    child.on('error', (error) => {
      clearTimeout(timer);
      reject(new CommandFailed(argv, `could not be started (${error.message})`, undefined, ''));
    });
    child.on('close', (code, signal) => {
      clearTimeout(timer);
      const said = Buffer.concat(stderr).toString();
      if (late) reject(new CommandFailed(argv, `did not end within ${timeoutMs / 1000} s`, undefined, said));
      else if (code === 0) resolve(Buffer.concat(stdout).toString());
      else reject(new CommandFailed(argv, `ended with ${code ?? signal}`, code ?? undefined, said));
    });
    if (options.input !== undefined && child.stdin !== null) {
      // A command that ends before it has read its input makes the pipe fail; its exit code tells the story better.
      child.stdin.on('error', () => undefined);
      child.stdin.end(options.input);
    }
  });
}

/** Like {@link run}, but answers whether the command succeeded. */
export async function succeeds(argv: readonly string[], options: CommandOptions = {}): Promise<boolean> {
  try {
    await run(argv, options);
    return true;
  } catch (error) {
    if (error instanceof CommandFailed) return false;
    throw error;
  }
}
