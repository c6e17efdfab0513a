import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Registry } from 'prom-client';
import type { Address } from './options.ts';

/** A plain HTTP server on its own port. Rejects when the address cannot be had. */
const serve = async (address: Address, listener: RequestListener): Promise<Server> => {
  const server = createServer({ requestTimeout: 5_000, headersTimeout: 5_000, keepAliveTimeout: 5_000 }, listener);
  server.listen({ port: address.port, ...(address.host === undefined ? {} : { host: address.host }) });
  await once(server, 'listening');
  // An error of one connection is that connection's; without this listener it would end the process.
  server.on('clientError', (_error, socket) => socket.destroy());
  return server;
};

export const portOf = (server: Server): number => (server.address() as AddressInfo).port;

/**
 * `/healthz`: the process answers; restarting it would change nothing. `/readyz`: calls are answered now, else 503 with
 * the reason. On a port of their own, since a kubelet has no client certificate.
 */
export const serveHealth = (address: Address, unready: () => string | undefined): Promise<Server> =>
  serve(address, (request, response) => {
    const path = request.url?.split('?')[0];
    if (path === '/healthz') {
      response.end('ok\n');
    } else if (path === '/readyz') {
      const why = unready();
      response.statusCode = why === undefined ? 200 : 503;
      response.end(`${why ?? 'ok'}\n`);
    } else {
      response.statusCode = 404;
      response.end('there are /healthz and /readyz\n');
    }
  });

/** `/metrics` in Prometheus' text format. */
export const serveMetrics = (address: Address, registry: Registry): Promise<Server> =>
  serve(address, (request, response) => {
    if (request.url?.split('?')[0] !== '/metrics') {
      response.statusCode = 404;
      response.end('there is /metrics\n');
      return;
    }
    registry.metrics().then(
      (text) => response.setHeader('content-type', registry.contentType).end(text),
      (error: unknown) => {
        response.statusCode = 500;
        response.end(`${error instanceof Error ? error.message : String(error)}\n`);
      },
    );
  });
