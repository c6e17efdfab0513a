/** Health and metrics over plain HTTP. Health says what is so: alive is not ready, and ready is not leading. */
import { createServer, type Server } from 'node:http';

export type Truth = { readonly ok: boolean; readonly why: string };

export type Endpoints = {
  readonly livez: () => Truth;
  readonly readyz: () => Truth;
  readonly metrics: () => Promise<{ readonly type: string; readonly text: string }>;
};

/** Rejects if the address cannot be had: a process that nobody can probe must not run. */
const listen = (server: Server, address: string): Promise<Server> =>
  new Promise((resolve, reject) => {
    const at = address.lastIndexOf(':');
    const host = address.slice(0, at).replace(/^\[|\]$/g, '');
    const port = Number(address.slice(at + 1));
    server.once('error', (error) => reject(new Error(`cannot listen on ${address}: ${error.message}`)));
    server.listen({ port, ...(host === '' ? {} : { host }) }, () => resolve(server));
  });

export const serveHealth = ({ livez, readyz }: Endpoints, address: string): Promise<Server> =>
  listen(
    createServer((request, response) => {
      const path = request.url?.split('?')[0];
      const truth = path === '/livez' || path === '/healthz' ? livez() : path === '/readyz' ? readyz() : undefined;
      if (truth === undefined) {
        response.writeHead(404).end('not found\n');
        return;
      }
      response.writeHead(truth.ok ? 200 : 503, { 'content-type': 'text/plain' }).end(`${truth.why}\n`);
    }),
    address,
  );

export const serveMetrics = ({ metrics }: Endpoints, address: string): Promise<Server> =>
  listen(
    createServer((request, response) => {
      if (request.url?.split('?')[0] !== '/metrics') {
        response.writeHead(404).end('not found\n');
        return;
      }
      metrics().then(
        ({ type, text }) => response.writeHead(200, { 'content-type': type }).end(text),
        (error: unknown) => response.writeHead(500).end(`${String(error)}\n`),
      );
    }),
    address,
  );
