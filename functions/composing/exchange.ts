/**
 * One exchange with Crossplane, as plain values: what a pipeline step is told and what it answers.
 * The bytes are the server's business (`server/run-function.ts`); the fields are those of Crossplane's
 * `apiextensions.fn.proto.v1`.
 */

/** A protobuf Struct: any JSON object. */
export type Struct = { readonly [key: string]: unknown };

export type Ready = 'True' | 'False';

export type Severity = 'Fatal' | 'Warning' | 'Normal';

export type ConditionStatus = 'True' | 'False' | 'Unknown';

/** One object of a state. `ready` matters in desired state only; absent, Crossplane takes it for not ready. */
export type Resource = {
  readonly resource?: object;
  readonly connectionDetails?: { readonly [key: string]: Uint8Array };
  readonly ready?: Ready;
};

export type State = {
  readonly composite?: Resource;
  readonly resources?: { readonly [key: string]: Resource };
};

/** Selects by name, by labels, or, with neither, every object of the kind. */
export type ResourceSelector = {
  readonly apiVersion: string;
  readonly kind: string;
  readonly namespace?: string;
  readonly matchName?: string;
  readonly matchLabels?: { readonly [key: string]: string };
};

export type SchemaSelector = { readonly apiVersion: string; readonly kind: string };

export type Requirements = {
  readonly resources?: { readonly [name: string]: ResourceSelector };
  readonly schemas?: { readonly [name: string]: SchemaSelector };
};

export type Result = {
  readonly severity: Severity;
  readonly message: string;
  readonly reason?: string;
};

export type Condition = {
  readonly type: string;
  readonly status: ConditionStatus;
  readonly reason: string;
  readonly message?: string;
};

export type RunFunctionRequest = {
  /** Opaque; echoed. */
  readonly tag?: string;
  readonly observed?: State;
  /** What the steps before this one want. */
  readonly desired?: State;
  /** The `input` of this step in the Composition. */
  readonly input?: Struct;
  /** What the steps before this one left for later steps. */
  readonly context?: Struct;
  /** What this step asked for by `requirements`; a name is absent until Crossplane has looked. */
  readonly requiredResources?: { readonly [name: string]: readonly Resource[] };
};

export type RunFunctionResponse = {
  readonly tag?: string;
  /** Seconds after which Crossplane asks again even when nothing changed; 0 or absent: never. */
  readonly ttlSeconds?: number;
  readonly desired?: State;
  readonly results?: readonly Result[];
  readonly context?: Struct;
  readonly requirements?: Requirements;
  readonly conditions?: readonly Condition[];
};

/** A pipeline step: the same request always gives the same response, and nothing else happens. */
export type Compose = (request: RunFunctionRequest) => RunFunctionResponse;
