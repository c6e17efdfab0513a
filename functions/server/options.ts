import { parseArgs } from 'node:util';

export type Address = { readonly host: string | undefined; readonly port: number };

export type Options = {
  /** Directory with ca.crt, tls.crt and tls.key; undefined only when the server was told to be insecure. */
  readonly certificates: string | undefined;
  readonly address: Address;
  readonly healthAddress: Address;
  readonly metricsAddress: Address;
  readonly maxReceiveBytes: number;
  readonly lingerMs: number;
  readonly drainMs: number;
  readonly debug: boolean;
};

/** The command line is wrong; the message is for the person who wrote it. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

export const USAGE = `function-etcd: composition functions for EtcdCluster, served to Crossplane over gRPC

  --tls-certs-dir, --tls-server-certs-dir DIR   directory with ca.crt, tls.crt and tls.key
                                                (default: the variable TLS_SERVER_CERTS_DIR)
  --insecure                                    no TLS and no client certificates; for crossplane composition render
  --address HOST:PORT                           where functions are served (default :9443)
  --health-address HOST:PORT                    /healthz and /readyz over HTTP (default :8081)
  --metrics-address HOST:PORT                   /metrics over HTTP (default :8080)
  --max-recv-message-size MB                    largest request (default 16)
  --linger-seconds SECONDS                      how long to go on serving after SIGTERM, not ready, before draining
                                                (default 0)
  --drain-seconds SECONDS                       how long running calls may take to end after SIGTERM (default 10)
  -d, --debug                                   log every call
  -h, --help                                    this text
`;

/** Throws {@link UsageError}. `help` when the usage is all that is wanted. */
export const optionsOf = (args: readonly string[], environment: NodeJS.ProcessEnv): Options | 'help' => {
  const values = parse(args);
  if (values.help === true) return 'help';
  const directory =
    values['tls-certs-dir'] ?? values['tls-server-certs-dir'] ?? (environment.TLS_SERVER_CERTS_DIR || undefined);
  const insecure = values.insecure === true;
  if (!insecure && (directory === undefined || directory === '')) {
    throw new UsageError(
      'no certificates: give --tls-certs-dir or TLS_SERVER_CERTS_DIR a directory with ca.crt, tls.crt and tls.key, ' +
        'or say --insecure to serve anybody',
    );
  }
  return {
    certificates: insecure ? undefined : directory,
    address: addressOf('--address', values.address),
    healthAddress: addressOf('--health-address', values['health-address']),
    metricsAddress: addressOf('--metrics-address', values['metrics-address']),
    maxReceiveBytes:
      whole('--max-recv-message-size', values['max-recv-message-size'], 1, LARGEST_MESSAGE_MB) * 1024 * 1024,
    lingerMs: whole('--linger-seconds', values['linger-seconds'], 0, 3600) * 1000,
    drainMs: whole('--drain-seconds', values['drain-seconds'], 1, 3600) * 1000,
    debug: values.debug === true,
  };
};

const LARGEST_MESSAGE_MB = 1024;

const parse = (args: readonly string[]) => {
  try {
    return parseArgs({
      args: [...args],
      strict: true,
      allowPositionals: false,
      options: {
        'tls-certs-dir': { type: 'string' },
        'tls-server-certs-dir': { type: 'string' },
        insecure: { type: 'boolean' },
        address: { type: 'string', default: ':9443' },
        'health-address': { type: 'string', default: ':8081' },
        'metrics-address': { type: 'string', default: ':8080' },
        'max-recv-message-size': { type: 'string', default: '16' },
        'linger-seconds': { type: 'string', default: '0' },
        'drain-seconds': { type: 'string', default: '10' },
        debug: { type: 'boolean', short: 'd' },
        help: { type: 'boolean', short: 'h' },
      },
    }).values;
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
};

/** `:9443`, `127.0.0.1:9443`, `[::1]:9443`; without a host every address of the machine. */
const addressOf = (flag: string, text: string): Address => {
  const match = /^(?:\[([^\]]+)\]|([^:[\]]*)):(\d{1,5})$/.exec(text);
  const port = Number(match?.[3]);
  if (match === null || port > 65535) {
    throw new UsageError(`${flag} is ${JSON.stringify(text)}; write it as host:port or :port`);
  }
  return { host: match[1] ?? (match[2] || undefined), port };
};

const whole = (flag: string, text: string, smallest: number, largest: number): number => {
  const number = Number(text);
  if (!Number.isInteger(number) || number < smallest || number > largest) {
    throw new UsageError(`${flag} is ${JSON.stringify(text)}; write a whole number from ${smallest} to ${largest}`);
  }
  return number;
};

export const format = ({ host, port }: Address): string =>
  `${host === undefined ? '' : host.includes(':') ? `[${host}]` : host}:${port}`;
