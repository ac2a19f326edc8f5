/**
 * An AbortController whose signal is made when somebody asks for it. Most handlers never do, and a signal for each message
 * was a quarter of what a message costs this process.
 */
export class LazyAbort {
  private controller: AbortController | undefined;
  private readonly listeners = new Set<() => void>();
  aborted = false;
  reason: unknown;

  get signal(): AbortSignal {
    if (!this.controller) {
      this.controller = new AbortController();
      if (this.aborted) this.controller.abort(this.reason);
    }
    return this.controller.signal;
  }

  /** The first abort counts. */
  abort(reason: unknown): void {
    if (this.aborted) return;
    this.aborted = true;
    this.reason = reason;
    this.controller?.abort(reason);
    for (const listener of this.listeners) listener();
  }

  /** Calls `listener` at the abort. Returns what ends that. */
  onAbort(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
}

/** What may end an attempt from outside. */
export type Interruption = AbortSignal | LazyAbort;

/** Calls `listener` at the abort. Returns what ends that. */
export function onAbort(interruption: Interruption, listener: () => void): () => void {
  if (interruption instanceof LazyAbort) return interruption.onAbort(listener);
  interruption.addEventListener('abort', listener, { once: true });
  return () => interruption.removeEventListener('abort', listener);
}
