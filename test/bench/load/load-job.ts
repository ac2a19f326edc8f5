/** What the load process is asked to do: the same signed pushes, whoever answers them. */
export interface LoadJob {
  readonly origin: string;
  readonly path: string;
  /** Each has one push on its way at a time. */
  readonly connections: number;
  /** Before anything is measured. Its pushes are answered and told like all others. */
  readonly warmUpMs: number;
  readonly measureMs: number;
  /**
   * Pushes per second, whether or not they are answered in time. Latency then counts from the moment at which a push was
   * due, so that a server that stands still is not asked less (coordinated omission). Absent: as fast as it answers.
   */
  readonly ratePerSecond?: number;
  readonly secret: string;
  readonly prefix: string;
  /** Share of pushes that repeat one of the last thousand events, 0 to 1. */
  readonly duplicateShare: number;
}

/** One answer, in the order in which they came. */
export interface PushAnswer {
  /** Number of the event, see OrderPushes. */
  readonly event: number;
  /** 0: no answer, the connection broke. */
  readonly status: number;
  readonly body: string;
}

export interface Latency {
  readonly p50: number;
  readonly p90: number;
  readonly p99: number;
  readonly max: number;
}

export interface LoadResult {
  /** 2xx answers per second within the measured time. */
  readonly perSecond: number;
  /** In milliseconds, of the pushes that were answered within the measured time; at a fixed rate, of those due in it. */
  readonly latency: Latency;
  /** All of them, the warm-up's too. */
  readonly answers: readonly PushAnswer[];
}
