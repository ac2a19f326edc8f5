/** Fewer attempts of a kind say nothing about its usual time. */
const fewest = 10;
/** Weight of the newest attempt: the recent time looks at about 10 attempts, the usual one at about 200. */
const recentWeight = 0.1;
const usualWeight = 1 / 200;
/**
 * Times rise with what runs at once long before less of it would be faster: at twice the usual time, eight lanes still did
 * more than four.
 */
const tolerance = 3;
/**
 * Below it a longer time is no sign of trouble: on a busy machine 5 ms become 100, and fewer at once would only overlap
 * fewer commits. Large: a downstream is relieved late.
 */
const floorMs = 500;
/** Each slow attempt takes a twentieth off, each other one gives a fiftieth back. Lower, and a wrong guess costs too much. */
const decrease = 0.95;
const increase = 0.02;
const lowest = 0.25;
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
 * of what is slow would only make it slower. A time that stays longer becomes the usual one after about a hundred attempts.
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
    const weight = times.attempts <= fewest ? 1 / times.attempts : usualWeight;
    // Falls as fast as the recent time, so that a slow start does not pass for the usual time.
    times.usualMs = Math.min(times.recentMs, times.usualMs + (durationMs - times.usualMs) * weight);
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
