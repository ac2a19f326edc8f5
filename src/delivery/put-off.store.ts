import type { ControlPool, Row } from '../database/index.js';
import type { BoxTable } from './box-table.js';

const stepSize = 500;

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
   * Puts off up to 500 due messages of one kind in a lane, oldest due first; returns how many.
   * Locks: the messages by primary key, in order. Index: the claim index to find them.
   */
  async putOff(lane: number, source: string, type: string, delayMs: number): Promise<number> {
    const { name, id, claimIndex } = this.table;
    const rows = await this.pool.rows<Row & { id: string }>(
      `SELECT CAST(m.${id} AS CHAR) AS id FROM ${name} m FORCE INDEX (${claimIndex})
        WHERE m.status = 'pending' AND m.lane = ? AND m.next_attempt_at <= UTC_TIMESTAMP(3) AND m.source = ? AND m.type = ?
        ORDER BY m.next_attempt_at, m.${id} LIMIT ${stepSize}`,
      [lane, source, type],
    );
    if (rows.length === 0) return 0;
    const ids = rows.map((row) => row.id);
    await this.pool.execute(
      `UPDATE ${name} FORCE INDEX (PRIMARY)
          SET next_attempt_at = UTC_TIMESTAMP(3) + INTERVAL ? MICROSECOND, updated_at = UTC_TIMESTAMP(3)
        WHERE ${id} IN (${ids.map(() => '?').join(', ')}) AND status = 'pending' ORDER BY ${id}`,
      [delayMs * 1000, ...ids],
    );
    return rows.length;
  }
}
