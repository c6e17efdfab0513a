/** Everything that happened to some objects while a test ran: what polling could miss between two looks. */
import { isFault, type Kube, type KubeObject, type Resource, type Stored } from '../../runtime/ports/kube.ts';

export type Happening<T extends KubeObject> = {
  readonly type: 'PRESENT' | 'ADDED' | 'MODIFIED' | 'DELETED';
  readonly object: Stored<T>;
  /** Milliseconds since the history began. */
  readonly atMs: number;
};

export type History<T extends KubeObject> = AsyncDisposable & {
  readonly happenings: readonly Happening<T>[];
  /** When it began, on the clock of `performance.now()`. */
  readonly beganAt: number;
  /** How often the watch had to begin anew; what happened in between is lost, so a test that must see all wants 0. */
  readonly gaps: () => number;
  stop(): Promise<void>;
};

export const follow = async <T extends KubeObject>(
  kube: Kube,
  resource: Resource<T>,
  selection: { readonly namespace: string; readonly labelSelector?: string },
  onHappening?: (happening: Happening<T>) => void,
): Promise<History<T>> => {
  const began = performance.now();
  const happenings: Happening<T>[] = [];
  const stopping = new AbortController();
  let gaps = 0;
  const note = (type: Happening<T>['type'], object: Stored<T>): void => {
    const happening = { type, object, atMs: performance.now() - began };
    happenings.push(happening);
    onHappening?.(happening);
  };
  const first = await kube.list(resource, selection);
  for (const item of first.items) note('PRESENT', item);

  const run = async (): Promise<void> => {
    let { resourceVersion } = first;
    while (!stopping.signal.aborted) {
      try {
        const events = kube.watch(resource, {
          ...selection,
          resourceVersion,
          timeoutSeconds: 600,
          idleTimeoutMs: 120_000,
          signal: stopping.signal,
        });
        for await (const event of events) {
          if (event.type === 'BOOKMARK') resourceVersion = event.resourceVersion;
          else {
            resourceVersion = event.object.metadata.resourceVersion;
            note(event.type, event.object);
          }
        }
      } catch (error) {
        if (stopping.signal.aborted) return;
        if (!isFault(error)) throw error;
        gaps += 1;
        try {
          const again = await kube.list(resource, selection);
          resourceVersion = again.resourceVersion;
          for (const item of again.items) note('PRESENT', item);
        } catch (unanswered) {
          if (!isFault(unanswered)) throw unanswered;
          await new Promise((resolve) => setTimeout(resolve, 250));
        }
      }
    }
  };
  const running = run();
  const stop = async (): Promise<void> => {
    stopping.abort();
    await running;
  };
  return { happenings, beganAt: began, gaps: () => gaps, stop, [Symbol.asyncDispose]: stop };
};
