/** A batch that takes longer is too large: others wait for its locks and its share of the disk. */
const slowMs = 250;
/** One that is quicker leaves room for a larger one. */
const quickMs = 100;
const fewest = 10;
const longestRestMs = 2_000;

/** How large the next batch is, and how long to rest before it. */
export class BatchPace {
  private size: number;

  /**
   * @param first size of the first batch
   * @param restFactor rest after a batch, in times of its own length; with 2 the work gets a third of the time at most
   */
  constructor(
    private readonly largest: number,
    first = largest,
    private readonly restFactor = 2,
  ) {
    this.size = first;
  }

  get limit(): number {
    return this.size;
  }

  /** @returns milliseconds to rest */
  took(ms: number): number {
    if (ms > slowMs) this.shrink();
    else if (ms < quickMs) this.size = Math.min(this.largest, this.size * 2);
    return Math.min(longestRestMs, ms * this.restFactor);
  }

  failed(): void {
    this.shrink();
  }

  private shrink(): void {
    this.size = Math.max(Math.min(fewest, this.largest), Math.floor(this.size / 2));
  }
}
