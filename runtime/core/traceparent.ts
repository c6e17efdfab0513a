/** The trace that a claim says it was applied in. */
import { GROUP } from '../../api/names.ts';
import type { TraceContext } from '../ports/tracing.ts';

/** Ours first: the plain one may be set by a tool that marks everything it applies. */
const TRACEPARENT_ANNOTATIONS = [`${GROUP}/traceparent`, 'traceparent'] as const;

const FORMAT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;

/** W3C Trace Context, level 1: later versions may be longer, and are read as far as this one goes. */
export const parseTraceparent = (text: string): TraceContext | undefined => {
  const [, version, traceId = '', spanId = '', flags = '', more] = FORMAT.exec(text.trim()) ?? [];
  if (version === undefined || version === 'ff' || (version === '00' && more !== undefined)) return undefined;
  if (/^0+$/.test(traceId) || /^0+$/.test(spanId)) return undefined;
  return { traceId, spanId, sampled: (Number.parseInt(flags, 16) & 1) === 1 };
};

export type Parent =
  | { readonly context: TraceContext }
  /** An annotation that is there and says nothing. */
  | { readonly invalid: { readonly annotation: string; readonly value: string } };

export const parentOf = (annotations: Readonly<Record<string, string>>): Parent | undefined => {
  for (const annotation of TRACEPARENT_ANNOTATIONS) {
    const value = annotations[annotation];
    if (value === undefined) continue;
    const context = parseTraceparent(value);
    // The plain one is not asked in its place: who set ours meant ours.
    return context === undefined ? { invalid: { annotation, value } } : { context };
  }
  return undefined;
};
