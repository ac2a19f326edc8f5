import { HandlerTimeoutError } from '../errors/handler-timeout.error.js';

/** How an attempt ended. `settled` resolves when the handler itself ends, which may be much later or never. */
export type AttemptEnd =
  | { readonly kind: 'returned' }
  | { readonly kind: 'threw'; readonly error: unknown }
  | { readonly kind: 'timed-out'; readonly error: HandlerTimeoutError; readonly settled: Promise<void> }
  | { readonly kind: 'interrupted'; readonly settled: Promise<void> };

/**
 * Runs a handler within its time. On timeout, or when `outer` aborts, the handler's signal is aborted and the attempt
 * is over at once, whether or not the handler listens. Never rejects, also for a handler that rejects late or throws
 * something that is not an error.
 */
export async function runAttempt(
  handler: (signal: AbortSignal) => unknown,
  timeoutMs: number,
  outer: AbortSignal,
): Promise<AttemptEnd> {
  if (outer.aborted) return { kind: 'interrupted', settled: Promise.resolve() };
  const abort = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  let onOuterAbort: (() => void) | undefined;
  const running = start(handler, abort.signal);
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
        onOuterAbort = () => {
          resolve({ kind: 'interrupted', settled });
          abort.abort(outer.reason);
        };
        outer.addEventListener('abort', onOuterAbort, { once: true });
      }),
    ]);
  } finally {
    clearTimeout(timer);
    if (onOuterAbort) outer.removeEventListener('abort', onOuterAbort);
  }
}

async function start(handler: (signal: AbortSignal) => unknown, signal: AbortSignal): Promise<AttemptEnd> {
  try {
    await handler(signal);
    return { kind: 'returned' };
  } catch (error) {
    return { kind: 'threw', error };
  }
}
