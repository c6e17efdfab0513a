/**
 * Whether anybody wants traces, by the variables that OpenTelemetry has for it. The SDK is not loaded unless somebody does: it
 * costs a tenth of a second and megabytes, and most runtimes never send a span.
 */
import type { Tracing } from '../../ports/tracing.ts';
import type { OtlpSettings } from './otlp-tracing.ts';

type Environment = Readonly<Record<string, string | undefined>>;

const ENDPOINTS = ['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', 'OTEL_EXPORTER_OTLP_ENDPOINT'] as const;
const PROTOCOLS = ['OTEL_EXPORTER_OTLP_TRACES_PROTOCOL', 'OTEL_EXPORTER_OTLP_PROTOCOL'] as const;

const set = (env: Environment, names: readonly string[]): string | undefined =>
  names.map((name) => env[name]?.trim()).find((value) => value !== undefined && value !== '');

export const tracingWanted = (env: Environment): boolean =>
  set(env, ENDPOINTS) !== undefined &&
  set(env, ['OTEL_SDK_DISABLED'])?.toLowerCase() !== 'true' &&
  set(env, ['OTEL_TRACES_EXPORTER'])?.toLowerCase() !== 'none';

/** Undefined where nobody asked for traces. */
export const tracingFromEnv = async (env: Environment, settings: OtlpSettings): Promise<Tracing | undefined> => {
  if (!tracingWanted(env)) return undefined;
  const protocol = set(env, PROTOCOLS) ?? 'http/protobuf';
  if (protocol !== 'http/protobuf') {
    settings.onTrouble(
      `traces are sent as http/protobuf, not as ${protocol}: give the receiver's HTTP endpoint (port 4318)`,
    );
  }
  const { otlpTracing } = await import('./otlp-tracing.ts');
  return otlpTracing(settings);
};
