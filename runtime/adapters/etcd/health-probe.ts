import { Agent, get, type IncomingMessage } from 'node:http';
import { type EtcdCall, EtcdFault, type EtcdHealthProbe, type EtcdProbe } from '../../ports/etcd.ts';

const READ_MS = 2_000;
/** /metrics of a busy member is about 100 kB; a port that answers endlessly is not etcd's. */
const MOST_BYTES = 8 * 1024 * 1024;

/** Reads the plain HTTP listener of members. Dials for each question and keeps nothing open. */
export const createEtcdHealthProbe = (): EtcdHealthProbe => {
  const agent = new Agent({ keepAlive: false });

  const ask = (operation: string, url: string, path: string, call: EtcdCall | undefined): Promise<Answer> => {
    const deadlineMs = call?.deadlineMs ?? READ_MS;
    const deadline = AbortSignal.timeout(deadlineMs);
    const signal = call?.signal === undefined ? deadline : AbortSignal.any([call.signal, deadline]);
    const fault = (reason: EtcdFault['reason'], detail: string, cause?: unknown) =>
      new EtcdFault({ reason, operation, url, detail, mayHaveHappened: false, cause });

    return new Promise((resolve, reject) => {
      const fail = (cause: Error) => {
        if (call?.signal?.aborted === true) reject(fault('Cancelled', 'the caller gave up', cause));
        else if (deadline.aborted) reject(fault('Timeout', `no answer in ${deadlineMs} ms`, cause));
        else if (cause instanceof EtcdFault) reject(cause);
        else reject(fault('Unreachable', cause.message, cause));
      };
      const request = get(new URL(path, url), { agent, signal }, (response: IncomingMessage) => {
        const pieces: Buffer[] = [];
        let bytes = 0;
        response.on('data', (piece: Buffer) => {
          bytes += piece.length;
          if (bytes > MOST_BYTES) response.destroy(fault('BrokenAnswer', `more than ${MOST_BYTES} bytes`));
          else pieces.push(piece);
        });
        response.on('error', fail);
        response.on('end', () =>
          resolve({ status: response.statusCode ?? 0, text: Buffer.concat(pieces).toString('utf8') }),
        );
      });
      request.on('error', fail);
    });
  };

  const probe = async (
    operation: string,
    url: string,
    path: string,
    call: EtcdCall | undefined,
  ): Promise<EtcdProbe> => {
    const { status, text } = await ask(operation, url, path, call);
    if (status === 200) return { ok: true };
    // etcd lists each check on a line: [+] passed, [-] failed.
    const failed = text.split('\n').filter((line) => line.startsWith('[-]'));
    const why = failed.length > 0 ? failed.join('; ') : text;
    return { ok: false, why: `${status} ${why.replaceAll(/\s+/g, ' ').trim().slice(0, 512)}`.trim() };
  };

  return {
    livez: (url, call) => probe('livez', url, '/livez', call),
    readyz: (url, call) => probe('readyz', url, '/readyz', call),
    metrics: async (url, call) => {
      const { status, text } = await ask('metrics', url, '/metrics', call);
      if (status !== 200) {
        throw new EtcdFault({
          reason: 'BrokenAnswer',
          operation: 'metrics',
          url,
          detail: `status ${status}: ${text.slice(0, 200)}`,
          mayHaveHappened: false,
        });
      }
      return readEtcdMetrics(text);
    },
  };
};

type Answer = { readonly status: number; readonly text: string };

/** The few series that we need out of Prometheus' text format. */
export const readEtcdMetrics = (text: string): Awaited<ReturnType<EtcdHealthProbe['metrics']>> => {
  const sample = (name: string): string | undefined =>
    new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)`, 'm').exec(text)?.[1];
  const flag = (name: string): boolean | undefined => {
    const value = sample(name);
    return value === undefined ? undefined : Number(value) === 1;
  };
  // A metric that had another label before keeps it with value 0, so the label counts only beside a 1.
  const labelled = (name: string, label: string): string | undefined =>
    new RegExp(`^${name}\\{[^}]*${label}="([^"]+)"[^}]*\\} 1$`, 'm').exec(text)?.[1];
  const integer = (name: string): bigint | undefined => {
    const value = sample(name);
    return value === undefined ? undefined : wholeNumber(value);
  };

  return {
    hasLeader: flag('etcd_server_has_leader'),
    isLeader: flag('etcd_server_is_leader'),
    isLearner: flag('etcd_server_is_learner'),
    version: labelled('etcd_server_version', 'server_version'),
    clusterVersion: labelled('etcd_cluster_version', 'cluster_version'),
    currentRevision: integer('etcd_debugging_mvcc_current_revision'),
    quotaBackendBytes: integer('etcd_server_quota_backend_bytes'),
  };
};

/** Prometheus writes large gauges as `8.589934592e+09`; a double carries them exactly up to 2^53. */
const wholeNumber = (sample: string): bigint | undefined => {
  if (/^-?\d+$/.test(sample)) return BigInt(sample);
  const value = Number(sample);
  return Number.isSafeInteger(value) ? BigInt(value) : undefined;
};
