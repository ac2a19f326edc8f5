import { type CallCounts, SlidingWindow } from './sliding-window.js';

export interface BreakerRules {
  /** Calls of the last windowMs decide. */
  readonly windowMs: number;
  /** Share of failed calls, 0 to 1, from which on it opens. */
  readonly failureRate: number;
  /** Fewer calls in the window decide nothing. */
  readonly minimumCalls: number;
  /** How long it stays open before one probe may try. */
  readonly openForMs: number;
  /** Calls that take longer are slow; null: none is. */
  readonly slowCallMs: number | null;
  /** Share of slow calls, 0 to 1, from which on it opens. */
  readonly slowRate: number;
}

/**
 * closed: calls go through and are counted. open: none goes through until openForMs have passed. half-open: one call at
 * a time is let through as a probe; a good one closes the breaker, a bad one opens it again.
 */
export type BreakerState = 'closed' | 'open' | 'half-open';

/** What a call says about the downstream; neutral: nothing. */
export type CallResult = 'success' | 'failure' | 'neutral';

/** One call that was let through. Ends once; later ends change nothing. */
export interface BreakerCall {
  end(result: CallResult, durationMs: number): void;
}

/** While a probe is under way, others come again after this share of openForMs, within these limits. */
const probeShare = 0.25;
const shortestProbeWaitMs = 1_000;
const longestProbeWaitMs = 10_000;

/** Opens when too many of the recent calls failed or were slow. Pure: it asks the given clock and owns no timer. */
export class Breaker {
  private readonly window: SlidingWindow;
  private current: BreakerState = 'closed';
  private openedAt = 0;
  private probing = false;
  /** Grows with each change of state: a call that began before it says nothing about the time after it. */
  private generation = 0;

  constructor(
    private readonly rules: BreakerRules,
    private readonly now: () => number,
    private readonly onChange: (state: BreakerState) => void = () => undefined,
  ) {
    this.window = new SlidingWindow(rules.windowMs);
  }

  get state(): BreakerState {
    return this.current;
  }

  counts(): CallCounts {
    return this.window.counts(this.now());
  }

  /** Milliseconds until a call may go through; 0: now. */
  waitMs(): number {
    switch (this.current) {
      case 'closed':
        return 0;
      case 'open':
        return Math.max(0, this.openedAt + this.rules.openForMs - this.now());
      case 'half-open':
        return this.probing ? this.probeWaitMs() : 0;
    }
  }

  /** Begins a call. Ask `waitMs()` first, in the same turn of the event loop. */
  begin(): BreakerCall {
    if (this.current === 'open') this.change('half-open');
    const probe = this.current === 'half-open';
    if (probe) this.probing = true;
    const { generation } = this;
    let ended = false;
    return {
      end: (result, durationMs) => {
        if (ended) return;
        ended = true;
        if (generation !== this.generation) return;
        if (probe) this.endProbe(result, durationMs);
        else this.count(result, durationMs);
      },
    };
  }

  private endProbe(result: CallResult, durationMs: number): void {
    this.probing = false;
    if (result === 'neutral') return;
    if (result === 'failure' || this.isSlow(durationMs)) this.open();
    else this.change('closed');
  }

  private count(result: CallResult, durationMs: number): void {
    if (result === 'neutral') return;
    this.window.add(this.now(), { failed: result === 'failure', slow: this.isSlow(durationMs) });
    const { calls, failures, slow } = this.counts();
    if (calls < this.rules.minimumCalls) return;
    const tooSlow = this.rules.slowCallMs !== null && slow >= this.rules.slowRate * calls;
    if (failures >= this.rules.failureRate * calls || tooSlow) this.open();
  }

  private open(): void {
    this.openedAt = this.now();
    this.change('open');
  }

  private change(state: BreakerState): void {
    this.current = state;
    this.generation++;
    this.probing = false;
    this.window.clear();
    this.onChange(state);
  }

  private isSlow(durationMs: number): boolean {
    return this.rules.slowCallMs !== null && durationMs > this.rules.slowCallMs;
  }

  private probeWaitMs(): number {
    return Math.min(longestProbeWaitMs, Math.max(shortestProbeWaitMs, this.rules.openForMs * probeShare));
  }
}
