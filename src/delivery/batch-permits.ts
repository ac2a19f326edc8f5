import type { LaneBox, Permit } from './lane-handler.js';
import type { Runnable } from './lane-queue.js';
import { pause } from './pause.js';

/** All that a batch waits for a limit, with the lane in hand. Then the rest is given back, so that other types go on. */
const mostWaitMs = 2_000;

/** Leave for the calls of one batch: each call needs one of its own, whatever the number of its messages. */
export class BatchPermits {
  private first: Permit | null;
  private waitedMs = 0;

  constructor(
    private readonly box: LaneBox,
    private readonly runnable: Runnable,
  ) {
    this.first = runnable.permit;
  }

  /** For the next call; waits for a limit that is free again soon. Null: not now. */
  async next(interrupted: AbortSignal): Promise<Permit | null> {
    const { first } = this;
    this.first = null;
    if (first) return first;
    const { source, type } = this.runnable.candidate;
    while (!interrupted.aborted) {
      const readiness = this.box.readiness(source, type);
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
