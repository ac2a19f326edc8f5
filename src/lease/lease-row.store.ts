import type { ControlConnection, ControlPool } from '../database/index.js';
import { isDuplicateKey, isLockUnavailable } from '../database/index.js';

/** Runs inside the transaction that changes the holder, with the lease row locked. */
export type OnTaken = (tx: ControlConnection, fence: string) => Promise<void>;

/**
 * The lease row in `mailroom_lease`: the authority on who holds a lane. Times are the database's.
 */
export class LeaseRowStore {
  constructor(private readonly pool: ControlPool) {}

  /**
   * Takes the lease if its time has passed, and returns the new fence; null while another holds it.
   *
   * Locks: the row `name` by primary key, NOWAIT, so that a holder in the middle of its commit is not waited for.
   * Prevents: two holders. The fence is bumped in the same transaction that `onTaken` runs in, so from its commit on
   * every outcome of the former holder changes 0 rows.
   */
  async take(name: string, owner: string, ttlMs: number, onTaken?: OnTaken): Promise<string | null> {
    return this.pool.transaction(async (tx) => {
      const row = await lockRow(tx, name);
      if (row === null) return null;
      if (row.held === '1' && row.owner !== owner) return null;
      const fence = (BigInt(row.fence) + 1n).toString();
      await tx.execute(
        'UPDATE mailroom_lease SET owner = ?, fence = ?, held_until = UTC_TIMESTAMP(3) + INTERVAL ? MICROSECOND WHERE name = ?',
        [owner, fence, ttlMs * 1000, name],
      );
      await onTaken?.(tx, fence);
      return fence;
    });
  }

  /**
   * Extends the lease if it is still ours and has not run out; false otherwise.
   * Locks: the row by primary key; waits at most 1 s for an outcome that reads it.
   */
  async renew(name: string, owner: string, fence: string, ttlMs: number): Promise<boolean> {
    const result = await this.pool.execute(
      `UPDATE mailroom_lease SET held_until = UTC_TIMESTAMP(3) + INTERVAL ? MICROSECOND
        WHERE name = ? AND owner = ? AND fence = ? AND held_until > UTC_TIMESTAMP(3)`,
      [ttlMs * 1000, name, owner, fence],
    );
    return result.affectedRows === 1;
  }

  /** Ends the lease now if it is still ours. Locks: the row by primary key. */
  async release(name: string, owner: string, fence: string): Promise<void> {
    await this.pool.execute(
      "UPDATE mailroom_lease SET owner = NULL, held_until = '1970-01-01 00:00:00' WHERE name = ? AND owner = ? AND fence = ?",
      [name, owner, fence],
    );
  }
}

interface LeaseRow {
  readonly fence: string;
  readonly owner: string | null;
  readonly held: string;
  readonly [column: string]: unknown;
}

/** The locked row, made when it does not exist yet; null when another transaction has it. */
async function lockRow(tx: ControlConnection, name: string): Promise<LeaseRow | null> {
  try {
    const existing = await selectForUpdate(tx, name);
    if (existing) return existing;
    // Two first takers: the second one waits for the first and then sees its row.
    await tx.execute('INSERT INTO mailroom_lease (name) VALUES (?)', [name]).catch((error: unknown) => {
      if (!isDuplicateKey(error)) throw error;
    });
    return (await selectForUpdate(tx, name)) ?? null;
  } catch (error) {
    if (isLockUnavailable(error)) return null;
    throw error;
  }
}

async function selectForUpdate(tx: ControlConnection, name: string): Promise<LeaseRow | undefined> {
  const rows = await tx.rows<LeaseRow>(
    `SELECT CAST(fence AS CHAR) AS fence, owner, CAST(held_until > UTC_TIMESTAMP(3) AS CHAR) AS held
       FROM mailroom_lease WHERE name = ? FOR UPDATE NOWAIT`,
    [name],
  );
  return rows[0];
}
