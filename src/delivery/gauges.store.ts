import type { ControlPool, Row } from '../database/index.js';
import type { BoxGauges } from '../observability/index.js';
import type { BoxTable } from './box-table.js';

/** What is counted stops here, so that a scrape never walks through a table. */
const countTo = 10_000;
/** Held messages that are looked at one by one. */
const heldAtMost = 1_000;
/** As many as there are lanes at most; the outbox has one. */
const lanesAtMost = 1_000;

/** Numbers for people who watch. Everything is capped, and nothing is locked. Index: the claim index, by ranges that begin with a status and a lane; the state of runs by its own. */
export class GaugesStore {
  constructor(
    private readonly pool: ControlPool,
    private readonly table: BoxTable,
    private readonly box: 'inbox' | 'outbox',
  ) {}

  async read(): Promise<BoxGauges> {
    const { failed } = this.table.words;
    let later = 0;
    for (const lane of await this.lanesWith('pending'))
      if (later < countTo) later += await this.laterIn(lane, countTo - later);
    let oldestFailedMs: number | null = null;
    for (const lane of await this.lanesWith(failed)) {
      const ms = await this.oldestIn(lane, failed);
      if (ms !== null) oldestFailedMs = Math.max(oldestFailedMs ?? 0, ms);
    }
    return { later, blocked: await this.blocked(), oldestFailedMs, ...(await this.runs()) };
  }

  /** A skip scan: one entry of the index per lane. */
  private async lanesWith(status: string): Promise<(number | null)[]> {
    const { name, claimIndex, lane: column } = this.table;
    if (column === null) return [null];
    const lanes: number[] = [];
    for (let from = 0; lanes.length < lanesAtMost; ) {
      const [row] = await this.pool.rows<Row & { lane: number }>(
        this.table.mapped`SELECT m.${column} AS lane FROM ${name} m FORCE INDEX (${claimIndex})
          WHERE m.status = ? AND m.${column} >= ? ORDER BY m.${column} LIMIT 1`,
        [status, from],
      );
      if (!row) break;
      lanes.push(Number(row.lane));
      from = Number(row.lane) + 1;
    }
    return lanes;
  }

  private inLane(lane: number | null): { readonly sql: string; readonly values: readonly number[] } {
    return lane === null ? { sql: '', values: [] } : { sql: `AND m.${this.table.lane} = ?`, values: [lane] };
  }

  private async laterIn(lane: number | null, most: number): Promise<number> {
    const { name, claimIndex } = this.table;
    const within = this.inLane(lane);
    const [row] = await this.pool.rows<Row & { n: string }>(
      this.table.mapped`SELECT CAST(COUNT(*) AS CHAR) AS n FROM
        (SELECT 1 AS one FROM ${name} m FORCE INDEX (${claimIndex})
          WHERE m.status = 'pending' ${within.sql} AND m.next_attempt_at > UTC_TIMESTAMP(3) LIMIT ${most}) some_rows`,
      within.values,
    );
    return Number(row?.n ?? 0);
  }

  private async blocked(): Promise<number> {
    const { name, claimIndex, open } = this.table;
    const [row] = await this.pool.rows<Row & { n: string }>(
      this.table.mapped`SELECT CAST(COUNT(DISTINCT held.open) AS CHAR) AS n FROM
        (SELECT m.${open} AS open FROM ${name} m FORCE INDEX (${claimIndex}) WHERE m.status = 'held' LIMIT ${heldAtMost}) held`,
    );
    return Number(row?.n ?? 0);
  }

  /** By the due time of its last attempt, which is never after its end. */
  private async oldestIn(lane: number | null, status: string): Promise<number | null> {
    const { name, claimIndex, finishedAt } = this.table;
    const within = this.inLane(lane);
    const [row] = await this.pool.rows<Row & { ms: string | null }>(
      this.table
        .mapped`SELECT CAST(TIMESTAMPDIFF(MICROSECOND, COALESCE(m.${finishedAt}, m.updated_at), UTC_TIMESTAMP(3)) AS CHAR) AS ms
         FROM ${name} m FORCE INDEX (${claimIndex})
        WHERE m.status = ? ${within.sql} ORDER BY m.next_attempt_at LIMIT 1`,
      [status, ...within.values],
    );
    return row?.ms == null ? null : Math.max(0, Math.round(Number(row.ms) / 1_000));
  }

  private async runs(): Promise<Pick<BoxGauges, 'runs' | 'runsLeft'>> {
    const [row] = await this.pool.rows<Row & { runs: string; left: string }>(
      `SELECT CAST(COUNT(*) AS CHAR) AS runs,
              CAST(COALESCE(SUM(CAST(r.selected AS SIGNED) - r.requeued - r.discarded - r.skipped - r.refused), 0) AS CHAR) AS \`left\`
         FROM replay_run r FORCE INDEX (replay_run_state) WHERE r.state IN ('pending', 'running') AND r.box = ?`,
      [this.box],
    );
    return { runs: Number(row?.runs ?? 0), runsLeft: Number(row?.left ?? 0) };
  }
}
