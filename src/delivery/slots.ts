/** Leave to look for messages and to handle them. */
export interface Slot {
  /** Somebody else waits for a slot, or there are too many: end this one after the message in work. */
  readonly isWanted: boolean;
  /** Ends once; later ends change nothing. */
  end(): void;
}

/**
 * How many of the workers of this process handle messages at the same time. Usually all of them; fewer while `capacity`
 * says so. Then they take slots in the order in which they asked, so none is left out, and each keeps its lane.
 */
export class Slots {
  private workers = 0;
  private taken = 0;
  private readonly waiting: (() => void)[] = [];

  /** @param capacity how many of so many workers may work now; at least one */
  constructor(private readonly capacity: (workers: number) => number) {}

  join(): void {
    this.workers++;
  }

  leave(): void {
    this.workers--;
    this.admit();
  }

  /** Null when `signal` aborted first. */
  async take(signal: AbortSignal): Promise<Slot | null> {
    if (signal.aborted) return null;
    if (this.waiting.length === 0 && this.hasRoom()) return this.slot();
    return new Promise((resolve) => {
      const admitted = () => {
        signal.removeEventListener('abort', aborted);
        resolve(this.slot());
      };
      const aborted = () => {
        this.waiting.splice(this.waiting.indexOf(admitted), 1);
        resolve(null);
      };
      signal.addEventListener('abort', aborted, { once: true });
      this.waiting.push(admitted);
    });
  }

  private slot(): Slot {
    this.taken++;
    const wanted = () => this.waiting.length > 0 || this.taken > this.capacity(this.workers);
    let ended = false;
    return {
      get isWanted() {
        return wanted();
      },
      end: () => {
        if (ended) return;
        ended = true;
        this.taken--;
        this.admit();
      },
    };
  }

  private admit(): void {
    while (this.waiting.length > 0 && this.hasRoom()) this.waiting.shift()?.();
  }

  private hasRoom(): boolean {
    return this.taken < Math.max(1, this.capacity(this.workers));
  }
}
