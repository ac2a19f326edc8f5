import type { Permit, Readiness } from './lane-handler.js';
import { pause } from './pause.js';

/** All that a batch waits for a limit, with its lane or place in hand. Then the rest is given back, so that other types go on. */
const mostWaitMs = 2_000;

/** Leave for the calls of one batch: each call needs one of its own, whatever the number of its messages. */
export class BatchPermits {
  private first: Permit | null;
  private waitedMs = 0;

  constructor(
    first: Permit,
    private readonly readiness: () => Readiness,
  ) {
    this.first = first;
  }

  /** For the next call; waits for a limit that is free again soon. Null: not now. */
  async next(interrupted: AbortSignal): Promise<Permit | null> {
    const { first } = this;
    this.first = null;
    if (first) return first;
    while (!interrupted.aborted) {
      const readiness = this.readiness();
      if (readiness.kind === 'ready') return readiness.permit();
      if (readiness.kind !== 'closed-off' || readiness.pace === null) return null;
      const waitMs = Math.max(1, readiness.retryInMs);
      if (this.waitedMs + waitMs > mostWaitMs) return null;
      this.waitedMs += waitMs;
      await pause(waitMs, interrupted);
    }
    return null;
  }

  /** The batch came to nothing before its first call. */
  giveBack(): void {
    this.first?.giveBack();
    this.first = null;
  }
}
