/** Fewer attempts of a kind say nothing about its usual time. */
const fewest = 10;
/** Weight of the newest attempt: the recent time looks at about 10 attempts, the usual one at about 300. */
const recentWeight = 0.1;
const usualWeight = 1 / 300;
/** Twice the usual time is within what varies by itself. */
const tolerance = 2;
/** Below it a longer time is no sign of trouble: a pause of the garbage collector or a cold cache doubles 5 ms. */
const floorMs = 50;
/** Each slow attempt takes a twentieth off, each other one gives a fiftieth back. */
const decrease = 0.95;
const increase = 0.02;
const lowest = 0.1;
/** Nothing was handled for so long: what was seen before says nothing any more. */
const forgetMs = 60_000;
/** Types come with pushes, so their number has a limit: beyond it the one that was not seen for longest is forgotten. */
const mostKinds = 1_000;

interface Times {
  attempts: number;
  recentMs: number;
  usualMs: number;
}

/**
 * How much of its concurrency the consumer should use, from how long handlers take compared with their usual time: more
 * of what is slow would only make it slower. A time that stays longer becomes the usual one after some hundred attempts.
 */
export class HandlerLatency {
  private readonly kinds = new Map<string, Times>();
  private share = 1;
  private lastAt = Number.NEGATIVE_INFINITY;

  constructor(private readonly now: () => number) {}

  /** One attempt of a kind has ended after so long. */
  took(kind: string, durationMs: number): void {
    if (this.now() - this.lastAt > forgetMs) this.share = 1;
    this.lastAt = this.now();
    const times = this.timesOf(kind, durationMs);
    times.attempts++;
    times.recentMs += (durationMs - times.recentMs) * recentWeight;
    // Falls as fast as the recent time, so that a slow start does not pass for the usual time.
    times.usualMs = Math.min(
      times.recentMs,
      times.usualMs + (durationMs - times.usualMs) * Math.max(usualWeight, 1 / times.attempts),
    );
    const slow = times.attempts > fewest && times.recentMs > floorMs && times.recentMs > tolerance * times.usualMs;
    this.share = slow ? Math.max(lowest, this.share * decrease) : Math.min(1, this.share + increase);
  }

  /** How many of at most `max` handlers should run at the same time; at least one. */
  concurrency(max: number): number {
    if (this.now() - this.lastAt > forgetMs) this.share = 1;
    return Math.max(1, Math.round(max * this.share));
  }

  private timesOf(kind: string, durationMs: number): Times {
    const times = this.kinds.get(kind) ?? { attempts: 0, recentMs: durationMs, usualMs: durationMs };
    this.kinds.delete(kind);
    this.kinds.set(kind, times);
    const [oldest] = this.kinds.keys();
    if (this.kinds.size > mostKinds && oldest !== undefined) this.kinds.delete(oldest);
    return times;
  }
}
