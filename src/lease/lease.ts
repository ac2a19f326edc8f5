/** The right to consume one lane (or do one chore), held for a limited time. */
export interface Lease {
  readonly name: string;
  /** The instance that holds it. */
  readonly owner: string;
  /** Rises with every change of holder. Every outcome repeats it, so a stalled holder cannot commit beside the new one. */
  readonly fence: string;
  /** Aborted when the lease is lost or close to its end; always before another instance can have it. */
  readonly signal: AbortSignal;
  /**
   * Compares clocks now, in this call: a blocked event loop delays the timer behind `signal`, not this. Ask before each
   * mark and each COMMIT.
   */
  isHeld(): boolean;
  /** Gives it back. Never throws; what cannot be released runs out by itself. */
  release(): Promise<void>;
}

export type LeaseLoss = 'expired' | 'taken' | 'hold-limit';

/** What the watchdog tells about a lease while it is held. */
export interface LeaseObserver {
  /** After each renewal: claims that live as long as the lease are extended here. */
  renewed?(lease: Lease, tookMs: number): void | Promise<void>;
  renewalFailed?(lease: Lease, error: unknown): void;
  lost?(lease: Lease, reason: LeaseLoss): void;
}
