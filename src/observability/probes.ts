/** How many messages a box has and how they stand: for gauges and health. Counts are capped, so they cost index look-ups only. */
export interface BoxStats {
  /** By status, each counted up to 10,000. */
  readonly counts: Readonly<Record<string, number>>;
  /** How long the oldest due message has been due; null: none is due. */
  readonly oldestDueMs: number | null;
  /** Handlers, or sends, that run in this process. */
  readonly inFlight: number;
}

/** Further numbers of the table, capped too, for gauges alone. */
export interface BoxGauges {
  /** Pending messages that are due later: retries, what was put off, what was delayed. */
  readonly later: number;
  /** Entities, or order units, that hold messages back. */
  readonly blocked: number;
  /** How long ago the oldest failed message ended; null: none failed. */
  readonly oldestFailedMs: number | null;
  /** Replay runs that wait or are worked off, and the messages that are left of them. */
  readonly runs: number;
  readonly runsLeft: number;
}

/** What a box lets others ask. Everything but `stats`, `write` and `redis` answers from memory. */
export interface BoxProbe {
  readonly box: 'inbox' | 'outbox';
  /** True from the first moment of the shutdown. */
  isDraining(): boolean;
  /** One small committed write on the connections that intake uses. Rejects when the database cannot be written. */
  write(): Promise<void>;
  /** A write to the Redis that keeps the leases; null where none does. Never rejects. */
  readonly redis: (() => Promise<boolean>) | null;
  /** How long the first in line has been waiting for one of mailroom's own connections; 0: nobody waits. */
  longestWaitMs(): number;
  /** How long ago the slowest loop last turned; 0 when none runs here. */
  oldestTurnMs(): number;
  /** Beyond this age a loop stands still: longer than its longest pass. */
  readonly stallAfterMs: number;
  stats(): Promise<BoxStats>;
  gauges(): Promise<BoxGauges>;
  /** Lanes whose lease this process has; null where there are none. */
  lanesHeld(): number | null;
}

/** The boxes of an application, as they announce themselves: metrics and health ask here, so no box knows of them. */
export class MailroomProbes {
  private readonly probes = new Map<BoxProbe['box'], BoxProbe>();

  register(probe: BoxProbe): void {
    this.probes.set(probe.box, probe);
  }

  all(): readonly BoxProbe[] {
    return [...this.probes.values()];
  }
}
