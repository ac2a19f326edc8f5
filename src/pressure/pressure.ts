import type { Backlog, BacklogLimits, BacklogReason } from './backlog.js';
import type { HandlerLatency } from './handler-latency.js';
import { type Rate, TokenBucket } from './token-bucket.js';

/** What one source may do. */
export interface SourceRules {
  readonly rate: Rate | null;
  readonly backlog: BacklogLimits;
}

/** Why a push is not taken now, and after how long it may be. */
export interface Excess {
  readonly reason: 'rate' | BacklogReason;
  readonly retryInMs: number;
}

/** How long a source counts as limited after a push of it was beyond its rate. */
const calmMs = 5_000;
/** A backlog is not worked off in a moment: senders come back after about this long. */
const backlogRetryMs = 5_000;

/**
 * The state that the door and the consumer of one process share: the door asks whether a push may come in, the consumer
 * whether a source is limited, and how much should run at once.
 */
export class Pressure {
  private readonly buckets = new Map<string, TokenBucket>();
  private readonly limitedUntil = new Map<string, number>();

  constructor(
    private readonly rules: ReadonlyMap<string, SourceRules>,
    private readonly backlog: Backlog,
    private readonly latency: HandlerLatency | null,
    private readonly now: () => number,
  ) {
    for (const [source, { rate }] of rules) if (rate) this.buckets.set(source, new TokenBucket(rate, now));
  }

  /** Null: the push may come in, and counts. First the source's rate, then what waits in the table. */
  excess(source: string): Excess | null {
    const waitMs = this.buckets.get(source)?.take() ?? 0;
    if (waitMs > 0) {
      this.limitedUntil.set(source, this.now() + calmMs);
      return { reason: 'rate', retryInMs: Math.ceil(waitMs) };
    }
    const reason = this.backlogOf(source);
    return reason && { reason, retryInMs: backlogRetryMs };
  }

  /** Pushes of the source are being refused: what it sent for the first time goes before its retries. */
  isLimited(source: string): boolean {
    return (this.limitedUntil.get(source) ?? Number.NEGATIVE_INFINITY) > this.now() || this.backlogOf(source) !== null;
  }

  /** Looks at what waits now, and resolves when that is known. For tests. */
  refresh(): Promise<void> {
    return this.backlog.refresh();
  }

  /** An attempt of a handler has ended. */
  handled(source: string, type: string, durationMs: number): void {
    this.latency?.took(`${source}\0${type}`, durationMs);
  }

  /** How many of at most `max` handlers should run at the same time: fewer while they take longer than usual. */
  concurrency(max: number): number {
    return this.latency?.concurrency(max) ?? max;
  }

  private backlogOf(source: string): BacklogReason | null {
    const rules = this.rules.get(source);
    return rules ? this.backlog.closedBy(rules.backlog) : null;
  }
}
