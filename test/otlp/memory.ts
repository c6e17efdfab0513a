/** Tracing into a list, with the IDs that were asked for. */
import type { FinishedSpan, SpanAttributes, TraceContext, Tracing } from '../../runtime/ports/tracing.ts';

export type MemoryTrace = {
  readonly traceId: string;
  readonly spanId: string;
  readonly name: string;
  readonly startMs: number;
  readonly parent: TraceContext | undefined;
  attributes: SpanAttributes;
  readonly steps: { readonly span: FinishedSpan; readonly calls: readonly FinishedSpan[] }[];
  /** How often the root was sent. */
  ends: number;
  endMs: number | undefined;
  error: string | undefined;
};

/** Opened again with the same IDs it is the same trace, as it would be to a receiver. */
export const memoryTracing = (): Tracing & { readonly traces: readonly MemoryTrace[] } => {
  const traces: MemoryTrace[] = [];
  return {
    traces,
    open: (root) => {
      const traceId = root.parent?.traceId ?? root.traceId;
      let trace = traces.find((one) => one.traceId === traceId && one.spanId === root.spanId);
      if (trace === undefined) {
        const { spanId, name, startMs, parent, attributes } = root;
        trace = {
          traceId,
          spanId,
          name,
          startMs,
          parent,
          attributes,
          steps: [],
          ends: 0,
          endMs: undefined,
          error: undefined,
        };
        traces.push(trace);
      }
      const own = trace;
      return {
        traceId,
        add: (span, calls) => void own.steps.push({ span, calls }),
        end: (endMs, attributes, error) => {
          own.ends += 1;
          own.endMs = endMs;
          own.error = error;
          own.attributes = { ...own.attributes, ...attributes };
        },
      };
    },
    close: async () => {},
  };
};
