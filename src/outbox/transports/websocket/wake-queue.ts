/** Wakes at the same time: each takes a connection of the relay's own. */
const atOnce = 2;

/**
 * Wakes receivers that connected, a few at a time: after a deployment all of them connect at once. One that waits is
 * there once. What fails waits for `again`.
 */
export class WakeQueue {
  private readonly waiting = new Map<string, Set<() => void>>();
  private readonly failed = new Set<string>();
  private running = 0;
  private isClosed = false;

  constructor(
    private readonly wake: (receiver: string) => Promise<unknown>,
    private readonly onError: (error: Error) => void,
  ) {}

  /** Resolves when it was woken, or could not be. */
  add(receiver: string): Promise<void> {
    if (this.isClosed) return Promise.resolve();
    return new Promise((resolve) => {
      const known = this.waiting.get(receiver);
      if (known) known.add(resolve);
      else this.waiting.set(receiver, new Set([resolve]));
      if (this.running < atOnce) void this.run();
    });
  }

  /** Those that could not be woken, once more. */
  again(isStillThere: (receiver: string) => boolean): void {
    const receivers = [...this.failed];
    this.failed.clear();
    for (const receiver of receivers) if (isStillThere(receiver)) void this.add(receiver);
  }

  close(): void {
    this.isClosed = true;
    for (const done of this.waiting.values()) for (const resolve of done) resolve();
    this.waiting.clear();
    this.failed.clear();
  }

  private async run(): Promise<void> {
    this.running++;
    for (;;) {
      const [next] = this.waiting;
      if (!next) break;
      const [receiver, done] = next;
      this.waiting.delete(receiver);
      try {
        await this.wake(receiver);
      } catch (error) {
        if (!this.isClosed) this.failed.add(receiver);
        this.onError(error as Error);
      }
      for (const resolve of done) resolve();
    }
    this.running--;
  }
}
