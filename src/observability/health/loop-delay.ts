/** How often the loop is looked at: what stands still for less is no trouble. */
const everyMs = 200;
/** For how long it is remembered, so that a probe that comes later sees it. */
const rememberMs = 10_000;

/** For how long the event loop of this process stood still lately: a handler that calculates, a large JSON, a full heap. */
export class LoopDelay {
  private readonly timer: NodeJS.Timeout;
  private due: number;
  private longest = { ms: 0, at: Number.NEGATIVE_INFINITY };

  constructor(private readonly now: () => number = () => performance.now()) {
    this.due = this.now() + everyMs;
    this.timer = setInterval(() => this.look(), everyMs).unref();
  }

  /** The longest time in the last 10 s, in milliseconds. */
  recentMs(): number {
    this.look();
    return this.now() - this.longest.at < rememberMs ? this.longest.ms : 0;
  }

  end(): void {
    clearInterval(this.timer);
  }

  private look(): void {
    const now = this.now();
    const ms = now - this.due;
    const isOver = now - this.longest.at >= rememberMs;
    if (ms > 0 && (isOver || ms >= this.longest.ms)) this.longest = { ms, at: now };
    if (ms > 0) this.due = now + everyMs;
  }
}
