/** A handler that is running in this process. */
export interface FlightEntry {
  /** '0' for a push that `execute()` runs without storing it. */
  readonly id: string;
  readonly source: string;
  readonly type: string;
  readonly attempt: number;
  readonly elapsedMs: number;
}

type Started = Omit<FlightEntry, 'elapsedMs'> & { readonly startedAt: number };

/** Who is being handled right now, until the handler itself has settled. */
export class InFlight {
  private readonly running = new Set<Started>();

  /** Runs `work` and counts it until it settles, also when nobody waits for it any more. */
  async during<T>(message: Omit<FlightEntry, 'elapsedMs'>, work: () => T | Promise<T>): Promise<T> {
    const { id, source, type, attempt } = message;
    const entry = { id, source, type, attempt, startedAt: performance.now() };
    this.running.add(entry);
    try {
      return await work();
    } finally {
      this.running.delete(entry);
    }
  }

  /** Longest first. */
  entries(): FlightEntry[] {
    return [...this.running].map(({ startedAt, ...entry }) => ({
      ...entry,
      elapsedMs: Math.round(performance.now() - startedAt),
    }));
  }
}
