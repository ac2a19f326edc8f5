import { type ControlPool, isDuplicateKey, isLockUnavailable, type Row } from '../database/index.js';

/** Units that are known to have a row; beyond it they are asked for again. */
const mostKnown = 10_000;

/** What a transaction that enqueues with `strictOrder` sends: the row of its unit stays locked until its end. */
export const lockUnitSql = 'UPDATE mailroom_order_key SET used_at = UTC_TIMESTAMP(3) WHERE order_unit = ?';

/** For a row that retention took away in between. */
export const addUnitSql =
  'INSERT INTO mailroom_order_key (order_unit, used_at) VALUES (?, UTC_TIMESTAMP(3)) ON DUPLICATE KEY UPDATE used_at = UTC_TIMESTAMP(3)';

/**
 * The lock rows of order units. They are there before a transaction locks them: of transactions that insert the same row,
 * those that wait for one which rolls back lose a deadlock.
 */
export class OrderKeysStore {
  private readonly known = new Set<string>();

  constructor(private readonly pool: Pick<ControlPool, 'rows' | 'execute'>) {}

  /** Each unit has a row afterwards, committed. One look for a unit that this process does not know; locks nothing that exists. */
  async ensure(units: readonly string[]): Promise<void> {
    for (const unit of units) {
      if (this.known.has(unit)) continue;
      const rows = await this.pool.rows<Row>('SELECT 1 AS one FROM mailroom_order_key WHERE order_unit = ?', [unit]);
      if (rows.length === 0) await this.add(unit);
      if (this.known.size >= mostKnown) this.known.clear();
      this.known.add(unit);
    }
  }

  private async add(unit: string): Promise<void> {
    try {
      await this.pool.execute('INSERT INTO mailroom_order_key (order_unit, used_at) VALUES (?, UTC_TIMESTAMP(3))', [
        unit,
      ]);
    } catch (error) {
      // Somebody has just added it, and may hold it already.
      if (!isDuplicateKey(error) && !isLockUnavailable(error)) throw error;
    }
  }
}
