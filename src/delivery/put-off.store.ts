import type { ControlPool, Row } from '../database/index.js';
import { type BoxTable, inLane } from './box-table.js';

/** Due messages that one step looks at: where few are of the kind, the others are not walked through to the end. */
const stepSize = 500;

type DueRow = Row & { readonly id: string; readonly source: string; readonly type: string; readonly attempts: string };

/**
 * Gives messages that cannot be handled now a later due time, without counting an attempt, so that they do not stand at
 * the head of the queue.
 */
export class PutOffStore {
  constructor(
    private readonly pool: ControlPool,
    private readonly table: BoxTable,
  ) {}

  /**
   * Puts off the messages of one kind among the first ones that are due in a lane, 500 unless told; returns how many.
   * Locks: the messages by primary key, in order. Index: the claim index to find them.
   * @param spacingMs how far apart they fall due, in the order in which they were due; 0: together
   */
  async putOff(
    lane: number,
    source: string,
    type: string,
    delayMs: number,
    { spacingMs = 0, limit = stepSize }: { readonly spacingMs?: number; readonly limit?: number | undefined } = {},
  ): Promise<number> {
    const due = await this.due(lane, limit);
    return this.move(due.filter(isKind(source, type)), delayMs, spacingMs);
  }

  /**
   * Puts off those messages of one kind that were attempted already, among the first 500 that are due in a lane, if
   * there are others among them that were not; returns how many. Locks and index: as `putOff`.
   */
  async putOffRetries(lane: number, source: string, type: string, delayMs: number): Promise<number> {
    const due = await this.due(lane, stepSize);
    if (!due.some(({ attempts }) => attempts === '0')) return 0;
    return this.move(
      due.filter(isKind(source, type)).filter(({ attempts }) => attempts !== '0'),
      delayMs,
      0,
    );
  }

  private due(lane: number, limit: number): Promise<DueRow[]> {
    const { name, id, claimIndex, source, type } = this.table;
    const within = inLane(this.table, lane);
    return this.pool.rows<DueRow>(
      this.table
        .mapped`SELECT CAST(m.${id} AS CHAR) AS id, ${source} AS source, ${type} AS type, CAST(m.attempts AS CHAR) AS attempts
         FROM ${name} m FORCE INDEX (${claimIndex})
        WHERE m.status = 'pending' ${within.sql} AND m.next_attempt_at <= UTC_TIMESTAMP(3)
        ORDER BY m.next_attempt_at, m.${id} LIMIT ${Math.trunc(limit)}`,
      within.values,
    );
  }

  private async move(rows: readonly DueRow[], delayMs: number, spacingMs: number): Promise<number> {
    const { name, id } = this.table;
    const ids = rows.map((row) => row.id);
    if (ids.length === 0) return 0;
    const places = ids.map(() => '?').join(', ');
    // As text: 64-bit ids are not compared as floating point numbers.
    const micros = spacingMs > 0 ? `? + (FIELD(CAST(m.${id} AS CHAR), ${places}) - 1) * ?` : '?';
    const values = spacingMs > 0 ? [delayMs * 1000, ...ids, spacingMs * 1000] : [delayMs * 1000];
    await this.pool.withConnection((connection) =>
      connection.query(
        this.table.mapped`UPDATE ${name} m FORCE INDEX (PRIMARY)
            SET m.next_attempt_at = UTC_TIMESTAMP(3) + INTERVAL ${micros} MICROSECOND, m.updated_at = UTC_TIMESTAMP(3)
          WHERE m.${id} IN (${places}) AND m.status = 'pending' ORDER BY m.${id}`,
        [...values.map((value) => (typeof value === 'number' ? Math.round(value) : value)), ...ids],
      ),
    );
    return ids.length;
  }

  /** Puts off messages that were read, if they are still pending; returns how many. Locks: them, by primary key. */
  async putOffThese(ids: readonly string[], delayMs: number): Promise<number> {
    if (ids.length === 0) return 0;
    const { name, id } = this.table;
    const result = await this.pool.withConnection((connection) =>
      connection.query(
        this.table.mapped`UPDATE ${name} m FORCE INDEX (PRIMARY)
            SET m.next_attempt_at = UTC_TIMESTAMP(3) + INTERVAL ? MICROSECOND, m.updated_at = UTC_TIMESTAMP(3)
          WHERE m.${id} IN (${ids.map(() => '?').join(', ')}) AND m.status = 'pending' ORDER BY m.${id}`,
        [Math.round(delayMs * 1000), ...ids],
      ),
    );
    return result.affectedRows;
  }
}

function isKind(source: string, type: string): (row: DueRow) => boolean {
  return (row) => row.source === source && row.type === type;
}
