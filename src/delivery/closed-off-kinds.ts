import type { Crowds } from './crowds.js';
import type { ClosedOff } from './lane-handler.js';
import type { PutOffStore } from './put-off.store.js';

/** While messages come back, due ones are looked for at most this often: two SELECTs each. Large: they start in bursts. */
const shortestLookMs = 100;
/** The database rounds a due time up to whole milliseconds. */
const roundingMs = 5;

/** Retries of a limited source. Short: they are moved again and again. Long: they come late once it is over. */
const retriesWaitMs = 5_000;

interface Return {
  readonly fromMs: number;
  readonly untilMs: number;
  readonly spacingMs: number;
}

/**
 * Puts off messages of kinds that must not be handled now, and knows for each lane when those at a limit come back, so
 * that the lane is there in time instead of one roundInterval later.
 */
export class ClosedOffKinds {
  private readonly returns = new Map<number, Return>();

  constructor(
    private readonly store: PutOffStore,
    private readonly crowds: Crowds,
    private readonly now: () => number = () => performance.now(),
  ) {}

  /** Puts off one batch of due messages of the kind, no attempt counted; returns how many. */
  async putOff(lane: number, source: string, type: string, { retryInMs, pace, reason }: ClosedOff): Promise<number> {
    if (!pace) {
      const putOff = (limit?: number) => this.store.putOff(lane, source, type, retryInMs, { limit });
      const count = await putOff();
      this.crowds.followType({ lane, source, type, reason }, count, putOff);
      return count;
    }
    const delayMs = pace.delayMs();
    const { spacingMs } = pace;
    const count = await this.store.putOff(lane, source, type, delayMs, { spacingMs });
    if (count === 0) return 0;
    pace.planned(delayMs, count);
    const fromMs = this.now() + delayMs + roundingMs;
    this.expect(lane, { fromMs, untilMs: fromMs + count * spacingMs, spacingMs });
    return count;
  }

  /** Puts off retries of the kind for a while, no attempt counted; 0 when nothing else is due in the lane. */
  putOffRetries(lane: number, source: string, type: string): Promise<number> {
    return this.store.putOffRetries(lane, source, type, retriesWaitMs);
  }

  /** Milliseconds until messages that were put off for a limit may be due in the lane; null: none are coming back. */
  resumeInMs(lane: number): number | null {
    const expected = this.returns.get(lane);
    if (!expected) return null;
    const now = this.now();
    if (now >= expected.untilMs) {
      this.returns.delete(lane);
      return null;
    }
    if (now < expected.fromMs) return expected.fromMs - now;
    return Math.min(expected.untilMs - now, Math.max(shortestLookMs, expected.spacingMs));
  }

  private expect(lane: number, added: Return): void {
    const known = this.returns.get(lane);
    this.returns.set(lane, {
      fromMs: Math.min(known?.fromMs ?? added.fromMs, added.fromMs),
      untilMs: Math.max(known?.untilMs ?? 0, added.untilMs),
      spacingMs: Math.min(known?.spacingMs ?? added.spacingMs, added.spacingMs),
    });
  }
}
