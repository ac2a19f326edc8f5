export interface Limits {
  /** Handlers that run at the same time in this process; null: no limit. */
  readonly maxConcurrent: number | null;
  /** Handlers that start per second in this process; null: no limit. */
  readonly ratePerSecond: number | null;
}

/** A place within the limits: taken, then used or given back. */
export interface Place {
  /** The work starts now: this is the time that the rate counts. */
  start(): void;
  /** The work has ended, or never started. Later ends change nothing. */
  end(): void;
  /** The work goes on although nobody waits for it: the place is free at its end, or after `atMostMs`. */
  endWith(settled: Promise<void>, atMostMs: number): void;
}

/**
 * A start reaches the downstream some time later, at the latest when the work ends. So its second counts from the end of
 * the work, or from this long after the start if the work takes longer. Too small: a first request that opens its
 * connection arrives late, and with those of the next second there are too many. Too large: the downstream is fed less;
 * 80 ms cost 7 % where the work takes at least that long.
 */
const arrivalMs = 80;
/** Places that are taken but not started, or running handlers: nobody knows when one is free, so ask again after it. */
const askAgainMs = 100;
/** Rows put off for a limit are planned at most so far ahead; the limit may be free earlier than planned. */
const planRateMs = 60_000;
const planConcurrencyMs = 5_000;
const concurrencySpacingMs = 20;
/** Rows that are put off fall due a little faster than the limit lets them start, so that a late one is caught up with. */
const denser = 0.9;

/**
 * At most `maxConcurrent` at once, and at most `ratePerSecond` starts in any second: not on average, but in whichever
 * second somebody looks. Below one start per second the second is longer in proportion. Owns no timer.
 */
export class Limiter {
  /** When the starts within the window have arrived at the latest, in the order of the starts. */
  private arrivals: { at: number }[] = [];
  private taken = 0;
  private running = 0;
  /** When the places of work that nobody waits for are free at the latest. */
  private readonly left = new Set<{ readonly until: number }>();
  private plannedUntil = 0;
  private readonly most: number;
  private readonly windowMs: number;

  constructor(
    readonly limits: Limits,
    private readonly now: () => number,
  ) {
    const { ratePerSecond } = limits;
    this.most = ratePerSecond === null ? Number.POSITIVE_INFINITY : Math.max(1, Math.floor(ratePerSecond));
    this.windowMs = ratePerSecond === null ? 0 : (this.most / ratePerSecond) * 1000;
  }

  /** Milliseconds until a place may be free; 0: there is one now. */
  waitMs(): number {
    return Math.max(this.concurrencyWaitMs(), this.rateWaitMs());
  }

  /** Takes a place. Ask `waitMs()` first, in the same turn of the event loop. */
  take(): Place {
    let state: 'taken' | 'running' | 'ended' = 'taken';
    this.taken++;
    const arrival = { at: 0 };
    const leave = () => {
      if (state === 'ended') return;
      if (state === 'taken') this.taken--;
      if (state === 'running') this.running--;
      state = 'ended';
      arrival.at = Math.min(arrival.at, this.now());
    };
    return {
      start: () => {
        if (state !== 'taken') return;
        state = 'running';
        this.taken--;
        this.running++;
        arrival.at = this.now() + arrivalMs;
        if (this.windowMs > 0) this.arrivals.push(arrival);
      },
      end: leave,
      endWith: (settled, atMostMs) => {
        if (state !== 'running') return leave();
        const { at } = arrival;
        leave();
        arrival.at = at;
        const still = { until: this.now() + atMostMs };
        this.left.add(still);
        void settled.finally(() => this.left.delete(still));
      },
    };
  }

  /** How far apart rows that are put off should fall due. */
  get spacingMs(): number {
    return this.windowMs > 0
      ? (this.windowMs / this.most) * denser
      : concurrencySpacingMs / (this.limits.maxConcurrent ?? 1);
  }

  /** When the first of further rows that are put off should fall due: after those that were put off before. */
  delayMs(): number {
    const longest = this.windowMs > 0 ? planRateMs : planConcurrencyMs;
    return Math.min(longest, Math.max(this.waitMs(), this.plannedUntil - this.now()));
  }

  /** `count` rows were put off, the first by `delayMs`. */
  planned(delayMs: number, count: number): void {
    this.plannedUntil = Math.max(this.plannedUntil, this.now() + delayMs + count * this.spacingMs);
  }

  private concurrencyWaitMs(): number {
    const { maxConcurrent } = this.limits;
    if (maxConcurrent === null) return 0;
    for (const still of this.left) if (still.until <= this.now()) this.left.delete(still);
    return this.taken + this.running + this.left.size < maxConcurrent ? 0 : askAgainMs;
  }

  private rateWaitMs(): number {
    if (this.windowMs === 0) return 0;
    const since = this.now() - this.windowMs;
    // One that ended early behind one that takes long counts as long as that: never too short, and at most arrivalMs.
    const first = this.arrivals.findIndex(({ at }) => at > since);
    if (first !== 0) this.arrivals = first < 0 ? [] : this.arrivals.slice(first);
    const room = this.most - this.taken;
    if (room <= 0) return askAgainMs;
    const blocking = this.arrivals[this.arrivals.length - room];
    return blocking === undefined ? 0 : Math.max(1, blocking.at - since);
  }
}
