/** The function server's process: flags in, signals out, exit codes. */
import { pino } from 'pino';
import { compose } from '../steps.ts';
import { portOf, serveHealth, serveMetrics } from './health.ts';
import { listen, listenInsecurely } from './listener.ts';
import { createMetrics } from './metrics.ts';
import { format, type Options, optionsOf, USAGE, UsageError } from './options.ts';
import { createRunner } from './runner.ts';
import { selfCheck } from './self-check.ts';

const serve = async (options: Options): Promise<void> => {
  const log = pino({ level: options.debug ? 'debug' : 'info', base: null, timestamp: pino.stdTimeFunctions.isoTime });
  const metrics = createMetrics();
  const serving = {
    address: options.address,
    run: createRunner(compose, log, metrics),
    maxReceiveBytes: options.maxReceiveBytes,
    log,
    metrics,
  };

  const bind = async <T>(what: string, start: () => Promise<T>): Promise<T> => {
    try {
      return await start();
    } catch (error) {
      // A server that lives on without its port looks healthy from outside and answers nobody.
      log.fatal({ err: error }, `cannot serve ${what}: ${error instanceof Error ? error.message : String(error)}`);
      process.exit(1);
    }
  };

  try {
    selfCheck(compose);
  } catch (error) {
    log.fatal({ err: error }, 'this build cannot answer a plain request');
    process.exit(1);
  }

  const { certificates } = options;
  const listener = await bind(`functions on ${format(options.address)}`, () =>
    certificates === undefined ? listenInsecurely(serving) : listen({ ...serving, directory: certificates }),
  );
  const health = await bind(`health on ${format(options.healthAddress)}`, () =>
    serveHealth(options.healthAddress, listener.unready),
  );
  const scrape = await bind(`metrics on ${format(options.metricsAddress)}`, () =>
    serveMetrics(options.metricsAddress, metrics.registry),
  );
  let hurry: (() => void) | undefined;
  const stop = async (signal: NodeJS.Signals): Promise<void> => {
    if (hurry !== undefined) {
      hurry();
      return;
    }
    const { promise: hurried, resolve } = Promise.withResolvers<void>();
    hurry = resolve;
    log.info({ signal, lingerMs: options.lingerMs, drainMs: options.drainMs }, 'stopping');
    listener.retire();
    // Crossplane stops one revision before the next one serves. Its connections stay where they are until they break, so
    // a server that goes on answering on them bridges the time until others are there to connect to.
    setTimeout(resolve, options.lingerMs).unref();
    await hurried;
    const outcome = await listener.drain(options.drainMs);
    log.info({ outcome }, 'stopped');
    process.exit(0);
  };
  process.on('SIGTERM', stop);
  process.on('SIGINT', stop);
  process.on('uncaughtException', (error) => {
    log.fatal({ err: error }, 'a defect outside of any call');
    process.exit(1);
  });
  // Last: whoever reads it may send a signal at once, and that must find somebody who hears it.
  log.info(
    {
      port: listener.port,
      healthPort: portOf(health),
      metricsPort: portOf(scrape),
      clientCertificates: certificates === undefined ? 'not checked' : 'required',
    },
    certificates === undefined ? 'serving functions to ANYBODY, without TLS (--insecure)' : 'serving functions',
  );
};

try {
  const options = optionsOf(process.argv.slice(2), process.env);
  if (options === 'help') process.stdout.write(USAGE);
  else await serve(options);
} catch (error) {
  if (!(error instanceof UsageError)) throw error;
  process.stderr.write(`function-etcd: ${error.message}\n\n${USAGE}`);
  process.exit(2);
}
