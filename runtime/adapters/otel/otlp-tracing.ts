/**
 * Traces over OTLP/HTTP, by OpenTelemetry's SDK: endpoint, headers, certificates, resource, sampler, batching and limits come
 * from its standard environment variables.
 */
import {
  type Attributes,
  DiagLogLevel,
  diag,
  type HrTime,
  ROOT_CONTEXT,
  type Span,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  TraceFlags,
  trace as traceApi,
} from '@opentelemetry/api';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { defaultResource, detectResources, envDetector, resourceFromAttributes } from '@opentelemetry/resources';
import { BatchSpanProcessor, NodeTracerProvider, RandomIdGenerator } from '@opentelemetry/sdk-trace-node';
import type { FinishedSpan, TraceContext, Tracing } from '../../ports/tracing.ts';

export type OtlpSettings = {
  /** Resource attributes; those of the environment come before them. */
  readonly resource: Readonly<Record<string, string>>;
  readonly version: string;
  /** One line about traces that cannot be sent. Never called twice with the same words in a row. */
  readonly onTrouble: (message: string) => void;
};

const CLOSE_MS = 3_000;

/** As seconds and nanoseconds: a plain number from before this process began would be taken for an offset to its start. */
const time = (ms: number): HrTime => [Math.floor(ms / 1_000), Math.round((ms % 1_000) * 1e6)];

const spanContext = ({ traceId, spanId, sampled }: TraceContext): SpanContext => ({
  traceId,
  spanId,
  traceFlags: sampled ? TraceFlags.SAMPLED : TraceFlags.NONE,
  isRemote: true,
});

const failed = (span: Span, error: string | undefined): void => {
  if (error === undefined) return;
  span.setAttribute('error.type', error);
  span.setStatus({ code: SpanStatusCode.ERROR });
};

export const otlpTracing = ({ resource, version, onTrouble }: OtlpSettings): Tracing => {
  let lastTrouble = '';
  const trouble = (message: string): void => {
    // The exporter's errors hold the whole response, and may hold headers: the first line is enough to act on.
    const words = message.split('\n')[0]?.slice(0, 300) ?? '';
    if (words === lastTrouble) return;
    lastTrouble = words;
    onTrouble(words);
  };
  const told = (text: unknown): string => {
    if (typeof text !== 'string' || !text.startsWith('{')) return String(text);
    try {
      const { message, code } = JSON.parse(text) as { message?: string; code?: string };
      return [message, code].filter(Boolean).join(' ') || text;
    } catch {
      return text;
    }
  };
  const speak = (text: unknown): void => trouble(told(text));
  const silent = (): void => {};
  diag.setLogger(
    { error: speak, warn: speak, info: silent, debug: silent, verbose: silent },
    { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true },
  );

  const random = new RandomIdGenerator();
  /** The IDs that the span which is being started shall have. */
  let wanted: { readonly traceId: string; readonly spanId: string } | undefined;
  const provider = new NodeTracerProvider({
    resource: defaultResource()
      .merge(resourceFromAttributes({ 'service.version': version, ...resource }))
      .merge(detectResources({ detectors: [envDetector] })),
    idGenerator: {
      generateTraceId: () => wanted?.traceId ?? random.generateTraceId(),
      generateSpanId: () => wanted?.spanId ?? random.generateSpanId(),
    },
    spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())],
  });
  const tracer = provider.getTracer('etcd-operator-runtime', version);

  const add = (under: Span, { name, kind, startMs, endMs, attributes, error }: FinishedSpan): Span => {
    const span = tracer.startSpan(
      name,
      {
        kind: kind === 'client' ? SpanKind.CLIENT : SpanKind.INTERNAL,
        startTime: time(startMs),
        attributes: attributes as Attributes,
      },
      traceApi.setSpan(ROOT_CONTEXT, under),
    );
    failed(span, error);
    span.end(time(Math.max(startMs, endMs)));
    return span;
  };

  return {
    open: ({ traceId, spanId, name, startMs, attributes, parent }) => {
      wanted = { traceId, spanId };
      let root: Span;
      try {
        root = tracer.startSpan(
          name,
          { startTime: time(startMs), attributes: attributes as Attributes },
          parent === undefined ? ROOT_CONTEXT : traceApi.setSpanContext(ROOT_CONTEXT, spanContext(parent)),
        );
      } finally {
        wanted = undefined;
      }
      return {
        traceId: root.spanContext().traceId,
        add: (span, children) => {
          const own = add(root, span);
          for (const child of children) add(own, child);
        },
        end: (endMs, more, error) => {
          root.setAttributes(more as Attributes);
          failed(root, error);
          root.end(time(Math.max(startMs, endMs)));
        },
      };
    },
    close: async () => {
      const late = Promise.withResolvers<void>();
      const timer = setTimeout(late.resolve, CLOSE_MS);
      try {
        await Promise.race([provider.shutdown(), late.promise]);
      } catch (error) {
        trouble(error instanceof Error ? error.message : String(error));
      } finally {
        clearTimeout(timer);
        diag.disable();
      }
    },
  };
};
