import { pause } from '../delivery/pause.js';
import type { Lease, LeaseKeeper } from '../lease/index.js';
import type { MailroomEvents } from '../observability/index.js';
import { MailroomLogger } from '../observability/logging/mailroom-logger.js';
import { BatchPace } from '../schedule/index.js';
import type { PurgeJob } from './purge-job.js';

/** What one pass took out of one table. */
export interface PurgedTable {
  readonly table: string;
  readonly rows: number;
}

/** Since the start of this process. */
export interface RetentionTotals {
  readonly passes: number;
  readonly batches: number;
  readonly failedBatches: number;
  /** By table, as in the events. */
  readonly rows: Readonly<Record<string, number>>;
}

const leaseName = 'chore:retention';
/** A pass gives the lease back after this long; the next one goes on at once. */
const passMs = 60_000;
const holdMs = passMs + 30_000;

/** Takes out what is old. Exported by `RetentionModule`. */
export class RetentionService {
  private readonly logger = new MailroomLogger('RetentionService');
  private readonly stopping = new AbortController();
  private readonly rows = new Map<string, number>();
  private readonly paces = new Map<string, BatchPace>();
  private passes = 0;
  private batches = 0;
  private failedBatches = 0;

  constructor(
    private readonly jobs: readonly PurgeJob[],
    private readonly keeper: LeaseKeeper,
    private readonly events: MailroomEvents,
    private readonly batchSize: number,
  ) {}

  /** One pass of at most a minute. Null: another instance is at it. */
  async runOnce(): Promise<readonly PurgedTable[] | null> {
    return (await this.pass())?.purged ?? null;
  }

  totals(): RetentionTotals {
    const { passes, batches, failedBatches } = this;
    return { passes, batches, failedBatches, rows: Object.fromEntries(this.rows) };
  }

  /** For the loop: `more` when the time was used up before the work. */
  async pass(): Promise<{ readonly purged: readonly PurgedTable[]; readonly more: boolean } | null> {
    const entrance = await this.keeper.enter(leaseName);
    const lease = await entrance?.take({ maxHoldMs: holdMs });
    if (!lease) return null;
    const until = performance.now() + passMs;
    const purged: PurgedTable[] = [];
    let more = false;
    try {
      for (const job of this.jobs) {
        const { rows, left } = await this.work(job, lease, until);
        if (rows > 0) purged.push({ table: job.name, rows });
        more ||= left;
      }
    } finally {
      await lease.release();
    }
    this.passes++;
    return { purged, more };
  }

  /** Ends the pass under way after its batch. */
  stop(): void {
    this.stopping.abort();
  }

  private async work(job: PurgeJob, lease: Lease, until: number): Promise<{ rows: number; left: boolean }> {
    const pace = this.paces.get(job.name) ?? new BatchPace(this.batchSize);
    this.paces.set(job.name, pace);
    let rows = 0;
    while (!this.stopping.signal.aborted && lease.isHeld()) {
      if (performance.now() > until) return { rows, left: true };
      const startedAt = performance.now();
      try {
        const { purged, more } = await job.step(pace.limit);
        const durationMs = performance.now() - startedAt;
        this.batches++;
        if (purged > 0) this.count(job.name, purged, durationMs);
        rows += purged;
        const restMs = pace.took(durationMs);
        if (!more) return { rows, left: false };
        await pause(restMs, this.stopping.signal);
      } catch (error) {
        // The other tables have their turn, and this one again in the next pass.
        pace.failed();
        this.fail(job.name, error);
        return { rows, left: false };
      }
    }
    return { rows, left: false };
  }

  private count(table: string, rows: number, durationMs: number): void {
    this.rows.set(table, (this.rows.get(table) ?? 0) + rows);
    this.events.emit({ name: 'purged', table, rows, durationMs });
  }

  private fail(table: string, error: unknown): void {
    this.failedBatches++;
    const { message, code } = error as { message?: string; code?: string };
    this.logger.warn({
      msg: 'old rows could not be taken out; the next pass tries again',
      table,
      code,
      error: message,
    });
    this.events.emit({ name: 'purge-failed', table, error });
  }
}
