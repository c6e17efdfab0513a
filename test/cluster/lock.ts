import { rm } from 'node:fs/promises';
import { connect, createServer, type Server, type Socket } from 'node:net';
import type { Progress } from './progress.ts';

/**
 * Runs `work` while no other process of this machine runs work under the same name.
 *
 * The lock is a listening socket and not a file: the kernel takes it away from a process that dies, so there is no stale lock that two waiters could
 * take over at once; and whoever waits is woken by the end of its connection.
 * @param name a path, which need not exist
 * @throws when another process keeps the lock longer than `timeoutMs`
 */
export async function withLock<T>(
  name: string,
  progress: Progress,
  work: () => Promise<T>,
  timeoutMs = 3_600_000,
): Promise<T> {
  // On Linux a name of its own kind, without a file. Elsewhere a file, which is removed when nobody listens to it.
  const address = process.platform === 'linux' ? `\0${name}` : `${name}.socket`;
  const giveUp = AbortSignal.timeout(timeoutMs);
  let told = false;
  for (;;) {
    const held = await listen(address);
    if (held !== undefined) {
      try {
        return await work();
      } finally {
        await held.release();
      }
    }
    await holderEnds(address, giveUp, (holder) => {
      if (!told) progress(`waiting for process ${holder}, which holds ${name}`);
      told = true;
    });
    if (giveUp.aborted)
      throw new Error(`Another process still holds ${name}; wait for it to end, or end it, and try again.`);
  }
}

async function listen(address: string): Promise<{ release(): Promise<void> } | undefined> {
  const waiting = new Set<Socket>();
  const server: Server = createServer((socket) => {
    waiting.add(socket);
    socket.on('error', () => undefined);
    socket.on('close', () => waiting.delete(socket));
    socket.write(String(process.pid));
  });
  const listening = await new Promise<boolean>((resolve, reject) => {
    server.once('listening', () => resolve(true));
    server.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EADDRINUSE') resolve(false);
      else reject(error);
    });
    server.listen(address);
  });
  if (!listening) return undefined;
  return {
    async release() {
      const closed = new Promise((resolve) => server.close(resolve));
      for (const socket of waiting) socket.destroy();
      await closed;
    },
  };
}

/** Returns when the holder has released the lock or died, or `giveUp` is aborted. */
function holderEnds(address: string, giveUp: AbortSignal, tell: (pid: string) => void): Promise<void> {
  return new Promise((resolve) => {
    const socket = connect(address);
    const stop = () => socket.destroy();
    giveUp.addEventListener('abort', stop);
    socket.on('data', (pid: Buffer) => tell(pid.toString()));
    socket.on('error', (error: NodeJS.ErrnoException) => {
      // With a name that is a file, this is one that a dead holder left.
      if (error.code === 'ECONNREFUSED' && !address.startsWith('\0')) void rm(address, { force: true });
    });
    socket.on('close', () => {
      giveUp.removeEventListener('abort', stop);
      resolve();
    });
  });
}
