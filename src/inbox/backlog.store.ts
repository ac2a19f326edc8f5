import type { ControlPool, Row } from '../database/index.js';
import { type BoxTable, findLanes } from '../delivery/index.js';
import type { BacklogSample } from '../pressure/index.js';

/** What waits in the table. The statements lock nothing. */
export class BacklogStore {
  constructor(
    private readonly pool: ControlPool,
    private readonly table: BoxTable,
  ) {}

  async sample(countTo: number, age: boolean): Promise<BacklogSample> {
    const waiting = await this.waiting(countTo);
    // With nothing to count the age is asked for all the same.
    const mayBeDue = countTo === 0 || waiting > 0;
    return { waiting, oldestDueMs: age && mayBeDue ? await this.oldestDueMs() : null };
  }

  /** Messages that are pending or held, counted up to `most`. Index: at most so many entries of the claim index. */
  private async waiting(most: number): Promise<number> {
    const { name, claimIndex } = this.table;
    let waiting = 0;
    for (const status of ['pending', 'held']) {
      if (waiting >= most) break;
      const [row] = await this.pool.rows<Row & { n: string }>(
        this.table.mapped`SELECT CAST(COUNT(*) AS CHAR) AS n FROM
          (SELECT 1 AS one FROM ${name} m FORCE INDEX (${claimIndex}) WHERE m.status = ? LIMIT ${most - waiting}) some_rows`,
        [status],
      );
      waiting += Number(row?.n ?? 0);
    }
    return waiting;
  }

  private async oldestDueMs(): Promise<number | null> {
    let oldest: number | null = null;
    for (const lane of await findLanes(this.pool, this.table, 0)) {
      const ms = await oldestDueMsOf(this.pool, this.table, lane);
      if (ms !== null) oldest = Math.max(oldest ?? 0, ms);
    }
    return oldest;
  }
}

/**
 * How long the oldest due message of a lane has been due; null when none is. A message of an adopted table has no due
 * time of its own: it has been due since it was received. Index: one look into the claim index.
 */
export async function oldestDueMsOf(
  pool: ControlPool,
  { name, id, claimIndex, mapped }: BoxTable,
  lane: number,
): Promise<number | null> {
  const [row] = await pool.rows<Row & { ms: string | null }>(
    mapped`SELECT CAST(TIMESTAMPDIFF(MICROSECOND, GREATEST(m.next_attempt_at, COALESCE(m.received_at, m.next_attempt_at)),
              UTC_TIMESTAMP(3)) AS CHAR) AS ms
       FROM ${name} m FORCE INDEX (${claimIndex})
      WHERE m.status = 'pending' AND m.lane = ? AND m.next_attempt_at <= UTC_TIMESTAMP(3)
      ORDER BY m.next_attempt_at, m.${id} LIMIT 1`,
    [lane],
  );
  return row?.ms == null ? null : Math.max(0, Math.round(Number(row.ms) / 1000));
}
