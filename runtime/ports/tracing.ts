/**
 * Where the spans of a change go. Spans are handed over finished, with their times: a change spans many passes and may
 * outlive the process, so nothing here depends on who is running when.
 */
export type SpanAttributes = Readonly<Record<string, string | number | boolean>>;

/** W3C Trace Context: 32 and 16 lower-case hexadecimal digits. */
export type TraceContext = { readonly traceId: string; readonly spanId: string; readonly sampled: boolean };

export type FinishedSpan = {
  readonly name: string;
  /** `client` for a call to a server. */
  readonly kind: 'internal' | 'client';
  /** Milliseconds since the epoch, with fractions. */
  readonly startMs: number;
  readonly endMs: number;
  readonly attributes: SpanAttributes;
  /** `error.type` of what failed: one word of a closed set, never a message. */
  readonly error?: string | undefined;
};

export type Trace = {
  readonly traceId: string;
  /** A span right below the root, with finished spans below it. */
  add(span: FinishedSpan, children: readonly FinishedSpan[]): void;
  /** Sends the root. Once; a trace that is never ended is continued by whoever opens it again. */
  end(endMs: number, attributes: SpanAttributes, error?: string): void;
};

export type Tracing = {
  /**
   * Begins a trace, or goes on with one: the same IDs give the same trace, whichever process asks. With a `parent` its trace
   * is joined, and its sampling decision followed; `traceId` counts only without one.
   */
  open(root: {
    readonly traceId: string;
    readonly spanId: string;
    readonly name: string;
    readonly startMs: number;
    readonly attributes: SpanAttributes;
    readonly parent?: TraceContext | undefined;
  }): Trace;
  /** Sends what is left. Never throws, and ends within seconds whatever the receiver does. */
  close(): Promise<void>;
};
