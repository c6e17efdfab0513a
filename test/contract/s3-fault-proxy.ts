/**
 * Stands between a client and an S3 server and does to chosen requests what networks and servers do: answers in the server's
 * place, cuts a body in its middle, stalls, slows down. Everything else passes as it is, the signed Host header included.
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setTimeout as pause } from 'node:timers/promises';

export type Operation =
  | 'HeadObject'
  | 'GetObject'
  | 'PutObject'
  | 'DeleteObject'
  | 'ListObjects'
  | 'CreateUpload'
  | 'UploadPart'
  | 'CompleteUpload'
  | 'AbortUpload'
  | 'ListUploads'
  | 'Other';

export type Asked = {
  readonly operation: Operation;
  /** Of the object, without the bucket. */
  readonly key: string;
  /** How many requests of this operation came before this one. */
  readonly before: number;
};

export type Fault =
  /** In the server's place. Without a code there is no body, as to a HEAD. */
  | { readonly answer: number; readonly code?: string; readonly headers?: Readonly<Record<string, string>> }
  /** The connection ends after so many bytes of the request's body. */
  | { readonly cutRequestAfter: number }
  /** The server hears all, and its answer is cut after so many bytes; before its head where that is 0. */
  | { readonly cutAnswerAfter: number }
  /** Nothing comes back, ever, and nothing ends the connection. Of an answer's body so many bytes come first. */
  | { readonly stallAfter: number }
  /** Bytes of a body each second, in both directions. */
  | { readonly bytesPerSecond: number }
  /** Removed from the answer's head. */
  | { readonly withoutHeader: string };

export type FaultProxy = AsyncDisposable & {
  readonly port: number;
  readonly url: string;
  /** What is done to the next requests; undefined lets a request pass. */
  rule: (asked: Asked) => Fault | undefined;
  /** Everything that was asked so far. */
  readonly asked: readonly Asked[];
  /** Refuses connections, and ends those there are. */
  down(): Promise<void>;
  up(): Promise<void>;
};

const operationOf = (method: string, hasKey: boolean, query: URLSearchParams): Operation => {
  if (!hasKey) {
    if (query.has('uploads')) return 'ListUploads';
    return query.has('list-type') ? 'ListObjects' : 'Other';
  }
  switch (method) {
    case 'HEAD':
      return 'HeadObject';
    case 'GET':
      return 'GetObject';
    case 'PUT':
      return query.has('partNumber') ? 'UploadPart' : 'PutObject';
    case 'DELETE':
      return query.has('uploadId') ? 'AbortUpload' : 'DeleteObject';
    case 'POST':
      return query.has('uploads') ? 'CreateUpload' : query.has('uploadId') ? 'CompleteUpload' : 'Other';
    default:
      return 'Other';
  }
};

/** Passes so many bytes, then calls `then` and passes no more. */
const gate = (bytes: number, then: () => void): Transform => {
  let left = bytes;
  return new Transform({
    transform(chunk: Buffer, _, done) {
      if (left > chunk.length) {
        left -= chunk.length;
        done(null, chunk);
        return;
      }
      this.push(chunk.subarray(0, left));
      left = 0;
      // Never `done`: whoever writes has to wait.
      setImmediate(then);
    },
  });
};

const SLICE_MS = 50;
const slowly = (bytesPerSecond: number): Transform =>
  new Transform({
    async transform(chunk: Buffer, _, done) {
      const slice = Math.max(1, Math.round((bytesPerSecond * SLICE_MS) / 1_000));
      for (let at = 0; at < chunk.length; at += slice) {
        this.push(chunk.subarray(at, at + slice));
        await pause(SLICE_MS);
      }
      done();
    },
  });

const passing = (): Transform => new Transform({ transform: (chunk, _, done) => done(null, chunk) });

/** @param target URL of the server; @param listen address to listen on, `127.0.0.1` where only this machine asks */
export const faultProxy = async (target: string, listen = '127.0.0.1'): Promise<FaultProxy> => {
  const to = new URL(target);
  const asked: Asked[] = [];
  const counts = new Map<Operation, number>();
  let rule: FaultProxy['rule'] = () => undefined;

  const serve = async (incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> => {
    const { socket } = incoming;
    const { pathname, searchParams } = new URL(incoming.url ?? '/', 'http://store');
    const [, , ...rest] = pathname.split('/');
    const key = decodeURIComponent(rest.join('/'));
    const operation = operationOf(incoming.method ?? '', key !== '', searchParams);
    const before = counts.get(operation) ?? 0;
    counts.set(operation, before + 1);
    const what = { operation, key, before };
    asked.push(what);
    const fault: Fault = rule(what) ?? { withoutHeader: '' };

    if ('answer' in fault) {
      // Read to its end, as servers do that answer at all: a client that still writes would hear of a reset instead.
      for await (const _ of incoming);
      const xml = `<?xml version="1.0" encoding="UTF-8"?><Error><Code>${fault.code}</Code><Message>injected</Message></Error>`;
      const body = fault.code === undefined || incoming.method === 'HEAD' ? '' : xml;
      // Tells no time: clients set their clocks by it.
      outgoing.sendDate = false;
      outgoing.writeHead(fault.answer, { 'content-type': 'application/xml', ...fault.headers }).end(body);
      return;
    }
    const cut = (): void => void socket.destroy();
    if ('stallAfter' in fault && fault.stallAfter === 0) {
      incoming.resume();
      return;
    }
    const onward = request({
      host: to.hostname,
      port: to.port,
      method: incoming.method,
      path: incoming.url,
      headers: incoming.headers,
      agent: false,
    });
    const upward =
      'cutRequestAfter' in fault
        ? gate(fault.cutRequestAfter, cut)
        : 'bytesPerSecond' in fault
          ? slowly(fault.bytesPerSecond)
          : passing();
    socket.once('close', () => onward.destroy());
    // A server that hangs up in the middle of a body does so to the client.
    const sent = pipeline(incoming, upward, onward).catch(cut);
    const [answer] = (await once(onward, 'response')) as [IncomingMessage];
    if ('cutAnswerAfter' in fault && fault.cutAnswerAfter === 0) {
      for await (const _ of answer);
      cut();
      return;
    }
    const headers = { ...answer.headers };
    if ('withoutHeader' in fault) {
      delete headers[fault.withoutHeader];
      outgoing.sendDate = fault.withoutHeader !== 'date';
    }
    outgoing.writeHead(answer.statusCode ?? 502, headers);
    const downward =
      'cutAnswerAfter' in fault
        ? gate(fault.cutAnswerAfter, cut)
        : 'stallAfter' in fault
          ? gate(fault.stallAfter, () => undefined)
          : 'bytesPerSecond' in fault
            ? slowly(fault.bytesPerSecond)
            : passing();
    await pipeline(answer, downward, outgoing);
    await sent;
  };

  const server = createServer((incoming, outgoing) => {
    const { socket } = incoming;
    serve(incoming, outgoing).catch(() => socket.destroy());
  });
  let port = 0;
  const up = async (): Promise<void> => {
    server.listen(port, listen);
    await once(server, 'listening');
    ({ port } = server.address() as AddressInfo);
  };
  const down = async (): Promise<void> => {
    if (!server.listening) return;
    const closed = once(server, 'close');
    server.close();
    server.closeAllConnections();
    await closed;
  };
  await up();
  return {
    port,
    url: `http://127.0.0.1:${port}`,
    get rule() {
      return rule;
    },
    set rule(next) {
      rule = next;
    },
    asked,
    up,
    down,
    [Symbol.asyncDispose]: down,
  };
};
