/** Ctrl-C. */
export class InterruptedError extends Error {}

/** The result of `work`, unless `signal` is aborted before. @throws InterruptedError then; what `work` does is left to itself */
export async function interruptible<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  work.catch(() => undefined);
  let stop: (() => void) | undefined;
  const interrupted = new Promise<never>((_resolve, reject) => {
    stop = () => reject(new InterruptedError());
    if (signal.aborted) stop();
    signal.addEventListener('abort', stop, { once: true });
  });
  try {
    return await Promise.race([work, interrupted]);
  } finally {
    if (stop) signal.removeEventListener('abort', stop);
  }
}
