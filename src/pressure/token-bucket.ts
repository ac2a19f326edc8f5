export interface Rate {
  /** Tokens that come back per second. */
  readonly perSecond: number;
  /** Tokens that an idle bucket holds: what may come at once. */
  readonly burst: number;
}

/** Lets so many through per second on average, and a burst after a quiet time. Asks the given clock; owns no timer. */
export class TokenBucket {
  private tokens: number;
  private filledAt: number;

  constructor(
    private readonly rate: Rate,
    private readonly now: () => number,
  ) {
    this.tokens = rate.burst;
    this.filledAt = now();
  }

  /** 0: a token was taken. Otherwise none was, and it is the time in milliseconds until there is one. */
  take(): number {
    const now = this.now();
    const { perSecond, burst } = this.rate;
    this.tokens = Math.min(burst, this.tokens + ((now - this.filledAt) / 1000) * perSecond);
    this.filledAt = now;
    // Sums of fractions may fall short of a whole token by a little.
    if (this.tokens >= 1 - 1e-9) {
      this.tokens -= 1;
      return 0;
    }
    return ((1 - this.tokens) / perSecond) * 1000;
  }
}
