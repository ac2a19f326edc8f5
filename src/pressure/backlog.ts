import { Threshold } from './threshold.js';

/** What waits in the table. */
export interface BacklogSample {
  /** Messages that are not finished and not in work, counted no further than was asked for. */
  readonly waiting: number;
  /** How long the oldest due one has been due; null when none is. */
  readonly oldestDueMs: number | null;
}

/** From how much on pushes are refused; null: never. */
export interface BacklogLimits {
  readonly messages: number | null;
  readonly ageMs: number | null;
}

export type BacklogReason = 'depth' | 'age';

export interface BacklogGates {
  /** Takes one sample; counts at most `countTo` messages, and asks for the age only if `age` is set. */
  readonly sample: (countTo: number, age: boolean) => Promise<BacklogSample>;
  readonly onChange: (reason: BacklogReason, limit: number, isClosed: boolean) => void;
  readonly now: () => number;
}

/** Samples are at least so far apart. Small: a query all the time. Large: so long pushes go on beyond the limit. */
const shortestGapMs = 250;
/** A sample that took long is followed by a gap of so many times its duration: at most a twentieth of the time is spent. */
const gapFactor = 20;
/** An older sample says nothing: then pushes are let in, and the next sample decides. */
const staleMs = 5_000;

/**
 * Whether too much waits in the table. Sampled in the background when somebody asks, never on a timer of its own, so an
 * idle application asks the database nothing. A sample that fails leaves everything as it was until it is stale.
 */
export class Backlog {
  private readonly depths = new Map<number, Threshold>();
  private readonly ages = new Map<number, Threshold>();
  private sampling: Promise<void> | undefined;
  private sampledAt = Number.NEGATIVE_INFINITY;
  private nextAt = Number.NEGATIVE_INFINITY;
  private gapMs = shortestGapMs;

  /** @param limits all that will be asked for */
  constructor(
    limits: readonly BacklogLimits[],
    private readonly gates: BacklogGates,
  ) {
    for (const { messages, ageMs } of limits) {
      if (messages !== null) this.depths.set(messages, new Threshold(messages));
      if (ageMs !== null) this.ages.set(ageMs, new Threshold(ageMs));
    }
  }

  /** Null: not too much. May start a sample, and does not wait for it. */
  closedBy({ messages, ageMs }: BacklogLimits): BacklogReason | null {
    if (messages === null && ageMs === null) return null;
    this.sampleSoon();
    if (this.gates.now() - this.sampledAt > Math.max(staleMs, 3 * this.gapMs)) return null;
    if (messages !== null && this.depths.get(messages)?.isClosed) return 'depth';
    if (ageMs !== null && this.ages.get(ageMs)?.isClosed) return 'age';
    return null;
  }

  /** Takes a sample now, or waits for the one under way. For tests. */
  async refresh(): Promise<void> {
    this.sampling ??= this.sample().finally(() => {
      this.sampling = undefined;
    });
    await this.sampling;
  }

  private sampleSoon(): void {
    if (this.sampling === undefined && this.gates.now() >= this.nextAt) void this.refresh();
  }

  /** Never rejects. */
  private async sample(): Promise<void> {
    const { now, sample } = this.gates;
    const startedAt = now();
    try {
      const { waiting, oldestDueMs } = await sample(Math.max(0, ...this.depths.keys()), this.ages.size > 0);
      this.update(this.depths, 'depth', waiting);
      this.update(this.ages, 'age', oldestDueMs ?? 0);
      this.sampledAt = now();
    } catch {
      // The database is away or busy: pushes meet that by themselves.
    }
    this.gapMs = Math.max(shortestGapMs, (now() - startedAt) * gapFactor);
    this.nextAt = now() + this.gapMs;
  }

  private update(thresholds: ReadonlyMap<number, Threshold>, reason: BacklogReason, value: number): void {
    for (const threshold of thresholds.values()) {
      if (threshold.update(value)) this.gates.onChange(reason, threshold.limit, threshold.isClosed);
    }
  }
}
