import { createHash } from 'node:crypto';
import { type ControlPool, isDuplicateKey, isLockUnavailable, type Row } from '../database/index.js';
import type { HandlerTransaction } from './handler-transaction.js';

/** Rows that one sweep deletes at most. */
const sweepSize = 100;
/** A row that goes away between looking and locking is looked for again; more often than this it counts as taken. */
const takeAttempts = 3;

/**
 * One row per group of messages that is in work, locked by the handler's transaction: so no group is in work twice, in
 * any lane of any instance, and the lock ends with the transaction, also when the process does.
 */
export class GroupLockStore {
  constructor(private readonly pool: ControlPool) {}

  /**
   * Takes a group for the time of the handler's transaction; false while another transaction has it.
   * Locks: the row by primary key, SKIP LOCKED. Prevents: two calls for one group at the same time.
   */
  async take(tx: HandlerTransaction, name: string): Promise<boolean> {
    for (let attempt = 1; attempt <= takeAttempts; attempt++) {
      if (!(await this.ensure(name))) return false;
      const rows = await tx.rows('SELECT name FROM mailroom_lease WHERE name = ? FOR UPDATE SKIP LOCKED', [name]);
      if (rows.length === 1) return true;
      if (await this.exists(name)) return false;
      // Deleted in between: by who had it, or by a sweep.
    }
    return false;
  }

  /** In the transaction that has the group: its row goes with the commit, so that groups do not pile up. */
  async drop(tx: HandlerTransaction, name: string): Promise<void> {
    await tx.send('DELETE FROM mailroom_lease WHERE name = ?', [name]);
  }

  /**
   * Deletes rows that no transaction has any more, at most 100: calls that were rolled back, and processes that ended,
   * leave theirs. One SELECT without a lock when there are none.
   * Locks: rows of groups by primary key, SKIP LOCKED, and none beside them: a range would lock a lane's lease row.
   */
  async sweep(): Promise<void> {
    const left = await this.pool.rows<Row & { name: string }>(
      `SELECT name FROM mailroom_lease FORCE INDEX (PRIMARY)
        WHERE name >= '${prefix}' AND name < 'inbox:group;' ORDER BY name LIMIT ${sweepSize}`,
    );
    if (left.length === 0) return;
    await this.pool.transaction(async (tx) => {
      for (const { name } of left) {
        const rows = await tx.rows('SELECT name FROM mailroom_lease WHERE name = ? FOR UPDATE SKIP LOCKED', [name]);
        if (rows.length === 1) await tx.execute('DELETE FROM mailroom_lease WHERE name = ?', [name]);
      }
    });
  }

  private async ensure(name: string): Promise<boolean> {
    if (await this.exists(name)) return true;
    try {
      await this.pool.execute('INSERT INTO mailroom_lease (name) VALUES (?)', [name]);
    } catch (error) {
      // Somebody has inserted it and perhaps holds it already; the lock decides.
      if (isLockUnavailable(error)) return false;
      if (!isDuplicateKey(error)) throw error;
    }
    return true;
  }

  private async exists(name: string): Promise<boolean> {
    const rows = await this.pool.rows('SELECT 1 AS one FROM mailroom_lease WHERE name = ?', [name]);
    return rows.length > 0;
  }
}

/** ';' is the character after ':', so names of groups are those from this to `inbox:group;`. */
const prefix = 'inbox:group:';

/** The lock row of a group of one kind: names have a length limit, keys have none. */
export function groupName(source: string, type: string, group: string): string {
  return `${prefix}${createHash('sha256').update(`${source}\0${type}\0${group}`).digest('hex').slice(0, 40)}`;
}
