import type { ControlPool, Row } from '../database/index.js';
import { type BoxTable, findLanes } from '../delivery/index.js';
import type { InboxStatus } from '../message/inbox-status.js';
import { oldestDueMsOf } from './backlog.store.js';

/** A number that was not counted to its end: `isCapped` means that there are more. */
export interface CappedCount {
  readonly count: number;
  readonly isCapped: boolean;
}

/** A lane as the table and its lease say. */
export interface LaneState {
  readonly lane: number;
  /** The instance that consumes it now; null: nobody, which is usual while there is nothing to do. */
  readonly holder: string | null;
  /** How long the lease still lasts unless it is renewed; 0 without a holder. */
  readonly heldForMs: number;
  /** How long its oldest due message has been due; null: none is. */
  readonly oldestDueMs: number | null;
}

/** Counting stops here: beyond it the number is as good as this one, and reading the index further is not free. */
const countCap = 10_000;
const statuses: readonly InboxStatus[] = ['pending', 'processing', 'success', 'failed', 'held'];
const leasePrefix = 'inbox:lane:';

/** The statements of `stats()`. They lock nothing. */
export class InboxStatsStore {
  constructor(
    private readonly pool: ControlPool,
    private readonly table: BoxTable,
  ) {}

  /**
   * Index: the claim index, at most 10,001 entries per status. Whether there are more is asked first, since counting rows
   * of a subquery with a LIMIT writes each of them into a temporary table.
   */
  async counts(): Promise<Record<InboxStatus, CappedCount>> {
    const { name, claimIndex } = this.table;
    const counted = {} as Record<InboxStatus, CappedCount>;
    for (const status of statuses) {
      const [row] = await this.pool.rows<Row & { n: string }>(
        this.table.mapped`SELECT CAST(CASE
            WHEN (SELECT 1 FROM ${name} m FORCE INDEX (${claimIndex}) WHERE m.status = ? LIMIT 1 OFFSET ${countCap}) IS NOT NULL
            THEN ${countCap + 1}
            ELSE (SELECT COUNT(*) FROM ${name} m FORCE INDEX (${claimIndex}) WHERE m.status = ?) END AS CHAR) AS n`,
        [status, status],
      );
      const n = Number(row?.n ?? 0);
      counted[status] = { count: Math.min(n, countCap), isCapped: n > countCap };
    }
    return counted;
  }

  /** Index: one look into the claim index per lane; the leases by primary key. */
  async lanes(): Promise<LaneState[]> {
    const leases = await this.leases();
    const lanes = new Set([...leases.keys(), ...(await findLanes(this.pool, this.table, 0))]);
    const states: LaneState[] = [];
    for (const lane of [...lanes].sort((a, b) => a - b)) {
      const { holder = null, heldForMs = 0 } = leases.get(lane) ?? {};
      states.push({ lane, holder, heldForMs, oldestDueMs: await oldestDueMsOf(this.pool, this.table, lane) });
    }
    return states;
  }

  private async leases(): Promise<Map<number, { holder: string | null; heldForMs: number }>> {
    const rows = await this.pool.rows<Row & { name: string; owner: string | null; ms: string }>(
      `SELECT name, owner, CAST(GREATEST(0, TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(3), held_until)) AS CHAR) AS ms
         FROM mailroom_lease WHERE name >= ? AND name < ? ORDER BY name LIMIT 2000`,
      [leasePrefix, `${leasePrefix}~`],
    );
    return new Map(
      rows.map(({ name, owner, ms }) => {
        const heldForMs = Math.ceil(Number(ms) / 1000);
        return [Number(name.slice(leasePrefix.length)), { holder: heldForMs > 0 ? owner : null, heldForMs }];
      }),
    );
  }
}
