import { HandlerTimeoutError } from '../errors/handler-timeout.error.js';
import { type Interruption, LazyAbort, onAbort } from './lazy-abort.js';

/** How an attempt ended. `settled` resolves when the handler itself ends, which may be much later or never. */
export type AttemptEnd =
  | { readonly kind: 'returned' }
  | { readonly kind: 'threw'; readonly error: unknown }
  | { readonly kind: 'timed-out'; readonly error: HandlerTimeoutError; readonly settled: Promise<void> }
  | { readonly kind: 'interrupted'; readonly settled: Promise<void> };

/**
 * Runs a handler within its time. On timeout, or when one of `outers` aborts, the handler's signal is aborted and the attempt
 * is over at once, whether or not the handler listens. Never rejects, also for a handler that rejects late or throws
 * something that is not an error.
 */
export async function runAttempt(
  handler: (abort: LazyAbort) => unknown,
  timeoutMs: number,
  // Several instead of one made by AbortSignal.any(), which costs more than the rest of an attempt.
  ...outers: readonly Interruption[]
): Promise<AttemptEnd> {
  if (outers.some(({ aborted }) => aborted)) return { kind: 'interrupted', settled: Promise.resolve() };
  const abort = new LazyAbort();
  let timer: NodeJS.Timeout | undefined;
  let stopListening: (() => void)[] = [];
  const running = start(handler, abort);
  const settled = running.then(() => undefined);
  try {
    return await Promise.race([
      running,
      new Promise<AttemptEnd>((resolve) => {
        timer = setTimeout(() => {
          const error = new HandlerTimeoutError(timeoutMs);
          resolve({ kind: 'timed-out', error, settled });
          abort.abort(error);
        }, timeoutMs);
        stopListening = outers.map((outer) =>
          onAbort(outer, () => {
            resolve({ kind: 'interrupted', settled });
            abort.abort(outer.reason);
          }),
        );
      }),
    ]);
  } finally {
    clearTimeout(timer);
    for (const stop of stopListening) stop();
  }
}

async function start(handler: (abort: LazyAbort) => unknown, abort: LazyAbort): Promise<AttemptEnd> {
  try {
    await handler(abort);
    return { kind: 'returned' };
  } catch (error) {
    return { kind: 'threw', error };
  }
}
