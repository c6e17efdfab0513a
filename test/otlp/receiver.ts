/**
 * A receiver of traces over OTLP/HTTP: a server that reads the protobuf that any collector would. The schema is written down
 * here by field number, so that it is independent of the code that is under test.
 */
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gunzipSync } from 'node:zlib';
import protobuf from 'protobufjs';

const SCHEMA = `
syntax = "proto3";
message Export { repeated ResourceSpans resource_spans = 1; }
message ResourceSpans { Resource resource = 1; repeated ScopeSpans scope_spans = 2; }
message Resource { repeated KeyValue attributes = 1; }
message ScopeSpans { Scope scope = 1; repeated Span spans = 2; }
message Scope { string name = 1; string version = 2; }
message Span {
  bytes trace_id = 1; bytes span_id = 2; bytes parent_span_id = 4; string name = 5; int32 kind = 6;
  fixed64 start_time_unix_nano = 7; fixed64 end_time_unix_nano = 8; repeated KeyValue attributes = 9; Status status = 15;
}
message Status { string message = 2; int32 code = 3; }
message KeyValue { string key = 1; AnyValue value = 2; }
message AnyValue { oneof value { string string_value = 1; bool bool_value = 2; int64 int_value = 3; double double_value = 4; } }
`;

export type ReceivedSpan = {
  readonly traceId: string;
  readonly spanId: string;
  /** Empty for a root. */
  readonly parentSpanId: string;
  readonly name: string;
  readonly kind: 'internal' | 'client' | 'other';
  readonly startNs: bigint;
  readonly endNs: bigint;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly failed: boolean;
  readonly resource: Readonly<Record<string, unknown>>;
};

type Raw = Readonly<Record<string, unknown>>;
type RawSpan = Raw & {
  traceId: Uint8Array;
  spanId: Uint8Array;
  parentSpanId?: Uint8Array;
  name: string;
  kind: number;
  startTimeUnixNano: unknown;
  endTimeUnixNano: unknown;
  attributes?: readonly KeyValue[];
  status?: { code?: number };
};
type KeyValue = { key: string; value?: Record<string, unknown> };

const kinds: Readonly<Record<number, ReceivedSpan['kind']>> = { 1: 'internal', 3: 'client' };
const hex = (bytes: Uint8Array | undefined): string => Buffer.from(bytes ?? []).toString('hex');
const attributesOf = (list: readonly KeyValue[] = []): Record<string, unknown> =>
  Object.fromEntries(
    list.map(({ key, value }) => {
      const [found] = Object.values(value ?? {});
      return [key, typeof found === 'object' && found !== null ? Number(String(found)) : found];
    }),
  );

export type OtlpReceiver = {
  readonly url: string;
  /** Every span that came, in the order of arrival. */
  readonly spans: readonly ReceivedSpan[];
  readonly requests: readonly { readonly path: string; readonly headers: IncomingHttpHeaders }[];
  /** Answers with this status from now on. */
  answer(status: number): void;
  close(): Promise<void>;
};

export const startOtlpReceiver = async (port = 0): Promise<OtlpReceiver> => {
  const type = protobuf.parse(SCHEMA).root.lookupType('Export');
  const spans: ReceivedSpan[] = [];
  const requests: { path: string; headers: IncomingHttpHeaders }[] = [];
  let status = 200;
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    requests.push({ path: request.url ?? '', headers: request.headers });
    const body = Buffer.concat(chunks);
    const plain = request.headers['content-encoding'] === 'gzip' ? gunzipSync(body) : body;
    if (status === 200) {
      const { resourceSpans = [] } = type.toObject(type.decode(plain)) as {
        resourceSpans?: { resource?: { attributes?: KeyValue[] }; scopeSpans?: { spans?: RawSpan[] }[] }[];
      };
      for (const { resource, scopeSpans = [] } of resourceSpans) {
        for (const span of scopeSpans.flatMap((scope) => scope.spans ?? [])) {
          spans.push({
            traceId: hex(span.traceId),
            spanId: hex(span.spanId),
            parentSpanId: hex(span.parentSpanId),
            name: span.name,
            kind: kinds[span.kind] ?? 'other',
            startNs: BigInt(String(span.startTimeUnixNano)),
            endNs: BigInt(String(span.endTimeUnixNano)),
            attributes: attributesOf(span.attributes),
            failed: span.status?.code === 2,
            resource: attributesOf(resource?.attributes),
          });
        }
      }
    }
    response.writeHead(status, { 'content-type': 'application/x-protobuf' }).end();
  });
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans,
    requests,
    answer: (next) => {
      status = next;
    },
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
};

/** A trace as text, children under their parents in the order of their start. */
export const picture = (spans: readonly ReceivedSpan[], note: (span: ReceivedSpan) => string = () => ''): string => {
  const ids = new Set(spans.map(({ spanId }) => spanId));
  const lines = (parent: string | undefined, depth: number): string[] =>
    spans
      .filter(({ parentSpanId }) => (parent === undefined ? !ids.has(parentSpanId) : parentSpanId === parent))
      .toSorted((a, b) => Number(a.startNs - b.startNs))
      .flatMap((span) => [`${'  '.repeat(depth)}${span.name}${note(span)}`, ...lines(span.spanId, depth + 1)]);
  return lines(undefined, 0).join('\n');
};
