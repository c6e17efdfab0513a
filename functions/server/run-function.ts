/**
 * Crossplane's `FunctionRunnerService` for grpc-js: both messages between bytes and plain values. `run_function.proto`
 * beside this file names the fields. Fields that no step uses (credentials, schemas, extra resources) are passed over;
 * they are never needed to answer, since Crossplane keeps them itself.
 */
import type { MethodDefinition, ServiceDefinition } from '@grpc/grpc-js';
import type {
  Condition,
  ConditionStatus,
  Ready,
  Requirements,
  Resource,
  ResourceSelector,
  Result,
  RunFunctionRequest,
  RunFunctionResponse,
  SchemaSelector,
  Severity,
  State,
} from '../composing/exchange.ts';
import { put, Reader, Writer } from './wire.ts';

type Writable<T> = { -readonly [K in keyof T]: T[K] };

const readyNumber: Record<Ready, number> = { True: 1, False: 2 };
const severityNumber: Record<Severity, number> = { Fatal: 1, Warning: 2, Normal: 3 };
const statusNumber: Record<ConditionStatus, number> = { Unknown: 1, True: 2, False: 3 };

const readyOf = (number: number): Ready | undefined => (number === 1 ? 'True' : number === 2 ? 'False' : undefined);

/** Throws `WireError` when the bytes are not a RunFunctionRequest. */
export const decodeRequest = (bytes: Buffer): RunFunctionRequest => {
  const reader = new Reader(bytes);
  const request: Writable<RunFunctionRequest> = {};
  const required: Record<string, Resource[]> = {};
  for (let field = reader.field(); field !== 0; field = reader.field()) {
    if (field === 1) {
      reader.message((part) => {
        if (part === 1) request.tag = reader.string();
        else reader.skip();
      });
    } else if (field === 2) request.observed = readState(reader, UNREAD);
    else if (field === 3) request.desired = readState(reader);
    else if (field === 4) request.input = reader.struct();
    else if (field === 5) request.context = reader.struct();
    else if (field === 8) {
      readEntry(reader, required, (): Resource[] => readResources(reader), []);
      request.requiredResources = required;
    } else reader.skip();
  }
  return request;
};

/** Who owns which field: half of every stored object, and no step reads it. */
const UNREAD = 'managedFields';

const readEntry = <T>(reader: Reader, into: Record<string, T>, read: () => T, absent: T): void => {
  let key = '';
  let value = absent;
  reader.message((part) => {
    if (part === 1) key = reader.string();
    else if (part === 2) value = read();
    else reader.skip();
  });
  put(into, key, value);
};

const readResources = (reader: Reader): Resource[] => {
  const items: Resource[] = [];
  reader.message((field) => {
    if (field === 1) items.push(readResource(reader, UNREAD));
    else reader.skip();
  });
  return items;
};

const readState = (reader: Reader, without?: string): State => {
  const state: Writable<State> = {};
  const resources: Record<string, Resource> = {};
  reader.message((field) => {
    if (field === 1) state.composite = readResource(reader, without);
    else if (field === 2) readEntry(reader, resources, () => readResource(reader, without), {});
    else reader.skip();
  });
  state.resources = resources;
  return state;
};

const readResource = (reader: Reader, without?: string): Resource => {
  const resource: Writable<Resource> = {};
  const details: Record<string, Uint8Array> = {};
  let ready: Ready | undefined;
  reader.message((field) => {
    if (field === 1) resource.resource = reader.struct(without);
    else if (field === 2) {
      readEntry(reader, details, () => reader.bytes(), new Uint8Array());
      resource.connectionDetails = details;
    } else if (field === 3) ready = readyOf(reader.uint());
    else reader.skip();
  });
  if (ready !== undefined) resource.ready = ready;
  return resource;
};

let shared: Writer | undefined;

/** Equal responses are equal bytes: maps are written in the order of their keys. */
export const encodeResponse = (response: RunFunctionResponse): Buffer => {
  // One writer for all responses, since encoding is never interrupted. One that was left by an exception is dropped.
  const writer = shared ?? new Writer();
  shared = undefined;
  for (const condition of (response.conditions ?? []).toReversed()) writeCondition(writer, condition);
  if (response.requirements !== undefined) writeRequirements(writer, response.requirements);
  if (response.context !== undefined) writer.struct(4, response.context);
  for (const result of (response.results ?? []).toReversed()) writeResult(writer, result);
  if (response.desired !== undefined) writeState(writer, 2, response.desired);
  writer.message(1, () => {
    const seconds = response.ttlSeconds;
    if (seconds !== undefined) {
      writer.message(2, () => {
        if (seconds > 0) writer.uint(1, seconds);
      });
    }
    writeText(writer, 1, response.tag);
  });
  const message = writer.finish();
  shared = writer;
  return message;
};

/** Proto3 leaves an empty string out. */
const writeText = (writer: Writer, field: number, text: string | undefined): void => {
  if (text !== undefined && text !== '') writer.string(field, text);
};

const writeState = (writer: Writer, field: number, state: State): void => {
  writer.message(field, () => {
    writer.map(2, state.resources ?? {}, (resource) => {
      writeResource(writer, 2, resource);
    });
    if (state.composite !== undefined) writeResource(writer, 1, state.composite);
  });
};

const writeResource = (writer: Writer, field: number, resource: Resource): void => {
  writer.message(field, () => {
    if (resource.ready !== undefined) writer.uint(3, readyNumber[resource.ready]);
    writer.map(2, resource.connectionDetails ?? {}, (detail) => {
      writer.bytes(2, detail);
    });
    if (resource.resource !== undefined) writer.struct(1, resource.resource);
  });
};

const writeResult = (writer: Writer, result: Result): void => {
  writer.message(3, () => {
    if (result.reason !== undefined) writer.string(3, result.reason);
    writeText(writer, 2, result.message);
    writer.uint(1, severityNumber[result.severity]);
  });
};

const writeCondition = (writer: Writer, condition: Condition): void => {
  writer.message(6, () => {
    if (condition.message !== undefined) writer.string(4, condition.message);
    writeText(writer, 3, condition.reason);
    writer.uint(2, statusNumber[condition.status]);
    writeText(writer, 1, condition.type);
  });
};

const writeRequirements = (writer: Writer, requirements: Requirements): void => {
  writer.message(5, () => {
    writer.map<SchemaSelector>(3, requirements.schemas ?? {}, (selector) => {
      writer.message(2, () => {
        writeText(writer, 2, selector.kind);
        writeText(writer, 1, selector.apiVersion);
      });
    });
    writer.map<ResourceSelector>(2, requirements.resources ?? {}, (selector) => {
      writer.message(2, () => {
        if (selector.namespace !== undefined) writer.string(5, selector.namespace);
        const labels = selector.matchLabels;
        if (selector.matchName !== undefined) writer.string(3, selector.matchName);
        else if (labels !== undefined) {
          writer.message(4, () => {
            writer.map(1, labels, (value) => {
              writer.string(2, value);
            });
          });
        }
        writeText(writer, 2, selector.kind);
        writeText(writer, 1, selector.apiVersion);
      });
    });
  });
};

/**
 * What the server answers with: the step's response, already bytes. Encoding inside the handler and not in grpc-js's
 * serializer keeps an object that cannot be encoded inside the handler's error handling.
 */
export type RunFunctionService = ServiceDefinition & { RunFunction: MethodDefinition<RunFunctionRequest, Buffer> };

/** The service of one protocol version. v1beta1 has the same messages; Crossplane falls back to it when v1 is absent. */
export const runFunctionService = (version: 'v1' | 'v1beta1'): RunFunctionService => ({
  RunFunction: {
    path: `/apiextensions.fn.proto.${version}.FunctionRunnerService/RunFunction`,
    requestStream: false,
    responseStream: false,
    requestDeserialize: decodeRequest,
    requestSerialize: () => {
      throw new Error('this side of the protocol only answers');
    },
    responseSerialize: (bytes) => bytes,
    responseDeserialize: (bytes) => bytes,
  },
});
