/** Slices of a window: a call leaves the count at most a tenth of the window late. */
const slices = 10;

export interface CallCounts {
  readonly calls: number;
  readonly failures: number;
  readonly slow: number;
}

interface Slice {
  /** Number of the slice since the clock's zero; tells a current one from one that ran out. */
  readonly number: number;
  calls: number;
  failures: number;
  slow: number;
}

/** Counts the calls of the last `windowMs`, in ten slices: memory does not grow with the number of calls. */
export class SlidingWindow {
  private readonly sliceMs: number;
  private current: Slice[] = [];

  constructor(windowMs: number) {
    this.sliceMs = windowMs / slices;
  }

  add(nowMs: number, call: { readonly failed: boolean; readonly slow: boolean }): void {
    const number = this.numberAt(nowMs);
    let slice = this.current.at(-1);
    if (slice?.number !== number) {
      this.prune(nowMs);
      slice = { number, calls: 0, failures: 0, slow: 0 };
      this.current.push(slice);
    }
    slice.calls++;
    if (call.failed) slice.failures++;
    if (call.slow) slice.slow++;
  }

  counts(nowMs: number): CallCounts {
    this.prune(nowMs);
    const sum = { calls: 0, failures: 0, slow: 0 };
    for (const { calls, failures, slow } of this.current) {
      sum.calls += calls;
      sum.failures += failures;
      sum.slow += slow;
    }
    return sum;
  }

  clear(): void {
    this.current = [];
  }

  private prune(nowMs: number): void {
    const oldest = this.numberAt(nowMs) - slices;
    this.current = this.current.filter(({ number }) => number > oldest);
  }

  private numberAt(nowMs: number): number {
    return Math.floor(nowMs / this.sliceMs);
  }
}
